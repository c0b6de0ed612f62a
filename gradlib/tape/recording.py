"""Recorders: those who are told of every operation, backward node and labelled block of a thread.

The profiler and the emitters of NVTX and ITT ranges are recorders. While a thread has one, its PROFILE flag is set;
an op then takes the general path (`interpret.general`). There it is called once more with the flag cleared, so that the
generated fast code does the work, and what an op does inside itself is no range of its own.

A recorder has two methods, called in properly nested pairs (also when an op raises):

- ``enter(name, op, args, attrs, seq, scope) -> token``
    - scope OP: `op` is the Op (None for a custom Function), `args` its tensor arguments (Tensors, numbers, None, or one
      list), `attrs` the other arguments. `seq` is the number that the op's node gets if one is made; -1 where none can
      be made (no_grad, or backward without create_graph).
    - scope BACKWARD: `op` is the Node, `args` the gradients of its outputs (Tensors or None; for AccumulateGrad the
      leaf), `seq` the number it was made with (`node.LEAF_SEQ` for AccumulateGrad). The root of a backward pass has no
      node, no arguments and the number -1.
    - scope LABEL: a block of the user's (`record_function`); `op` is None and `seq` -1.
- ``exit(token, result)``: the result is that of the op (a Tensor or a tuple), and None if it raised or is no op.

A recorder may have ``created(tensor)``, too: it is called for a new tensor that no op made (zeros, randn...). And it
may have ``abandon(token)``, called in the place of `exit` for a range to be forgotten: something else runs instead.
It may have ``replayed(name, site, in_backward, start)``: told of an op or node that a captured step replayed, when it
is done, with its source line and the `perf_counter_ns` at its start; without that, captured steps run as they are.
With `inspects`, it wants to see on the CPU what would run on a device: nothing is refused for its place.

Several recorders nest: the first one added is outermost. They follow a backward pass into the threads that it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .modes import INFERENCE, NO_GRAD, PROFILE, resume, set_flag, state
from .node import peek_seq

OP, BACKWARD, LABEL = 0, 1, 7
_UNRECORDED = NO_GRAD | INFERENCE
GRAPH_ROOT = "torch::autograd::GraphRoot"


class Recorder(Protocol):
    """What the module's text describes."""

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> Any: ...

    def exit(self, token: Any, result: Any) -> None: ...


class Group:
    """Several recorders as one."""

    def __init__(self, recorders: tuple):
        self.recorders, self.inside_out = recorders, recorders[::-1]

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> list:
        return [r.enter(name, op, args, attrs, seq, scope) for r in self.recorders]

    def exit(self, tokens: list, result: Any) -> None:
        for recorder, token in zip(self.inside_out, reversed(tokens), strict=True):
            recorder.exit(token, result)

    def abandon(self, tokens: list) -> None:
        for recorder, token in zip(self.inside_out, reversed(tokens), strict=True):
            _abandon(recorder, token)


def _abandon(recorder: Any, token: Any) -> None:
    if hasattr(recorder, "abandon"):
        recorder.abandon(token)
    else:
        recorder.exit(token, None)


def recorders() -> tuple:
    """This thread's recorders, outermost first."""
    one = state.recorder
    return one.recorders if isinstance(one, Group) else () if one is None else (one,)


def inspected() -> bool:
    """Whether this thread is inside a dry run, whose recorder says so by an attribute `inspects`."""
    return any(getattr(recorder, "inspects", False) for recorder in recorders())


def group(all_of_them: tuple) -> Any:
    """Several recorders as one; None for none."""
    return Group(all_of_them) if len(all_of_them) > 1 else all_of_them[0] if all_of_them else None


def _set(all_of_them: tuple) -> None:
    state.recorder = group(all_of_them)
    set_flag(PROFILE, bool(all_of_them))


def add(recorder: Recorder) -> None:
    """Tell `recorder` of what this thread does from now on."""
    _set((*recorders(), recorder))


def remove(recorder: Recorder) -> None:
    """Undo `add`, in the same thread."""
    _set(tuple(r for r in recorders() if r is not recorder))


# -- what is recorded --------------------------------------------------------------------------------------------------


