"""Ops under the names of PyTorch's registry: ``gradlib.ops.aten.mm.default``."""

from . import aten

__all__ = ["aten"]
