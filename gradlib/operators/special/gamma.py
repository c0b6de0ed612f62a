"""The gamma family: lgamma, digamma, polygamma, zeta, mvlgamma, igamma; and functions of x * log(y)."""

from __future__ import annotations

import math

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import function, method, write_out
from ...op.inplace import inplace
from ...op.pointwise import pointwise, unary
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.tensor import Tensor
from ..kinds import floating, missing, unsupported
from .erf import erfc_kernel, in_float64

# -- kernels -----------------------------------------------------------------------------------------------------------

EULER = 0.57721566490153286061
# B(2k) / (2k (2k - 1)): Stirling's series of log gamma
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
# B(2k) / 2k: the asymptotic series of digamma
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)


def _odd_series(xp, coefficients, inverse):
    """``c0 * t + c1 * t^3 + ...`` for t = inverse."""
    square = inverse * inverse
    total = xp.zeros_like(inverse)
    for c in reversed(coefficients):
        total = total * square + c
    return total * inverse


@in_float64
def lgamma_kernel(xp, x):
    """log |gamma(x)|: Stirling's series beyond 8, the product below, reflection for x < 0.5."""
    mirrored = x < 0.5
    z = xp.where(mirrored, 1 - x, x)
    big = xp.where(z < 8, z + 8, z)
    value = (
        (big - 0.5) * xp.log(big)
        - big
        + 0.5 * math.log(2 * math.pi)
        + _odd_series(xp, _STIRLING, 1 / big)
    )
    product = xp.ones_like(z)
    small = xp.minimum(z, 8)
    for k in range(8):
        product = product * (small + k)
    value = xp.where(z < 8, value - xp.log(product), value)
    # near 1 and 2 the value is small: its Taylor series keeps the relative precision
    for centre, series in ((1.0, _AT_ONE), (2.0, _AT_TWO)):
        t = xp.clip(z - centre, -0.1, 0.1)
        value = xp.where(xp.absolute(z - centre) < 0.1, horner_of(xp, series, t), value)
    sine = xp.absolute(xp.sin(math.pi * (x - xp.rint(x))))
    value = xp.where(mirrored, math.log(math.pi) - xp.log(sine) - value, value)
    return xp.where(xp.isinf(x) | (mirrored & (x == xp.floor(x))), math.inf, value)


def horner_of(xp, coefficients, x):
    total = xp.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _taylor() -> tuple:
    """Coefficients of log gamma around 1 and 2: derivatives are values of the zeta function."""
    zeta = [0.0, 0.0] + [sum((n + 1.0) ** -k for n in range(40)) for k in range(2, 18)]
    for k in range(2, 18):  # the rest of the sum by the Euler-Maclaurin formula
        zeta[k] += (
            41.0 ** (1 - k) / (k - 1)
            + 0.5 * 41.0**-k
            + k / 12 * 41.0 ** (-k - 1)
            - k * (k + 1) * (k + 2) / 720 * 41.0 ** (-k - 3)
        )
    euler = 0.57721566490153286061
    one = (0.0, -euler, *[(-1) ** k * zeta[k] / k for k in range(2, 18)])
    two = (0.0, 1 - euler, *[(-1) ** k * (zeta[k] - 1) / k for k in range(2, 18)])
    return one, two


_AT_ONE, _AT_TWO = _taylor()


@in_float64
def digamma_kernel(xp, x):
    """The derivative of log gamma: recurrence up to 8, then the asymptotic series; reflection below 0."""
    below = x < 0
    z = xp.where(below, 1 - x, x)
    shift = xp.zeros_like(z)
    for _ in range(8):
        small = z < 8
        shift = shift - xp.where(small, 1 / xp.where(small, z, 1), 0)
        z = xp.where(small, z + 1, z)
    inverse = 1 / z
    value = xp.log(z) - 0.5 * inverse - _odd_series(xp, _DIGAMMA, inverse) * inverse + shift
    turn = x - xp.rint(x)
    value = xp.where(below, value - math.pi / xp.tan(math.pi * turn), value)
    value = xp.where(below & (turn == 0), math.nan, value)
    return xp.where(x == 0, xp.copysign(math.inf, -x), value)


