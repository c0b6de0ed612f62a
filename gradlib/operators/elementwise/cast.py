"""Copies and conversions: clone, to, contiguous, dtype methods."""

from __future__ import annotations

import numpy as np

from ...op import captures, interpret, spreading
from ...op.declare import declare
from ...op.expose import function, method
from ...op.formulas import formula_function
from ...tape import dtypes, errors, handed
from ...tape.arrays import backend_for
from ...tape.device import CPU, device
from ...tape.float8 import narrowed
from ...tape.layout import (
    contiguous_format,
    copy_in,
    empty_ordered,
    has_layout,
    in_order,
    memory_format,
    order_of,
    preserve_format,
    suggested,
)
from ...tape.tensor import Tensor
from ..kinds import warn_of_lost_part

_F4, _BFLOAT16 = dtypes.float32.np, dtypes.bfloat16.np


def _copy(xp, self, *, order):
    """ "K" keeps the order of strides, "C" is row-major; anything longer is a memory format."""
    if self.dtype is _BFLOAT16 and self.__class__ is np.ndarray:
        return _copy(xp, self.view(np.uint16), order=order).view(
            _BFLOAT16
        )  # NumPy's own are sooner
    if len(order) > 1:
        return copy_in(xp, self, order)
    if (
        0 in self.strides and order == "K" and self.ndim > 1
    ):  # expanded: dense, the order of strides kept
        out = empty_ordered(xp, self.shape, self.dtype, order_of((self,), self.shape))
        out[...] = self
        return out
    return self.copy(order=order)


clone_op = declare(
    "clone",
    _copy,
    self=lambda g: g,
    jvp="linear", copies=True,
    pointwise=True, complex=True,
    samples=lambda t: [(t(3, 4), "K"), (t(), "C"), (t(0, 2), "K")],
    batch="elementwise",
    aten="(self)",
)  # fmt: skip


def _cast(xp, self, *, dtype):
    if dtype in dtypes.FLOAT8:
        out = narrowed(self, dtype)
        return out if 0 not in self.strides or self.ndim < 2 else in_order(xp, out, (self,))
    if self.dtype.kind == "c" and dtype.kind != "c":
        return self.real.astype(dtype) if dtype.kind != "b" else self.astype(dtype)
    if dtype.kind in "iu" and self.dtype.kind == "V":
        self = self.astype("f4")
    if 0 not in self.strides or self.ndim < 2:
        if self.__class__ is np.ndarray:
            if dtype is _F4:
                if self.dtype in dtypes.HALVES:
                    return xp.widen_half(self)
            elif self.dtype is _F4 and dtype in dtypes.HALVES:
                return xp.narrow_half(self, dtype)
        if spreading.begun and spreading.large((self,)):
            return spreading.spread_gradient(lambda x: x.astype(dtype), self)
        return self.astype(dtype)
    if dtype in dtypes.HALVES and self.dtype is _F4 and self.__class__ is np.ndarray:
        once = self[tuple([slice(0, 1) if s == 0 else slice(None) for s in self.strides])]
        out = empty_ordered(xp, self.shape, dtype, order_of((self,), self.shape))
        out.view(np.uint16)[...] = xp.narrow_half(once, dtype).view(np.uint16)
        return out
    return in_order(xp, self.astype(dtype, order="C"), (self,))


@formula_function()
def in_dtype_of(F, x, other):
    """`x` in the dtype of `other`: gradients of arguments of several dtypes. None stays None."""
    if x is None:
        return None
    have, wanted = (getattr(a, "_array", a).dtype for a in (x, other))
    return x if have == wanted else F.cast(x, wanted, have)


def _cast_back(F, g, self_dtype):
    """The gradient in the dtype of the argument: of a real argument it is real."""
    if F.is_complex(g) and self_dtype.kind != "c":
        g = F.real(g)
    return F.cast(g, self_dtype, getattr(g, "_array", g).dtype)


cast_op = declare(
    "cast",
    lambda xp, self, *, dtype, self_dtype: _cast(xp, self, dtype=dtype),
    implementations="_to_copy",
    public="to",
    copies=True,
    node="ToCopyBackward0",
    integer_results=True,
    self=lambda F, g, self_dtype: _cast_back(F, g, self_dtype),
    jvp=lambda self_t, dtype, self_dtype: cast_op.call(self_t, dtype, self_dtype),
    pointwise=True,
    samples=lambda t: [
        (t(3, 4), np.dtype("c16"), np.dtype("f8")),
        (t(), np.dtype("c16"), np.dtype("f8")),
        (t(0), np.dtype("i8"), np.dtype("f8")),
    ],
    batch="elementwise",
    aten="_to_copy(self, *dtype)",
)
to_device_op = declare(
    "to_device", lambda xp, self, *, target, origin, non_blocking: _move(self, target, non_blocking), public="to",
    copies=True, node="ToCopyBackward0", jvp="linear", captures=captures.across, leaves_device=True,
    self=lambda F, g, origin, target, non_blocking: F.to_device(g, origin, target, non_blocking),
    samples=lambda t: [(t(3, 4), CPU, CPU, False), (t(0), CPU, CPU, False)],
    aten="_to_copy(self, *device:target)",
)  # fmt: skip


