"""Tensors filled with one number: zeros, ones, empty, full, their *_like and new_* forms, and numbers as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...op.expose import PUBLIC, function, method
from ...op.formulas import formula_function
from ...op.plain_numbers import plain_number, single_number
from ...op.vmap import is_logical, of_batch
from ...tape import dtypes, errors, handed
from ...tape.device import stored
from ...tape.layout import (
    check_layout,
    check_layout_name,
    empty_in,
    preserve_format,
    strided,
    unwritten,
    with_strides_of,
)
from ...tape.lazy import is_lazy
from ...tape.modes import made_of_numbers, shared
from ...tape.sparse import (
    BLOCKED,
    COO,
    INT64,
    Pattern,
    Sparse,
    compressed,
    is_sparse,
    refusal,
    without_values,
)
from ...tape.tensor import Tensor
from ..elementwise.cast import check_device
from .base import asked, finish, need_number, pinned_copy, place, sizes


def _given(size: tuple, kw: dict, name: str) -> tuple:
    """The size of ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``; `kw` must hold nothing else."""
    if "size" in kw:
        if size:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        size = (kw.pop("size"),)
    if kw:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kw))}'")
    return sizes(size, name)


def _example(call: str, kind: str) -> str:
    """The example of a docstring: two elements that are shown, or of uninitialised memory the shape."""
    if kind == "empty":
        return f"\nExample:\n    >>> {call}.shape\n    torch.Size([2])\n"
    shown = "1., 1." if kind == "ones" else "0., 0."
    return f"\nExample:\n    >>> {call}\n    tensor([{shown}])\n"


def _filled(kind: str):
    def factory(
        *size,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        pin_memory=False,
        names=None,
        **kw,
    ):
        order = kw.pop("memory_format", None) if kind == "empty" else None
        shape = _given(size, kw, kind)
        if layout is not None and layout is not strided:
            return _sparse(kind, shape, layout, dtype, device, requires_grad)
        xp, d, _ = place(dtype, device, out=out)
        try:
            array = getattr(xp, kind)(shape, d) if order is None else empty_in(xp, shape, d, order)
        except (MemoryError, ValueError) as exc:
            raise (errors.allocation(exc, shape, d.itemsize) or exc) from None
        if kind == "empty":
            array = unwritten(array)
        return finish(pinned_copy(array) if pin_memory else array, requires_grad, out)

    factory.__name__ = factory.__qualname__ = kind
    factory.__code__ = factory.__code__.replace(co_name=factory.__name__)  # which profiles show
    what = "uninitialised" if kind == "empty" else "filled with " + kind
    factory.__doc__ = f"""A tensor of the given size, {what}.

Args:
    size: ints, or one sequence of them; without any the tensor has no dimension.
    out: a tensor to write to, which gets this size.
    dtype: the default one if None.
    device: the default one if None, see `set_default_device`.
    requires_grad: whether the new leaf requires grad.
    pin_memory: whether it lies in page-locked memory.
    layout, names: accepted; all tensors are strided, and have no names.

Returns:
    A leaf, or `out`.

Raises:
    RuntimeError: a negative size, or one that no memory holds.
{_example(f"gradlib.{kind}(2)", kind)}"""

    def like(
        input,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        memory_format=None,
        pin_memory=False,
    ):
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{kind}_like(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
            )
        if layout is not None and layout is not input.layout:
            there = (dtype or input.dtype, device or input.device, requires_grad)
            if layout is not strided:
                return _sparse(kind, tuple(input.shape), layout, *there)
            return factory(input.shape, dtype=there[0], device=there[1], requires_grad=there[2])
        made = _like(kind, input, dtype, device, requires_grad, memory_format)
        return of_batch(made, input) if shared.batches else made

    like.__name__ = like.__qualname__ = kind + "_like"
    like.__code__ = like.__code__.replace(co_name=like.__name__)
    like.__doc__ = f"""A tensor of the size of `input`, {what}.

Args:
    input: a tensor.
    dtype, device: those of `input` if None.
    requires_grad: whether the new leaf requires grad.
    memory_format: the order of strides; by default (`preserve_format`) that of `input`.
    layout, pin_memory: accepted as in ``{kind}``.

Returns:
    A leaf.

