"""Forward mode: tangents carried along by every op while a dual level is open."""

from __future__ import annotations

import inspect
from typing import Any

from . import modes
from .formulas import traced_ops
from .modes import FORWARD_AD, state
from .tensor import Tensor

_serial = 0  # grows with every level: tangents of a level that ended do not count any more


def enter_level() -> int:
    """Open the dual level; RuntimeError if one is open (levels do not nest)."""
    global _serial
    if state.dual_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _serial += 1
    state.dual_level = 0
    modes.set_flag(FORWARD_AD, True)
    return 0


def exit_level(level: int) -> None:
    if state.dual_level < 0 or level != state.dual_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    state.dual_level = -1
    modes.set_flag(FORWARD_AD, False)


def level_serial() -> int:
    return _serial


def tangent_of(tensor: Any) -> Tensor | None:
    """The tangent of `tensor` at the open level, or None."""
    tangent = getattr(tensor, "_tangent", None)
    return (
        tangent
        if tangent is not None and tensor._tangent_level == _serial and state.dual_level >= 0
        else None
    )


def run_with_tangents(op, args: tuple, attrs: tuple) -> Any:
    """Run `op` on dual tensors: its result, and the tangent of its result."""
    from . import dispatch

    tangents = [tangent_of(a) for a in args]
    with modes.Flag(FORWARD_AD, False):
        args = dispatch.prepare(op, args)
        out = dispatch.execute(op, args, attrs)
        if all(t is None for t in tangents) or not op.differentiable:
            return out
        tangents = [
            t.to(a.dtype) if t is not None and t._array.dtype != a._array.dtype else t
            for t, a in zip(tangents, args, strict=True)
        ]
        outs = out if isinstance(out, tuple) else (out,)
        values = [getattr(a, "value", a) if not isinstance(a, Tensor) else a for a in args]
        new = jvp(op, values, attrs, tangents, outs)
    for k, (o, t) in enumerate(zip(outs, new, strict=True)):
        if (
            t is not None
            and k not in op.nondifferentiable
            and (o.is_floating_point() or o.is_complex())
        ):
            o._tangent, o._tangent_level = t, _serial
    return out


def inplace_tangent(op, tensor: Tensor, others: tuple, attrs: tuple) -> Tensor | None:
    """The tangent that `tensor` has after the in-place op: that of the same op out of place."""
    out = run_with_tangents(op, (tensor, *others), attrs)
    return tangent_of(out)


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
            kept = [t if isinstance(a, Tensor) and name in op.formulas or op.vjp else a
                    for t, a, name in zip(tangents, args, op.tensors, strict=True)]  # fmt: skip
            kept = [
                zeros_like(a) if k is None and isinstance(a, Tensor) else k
                for k, a in zip(kept, args, strict=True)
            ]
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
                self.known |= {name: a, name + "_t": t, name + "_shape": getattr(a, "shape", ())}
        self.known |= dict(zip(op.results, outs, strict=False))
        self.hidden = op.hidden

    def get(self, name: str):
        if name not in self.known and self.hidden.get(name) is not None:
            rule = self.hidden[name]
            self.known[name] = rule(*(self.get(w) for w in inspect.signature(rule).parameters))
        return self.known[name]


def _elementwise(op, args, tangents, values, out):
    """For f applied to each element, jvp(t) = conj(vjp(conj(t))): one formula serves both."""
    total: Any = None
    for name, t in zip(op.tensors, tangents, strict=True):
        if t is None or name not in op.formulas:
            continue
        formula = op.formulas[name]
        values.known["g"] = t.conj().expand(out.shape) if t.shape != out.shape else t.conj()
        part = formula.fn(*(values.get(w) for w in formula.wants)).conj()
        total = part if total is None else total + part
    return total


def _derived(op, args, attrs, tangents, outs) -> list:
    """jvp from vjp: vjp is linear in g, so its derivative with respect to g, applied to the tangents, is the jvp."""
    from ..autograd import grad

    live = [i for i, t in enumerate(tangents) if t is not None]
    with modes.Flag(modes.NO_GRAD, False):
        fresh = [a.detach().requires_grad_() if i in live else a for i, a in enumerate(args)]
        if modes.is_grad_enabled() and any(isinstance(a, Tensor) and a._rg for a in args):
            fresh = [a if not isinstance(a, Tensor) or a._rg or i not in live else a.detach().requires_grad_()
                     for i, a in enumerate(args)]  # fmt: skip
        again = op.call(fresh, *attrs) if op.variadic else op.call(*fresh, *attrs)
        again = again if isinstance(again, tuple) else (again,)
        diff = [o for o in again if o._rg]
        seeds = [(o.detach() * 0).requires_grad_() for o in diff]
        pulled = grad(diff, [fresh[i] for i in live], seeds, create_graph=True, allow_unused=True)
        pairs = [
            (p, tangents[i]) for p, i in zip(pulled, live, strict=True) if p is not None and p._rg
        ]
        if not pairs:
            return [None if o not in diff else o.detach() * 0 for o in again]
        pushed = grad(
            [p for p, _ in pairs],
            seeds,
            [t for _, t in pairs],
            create_graph=True,
            allow_unused=True,
        )
    found = dict(zip((id(o) for o in diff), pushed, strict=True))
    result = [found.get(id(o)) for o in again]
    if any(isinstance(a, Tensor) and a._rg for a in args):
        return result
    return [t if t is None else t.detach() for t in result]


def zeros_like(tensor: Tensor) -> Tensor:
    return tensor.detach() * 0
