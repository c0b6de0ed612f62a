"""What parameters were cast to under autocast, kept until the outermost block ends; see `autocast_mode`.

On CUDA the parameters of a model are cast in one launch for 48 of them, where each would be one: those that were cast
in the block before, found by the first of them, are cast together when that one is needed again. Only the numbers are
made ahead. The Tensor of a parameter, and with it its place in the graph, comes when the parameter is first used, as if
it had been cast then: so backward runs in the same order, and a block that ends early has recorded nothing too much.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from typing import Any

import numpy as np

from ..devices.cuda.fused.cast import cast_all
from ..operators.elementwise.cast import cast_op
from ..tape import dtypes
from ..tape.arrays import kernels_of
from ..tape.modes import AUTOCAST, OBSERVE, is_captured, shared, state
from ..tape.node import next_seq
from ..tape.source import user_frame
from ..tape.storage import version_of
from ..tape.tensor import Tensor

GROUPS = 64  # models, so to speak, whose parameters are remembered
_F4, _F8 = dtypes.float32.np, dtypes.float64.np


def castable(tensor: Tensor) -> bool:
    """Whether this is a parameter: a float32 leaf that requires a gradient, and no view."""
    return tensor._rg and tensor._fn is None and tensor._view is None and tensor._array.dtype == _F4


def _recorded(tensor: Tensor, array: Any, lane: Any) -> Tensor:
    """What `cast_op.call` returns for a parameter whose numbers are there: in its plain case (see `op.write`)."""
    node = object.__new__(cast_op.device_node_class)
    node.extra = None
    node.connect((True,), array.shape, (tensor,), array.dtype, _F4)
    node.seq, node.stream = next_seq(), lane
    frame = state.site or user_frame(sys._getframe(1))
    node.code, node.lasti = frame.f_code, frame.f_lasti
    out = Tensor._make(array)
    out._rg, out._fn = True, node
    return out


class Casts(threading.local):
    """The casts of a thread."""

    def __init__(self) -> None:
        # id of a parameter -> (weak reference to it, its version, what it was cast to)
        self.kept: dict[int, tuple[Any, int, Tensor]] = {}
        # the same, for the numbers made ahead -> (reference, version, its array, lane, what it was cast to)
        self.ahead: dict[int, tuple[Any, int, Any, Any, Any]] = {}
        self.used: list[Any] = []  # references to the parameters that this block has cast, in order
        self.groups: dict[
            int, list[Any]
        ] = {}  # id of the first of them -> those of an earlier block

    def of(self, tensor: Tensor, target: dtypes.dtype) -> Tensor:
        """A parameter (see `castable`) in a half type; made once for its version."""
        if state.capture is not None:
            return state.capture.cast_once(tensor, target)
        known = self.known(tensor, target)
        return self.make(tensor, target) if known is None else known

    def known(self, tensor: Tensor, target: dtypes.dtype) -> Tensor | None:
        """What is kept for a parameter as it is now."""
        found = self.kept.get(id(tensor))
        if found is None or found[0]() is not tensor or found[1] != version_of(tensor):
            return None
        return found[2] if found[2]._array.dtype == target.np else None

    def make(self, tensor: Tensor, target: dtypes.dtype) -> Tensor:
        """Cast a parameter, and keep that."""
        version = version_of(tensor)
        made = self._made(tensor, version, target)
        ref = weakref.ref(tensor)
        self.kept[id(tensor)] = ref, version, made
        self.used.append(ref)
        return made

    def forget(self) -> None:
        """The block has ended, or the program asks for new casts."""
        if self.used:
            first = self.used[0]()
            if first is not None and len(self.used) > 1:
                if len(self.groups) >= GROUPS:
                    self.groups.clear()
                self.groups[id(first)] = self.used
            self.used = []
        self.kept.clear()
        self.ahead.clear()

    def _made(self, tensor: Tensor, version: int, target: dtypes.dtype) -> Tensor:
        if shared.cuda is not None and tensor._array.__class__ is shared.cuda.array:
            if id(tensor) not in self.ahead:
                self._cast_together(tensor, target)
            found = self.ahead.pop(id(tensor), None)
            if found is not None and found[0]() is tensor:
                _, then, array, lane, made = found
                fresh = then == version and array is tensor._array and made.dtype == target.np
                if fresh and lane is shared.cuda.current(lane.device):
                    return _recorded(tensor, made, lane)
        return cast_op.call(tensor, target.np, _F4)

    def _cast_together(self, first: Tensor, target: dtypes.dtype) -> None:
        """Make the numbers for the parameters of the block that began with `first` the last time."""
        group = self.groups.get(id(first))
        streams = shared.cuda
        # what a captured graph writes has no values before it is replayed
        if group is None or group[0]() is not first or streams.held is not None:
            return
        device = first._array.data.device_id
        xp = kernels_of(first._array)
        if not xp.fuses or streams.elsewhere(first._array) is not None:
            return
        found = {}  # by id: a parameter may have been cast again in a block, after it was changed
        for ref in group:
            one = ref()
            if (
                one is not None
                and one._array.__class__ is streams.array
                and one._array.data.device_id == device
                and castable(one)
                and id(one) not in self.kept
            ):
                found[id(one)] = one
        if len(found) < 2:
            return
        made = cast_all(xp, [one._array for one in found.values()], target.np)
        lane = streams.current(device)
        for one, array in zip(found.values(), made, strict=True):
            if array is not None:
                ready = weakref.ref(one), version_of(one), one._array, lane, array
                self.ahead[id(one)] = ready


class _Local(threading.local):
    """What a thread has set, also while autocast is off.

    Attributes:
        now: the number of all of it that a program may notice; None after a change, until `note` is called.
        keeps: whether casts may outlive a block that began when `note` was called.
    """

    keeps = False

    def __init__(self) -> None:
        self.dtypes = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.caching = True
        self.nesting = 0
        self.now: int | None = None

    def note(self) -> int:
        """Work out `now`."""
        self.keeps = self.nesting > 0 or bool(casts.kept)
        now = (*self.dtypes.values(), self.caching, self.keeps)
        self.now = found = _settings.setdefault(now, next(_number))
        return found


casts = Casts()
_settings: dict[tuple, int] = {}  # and their numbers, from 1
_number = itertools.count(1)
local = _Local()


def kind_of(tensor: Tensor) -> str:
    """The device type of a tensor."""
    kind = tensor._array.__class__
    if kind is np.ndarray:
        return "cpu"
    cuda = shared.cuda
    return "cuda" if cuda is not None and kind is cuda.array else tensor.device.type


def _only_written_down() -> bool:
    """Whether ops are only watched for a plan (see `gradlib.capture`), and by nobody else."""
    alone = all([i.lets_be for i in state.interposers])
    return state.bits & ~AUTOCAST == OBSERVE and is_captured() and alone


def cast(tensor: Tensor, target: dtypes.dtype, device: str) -> Tensor:
    """`tensor` in dtype `target`; itself if it is no float of the device type, or float64."""
    have, want = tensor._array.dtype, target.np
    if have is want or have in (want, _F8) or have.kind not in "fV":
        return tensor
    if kind_of(tensor) != device:
        return tensor
    keep = (
        target is not dtypes.float32
        and local.caching
        and local.nesting
        and (not state.bits & ~AUTOCAST or _only_written_down())
        and castable(tensor)
    )
    return casts.of(tensor, target) if keep else cast_op.call(tensor, want, have)