def _cast_unmade(tensor: Tensor, dtype: np.dtype) -> Tensor:
    """`tensor` cast to a dtype as the graph knows it; nobody may read its numbers, which are those of `tensor`."""
    have = tensor._array.dtype
    if have == dtype:
        return tensor
    return interpret.connect(cast_op, (tensor,), (dtype, have), [Tensor._make(tensor._array)], ())


handed.over(cast_unmade=_cast_unmade)


def _move(array, target: device, non_blocking: bool):
    """A raw array on another device, dense, with its strides in the same order: channels that are last stay last."""
    if array.ndim > 1 and not array.flags.c_contiguous:
        order = order_of((array,), array.shape)
        moved = _move_rows(array.transpose(order), target, non_blocking)
        return moved.transpose([order.index(d) for d in range(len(order))])
    return _move_rows(array, target, non_blocking)


def _move_rows(array, target: device, non_blocking: bool):
    if non_blocking:
        moved = handed.pinned_move(array, -1 if target.type == "cpu" else target.index)
        if moved is not None:
            return moved
    return backend_for(target.type).to_backend(array, target)


@function("clone")
def clone(input, *, memory_format=None):
    """A copy with memory of its own, through which gradients flow to `input`.

    Args:
        input: a tensor of any shape and dtype.
        memory_format: the order of strides; as that of a dense `input` if None.

    Returns:
        A tensor of the same shape, dtype and device.

    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> gradlib.clone(x)
        tensor([1.], grad_fn=<CloneBackward0>)
    """
    return clone_op.call(input, _order(memory_format))


@method("clone")
def _clone(self, *, memory_format=None):
    """A copy with memory of its own, through which gradients flow to this tensor.

    Args:
        memory_format: the order of strides; as that of this tensor if that is dense and None is given.

    Returns:
        A tensor of the same shape, dtype and device.

    Example:
        >>> gradlib.tensor([1.0], requires_grad=True).clone()
        tensor([1.], grad_fn=<CloneBackward0>)
    """
    return clone_op.call(self, _order(memory_format))


def _order(wanted: memory_format | None) -> str:
    """The `order` of clone_op for a memory format."""
    if wanted is None or wanted == preserve_format:
        return "K"
    return "C" if wanted == contiguous_format else wanted


def convert(
    tensor: Tensor, dtype=None, target=None, non_blocking=False, copy=False, memory_format=None
) -> Tensor:
    """`tensor` in another dtype, on another device, in another memory format.

    Itself if it is so already and no copy is asked for.
    """
    out = tensor
    if target is not None:
        target = check_device(target)
        here = tensor.device
        if target.type != here.type or (target.index is not None and target.index != here.index):
            out = to_device_op.call(out, target, here, non_blocking)
    if dtype is not None and dtype.np != out._array.dtype:
        if out._array.dtype.kind == "c":
            warn_of_lost_part(dtype.np)
        out = cast_op.call(out, dtype.np, out._array.dtype)
    if memory_format is not None and memory_format != preserve_format:
        lies_so = (suggested(out._array) or contiguous_format) == memory_format
        if out is tensor:
            lies_so = lies_so and not copy
        else:
            lies_so = lies_so and has_layout(out._array, memory_format)
        return out if lies_so else clone_op.call(out, _order(memory_format))
    return clone(out) if copy and out is tensor else out


def check_device(value) -> device:
    """A device object; RuntimeError/AssertionError that says what is missing when it cannot be used."""
    target = value if isinstance(value, device) else device(value)
    if target.type == "cuda":
        backend_for("cuda")
    return target


@method("to")
def to(self, *args, **kwargs):
    """This tensor with another dtype, on another device, or both.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, or ``to(other)`` for those of another tensor.

    Args:
        args: a dtype, a device or its name, a tensor; then non_blocking and copy.
        kwargs: dtype, device, non_blocking (whether the host may go on before the copy is done), copy (whether to
            copy even where nothing changes), memory_format.

    Returns:
        This tensor if it is so already, else a new one; gradients flow back where both dtypes have them.

    Raises:
        RuntimeError: a device that is none.

    Example:
        >>> gradlib.tensor([1.5]).to(gradlib.int64)
        tensor([1])
    """
    dtype, target = kwargs.get("dtype"), kwargs.get("device")
    if dtype is not None:
        dtype = dtypes.of(dtype)
    flags = []
    for a in args:
        if isinstance(a, dtypes.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, target = a.dtype, a.device
        elif isinstance(a, bool) and a is not args[0]:
            flags.append(a)
        elif isinstance(
            a, (bool, float, complex)
        ):  # a number stands for the dtype of a tensor of it
            dtype = dtypes.of(type(a))
        elif isinstance(a, (str, device, int)):
            target = a
        elif isinstance(a, type):
            dtype = dtypes.of(a)
        elif a is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(a).__name__})"
            )
    non_blocking = kwargs.get("non_blocking", flags[0] if flags else False)
    copy = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
    return convert(self, dtype, target, non_blocking, copy, kwargs.get("memory_format"))


