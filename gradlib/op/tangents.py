"""Forward mode: tangents carried along by every op while a dual level is open."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from ..tape import handed, modes, saved, views
from ..tape.dtypes import DIFFERENTIABLE
from ..tape.memory import extent, key
from ..tape.modes import FORWARD_AD, NO_GRAD, shared, state
from ..tape.strided import Layout
from ..tape.tensor import Tensor
from . import interpret
from . import vmap as batched
from .dependence import linked
from .formulas import traced_ops
from .registry import REGISTRY
from .signature import parameters

next_serial = itertools.count(1).__next__  # tangents of a level that ended do not count any more


def enter_level() -> int:
    """Open the dual level; RuntimeError if one is open (levels do not nest)."""
    if state.dual_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    state.dual_level, state.dual_serial = 0, next_serial()
    state.dual_keepers = []
    if state.forward_enabled and not state.bits & modes.INFERENCE:
        modes.set_flag(FORWARD_AD, True)
    return 0


def exit_level(level: int) -> None:
    """Close the dual level: its tangents are gone."""
    if level != state.dual_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    keepers, state.dual_keepers = state.dual_keepers, None
    state.dual_level, state.dual_serial = -1, 0
    modes.set_flag(FORWARD_AD, False)
    for ref in keepers or ():  # a node and the tangent of its saved output hold each other
        node = ref()
        if node is not None and node.extra is not None:
            node.extra.tangents = None


class DualView(views.View):
    """The view of a tensor that holds a tangent of its own, not a part of its base's: make_dual and others make them.

    It holds the tangent beside the tensor, for views of the tensor that outlive it.
    """

    __slots__ = ("_array", "_tangent", "_tangent_copied", "_tangent_level")


def split_off(tensor: Tensor) -> Tensor:
    """Let the tangent of the view `tensor` have nothing to do with that of its base."""
    view = tensor._view
    if view is not None:
        own = tensor._view = object.__new__(DualView)
        for name in views.View.__slots__:
            setattr(own, name, getattr(view, name))
        own._array, own._tangent, own._tangent_level = tensor._array, None, -1
        own._tangent_copied = None
    return tensor


def own_tangent(holder: Any, tangent: Tensor | None) -> None:
    """Let `tangent` be that of a tensor (or DualView), whatever aliases it."""
    if shared.batches and tangent is not None:
        tangent = batched.as_far_out(tangent, holder._array)
    holder._tangent, holder._tangent_level = tangent, state.dual_serial
    view: Any = getattr(holder, "_view", None)
    if view.__class__ is DualView:
        view._tangent, view._tangent_level = tangent, state.dual_serial


def forget(tensor: Tensor) -> None:
    """Let `tensor`, which is detached in place, have no tangent any more, nor a history outside of a vmap."""
    if state.dual_level >= 0:
        _forget_tangent(tensor)
    if batched.connected((tensor,)):
        array = tensor._array
        tensor._geometries = (*tensor._geometries, (array, REGISTRY["alias"], ()))
        tensor._array = batched.wrap(array.level, array.physical.detach(), array.batched)


def _forget_tangent(tensor: Tensor) -> None:
    if tensor._view is not None and tensor._view.__class__ is not DualView:
        split_off(tensor)
    kept, array = own_tangent_of(tensor), tensor._array
    own_tangent(tensor, None)
    if kept is None or tensor._view is not None:
        return
    # its views keep their tangents, as they keep their histories; those that are made from now on have none
    tensor._geometries = (*tensor._geometries, (array, REGISTRY["alias"], ()))
    forgotten: Any = _Forgotten(kept, [array for array, _, _ in tensor._geometries])
    tensor._tangent, tensor._tangent_level = forgotten, -1 - state.dual_serial
    if array.__class__ is batched.Logical:
        tensor._array = handed.entry(array.level, array.physical, array.batched)
    else:
        tensor._array = array[...]


class _Forgotten(NamedTuple):
    """A tangent that `forget` took from a tensor, and the raw arrays that this had when its views were made."""

    tangent: Tensor
    born: list[Any]


def turn_forgotten(tensor: Tensor, op: Any, attrs: tuple) -> None:
    """`op` changes the geometry of a tensor in place, and so that of the tangent that its views keep."""
    if tensor._tangent.__class__ is _Forgotten:
        kept: Any = tensor._tangent
        tensor._tangent = kept._replace(tangent=op.call(kept.tangent, *attrs))


def _tangent_for_views(base: Any, view: Any) -> Tensor | None:
    """The tangent of which that of the view `view` of `base` is a part: perhaps one that `forget` took from `base`."""
    kept: Any = base._tangent
    if kept.__class__ is _Forgotten and base._tangent_level == -1 - state.dual_serial:
        return kept.tangent if any([view.born is array for array in kept.born]) else None
    return own_tangent_of(base)


class _SameAs(NamedTuple):
    """In the place of a tangent: that of another tensor on the same memory."""

    tensor: Tensor


def share_tangent(alias: Tensor, tensor: Tensor) -> None:
    """Let `alias`, on the memory of `tensor`, have its tangent, whichever of the two is written to."""
    alias._tangent, alias._tangent_level = _SameAs(tensor), state.dual_serial  # pyright: ignore[reportAttributeAccessIssue]


def _shares(holder: Any) -> Tensor | None:
    """The tensor whose tangent a holder has; None: one of its own."""
    kept = holder._tangent
    if kept.__class__ is _SameAs and holder._tangent_level == state.dual_serial:
        return kept.tensor
    return None


def own_tangent_of(holder: Any) -> Tensor | None:
    if holder._tangent_level != state.dual_serial:
        return None
    if holder._tangent.__class__ is _SameAs:
        return tangent_of(holder._tangent.tensor)
    if shared.batches and getattr(holder, "_mirrored", None) is not None:
        mirror(holder)
    return holder._tangent


def mirror(tensor: Tensor) -> None:
    """Let an entry of a batch, of which nothing was computed yet, have the tangent of the batch as it is now."""
    level, physical = tensor._array.level, tensor._array.physical
    with batched.Physically(level):
        whole = tangent_of(physical)
    if whole is not tensor._mirrored:
        tensor._mirrored = whole
        pushed = None if whole is None else Tensor._make(batched.wrap(level, whole))
        own_tangent(tensor, pushed)


def tangent_of(tensor: Any) -> Tensor | None:
    """The tangent of `tensor` at the open level, or None; that of a view comes from its base."""
    if not isinstance(tensor, Tensor):
        return None
    view = tensor._view
    if view is None:
        return own_tangent_of(tensor)
    if view.__class__ is DualView:
        return own_tangent_of(view)
    base, steps = forward_base(view)
    whole = _tangent_for_views(base, view)
    if whole is None:
        return None
    known = tensor._tangent_part  # of which tangent of the base, and that part of it
    if known is None or known[0] is not whole:
        with modes.Flag(FORWARD_AD, False):
            whole = _laid_out(base, whole, steps)
            known = tensor._tangent_part = whole, views.replay(whole, steps)
    return known[1]


def any_tangent(args) -> bool:
    """Whether one of the arguments of an op has a tangent."""
    return any(
        isinstance(a, Tensor)
        and (a._tangent is not None or a._view is not None)
        and tangent_of(a) is not None
        for a in args
    )


def forward_base(view: Any) -> tuple[Any, tuple]:
    """The tensor (or DualView) whose tangent that of a view is a part of, and the steps that lead to the part."""
    steps, own = [], view
    while view is not None:
        steps.append((view.op, view.attrs))
        view = view.parent
        if view.__class__ is DualView:
            return view, tuple(reversed(steps))
    return own.base, (*own.back_to_birth(), *reversed(steps))


def _laid_out(base: Any, whole: Tensor, steps: tuple) -> Tensor:
    """The tangent of `base` with the strides of `base`, if one of the steps names places in memory."""
    if not any([op.by_place for op, _ in steps]):
        return whole
    array = base._array
    # What lies beside the elements of the base can be reached, too.
    around = extent(array)[1] - array.nbytes
    if whole._array.strides == array.strides and not around:
        return whole
    if around and extent(whole._array)[1] == extent(array)[1]:
        return whole  # laid out before
    moved = (Layout.in_memory(array) if around else Layout.of(array)).copy(whole)
    own_tangent(base, moved)
    return moved


def _push_outside(tensor: Tensor, tangent: Tensor) -> bool:
    """Inside vmap: what holds the values of all entries has been written to, so its tangent is another one, too.

    Whether `tensor` has been given an entry of that: what vmap returns shares it then, as it shares the values.
    """
    level = tensor._array.level
    physical, has = level.part(tensor)
    if tangent_of(physical) is None:
        return False
    if not has and level.part(tangent)[1]:
        # all entries share the value of a dual tensor that was made inside, but not its tangent
        set_tangent(physical, tangent)
        return False
    pushed = level.full(tangent) if has else level.part(tangent)[0]
    with batched.Physically(level):
        set_tangent(physical, pushed)
        if tensor._mirrored is not None:
            tensor._mirrored = tangent_of(physical)
    holder = tensor if tensor._view is None else forward_base(tensor._view)[0]
    if getattr(holder, "_mirrored", None) is None or _requires_grad(tangent):
        return False
    if isinstance(holder._tangent, Tensor) and _requires_grad(holder._tangent):
        return False  # it has a history inside
    holder._mirrored = tangent  # not that of all entries: the next look gives it a part of theirs
    return True


def _writable(have: Tensor, tangent: Tensor) -> bool:
    """Whether `tangent` can be written into `have`, outside of any graph."""
    if _requires_grad(have) or _requires_grad(tangent):
        return False
    if 0 in have._array.strides and have._array.size > 1:
        return False
    return batched.holds(have, tangent)


def _as_history(have: Tensor | None, tangent: Tensor) -> Tensor:
    """Under no_grad a write leaves the history as it was, of the tangent as of the value: that of `have`, if any."""
    if have is None or not (_requires_grad(have) and state.bits & NO_GRAD):
        return tangent
    with modes.Flag(FORWARD_AD, False):
        with modes.Flag(NO_GRAD, False):
            kept = have.clone()
            if not batched.holds(kept, tangent):
                kept = kept + batched.zeros_within(kept, tangent)
        return kept.copy_(tangent)


def set_tangent(tensor: Tensor, tangent: Tensor | None) -> None:
    """The tangent of `tensor` after an in-place op; views of the same memory see it, as they see the values.

    The tangent of a dual tensor is the one given to make_dual, and is written to. Otherwise nobody else's tangent
    changes: that of a view is written into a copy of its base's, made once.
    """
    if tensor._view is None and (other := _shares(tensor)) is not None:
        set_tangent(other, tangent)
        return
    if tangent is not None:
        if tensor._array.__class__ is batched.Logical:
            if _push_outside(tensor, tangent):
                return
        else:
            tangent = batched.shared_value(tangent)
    view = tensor._view
    if tangent is not None and tangent._array.dtype != tensor._array.dtype:
        with modes.Flag(FORWARD_AD, False):  # the op promotes, what it is written into does not
            tangent = tangent.to(tensor.dtype)
    if view is None or view.__class__ is DualView:
        have = own_tangent_of(tensor if view is None else view)
        if tangent is not None:
            tangent = _as_history(have, tangent)
        if view is None or have is None or tangent is None or not _writable(have, tangent):
            own_tangent(tensor, tangent)
        else:  # views that custom Functions returned may have parts of it
            with modes.Flag(FORWARD_AD, False):
                have.copy_(tangent)
        return
    with modes.Flag(FORWARD_AD, False):
        base, steps = forward_base(view)
        whole = _tangent_for_views(base, view)
        if whole is None:
            if tangent is None:
                return
            whole = batched.zeros_within(Tensor._make(base._array), tangent)
        else:
            if base._tangent_copied is not whole or _requires_grad(whole):
                with modes.Flag(NO_GRAD, False):  # see `_as_history`
                    whole = whole.clone()
            if tangent is not None and not batched.holds(whole, tangent):
                whole = whole + batched.zeros_within(whole, tangent)
        if batched.is_logical(tangent) and not batched.is_logical(whole):
            whole = batched.lift(whole)  # it gets a history inside of the vmap
        whole = _laid_out(base, whole, steps)
        part = views.replay(whole, steps)
        if tangent is None:
            part.zero_()
        else:
            part.copy_(tangent)
        if (other := _shares(base)) is not None:
            set_tangent(other, whole)
            return
        own_tangent(base, whole)
        base._tangent_copied = whole


def run_with_tangents(op, args: tuple, attrs: tuple) -> Any:
    """Run `op` on dual tensors: its result, and the tangent of its result."""
    tangents = [tangent_of(a) for a in args]
    with modes.Flag(FORWARD_AD, False):
        given, args = args, interpret.prepare(op, args)
        for i, t in enumerate(tangents):
            if t is not None and (
                args[i] is not given[i] or t._array.dtype != args[i]._array.dtype
            ):
                tangents[i] = t.to(args[i].device, args[i].dtype)
                own_tangent(args[i], tangents[i])
        if shared.batches and op.differentiable:
            level = batched.level_of_call(op, args, attrs)
            if level is not None and _hand_over(level, args, tangents):
                return _run_outside(level, op, args, attrs)
        out = interpret.execute(op, args, attrs)
        if not op.differentiable or all([t is None for t in tangents]):
            return out
        outs = out if isinstance(out, tuple) else (out,)
        if op.view and all([o._view is not None for o in outs]):
            if shared.batches:  # now, not outside of the vmap
                for o in outs:
                    tangent_of(o)
            return out  # theirs are parts of the tangent of what they are views of
        values = [getattr(a, "value", a) if not isinstance(a, Tensor) else a for a in args]
        new = jvp(op, values, attrs, tangents, outs)
        if modes.is_grad_enabled() and any([_requires_grad(a) for a in values]):
            new = _functions_of(op, values, attrs, new, outs)
    for k, (o, t) in enumerate(zip(outs, new, strict=True)):
        if (
            t is not None
            and k not in op.nondifferentiable
            and (o.is_floating_point() or o.is_complex())
        ):
            if t._array.dtype != o._array.dtype:
                t = t.to(o.dtype)
            own_tangent(o, t if _fresh(t, tangents) else t.clone())
            if op.saved_results and o._fn is not None:
                saved.keep_tangent(o._fn, o._nr, own_tangent_of(o))
    return out


def hand_over(level: Any, args: tuple) -> bool:
    """`_hand_over` of the tangents that arguments have."""
    return _hand_over(level, args, [tangent_of(a) for a in args])


def _hand_over(level: Any, args: tuple, tangents: list) -> bool:
    """Inside vmap: let the physical tensors of arguments have the tangents, if a graph outside of it keeps them.

    Its formulas may be differentiated forward, too, and what they need of an op are the physical values alone.
    """
    if level.serial != state.dual_serial:
        return False  # the level of the tangents was opened inside of the vmap, and is gone when they are asked for
    if not any([batched.outer_grad(level.part(a)[0]) for a in args if isinstance(a, Tensor)]):
        return False
    own = [(*level.part(a), t) for a, t in zip(args, tangents, strict=True) if t is not None]
    if any([level.part(t)[1] and not has for _, has, t in own]):
        return False
    for physical, has, t in own:
        if tangent_of(physical) is None:
            own_tangent(split_off(physical), level.full(t) if has else level.part(t)[0])
    return True


def _run_outside(level: Any, op, args: tuple, attrs: tuple) -> Any:
    """The result of an op inside vmap, whose tangent is computed with the values of all entries."""
    with modes.Flag(FORWARD_AD, True):
        out = interpret.execute(op, args, attrs)
        for k, o in enumerate(out if isinstance(out, tuple) else (out,)):
            if o._view is not None or k in op.nondifferentiable:
                continue
            physical, has = level.part(o)
            tangent = tangent_of(physical)
            if tangent is not None:
                own_tangent(o, Tensor._make(batched.wrap(level, tangent, has)))
                if op.saved_results and o._fn is not None:
                    saved.keep_tangent(o._fn, o._nr, own_tangent_of(o))
    return out


def _functions_of(op, args: list, attrs: tuple, new: list, outs: tuple) -> list:
    """The tangents `new` of an op's results, those that do not require grad linked to what its rule multiplies by.

    What that is shows when the arguments without a tangent, numbers included, have one of zeros.
    """
    if op.jvp == "linear" or all([t is None or _requires_grad(t) for t in new]):
        return new
    if op.jvp == "elementwise":
        names = _Names(op, args, attrs, [None] * len(args), outs)
        zero = zeros_like(outs[0])
        each = [[zero if k == i else None for k in range(len(args))] for i in range(len(args))]
        terms = [_elementwise(op, args, only, names, outs[0]) for only in each]
    elif callable(op.jvp) and not op.variadic:
        kinds = [getattr(a, "dtype", None) for a in args]
        zeros = [
            zeros_like(a) if k is not None and k.np in DIFFERENTIABLE else None
            for a, k in zip(args, kinds, strict=True)
        ]
        terms = jvp(op, args, attrs, zeros, outs)
    else:
        terms = [op.jvp == "multilinear"]
    known = {n for n, a in zip(op.tensors, args, strict=False) if _requires_grad(a)}
    if known.isdisjoint(op.dependent) and not any([t is True or _requires_grad(t) for t in terms]):
        return new
    recorded = [a for a in args if _requires_grad(a)]
    return [t if t is None or _requires_grad(t) else linked(t, recorded) for t in new]


def _requires_grad(value: Any) -> bool:
    """Whether a tensor requires grad, inside of a vmap or outside of it."""
    return isinstance(value, Tensor) and (value._rg or batched.connected((value,)))


def _fresh(tangent: Tensor, given: list) -> bool:
    """Whether nobody else holds the memory of a tangent that a rule returned: an in-place op may change it."""
    while True:
        if tangent._view is not None or any([tangent is t for t in given]):
            return False
        array = tangent._array
        if array.__class__ is shared.sparse or (0 in array.strides and array.size > 1):
            return False
        if array.__class__ is not batched.Logical:
            return all([t is None or key(t._array) != key(array) for t in given])
        tangent, level = array.physical, array.level
        given = [level.part(t)[0] for t in given]


def _recorded(value: Any) -> bool:
    """Whether a tensor or its tangent requires grad."""
    return isinstance(value, Tensor) and (
        _requires_grad(value) or _requires_grad(tangent_of(value))
    )


def of_inplace(op, tensor: Tensor, others: tuple, attrs: tuple) -> Tensor | None:
    """The tangent that `tensor` has after the in-place op: that of the same op out of place."""
    if modes.is_grad_enabled() and any([_recorded(t) for t in (tensor, *others)]):
        tangent = tangent_of(tensor)
        with modes.Flag(FORWARD_AD, False):
            tensor = tensor.clone()  # what the tangent's graph keeps must not be written to
        own_tangent(tensor, tangent)
    if not op.differentiable:  # a comparison, whose result is constant
        with modes.Flag(FORWARD_AD, False):
            return zeros_like(tensor)
    return tangent_of(run_with_tangents(op, (tensor, *others), attrs))


def jvp(op, args, attrs: tuple, tangents: list, outs: tuple) -> list:
    """Tangents of the outputs, as Tensors."""
    rule = op.jvp
    if rule == "linear":
        if op.variadic:
            given = [
                t if t is not None else zeros_like(a) for t, a in zip(tangents, args, strict=True)
            ]
            out = op.call(given, *attrs)
        else:
            kept = (
                _linear_argument(a, t) if op.vjp or name in op.formulas else a
                for t, a, name in zip(tangents, args, op.tensors, strict=True)
            )
            out = op.call(*kept, *attrs)
        return list(out) if isinstance(out, tuple) else [out]
    if rule == "multilinear":
        total: Any = None
        for i, t in enumerate(tangents):
            if t is not None:
                part = op.call(*(t if k == i else a for k, a in enumerate(args)), *attrs)
                total = part if total is None else total + part
        return [total]
    values = _Names(op, args, attrs, tangents, outs)
    if callable(rule):
        out = rule(*(values.get(w) for w in op.jvp_wants))
        return list(out) if isinstance(out, tuple) else [out]
    if rule == "elementwise":
        return [_elementwise(op, args, tangents, values, outs[0])]
    return _derived(op, args, attrs, tangents, outs)


def _linear_argument(value, tangent: Tensor | None):
    """What takes the place of an argument of a linear op: its tangent, or zeros; anything but numbers stays."""
    if tangent is not None:
        return tangent
    if isinstance(value, Tensor):
        return zeros_like(value) if value._array.dtype in DIFFERENTIABLE else value
    return value if value is None else 0


class _Names:
    """Values by name for a jvp rule."""

    def __init__(self, op, args, attrs, tangents, outs):
        self.known = {"F": traced_ops, **dict(zip(op.attrs, attrs, strict=True))}
        if op.variadic:
            self.known |= {
                "tensors": args,
                "tensors_t": tangents,
                "tensors_shape": tuple(a.shape for a in args),
            }
        else:
            for name, a, t in zip(op.tensors, args, tangents, strict=True):
                self.known[name], self.known[name + "_t"] = a, t
        self.known |= dict(zip(op.results, outs, strict=False))
        self.hidden = op.hidden

    def get(self, name: str):
        if name not in self.known:
            rule = self.hidden.get(name)
            if rule is not None:
                self.known[name] = rule(*[self.get(w) for w in parameters(rule)])
            elif name.endswith("_shape"):
                self.known[name] = getattr(self.known[name.removesuffix("_shape")], "shape", ())
        return self.known[name]


def _elementwise(op, args, tangents, values, out):
    """For f applied to each element, jvp(t) = conj(vjp(conj(t))): one formula serves both."""
    total: Any = None
    for name, t in zip(op.tensors, tangents, strict=True):
        if t is None or name not in op.formulas:
            continue
        formula = op.formulas[name]
        values.known["g"] = _conj(t if t.shape == out.shape else t.expand(out.shape))
        part = _conj(formula.fn(*[values.get(w) for w in formula.wants]))
        total = part if total is None else total + part
    return total


def _conj(tensor: Tensor) -> Tensor:
    return tensor.conjugate()


def _derived(op, args, attrs, tangents, outs) -> list:
    """jvp from vjp: vjp is linear in g, so its derivative with respect to g, applied to the tangents, is the jvp."""

    recording = modes.is_grad_enabled() and any(isinstance(a, Tensor) and a._rg for a in args)
    live = [i for i, t in enumerate(tangents) if t is not None]
    with modes.Flag(NO_GRAD, False), modes.Flag(modes.SAVED_HOOKS, False):
        # one alias for each argument, so that a tensor that is two arguments counts as two
        fresh = [_fresh_argument(a, i in live, recording) for i, a in enumerate(args)]
        again = op.call(fresh, *attrs) if op.variadic else op.call(*fresh, *attrs)
        again = again if isinstance(again, tuple) else (again,)
        diff = [o for o in again if o._rg]
        seeds = [batched.apart(zeros_like(o)).requires_grad_() for o in diff]
        inputs = [fresh[i] for i in live]
        pulled = handed.grad(diff, inputs, seeds, create_graph=True, allow_unused=True)
        pairs = [
            (p, tangents[i]) for p, i in zip(pulled, live, strict=True) if p is not None and p._rg
        ]
        pushed: Any = [None] * len(diff)
        if pairs:
            outputs, given = zip(*pairs, strict=True)
            pushed = handed.grad(outputs, seeds, given, create_graph=True, allow_unused=True)
    found = {id(o): zeros_like(o) if p is None else p for o, p in zip(diff, pushed, strict=True)}
    result = [found.get(id(o)) for o in again]
    if recording:
        return result
    apart = (
        batched.apart if modes.is_grad_enabled() else Tensor.detach
    )  # from graphs outside of a vmap, too
    return [t if t is None else apart(t) for t in result]


def _fresh_argument(value: Any, live: bool, recording: bool) -> Any:
    """An argument to differentiate with respect to, if it is `live`; without recording nothing leads beyond it."""
    if not isinstance(value, Tensor):
        return value
    if recording:
        if not live:
            return value
        # inside vmap, what is plain has its history outside: also then all arguments have to be recorded here
        plain = batched.active() is not None and not batched.is_logical(value)
        if value._rg and not plain:
            return traced_ops.alias(value)
        return batched.apart(value).requires_grad_()
    if live and value.is_inference():
        return Tensor._make(value._array).requires_grad_()
    fresh = batched.apart(value) if live or value._rg else value
    return fresh.requires_grad_() if live else fresh


def zeros_like(tensor: Tensor) -> Tensor:
    return handed.constant_zeros(tensor)


handed.over(any_tangent, forget, mirror, own_tangent, run_with_tangents, split_off, tangent_of)
