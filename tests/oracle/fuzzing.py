"""Random calls on gradlib and on PyTorch: one function or method with random shapes, dtypes, layouts and argument forms.

`case(seed)` is one call; `difference(case)` says in one line what the libraries do not agree on, or is None. As a
program it runs many and prints those that differ:

    python tests/oracle/fuzzing.py 0 5000          # seeds
    python tests/oracle/fuzzing.py 0 500 cumsum    # of one function
"""

from __future__ import annotations

import dataclasses
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from catalog import Difference, compare, convert, leaves, same_exception

import gradlib

DTYPES = (
    torch.float32, torch.float32, torch.float64, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
)  # fmt: skip
SIZES = (0, 1, 1, 2, 3, 3, 4)
TOLERANCE = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 3e-4, torch.complex64: 3e-4, torch.bfloat16: 4e-2,
    torch.float16: 6e-3,
}  # fmt: skip

UNARY = """abs absolute acos acosh angle asin asinh atan atanh bitwise_not ceil conj_physical cos cosh deg2rad digamma
 erf erfc exp exp2 expm1 floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2
 logical_not logit nan_to_num neg negative positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin
 sinc sinh sqrt square tan tanh trunc clone ravel t nn.functional.relu nn.functional.silu nn.functional.gelu
 nn.functional.softplus nn.functional.elu nn.functional.leaky_relu nn.functional.hardswish nn.functional.logsigmoid
 nn.functional.hardtanh nn.functional.selu nn.functional.mish nn.functional.softsign real imag detach nonzero
 flatten numel tril triu trace diagonal diag atleast_2d fliplr argwhere count_nonzero is_floating_point""".split()
BINARY = """add sub mul div true_divide floor_divide remainder fmod pow maximum minimum atan2 eq ne lt le gt ge
 logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor copysign hypot xlogy logaddexp fmin fmax
 nextafter float_power ldexp heaviside rsub isclose where2 lerp_half bitwise_left_shift equal allclose""".split()
REDUCTIONS = """sum mean prod amax amin all any std var logsumexp argmax argmin nansum norm nanmean count_nonzero
 std_mean var_mean median max min mode nanmedian aminmax""".split()
ALONG = """cumsum cumprod cummax cummin logcumsumexp softmax log_softmax flip sort argsort unbind squeeze
 nn.functional.softmax nn.functional.normalize diff topk kthvalue select narrow index_select gather unsqueeze chunk
 split transpose roll unfold size tensor_split repeat_interleave take_along_dim movedim swapaxes unflatten renorm
 scatter scatter_add index_add index_fill index_copy""".split()
OTHERS = """clamp matmul mm bmm mv dot outer einsum cat stack reshape view expand permute repeat tile broadcast_to
 masked_fill masked_select where to type float int full_like zeros_like new_zeros addmm baddbmm addcmul addcdiv lerp
 take nn.functional.linear nn.functional.mse_loss nn.functional.cross_entropy nn.functional.layer_norm
 nn.functional.embedding nn.functional.one_hot nn.functional.pad getitem setitem unique bincount meshgrid
 broadcast_tensors copy_ fill_ zero_ vdot inner kron tensordot cross dist searchsorted isin linalg.norm linalg.vector_norm
 linalg.det linalg.inv linalg.solve fft.fft fft.rfft arange linspace full eye clamp_min allclose contiguous vstack hstack
 item bool masked_scatter histc quantile rot90 view_as expand_as block_diag cartesian_prod nn.functional.dropout
 nn.functional.l1_loss nn.functional.batch_norm nn.functional.nll_loss cov trapezoid cdist bucketize index_put
 """.split()
NAMES = (*UNARY, *BINARY, *REDUCTIONS, *ALONG, *OTHERS)
# positions of equal elements, of which any one is right
TIES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}


@dataclasses.dataclass
class Case:
    """One call: `form` is "function", "method", "in place" or "out"."""

    name: str
    form: str
    args: list
    kwargs: dict
    rg: bool

    def __str__(self) -> str:
        parts = [show(a) for a in self.args] + [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}[{self.form}]({', '.join(parts)})"


def show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.") + str(list(value.shape))
        kind += "" if value.is_contiguous() else f"/{list(value.stride())}"
        kind += "!" if value.requires_grad else ""
        return kind + (f"={value.tolist()}" if value.numel() < 5 else "")
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(show(v) for v in value)}]"
    return repr(value)


