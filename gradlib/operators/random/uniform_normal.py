"""Uniform and normal numbers: rand, randn, their *_like forms, normal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import spreading
from ...op.expose import PUBLIC, function, need_tensor, refuse_recording
from ...op.vmap import draws
from ...tape import dtypes, errors
from ...tape.device import beside
from ...tape.layout import check_layout
from ...tape.modes import shared, state
from ...tape.tensor import Tensor
from ..create.base import asked, finish, pinned_copy, place, sizes
from ..kinds import unsupported
from .draw import as_array, draw_for, draw_new, laid_out, on_device, require


def draw_uniform(rng, shape, d, low=0.0, high=1.0):
    """Uniform numbers in [low, high) as a raw array of NumPy dtype `d`."""
    if d.kind == "c":
        part = np.dtype(np.float32 if d.itemsize == 8 else np.float64)
        return draw_uniform(rng, shape, part, low, high) + 1j * draw_uniform(
            rng, shape, part, low, high
        )
    native = d if d in (dtypes.float32.np, dtypes.float64.np) else np.dtype(np.float32)
    values = as_array(rng.random(shape, dtype=native))
    spreading.met(values.size)
    if (low, high) != (0.0, 1.0):
        values = values * native.type(high - low) + native.type(low)
    return values if native is d else values.astype(d)


def draw_normal(rng, shape, d):
    """Standard normal numbers as a raw array of NumPy dtype `d`; a complex number has variance 1 in all."""
    if d.kind == "c":
        part = np.dtype(np.float32 if d.itemsize == 8 else np.float64)
        half = part.type(np.sqrt(0.5))
        return (
            draw_normal(rng, shape, part) * half + 1j * (draw_normal(rng, shape, part) * half)
        ).astype(d)
    native = d if d in (dtypes.float32.np, dtypes.float64.np) else np.dtype(np.float32)
    values = as_array(rng.standard_normal(shape, dtype=native))
    spreading.met(values.size)
    return values if native is d else values.astype(d)


def draw_scaled(rng, shape, d, mean, std):
    """Normal numbers of a mean and a standard deviation as a raw array."""
    return draw_normal(rng, shape, d) * d.type(std) + d.type(mean)


def _check_drawn(d, label: str) -> None:
    if d.kind not in "fcV" or d.names is not None:
        raise unsupported(label, d)


def _factory(name: str, draw, doc: str, label: str):
    def make(
        *size,
        generator=None,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        pin_memory=False,
        names=None,
        **kw,
    ):
        if layout is not None:
            check_layout(layout)
        if shared.batches and state.batch is not None:
            given = {
                "generator": generator, "out": out, "dtype": dtype, "layout": layout, "device": device,
                "requires_grad": requires_grad, "pin_memory": pin_memory, "names": names, **kw,
            }  # fmt: skip
            return state.batch.draw(make, size, given)
        if "size" in kw:
            size = (kw["size"],)
        xp, d, target = place(dtype, device, out=out)
        _check_drawn(d, label)
        shape = sizes(size)
        try:
            if shared.active:
                values = draw_new(generator, target, draw, shape, d)
            else:  # the same, without a call
                values = draw_for(generator, target, lambda rng: draw(rng, shape, d))
        except Exception:
            errors.check_room(xp, shape, d.itemsize)
            raise
        values = on_device(values, target)
        return finish(pinned_copy(values) if pin_memory else values, requires_grad, out)

    def like(
        input,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        memory_format=None,
        generator=None,
    ):
        if layout is not None:
            check_layout(layout)
        if asked(input):
            return shared.subclasses.made(like, input, dtype=dtype, device=device)
        if shared.batches and state.batch is not None:
            given = {
                "dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad,
                "memory_format": memory_format, "generator": generator,
            }  # fmt: skip
            return state.batch.draw(like, (input,), given)
        _, d, target = place(dtype, device, input)
        _check_drawn(d, label)
        shape = input._array.shape
        if shared.active and memory_format is None and input._array.flags.c_contiguous:
            values = draw_new(generator, target, draw, shape, d)
        else:
            values = draw_for(generator, target, lambda rng: draw(rng, shape, d))
        return finish(laid_out(on_device(values, target), input, memory_format), requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A tensor of the given size filled with {doc}.

Args:
    size: ints, or one sequence of them; without any the tensor has no dimension.
    generator: where the numbers come from; by default that of the device, see `manual_seed`.
    out: a tensor to write to, which gets this size.
    dtype, device: the default ones if None.
    layout: accepted; all tensors are strided.
    requires_grad: whether the new leaf requires grad.
    pin_memory: whether it lies in page-locked memory.

Returns:
    A leaf, or `out`.

Raises:
    RuntimeError: a negative size.
    NotImplementedError: integer dtypes.

Example:
    >>> gradlib.{name}(2, 3).shape
    torch.Size([2, 3])
"""
    like.__name__ = like.__qualname__ = name + "_like"
    like.__doc__ = f"""A tensor of the size of `input` filled with {doc}.

Args:
    input: a tensor.
    dtype, device: those of `input` if None.
    layout: accepted as in ``{name}``.
    requires_grad: whether the new leaf requires grad.
    memory_format: the order of strides; by default (`preserve_format`) that of `input`.
    generator: where the numbers come from; by default that of the device, see `manual_seed`.

Returns:
    A leaf.

Raises:
    NotImplementedError: integer dtypes.

Example:
    >>> gradlib.{name}_like(gradlib.zeros(2, 3)).shape
    torch.Size([2, 3])
"""
    PUBLIC[name], PUBLIC[name + "_like"] = make, like
    return make, like


