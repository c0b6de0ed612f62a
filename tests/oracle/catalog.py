"""Runs PyTorch's own catalogue of operators and samples (the OpInfo database that PyTorch is tested with) on gradlib.

Each sample is run by both libraries: exception types, values, dtypes, shapes, aliasing of the input, requires_grad,
first and second gradients and forward tangents must be the same. As a program:

    python tests/oracle/catalog.py                       # a line per op that differs
    python tests/oracle/catalog.py -v linalg.qr cumsum   # every difference of these ops
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

import gradlib

GRAD_DTYPES = (torch.float64, torch.complex128)
VALUE_DTYPES = (
    torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.uint8, torch.complex64,
)  # fmt: skip
TOLERANCE = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 2e-4, torch.complex64: 2e-4, torch.bfloat16: 4e-2,
    torch.float16: 4e-3,
}  # fmt: skip
# results are random numbers: only shapes and dtypes are compared
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "uniform", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "pca_lowrank", "svd_lowrank", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
    "new_empty_strided", "bernoulli_", "nn.functional.multi_head_attention_forward",
}  # fmt: skip
# positions of equal elements, of which any one is right
TIES = {"sort", "topk", "kthvalue", "median", "nanmedian", "mode", "argsort", "msort"}
# factors that are unique only up to a phase: values follow from the reconstruction tests, gradients from gradcheck
UP_TO_PHASE = {"linalg.svd", "svd", "linalg.eig", "linalg.eigh", "linalg.qr", "qr"}

# differences kept on purpose: name -> (what the line says, why)
DIFFERENCES = {
    "nn.functional.conv2d": (
        "float16 #1 ((1, 4, 5, 5), (1, 4, 2, 3)",
        "dilated convolution of halves is wrong in PyTorch on processors with AVX-512 FP16 (nan, or any number)"),
    "nn.functional.soft_margin_loss": (
        "[inf] ours", "exp(-y * x) overflows in PyTorch, also to nan gradients; the loss itself is a small number"),
    "conj": ("a view of the input", "NumPy and CuPy have no lazy conjugate: it is computed at once, a copy"),
    "complex": ("got Half and Half", "NumPy and CuPy have no complex32"),
    "chalf": ("'chalf'", "NumPy and CuPy have no complex32"),
    "bernoulli": ("requires_grad True", "a draw is not a differentiable function of its probability: documented rule"),
    # and where the mean is a number, PyTorch does not always resize `out`
    "normal": ("ours ", "a draw is not a differentiable function of its moments: documented rule"),
    # PyTorch's own kernels are good to 1e-6 only where the argument is beyond 5 (Airy: 2.09); SciPy's values are kept
    "special.airy_ai": ("values", "PyTorch's value is wrong by up to 3e-6"),
    "special.bessel_j0": ("values", "PyTorch's value is wrong by up to 4e-7"),
    "special.bessel_j1": ("values", "PyTorch's value is wrong by up to 5e-7"),
    "special.bessel_y0": ("values", "PyTorch's value is wrong by up to 2e-7"),
    "special.bessel_y1": ("values", "PyTorch's value is wrong by up to 9e-7"),
    "H": ("a view of the input", "as conj"),
    "mH": ("a view of the input", "as conj"),
    "adjoint": ("a view of the input", "as conj"),
    "view_as_complex": ("got a tensor of scalar type: Half", "NumPy and CuPy have no complex32"),
    # of infinite complex numbers PyTorch's second derivative is zero; here it is nan, as inf * (1 + 1j) is
    "logcumsumexp": ("tangent|second gradient", "PyTorch's tangent has half of the digits: a quotient of differences"),
    "as_strided_scatter": ("gradient 0", "PyTorch gives the input the part of the gradient that belongs to `src`"),
    "linalg.norm": ("second gradient 0: values [nan", "at 0 there is no second derivative: PyTorch has nan, gradlib 0"),
    "cholesky_inverse": ("tangent 0", "PyTorch's tangent is not the derivative that its own gradient is"),
    "cov": ("second gradient 1", "weights of two observations hardly count: what is left of them is rounding error"),
    "matrix_exp": ("values [nan nan nan nan]", "PyTorch gives nan for half types"),
    "istft": ("gradient 1: torch None", "the window of the sample is an unrecorded slice: no leaf of the graph"),
    "fft.ihfftn": ("out=: shape (0,)", "PyTorch leaves `out` as it is when only one dimension is transformed"),
    "fft.ihfft2": ("out=: shape (0,)", "PyTorch leaves `out` as it is when only one dimension is transformed"),
}  # fmt: skip


# -- from PyTorch's objects to gradlib's -----------------------------------------------------------------------------


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, also of a type NumPy has not."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy(force=True)  # also one that stands for zeros


def _same_layout(value: torch.Tensor, memo: dict) -> np.ndarray:
    """The elements of `value` in a copy of its whole memory, which other tensors may share."""
    base = as_array(value.clone())
    if not base.size or value.is_conj() or value.is_neg():
        return base
    storage = value.untyped_storage()
    key = (storage.data_ptr(), value.dtype)
    if key not in memo:
        memory = value.detach().as_strided((len(storage) // value.itemsize,), (1,), 0)
        memo[key] = as_array(memory.clone())
    strides = tuple(n * base.itemsize for n in value.stride())
    start = value.storage_offset() * base.itemsize
    return np.ndarray(base.shape, base.dtype, memo[key], start, strides)


def convert(value: Any, memo: dict[Any, Any]) -> Any:
    """`value` with gradlib's tensors, dtypes and devices in the place of PyTorch's; strides are kept."""
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            if value.layout is not torch.strided or value.device.type != "cpu" or value.ndim > 60:
                raise Outside
            held = gradlib.from_numpy(_same_layout(value, memo))
            memo[id(value)] = held.requires_grad_() if value.requires_grad else held
        return memo[id(value)]
    if isinstance(value, torch.dtype):
        return getattr(gradlib, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return gradlib.device(str(value))
    if isinstance(value, torch.memory_format):
        return getattr(gradlib, str(value).removeprefix("torch."))
    if isinstance(value, torch.layout):
        if value is not torch.strided:
            raise Outside
        return getattr(gradlib, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return gradlib.Size(value)
    if isinstance(value, torch.Generator):
        return gradlib.Generator()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(convert(v, memo) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(convert(v, memo) for v in value)
    if isinstance(value, dict):
        return {k: convert(v, memo) for k, v in value.items()}
    if isinstance(value, torch.nn.Module):  # a distance function
        return getattr(gradlib.nn, type(value).__name__)()
    if type(value).__name__ == "LinearCrossEntropyOptions":
        return gradlib.nn.LinearCrossEntropyOptions(**convert(dataclasses.asdict(value), memo))
    if isinstance(value, slice):
        return slice(*(convert(v, memo) for v in (value.start, value.stop, value.step)))
    return value


# entries whose samples have the arguments in another order than the function
REORDERED: dict[str, Callable] = {
    "nn.functional.embedding": lambda weight, indices, **kw: gradlib.nn.functional.embedding(
        indices, weight, **kw
    ),
    "nn.functional.embedding_bag": lambda weight, indices, **kw: (
        gradlib.nn.functional.embedding_bag(indices, weight, **kw)
    ),
}


def _slice(x, dim=0, start=None, end=None, step=1):
    return x[(slice(None),) * (dim % max(x.ndim, 1)) + (slice(start, end, step),)]


def counterpart(info) -> Callable | None:
    """gradlib's function (or method) for an entry of the catalogue."""
    if (
        getattr(info.op, "__name__", "") == "<lambda>"
    ):  # says how the op is called: `lambda x: x.mT`
        code = info.op.__code__
        names = {**info.op.__globals__, "torch": gradlib}
        return types.FunctionType(
            code, names, code.co_name, info.op.__defaults__, info.op.__closure__
        )
    if info.name in REORDERED:
        return REORDERED[info.name]
    if info.name == "slice":  # has no name in Python but x[a:b:c]
        return _slice
    found: Any = gradlib
    try:
        for part in info.name.split("."):
            found = getattr(found, part)
        if callable(found):
            return found
    except AttributeError:
        pass
    method = getattr(gradlib.Tensor, info.name, None)
    return method if callable(method) else None


