"""Ready-made parametrisations: orthogonal, weight norm, spectral norm."""

from __future__ import annotations

from typing import Any

from ... import linalg
from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from . import parametrize
from .spectral_norm import as_matrix
from .weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _Orthogonal(Module):
    """Q with orthonormal rows or columns from an unconstrained X.

    "matrix_exp": exp(A) with A skew-symmetric; "cayley": (I + A/2) (I - A/2)^-1;
    "householder": a product of reflections, with signs that make it continuous.
    """

    base: Any

    def __init__(self, weight: Tensor, kind: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and kind == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.kind = kind
        self.shape = weight.shape
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """X: [..., n, k] -> Q of the same shape."""
        n, k = X.size(-2), X.size(-1)
        wide = n < k
        if wide:
            X, n, k = X.mT, k, n
        if self.kind == "householder":
            A = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
            Q = linalg.householder_product(A, tau)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            A = X.tril()
            if n != k:
                rest = A.new_zeros((n, n - k)).expand(*A.shape[:-2], n, n - k)
                A = ops.cat([A, rest], dim=-1)
            A = A - A.mH
            if self.kind == "matrix_exp":
                Q = ops.matrix_exp(A)
            else:
                eye = ops.eye(n, dtype=A.dtype, device=A.device)
                Q = linalg.solve(eye - A * 0.5, eye + A * 0.5)
            if n != k:
                Q = Q[..., :k]
        if "base" in self._buffers and self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """An X that is mapped to the orthogonal matrix next to `Q`."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        n, k = Q.size(-2), Q.size(-1)
        wide = n < k
        if wide:
            Q, n, k = Q.mT, k, n
        if "base" not in self._buffers:
            if self.kind in ("matrix_exp", "cayley"):
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            A, tau = ops.geqrf(Q)
            A.diagonal(dim1=-2, dim2=-1).sign_()
            A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return A.mT if wide else A
        if n == k:
            Q = Q.clone() if _is_orthogonal(Q) else _near_orthogonal(Q)
        else:
            full = Q.new_empty((*Q.shape[:-2], n, n - k)).normal_()
            Q = _near_orthogonal(ops.cat([Q, full], dim=-1))
        self.base = Q
        start = ops.zeros_like(Q)[..., :k].clone()
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # the reflections of -1 give the identity
        return start.mT if wide else start


def _is_orthogonal(Q: Tensor) -> bool:
    n = Q.size(-1)
    eps = 10.0 * n * dtypes.finfo(Q.dtype).eps
    eye = ops.eye(n, dtype=Q.dtype, device=Q.device)
    return bool(ops.allclose(Q.mH @ Q, eye, atol=eps))


def _near_orthogonal(X: Tensor) -> Tensor:
    """Q of a QR factorisation, columns turned so that R has a positive diagonal."""
    Q, R = linalg.qr(X)
    return Q * R.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix, or a batch of matrices, orthogonal; returns the module.

    Args:
        module: owns the matrix [..., n, k]; with n < k its rows are orthonormal, else its columns.
        name: of the parameter.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square
            and complex matrices, the last for others.
        use_trivialization: parametrise around the value at registration.

    Raises:
        ValueError: another map, the parameter has less than 2 dimensions, or the module has no
            such tensor.

    Source: M. Lezcano-Casado, Trivializations for gradient-based optimization on manifolds,
    NeurIPS 2019.

    Example:
        >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(5, 2))
        >>> gradlib.allclose(layer.weight @ layer.weight.T, gradlib.eye(2), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """weight = g * v / |v|."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """weight_g: norms, weight_v: [...] -> [...]."""
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """weight -> (its norms, weight)."""
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into its magnitude and its direction: w = g * v / |v|; returns the module.

    Args:
        module: owns the weight.
        name: of the weight.
        dim: the dimension that keeps separate norms; None is one norm for all.

    Raises:
        ValueError: the module has no such tensor.

    Source: T. Salimans, D. Kingma, Weight normalization, NIPS 2016.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
        >>> tuple(layer.parametrizations.weight.original0.shape)
        (40, 1)
    """
    made = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    old = (name + "_g", name + "_v")

    def rename(state_dict: dict, prefix: str, *_: Any) -> None:
        """Accept the names that the hook-based weight_norm saved."""
        if all(prefix + key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(prefix + key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """weight / its largest singular value, found by power iteration."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            rows, cols = matrix.size()
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(cols).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, n: int) -> None:
        with no_grad():
            for _ in range(n):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """weight: [...] -> [...], with spectral norm 1."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / ops.vdot(u, matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: it is taken to have spectral norm 1."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, so that this is 1; returns the module.

    Args:
        module: owns the weight.
        name: of the weight.
        n_power_iterations: steps of the power method per use in training mode.
        eps: smallest norm in the iteration.
        dim: of the outputs; 1 for transposed convolutions, else 0.

    Raises:
        ValueError: the module has no such tensor, or `n_power_iterations` is not positive.

    Source: T. Miyato et al., Spectral normalization for generative adversarial networks,
    ICLR 2018.

    Example:
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=50)
        >>> round(gradlib.linalg.matrix_norm(layer.weight, 2).item(), 2)
        1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    made = _SpectralNorm(weight.detach(), n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
