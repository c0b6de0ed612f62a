"""Activation functions: pointwise, each with one node as in PyTorch."""

from __future__ import annotations

import math

from ..core.inplace import inplace
from ..core.op import Op, declare
from ..core.tensor import Tensor, wrap_dim
from . import special
from ._blocks import F4, floating, in_pieces
from .absolute import relu as relu_op
from .expose import PUBLIC, function

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1.0 / math.sqrt(2.0 * math.pi)  # density of the standard normal distribution at 0
TANH_K, TANH_C = math.sqrt(2.0 / math.pi), 0.044715
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def activation(
    name: str, forward, formula, attrs: tuple = (), *, node=None, domain=(-2.0, 2.0)
) -> Op:
    """Declare a pointwise op of one argument; `attrs` are tuples of attribute values to test it with."""

    def samples(t):
        cases = attrs or ((),)
        first = cases[0]
        return [(t(3, 4), *case) for case in cases] + [(t(), *first), (t(0, 2), *first)]

    return declare(
        name, floating(forward), node=node, self=formula, elementwise=True, samples=samples, domain=domain
    )  # fmt: skip


# -- gelu ------------------------------------------------------------------------------------------------------------

# With h = x / 2: erf(x / sqrt 2) = tanh(h * p(h^2)); p fitted to 7e-8 in x * (1 + erf) / 2, lowest power first.
_GELU_F4 = (
    1.5957684315449865, 0.2906742753461904, -0.0010601821322737404, -0.0070707115539191834, 0.0020321669235761415,
    -0.00027329361404845464, 1.4791154388973283e-05,
)  # fmt: skip


def _normal_cdf2(xp, x):
    """1 + erf(x / sqrt 2): twice the normal distribution function."""
    if x.dtype is F4 and x.ndim:
        h = x * 0.5
        out = special.horner(_GELU_F4[::-1], h * h)
        out *= h
        xp.tanh(out, out=out)
        out += 1
        return out
    return special.erf_kernel(xp, x * ROOT_HALF) + 1


def _gelu_exact(xp, x):
    out = _normal_cdf2(xp, x)
    out *= x
    out *= 0.5
    return out


def _gelu_tanh(xp, x):
    return 0.5 * x * (1 + xp.tanh(TANH_K * x * (1 + TANH_C * (x * x))))


def _gelu(xp, self, *, approximate):
    return in_pieces(xp, _gelu_exact if approximate == "none" else _gelu_tanh, self)


def _gelu_grad_exact(xp, g, x):
    density = x * x
    density *= -0.5
    if density.ndim:
        xp.exp(density, out=density)
    else:
        density = xp.exp(density)
    density *= 2 * NORMAL
    density *= x
    density += _normal_cdf2(xp, x)
    density *= g
    density *= 0.5
    return density


def _gelu_grad_tanh(xp, g, x):
    square = x * x
    t = xp.tanh(TANH_K * x * (1 + TANH_C * square))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (TANH_K * (1 + 3 * TANH_C * square)))


@floating
def _gelu_grad(xp, grad, self, *, approximate):
    return in_pieces(xp, _gelu_grad_exact if approximate == "none" else _gelu_grad_tanh, grad, self)


def _gelu_second(F, self, approximate):
    """The second derivative of gelu."""
    square = self * self
    if approximate == "none":
        return NORMAL * F.exp(-0.5 * square) * (2.0 - square)
    t = F.tanh(TANH_K * self * (1.0 + TANH_C * square))
    slope, bend = TANH_K * (1.0 + 3.0 * TANH_C * square), (6.0 * TANH_K * TANH_C) * self
    return (1.0 - t * t) * (slope + 0.5 * self * (bend - 2.0 * t * slope * slope))


gelu_grad = declare(
    "gelu_grad", _gelu_grad, elementwise=True, node="GeluBackwardBackward0",
    grad=lambda F, g, self, approximate: F.gelu_grad(g, self, approximate),
    self=lambda F, g, grad, self, approximate: g * grad * _gelu_second(F, self, approximate),
    samples=lambda t: [(t(3, 4), t(3, 4), a) for a in ("none", "tanh")] + [(t(), t(), "none"), (t(0), t(0), "tanh")],
)  # fmt: skip
gelu_op = activation(
    "gelu", _gelu, lambda F, g, self, approximate: F.gelu_grad(g, self, approximate), (("none",), ("tanh",))
)  # fmt: skip


