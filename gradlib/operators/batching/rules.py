"""Batching rules: what an op on one entry is for a whole batch, for vmap (`op/vmap.py`).

The declaration of an op names its rule: ``batch="same_rank"``.

A rule is ``rule(level, op, args, attrs)``: `args` are the op's tensor arguments as the function sees them (numbers and
None among them), `level.part(a)` gives a physical tensor and whether it has the batch as its first dimension. It
returns the physical result, or a tuple of results, with the batch first. An op without a rule runs for each entry.
"""

from __future__ import annotations

import math
import string
from typing import Any

from numpy import ndarray

from ...op.declare import REGISTRY
from ...op.vmap import Logical, one_by_one
from ...op.vmap_texts import MASK, OUTSIDE, PLACES
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from ..shape import reshape as _shape  # noqa: F401  # declares reshape


def call(name: str, *args: Any) -> Any:
    return REGISTRY[name].call(*args)


def _tensors(args: tuple) -> list[Tensor]:
    return [a for a in args if isinstance(a, Tensor)]


# -- elementwise -------------------------------------------------------------------------------------------------------


def aligned(level, args: tuple) -> list:
    """Physical arguments whose dimensions line up when they broadcast: the batch in front of the longest."""
    longest = max([a._array.ndim for a in args if isinstance(a, Tensor)])
    out = []
    for a in args:
        physical, batched = level.part(a)
        if batched and a._array.ndim < longest:
            physical = _widened(physical, longest - a._array.ndim)
        out.append(physical)
    return out


def _widened(physical: Tensor, n: int) -> Tensor:
    """A tensor with `n` dimensions of size 1 after its first one."""
    if n == 1:
        return call("unsqueeze", physical, 1)
    shape = physical._array.shape
    return call("view", physical, (shape[0], *(1,) * n, *shape[1:]))


def alike(level, args: tuple) -> list:
    """The same for kernels that do not broadcast: arguments of one shape have one shape physically, too."""
    shapes = {a._array.shape for a in _tensors(args)}
    return (
        [level.full(a) if isinstance(a, Tensor) else a for a in args]
        if len(shapes) == 1
        else aligned(level, args)
    )


def elementwise(level, op, args, attrs):
    return op.call(*(aligned if op.ufunc else alike)(level, args), *attrs)


def fill(level, op, args, attrs):
    return op.call(level.full(args[0]), *attrs)


# -- dimensions --------------------------------------------------------------------------------------------------------

_DIMS = {"dim", "dims", "dim0", "dim1", "dim2"}
_SIZES = {"shape", "size"}


def shifted(level, op, attrs: tuple, ndim: int) -> list:
    """Attributes of an op on tensors with `ndim` dimensions, for tensors with the batch in front."""
    out = []
    for name, value in zip(op.attrs, attrs, strict=True):
        if name in _DIMS and isinstance(value, int):
            value = value % ndim + 1
        elif name in _DIMS and isinstance(value, (tuple, list)):
            value = tuple(d % ndim + 1 for d in value)
        elif name in _SIZES and isinstance(value, tuple):
            value = (level.size, *value)
        out.append(value)
    return out


def same_rank(level, op, args, attrs):
    """Ops that name dimensions: these move by one. All arguments have the rank of the first, or of the result."""
    ndim = _rank(op, args, attrs)
    if not ndim or any(
        value is None or value == ()
        for name, value in zip(op.attrs, attrs, strict=True)
        if name in _DIMS
    ):
        return one_by_one(level, op, args, attrs)
    return op.call(*[level.full(a) for a in args], *shifted(level, op, attrs, ndim))


def _rank(op, args, attrs) -> int:
    """The number of dimensions that those of an op's attributes are of: a gradient is given the shape of its result."""
    return len(attrs[0]) if op.attrs[:1] == ("shape",) else args[0].ndim


def squeeze(level, op, args, attrs):
    """No dimensions leave a tensor as it is."""
    ndim = args[0].ndim
    return op.call(level.full(args[0]), tuple([d % ndim + 1 for d in attrs[0]]) if ndim else ())


def transpose(level, op, args, attrs):
    """A tensor without dimensions stays as it is."""
    if args[0].ndim:
        return same_rank(level, op, args, attrs)
    return op.call(level.full(args[0]), 0, 0)


def with_positions(level, op, args, attrs):
    """Reductions along one dimension whose positions are given: (self, positions; ..., dim, keepdim)."""
    ndim = _rank(op, args, attrs)
    if not ndim:
        return one_by_one(level, op, args, attrs)
    return op.call(*[level.full(a) for a in args], *shifted(level, op, attrs, ndim))


