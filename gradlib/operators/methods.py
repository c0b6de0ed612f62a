"""Methods of Tensor that are no function: filling a diagonal, applying Python functions, old names."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ..op.declare import declare
from ..op.expose import method, prop
from ..op.plain_numbers import plain_number, single_number
from ..op.vmap import each_entry
from ..op.writing import InPlace, on_copy
from ..tape import dtypes, errors, handed, memory, override
from ..tape.storage import before_write, bump
from ..tape.tensor import Size, Tensor, to_host
from .shape.reshape import alias_op

# -- fill_diagonal_ ----------------------------------------------------------------------------------------------


def _fill_diagonal_into(xp, self, *, value, wrap):
    n, step = min(self.shape), sum(s // self.itemsize for s in self.strides)
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1] + 1:
        for first in range(0, self.shape[0], self.shape[1] + 1):
            block = self[first : first + self.shape[1]]
            _fill_diagonal_into(xp, block, value=value, wrap=False)
    elif n:
        xp.as_strided(self, (n,), (step * self.itemsize,))[...] = value


fill_diagonal_op = declare(
    "fill_main_diagonal", on_copy(_fill_diagonal_into), complex=True, inplace=True,
    self=lambda F, g, wrap: F.fill_main_diagonal(g, 0, wrap),
    jvp=lambda F, self_t, wrap: F.fill_main_diagonal(self_t, 0, wrap),
    samples=lambda t: [(t(3, 4), 2.0, False), (t(7, 2), 2.0, True), (t(3, 3, 3), 1.0, False), (t(0, 2), 1.0, False)],
)  # fmt: skip
_fill_diagonal_in_place = InPlace(fill_diagonal_op, _fill_diagonal_into)


@method("fill_diagonal_")
def fill_diagonal_(self, fill_value, wrap=False):
    """`fill_value` written where all indices are equal.

    Args:
        fill_value: a number.
        wrap: whether the diagonal of a tall matrix starts again after a row that is left out.

    Returns:
        This tensor.

    Raises:
        RuntimeError: a vector, more than two dimensions of different lengths, or a leaf that requires grad.

    Example:
        >>> gradlib.zeros(2, 3).fill_diagonal_(7)
        tensor([[7., 0., 0.],
                [0., 7., 0.]])
    """
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    value = (single_number if 1 in shape else plain_number)(fill_value, self.dtype)
    return _fill_diagonal_in_place(self, (), (value, bool(wrap)))


# -- Python functions of elements --------------------------------------------------------------------------------


def _host_only(x: Tensor, name: str) -> None:
    if x._rg:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    if x.is_cuda:
        raise TypeError(f"{name} is only implemented on CPU tensors")


@each_entry
def _each_(x: Tensor, function, *others: Tensor) -> Tensor:
    """`x` with ``function(x_i, other_i...)`` in the place of each element."""
    array = x._array
    items = [np.broadcast_to(to_host(o._array), array.shape).ravel().tolist() for o in (x, *others)]
    before_write(x)
    values = [function(*row) for row in zip(*items)]
    array[...] = np.array(values, array.dtype).reshape(array.shape)
    bump(x)
    return x


@method("apply_")
def apply_(self, callable):
    """Every element replaced by ``callable(element)``: slow, since it is a call of Python for each.

    Args:
        callable: takes and returns a number.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the tensor requires grad.
        TypeError: the tensor is on a device.

    Example:
        >>> gradlib.tensor([1.0, 2.0]).apply_(lambda x: x * x)
        tensor([1., 4.])
    """
    _host_only(self, "apply_")
    return _each_(self, callable)


@method("map_")
def map_(self, tensor, callable):
    """Every element replaced by ``callable(element, other)``, where `other` is the element of `tensor` at its place.

    Args:
        tensor: a tensor that broadcasts to this shape.
        callable: takes two numbers and returns one.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the tensor requires grad, or the shapes do not fit.
        TypeError: `tensor` is none, or this one is on a device.

    Example:
        >>> gradlib.tensor([1.0, 5.0]).map_(gradlib.tensor([3.0, 3.0]), max)
        tensor([3., 5.])
    """
    _host_only(self, "map_")
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"map_(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    errors.check_broadcast(self._array.shape, tensor._array.shape)
    return _each_(self, callable, tensor)


@method("map2_")
def map2_(self, x, y, callable):
    """Every element replaced by ``callable(element, a, b)`` of the elements of `x` and `y` at its place.

    Args:
        x, y: tensors of this dtype that broadcast to this shape.
        callable: takes three numbers and returns one.

    Returns:
        This tensor.

    Raises:
        RuntimeError: a tensor requires grad, or the shapes do not fit.
        TypeError: `x` or `y` is no tensor of this dtype, or this one is on a device.

    Example:
        >>> gradlib.ones(2).map2_(gradlib.tensor([1.0, 2.0]), gradlib.ones(2), lambda a, b, c: a + b * c)
        tensor([2., 3.])
    """
    _host_only(self, "map2_")
    for name, other in (("x", x), ("y", y)):
        if not isinstance(other, Tensor):
            raise TypeError(
                f"map2_(): argument '{name}' must be Tensor, not {type(other).__name__}"
            )
        if other.dtype is not self.dtype:
            raise TypeError(
                f"map2_: expected {errors.tensor_type(self)} for argument '{name}' "
                f"(got {errors.tensor_type(other)})"
            )
        wrong = errors.broadcast(self._array.shape, other._array.shape)
        if wrong is not None:
            raise wrong
    return _each_(self, callable, x, y)


@prop("_cdata")
def _cdata(self):
    """A number that no other tensor of this moment has."""
    return id(self)


# -- subclasses, memory, old names -------------------------------------------------------------------------------


@method("as_subclass")
def as_subclass(self, cls):
    """The same memory and history as an instance of a subclass of Tensor.

    Args:
        cls: the class.

    Returns:
        An instance of `cls`; gradients flow through it.

    Raises:
        TypeError: `cls` is no subclass of Tensor.

    Example:
        >>> class Angle(gradlib.Tensor): ...
        >>> type(gradlib.zeros(1).as_subclass(Angle)).__name__
        'Angle'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    out = alias_op.call(self)
    if cls is not Tensor:
        out.__class__ = cls
        if cls._dispatches:
            return handed.subclasses.held(out)
        if not override.lasting and override.overrides(cls):
            override.arm()
    return out


