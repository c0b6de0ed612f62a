"""Helpers for tests: assert_close and make_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.tensor import Tensor, to_host

# (rtol, atol) by dtype, as documented for torch.testing.assert_close
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


def _tolerances(a: dtypes.dtype, b: dtypes.dtype) -> tuple[float, float]:
    pairs = [TOLERANCES.get(d, (0.0, 0.0)) for d in (a, b)]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Assert that `actual` and `expected` (tensors, numbers, sequences or mappings of them) are close.

    Close means ``|actual - expected| <= atol + rtol * |expected|``; both tolerances follow the dtype unless given
    together.

    Raises:
        AssertionError: values, shapes, dtypes or devices differ; names the greatest differences.
        ValueError: only one of rtol and atol is given.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "rtol and atol must both be specified or both be unspecified, but got one of them"
        )
    if isinstance(expected, dict):
        assert set(actual) == set(expected), (
            f"The keys of the mappings do not match: {set(actual) ^ set(expected)}"
        )
        pairs = [(actual[k], expected[k]) for k in expected]
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), (
            f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        )
        pairs = list(zip(actual, expected, strict=True))
    else:
        _assert_pair(
            actual, expected, rtol, atol, equal_nan, check_device, check_dtype, check_stride, msg
        )
        return
    for a, b in pairs:
        assert_close(
            a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
            check_dtype=check_dtype, check_stride=check_stride, msg=msg,
        )  # fmt: skip


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor._make(np.asarray(value))


def _assert_pair(
    actual, expected, rtol, atol, equal_nan, check_device, check_dtype, check_stride, msg
) -> None:
    numbers = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
    a, b = _as_tensor(actual), _as_tensor(expected)
    for what, left, right, on in (
        ("shape", a.shape, b.shape, True),
        ("device", a.device, b.device, check_device),
        ("dtype", a.dtype, b.dtype, check_dtype and not numbers),
        ("stride()", a.stride(), b.stride(), check_stride),
    ):
        if on and left != right:
            raise AssertionError(
                f"The values for attribute '{what}' do not match: {left} != {right}."
            )
    if rtol is None or atol is None:
        rtol, atol = _tolerances(a.dtype, b.dtype)
    wide = np.complex128 if a.is_complex() or b.is_complex() else np.float64
    x, y = to_host(a._array).astype(wide), to_host(b._array).astype(wide)
    close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return
    difference = np.abs(x - y)
    relative = difference / np.where(y == 0, 1, np.abs(y))
    wrong = int((~close).sum())
    text = (
        f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {close.size} ({wrong / close.size:.1%})\n"
        f"Greatest absolute difference: {np.nanmax(difference)} (up to {atol} allowed)\n"
        f"Greatest relative difference: {np.nanmax(relative)} (up to {rtol} allowed)"
    )
    raise AssertionError(msg(text) if callable(msg) else msg or text)


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of `dtype` with uniform values in [low, high): by default [-9, 9), [0, 2) for bool, [0, 9) for uint8."""
    from ..core.generator import default_generator

    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    rng = default_generator.rng
    low = (0 if not dtype.is_signed else -9) if low is None else low
    high = (2 if dtype is dtypes.bool_ else 9) if high is None else high
    full = (*size[:-1], size[-1] * 2) if noncontiguous and size else size
    if dtype.category >= dtypes.FLOATING:
        array = rng.uniform(low, high, full)
        array = array + 1j * rng.uniform(low, high, full) if dtype.is_complex else array
    else:
        array = rng.integers(int(low), int(high), full)
    array = np.asarray(array).astype(dtype.np)
    if exclude_zero:
        array = np.where(array == 0, np.ones((), array.dtype), array)
    out = Tensor._make(array[..., ::2] if noncontiguous and size else array)
    out = out.to(device) if device is not None else out
    return out.requires_grad_(requires_grad)


__all__ = ["assert_close", "make_tensor"]