def permute(level, op, args, attrs):
    ndim = args[0].ndim
    return op.call(level.full(args[0]), (0, *(d % ndim + 1 for d in attrs[0])))


def unsqueeze(level, op, args, attrs):
    return op.call(level.full(args[0]), attrs[0] % (args[0].ndim + 1) + 1)


def t(level, op, args, attrs):
    moved = level.full(args[0])
    moved = call("alias", moved) if args[0].ndim < 2 else call("transpose", moved, 1, 2)
    return moved if op.view else moved.clone()


def view(level, op, args, attrs):
    return op.call(level.full(args[0]), (level.size, *attrs[0]))


def expand(level, op, args, attrs):
    (size,) = attrs
    physical = level.full(args[0])
    for _ in range(len(size) - args[0].ndim):
        physical = physical.unsqueeze(1)
    return op.call(physical, (level.size, *size))


def repeat(level, op, args, attrs):
    physical = level.full(args[0])
    for _ in range(len(attrs[0]) - args[0].ndim):
        physical = physical.unsqueeze(1)
    return op.call(physical, (1, *attrs[0]))


def pad(level, op, args, attrs):
    pads, value = attrs
    return op.call(level.full(args[0]), ((0, 0), *pads), value)


def cat(level, op, args, attrs):
    ndim = max(a.ndim for a in args)
    return op.call([level.full(a) for a in args if a.ndim == ndim], attrs[0] % ndim + 1)


def stack(level, op, args, attrs):
    return op.call([level.full(a) for a in args], attrs[0] % (args[0].ndim + 1) + 1)


class _Placed:
    """Where index arrays stand among the dimensions of a tensor, for one entry and for the whole batch.

    Index arrays that follow each other put the dimensions of their common shape in their own place, others in front.
    For the batch, with `own` (the tensor that is indexed has it) a first index array that counts the entries is put in
    front of arrays of which some differ by entry.
    """

    def __init__(self, level, indices: tuple, own: bool):
        parts: list[Any] = [
            (None, False) if i is None else level.part(i) for i in _counted(indices)
        ]
        if any([has and part.dtype.kind == "b" for part, has in parts]):
            raise RuntimeError(MASK)
        given = [k for k, (part, _) in enumerate(parts) if part is not None]
        together = given[-1] - given[0] + 1 == len(given)
        batched = any([has for _, has in parts])
        self.ndim = n = max([part.ndim - has for part, has in parts if part is not None])
        self.place = given[0] if together else 0  # of the common shape, in the result for one entry
        wide = [
            _reshaped(part, (part.shape[0], *(1,) * (n + 1 - part.ndim), *part.shape[1:]))
            if has
            else part
            for part, has in parts
        ]
        if not batched:
            self.indices = (None, *wide)
            self.front = together  # the batch stays in front
        elif own:
            some = next(part for part in wide if part is not None)
            count = backend_of(some).arange(level.size).reshape((-1, *(1,) * n))
            self.indices, self.front = (count, *wide), True
            self.moved = together and self.place > 0
        else:
            self.indices, self.front = tuple(wide), self.place == 0
        self.batched, self.own, self.together = batched, own, together

    def arranged(self, physical: Tensor) -> Tensor:
        """What indexing gave, with the batch in front and the common shape in its place."""
        if not self.batched:
            return physical if self.together else physical.movedim(self.ndim, 0)
        if not self.own:
            return physical.movedim(self.place, 0)
        if not self.place:
            return physical
        common = tuple(range(1, self.ndim + 1))
        return physical.movedim(common, tuple([d + self.place for d in common]))

    def rearranged(self, physical: Tensor) -> Tensor:
        """The way back, for what is put in; only where the tensor that is indexed has the batch."""
        if not self.batched:
            return physical if self.together else physical.movedim(0, self.ndim)
        if not self.place:
            return physical
        common = tuple(range(1, self.ndim + 1))
        return physical.movedim(tuple([d + self.place for d in common]), common)


def _reshaped(array: Any, shape: tuple) -> Any:
    """A raw array, which may be that of an outer vmap, in another shape."""
    return Tensor._make(array).reshape(shape)._array


def _counted(indices: tuple) -> list:
    """Index arrays without masks: their places as integers."""
    out: list = []
    for part in indices:
        if part is None or part.__class__ is Logical or part.dtype.kind != "b":
            out.append(part)
        else:
            with beside(part):
                out += part.nonzero()
    return out


def index(level, op, args, attrs):
    physical, own = level.part(args[0])
    placed = _Placed(level, attrs[0], own)
    return placed.arranged(op.call(physical, placed.indices))


