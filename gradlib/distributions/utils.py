"""What distributions share: broadcasting, probabilities and logits, attributes that are computed when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..op.vmap import all_entries
from ..operators import public as ops
from ..operators.elementwise.activation import softplus
from ..tape import dtypes
from ..tape.device import beside
from ..tape.lazy import raw_values
from ..tape.modes import is_captured
from ..tape.tensor import Size, Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286061  # the Euler-Mascheroni constant


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Make tensors of one shape of tensors and numbers.

    Args:
        values: tensors whose shapes broadcast, and numbers, which get the dtype and the device of the first tensor, or
            the default ones.

    Returns:
        As many tensors, expanded to the shape that all broadcast to.

    Raises:
        ValueError: something is neither a number nor a tensor.

    Example:
        >>> broadcast_all(gradlib.zeros(2), 1.0)
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    if first is None:
        options: dict[str, Any] = {"dtype": dtypes.get_default_dtype()}
    else:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [v if _tensor_like(v) else ops.tensor(v, **options) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def _tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal noise of a shape."""
    return ops.randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions.

    Args:
        value: a tensor of at least `dim` dimensions.
        dim: how many; 0 gives `value` itself.
    """
    if dim == 0:
        return value
    return value.reshape(value.shape[: value.dim() - dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds, or from unnormalised log-probabilities.

    Args:
        logits: [...] log-odds of one event, or [..., n] of n exclusive ones.
        is_binary: the former.

    Returns:
        Probabilities of the same shape.

    Example:
        >>> logits_to_probs(gradlib.zeros(2))
        tensor([0.5000, 0.5000])
    """
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that stay a rounding error away from 0 and 1, so that their logarithms are finite.

    Args:
        probs: floating, of any shape.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> clamp_probs(gradlib.tensor([0.0, 0.5]))
        tensor([1.1921e-07, 5.0000e-01])
    """
    eps = dtypes.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds, or log-probabilities, from probabilities: the inverse of `logits_to_probs`.

    Args:
        probs: [...] probabilities of one event, or [..., n] of n exclusive ones.
        is_binary: the former.

    Returns:
        A tensor of the same shape; finite, since probabilities are clamped.

    Example:
        >>> probs_to_logits(gradlib.tensor([0.5]), is_binary=True)
        tensor([0.])
    """
    clamped = clamp_probs(probs)
    return ops.log(clamped) - ops.log1p(-clamped) if is_binary else ops.log(clamped)


class lazy_property:
    """An attribute that is computed when it is first asked for, and kept.

    Args:
        wrapped: a function of the object; gradients are recorded in it even inside ``no_grad``, since a later use may
            need them.

    Example:
        >>> class Square:
        ...     def __init__(self, side):
        ...         self.side = side
        ...     @lazy_property
        ...     def area(self):
        ...         return self.side**2
        >>> Square(3).area
        9
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices as vectors, row by row.

    Args:
        mat: [..., n, n].
        diag: the last diagonal that belongs to it: 0 the main one, -1 the one below.

    Returns:
        [..., number of entries].

    Raises:
        ValueError: there is no such diagonal.

    Example:
        >>> tril_matrix_to_vec(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 3., 4.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = ops.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices from vectors: the inverse of `tril_matrix_to_vec`, and 0 elsewhere.

    Args:
        vec: [..., number of entries].
        diag: the last diagonal that is filled.

    Returns:
        [..., n, n].

    Raises:
        RuntimeError: no matrix has so many entries there.

    Example:
        >>> vec_to_tril_matrix(gradlib.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    # n (n + 1) / 2 entries without the diagonals that `diag` takes away, solved for n
    entries = vec.shape[-1]
    n = round(
        (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * entries + 4 * abs(diag) * (diag + 1)) ** 0.5)
        / 2
    )
    rows, columns = ops.tril_indices(n, n, diag, device=vec.device)
    if len(rows) != entries:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(vec.shape)} cannot be broadcast to indexing result of shape "
            f"{[*vec.shape[:-1], len(rows)]}"
        )
    place = rows * n + columns
    flat = vec.new_zeros((*vec.shape[:-1], n * n)).index_copy(-1, place, vec)
    return flat.reshape(*vec.shape[:-1], n, n)


def _all_true(valid: Tensor) -> bool:
    """Whether all elements of a bool tensor are True; inside vmap, for all entries."""
    array = raw_values(all_entries(valid))
    if all_entries(valid).is_meta:  # no values: nothing to refuse
        return True
    if is_captured():
        return bool(valid.all())  # a plan is for what is found here
    with beside(array):
        return bool(array.all())


def _as_size(shape: Any) -> Size:
    return shape if isinstance(shape, Size) else Size(shape)


def _softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` to the last digit: the default threshold gives up where 1e-9 is left."""
    return softplus(x, 1.0, 40.0)
