"""Large elementwise ops on several threads, without a question in the way of small ones.

Asking an array for its size costs some percent of a small op. So the code of ops (`write.py`, `write_node.py`) does not
ask, until the process first meets something large that several threads compute: then `begin` has it written anew, with
the question in it. What is computed stays the same to the last bit: a ufunc, or a formula of ufuncs, gives of each
element what it gives of the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import formulas

LARGE = 1 << 19  # elements from which an op of its own is spread
PIECE = 1 << 16  # elements: what a formula makes on its way stays in the cache
LONG_PIECE = (
    1 << 18
)  # of a ufunc, which makes nothing on its way: shorter ones wait for Python's lock more often

begun = False
_share: Callable[
    [int, Callable[[int], Any]], None
]  # share(count, piece): `devices/numpy/parallel.py`
_width: Callable[[], int]
_rewrite: list[Callable[[], None]] = []


def share_by(share: Callable, width: Callable[[], int]) -> None:
    """Hand over what runs pieces on threads, and what tells how many there are."""
    global _share, _width
    _share, _width = share, width


def share(count: int, piece: Callable[[int], Any]) -> None:
    """``piece(i)`` for all i below `count`, in any order, on several threads."""
    _share(count, piece)


def width() -> int:
    """How many threads a computation may use now."""
    return _width()


def at_begin(rewrite: Callable[[], None]) -> None:
    """`rewrite()` is called when spreading begins."""
    _rewrite.append(rewrite)


def begin() -> None:
    """From now on ops look at the size of their arguments."""
    global begun
    if not begun:
        begun = True
        for rewrite in _rewrite:
            rewrite()


def met(size: int) -> None:
    """Somebody has come across an array of `size` elements."""
    if size >= LARGE and not begun and _width() > 1:
        begin()


def suits(op: Any) -> bool:
    """Whether each element of the result of an op depends on those at its place alone."""
    return (
        op.elementwise
        and op.pieces
        and op.n_out == 1
        and not (op.hidden or op.leaves_device or op.sparse or op.variadic or op.view)
    )


def spreadable(op: Any, wants: tuple) -> bool:
    """Whether a gradient formula of an op, which wants these values, is of the same kind."""
    values = {"g", "F", "result", *op.tensors, *op.attrs}
    return suits(op) and "g" in wants and values.issuperset(wants)


def large(arrays: Iterable) -> bool:
    """Whether one of some raw arrays is large enough."""
    return any([a.__class__ is np.ndarray and a.size >= LARGE for a in arrays])


def _flat(values: tuple) -> tuple[list, tuple] | None:
    """The arguments with arrays of one shape as vectors, and that shape; None where they are not all like that.

    One of them is without gaps; others may be a number that is repeated, as the gradient of a sum is.
    """
    shape, flat, dense = None, [], False
    for v in values:
        if v.__class__ is np.ndarray and v.ndim:
            if shape is None:
                shape = v.shape
            if v.shape != shape or not v.size:
                return None
            if v.flags.c_contiguous:
                v, dense = v.reshape(-1), True
            elif any(v.strides):
                return None
            else:
                v = as_strided(v, (v.size,), (0,), writeable=False)
        elif not isinstance(v, _SINGLE) and v.__class__ is not formulas.Namespace:
            return None
        flat.append(v)
    return None if shape is None or not dense else (flat, shape)


_SINGLE = (np.ndarray, np.generic, bool, int, float, complex, str, type(None), np.dtype)


def _rows(values: tuple) -> tuple[list, tuple] | None:
    """The same for arguments that are broadcast, as they are; None where they are not for pieces of rows.

    One has the shape of the result, and all are without gaps, so that the result is, too.
    """
    arrays = [v for v in values if v.__class__ is np.ndarray and v.ndim]
    if len(arrays) < 2 or not all([a.flags.c_contiguous and a.size for a in arrays]):
        return None
    shape = max(arrays, key=lambda a: a.size).shape
    if len(shape) < 2 or any([a.ndim > len(shape) for a in arrays]):
        return None
    for a in arrays:
        if any([n not in (1, m) for n, m in zip(a.shape[::-1], shape[::-1], strict=False)]):
            return None
    return list(values), shape


def _found(values: tuple) -> tuple[list, tuple, Any] | None:
    """The arguments of a ufunc for `into`, the shape of the result, and the shape to write it in."""
    if _width() == 1:
        return None
    if (found := _flat(values)) is not None:
        return *found, -1
    if (found := _rows(values)) is not None:
        return *found, found[1]
    return None


def _cut(values: Iterable, like: Any, part: slice) -> list:
    """A part of each of the values that have as many rows as `like`, and what is the same for all rows."""
    n, ndim = len(like), like.ndim
    return [v[part] if getattr(v, "ndim", 0) == ndim and len(v) == n else v for v in values]


def spread(kernel: Any, *arrays: Any, out: Any = None) -> Any:
    """``kernel(*arrays)`` of a ufunc, on several threads where its arguments allow it.

    out: a contiguous array of the shape and dtype of the result, which is written there.
    """
    found = _found(arrays)
    if found is None:
        return kernel(*arrays) if out is None else kernel(*arrays, out=out)
    given, shape, written = found
    if out is None:
        none = [v.reshape(-1)[:0] if getattr(v, "ndim", 0) else v for v in given]
        out = np.empty(shape, kernel(*none).dtype)
    into(kernel, *given, out.reshape(written))
    return out


def into(kernel: Any, *arrays: Any) -> None:
    """``kernel(*arrays[:-1], out=arrays[-1])``, piece by piece: of vectors, or of rows."""
    *given, out = arrays
    step = max(1, LONG_PIECE * len(out) // out.size)

    def piece(k: int) -> None:
        part = slice(k * step, (k + 1) * step)
        kernel(*_cut(given, out, part), out=out[part])

    _share(-(-len(out) // step), piece)


def spread_inplace(kernel: Any, *arrays: Any) -> bool:
    """``kernel(*arrays, out=arrays[0])`` of a ufunc; False where it is not for threads, and nothing is written."""
    found = _found(arrays)
    if found is None:
        return False
    (target, *others), shape, _ = found
    if not target.flags.writeable or target.size != math.prod(shape):
        return False
    for k, v in enumerate(others):
        if v.__class__ is np.ndarray and np.may_share_memory(v, target):
            if not v.ndim:
                others[k] = v.copy()  # one of the numbers that are written
            elif v.ctypes.data != target.ctypes.data or v.shape != target.shape:
                return False
    into(kernel, target, *others, target)
    return True


def spread_formula(kernel: Callable, xp: Any, /, *arrays: Any, **attrs: Any) -> Any:
    """``kernel(xp, *arrays, **attrs)`` of an elementwise op, likewise."""
    return spread_gradient(lambda *some: kernel(xp, *some, **attrs), *arrays, also=attrs.values())


def spread_gradient(formula: Callable, /, *values: Any, also: Iterable = ()) -> Any:
    """``formula(*values)`` of arrays, numbers and a namespace `F`, likewise; `also`: what else it depends on."""
    found = _flat(values) if _width() > 1 and all([_single(v) for v in also]) else None
    if found is None:
        return formula(*values)
    flat, shape = found
    n = next(v.size for v in flat if _is_vector(v))
    if n <= PIECE:
        return formula(*values)

    def part(i: int) -> tuple[Any, list]:
        some = [v[i : i + PIECE] if _is_vector(v) else v for v in flat]
        return formula(*some), some

    first, some = part(0)
    if first.__class__ is not np.ndarray or first.shape != (min(PIECE, n),):
        return formula(*values)
    if any([np.may_share_memory(first, v) for v in some if v.__class__ is np.ndarray]):
        return formula(*values)  # it gives an argument back
    out = np.empty(n, first.dtype)
    out[:PIECE] = first
    odd = []

    def piece(k: int) -> None:
        i = (k + 1) * PIECE
        made = part(i)[0]
        if made.__class__ is not np.ndarray or made.dtype != out.dtype:
            odd.append(k)
        else:
            out[i : i + PIECE] = made

    _share(-(-n // PIECE) - 1, piece)
    return formula(*values) if odd else out.reshape(shape)


def _is_vector(value: Any) -> bool:
    return value.__class__ is np.ndarray and value.ndim == 1


def _single(value: Any) -> bool:
    return not value.ndim if isinstance(value, np.ndarray) else isinstance(value, _SINGLE)