Raises:
    TypeError: `input` is no tensor.
{_example(f"gradlib.{kind}_like(gradlib.tensor([5.0, 6.0]))", kind)}"""

    def new(
        self,
        *size,
        dtype=None,
        device=None,
        requires_grad=False,
        layout=None,
        pin_memory=False,
        **kw,
    ):
        shape = _given(size, kw, "new_" + kind)
        if asked(self):
            return shared.subclasses.made(new, self, list(shape), dtype=dtype, device=device)
        xp, d, _ = place(dtype, device, self)
        if layout is None and shared.sparse is not None and kind != "ones":
            layout = self.layout
        if layout is not None and layout is not strided:
            there = dtypes.from_np(d), device or self.device
            return _sparse(kind, shape, layout, *there, requires_grad)
        try:
            array = getattr(xp, kind)(shape, d)
        except (MemoryError, ValueError) as exc:
            raise (errors.allocation(exc, shape, d.itemsize) or exc) from None
        if kind == "empty":
            array = unwritten(array)
        made = finish(array, requires_grad)
        return of_batch(made, self) if shared.batches else made

    new.__name__ = new.__qualname__ = "new_" + kind
    new.__code__ = new.__code__.replace(co_name=new.__name__)
    new.__doc__ = f"""A tensor of the given size, {what}, with the dtype and device of this tensor; see ``{kind}``.

Args:
    size: ints, or one sequence of them; without any the tensor has no dimension.
    dtype, device: those of this tensor if None.
    requires_grad: whether the new leaf requires grad.
    layout, pin_memory: accepted as in ``{kind}``.

Returns:
    A leaf.

Raises:
    RuntimeError: a negative size, or one that no memory holds.
{_example(f"gradlib.tensor([5.0]).new_{kind}(2)", kind)}"""
    PUBLIC[kind], PUBLIC[kind + "_like"] = factory, like
    setattr(Tensor, "new_" + kind, new)
    return factory, like


def _like(kind: str, input: Tensor, dtype, device, requires_grad: bool, memory_format) -> Tensor:
    """Zeros, ones or nothing in the shape of `input`."""
    if asked(input):
        made = shared.subclasses.made(PUBLIC[kind + "_like"], input, dtype=dtype, device=device)
        return made.requires_grad_() if requires_grad else made
    if is_sparse(input):
        return _like_sparse(kind, input, dtype, device, requires_grad)
    array = _array_like(kind, input, dtype, device, memory_format)
    return finish(unwritten(array) if kind == "empty" else array, requires_grad)


def _array_like(kind: str, input: Tensor, dtype, device, memory_format) -> Any:
    """The same as a raw array."""
    xp, d, target = place(dtype, device, input)
    source = stored(input._array) if is_lazy(input) else input._array
    if memory_format is not None and memory_format != preserve_format:
        array = empty_in(xp, source.shape, d, memory_format)
        if kind != "empty":
            array[...] = kind == "ones"
    elif target.type == input.device.type and 0 not in source.strides and not is_logical(input):
        array = getattr(xp, kind + "_like")(source, d)
        if 1 in source.shape:
            array = with_strides_of(xp, array, source)
    else:
        array = getattr(xp, kind)(source.shape, d)
    return array


def _sparse(kind: str, shape: tuple, layout, dtype, device, requires_grad: bool) -> Tensor:
    """Zeros, or nothing, in a sparse layout: a tensor without values."""
    if kind == "ones" or layout in BLOCKED:  # whose blocks have a size
        check_layout(layout)
    check_layout_name(layout)
    if layout is not COO and len(shape) != 2:
        raise NotImplementedError(
            f"{kind}: {layout} tensors are matrices here, but got size {list(shape)}"
        )
    xp, d, _ = place(dtype, device)
    pattern = Pattern(COO, shape, xp.zeros((len(shape), 0), INT64), True)
    array = Sparse(pattern, xp.zeros(pattern.values_shape, d))
    return finish(array if layout is COO else compressed(array, layout), requires_grad)


def _like_sparse(kind: str, input: Tensor, dtype, device, requires_grad: bool) -> Tensor:
    """``zeros_like`` of a sparse tensor: one of its layout without values."""
    if kind == "ones":
        raise NotImplementedError(refusal("ones_like", input.layout))
    if device is not None and check_device(device).type != input.device.type:
        raise NotImplementedError(
            f"{kind}_like of a sparse tensor on another device: use .to(device) on the result"
        )
    made = Tensor._make(without_values(input._array))
    made = made if dtype is None else made.to(dtype)
    return made.requires_grad_() if requires_grad else made


zeros, zeros_like = _filled("zeros")
ones, ones_like = _filled("ones")
empty, empty_like = _filled("empty")


@formula_function("zeros_like")
def _zeros_like(F, x):
    """Zeros of the shape and dtype of x, which no gradient flows through."""
    return constant_zeros(x) if hasattr(x, "_array") else F.backend.zeros(x.shape, x.dtype)


def constant_zeros(input: Tensor) -> Tensor:
    """``zeros_like`` for what nobody writes into: inside vmap, one tensor for all entries."""
    return _like("zeros", input, None, None, False, None)


def _fill_number(name: str, value):
    """The number to fill with; a tensor must have no dimension and no graph."""
    if isinstance(value, Tensor) and not value._array.ndim and not value._rg:
        return value.item()
    return need_number(name, "fill_value", 2, value)


@function("full")
def full(
    size,
    fill_value,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor of the given size filled with one number.

    Args:
        size: a sequence of ints.
        fill_value: a number, or a tensor without dimensions.
        dtype: that of the value if None: int64, the default floating dtype, bool, or complex.
        device: the default one if None, see `set_default_device`.
        requires_grad: whether the new leaf requires grad.
        pin_memory: whether it lies in page-locked memory.
        layout, names: accepted; all tensors are strided, and have no names.
        out: written to instead of a new tensor.

    Returns:
        A leaf, or `out`.

    Raises:
        RuntimeError: a negative size, or a value that the dtype cannot hold.

    Example:
        >>> gradlib.full((2,), 7)
        tensor([7, 7])
    """
    if layout is not None:
        check_layout(layout)
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        )
    value = _fill_number("full", fill_value)
    if dtype is None and out is None:
        dtype = dtypes.of_scalar(value)
    xp, d, _ = place(dtype, device, out=out)
    shape = sizes((size,), "full")
    value = (single_number if math.prod(shape) == 1 else plain_number)(value, dtypes.from_np(d))
    try:
        array = xp.full(shape, value, d)
    except (MemoryError, ValueError) as exc:
        raise (errors.allocation(exc, shape, d.itemsize) or exc) from None
    return finish(pinned_copy(array) if pin_memory else array, requires_grad, out)