class Draw:
    """What random arguments are drawn with."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.rg = self.r.random() < 0.3
        self.dtype = self.r.choice(DTYPES[:4] if self.rg and self.r.random() < 0.8 else DTYPES)

    def shape(self, low: int = 0, high: int = 4) -> tuple:
        return tuple(self.r.choice(SIZES) for _ in range(self.r.randint(low, high)))

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def some_dtype(self) -> torch.dtype:
        return self.dtype if self.chance(0.7) else self.r.choice(DTYPES)

    def values(self, shape: tuple, dtype: torch.dtype) -> torch.Tensor:
        array = self.np.normal(size=shape) * 2
        if self.chance(0.15):
            array = np.round(array)
        if self.chance(0.06) and array.size:
            array = np.where(
                self.np.random(shape) < 0.3, self.r.choice([np.nan, np.inf, -np.inf, 0.0]), array
            )
        if dtype == torch.bool:
            return torch.as_tensor(array > 0)
        if dtype.is_complex:
            return torch.as_tensor(array + 1j * self.np.normal(size=shape)).to(dtype)
        if not dtype.is_floating_point:
            array = np.nan_to_num(np.floor(array * 2), posinf=3, neginf=3)
            array = abs(array) if dtype == torch.uint8 else array
        return torch.as_tensor(array).to(dtype)

    def tensor(self, shape: tuple | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor: dense, transposed, every second element, expanded, or with an offset."""
        shape = self.shape() if shape is None else shape
        dtype = self.some_dtype() if dtype is None else dtype
        kind, n = self.r.random(), len(shape)
        if kind < 0.15 and n > 1:
            order = list(range(n))
            self.r.shuffle(order)
            made = self.values(tuple(shape[i] for i in order), dtype)
            made = made.permute([order.index(i) for i in range(n)])
        elif kind < 0.25 and n:
            d = self.r.randrange(n)
            wide = (*shape[:d], shape[d] * 2, *shape[d + 1 :])
            made = self.values(wide, dtype)[(slice(None),) * d + (slice(None, None, 2),)]
        elif kind < 0.32 and n:
            d = self.r.randrange(n)
            made = self.values((*shape[:d], 1, *shape[d + 1 :]), dtype).expand(shape)
        elif kind < 0.37 and n:
            made = self.values((shape[0] + 1, *shape[1:]), dtype)[1:]
        elif kind < 0.42 and n == 4:
            made = self.values(shape, dtype).contiguous(memory_format=torch.channels_last)
        else:
            made = self.values(shape, dtype)
        if self.rg and (dtype.is_floating_point or dtype.is_complex) and self.chance(0.85):
            made = made.detach().requires_grad_()
        return made

    def partner(self, shape: tuple) -> torch.Tensor:
        """A tensor that broadcasts with `shape`, mostly."""
        kind = self.r.random()
        if kind < 0.4:
            return self.tensor(shape)
        if kind < 0.5:
            return self.tensor(())
        if kind < 0.6:
            return self.tensor()
        keep = self.r.randint(0, len(shape))
        return self.tensor(tuple(1 if self.chance(0.3) else n for n in shape[keep:]))

    def number(self) -> Any:
        return self.r.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, 0.0, True, 1e3])

    def operand(self, shape: tuple) -> Any:
        return self.number() if self.chance(0.25) else self.partner(shape)

    def dim(self, ndim: int) -> int:
        if self.chance(0.06):
            return self.r.choice([ndim, -ndim - 1, 5])
        return self.r.randrange(-ndim, ndim) if ndim else self.r.choice([0, -1])

    def dims(self, ndim: int) -> Any:
        kind = self.r.random()
        if kind < 0.5:
            return self.dim(ndim)
        if kind < 0.6:
            return None
        if kind < 0.65:
            return ()
        count = self.r.randint(1, max(ndim, 1))
        if self.chance(0.9) and ndim:
            return tuple(
                d - ndim if self.chance(0.5) else d for d in self.r.sample(range(ndim), count)
            )
        return tuple(self.dim(ndim) for _ in range(count))

    def indices(self, shape: tuple, size: int) -> torch.Tensor:
        high = max(size, 1) + (1 if self.chance(0.05) else 0)
        dtype = torch.int64 if self.chance(0.9) else torch.int32
        return torch.as_tensor(self.np.integers(0, high, size=shape)).to(dtype)


def optional(d: Draw, kwargs: dict, name: str, draw: Callable, p: float = 0.4) -> None:
    if d.chance(p):
        kwargs[name] = draw()


