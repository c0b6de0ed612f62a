"""The part of a DTensor as a plain tensor, and back: the same memory, version counter and place in the graph."""

from __future__ import annotations

from typing import Any

from ...tape import override
from ...tape.node import edge
from ...tape.storage import share
from ...tape.tensor import Tensor
from ._layout import Layout

new = object.__new__


def plain(part: Any) -> Tensor:
    """A tensor in the place of a DTensor's part, for ops on the part alone; gradients of a leaf go to the DTensor."""
    out = new(Tensor)
    out._array, out._ver, out._rg = part._array, share(part), part._rg
    out._grad = out._view = out._fn = None
    out._nr = 0
    if part._rg:
        out._fn, out._nr = edge(part)
        if part._fn is None and part._view is None:
            out._accumulator_of(part)
    return out


def wrap(local: Tensor, layout: Layout, cls: type) -> Any:
    """Note on a tensor, which nobody else holds, that it is a part of another.

    The object stays: what the graph knows of it, also as a view, is right for the DTensor.

    Args:
        local: the part.
        layout: what it is a part of.
        cls: DTensor.
    """
    override.arm()
    local.__class__ = cls
    local._spec = layout  # pyright: ignore[reportAttributeAccessIssue]
    return local
