"""The functions that are called at random, and how arguments for each are drawn."""

from __future__ import annotations

from typing import Any

import torch
from fuzz_draw import DTYPES, Case, Draw, optional
from fuzz_others import other

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
 broadcast_tensors copy_ fill_ zero_ vdot inner kron tensordot cross dist
 searchsorted isin linalg.norm linalg.vector_norm
 linalg.det linalg.inv linalg.solve fft.fft fft.rfft arange linspace full eye clamp_min allclose
 contiguous vstack hstack item bool masked_scatter histc quantile rot90
 view_as expand_as block_diag cartesian_prod nn.functional.dropout
 nn.functional.l1_loss nn.functional.batch_norm nn.functional.nll_loss cov trapezoid cdist bucketize index_put
 """.split()
NAMES = (*UNARY, *BINARY, *REDUCTIONS, *ALONG, *OTHERS)


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
            if (
                len(args) > 1
                and name not in ("std", "var", "std_mean", "var_mean")
                and d.chance(0.5)
            ):
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
            return [x, *rest]
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
            return [x, d.r.randint(0, n + (d.chance(0.1)))], kw | (
                {"dim": dim} if d.chance(0.8) else {}
            )
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
    if name in ("median", "nanmedian") and 0 in args[0].stride():
        args[0] = args[0].detach().contiguous()  # PyTorch reads outside of expanded vectors
    form = d.r.choices(["function", "method", "in place", "out"], [4, 4, 2, 2])[0]
    if name in ("where2", "lerp_half"):
        form = "function"
    return Case(name, form, args, kw, d.rg)