@in_float64
def zeta_kernel(xp, s, q):
    """Hurwitz' zeta function: ten terms (more below 0), then the Euler-Maclaurin formula."""
    s, q = xp.broadcast_arrays(xp.asarray(s), xp.asarray(q))
    total = xp.zeros(s.shape)
    integer = q == xp.floor(q)
    at = q.astype("f8")
    start = xp.clip(xp.where(xp.isfinite(s), s, 10), 10, 200)  # the formula converges beyond here
    lowest = float(xp.min(xp.where(xp.isfinite(q), q, 0))) if q.size else 0.0
    for _ in range(int(min(float(start.max()) - min(lowest, 0), 10000)) + 1 if q.size else 0):
        more = at < start
        total = total + xp.where(more, xp.where(more, at, 1.0) ** -s, 0)
        at = xp.where(more, at + 1, at)
    power = at ** (-s)
    total = total + power * at / (s - 1) + 0.5 * power
    factor, power = s + 0.0, power / at
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + b * factor * power / math.factorial(2 * k)
        factor = factor * (s + 2 * k - 1) * (s + 2 * k)
        power = power / (at * at)
    total = xp.where(xp.isposinf(q), xp.where(s > 1, 0.0, math.nan), total)
    total = xp.where((q <= 0) & integer, math.inf, total)
    total = xp.where((q < 0) & ~integer & (s != xp.floor(s)), math.nan, total)
    return xp.where(s == 1, math.inf, xp.where(s < 1, math.nan, total))


# -- ops ---------------------------------------------------------------------------------------------------------------

lgamma = unary(
    "lgamma", lambda F, g, self: g * F.digamma(self), forward=floating(lambda xp, self: lgamma_kernel(xp, self)),
    expression=lambda xp, x: xp.lgamma(x),
    domain=(0.2, 4.0), doc="``log(|gamma(input)|)``.",
    example=("gradlib.lgamma(gradlib.tensor([1.0, 4.0]))", "tensor([0.0000, 1.7918])"),
)  # fmt: skip
digamma = unary(
    "digamma",
    lambda F, g, self: g * F.polygamma_of(self, 1),
    forward=floating(lambda xp, self: digamma_kernel(xp, self)),
    domain=(0.2, 4.0),
    doc="The derivative of ``lgamma``.",
    example=("gradlib.digamma(gradlib.tensor([1.0, 2.0]))", "tensor([-0.5772,  0.4228])"),
)


def _polygamma(xp, self, *, n):
    if n == 0:
        return digamma_kernel(xp, self)
    return in_float64(
        lambda xp, x: (
            (-1) ** (n + 1) * math.factorial(n) * zeta_kernel(xp, xp.full(x.shape, n + 1.0), x)
        )
    )(xp, self)


polygamma_op = declare(
    "polygamma_of", floating(_polygamma), captures=captures.HOST, public="polygamma",
    elementwise=True, promote="float", node="PolygammaBackward0",
    self=lambda F, g, self, n: g * F.polygamma_of(self, n + 1),
    samples=lambda t: [(t(3, 4), 1), (t(), 2), (t(0, 2), 0)], domain=(0.4, 3.0),
)  # fmt: skip


@function("polygamma")
def polygamma(n, input, *, out=None):
    """The n-th derivative of ``digamma``; ``digamma`` itself for n = 0.

    Args:
        n: an int, 0 or more.
        input: a real tensor of any shape.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape; integers and bool become the default floating dtype.

    Raises:
        RuntimeError: a negative n.

    Example:
        >>> gradlib.polygamma(1, gradlib.tensor([1.0]))
        tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return write_out(out, polygamma_op.call(input, n))


@method("polygamma")
def _polygamma_method(self, n):
    """``polygamma(n, self)``: the n-th derivative of digamma of each element.

    Raises NotImplementedError for complex tensors, RuntimeError for a negative n.

    Example:
        >>> gradlib.ones(1).polygamma(1)
        tensor([1.6449])
    """
    return polygamma(n, self)


@method("polygamma_")
def _polygamma_in_place(self, n):
    """In-place version of ``polygamma``: the result is written into this tensor, which is returned."""

    return inplace(polygamma_op, self, (), (n,))


zeta_op = declare(
    "special_zeta",
    floating(lambda xp, self, other: zeta_kernel(xp, self, other)),
    captures=captures.HOST,
    elementwise=True,
    promote="float",
    self=missing("zeta"),
    numbers="one",
    other=lambda F, g, self, other: (
        g * -self * F.special_zeta(self + 1.0 + F.zeros_like(other), other)
    ),
    samples=lambda t: [
        (t(3, low=1.5, high=3, requires_grad=False), t(3)),
        (t(3, 1, low=1.5, high=3, requires_grad=False), t(2)),
    ],
    domain=(0.4, 3.0),
)


@function("mvlgamma")
def mvlgamma(input, p, *, out=None):
    """The logarithm of the multivariate gamma function of dimension `p`; the result is nan or inf outside its domain.

    Args:
        input: a real tensor of any shape with all elements above ``(p - 1) / 2``.
        p: an int, 1 or more.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape; integers become the default floating dtype.

    Raises:
        RuntimeError: `p` is less than 1.

    Example:
        >>> gradlib.mvlgamma(gradlib.tensor([2.0]), 2)
        tensor([0.4516])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if not input.is_floating_point():
        if input.dtype is dtypes.bool_:
            raise RuntimeError("The input tensor may not be a boolean tensor.")
        if input.is_complex():
            raise unsupported("mvlgamma", input)
        input = input.to(dtypes.get_default_dtype())

    steps = backend_of(input._array).table(np.arange(0, -p, -1) * 0.5, input.dtype.np)
    steps = Tensor._make(steps)
    total = lgamma.call(input.unsqueeze(-1) + steps).sum(-1) + p * (p - 1) * math.log(math.pi) / 4
    return write_out(out, total)


