"""Elementwise ops of tensors of float32 and of a half type on a device that widens one as it reads it.

In general the argument is copied in float32 first. Where the op saves none of its arguments nobody needs that copy: the
graph has its node, which casts the gradient back, and memory has no numbers for it.
"""

from __future__ import annotations

from typing import Any

from ..tape import dtypes
from ..tape.arrays import kernels_of
from ..tape.modes import INFERENCE, NO_GRAD, OBSERVE, shared
from . import overlays

_F4 = dtypes.float32.np
_QUIET = NO_GRAD | INFERENCE | OBSERVE  # the modes in which nobody asks for a cast


def compute(op: Any, args: tuple, bits: int) -> Any:
    """The raw result of an op on such arguments; NotImplemented where they have to be cast. `bits`: the thread's."""
    if not op.elementwise or op.saved_tensors or op.promote != "same" or bits & ~_QUIET:
        return NotImplemented
    if shared.batches or shared.subclasses is not None:
        return NotImplemented
    arrays: list[Any] = [getattr(a, "_array", None) for a in args]
    if any([a.__class__ is not shared.cuda.array for a in arrays]):
        return NotImplemented
    kinds = {a.dtype for a in arrays}
    if len(kinds) != 2 or _F4 not in kinds or not kinds & dtypes.HALVES:
        return NotImplemented
    if any([shared.cuda.elsewhere(a) is not None for a in arrays]):
        return NotImplemented
    common = dtypes.result_type((a.dtype, 2 if a._array.ndim else 1) for a in args)
    if common.np != _F4 or (op.check is not None and op.check(args) is not None):
        return NotImplemented
    xp = kernels_of(arrays[0])
    found = overlays.mixed_of(xp, op)
    return NotImplemented if found is None else found(xp, arrays)
