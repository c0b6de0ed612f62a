"""How numbers are drawn: the generator for a device, and raw arrays where and as they are asked for.

All draw from a Generator (`tape/generator.py`); a seed fixes every number of a program. Results never require grad
unless asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op.vmap import all_entries, before_draw
from ...tape import errors, handed
from ...tape.arrays import backend_for, backend_of, backend_on
from ...tape.device import CPU, beside
from ...tape.generator import default_generator
from ...tape.interop import host_reads
from ...tape.layout import contiguous_format, copy_in, in_order, preserve_format
from ...tape.lazy import raw_values
from ...tape.modes import is_captured, shared, unrecorded
from ...tape.tensor import Tensor, to_host


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


def drawn(draw, *given) -> Any:
    """``draw(rng, *given)`` with the CPU's generator."""
    return draw_for(None, CPU, lambda rng: draw(rng, *given))


def draw_new(generator, where, draw, *given) -> Any:
    """``draw(rng, *given)``, raw numbers of which a tensor is made as they are; a plan draws them again."""
    if shared.active and generator is None and where.type == "cpu":
        return unrecorded(drawn, draw, *given)
    return draw_for(generator, where, lambda rng: draw(rng, *given))


def as_array(values) -> Any:
    """A raw array; NumPy draws single numbers as scalars."""
    return (
        values
        if hasattr(values, "ndim") and not isinstance(values, np.generic)
        else np.asarray(values)
    )


def host_rng(rng) -> Any:
    """A generator on the host for what only NumPy can draw."""
    return rng if isinstance(rng, np.random.Generator) else rng.host()


def laid_out(array, input: Tensor, wanted):
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


def on_device(array, target):
    """A host array on the device asked for."""
    if target.type == "cpu":
        return array

    return backend_for(target.type).to_backend(as_array(array), target)


def looks_at(name: str, x: Tensor) -> None:
    """`host_reads`, by what a plan does again: it need not be told."""
    if not is_captured():
        host_reads(name, x)


def host_values(name: str, x: Tensor) -> Any:
    """The raw values of an argument of the function `name`, for the host to draw with; a plan draws anew."""
    looks_at(name, x)
    return to_host(x._array)


def require(name: str, x: Tensor, test, text: str) -> None:
    """RuntimeError unless a test of raw numbers holds for all elements of an argument of the function `name`."""
    array = raw_values(all_entries(x))
    looks_at(name, x)
    with beside(array):
        unrecorded(_require, array, test, text)


def _require(array, test, text: str) -> None:
    if not test(array).all():
        raise RuntimeError(text)
