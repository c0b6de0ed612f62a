"""Backward: one loop, for every device, in the caller's thread, never recursive.

Sequence numbers grow with time, so every edge points to a smaller one: the nodes reached from the roots, sorted by
number, newest first, are in dependency order. A leaf is ready as soon as the last of its users has run. What has
arrived at a node and is not yet used lies in the task's inbox; in the usual mode that is raw arrays.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from numpy import ndarray

from . import errors, handed, modes, recording, streams
from .accumulation import accumulate, keep_gradient
from .anomaly import check_nan, report
from .dtypes import from_np
from .lazy import Lazy, raw_values
from .modes import (
    ANOMALY,
    DIFFERENTIATED,
    DISPATCH,
    FORWARD_AD,
    INFERENCE,
    NO_GRAD,
    PROFILE,
    RAW,
    RECORDED,
    VMAP,
    shared,
    state,
)
from .node import AccumulateGrad, Node, deliver, deliver_all
from .tensor import Tensor

by_seq = attrgetter("seq")
next_task = itertools.count().__next__
DEEP = 48  # backward passes inside each other on one stack


class GraphTask:
    """One backward pass: what is wanted, how it runs. Nothing of it is global, so passes nest and run in threads."""

    __slots__ = (
        "__weakref__",
        "accumulate",
        "callbacks",
        "captured",
        "create_graph",
        "inbox",
        "keep_graph",
        "leaves",
        "needed",
        "number",
        "roots",
        "traced",
        "wanted",
    )

    def __init__(self, keep_graph: bool, create_graph: bool, accumulate: bool):
        self.keep_graph, self.create_graph, self.accumulate = keep_graph, create_graph, accumulate
        bits = state.bits
        again = create_graph or bits & (FORWARD_AD | VMAP) or shared.subclasses is not None
        self.traced = DIFFERENTIATED if again else RECORDED if bits & (PROFILE | DISPATCH) else RAW
        self.inbox: Any = {}  # Node -> what has arrived there; a StreamInbox between CUDA streams
        self.wanted: dict[tuple[Node, int], list[int]] = {}  # edge -> positions in `captured`
        self.captured: list[Any] = []
        self.callbacks: list[Callable[[], None]] | None = None  # to call when the pass is over
        self.number = next_task()
        self.roots: list[Node] = []
        self.leaves: dict[Node, list[Node]] = {}  # node -> the leaves that are ready after it
        self.needed: set[Node] | None = (
            None  # with `wanted`: the nodes that lead there, and the goals themselves
        )

    def will_run(self, node: Node) -> bool:
        """Whether `node` (or its leaf) is one of those whose gradient this pass computes."""
        if self.needed is None:
            self.needed, stack = set(self.roots), list(self.roots)
            while stack:
                for target in stack.pop().targets():
                    if target is not None and target not in self.needed:
                        self.needed.add(target)
                        stack.append(target)
        return node in self.needed

    def leads_on(self, node: Node) -> bool:
        """Whether another wanted edge lies beyond `node`."""
        return self.needed is not None and any([t in self.needed for t in node.targets()])

    def finish(self) -> None:
        """The pass is over: call what is to be called then."""
        outer, state.current_task = state.current_task, self
        try:
            for callback in self.callbacks or ():  # one may queue more
                callback()
        finally:
            state.current_task = outer


def run_backward(
    roots: list[tuple[Node, int]],
    grads: list[Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: list[tuple[Node, int]] | None = None,
    accumulate: bool = False,
    plan: list | None = None,
) -> list[Tensor | None]:
    """Propagate `grads` from the edges `roots`; returns the gradients at the edges `inputs`.

    accumulate: add into the ``.grad`` of leaves (of those in `inputs` only, if given).
    plan: an empty list at the first of several passes with the same `roots` and `inputs`; it keeps the order of nodes,
        which does not change (edges never do), for the others.
    """
    if shared.active and state.capture is not None:
        done = state.capture.backward(roots, grads, keep_graph, create_graph, inputs, accumulate)
        if done is not None:
            return done
    task = GraphTask(keep_graph, create_graph, accumulate)
    here = vars(state)  # of this thread: looking for that each time costs more than what is done
    bits = here.get("bits", 0)
    if inputs is not None:
        for k, key in enumerate(inputs):
            task.wanted.setdefault(key, []).append(k)
        task.captured = [None] * len(inputs)
    for (node, nr), grad in zip(roots, grads, strict=True):
        if grad is not None:
            if not task.traced:
                grad = grad._array if grad._array.__class__ is not Lazy else raw_values(grad)
            deliver(task.inbox, node, nr, grad)
        elif node not in task.inbox:
            task.inbox[node] = None
    task.roots = [node for node, _ in roots]
    if plan:
        order, ready_leaves, partial, task.needed = plan
        order = order.copy()  # `run` uses it up
    elif bits & PROFILE:
        order, ready_leaves, partial = recording.run_root(schedule, task.roots, task)
    else:
        order, ready_leaves, partial = schedule(task.roots, task)
        if plan is not None:
            plan += order.copy(), ready_leaves, partial, task.needed
    task.leaves = ready_leaves
    outer = here.get("current_task"), here.get("needed")
    here["current_task"], here["needed"] = task, task.needed
    modes.set_bits(bits & ~(NO_GRAD | INFERENCE) if create_graph else bits & ~INFERENCE | NO_GRAD)
    depth = here["depth"] = here.get("depth", 0) + 1
    try:
        if shared.cuda is not None and streams.several(order):
            task.inbox = streams.StreamInbox(task.inbox, order)
        if depth % DEEP:
            run(task, order, ready_leaves, partial)
        else:
            in_new_thread(lambda: run(task, order, ready_leaves, partial))
    finally:
        if task.inbox.__class__ is not dict:
            task.inbox.close(task.captured)
        here["depth"] = depth - 1
        modes.set_bits(bits)
        here["current_task"], here["needed"] = outer
    if task.callbacks is not None:
        task.finish()
    return task.captured


def queue_callback(callback: Callable[[], None]) -> None:
    """Call `callback` when the backward pass that runs in this thread is over; RuntimeError if none does."""
    if state.current_task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if state.current_task.callbacks is None:
        state.current_task.callbacks = []
    state.current_task.callbacks.append(callback)


def execution_order(task: GraphTask) -> list[Node]:
    """All nodes of a pass in the order in which they run."""
    again = GraphTask(task.keep_graph, task.create_graph, task.accumulate)
    again.wanted = task.wanted
    nodes, leaves, _ = schedule(task.roots, again)
    return [n for node in reversed(nodes) for n in (node, *leaves.get(node, ()))]


def in_new_thread(action: Callable[[], None]) -> None:
    """Run `action` on a fresh stack, in the state of this thread: passes nested deeply would overflow this one's."""
    here, raised = dict(vars(state)), []
    position = shared.cuda.position() if shared.cuda is not None else ()

    def body():
        if position:
            shared.cuda.restore(position)
        bits = here.pop("bits", 0)
        vars(state).update(here)
        modes.set_bits(bits)
        try:
            action()
        except BaseException as exc:
            raised.append(exc)
        finally:
            modes.set_bits(0)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def schedule(
    roots: list[Node], task: GraphTask
) -> tuple[list[Node], dict[Node, list[Node]], set[Node]]:
    """The nodes to run, oldest first (so that the next one is popped), the leaves ready after each, and the nodes that
    need :func:`step`: those at wanted edges, and those of whose gradients only some are needed.
    """
    seen, wanted = set(roots), task.wanted
    links: dict[Node, Any] = {}  # node -> its targets, with `wanted`
    stack = [node for node in seen if node.__class__ is not AccumulateGrad]
    nodes = list(stack)
    last_user: dict[Node, Node] = {}
    while stack:
        node = stack.pop()
        targets = node.targets()
        if wanted:
            links[node] = targets
        for target in targets:
            if target is None:
                continue
            if target.__class__ is AccumulateGrad:
                user = last_user.get(target)
                if user is None or node.seq < user.seq:
                    last_user[target] = node
            elif target not in seen:
                seen.add(target)
                stack.append(target)
                nodes.append(target)
    if task.create_graph and shared.join is not None and shared.join(nodes):
        return schedule(roots, task)
    nodes.sort(key=by_seq)
    partial: set[Node] = set()
    if wanted:
        goals = {node for node, _ in wanted if node in last_user or node in seen}
        nodes, partial = only_needed(nodes, links, goals, task)
    ready: dict[Node, list[Node]] = {}
    for leaf, user in last_user.items():
        if task.needed is None or leaf in task.needed:
            ready.setdefault(user, []).append(leaf)
    for root in roots:  # a leaf that is a root itself
        if root.__class__ is AccumulateGrad and root not in last_user:
            nodes.append(root)
            partial.add(root)
    return nodes, ready, partial


