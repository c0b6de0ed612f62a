"""What the declared ops are for sparse arguments: compositions of dense ops on the values.

    @rule("neg")
    def _neg(self): ...          # arguments as of the op's call; NotImplemented: there is no kernel for these

`interpret.general` asks for the rule of an op (its `on_sparse`) where an argument is sparse. An op without one is
refused there, with its name and ``.to_dense()``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...op.declare import REGISTRY, Op
from ...op.interpret import common_dtype
from ...tape import dtypes, errors, sparse
from ...tape.arrays import kernels_of
from ...tape.device import beside_first
from ...tape.modes import FORWARD_AD, state
from ...tape.sizes import wrap_dim
from ...tape.sparse import COO, Pattern, is_sparse
from ...tape.tensor import Tensor
from ..create.filled import zeros
from ..elementwise.cast import cast_op, convert, to_device_op
from ..index.index_dim import index_select
from ..reduce.norm import vector_norm
from . import base
from .base import as_coo, in_layout, layout_of, made, parts, values_of, wrap


def rule(*names: str) -> Callable:
    """Register a function as what the ops `names` are for sparse arguments; it runs with their device current."""

    def register(function: Callable) -> Callable:
        function = beside_first(function)
        for name in names:
            REGISTRY[name].on_sparse = function
        return function

    return register


def with_values(tensor: Tensor, function: Callable, linear: bool = False) -> Tensor:
    """The tensor with ``function(values)`` for its values; `function` gives 0 for 0.

    linear: values of one place may be added afterwards, so a tensor outside of all graphs is left as it is.
    """
    pattern = tensor._array.pattern
    if linear and not tensor._rg and not state.bits & FORWARD_AD:
        return made(pattern, function(wrap(tensor._array.values)))
    tensor = base.coalesced(tensor)
    return made(tensor._array.pattern, function(values_of(tensor)))


# -- one argument ------------------------------------------------------------------------------------------------------


def _unary(op: Op, self: Tensor, *attrs: Any) -> Any:
    """An elementwise op that gives 0 for 0; any other has no sparse result."""
    zero = zeros((1,), dtype=self.dtype, device=self.device)
    if bool(op.call(zero, *attrs).ne(0).any()):
        return NotImplemented
    return with_values(self, lambda values: op.call(values, *attrs), op.jvp == "linear")


for _op in [op for op in REGISTRY.values() if op.elementwise and len(op.tensors) == 1]:
    _op.on_sparse = partial(_unary, _op)


@rule("pow_number")
def _power(self: Tensor, exponent: Any) -> Any:
    if not isinstance(exponent, Tensor) and not exponent > 0:
        raise NotImplementedError(
            f"pow with exponent {exponent} of a tensor of layout {self.layout} is not sparse: use .to_dense() first"
        )
    return with_values(self, lambda values: values**exponent)


@rule("conj_view")
def _conj(self: Tensor) -> Tensor:
    return with_values(self, lambda values: values.conj_physical())


@rule("neg")
def _neg(self: Tensor) -> Tensor:
    return with_values(self, lambda values: -values, True)


@rule("clone")
def _clone(self: Tensor, order: str) -> Tensor:
    return base.copy_op.call(self)


@rule("cast")
def _cast(self: Tensor, dtype: Any, self_dtype: Any) -> Tensor:
    wider = dtypes.can_cast(dtypes.BY_NP[self_dtype], dtypes.BY_NP[dtype])
    return with_values(self, lambda values: cast_op.call(values, dtype, self_dtype), wider)


@rule("to_device")
def _to_device(self: Tensor, target: Any, origin: Any, non_blocking: bool) -> Tensor:
    self = base.coalesced(self)

    def move(array: Any) -> Any:
        return to_device_op.call(wrap(array), target, origin, non_blocking)._array

    values = to_device_op.call(values_of(self), target, origin, non_blocking)
    return made(base.moved(self._array.pattern, move), values)


# -- two arguments -----------------------------------------------------------------------------------------------------


def _same_size(name: str, self: Tensor, other: Tensor) -> None:
    if self.shape != other.shape:
        raise RuntimeError(
            f"{name}: Expected 'self' and 'other' to have same size, but self has size {errors.size(self.shape)} "
            f"while other has size {errors.size(other.shape)} (sparse tensors do not broadcast to each other)"
        )


def _promoted(self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    common = common_dtype((self, other))
    return convert(self, common), convert(other, common)


NO_DENSE_SECOND = (
    "add(sparse, dense) is not supported. Use add(dense, sparse) instead, or .to_dense()."
)


@rule("add")
def _add(self: Any, other: Any) -> Any:
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        raise RuntimeError(NO_DENSE_SECOND)  # a number is added to all elements
    if is_sparse(self) and is_sparse(other):
        _same_size("add", self, other)
        self, other = _promoted(self, other)
        if self.layout is not COO or other.layout is not COO:
            kind, block = layout_of(self)
            if (kind, block) != layout_of(other):
                raise NotImplementedError(
                    f"add of tensors of layouts {self.layout} and {other.layout}: convert one, or use .to_dense()"
                )
            return in_layout(*parts(base.add_op.call(as_coo(self), as_coo(other))), kind, block)
        return base.add_op.call(self, other)
    if is_sparse(self):
        raise RuntimeError(NO_DENSE_SECOND)
    return self + base.whole_op.call(other)  # whose gradient is that of the sum, as in PyTorch


@rule("sub")
def _sub(self: Any, other: Any) -> Any:
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        return NotImplemented
    return _add(self, -other)


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (not is_sparse(value) and not value.ndim)


@rule("mul")
def _mul(self: Any, other: Any) -> Any:
    if not is_sparse(self):
        self, other = other, self
    if _is_number(other):
        return with_values(self, lambda values: values * other, True)
    kind, block = layout_of(self)
    pattern, values = parts(self)
    if not is_sparse(other):
        other = other.expand(self.shape)  # raises where it does not fit
        return in_layout(pattern, values * base.pick_op.call(other, pattern, False), kind, block)
    _same_size("mul", self, other)
    there, factors = parts(other)
    if there.sparse_dim != pattern.sparse_dim:
        return NotImplemented
    xp = kernels_of(pattern.indices)
    both, first, second = intersection(xp, pattern, there)
    product = index_select(values, 0, wrap(first)) * index_select(factors, 0, wrap(second))
    return in_layout(both, product, kind, block)


def intersection(xp: Any, one: Pattern, two: Pattern) -> tuple[Pattern, Any, Any]:
    """The places of two coalesced patterns that both have, and where they are in each."""
    mine, theirs = one.keys(), two.keys()
    if not one.count or not two.count:
        nowhere = xp.zeros((0,), sparse.INT64)
        return Pattern(COO, one.shape, one.indices[:, :0], True), nowhere, nowhere
    at = xp.minimum(xp.searchsorted(theirs, mine), two.count - 1)
    first = xp.nonzero(theirs[at] == mine)[0]
    return Pattern(COO, one.shape, one.indices[:, first], True), first, at[first]


def _refuse_divisor(self: Any, other: Any) -> None:
    if not is_sparse(self) or not _is_number(other):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', ()))} for divisor): use .to_dense() for others"
        )


@rule("div")
def _div(self: Any, other: Any) -> Any:
    _refuse_divisor(self, other)
    return with_values(self, lambda values: values / other, True)


def _rounded_quotient(name: str, self: Any, other: Any) -> Tensor:
    _refuse_divisor(self, other)
    return with_values(self, lambda values: REGISTRY[name].call(values, other))


rule("floor_divide")(partial(_rounded_quotient, "floor_divide"))
rule("trunc_divide")(partial(_rounded_quotient, "trunc_divide"))
rule("floor_quotient")(partial(_rounded_quotient, "floor_quotient"))


# -- products ----------------------------------------------------------------------------------------------------------


def _check_product(name: str, self: Tensor, other: Tensor) -> None:
    if self.shape[-1] != other.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, self.shape))} and "
            f"{'x'.join(map(str, other.shape))})"
        )
    if self.dtype is not other.dtype:
        raise RuntimeError(
            f"{name}: expected both operands to have the same dtype, but got: {self.dtype} and {other.dtype}"
        )


def _matrix(name: str, tensor: Tensor) -> tuple[Pattern, Tensor]:
    pattern, values = parts(tensor)
    if pattern.sparse_dim != 2 or len(pattern.shape) != 2:
        raise RuntimeError(
            f"{name}: expected a matrix with two sparse dimensions, but got size {errors.size(tensor.shape)} with "
            f"{pattern.sparse_dim} sparse dimensions"
        )
    return pattern, values


@rule("mm")
def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices of which one or both are sparse: sparse if both are."""
    if self.ndim != 2 or mat2.ndim != 2:
        return NotImplemented
    _check_product("mm", self, mat2)
    if not is_sparse(mat2):
        pattern, values = _matrix("mm", self)
        return base.mm_op.call(values, mat2, pattern)
    if not is_sparse(self):  # (A S) = (S' A')'
        pattern, values = _matrix("mm", mat2)
        return base.mm_op.call(values, self.t(), base._transposed(pattern)).t()
    kind, block = layout_of(self)
    return in_layout(*_sparse_product(_matrix("mm", self), _matrix("mm", mat2)), kind, block)


