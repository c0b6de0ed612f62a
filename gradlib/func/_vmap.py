"""vmap: arguments and results; see `op/vmap.py` for what happens in between."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..op.vmap import BatchLevel
from ..op.vmap_texts import Replay
from ..operators.elementwise.cast import clone
from ..operators.shape.join import cat
from ..tape.dtypes import int32
from ..tape.modes import state
from ..tape.pytree import TreeSpec, flatten, spread, unflatten
from ..tape.tensor import Tensor, wrap_dim

BAD_OUT_DIMS = (
    "vmap({}, ..., out_dims={}): `out_dims` must be an int, None or a python collection of ints representing where in "
    "the outputs the vmapped dimension should appear."
)


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """`func` as a function on batches: it acts on each entry of a dimension of its arguments.

    Args:
        func: takes tensors without the batch dimension, in any nesting of tuples, lists and dicts, and returns such.
            It sees one entry at a time, so ``.item()``, ``if tensor:`` and results whose shape depends on values
            are refused.
        in_dims: the dimension of each positional argument that is the batch: an int (negative ones count from the
            end), None for an argument that all entries share, or a tuple with one of these (or a structure like that
            of the argument) for each argument. Keyword arguments are shared.
        out_dims: where the batch dimension is put in each result; None for a result that is the same for all.
        randomness: "error" refuses random operations, "different" draws anew for each entry, "same" gives all
            entries the same numbers.
        chunk_size: no more entries than this at a time.

    Returns:
        The function on batches. For arguments of shape ``(B, *)`` its results have shape ``(B, *)``.

    Raises:
        ValueError: `in_dims` or `out_dims` do not fit, sizes differ, or a result is no tensor.
        RuntimeError: `randomness` is unknown, or the function does what cannot be batched.

    Example:
        >>> gradlib.vmap(gradlib.dot)(gradlib.ones(2, 3), gradlib.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = batch_of(func, in_dims, args)
        if not size:
            return _empty(func, dims, leaves, spec, out_dims, randomness, kwargs)
        run = functools.partial(_run, func, dims, spec, out_dims, kwargs)
        if chunk_size is None:
            return run(BatchLevel(size, randomness), leaves)[0]
        before, replay = state.replay, Replay(state.replay)
        pieces = []
        try:
            for start in range(0, size, chunk_size):
                if randomness == "same":
                    replay.restart()
                    state.replay = replay
                n = min(chunk_size, size - start)
                part = [
                    leaf if d is None else leaf.narrow(d, start, n)
                    for leaf, d in zip(leaves, dims, strict=True)
                ]
                pieces.append(run(BatchLevel(n, randomness), part))
        finally:
            state.replay = before
        return _joined(pieces)

    return wrapped


def name_of(func: Any) -> str:
    """What messages call a function."""
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return repr(func)


def batch_of(func: Any, in_dims: Any, args: tuple) -> tuple[int, list, list, TreeSpec]:
    """Size of the batch, the batch dimension and value of each leaf of the arguments, their structure."""
    name = name_of(func)
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = flatten(args)
    dims = spread(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    sizes = []
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{where}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{where}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        n = leaf.dim()
        if not -n <= dim < n:
            raise ValueError(
                f"{where}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {n} so expected "
                f"in_dim to satisfy -{n} <= in_dim < {n}."
            )
        dims[i] = dim % n
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], dims, leaves, spec


def _run(
    func, dims, spec, out_dims, kwargs: dict, level: BatchLevel, leaves: list
) -> tuple[Any, list]:
    """The results of `func` on all entries, and the batch dimension of each of their leaves."""
    entries = [level.entry(leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    with level.running():
        outs, out_spec = flatten(func(*unflatten(entries, spec), **kwargs))
    found = _out_dims(func, out_dims, outs, out_spec)
    results = [_result(level, func, o, d) for o, d in zip(outs, found, strict=True)]
    return unflatten(results, out_spec), found


def _result(level: BatchLevel, func, value: Any, dim: int | None) -> Any:
    """One result for all entries."""
    name = name_of(func)
    if dim is not None:
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set "
                "out_dims= to None for output?"
            )
        return level.result(value, wrap_dim(dim, value.dim() + 1))
    if isinstance(value, Tensor) and level.part(value)[1]:
        raise ValueError(
            f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
        )
    return level.part(value)[0] if isinstance(value, Tensor) else value


def _out_dims(func, out_dims, outs: list, spec: TreeSpec) -> list:
    """The batch dimension of each leaf of the results."""
    given = flatten(out_dims)[0] if out_dims is not None else []
    if not all(d is None or isinstance(d, int) for d in given):
        raise ValueError(BAD_OUT_DIMS.format(name_of(func), out_dims))
    if spec.type is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    dims = spread(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def _joined(pieces: list) -> Any:
    """The results of several chunks as one: copies, also of one chunk."""
    spec = flatten(pieces[0][0])[1]
    dims = pieces[0][1]
    parts = [flatten(out)[0] for out, _ in pieces]
    joined = []
    for k, d in enumerate(dims):
        column = [part[k] for part in parts]
        if d is None:
            joined.append(column[0])
        else:
            joined.append(cat(column, d) if len(column) > 1 else clone(column[0]))
    return unflatten(joined, spec)


def _stand_in(leaf: Tensor, shape: tuple, dim: int) -> Tensor:
    """What functions accept in the place of entries of `leaf`: matrices with an inverse, pivots that exist."""
    if leaf.dtype is int32:  # what LAPACK counts, from 1
        return leaf.new_ones(shape)
    sizes = [n for d, n in enumerate(shape) if d != dim]
    if len(sizes) < 2 or sizes[-1] != sizes[-2] or not leaf.is_floating_point():
        return leaf.new_zeros(shape)
    eye = leaf.new_ones(sizes[-1]).diag().expand(sizes)
    return eye.unsqueeze(dim).clone()


def _empty(func, dims: list, leaves: list, spec: TreeSpec, out_dims, randomness, kwargs: dict):
    """The results for a batch of size 0: the function is run on zeros and unit matrices to learn their shapes."""
    one = [
        leaf if d is None else _stand_in(leaf, (*leaf.shape[:d], 1, *leaf.shape[d + 1 :]), d)
        for leaf, d in zip(leaves, dims, strict=True)
    ]
    out, found = _run(func, dims, spec, out_dims, kwargs, BatchLevel(1, randomness), one)
    outs, out_spec = flatten(out)
    return unflatten(
        [o if d is None else o.narrow(d, 0, 0) for o, d in zip(outs, found, strict=True)], out_spec
    )
