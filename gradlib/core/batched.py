"""vmap in one run: the function sees one entry's tensors, and every op acts on the whole batch.

Inside the function a tensor's array is a :class:`Logical`: shape, dtype and strides are those of one entry, and it
knows the *physical* tensor, which holds all entries, the batch first. `dispatch.execute` hands an op with such an
array to :func:`run`, which applies the op's batching rule (`ops/batching_rules.py`) to the physical tensors, or, if it
has none, runs it entry by entry and stacks. Recording happens on both sides of that: a tensor that is watched inside
(func.grad within vmap) has nodes made of logical tensors, and a physical tensor that requires grad outside has nodes of
its own. Formulas and tangents run on Tensors there, so they are batched op by op in the same way.

Whatever needs values (code that reads arrays, random numbers, writes into what entries share) raises Unbatchable;
vmap then runs the function once for each entry instead (`core/batching.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import errors, modes, tangents
from .batching import NOWHERE, WRITE, Level
from .device import copied
from .modes import FORWARD_AD, VMAP, shared, state
from .tensor import Tensor

RULES: dict[str, Callable] = {}  # op name -> rule(level, op, args, attrs) giving physical results
APART: dict[
    str, Callable
] = {}  # op name -> the same by other ops, where the op's formula needs values


TOO_WIDE = "output with shape {} doesn't match the broadcast shape {}"


class Unbatchable(BaseException):
    """The function cannot be run on all entries at once. It is no Exception, so that the function does not catch it."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Unbatchable


class Logical(np.ndarray):
    """The shape, dtype and strides of one entry of a batch. It has no values: asking for them raises Unbatchable."""

    physical: Tensor
    level: BatchLevel
    batched: bool  # whether `physical` has the batch dimension, or all entries share it

    __array_ufunc__ = __array_function__ = _refuse
    get = _refuse  # which copies an array of a device to the host


_METADATA = set(
    "base ctypes data device dtype flags itemsize nbytes ndim shape size strides view T mT".split()
)
_OPERATORS = (
    "add and bool complex contains copy deepcopy divmod eq float floordiv ge getitem gt iadd iand ifloordiv ilshift "
    "imatmul imod imul index int invert ior ipow irshift isub iter itruediv ixor le lshift lt matmul mod mul ne neg or "
    "pos pow radd rand rdivmod reduce reduce_ex rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub "
    "rtruediv rxor setitem str sub truediv xor dlpack"
)
for _name in dir(np.ndarray):
    if not _name.startswith("_") and _name not in _METADATA:
        setattr(Logical, _name, property(_refuse) if _name in ("flat", "imag", "real") else _refuse)
for _name in _OPERATORS.split():
    setattr(Logical, f"__{_name}__", _refuse)


def wrap(level: BatchLevel, physical: Tensor, batched: bool = True) -> Logical:
    """The logical array of a physical tensor (batch first)."""
    array = physical._array
    if not isinstance(
        array, np.ndarray
    ):  # on a device: something with the same layout stands for it
        array = as_strided(np.empty(1, array.dtype), array.shape, array.strides)
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


def refuse_logical(tensor: Tensor) -> None:
    """Unbatchable for a tensor of a batch: its memory as a whole is asked for."""
    if is_logical(tensor):
        raise Unbatchable


def is_logical(value: Any) -> bool:
    return isinstance(value, Tensor) and value._array.__class__ is Logical


def physical_kind(tensor: Tensor) -> type:
    """The type of the raw array that holds the values of `tensor`."""
    array = tensor._array
    while array.__class__ is Logical:
        array = array.physical._array
    return array.__class__


def connected(values: Iterable[Any]) -> bool:
    """Whether any of the tensors depends on something outside the vmap that requires grad."""
    return any(is_logical(v) and _outer_grad(v._array.physical) for v in values)


def _outer_grad(tensor: Tensor) -> bool:
    return tensor._rg or (is_logical(tensor) and _outer_grad(tensor._array.physical))


