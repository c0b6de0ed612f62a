"""``tensor.grad_dtype``: leaves whose gradients have another dtype than they have themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .attributes import raw_attributes
from .dtypes import dtype, from_np
from .modes import shared

NAME = "_grad_dtype"  # among the internal attributes of a leaf: a dtype, or None for any
_CAUTION = (
    "Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems that "
    "assume they match."
)


def np_of(leaf: Any) -> np.dtype | None:
    """NumPy's dtype of the gradients of a leaf; None for any. It is in `shared` once a program has set one."""
    found = raw_attributes(leaf).get(NAME, leaf)
    if found is leaf:
        return leaf._array.dtype
    return None if found is None else found.np


def refusal(tensor: Any, grad: Any) -> str | None:
    """What is wrong with the dtype of a gradient that a program gives a tensor, or None."""
    wanted = tensor._array.dtype if shared.gradient_dtype is None else shared.gradient_dtype(tensor)
    if wanted is None or grad._array.dtype == wanted:
        return None
    return (
        f"attempting to assign a gradient with dtype '{grad.dtype.cpp_name}' to a tensor with grad_dtype "
        f"'{from_np(wanted).scalar_type}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
        "dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. "
        + _CAUTION
    )


class GradientDtype:
    """The part of Tensor that says of which dtype its gradients are."""

    __slots__ = ()

    if TYPE_CHECKING:
        dtype: Any
        is_leaf: bool
        _grad: Any

    @property
    def grad_dtype(self) -> dtype | None:
        """The dtype of ``.grad`` of a leaf: its own at first; None allows any.

        Gradients that arrive at the leaf are cast to it, and `autograd.grad` gives them so. Copies of the tensor have
        their own dtype again.

        Raises:
            RuntimeError: the tensor is no leaf; set to what is no dtype; ``.grad`` is there and has another dtype.

        Example:
            >>> x = gradlib.ones(2, requires_grad=True)
            >>> x.grad_dtype = gradlib.bfloat16
            >>> (x * 3).sum().backward()
            >>> x.grad
            tensor([3., 3.], dtype=torch.bfloat16)
        """
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        return raw_attributes(self).get(NAME, self.dtype)

    @grad_dtype.setter
    def grad_dtype(self, value: dtype | None) -> None:
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if value is not None and not isinstance(value, dtype):
            raise RuntimeError(
                f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}"
            )
        if value is not None and self._grad is not None and self._grad.dtype is not value:
            raise RuntimeError(
                f"Cannot set grad_dtype to '{value.scalar_type}' because there is already a gradient with dtype "
                f"'{self._grad.dtype.cpp_name}'. Please clear the gradient (.grad = None) before changing grad_dtype, "
                "or ensure the new grad_dtype matches the existing gradient's dtype."
            )
        raw_attributes(self)[NAME] = value
        shared.gradient_dtype = np_of
