"""A sample of PyTorch's catalogue of operators, run by both libraries, and what must be the same: see `catalog.py`."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch

import gradlib

GRAD_DTYPES = (torch.float64, torch.complex128)
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


# -- from PyTorch's objects to gradlib's -----------------------------------------------------------------------------


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, also of a type NumPy has not."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy(force=True)  # also one that stands for zeros


def _same_layout(value: torch.Tensor, memo: dict) -> np.ndarray:
    """The elements of `value` in a copy of its whole memory, which other tensors may share."""
    base = as_array(value.clone()).copy(order="K")
    if not base.size or value.is_conj() or value.is_neg():
        return base
    storage = value.untyped_storage()
    key = (storage.data_ptr(), value.dtype)
    if key not in memo:
        memory = value.detach().as_strided((len(storage) // value.itemsize,), (1,), 0)
        memo[key] = as_array(memory.clone()).copy()
    strides = tuple(n * base.itemsize for n in value.stride())
    start = value.storage_offset() * base.itemsize
    return np.ndarray(base.shape, base.dtype, memo[key], start, strides)


def convert(value: Any, memo: dict[Any, Any]) -> Any:
    """`value` with gradlib's tensors, dtypes and devices in the place of PyTorch's; strides are kept."""
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            if value.layout is not torch.strided or value.device.type != "cpu" or value.ndim > 60:
                raise Outside
            held = gradlib.Tensor._make(_same_layout(value, memo))
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
        options = {"create_graph": True, "allow_unused": True}
        theirs, ours = zip(*pairs, strict=True)
        a, b = zip(*w, strict=True)
        first = outcome(torch.autograd.grad, (theirs, self.inputs, a), options)
        mine = outcome(gradlib.autograd.grad, (ours, self.our_inputs, b), options)
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
