"""The Jacobians that gradcheck compares: by finite differences, by backward, and by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..operators.create.filled import empty_like, zeros_like
from ..tape.arrays import backend_of
from ..tape.device import beside
from ..tape.tensor import Tensor, to_host
from . import forward_ad
from .differentiate import Rows


class GradcheckError(RuntimeError):
    """What :func:`gradcheck` and :func:`gradgradcheck` raise when gradients are wrong; a RuntimeError.

    The message has both Jacobians and, where it finds one, the likely cause: a factor, a sign, a transposition.

    Example:
        >>> class Wrong(gradlib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 3
        >>> x = gradlib.ones(2, dtype=gradlib.float64, requires_grad=True)
        >>> try:
        ...     gradlib.autograd.gradcheck(Wrong.apply, x)
        ... except GradcheckError as error:
        ...     print(str(error).splitlines()[-1])
        The analytical gradient is off by a factor of 1.5.
    """

    __module__ = "gradlib.autograd.gradcheck"


class Options:
    """The options of one check."""

    def __init__(self, **options: Any):
        self.eps, self.atol, self.rtol, self.nondet_tol = 1e-6, 1e-5, 1e-3, 0.0
        self.undefined, self.dtypes, self.batched, self.batched_forward = True, False, False, False
        self.forward, self.backward, self.fast = False, True, False
        self.__dict__.update(options)

    def close(self, a: np.ndarray, b: np.ndarray) -> bool:
        return np.allclose(a, b, rtol=self.rtol, atol=self.atol)


NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.\n\n"
    "If the difference is only rounding, because sums are computed in another order each time, set nondet_tol."
)


def random_gradient(out: Tensor, scattered: bool) -> Tensor:
    """A random gradient for `out`, that requires grad."""

    values = np.random.default_rng(out.numel()).standard_normal((2, *out.shape, 2))
    array = values[0] + 1j * values[1] if out.is_complex() else values[0]
    made = empty_like(out)
    layout = made._array
    with beside(layout):
        if scattered and out.dim():
            made = Tensor._make(backend_of(layout).zeros((*out.shape, 2), layout.dtype)[..., 0])
        made._array[...] = to_device(array[..., 0].astype(layout.dtype), layout)
    return made.requires_grad_()


def to_device(array: np.ndarray, like):

    return array if like.__class__ is np.ndarray else backend_of(like).to_backend(array)


def as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable_outputs(result: Any, like: tuple | None = None) -> tuple[Tensor, ...]:
    """The outputs that require grad; for another run of the same function, those in the same places."""
    outs = tuple(o for o in as_tuple(result) if o.requires_grad)
    if like is not None and len(outs) == len(like):
        for a, b in zip(outs, like, strict=True):
            for what in ("shape", "dtype"):
                assert getattr(a, what) == getattr(b, what), (
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed, but got: "
                    f"{what}s {getattr(a, what)} and {getattr(b, what)}."
                )
    return outs


def host_values(outs: tuple) -> list[np.ndarray]:
    """Copies on the host, since outputs may alias inputs."""
    return [np.array(to_host(o._array), dtype=wide_dtype(o)) for o in outs]


def wide_dtype(tensor: Tensor):
    return np.complex128 if tensor.is_complex() else np.float64


def slopes_along(
    run: Callable, tensor: Tensor, options: Options
) -> Iterator[tuple[int, complex, list[np.ndarray]]]:
    """For each element of an input (times 1, and for complex ones 1j): the derivatives of all outputs along it."""
    array, eps = tensor._array, options.eps
    for k, index in enumerate(np.ndindex(*array.shape)):
        for unit in (1, 1j) if tensor.is_complex() else (1,):
            yield k, unit, slope_along(run, array, index, unit * eps, eps)


def slope_along(run: Callable, array, where, step, eps: float) -> list[np.ndarray]:
    """Derivatives of the outputs when ``array[where]`` moves along `step`."""
    with beside(array):
        old = array[where].copy()
        try:
            array[where] = old + step
            ahead = host_values(run())
            array[where] = old - step
            behind = host_values(run())
        finally:
            array[where] = old
    return [(a - b) / (2 * eps) for a, b in zip(ahead, behind, strict=True)]


def numerical_jacobians(
    run: Callable, tensor: Tensor, outputs: tuple, options: Options
) -> list[np.ndarray]:
    """For each output the derivatives, with shape (elements of the input, units, elements of the output)."""
    units = 2 if tensor.is_complex() else 1
    found = [np.zeros((tensor.numel(), units, o.numel()), wide_dtype(o)) for o in outputs]
    for k, unit, slopes in slopes_along(run, tensor, options):
        for jacobian, slope in zip(found, slopes, strict=True):
            jacobian[k, int(unit == 1j)] = slope.reshape(-1)
    return found


def as_gradient(slopes: np.ndarray) -> np.ndarray:
    """dL/dx + j dL/dy for the real function that `slopes` belongs to."""
    return slopes[:, 0] + 1j * slopes[:, 1] if slopes.shape[1] == 2 else slopes[:, 0]


def one_hot(out: Tensor, index: int, value) -> Tensor:

    vector = zeros_like(out)
    with beside(vector._array):
        vector._array[np.unravel_index(index, out.shape)] = value
    return vector


def backward_column(
    rows: Rows, inputs: list[Tensor], vector: Tensor, options: Options
) -> list[np.ndarray]:
    """The vector-Jacobian products for one output, flattened."""
    result = []
    for t, g in zip(inputs, rows(vector), strict=True):
        if g is None:
            result.append(np.zeros(t.numel(), wide_dtype(t)))
            continue
        if options.dtypes and g.dtype != t.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
        if g.shape != t.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        result.append(np.array(to_host(g.to_dense()._array), wide_dtype(t)).reshape(-1))
    return result


def analytical_jacobians(
    out: Tensor, inputs: list[Tensor], unit, options: Options
) -> list[np.ndarray]:
    """For each input the Jacobian of ``Re(conj(unit) * out)``; backward runs twice, and must give the same."""
    found = [np.zeros((t.numel(), out.numel()), wide_dtype(t)) for t in inputs]
    worst, rows = 0.0, Rows(out, inputs, False)
    for j in range(out.numel()):
        vector = one_hot(out, j, unit)
        columns = backward_column(rows, inputs, vector, options)
        for jacobian, column, again in zip(
            found, columns, backward_column(rows, inputs, vector, options), strict=True
        ):
            jacobian[:, j] = column
            if column.size:
                worst = max(worst, float(np.abs(column - again).max()))
    if worst > options.nondet_tol:
        raise GradcheckError(NOT_REENTRANT.format(options.nondet_tol))
    return found


def part_of(slopes: Any, unit) -> np.ndarray:
    return slopes.imag if unit == 1j else slopes.real


def unit_vector(draw: np.random.Generator, tensor: Tensor, of_part: bool = False) -> np.ndarray:
    """A random direction in the space of `tensor`, or in that of its real part."""
    vector = draw.standard_normal(tensor.shape)
    if tensor.is_complex() and not of_part:
        vector = vector + 1j * draw.standard_normal(tensor.shape)
    norm = np.linalg.norm(vector)
    return vector / norm if norm else vector


def directions_of(tensor: Tensor, unit, draw, fast: bool) -> Iterator[np.ndarray]:
    """A random direction (of the part that `unit` says), or that of each element."""
    if fast:
        yield unit_vector(draw, tensor, of_part=True) * unit
        return
    for index in np.ndindex(*tensor.shape):
        step = np.zeros(tensor.shape, wide_dtype(tensor))
        step[index] = unit
        yield step


def tangents_along(
    func: Callable, inputs: tuple, position: int, direction, options: Options
) -> list[np.ndarray]:
    """The tangents of the outputs for one input moving along `direction`."""

    with forward_ad.dual_level():
        given = [t.detach() if isinstance(t, Tensor) and t.requires_grad else t for t in inputs]
        kept = [isinstance(t, Tensor) and t.requires_grad for t in inputs]
        given[position] = forward_ad.make_dual(given[position], Tensor._make(direction))
        for t, flag in zip(given, kept, strict=True):
            if flag:
                t.requires_grad_()
        found = []
        for out in differentiable_outputs(func(*given)):
            tangent = forward_ad.unpack_dual(out).tangent
            if tangent is None:
                found.append(np.zeros(out.shape, wide_dtype(out)))
                continue
            if tangent.dtype != out.dtype and options.dtypes:
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
            found.append(np.array(to_host(tangent._array), wide_dtype(out)))
    return found
