"""Custom Functions inside vmap: by their own rule, or by one derived from their staticmethods.

A Function whose arguments are batched runs its rule on the physical tensors, outside of the vmap: what depends on
something out there has that history. If somebody inside the vmap watches an argument (grad within vmap), a Function of
the same name is recorded there as well, whose forward is that rule and whose backward runs op by op on the batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..func import jvp, vjp
from ..op.declare import REGISTRY
from ..op.tangents import any_tangent, hand_over, own_tangent, split_off, tangent_of
from ..op.vmap import BatchLevel, Physically, each_entry, is_logical, lift, outer_grad, wrap
from ..op.vmap_texts import NO_MATCH, NO_RULE, NO_SETUP, TWO_RETURNS, TWO_RULES, VmapInfo
from ..tape.dtypes import DIFFERENTIABLE
from ..tape.modes import FORWARD_AD, set_bits, state
from ..tape.pytree import flatten, spread, unflatten
from ..tape.tensor import Tensor
from .function import Function, FunctionMeta

_recorded: Any = weakref.WeakKeyDictionary()  # Function -> the one that is recorded inside vmap


def call(level: BatchLevel, cls: Any, args: tuple) -> Any:
    """``cls.apply(*args)`` inside `level`."""
    leaves = flatten(args)[0]
    if not any([is_logical(v) for v in leaves]):
        return level.outside(lambda: cls.apply(*args))
    inner = max([v._array.level for v in leaves if is_logical(v)], key=lambda found: found.id)
    if inner is not level:
        return call(inner, cls, args)
    if any([level.part(v)[1] for v in leaves]):
        _check_rules(cls)
    if not any([is_logical(v) and (v._rg or any_tangent((v,))) for v in leaves]):
        return _by_rule(level, cls, args)
    if cls.setup_context is Function.setup_context:  # all entries share the arguments
        if any([outer_grad(level.part(v)[0]) for v in leaves if is_logical(v)]):
            raise RuntimeError(NO_SETUP)
        return type(cls)(cls.__name__, (cls,), {"inside_vmap": True}).apply(*args)
    level.function_bits = bits = state.bits
    if bits & FORWARD_AD and not hand_over(level, tuple(leaves)):
        level.function_bits = bits & ~FORWARD_AD  # the tangents are those of the logical tensors
    lifted = [_lifted(v) if isinstance(v, Tensor) and not is_logical(v) else v for v in args]
    return _recorded_inside(cls).apply(*lifted)


def _lifted(tensor: Tensor) -> Tensor:
    """`lift`, with the tangent."""
    out = lift(tensor)
    if state.bits & FORWARD_AD and (tangent := tangent_of(tensor)) is not None:
        own_tangent(out, lift(tangent))
    return out


def _check_rules(cls: Any) -> None:
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(NO_SETUP)
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(TWO_RULES.format(cls.__name__))
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(NO_RULE.format(cls.__name__))


def _recorded_inside(cls: Any) -> Any:
    """`cls` with its rule as forward."""
    found = _recorded.get(cls)
    if found is None:

        def forward(*args: Any) -> Any:
            level = max([a._array.level for a in args if is_logical(a)], key=lambda level: level.id)
            inside = state.bits
            set_bits(level.function_bits)  # what is outside records as ever
            try:
                outs = _by_rule(level, cls, args)
            finally:
                set_bits(inside)
            # what all entries share has a history outside, too, which is not to be that of here
            if isinstance(outs, tuple):
                return tuple([_inside(level, o) for o in outs])
            return _inside(level, outs)

        body = {"forward": staticmethod(forward), "inside_vmap": True, "__module__": cls.__module__}
        found = type(cls)(cls.__name__, (cls,), body)
        _recorded[cls] = found
    return found


def _inside(level: BatchLevel, value: Any) -> Any:
    if not isinstance(value, Tensor) or (is_logical(value) and value._array.level is level):
        return value
    return Tensor._make(wrap(level, value, batched=False))


def _by_rule(level: BatchLevel, cls: Any, args: tuple) -> Any:
    leaves, spec = flatten(args)
    parts = [level.part(v) if isinstance(v, Tensor) else (v, False) for v in leaves]
    values = unflatten([value for value, _ in parts], spec)
    if not any([batched for _, batched in parts]):  # all entries share the arguments
        return level.outside(lambda: cls.apply(*values))
    in_dims = unflatten([0 if batched else None for _, batched in parts], spec)
    info = VmapInfo(level.size, level.randomness)
    if cls.generate_vmap_rule:
        with Physically(level):
            outs = _derived(level, cls, in_dims).apply(*values)
        single = not isinstance(outs, tuple)
        found = [
            level.entry(o, 0) if isinstance(o, Tensor) else o for o in ((outs,) if single else outs)
        ]
        return found[0] if single else tuple(found)
    returned = level.outside(lambda: cls.vmap(info, in_dims, *values))
    if not isinstance(returned, tuple) or len(returned) != 2:
        given = f"{len(returned)} returns" if isinstance(returned, tuple) else f"a {type(returned)}"
        raise RuntimeError(TWO_RETURNS.format(given))
    outs, out_spec = flatten(returned[0])
    dims = spread(returned[1], out_spec)
    if dims is None:
        raise RuntimeError(NO_MATCH.format(returned[1], flatten(returned[1])[1], out_spec))
    return unflatten([level.entry(o, d) for o, d in zip(outs, dims, strict=True)], out_spec)


# -- the rule that is derived ------------------------------------------------------------------------------------------


def _derived(level: BatchLevel, cls: Any, in_dims: tuple) -> Any:
    """A Function of the batch: each staticmethod of `cls` runs once, inside `level`."""
    made: list = []  # what forward leaves for setup_context, which follows it at once

    def inside(value: Any, batched: bool) -> Any:
        if not isinstance(value, Tensor):
            return value
        return level.entry(value, 0) if batched else lift(value)

    def forward(*values: Any) -> Any:
        with level.running():
            entries = tuple([inside(v, d == 0) for v, d in zip(values, in_dims, strict=True)])
            outs = cls.forward(*entries)
        whole = [
            level.full(o) if isinstance(o, Tensor) else o
            for o in (outs if isinstance(outs, tuple) else (outs,))
        ]
        for i, out in enumerate(whole):  # an argument that is returned is the same object outside
            same = [v for v, e in zip(values, entries, strict=True) if _one_of(outs, i) is e]
            whole[i] = same[0] if same else out
        made.append((entries, outs, whole))
        return tuple(whole) if isinstance(outs, tuple) else whole[0]

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        if made:
            entries, outs, whole = made.pop()
        else:  # an outer vmap records what all of its entries share a second time
            entries = tuple([inside(v, d == 0) for v, d in zip(inputs, in_dims, strict=True)])
            whole = list(output) if isinstance(output, tuple) else [output]
            outs = [inside(o, True) for o in whole]
            outs = tuple(outs) if isinstance(output, tuple) else outs[0]
        ctx.own = own = cls._ctx_cls()
        own.needs_input_grad = ctx.needs_input_grad
        with level.running():
            cls.setup_context(own, entries, outs)
        ctx.materialize_grads = own.materialize_grads
        names = [*entries, *(outs if isinstance(outs, tuple) else (outs,))]
        values = [*inputs, *whole]

        def physical(tensors: tuple | None) -> tuple:
            return tuple([_match(t, names, values, level) for t in tensors or ()])

        if own.dirty_tensors:
            ctx.mark_dirty(*physical(own.dirty_tensors))
        if own.non_differentiable:
            ctx.mark_non_differentiable(*physical(own.non_differentiable))
        ctx.kept = [
            [level.part(t)[1] if isinstance(t, Tensor) else False for t in kept or ()]
            for kept in (own.to_save, own.saved_for_forward)
        ]
        ctx.save_for_backward(*physical(own.to_save))
        if own.saved_for_forward is not None:
            ctx.save_for_forward(*physical(own.saved_for_forward))

    def run(ctx: Any, rule: Callable, given: tuple, which: int) -> tuple:
        """What a staticmethod of `cls` returns for batched gradients or tangents."""
        own = ctx.own
        kept = zip(ctx.saved_tensors, ctx.kept[which], strict=True)
        with level.running():
            own.saved_for_forward = tuple([inside(t, batched) for t, batched in kept])
            try:
                found = rule(own, *[inside(g, batched) for g, batched in given])
            finally:
                own.saved_for_forward = None
        return found if isinstance(found, tuple) else (found,)

    def backward(ctx: Any, *grads: Any) -> tuple:
        rule = cls.backward if cls.vjp is Function.vjp else cls.vjp
        found = run(ctx, rule, tuple([(g, True) for g in grads]), 0)
        out = []
        for g, d in zip(found, in_dims, strict=False):
            if not isinstance(g, Tensor):
                out.append(g)
            else:
                out.append(_whole(level, g) if d == 0 else _whole(level, g).sum(0))
        return tuple(out)

    def jvp(ctx: Any, *tangents: Any) -> tuple:
        given = tuple([(t, d == 0) for t, d in zip(tangents, in_dims, strict=True)])
        found = run(
            ctx, cls.jvp, given, 1 if ctx.saved_for_forward is not None and ctx.kept[1] else 0
        )
        return tuple([level.full(t) if isinstance(t, Tensor) else t for t in found])

    body = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "generate_vmap_rule": True,
    }
    return FunctionMeta(cls.__name__, (Function,), body)


def _whole(level: BatchLevel, entry: Tensor) -> Tensor:
    """The values of all entries, and their tangent."""
    found = level.full(entry)
    if (
        state.bits & FORWARD_AD
        and (tangent := tangent_of(entry)) is not None
        and tangent_of(found) is None
    ):
        own_tangent(split_off(found), level.full(tangent))
    return found


def _one_of(outs: Any, i: int) -> Any:
    return outs[i] if isinstance(outs, tuple) else outs


def _match(tensor: Any, names: list, values: list, level: BatchLevel) -> Any:
    """The physical tensor of one that forward or setup_context met: an argument, a result, or another."""
    for name, value in zip(names, values, strict=True):
        if name is tensor:
            return value
    return level.part(tensor)[0] if isinstance(tensor, Tensor) else tensor


# -- functions that read values ----------------------------------------------------------------------------------------


def watched_entries(level: BatchLevel, run: Callable, leaves: list, spec: Any) -> Any:
    """`op.vmap.each_entry` on tensors that are watched inside: a Function whose rule is a loop over entries.

    Its backward and jvp are such functions themselves, so that they have derivatives again.
    """
    places = [i for i, v in enumerate(leaves) if isinstance(v, Tensor)]
    moving = [k for k, i in enumerate(places) if leaves[i]._array.dtype in DIFFERENTIABLE]
    shape: list = []  # of the result

    def of_tensors(*tensors: Tensor) -> tuple:
        given = list(leaves)
        for i, t in zip(places, tensors, strict=True):
            given[i] = t
        args, kwargs = unflatten(given, spec)
        outs, shape[:] = _pair(flatten(run(*args, **kwargs)))
        return tuple(outs)

    def differentiable(tensors: tuple) -> tuple[Callable, list]:
        def of_moving(*values: Tensor) -> tuple:
            given = list(tensors)
            for k, v in zip(moving, values, strict=True):
                given[k] = v
            return tuple([o for o in of_tensors(*given) if o._array.dtype in DIFFERENTIABLE])

        return of_moving, [tensors[k] for k in moving]

    @each_entry
    def pull(tensors: tuple, seeds: tuple) -> tuple:

        function, primals = differentiable(tensors)
        return tuple(vjp(function, *primals)[1](seeds))

    @each_entry
    def push(tensors: tuple, vectors: tuple) -> tuple:

        function, primals = differentiable(tensors)
        return tuple(jvp(function, tuple(primals), vectors)[1])

    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.real = [o._array.dtype in DIFFERENTIABLE for o in output]
        ctx.mark_non_differentiable(
            *[o for o, real in zip(output, ctx.real, strict=True) if not real]
        )

    def backward(ctx: Any, *seeds: Any) -> tuple:
        given = tuple([s for s, real in zip(seeds, ctx.real, strict=True) if real])
        found = pull(tuple(ctx.saved_tensors), given)
        out: list = [None] * len(places)
        for k, g in zip(moving, found, strict=True):
            out[k] = g
        return tuple(out)

    def jvp_of(ctx: Any, *vectors: Any) -> tuple:
        if not any(ctx.real):  # as of searchsorted: integers alone
            return tuple([None] * len(ctx.real))
        found = iter(push(tuple(ctx.saved_tensors), tuple([vectors[k] for k in moving])))
        return tuple([next(found) if real else None for real in ctx.real])

    def rule(info: Any, in_dims: tuple, *tensors: Any) -> tuple:
        rows = [
            of_tensors(
                *[t if d is None else t.select(0, k) for t, d in zip(tensors, in_dims, strict=True)]
            )
            for k in range(info.batch_size)
        ]
        stack = REGISTRY["stack"].call
        return tuple([stack(list(column), 0) for column in zip(*rows, strict=True)]), 0

    body = {
        "forward": staticmethod(of_tensors),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp_of),
        "vmap": staticmethod(rule),
    }
    found = FunctionMeta(getattr(run, "__name__", "each_entry"), (Function,), body)
    outs = found.apply(*[leaves[i] for i in places])
    return unflatten(outs, shape[0])


def _pair(flat: tuple) -> tuple:
    return flat[0], [flat[1]]
