"""vmap: the function runs once and sees one entry's tensors, and every op acts on the whole batch.

Inside the function a tensor's array is a :class:`Logical`: shape, dtype and strides are those of one entry, and it
knows the *physical* tensor, which holds all entries, the batch first. `interpret.execute` hands an op with such an
array to :func:`run`, which applies the op's batching rule (`operators/batching/rules.py`) to the physical tensors, or,
if it has none, runs that one op for each entry and stacks. Recording happens on both sides of that: a tensor that is
watched inside (func.grad within vmap) has nodes made of logical tensors, and a physical tensor that requires grad
outside has nodes of its own. Formulas and tangents run on Tensors there, so they are batched op by op in the same way.

Functions that are no ops and read values declare it: :func:`each_entry` runs one for each entry, :func:`draws` does so
for random numbers as `randomness` says. Anything else that asks for values raises PyTorch's RuntimeError.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..tape import errors, handed, lazy, modes
from ..tape.device import stored
from ..tape.memory import pointer
from ..tape.modes import FORWARD_AD, VMAP, resume, shared, state
from ..tape.pytree import flatten, unflatten
from ..tape.tensor import Tensor
from ..tape.valueless import Valueless, stand_in
from .registry import REGISTRY
from .vmap_texts import (
    CAPTURED,
    RANDOM,
    RESIZE,
    SHAPES,
    SPARSE,
    UNSEEN_DRAW,
    VALUES,
    WRITE,
    Replay,
)

_ids = itertools.count(1)
TOO_WIDE = "output with shape {} doesn't match the broadcast shape {}"


class Logical(Valueless):
    """The shape, dtype and strides of one entry of a batch. It has no values: asking for them raises RuntimeError."""

    physical: Tensor
    level: BatchLevel
    batched: bool  # whether `physical` has the batch dimension, or all entries share it
    refusal = VALUES

    def get(self) -> np.ndarray:
        """What copies an array of a device to the host: the values, if they are the same for all entries."""
        if self.batched:
            raise RuntimeError(VALUES.format("get"))
        array = self.physical._array
        return array if array.__class__ is np.ndarray else array.get()

    def on(self, physical: Tensor) -> Logical:
        """The same entry of another tensor with the values of all entries."""
        return wrap(self.level, physical, self.batched)


def wrap(level: BatchLevel, physical: Tensor, batched: bool = True) -> Logical:
    """The logical array of a physical tensor (batch first)."""
    array = physical._array
    if array.__class__ is np.ndarray:
        pass
    elif array.__class__ is not Logical:
        if array.__class__ is shared.sparse:
            raise NotImplementedError(SPARSE.format(array.pattern.layout))
        # on a device, or lazy: something with the same layout stands for it
        array = stand_in(array)
    logical = (np.ndarray.__getitem__(array, (0, ...)) if batched else array).view(Logical)
    logical.physical, logical.level, logical.batched = physical, level, batched
    return logical


def lift(tensor: Tensor) -> Tensor:
    """`tensor` as a new leaf of the running vmap's inside, outside all graphs that are recorded there."""
    level = active()
    array = tensor._array
    if array.__class__ is Logical and array.level is level:
        return Tensor._make(wrap(level, array.physical, array.batched))
    return Tensor._make(wrap(level, tensor, batched=False))


def apart(tensor: Tensor) -> Tensor:
    """`tensor` outside all graphs of this place: detached, or lifted inside a vmap."""
    return tensor.detach() if active() is None else lift(tensor)


def active() -> Any:
    """The innermost vmap of this thread, if it runs on all entries at once; else None."""
    return state.batch


def resize_entries(tensor: Any, shape: tuple, memory_format: Any) -> Any:
    """``tensor.resize_(shape)``, as long as each entry keeps its memory; RuntimeError else."""
    array = tensor._array
    physical, batched, level = array.physical, array.batched, array.level
    if batched and (physical.numel() != level.size * math.prod(shape) or memory_format is not None):
        raise RuntimeError(RESIZE)
    with Physically(level):
        physical.resize_((level.size, *shape) if batched else shape, memory_format=memory_format)
    tensor._array = wrap(level, physical, batched)
    return tensor


def readable(tensor: Any, message: str) -> Any:
    """The tensor whose array holds the values of `tensor`; RuntimeError with `message` if they differ by entry."""
    tensor = shared_value(tensor)
    if is_logical(tensor):
        raise RuntimeError(message)
    return tensor


def all_entries(tensor: Any) -> Any:
    """The tensor with the values of all entries that `tensor` stands for, for checks that look at each element."""
    while is_logical(tensor):
        tensor = tensor._array.physical
    return tensor