@method("mvlgamma")
def _mvlgamma_method(self, p):
    """``mvlgamma(self, p)``: log of the multivariate gamma function of dimension `p`, of each element.

    Raises RuntimeError for p < 1 and for bool tensors.

    Example:
        >>> gradlib.tensor([2.0]).mvlgamma(2)
        tensor([0.4516])
    """
    return mvlgamma(self, p)


@method("mvlgamma_")
def _mvlgamma_in_place(self, p):
    """In-place version of ``mvlgamma``; RuntimeError for a tensor of whole numbers, which cannot hold the result."""
    if not self.is_floating_point():
        raise RuntimeError(
            f"mvlgamma: result type {self.dtype.scalar_type} can't be cast to the desired output type Float"
        )
    return self.copy_(mvlgamma(self, p))


# -- x * log(y) --------------------------------------------------------------------------------------------------------


def _xlogy(xp, self, other):
    out = self * xp.log(other)
    return xp.where((self == 0) & ~xp.isnan(other), self.dtype.type(0), out)


def _xlog1py(xp, self, other):
    out = self * xp.log1p(other)
    return xp.where((self == 0) & ~xp.isnan(other), self.dtype.type(0), out)


xlogy = pointwise(
    "xlogy", _xlogy, promote="float", domain=(0.2, 2.0), numbers="one", complex=False,
    doc="``input * log(other)``, and 0 where `input` is 0.",
    example=("gradlib.xlogy(gradlib.tensor([0.0, 2.0]), gradlib.tensor([0.0, 2.0]))", "tensor([0.0000, 1.3863])"),
    self=lambda F, g, self, other: F.where((self == 0.0) & (other <= 0), 0.0, F.xlogy(g, other)),
    other=lambda g, self, other: g * self / other,
)  # fmt: skip
xlog1py = declare(
    "special_xlog1py", _xlog1py, elementwise=True, promote="float", domain=(0.2, 2.0), numbers="one", complex=False,
    node="SpecialXlog1PyBackward0",
    self=lambda F, g, self, other: F.where((self == 0.0) & (other <= -1), 0.0, F.special_xlog1py(g, other)),
    other=lambda g, self, other: g * self / (other + 1),
)  # fmt: skip
entr = declare(
    "special_entr",
    lambda xp, self: xp.where(
        self > 0,
        -self * xp.log(xp.where(self > 0, self, 1)),
        xp.where(self == 0, 0, xp.where(xp.isnan(self), math.nan, -math.inf)),
    ).astype(self.dtype, copy=False),
    elementwise=True,
    promote="float",
    complex=False,
    self=lambda F, g, self: g * (-F.log(self) - 1.0),
    domain=(0.1, 2.0),
)


# -- incomplete gamma --------------------------------------------------------------------------------------------------


def _terms_below(xp, a, x):
    """P(a, x) by its power series, for x < a + 1."""
    term = 1 / a
    total = term
    for n in range(1, 400):
        term = term * x / (a + n)
        total = total + term
        if not bool((xp.absolute(term) > 1e-17 * xp.absolute(total)).any()):
            break
    return total * xp.exp(a * xp.log(x) - x - lgamma_kernel(xp, a))


def _fraction_above(xp, a, x):
    """Q(a, x) by its continued fraction (Lentz), for x >= a + 1."""
    b = x + 1 - a
    c, d = xp.full(b.shape, 1e300), 1 / b
    h = d
    for i in range(1, 400):
        an = -i * (i - a)
        b = b + 2
        d = 1 / (an * d + b)
        c = b + an / c
        h = h * (d * c)
        if not bool((xp.absolute(d * c - 1) > 1e-16).any()):
            break
    return h * xp.exp(a * xp.log(x) - x - lgamma_kernel(xp, a))


def _exponential_integral(xp, x):
    """E1(x) = gamma(0, x) for 0 < x <= 1, by its power series (DLMF 6.6.2)."""
    total, term = -EULER - xp.log(x), xp.ones_like(x)
    for k in range(1, 22):
        term = term * (-x / k)
        total = total - term / k
    return total


