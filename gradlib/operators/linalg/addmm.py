"""Products added to a tensor: addmm and its relatives."""

from __future__ import annotations

from numpy import ndarray

from ...op import costs
from ...op.declare import Op, declare
from ...op.expose import c_type, function, legacy, method, write_out, write_same
from ...op.formulas import formula_function
from ...op.inplace import inplace
from ...op.plain_numbers import SMALL, check_factor, plain_number, python_number
from ...tape import dtypes
from ...tape.errors import size
from ...tape.modes import is_grad_enabled
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import is_half, narrow
from .matmul import check_batches, check_inner, product, same_types, shape_mv

# -- beta * input + alpha * (a product) --------------------------------------------------------------------------


def _sum_of_products(xp, a, b):
    """Batches (b, n, k) and (b, k, m) to the sum (n, m) of their products, as one matrix product."""
    n, m = a.shape[1], b.shape[2]
    inner = a.shape[0] * a.shape[2]
    return product(xp, a.transpose(1, 0, 2).reshape(n, inner), b.reshape(inner, m))


def _plus(xp, self, out, beta, alpha):
    """``beta * self + alpha * out``, written into `out`; with beta 0 nothing of self counts, not even nan."""
    if alpha != 1:
        out *= alpha
    if beta == 1:
        out += self
    elif beta != 0:
        out += self * beta
    return out


def _plus_product(xp, self, a, b, beta, alpha):
    """``beta * self + alpha * (a @ b)``; half types are rounded once, on a device twice."""
    if a.__class__ is ndarray and is_half(a):
        wide = _plus(xp, xp.wide(self), product(xp, xp.wide(a), xp.wide(b)), beta, alpha)
        return narrow(wide, a.dtype)
    return _plus(xp, self, product(xp, a, b), beta, alpha)


@formula_function()
def times(F, g, number):
    """g times the conjugate of a number, g itself for 1."""
    return g if number == 1 else g * number.conjugate()


def _self(F, g, self_shape, beta):
    return F.sum_to_size(F.times(g, beta), self_shape)


def _addr(xp, self, vec1, vec2, *, beta, alpha):
    products = vec1[:, None] * vec2
    if products.dtype.kind != "b":
        return _plus(xp, self, products, beta, alpha)
    if not alpha:
        products = xp.zeros_like(products)
    return products | self if beta else products


