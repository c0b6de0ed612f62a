"""Random numbers: creation, filling in place, sampling. Results never require grad unless asked for.

All draw from a Generator (`core/generator.py`); a seed fixes every number of a program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import batching, dtypes
from ..core.generator import default_generator
from ..core.inplace import inplace
from ..core.modes import VMAP, shared, state
from ..core.op import declare
from ..core.tensor import Tensor
from .create import finish, place, sizes
from .expose import PUBLIC, function, method, write_out


def rng_of(generator, tensor_device=None) -> Any:
    """The array-library generator to draw from."""
    generator = generator or default_generator
    if shared.active and state.bits & VMAP:
        batching.draw(generator)
    return generator.rng


def _uniform(rng, shape, d, low=0.0, high=1.0):
    """Uniform numbers in [low, high) as a raw array of NumPy dtype `d`."""
    if d.kind == "c":
        part = np.dtype(np.float32 if d.itemsize == 8 else np.float64)
        return _uniform(rng, shape, part, low, high) + 1j * _uniform(rng, shape, part, low, high)
    native = d if d in (dtypes.float32.np, dtypes.float64.np) else np.dtype(np.float32)
    values = np.asarray(rng.random(shape, dtype=native))
    if (low, high) != (0.0, 1.0):
        values = values * native.type(high - low) + native.type(low)
    return values if native is d else values.astype(d)


def _normal(rng, shape, d):
    """Standard normal numbers as a raw array of NumPy dtype `d`; a complex number has variance 1 in all."""
    if d.kind == "c":
        part = np.dtype(np.float32 if d.itemsize == 8 else np.float64)
        half = part.type(np.sqrt(0.5))
        return (_normal(rng, shape, part) * half + 1j * (_normal(rng, shape, part) * half)).astype(
            d
        )
    native = d if d in (dtypes.float32.np, dtypes.float64.np) else np.dtype(np.float32)
    values = np.asarray(rng.standard_normal(shape, dtype=native))
    return values if native is d else values.astype(d)


def _factory(name: str, draw, doc: str):
    def make(
        *size,
        generator=None,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        pin_memory=False,
        names=None,
        **kw,
    ):
        if "size" in kw:
            size = (kw["size"],)
        _, d, target = place(dtype, device, out)
        if d.kind not in "fcV":
            raise RuntimeError(
                f"\"{name}\" not implemented for '{dtypes.from_np(d).tensor_type.removesuffix('Tensor')}'"
            )
        return finish(_at(draw(rng_of(generator), sizes(size), d), target), requires_grad, out)

    def like(
        input,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        memory_format=None,
        generator=None,
    ):
        _, d, target = place(dtype, device, input)
        return finish(_at(draw(rng_of(generator), input._array.shape, d), target), requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of the given size filled with {doc}."
    like.__name__ = like.__qualname__ = name + "_like"
    like.__doc__ = f"A tensor with the size, dtype and device of `input` filled with {doc}; it does not require grad."
    PUBLIC[name], PUBLIC[name + "_like"] = make, like
    return make, like


def _at(array, target):
    """A host array on the device asked for."""
    if target.type == "cpu":
        return array
    from ..backends import backend_for

    return backend_for(target.type).to_backend(np.asarray(array), target)


rand, rand_like = _factory("rand", _uniform, "uniform numbers in [0, 1)")
randn, randn_like = _factory("randn", _normal, "standard normal numbers")


@function("randint")
def randint(
    low,
    high: Any = None,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    if high <= low:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    _, d, target = place(dtype or dtypes.int64, device, out)
    values = rng_of(generator).integers(low, high, sizes((size,)), dtype=np.int64).astype(d)
    return finish(_at(np.asarray(values), target), requires_grad, out)


@function("randint_like")
def randint_like(
    input,
    low,
    high=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """``randint`` with the size, dtype and device of `input`."""
    if high is None:
        low, high = 0, low
    return randint(
        low,
        high,
        input.shape,
        dtype=dtype or input.dtype,
        device=device or input.device,
        requires_grad=requires_grad,
    )


@function("randperm")
def randperm(
    n,
    *,
    generator=None,
    out=None,
    dtype=dtypes.int64,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A random permutation of 0..n-1."""
    _, d, target = place(dtype, device, out)
    return finish(_at(rng_of(generator).permutation(n).astype(d), target), requires_grad, out)