@function("full_like")
def full_like(
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """A tensor of the size of `input` filled with one number.

    Args:
        input: a tensor.
        fill_value: a number.
        dtype, device: those of `input` if None.
        layout, pin_memory: accepted as in ``full``.
        requires_grad: whether the new leaf requires grad.
        memory_format: the order of strides; by default (``preserve_format``) that of `input`.

    Returns:
        A leaf.

    Raises:
        TypeError: `input` is no tensor.

    Example:
        >>> gradlib.full_like(gradlib.zeros(2), 7)
        tensor([7., 7.])
    """
    if layout is not None:
        check_layout(layout)
    if asked(input):
        return shared.subclasses.made(full_like, input, fill_value, dtype=dtype, device=device)
    if is_sparse(input):
        out = _like_sparse("full", input, dtype, device, False)
    else:
        out = Tensor._make(_array_like("empty", input, dtype, device, memory_format))
    number: Any = _fill_number("full_like", fill_value)
    if out._array.__class__ is np.ndarray:
        number = (single_number if out._array.size == 1 else plain_number)(number, out.dtype)
        out._array[...] = number
    else:
        out.fill_(number)
    made = finish(out._array, requires_grad)
    return of_batch(made, input) if shared.batches else made


@method("new_full")
def new_full(
    self,
    size,
    fill_value,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """A tensor of the given size filled with one number, with the dtype and device of this tensor; see ``full``.

    Args:
        size: a sequence of ints.
        fill_value: a number.
        dtype, device: those of this tensor if None.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``full``.

    Returns:
        A leaf.

    Raises:
        RuntimeError: a negative size.

    Example:
        >>> gradlib.zeros(1, dtype=gradlib.float64).new_full((2,), 7)
        tensor([7., 7.], dtype=torch.float64)
    """
    if layout is not None:
        check_layout(layout)
    if asked(self):
        return shared.subclasses.made(
            Tensor.new_full, self, list(size), fill_value, dtype=dtype, device=device
        )
    made = full(
        size,
        fill_value,
        dtype=dtype or self.dtype,
        device=device or self.device,
        requires_grad=requires_grad,
    )
    return of_batch(made, self) if shared.batches else made


# -- from numbers ------------------------------------------------------------------------------------------------


@function("scalar_tensor")
def scalar_tensor(
    s, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """A number as a tensor without dimensions, of the default dtype whatever kind of number it is.

    Args:
        s: a number.
        dtype, device: the default ones if None.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``full``.

    Returns:
        A leaf.

    Example:
        >>> gradlib.scalar_tensor(2)
        tensor(2.)
    """
    if layout is not None:
        check_layout(layout)
    return full(
        (), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad
    )


def scalar_tensor_like(value) -> Tensor:
    """A Python number as the 0-dim tensor it stands for."""
    return made_of_numbers(Tensor._make(np.asarray(value, dtypes.of_scalar(value).np)))


handed.over(constant_zeros, scalar_tensor_like)
