"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...operators import public as ops
from ...tape.tensor import Tensor
from ..modules.module import _full_type_name

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _same_device(param: Tensor, device: object) -> object:
    if device is not None and param.device != device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return param.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters as one tensor [total].

    Example:
        >>> nn.utils.parameters_to_vector([gradlib.ones(2), gradlib.zeros(1)]).tolist()
        [1.0, 1.0, 0.0]
    """
    device: object = None
    parts = []
    for param in parameters:
        device = _same_device(param, device)
        parts.append(param.view(-1))
    return ops.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters be slices of one tensor [total], in order.

    Args:
        vec: Tensor [sum of numel]; shared, not copied.
        parameters: get its elements, in their own shapes.

    Raises:
        TypeError: `vec` is not a tensor, or parameters are on different devices.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(gradlib.arange(3.0), layer.parameters())
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([[0.0, 1.0]], [2.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {_full_type_name(vec)}")
    device: object = None
    start = 0
    for param in parameters:
        device = _same_device(param, device)
        n = param.numel()
        param.data = vec[start : start + n].view_as(param).data
        start += n