@method("type")
def type_(self, dtype=None, non_blocking=False):
    """The name of the type of this tensor; or the tensor converted to another type.

    Args:
        dtype: a dtype, the name of a tensor type such as "torch.FloatTensor", or that type; None asks for the name.
        non_blocking: whether the host may go on before a copy from or to a device is done.

    Returns:
        A str, or a tensor: itself if it is of that type already. A tensor type also says the kind of device.

    Raises:
        ValueError: there is no type of that name.
        TypeError: it is a type of tensors on CUDA, and there is no such device; or no type at all.

    Example:
        >>> gradlib.tensor([1.5]).type(), gradlib.tensor([1.5]).type(gradlib.int64)
        ('torch.FloatTensor', tensor([1]))
    """
    if dtype is None:
        return errors.tensor_type(self)
    if isinstance(dtype, str):
        module, _, name = dtype.rpartition(".")
        found = [t for t in dtypes.ALL if t.tensor_type == name]
        if not found or module not in ("", "torch", "torch.cuda"):
            raise ValueError(f"invalid type: '{dtype}'")
        dtype, device = found[0], "cuda" if module == "torch.cuda" else "cpu"
    elif hasattr(dtype, "_on_device"):  # FloatTensor, cuda.FloatTensor...
        device = dtype._on_device()
        dtype = dtype.dtype
    else:
        return convert(self, dtypes.of(dtype))
    return convert(self, dtype, None if self.device.type == device else device, non_blocking)


@method("type_as")
def type_as(self, other):
    """This tensor converted to the dtype and moved to the device of `other`.

    Args:
        other: a tensor, of which only that counts.

    Returns:
        A tensor; itself if it is so already.

    Example:
        >>> gradlib.tensor([1.5]).type_as(gradlib.tensor([1]))
        tensor([1])
    """
    return convert(self, other.dtype, other.device)


@method("cuda")
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """This tensor in the memory of a CUDA device: itself if it is there already.

    Args:
        device: the device or its number; the current one if None.
        non_blocking: whether the host may go on before the copy is done; the host's memory must be pinned for that.
        memory_format: the order of strides; as it is if None.

    Returns:
        A tensor, through which gradients flow back.
    """
    target = "cuda" if device is None else device
    return convert(self, None, target, non_blocking, memory_format=memory_format)


@method("cpu")
def cpu(self, memory_format=None):
    """This tensor in host memory: itself if it is there already, else a copy.

    Args:
        memory_format: the order of strides; as it is if None.

    Returns:
        A tensor, through which gradients flow back.

    Example:
        >>> gradlib.tensor([1.0]).cpu().device
        device(type='cpu')
    """
    return convert(self, None, "cpu", memory_format=memory_format)


@function("contiguous", method=True)
def contiguous(input, memory_format=None):
    """`input` with elements that follow each other in memory in row-major order, or in the order of a memory format.

    Args:
        input: a tensor of any shape and dtype.
        memory_format: ``channels_last`` for tensors of four dimensions, ``channels_last_3d`` for five.

    Returns:
        The tensor itself if it lies so already, else a copy, through which gradients flow.

    Raises:
        RuntimeError: the format is for another number of dimensions; or it is ``preserve_format`` and a copy is
            needed.

    Example:
        >>> gradlib.zeros(2, 3).T.contiguous().stride()
        (2, 1)
    """
    if memory_format is not None and memory_format != contiguous_format:
        if has_layout(input._array, memory_format):
            return input
        if memory_format != preserve_format:
            return clone_op.call(input, memory_format)
        if not input._array.flags.c_contiguous:
            raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
        return input
    return input if input._array.flags.c_contiguous else clone_op.call(input, "C")


def _to(target: dtypes.dtype, name: str):
    def convert_to(self, memory_format=None):
        if memory_format is None:
            return convert(self, target)
        return convert(self, target, memory_format=memory_format)

    convert_to.__name__ = convert_to.__qualname__ = name
    convert_to.__doc__ = f"""This tensor converted to {target.name}: ``to(gradlib.{target.name})``.

Args:
    memory_format: the order of strides; as it is if None.

Returns:
    A new tensor, to which gradients flow where both dtypes have them; the tensor itself if it is so already.

Example:
    >>> gradlib.tensor([1, 0]).{name}().dtype
    torch.{target.name}
"""
    return convert_to


for _name, _dtype in {
    **dtypes.ALIASES, "bfloat16": dtypes.bfloat16, "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8,
}.items():  # fmt: skip
    setattr(Tensor, _name, _to(_dtype, _name))


@method("pin_memory")
def pin_memory(self, device=None):
    """A copy in page-locked memory, from which copies to a CUDA device need not be waited for; itself if it is there.

    RuntimeError for a CUDA tensor, and without a CUDA device.
    """
    if self.is_cuda:
        raise RuntimeError(
            f"cannot pin 'torch.cuda.{self.dtype.tensor_type}' only dense CPU tensors can be pinned"
        )
    if self.is_pinned():
        return self
    out = Tensor._make(handed.pinned_empty(self.shape, self._array.dtype))
    return out.copy_(self)