def gelu(input, approximate="none"):
    """``x * P(X <= x)`` for a standard normal X; approximate="tanh" uses the tanh formula instead.

    Raises RuntimeError when `approximate` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return gelu_op.call(input, approximate)


# -- silu, mish, softplus and others with exponentials ---------------------------------------------------------------


def _logistic(xp, x):
    return 0.5 * xp.tanh(0.5 * x) + 0.5


def _silu_piece(xp, x):
    return x * _logistic(xp, x)


def _silu(xp, self):
    return in_pieces(xp, _silu_piece, self)


def _silu_grad_piece(xp, g, x):
    s = _logistic(xp, x)
    return g * (s * (1 + x * (1 - s)))


@floating
def _silu_grad(xp, grad, self):
    return in_pieces(xp, _silu_grad_piece, grad, self)


silu_grad = declare(
    "silu_grad", _silu_grad, elementwise=True, node="SiluBackwardBackward0",
    grad=lambda F, g, self: F.silu_grad(g, self),
    self=lambda F, g, grad, self: g * grad * _silu_second(self, F.sigmoid(self)),
)  # fmt: skip


def _silu_second(x, s):
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


silu_op = activation("silu", _silu, lambda F, g, self: F.silu_grad(g, self))


def _mish_piece(xp, x):
    w = xp.exp(xp.minimum(x, 20.0))  # tanh(log(1 + w)) = (w^2 + 2 w) / (w^2 + 2 w + 2); 1 beyond
    top = w * (w + 2)
    return x * (top / (top + 2))


def _mish(xp, self):
    return in_pieces(xp, _mish_piece, self)


def _mish_grad(F, g, self):
    t = F.tanh(F.softplus(self, 1.0, 20.0))
    return g * (t + self * F.sigmoid(self) * (1.0 - t * t))


mish_op = activation("mish", _mish, _mish_grad)


def _softplus(xp, self, *, beta, threshold):
    def piece(xp, x):
        z = x * beta
        soft = (xp.log1p(xp.exp(-xp.absolute(z))) + xp.maximum(z, 0)) / beta
        return xp.where(z > threshold, x, soft)

    return in_pieces(xp, piece, self)


softplus_op = activation(
    "softplus", _softplus,
    lambda F, g, self, beta, threshold: F.where(self * beta > threshold, g, g * F.sigmoid(self * beta)),
    ((1.0, 20.0), (2.0, 1.5)),
)  # fmt: skip


def softplus(input, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * x)) / beta``; the identity where ``beta * x > threshold``."""
    return softplus_op.call(input, beta, threshold)


logsigmoid_op = activation(
    "log_sigmoid", lambda xp, self: xp.minimum(self, 0) - xp.log1p(xp.exp(-xp.absolute(self))),
    lambda F, g, self: g * F.sigmoid(-self),
)  # fmt: skip


def _elu(xp, self, *, alpha, scale, input_scale):
    below = xp.expm1(xp.minimum(self, 0) * input_scale) * (alpha * scale)
    return xp.where(self > 0, self * scale if scale != 1 else self, below)


def _elu_grad(F, g, self, alpha, scale, input_scale):
    below = F.exp(F.clamp_number(self, None, 0.0) * input_scale) * (alpha * scale * input_scale)
    return g * F.where(self > 0, scale, below)


elu_op = activation("elu", _elu, _elu_grad, ((1.0, 1, 1), (0.5, 2.0, 0.7)))
celu_op = activation(
    "celu", lambda xp, self, *, alpha: _elu(xp, self, alpha=alpha, scale=1, input_scale=1 / alpha),
    lambda F, g, self, alpha: _elu_grad(F, g, self, alpha, 1.0, 1 / alpha), ((1.0,), (0.5,)),
)  # fmt: skip