def index_backward(level, op, args, attrs):
    shape, indices = attrs
    placed = _Placed(level, indices, True)
    grad = placed.rearranged(level.full(args[0]))
    return op.call(grad, (level.size, *shape), placed.indices)


def index_put(level, op, args, attrs):
    x, values = args
    indices, accumulate = attrs
    placed = _Placed(level, indices, True)
    value, batched = level.part(values)
    # as many dimensions as the result of indexing has
    n = placed.ndim + x.ndim - len([i for i in _counted(indices) if i is not None])
    value = value.reshape(
        (value.shape[0] if batched else 1, *(1,) * (n - values.ndim), *values.shape)
    )
    return op.call(level.full(x), placed.rearranged(value), placed.indices, accumulate)


def masked_select(level, op, args, attrs):
    """A mask that all entries share picks as many elements in each."""
    mask, x = level.part(args[1])[0], level.full(args[0])
    places = mask.reshape(-1).nonzero().reshape(-1)
    return x.reshape(level.size, -1).index_select(1, places)


def copy(level, op, args, attrs):
    physical, batched = level.part(args[1])
    if batched:
        physical = physical.reshape(
            (level.size, *(1,) * (args[0].ndim - args[1].ndim), *args[1].shape)
        )
    return op.call(level.full(args[0]), physical)


def fill_tensor(level, op, args, attrs):
    physical, batched = level.part(args[1])
    if not batched:
        return op.call(level.full(args[0]), physical)
    spread = physical.reshape((level.size, *(1,) * args[0].ndim))
    return call("copy", level.full(args[0]), spread)


def _reach(size, stride) -> int:
    """How far the last element is from the first, in elements of memory."""
    return sum([(n - 1) * step for n, step in zip(size, stride, strict=True)])


def as_strided(level, op, args, attrs):
    own, size, stride, offset = attrs
    physical = level.full(args[0])
    if physical.stride()[1:] != own:
        raise RuntimeError(PLACES.format(op.public))
    first, last = physical.stride(0), offset + _reach(size, stride)
    outside = offset < 0 or last > _reach(
        physical.shape[1:], own
    )  # counted from the first element of an entry
    if outside and 0 not in size and level.part(args[0])[1]:
        raise RuntimeError(OUTSIDE.format(op.public, offset, last))
    return op.call(physical, physical.stride(), (level.size, *size), (first, *stride), offset)


def index_select(level, op, args, attrs):
    index, batched = level.part(args[1])
    if batched or not args[0].ndim:
        _check_places(index, args[0].shape[attrs[0]] if args[0].ndim else 1, attrs[0] + 1)
        return one_by_one(level, op, args, attrs)
    return op.call(level.full(args[0]), index, attrs[0] % args[0].ndim + 1)


def _check_places(index: Tensor, n: int, dim: int) -> None:
    """RuntimeError for an index out of range, where a look at the values costs no wait for a device."""
    array = raw_values(index)
    if array.__class__ is ndarray and array.size:
        wrong = array.min() if array.min() < 0 else array.max()
        if not 0 <= wrong < n:
            raise RuntimeError(f"index {wrong} is out of bounds for dimension {dim} with size {n}")


def index_select_backward(level, op, args, attrs):
    index, batched = level.part(args[1])
    shape, dim = attrs
    if batched or not shape:
        return one_by_one(level, op, args, attrs)
    return op.call(level.full(args[0]), index, (level.size, *shape), dim % len(shape) + 1)


# -- over all elements -------------------------------------------------------------------------------------------------


def _over_all(name: str):
    """The rule of an op of all elements by the op `name` over dimensions."""

    def rule(level, op, args, attrs):
        physical = level.full(args[0])
        dims = tuple(range(1, physical.ndim))
        return call(name, physical, dims, False) if dims else physical.clone()

    return rule


sum_all, mean_all = _over_all("sum"), _over_all("mean")


def max_all(level, op, args, attrs):
    return call("amax", level.full(args[0]).reshape(level.size, -1), (1,), False)


def min_all(level, op, args, attrs):
    return call("amin", level.full(args[0]).reshape(level.size, -1), (1,), False)


def prod_all(level, op, args, attrs):
    return call("prod", level.full(args[0]).reshape(level.size, -1), (1,), False)


# -- products ----------------------------------------------------------------------------------------------------------


