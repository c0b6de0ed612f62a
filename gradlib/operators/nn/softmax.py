"""softmax, log_softmax and softmin."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from ...op.declare import declare
from ...op.expose import function, write_same
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import floating, unsupported
from ..shape.dims import dimension

# -- kernels ---------------------------------------------------------------------------------------------------------


def _refused(name: str, array, *, dim: int):
    """What is neither float nor half: nothing to do if empty, else NotImplementedError."""
    if not array.size:
        return array.copy()
    last = "_lastdim" if dim >= array.ndim - 1 else ""
    raise unsupported(f"{name}{last}_kernel_impl", array)


@partial(floating, otherwise=partial(_refused, "softmax"))
def _softmax(xp, self, *, dim):
    if not self.ndim:
        return _softmax(xp, self.reshape(1), dim=0).reshape(())
    if not self.size:
        return self.copy()
    out = xp.exp(self - xp.max(self, axis=dim, keepdims=True))
    out /= xp.sum(out, axis=dim, keepdims=True)
    return out


@partial(floating, otherwise=partial(_refused, "log_softmax"))
def _log_softmax(xp, self, *, dim):
    if not self.ndim:
        return _log_softmax(xp, self.reshape(1), dim=0).reshape(())
    if not self.size:
        return self.copy()
    out = self - xp.max(self, axis=dim, keepdims=True)
    out -= xp.log(xp.sum(xp.exp(out), axis=dim, keepdims=True))
    return out


@floating
def _softmax_grad(xp, grad, output, *, dim):
    axis = dim if grad.ndim else None
    return output * (grad - xp.sum(grad * output, axis=axis, keepdims=True))


@floating
def _log_softmax_grad(xp, grad, output, *, dim):
    axis = dim if grad.ndim else None
    return grad - xp.exp(output) * xp.sum(grad, axis=axis, keepdims=True)


# -- ops -------------------------------------------------------------------------------------------------------------


def _samples(t):
    return [(t(3, 4), 1), (t(3, 4), 0), (t(2, 3, 4), 1), (t(), 0), (t(0, 3), 1), (t(2, 1), 1)]


def _grad_samples(t):
    return [(t(3, 4), t(3, 4), 1), (t(3, 4), t(3, 4), 0), (t(), t(), 0), (t(0, 3), t(0, 3), 1)]


softmax_grad = declare(
    "softmax_grad", _softmax_grad, public="_softmax_backward_data",
    node="SoftmaxBackwardBackward0", samples=_grad_samples,
    # of y * (grad - sum(grad * y)): symmetric in the gradient, and y appears twice
    grad=lambda F, g, output, dim: F.softmax_grad(g, output, dim),
    output=lambda F, g, grad, output, dim: g * (grad - F.sum(grad * output, (dim,) if g.ndim else (), True))
    - grad * F.sum(g * output, (dim,) if g.ndim else (), True),
    batch="same_rank",
)  # fmt: skip
softmax_op = declare(
    "softmax", _softmax, autocast="cuda:float32", samples=_samples,
    self=lambda F, g, result, dim: F.softmax_grad(g, result, dim),
    jvp=lambda F, self_t, result, dim: F.softmax_grad(self_t, result, dim),
    batch="same_rank",
    aten="_softmax",
)  # fmt: skip
log_softmax_grad = declare(
    "log_softmax_grad", _log_softmax_grad, public="_log_softmax_backward_data",
    node="LogSoftmaxBackwardBackward0", samples=_grad_samples,
    grad=lambda F, g, output, dim: g - F.sum(g * F.exp(output), (dim,) if g.ndim else (), True),
    output=lambda F, g, grad, output, dim: -g * F.exp(output) * F.sum(grad, (dim,) if g.ndim else (), True),
    batch="same_rank",
)  # fmt: skip
log_softmax_op = declare(
    "log_softmax", _log_softmax, autocast="cuda:float32", samples=_samples,
    self=lambda F, g, result, dim: F.log_softmax_grad(g, result, dim),
    jvp=lambda F, self_t, result, dim: self_t
    - F.sum(self_t * F.exp(result), (dim,) if self_t.ndim else (), True),
    batch="same_rank",
    aten="_log_softmax",
)  # fmt: skip


# -- public ----------------------------------------------------------------------------------------------------------


def _old_dim(name: str, ndim: int) -> int:
    """The dimension taken when none is given: a rule kept for old programs, with PyTorch's warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=4,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _public(op, input: Tensor, dim: int, dtype, out=None):
    if dtype is not None:
        input = input.to(dtype)
    result = op.call(input, wrap_dim(dim, input._array.ndim))
    return result if out is None else write_same(out, result)


@function("softmax", method=True)
def softmax(input, dim: Any = None, dtype=None, *, axis: Any = None, out=None):
    """``exp(input) / sum(exp(input))`` along `dim`, safe from overflow. dtype: the input is converted to it first.

    Raises IndexError: no such dimension. NotImplementedError: integers without `dtype`.

    Example:
        >>> gradlib.softmax(gradlib.zeros(4), 0)
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    if dim is None:
        dim = dimension("softmax", axis)
    return _public(softmax_op, input, dim, dtype, out)


@function("log_softmax", method=True)
def log_softmax(input, dim: Any = None, dtype=None, *, axis: Any = None, out=None):
    """The logarithm of ``softmax(input, dim)``, computed without loss of precision.

    Raises IndexError: no such dimension. NotImplementedError: integers without `dtype`.

    Example:
        >>> gradlib.log_softmax(gradlib.zeros(4), 0)
        tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """
    if dim is None:
        dim = dimension("log_softmax", axis)
    return _public(log_softmax_op, input, dim, dtype, out)


def functional_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``exp(input) / sum(exp(input))`` along a dimension, safe from overflow.

    Args:
        input: a floating tensor.
        dim: the dimension; without it one is chosen as long ago, with a warning.
        _stacklevel: without effect.
        dtype: the input is converted to it first.

    Returns:
        A tensor of the same shape.

    Raises:
        IndexError: no such dimension.
        NotImplementedError: integers without `dtype`.

    Example:
        >>> F.softmax(gradlib.zeros(4), 0)
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    dim = _old_dim("softmax", input.dim()) if dim is None else dim
    return _public(softmax_op, input, dim, dtype)


def functional_log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``input - log(sum(exp(input)))`` along a dimension, safe from overflow.

    Args:
        input: a floating tensor.
        dim: the dimension; without it one is chosen as long ago, with a warning.
        _stacklevel: without effect.
        dtype: the input is converted to it first.

    Returns:
        A tensor of the same shape.

    Raises:
        IndexError: no such dimension.
        NotImplementedError: integers without `dtype`.

    Example:
        >>> F.log_softmax(gradlib.zeros(4), 0)
        tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """
    dim = _old_dim("log_softmax", input.dim()) if dim is None else dim
    return _public(log_softmax_op, input, dim, dtype)


def functional_softmin(input, dim=None, _stacklevel=3, dtype=None):
    """``exp(-input) / sum(exp(-input))`` along a dimension, safe from overflow.

    Args:
        input: a floating tensor.
        dim: the dimension; without it one is chosen as long ago, with a warning.
        _stacklevel: without effect.
        dtype: the input is converted to it first.

    Returns:
        A tensor of the same shape.

    Raises:
        IndexError: no such dimension.
        NotImplementedError: integers without `dtype`.

    Example:
        >>> F.softmin(gradlib.zeros(4), 0)
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    dim = _old_dim("softmin", input.dim()) if dim is None else dim
    return _public(softmax_op, -input, dim, dtype)