class BatchLevel(Level):
    """One running vmap whose function runs once."""

    around: Any = None  # the vmap around this one, if that runs once, too
    passes = True  # ops are noticed by their arguments, in `dispatch.execute`

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        self.before.append(_Before(tensor))
        if not is_logical(tensor) and any([o._rg for o in others if is_logical(o)]):
            raise Unbatchable  # what is recorded inside is the history of logical tensors alone
        return proceed()  # `write` asks whether the tensor has a place for the batch

    def call_function(self, cls, args: tuple) -> Any:
        """A custom Function: by its own vmap rule; without one, vmap goes on entry by entry and decides there."""
        from ..autograd.function import Function

        if not any(is_logical(a) for a in args):
            return self.outside(lambda: cls.apply(*args))
        if (
            cls.vmap is Function.vmap
            or cls.generate_vmap_rule
            or any(a._rg for a in args if is_logical(a))
        ):
            raise Unbatchable
        return self.ruled(cls, args)

    def ruled(self, cls, args: tuple) -> Any:
        """The result of a Function's vmap staticmethod."""
        from .batching import TWO_RETURNS, VmapInfo
        from .pytree import flatten, spread, unflatten

        leaves, spec = flatten(args)
        parts = [self.part(v) if isinstance(v, Tensor) else (v, False) for v in leaves]
        in_dims = unflatten([0 if batched else None for _, batched in parts], spec)
        values = unflatten([value for value, _ in parts], spec)
        info = VmapInfo(self.size, self.randomness)
        returned = self.outside(lambda: cls.vmap(info, in_dims, *values))
        if not isinstance(returned, tuple) or len(returned) != 2:
            given = (
                f"{len(returned)} returns" if isinstance(returned, tuple) else f"a {type(returned)}"
            )
            raise RuntimeError(TWO_RETURNS.format(given))
        outs, out_spec = flatten(returned[0])
        dims = spread(returned[1], out_spec)
        if dims is None:
            raise Unbatchable  # the loop has the message
        return unflatten([self.entry(o, d) for o, d in zip(outs, dims, strict=True)], out_spec)

    def before_draw(self, generator: Any) -> None:
        raise Unbatchable

    def outside(self, run: Callable) -> Any:
        inner, state.batch = state.batch, self.around
        try:
            return super().outside(run)
        finally:
            state.batch = inner

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
        if state.bits & FORWARD_AD and (tangent := tangents.tangent_of(value)) is not None:
            tangents.own_tangent(logical, self.entry(tangent, dim))
        return logical

    def result(self, value: Any, dim: int) -> Tensor:
        """What the caller of vmap gets for a result of the function: entries never share memory."""
        out = self.full(value).contiguous() if not self.part(value)[1] else self.full(value)
        out = out.movedim(0, dim) if dim else out
        if not state.bits & FORWARD_AD:
            return out
        with self.running():  # that of a view is made from its base's by ops
            tangent = tangents.tangent_of(value)
        if tangent is not None:
            out = tangents.split_off(out.view_as(out))
            tangents.own_tangent(out, self.result(tangent, dim))
        return out

    @contextmanager
    def running(self):
        """The function runs: its ops take the general path."""
        outer, had = state.interposers, modes.set_flag(VMAP, True)
        self.around, state.batch = state.batch, self
        state.interposers = (*outer, self)
        self.before: list[_Before] = []  # what was written to, as it was
        with modes._lock:
            shared.batches += 1
        try:
            yield
        except Unbatchable:  # the function will run again
            for written in reversed(self.before):
                written.restore()
            raise
        finally:
            self.before = []
            with modes._lock:
                shared.batches -= 1
            state.interposers, state.batch = outer, self.around
            modes.set_flag(VMAP, had)


class _Before:
    """A tensor as it was before a function wrote into it."""

    __slots__ = ("holders", "values", "written")

    def __init__(self, tensor: Tensor):
        holders = [tensor]
        if tensor._view is not None:
            holders.append(tensor._view.base)
        while is_logical(tensor):
            tensor = tensor._array.physical
            holders.append(tensor)
            if tensor._view is not None:
                holders.append(tensor._view.base)
        state = [
            (t, t._rg, t._fn, t._nr, t._ver, getattr(t._ver, "version", None)) for t in holders
        ]
        self.holders, self.written = state, tensor._array
        self.values = copied(tensor._array)

    def restore(self) -> None:
        self.written[...] = self.values
        for tensor, rg, fn, nr, counter, version in self.holders:
            tensor._rg, tensor._fn, tensor._nr, tensor._ver = rg, fn, nr, counter
            if version is not None:
                counter.version = version


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
        state.bits, state.interposers, state.batch = self.before


def level_of(args: Iterable) -> Any:
    """The innermost level among logical arguments (tensors or raw arrays); None if there are none."""
    found = None
    for a in args:
        array = a._array if isinstance(a, Tensor) else a
        if array.__class__ is Logical and (found is None or array.level.id > found.id):
            found = array.level
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
    load_rules()
    return APART.get(op.name)