@method("share_memory_")
def share_memory_(self):
    """Move the elements, and those of all views, into memory that processes share.

    Forked ones share it, and those that are given the tensor through ``gradlib.multiprocessing``.

    CUDA memory is as it is.
    """
    if not self.is_shared():
        memory.share(memory.owner(self._array), self)
    return self


@method("is_shared")
def is_shared(self) -> bool:
    """Whether processes share the memory of this tensor.

    Returns:
        A bool: True after ``share_memory_``, and on a CUDA device.

    Example:
        >>> gradlib.zeros(1).is_shared()
        False
    """
    return self.is_cuda or memory.is_shared(memory.owner(self._array))


@method("const_data_ptr")
def const_data_ptr(self):
    """The address of the first element, as ``data_ptr()`` gives it.

    Returns:
        An int; 0 for a tensor without elements.

    Example:
        >>> x = gradlib.ones(2)
        >>> x.const_data_ptr() == x.data_ptr()
        True
    """
    return self.data_ptr()


def _reshaped(x: Tensor, sizes: tuple, name: str):
    if not all([isinstance(n, int) for n in sizes]) or math.prod(sizes) != x._array.size:
        text = "x".join(map(str, sizes))
        raise RuntimeError(
            f"requested resize to {text} ({Size(sizes).numel()} elements in total), but the given tensor has a size of "
            f"{'x'.join(map(str, x.shape))} ({x._array.size} elements). autograd's resize can only change the shape "
            "of a given tensor, while preserving the number of elements. "
        )
    warnings.warn(f"non-inplace {name} is deprecated", UserWarning, stacklevel=3)
    return x.contiguous().view(*sizes)


@method("resize")
def resize(self, *sizes):
    """Another shape with as many elements; deprecated: use ``reshape``.

    Args:
        sizes: ints.

    Returns:
        A view, or of a tensor that is not contiguous a copy.

    Raises:
        RuntimeError: another number of elements.
    """
    return _reshaped(self, sizes, "resize")


@method("resize_as")
def resize_as(self, tensor):
    """The shape of another tensor with as many elements; deprecated: use ``reshape_as``.

    Args:
        tensor: a tensor, of which only the shape counts.

    Returns:
        A view, or of a tensor that is not contiguous a copy.

    Raises:
        RuntimeError: another number of elements.
    """
    return _reshaped(self, tuple(tensor.shape), "resize_as")


@method("__reversed__")
def reversed_entries(self):
    """``reversed(x)``: the entries of the first dimension, the last one first."""
    return self.flip(0) if self._array.ndim else self


@method("__array_wrap__")
def array_wrap(self, array, context=None, return_scalar=False):
    """The result of a NumPy function on this tensor, as a tensor on its device; bool becomes uint8, as in PyTorch.

    Raises TypeError for a dtype that tensors cannot hold. `context` and `return_scalar` are what NumPy passes.

    Example:
        >>> numpy.exp(gradlib.zeros(2))
        tensor([1., 1.])
    """
    array = np.asarray(array)
    wanted = dtypes.uint8 if array.dtype == np.bool_ else dtypes.from_np(array.dtype)
    return Tensor._make(array.astype(wanted.np, copy=False)).to(self.device)


Tensor.__nonzero__ = Tensor.__bool__  # type: ignore[attr-defined]
Tensor.__long__ = Tensor.__int__  # type: ignore[attr-defined]
