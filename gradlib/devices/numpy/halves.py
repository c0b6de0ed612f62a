"""Kernels for float32 and float64 made to take half types, too."""

from __future__ import annotations

from collections.abc import Callable

from ...operators.kinds import F4, F8, is_half, narrow


def float_arrays(kernel: Callable) -> Callable:
    """An overlay for float32 and float64 made to take half types too (through float32) and to decline what is else.

    It declines 0-dim and empty arrays as well.
    """

    def overlay(xp, self, *rest, **attrs):
        if not self.size or not self.ndim:
            return NotImplemented
        d = self.dtype
        if d is F4 or d is F8 or (d.kind == "f" and d.itemsize > 2):
            return kernel(xp, self, *rest, **attrs)
        if not is_half(self):
            return NotImplemented
        wide = [xp.wide(r) if hasattr(r, "dtype") else r for r in rest]
        return narrow(kernel(xp, xp.wide(self), *wide, **attrs), d)

    return overlay