addmm_op = declare(
    "addmm", lambda xp, self, mat1, mat2, *, beta, alpha: _plus_product(xp, self, mat1, mat2, beta, alpha),
    flops=costs.added_product, backward_flops=costs.added_product_back, autocast="lower", promote="none", complex=True,
    self=_self, mat1=lambda F, g, mat2, alpha: F.times(F.mm(g, F.mH(mat2)), alpha),
    mat2=lambda F, g, mat1, alpha: F.times(F.mm(F.mH(mat1), g), alpha),
    samples=lambda t: [(t(3, 2), t(3, 4), t(4, 2), 1, 1), (t(2), t(3, 4), t(4, 2), 0.5, 2.0), (t(), t(3, 0), t(0, 2),
    2.0, 1)],
    batch="addmm",
    aten="(self, mat1, mat2, *beta, *alpha)",
)  # fmt: skip
addmv_op = declare(
    "addmv", lambda xp, self, mat, vec, *, beta, alpha: _plus_product(xp, self, mat, vec, beta, alpha),
    flops=costs.added_product, autocast="cuda:lower", promote="none", complex=True, self=_self,
    mat=lambda F, g, vec, alpha: F.times(F.unsqueeze(g, 1) * vec.conjugate(), alpha),
    vec=lambda F, g, mat, alpha: F.times(F.mv(F.mH(mat), g), alpha),
    samples=lambda t: [(t(3), t(3, 4), t(4), 1, 1), (t(1), t(3, 4), t(4), 0.5, 2.0)],
    batch="addmm",
    aten="(self, mat, vec, *beta, *alpha)",
)  # fmt: skip
addr_op = declare(
    "addr", _addr, autocast="cuda:lower", complex=True, self=_self,
    vec1=lambda F, g, vec2, alpha: F.times(F.mv(g, vec2.conjugate()), alpha),
    vec2=lambda F, g, vec1, alpha: F.times(F.mv(g.T, vec1.conjugate()), alpha),
    samples=lambda t: [(t(3, 2), t(3), t(2), 1, 1), (t(2), t(3), t(2), 0.5, 2.0)],
    batch="addr",
    aten="(self, vec1, vec2, *beta, *alpha)",
)  # fmt: skip
addbmm_op = declare(
    "addbmm", lambda xp, self, batch1, batch2, *, beta, alpha: _plus(xp, self, _sum_of_products(xp, batch1, batch2),
    beta, alpha),
    flops=costs.added_product, autocast="lower", promote="none", complex=True, self=_self,
    batch1=lambda F, g, batch2, alpha: F.times(F.matmul(g, F.mH(batch2)), alpha),
    batch2=lambda F, g, batch1, alpha: F.times(F.matmul(F.mH(batch1), g), alpha),
    samples=lambda t: [(t(3, 2), t(2, 3, 4), t(2, 4, 2), 1, 1), (t(2), t(2, 3, 4), t(2, 4, 2), 0.5, 2.0)],
    aten="(self, batch1, batch2, *beta, *alpha)",
)  # fmt: skip
baddbmm_op = declare(
    "baddbmm", lambda xp, self, batch1, batch2, *, beta, alpha: _plus_product(xp, self, batch1, batch2, beta, alpha),
    flops=costs.added_product, autocast="lower", promote="none", complex=True, self=_self,
    batch1=lambda F, g, batch2, alpha: F.times(F.bmm(g, F.mH(batch2)), alpha),
    batch2=lambda F, g, batch1, alpha: F.times(F.bmm(F.mH(batch1), g), alpha),
    samples=lambda t: [(t(2, 3, 2), t(2, 3, 4), t(2, 4, 2), 1, 1), (t(3, 1), t(2, 3, 4), t(2, 4, 2), 0.5, 2.0)],
    batch="addmm",
    aten="(self, batch1, batch2, *beta, *alpha)",
)  # fmt: skip


_PLAIN = frozenset((int, float))


def _factors(op: Op, input: Tensor, beta, alpha):
    """The factors, which must fit in the dtype; of integer tensors addr refuses fractions, the others cut them off."""
    kind = input.dtype
    plain = beta.__class__ in _PLAIN and alpha.__class__ in _PLAIN
    if plain and kind.category == dtypes.FLOATING and abs(beta) <= SMALL and abs(alpha) <= SMALL:
        return beta, alpha
    if not plain:
        beta = python_number(beta, f"{op.name}(): argument 'beta'")
        alpha = python_number(alpha, f"{op.name}(): argument 'alpha'")
    check = plain_number if op is addmv_op or op is addr_op else check_factor
    fitting = check(beta, kind), check(alpha, kind)
    if kind.category >= dtypes.FLOATING:
        return beta, alpha
    if op is addr_op and (isinstance(beta, float) or isinstance(alpha, float)):
        which = "beta" if isinstance(beta, float) else "alpha"
        raise RuntimeError(
            f"For integral input tensors, argument {which} must not be a floating point number."
        )
    return fitting


def _check_fits(input: Tensor, shape: tuple) -> None:
    """RuntimeError unless `input` can be expanded to `shape`."""
    have = input._array.shape
    if have == shape:
        return
    pairs = zip(reversed(have), reversed(shape))
    if len(have) > len(shape) or any(n not in (1, m) for n, m in pairs):
        if len(have) > len(shape):
            raise RuntimeError(
                f"expand(torch.{input.dtype.tensor_type}{{{size(have)}}}, size={list(shape)}): the number of sizes "
                f"provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
                f"({len(have)})"
            )
        at = next(i for i in range(1, len(have) + 1) if have[-i] not in (1, shape[-i]))
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[-at]}) must match the existing size ({have[-at]}) at "
            "non-singleton "
            f"dimension {len(shape) - at}.  Target sizes: {size(shape)}.  Tensor sizes: {size(have)}"
        )