def reduction(d: Draw, name: str) -> tuple[list, dict]:
    x = d.tensor()
    args: list = [x]
    kw: dict = {}
    if d.chance(0.8):
        dim = d.dims(x.ndim) if d.chance(0.5) else d.dim(x.ndim)
        if name == "norm":
            args.append(d.r.choice([2, 1, 0, "fro", float("inf"), 3.0, -1]))
        if d.chance(0.5) and name not in ("std", "var", "aminmax"):
            args.append(dim)
        else:
            kw["dim"] = dim
        if d.chance(0.5):
            if len(args) > 1 and name not in ("std", "var", "std_mean", "var_mean") and d.chance(0.5):
                args.append(d.chance(0.5))
            else:
                kw["keepdim"] = d.chance(0.6)
    if name in ("sum", "mean", "prod", "nansum") and d.chance(0.25):
        kw["dtype"] = d.r.choice(DTYPES)
    if name in ("std", "var", "std_mean", "var_mean") and d.chance(0.4):
        if d.chance(0.5):
            kw["correction"] = d.r.choice([0, 1, 2, 1.5])
        elif "dim" not in kw or isinstance(kw["dim"], tuple):
            kw["unbiased"] = d.chance(0.5)
    return args, kw


def along(d: Draw, name: str) -> tuple[list, dict]:
    x = d.tensor()
    dim = d.dim(x.ndim)
    n = x.shape[dim] if -x.ndim <= dim < x.ndim else 1
    kw: dict = {}

    def keyed(*rest):
        if d.chance(0.3):
            kw["dim"] = dim
            return [x, *rest] if name not in ("index_add",) else [x, *rest]
        return [x, dim, *rest]

    match name:
        case "flip":
            return [x, d.dims(x.ndim)], kw
        case "sort" | "argsort":
            optional(d, kw, "descending", lambda: d.chance(0.5))
            optional(d, kw, "stable", lambda: d.chance(0.7))
            if d.chance(0.2):
                return [x], kw
            return ([x], kw | {"dim": dim}) if kw else ([x, dim], kw)
        case "topk":
            optional(d, kw, "largest", lambda: d.chance(0.5))
            return [x, d.r.randint(0, n + (d.chance(0.1)))], kw | ({"dim": dim} if d.chance(0.8) else {})
        case "kthvalue":
            return [x, d.r.randint(1, n + 1) if d.chance(0.1) else max(n // 2, 1), dim], kw
        case "select":
            return [x, dim, d.r.randint(-n, n)], kw
        case "narrow":
            start = d.r.randint(-n, n)
            return [x, dim, start, d.r.randint(0, n)], kw
        case "index_select":
            return [x, dim, d.indices((d.r.randint(0, 3),), n)], kw
        case "index_fill":
            return [x, dim, d.indices((d.r.randint(0, 3),), n), d.number()], kw
        case "gather" | "take_along_dim":
            shape = tuple(d.r.randint(0, m) for m in x.shape) if d.chance(0.5) else tuple(x.shape)
            i = d.indices(shape, n)
            return ([x, dim, i] if name == "gather" else [x, i, dim]), kw
        case "scatter" | "scatter_add":
            shape = tuple(d.r.randint(0, m) for m in x.shape)
            i = d.indices(shape, n)
            src = d.tensor(tuple(x.shape), x.dtype if d.chance(0.9) else None)
            return [x, dim, i, d.number() if name == "scatter" and d.chance(0.3) else src], kw
        case "index_add" | "index_copy":
            i = d.indices((n,), n) if name == "index_add" else torch.randperm(max(n, 1))[:n]
            return [x, dim, i, d.tensor(tuple(x.shape), x.dtype if d.chance(0.9) else None)], kw
        case "chunk" | "split" | "tensor_split":
            size: Any = d.r.randint(0 if d.chance(0.1) else 1, 4)
            if name == "split" and d.chance(0.4):
                size = [n // 2, n - n // 2]
            if name == "tensor_split" and d.chance(0.4):
                size = [1, 2]
            return [x, size, dim] if d.chance(0.6) else [x, size], kw
        case "transpose" | "swapaxes":
            return [x, dim, d.dim(x.ndim)], kw
        case "movedim":
            return [x, dim, d.dim(x.ndim)], kw
        case "roll":
            return ([x, d.r.randint(-3, 3), dim] if d.chance(0.7) else [x, d.r.randint(-3, 3)]), kw
        case "unfold":
            return [x, dim, d.r.randint(1, 3), d.r.randint(1, 2)], kw
        case "unsqueeze":
            return keyed() if d.chance(0.9) else [x, x.ndim], kw
        case "repeat_interleave":
            times: Any = d.r.randint(0, 3)
            if d.chance(0.4):
                times = d.indices((n,), 3)
            return ([x, times] if d.chance(0.2) else [x, times, dim]), kw
        case "unflatten":
            return [x, dim, (n, 1) if d.chance(0.5) else (-1, max(n, 1))], kw
        case "renorm":
            return [x, d.r.choice([1, 2, 3.0]), dim, 1.0], kw
        case "diff":
            return [x, d.r.randint(0, 2), dim], kw
        case "nn.functional.normalize":
            return [x, 2.0, dim], kw
        case "squeeze":
            return ([x] if d.chance(0.3) else [x, d.dims(x.ndim) if d.chance(0.3) else dim]), kw
        case "size" | "unbind":
            return ([x] if d.chance(0.2) else [x, dim]), kw
        case "cumsum" | "cumprod" | "softmax" | "log_softmax" | "nn.functional.softmax":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES), 0.2)
    return keyed(), kw


def other(d: Draw, name: str) -> tuple[list, dict]:
    kw: dict = {}
    r = d.r
    match name:
        case "clamp":
            x = d.tensor()
            low, high = (None if d.chance(0.3) else d.operand(tuple(x.shape)) if d.chance(0.3) else d.number()
                         for _ in range(2))  # fmt: skip
            return ([x, low, high], kw) if d.chance(0.6) else ([x], {"min": low, "max": high})
        case "clamp_min":
            x = d.tensor()
            return [x, d.operand(tuple(x.shape))], kw
        case "matmul" | "mm" | "bmm" | "mv" | "dot" | "vdot" | "inner":
            n, k, m, b = (r.choice(SIZES) for _ in range(4))
            forms = {
                "matmul": [((k,), (k,)), ((n, k), (k,)), ((k,), (k, m)), ((n, k), (k, m)), ((b, n, k), (k, m)),
                           ((b, n, k), (b, k, m)), ((b, 1, n, k), (2, k, m)), ((n, k), (b, k, m)), ((b, n, k), (k,))],
                "mm": [((n, k), (k, m))], "bmm": [((b, n, k), (b, k, m))], "mv": [((n, k), (k,))],
                "dot": [((k,), (k,))], "vdot": [((k,), (k,))], "inner": [((n, k), (m, k)), ((k,), (k,))],
            }  # fmt: skip
            p, q = r.choice(forms[name]) if d.chance(0.93) else (d.shape(), d.shape())
            dtype = d.dtype
            return [d.tensor(p, dtype), d.tensor(q, dtype if d.chance(0.93) else None)], kw
        case "outer":
            return [d.tensor(d.shape(1, 1)), d.tensor(d.shape(1, 1))], kw
        case "kron":
            return [d.tensor(d.shape(0, 2)), d.tensor(d.shape(0, 2))], kw
        case "cross":
            x = d.tensor((*d.shape(0, 2), 3))
            return [x, d.tensor(tuple(x.shape), x.dtype)], {"dim": -1}
        case "dist":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape)), r.choice([0, 1, 2, 3.0])], kw
        case "tensordot":
            n, k, m = (r.choice(SIZES) for _ in range(3))
            return [d.tensor((n, k), d.dtype), d.tensor((k, m), d.dtype)], {"dims": 1}
        case "einsum":
            n, k, m = (r.choice(SIZES) for _ in range(3))
            text = r.choice(["ij,jk->ik", "ij,jk", "ij,jk->", "ij,jk->ijk"])
            return [text, d.tensor((n, k), d.dtype), d.tensor((k, m), d.dtype)], kw
        case "cat" | "stack" | "vstack" | "hstack" | "block_diag":
            x = d.tensor(d.shape(0 if d.chance(0.3) else 1, 3))
            rest = [d.tensor(tuple(x.shape)) for _ in range(r.randint(0, 2))]
            if d.chance(0.1):
                rest.append(d.tensor((0,)))
            if name == "block_diag":
                return [x, *rest], kw
            if name in ("vstack", "hstack") or d.chance(0.3):
                return [[x, *rest]], kw
            dim = d.dim(x.ndim)
            return ([[x, *rest], dim], kw) if d.chance(0.5) else ([(x, *rest)], {"dim": dim})
        case "reshape" | "view":
            x = d.tensor()
            shape = list(x.shape)
            r.shuffle(shape)
            if d.chance(0.5):
                shape = [x.numel()]
            if d.chance(0.4) and shape:
                shape[r.randrange(len(shape))] = -1
            if d.chance(0.3):
                shape.insert(r.randint(0, len(shape)), 1)
            if name == "view" and d.chance(0.2):
                return [x, d.r.choice(DTYPES)], kw
            return [x, tuple(shape)], kw
        case "expand" | "broadcast_to" | "expand_as" | "view_as":
            x = d.tensor(tuple(r.choice((1, 1, 3)) for _ in range(r.randint(0, 3))))
            shape = [n if n > 1 or d.chance(0.3) else r.choice([2, 3, 0, -1]) for n in x.shape]
            if d.chance(0.4):
                shape = [2, *shape]
            if name.endswith("_as"):
                return [x, d.tensor(tuple(max(n, 0) for n in shape))], kw
            return [x, tuple(shape)], kw
        case "permute":
            x = d.tensor()
            order = list(range(x.ndim))
            r.shuffle(order)
            return [x, tuple(i - x.ndim if d.chance(0.3) else i for i in order)], kw
        case "repeat" | "tile":
            x = d.tensor(d.shape(0, 3))
            n = r.randint(0, 4)
            return [x, tuple(r.choice([0, 1, 2]) for _ in range(n))], kw
        case "masked_fill":
            x = d.tensor()
            mask = d.partner(tuple(x.shape)).to(torch.bool if d.chance(0.9) else torch.uint8).detach()
            return [x, mask, d.number() if d.chance(0.8) else d.tensor(())], kw
        case "masked_select":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape)).detach().to(torch.bool)], kw
        case "masked_scatter":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape)).detach().to(torch.bool), d.tensor(tuple(x.shape), x.dtype)], kw
        case "where":
            x = d.tensor()
            mask = d.partner(tuple(x.shape)).detach().to(torch.bool)
            return [mask, x, d.operand(tuple(x.shape))], kw
        case "to" | "type":
            return [d.tensor(), d.r.choice(DTYPES)], kw
        case "float" | "int" | "contiguous" | "bool":
            return [d.tensor()], kw
        case "item":
            return [d.tensor(r.choice([(), (1,), (1, 1), (2,)]))], kw
        case "full_like":
            return [d.tensor(), d.number()], {"dtype": d.r.choice(DTYPES)} if d.chance(0.3) else kw
        case "zeros_like":
            return [d.tensor()], {"dtype": d.r.choice(DTYPES)} if d.chance(0.3) else kw
        case "new_zeros":
            return [d.tensor(), d.shape()], kw
        case "addmm" | "baddbmm":
            n, k, m, b = (r.choice(SIZES) for _ in range(4))
            lead = (b,) if name == "baddbmm" else ()
            first = r.choice([(*lead, n, m), (m,), (1, m), ()])
            optional(d, kw, "beta", d.number)
            optional(d, kw, "alpha", d.number)
            return [d.tensor(first, d.dtype), d.tensor((*lead, n, k), d.dtype), d.tensor((*lead, k, m), d.dtype)], kw
        case "addcmul" | "addcdiv":
            x = d.tensor()
            optional(d, kw, "value", d.number)
            return [x, d.partner(tuple(x.shape)), d.partner(tuple(x.shape))], kw
        case "lerp":
            x = d.tensor(None, d.dtype)
            end = d.tensor(tuple(x.shape), d.dtype)
            return [x, end, r.choice([0.3, 0.8]) if d.chance(0.5) else d.tensor(tuple(x.shape), d.dtype)], kw
        case "take":
            x = d.tensor()
            return [x, d.indices(d.shape(0, 2), x.numel())], kw
        case "nn.functional.linear":
            k, m = r.choice(SIZES), r.choice(SIZES)
            args = [d.tensor((*d.shape(0, 2), k), d.dtype), d.tensor((m, k), d.dtype)]
            return args + ([d.tensor((m,), d.dtype)] if d.chance(0.5) else []), kw
        case "nn.functional.mse_loss" | "nn.functional.l1_loss":
            x = d.tensor()
            optional(d, kw, "reduction", lambda: r.choice(["none", "mean", "sum"]))
            return [x, d.tensor(tuple(x.shape))], kw
        case "nn.functional.cross_entropy" | "nn.functional.nll_loss":
            n, c = r.choice([0, 1, 3]), r.choice([1, 3])
            rest = d.shape(1, 2) if d.chance(0.3) else ()
            optional(d, kw, "reduction", lambda: r.choice(["none", "mean", "sum"]))
            if name.endswith("entropy"):
                optional(d, kw, "label_smoothing", lambda: 0.1)
            optional(d, kw, "ignore_index", lambda: 0, 0.2)
            return [d.tensor((n, c, *rest), d.dtype), d.indices((n, *rest), c)], kw
        case "nn.functional.layer_norm":
            x = d.tensor(d.shape(1, 3))
            return [x, tuple(x.shape[r.randint(0, x.ndim - 1) :])], kw
        case "nn.functional.batch_norm":
            x = d.tensor(d.shape(2, 4), d.dtype)
            return [x, None, None], {"training": True}
        case "nn.functional.embedding":
            w = d.tensor((3, r.choice(SIZES)), d.dtype)
            return [d.indices(d.shape(0, 2), 3), w], kw
        case "nn.functional.one_hot":
            return [d.indices(d.shape(0, 2), 3)], {"num_classes": 3} if d.chance(0.6) else kw
        case "nn.functional.dropout":
            return [d.tensor()], {"p": r.choice([0.0, 1.0])}
        case "nn.functional.pad":
            x = d.tensor(d.shape(1, 3))
            pads = [r.randint(-1, 2) for _ in range(2 * r.randint(1, x.ndim))]
            return [x, pads], {"value": d.number()} if d.chance(0.4) else kw
        case "getitem" | "setitem" | "index_put":
            x = d.tensor(d.shape(1, 4))
            parts: list = []
            for n in x.shape[: r.randint(1, x.ndim)]:
                kind = r.random()
                if kind < 0.3:
                    parts.append(r.randint(-n, n - 1) if n else slice(None))
                elif kind < 0.6:
                    parts.append(slice(r.randint(-n, n) if d.chance(0.5) else None, r.randint(0, n + 1), r.choice([None, 1, 2])))
                elif kind < 0.8:
                    parts.append(d.indices(r.choice([(2,), (), (1,), (2, 1)]), n).long())
                elif kind < 0.9:
                    parts.append(torch.as_tensor(d.np.random(n) > 0.5))
                else:
                    parts.append(None)
            if name == "index_put":
                parts = [d.indices((2,), n).long() for n in x.shape]
                return [x, tuple(parts), d.tensor(r.choice([(2,), ()]), x.dtype)], {"accumulate": d.chance(0.4)}
            key = tuple(parts) if len(parts) != 1 or d.chance(0.5) else parts[0]
            if name == "getitem":
                return [x, key], kw
            return [x, key, d.number() if d.chance(0.5) else d.tensor(())], kw
        case "unique":
            optional(d, kw, "return_inverse", lambda: True)
            optional(d, kw, "return_counts", lambda: True)
            return [d.tensor()], kw
        case "bincount":
            return [d.indices(d.shape(1, 1), 4)], {"minlength": 6} if d.chance(0.5) else kw
        case "meshgrid":
            kw = {"indexing": r.choice(["ij", "xy"])}
            dtype = d.dtype
            return [d.tensor(d.shape(0, 1), dtype), d.tensor(d.shape(1, 1), dtype)], kw
        case "cartesian_prod":
            return [d.tensor(d.shape(1, 1), d.dtype) for _ in range(r.randint(1, 3))], kw
        case "broadcast_tensors":
            x = d.tensor()
            return [x, d.partner(tuple(x.shape))], kw
        case "copy_":
            x = d.tensor()
            return [x, d.operand(tuple(x.shape))], kw
        case "fill_":
            return [d.tensor(), d.number() if d.chance(0.8) else d.tensor(())], kw
        case "zero_":
            return [d.tensor()], kw
        case "searchsorted" | "bucketize":
            edges = torch.sort(d.tensor((3,), torch.float64).detach().nan_to_num())[0]
            x = d.tensor(d.shape(0, 2), torch.float64).detach().nan_to_num()
            optional(d, kw, "right", lambda: d.chance(0.5))
            optional(d, kw, "out_int32", lambda: d.chance(0.5))
            return ([edges, x] if name == "searchsorted" else [x, edges]), kw
        case "isin":
            return [d.tensor(), d.tensor(d.shape(0, 1)) if d.chance(0.8) else d.number()], kw
        case "linalg.norm" | "linalg.vector_norm":
            x = d.tensor(d.shape(0, 3))
            kw["ord"] = r.choice([None, 1, 2, float("inf"), -1, 0]) if name.endswith("g.norm") else r.choice([1, 2, 0, 3.0])
            optional(d, kw, "dim", lambda: d.dims(x.ndim))
            optional(d, kw, "keepdim", lambda: True)
            return [x], {k: v for k, v in kw.items() if v is not None}
        case "linalg.det" | "linalg.inv" | "linalg.solve":
            n = r.choice([0, 1, 2, 3, 3, 4])
            lead = d.shape(0, 1)
            a = d.tensor((*lead, n, n), d.dtype)
            return ([a, d.tensor((*lead, n, 2), d.dtype)] if name.endswith("solve") else [a]), kw
        case "fft.fft" | "fft.rfft":
            x = d.tensor(d.shape(1, 3))
            optional(d, kw, "n", lambda: r.randint(1, 5))
            optional(d, kw, "dim", lambda: d.dim(x.ndim))
            optional(d, kw, "norm", lambda: r.choice(["ortho", "forward", "backward"]))
            return [x], kw
        case "arange":
            start, step = r.choice([0, 1, -2, 0.5]), r.choice([1, 2, 0.5, -1, 0])
            args = [[r.choice([3, 4.0, 0, -1])], [start, start + 3], [start, start + 3 * (step or 1), step]]
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return r.choice(args), kw
        case "linspace":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [d.number(), d.number(), r.randint(0, 6)], kw
        case "full":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [d.shape(), d.number()], kw
        case "eye":
            optional(d, kw, "dtype", lambda: d.r.choice(DTYPES))
            return [r.randint(0, 3) for _ in range(r.randint(1, 2))], kw
        case "histc":
            return [d.tensor(None, r.choice(DTYPES[:4])).detach().nan_to_num(0, 1, -1)], {"bins": 4, "min": -1, "max": 2}
        case "quantile":
            x = d.tensor(d.shape(1, 3), r.choice(DTYPES[:4]))
            return [x, 0.3 if d.chance(0.5) else torch.tensor([0.2, 0.5], dtype=x.dtype)], {"dim": d.dim(x.ndim)} if d.chance(0.6) else kw
        case "rot90":
            return [d.tensor(d.shape(2, 3)), r.randint(-2, 3), [0, 1]], kw
        case "cov":
            return [d.tensor(d.shape(1, 2))], kw
        case "trapezoid":
            return [d.tensor(d.shape(1, 3))], {"dx": 0.5} if d.chance(0.4) else kw
        case "cdist":
            k = r.choice(SIZES)
            return [d.tensor((r.choice(SIZES), k), d.dtype), d.tensor((r.choice(SIZES), k), d.dtype), r.choice([1.0, 2.0, float("inf")])], kw
        case "allclose":
            x = d.tensor(None, d.dtype)
            return [x, x.clone() if d.chance(0.5) else d.partner(tuple(x.shape)).to(d.dtype)], kw
    raise AssertionError(name)


