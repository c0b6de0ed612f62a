"""Tensors from data: numbers, nested sequences, NumPy arrays, DLPack; with inference of the dtype."""

from __future__ import annotations

import warnings

import numpy as np

from ...op import spreading
from ...op.expose import PUBLIC, function, method
from ...tape import device as devices
from ...tape import dtypes, handed
from ...tape.arrays import backend_for
from ...tape.float8 import narrowed
from ...tape.geometry import storage_for
from ...tape.tensor import Size, Tensor, to_host
from ...tape.untyped import storage_in
from ..elementwise.cast import check_device
from .base import finish
from .filled import empty
from .interchange import check_array, from_dlpack, from_numpy, frombuffer

# -- values and their dtype --------------------------------------------------------------------------------------

_NUMBERS = frozenset((int, float, bool, complex))


def _is_sequence(data) -> bool:
    kind = type(data)
    return kind in (list, tuple) or (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not issubclass(kind, (str, bytes, dict, Tensor, np.generic))
        and getattr(data, "ndim", 1) > 0
    )


def infer(data) -> dtypes.dtype:
    """The dtype of ``tensor(data)``."""
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return dtypes.from_np(data.dtype)
    if _is_sequence(data):
        found = None
        for item in data:
            found = dtypes.promote(found, infer(item))
        return found or dtypes.get_default_dtype()
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    try:
        return dtypes.of_scalar(data)
    except TypeError:
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}") from None


def to_array(data, kind: dtypes.dtype | None) -> np.ndarray:
    """A fresh NumPy array with the values of nested sequences, numbers, arrays or tensors."""
    if isinstance(data, Tensor):
        return np.array(to_host(data._array), dtype=kind.np if kind else None)
    if isinstance(data, (np.ndarray, np.generic)):
        own = check_array(np.asarray(data))
        return _converted(np.array(data, order="C"), kind or own)
    if isinstance(data, (range, bytearray)):
        data = list(data)
    if isinstance(data, (list, tuple)) and _leaf_types(data) <= _NUMBERS:
        try:
            array = np.array(data)
        except ValueError:
            array = None  # ragged
        if kind is dtypes.uint64:
            array = None  # int64 does not hold all of it
        if array is not None and array.size and array.dtype.kind in "bifc":
            return _converted(array, kind or _kind_of(array))
    shape = _shape_of(data)
    kind = kind or infer(data)
    flat: list = []
    _collect(data, shape, 0, kind, flat)
    return _from_values(flat, kind).reshape(shape)


def _from_values(flat: list, kind: dtypes.dtype) -> np.ndarray:
    """Python numbers as an array."""
    whole = kind.category == dtypes.INTEGER and not any([isinstance(v, float) for v in flat])
    if kind is dtypes.uint64 and whole:
        if min(flat, default=0) < 0:
            raise OverflowError("can't convert negative int to unsigned")
        if max(flat, default=0) >= 1 << 64:
            raise OverflowError("int too big to convert")
        return np.array(flat, np.uint64)
    wide = np.int64 if whole else None
    try:
        array = np.array(flat, wide if whole else kind.np if not kind.category else None)
    except (OverflowError, TypeError):
        if not whole:  # bfloat16 takes no integers of more than 64 bits
            return _converted(np.array(flat, np.float64), kind)
        raise ValueError("Overflow when unpacking long long") from None
    return _converted(array, kind)


def _leaf_types(data) -> set:
    """The types of the items of nested lists and tuples."""
    found = set(map(type, data))
    if list in found or tuple in found:
        for item in data:
            if isinstance(item, (list, tuple)):
                found |= _leaf_types(item)
        found -= {list, tuple}
    return found


def _kind_of(array: np.ndarray) -> dtypes.dtype:
    """The dtype of what NumPy made of Python numbers."""
    default = dtypes.get_default_dtype()
    return {"b": dtypes.bool_, "i": dtypes.int64, "f": default, "c": default.to_complex()}[
        array.dtype.kind
    ]


def _converted(array: np.ndarray, kind: dtypes.dtype) -> np.ndarray:
    """`array` in the dtype `kind`; RuntimeError for whole numbers out of its range."""
    if array.dtype == kind.np:
        return array
    if array.dtype.kind == "c" and kind.category < dtypes.COMPLEX:
        if kind.category == dtypes.INTEGER:
            raise TypeError("'complex' object cannot be interpreted as an integer")
        if kind.category:
            raise TypeError("must be real number, not complex")
    elif kind.category == dtypes.INTEGER and array.size and array.dtype.kind in "iuf":
        info = np.iinfo(kind.np)
        low, high = array.min(), array.max()
        wraps = not kind.is_signed and array.dtype.kind != "f"  # negative integers, not fractions
        if not (-info.max if wraps else info.min) <= low <= high <= info.max:
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    if array.dtype.kind == "O" and kind is dtypes.bfloat16:
        array = array.astype(np.float64)  # bfloat16 takes no integers of more than 64 bits
    return narrowed(array, kind.np) if kind.np in dtypes.FLOAT8 else array.astype(kind.np)