def is_logical(value: Any) -> bool:
    return isinstance(value, Tensor) and value._array.__class__ is Logical


def physical_kind(tensor: Tensor) -> type:
    """The type of the raw array that holds the values of `tensor`."""
    return stored(tensor._array).__class__


def connected(values: Iterable[Any]) -> bool:
    """Whether any of the tensors depends on something outside the vmap that requires grad."""
    return any(is_logical(v) and outer_grad(v._array.physical) for v in values)


def outer_grad(tensor: Tensor) -> bool:
    """Whether a tensor, or what holds the values of all entries of it, requires grad."""
    return tensor._rg or (is_logical(tensor) and outer_grad(tensor._array.physical))


class BatchLevel:
    """One running vmap."""

    function_bits = 0  # the flags under which a custom Function was called

    def __init__(self, size: int, randomness: str):
        self.id, self.size, self.randomness = next(_ids), size, randomness
        self.around = state.batch  # the vmap around this one
        self.serial = state.dual_serial  # of the tangents that come from outside

    def outside(self, run: Callable) -> Any:
        """``run()`` with only the vmaps around this one."""
        batch, state.batch = state.batch, self.around
        try:
            return run()
        finally:
            state.batch = batch

    # -- entry by entry ------------------------------------------------------------------------------------------------

    def entries(self, run: Callable, leaves: list, spec: Any, replay: Replay | None = None) -> Any:
        """``run(*args, **kwargs)`` for each entry of arguments that are taken apart, and the stacked results.

        With a `replay` each entry draws the same random numbers.
        """
        parts = [self.part(v) if isinstance(v, Tensor) else (v, False) for v in leaves]
        rows: list[list] = []
        entry, out_spec = leaves, spec
        before, state.replay = state.replay, replay or state.replay
        try:
            with Physically(self):
                for k in range(self.size):
                    if replay is not None:
                        replay.restart()
                    entry = [p.select(0, k) if batched else p for p, batched in parts]
                    args, kwargs = unflatten(entry, spec)
                    row, out_spec = flatten(run(*args, **kwargs))
                    rows.append(row)
                columns = list(zip(*rows, strict=True))
                # what a function has written to, it returns
                given = [[i for i, e in enumerate(entry) if e is column[-1]] for column in columns]
                stacked = [
                    None if same else REGISTRY["stack"].call(list(column), 0)
                    for column, same in zip(columns, given, strict=True)
                ]
        finally:
            state.replay = before
        outs = [
            leaves[same[0]] if same else self.entry(s, 0)
            for s, same in zip(stacked, given, strict=True)
        ]
        return unflatten(outs, out_spec)

    def draw(self, run: Callable, args: tuple, kwargs: dict) -> Any:
        """A random function: refused, once for all entries, or for each, as `randomness` says."""
        if self.randomness == "error":
            raise RuntimeError(RANDOM)
        leaves, spec = flatten((args, kwargs))
        parts = [self.part(v) if isinstance(v, Tensor) else (v, False) for v in leaves]
        if self.randomness == "different":
            return self.entries(run, leaves, spec)
        if any([batched for _, batched in parts]):
            return self.entries(run, leaves, spec, Replay(state.replay))
        args, kwargs = unflatten([p for p, _ in parts], spec)
        with Physically(self):
            return run(*args, **kwargs)

    # -- logical and physical ------------------------------------------------------------------------------------------

    def part(self, value: Any) -> tuple[Any, bool]:
        """The physical tensor of an argument, and whether it has the batch dimension (first)."""
        array = value._array if isinstance(value, Tensor) else value
        if array.__class__ is Logical and array.level is self:
            physical = array.physical
            return physical if array is not value else physical._array, array.batched
        return value, False

    def full(self, value: Tensor) -> Tensor:
        """The physical tensor of an argument with the batch dimension, repeated without a copy if it had none."""
        physical, batched = self.part(value)
        return physical if batched else physical.unsqueeze(0).expand(self.size, *physical.shape)

    def entry(self, value: Any, dim: int | None) -> Any:
        """The logical tensor of a batched value."""
        if dim is None or not isinstance(value, Tensor):
            return value
        moved = self.outside(lambda: value.movedim(dim, 0)) if dim else value
        logical = Tensor._make(wrap(self, moved))
        if state.bits & FORWARD_AD:
            handed.mirror(logical)
        return logical

    def result(self, value: Any, dim: int) -> Tensor:
        """What the caller of vmap gets for a result of the function: entries never share memory."""
        with modes.Flag(FORWARD_AD, False):
            out, batched = self.part(value)
            if not batched:
                out = self.full(value).contiguous()
            out = out.movedim(0, dim) if dim else out
        if not state.bits & FORWARD_AD:
            return out
        with self.running():  # that of a view is made from its base's by ops
            tangent = handed.tangent_of(value)
        if tangent is not None:
            pushed, have = self.result(tangent, dim), handed.tangent_of(out)
            if have is None or not _same_place(have._array, pushed._array):
                out = handed.split_off(out.view_as(out))
                handed.own_tangent(out, pushed)
        return out

    @contextmanager
    def running(self):
        """The function runs: its ops take the general path."""
        had = modes.set_flag(VMAP, True)
        before, state.batch = state.batch, self
        with modes._lock:
            shared.batches += 1
        try:
            yield
        finally:
            with modes._lock:
                shared.batches -= 1
            state.batch = before
            modes.set_flag(VMAP, had)


