"""Transforms of vectors and matrices, of their shapes, and of parts of a tensor by different transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..linalg import cholesky
from ..operators import public as ops
from ..operators.elementwise.activation import logsigmoid
from ..tape import dtypes
from ..tape.tensor import Size, Tensor
from . import constraints
from ._transform import Transform, _need_dims
from .utils import (
    _softplus,
    _sum_rightmost,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]

Shape = Sequence[int]


def _after_one(x: Tensor) -> Tensor:
    """A 1 before the elements of the last dimension."""
    return ops.cat([x.new_ones((*x.shape[:-1], 1)), x], -1)


class ReshapeTransform(Transform):
    """The last dimensions in another shape; the Jacobian is a permutation.

    Args:
        in_shape, out_shape: the shapes of one point of the argument and of its image.
        cache_size: 0 or 1.

    Raises:
        ValueError: the shapes have different numbers of elements.

    Example:
        >>> gradlib.distributions.ReshapeTransform((4,), (2, 2))(gradlib.zeros(3, 4)).shape
        torch.Size([3, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Shape, out_shape: Shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Shape, old: Size, new: Size) -> Shape:
    """A shape that ends with `new` in the place of `old`."""
    _need_dims(shape, len(old))
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return tuple(shape[:cut]) + new


class SoftmaxTransform(Transform):
    """``y = exp(x) / exp(x).sum(-1)``: from vectors to the simplex; many vectors have one image.

    The inverse is the logarithm. For Hamiltonian Monte Carlo, which needs a bijection, there is
    `StickBreakingTransform`; this one moves all coordinates alike, which suits optimisers.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.SoftmaxTransform()(gradlib.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 1)
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 1)
        return shape


class StickBreakingTransform(Transform):
    """From vectors of n numbers to the simplex of n + 1: each number breaks a part off what is left of a stick.

    The parts are ``sigmoid(x - log(n - k))`` of the rest, so that zeros give equal parts.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Source: Stan Development Team, Stan Reference Manual, Unit simplex.

    Example:
        >>> gradlib.distributions.StickBreakingTransform()(gradlib.zeros(3))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    @staticmethod
    def _parts_left(x: Tensor) -> Tensor:
        """The logarithms of n, n - 1, ..., 1."""
        return ops.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        info = dtypes.finfo(x.dtype)
        part = ops.sigmoid(x - self._parts_left(x)).clamp(min=info.tiny, max=1.0 - info.eps)
        left = _after_one((1 - part).cumprod(-1))
        return ops.cat([part, x.new_ones((*x.shape[:-1], 1))], -1) * left

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=dtypes.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._parts_left(taken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # triangular, with dy_k / dx_k = y_k (1 - part_k), and log(1 - sigmoid(z)) = log sigmoid(-z)
        return (logsigmoid(self._parts_left(x) - x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 1)
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """From square matrices to lower triangular ones with a positive diagonal, which is exp of theirs.

    What is above the diagonal is dropped.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.LowerCholeskyTransform()(gradlib.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From square matrices to positive definite ones: L L^T of what `LowerCholeskyTransform` gives.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.PositiveDefiniteTransform()(gradlib.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """From vectors of n (n - 1) / 2 numbers to Cholesky factors of n by n matrices of correlations.

    tanh of each number is a partial correlation; these break each row, whose length is 1, like a stick.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Source: D. Lewandowski, D. Kurowicka, H. Joe, Generating random correlation matrices based on vines and extended
    onion method, J. Multivariate Analysis 100 (2009).

    Example:
        >>> gradlib.distributions.CorrCholeskyTransform()(gradlib.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = dtypes.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial * partial).sqrt().cumprod(-1)  # of the length of each row
        n = partial.shape[-1]
        partial = partial + ops.eye(n, dtype=x.dtype, device=x.device)
        return partial * _after_one(left[..., :-1])

    def _inverse(self, y: Tensor) -> Tensor:
        left = _after_one((1 - (y * y).cumsum(-1))[..., :-1])
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        tanh = 2 * (math.log(2.0) - x - _softplus(-2 * x))
        return 0.5 * left.log().sum(-1) + tanh.sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Shape) -> Shape:
        _need_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _check_parts(tseq: Sequence[Any]) -> None:
    assert all(isinstance(t, Transform) for t in tseq), (
        "All elements of tseq must be Transform instances"
    )


class CatTransform(Transform):
    """Transforms of the parts of a tensor side by side along a dimension, as `cat` puts them.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: how long the part of each is; 1 by default.
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> d = gradlib.distributions
        >>> d.CatTransform([d.ExpTransform(), d.AbsTransform()], lengths=[1, 2])(gradlib.tensor([0.0, -1.0, -2.0]))
        tensor([1., 1., 2.])
    """

    def __init__(
        self,
        tseq: Sequence[Any],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        _check_parts(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
        )
        self.dim = dim

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Tensor) -> list[Tensor]:
        assert -x.dim() <= self.dim < x.dim(), f"dim {self.dim} out of range for {x.dim()}-D tensor"
        assert x.shape[self.dim] == self.length, (
            f"x.size({self.dim}) = {x.shape[self.dim]} must equal length {self.length}"
        )
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        parts = [t(v) for t, v in zip(self.transforms, self._split(x), strict=True)]
        return ops.cat(parts, self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = [t.inv(v) for t, v in zip(self.transforms, self._split(y), strict=True)]
        return ops.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, xs, ys in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = t.log_abs_det_jacobian(xs, ys)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        # the dimension as it is counted in the terms, which lack those of one point
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return ops.cat(terms, dim) if dim < 0 else sum(terms)  # type: ignore[return-value]

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all transforms have an inverse.

        Example:
            >>> d = gradlib.distributions
            >>> d.CatTransform([d.ExpTransform(), d.AbsTransform()]).bijective
            False
        """
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """A transform for each index along a dimension, as `stack` puts them.

    Args:
        tseq: the transforms.
        dim: the dimension.
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> d = gradlib.distributions
        >>> d.StackTransform([d.ExpTransform(), d.AbsTransform()])(gradlib.tensor([0.0, -1.0]))
        tensor([1., 1.])
    """

    transforms: list[Any]

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        _check_parts(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, x: Tensor) -> list[Tensor]:
        assert -x.dim() <= self.dim < x.dim(), f"dim {self.dim} out of range for {x.dim()}-D tensor"
        assert x.shape[self.dim] == len(self.transforms), (
            f"x.size({self.dim}) = {x.shape[self.dim]} must equal len(transforms) {len(self.transforms)}"
        )
        return list(x.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        parts = [t(v) for t, v in zip(self.transforms, self._split(x), strict=True)]
        return ops.stack(parts, self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = [t.inv(v) for t, v in zip(self.transforms, self._split(y), strict=True)]
        return ops.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all transforms have an inverse.

        Example:
            >>> d = gradlib.distributions
            >>> d.StackTransform([d.ExpTransform(), d.AbsTransform()]).bijective
            False
        """
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