rand, rand_like = _factory(
    "rand", draw_uniform, "uniform numbers in [0, 1)", "check_uniform_bounds"
)
randn, randn_like = _factory("randn", draw_normal, "standard normal numbers", "normal_kernel_cpu")


@function("normal")
@draws
def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Normally distributed numbers.

    Args:
        mean, std: tensors whose shapes broadcast, or numbers; one of each element, or of all.
        size: the shape of the result, where both are numbers.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.
        dtype, layout, device, requires_grad: as of ``zeros``, where both are numbers.
        out: written to instead of a new tensor.

    Returns:
        A tensor; nothing is recorded.

    Raises:
        RuntimeError: a negative `std`.

    Example:
        >>> gradlib.normal(gradlib.tensor([1.0, 2.0]), 0.0)
        tensor([1., 2.])
    """
    if layout is not None:
        check_layout(layout)
    if size is not None:
        _check_std(std)
        _, d, target = place(dtype, device, out=out)
        _check_drawn(d, "normal_kernel_cpu")
        values = draw_new(generator, target, draw_scaled, sizes((size,)), d, mean, std)
        return finish(on_device(as_array(values).astype(d, copy=False), target), requires_grad, out)
    some: Any = mean if isinstance(mean, Tensor) else std
    if not isinstance(some, Tensor):
        raise need_tensor("normal", mean, "mean")
    _check_std(std)
    _check_drawn(some._array.dtype, "normal_kernel_cpu")
    arrays = [t.detach() if isinstance(t, Tensor) else t for t in (mean, std)]
    shapes = [t._array.shape for t in arrays if isinstance(t, Tensor)]
    errors.check_broadcast(shapes[0], shapes[-1])
    wide, d = np.broadcast_shapes(*shapes), some._array.dtype
    noise = finish(on_device(draw_new(generator, some.device, draw_normal, wide, d), some.device))
    values = (noise * arrays[1] + arrays[0])._array
    with beside(values):
        values = values.astype(d, copy=False)
    refuse_recording("normal", out, mean, std)
    return finish(values, out=out)


def _not_negative(array):
    return array >= 0


def _check_std(std) -> None:
    """RuntimeError for a negative standard deviation."""
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        require("normal", std, _not_negative, "normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
