"""Views that conjugate or negate: ``x.conj()``, ``x.mH``, ``x.conj().imag``.

Such a tensor has the memory of what it is a view of, and a :class:`Lazy` array, which knows the *physical* tensor
(plain, on the same memory) and what happens to its values on the way. Conjugation and negation act on each element,
so a view op acts on the physical tensor and gives a lazy tensor again; any other op gets the values
(:func:`resolved`), and an in-place op writes its result back through the same map, which is its own inverse
(:func:`store`). `interpret.general` and `inplace.inplace` see to that; what reads raw arrays elsewhere calls
:func:`raw_values`. A Lazy array that is read by mistake raises, and holds nan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from . import handed
from .arrays import kernels_of
from .device import beside, copied
from .modes import FORWARD_AD, shared, state
from .node import AccumulateGrad, edge
from .pytree import unflatten
from .storage import INFERENCE, bump, share
from .valueless import Valueless

if TYPE_CHECKING:
    from .tensor import Tensor

CONJ, NEG = 1, 2
BITS = {"": 0, "conj": CONJ, "neg": NEG, "conj neg": CONJ | NEG}  # by the names in declarations


class Lazy(Valueless):
    """Shape, dtype and strides of a tensor whose values are the conjugate or the negative of what is in memory."""

    physical: Tensor
    bits: int
    refusal = (
        "{} needs the values of a tensor with the conjugate or negative bit set: resolve it first"
    )

    # NumPy itself sees one number, nan, again and again: strides into other memory would lead anywhere.
    @property
    def strides(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.physical._array.strides

    @property
    def flags(self) -> Any:  # type: ignore[override]
        return self.physical._array.flags

    @property
    def base(self) -> Any:  # type: ignore[override]
        return self.physical._array.base

    def get(self) -> np.ndarray:
        """What copies an array of a device to the host: the values."""
        array = mapped(self.physical._array, self.bits)
        return array if array.__class__ is np.ndarray else array.get()


_NOTHING: dict[np.dtype, Any] = {}
make = np.ndarray.__new__


def _nothing(dtype: np.dtype) -> Any:
    """The bytes of a number that shows that it was read by mistake: nan, or the smallest integer."""
    value = np.iinfo(dtype).min if dtype.kind in "iu" else np.nan
    found = _NOTHING[dtype] = np.full((), value, dtype).tobytes()
    return found


def wrap(physical: Tensor, bits: int) -> Any:
    """The raw array of a tensor on the memory of the plain tensor `physical`: Lazy unless `bits` are zero."""
    array = physical._array
    if not bits:
        return array
    shared.lazy = True
    dtype, shape = array.dtype, array.shape
    nothing = _NOTHING.get(dtype) or _nothing(dtype)
    lazy = make(Lazy, shape, dtype, nothing, 0, (0,) * len(shape))
    lazy.physical, lazy.bits = physical, bits
    return lazy


def flipped(array: Any, bits: int) -> Any:
    """The raw array of a view of a plain raw array: the kernel of ops with `flips`."""
    return wrap(handed.Tensor._make(array), bits)


def is_lazy(tensor: Any) -> bool:
    """Whether a tensor is the conjugate or the negative of what is in its memory."""
    return isinstance(tensor, handed.Tensor) and tensor._array.__class__ is Lazy


def bits_of(tensor: Tensor) -> int:
    """What happens to what is in memory: CONJ, NEG, both or neither."""
    array = tensor._array
    while array.__class__ is not Lazy:
        if not isinstance(array, Valueless) or not hasattr(array, "physical"):
            return 0
        array = array.physical._array  # the batch, inside vmap
    return array.bits


def refuse_bits(tensor: Any) -> None:
    """RuntimeError if the memory of `tensor` does not hold its values."""
    if bits := bits_of(tensor):
        kind, name = ("conjugate", "conj") if bits & CONJ else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {kind} bit set. Use tensor.resolve_{name}().numpy() instead."
        )


def physical_of(tensor: Tensor) -> Tensor:
    """The plain tensor on the memory of `tensor`, outside all graphs and with a version counter of its own."""
    array = tensor._array
    return handed.Tensor._make(array.physical._array if array.__class__ is Lazy else array)


def mapped(array: Any, bits: int) -> Any:
    """A new raw array: `array` conjugated, negated or both; `array` itself if `bits` are zero."""
    if not bits:
        return array

    xp = kernels_of(array)
    if isinstance(array, (np.ndarray, np.generic)):  # a formula may give a number for a 0-dim array
        first = np.asarray(xp.conjugate(array) if bits & CONJ else xp.negative(array))
        return np.negative(first, out=first) if bits == CONJ | NEG else first
    out = copied(array, "K")  # CuPy's ufuncs keep other orders of strides than NumPy's
    with beside(out):
        if bits & CONJ:
            xp.conjugate(out, out=out)
        if bits & NEG:
            xp.negative(out, out=out)
    return out


def raw_values(tensor: Tensor) -> Any:
    """The raw array with the values of `tensor`: its own unless it is lazy."""
    array = tensor._array
    return mapped(array.physical._array, array.bits) if array.__class__ is Lazy else array


def unpacked(tensor: Tensor) -> Tensor:
    """A plain tensor with the values and the history of a lazy one, in memory of its own."""
    out = handed.Tensor._make(raw_values(tensor))
    if tensor._rg:
        out._rg = True
        node, nr = edge(tensor)
        if node.__class__ is AccumulateGrad:
            out._accumulator_of(tensor)
        elif node is not None:
            out._fn, out._nr = node, nr
    if state.bits & FORWARD_AD:
        tangent = handed.tangent_of(tensor)
        if tangent is not None:
            handed.own_tangent(out, resolved(tangent))
    return out


def resolved(tensor: Tensor) -> Tensor:
    """`tensor`, if it is lazy as a plain one with the same history: what an op is given in its place.

    To save it is to save `tensor`: it shares the version counter, and `_saved_<name>` of a node gives `tensor`.
    """
    if tensor._array.__class__ is not Lazy:
        return tensor
    out = unpacked(tensor)
    out._ver = INFERENCE if tensor._ver is INFERENCE else share(tensor)
    out._stands_for = tensor  # type: ignore[attr-defined]
    return out


def arguments(op: Any, args: tuple) -> tuple:
    """The arguments of `op` with the values of the lazy ones, unless it is a view op that hands them on."""
    for a in args:
        if getattr(a, "_array", None).__class__ is Lazy:
            break
    else:
        return args
    if op.flips or (op.view and not bits_of(args[0]) & ~BITS[op.carries]):
        return args
    found: dict[int, Tensor] = {}  # one for an argument that is there twice
    out = []
    for a in args:
        if is_lazy(a):
            a = found[id(a)] = found.get(id(a)) or resolved(a)
        out.append(a)
    return tuple(out)


def raw_view(op: Any, tensor: Tensor, attrs: tuple) -> Any:
    """The raw result(s) of a view op on a lazy tensor, which are lazy in the same way, or plain again."""
    physical, bits = physical_of(tensor), bits_of(tensor)
    if op.flips:
        return wrap(handed.Tensor._make(physical._array[...]), bits ^ BITS[op.flips])

    raw, _ = handed.compute_raw(op, (physical,), attrs)
    if op.n_out == 1:
        return wrap(handed.Tensor._make(raw), bits)
    return tuple([wrap(handed.Tensor._make(r), bits) for r in raw])


def store(tensor: Tensor, array: Any) -> None:
    """Write raw values into the memory of `tensor`, so that it has them; dtype and shape may need converting."""
    own = tensor._array
    target = own.physical._array if own.__class__ is Lazy else own
    with beside(target):
        if own.__class__ is Lazy:
            array = mapped(array.astype(target.dtype, copy=False), own.bits)
        target[...] = array


@contextmanager
def plainly(tensors: list[Tensor]) -> Iterator[None]:
    """Lazy tensors and lazy gradients among `tensors` have plain arrays for a block, which may write to the tensors."""
    swapped = [(t, t._array) for t in tensors if is_lazy(t)]
    gradients: list[Any] = [(t, t._grad) for t in tensors if is_lazy(t._grad)]
    for t, _ in swapped:
        t._array = raw_values(t)
    for t, grad in gradients:
        t._grad = resolved(grad)
    try:
        yield
    finally:
        for t, own in swapped:
            written, t._array = t._array, own
            store(t, written)
        for t, grad in gradients:
            t._grad = grad


def run_on_values(function: Any, leaves: list, spec: Any, writes: bool) -> Any:
    """``function(*args, **kwargs)``, which reads raw arrays, on resolved arguments.

    writes: to the first, without history.
    """
    first = leaves[0]
    given = [resolved(v) if is_lazy(v) else v for v in leaves]
    if writes and is_lazy(first):
        given[0] = unpacked(first)
    args, kwargs = unflatten(given, spec)
    out = function(*args, **kwargs)
    if given[0] is not first and writes:
        store(first, given[0]._array)
        bump(first)
        return first if out is given[0] else out
    return out