def run_inplace(inplace: Any, op: Any, tensor: Any, others: tuple, attrs: tuple) -> Any:
    """``inplace(op, tensor, others, attrs)`` as a range; like the part of `interpret.general` for other ops."""
    bits, recorder, result = state.bits, state.recorder, None
    seq = -1 if bits & _UNRECORDED else peek_seq()
    name = op.public + "_"
    token = recorder.enter(name, op, (tensor, *others), attrs, seq, OP)
    state.bits = bits & ~PROFILE
    try:
        result = inplace(op, tensor, others, attrs)
        return result
    finally:
        resume(bits, bits & ~PROFILE)
        recorder.exit(token, result)


def run_node(node: Any, args: tuple, action: Any, *given: Any) -> Any:
    """``action(*given)``, the work of `node`, as a range; the ops of its formula are ranges inside."""
    recorder = state.recorder
    token = recorder.enter(node.name(), node, args, (), node.seq, BACKWARD)
    try:
        return action(*given)
    finally:
        recorder.exit(token, None)


class WholeGradient(NamedTuple):
    """What recorders get as op for the gradient of an op that is computed in one piece, not by other ops."""

    name: str
    captures: Any
    flops: Any
    attrs: tuple  # names
    view: Any = None
    variadic: bool = False
    dynamic: bool = False
    leaves_device: bool = False


def run_whole(op: Any, args: tuple, attrs: dict[str, Any], action: Any) -> Any:
    """``action()``, the gradients of `op` as Tensors in one piece, as a range; none if that gives NotImplemented.

    args, attrs: what it computes them from, as of an op.
    """
    recorder, outs = state.recorder, None
    stands = WholeGradient(op.name + "_backward", op.captures, op.backward_flops, tuple(attrs))
    name = op.public + "_backward"
    token = recorder.enter(name, stands, args, tuple(attrs.values()), -1, OP)
    try:
        outs = action()
        return outs
    finally:
        if outs is NotImplemented:
            _abandon(recorder, token)
        else:
            recorder.exit(token, outs)


def run_root(action: Any, *given: Any) -> Any:
    """``action(*given)``, the beginning of a backward pass, as a range."""
    span = Span(GRAPH_ROOT, BACKWARD)
    try:
        return action(*given)
    finally:
        span.end()


def run_read(name: str, tensor: Any, action: Any) -> Any:
    """``action()``, which takes values of `tensor` to Python, as a range: it waits until they are there."""
    span = Span(name, OP, None, (tensor,))
    try:
        return action()
    finally:
        span.end()


def host_reads(name: str, tensor: Any) -> None:
    """Tell that the host waits for values of `tensor` in the function `name`, outside of ops."""
    for recorder in recorders():
        hear = getattr(recorder, "host_reads", None)
        if hear is not None:
            hear(name, tensor)


def created(tensor: Any) -> None:
    """Tell of a new tensor that no op made."""
    for recorder in recorders():
        hear = getattr(recorder, "created", None)
        if hear is not None:
            hear(tensor)


class Span:
    """A range around a block, for a thread whose PROFILE flag is set.

    The recorder is remembered: the block may end after it was removed.
    """

    __slots__ = ("recorder", "token")

    def __init__(self, name: str, scope: int, op: Any = None, args: Any = (), seq: int = -1):
        self.recorder = state.recorder
        self.token = self.recorder.enter(name, op, args, (), seq, scope)

    def end(self) -> None:
        self.recorder.exit(self.token, None)


def function_span(name: str, args: tuple) -> Span:
    """The range of a custom Function's forward; the ops in it are ranges inside."""
    return Span(name, OP, None, args, -1 if state.bits & _UNRECORDED else peek_seq())


# -- modules -----------------------------------------------------------------------------------------------------------

_watchers = 0
# gradlib.nn.modules._call puts here what makes calls of modules look at `state.modules`; without nn nobody calls any
tell_modules: Callable[[], None] | None = None


def watch_modules() -> Any:
    """Note in `state.modules` which modules this thread is calling; returns what `unwatch_modules` needs."""
    global _watchers
    _watchers += 1
    previous, state.modules = state.modules, ()
    if tell_modules is not None:
        tell_modules()
    return previous


def unwatch_modules(previous: Any) -> None:
    """Undo `watch_modules`."""
    global _watchers
    _watchers -= 1
    state.modules = previous


def modules_watched() -> bool:
    """Whether some thread notes its modules."""
    return _watchers > 0
