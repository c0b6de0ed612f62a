"""Random numbers in place: ``uniform_``, ``normal_``, ``bernoulli_`` and the other samplers of Tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ...op.declare import declare
from ...op.inplace import inplace
from ...op.vmap import draws
from ...op.vmap_texts import UNBATCHED_DRAW
from ...tape.lazy import raw_values
from ...tape.modes import shared, state
from ...tape.tensor import Tensor
from ..kinds import refuse
from .discrete import check_chances
from .draw import draw_for, draw_new, on_device
from .integers import check_random_bounds
from .uniform_normal import draw_scaled, draw_uniform


def _declare_draw(name: str, public: str, node: str):
    """An op whose result is drawn, whatever its argument holds: no gradient flows to that."""
    return declare(
        name, lambda xp, self, *, values: xp.asarray(values).astype(self.dtype, copy=False), public=public, node=node,
        jvp="elementwise", self=lambda F, g: F.zeros_like(g), integer_results=True,
        samples=lambda t: [(t(3), np.ones(3)), (t(0), np.ones(0))],
    )  # fmt: skip


_DRAWS = {
    name + "_": _declare_draw("draw_" + name, public, node)
    for name, public, node in (
        ("bernoulli_tensor", "bernoulli", "BernoulliBackward1"), ("bernoulli", "bernoulli", "BernoulliBackward2"),
        ("normal", "normal", "NormalBackward0"), ("uniform", "uniform", "UniformBackward0"),
        ("exponential", "exponential", "ExponentialBackward0"), ("geometric", "geometric", "GeometricBackward0"),
        ("cauchy", "cauchy", "CauchyBackward0"), ("log_normal", "log_normal", "LogNormalBackward0"),
        ("random", "random", "RandomBackward2"), ("random_to", "random", "RandomBackward1"),
        ("random_from", "random", "RandomBackward0"),
    )
}  # fmt: skip


def _fill(tensor: Tensor, values, name: str) -> Tensor:
    """Write drawn values into `tensor` in place; no gradient flows to what it held before."""
    return inplace(_DRAWS[name], tensor, (), (on_device(values, tensor.device),))


def in_place(name: str) -> Callable:
    """Publish a sampler as a method; inside vmap the numbers are drawn for each entry or for all, and then written."""

    def publish(fill: Callable) -> Callable:
        draw = draws(lambda like, args, kwargs: fill(like.new_empty(like.shape), *args, **kwargs))

        @functools.wraps(fill)
        def sampler(self, *args, **kwargs):
            level = state.batch if shared.batches else None
            if level is None:
                return fill(self, *args, **kwargs)
            if level.randomness == "different" and not level.part(self)[1]:
                raise RuntimeError(UNBATCHED_DRAW)
            return self.copy_(draw(self.detach(), args, kwargs))

        setattr(Tensor, name, sampler)
        return sampler

    return publish


@in_place("uniform_")
def uniform_(self, from_=0.0, to=1.0, *, generator=None, **kw):
    """Fill this tensor with numbers that are uniformly distributed in [from, to).

    Args:
        from_: the lower bound; also under the name ``from`` by ``**{"from": ...}``.
        to: the upper bound.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        This tensor.

    Raises:
        RuntimeError: `from` is above `to`; a leaf that requires grad.
        NotImplementedError: integers.

    Example:
        >>> gradlib.zeros(2).uniform_(3, 3)
        tensor([3., 3.])
    """
    low = kw.get("from", from_)
    refuse("check_uniform_bounds", self, "iub")
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    shape, d = self._array.shape, self._array.dtype
    values = draw_new(generator, self.device, draw_uniform, shape, d, low, to)
    return _fill(self, values, "uniform_")


@in_place("normal_")
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill this tensor with normally distributed numbers.

    Args:
        mean, std: numbers.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        This tensor.

    Raises:
        RuntimeError: a negative `std`; a leaf that requires grad.
        NotImplementedError: integers.

    Example:
        >>> gradlib.zeros(2).normal_(3, 0)
        tensor([3., 3.])
    """
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    refuse("normal_kernel_cpu", self, "iub")
    shape, d = self._array.shape, self._array.dtype
    values = draw_new(generator, self.device, draw_scaled, shape, d, mean, std)
    return _fill(self, values, "normal_")