def _shape_of(data) -> tuple[int, ...]:
    """The shape that the first items of nested sequences have; a tensor among them counts as a number."""
    shape: list[int] = []
    while _is_sequence(data):
        shape.append(len(data))
        if not len(data):
            return tuple(shape)
        data = data[0]
    if isinstance(data, np.ndarray):
        raise TypeError("len() of unsized object")
    if isinstance(data, bytes) and shape:
        raise TypeError("new(): invalid data type 'bytes'")
    if isinstance(data, str) and shape:
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    return tuple(shape)


def _collect(data, shape: tuple, dim: int, kind: dtypes.dtype, flat: list) -> None:
    """Append all values of `data` to `flat`; errors for what does not have the shape."""
    if dim == len(shape):
        flat.append(_scalar(data, kind))
        return
    if not shape[dim]:
        return  # nothing is there to be looked at
    if not (_is_sequence(data) or (isinstance(data, Tensor) and data.ndim)):
        raise TypeError("not a sequence")
    if len(data) != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    for item in data:
        _collect(item, shape, dim + 1, kind, flat)


def _scalar(value, kind: dtypes.dtype):
    """One item as a Python number of the category of `kind`."""
    given = value
    if isinstance(value, Tensor):
        if value._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        if kind.category == dtypes.INTEGER:
            return value.__index__()
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = value.item()
    whole = kind.category == dtypes.INTEGER
    if whole and (isinstance(given, (np.bool_, complex)) or not isinstance(value, (int, float))):
        name = "numpy.bool" if isinstance(given, np.bool_) else type(given).__name__
        raise TypeError(f"'{name}' object cannot be interpreted as an integer")
    if not isinstance(value, (int, float, complex)):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    if isinstance(value, complex) and kind.category == dtypes.FLOATING:
        raise TypeError("must be real number, not complex")
    return bool(value) if not kind.category else value


# -- tensors -----------------------------------------------------------------------------------------------------


