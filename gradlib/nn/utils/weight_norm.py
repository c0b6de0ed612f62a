"""Weight normalisation by hooks (the old interface; see `parametrizations.weight_norm`)."""

from __future__ import annotations

import warnings
from typing import Any

from ... import linalg
from ...tape.tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Tensor, dim: int = 0) -> Tensor:
    """The 2-norm of `v` over all dimensions but `dim`, kept as 1; over all of them for -1."""
    if dim == -1:
        return linalg.vector_norm(v)
    dim %= v.dim()
    others = [d for d in range(v.dim()) if d != dim]
    if not others:
        return v.abs()
    return linalg.vector_norm(v, dim=others, keepdim=True)


class WeightNorm:
    """The forward pre-hook that computes weight = g * v / |v|."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from the module's g and v."""
        g = getattr(module, self.name + "_g")
        v = getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a weight by its magnitude g and its direction v; deprecated, returns the module.

    Args:
        module: owns the weight.
        name: of the weight.
        dim: the dimension that keeps separate norms; None is one norm for all.

    Source: T. Salimans, D. Kingma, Weight normalization, NIPS 2016.

    Example:
        >>> layer = nn.utils.weight_norm(nn.Linear(20, 40))
        >>> tuple(layer.weight_g.shape)
        (40, 1)
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, hook.dim).data))
    module.register_parameter(name + "_v", Parameter(weight.data))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`: the weight becomes a parameter again; returns the module.

    Args:
        module: owns the weight.
        name: of the weight.

    Raises:
        ValueError: it has no such hook.

    Example:
        >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(4, 3)))
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight']
    """
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module)
            delattr(module, name)
            del module._parameters[name + "_g"]
            del module._parameters[name + "_v"]
            setattr(module, name, Parameter(weight.data))
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