def _sparse_product(one: tuple, two: tuple) -> tuple[Pattern, Tensor]:
    """Pattern and values of the product of two sparse matrices: each pair of values that meet, then summed by place."""
    (left, values), (right, factors) = one, two
    xp = kernels_of(left.indices)
    row, inner = left.indices
    starts = xp.searchsorted(right.indices[0], inner)
    lengths = xp.searchsorted(right.indices[0], inner, side="right") - starts
    total = int(lengths.sum())
    first = sparse.repeated(xp, lengths, total)
    before = xp.cumsum(lengths) - lengths
    second = xp.arange(total) - before[first] + starts[first]
    indices = xp.stack([row[first], right.indices[1][second]])
    shape = (left.shape[0], right.shape[1])
    product = index_select(values, 0, wrap(first)) * index_select(factors, 0, wrap(second))
    return parts(made(Pattern(COO, shape, indices), product))


@rule("mv")
def _mv(self: Tensor, vec: Tensor) -> Tensor:
    return NotImplemented if is_sparse(vec) else mm(self, vec.unsqueeze(1)).squeeze(1)


@rule("matmul")
def _matmul(self: Tensor, other: Tensor) -> Tensor:
    """Of matrices, or of a sparse one and a vector, or vectors: those of a dense batch are the rows of one matrix."""
    if is_sparse(self):
        return _mv(self, other) if self.ndim == 2 and other.ndim == 1 else mm(self, other)
    if other.ndim != 2:
        return NotImplemented
    rows = self.reshape(math.prod(self.shape[:-1]), self.shape[-1])
    return mm(rows, other).reshape(*self.shape[:-1], other.shape[1])