def elu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return _run(elu_op, input, inplace, alpha, 1, 1)


def elu_(input, alpha=1.0):
    """In-place version of ``elu``."""
    return inplace(elu_op, input, (), (alpha, 1, 1))


@function("selu")
def selu(input, inplace=False):
    """``scale * elu(x, alpha)`` with the constants of self-normalising networks."""
    return _run(elu_op, input, inplace, SELU_ALPHA, SELU_SCALE, 1)


@function("selu_")
def selu_(input):
    """In-place version of ``selu``."""
    return inplace(elu_op, input, (), (SELU_ALPHA, SELU_SCALE, 1))


@function("celu")
def celu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _run(celu_op, input, inplace, alpha)


@function("celu_")
def celu_(input, alpha=1.0):
    """In-place version of ``celu``."""
    return celu(input, alpha, True)


def silu(input, inplace=False):
    """``x * sigmoid(x)``."""
    return _run(silu_op, input, inplace)


def mish(input, inplace=False):
    """``x * tanh(softplus(x))``."""
    return _run(mish_op, input, inplace)


def logsigmoid(input):
    """``log(sigmoid(x))``, safe for large ``-x``."""
    return logsigmoid_op.call(input)


def softsign(input):
    """``x / (1 + |x|)``."""
    return input / (abs(input) + 1)


def tanhshrink(input):
    """``x - tanh(x)``."""
    return input - input.tanh()


def _run(op: Op, input: Tensor, in_place: bool, *attrs):
    return inplace(op, input, (), attrs) if in_place else op.call(input, *attrs)


# -- piecewise linear ------------------------------------------------------------------------------------------------


def _leaky_relu(xp, self, *, negative_slope):
    if 0 <= negative_slope <= 1:
        return xp.maximum(self, self * negative_slope)
    return xp.where(self > 0, self, self * negative_slope)


leaky_relu_op = activation(
    "leaky_relu", _leaky_relu, lambda F, g, self, negative_slope: F.where(self > 0, g, g * negative_slope),
    ((0.01,), (-0.5,)), domain=(0.1, 2.0),
)  # fmt: skip
hardtanh_op = activation(
    "hardtanh", lambda xp, self, *, min_val, max_val: xp.clip(self, min_val, max_val),
    lambda g, self, min_val, max_val: g * ((self > min_val) & (self < max_val)), ((-1.0, 1.0), (-0.5, 3.0)),
)  # fmt: skip
hardsigmoid_op = activation(
    "hardsigmoid", lambda xp, self: xp.clip(self * (1 / 6) + 0.5, 0, 1),
    lambda g, self: g * ((self > -3) & (self < 3)) * (1 / 6), domain=(-4.0, 4.0),
)  # fmt: skip
hardswish_op = activation(
    "hardswish", lambda xp, self: self * xp.clip(self + 3, 0, 6) * (1 / 6),
    lambda F, g, self: g * F.where(self <= -3, 0.0, F.where(self < 3, self * (1 / 3) + 0.5, 1.0)), domain=(-4.0, 4.0),
)  # fmt: skip
hardshrink_op = activation(
    "hardshrink",
    lambda xp, self, *, lambd: xp.where((self >= -lambd) & (self <= lambd), 0, self).astype(
        self.dtype, copy=False
    ),
    lambda F, g, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0.0, g),
    ((0.5,), (1.0,)),
)
softshrink_op = activation(
    "softshrink", lambda xp, self, *, lambd: self - xp.clip(self, -lambd, lambd),
    lambda F, g, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0.0, g), ((0.5,), (1.0,)),
)  # fmt: skip


def _threshold(xp, self, *, threshold, value):
    return xp.where(self <= threshold, self.dtype.type(value), self)


threshold_op = declare(
    "threshold", _threshold, elementwise=True,
    self=lambda F, g, self, threshold: F.where(self <= threshold, 0.0, g),
    samples=lambda t: [(t(3, 4), 0.1, 20.0), (t(), -1, 2), (t(0, 2), 0, 0)],
)  # fmt: skip


