"""Creation: zeros, ones, empty, full, and their *_like and new_* forms."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ...op.expose import PUBLIC, function, method, write_out
from ...op.formulas import formula_function
from ...op.plain_numbers import plain_number, single_number
from ...op.vmap import is_logical, lift, of_batch
from ...tape import device as devices
from ...tape import dtypes, errors, handed, recording
from ...tape.arrays import backend_on
from ...tape.device import stored
from ...tape.layout import (
    check_layout,
    check_layout_name,
    empty_in,
    preserve_format,
    settled,
    strided,
    with_strides_of,
)
from ...tape.lazy import is_lazy
from ...tape.modes import PROFILE, note_leaf, shared, state
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
from ...tape.storage import INFERENCE
from ...tape.tensor import Tensor
from ..elementwise.cast import check_device


def asked(tensor: Any) -> bool:
    """Whether the class of a tensor is asked for what is made like it (``__torch_dispatch__``)."""
    return shared.subclasses is not None and shared.subclasses.among((tensor,))


def wrap_like(array) -> Tensor:
    """A raw array as a Tensor outside any graph."""
    return Tensor._make(array)


def sizes(size: tuple, name: str = "empty") -> tuple:
    """(2, 3) from ``f(2, 3)`` or ``f((2, 3))``; TypeError for what is no size."""
    if len(size) == 1 and not isinstance(size[0], (int, np.integer, Tensor)):
        if not isinstance(size[0], (tuple, list)):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size[0]).__name__}"
            )
        size = tuple(size[0])
    elif not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    try:
        shape = tuple([operator.index(n) for n in size])
    except TypeError:
        at = next(i for i, n in enumerate(size) if not hasattr(n, "__index__"))
        raise TypeError(
            f"{name}(): argument 'size' failed to unpack the object at pos {at + 1} with error "
            f'"type must be tuple of ints,but got {type(size[at]).__name__}"'
        ) from None
    for n in shape:
        if not 0 <= n < _END:
            raise _no_length(shape, n, name)
    return shape


_END = 2**63


def _no_length(shape: tuple, n: int, name: str) -> Exception:
    if -_END <= n < _END:
        return RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return TypeError(
        f"{name}(): argument 'size' failed to unpack the object at pos {shape.index(n) + 1} with error "
        '"Overflow when unpacking long long"'
    )


def finish(array, requires_grad: bool = False, out: Tensor | None = None) -> Any:
    """Wrap a new raw array, check requires_grad, or write it to `out`."""
    result = Tensor._make(array)
    if shared.active and state.bits & PROFILE:
        recording.created(result)
    if out is not None:
        if out._array.shape != result._array.shape:
            out.resize_(result._array.shape)
        return write_out(out, result)
    if shared.batches and state.batch is not None:
        result = lift(result)  # so that it can have a history inside of the vmap
    if requires_grad:
        if result._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result._rg = True
        if result._ver is INFERENCE:
            note_leaf(result)
    return result


def pinned_copy(array):
    """A host array in page-locked memory; RuntimeError without a CUDA device, and for arrays that lie on one."""
    if not isinstance(array, np.ndarray):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return handed.pinned_copy(array)


def place(dtype, dev, like: Tensor | None = None, out: Tensor | None = None):
    """(backend, NumPy dtype, device) for a factory's arguments.

    like, out: the tensor whose dtype and device count where none are given. RuntimeError for another dtype than that
    of `out`.
    """
    if out is not None:
        like = out
        if dtype is not None and dtypes.of(dtype) is not out.dtype:
            given, have = (d.scalar_type for d in (dtypes.of(dtype), out.dtype))
            raise RuntimeError(f"dtype {given} does not match dtype of out parameter ({have})")
    target = (
        like.device
        if dev is None and like is not None
        else devices.default.device
        if dev is None
        else check_device(dev)
    )
    kind = (
        dtypes.of(dtype)
        if dtype is not None
        else like.dtype
        if like is not None
        else dtypes.get_default_dtype()
    )
    return backend_on(target), kind.np, target


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
            settled(array)
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
            settled(array)
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
    if kind == "empty":
        settled(array)
    return finish(array, requires_grad)


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


def need_number(name: str, which: str, position: int, value):
    """`value`; TypeError if it is no number."""
    if not isinstance(value, (int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{name}(): argument '{which}' (position {position}) must be Number, not {type(value).__name__}"
        )
    return value


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
    out = _like("empty", input, dtype, device, False, memory_format)
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


# -- with strides ------------------------------------------------------------------------------------------------


def _strided(size, stride, dtype, device, like: Tensor | None, requires_grad: bool) -> Tensor:
    shape, steps = sizes((size,), "empty_strided"), tuple([operator.index(s) for s in stride])
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    if any([s < 0 for s in steps]):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}"
        )
    xp, d, _ = place(dtype, device, like)
    if 0 in shape:
        return finish(xp.empty(shape, d), requires_grad)
    size = 1 + sum([(n - 1) * s for n, s in zip(shape, steps)])
    if size * d.itemsize >= 2**63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}"
        )
    errors.check_room(xp, (size,), d.itemsize)
    memory = settled(xp.empty(size, d))
    return finish(
        xp.as_strided(memory, shape, tuple([s * d.itemsize for s in steps])), requires_grad
    )


@function("empty_strided")
def empty_strided(
    size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """An uninitialised tensor with the given strides.

    Args:
        size, stride: as many ints, strides in elements, all 0 or more.
        dtype, device: the default ones if None.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``empty``.

    Returns:
        A leaf; its memory is as long as the strides need.

    Raises:
        RuntimeError: other numbers of sizes and strides, or a negative one.

    Example:
        >>> gradlib.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    return _strided(size, stride, dtype, device, None, requires_grad)


@method("new_empty_strided")
def new_empty_strided(
    self,
    size,
    stride,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """An uninitialised tensor with the given strides and the dtype and device of this one; see ``empty_strided``.

    Args:
        size, stride: as many ints, strides in elements, all 0 or more.
        dtype, device: those of this tensor if None.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``empty``.

    Returns:
        A leaf.

    Raises:
        RuntimeError: other numbers of sizes and strides.

    Example:
        >>> gradlib.zeros(1).new_empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    return _strided(size, stride, dtype, device, self, requires_grad)


@function("empty_permuted")
def empty_permuted(
    size,
    physical_layout,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """An uninitialised dense tensor whose dimensions lie in memory in the order `physical_layout`.

    Args:
        size: a sequence of ints.
        physical_layout: the dimensions, the one with the longest stride first.
        dtype, device: the default ones if None.
        requires_grad: whether the new leaf requires grad.
        layout, pin_memory: accepted as in ``empty``.

    Returns:
        A leaf.

    Raises:
        RuntimeError: the layout does not name each dimension once.

    Example:
        >>> gradlib.empty_permuted((2, 3), (1, 0)).stride()
        (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    shape, order = sizes((size,), "empty_permuted"), tuple(physical_layout)
    if len(order) != len(shape):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, dim in enumerate(order):
        if not 0 <= dim < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {dim} at index {i}). "
                " NB: negative dims not currently supported; file an issue if you want it."
            )
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    xp, d, _ = place(dtype, device)
    errors.check_room(xp, shape, d.itemsize)
    dense = settled(xp.empty(tuple([shape[dim] for dim in order]), d))
    back = sorted(range(len(order)), key=order.__getitem__)
    return finish(dense.transpose(back), requires_grad)


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
    return Tensor._make(np.asarray(value, dtypes.of_scalar(value).np))


handed.over(constant_zeros, scalar_tensor_like)