@rule("addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * self + alpha * (mat1 @ mat2)`` where a matrix is sparse."""
    product = mat1 @ mat2
    if alpha != 1:
        product = product * alpha
    if is_sparse(self) and not is_sparse(product):
        return NotImplemented
    if not beta:
        return (
            product
            if is_sparse(self)
            else product + zeros(self.shape, dtype=self.dtype, device=self.device)
        )
    return (self if beta == 1 else self * beta) + product


@rule("addmv")
def _addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Any:
    return (
        NotImplemented if is_sparse(self) or is_sparse(vec) else self * beta + mat.mv(vec) * alpha
    )


@rule("linear")
def _linear(input: Tensor, weight: Tensor, bias: Any) -> Any:
    if is_sparse(input) and input.ndim != 2:
        return NotImplemented
    out = input @ weight.t()
    return out if bias is None else out + bias


# -- reductions --------------------------------------------------------------------------------------------------------


@rule("sum_all")
def _sum_all(self: Tensor) -> Tensor:
    return parts(self)[1].sum()


@rule("sum")
def sum_over(self: Tensor, dim: tuple[int, ...], keepdim: bool = False) -> Tensor:
    """Sums over dimensions: sparse as long as a sparse dimension is left."""
    dims = sorted({wrap_dim(d, self.ndim) for d in dim})
    pattern, values = parts(self)
    n = pattern.sparse_dim
    if len(dims) == self.ndim or not dims:
        out = values.sum()
        return out.reshape((1,) * self.ndim) if keepdim else out
    if keepdim:
        out = sum_over(self, dim)
        for d in dims:
            out = out.unsqueeze(d)
        kind, block = layout_of(self)
        return out if kind is COO or not is_sparse(out) else in_layout(*parts(out), kind, block)
    inner = [d - n + 1 for d in dims if d >= n]
    if inner:
        values = values.sum(inner)
    kept = [d for d in range(n) if d not in dims]
    shape = tuple([length for d, length in enumerate(self.shape) if d not in dims])
    if not kept:
        return values.sum(0)
    out = made(Pattern(COO, shape, pattern.indices[kept], len(kept) == n), values)
    return base.coalesced(out)


@rule("any")
def _any(self: Tensor, dim: Any, keepdim: bool) -> Any:
    return NotImplemented if dim or keepdim else parts(self)[1].any()


@rule("vector_norm")
def _norm(self: Tensor, ord: Any, dim: Any, keepdim: bool) -> Any:
    if (dim and len(dim) < self.ndim) or keepdim or not ord > 0:
        return NotImplemented
    return vector_norm(parts(self)[1], ord)


def _groups(pattern: Pattern, dim: int) -> tuple[Any, int]:
    """Which values stand in one line along the sparse dimension `dim`: a number for each, and how many there are."""
    others = [d for d in range(pattern.sparse_dim) if d != dim]
    shape = tuple([pattern.shape[d] for d in others])
    xp = kernels_of(pattern.indices)
    found, group = xp.unique(sparse.keys_of(pattern.indices[others], shape), return_inverse=True)
    return group.reshape(-1), int(found.shape[0])


@beside_first
def softmax(self: Tensor, dim: int, log: bool = False) -> Tensor:
    """softmax along a dimension over the values that are there: what is not there counts as -inf."""
    if not self.dtype.is_floating_point:
        name = self.dtype.scalar_type
        raise NotImplementedError(f"\"softmax\" not implemented for '{name}'")
    kind, block = layout_of(self)
    pattern, values = parts(self)
    dim = wrap_dim(dim, self.ndim)
    if dim >= pattern.sparse_dim:
        inner = dim - pattern.sparse_dim + 1
        return made(pattern, values.log_softmax(inner) if log else values.softmax(inner))
    group, count = _groups(pattern, dim)
    index = wrap(group)
    tail = tuple(values.shape[1:])
    spread = index.reshape(-1, *(1,) * len(tail)).expand(values.shape)
    most = zeros((count, *tail), dtype=values.dtype, device=values.device)
    most = most.scatter_reduce(0, spread, values.detach(), "amax", include_self=False)
    shifted = values - index_select(most, 0, index)
    raised = shifted.exp()
    sums = zeros((count, *tail), dtype=values.dtype, device=values.device).index_add(
        0, index, raised
    )
    total = index_select(sums, 0, index)
    return in_layout(pattern, shifted - total.log() if log else raised / total, kind, block)


@rule("softmax")
def _softmax(self: Tensor, dim: int) -> Tensor:
    return softmax(self, dim)


@rule("log_softmax")
def _log_softmax(self: Tensor, dim: int) -> Tensor:
    return softmax(self, dim, log=True)


# -- writing ---------------------------------------------------------------------------------------------------------


@rule("copy")
def _copy(self: Tensor, src: Tensor) -> Any:
    return base.copy_op.call(src) if is_sparse(self) and is_sparse(src) else NotImplemented


@rule("zero")
def _zero(self: Tensor) -> Tensor:
    return wrap(sparse.without_values(self._array))
