"""Spectral normalisation by hooks (the old interface; see `parametrizations.spectral_norm`)."""

from __future__ import annotations

from typing import Any

from ..._refused import refuse
from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["remove_spectral_norm", "spectral_norm"]
__getattr__ = refuse(__name__)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """`weight` with dimension `dim` first and the rest flattened."""
    if dim != 0:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.reshape(weight.size(0), -1)


class SpectralNorm:
    """The forward pre-hook that divides the weight by its largest singular value."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim = name, dim
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """weight_orig / (u^T W v); u and v move one power iteration in training mode."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / ops.dot(u, matrix @ v)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value at every call; returns the module.

    The old interface, by a hook; see `parametrizations.spectral_norm`.

    Args:
        module: owns the weight.
        name: of the weight.
        n_power_iterations: steps of the power method per call in training mode.
        eps: smallest norm in the iteration.
        dim: of the outputs; 1 for transposed convolutions, else 0.

    Raises:
        ValueError: `n_power_iterations` is not positive.
        RuntimeError: the weight has such a hook already.

    Source: T. Miyato et al., Spectral normalization for generative adversarial networks,
    ICLR 2018.

    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(4, 3))
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight_orig']
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    with no_grad():
        rows, cols = as_matrix(weight, dim).size()
        u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
        v = F.normalize(weight.new_empty(cols).normal_(0, 1), dim=0, eps=eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`: the divided weight becomes a parameter; returns the module.

    Args:
        module: owns the weight.
        name: of the weight.

    Raises:
        ValueError: it has no such hook.

    Example:
        >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(4, 3)))
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight']
    """
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute_weight(module, do_power_iteration=False)
            delattr(module, name)
            for suffix in ("_u", "_v", "_orig"):
                delattr(module, name + suffix)
            module.register_parameter(name, Parameter(weight.detach()))
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
