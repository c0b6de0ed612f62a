"""assert_close: tensors, arrays, numbers, and containers of them, compared with the tolerances of their dtypes."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor

# (rtol, atol) by dtype, as documented for torch.testing.assert_close
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-3),
    dtypes.float32: (1e-4, 1e-5),
    dtypes.float64: (1e-5, 1e-8),
}
_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
_WIDER = {d: dtypes.int64 for d in (dtypes.uint16, dtypes.uint32, dtypes.uint64)}

Where = tuple[Any, ...]  # indices and keys that lead to an item of a container


def _item(where: Where) -> str:
    return "".join([f"[{key!r}]" for key in where])


class _Failure(Exception):
    """How two items differ, and where they are."""

    def __init__(self, text: str, where: Where, kind: type[Exception] = AssertionError):
        super().__init__(text)
        self.text, self.where, self.kind = text, where, kind

    def error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """The exception to raise; `msg` replaces or wraps the text."""
        if isinstance(msg, str):
            return self.kind(msg)
        text = self.text
        if self.where:
            text += f"\n\nThe failure occurred for item {_item(self.where)}"
        return self.kind(text if msg is None else msg(text))


def default_tolerances(
    *inputs: Tensor | dtypes.dtype,
    dtype_precisions: dict[dtypes.dtype, tuple[float, float]] | None = None,
) -> tuple[float, float]:
    """The largest (rtol, atol) of the dtypes of the inputs; zeros for integers and bool."""
    table = dtype_precisions or TOLERANCES
    kinds = [i.dtype if isinstance(i, Tensor) else i for i in inputs]
    found = [table.get(kind, (0.0, 0.0)) for kind in kinds]
    return max([rtol for rtol, _ in found]), max([atol for _, atol in found])


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
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Assert that `actual` and `expected` are close: tensors, arrays, numbers, or sequences and mappings of them.

    Close means ``|actual - expected| <= atol + rtol * |expected|``; both tolerances follow the dtype unless given
    together. Infinities are close only to themselves, nan to nothing unless `equal_nan`.

    Args:
        actual, expected: of related types, or numbers.
        allow_subclasses: whether a tensor may be compared with an instance of a subclass.
        check_device, check_dtype, check_layout, check_stride: whether these must agree; without `check_dtype` values
            are compared in the common dtype.
        msg: the text of the error, or a function that makes it from the generated one.

    Raises:
        AssertionError: they differ; names the greatest differences and the item of a container.
        ValueError: only one of rtol and atol is given.
        TypeError: items that cannot be compared with each other.

    Example:
        >>> gradlib.testing.assert_close([gradlib.ones(2), 1.0], [gradlib.ones(2), 1.0])
    """
    __tracebackhide__ = True
    plans = partial(
        _comparison,
        allow_subclasses=allow_subclasses,
        tolerances=(rtol, atol),
        equal_nan=equal_nan,
        check_dtype=check_dtype,
        check_device=check_device,
        check_stride=check_stride,
    )
    failure: _Failure | None = None
    try:  # what cannot be compared is found out before anything is
        comparisons = [plans(*leaf) for leaf in _leaves(actual, expected, ())]
    except _Failure as wrong:
        raise wrong.error() from None
    for compare in comparisons:
        try:
            compare()
        except _Failure as found:
            failure = found
            break
    if failure is not None:
        raise failure.error(msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """``assert_close`` with the looser tolerances of old, whatever the dtypes; deprecated in PyTorch.

    Args:
        actual: Tensor, or what one can be made of.
        expected: the same.
        rtol: relative tolerance; with `atol` or not at all.
        atol: absolute tolerance.
        equal_nan: whether nan equals nan.
        msg: instead of the message.

    Raises:
        AssertionError: they differ.

    Example:
        >>> gradlib.testing.assert_allclose(gradlib.ones(2), gradlib.ones(2) + 1e-6)
    """
    __tracebackhide__ = True
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead. "
        "You can find detailed upgrade instructions in https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    actual = actual if isinstance(actual, Tensor) else ops.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = ops.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected, dtype_precisions=_OLD_TOLERANCES)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )  # fmt: skip


# -- pairs of items ----------------------------------------------------------------------------------------------------


def _leaves(actual: Any, expected: Any, where: Where) -> Iterator[tuple[Any, Any, Where]]:
    """The pairs of items of two containers, or the two themselves."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Failure(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where
            )
        for k in range(len(actual)):
            yield from _leaves(actual[k], expected[k], (*where, k))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        ours, theirs = set(actual), set(expected)
        if ours != theirs:
            raise _Failure(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(theirs - ours)}\n"
                f"Additional keys in the actual mapping: {sorted(ours - theirs)}",
                where,
            )
        keys = list(actual)
        with suppress(TypeError):  # keys without an order
            keys.sort()
        for key in keys:
            yield from _leaves(actual[key], expected[key], (*where, key))
    else:
        yield actual, expected, where


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _comparison(
    actual: Any,
    expected: Any,
    where: Where,
    *,
    allow_subclasses: bool,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    check_dtype: bool,
    check_device: bool,
    check_stride: bool,
) -> Callable[[], None]:
    """The function that compares two items; _Failure if they cannot be compared."""
    if actual is None or expected is None:
        return partial(_same_none, actual, expected, where)
    both = (actual, expected)
    if all(isinstance(v, (bool, np.bool_)) for v in both):
        return partial(_same_bool, bool(actual), bool(expected), where)
    if all(isinstance(v, (int, float, complex, np.number)) for v in both):
        a, b = [v.item() if isinstance(v, np.number) else v for v in both]
        if type(a) not in _NUMBERS or type(b) not in _NUMBERS:  # a bool beside a number
            raise _Failure(
                f"Originating a NumberPair() at item {_item(where)} with\n\n{type(actual).__name__}(): {actual}\n\n"
                f"and\n\n{type(expected).__name__}(): {expected}\n\nis not supported.",
                (),
                RuntimeError,
            )
        rtol, atol = _tolerances(tolerances, where, _NUMBERS[type(a)], _NUMBERS[type(b)])
        return partial(_close_numbers, a, b, where, rtol, atol, equal_nan, check_dtype)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (allow_subclasses or type(actual) is type(expected)):
        x = y = None
        with suppress(Exception):
            x, y = ops.as_tensor(actual), ops.as_tensor(expected)
        if x is not None and y is not None:
            rtol, atol = _tolerances(tolerances, where, x.dtype, y.dtype)
            checks = ["shape"] + ["stride()"] * check_stride
            checks += ["device"] * check_device + ["dtype"] * check_dtype
            return partial(_close_tensors, x, y, where, rtol, atol, equal_nan, checks)
    raise _Failure(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
        where,
        TypeError,
    )


def _tolerances(given: tuple, where: Where, *kinds: dtypes.dtype) -> tuple[float, float]:
    rtol, atol = given
    if (rtol is None) != (atol is None):
        raise _Failure(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}.",
            where,
            ValueError,
        )
    return default_tolerances(*kinds) if rtol is None else (rtol, atol)


# -- comparisons -------------------------------------------------------------------------------------------------------


def _same_none(actual: Any, expected: Any, where: Where) -> None:
    if actual is not expected:
        raise _Failure(f"None mismatch: {actual} is not {expected}", where)


def _same_bool(actual: bool, expected: bool, where: Where) -> None:
    if actual is not expected:
        raise _Failure(f"Booleans mismatch: {actual} is not {expected}", where)


def _close_numbers(
    a: Any, b: Any, where: Where, rtol: float, atol: float, equal_nan: bool, check_type: bool
) -> None:
    if check_type and type(a) is not type(b):
        raise _Failure(f"The (d)types do not match: {type(a)} != {type(b)}.", where)
    if a == b or (equal_nan and cmath.isnan(a) and cmath.isnan(b)):
        return
    difference = abs(a - b)
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(b)):
        raise _Failure(_scalar_text(a, b, rtol, atol), where)


def _close_tensors(
    a: Tensor, b: Tensor, where: Where, rtol: float, atol: float, equal_nan: bool, checks: list[str]
) -> None:
    for name in checks:
        left, right = [x.stride() if name == "stride()" else getattr(x, name) for x in (a, b)]
        if left != right:
            raise _Failure(
                f"The values for attribute '{name}' do not match: {left} != {right}.", where
            )
    a, b = a.detach(), b.detach()
    if a.device != b.device:
        a, b = a.cpu(), b.cpu()
    if a.dtype.itemsize == 1 and a.dtype.is_floating_point:
        a, b = a.to(dtypes.float32), b.to(dtypes.float32)
    if a.dtype is not b.dtype:
        common = dtypes.promote(*[_WIDER.get(x.dtype, x.dtype) for x in (a, b)])
        a, b = a.to(common), b.to(common)
    with no_grad():
        matches = ops.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if bool(matches.all()):
            return
        scalar = not a.dim()
        text = (
            _scalar_text(a.item(), b.item(), rtol, atol)
            if scalar
            else _tensor_text(a, b, matches, rtol, atol)
        )
    raise _Failure(text, where)


# -- texts -------------------------------------------------------------------------------------------------------------


def _scalar_text(a: Any, b: Any, rtol: float, atol: float) -> str:
    absolute = abs(a - b)
    relative = float("inf") if b == 0 else absolute / abs(b)
    lines = [
        f"Expected {b} but got {a}.",
        f"Absolute difference: {absolute}" + _allowed(atol, rtol, atol),
        f"Relative difference: {relative}" + _allowed(rtol, rtol, atol),
    ]
    return _headed("Scalars", lines, rtol, atol)


def _tensor_text(a: Tensor, b: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    wrong, n = int((~matches).sum()), matches.numel()
    if a.dtype.category < dtypes.FLOATING:
        a, b = a.to(dtypes.int64), b.to(dtypes.int64)
    absolute = (a - b).abs()
    lines = [f"Mismatched elements: {wrong} / {n} ({wrong / n:.1%})"]
    for name, all_differences, tolerance in (
        ("absolute", absolute, atol),
        ("relative", absolute / b.abs(), rtol),
    ):
        differences = all_differences.masked_fill(matches, 0)
        flat = differences.flatten()
        place = int(flat.argmax())
        at = tuple(int(k) for k in np.unravel_index(place, tuple(a.shape)))
        lines.append(
            f"Greatest {name} difference: {flat[place].item()} at index {at}"
            + _allowed(tolerance, rtol, atol)
        )
    return _headed("Tensor-likes", lines, rtol, atol)


def _headed(what: str, lines: list[str], rtol: float, atol: float) -> str:
    return f"{what} are not {'close' if rtol or atol else 'equal'}!\n\n" + "\n".join(lines)


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return f" (up to {tolerance} allowed)" if rtol or atol else ""