@in_place("bernoulli_")
def bernoulli_(self, p=0.5, *, generator=None):
    """Fill this tensor with ones with a probability, and else with zeros.

    Args:
        p: the probability, a number; or a tensor that broadcasts to this shape with one for each element.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        This tensor.

    Raises:
        RuntimeError: a probability that is not in [0, 1]; a leaf that requires grad.

    Example:
        >>> gradlib.zeros(2).bernoulli_(1.0)
        tensor([1., 1.])
    """
    check_chances(p)
    chance = raw_values(p) if isinstance(p, Tensor) else p
    draws = draw_for(generator, self.device, lambda rng: rng.random(self._array.shape) < chance)
    return _fill(self, draws, "bernoulli_tensor_" if isinstance(p, Tensor) else "bernoulli_")


@in_place("random_")
def random_(self, from_=None, to: Any = ..., *, generator=None, **kw):
    """Fill this tensor with integers in [from, to), all equally probable.

    Args:
        from_: the lower bound; a number alone is `to`, and the lower bound is 0. Also as ``**{"from": ...}``.
        to: the upper bound; without it the largest number that the dtype holds is included.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        This tensor.

    Raises:
        RuntimeError: an empty range, bounds that the dtype does not hold, or a leaf that requires grad.

    Example:
        >>> gradlib.zeros(2).random_(3, 4)
        tensor([3., 3.])
    """
    given = kw.get("from", from_)
    low, name = given or 0, "random_" if given is None and to is ... else "random_from_"
    if to is ... and from_ is not None:
        low, to, name = 0, from_, "random_to_"
    kind = self._array.dtype
    limits = _limits(kind)
    if to is ... or to is None:
        last = (
            limits[1] if limits and kind.kind != "f" else 2 ** (ml_dtypes.finfo(kind).nmant + 1) - 1
        )
        to = min(last, 2**63 - 2) + 1  # a greater one is beyond 64 bits
    check_random_bounds(low, to, kind)
    values = draw_for(generator, self.device, lambda rng: rng.integers(low, to, self._array.shape))
    return _fill(self, values, name)


def _limits(kind) -> tuple[int, int] | None:
    """The least and the greatest integer of a dtype in which numbers beyond are none; None for wide floats."""
    if kind.kind == "b":
        return 0, 1
    if kind.kind in "iu":
        return int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    return (-65504, 65504) if kind == np.float16 else None


def _sampler(name: str, draw, doc: str, check, parameters: str, example: str) -> None:
    def fill(self, *args, generator=None, **kwargs):
        check(self, *args, **kwargs)
        values = draw_for(
            generator, self.device, lambda rng: draw(rng, self._array.shape, *args, **kwargs)
        )
        return _fill(self, values, name)

    fill.__name__ = fill.__qualname__ = name
    fill.__doc__ = f"""Fill this tensor with numbers from {doc}.

Args:
    args, kwargs: {parameters}.
    generator: where the numbers come from; by default that of the device, see `manual_seed`.

Returns:
    This tensor. Nothing is recorded.

Raises:
    RuntimeError: a parameter is out of its range, the dtype cannot hold such numbers, or the tensor is a leaf that
        requires grad.

Example:
    >>> gradlib.zeros(2).{name}({example}).shape
    torch.Size([2])
"""
    in_place(name)(fill)


def _continuous(tensor: Tensor, name: str) -> None:
    if not tensor.is_floating_point():
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {tensor.dtype.scalar_type}"
        )


def _check_exponential(tensor, lambd=1.0):
    _continuous(tensor, "Exponential")
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")


def _check_geometric(tensor, p):
    refuse("geometric_cpu", tensor, "bc")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")


def _check_cauchy(tensor, median=0.0, sigma=1.0):
    _continuous(tensor, "Cauchy")
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")


def _check_log_normal(tensor, mean=1.0, std=2.0):
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    refuse("log_normal_cpu", tensor, "iubc")


_sampler(
    "exponential_",
    lambda r, s, lambd=1.0: r.exponential(1.0 / lambd, s),
    "the exponential distribution",
    _check_exponential,
    "lambd, the rate, above 0; 1 by default",
    "2.0",
)
_sampler(
    "geometric_",
    lambda r, s, p: r.geometric(p, s),
    "the geometric distribution: trials up to the first success",
    _check_geometric,
    "p, the probability of success, in (0, 1)",
    "0.5",
)
_sampler(
    "cauchy_",
    lambda r, s, median=0.0, sigma=1.0: median + sigma * r.standard_cauchy(s),
    "the Cauchy distribution",
    _check_cauchy,
    "median and sigma, above 0; 0 and 1 by default",
    "0.0, 2.0",
)
_sampler(
    "log_normal_",
    lambda r, s, mean=1.0, std=2.0: r.lognormal(mean, std, s),
    "the log-normal distribution",
    _check_log_normal,
    "mean and std, above 0, of the logarithms; 1 and 2 by default",
    "0.0, 1.0",
)
