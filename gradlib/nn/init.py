"""Initialisation: fill a tensor in place, outside the graph, and return it."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import linalg
from ..autograd.grad_mode import no_grad
from ..op.vmap import all_entries
from ..operators import public as ops
from ..tape import override
from ..tape.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **dict.fromkeys(("linear", "sigmoid"), 1),
    **{f"conv{kind}{n}d": 1 for kind in ("", "_transpose") for n in (1, 2, 3)},
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations constant through a nonlinearity.

    1 for linear layers and sigmoid, 5/3 for tanh, sqrt(2) for relu, sqrt(2 / (1 + slope**2))
    for leaky_relu, 3/4 for selu.

    Args:
        nonlinearity: the name of the function, as in `nn.functional`.
        param: the slope of leaky_relu; 0.01 by default.

    Raises:
        ValueError: another name, or a slope that is no number.

    Example:
        >>> nn.init.calculate_gain("leaky_relu", 1.0)
        1.0
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values drawn evenly from [a, b).

    Args:
        tensor: Tensor [...], floating; changed in place, outside the graph, and returned.
        a: smallest value.
        b: beyond the largest one.
        generator: source of random numbers; None is the default one.

    Example:
        >>> w = nn.init.uniform_(gradlib.empty(3, 5), -1, 1)
        >>> bool((w.abs() <= 1).all())
        True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values drawn from the normal distribution N(mean, std**2).

    Args:
        tensor: Tensor [...], floating; changed in place, outside the graph, and returned.
        mean: of the distribution.
        std: its standard deviation.
        generator: source of random numbers; None is the default one.

    Example:
        >>> w = nn.init.normal_(gradlib.empty(3, 5), std=0.02)
        >>> tuple(w.shape)
        (3, 5)
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with values of N(mean, std**2) conditioned on lying in [a, b].

    Drawn by rejection: from the normal distribution when [a, b] holds more than 0.3 of its mass,
    else from the uniform distribution on [a, b].

    Args:
        tensor: Tensor [...], floating; changed in place, outside the graph, and returned.
        mean: of the distribution before truncation.
        std: of the distribution before truncation.
        a: smallest value, absolute (not in units of `std`).
        b: largest value.
        generator: source of random numbers; None is the default one.

    Example:
        >>> w = nn.init.trunc_normal_(gradlib.empty(3, 5), std=0.02, a=-0.04, b=0.04)
        >>> bool((w.abs() <= 0.04).all())
        True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    with no_grad():
        if inside > 0.3:
            _reject_normal(tensor, mean, std, a, b, generator)
        else:
            _reject_uniform(tensor, mean, std, a, b, generator)
    return tensor


def _normal_cdf(x: float) -> float:
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def _reject_normal(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    """Redraw what falls outside until nothing does; bounds are rounded to the tensor's dtype."""
    low, high = (ops.tensor(v, dtype=tensor.dtype).item() for v in (a, b))
    values = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (values < low) | (values > high)
        if not all_entries(outside).any():
            break
        fresh = ops.empty_like(values).normal_(mean, std, generator=generator)
        values = ops.where(outside, fresh, values)
    if values is not tensor:
        tensor.copy_(values)


