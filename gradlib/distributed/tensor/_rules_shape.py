"""How ops are split that change the shape or the order of dimensions; see `_split`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...tape.sizes import Size
from ._split import Arg, Cut, Label, Split
from ._tables import rule

# -- order -------------------------------------------------------------------------------------------------------------


def _ordered(x: Arg, order: Sequence[int]) -> Split:
    x.labels = tuple(range(x.ndim))
    return Split((order, [x.shape[d] for d in order]), linear=[[x]])


@rule("transpose", "swapaxes", "swapdims", "transpose_")
def _transpose(x: Arg, dim0: int, dim1: int) -> Split:
    order = list(range(x.ndim))
    a, b = x.dim(dim0), x.dim(dim1)
    order[a], order[b] = order[b], order[a]
    return _ordered(x, order)


@rule("t", "T", "mT", "H", "mH", "adjoint")
def _t(x: Arg) -> Split:
    order = list(range(x.ndim))
    return _ordered(x, [*order[:-2], *reversed(order[-2:])])


@rule("permute")
def _permute(x: Arg, *dims: Any) -> Split:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return _ordered(x, [x.dim(d) for d in given])


@rule("movedim", "moveaxis")
def _movedim(x: Arg, source: Any, destination: Any) -> Split:
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    to = {x.dim(b): x.dim(a) for a, b in zip(source, destination)}
    rest = iter([d for d in range(x.ndim) if d not in to.values()])
    return _ordered(x, [to[d] if d in to else next(rest) for d in range(x.ndim)])


# -- shape -------------------------------------------------------------------------------------------------------------


def _sizes(given: tuple) -> list[int]:
    return list(given[0]) if len(given) == 1 and not isinstance(given[0], int) else list(given)


def _reshaped(x: Arg, sizes: list[int]) -> Split:
    """Dimensions are merged and parted in groups of equal size; of each group the first can be cut."""
    total = math.prod(x.shape)
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        sizes = [total // max(known, 1) if n == -1 else n for n in sizes]
    if math.prod(sizes) != total:
        raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {total}")
    before: list[Label] = [None] * x.ndim
    after: list[Label] = [None] * len(sizes)
    even, label = [], 0
    for old, new in _groups(list(x.shape), sizes):
        first, start = _first(x.shape, old), _first(sizes, new)
        if first is None or start is None:
            continue
        before[first] = after[start] = label
        if x.shape[first] != sizes[start]:
            even.append(label)
        label += 1
    x.labels = tuple(before)
    pairs = {k: (x.shape[before.index(k)], sizes[after.index(k)]) for k in even}
    fixed = [k for k, (a, b) in pairs.items() if a % b and b % a]
    shorter = {k: min(pair) for k, pair in pairs.items()}

    def local(args: tuple, kwargs: dict, cut: Cut) -> tuple:
        lengths = [
            n if k is None else _part_of(n, x.shape[before.index(k)], cut.length(k, n))
            for k, n in zip(after, sizes)
        ]
        return (x, lengths), {}

    return Split(
        (after, sizes), linear=[[x]], fixed=fixed, even=shorter, local=local, calls=_reshape
    )


def _part_of(new: int, old: int, part: int) -> int:
    """The length of this rank's part of a dimension that was `old` long, of which it has `part`, and becomes `new`."""
    return part if new == old else new * part // old


def _reshape(x: Any, shape: Any) -> Any:
    return x.reshape(shape)


def _first(shape: Sequence[int], dims: list[int]) -> int | None:
    """The first of some dimensions that is longer than 1."""
    return next((d for d in dims if shape[d] != 1), None)