def _shape_mm(a: Tensor, b: Tensor) -> tuple:
    x, y = a._array.shape, b._array.shape
    if len(x) != 2 or len(y) != 2:
        which, bad = ("mat1", x) if len(x) != 2 else ("mat2", y)
        raise RuntimeError(f"{which} must be a matrix, got {len(bad)}-D tensor")
    check_inner(x, y)
    return (x[0], y[1])


def _shape_mv(a: Tensor, b: Tensor) -> tuple:
    return shape_mv(a._array.shape, b._array.shape)


def _shape_addr(a: Tensor, b: Tensor) -> tuple:
    for k, t in (("vec1", a), ("vec2", b)):
        if t._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {k}, but got {t._array.ndim}-D")
    return (a._array.shape[0], b._array.shape[0])


def _check_sizes(*wanted: tuple[Tensor, int]) -> None:
    """IndexError unless each tensor has the dimension that its size is taken of."""
    for t, d in wanted:
        n = t._array.ndim
        if not n:
            raise IndexError(f"Dimension specified as {d} but tensor has no dimensions")
        if d >= n:
            wrap_dim(d, n)


def _shape_addbmm(a: Tensor, b: Tensor) -> tuple:
    _check_sizes((a, 1), (b, 2))
    x, y = a._array.shape, b._array.shape
    if len(x) == len(y) == 3 and x[0] == y[0] and x[2] != y[1]:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({x[1]}x{x[2]} and {y[1]}x{y[2]})")
    check_batches(a, b)
    return (x[1], y[2])


def _shape_baddbmm(a: Tensor, b: Tensor) -> tuple:
    _check_sizes((a, 0), (a, 1), (b, 2))
    check_batches(a, b)
    return (a._array.shape[0], a._array.shape[1], b._array.shape[2])


def _product_shape(op: Op, shape_of, input, a, b) -> tuple:
    """The shape of the product; TypeError or RuntimeError for arguments that do not fit."""
    try:
        return shape_of(a, b)
    except AttributeError:
        for t, name in zip((input, a, b), ("input", *op.tensors[1:])):
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"{op.name}(): argument '{name}' must be Tensor, not {type(t).__name__}"
                ) from None
        raise


def _check_truth(op: Op, a: Tensor, beta) -> None:
    """RuntimeError for truth values times a number, which is what an empty product leaves."""
    if op is addmv_op or op is addr_op or not beta or beta is True or a._array.shape[-1]:
        return
    kind = "Float" if isinstance(beta, float) else "Long"
    raise RuntimeError(f"result type {kind} can't be cast to the desired output type Bool")


def _add(op: Op, shape_of, input, a, b, more, beta, alpha, out):
    if more:
        input, a, b, beta, alpha = _old_form(op.name, input, a, b, *more)
    shape = _product_shape(op, shape_of, input, a, b)
    if input.dtype is dtypes.bool_:
        _check_truth(op, a, beta)
    if beta.__class__ is not int or alpha.__class__ is not int or beta != 1 or alpha != 1:
        beta, alpha = _factors(op, input, beta, alpha)
    if input._array.shape != shape:
        if op is addmv_op:
            _check_addmv(input, a, b)
        _check_fits(input, shape)
    try:
        result = op.call(input, a, b, beta, alpha)
    except (RuntimeError, TypeError):
        _explain(op, input, a, b, (beta, alpha))
        raise
    if out is None:
        return result
    return write_out(out, result) if op is addr_op else write_same(out, result, row_major=True)


def _check_addmv(input: Tensor, mat: Tensor, vec: Tensor) -> None:
    if input.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, 2, 1")
    if input.numel() != 1:
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )


def _explain(op: Op, input: Tensor, a: Tensor, b: Tensor, factors: tuple) -> None:
    """RuntimeError that says which dtypes, or factors, do not go together."""
    for factor in factors:
        plain_number(factor, input.dtype)
    kinds = [t.dtype.scalar_type for t in (input, a, b)]
    if op is addr_op or len(set(kinds)) == 1:
        return
    if op is baddbmm_op:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {c_type(input)}, batch1: {c_type(a)}, batch2: {c_type(b)}"
        ) from None
    if op is addmv_op:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {kinds[0]}, {kinds[1]}, and {kinds[2]}"
        ) from None
    if kinds[0] != kinds[2]:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {kinds[0]} and {kinds[2]}"
        ) from None
    same_types(op, a, b)


def _old_form(name: str, *args) -> list:
    """[input, mat1, mat2, beta, alpha] of ``addmm(beta, input, alpha, mat1, mat2)``, without alpha or both factors."""
    tensors, factors = legacy(name, args, {"beta": 1, "alpha": 1})
    if len(tensors) != 3:
        raise TypeError(f"{name}() takes 3 tensors, but {len(tensors)} were given")
    return tensors + factors


def _add_inplace(op: Op, shape_of, self, a, b, more, beta, alpha):
    if more:
        self, a, b, beta, alpha = _old_form(op.name + "_", self, a, b, *more)
    shape = _product_shape(op, shape_of, self, a, b)
    if self.dtype is dtypes.bool_:
        _check_truth(op, a, beta)
    beta, alpha = _factors(op, self, beta, alpha)
    if self._array.shape != shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {size(self._array.shape)} and output tensor "
            f"size {size(shape)} should match"
        )
    return inplace(op, self, (a, b), (beta, alpha))


