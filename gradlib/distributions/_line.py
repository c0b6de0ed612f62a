"""Distributions on the whole line: Normal, Laplace, Cauchy, Gumbel, StudentT; and on the circle: VonMises."""

from __future__ import annotations

import math
from typing import Any

from .. import special
from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from . import constraints
from ._half_line import Chi2
from ._interval import Uniform
from .distribution import ONE_DRAW, Distribution, Shape
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import (
    _all_true,
    _as_size,
    _standard_normal,
    broadcast_all,
    euler_constant,
    lazy_property,
)

__all__ = ["Cauchy", "Gumbel", "Laplace", "Normal", "StudentT", "VonMises"]

special: Any
_LOC_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _LocScale(Distribution):
    """A distribution that a location shifts and a scale stretches."""

    arg_constraints = _LOC_SCALE  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("loc", "scale")
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, loc=loc, scale=scale)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _noise(self, sample_shape: Shape) -> Tensor:
        """Uniform numbers in [0, 1)."""
        shape = self._extended_shape(sample_shape)
        return ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device)

    def _standard(self, value: Tensor) -> Tensor:
        """A value that is checked, shifted and shrunk."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocScale, ExponentialFamily):
    """The normal (Gaussian) distribution.

    Args:
        loc: the mean; a number or a tensor.
        scale: the standard deviation, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Normal(0.0, 2.0).log_prob(gradlib.tensor(0.0))
        tensor(-1.6121)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * ops.erfc(self._standard(value) * -math.sqrt(0.5))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x * x / y + 0.5 * (-math.pi / y).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0


class Laplace(_LocScale):
    """The Laplace distribution, which decays like an exponential one to both sides.

    Args:
        loc: the mean; a number or a tensor.
        scale: the expected distance from it, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Laplace(0.0, 1.0).cdf(gradlib.tensor(0.0))
        tensor(0.5000)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        # a side and a distance; 1 - |u| is not 0
        eps = dtypes.finfo(self.loc.dtype).eps
        u = self._noise(sample_shape) * (2 - eps) + (eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        above = 1 - 0.5 * (-z.clamp(min=0)).exp()
        return ops.where(z < 0, 0.5 * z.clamp(max=0).exp(), above)

    def icdf(self, value: Tensor) -> Tensor:
        z = ops.where(value < 0.5, (2 * value).log(), -(2 * (1 - value)).log())
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """The Cauchy (Lorentz) distribution: the quotient of two normal numbers; it has no mean.

    Args:
        loc: the median and mode; a number or a tensor.
        scale: half the width at half the greatest density, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Cauchy(0.0, 1.0).cdf(gradlib.tensor(1.0))
        tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return self.loc + self.scale * (math.pi * (self._noise(sample_shape) - 0.5)).tan()

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._standard(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return ops.atan2(ops.ones_like(z), -z) / math.pi  # the angle, which is exact in both tails

    def icdf(self, value: Tensor) -> Tensor:
        # the angle from the nearer end, which is exact in both tails, and from the middle
        below, above = (math.pi * value).tan(), (math.pi * (1 - value)).tan()
        middle = value - 0.5
        angle = (math.pi * middle.clamp(-0.25, 0.25)).tan()
        tails = ops.where(value < 0.5, -1 / below, 1 / above)
        return self.loc + self.scale * ops.where(middle.abs() < 0.25, angle, tails)

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(TransformedDistribution):
    """The Gumbel distribution: that of the greatest of many numbers.

    Args:
        loc: the mode; a number or a tensor.
        scale: above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Gumbel(0.0, 1.0).mean
        tensor(0.5772)
    """

    arg_constraints = _LOC_SCALE  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = dtypes.finfo(self.loc.dtype)
        base = Uniform(
            ops.full_like(self.loc, info.tiny),
            ops.full_like(self.loc, 1 - info.eps),
            validate_args=validate_args,
        )
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -ops.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return self._expand_base(new, _as_size(batch_shape))

    def _standard(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return math.pi**2 / 6 * self.scale.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class StudentT(Distribution):
    """Student's t distribution: a normal number divided by the root of the mean of `df` squares of others.

    Args:
        df: degrees of freedom, above 0; a number or a tensor.
        loc: the median and mode.
        scale: above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints = {  # type: ignore[assignment]
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("df", "loc", "scale")
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._set_scalars(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.pow(2) * df / (df - 2)
        return finite.masked_fill(df <= 2, math.inf).masked_fill(df <= 1, math.nan)

    @lazy_property
    def _chi2(self) -> Chi2:
        return Chi2(self.df, validate_args=False)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, self.df.dtype, self.df.device)
        return self.loc + self.scale * normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, z = self.df, (value - self.loc) / self.scale
        normaliser = (
            self.scale.log()
            + 0.5 * (df * math.pi).log()
            + ops.lgamma(0.5 * df)
            - ops.lgamma(0.5 * (df + 1))
        )
        return -0.5 * (df + 1) * (z * z / df).log1p() - normaliser

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(more)
        slope = ops.digamma(more) - ops.digamma(half)
        return self.scale.log() + more * slope + 0.5 * self.df.log() + beta


class VonMises(Distribution):
    """The von Mises distribution of angles, close to a normal one with the variance 1 / concentration.

    Args:
        loc: the mean direction in radians; a number or a tensor.
        concentration: above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Source: D. J. Best, N. I. Fisher, Efficient simulation of the von Mises distribution, Applied Statistics 28 (1979).

    Example:
        >>> gradlib.distributions.VonMises(0.0, 1.0).log_prob(gradlib.tensor(0.0))
        tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = False
    _parameters = ("loc", "concentration")
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        """The mean direction in radians.

        Example:
            >>> gradlib.distributions.VonMises(1.0, 1.0).mean
            tensor(1.)
        """
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean of the unit vectors of such directions.

        Example:
            >>> gradlib.distributions.VonMises(0.0, 1.0).variance
            tensor(0.5536)
        """
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        kappa = self.concentration
        scaled = special.i0e(kappa)  # exp(-kappa) I0(kappa), so that nothing overflows
        return kappa * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - scaled.log()

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            # in float64: what is computed below for small or large concentrations cancels
            kappa = self.concentration.double().expand(shape)
            tau = 1 + (1 + 4 * kappa * kappa).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            r = (1 + rho * rho) / (2 * rho)
            r = ops.where(kappa < 1e-5, 1 / kappa + kappa, r)  # its Taylor series
            angle = ops.zeros_like(kappa)
            todo = ops.ones_like(kappa, dtype=dtypes.bool_)
            while True:
                u = ops.rand((3, *shape), dtype=dtypes.float64, device=kappa.device)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                fits = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                drawn = (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos()
                angle = ops.where(todo & fits, drawn, angle)
                todo = todo & ~fits
                if _all_true(~todo):
                    break
            turned = (angle + self.loc.double() + math.pi) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