@function("normal")
def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Normal numbers; `mean` and `std` are tensors (elementwise) or numbers with `size`."""
    if size is not None:
        _, d, target = place(dtype, device, out)
        return finish(
            _at(
                np.asarray(
                    _normal(rng_of(generator), sizes((size,)), d) * d.type(std) + d.type(mean), d
                ),
                target,
            ),
            requires_grad,
            out,
        )
    some: Any = mean if isinstance(mean, Tensor) else std
    shape = np.broadcast_shapes(*(t._array.shape for t in (mean, std) if isinstance(t, Tensor)))
    noise = finish(_at(_normal(rng_of(generator), shape, some._array.dtype), some.device))
    value = noise * (std.detach() if isinstance(std, Tensor) else std) + (
        mean.detach() if isinstance(mean, Tensor) else mean
    )
    return write_out(out, value)


@function("bernoulli", method=True)
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability `p` (or the element of `input`), else 0; not differentiable."""
    chance = input._array if p is None else (p._array if isinstance(p, Tensor) else p)
    if (
        p is None
        and input._array.size
        and not bool(((input._array >= 0) & (input._array <= 1)).all())
    ):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    draws = _at(rng_of(generator).random(input._array.shape), input.device)
    return finish((draws < chance).astype(input._array.dtype), out=out)


@function("poisson")
def poisson(input, generator=None):
    """Poisson numbers with the rates in `input`; not differentiable."""
    from ..core.tensor import to_host

    rates = to_host(input._array)
    return finish(
        _at(np.asarray(rng_of(generator).poisson(rates)).astype(rates.dtype), input.device)
    )


@function("multinomial", method=True)
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable."""
    from ..core.tensor import to_host

    weights = to_host(input._array).astype(np.float64)
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    rows = weights.reshape(-1, weights.shape[-1])
    if (rows.sum(1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and ((rows > 0).sum(1) < num_samples).any():
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    rng = rng_of(generator)
    if replacement:
        edges = np.cumsum(rows, 1)
        draws = rng.random((rows.shape[0], num_samples)) * edges[:, -1:]
        found = np.stack(
            [np.searchsorted(e, d, side="right") for e, d in zip(edges, draws, strict=True)]
        )
        found = np.minimum(found, weights.shape[-1] - 1)
    else:  # the smallest of independent exponential clocks with these rates come first
        clocks = rng.exponential(size=rows.shape) / np.where(rows > 0, rows, 1e-300)
        found = np.argsort(clocks, 1)[:, :num_samples]
    return finish(
        _at(found.reshape(*weights.shape[:-1], num_samples).astype(np.int64), input.device), out=out
    )


random_fill = declare(
    "random_fill", lambda xp, self, *, values: xp.asarray(values).astype(self.dtype), jvp="elementwise",
    self=lambda F, g: F.zeros_like(g), samples=lambda t: [(t(3), np.ones(3)), (t(0), np.ones(0))],
)  # fmt: skip


def _fill(tensor: Tensor, values, name: str) -> Tensor:
    """Write drawn values into `tensor` in place; no gradient flows to what it held before."""
    return inplace(random_fill, tensor, (), (_at(np.asarray(values), tensor.device),))


@method()
def uniform_(self, from_=0.0, to=1.0, *, generator=None, **kw):
    """Fill with uniform numbers in [from, to)."""
    low = kw.get("from", from_)
    return _fill(
        self, _uniform(rng_of(generator), self._array.shape, self._array.dtype, low, to), "uniform_"
    )


@method()
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal numbers."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    d = self._array.dtype
    return _fill(
        self,
        _normal(rng_of(generator), self._array.shape, d) * d.type(std) + d.type(mean),
        "normal_",
    )


@method()
def bernoulli_(self, p=0.5, *, generator=None):
    """Fill with 1 with probability p, else 0."""
    chance = p._array if isinstance(p, Tensor) else p
    return _fill(self, rng_of(generator).random(self._array.shape) < chance, "bernoulli_")


@method()
def random_(self, from_=0, to=None, *, generator=None, **kw):
    """Fill with integers in [from, to)."""
    low = kw.get("from", from_)
    if to is None and low and "from" not in kw:
        low, to = 0, low
    if to is None:
        kind = self._array.dtype
        to = (
            2
            if kind.kind == "b"
            else np.iinfo(kind).max
            if kind.kind in "iu"
            else 2 ** (np.finfo(kind).nmant + 1)
        )
    return _fill(self, rng_of(generator).integers(low, to, self._array.shape), "random_")


def _sampler(name: str, draw, doc: str) -> None:
    def fill(self, *args, generator=None, **kwargs):
        return _fill(self, draw(rng_of(generator), self._array.shape, *args, **kwargs), name)

    fill.__name__ = fill.__qualname__ = name
    fill.__doc__ = f"Fill with numbers from {doc}."
    setattr(Tensor, name, fill)


_sampler(
    "exponential_",
    lambda r, s, lambd=1.0: r.exponential(1.0 / lambd, s),
    "the exponential distribution of rate lambd",
)
_sampler(
    "geometric_",
    lambda r, s, p: r.geometric(p, s),
    "the geometric distribution: trials up to the first success",
)
_sampler(
    "cauchy_",
    lambda r, s, median=0.0, sigma=1.0: median + sigma * r.standard_cauchy(s),
    "the Cauchy distribution",
)
_sampler(
    "log_normal_",
    lambda r, s, mean=1.0, std=2.0: r.lognormal(mean, std, s),
    "the log-normal distribution",
)
