"""Normal distributions of vectors: MultivariateNormal and LowRankMultivariateNormal."""

from __future__ import annotations

import math
from typing import Any

from .. import linalg
from ..operators import public as ops
from ..tape.tensor import Size, Tensor
from . import constraints
from .distribution import ONE_DRAW, Distribution, Shape
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]

linalg: Any


def triangular_inverse_of(precision: Tensor) -> Tensor:
    """The lower triangular L with L L^T the inverse of a positive definite matrix.

    The Cholesky factor R of the matrix with both orders reversed gives an upper triangular U with U U^T the matrix, and
    L is the inverse of its transpose.
    """
    upper = ops.flip(linalg.cholesky(ops.flip(precision, (-2, -1))), (-2, -1))
    eye = ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(upper.mT, eye, upper=False)


def squared_length(factor: Tensor, vector: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x of vectors x [..., n] and triangular L [..., n, n], whose batches broadcast."""
    solved = linalg.solve_triangular(factor, vector.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def log_diagonal(factor: Tensor) -> Tensor:
    """The sum of the logarithms of the diagonals of matrices: half the log determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class ByCholesky(Distribution):
    """A distribution with a positive definite matrix, which one of three parameters gives."""

    _unbroadcasted_scale_tril: Tensor

    def _set_factor(self, name: str, matrix: Tensor) -> None:
        # as it was given, without the batch of other parameters: what is computed from it once serves the whole batch
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = triangular_inverse_of(matrix)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return super()._finish_expanded(new, batch_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._whole(ops.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(ByCholesky):
    """The normal distribution of vectors.

    Args:
        loc: [..., n] the mean.
        covariance_matrix: [..., n, n], positive definite.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor, lower triangular; one of the three is given, and this one costs least.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: none or several of the matrices, too few dimensions, or a parameter outside of its constraint.
        LinAlgError: a matrix that is not positive definite, and not checked.

    Example:
        >>> normal = gradlib.distributions.MultivariateNormal(gradlib.zeros(2), gradlib.eye(2))
        >>> normal.log_prob(gradlib.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_matrix(covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            shown = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{shown} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch + matrix.shape[-2:]))
        self.loc = loc.expand(batch + loc.shape[-1:])
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        rows = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return rows.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor, n = self._unbroadcasted_scale_tril, self._event_shape[0]
        distance = squared_length(factor, value - self.loc)
        return -0.5 * (n * math.log(2 * math.pi) + distance) - log_diagonal(factor)

    def entropy(self) -> Tensor:
        half = log_diagonal(self._unbroadcasted_scale_tril)
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
        return entropy.expand(self._batch_shape)


def only_matrix(
    covariance_matrix: Any, precision_matrix: Any, scale_tril: Any, error: type = ValueError
) -> tuple[str, Tensor]:
    """The one of three parameters that is given, with its name."""
    given = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    found = [(name, matrix) for name, matrix in given.items() if matrix is not None]
    if len(found) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return found[0]


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors whose covariance is W W^T + D, with a diagonal D.

    All is computed by m by m matrices: by the matrix inversion lemma (M. A. Woodbury, 1950), with the capacitance
    matrix I + W^T D^-1 W.

    Args:
        loc: [..., n] the mean.
        cov_factor: [..., n, m] W, with a small m.
        cov_diag: [..., n] the diagonal of D, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: shapes that do not fit, or a parameter outside of its constraint.

    Example:
        >>> d = gradlib.distributions
        >>> d.LowRankMultivariateNormal(gradlib.zeros(2), gradlib.ones(2, 1), gradlib.ones(2)).variance
        tensor([2., 2.])
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("loc", "cov_factor", "cov_diag")

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = ops.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + event)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = capacitance_factor(cov_factor, cov_diag)
        super().__init__(batch, event, validate_args=validate_args)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        for name in "_unbroadcasted_cov_factor _unbroadcasted_cov_diag _capacitance_tril".split():
            setattr(new, name, getattr(self, name))
        return super()._finish_expanded(new, batch_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._whole(linalg.cholesky(self._covariance()))

    def _covariance(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._whole(self._covariance())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        part = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(diagonal.reciprocal().diag_embed() - part.mT @ part)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        common = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], dtype, device)
        own = _standard_normal(shape, dtype, device)
        correlated = (self._unbroadcasted_cov_factor @ common.unsqueeze(-1)).squeeze(-1)
        return self.loc + correlated + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Tensor:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = low_rank_distance(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)


def capacitance_factor(factor: Tensor, diagonal: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W, [..., m, m]."""
    m = factor.shape[-1]
    product = (factor.mT / diagonal.unsqueeze(-2)) @ factor
    return linalg.cholesky(product + ops.eye(m, dtype=factor.dtype, device=factor.device))


def low_rank_distance(factor: Tensor, diagonal: Tensor, x: Tensor, capacitance: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x of vectors x [..., n]."""
    scaled = x / diagonal
    projected = (factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
    return (x * scaled).sum(-1) - squared_length(capacitance, projected)