def case(seed: int, name: str | None = None) -> Case:
    """The call of a seed."""
    d = Draw(seed)
    name = name or d.r.choice(NAMES)
    torch.manual_seed(seed)
    kw: dict = {}
    if name in UNARY:
        args: list = [d.tensor()]
        if name in ("tril", "triu", "diagonal", "diag") and d.chance(0.5):
            args.append(d.r.randint(-2, 2))
        if name == "round" and d.chance(0.4):
            kw["decimals"] = d.r.randint(-1, 2)
        if name == "flatten" and d.chance(0.6):
            args += [d.dim(args[0].ndim), d.dim(args[0].ndim)]
    elif name in BINARY:
        x = d.tensor()
        args = [x, d.operand(tuple(x.shape))]
        if d.chance(0.1) and isinstance(args[1], torch.Tensor):
            args[0] = d.number()
        if name in ("add", "sub") and d.chance(0.3):
            kw["alpha"] = d.number()
        if name == "div" and d.chance(0.4):
            kw["rounding_mode"] = d.r.choice(["floor", "trunc", None])
    elif name in REDUCTIONS:
        args, kw = reduction(d, name)
    elif name in ALONG:
        args, kw = along(d, name)
    else:
        args, kw = other(d, name)
    form = d.r.choices(["function", "method", "in place", "out"], [4, 4, 2, 2])[0]
    if name in ("where2", "lerp_half"):
        form = "function"
    return Case(name, form, args, kw, d.rg)


