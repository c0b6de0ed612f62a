"""layout and memory_format: names for how the elements of a tensor lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .device import beside
from .modes import shared, state, unrecorded
from .switches import switches


class _Named(str):
    """A constant with a name, which copies and pickles as itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def __copy__(self) -> _Named:
        return self

    def __deepcopy__(self, memo: Any) -> _Named:
        return self

    def __reduce__(self) -> Any:
        return named, (str(self),)


class layout(_Named):
    """How a tensor is stored: ``gradlib.strided``, or one of the sparse layouts.

    Example:
        >>> gradlib.ones(2).layout
        torch.strided
    """

    __slots__ = ()


class memory_format(_Named):
    """The order of strides: ``contiguous_format``, ``preserve_format``, ``channels_last``, ``channels_last_3d``.

    Example:
        >>> gradlib.empty(1, 2, 3, 4, memory_format=gradlib.channels_last).stride()
        (24, 1, 8, 2)
    """

    __slots__ = ()


def named(name: str) -> _Named:
    """The constant that is called ``torch.<name>``; ValueError for any other text."""
    formats = (contiguous_format, preserve_format, channels_last, channels_last_3d)
    for constant in (strided, *UNSTORED.values(), *formats):
        if constant == name:
            return constant
    raise ValueError(f"{name!r} is neither a layout nor a memory format")


strided = layout("torch.strided")
# the sparse ones, and those that no tensor has here, to be compared with
UNSTORED = {
    name: layout(f"torch.{name}")
    for name in (
        "sparse_coo",
        "sparse_csr",
        "sparse_csc",
        "sparse_bsr",
        "sparse_bsc",
        "jagged",
        "_mkldnn",
    )
}


def check_layout_name(wanted: Any) -> None:
    """TypeError for what is no layout; NotImplementedError for one that tensors have not here."""
    if not isinstance(wanted, layout):
        raise TypeError(f"argument 'layout' must be torch.layout, not {type(wanted).__name__}")
    if wanted.endswith(("jagged", "mkldnn")):
        raise NotImplementedError(f"gradlib has no tensors of layout {wanted}; use dense ones")


def check_layout(wanted: Any) -> None:
    """NotImplementedError for a layout that functions do not make dense tensors in; TypeError for what is none."""
    check_layout_name(wanted)
    if wanted is not strided:
        raise NotImplementedError(
            f"this function makes dense tensors only, not those of layout {wanted}: use sparse_coo_tensor() or "
            ".to_sparse()"
        )


contiguous_format = memory_format("torch.contiguous_format")
preserve_format = memory_format("torch.preserve_format")
channels_last = memory_format("torch.channels_last")
channels_last_3d = memory_format("torch.channels_last_3d")

# rank -> the dimensions from the one with the longest to the one with the shortest stride
_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}
_BY_RANK = {len(order): wanted for wanted, order in _ORDERS.items()}
_INNER_FIRST = {wanted: order[::-1] for wanted, order in _ORDERS.items()}
_BACK = {channels_last: (0, 3, 1, 2), channels_last_3d: (0, 4, 1, 2, 3)}


def _order(wanted: memory_format, ndim: int) -> tuple[int, ...]:
    order = _ORDERS[wanted]
    if len(order) != ndim:
        raise RuntimeError(f"required rank {len(order)} tensor to use {wanted[6:]} format")
    return order


def has_layout(array: Any, wanted: memory_format | str | None) -> bool:
    """Whether the elements of a raw array lie densely in the order of a memory format."""
    if wanted in _ORDERS:
        order = _ORDERS[wanted]  # type: ignore[index]
        return array.ndim == len(order) and array.transpose(order).flags.c_contiguous
    return array.flags.c_contiguous


def suggested(array: Any) -> memory_format | None:
    """channels_last or channels_last_3d where a raw array lies so and not row by row, else None.

    An array that is both (one channel, or one position) is what its strides say, as in PyTorch. Gaps between the
    elements do not matter: some channels of an array with channels last still lie so.
    """
    wanted = _BY_RANK.get(array.ndim)
    if wanted is None:
        return None
    shape, strides = array.shape, array.strides
    if strides[1] > strides[-1]:  # row-major: the usual case
        return None
    reached, channel = 0, strides[1]
    for d in _INNER_FIRST[wanted]:
        step = strides[d]
        if not channel or not shape[d] or step < reached or (not d and reached == channel):
            break
        reached = step * shape[d]
    else:
        return wanted
    flags = array.flags  # NumPy gives dimensions of length 1 strides of its own
    dense = array.size and not flags.c_contiguous and has_layout(array, wanted)
    return wanted if dense else None


def keeping(
    kernel: Callable, places: tuple[int, ...], n_out: int | None, volumes: bool
) -> Callable:
    """`kernel` with its results channels last where one of its arguments at `places` is so.

    What it returns beyond its `n_out` results, for gradients, is left alone. volumes: with five dimensions, too.
    """

    def kept(xp: Any, *args: Any, **attrs: Any) -> Any:
        out = kernel(xp, *args, **attrs)
        for i in places:
            strides = args[i].strides
            if len(strides) > 3 and strides[1] <= strides[-1] and out is not NotImplemented:
                out = follow(
                    xp, out, args[i], n_out, volumes
                )  # seldom: row-major arrays do not get here
        return out

    return kept


