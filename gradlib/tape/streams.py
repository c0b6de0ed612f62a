"""Backward on CUDA streams: each node runs on the device and stream of its forward op.

When all nodes of a pass belong to the caller's current stream, the engine's loop runs as it does on the CPU. Otherwise
its inbox is a :class:`StreamInbox`, which does the rest at the two moments when a gradient changes hands:

- a node delivers a gradient: it belongs to the stream that is current; if its receiver lives on another stream, an
  event is recorded there and then;
- a node takes its gradient: its stream becomes current and waits for those events (and, the first time, for what
  the caller had queued when backward was called).

In the end the caller's stream waits for all that were used. What crossed streams is kept until then, and until all of
them are done: the memory pool would give it to the stream that made it at once, and a formula may pass on what it was
given. The host waits for nothing. Leaves have no stream: they accumulate on that of the gradient that arrives last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy import ndarray

from .device import HERE, beside, stored
from .modes import shared
from .node import AccumulateGrad, Node, total

_stream_slot = vars(Node)["stream"]


def stamp(node: Node, tensors: Iterable[Any]) -> bool:
    """Note on which stream `node`'s op runs: the current one of the device of the first CUDA tensor in `tensors`.

    These are the results, so that the node runs where its gradients are.
    """
    for t in tensors:
        array = stored(getattr(t, "_array", None))
        if array is not None and array.__class__ is not ndarray:
            node.stream = shared.cuda.current(array.device.id)
            return True
    return False


def lane_of(node: Node) -> Any:
    """The lane that `node` was stamped with; None for nodes of the CPU and leaves."""
    try:
        return _stream_slot.__get__(node)
    except AttributeError:
        return None


def several(nodes: list[Node]) -> bool:
    """Whether `nodes` need more than the stream that is current now."""
    here, stamped = None, _stream_slot.__get__
    for node in nodes:
        try:
            lane = stamped(node)
        except (
            AttributeError
        ):  # of the CPU, or a root that is a leaf; other leaves are not among the nodes
            if node.__class__ is AccumulateGrad:
                leaf: Any = node.variable
                if beside(leaf._array) is not HERE:
                    return True
            continue
        if lane is not here and lane is not None:
            if here is not None:
                return True
            here = shared.cuda.current()
            if lane is not here:
                return True
    return False


class StreamInbox(dict):
    """Gradients on their way between streams. See the module's text.

    Under each node lies a list of entries [gradient, lane it was made on (None for the CPU), event or None], at most
    one for each lane: gradients made on one lane are added there.
    """

    def __init__(self, arrived: dict, nodes: list[Node]):
        super().__init__()
        self.streams = shared.cuda
        self.streams.sweep()
        self.lane = self.caller = self.streams.current()
        self.homes: dict[int, Any] = {}  # device -> the caller's lane there; of the devices in use
        self.started: set[Any] = set()
        used = {lane for node in nodes if (lane := lane_of(node)) is not None}
        devices = {lane.device for lane in used}
        # what the caller has queued so far comes first; what backward itself queues there need not be waited for
        self.starts = {device: self.home(device).record() for device in devices}
        # gradients that were made on one lane and read on another
        self.crossed: list[Any] = []
        # leaves whose gradient was made elsewhere than on the caller's lane
        self.leaves: list[Any] = []
        for node, value in arrived.items():
            self.put(node, value)

    def home(self, device: int) -> Any:
        """The lane that was current on `device` when backward was called."""
        found = self.homes.get(device)
        if found is None:
            found = self.homes[device] = self.streams.current(device)
            self.started.add(found)
        return found

    # -- a node delivers ---------------------------------------------------------------------------------------------

    def __contains__(self, node) -> bool:
        return True  # so that generated code always calls `deliver`

    def deliver(self, node: Node, nr: int, grad: Any) -> None:
        """Add a gradient, made on the current lane, to what has arrived for output `nr` of `node`."""
        lane = self.maker(grad)
        entries = self.setdefault(node, [])
        for i, entry in enumerate(entries):
            if entry[1] is lane:
                entries.append(entries.pop(i))  # the last one to arrive is the last in the list
                break
        else:
            entry = [[None] * node.n_out if nr else None, lane, None]
            entries.append(entry)
        have = entry[0][nr - 1] if nr else entry[0]
        if have is not None:
            with self.streams.cuda.Device(lane.device) if lane is not None else HERE:
                grad = have + grad if shared.sparse is None else total(have, grad)
        if nr:
            entry[0][nr - 1] = grad
        else:
            entry[0] = grad
        if lane is not None and lane_of(node) not in (lane, None):
            entry[2] = lane.record()

    def put(self, node: Node, value: Any) -> None:
        """What :func:`~gradlib.tape.node.deliver` has left for a root: one gradient, or a list for several outputs."""
        if isinstance(value, list):
            for k, grad in enumerate(value):
                if grad is not None:
                    self.deliver(node, k + 1, grad)
        elif value is not None:
            self.deliver(node, 0, value)

    def maker(self, grad: Any) -> Any:
        """The lane that a gradient delivered now was made on."""
        array = stored(getattr(grad, "_array", grad))
        if array.__class__ is ndarray:
            return None
        device = array.device.id
        if device == self.lane.device:
            return self.lane
        return self.streams.current(device)  # copies to another device go to its current stream

    # -- a node takes ------------------------------------------------------------------------------------------------

    def pop(self, node: Node, default: Any = None) -> Any:
        """The sum of what has arrived at `node`, on its lane, which is current from now on."""
        entries = super().pop(node, None)
        lane = self.lane if node.__class__ is AccumulateGrad else lane_of(node)
        if node.__class__ is AccumulateGrad and entries and entries[-1][1] is not None:
            lane = entries[-1][1]
        if lane is not None and lane is not self.lane:
            self.enter(lane)
        if entries is None:
            return default
        if isinstance(node, AccumulateGrad) and lane is not self.home(self.lane.device):
            self.leaves.append(node.variable)
        total = None
        for value, made_on, event in entries:
            if made_on is not None and made_on is not self.lane:
                self.lane.wait(event if event is not None else made_on.record())
                self.crossed.append(value)
            total = value if total is None else _sum(total, value)
        return total

    def enter(self, lane: Any) -> None:
        home = self.home(lane.device)
        if lane not in self.started:
            self.started.add(lane)
            lane.wait(self.starts.get(lane.device) or home.record())
        lane.enter()
        self.lane = lane

    def close(self, results: list[Any]) -> None:
        """Let the caller's streams wait for all others, and make them current again.

        results: the gradients that the caller gets; those of leaves are added to them.
        """
        for lane in self.started:
            home = self.homes[lane.device]
            if lane is not home:
                home.wait(lane.record())
        if self.crossed:
            for device in self.starts:
                self.streams.retire(self.crossed, self.homes[device])
        for grad in (*results, *(leaf._grad for leaf in self.leaves)):
            array = stored(getattr(grad, "_array", None))
            if array is not None and array.__class__ is not ndarray:
                self.streams.guard(array, self.home(array.device.id))
        self.streams.restore([*self.homes.values(), self.caller])


def _sum(a: Any, b: Any) -> Any:
    """The sum of two gradients, or of two lists of them."""
    if isinstance(a, list):
        return [
            x if y is None else y if x is None else _sum(x, y) for x, y in zip(a, b, strict=True)
        ]
    return a + b if shared.sparse is None else total(a, b)