def _same_place(a: Any, b: Any) -> bool:
    """Whether raw arrays of one shape have their elements at the same places in memory."""
    return pointer(a) == pointer(b) and a.strides == b.strides


def each_entry(run: Callable) -> Callable:
    """Decorates a function that reads the values of tensors: inside vmap it runs for each entry of the batch.

    One whose name ends with "_" writes to its first argument.
    """

    @functools.wraps(run)
    def entries(*args: Any, **kwargs: Any) -> Any:
        if shared.lazy:
            leaves, spec = flatten((args, kwargs))
            if any(map(lazy.is_lazy, leaves)):
                return lazy.run_on_values(entries, leaves, spec, run.__name__.endswith("_"))
        if shared.batches and state.batch is not None:
            leaves, spec = flatten((args, kwargs))
            level = level_of(leaves)
            if level is not None:
                if any([is_logical(v) and (v._rg or handed.any_tangent((v,))) for v in leaves]):
                    return handed.watched_entries(level, entries, leaves, spec)
                return entries_of(level, run, leaves, spec)
        return run(*args, **kwargs)

    def entries_of(level: BatchLevel, run: Callable, leaves: list, spec: Any) -> Any:
        parts = [level.part(v) for v in leaves]
        if any([batched for _, batched in parts]):
            if run.__name__.endswith("_") and not parts[0][1]:
                raise RuntimeError(WRITE)
            return level.entries(entries, leaves, spec)
        args, kwargs = unflatten([p for p, _ in parts], spec)
        if state.bits & FORWARD_AD and level_of([handed.tangent_of(p) for p, _ in parts]) is level:
            return run(*args, **kwargs)  # all entries share the values, and not the tangents
        with Physically(level):
            return entries(*args, **kwargs)

    entries.without_vmap = run  # type: ignore[attr-defined]
    return entries


def draws(run: Callable) -> Callable:
    """Decorates a function that draws random numbers: inside vmap for each entry or for all, as `randomness` says."""

    @functools.wraps(run)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if shared.batches and state.batch is not None:
            return state.batch.draw(drawn, args, kwargs)
        return run(*args, **kwargs)

    drawn.without_vmap = run  # type: ignore[attr-defined]
    return drawn


def before_draw(generator: Any) -> None:
    """Called before random numbers are drawn from `generator` while a vmap runs."""
    level = state.batch
    if level is not None and level.randomness != "same":  # by a function that does not say so
        raise RuntimeError(RANDOM if level.randomness == "error" else UNSEEN_DRAW)
    if state.replay is not None:
        state.replay.before_draw(generator)


class Physically:
    """Ops act on physical tensors, outside of `level`, for a block."""

    __slots__ = ("before", "level")

    def __init__(self, level: BatchLevel):
        self.level = level

    def __enter__(self) -> None:
        bits = state.bits
        self.before = bits, state.interposers, state.batch
        state.bits, state.interposers, state.batch = bits & ~VMAP, (), self.level.around

    def __exit__(self, *exc: Any) -> None:
        bits, state.interposers, state.batch = self.before
        resume(bits, bits & ~VMAP)


def level_of(args: Iterable) -> Any:
    """The innermost level among logical arguments (tensors or raw arrays); None if there are none."""
    found = None
    for a in args:
        array: Any = a._array if isinstance(a, Tensor) else a
        if array.__class__ is Logical:
            level = array.level
            if level is not found and (found is None or level.id > found.id):
                found = level
    return found