# -- running ---------------------------------------------------------------------------------------------------------


def resolve(lib: Any, one: Case) -> Callable | None:
    """The function or method to call, or None if the library has none of that form."""
    name = one.name
    if name == "where2":
        return lambda a, b: lib.where(a > 0, a, b)
    if name == "lerp_half":
        return lambda a, b: lib.lerp(a, b, 0.5)
    if name == "getitem":
        return lambda x, key: x[key]
    if name == "setitem":
        return lambda x, key, value: x.__setitem__(key, value)
    if name == "equal" and one.form == "out":
        return None
    last = name.rsplit(".", 1)[-1]
    if one.form in ("function", "out") or "." in name:
        found: Any = lib
        for part in name.split("."):
            found = getattr(found, part, None)
        return found if found is not None else getattr(lib.Tensor, last, None)
    tensor = getattr(lib.Tensor, last + "_" if one.form == "in place" else last, None)
    return tensor if callable(tensor) else getattr(lib, name, None)


def run(lib: Any, one: Case, args: list, kwargs: dict) -> tuple[Any, Exception | None]:
    call = resolve(lib, one)
    if call is None:
        return None, AttributeError(one.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **kwargs), None
        except Exception as exc:
            return None, exc


def significant(shape: tuple, strides: tuple) -> tuple:
    return tuple(s for n, s in zip(shape, strides, strict=True) if n != 1) if 0 not in shape else ()


