"""Clipping of gradients, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from ... import linalg
from ...autograd.grad_mode import no_grad
from ...devices.cuda.fused.lists import namespace_of
from ...devices.cuda.fused.optim import clip, total_norm
from ...operators import public as ops
from ...tape import override
from ...tape.arrays import backend_of
from ...tape.dtypes import DIFFERENTIABLE
from ...tape.lazy import is_lazy
from ...tape.modes import NO_GRAD, is_grad_enabled, state
from ...tape.sparse import is_sparse
from ...tape.storage import before_write, bump
from ...tape.tensor import Tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _fused_norm(tensors: list[Tensor], norm_type: float) -> Tensor | None:
    """`get_total_norm` in two launches, None where it cannot be."""
    xp = namespace_of(tensors)
    if xp is None or (is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return None

    total = total_norm(xp, [t._array for t in tensors], norm_type)
    if total is NotImplemented:
        return None
    return Tensor._make(total.astype(tensors[0]._array.dtype, copy=False))


def _fused_clip(grads: list[Tensor], max_norm: float, total_norm: Tensor) -> bool:
    """Scale gradients in one launch for many; False where it cannot be."""
    xp = namespace_of([*grads, total_norm])
    if xp is None:
        return False

    for grad in grads:
        before_write(grad)
    total = xp.wide(total_norm._array)
    if clip(xp, [g._array for g in grads], total, float(max_norm)) is NotImplemented:
        return False
    for grad in grads:
        bump(grad)
    return True


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of the norms of tensors: that of all of them as one vector.

    Args:
        tensors: any shapes.
        norm_type: the p of the norm; may be inf.
        error_if_nonfinite: raise when the result is nan or inf.
        foreach: accepted.

    Returns:
        Tensor [], on the device of the first tensor.

    Example:
        >>> nn.utils.get_total_norm([gradlib.tensor([3.0]), gradlib.tensor([4.0])]).item()
        5.0
    """
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    total = _fused_norm(tensors, norm_type)
    if total is None:
        device = tensors[0].device
        norms = [linalg.vector_norm(t, norm_type).to(device) for t in tensors]
        total = linalg.vector_norm(ops.stack(norms), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients in place by max_norm / (total_norm + 1e-6) if that is below 1.

    Args:
        parameters: tensors whose `.grad` is scaled.
        max_norm: largest norm that is left alone.
        total_norm: Tensor [], as `get_total_norm` returns it.
        foreach: accepted.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> (w * 4).sum().backward()
        >>> nn.utils.clip_grads_with_norm_(w, 1.0, nn.utils.get_total_norm([w.grad]))
        >>> round(w.grad.item(), 4)
        1.0
    """
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    if not grads:
        return
    if _fused_clip(grads, max_norm, total_norm):
        return
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        here: dict[Any, Any] = {}
        for grad in grads:
            if grad.device not in here:
                here[grad.device] = factor.to(grad.device)
            # an operation, since it finds the device; or since somebody follows, or a dtype is refused
            if (
                not grad.is_cpu
                or is_lazy(grad)
                or is_sparse(grad)
                or override.overrides(type(grad))
                or state.bits & ~NO_GRAD
                or grad._array.dtype not in DIFFERENTIABLE
            ):
                grad.mul_(here[grad.device])
                continue
            before_write(grad)
            array = grad._array
            xp = backend_of(array).xp
            xp.multiply(array, here[grad.device]._array, out=array, casting="same_kind")
            bump(grad)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their total norm is at most `max_norm`.

    Args:
        parameters: tensors whose `.grad` is scaled.
        max_norm: largest norm that is left alone.
        norm_type: the p of the norm; may be inf.
        error_if_nonfinite: raise when the norm is nan or inf.
        foreach: accepted.

    Returns:
        Tensor []: the norm before clipping.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> (w * 3).sum().backward()
        >>> nn.utils.clip_grad_norm_(w, 1.0).item()
        3.0
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        generated = isinstance(parameters, GeneratorType)
        parameters = list(parameters)
        if generated and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=2,
            )
    with no_grad():
        grads = [p.grad for p in parameters if p.grad is not None]
        total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` under its old name: it warns (FutureWarning) and calls it.

    Arguments, result and errors are those of `clip_grad_norm_`.

    Example:
        >>> w = gradlib.ones(2, requires_grad=True)
        >>> (w * 3).sum().backward()
        >>> _ = clip_grad_norm([w], 1.0)
        >>> w.grad
        tensor([0.7071, 0.7071])
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every element of the gradients to [-clip_value, clip_value], in place.

    Args:
        parameters: tensors whose `.grad` is clamped.
        clip_value: largest magnitude.
        foreach: accepted.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> (w * -4).sum().backward()
        >>> nn.utils.clip_grad_value_(w, 1.0)
        >>> w.grad.item()
        -1.0
    """
    clip_value = float(clip_value)
    with no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(-clip_value, clip_value)
