"""Smooth activation functions: pointwise, each with one node as in PyTorch; others are in `piecewise` and `gelu`."""

from __future__ import annotations

from typing import Any

from ...op.declare import Op, declare
from ...op.expose import FOUND, SCALAR_TYPE, function, write_same
from ...op.inplace import inplace
from ...op.plain_numbers import python_number
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import at_least, at_most, floating

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def activation(
    name: str, forward, formula, attrs: tuple = (), *, node=None, domain=(-2.0, 2.0), refused="",
    **spec: Any,
) -> Op:  # fmt: skip
    """Declare a pointwise op of one argument; `attrs` are tuples of attribute values to test it with.

    refused: see `floating`.
    """

    def samples(t):
        cases = attrs or ((),)
        first = cases[0]
        return [(t(3, 4), *case) for case in cases] + [(t(), *first), (t(0, 2), *first)]

    forward.__name__ = name  # which error texts show
    return declare(
        name, floating(forward, refused=refused), node=node, self=formula, elementwise=True, samples=samples,
        domain=domain, **spec,
    )  # fmt: skip


# -- silu, mish, softplus and others with exponentials ---------------------------------------------------------------


def _logistic(xp, x, of=1):
    """``of / (1 + exp(-x))``; (1 + tanh(x / 2)) / 2 would have no digit left where x is very negative."""
    out = xp.negative(x)
    out = xp.exp(out, out=out) if out.ndim else xp.exp(out)  # inf there: the quotient is then 0
    out += 1
    return xp.divide(of, out, out=out) if out.ndim else of / out


def _silu_piece(xp, x):
    return _logistic(xp, x, x)


def _silu_grad_piece(xp, g, x):
    s = _logistic(xp, x)
    out = 1 - s
    out *= x
    out += 1
    out *= s
    return out * g  # which may have more dimensions


@floating
def _silu_grad(xp, grad, self):
    return xp.in_pieces(_silu_grad_piece, grad, self)


silu_grad = declare(
    "silu_grad", _silu_grad, public="silu_backward", elementwise=True, node="SiluBackwardBackward0",
    grad=lambda F, g, self: F.silu_grad(g, self),
    self=lambda F, g, grad, self: g * grad * _silu_second(self, F.sigmoid(self)),
)  # fmt: skip


def _silu_second(x, s):
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


silu_op = activation(
    "silu",
    lambda xp, self: xp.in_pieces(_silu_piece, self),
    lambda F, g, self: F.silu_grad(g, self),
)


def _mish_piece(xp, x):
    w = xp.exp(at_most(xp, x, 20.0))  # tanh(log(1 + w)) = (w^2 + 2 w) / (w^2 + 2 w + 2); 1 beyond
    top = w * (w + 2)
    return x * (top / (top + 2))


def _mish_grad(F, g, self):
    t = F.tanh(F.softplus(self, 1.0, 20.0))
    return g * (t + self * F.sigmoid(self) * (1.0 - t * t))


mish_op = activation("mish", lambda xp, self: xp.in_pieces(_mish_piece, self), _mish_grad)


def _softplus(xp, self, *, beta, threshold):
    def piece(xp, x):
        z = x if beta == 1 else x * beta
        soft = xp.log1p(xp.exp(-xp.absolute(z)))
        soft += at_least(xp, z, 0)
        if beta != 1:
            soft /= beta
        return xp.where(z > threshold, x, soft)

    return xp.in_pieces(piece, self)


def _softplus_grad(F, g, z, threshold):
    return F.where(z > threshold, g, g * F.sigmoid(z))


softplus_op = activation(
    "softplus", _softplus,
    lambda F, g, self, beta, threshold: _softplus_grad(F, g, self if beta == 1 else self * beta, threshold),
    ((1.0, 20.0), (2.0, 1.5)), autocast="cuda:float32",
)  # fmt: skip


def softplus(input, beta=1.0, threshold=20.0, *, out=None):
    """``log(1 + exp(beta * x)) / beta``, a smooth form of relu; the identity where ``beta * x > threshold``.

    Args:
        input: a floating tensor of any shape.
        beta: how sharp the bend at 0 is.
        threshold: from where on the exponential, which could overflow, is not computed.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.softplus(gradlib.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """
    if beta.__class__ is not float or threshold.__class__ is not float:
        beta = python_number(beta, "softplus(): argument 'beta'")
        threshold = python_number(threshold, "softplus(): argument 'threshold'")
    result = softplus_op.call(input, beta, threshold)
    return result if out is None else write_same(out, result, FOUND)


logsigmoid_op = activation(
    "log_sigmoid", lambda xp, self: at_most(xp, self, 0) - xp.log1p(xp.exp(-xp.absolute(self))),
    lambda F, g, self: g * F.sigmoid(-self), row_major=True,
)  # fmt: skip


def _elu(xp, self, *, alpha, scale, input_scale):
    below = xp.expm1(_times(at_most(xp, self, 0), input_scale))
    return xp.where(self > 0, _times(self, scale), _times(below, alpha * scale))


def _times(x, factor):
    """Times a number that often is 1."""
    return x if factor == 1 else x * factor


def _elu_grad(F, g, self, alpha, scale, input_scale):
    if hasattr(self, "_array"):
        # the second derivative at 0 is that of the other side, 0; nan is on no side, and stays
        low = F.where(self >= 0, 0, self)
    else:
        low = at_most(F.backend, self, 0)
    below = _times(F.exp(_times(low, input_scale)), alpha * scale * input_scale)
    return g * F.where(self > 0, scale, below)