# For large a near x: powers of 1 / a (outer) and of eta (inner), see DLMF 8.12; from the series of mu in eta.
_EXPANSION = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194,
        -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
        8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
        -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
        0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
        -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
        -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
        1.3721957309062934e-06,
    ),
    (
        0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
        -7.561801671883977e-05, -2.396505113867297e-07,
    ),
    (
        -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06,
    ),
)  # fmt: skip


def _near_diagonal(xp, a, x, upper: bool):
    """P or Q(a, x) for large a and x near it, by Temme's uniform expansion."""
    mu = (x - a) / a
    half = mu - xp.log1p(mu)
    short = mu * mu * (0.5 - mu * (1 / 3 - mu * (0.25 - mu * (0.2 - mu * (1 / 6 - mu / 7)))))
    half = xp.where(xp.absolute(mu) < 1e-3, short, half)  # where the difference has few digits
    eta = xp.copysign(xp.sqrt(2 * half), mu)
    total, scale = 0.0, 1.0
    for row in _EXPANSION:
        inner = 0.0
        for c in reversed(row):
            inner = inner * eta + c
        total, scale = total + inner * scale, scale / a
    rest = xp.exp(-0.5 * a * eta * eta) / xp.sqrt(2 * math.pi * a) * total
    sign = 1 if upper else -1
    return 0.5 * erfc_kernel(xp, xp.asarray(sign * eta * xp.sqrt(0.5 * a))) + sign * rest


def _igamma(xp, a, x, upper: bool):
    a, x = xp.broadcast_arrays(xp.asarray(a), xp.asarray(x))
    inside = (a > 0) & (x > 0) & xp.isfinite(a) & xp.isfinite(x)
    sa, sx = xp.where(inside, xp.maximum(a, 1e-300), 1.0), xp.where(inside, x, 1.0)
    # far from the diagonal the series converge quickly, close to it they do not when a is large
    large = inside & (sa > 200) & (xp.absolute(sx - sa) < 0.3 * sa)
    kept = xp.where(large, sa, 1000.0), xp.where(large, sx, 1000.0)
    sa, sx = xp.where(large, 1.0, sa), xp.where(large, 1.0, sx)
    low = sx < sa + 1
    p = _terms_below(xp, sa, xp.where(low, sx, 0.5))
    q = _fraction_above(xp, sa, xp.where(low, sa + 2, sx))
    value = xp.where(low, 1 - p, q) if upper else xp.where(low, p, 1 - q)
    if xp.may(large):
        value = xp.where(large, _near_diagonal(xp, *kept, upper), value)
    tiny = inside & low & (a < 1e-10)
    if upper and xp.may(tiny):  # 1 - p is all cancellation
        value = xp.where(tiny, a * _exponential_integral(xp, xp.where(tiny, sx, 1.0)), value)
    at_zero, at_infinity = (1.0, 0.0) if upper else (0.0, 1.0)
    value = xp.where(xp.isposinf(x), at_infinity, xp.where(x == 0, at_zero, value))
    value = xp.where(
        (a == 0) & (x > 0), 1 - at_zero, xp.where(xp.isposinf(a) & xp.isfinite(x), at_zero, value)
    )
    bad = (
        (a < 0)
        | (x < 0)
        | xp.isnan(a)
        | xp.isnan(x)
        | ((a == 0) & (x == 0))
        | (xp.isinf(a) & xp.isinf(x))
    )
    return xp.where(bad, math.nan, value)


def _density(F, self, other):
    """x^(a - 1) e^-x / gamma(a): the derivative of igamma with respect to x."""
    return F.exp((self - 1.0) * F.log(other) - other - F.lgamma(self))


def _incomplete(name: str, upper: bool, shown: str):
    sign = -1.0 if upper else 1.0
    kernel = in_float64(lambda xp, a, x: _igamma(xp, a, x, upper))
    return pointwise(
        name,
        floating(lambda xp, self, other: kernel(xp, self, other)),
        complex=False,
        domain=(0.3, 3.0),
        captures=captures.HOST,
        self=missing(f"{name}: input"),
        other=lambda F, g, self, other: g * (sign * _density(F, self, other)),
        numbers="none",
        node=("Igammac" if upper else "Igamma") + "Backward0",
        samples=lambda t: [
            (t(3, 4, requires_grad=False), t(3, 4)),
            (t(3, 1, requires_grad=False), t(4)),
        ],
        doc=f"{'1 less the' if upper else 'The'} integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised "
        f"{'upper' if upper else 'lower'} incomplete gamma function of a = `input` and x = `other`, which has a "
        "derivative in x alone.",
        example=(f"gradlib.{name}(gradlib.tensor([1.0]), gradlib.tensor([1.0]))", shown),
        refuses="bool integer complex",
    )


igamma, igammac = (
    _incomplete("igamma", False, "tensor([0.6321])"),
    _incomplete("igammac", True, "tensor([0.3679])"),
)