def _arrays(op, attrs: tuple) -> list:
    """The raw index arrays among the attributes of an op."""
    if not op.arrays:
        return []
    return [a for k, name in enumerate(op.attrs) if name in op.arrays for a in attrs[k]]


def level_of_call(op, args: tuple, attrs: tuple) -> Any:
    """`level_of` all that an op is called with."""
    return level_of((*args, *_arrays(op, attrs)) if op.arrays else args)


def replacement(op) -> Callable | None:
    """What replaces an op on logical arguments before anything is recorded."""
    if op.by_entry is None and (op.apart or op.each_entry):
        op.by_entry = _rule_named(op.apart) if op.apart else each_entry(op.call)
    return op.by_entry


def _rule_named(name: str) -> Callable:
    """The function of that name among the batching rules."""
    return handed.batching_rule(name)


def run(level: BatchLevel, op, args: tuple, attrs: tuple) -> Any:
    """The raw results (Logical) of an op on logical arguments: what its forward is for others."""
    given, differs = [], False
    for a in args:
        if isinstance(a, Tensor):
            array: Any = a._array
            if array.__class__ is Logical and array.batched and array.level is level:
                differs = True
        else:
            a = getattr(a, "value", a)
        given.append(a)
    if op.arrays and not differs:
        differs = any([level.part(a)[1] for a in _arrays(op, attrs)])
    if differs and op.dynamic:
        decides = op.dynamic if isinstance(op.dynamic, str) else op.tensors[0]
        if level.part(given[op.tensors.index(decides)])[1]:
            raise RuntimeError(SHAPES.format(op.public))
    rule = op.batched or _rule_of(op) if differs else None
    if not differs and op.arrays:
        attrs = _shared_arrays(level, op, attrs)
    with Physically(level):
        if differs:
            outs = (rule or one_by_one)(level, op, tuple(given), attrs)
        else:  # all entries share the arguments
            same = [level.part(a)[0] for a in given]
            outs = op.call(same, *attrs) if op.variadic else op.call(*same, *attrs)
    if isinstance(outs, tuple):
        return [wrap(level, out, differs) for out in outs]
    return wrap(level, outs, differs)


def alike_outside(level: BatchLevel, op, args: tuple, attrs: tuple) -> bool:
    """Whether an op inside vmap is one outside: no entry differs, and no argument has a history inside."""
    for a in args:
        if isinstance(a, Tensor):
            array = a._array
            if array.__class__ is Logical and (a._rg or (array.batched and array.level is level)):
                return False
    return not op.arrays or not any([level.part(a)[1] for a in _arrays(op, attrs)])


def outside(level: BatchLevel, op, args: tuple, attrs: tuple) -> Any:
    """What `interpret.execute` gives then: tensors of the outside, or, of what has no history there either, entries."""
    same = [level.part(a.value if hasattr(a, "value") else a)[0] for a in args]
    attrs = _shared_arrays(level, op, attrs) if op.arrays else attrs
    with Physically(level):
        outs = op.call(same, *attrs) if op.variadic else op.call(*same, *attrs)
    if isinstance(outs, tuple):
        return tuple([o if outer_grad(o) else _shared_entry(level, o) for o in outs])
    return outs if outer_grad(outs) else _shared_entry(level, outs)


def _shared_entry(level: BatchLevel, value: Tensor) -> Tensor:
    if value._array.__class__ is shared.sparse:
        return value  # no entry of a batch is sparse
    return Tensor._make(wrap(level, value, batched=False))


def _shared_arrays(level: BatchLevel, op, attrs: tuple) -> tuple:
    """`attrs` with index arrays as they are outside of `level`."""
    return tuple(
        [
            tuple([level.part(a)[0] for a in value]) if name in op.arrays else value
            for name, value in zip(op.attrs, attrs, strict=True)
        ]
    )


def _rule_of(op) -> Callable | None:
    if op.batched is None and op.batch:
        op.batched = op.batch if callable(op.batch) else _rule_named(op.batch)
    return op.batched


def one_by_one(level: BatchLevel, op, args: tuple, attrs: tuple) -> Any:
    """The op for each entry, stacked: what ops without a rule do."""
    parts, stack = [level.part(a) for a in args], REGISTRY["stack"].call
    rows = []
    for k in range(level.size):
        entry = [p.select(0, k) if batched else p for p, batched in parts]
        rows.append(op.call(entry, *attrs) if op.variadic else op.call(*entry, *attrs))
    if isinstance(rows[0], tuple):
        return tuple([stack(list(column), 0) for column in zip(*rows, strict=True)])
    return stack(rows, 0)