def only_needed(
    nodes: list[Node], links: dict[Node, Any], goals: set[Node], task: GraphTask
) -> tuple[list[Node], set[Node]]:
    """Drop the nodes from which none of `goals` is reached; see :func:`schedule`."""
    partial, needed = set(goals), set(goals)
    task.needed = needed
    keep, barred = [], state.barred
    for node in nodes:  # oldest first: targets come before their users
        some, every = node in needed, True
        for target in links[node]:
            if target in needed:
                some = True
            elif target is not None:
                every = False
        if some and (barred is None or not barred(node.seq)):
            needed.add(node)
            keep.append(node)
            if not every:
                partial.add(node)
    return keep, partial


def run(
    task: GraphTask,
    order: list[Node],
    ready_leaves: dict[Node, list[Node]],
    partial: set[Node],
) -> None:
    """The engine's loop."""
    inbox, traced, keep_graph = task.inbox, task.traced, task.keep_graph
    bits = state.bits
    plain = not bits & ANOMALY
    recorder = state.recorder if bits & PROFILE else None
    node = None
    try:
        while order:
            node = order.pop()
            grad = inbox.pop(node, None)
            if grad is None and not node.runs_undefined and not listened(node):
                pass  # no gradient came this way
            elif plain and node.extra is None and node not in partial:
                if traced:
                    run_traced(task, node, grad, recorder)
                else:
                    node.run(grad, inbox)
                if not keep_graph:
                    node.release()
            else:
                step(task, node, grad)
            if node in ready_leaves:
                for leaf in ready_leaves[node]:
                    arrived = [inbox.pop(leaf, None)]
                    if arrived[0] is not None:
                        node = leaf  # what fails is about the leaf
                        step_leaf(task, leaf, arrived)
    except BaseException as exc:
        if isinstance(exc, Exception) and node is not None:
            told = errors.in_backward(exc)
            try:
                errors.note(told, node)
                if state.bits & ANOMALY:
                    report(node)
                if told is not exc:
                    raise told from exc
            finally:
                del told  # its traceback has this frame
        raise


