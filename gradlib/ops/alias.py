"""alias: the same memory as another tensor of its own in the graph."""

from __future__ import annotations

from ..core.op import declare

alias = declare(
    "alias",
    lambda xp, self: self[...],
    self=lambda g: g,
    jvp="linear",
    view=True,
    batch="elementwise",
    complex=True,
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)