def write(op, tensor: Tensor, args: tuple, attrs: tuple) -> None:
    """The in-place form of an op on the physical tensor of `tensor`; RuntimeError if that has no place for a batch."""

    level = level_of((*args, *_arrays(op, attrs)))
    physical, batched = level.part(tensor)
    given = tuple([a.value if hasattr(a, "value") else a for a in args[1:]])
    if not batched:
        write_shared(level, op, physical, given, attrs)
        return
    if not op.elementwise:
        rule = _rule_of(op)
        with Physically(level):
            # what the op saves must not be what is written
            before = Tensor._make(wrap(level, physical.clone()))
            physical.copy_((rule or one_by_one)(level, op, (before, *given), attrs))
        return
    aligned = []
    for a in given:
        other, has_batch = level.part(a)
        if has_batch:
            if a.ndim > tensor.ndim:
                raise RuntimeError(TOO_WIDE.format(errors.size(tensor.shape), errors.size(a.shape)))
            for _ in range(tensor.ndim - a.ndim):
                other = other.unsqueeze(1)
        aligned.append(other)
    with Physically(level):
        handed.inplace(op, physical, tuple(aligned), attrs)


def write_shared(level: BatchLevel, op, tensor: Tensor, others: tuple, attrs: tuple) -> None:
    """The in-place form of an op on what all entries share; RuntimeError if that has no place for a batch."""

    if any([level.part(a)[1] for a in (*others, *_arrays(op, attrs))]):
        raise RuntimeError(WRITE)
    attrs = _shared_arrays(level, op, attrs) if op.arrays else attrs
    with Physically(level):
        handed.inplace(op, tensor, tuple([level.part(a)[0] for a in others]), attrs)


def as_far_out(tensor: Tensor, like: Any) -> Tensor:
    """`tensor` without the vmaps that the array `like` does not belong to, as long as entries do not differ."""
    inner = level_of((like,))
    limit = 0 if inner is None else inner.id
    while is_logical(tensor) and not tensor._array.batched and tensor._array.level.id > limit:
        tensor = tensor._array.physical
    return tensor


def shared_value(tensor: Tensor) -> Tensor:
    """The physical tensor of one that all entries share, to be written to something outside of the batch."""
    while is_logical(tensor) and not tensor._array.batched:
        tensor = tensor._array.physical
    return tensor


def refuse_shared(written: Iterable[Any], source: Any, message: str) -> None:
    """RuntimeError if `source` has a batch that one of `written` has not, which each entry would overwrite."""
    if shared.batches and not all([holds(t, source) for t in written if t is not None]):
        raise RuntimeError(message)


def write_captured(op, tensor: Tensor, others: tuple, attrs: tuple) -> None:
    """The same on a tensor from outside of the vmap: it has its history there, and no other."""
    level = level_of((*others, *_arrays(op, attrs)))
    if any([is_logical(o) and o._rg and not level.part(o)[1] for o in others]):
        raise RuntimeError(CAPTURED)
    write_shared(level, op, tensor, others, attrs)


def zeros_within(base: Tensor, like: Tensor) -> Tensor:
    """Zeros of the shape of `base` that have a batch wherever `base` or `like` has one."""

    level = level_of((base, like))
    if level is None:
        return handed.constant_zeros(base)
    (value, own), (other, batched) = level.part(base), level.part(like)
    with Physically(level):
        if batched and not own:
            value = Tensor._make(value._array).expand(level.size, *value.shape)
        zeros = zeros_within(value, other)
    return Tensor._make(wrap(level, zeros, own or batched))


def of_batch(made: Tensor, like: Tensor) -> Tensor:
    """`made`, which has no history, as a tensor that has a batch wherever `like` has one, to be written into."""
    if not is_logical(like):
        return made
    watched, made = made._rg, all_entries(made)
    level = like._array.level
    physical, batched = level.part(like)
    with Physically(level):
        if batched:
            constant = Tensor._make(made._array)
            entries = constant.unsqueeze(0).expand(level.size, *constant.shape).clone()
        else:
            entries = made
        inner = of_batch(entries, physical)
    out = Tensor._make(wrap(level, inner, batched))
    out._rg = watched
    return out


def holds(tensor: Tensor, like: Tensor) -> bool:
    """Whether `tensor` has a batch wherever `like` has one, so that the values of `like` can be written into it."""
    level = level_of((tensor, like))
    if level is None:
        return True
    (value, own), (other, batched) = level.part(tensor), level.part(like)
    return (own or not batched) and holds(value, other)


handed.over(is_logical, readable, resize_entries, entry=wrap)