def leaves(value: Any, kind: type) -> Iterator[Any]:
    """The tensors of a result or of arguments, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from leaves(v, kind)
    elif isinstance(value, dict):
        for v in value.values():
            yield from leaves(v, kind)


# -- comparing ---------------------------------------------------------------------------------------------------------


class Difference(Exception):
    """What differs, as one line."""


class Outside(Exception):
    """A sample with what gradlib has not: other devices, sparse layouts, more dimensions than NumPy's 64."""


class TooSlow(Exception):
    """A sample took more than its seconds."""


def numbers(tensor) -> np.ndarray:
    array = (
        as_array(tensor) if isinstance(tensor, torch.Tensor) else tensor.detach().numpy(force=True)
    )
    return np.asarray(array, np.float64) if array.dtype.kind in "fV" else array


def compare(what: str, theirs: Any, ours: Any, tolerance: float, size: float = 1.0) -> None:
    """Raise Difference unless two tensors are the same up to rounding; `size`: of the numbers they came from."""
    if ours is None or theirs is None:
        if (ours is None) != (theirs is None):
            zero = theirs is not None and not theirs.detach().abs().sum()
            raise Difference(
                f"{what}: torch {'None' if theirs is None else 'zeros' if zero else 'a tensor'}, "
                f"ours {type(ours).__name__}"
            )
        return
    name = str(theirs.dtype).removeprefix("torch.")
    if str(ours.dtype).removeprefix("torch.") != name:
        raise Difference(f"{what}: dtype {name}, ours {ours.dtype}")
    if tuple(theirs.shape) != tuple(ours.shape):
        raise Difference(f"{what}: shape {tuple(theirs.shape)}, ours {tuple(ours.shape)}")
    a, b = numbers(theirs), numbers(ours)
    if a.dtype.kind not in "fc":
        if not np.array_equal(a, b):
            raise Difference(f"{what}: values {a.ravel()[:6]} ours {b.ravel()[:6]}")
        return
    scale = max(size, float(np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=0)))
    if not np.allclose(a, b, rtol=tolerance, atol=tolerance * min(scale, 1e4), equal_nan=True):
        bad = ~np.isclose(a, b, rtol=tolerance, atol=tolerance * min(scale, 1e4), equal_nan=True)
        raise Difference(
            f"{what}: values {a[bad].ravel()[:4]} ours {b[bad].ravel()[:4]} ({bad.sum()} of {bad.size})"
        )


