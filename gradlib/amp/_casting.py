"""The interposer of autocast: every op call passes it while a block is open; see `autocast_mode`.

It is alone in this file, of which `tape.source` knows that an op and the casts of its arguments belong to one call of
the user: the line of that call is looked for once, and only when a node is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op.interpret import general, plain
from ..tape import dtypes
from ..tape.modes import AUTOCAST, NO_GRAD, Interposer, resume, shared, state
from ..tape.source import LIBRARY, ONE_SITE, user_frame_above
from ..tape.tensor import Tensor
from . import _policy
from ._casts import cast, kind_of

_REFUSED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


class Casting(Interposer):
    """on: device type -> dtype of products, for the types where autocast is enabled."""

    for_recomputation = True  # a checkpointed block is computed again as it was the first time

    def __init__(self, on: dict[str, dtypes.dtype]):
        self.on = on

    def call(self, op: Any, args: tuple, attrs: tuple, proceed: Callable) -> Any:
        bits, site, lowered = state.bits, state.site, False
        state.site = None
        try:
            given = args[0] if op.variadic else args
            for a in given:
                if isinstance(a, Tensor):
                    device = kind_of(a)
                    break
            else:
                return proceed()
            low = self.on.get(device)
            if low is None:
                return proceed()
            policy = _policy_of(op, device, attrs)
            lowered = True
            state.bits = bits & ~AUTOCAST  # not set_bits: the thread still counts as one with flags
            if policy:
                target = _target(policy, low, given)
                made = [cast(a, target, device) if isinstance(a, Tensor) else a for a in given]
                args = (made,) if op.variadic else tuple(made)
            if state.interposers or bits & ~(AUTOCAST | NO_GRAD):
                return proceed(args)
            return _plain_call(op, args, attrs, device)  # nobody else wants to know
        finally:
            state.site = site
            if lowered:
                resume(bits, bits & ~AUTOCAST)

    def call_on_device(self, op: Any, args: tuple, attrs: tuple, above: int) -> Any:
        """`call` from the code of `op` for CUDA devices, if nothing else is on.

        None of the frames in between is looked at: the user's is found at once, and only if a node is recorded.

        above: of the caller's frames, those below this number are the library's.
        """
        device, recorded = "", False
        for a in args:
            if isinstance(a, Tensor):
                device = device or kind_of(a)
                recorded = recorded or a._rg
        low = self.on.get(device)
        if low is None:
            return general(op, args, attrs)
        if attrs:
            attrs = plain(attrs)
        policy = _policy_of(op, device, attrs)
        bits, site, outer = state.bits, state.site, state.interposers
        state.site = user_frame_above(above) if recorded and not bits & NO_GRAD else None
        state.bits, state.interposers = bits & NO_GRAD, ()  # not set_bits, as above
        try:
            if policy:
                target = _target(policy, low, args)
                args = tuple(
                    [cast(a, target, device) if isinstance(a, Tensor) else a for a in args]
                )
            return _plain_call(op, args, attrs, device)
        finally:
            state.site, state.interposers = site, outer
            resume(bits, bits & NO_GRAD)

    def call_inplace(
        self, op: Any, tensor: Tensor, others: tuple, attrs: tuple, proceed: Callable
    ) -> Any:
        """In place the dtype cannot change; nothing is cast."""
        site, state.site = state.site, None
        try:
            return proceed()
        finally:
            state.site = site


def _policy_of(op: Any, device: str, attrs: tuple) -> int | None:
    """The policy of a call of `op`, inside of a function that is listed as a whole that of the function."""
    around = state.cast_as
    policy = (around is not None and around.get(device)) or _policy.of_op(op, device, attrs)
    if policy == _policy.REFUSED:
        raise RuntimeError(_REFUSED)
    return policy


def _plain_call(op: Any, args: tuple, attrs: tuple, device: str) -> Any:
    """The generated code of `op` for arguments that are cast: that of the device where it is written already."""
    if device == "cuda" and op.on_device is not None and _leads(args):
        return op.on_device(*args, *attrs)
    return op.call(*args, *attrs)


def _leads(args: tuple) -> bool:
    """Whether the code for a device may be asked at once: the first argument is a tensor of it."""
    first = args[0]
    return first.__class__ is Tensor and first._array.__class__ is shared.cuda.array


LIBRARY[Casting.call.__code__.co_filename] = ONE_SITE


def _target(policy: int, low: dtypes.dtype, given: Any) -> dtypes.dtype:
    """The dtype that the float arguments of an op are cast to."""
    if policy == _policy.LOWER:
        return low
    wide = policy != _policy.WIDEST
    wide = wide or any(getattr(a, "dtype", None) is dtypes.float32 for a in given)
    return dtypes.float32 if wide else low
