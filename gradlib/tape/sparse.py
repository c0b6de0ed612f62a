"""The raw array of a sparse tensor: where its values stand, a `Pattern`, and the values, an array of the device.

A `Sparse` takes the place of a NumPy or CuPy array in a Tensor, and of a raw gradient in a backward pass. It knows what
the engine does with gradients (add, scale, convert); every other function on arrays refuses it by name. Ops on sparse
tensors are compositions of dense ones on the values: see `operators.sparse`.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .arrays import kernels_of
from .device import beside, copied
from .layout import layout
from .modes import shared
from .pattern import BLOCKED as BLOCKED
from .pattern import BSC as BSC
from .pattern import BSR as BSR
from .pattern import BY_ROWS as BY_ROWS
from .pattern import COO as COO
from .pattern import CSC as CSC
from .pattern import CSR as CSR
from .pattern import INT64 as INT64
from .pattern import SPELLED as SPELLED
from .pattern import Pattern as Pattern
from .pattern import compress as compress
from .pattern import keys_of as keys_of
from .pattern import repeated as repeated

# what arrays have, so that an AttributeError would mislead who is given a sparse one
_OF_DENSE = frozenset([name for name in dir(np.ndarray) if name[0] != "_"])


class Sparse:
    """The values of a sparse tensor and where they stand: what a NumPy array is for a dense one."""

    __slots__ = ("__weakref__", "pattern", "values")
    __array_priority__ = 100
    __hash__ = object.__hash__

    def __init__(self, pattern: Pattern, values: Any):
        if shared.sparse is None:
            _begin()
        self.pattern, self.values = pattern, values

    shape = property(lambda self: self.pattern.shape)
    ndim = property(lambda self: len(self.pattern.shape))
    size = property(lambda self: math.prod(self.pattern.shape))
    dtype = property(lambda self: self.values.dtype)
    itemsize = property(lambda self: self.values.itemsize)
    nbytes = property(lambda self: self.values.nbytes)

    def __repr__(self) -> str:
        return f"Sparse({self.pattern.layout}, {self.shape}, {self.dtype}, {self.pattern.count})"

    def __reduce__(self) -> Any:
        return Sparse, (self.pattern, self.values)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_DENSE:
            raise NotImplementedError(
                f"this needs the memory of a dense tensor ({name}), but was given one of layout "
                f"{self.pattern.layout}: use its .to_dense(), or .values()"
            )
        raise AttributeError(f"'Sparse' object has no attribute {name!r}")

    def get(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: what copies an array to the host asks for it."""
        raise TypeError(
            f"can't convert {SPELLED[self.pattern.layout]} layout tensor to numpy. Use Tensor.to_dense() first."
        )

    __array__ = get

    def __array_function__(self, func: Any, *args: Any) -> NoReturn:
        raise _refused(func.__name__, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's side of ``array + sparse`` and ``array += sparse``; every other function is refused."""
        if method == "__call__" and len(inputs) == 2 and isinstance(inputs[1], Sparse):
            target = kwargs.get("out", (None,))[0]
            if ufunc is np.add and (target is None or target is inputs[0]):
                return inputs[1].add_onto(inputs[0], target is not None)
            if ufunc is np.multiply and target is None:
                return inputs[1] * inputs[0]
        raise _refused(ufunc.__name__, self)

    def __eq__(self, other: object) -> NoReturn:
        raise _refused("eq", self)

    def __ne__(self, other: object) -> NoReturn:
        raise _refused("ne", self)

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        raise BufferError("Cannot pack sparse tensors: use .to_dense(), or .values()")

    def like(self, values: Any) -> Sparse:
        """Other values at the same places."""
        return Sparse(self.pattern, values)

    def assign(self, other: Sparse) -> None:
        """Become what `other` is: all tensors on this array see it."""
        self.pattern, self.values = other.pattern, other.values

    def copy(self, order: str = "C") -> Sparse:
        return self.like(copied(self.values))

    def __deepcopy__(self, memo: Any) -> Sparse:
        return self.copy()

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> Sparse:
        with beside(self):
            return self.like(self.values.astype(dtype, copy=copy))

    def conjugate(self) -> Sparse:
        return self.like(self.values.conjugate())

    conj = conjugate

    # -- what happens to gradients -------------------------------------------------------------------------------

    def __neg__(self) -> Sparse:
        return self.like(-self.values)

    def __mul__(self, other: Any) -> Sparse:
        if not getattr(other, "ndim", 0):
            return self.like(self.values * other)
        xp = kernels_of(self.values)
        self = coalesced(self)
        return self.like(self.values * picked(self.pattern, xp.broadcast_to(other, self.shape)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Sparse:
        if getattr(other, "ndim", 0):
            raise _refused("div", self)
        return self.like(self.values / other)

    def __add__(self, other: Any) -> Any:
        return added(self, other) if isinstance(other, Sparse) else self.add_onto(other)

    def __radd__(self, other: Any) -> Any:
        return self.add_onto(other)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return (-self).add_onto(other)

    def sum(self, axis: tuple[int, ...]) -> Any:
        """The dense sum over axes: what the gradient of an argument that was broadcast is."""
        array = to_coo(self)
        n = array.pattern.sparse_dim
        if set(range(n)) <= set(axis):
            return array.values.sum((0, *[d - n + 1 for d in axis if d >= n]))
        return dense(array).sum(axis)

    def summed_to(self, axis: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        """The sum over axes in another shape: sparse where the axes are dense ones that stay, of length 1."""
        n = self.pattern.sparse_dim
        if self.pattern.layout is not COO or len(shape) < len(self.shape) or min(axis) < n:
            return self.sum(axis).reshape(shape)
        values = self.values.sum(tuple([d - n + 1 for d in axis]), keepdims=True)
        return Sparse(Pattern(COO, shape, self.pattern.indices, self.pattern.coalesced), values)

    def __getitem__(self, key: Any) -> NoReturn:
        raise _refused("indexing", self)

    def add_onto(self, dense: Any, in_place: bool = False) -> Any:
        """``dense + self`` as a dense array, in the memory of `dense` if so asked."""
        if not getattr(dense, "ndim", 0) and self.ndim:
            raise _refused("add of a number", self)
        out = dense
        if not in_place:
            out = dense.astype(
                np.result_type(dense.dtype, self.dtype)
                if dense.dtype != self.dtype
                else dense.dtype
            )
        scattered(self, out)
        return out


_needed: list[Callable[[], None]] = []
_beginning = threading.RLock()


def comes_with(load: Callable[[], None]) -> None:
    """Let `load` be called before there is a first sparse array: few programs have one."""
    _needed.append(load)


def _begin() -> None:
    with _beginning:  # another thread waits until all is there
        for load in _needed:
            load()
        _needed.clear()
        shared.sparse = Sparse


def _refused(name: str, array: Sparse) -> NotImplementedError:
    return NotImplementedError(refusal(name, array.pattern.layout))


def refusal(name: str, kind: layout) -> str:
    """What is said where an op has no kernel for a sparse tensor."""
    return f"{name} is not implemented for tensors of layout {kind}: use .to_dense() on them first"


def is_sparse(tensor: Any) -> bool:
    """Whether a Tensor is sparse, of whatever layout."""
    return getattr(tensor, "_array", None).__class__ is Sparse


def among(values: Any) -> bool:
    """Whether one of the arguments of an op is a sparse tensor."""
    for value in values:
        if getattr(value, "_array", None).__class__ is Sparse:
            return True
        if value.__class__ in (list, tuple) and among(value):
            return True
    return False


def among_gradients(*gradients: Any) -> bool:
    """Whether one of some gradients, raw arrays, Tensors or None, is sparse."""
    return any([getattr(g, "_array", g).__class__ is Sparse for g in gradients])


# -- on raw arrays -------------------------------------------------------------------------------------------------


def _on_its_device(function: Any) -> Any:
    """A function whose first argument is a sparse array or a pattern, run with its device current."""

    @functools.wraps(function)
    def call(first: Any, *args: Any) -> Any:
        with beside(first) if isinstance(first, Sparse) else first.there():
            return function(first, *args)

    return call


@_on_its_device
def to_coo(array: Sparse) -> Sparse:
    """The same numbers in COO."""
    pattern, order = array.pattern.coo()
    if pattern is array.pattern:
        return array
    flat = array.values
    if array.pattern.block:
        flat = flat.reshape(-1)
    return Sparse(pattern, flat if order is None else flat[order])


@_on_its_device
def sorted_order(pattern: Pattern) -> tuple[Any, Any, Any]:
    """The stable order of the places of a COO pattern, the sorted keys, and which of those are new."""
    xp = kernels_of(pattern.indices)
    keys = pattern.keys()
    order = keys.argsort(kind="stable") if keys.__class__ is np.ndarray else keys.argsort()
    keys = keys[order]
    new = xp.ones(keys.shape, bool)
    new[1:] = keys[1:] != keys[:-1]
    return order, keys, new


@_on_its_device
def coalesced(array: Sparse) -> Sparse:
    """Each place once, in order; values of the same place are added."""
    pattern = array.pattern
    if pattern.layout is not COO or pattern.coalesced:
        return array
    xp, values = kernels_of(array.values), array.values
    keys = pattern.keys()
    if keys.shape[0] < 2 or bool((keys[1:] > keys[:-1]).all()):
        return Sparse(Pattern(COO, pattern.shape, pattern.indices, True), values)
    order, keys, new = sorted_order(pattern)
    first = order[new]
    out = values.take(first, axis=0)
    if first.shape[0] < keys.shape[0]:
        more = ~new
        group = (xp.cumsum(new) - 1)[more]
        if values.dtype.itemsize == 2 and values.dtype.kind in "fV":  # half types: rounded once
            wide = out.astype(np.float32)
            xp.add_at(wide, (group,), values[order[more]].astype(np.float32))
            out = wide.astype(values.dtype)
        else:
            xp.add_at(out, (group,), values[order[more]])
    made = Pattern(COO, pattern.shape, pattern.indices.take(first, axis=1), True)
    made._kept["keys"] = keys[new]
    return Sparse(made, out)


@_on_its_device
def coo_parts(array: Sparse) -> Sparse:
    """Coalesced COO of any sparse array."""
    return coalesced(to_coo(array))


@_on_its_device
def scattered(array: Sparse, out: Any) -> None:
    """Add the values of a sparse array to a dense one of its shape, or one that it broadcasts to."""
    array = to_coo(array)
    pattern, values = array.pattern, array.values
    if out.shape != array.shape:
        out[...] += dense(array)
        return
    values = values.astype(out.dtype, copy=False)
    xp, key = kernels_of(values), tuple(pattern.indices)
    if not key:
        out[...] += values.sum(0)
    elif pattern.coalesced:
        out[key] += values
    else:
        xp.add_at(out, key, values)


@_on_its_device
def dense(array: Sparse) -> Any:
    """The dense array of the same numbers."""
    out = kernels_of(array.values).zeros(array.shape, array.dtype)
    scattered(array, out)
    return out


@_on_its_device
def picked(pattern: Pattern, array: Any) -> Any:
    """The elements of an array, dense or sparse, at the places of a COO pattern."""
    if not isinstance(array, Sparse):
        key = tuple(pattern.indices)
        if key:
            return array[key]
        xp = kernels_of(array)
        return xp.broadcast_to(array, (pattern.count, *array.shape)).copy()
    if array.pattern is pattern and pattern.coalesced:
        return array.values
    array = coo_parts(array)
    have = array.pattern
    if have.sparse_dim != pattern.sparse_dim:
        return picked(pattern, dense(array))
    if have.indices is pattern.indices:
        return array.values
    xp, keys, known = kernels_of(array.values), pattern.keys(), have.keys()
    if not have.count:
        return xp.zeros(pattern.values_shape, array.dtype)
    at = xp.minimum(xp.searchsorted(known, keys), have.count - 1)
    found = (known[at] == keys).reshape(-1, *(1,) * (array.values.ndim - 1))
    return xp.where(found, array.values[at], xp.zeros((), array.dtype))


@_on_its_device
def added(first: Sparse, second: Sparse) -> Sparse:
    """The sum of two sparse arrays of one shape: coalesced if both are, else the one after the other."""
    kind = first.pattern.layout
    if kind is not COO or second.pattern.layout is not COO:
        total = coalesced(added(coo_parts(first), coo_parts(second)))
        return total if kind is COO else compressed(total, kind, first.pattern.block)
    if first.pattern.sparse_dim != second.pattern.sparse_dim:
        raise RuntimeError(
            f"add: operands have incompatible sparse dimensions: {first.pattern.sparse_dim} and "
            f"{second.pattern.sparse_dim}"
        )
    xp = kernels_of(first.values)
    both = first.pattern.coalesced and second.pattern.coalesced
    if first.pattern is second.pattern and both:
        return first.like(first.values + second.values)
    indices = xp.concatenate([first.pattern.indices, second.pattern.indices], axis=1)
    values = xp.concatenate([first.values, second.values])
    total = Sparse(Pattern(COO, first.shape, indices), values)
    return coalesced(total) if both else total


@_on_its_device
def compressed(array: Sparse, kind: layout, block: tuple[int, int] | None = None) -> Sparse:
    """A coalesced matrix in a compressed layout."""
    pattern, order = compress(array.pattern, kind, block)
    return Sparse(pattern, placed(array.values, order, pattern))


def placed(values: Any, order: Any, pattern: Pattern) -> Any:
    """The values of a coalesced matrix as `pattern` wants them; `order` is what `compress` gave."""
    if pattern.block is None:
        return values if order is None else values[order]
    out = kernels_of(values).zeros(math.prod(pattern.values_shape), values.dtype)
    out[order] = values
    return out.reshape(pattern.values_shape)


def without_values(array: Sparse) -> Sparse:
    """An array of the same shape, layout and dtype without values."""
    xp, pattern = kernels_of(array.values), array.pattern
    empty = Pattern(COO, pattern.shape, xp.zeros((pattern.sparse_dim, 0), INT64), True)
    found = Sparse(empty, xp.zeros(empty.values_shape, array.dtype))
    return found if pattern.layout is COO else compressed(found, pattern.layout, pattern.block)