def outcome(fn: Callable, args: tuple, kwargs: dict) -> tuple[Any, Exception | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs), None
    except TooSlow:
        raise
    except Exception as exc:
        return None, exc


def same_exception(theirs: Exception | None, ours: Exception | None) -> None:
    if theirs is None and ours is None:
        return
    if theirs is None:
        raise Difference(f"ours raises {type(ours).__name__}: {str(ours)[:160]}")
    kind = type(theirs)
    names = {c.__name__ for c in kind.__mro__[:-3]} or {kind.__name__}
    if ours is None:
        raise Difference(f"torch raises {kind.__name__}: {str(theirs)[:160]!r}; ours does not")
    if not isinstance(ours, kind) and type(ours).__name__ not in names:
        raise Difference(
            f"torch raises {kind.__name__}: {str(theirs)[:100]!r}; ours {type(ours).__name__}: {str(ours)[:100]!r}"
        )


class Sample:
    """One sample run by both libraries."""

    def __init__(self, info, sample, op: Callable, dtype: torch.dtype):
        self.info, self.dtype, self.op = info, dtype, op
        self.args = (sample.input, *sample.args)
        self.kwargs = sample.kwargs
        self.memo: dict[Any, Any] = {}
        self.our_args = convert(self.args, self.memo)
        self.our_kwargs = convert(self.kwargs, self.memo)
        self.tolerance = TOLERANCE.get(dtype, TOLERANCE[torch.float32])
        self.inputs = [t for t in leaves((self.args, self.kwargs), torch.Tensor) if t.requires_grad]
        self.our_inputs = [self.memo[id(t)] for t in self.inputs]
        self.rng = np.random.default_rng(0)

    def run(self, grads: bool) -> None:
        theirs, failed = outcome(self.info.op, self.args, self.kwargs)
        ours, our_failed = outcome(self.op, self.our_args, self.our_kwargs)
        same_exception(failed, our_failed)
        if failed is not None:
            return
        a, b = list(leaves(theirs, torch.Tensor)), list(leaves(ours, gradlib.Tensor))
        if len(a) != len(b):
            raise Difference(f"{len(a)} results, ours {len(b)}")
        if (
            not a
            and theirs != ours
            and not (isinstance(theirs, torch.dtype) or self.info.name in RANDOM)
        ):
            raise Difference(f"result {theirs!r}, ours {ours!r}")
        if isinstance(theirs, tuple) and (type(theirs) is tuple) != (type(ours) is tuple):
            raise Difference(f"result is a {type(theirs).__name__}, ours a {type(ours).__name__}")
        loose = self.info.name in RANDOM | UP_TO_PHASE or self.kwargs.get("dropout_p", 0) > 0
        for k, (t, o) in enumerate(zip(a, b, strict=True)):
            if loose:
                if tuple(t.shape) != tuple(o.shape) or str(t.dtype) != str(o.dtype):
                    raise Difference(
                        f"result {k}: {t.dtype}{tuple(t.shape)}, ours {o.dtype}{tuple(o.shape)}"
                    )
            elif not (self.info.name in TIES and t.dtype == torch.int64 and k == len(a) - 1):
                compare(f"result {k}", t, o, max(self.tolerance, TOLERANCE.get(t.dtype, 0)))
            self.aliasing(k, t, o)
            if t.requires_grad != o.requires_grad:
                raise Difference(
                    f"result {k}: requires_grad {t.requires_grad}, ours {o.requires_grad}"
                )
        if grads and not loose and self.inputs:
            self.gradients(a, b)
            self.tangents(a)

    def in_place(self) -> None:
        """The method with an underscore: the same exception, or the same value in the same tensor."""
        name = getattr(self.info.inplace_variant, "__name__", self.info.name + "_")
        method = getattr(gradlib.Tensor, name, None)
        if self.info.name.startswith("nn.functional.") and method is None:
            method = functools.partial(self.op, inplace=True)  # in place by a keyword
        if method is None:
            raise Difference(f"Tensor.{name} missing")
        start = self.args[0].detach().clone()
        mine = convert(start, {})
        theirs, failed = outcome(self.info.inplace_variant, (start, *self.args[1:]), self.kwargs)
        ours, our_failed = outcome(method, (mine, *self.our_args[1:]), self.our_kwargs)
        try:
            same_exception(failed, our_failed)
        except Difference as exc:
            raise Difference(f"{name}: {exc}") from None
        if failed is None and self.info.name not in RANDOM:
            if ours is not mine:
                raise Difference(f"{name} does not return its argument")
            compare(name, theirs, ours, self.tolerance)

    def into(self) -> None:
        """`out=`: the result in the given tensor, which is resized if it is empty; and a refused dtype."""
        with warnings.catch_warnings(), torch.no_grad(), gradlib.no_grad():
            warnings.simplefilter("ignore")
            for wrong in (False, True):
                theirs, failed = outcome(self.info.op, self.args, self.kwargs)
                given = list(leaves(theirs, torch.Tensor))
                if failed is not None or not given or not isinstance(theirs, (torch.Tensor, tuple)):
                    return
                outs = [torch.empty(0, dtype=torch.bool if wrong else t.dtype) for t in given]
                mine = [convert(t, {}) for t in outs]
                theirs, failed = outcome(
                    self.info.op,
                    self.args,
                    {**self.kwargs, "out": outs[0] if len(outs) == 1 else tuple(outs)},
                )
                _, our_failed = outcome(
                    self.op,
                    self.our_args,
                    {**self.our_kwargs, "out": mine[0] if len(outs) == 1 else tuple(mine)},
                )
                try:
                    same_exception(failed, our_failed)
                except Difference as exc:
                    raise Difference(f"out= {'of bool' if wrong else ''}: {exc}") from None
                if failed is None and self.info.name not in RANDOM | UP_TO_PHASE | TIES:
                    for a, b in zip(outs, mine, strict=True):
                        compare("out=", a, b, max(self.tolerance, TOLERANCE.get(a.dtype, 0)))

    def aliasing(self, k: int, theirs, ours) -> None:
        first = next(leaves(self.args, torch.Tensor), None)
        if first is None or not first.numel() or not theirs.numel():
            return
        mine = self.memo[id(first)]
        shared = theirs.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        also = ours.untyped_storage().data_ptr() == mine.untyped_storage().data_ptr()
        also |= np.may_share_memory(
            ours.detach().numpy(force=True), mine.detach().numpy(force=True)
        )
        if shared != also:
            raise Difference(
                f"result {k}: {'a view' if shared else 'no view'} of the input, ours the opposite"
            )

    def weights(self, tensors: list) -> list:
        out = []
        for t in tensors:
            w = self.rng.uniform(0.5, 1.5, tuple(t.shape))
            if t.dtype.is_complex:
                w = w + 1j * self.rng.uniform(-1, 1, tuple(t.shape))
            out.append(
                (
                    torch.tensor(w, dtype=t.dtype),
                    gradlib.tensor(w, dtype=getattr(gradlib, str(t.dtype)[6:])),
                )
            )
        return out

    def gradients(self, theirs: list, ours: list) -> None:
        pairs = [(t, o) for t, o in zip(theirs, ours, strict=True) if t.requires_grad]
        if not pairs:
            return
        w = self.weights([t for t, _ in pairs])
        first = outcome(
            lambda: torch.autograd.grad(
                [t for t, _ in pairs],
                self.inputs,
                [a for a, _ in w],
                create_graph=True,
                allow_unused=True,
            ),
            (),
            {},
        )
        mine = outcome(
            lambda: gradlib.autograd.grad(
                [o for _, o in pairs],
                self.our_inputs,
                [b for _, b in w],
                create_graph=True,
                allow_unused=True,
            ),
            (),
            {},
        )
        if first[1] is not None:
            return  # PyTorch has no derivative here: gradlib may
        try:
            same_exception(None, mine[1])
        except Difference as exc:
            raise Difference(f"gradient: {exc}") from None
        for k, (a, b) in enumerate(zip(first[0], mine[0], strict=True)):
            if a is None and b is not None and not b.detach().abs().sum():
                continue
            compare(f"gradient {k}", a, b, self.tolerance * 100)
        self.second(first[0], mine[0])

    def second(self, theirs: tuple, ours: tuple) -> None:
        if not self.info.supports_gradgrad:
            return
        pairs = [
            (t, o) for t, o in zip(theirs, ours, strict=True) if t is not None and t.requires_grad
        ]
        if not pairs:
            return
        w = self.weights([t for t, _ in pairs])
        # what cancels to a second gradient of 0 leaves rounding errors of its own size
        size = max(
            [1.0, *(float(t.detach().abs().nan_to_num().max()) for t, _ in pairs if t.numel())]
        )
        first = outcome(
            lambda: torch.autograd.grad(
                [t for t, _ in pairs], self.inputs, [a for a, _ in w], allow_unused=True
            ),
            (),
            {},
        )
        mine = outcome(
            lambda: gradlib.autograd.grad(
                [o for _, o in pairs], self.our_inputs, [b for _, b in w], allow_unused=True
            ),
            (),
            {},
        )
        if first[1] is not None:
            return
        # rounding errors of a derivative that is 0 are no derivative
        if mine[1] is not None and all(
            a is None or a.abs().sum() < self.tolerance for a in first[0]
        ):
            return
        try:
            same_exception(None, mine[1])
        except Difference as exc:
            raise Difference(f"second gradient: {exc}") from None
        for k, (a, b) in enumerate(zip(first[0], mine[0], strict=True)):
            if (a is None or not a.abs().sum()) and (b is None or not b.detach().abs().sum()):
                continue
            compare(f"second gradient {k}", a, b, self.tolerance * 1000, size)

    def tangents(self, results: list) -> None:
        if not self.info.supports_forward_ad:
            return
        seeds = self.weights(self.inputs)

        def run(lib, op, args, kwargs, inputs, which):
            with lib.autograd.forward_ad.dual_level():
                duals = {
                    id(t): lib.autograd.forward_ad.make_dual(t.detach(), s[which])
                    for t, s in zip(inputs, seeds, strict=True)
                }
                out = op(*replace(args, duals), **replace(kwargs, duals))
                return [
                    lib.autograd.forward_ad.unpack_dual(o).tangent for o in leaves(out, lib.Tensor)
                ]

        theirs, failed = outcome(
            run, (torch, self.info.op, self.args, self.kwargs, self.inputs, 0), {}
        )
        if failed is not None:
            return
        ours, our_failed = outcome(
            run, (gradlib, self.op, self.our_args, self.our_kwargs, self.our_inputs, 1), {}
        )
        try:
            same_exception(None, our_failed)
        except Difference as exc:
            raise Difference(f"tangent: {exc}") from None
        for k, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            if (a is None or not a.abs().sum()) and (b is None or not b.detach().abs().sum()):
                continue
            compare(f"tangent {k}", a, b, self.tolerance * 100)