def _reject_uniform(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    """Accept a uniform draw x when log u < log pdf(x) - log pdf(the most likely point)."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def rejected(x: Tensor) -> Tensor:
        u = ops.empty_like(x).uniform_(generator=generator)
        return u.log_() > ((x - mean) / std).pow(2) * -0.5 - peak

    values = tensor.uniform_(a, b, generator=generator)
    pending = rejected(values)
    while all_entries(pending).any():
        fresh = ops.empty_like(values).uniform_(a, b, generator=generator)
        values = ops.where(pending, fresh, values)
        pending = pending & rejected(fresh)
    if values is not tensor:
        tensor.copy_(values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`.

    Args:
        tensor: Tensor [...]; changed in place, outside the graph, and returned.
        val: the number.

    Example:
        >>> nn.init.constant_(gradlib.empty(2), 0.5).tolist()
        [0.5, 0.5]
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones; in place, outside the graph.

    Returns:
        The tensor.

    Example:
        >>> nn.init.ones_(gradlib.empty(2)).tolist()
        [1.0, 1.0]
    """
    with no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros; in place, outside the graph.

    Returns:
        The tensor.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> nn.init.zeros_(layer.bias).tolist()
        [0.0, 0.0]
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity: a linear layer that keeps its inputs, as far as they fit.

    Args:
        tensor: Tensor [rows, columns]; changed in place, outside the graph, and returned.

    Raises:
        ValueError: the tensor is not 2-dimensional.

    Example:
        >>> nn.init.eye_(gradlib.empty(2, 3)).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1.0)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution weight keep its inputs: output channel d copies input channel d.

    Args:
        tensor: Tensor [out, in / groups, ...], of 3, 4 or 5 dimensions; changed in place.
        groups: of the convolution; must divide out.

    Raises:
        ValueError: another number of dimensions, or `groups` does not divide out.

    Example:
        >>> w = nn.init.dirac_(gradlib.empty(2, 2, 3))
        >>> x = gradlib.arange(8.0).reshape(2, 4)
        >>> gradlib.equal(F.conv1d(x, w, padding=1), x)
        True
    """
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    centre = tuple(n // 2 for n in sizes[2:])
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, sizes[1])):
                tensor[(g * per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one unit of a weight [out, in, ...]."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive, tensor.size(0) * receptive


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)).

    Args:
        tensor: Tensor [out, in, ...]; fan_in is in times, fan_out is out times the product of the rest.
        gain: see `calculate_gain`.
        generator: source of random numbers; None is the default one.

    Raises:
        ValueError: the tensor has less than 2 dimensions.

    Source: X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward
    neural networks, AISTATS 2010.

    Example:
        >>> w = nn.init.xavier_uniform_(gradlib.empty(2, 4))
        >>> bool((w.abs() <= 1).all())
        True
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from N(0, std**2) with std = gain * sqrt(2 / (fan_in + fan_out)).

    Arguments and errors as in `xavier_uniform_`.

    Source: X. Glorot, Y. Bengio, Understanding the difficulty of training deep feedforward
    neural networks, AISTATS 2010.

    Example:
        >>> w = nn.init.xavier_normal_(gradlib.empty(3, 5), nn.init.calculate_gain("tanh"))
        >>> tuple(w.shape)
        (3, 5)
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill from U(-bound, bound) with bound = gain * sqrt(3 / fan).

    Args:
        tensor: Tensor [out, in, ...]; changed in place, outside the graph, and returned.
        a: the negative slope of the leaky_relu after this layer.
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
        nonlinearity: what follows the layer; see `calculate_gain`.
        generator: source of random numbers; None is the default one.

    Raises:
        ValueError: the tensor has less than 2 dimensions, another mode or nonlinearity.

    Source: K. He et al., Delving deep into rectifiers, ICCV 2015.

    Example:
        >>> w = nn.init.kaiming_uniform_(gradlib.empty(3, 6), nonlinearity="relu")
        >>> bool((w.abs() <= 1).all())
        True
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(fan))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill from N(0, std**2) with std = gain / sqrt(fan).

    Arguments and errors as in `kaiming_uniform_`.

    Source: K. He et al., Delving deep into rectifiers, ICCV 2015.

    Example:
        >>> w = nn.init.kaiming_normal_(gradlib.empty(8, 3, 5, 5), mode="fan_out", nonlinearity="relu")
        >>> tuple(w.shape)
        (8, 3, 5, 5)
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Make the rows or columns of [out, rest flattened] orthonormal, times `gain`.

    The Q of a QR factorisation of a normal matrix, with the signs of R's diagonal, so that Q is
    distributed evenly.

    Args:
        tensor: Tensor [out, ...]; changed in place, outside the graph, and returned.
        gain: factor.
        generator: source of random numbers; None is the default one.

    Raises:
        ValueError: the tensor has less than 2 dimensions.

    Source: A. Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks, ICLR 2014; F. Mezzadri, arXiv:math-ph/0609050.

    Example:
        >>> w = nn.init.orthogonal_(gradlib.empty(2, 5))
        >>> gradlib.allclose(w @ w.T, gradlib.eye(2), atol=1e-5)
        True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    with no_grad():
        normal = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
        q, r = linalg.qr(normal.t() if rows < cols else normal)
        q = q * ops.diagonal(r).sign()
        if rows < cols:
            q = q.t()
        tensor.copy_(q.reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix from N(0, std**2), then zero a fraction `sparsity` of each column.

    Args:
        tensor: Tensor [rows, columns]; changed in place, outside the graph, and returned.
        sparsity: the fraction, rounded up to whole elements.
        std: standard deviation of the others.
        generator: source of random numbers; None is the default one.

    Raises:
        ValueError: the tensor is not 2-dimensional.

    Source: J. Martens, Deep learning via Hessian-free optimization, ICML 2010.

    Example:
        >>> (nn.init.sparse_(gradlib.empty(4, 3), 0.5) == 0).sum(0).tolist()
        [2, 2, 2]
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[ops.randperm(rows)[:zeros], col] = 0
    return tensor


def _deprecated(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The old name, without the underscore, of a function of this module."""
    new = fn.__name__
    old = new[:-1]

    def call(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return fn(*args, **kwargs)

    example = inspect.cleandoc(fn.__doc__ or "").partition("Example:")[2]
    call.__doc__ = (
        f"`{new}` under its old name: it warns (FutureWarning) and calls it.\n\n"
        f"Arguments, result and errors are those of `{new}`.\n\n"
        f"Example:{example.replace(f'{new}(', f'{old}(')}\n"
    )
    call.__name__ = old
    return call


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
override.overridable(
    {
        "__name__": __name__,
        "uniform_": uniform_,
        "normal_": normal_,
        "constant_": constant_,
        "kaiming_uniform_": kaiming_uniform_,
    }
)  # the others call methods, which are