def shares(tensor: Any, others: list) -> list[bool]:
    start = tensor.untyped_storage().data_ptr()
    return [bool(o.numel()) and o.untyped_storage().data_ptr() == start for o in others]


def check(one: Case) -> None:
    """Raise Difference if the libraries differ."""
    args, kwargs = one.args, dict(one.kwargs)
    if one.form == "in place" and args and isinstance(args[0], torch.Tensor) and one.rg:
        args = [a.detach() if i == 0 else a for i, a in enumerate(args)]
    if one.form == "out":
        found, failed = run(torch, one, [*args], kwargs)
        if failed is not None or not isinstance(found, torch.Tensor):
            return
        kwargs["out"] = torch.empty(0 if len(str(one)) % 2 else tuple(found.shape), dtype=found.dtype)
        args = [a.detach() if isinstance(a, torch.Tensor) and len(str(one)) % 3 else a for a in args]
    memo: dict = {}
    our_args, our_kwargs = convert(args, memo), convert(kwargs, memo)
    theirs, failed = run(torch, one, args, kwargs)
    ours, our_failed = run(gradlib, one, our_args, our_kwargs)
    same_exception(failed, our_failed)
    if failed is not None:
        return
    given = list(leaves((args, kwargs), torch.Tensor))
    mine = [memo[id(t)] for t in given]
    a, b = list(leaves(theirs, torch.Tensor)), list(leaves(ours, gradlib.Tensor))
    if len(a) != len(b) or (type(theirs).__name__ != type(ours).__name__):
        raise Difference(f"{type(theirs).__name__} of {len(a)}, ours {type(ours).__name__} of {len(b)}")
    if not a and theirs is not None and not isinstance(theirs, (torch.Size, tuple)) and theirs != ours:
        if not (theirs != theirs and ours != ours):
            raise Difference(f"{theirs!r}, ours {ours!r}")
    big = max([float(t.detach().abs().nan_to_num(0, 0, 0).max()) if t.numel() and t.dtype != torch.bool else 1.0 for t in given if t.dtype.is_floating_point], default=1.0)
    for k, (t, o) in enumerate(zip(a, b, strict=True)):
        if not (one.name in TIES and t.dtype == torch.int64 and k == len(a) - 1):
            compare(f"result {k}", t, o, TOLERANCE.get(min((g.dtype for g in given if g.dtype in TOLERANCE), key=lambda x: -TOLERANCE[x], default=t.dtype), 3e-4), big)
        if t.requires_grad != o.requires_grad or t.is_leaf != o.is_leaf:
            raise Difference(f"result {k}: requires_grad {t.requires_grad}, ours {o.requires_grad}")
        strides = [significant(tuple(t.shape), x.stride()) for x in (t, o)]
        if strides[0] != strides[1]:
            raise Difference(f"result {k}: stride {t.stride()}, ours {o.stride()} shape {tuple(t.shape)}")
        if t.numel() and shares(t, given) != shares(o, mine):
            raise Difference(f"result {k}: shares {shares(t, given)}, ours {shares(o, mine)}")
    for k, (t, o) in enumerate(zip(given, mine, strict=True)):
        compare(f"argument {k} afterwards", t, o, 4e-2 if t.dtype in (torch.bfloat16, torch.float16) else 1e-4, big)
    gradients(a, b, given, mine)