def listened(node: Node) -> bool:
    """Whether hooks wait for the gradient of `node`: they are called although there is none."""
    extra = node.extra
    return extra is not None and bool(extra.tensor_hooks or extra.prehooks or extra.posthooks)


def run_traced(task: GraphTask, node: Node, grad, recorder) -> None:
    """Run one node without hooks on Tensors, as a range of `recorder` if there is one."""
    if grad.__class__ is list:
        grads = tuple(grad)
    else:
        grads = (None,) * node.n_out if grad is None else (grad,)
    if recorder is None:
        outs = node.gradients(grads, task.traced)
    else:
        outs, token = (), recorder.enter(node.name(), node, grads, (), node.seq, recording.BACKWARD)
        try:
            outs = node.gradients(grads, task.traced)
        finally:
            recorder.exit(token, None)
    deliver_all(task.inbox, node, outs)


def step(task: GraphTask, node: Node, grad) -> None:
    """Run one node with everything that may hang on it: hooks, captures, traced formulas, anomaly checks."""
    if node.__class__ is AccumulateGrad:
        step_leaf(task, node, [grad])
        return
    traced, extra = task.traced, node.extra
    grads = (
        [grad]
        if node.n_out == 1 and not isinstance(grad, list)
        else list(grad or [None] * node.n_out)
    )
    if extra is not None or task.wanted:
        grads, last = before(task, node, grads)
        if last:
            return
    previous, state.current_node = state.current_node, node
    try:
        if not node.runs_undefined and all([g is None for g in grads]):
            outs: tuple = (None,) * len(node.edges())
        elif state.bits & PROFILE:
            outs = recording.run_node(node, tuple(grads), node.gradients, tuple(grads), traced)
        else:
            outs = node.gradients(tuple(grads), traced)
    finally:
        state.current_node = previous
    if state.bits & ANOMALY and state.check_nan:
        check_nan(node, outs)
    if extra is not None and extra.posthooks:
        outs = run_posthooks(extra.posthooks, outs, grads, traced)
    if not task.keep_graph:
        node.release()
        if extra is not None:
            extra.tangents = None
    deliver_all(task.inbox, node, outs, task.needed if task.wanted else None)