@function("addmm", method=True)
def addmm(input, mat1, mat2, *more, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast, and ignored with beta 0.

    Raises RuntimeError: shapes or dtypes do not fit.

    Example:
        >>> gradlib.addmm(gradlib.ones(1), gradlib.ones(1, 2), gradlib.ones(2, 1))
        tensor([[3.]])
    """
    return _add(addmm_op, _shape_mm, input, mat1, mat2, more, beta, alpha, out)


@method("addmm_")
def addmm_(self, mat1, mat2, *more, beta=1, alpha=1):
    """In-place version of ``addmm``."""
    return _add_inplace(addmm_op, _shape_mm, self, mat1, mat2, more, beta, alpha)


@function("addmv", method=True)
def addmv(input, mat, vec, *more, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat @ vec)``.

    Args:
        input: a tensor that broadcasts to (n,); with beta 0 its values, nan included, do not count.
        mat, vec: (n, m) and (m,), all of one dtype.
        more: in an old form of the call the factors come first; it is deprecated.
        beta, alpha: numbers; integers for integers.
        out: written to instead of a new tensor.

    Returns:
        A tensor (n,).

    Raises:
        RuntimeError: shapes or dtypes do not fit.

    Example:
        >>> gradlib.addmv(gradlib.ones(2), gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.ones(2))
        tensor([4., 8.])
    """
    return _add(addmv_op, _shape_mv, input, mat, vec, more, beta, alpha, out)


@method("addmv_")
def addmv_(self, mat, vec, *more, beta=1, alpha=1):
    """In-place version of ``addmv``."""
    return _add_inplace(addmv_op, _shape_mv, self, mat, vec, more, beta, alpha)


@function("addr", method=True)
def addr(input, vec1, vec2, *more, beta=1, alpha=1, out=None):
    """``beta * input + alpha * outer(vec1, vec2)``.

    Args:
        input: a tensor that broadcasts to (n, m); with beta 0 its values, nan included, do not count.
        vec1, vec2: (n,) and (m,).
        more: in an old form of the call the factors come first; it is deprecated.
        beta, alpha: numbers; integers for integers.
        out: written to instead of a new tensor.

    Returns:
        A tensor (n, m).

    Raises:
        RuntimeError: no vectors, or `input` does not broadcast.

    Example:
        >>> gradlib.addr(gradlib.zeros(2, 2), gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    return _add(addr_op, _shape_addr, input, vec1, vec2, more, beta, alpha, out)


@method("addr_")
def addr_(self, vec1, vec2, *more, beta=1, alpha=1):
    """In-place version of ``addr``."""
    return _add_inplace(addr_op, _shape_addr, self, vec1, vec2, more, beta, alpha)


@function("addbmm", method=True)
def addbmm(input, batch1, batch2, *more, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (batch1[0] @ batch2[0] + batch1[1] @ batch2[1] + ...)``.

    Args:
        input: a tensor that broadcasts to (n, m); with beta 0 its values, nan included, do not count.
        batch1, batch2: (b, n, k) and (b, k, m), all of one dtype.
        more: in an old form of the call the factors come first; it is deprecated.
        beta, alpha: numbers; integers for integers.
        out: written to instead of a new tensor.

    Returns:
        A tensor (n, m).

    Raises:
        RuntimeError: shapes or dtypes do not fit.
        IndexError: matrices instead of batches.

    Example:
        >>> gradlib.addbmm(gradlib.zeros(1, 1), gradlib.ones(3, 1, 2), gradlib.ones(3, 2, 1))
        tensor([[6.]])
    """
    return _add(addbmm_op, _shape_addbmm, input, batch1, batch2, more, beta, alpha, out)


@method("addbmm_")
def addbmm_(self, batch1, batch2, *more, beta=1, alpha=1):
    """In-place version of ``addbmm``: the result is written into this tensor.

    Args:
        batch1, batch2: (b, n, k) and (b, k, m), of the dtype of this tensor.
        more: in an old form of the call the factors come first; it is deprecated.
        beta, alpha: numbers; integers for integers.

    Returns:
        This tensor; a smaller one that needs no gradient grows to the size of the result.

    Raises:
        RuntimeError: shapes or dtypes do not fit; a leaf that requires grad.

    Example:
        >>> gradlib.ones(1, 1).addbmm_(gradlib.ones(3, 1, 2), gradlib.ones(3, 2, 1))
        tensor([[7.]])
    """
    if more:
        self, batch1, batch2, beta, alpha = _old_form("addbmm_", self, batch1, batch2, *more)
    shape = _product_shape(addbmm_op, _shape_addbmm, self, batch1, batch2)
    if self._array.shape != shape:
        _check_fits(self, shape)
        if not (is_grad_enabled() and any(t.requires_grad for t in (self, batch1, batch2))):
            result = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
            return self.resize_(shape).copy_(result)
    return _add_inplace(addbmm_op, _shape_addbmm, self, batch1, batch2, (), beta, alpha)


@function("baddbmm", method=True)
def baddbmm(input, batch1, batch2, *more, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (batch1 @ batch2)`` of batches of matrices.

    Args:
        input: a tensor that broadcasts to (b, n, m); with beta 0 its values, nan included, do not count.
        batch1, batch2: (b, n, k) and (b, k, m), all of one dtype.
        more: in an old form of the call the factors come first; it is deprecated.
        beta, alpha: numbers; integers for integers.
        out: written to instead of a new tensor.

    Returns:
        A tensor (b, n, m).

    Raises:
        RuntimeError: shapes or dtypes do not fit.
        IndexError: matrices instead of batches.

    Example:
        >>> gradlib.baddbmm(gradlib.ones(1), gradlib.ones(2, 1, 3), gradlib.ones(2, 3, 1))
        tensor([[[4.]],
        <BLANKLINE>
                [[4.]]])
    """
    return _add(baddbmm_op, _shape_baddbmm, input, batch1, batch2, more, beta, alpha, out)


@method("baddbmm_")
def baddbmm_(self, batch1, batch2, *more, beta=1, alpha=1):
    """In-place version of ``baddbmm``."""
    return _add_inplace(baddbmm_op, _shape_baddbmm, self, batch1, batch2, more, beta, alpha)
