"""First derivatives that are constant, but count as functions of the op's arguments.

The second derivative of a piecewise linear op is zero wherever it exists, and its formula does not always use the
arguments. With ``create_graph=True`` a gradient made by PyTorch's backward of such an op requires grad all the same,
because the backward is an op with these arguments, and can be differentiated (to zero). `Op.dependent` names the
arguments; a gradient that requires no grad of its own is then linked to them.

The same holds for tangents: PyTorch's rules multiply the tangent of one argument, zero where there is none, by the
others. `linked` makes a tangent that is constant a function of them.
"""

from __future__ import annotations

from typing import Any

from ..tape import handed
from ..tape.arrays import backend_of
from ..tape.modes import FORWARD_AD, INFERENCE, NO_GRAD, state
from ..tape.node import VariadicNode, edge, join
from ..tape.tensor import Tensor
from . import vmap as batched


class Dependence(VariadicNode):
    """History of a constant gradient: zero for the argument that it is the gradient of, nothing for the others."""

    __slots__ = ("of", "zero")

    def name(self) -> str:
        return self.of.replace("Backward0", "BackwardBackward0")

    def gradients(self, grads, traced):
        zeros = None
        if self.zero is not None:
            g = grads[0]
            if traced:
                zeros = g.new_zeros(g.shape)
            else:
                zeros = backend_of(g).zeros(g.shape, g.dtype)
        return tuple(zeros if i == self.zero else None for i in range(len(self.edge_list)))


def depend(node: Any, i: int, gradient: Tensor) -> Tensor:
    """`gradient`, which is that of argument `i` of `node` and requires no grad, linked to what it depends on."""
    if state.bits & (NO_GRAD | INFERENCE):
        return gradient
    edges = node.edges()
    own = node.op.tensors
    linked = [k for k in range(len(edges)) if own[k] in node.op.dependent and edges[k][0]]
    if not linked:
        return gradient
    link = join(Dependence, [edges[k] for k in linked])
    link.of, link.zero = node.name(), linked.index(i) if i in linked else None
    out = batched.apart(gradient)
    out._rg, out._fn, out._nr = True, link, 0
    if state.bits & FORWARD_AD and (tangent := handed.tangent_of(gradient)) is not None:
        handed.own_tangent(out, tangent)
    return out


class Independence(VariadicNode):
    """History of a value that counts as a function of tensors, but has the derivative zero with respect to each."""

    __slots__ = ("kinds",)

    def gradients(self, grads, traced):
        g = grads[0]
        if traced:
            return tuple(g.new_zeros(shape, dtype=dtype) for shape, dtype in self.kinds)

        xp = backend_of(g)
        return tuple(xp.zeros(shape, dtype.np) for shape, dtype in self.kinds)


def linked(value: Tensor, arguments: list[Tensor]) -> Tensor:
    """`value`, which requires no grad, as a function of those of `arguments` that do, also outside of a vmap."""
    level = batched.level_of((value, *arguments))
    if level is not None:
        parts = [level.part(a)[0] for a in arguments]
        physical, has = level.part(value)
        with batched.Physically(level):
            value = Tensor._make(batched.wrap(level, linked(physical, parts), has))
        arguments = [a for a in arguments if batched.is_logical(a)]
    arguments = [a for a in arguments if a._rg]
    if not arguments:
        return value
    link = join(Independence, [edge(a) for a in arguments])
    link.kinds = [(a.shape, a.dtype) for a in arguments]
    out = batched.apart(value)
    out._rg, out._fn, out._nr = True, link, 0
    return out


def depend_all(node: Any, gradients: tuple) -> tuple:
    """`depend` for each gradient that there is."""
    return tuple(g if g is None or g._rg else depend(node, i, g) for i, g in enumerate(gradients))


handed.over(depend_all)
