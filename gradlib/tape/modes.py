"""Thread-local state of autograd: one word of flags that every op tests once.

`shared.active` counts the threads whose flags are not zero. While it is 0 (the usual case) an op reads nothing
thread-local at all: a feature that is off costs one test of a global.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

NO_GRAD = 1
INFERENCE = 2
SAVED_HOOKS = 4
FORWARD_AD = 8
ANOMALY = 16
PROFILE = 32
VMAP = 64
AUTOCAST = 128
OBSERVE = (
    256  # somebody looks at every op: allow_mutation_on_saved_tensors, interposers of CUDA graphs
)

# How a backward pass computes gradients: on raw arrays; on Tensors because somebody records the ops, which are those
# that run unrecorded; on Tensors that are differentiated again.
RAW, RECORDED, DIFFERENTIATED = range(3)

INFERENCE_LEAF = 512  # this thread made an inference tensor that requires grad: see `note_leaf`
DISPATCH = 1024  # a TorchDispatchMode is on, which sees the ops of backward passes, too

_lock = threading.Lock()


class Shared:
    """State of the whole process, read by every op."""

    __slots__ = (
        "active", "batches", "cuda", "gradient_dtype", "join", "lazy", "sparse", "subclasses",
    )  # fmt: skip

    def __init__(self) -> None:
        self.active = 0
        self.batches = 0  # vmaps that run on all entries at once
        self.lazy = False  # whether any tensor was ever a conjugated or negated view; see tape.lazy
        self.sparse: Any = (
            None  # the class of raw sparse arrays, once there is one; see tape.sparse
        )
        self.cuda: Any = None  # backends.streams.Streams, once a CUDA device is used
        # ``f(leaf)``: NumPy's dtype of its gradients, or None for any; once a program has set one
        self.gradient_dtype: Any = None
        # ``f(nodes)``: makes the nodes again that a replay left out; once there is one; see gradlib._capture.passes
        self.join: Any = None
        # the module ops.subclass while a tensor of a class with a __torch_dispatch__ lives
        self.subclasses: Any = None


class ThreadState(threading.local):
    """Defaults are class attributes, so that a new thread starts in them."""

    bits = 0
    check_nan = True
    saved_hooks: tuple = ()  # innermost pair last
    hooks_disabled: str | None = None
    dual_level = -1
    dual_serial = 0  # which of all levels ever opened is open; 0 for none
    of_transform = 0  # the level that a function of gradlib.func opened; 0 for none
    forward_enabled = True  # whether forward mode is on where a level is open
    dual_keepers: Any = None  # weak references to the nodes that keep tangents of the open level
    capture: Any = (
        None  # writes down what the thread computes, as a plan to replay; see gradlib._capture
    )
    recorder: Any = None  # told of every op and node while PROFILE is set; see tape.recording
    modules: Any = None  # class names of the modules being called, while somebody asks
    batch: Any = None  # the innermost vmap that runs on all entries at once; see op.vmap
    replay: Any = None  # told before random numbers are drawn that shall be those of an earlier part; see op.vmap
    cast_as: Any = None  # what autocast casts ops as inside the function that runs: device type -> policy; see amp
    site: Any = None  # the frame of the user's call that autocast is about, once somebody asked; see tape.source
    interposers: tuple = ()  # Interposers: autocast...; the one that is asked first is last
    current_node: Any = None  # the node that backward is running, parent of nodes made meanwhile
    saved_observer: Any = None  # told before a tensor is changed in place, while OBSERVE is set
    multithreading = True
    view_replay = False
    # no_grad does not end the recording that a jvp inside a jvp is made of, but is noted; see func._recording.Constants
    keeps_recording: Any = None
    barred: Any = None  # whether a node (by its number) passes no gradient on to what is asked for
    transforms = 0  # how many functions run that func.grad, vjp or jvp differentiates
    # what the innermost of those that is recorded has written to; see func._recording
    writes: Any = None
    pulling: Any = None  # the one of those whose own backward pass runs
    warn_on_stream_mismatch = True
    current_task: Any = None  # the backward pass that this thread is in
    needed: Any = None  # the nodes whose gradients are wanted, None for all
    depth = 0  # backward passes inside each other
    function_modes: tuple = ()  # TorchFunctionModes, innermost last; see tape.override
    overrides_off = 0  # which overrides of functions are not asked; see tape.override
    dispatch_off = (
        False  # whether classes with a __torch_dispatch__ are not asked; see ops.subclass
    )
    dispatched: tuple = ()  # the calls whose handlers run, innermost last; see ops.subclass


class Interposer:
    """What stands in `state.interposers`: ``call(op, args, attrs, proceed)`` gives the result of an op in its place."""

    for_recomputation = False  # whether it is there again when a checkpointed block runs again
    lets_be = False  # whether it changes no op and keeps nothing of it
    on: Any = None  # of autocast: device type -> dtype of products
    # ``call_on_device(op, args, attrs, above)``, of autocast: see `op.interpret.general_on_device`
    call_on_device: Any = None
    # ``whole(op, args, attrs, outs)``: the gradients of an op in one piece, which may be others; see op.formulas
    whole: Any = None


shared = Shared()
state = ThreadState()


def set_bits(bits: int) -> None:
    """Replace this thread's flags.

    They are exchanged at once, then counted: garbage collection may call what sets flags, too, as soon as something is
    allocated, as by the lock.
    """
    before, state.bits = state.bits, bits
    if before:
        if not bits:
            with _lock:
                shared.active -= 1
    elif bits:
        with _lock:
            shared.active += 1


def resume(bits: int, without: int) -> None:
    """Give the thread its flags `bits` again, which were `without` some for a block, and were not counted for that.

    What has ended meanwhile, the life of the last inference leaf, has ended: see `no_leaf_left`.
    """
    if state.bits == without:
        state.bits = bits
        return
    now = state.bits & INFERENCE_LEAF
    set_bits(without)
    state.bits = bits
    set_bits(bits & ~INFERENCE_LEAF | now)


def set_flag(flag: int, on: bool) -> bool:
    """Set or clear one flag; returns what it was."""
    bits = state.bits
    set_bits(bits | flag if on else bits & ~flag)
    return bool(bits & flag)


def has_flag(flag: int) -> bool:
    return bool(state.bits & flag)


def is_captured() -> bool:
    """Whether what this thread does is written down as a plan, see `gradlib.capture`."""
    return bool(shared.active) and state.capture is not None


def made_of_numbers(tensor: Any) -> Any:
    """`tensor`, which no op made, and whose values depend on no tensor: a plan makes it again."""
    if shared.active and state.capture is not None:
        state.capture.created(tensor)
    return tensor


def unrecorded(function: Any, *args: Any) -> Any:
    """``function(*args)``, which works on raw arrays, or draws numbers, outside of ops: a plan calls it again."""
    if shared.active and state.capture is not None:
        return state.capture.raw(function, args)
    return function(*args)


_inference_leaves: dict[
    int, weakref.ref
] = {}  # by id, of all threads: tensors are not equal or unequal


def note_leaf(tensor: Any) -> None:
    """An inference tensor was made to require grad. What is computed from such tensors alone is not recorded.

    So ops have to ask, from now on, in this thread, until `no_leaf_left`.
    """
    key = id(tensor)
    _inference_leaves[key] = weakref.ref(tensor, lambda _: _inference_leaves.pop(key, None))
    set_bits(state.bits | INFERENCE_LEAF)


def no_leaf_left() -> bool:
    """Whether no such tensor lives; then ops of this thread ask no longer."""
    if not _inference_leaves:
        set_bits(state.bits & ~INFERENCE_LEAF)
    return not _inference_leaves


def is_grad_enabled() -> bool:
    """True when operations on tensors that require grad are recorded in this thread."""
    return not state.bits & NO_GRAD


class Flag:
    """Set or clear a flag (or several) for a block: the common part of the mode context managers."""

    __slots__ = ("flag", "on", "previous")

    def __init__(self, flag: int, on: bool):
        self.flag, self.on = flag, on

    def __enter__(self) -> None:
        before = self.previous = state.bits
        bits = before | self.flag if self.on else before & ~self.flag
        if bits != before:
            set_bits(bits)

    def __exit__(self, *exc) -> None:
        bits = state.bits & ~self.flag | self.previous & self.flag
        if bits != state.bits:
            set_bits(bits)
