"""vmap: arguments and results; `core/batching.py` runs the function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.batched import BatchLevel, Unbatchable
from ..core.batching import Level
from ..core.pytree import TreeSpec, flatten, spread, tree_map, unflatten
from ..core.tensor import Tensor, wrap_dim
from ..ops.cast import clone
from ..ops.join import cat, stack

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
        step = min(chunk_size or size, size)
        drawn: dict = {}  # randomness "same": the random states that each piece begins with
        pieces = []
        for start in range(0, size, step):
            n = min(step, size - start)
            part = leaves if n == size else _piece(leaves, dims, start, n)
            pieces.append(
                _both_ways(n, randomness, drawn, func, dims, part, spec, out_dims, kwargs)
            )
        if len(pieces) > 1:
            return _joined(pieces)
        # what is put together of pieces is a copy, also where there is one piece
        return pieces[0][0] if chunk_size is None else tree_map(clone, pieces[0][0])

    return wrapped


def _piece(leaves: list, dims: list, start: int, n: int) -> list:
    """The arguments of `n` entries."""
    return [
        leaf if d is None else leaf.narrow(d, start, n)
        for leaf, d in zip(leaves, dims, strict=True)
    ]


def _both_ways(
    size: int, randomness: str, drawn: dict, func, dims, leaves, spec, out_dims, kwargs
) -> tuple:
    """The results for a batch, or a piece of one, and the batch dimension of each of their leaves.

    They are those of one run on all entries or, where there cannot be one, of a run for each entry.
    """
    try:
        return _at_once(size, randomness, func, dims, leaves, spec, out_dims, kwargs)
    except Unbatchable:
        pass
    level = Level(size, randomness)
    level.first_states = drawn
    columns = [level.split(leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    return _run(level, func, columns, spec, out_dims, kwargs)


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


def _run(level: Level, func, columns: list, spec: TreeSpec, out_dims, kwargs: dict):
    """The batched results of one chunk, and the batch dimension of each of their leaves."""

    def body(k: int) -> tuple[list, TreeSpec]:
        args = unflatten([c[k] for c in columns], spec)
        return flatten(func(*args, **kwargs))

    results = level.run(body)
    outs, out_spec = results[0]
    dims = _out_dims(func, out_dims, outs, out_spec)
    found = [
        _joined_entries(level, func, values, d)
        for values, d in zip(zip(*(r[0] for r in results), strict=True), dims, strict=True)
    ]
    return unflatten(found, out_spec), dims


def _at_once(size: int, randomness: str, func, dims, leaves, spec, out_dims, kwargs) -> tuple:
    """The results of one run on all entries, and their dimensions; raises Unbatchable if there cannot be one."""
    level = BatchLevel(size, randomness)
    entries = [level.entry(leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    with level.running():
        outs, out_spec = flatten(func(*unflatten(entries, spec), **kwargs))
    found = _out_dims(func, out_dims, outs, out_spec)
    if not all(isinstance(o, Tensor) for o in outs) or None in found:
        raise Unbatchable
    results = [level.result(o, wrap_dim(d, o.dim() + 1)) for o, d in zip(outs, found, strict=True)]
    return unflatten(results, out_spec), found


def _out_dims(func, out_dims, outs: list, spec: TreeSpec) -> list:
    """The batch dimension of each leaf of the results."""
    given = flatten(out_dims)[0] if out_dims is not None else []
    if not all(d is None or isinstance(d, int) for d in given):
        raise ValueError(BAD_OUT_DIMS.format(name_of(func), out_dims))
    if spec.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return list(out_dims)
    dims = spread(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def _joined_entries(level: Level, func, values: tuple, dim: int | None) -> Any:
    """One result of all entries."""
    first, name = values[0], name_of(func)
    if dim is None:
        if isinstance(first, Tensor) and not _shared(level, values):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return first
    for value in values:
        if not isinstance(value, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set "
                "out_dims= to None for output?"
            )
    if all(v is first for v in values):
        dim = wrap_dim(dim, first.dim() + 1)
        shape = (*first.shape[:dim], level.size, *first.shape[dim:])
        return first.unsqueeze(dim).expand(shape).contiguous()
    return stack(list(values), dim)


def _shared(level: Level, values: tuple) -> bool:
    """Whether a result does not depend on the batch."""
    first = values[0]
    return not any(level.mapped(v) for v in values) and all(
        v is first or (v.shape == first.shape and bool((v._array == first._array).all()))
        for v in values
    )


def _joined(pieces: list) -> Any:
    """The results of several chunks as one."""
    spec = flatten(pieces[0][0])[1]
    dims = pieces[0][1]
    columns = zip(*(flatten(p[0])[0] for p in pieces), strict=True)
    return unflatten(
        [c[0] if d is None else cat(list(c), d) for c, d in zip(columns, dims, strict=True)], spec
    )


def _empty(func, dims: list, leaves: list, spec: TreeSpec, out_dims, randomness, kwargs: dict):
    """The results for a batch of size 0: the function is run on zeros to learn their shapes."""
    level = Level(1, randomness)
    columns: list[list] = []
    for leaf, d in zip(leaves, dims, strict=True):
        if d is None:
            columns.append([leaf])
        else:
            shape = (*leaf.shape[:d], 1, *leaf.shape[d + 1 :])
            columns.append(level.split(leaf.new_zeros(shape), d))
    out, found = _run(level, func, columns, spec, out_dims, kwargs)
    outs, out_spec = flatten(out)
    return unflatten(
        [o if d is None else o.narrow(d, 0, 0) for o, d in zip(outs, found, strict=True)], out_spec
    )
