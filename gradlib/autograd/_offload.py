"""Saved tensors in pinned host memory: copied there beside the computation, and fetched ahead of backward.

Copies run on a stream of their own for each device.

- Packing: that stream waits for what the current stream has queued so far and copies. The array on the device is kept
  until its copy is done; when more than `budget` bytes are on their way, the host waits for the oldest copy, so that
  forward does not run away from the memory that it is to save.
- Unpacking: backward asks for what was saved in the opposite order. So with each value, the ones packed just before
  it, up to `ahead` bytes, are fetched too. The current stream waits for the copy that it asked for, not the host.
  A fetched array belongs to the arena of the copy stream, and its memory is not reused before the reader is done.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from ..devices.cuda import pinned
from ..tape.arrays import backend_for
from ..tape.lazy import resolved
from ..tape.modes import shared
from ..tape.storage import version_of
from ..tape.tensor import Tensor

BUDGET = 512 << 20
AHEAD = 64 << 20


class Packed:
    """What is kept in the place of a saved tensor. As a pair it is (device, pinned tensor).

    order: "C" or "F", the layout of the array. before: weak reference to what was packed before this.
    """

    __slots__ = ("__weakref__", "before", "device", "fetched", "host", "order")

    def __init__(self, device: Any, host: Tensor, order: Any, before: Any):
        self.device, self.host, self.order, self.before = device, host, order, before
        self.fetched: Any = (
            None  # (array on the device, event: it is filled), between the copy and its use
        )

    def __getitem__(self, i: int) -> Any:
        return (self.device, self.host)[i]


class Offload:
    """Packs and unpacks for one block of :class:`~gradlib.autograd.graph.save_on_cpu`."""

    def __init__(self, budget: int = BUDGET, ahead: int = AHEAD):
        self.budget, self.ahead = budget, ahead
        self.on_the_way: deque[tuple[Any, int]] = deque()  # (event, bytes)
        self.latest: Any = None  # weak reference to what was packed last
        # id of an array -> (weak reference to it, version, weak reference to Packed): one copy if saved several times
        self.known: dict[int, tuple[Any, int, Any]] = {}
        self.lanes: dict[int, Any] = {}
        self.lock = threading.RLock()

    def lane(self, device: int) -> Any:
        """The copy stream of a device."""
        found = self.lanes.get(device)
        if found is None:
            streams = shared.cuda
            with streams.cuda.Device(device):
                stream = streams.cuda.Stream(non_blocking=True)
            found = self.lanes[device] = streams.lane(device, stream)
        return found

    # -- forward -----------------------------------------------------------------------------------------------------

    def pack(self, tensor: Tensor) -> Packed:
        tensor = resolved(tensor)
        with self.lock:
            return self._again(tensor) or self._pack(tensor)

    def _again(self, tensor: Tensor) -> Packed | None:
        found = self.known.get(id(tensor._array))
        if found is None or found[0]() is not tensor._array or found[1] != version_of(tensor):
            return None
        return found[2]()

    def _pack(self, tensor: Tensor) -> Packed:
        array, streams = tensor._array, shared.cuda
        order = pinned.order_of(array)
        device = array.device.id
        with streams.cuda.Device(device):
            if order is None:
                array, order = backend_for("cuda").ascontiguousarray(array), "C"
            out = pinned.empty(array.shape, array.dtype, order)
            lane = self.lane(device)
            lane.wait(streams.current(device).record())
            if array.size:
                array.data.copy_to_host_async(out.ctypes.data, array.nbytes, lane.stream)
        packed = Packed(tensor.device, Tensor._make(out), order, self.latest)
        self.latest = weakref.ref(packed)
        self.known[id(tensor._array)] = (
            weakref.ref(tensor._array, self._forget(id(tensor._array))),
            version_of(tensor),
            weakref.ref(packed),
        )
        streams.sweep()
        streams.retire((array, out), lane)
        self._throttle(lane.record(), array.nbytes)
        return packed

    def _forget(self, key: int) -> Any:
        known = weakref.ref(self)

        def forget(reference: Any) -> None:
            offload = known()
            if offload is not None:
                entry = offload.known.get(key)
                if entry is not None and entry[0] is reference:
                    del offload.known[key]

        return forget

    def _throttle(self, event: Any, size: int) -> None:
        """Let the host wait for old copies while too much is on its way."""
        way = self.on_the_way
        way.append((event, size))
        while way and way[0][0].done:
            way.popleft()
        total = sum(n for _, n in way)
        while way and total > self.budget:
            oldest, n = way.popleft()
            oldest.synchronize()
            total -= n
        shared.cuda.sweep()

    # -- backward ----------------------------------------------------------------------------------------------------

    def unpack(self, packed: Packed) -> Tensor:
        with self.lock:
            streams = shared.cuda
            streams.sweep()
            device = packed.device.index
            self._fetch(packed)
            array, event = packed.fetched
            packed.fetched = None
            self._fetch_before(packed)
            lane = streams.current(device)
            lane.wait(event)
            streams.guard(array, lane)
            return Tensor._make(array)

    def _fetch_before(self, packed: Packed) -> None:
        """Start the copies of what backward will ask for next."""
        left, one = self.ahead, packed.before and packed.before()
        while one is not None and left > 0:
            self._fetch(one)
            left -= one.host._array.nbytes
            one = one.before and one.before()

    def _fetch(self, packed: Packed) -> None:
        if packed.fetched is not None:
            return
        host, streams = packed.host._array, shared.cuda
        device = packed.device.index
        lane = self.lane(device)
        with streams.cuda.Device(device), lane.stream:
            array: Any = backend_for("cuda").xp.empty(host.shape, host.dtype, order=packed.order)
            if host.size:  # the copy to the host came first on the same stream
                array.data.copy_from_host_async(host.ctypes.data, host.nbytes, lane.stream)
        packed.fetched = array, lane.record()
        streams.retire(host, lane)