elu_op = activation("elu", _elu, _elu_grad, ((1.0, 1, 1), (0.5, 2.0, 0.7)))
celu_op = activation(
    "celu", lambda xp, self, *, alpha: _elu(xp, self, alpha=alpha, scale=1, input_scale=1 / alpha),
    lambda F, g, self, alpha: _elu_grad(F, g, self, alpha, 1.0, 1 / alpha), ((1.0,), (0.5,)),
    refused="elu_cpu",
)  # fmt: skip


def elu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``.

    Args:
        input: a floating tensor of any shape.
        alpha: how far below 0 the result goes.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.elu(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.6321,  1.0000])
    """
    if alpha.__class__ is not float:
        alpha = python_number(alpha, "elu(): argument 'alpha'")
    return run(elu_op, input, inplace, alpha, 1, 1)


def elu_(input, alpha=1.0):
    """In-place version of ``elu``: the result is written into `input`.

    Args:
        input: a floating tensor of any shape.
        alpha: how far below 0 the result goes.

    Returns:
        `input`.

    Raises:
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> F.elu_(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.6321,  1.0000])
    """
    alpha = python_number(alpha, "elu_(): argument 'alpha'")
    return inplace(elu_op, input, (), (alpha, 1, 1))


@function("selu")
def selu(input, inplace=False):
    """``scale * elu(x, alpha)`` with the two constants that keep mean 0 and variance 1 from layer to layer.

    Args:
        input: a floating tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> gradlib.selu(gradlib.tensor([-1.0, 1.0]))
        tensor([-1.1113,  1.0507])
    """
    return run(elu_op, input, inplace, SELU_ALPHA, SELU_SCALE, 1)


@function("selu_")
def selu_(input):
    """In-place version of ``selu``."""
    return inplace(elu_op, input, (), (SELU_ALPHA, SELU_SCALE, 1))


@function("celu")
def celu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``: elu without a bend at 0, whatever `alpha` is.

    Args:
        input: a floating tensor of any shape.
        alpha: how far below 0 the result goes; not 0.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: `alpha` is 0.
        NotImplementedError: integers.

    Example:
        >>> gradlib.celu(gradlib.tensor([-1.0, 1.0]), 2.0)
        tensor([-0.7869,  1.0000])
    """
    if alpha.__class__ is not float:
        alpha = python_number(alpha, "celu(): argument 'alpha'")
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return run(celu_op, input, inplace, alpha)


@function("celu_")
def celu_(input, alpha=1.0):
    """In-place version of ``celu``."""
    return celu(input, alpha, True)


def silu(input, inplace=False):
    """``x * sigmoid(x)``, also of complex numbers.

    Args:
        input: a floating or complex tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.silu(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.2689,  0.7311])
    """
    if isinstance(input, Tensor) and input.is_complex():
        return input.mul_(input.sigmoid()) if inplace else input * input.sigmoid()
    return run(silu_op, input, inplace)


def mish(input, inplace=False):
    """``x * tanh(log(1 + exp(x)))``.

    Args:
        input: a floating tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.mish(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.3034,  0.8651])
    """
    return run(mish_op, input, inplace)


def logsigmoid(input, *, out=None):
    """``log(sigmoid(x))``, computed so that it does not overflow for large ``-x``.

    Args:
        input: a floating tensor of any shape.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.logsigmoid(gradlib.tensor([-1000.0, 0.0]))
        tensor([-1.0000e+03, -6.9315e-01])
    """
    result = logsigmoid_op.call(input)
    return result if out is None else write_same(out, result, SCALAR_TYPE)


def softsign(input):
    """``x / (1 + |x|)``, in (-1, 1).

    Args:
        input: a tensor of any shape.

    Returns:
        A tensor of the same shape; integers become the default floating dtype.

    Example:
        >>> F.softsign(gradlib.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """
    return input / (input.abs() + 1)


def tanhshrink(input):
    """``x - tanh(x)``.

    Args:
        input: a tensor of any shape.

    Returns:
        A tensor of the same shape; integers become the default floating dtype.

    Example:
        >>> F.tanhshrink(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.2384,  0.2384])
    """
    return input - input.tanh()


def run(op: Op, input: Tensor, in_place: bool, *attrs):
    """The op, or its in-place form."""
    return inplace(op, input, (), attrs) if in_place else op.call(input, *attrs)


# -- of two halves ----------------------------------------------------------------------------------------------------


@floating
def _glu(xp, self, *, dim):
    a, b = xp.split(self, 2, axis=dim)
    return a * _logistic(xp, b)


def _glu_grad(F, g, self, dim):
    half = self.shape[dim] // 2
    a, s = F.slice(self, dim, 0, half, 1), F.sigmoid(F.slice(self, dim, half, 2 * half, 1))
    return F.cat([g * s, g * a * (s * (1.0 - s))], dim)


glu_op = declare(
    "glu", _glu, self=_glu_grad, samples=lambda t: [(t(3, 4), 1), (t(4, 3), 0), (t(6), 0), (t(0, 4), 1)],
    batch="same_rank",
)  # fmt: skip


def glu(input, dim=-1):
    """The gated linear unit ``a * sigmoid(b)``, where a and b are the two halves of `input` along `dim`.

    Args:
        input: a floating tensor of an even length along `dim`.
        dim: the dimension that is halved.

    Returns:
        A tensor that is half as long there.

    Raises:
        RuntimeError: the length is odd, or there is no dimension.
        IndexError: no such dimension.

    Example:
        >>> F.glu(gradlib.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input.dim())
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}"
        )
    return glu_op.call(input, dim)