def _matrices(level, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Physical factors with the same number of batch dimensions in front of their matrices."""
    (pa, batched_a), (pb, batched_b) = level.part(a), level.part(b)
    pa = pa.unsqueeze(-2) if a.ndim == 1 else pa
    pb = pb.unsqueeze(-1) if b.ndim == 1 else pb
    longest = max(a.ndim, b.ndim, 2)
    if batched_a:
        for _ in range(longest - max(a.ndim, 2)):
            pa = pa.unsqueeze(1)
    if batched_b:
        for _ in range(longest - max(b.ndim, 2)):
            pb = pb.unsqueeze(1)
    return pa, pb


def matmul(level, op, args, attrs):
    a, b = args
    (pa, batched_a), (pb, batched_b) = level.part(a), level.part(b)
    if batched_a and not batched_b and b._array.ndim <= 2:
        return call("matmul", pa, pb)  # one product of all rows
    if batched_b and not batched_a and a.ndim == 2 and b.ndim == 1:
        return pb.matmul(pa.t())
    out = call("matmul", *_matrices(level, a, b))
    out = out.squeeze(-2) if a.ndim == 1 else out
    return out.squeeze(-1) if b.ndim == 1 else out


def rows_product(level, op, args, attrs):
    """As products of matrices, since the op itself would sum over the batch as well."""
    rows = math.prod(args[0].shape[:-1])
    a, b = [level.full(x).reshape(level.size, rows, x.shape[-1]) for x in args]
    return a.transpose(1, 2).bmm(b)


def even_share(level, op, args, attrs):
    mask, g = args
    if not mask.ndim:
        return one_by_one(level, op, args, attrs)
    dims = tuple([d % mask.ndim + 1 for d in attrs[0] or range(mask.ndim)])
    return op.call(level.full(mask), level.full(g), dims)


def vdot(level, op, args, attrs):
    return matmul(level, op, (args[0].conjugate(), args[1]), attrs)


def linear(level, op, args, attrs):
    x, _, bias = args
    (px, _), (pw, batched_w), (pb, batched_b) = (level.part(a) for a in args)
    if not batched_w and not batched_b:
        return op.call(px, pw, pb)
    if batched_w:
        px = level.full(x)
        rows = px.reshape(level.size, -1, px.shape[-1])
        out = rows.bmm(pw.transpose(1, 2)).reshape(*px.shape[:-1], pw.shape[1])
    else:
        out = op.call(level.full(x), pw, None)
    if bias is None:
        return out
    if batched_b:
        pb = pb.reshape(level.size, *(1,) * (out.ndim - 2), -1)
    return out + pb


def _scaled(level, product: Tensor, added: Tensor, beta, alpha) -> Tensor:
    """``beta * added + alpha * product``; `product` is physical, `added` logical."""
    physical, batched = level.part(added)
    if batched:
        for _ in range(product.ndim - physical.ndim):
            physical = physical.unsqueeze(1)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return physical * beta + product if beta != 1 else physical + product


def addmm(level, op, args, attrs):
    product = matmul(level, op, args[1:], ())
    if not any(level.part(a)[1] for a in args[1:]):
        product = product.expand(level.size, *product.shape)
    return _scaled(level, product, args[0], *attrs)


def addr(level, op, args, attrs):
    (a, batched_a), (b, batched_b) = level.part(args[1]), level.part(args[2])
    product = a.unsqueeze(-1) * (b.unsqueeze(-2))
    if not (batched_a or batched_b):
        product = product.expand(level.size, *product.shape)
    return _scaled(level, product, args[0], *attrs)


def einsum(level, op, args, attrs):
    a, b, out = attrs
    used = {*a, *b, *out}
    names = (
        string.ascii_letters
        if any(isinstance(label, str) for label in used)
        else range(len(used) + 1)
    )
    batch = next(name for name in names if name not in used)
    (pa, batched_a), (pb, batched_b) = (level.part(x) for x in args)
    a = (batch, *a) if batched_a else a
    b = (batch, *b) if batched_b else b
    return op.call(pa, pb, tuple(a), tuple(b), (batch, *out))


def leading(level, op, args, attrs):
    """Ops on the last dimensions that take any number of others in front."""
    return op.call(*(level.full(a) for a in args), *attrs)


def view_dtype(level, op, args, attrs):
    physical = level.full(args[0])
    if not args[0].ndim:  # whose dtype must be of the same size
        op.call(physical.select(0, 0), *attrs)
    return op.call(physical, *attrs)


def qr(level, op, args, attrs):
    Q, R = op.call(level.full(args[0]), *attrs)
    return Q if attrs[0] != "r" else Q.expand(level.size, 0), R


def layer_norm(level, op, args, attrs):
    x, *rest = args
    parts = [level.part(r) for r in rest]
    if any(batched for _, batched in parts):
        return one_by_one(level, op, args, attrs)
    out = op.call(level.full(x), *(p for p, _ in parts), *attrs)
    return out[0] if isinstance(out, tuple) else out