def follow(xp: Any, out: Any, source: Any, n_out: int | None, volumes: bool) -> Any:
    """What a kernel returned, with its `n_out` results channels last if the array `source` is so.

    volumes: with five dimensions, too.
    """
    wanted = suggested(source)
    if wanted is None or not (volumes or wanted is channels_last):
        return out
    if out.__class__ is not tuple:
        return _lay_out(xp, out, wanted)
    kept = n_out or len(out)
    return (*[_lay_out(xp, o, wanted) for o in out[:kept]], *out[kept:])


def _lay_out(xp: Any, out: Any, wanted: memory_format) -> Any:
    return out if suggested(out) is wanted else copy_in(xp, out, wanted)


def copy_in(xp: Any, array: Any, wanted: memory_format | str | None) -> Any:
    """A copy of a raw array in a memory format; without one (or `preserve_format`) strides keep their order.

    Raises RuntimeError where the number of dimensions is not that of the format.
    """
    if wanted in _ORDERS:
        out = empty_in(xp, array.shape, array.dtype, wanted)
        out[...] = array
        return out
    return array.copy(order="C" if wanted == contiguous_format else "K")


def empty_in(xp: Any, shape: tuple, dtype: np.dtype, wanted: memory_format | str | None) -> Any:
    """An uninitialised raw array in a memory format."""
    if wanted not in _ORDERS:
        return xp.empty(shape, dtype)
    order = _order(wanted, len(shape))  # type: ignore[arg-type]
    return xp.empty(tuple([shape[d] for d in order]), dtype).transpose(_BACK[wanted])  # type: ignore[index]


def settled(array: Any) -> Any:
    """A raw array that nobody has written to, filled if everything is to be deterministic.

    Floating types hold nan then, integers their largest number, bools True.
    """
    if not (switches.deterministic and switches.fill_memory):
        return array
    kind = array.dtype.kind
    with beside(array):
        array[...] = True if kind == "b" else np.iinfo(array.dtype).max if kind in "iu" else np.nan
    return array


def unwritten(array: Any) -> Any:
    """`settled`, for memory that was just taken; a plan takes some of the same layout each time."""
    if shared.active and state.capture is not None and array.__class__ is np.ndarray:
        return unrecorded(_memory, array.shape, array.strides, array.dtype)
    return settled(array)


def _memory(shape: tuple, strides: tuple, dtype: Any) -> Any:
    order = sorted(range(len(shape)), key=lambda i: -strides[i])
    back = [order.index(i) for i in range(len(order))]
    return settled(np.empty([shape[i] for i in order], dtype).transpose(back))


def with_strides_of(xp: Any, array: Any, like: Any) -> Any:
    """`array` with the strides of `like` in dimensions of length one too, where NumPy takes any."""
    want = [s // like.itemsize for s in like.strides]
    have = [s // array.itemsize for s in array.strides]
    if want == have or any([n > 1 and a != b for n, a, b in zip(array.shape, want, have)]):
        return array
    return xp.as_strided(array, array.shape, tuple([s * array.itemsize for s in want]))


def order_of(arrays: Any, shape: tuple) -> list[int]:
    """The dimensions from the longest to the shortest stride, as PyTorch orders those of an elementwise result.

    Of two dimensions the first array that has strides for both decides; equal strides leave the decision to the
    lengths, and what nobody decides stays row-major.
    """
    n = len(shape)
    strides = [
        [0] * (n - a.ndim)
        + [0 if a.shape[i] == 1 != shape[n - a.ndim + i] else a.strides[i] for i in range(a.ndim)]
        for a in arrays
    ]

    def outer(i: int, j: int) -> int:
        """1 if dimension i belongs outside of j, -1 if inside, 0 if undecided."""
        for s in strides:
            if s[i] and s[j]:
                if s[i] != s[j]:
                    return 1 if s[i] > s[j] else -1
                if shape[i] > shape[j]:
                    return 1
        return 0

    order = list(range(n - 1, -1, -1))  # innermost first
    for k in range(1, n):
        here = k
        for before in range(k - 1, -1, -1):
            found = outer(order[before], order[here])
            if found > 0:
                order[before], order[here] = order[here], order[before]
                here = before
            elif found < 0:
                break
    return order[::-1]


def empty_ordered(xp: Any, shape: tuple, dtype: Any, order: list[int]) -> Any:
    """An uninitialised dense raw array whose strides fall in the order of the dimensions in `order`."""
    back = [order.index(i) for i in range(len(order))]
    return xp.empty(tuple([shape[d] for d in order]), dtype).transpose(back)


def in_order(xp: Any, result: Any, arrays: Any) -> Any:
    """The result of an elementwise kernel, with its strides in the order of those of `arrays`."""
    out = empty_ordered(xp, result.shape, result.dtype, order_of(arrays, result.shape))
    if out.strides == result.strides:
        return result
    out[...] = result
    return out