def _capture(task, places: list[int], gradient: Any) -> None:
    """Keep a gradient that is asked for; what is asked for twice is one tensor."""
    if gradient.__class__ is ndarray:
        if 0 in gradient.strides and gradient.size > 1:
            gradient = gradient.copy()  # who writes to one of its elements does not mean the others
        found: Any = Tensor._make(gradient)
    else:
        found = wrap(gradient, task.traced)
        if found is None or found._array.__class__ is shared.sparse:
            pass
        elif 0 in found._array.strides and found._array.size > 1:
            found = found.contiguous()
    for k in places:
        task.captured[k] = found


def before(task: GraphTask, node: Node, grads: list) -> tuple[list, bool]:
    """Tensor hooks, captures, pre-hooks and retained gradients, in the documented order.

    Returns the gradients to run with, and whether the node need not run (its gradient was all that was wanted).
    """
    extra, wanted = node.extra, task.wanted
    numbers = [0] if node.n_out == 1 else range(1, node.n_out + 1)
    captured = False
    for position, nr in enumerate(numbers):
        hooks = extra.tensor_hooks.get(nr) if extra is not None else None
        if hooks:
            grads[position] = run_tensor_hooks(hooks, grads[position], task.traced)
        places = wanted.get((node, nr))
        if places:
            _capture(task, places, grads[position])
            captured = True
    if captured and not task.accumulate and not task.leads_on(node):
        return grads, True
    if extra is not None:
        if extra.prehooks:
            grads = run_prehooks(extra.prehooks, grads, task.traced)
        for nr, ref in extra.retained.items():
            position = max(nr - 1, 0)
            keeper = ref()
            if keeper is not None and grads[position] is not None:
                keep_gradient(keeper, wrap(grads[position], task.traced), task.create_graph)
    return grads, False


def step_leaf(task: GraphTask, node: Any, grads: list) -> None:
    """A leaf's gradient is complete: hooks, capture, accumulation, hooks. `grads` is its only holder."""
    leaf, extra, traced = node.variable, node.extra, task.traced
    if grads[0] is None:
        return
    wanted = leaf._array.dtype if shared.gradient_dtype is None else shared.gradient_dtype(leaf)
    have = grads[0]._array.dtype if traced else grads[0].dtype
    if have is not wanted and wanted is not None:  # NumPy widens some half-type products
        grads[0] = grads[0].to(from_np(wanted)) if traced else grads[0].astype(wanted)
    if leaf._backward_hooks:
        grads[0] = run_tensor_hooks(leaf._backward_hooks, grads[0], traced)
    if task.wanted:
        places = task.wanted.get((node, 0))
        if places is None:
            return
        _capture(task, places, grads[0])
    if not task.accumulate:
        return
    if extra is not None and extra.prehooks:
        grads = run_prehooks(extra.prehooks, grads, traced)
    given = list(grads) if extra is not None and extra.posthooks else grads
    if grads[0] is not None and leaf._rg:  # it may have been detached since
        if state.bits & PROFILE:
            recording.run_node(node, (leaf,), accumulate, leaf, grads, traced, task.create_graph)
        else:
            accumulate(leaf, grads, traced, task.create_graph)
        if leaf._post_accumulate_grad_hooks:
            run_post_accumulate_hooks(leaf)
    if extra is not None and extra.posthooks:
        run_posthooks(extra.posthooks, (), given, traced)


