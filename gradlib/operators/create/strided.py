"""Uninitialised tensors with given strides, or with dimensions in a given order."""

from __future__ import annotations

import operator

from ...op.expose import function, method
from ...tape import errors
from ...tape.layout import check_layout, settled
from ...tape.tensor import Tensor
from .base import finish, place, sizes


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
