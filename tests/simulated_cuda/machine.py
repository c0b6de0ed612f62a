"""The machine behind the simulated device: streams as queues of work, events, and the order in which work is done.

Nothing is executed when it is submitted (unless the machine is eager). It runs when somebody synchronises, or at a
moment that the seed picks, in any order that the rules of CUDA allow: work of one stream in its order, after the
events it waits for, and the legacy stream in turn with all streams that are not non-blocking.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

LEGACY, PER_THREAD = 0, 2  # handles of the default streams; 1 is another name of the legacy one

ERRORS = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    3: ("cudaErrorInitializationError", "initialization error"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    600: ("cudaErrorNotReady", "device not ready"),
    900: (
        "cudaErrorStreamCaptureUnsupported",
        "operation not permitted when stream is capturing",
    ),
    901: (
        "cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture",
    ),
    903: ("cudaErrorStreamCaptureUnmatched", "end of capture on a stream that is not capturing"),
    904: (
        "cudaErrorStreamCaptureUnjoined",
        "capturing stream has unjoined work",
    ),
    905: (
        "cudaErrorStreamCaptureIsolation",
        "dependency created on uncaptured work in another stream",
    ),
    906: (
        "cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    907: ("cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
}  # fmt: skip


class CUDARuntimeError(RuntimeError):
    """What a call of the CUDA runtime failed with."""

    def __init__(self, status: int, text: str = ""):
        name, usual = ERRORS[status]
        self.status, self.text = status, text
        super().__init__(f"{name}: {text or usual}")

    def __reduce__(self):
        return (type(self), (self.status, self.text))


class Op:
    """One piece of work in a stream."""

    __slots__ = ("deps", "done", "label", "queue", "run")

    def __init__(self, run: Callable[[], Any] | None, queue: Queue, deps: Iterable[Op], label: str):
        self.run, self.queue, self.label = run, queue, label
        self.deps = [d for d in deps if not d.done]
        self.done = False


class Queue:
    """The work of one stream that has not been done yet."""

    def __init__(self, handle: int, device: int, blocking: bool, priority: int = 0):
        self.handle, self.device, self.blocking, self.priority = handle, device, blocking, priority
        self.ops: deque[Op] = deque()
        self.tail: Op | None = None
        self.waits: list[Op] = []  # what the next piece of work has to wait for
        self.capture: Capture | None = None
        self.front: frozenset[int] = frozenset()  # nodes that the next captured work comes after
        self.weight = 1.0

    def pending(self) -> list[Op]:
        """What somebody waiting for this stream has to wait for."""
        own = [self.tail] if self.tail is not None and not self.tail.done else []
        return own + [w for w in self.waits if not w.done]


class Capture:
    """Work recorded between begin_capture and end_capture: nodes and what each comes after."""

    def __init__(self, origin: Queue, mode: int):
        self.origin, self.mode = origin, mode
        self.nodes: list[tuple[Callable[[], Any], frozenset[int], str]] = []
        self.joined = {origin}
        self.broken = False

    def add(self, queue: Queue, run: Callable[[], Any], label: str) -> None:
        self.nodes.append((run, queue.front, label))
        queue.front = frozenset((len(self.nodes) - 1,))

    def ancestors(self, front: frozenset[int]) -> set[int]:
        found, todo = set(), list(front)
        while todo:
            i = todo.pop()
            if i not in found:
                found.add(i)
                todo += self.nodes[i][1]
        return found


class EventState:
    """An event: the work it stood behind when it was recorded last."""

    def __init__(self, timing: bool = True):
        self.timing = timing
        self.op: Op | None = None
        self.captured: tuple[Capture, frozenset[int]] | None = None
        self.time: float | None = None
        self.recorded = False


class Machine:
    """All devices: their streams, the work that waits, and the dice that pick what runs next."""

    installed = False  # whether `import cupy` gives the stand-in
    used = False  # whether calls were made, of this machine or one before it

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.local = threading.local()
        self.reset()

    def reset(self, seed: int | None = None, devices: int = 2, memory: int = 1 << 32) -> None:
        """A new machine. seed None: work is done when it is submitted; otherwise late, in an order of that seed."""
        self.seed, self.count, self.memory = seed, devices, memory
        self.lazy = seed is not None
        self.random = random.Random(seed)
        self.queues: dict[tuple[int, int], Queue] = {}
        self.events: dict[int, EventState] = {}
        self.next_handle = 0x5000
        self.executed = self.waits = 0  # work done; times the host waited for a stream
        self.captures = 0  # that are going on
        self.working = False  # whether queued work is being done
        self.fault: CUDARuntimeError | None = None  # of a kernel: the context is lost
        self.lost: CUDARuntimeError | None = None  # what every call answers, once somebody was told
        self.log: list[str] | None = (
            None  # a list given by a test collects the labels of executed work
        )
        self.local = threading.local()
        self.poison = True
        # How this seed schedules: how often work runs early, and how often a synchronisation does unasked work.
        self.early = self.random.choice((0.0, 0.05, 0.3, 0.9))
        self.generous = self.random.choice((0.0, 0.2, 0.8))

    # -- faults: late and for ever -----------------------------------------------------------------------------------

    def break_down(self, text: str) -> None:
        """A kernel did what a device does not survive. Its launch has succeeded; who waits next is told."""
        if self.fault is None:
            self.fault = CUDARuntimeError(719, text)

    def check(self) -> None:
        """What every call does first: a context does not outlive a fault of a kernel, nor a fork."""
        self.used = True
        if self.lost is not None:
            raise CUDARuntimeError(self.lost.status, self.lost.text)

    def waited(self) -> None:
        """The same for a call that waits for what was queued."""
        self.lost = self.lost or self.fault
        self.check()

    def forked(self) -> None:
        """In a child of a process that has made calls no call works."""
        self.lock = threading.RLock()  # somebody may have had the old one
        if self.used:
            self.lost = CUDARuntimeError(3)

    # -- current device and stream ---------------------------------------------------------------------------------

    @property
    def device(self) -> int:
        return getattr(self.local, "device", 0)

    def set_device(self, index: int) -> None:
        if not 0 <= index < self.count:
            raise CUDARuntimeError(101)
        self.local.device = index

    def new_handle(self) -> int:
        with self.lock:
            self.next_handle += 0x10
            return self.next_handle

    def queue(self, handle: int, device: int | None = None) -> Queue:
        """The queue of a stream handle; default streams belong to the current device."""
        if handle == 1:
            handle = LEGACY
        if handle in (LEGACY, PER_THREAD):
            key = (handle, self.device if device is None else device)
            if handle == PER_THREAD:
                key = (-threading.get_ident(), key[1])
            found = self.queues.get(key)
            if found is None:
                found = self.queues[key] = Queue(handle, key[1], True)
                found.weight = 10 ** self.random.uniform(-2, 0)
            return found
        try:
            return self.queues[(handle, -1)]
        except KeyError:
            raise CUDARuntimeError(400) from None

    def create_stream(self, blocking: bool, priority: int = 0) -> int:
        self.check()
        handle = self.new_handle()
        made = self.queues[(handle, -1)] = Queue(handle, self.device, blocking, priority)
        made.weight = 10 ** self.random.uniform(-2, 0)
        return handle

    def destroy_stream(self, handle: int) -> None:
        """Its work is still done; only the handle is gone."""
        with self.lock:
            found = self.queues.pop((handle, -1), None)
            if found is not None and found.pending():
                self.queues[(handle, -2)] = found

    # -- submitting --------------------------------------------------------------------------------------------------

    def submit(self, run: Callable[[], Any], queue: Queue, label: str = "") -> None:
        """Work for a stream: done now (eager), recorded (capture) or put into its queue."""
        self.check()
        with self.lock:
            if queue.capture is not None:
                queue.capture.add(queue, run, label)
                return
            if queue.blocking:
                self.refuse_implicit(queue)
            if not self.lazy:
                self.execute(run, label)
                return
            self.put(run, queue, label)
            self.wander()

    def refuse_implicit(self, queue: Queue) -> None:
        """The legacy stream would have to wait for a stream that is recorded, not run."""
        if queue.handle == LEGACY:
            for other in self.queues.values():
                if other.capture is not None and other.blocking and other.device == queue.device:
                    other.capture.broken = True
                    raise CUDARuntimeError(906)

    def put(self, run: Callable[[], Any] | None, queue: Queue, label: str) -> Op:
        deps = queue.waits + self.implicit(queue)
        queue.waits = []
        op = Op(run, queue, deps, label)
        queue.ops.append(op)
        queue.tail = op
        return op

    def implicit(self, queue: Queue) -> list[Op]:
        """Legacy work waits for all blocking streams of the device, and they wait for it."""
        if not queue.blocking:
            return []
        others = [
            q for q in self.queues.values()
            if q is not queue and q.blocking and q.device == queue.device
            and (queue.handle == LEGACY or q.handle == LEGACY)
        ]  # fmt: skip
        return [op for q in others for op in q.pending()]

    # -- executing ---------------------------------------------------------------------------------------------------

    def execute(self, run: Callable[[], Any], label: str) -> None:
        if self.fault is not None:  # what was queued behind it is not done
            return
        self.executed += 1
        if self.log is not None:
            self.log.append(label)
        run()

    def finish(self, op: Op) -> None:
        """Run the first op of a queue; what it depends on is done."""
        assert op.queue.ops.popleft() is op
        op.done = True
        run, op.run, op.deps = op.run, None, []
        if run is not None:
            self.execute(run, op.label)

    def runnable(self) -> list[Op]:
        heads = [q.ops[0] for q in self.queues.values() if q.ops]
        return [op for op in heads if all(d.done for d in op.deps)]

    def pick(self) -> Op | None:
        choices = self.runnable()
        if not choices:
            return None
        return self.random.choices(choices, [op.queue.weight for op in choices])[0]

    def wander(self) -> None:
        """Now and then work is done although nobody waits for it."""
        if self.working:  # memory freed by a finaliser, in the middle of something else
            return
        self.working = True
        try:
            self._wander()
        finally:
            self.working = False

    def _wander(self) -> None:
        if self.random.random() < 0.05:  # the streams change places in the race
            for q in self.queues.values():
                q.weight = 10 ** self.random.uniform(-2, 0)
        while self.random.random() < self.early:
            op = self.pick()
            if op is None:
                return
            self.finish(op)

    def needed(self, op: Op) -> Op:
        """Something that can run now and that `op` has to wait for, or `op` itself."""
        while True:
            head = op.queue.ops[0]
            waiting = [d for d in head.deps if not d.done]
            if not waiting:
                return head
            op = self.random.choice(waiting)

    def wait_for(self, ops: list[Op]) -> None:
        """Work on until these are done."""
        before, self.working = self.working, True
        try:
            for op in ops:
                while not op.done:
                    some = self.pick() if self.random.random() < self.generous else None
                    self.finish(some or self.needed(op))
        finally:
            self.working = before

    def synchronize(self, queue: Queue) -> None:
        self.check()
        with self.lock:
            self.waits += 1
            if queue.capture is not None:
                queue.capture.broken = True
                raise CUDARuntimeError(900)
            self.refuse_implicit(queue)
            if queue.handle == LEGACY:
                self.wait_for(self.implicit(queue))
            self.wait_for(queue.pending())
            self.waited()

    def synchronize_device(self, device: int) -> None:
        with self.lock:
            for q in self.queues.values():
                if q.capture is not None and q.device == device:
                    q.capture.broken = True
                    raise CUDARuntimeError(900)
            for q in list(self.queues.values()):
                if q.device == device:
                    self.wait_for(q.pending())
            self.waited()

    def idle(self, queue: Queue) -> bool:
        """cudaStreamQuery; asking often enough lets the work go on."""
        with self.lock:
            if queue.capture is not None:
                raise CUDARuntimeError(900)
            self.poll()
            self.waited()
            return not queue.pending()

    def poll(self) -> None:
        before, self.working = self.working, True
        try:
            op = self.pick()
            if op is not None:
                self.finish(op)
        finally:
            self.working = before

    # -- events ------------------------------------------------------------------------------------------------------

    def record(self, event: EventState, queue: Queue) -> None:
        self.check()
        with self.lock:
            event.recorded = True
            if queue.capture is not None:
                event.captured, event.op = (queue.capture, queue.front), None
                return
            self.refuse_implicit(queue)
            event.captured = None

            def stamp():
                event.time = time.perf_counter()

            event.op = None
            if not self.lazy:
                stamp()
                return
            event.op = self.put(stamp, queue, "event")

    def wait(self, queue: Queue, event: EventState) -> None:
        """Later work of the stream comes after what the event was recorded behind."""
        with self.lock:
            if event.captured is not None:
                capture, front = event.captured
                if queue.capture is None:
                    queue.capture, queue.front = capture, frozenset()
                    capture.joined.add(queue)
                elif queue.capture is not capture:
                    queue.capture.broken = capture.broken = True
                    raise CUDARuntimeError(905)
                queue.front = queue.front | front
                return
            if queue.capture is not None and event.recorded:
                queue.capture.broken = True
                raise CUDARuntimeError(905)
            if event.op is not None and not event.op.done:
                queue.waits.append(event.op)

    def event_done(self, event: EventState) -> bool:
        with self.lock:
            if event.captured is not None:
                raise CUDARuntimeError(907)
            self.poll()
            self.waited()
            return event.op is None or event.op.done

    def event_synchronize(self, event: EventState) -> None:
        with self.lock:
            if event.captured is not None:
                raise CUDARuntimeError(907)
            if event.op is not None:
                self.wait_for([event.op])
            self.waited()

    # -- capture -----------------------------------------------------------------------------------------------------

    def begin_capture(self, queue: Queue, mode: int) -> None:
        self.check()
        with self.lock:
            if queue.capture is not None:
                raise CUDARuntimeError(900)
            queue.capture, queue.front = Capture(queue, mode), frozenset()
            self.captures += 1

    def end_capture(self, queue: Queue) -> list:
        """The nodes of the graph; every stream that was forked must have been joined again."""
        with self.lock:
            capture = queue.capture
            if capture is None or capture.origin is not queue:
                raise CUDARuntimeError(903 if capture is None else 904)
            self.captures -= 1
            reached = capture.ancestors(queue.front)
            for joined in capture.joined:
                joined.capture = None
            if capture.broken:
                raise CUDARuntimeError(901)
            if len(reached) != len(capture.nodes):
                raise CUDARuntimeError(904)
            return capture.nodes

    def replay(self, nodes: list, queue: Queue) -> None:
        """Launch a graph: its nodes in an order that their dependencies allow."""

        def run():
            if not self.lazy:
                for node in nodes:
                    node[0]()
                return
            missing = [len(front) for _, front, _ in nodes]
            later: list[list[int]] = [[] for _ in nodes]
            for i, (_, front, _) in enumerate(nodes):
                for before in front:
                    later[before].append(i)
            ready = [i for i, n in enumerate(missing) if not n]
            while ready:
                i = ready.pop(self.random.randrange(len(ready)))
                nodes[i][0]()
                for following in later[i]:
                    missing[following] -= 1
                    if not missing[following]:
                        ready.append(following)

        self.submit(run, queue, "graph")


machine = Machine()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=machine.forked)