def _groups(old: list[int], new: list[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions of both shapes that have equally many elements."""
    found, i, j = [], 0, 0
    if 0 in old:
        return found
    while i < len(old) or j < len(new):
        a, b, left, right = [], [], 1, 1
        if i < len(old):
            a, left, i = [i], old[i], i + 1
        if j < len(new):
            b, right, j = [j], new[j], j + 1
        while left != right:
            if left < right and i < len(old):
                a, left, i = [*a, i], left * old[i], i + 1
            elif j < len(new):
                b, right, j = [*b, j], right * new[j], j + 1
            else:
                break
        found.append((a, b))
    return found


@rule("view", "reshape")
def _view(x: Arg, *shape: Any) -> Split:
    if shape and hasattr(shape[0], "is_floating_point"):
        raise NotImplementedError("view of a DTensor as another dtype: take to_local()")
    return _reshaped(x, _sizes(shape))


@rule("view_as", "reshape_as")
def _view_as(x: Arg, other: Arg) -> Split:
    return _reshaped(x, list(other.shape))


@rule("flatten", "ravel")
def _flatten(x: Arg, start_dim: int = 0, end_dim: int = -1) -> Split:
    a, b = x.dim(start_dim), x.dim(end_dim)
    return _reshaped(x, [*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]])


@rule("unflatten")
def _unflatten(x: Arg, dim: int, sizes: Any) -> Split:
    d = x.dim(dim)
    sizes = [x.shape[d] // -math.prod(sizes) if n == -1 else n for n in sizes]
    return _reshaped(x, [*x.shape[:d], *sizes, *x.shape[d + 1 :]])


@rule("unsqueeze")
def _unsqueeze(x: Arg, dim: int) -> Split:
    x.labels = tuple(range(x.ndim))
    at = dim % (x.ndim + 1)
    labels: list[Label] = [*x.labels[:at], None, *x.labels[at:]]
    return Split((labels, [*x.shape[:at], 1, *x.shape[at:]]), linear=[[x]])


@rule("squeeze")
def _squeeze(x: Arg, dim: Any = None) -> Split:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, tuple | list) else [dim]
    gone = [x.dim(d) for d in dims if x.shape[d] == 1]
    x.labels = tuple([None if d in gone else d for d in range(x.ndim)])
    kept = [d for d in range(x.ndim) if d not in gone]

    def local(args: tuple, kwargs: dict, cut: Cut) -> tuple:
        return (x, tuple(gone)), {}  # a part of length 1 stays a dimension

    return Split((kept, [x.shape[d] for d in kept]), linear=[[x]], local=local)


@rule("expand")
def _expand(x: Arg, *sizes: Any) -> Split:
    given = _sizes(sizes)
    ahead = len(given) - x.ndim
    shape = [x.shape[k - ahead] if n == -1 else n for k, n in enumerate(given)]
    x.labels = tuple([ahead + k if n == shape[ahead + k] else None for k, n in enumerate(x.shape)])
    labels = [k if k in x.labels else None for k in range(len(shape))]

    def local(args: tuple, kwargs: dict, cut: Cut) -> tuple:
        return (x, [cut.length(k, n) for k, n in enumerate(shape)]), {}

    return Split((labels, shape), linear=[[x]], local=local)


# -- parts and joins ---------------------------------------------------------------------------------------------------


def parts(x: Arg, dim: int, lengths: list[int] | None) -> Split:
    """Several tensors along a dimension, of these lengths; without it for None."""
    at = x.dim(dim)
    x.labels = tuple(range(x.ndim))
    if lengths is None:
        labels = [d for d in range(x.ndim) if d != at]
        shape = [x.shape[d] for d in labels]
        return Split(*[(labels, shape)] * x.shape[at], fixed=[at], linear=[[x]])
    labels = [None if d == at else d for d in range(x.ndim)]
    shapes = [[n if d == at else x.shape[d] for d in range(x.ndim)] for n in lengths]
    return Split(*[(labels, shape) for shape in shapes], fixed=[at], linear=[[x]])


@rule("split", "split_with_sizes")
def _split(
    x: Arg, split_size: Any = None, dim: int = 0, split_size_or_sections: Any = None
) -> Split:
    step = split_size if split_size is not None else split_size_or_sections
    n = x.shape[x.dim(dim)]
    if isinstance(step, int):
        lengths = [min(step, n - k) for k in range(0, n, step)] or [0]
    else:
        lengths = list(step)
    return parts(x, dim, lengths)


@rule("chunk")
def _chunk(x: Arg, chunks: int, dim: int = 0) -> Split:
    n = x.shape[x.dim(dim)]
    return _split(x, max(-(-n // chunks), 1), dim)


@rule("unbind")
def _unbind(x: Arg, dim: int = 0) -> Split:
    return parts(x, dim, None)


@rule("narrow")
def _narrow(x: Arg, dim: int, start: int, length: int) -> Split:
    return parts(x, dim, [length])


@rule("select")
def _select(x: Arg, dim: int, index: int) -> Split:
    at = x.dim(dim)
    x.labels = tuple(range(x.ndim))
    labels = [d for d in range(x.ndim) if d != at]
    return Split((labels, [x.shape[d] for d in labels]), fixed=[at], linear=[[x]])


@rule("__getitem__")
def _getitem(x: Arg, index: Any) -> Split:
    items = list(index) if isinstance(index, tuple) else [index]
    if any(
        not (i is None or i is ... or isinstance(i, int | slice)) or i is True or i is False
        for i in items
    ):
        raise NotImplementedError(
            "a DTensor is indexed by integers, slices, None and ...: take full_tensor() for others"
        )
    given = sum(i is not None and i is not ... for i in items)
    if ... not in items:
        items.append(...)
    at = items.index(...)
    items[at : at + 1] = [slice(None)] * (x.ndim - given)
    x.labels = tuple(range(x.ndim))
    labels: list[Label] = []
    shape: list[int] = []
    fixed, d = [], 0
    for item in items:
        if item is None:
            labels.append(None)
            shape.append(1)
            continue
        if isinstance(item, slice):
            n = len(range(*item.indices(x.shape[d])))
            whole = item == slice(None)
            labels.append(d if whole else None)
            shape.append(n)
            fixed += [] if whole else [d]
        else:
            fixed.append(d)
        d += 1
    return Split((labels, shape), fixed=fixed, linear=[[x]])


@rule("cat", "concat", "concatenate")
def _cat(tensors: Sequence[Arg], dim: int = 0) -> Split:
    first = tensors[0]
    at = first.dim(dim)
    for arg in tensors:
        arg.labels = tuple(range(arg.ndim))
    shape = [*first.shape]
    shape[at] = sum(arg.shape[at] for arg in tensors)
    return Split((first.labels, shape), fixed=[at], linear=[tensors])


@rule("stack")
def _stack(tensors: Sequence[Arg], dim: int = 0) -> Split:
    first = tensors[0]
    at = dim % (first.ndim + 1)
    for arg in tensors:
        arg.labels = tuple(range(arg.ndim))
    labels: list[Label] = [*first.labels[:at], None, *first.labels[at:]]
    shape = Size([*first.shape[:at], len(tensors), *first.shape[at:]])
    return Split((labels, shape), linear=[tensors])