@function("tensor")
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`: numbers, nested sequences, NumPy arrays.

    The dtype is inferred: Python floats give the default dtype, ints int64, bools bool.

    Example:
        >>> gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        device = data.device if device is None else device
    made = _copied(data, dtype, device, requires_grad)
    return made.detach().pin_memory().requires_grad_(requires_grad) if pin_memory else made


def _copied(data, dtype, device, requires_grad: bool) -> Tensor:
    """A new tensor with a copy of `data`."""
    if isinstance(data, Tensor) and data.is_meta:  # which has no values to make an array of
        kind = data.dtype if dtype is None else dtypes.of(dtype)
        out = data.detach().to(data.device if device is None else device, kind, copy=True)
        return finish(out._array, requires_grad)
    array = to_array(data, dtypes.of(dtype) if dtype is not None else None)
    if device is None and devices.default.device is not devices.CPU:
        device = devices.default.device
    if device is not None:
        target = check_device(device)
        if target.type != "cpu":
            return finish(backend_for(target.type).to_backend(array, target), requires_grad)
    spreading.met(array.size)
    return finish(array, requires_grad)


@function("as_tensor")
def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory where dtype and device allow it.

    Raises TypeError, ValueError: no tensor can be made of it.

    Example:
        >>> gradlib.as_tensor([1, 2])
        tensor([1, 2])
    """
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if isinstance(data, Tensor):
        return (
            data.to(dtype=dtype, device=device) if dtype is not None or device is not None else data
        )
    return tensor(data, dtype=dtype, device=device)


@function("asarray")
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """`obj` as a tensor: itself or sharing its memory where that can be, unless `copy` is true.

    Args:
        obj: a tensor, a NumPy array or scalar, an object or capsule of DLPack, a buffer (of elements of `dtype`, by
            default the default dtype), or nested sequences of numbers.
        dtype, device: those of `obj` if None; other ones need a copy.
        copy: True: always copy; False: never; None: where it is needed.
        requires_grad: of the result; that of `obj` if left out. Without it the result is detached.

    Returns:
        A tensor.

    Raises:
        ValueError: `copy` is False where a copy is needed.

    Example:
        >>> gradlib.asarray(numpy.arange(3))
        tensor([0, 1, 2])
    """
    if isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
            )
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    given = _shared(obj, dtype)
    if given is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    kind = given.dtype if dtype is None else dtypes.of(dtype)
    target = given.device if device is None else devices.device(device)
    if copy is False:
        if (target.type, target.index or 0) != (given.device.type, given.device.index or 0):
            raise ValueError(f"can't alias tensor from device '{given.device}' to '{target}'.")
        if kind is not given.dtype:
            names = [d.scalar_type for d in (given.dtype, kind)]
            raise ValueError(f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'.")
    out = given.to(dtype=kind, device=target, copy=bool(copy))
    if requires_grad is None:
        return out
    if not requires_grad:
        return out.detach() if out._rg else out
    if out._rg and not out.is_leaf:
        return out
    if out._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return out.requires_grad_()


def _shared(obj, dtype) -> Tensor | None:
    """A tensor on the memory of `obj`; None if it has none that tensors could use."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())


@method("new_tensor")
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of `data`, with the dtype and device of this tensor where none is given; see ``gradlib.tensor``.

    Args:
        data: a number, nested sequences of numbers, an array or a tensor; it is copied.
        dtype, device: those of this tensor if None.
        requires_grad: whether the new leaf requires grad.
        pin_memory: whether it lies in page-locked memory.

    Returns:
        A leaf; what was computed of `data` has no part in its history.

    Raises:
        ValueError: sequences of different lengths.

    Example:
        >>> gradlib.zeros(1, dtype=gradlib.float64).new_tensor([1, 2])
        tensor([1., 2.], dtype=torch.float64)
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).",
            stacklevel=2,
        )
    return _copied(data, dtype or self.dtype, device or self.device, requires_grad)


@method("new")
def _new(self, *args, device=None):
    """A tensor of the dtype of this one, of a size or of data: the old form of ``new_empty`` and ``new_tensor``.

    Args:
        args: sizes as ints, for uninitialised memory; or one sequence of numbers; or nothing for an empty tensor.
        device: that of this tensor if None.

    Returns:
        A leaf.

    Example:
        >>> gradlib.zeros(1, dtype=gradlib.int64).new([1, 2])
        tensor([1, 2])
    """
    return _legacy(args, self.dtype, device or self.device)


# -- constructors by type ----------------------------------------------------------------------------------------


def _legacy(args: tuple, kind: dtypes.dtype, device) -> Tensor:
    """``Type()``, ``Type(2, 3)``, ``Type([1, 2])``, ``Type(tensor)``, ``Type(storage)``."""
    if not args:
        return empty(0, dtype=kind, device=device)
    first = args[0]
    if storage_in(first) is not None:
        memory = storage_for(first, kind, kind.scalar_type)
        return empty(0, dtype=kind, device=memory.device).set_(memory)
    if len(args) > 1 or isinstance(first, (int, np.integer, Size)):
        return empty(*args, dtype=kind, device=device)
    if isinstance(first, Tensor):
        if first.dtype is not kind:
            raise TypeError(
                f"expected a tensor of type torch.{kind.tensor_type}, got torch.{first.dtype.tensor_type}"
            )
        return first.detach()
    if not _is_sequence(first):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return _copied(first, kind, device, False)


def legacy_constructor(cls, *args, device=None, **kwargs) -> Tensor:
    """``Tensor()``, ``Tensor(2, 3)``, ``Tensor([1, 2])``, ``Tensor(tensor)``."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0].detach()
    else:
        made = _legacy(args, dtypes.get_default_dtype(), device)
    return made if cls is Tensor else Tensor._make_subclass(cls, made)


class TypedTensor(type):
    """Class of the names that stand for tensors of one dtype: FloatTensor, LongTensor...

    Calling one makes a tensor; ``isinstance(x, FloatTensor)`` asks for its dtype.
    """

    dtype: dtypes.dtype

    def __call__(cls, *args, device=None):
        return _legacy(args, cls.dtype, device)

    def __instancecheck__(cls, instance) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.is_cpu
            and not instance.is_sparse
        )

    def _on_device(cls) -> str:
        """The kind of device that has these tensors."""
        return "cpu"


for _kind in dtypes.ALL:
    if not _kind.name.startswith(("uint16", "uint32", "uint64", "complex", "float8")):
        PUBLIC[_kind.tensor_type] = TypedTensor(
            _kind.tensor_type,
            (),
            {
                "dtype": _kind,
                "__module__": "gradlib",
                "__doc__": f"""Tensors of dtype {_kind.name} in host memory: the old form of ``tensor`` and ``empty``.

``isinstance(x, gradlib.{_kind.tensor_type})`` asks for dtype and device of a tensor.

Args:
    args: sizes as ints, for uninitialised memory; or one sequence of numbers; or nothing for an empty tensor.

Returns:
    A leaf.

Example:
    >>> gradlib.{_kind.tensor_type}([1, 0]).dtype
    torch.{_kind.name}
""",
            },
        )


@function("set_default_tensor_type")
def set_default_tensor_type(t):
    """Make the dtype of a floating tensor type the default dtype; deprecated for ``set_default_dtype``, with a warning.

    Args:
        t: a tensor type such as ``gradlib.DoubleTensor``, or its name, "torch.DoubleTensor".

    Raises:
        TypeError: a type of tensors that are not floating.

    Example:
        >>> gradlib.set_default_tensor_type(gradlib.FloatTensor)
    """
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    name = (t if isinstance(t, str) else getattr(t, "__name__", "")).rpartition(".")[2]
    found = [kind for kind in dtypes.ALL if kind.tensor_type == name]
    if not found:
        raise TypeError(f"invalid type object: expected a tensor type, got {t!r}")
    dtypes.set_default_dtype(found[0])


handed.over(legacy_constructor)