def load_rules() -> None:
    """Fill RULES and APART."""
    if not RULES:
        from ..ops import batching_layers  # noqa: F401  # and those that it builds on


def run(level: BatchLevel, op, args: tuple, attrs: tuple) -> Any:
    """The raw results (Logical) of an op on logical arguments: what its forward is for others."""
    given = tuple(a.value if hasattr(a, "value") else a for a in args)
    parts = [level.part(a) for a in given]
    differs = any([has_batch for _, has_batch in parts])
    if op.arrays and not differs:
        differs = any([level.part(a)[1] for a in _arrays(op, attrs)])
    rule = _rule_of(op) if differs else None
    if differs and rule is None and (op.view or op.arrays or op.dynamic):
        raise Unbatchable  # the loop has the message for shapes that depend on values
    if not differs and op.arrays:
        attrs = _shared_arrays(level, op, attrs)
    with Physically(level):
        if differs:
            outs = (rule or one_by_one)(level, op, given, attrs)
        else:  # all entries share the arguments
            same = [p for p, _ in parts]
            outs = op.call(same, *attrs) if op.variadic else op.call(*same, *attrs)
    if isinstance(outs, tuple):
        return [wrap(level, out, differs) for out in outs]
    return wrap(level, outs, differs)


def _shared_arrays(level: BatchLevel, op, attrs: tuple) -> tuple:
    """`attrs` with index arrays as they are outside of `level`."""
    return tuple(
        [
            tuple([level.part(a)[0] for a in value]) if name in op.arrays else value
            for name, value in zip(op.attrs, attrs, strict=True)
        ]
    )


def _rule_of(op) -> Callable | None:
    load_rules()
    found = RULES.get(op.name)
    return RULES["elementwise"] if found is None and op.elementwise else found


def one_by_one(level: BatchLevel, op, args: tuple, attrs: tuple) -> Any:
    """The op for each entry, stacked: what ops without a rule do."""
    from ..ops.join import stack

    parts = [level.part(a) for a in args]
    rows = []
    for k in range(level.size):
        entry = [p[k] if batched else p for p, batched in parts]
        rows.append(op.call(entry, *attrs) if op.variadic else op.call(*entry, *attrs))
    if isinstance(rows[0], tuple):
        return tuple(stack(list(column)) for column in zip(*rows, strict=True))
    return stack(rows)


def write(op, tensor: Tensor, args: tuple, attrs: tuple) -> None:
    """The in-place form of an op on the physical tensor of `tensor`; RuntimeError if that has no place for a batch."""
    from .inplace import inplace

    level = level_of((*args, *_arrays(op, attrs)))
    physical, batched = level.part(tensor)
    given = tuple([a.value if hasattr(a, "value") else a for a in args[1:]])
    if not batched:
        if any([level.part(a)[1] for a in (*given, *_arrays(op, attrs))]):
            raise RuntimeError(WRITE)
        others = tuple([level.part(a)[0] for a in given])
        with Physically(level):
            inplace(op, physical, others, attrs)
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
        inplace(op, physical, tuple(aligned), attrs)


def shared_value(tensor: Tensor) -> Tensor:
    """The physical tensor of one that all entries share, to be written to something outside of the batch."""
    while is_logical(tensor) and not tensor._array.batched:
        tensor = tensor._array.physical
    return tensor


def zeros_within(base: Tensor, like: Tensor) -> Tensor:
    """Zeros of the shape of `base` that have a batch wherever `base` or `like` has one."""
    from ..ops.create import constant_zeros

    level = level_of((base, like))
    if level is None:
        return constant_zeros(base)
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
    out._rg = made._rg
    return out


def holds(tensor: Tensor, like: Tensor) -> bool:
    """Whether `tensor` has a batch wherever `like` has one, so that the values of `like` can be written into it."""
    level = level_of((tensor, like))
    if level is None:
        return True
    (value, own), (other, batched) = level.part(tensor), level.part(like)
    return (own or not batched) and holds(value, other)


def marks_of(tensor: Tensor) -> frozenset[int]:
    """The ids of the levels that a logical tensor belongs to."""
    array, found = tensor._array, NOWHERE
    while array.__class__ is Logical:
        found |= array.level.mark
        array = array.physical._array
    return found