@function("threshold")
def threshold(input, threshold, value, inplace=False):
    """`input` where it is above `threshold`, else `value`."""
    return _run(threshold_op, input, inplace, threshold, value)


@function("threshold_")
def threshold_(input, threshold, value):
    """In-place version of ``threshold``."""
    return inplace(threshold_op, input, (), (threshold, value))


def relu(input, inplace=False):
    """``max(x, 0)``."""
    return input.relu_() if inplace else relu_op.call(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` where positive, else ``negative_slope * x``."""
    return _run(leaky_relu_op, input, inplace, negative_slope)


def leaky_relu_(input, negative_slope=0.01):
    """In-place version of ``leaky_relu``."""
    return inplace(leaky_relu_op, input, (), (negative_slope,))


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """`input` limited to [min_val, max_val]; its gradient is 0 at the bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _run(hardtanh_op, input, inplace, min_val, max_val)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """In-place version of ``hardtanh``."""
    return hardtanh(input, min_val, max_val, True)


def relu6(input, inplace=False):
    """``min(max(x, 0), 6)``."""
    return _run(hardtanh_op, input, inplace, 0.0, 6.0)


def hardsigmoid(input, inplace=False):
    """``min(max(x + 3, 0), 6) / 6``."""
    return _run(hardsigmoid_op, input, inplace)


def hardswish(input, inplace=False):
    """``x * hardsigmoid(x)``."""
    return _run(hardswish_op, input, inplace)


@function("hardshrink", method=True)
def hardshrink(input, lambd=0.5):
    """0 where ``|x| <= lambd``, else `input`."""
    return hardshrink_op.call(input, lambd)


def softshrink(input, lambd=0.5):
    """`input` moved towards 0 by `lambd`; 0 where ``|x| <= lambd``. RuntimeError for a negative `lambd`."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return softshrink_op.call(input, lambd)


# -- with a second tensor, a mask or two halves ----------------------------------------------------------------------

prelu_op = declare(
    "prelu_kernel", lambda xp, self, weight: xp.where(self > 0, self, self * weight), elementwise=True,
    self=lambda F, g, self, weight: F.where(self > 0, g, g * weight),
    weight=lambda F, g, self: F.where(self > 0, 0.0, g * self),
    samples=lambda t: [(t(3, 4), t(3, 4)), (t(2, 3, 4), t(3, 1)), (t(), t()), (t(0, 2), t(1))],
)  # fmt: skip


@function("prelu", method=True)
def prelu(input, weight):
    """``x`` where positive, else ``weight * x``; `weight` has one element, or one for each channel (dimension 1)."""
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if input.ndim > 1 and weight.ndim == 1:
        weight = weight.view(-1, *[1] * (input.ndim - 2)) if weight.numel() != 1 else weight
    elif input.ndim == 0:
        weight = weight.reshape(())
    return prelu_op.call(input, weight)


rrelu_op = activation(
    "rrelu_with_noise", lambda xp, self, *, noise, lower, upper, training: self * noise,
    lambda g, noise: g * noise, ((1.5, 0.1, 0.3, True),),
)  # fmt: skip


@function("rrelu")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky relu whose slope is drawn from [lower, upper) for each element in training, else is their mean."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _run(leaky_relu_op, input, inplace, (lower + upper) / 2)
    from .random import _uniform, rng_of

    x = input._array
    slope = _uniform(rng_of(None), x.shape, x.dtype, lower, upper)
    from ..backends import backend_of

    xp = backend_of(x)
    noise = xp.where(x > 0, x.dtype.type(1), xp.asarray(slope))
    return _run(rrelu_op, input, inplace, noise, lower, upper, True)


@function("rrelu_")
def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """In-place version of ``rrelu``."""
    return rrelu(input, lower, upper, training, True)


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
)  # fmt: skip


def glu(input, dim=-1):
    """``a * sigmoid(b)`` where a and b are the two halves of `input` along `dim`."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dim(dim, input.dim())
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}"
        )
    return glu_op.call(input, dim)


PUBLIC.setdefault("relu", relu_op.call)
