"""Random numbers: creation, filling in place, sampling. Results never require grad unless asked for.

All draw from a Generator (`tape/generator.py`); a seed fixes every number of a program.
"""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np

from ...op import spreading
from ...op.expose import PUBLIC, function, need_tensor, refuse_recording
from ...op.plain_numbers import plain_number
from ...op.vmap import all_entries, before_draw, draws
from ...tape import dtypes, errors, handed
from ...tape.arrays import backend_for, backend_of, backend_on
from ...tape.device import CPU, beside
from ...tape.generator import default_generator
from ...tape.interop import host_reads
from ...tape.layout import check_layout, contiguous_format, copy_in, in_order, preserve_format
from ...tape.lazy import raw_values
from ...tape.modes import shared, state
from ...tape.tensor import Tensor, to_host
from ..create.base import asked, finish, pinned_copy, place, sizes
from ..kinds import refuse, unsupported


def rng_of(generator, where=CPU) -> Any:
    """The array-library generator to draw from, for numbers on the device `where`."""
    if where.type == "meta":  # numbers without values need no generator
        return backend_on(where).rng
    if generator is None:
        if where.type == "cpu":
            generator = default_generator
        else:
            generator = handed.device_generator(where)
    elif generator.device.type != where.type:
        raise RuntimeError(
            f"Expected a '{where.type}' device type for generator but found '{generator.device.type}'"
        )
    if shared.batches:
        before_draw(generator)
    return generator.rng


def draw_for(generator, where, draw) -> Any:
    """``draw(rng)`` with the generator for the device `where`, and that device current."""
    rng = rng_of(generator, where)
    if where.type == "cpu":
        try:
            return draw(rng)
        except (MemoryError, ValueError) as exc:
            raise (errors.allocation(exc) or exc) from None
    with rng.current():
        return draw(rng)


def as_array(values) -> Any:
    """A raw array; NumPy draws single numbers as scalars."""
    return (
        values
        if hasattr(values, "ndim") and not isinstance(values, np.generic)
        else np.asarray(values)
    )


def _on_host(rng) -> Any:
    """A generator on the host for what only NumPy can draw."""
    return rng if isinstance(rng, np.random.Generator) else rng.host()


def _uniform(rng, shape, d, low=0.0, high=1.0):
    """Uniform numbers in [low, high) as a raw array of NumPy dtype `d`."""
    if d.kind == "c":
        part = np.dtype(np.float32 if d.itemsize == 8 else np.float64)
        return _uniform(rng, shape, part, low, high) + 1j * _uniform(rng, shape, part, low, high)
    native = d if d in (dtypes.float32.np, dtypes.float64.np) else np.dtype(np.float32)
    values = as_array(rng.random(shape, dtype=native))
    spreading.met(values.size)
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
    values = as_array(rng.standard_normal(shape, dtype=native))
    spreading.met(values.size)
    return values if native is d else values.astype(d)


def _check_drawn(d, label: str) -> None:
    if d.kind not in "fcV" or d.names is not None:
        raise unsupported(label, d)


