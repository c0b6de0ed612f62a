"""Calls of declared ops as `aten` has them: what a ``__torch_dispatch__`` is given, and what becomes of its answer.

An op's operands and attributes are told by position, in PyTorch's order where that is another (``Op.aten``), without
trailing ones that are PyTorch's defaults. What comes back in a call of the same op takes their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..op.inplace import inplace
from ..operators import public
from ..operators.linalg.linear import linear_op
from ..operators.linalg.matmul import matmul_op
from ..operators.nn.dropout import dropout_op
from ..operators.shape.dims import permute_op
from ..tape import dtypes
from ..tape.modes import shared, state
from ..tape.tensor import Tensor
from . import aten

USUAL = {"alpha": 1, "beta": 1, "step": 1, "approximate": "none"}


class Told(NamedTuple):
    """How PyTorch's call of an op looks: see ``Op.aten``."""

    name: str  # "" for that of the op
    order: tuple[str, ...]  # what is told by position
    named: dict[str, str]  # what is told by name: the op's name for it, and PyTorch's
    usual: dict[str, Any]  # defaults of this op


@cache
def told_as(op: Any) -> Told:
    """What the declaration of `op` says of PyTorch's call."""
    name, _, listed = op.aten.partition("(")
    order, named, usual = [], {}, dict(USUAL)
    for word in [w.strip() for w in listed.rstrip(")").split(",")] if listed else ():
        if word[0] == "*":
            told, _, own = word[1:].partition(":")
            named[own or told] = told
        elif word[0] != "=" and "=" in word:
            own, _, value = word.partition("=")
            order.append(own)
            usual[own] = int(value)
        else:
            order.append(word)
    return Told(name, tuple(order or (*op.tensors, *op.attrs)), named, usual)


class Call:
    """One call of an op that handlers are asked about.

    operator: what they are told that is called.
    op: the declared op, None for a function that is none.
    args, attrs: its operands and attributes; numbers stand for tensors where they were given.
    writes: whether it is the in-place form.
    run: the function, if there is no op.
    kwargs: its arguments by name.
    """

    __slots__ = ("args", "attrs", "function", "kwargs", "op", "operator", "writes")

    def __init__(
        self,
        operator: aten.Operator,
        op: Any,
        args: tuple,
        attrs: tuple,
        writes: bool = False,
        run: Callable | None = None,
        kwargs: dict[str, Any] | None = None,
    ):
        # the one that programs find under that name: tables of handlers are asked by identity, too
        self.operator = aten.operator(operator._name) if operator._also else operator
        self.op, self.args, self.attrs = op, args, attrs
        self.writes, self.function, self.kwargs = writes, run, kwargs or {}
        if op is not None and (name := told_as(op).name):
            self.operator = aten.operator(name + ("_" if writes else ""))

    def _values(self) -> dict[str, Any]:
        """Operands and attributes by name."""
        op = self.op
        operands = {op.tensors[0]: list(self.args)} if op.variadic else zip(op.tensors, self.args)
        return {**dict(operands), **dict(zip(op.attrs, self.attrs))}

    def told(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as handlers get them: by position, and by name."""
        if self.op is None:
            return list(self.args), self.kwargs
        values, how = self._values(), told_as(self.op)
        order = how.order
        args = [_constant(n) if n[0] == "=" else _listed(values[n]) for n in order]
        while len(args) > 1 and self._usual(order[len(args) - 1], args[-1]):
            args.pop()
        named = {n: t for n, t in how.named.items() if not self._usual(n, values[n])}
        return args, {told: _listed(values[n]) for n, told in named.items()}

    def _usual(self, name: str, value: Any) -> bool:
        """Whether PyTorch leaves out the argument because it is its default."""
        if value is None or value is False:
            return True
        if name in self.op.tensors or isinstance(value, Tensor):
            return False
        usual = told_as(self.op).usual.get(name)
        return usual is not None and value == usual

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The op with other arguments, as they were told; LookupError where they are not those of this op."""
        op = self.op
        if state.dispatch_off:
            subclasses = shared.subclasses
            args = [subclasses.values_held(a) for a in args]
            kwargs = {name: subclasses.values_held(v) for name, v in kwargs.items()}
        if op is None:
            return self.function(*args, **kwargs)  # type: ignore[misc]
        values, how = self._values(), told_as(op)
        order = how.order
        if len(args) > len(order) or not args:
            raise LookupError
        for name, value in zip(order, args):
            if name[0] != "=":
                values[name] = _as_before(values[name], value)
        for name, value in kwargs.items():
            known = next((k for k, told in how.named.items() if told == name), name)
            if known not in values:
                raise LookupError
            values[known] = _as_before(values[known], value)
        operands = [values[t] for t in op.tensors]
        attrs = [values[a] for a in op.attrs]
        if self.writes:
            return inplace(op, operands[0], tuple(operands[1:]), tuple(attrs))
        return op.call(*operands, *attrs)


def _constant(text: str) -> Any:
    return [] if text == "=[]" else False


def _listed(value: Any) -> Any:
    """Sizes and dimensions are lists in PyTorch's calls."""
    if isinstance(value, np.dtype):
        return dtypes.BY_NP[value]
    whole = type(value) is tuple and all([type(v) is int for v in value])
    return list(value) if whole else value


def _as_before(before: Any, value: Any) -> Any:
    if isinstance(before, np.dtype) and isinstance(value, dtypes.dtype):
        return value.np
    return tuple(value) if isinstance(before, tuple) and isinstance(value, list) else value


# -- ops that PyTorch has not: what it runs in their place -------------------------------------------------------------


def _linear(args: tuple, attrs: tuple) -> Any:
    x, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    if x.ndim == 1 or weight.ndim != 2:
        out = public.matmul(x, weight.t() if weight.ndim == 2 else weight)
        return out if bias is None else out + bias
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    turned = weight.t()
    out = public.mm(rows, turned) if bias is None else public.addmm(bias, rows, turned)
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], weight.shape[0])


def _matmul(args: tuple, attrs: tuple) -> Any:
    a, b = args
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return NotImplemented
    if (a.ndim, b.ndim) in ((1, 1), (2, 1), (2, 2), (3, 3)) and a.shape[:-2] == b.shape[:-2]:
        return NotImplemented  # which PyTorch has under names of their own
    if a.ndim == 1:
        return public.matmul(a.unsqueeze(0), b).squeeze(-2)
    if b.ndim == 1:
        return public.matmul(a, b.unsqueeze(1)).squeeze(-1)
    if b.ndim == 2:
        out = public.mm(a.reshape(-1, a.shape[-1]), b)
        return out.reshape(*a.shape[:-1], b.shape[-1])
    batch = public.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    first = a.expand(*batch, *a.shape[-2:]).reshape(-1, *a.shape[-2:])
    second = b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:])
    return public.bmm(first, second).reshape(*batch, a.shape[-2], b.shape[-1])


def _dropout(args: tuple, attrs: tuple) -> Any:
    input, mask = args
    return input * mask.to(input.dtype).mul_(attrs[0])


def _permute(args: tuple, attrs: tuple) -> Any:
    """PyTorch's gradients of products transpose."""
    (x,), dims = args, tuple(attrs[0])
    last = len(dims) - 1
    if state.current_task is None or last < 1:
        return NotImplemented
    if dims != (*range(last - 1), last, last - 1):
        return NotImplemented
    return x.t() if last == 1 else x.transpose(last - 1, last)


DECOMPOSED: dict[Any, Callable[[tuple, tuple], Any]] = {
    linear_op: _linear,
    dropout_op: _dropout,
    matmul_op: _matmul,
    permute_op: _permute,
}
