"""What PyTorch's catalogue of operators says beside its samples: an op under other names, and with other arguments.

Each sample of `catalog` is run again as a method, in place, under the op's aliases, with strided tensors, with dtypes
that the op may refuse, with arguments of mixed dtypes, and with tensors given as `out`. Both libraries must end alike:
the same type of exception, or the same values and dtypes.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from catalog_sample import (
    RANDOM,
    TIES,
    TOLERANCE,
    UP_TO_PHASE,
    Difference,
    Sample,
    compare,
    convert,
    leaves,
    outcome,
    replace,
    same_exception,
)

import gradlib

REFUSED = (
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
)
LOOSE = RANDOM | UP_TO_PHASE | TIES
Check = tuple[str, Callable[[], None]]
# differences kept on purpose: name -> (what the line says, why)
_NORM = (
    "mixed dtype|expected scalar type",
    "mixed dtypes in normalisation are computed in the wider one",
)
_BIAS = (
    "expected all tensors to have the same dtype|and bias type",
    "a bias of another dtype: PyTorch takes it in some algorithms",
)
_INTO = "out= strided", "PyTorch's kernel writes as if `out` were contiguous"
_NO_KERNEL = "not implemented for|searchsorted_out_cpu", "PyTorch has other kernels for it"
DIFFERENCES = {
    "kthvalue": ("kthvalue_cpu", "of a 0-dim tensor PyTorch looks at no dtype"),
    "cdist": ('"cdist" not implemented for', "PyTorch takes half types where it multiplies matrices"),
    "cumprod": ("cumprod_out_cpu", "of no elements PyTorch looks at no dtype"),
    "nn.functional.embedding_bag": (
        "Expected tensor for argument #1", "bags of numbers of any dtype are added"),
    "nn.functional.ctc_loss": ("int() argument", "complex targets are no classes"),
    "nn.functional.linear_cross_entropy": ("acc_dtype must be", "the dtype is refused by another check"),
    "nn.functional.binary_cross_entropy_with_logits": (
        "result 0: dtype|result type", "PyTorch's result has the dtype of the target, whatever the input's"),
    "nn.functional.soft_margin_loss": _NO_KERNEL, "mode": _NO_KERNEL,
    "histogramdd": _NO_KERNEL, "bucketize": _NO_KERNEL, "searchsorted": _NO_KERNEL,
    "round": ("round_vml_cpu", "rounding integers to 0 digits is the same as rounding them"),
    "__rdiv__": ("argument 1 as", "which no operator of Python calls with a tensor"),
    "index_reduce": ("as bool|as complex64", "PyTorch has kernels for some reductions, on some paths"),
    "nn.functional.rms_norm": ("argument 1 as complex64", _NORM[1]),
    "nn.functional.hinge_embedding_loss": ("result 0: dtype|mean(): could not", "of integers: a fractional margin"),
    "chalf": ("chalf", "NumPy and CuPy have no complex32"),
    "cholesky": ("out= of", "as linalg.cholesky"), "linalg.matrix_power": ("out= of", "as the other powers"),
    "tensordot": ("as bool", "as any product"),
    "fft.ifft": ("Found dtype", "a wider complex `out` is as good"), "fft.ihfft": ("Found dtype", "as fft.ifft"),
    "fft.fft": ("Found dtype", "as fft.ifft"), "fft.hfft": ("Found dtype", "as fft.ifft"),
    "linalg.solve_triangular": ("argument 1 as", "PyTorch computes some mixed dtypes, and refuses others"),
    "nn.functional.instance_norm": _NORM, "native_group_norm": ("is_contiguous", "any layout is taken"),
    **{f"nn.functional.conv{n}d": (f"{_BIAS[0]}|slow_conv_dilated", _BIAS[1]) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": _BIAS for n in (1, 2, 3)},
    "nn.functional.avg_pool3d": _INTO, "narrow_copy": _INTO,
    "fft.ihfftn": ("out= strided|Found dtype", _INTO[1]), "fft.ihfft2": ("out= strided|Found dtype", _INTO[1]),
}  # fmt: skip


def checks(info, sample, op: Callable, dtype: torch.dtype) -> Iterator[Check]:
    """(label, action) of every variant of one sample."""
    if sample.kwargs.get("dropout_p"):
        return  # random numbers
    if info.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
        yield "in place", lambda: Sample(info, sample, op, dtype).in_place()
    yield from methods(info, sample, op, dtype)
    yield from aliases(info, sample, dtype)
    yield "noncontiguous", lambda: noncontiguous(info, sample, op, dtype)
    for other in REFUSED:
        if other not in info.supported_dtypes("cpu"):
            yield f"as {str(other)[6:]}", lambda other=other: cast(info, sample, op, other)
    for k, other in mixes(sample):
        yield (
            f"argument {k} as {str(other)[6:]}",
            lambda k=k, other=other: mixed(info, sample, op, dtype, k, other),
        )
    if info.supports_out:
        yield "out=", lambda: Sample(info, sample, op, dtype).into()
        yield "out= with grad", lambda: out_with_grad(info, sample, op, dtype)
        for other in (torch.float32, torch.float64, torch.int64, torch.complex128, torch.float16):
            yield (
                f"out= of {str(other)[6:]}",
                lambda other=other: out_of(info, sample, op, dtype, other),
            )
        yield "out= strided", lambda: out_strided(info, sample, op, dtype)


def both(info, theirs: Callable, ours: Callable, sample, dtype) -> None:
    """Both functions on one sample: the same exception, or the same results."""
    pair = Sample(info, sample, ours, dtype)
    want, failed = outcome(theirs, pair.args, pair.kwargs)
    got, our_failed = outcome(ours, pair.our_args, pair.our_kwargs)
    if isinstance(failed, NotImplementedError) and (our_failed is not None or rich(dtype, pair)):
        return  # a kernel that PyTorch has not
    if our_failed is not None and failed is None and empty(pair):
        return  # PyTorch looks at the dtypes only if there is something to compute
    same_exception(failed, our_failed)
    if failed is None:
        same_results(info, want, got, precision(pair.args, pair.kwargs))


def rich(dtype: torch.dtype, pair: Sample) -> bool:
    """Whether some argument is of a type that gradlib takes in more ops than PyTorch: half or complex."""
    found = {dtype, *(t.dtype for t in leaves((pair.args, pair.kwargs), torch.Tensor))}
    return bool(found & {torch.float16, torch.bfloat16}) or any(d.is_complex for d in found)


def empty(pair: Sample) -> bool:
    return any(not t.numel() for t in leaves((pair.args, pair.kwargs), torch.Tensor))


def precision(*arguments) -> float:
    """What the coarsest of the arguments allows; integers are computed as float32."""
    found = [
        TOLERANCE.get(t.dtype, TOLERANCE[torch.float32]) for t in leaves(arguments, torch.Tensor)
    ]
    return max(found, default=TOLERANCE[torch.float32])


def same_results(info, want, got, tolerance: float) -> None:
    for k, (a, b) in enumerate(
        zip(leaves(want, torch.Tensor), leaves(got, gradlib.Tensor), strict=True)
    ):
        if info.name in LOOSE:
            if str(a.dtype)[6:] != str(b.dtype).rpartition(".")[2] or tuple(a.shape) != tuple(
                b.shape
            ):
                raise Difference(
                    f"result {k}: {a.dtype}{tuple(a.shape)}, ours {b.dtype}{tuple(b.shape)}"
                )
        else:
            compare(f"result {k}", a, b, max(tolerance, TOLERANCE.get(a.dtype, 0)))


def methods(info, sample, op, dtype) -> Iterator[Check]:
    theirs = info.method_variant
    if theirs is None or not isinstance(sample.input, torch.Tensor):
        return
    name = getattr(theirs, "__name__", info.name)
    if name == "<lambda>":  # says how it is called, as the op does
        return
    ours = getattr(gradlib.Tensor, name, None)
    yield f"method {name}", lambda: both(info, theirs, ours or missing(name), sample, dtype)


def missing(name: str) -> Callable:
    raise Difference(f"{name} is missing")


def aliases(info, sample, dtype) -> Iterator[Check]:
    for alias in info.aliases:
        for theirs, root in (
            (alias.op, gradlib), (alias.method_variant, gradlib.Tensor), (alias.inplace_variant, gradlib.Tensor),
        ):  # fmt: skip
            if theirs is None or (
                root is gradlib.Tensor and not isinstance(sample.input, torch.Tensor)
            ):
                continue
            name = alias.name if theirs is alias.op else theirs.__name__
            ours: Any = root
            for part in name.removeprefix("torch.").split("."):
                ours = getattr(ours, part, None)
            fresh = sample
            if theirs is alias.inplace_variant:
                fresh = copy.copy(sample)
                fresh.input = sample.input.detach().clone()
            yield f"alias {name}", functools.partial(_alias, info, name, theirs, ours, fresh, dtype)


def _alias(info, name: str, theirs: Callable, ours: Any, sample, dtype) -> None:
    both(info, theirs, ours or missing(name), sample, dtype)


def noncontiguous(info, sample, op, dtype) -> None:
    both(info, info.op, op, sample.noncontiguous(), dtype)


def cast(info, sample, op, other: torch.dtype) -> None:
    """All floating tensors of the sample in a dtype that the op is said not to take."""

    def change(value):
        return (
            value.detach().to(other)
            if value.dtype.is_floating_point or value.dtype.is_complex
            else value
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(
            info,
            info.op,
            op,
            sample.transform(lambda v: change(v) if isinstance(v, torch.Tensor) else v),
            other,
        )


def mixes(sample) -> Iterator[tuple[int, torch.dtype]]:
    tensors = list(leaves((sample.input, sample.args, sample.kwargs), torch.Tensor))
    for k, tensor in enumerate(tensors[1:3], 1):
        for other in (
            torch.float64,
            torch.float32,
            torch.float16,
            torch.int64,
            torch.bool,
            torch.complex64,
        ):
            if other != tensor.dtype:
                yield k, other


def mixed(info, sample, op, dtype, k: int, other: torch.dtype) -> None:
    tensors = list(leaves((sample.input, sample.args, sample.kwargs), torch.Tensor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        changed = tensors[k].detach().to(other)
    by = {id(tensors[k]): changed}
    fresh = copy.copy(sample)
    fresh.input, fresh.args, fresh.kwargs = (
        replace(v, by) for v in (sample.input, sample.args, sample.kwargs)
    )
    both(info, info.op, op, fresh, dtype)


def _outs(info, sample, op, dtype):
    pair = Sample(info, sample, op, dtype)
    with torch.no_grad():
        theirs, failed = outcome(info.op, pair.args, pair.kwargs)
    given = list(leaves(theirs, torch.Tensor))
    return pair, given if failed is None and isinstance(theirs, (torch.Tensor, tuple)) else []


def _into(info, pair, outs: list, label: str) -> None:
    mine = [convert(t, {}) for t in outs]
    one = len(outs) == 1
    _, failed = outcome(info.op, pair.args, {**pair.kwargs, "out": outs[0] if one else tuple(outs)})
    _, our_failed = outcome(
        pair.op, pair.our_args, {**pair.our_kwargs, "out": mine[0] if one else tuple(mine)}
    )
    if failed is None and "don't support automatic differentiation" in str(our_failed):
        return  # PyTorch's function has no derivative, or is made of ones that write `out` as a recorded op
    if isinstance(failed, NotImplementedError):
        return  # a kernel that PyTorch has not
    same_exception(failed, our_failed)
    if failed is None and info.name not in LOOSE:
        for a, b in zip(outs, mine, strict=True):
            compare(label, a, b, max(precision(pair.args, pair.kwargs), TOLERANCE.get(a.dtype, 0)))


def out_with_grad(info, sample, op, dtype) -> None:
    """`out` together with an argument that requires grad, or that requires grad itself."""
    if not dtype.is_floating_point:
        return
    tensors = [
        t
        for t in leaves((sample.input, sample.args, sample.kwargs), torch.Tensor)
        if t.is_floating_point()
    ]
    if not tensors:
        return
    pair, given = _outs(info, sample, op, dtype)
    if not given or not all(t.is_floating_point() for t in given):
        return
    _into(
        info,
        pair,
        [torch.empty_like(t.detach()).requires_grad_() for t in given],
        "out= requires grad",
    )
    by = {id(t): t.detach().clone().requires_grad_() for t in tensors}
    fresh = copy.copy(sample)
    fresh.input, fresh.args, fresh.kwargs = (
        replace(v, by) for v in (sample.input, sample.args, sample.kwargs)
    )
    pair = Sample(info, fresh, op, dtype)
    _into(info, pair, [torch.empty_like(t.detach()) for t in given], "out=")


def out_of(info, sample, op, dtype, other) -> None:
    with torch.no_grad(), gradlib.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair, given = _outs(info, sample, op, dtype)
        if given and given[0].dtype != other:
            _into(info, pair, [torch.empty_like(t, dtype=other) for t in given], "out=")


def out_strided(info, sample, op, dtype) -> None:
    """`out` with other strides, which it must keep; of a wrong shape it is resized, with a warning."""
    with torch.no_grad(), gradlib.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair, given = _outs(info, sample, op, dtype)
        if not given:
            return
        outs = [torch.zeros((*t.shape, 2), dtype=t.dtype)[..., 0] for t in given]
        mine = []
        for t in outs:
            mine.append(convert(t, {}))
        strides = [t.stride() for t in mine]
        one = len(outs) == 1
        _, failed = outcome(
            info.op, pair.args, {**pair.kwargs, "out": outs[0] if one else tuple(outs)}
        )
        _, our_failed = outcome(
            op, pair.our_args, {**pair.our_kwargs, "out": mine[0] if one else tuple(mine)}
        )
        same_exception(failed, our_failed)
        if failed is not None:
            return
        if strides != [t.stride() for t in mine] and [t.stride() for t in outs] == [
            tuple(s) for s in strides
        ]:
            raise Difference("out= loses its strides")
        if info.name not in LOOSE:
            for a, b in zip(outs, mine, strict=True):
                compare(
                    "out=", a, b, max(precision(pair.args, pair.kwargs), TOLERANCE.get(a.dtype, 0))
                )