def _factory(name: str, draw, doc: str, label: str):
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
        if layout is not None:
            check_layout(layout)
        if shared.batches and state.batch is not None:
            given = {
                "generator": generator, "out": out, "dtype": dtype, "layout": layout, "device": device,
                "requires_grad": requires_grad, "pin_memory": pin_memory, "names": names, **kw,
            }  # fmt: skip
            return state.batch.draw(make, size, given)
        if "size" in kw:
            size = (kw["size"],)
        xp, d, target = place(dtype, device, out=out)
        _check_drawn(d, label)
        shape = sizes(size)
        try:
            values = draw_for(generator, target, lambda rng: draw(rng, shape, d))
        except Exception:
            errors.check_room(xp, shape, d.itemsize)
            raise
        values = _at(values, target)
        return finish(pinned_copy(values) if pin_memory else values, requires_grad, out)

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
        if layout is not None:
            check_layout(layout)
        if asked(input):
            return shared.subclasses.made(like, input, dtype=dtype, device=device)
        if shared.batches and state.batch is not None:
            given = {
                "dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad,
                "memory_format": memory_format, "generator": generator,
            }  # fmt: skip
            return state.batch.draw(like, (input,), given)
        _, d, target = place(dtype, device, input)
        _check_drawn(d, label)
        values = draw_for(generator, target, lambda rng: draw(rng, input._array.shape, d))
        return finish(_laid_out(_at(values, target), input, memory_format), requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A tensor of the given size filled with {doc}.

Args:
    size: ints, or one sequence of them; without any the tensor has no dimension.
    generator: where the numbers come from; by default that of the device, see `manual_seed`.
    out: a tensor to write to, which gets this size.
    dtype, device: the default ones if None.
    layout: accepted; all tensors are strided.
    requires_grad: whether the new leaf requires grad.
    pin_memory: whether it lies in page-locked memory.

Returns:
    A leaf, or `out`.

Raises:
    RuntimeError: a negative size.
    NotImplementedError: integer dtypes.

Example:
    >>> gradlib.{name}(2, 3).shape
    torch.Size([2, 3])
"""
    like.__name__ = like.__qualname__ = name + "_like"
    like.__doc__ = f"""A tensor of the size of `input` filled with {doc}.

Args:
    input: a tensor.
    dtype, device: those of `input` if None.
    layout: accepted as in ``{name}``.
    requires_grad: whether the new leaf requires grad.
    memory_format: the order of strides; by default (`preserve_format`) that of `input`.
    generator: where the numbers come from; by default that of the device, see `manual_seed`.

Returns:
    A leaf.

Raises:
    NotImplementedError: integer dtypes.

Example:
    >>> gradlib.{name}_like(gradlib.zeros(2, 3)).shape
    torch.Size([2, 3])
"""
    PUBLIC[name], PUBLIC[name + "_like"] = make, like
    return make, like


def _laid_out(array, input: Tensor, wanted):
    """A row-major array in the memory format `wanted`; by default with its strides in the order of those of `input`."""
    if wanted is not None and wanted != preserve_format:
        if wanted == contiguous_format:
            return array
        with beside(array):
            return copy_in(backend_of(array), array, wanted)
    like = input._array
    if like.flags.c_contiguous:
        return array
    with beside(array):
        return in_order(backend_of(array), array, (like,))


def _at(array, target):
    """A host array on the device asked for."""
    if target.type == "cpu":
        return array

    return backend_for(target.type).to_backend(as_array(array), target)


rand, rand_like = _factory("rand", _uniform, "uniform numbers in [0, 1)", "check_uniform_bounds")
randn, randn_like = _factory("randn", _normal, "standard normal numbers", "normal_kernel_cpu")


def check_random_bounds(low: int, high: int, d: np.dtype) -> None:
    """RuntimeError unless integers in [low, high) exist, and have a place in the NumPy dtype `d`."""
    if high <= low:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    kind = dtypes.from_np(d)
    if kind.is_complex:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    if kind is dtypes.bool_:
        lowest, highest = 0, 1
    else:
        info = dtypes.iinfo(kind) if kind.category == dtypes.INTEGER else dtypes.finfo(kind)
        lowest, highest = info.min, info.max
    for which, number in (("from", low), ("to - 1", high - 1)):
        if not lowest <= number <= highest:
            name = errors.C_TYPES.get(kind.name, kind.name)
            raise RuntimeError(f"{which} is out of bounds for {name}")


@function("randint")
@draws
def randint(
    low=None,
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
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Raises RuntimeError: `low` is not below `high`, or the dtype does not hold them.

    Example:
        >>> gradlib.randint(10, (2, 3)).shape
        torch.Size([2, 3])
    """
    if layout is not None:
        check_layout(layout)
    if size is None:
        high, size = None, high
    if high is None:
        low, high = 0, low
    low = 0 if low is None else low
    if isinstance(size, int) or size is None:
        raise TypeError(
            f"randint(): argument 'size' (position 2) must be tuple of ints, not {type(size).__name__}"
        )
    for which, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not hasattr(bound, "__index__"):
            raise TypeError(
                f"randint(): argument '{which}' must be int, not {type(bound).__name__}"
            )
    low, high = operator.index(low), operator.index(high)
    xp, d, target = place(dtype or (dtypes.int64 if out is None else None), device, out=out)
    check_random_bounds(low, high, d)
    shape = sizes((size,))
    errors.check_room(xp, shape, d.itemsize)
    values = draw_for(generator, target, lambda rng: rng.integers(low, high, shape, dtype=np.int64))
    with beside(values):
        values = as_array(values).astype(d)
    return finish(_at(values, target), requires_grad, out)


@function("randint_like")
@draws
def randint_like(
    input,
    low=None,
    high=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """Integers in [low, high) in a tensor of the size of `input`.

    Args:
        input: a tensor.
        low, high: the bounds; a single number is `high`, and `low` is 0.
        dtype, device: those of `input` if None.
        layout: accepted as in ``randint``.
        requires_grad: whether the new leaf requires grad.
        memory_format: the order of strides; by default that of `input`.

    Returns:
        A leaf.

    Raises:
        RuntimeError: an empty range.

    Example:
        >>> gradlib.randint_like(gradlib.zeros(3), 1)
        tensor([0., 0., 0.])
    """
    if layout is not None:
        check_layout(layout)
    if high is None:
        low, high = 0, low
    out = randint(low, high, input.shape, dtype=dtype or input.dtype, device=device or input.device)
    out._array = _laid_out(out._array, input, memory_format)
    return out.requires_grad_(requires_grad)


def _check_permutation(n: int, kind) -> None:
    """The errors for 0..n-1 in a dtype that has not so many whole numbers."""
    dtype = dtypes.BY_NP[kind]
    if kind.kind in "bc":
        raise unsupported("randperm", kind)
    if kind.kind in "iu":
        plain_number(max(n - 1, 0), dtype)
        return
    digits = ml_dtypes.finfo(kind).nmant + 1
    if n > 2**digits + 1:
        last = str(2**digits + 1) if digits < 20 else f"2^{digits}+1"
        raise RuntimeError(f"n cannot be greater than {last} for {dtype.scalar_type} type.")


@function("randperm")
@draws
def randperm(
    n,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A random permutation of 0..n-1.

    Raises RuntimeError: a negative `n`, or one whose numbers the dtype cannot tell apart. NotImplementedError: bool or
    complex.

    Example:
        >>> gradlib.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    if layout is not None:
        check_layout(layout)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    _, d, target = place(dtype or (dtypes.int64 if out is None else None), device, out=out)
    _check_permutation(n, d)
    order = draw_for(generator, target, lambda rng: rng.permutation(n).astype(d))
    return finish(_at(order, target), requires_grad, out)


@function("normal")
@draws
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
    """Normally distributed numbers.

    Args:
        mean, std: tensors whose shapes broadcast, or numbers; one of each element, or of all.
        size: the shape of the result, where both are numbers.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.
        dtype, layout, device, requires_grad: as of ``zeros``, where both are numbers.
        out: written to instead of a new tensor.

    Returns:
        A tensor; nothing is recorded.

    Raises:
        RuntimeError: a negative `std`.

    Example:
        >>> gradlib.normal(gradlib.tensor([1.0, 2.0]), 0.0)
        tensor([1., 2.])
    """
    if layout is not None:
        check_layout(layout)
    if size is not None:
        _check_std(std)
        _, d, target = place(dtype, device, out=out)
        _check_drawn(d, "normal_kernel_cpu")
        values = draw_for(
            generator,
            target,
            lambda rng: _normal(rng, sizes((size,)), d) * d.type(std) + d.type(mean),
        )
        return finish(_at(as_array(values).astype(d, copy=False), target), requires_grad, out)
    some: Any = mean if isinstance(mean, Tensor) else std
    if not isinstance(some, Tensor):
        raise need_tensor("normal", mean, "mean")
    _check_std(std)
    _check_drawn(some._array.dtype, "normal_kernel_cpu")
    arrays = [t.detach() if isinstance(t, Tensor) else t for t in (mean, std)]
    shapes = [t._array.shape for t in arrays if isinstance(t, Tensor)]
    errors.check_broadcast(shapes[0], shapes[-1])
    wide, d = np.broadcast_shapes(*shapes), some._array.dtype
    noise = finish(
        _at(draw_for(generator, some.device, lambda rng: _normal(rng, wide, d)), some.device)
    )
    values = (noise * arrays[1] + arrays[0])._array
    with beside(values):
        values = values.astype(d, copy=False)
    refuse_recording("normal", out, mean, std)
    return finish(values, out=out)


def _hold(name: str, x: Tensor, test) -> bool:
    """Whether a test of raw numbers holds for all elements of an argument of the function `name`."""
    host_reads(name, x)
    array = raw_values(all_entries(x))
    with beside(array):
        return bool(test(array).all())


def _check_std(std) -> None:
    """RuntimeError for a negative standard deviation."""
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if not _hold("normal", std, lambda array: array >= 0):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def _check_chances(chance) -> None:
    """RuntimeError unless all probabilities are in [0, 1]."""
    if isinstance(chance, Tensor) and chance.is_meta:
        return
    if isinstance(chance, Tensor):
        if not _hold("bernoulli", chance, lambda array: (array >= 0) & (array <= 1)):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    elif not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")


@function("bernoulli", method=True)
@draws
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability `p` (or the element of `input`), else 0; not differentiable.

    Raises RuntimeError: a probability outside of [0, 1].

    Example:
        >>> gradlib.bernoulli(gradlib.ones(2))
        tensor([1., 1.])
    """
    if not isinstance(input, Tensor):
        raise need_tensor("bernoulli", input)
    if p is None:
        refuse("bernoulli_tensor_cpu_p_", input, "biuc")
    chance = input if p is None else p
    _check_chances(chance)
    draws = draw_for(generator, input.device, lambda rng: rng.random(input._array.shape))
    below = raw_values(chance) if isinstance(chance, Tensor) else chance
    with beside(draws):
        values = (draws < below).astype(input._array.dtype)
    refuse_recording("bernoulli", out, input, p)
    return finish(values if out is None else values.astype(out._array.dtype), out=out)


@function("poisson")
@draws
def poisson(input, generator=None):
    """Poisson distributed numbers.

    Args:
        input: the rates, a floating tensor with elements of 0 or more.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        A tensor of the same shape and dtype; its gradient is 0.

    Raises:
        RuntimeError: a negative rate.

    Example:
        >>> gradlib.poisson(gradlib.zeros(2))
        tensor([0., 0.])
    """
    refuse("poisson_cpu", input, "biuc")
    host_reads("poisson", input)
    rates = to_host(input._array)
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rng = draw_for(generator, input.device, _on_host)
    values = np.asarray(rng.poisson(rates.astype(np.float64))).astype(rates.dtype)
    return finish(_at(values, input.device))


@function("binomial")
@draws
def binomial(count, prob, generator=None):
    """Numbers of successes in independent trials.

    Args:
        count: how many trials, a floating tensor.
        prob: the probability of success, a tensor of that dtype that broadcasts with `count`.
        generator: where the numbers come from; by default that of the device, see `manual_seed`.

    Returns:
        A tensor of the shape that both broadcast to; its gradient is 0.

    Raises:
        RuntimeError: the shapes do not broadcast, or the dtypes differ.
        ValueError: integers, or a probability outside of [0, 1].

    Example:
        >>> gradlib.binomial(gradlib.tensor([3.0, 4.0]), gradlib.tensor([1.0, 0.0]))
        tensor([3., 0.])
    """
    kinds = []
    for i, (name, t) in enumerate((("count", count), ("prob", prob))):
        if not isinstance(t, Tensor):
            raise need_tensor("binomial", t, name, i + 1)
        kinds.append(t.dtype.scalar_type)
        if not t.is_floating_point():
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {kinds[-1]}"
            )
        host_reads("binomial", t)
    errors.check_broadcast(count._array.shape, prob._array.shape)
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"Found dtype {kinds[1]} but expected {kinds[0]}")
    trials, chances = np.broadcast_arrays(*(to_host(t._array) for t in (count, prob)))
    rng = draw_for(generator, count.device, _on_host)
    values = rng.binomial(trials.astype(np.int64), chances.astype(np.float64))
    return finish(_at(np.asarray(values).astype(trials.dtype), count.device))


@function("multinomial", method=True)
@draws
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable.

    Raises RuntimeError: negative, infinite or nan weights, a row without weight, or more draws than entries.

    Example:
        >>> gradlib.multinomial(gradlib.tensor([0.0, 1.0]), 1)
        tensor([1])
    """
    if not input.is_floating_point():
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            + input.dtype.scalar_type
        )
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_type}")
    host_reads("multinomial", input)
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
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    rng = draw_for(generator, input.device, _on_host)
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