# -- hooks -----------------------------------------------------------------------------------------------------------


def wrap(grad, traced: int) -> Any:
    """A gradient as Tensor for hooks and results."""
    return grad if traced or grad is None else Tensor._make(grad)


def unwrap(grad, traced: int) -> Any:
    return grad if traced or grad is None else raw_values(grad)


def is_shared(grad: Any) -> bool:
    """Whether elements of a raw gradient share memory, as those of the gradient of a sum do: hooks get a copy."""
    if grad is None or grad.__class__ is shared.sparse:
        return False
    return 0 in grad.strides and grad.size > 1


def run_tensor_hooks(hooks: OrderedDict, grad, traced: int):
    if not traced and is_shared(grad):
        grad = grad.copy()
    value = wrap(grad, traced)
    for hook in list(hooks.values()):
        try:
            out = hook(value)
            if out is not None:
                _check_replacement(hook, out, value)
                value = out
        except Exception as exc:
            errors.blame(exc, hook)
            raise
    return unwrap(value, traced)


def _check_replacement(hook, out: Any, value: Tensor | None) -> None:
    """The errors for what a tensor hook returned in the place of `value`, or of no gradient at all."""
    if not isinstance(out, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(out).__name__}'")
    if value is None:  # of an output of several that got no gradient
        return
    if out._array.dtype != value._array.dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was torch.{value.dtype.tensor_type} got "
            f"torch.{out.dtype.tensor_type})"
        )
    if out._array.shape != value._array.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")


def run_post_accumulate_hooks(leaf: Any) -> None:
    """The hooks of a leaf that has its gradient."""
    for hook in list(leaf._post_accumulate_grad_hooks.values()):
        try:
            _refuse_result(hook(leaf), leaf)
        except Exception as exc:
            errors.blame(exc, hook)
            raise


def run_prehooks(hooks: OrderedDict, grads: list, traced: int) -> list:
    values = tuple(wrap(g, traced) for g in grads)
    for hook in list(hooks.values()):
        try:
            values = _checked(hook, hook(values), values)
        except Exception as exc:
            errors.blame(exc, hook)
            raise
    return [unwrap(v, traced) for v in values]


def run_posthooks(hooks: OrderedDict, outs: tuple, grads: list, traced: int) -> tuple:
    values, given = tuple(wrap(o, traced) for o in outs), tuple(wrap(g, traced) for g in grads)
    for hook in list(hooks.values()):
        try:
            values = _checked(hook, hook(values, given), values)
        except Exception as exc:
            errors.blame(exc, hook)
            raise
    return tuple(unwrap(v, traced) for v in values)


def _checked(hook, out, values: tuple) -> tuple:
    """What a node hook returned in the place of `values`, or `values` if it returned None."""
    if out is None:
        return values
    out = (out,) if isinstance(out, Tensor) else tuple(out)
    if len(out) != len(values):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(out)}, "
            f"but expected {len(values)})"
        )
    return out


def _refuse_result(out: Any, leaf: Tensor) -> None:
    """The error for a post-accumulate hook that returned something else than its leaf."""
    if isinstance(out, Tensor) and out is not leaf:
        raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    if out is not None and out is not leaf:
        raise TypeError(f"expected Variable, but hook returned '{type(out).__name__}'")


def _name(hook) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def accumulate_leaf(node: AccumulateGrad, grad, traced: int) -> None:
    """AccumulateGrad called by hand."""
    if grad is not None:
        accumulate(node.variable, [grad], traced, modes.is_grad_enabled())


handed.over(accumulate_leaf)
