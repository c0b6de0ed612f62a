"""Context managers that are decorators, too, for packages that build on PyTorch's."""

from __future__ import annotations

from ..autograd.grad_mode import _BareDecorator as _NoParamDecoratorContextManager
from ..autograd.grad_mode import _ModeDecorator as _DecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]
