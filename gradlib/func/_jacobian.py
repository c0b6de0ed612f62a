"""Jacobians and Hessians of functions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from ..operators.create.filled import zeros
from ..operators.create.ranges import eye
from ..tape.pytree import flatten, unflatten
from ..tape.tensor import Tensor
from ._grad import chosen, jvp, outside_inference, positions_of, replaced, vjp
from ._vmap import vmap


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """The Jacobian of `func` by reverse mode: one backward for each element of its output.

    Args:
        func: returns tensors, in any nesting; or (those, aux) with `has_aux`.
        argnums: the position(s) of the argument(s) to differentiate with respect to.
        has_aux: also return what `func` returns beside its result.
        chunk_size: no more rows than this at a time.

    Returns:
        A function that returns, in the structure of the output, for each of its leaves the derivatives in the
        structure of the argument (a tuple of those if `argnums` is a tuple), of shape ``output.shape + input.shape``.

    Raises:
        ValueError: `chunk_size` is not positive.
        RuntimeError: the output has leaves that are no tensors, or `argnums` does not fit.

    Example:
        >>> gradlib.func.jacrev(gradlib.sin)(gradlib.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    @outside_inference
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = positions_of(argnums, len(args))

        def partial(*values: Any) -> Any:
            return func(*replaced(args, places, values), **kwargs)

        found = vjp(partial, *(args[i] for i in places), has_aux=has_aux)
        outs, out_spec = flatten(found[0])
        inputs, in_spec = flatten(chosen(args, argnums))
        rows = [_rows(found[1], outs, k, out_spec, inputs, chunk_size) for k in range(len(outs))]
        jacobian = unflatten([unflatten(r, in_spec) for r in rows], out_spec)
        return (jacobian, found[2]) if has_aux else jacobian

    return wrapper


def _rows(
    vjp_fn: Callable, outs: list, k: int, out_spec, inputs: list, chunk_size: int | None
) -> list[Tensor]:
    """The derivatives of output `k` with respect to each input."""
    out = outs[k]
    n = out.numel()
    if not n:
        return [x.new_zeros((*out.shape, *x.shape)) for x in inputs]
    basis = _basis(out)
    others = [o.new_zeros(o.shape) for o in outs]

    def pull(row: Tensor) -> list[Tensor]:
        seeds = [*others[:k], row.reshape(out.shape), *others[k + 1 :]]
        return flatten(vjp_fn(unflatten(seeds, out_spec)))[0]

    pulled = vmap(pull, chunk_size=chunk_size)(basis)
    return [p.reshape((*out.shape, *x.shape)) for p, x in zip(pulled, inputs, strict=True)]


def _basis(tensor: Tensor) -> Tensor:
    """The unit vectors of the space of `tensor`, as rows."""
    return eye(tensor.numel(), dtype=tensor.dtype, device=tensor.device)


def jacfwd(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable:
    """The Jacobian of `func` by forward mode: one run for each element of its arguments.

    Args:
        func: returns tensors, in any nesting; or (those, aux) with `has_aux`.
        argnums: the position(s) of the argument(s) to differentiate with respect to.
        has_aux: also return what `func` returns beside its result.
        randomness: as in :func:`vmap`, for the runs.

    Returns:
        A function that returns what that of :func:`jacrev` returns.

    Raises:
        RuntimeError: the output has leaves that are no tensors, or `argnums` does not fit.

    Example:
        >>> gradlib.func.jacfwd(gradlib.sin)(gradlib.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    @functools.wraps(func, updated=())
    @outside_inference
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = positions_of(argnums, len(args))
        primals = tuple(args[i] for i in places)
        inputs, spec = flatten(primals)
        aux_kept: list = []

        def push(*vectors: Tensor) -> Any:
            def partial(*values: Any) -> Any:
                return func(*replaced(args, places, values), **kwargs)

            shaped = [v.reshape(x.shape) for v, x in zip(vectors, inputs, strict=True)]
            found = jvp(partial, primals, unflatten(shaped, spec), has_aux=has_aux)
            aux_kept[:] = found[2:]
            return found[1]

        sizes = [x.numel() for x in inputs]
        total = sum(sizes)
        starts = [0, *itertools.accumulate(sizes)]
        basis = []
        for x, start, n in zip(inputs, starts, sizes, strict=False):
            rows = zeros(total, n, dtype=x.dtype, device=x.device)
            rows[start : start + n] = _basis(x)
            basis.append(rows)
        pushed = vmap(push, out_dims=-1, randomness=randomness)(*basis)
        outs, out_spec = flatten(pushed)
        in_spec = flatten(chosen(args, argnums))[1]
        found = []
        for out in outs:
            parts = [
                out.narrow(-1, start, n).reshape((*out.shape[:-1], *x.shape))
                for x, start, n in zip(inputs, starts, sizes, strict=False)
            ]
            found.append(unflatten(parts, in_spec))
        jacobian = unflatten(found, out_spec)
        return (jacobian, aux_kept[0]) if has_aux else jacobian

    return wrapper


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The second derivatives of `func`, by forward mode over reverse mode.

    Args:
        func: returns a tensor, usually a scalar.
        argnums: the position(s) of the argument(s) to differentiate with respect to.

    Returns:
        A function that returns a tensor of shape ``output.shape + input.shape + input.shape`` (nested like the
        argument, twice).

    Example:
        >>> gradlib.func.hessian(lambda x: (x**3).sum())(gradlib.ones(2))
        tensor([[6., 0.],
                [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
