"""Automatic differentiation: ``backward``, ``grad`` and everything documented under torch.autograd."""

from .differentiate import backward, grad

__all__ = ["backward", "grad"]