def replace(value: Any, by: dict[int, Any]) -> Any:
    if id(value) in by:
        return by[id(value)]
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(replace(v, by) for v in value)
    if isinstance(value, dict):
        return {k: replace(v, by) for k, v in value.items()}
    return value


# -- the catalogue -----------------------------------------------------------------------------------------------------


def samples(info, dtype: torch.dtype, requires_grad: bool, limit: int) -> Iterator[Any]:
    """Up to `limit` samples, spread over all that there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = list(info.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    step = max(1, len(every) // limit)
    yield from every[::step][:limit]


def differences(
    info, limit: int = 12, dtypes: tuple = (*GRAD_DTYPES, *VALUE_DTYPES), seconds: int = 20
) -> list[str]:
    """The differences of one entry, as lines."""
    op = counterpart(info)
    if op is None:
        return ["missing"]
    found: list[str] = []

    def check(label: str, action: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(seconds)
        try:
            action()
        except Difference as exc:
            kept = DIFFERENCES.get(info.name, ("", ""))[0].split("|")
            if not any(part and part in f"{label}: {exc}" for part in kept):
                found.append(f"{label}: {exc}")
        except Outside:
            pass
        except TooSlow as exc:
            found.append(f"{label}: {exc}")
        finally:
            signal.alarm(0)

    known = info.supported_dtypes("cpu")
    for dtype in dtypes:
        if dtype not in known:
            continue
        grads = (
            dtype in GRAD_DTYPES
            and info.supports_autograd
            and dtype in info.supported_backward_dtypes("cpu")
        )
        torch.manual_seed(0)
        np.random.seed(0)
        for k, sample in enumerate(samples(info, dtype, grads, limit)):
            label = f"{str(dtype)[6:]} #{k} {describe(sample)}"
            check(label, lambda s=sample, d=dtype, g=grads: Sample(info, s, op, d).run(g))
    torch.manual_seed(0)
    for dtype in (torch.float64, torch.int64):
        if dtype not in known:
            continue
        for k, sample in enumerate(samples(info, dtype, False, 3)):
            label = f"{str(dtype)[6:]} #{k} {describe(sample)}"
            if info.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
                check(label, lambda s=sample, d=dtype: Sample(info, s, op, d).in_place())
            if info.supports_out:
                check(label, lambda s=sample, d=dtype: Sample(info, s, op, d).into())
    if info.error_inputs_func is not None:
        for k, error in enumerate(info.error_inputs("cpu")):
            check(
                f"error #{k} {describe(error.sample_input)}",
                lambda e=error: Sample(info, e.sample_input, op, torch.float32).run(False),
            )
    return found


def _too_slow(*_):
    raise TooSlow("took too long")


def describe(sample) -> str:
    def one(v):
        if isinstance(v, torch.Tensor):
            return f"{tuple(v.shape)}" + ("" if v.is_contiguous() else "*")
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(one(x) for x in v) + "]"
        return repr(v)

    parts = [
        one(sample.input),
        *map(one, sample.args),
        *(f"{k}={one(v)}" for k, v in sample.kwargs.items()),
    ]
    return "(" + ", ".join(parts)[:160] + ")"


SKIPPED = (
    "_",
    "masked.",
    "sparse.",
    "torch.ops",
    "ops.",
    "jiterator",
    "quant",
    "segment_reduce",
    "to_sparse",
    "torch._",  # private, as the next is
    "max_pool2d_with_indices_backward",
)


LINEAR = tuple(
    (
        "linalg. fft. signal. cholesky svd qr lu geqrf ormqr pinverse matrix_exp stft istft logdet "
        "triangular_solve einsum matmul mm bmm mv addmm addmv addbmm baddbmm addr dot vdot inner outer "
        "tensordot kron cov corrcoef trace cross cdist __rmatmul__ pca_lowrank renorm norm dist"
    ).split()
)


def family(info) -> str:
    """Which of four families an entry belongs to: nn, linalg, pointwise (with reductions), rest."""
    if info.name.startswith(("nn.", "native_", "softmax", "log_softmax")):
        return "nn"
    if info.name.startswith(LINEAR):
        return "linalg"
    if isinstance(info, (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)) or info.name.startswith(
        ("special.", "__r")
    ):
        return "pointwise"
    return "rest"


def entries(names: list[str] | None = None, only: str | None = None) -> list:
    """The entries of the catalogue that dense autograd libraries have, or those called `names`."""
    if names:
        return [i for i in op_db if i.name in names]
    known = [i for i in op_db if not i.name.startswith(SKIPPED) or i.name.startswith("__")]
    return [i for i in known if only in (None, family(i))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every difference, not the first of each op"
    )
    parser.add_argument("--limit", type=int, default=12, help="samples of each op and dtype")
    parser.add_argument("--part", default="0/1", help="k/n: the k-th of n parts of the catalogue")
    parser.add_argument("--family", choices=("nn", "linalg", "pointwise", "rest"))
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    total = collections.Counter()
    chosen = entries(given.names, given.family)
    for info in chosen[part::parts]:
        found = differences(info, given.limit)
        total["differ" if found and found != ["missing"] else "missing" if found else "agree"] += 1
        name = info.name + (f"[{info.variant_test_name}]" if info.variant_test_name else "")
        for line in found if given.verbose else found[:1]:
            more = f"  (+{len(found) - 1} more)" if len(found) > 1 and not given.verbose else ""
            print(f"{name}: {line}{more}", flush=True)
    print(dict(total))


if __name__ == "__main__":
    sys.exit(main())