def gradients(a: list, b: list, given: list, mine: list) -> None:
    made = [k for k, t in enumerate(a) if t.requires_grad and t.grad_fn is not None]
    inputs = [k for k, t in enumerate(given) if t.requires_grad and t.is_leaf]
    if not made or not inputs:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        weights = [torch.as_tensor(rng.normal(size=tuple(a[k].shape))).to(a[k].dtype) for k in made]
        try:
            theirs, failed = torch.autograd.grad([a[k] for k in made], [given[k] for k in inputs], weights, allow_unused=True), None
        except RuntimeError as exc:
            theirs, failed = (), exc
        try:
            ours, our_failed = gradlib.autograd.grad([b[k] for k in made], [mine[k] for k in inputs], convert(weights, {}), allow_unused=True), None
        except Exception as exc:
            ours, our_failed = (), exc
    same_exception(failed, our_failed)
    for k, (t, o) in enumerate(zip(theirs, ours, strict=True)):
        compare(f"gradient {k}", t, o, 10 * TOLERANCE.get(t.dtype, 3e-4) if t is not None else 1, 1.0)


def difference(one: Case) -> str | None:
    """What the libraries differ in, or None."""
    try:
        check(one)
    except Difference as exc:
        return str(exc)
    return None


def main(start: int, stop: int, *names: str) -> None:
    for seed in range(start, stop):
        one = case(seed, names[seed % len(names)] if names else None)
        text = str(one)
        found = difference(one)
        if found:
            print(f"{seed} {text[:330]}\n      {found[:300]}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
