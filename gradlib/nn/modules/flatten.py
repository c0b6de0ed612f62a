"""Flattening and unflattening of dimensions."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merges the dimensions start_dim to end_dim (included) into one; a view where that is possible.

    Args:
        start_dim: the first dimension that is merged; 1 leaves the batch alone.
        end_dim: the last one.

    Shape:
        [*before, *merged, *after] -> [*before, product of merged, *after].

    Raises:
        IndexError: the input has no such dimension.

    Example:
        >>> tuple(nn.Flatten()(gradlib.ones(2, 3, 4)).shape)
        (2, 12)
    """

    _shown = "start_dim={0.start_dim}, end_dim={0.end_dim}"

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """input: [*before, *merged, *after] -> [*before, product of merged, *after]."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """Splits one dimension into several; a view.

    Args:
        dim: the dimension to split.
        unflattened_size: sizes whose product is that of `dim`; one of them may be -1.

    Shape:
        [..., n, ...] -> [..., *unflattened_size, ...].

    Raises:
        TypeError: the sizes are no tuple or list of integers.
        RuntimeError: at the call, if they do not multiply up to the size of `dim`.

    Example:
        >>> tuple(nn.Unflatten(1, (3, 4))(gradlib.ones(2, 12)).shape)
        (2, 3, 4)
    """

    _shown = "dim={0.dim}, unflattened_size={0.unflattened_size}"

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise NotImplementedError("Unflatten: named dimensions are not supported")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                + type(unflattened_size).__name__
            )
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(n).__name__} at pos {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., n, ...] -> [..., *unflattened_size, ...]."""
        return input.unflatten(self.dim, self.unflattened_size)
