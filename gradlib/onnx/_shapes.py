"""Shapes, indices, sums over dimensions, choices, and tensors that are made."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib

from ..fx import Node
from ..fx._names import call_name
from ._converters import axis_of, converts, dtype_of, listed
from ._graph import Writer

_LAST = np.iinfo(np.int64).max


@converts("getattr")
def _getattr(w: Writer, node: Node, x: Any, name: str) -> str:
    if name in ("T", "mT"):
        return _permuted(w, x, [*range(w.value(x).ndim)][:-2] + [-1, -2])
    if name != "shape":
        raise TypeError(f"the attribute {name}")
    return w.op("Shape", w.tensor(x))


@converts("size")
def _size(w: Writer, node: Node, x: Any, dim: Any = None) -> str:
    shape = w.op("Shape", w.tensor(x))
    if dim is None:
        return shape
    return w.op("Gather", shape, w.constant(axis_of(w, x, dim), np.int64), axis=0)


@converts("view reshape")
def _reshape(w: Writer, node: Node, x: Any, *shape: Any) -> str:
    return w.op(
        "Reshape",
        w.tensor(x),
        w.sizes(listed(shape)),
        allowzero=1 if 0 in w.known[node].shape else None,
    )


@converts("flatten")
def _flatten(w: Writer, node: Node, x: Any, start_dim: int = 0, end_dim: int = -1) -> str:
    first, last = axis_of(w, x, start_dim), axis_of(w, x, end_dim)
    name, count = w.tensor(x), w.value(x).ndim
    shape = w.op("Shape", name)
    parts = [(0, first), (last + 1, count)]
    kept = [
        w.op("Slice", shape, w.constant([a], np.int64), w.constant([b], np.int64))
        if a < b
        else None
        for a, b in parts
    ]
    middle = w.constant([-1], np.int64)
    return w.op(
        "Reshape", name, w.op("Concat", *(p for p in (kept[0], middle, kept[1]) if p), axis=0)
    )


def _permuted(w: Writer, x: Any, dims: list[int]) -> str:
    rank = w.value(x).ndim
    return w.op("Transpose", w.tensor(x), perm=[d % rank for d in dims])


@converts("transpose t")
def _transpose(w: Writer, node: Node, x: Any, dim0: int = 0, dim1: int = 1) -> str:
    dims = list(range(w.value(x).ndim))
    if len(dims) < 2:
        return w.op("Identity", w.tensor(x))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return _permuted(w, x, dims)


@converts("permute")
def _permute(w: Writer, node: Node, x: Any, *dims: Any) -> str:
    return _permuted(w, x, listed(dims))


@converts("unsqueeze")
def _unsqueeze(w: Writer, node: Node, x: Any, dim: int) -> str:
    return w.op("Unsqueeze", w.tensor(x), w.constant([dim % (w.value(x).ndim + 1)], np.int64))


@converts("squeeze")
def _squeeze(w: Writer, node: Node, x: Any, dim: Any = None) -> str:
    shape = w.value(x).shape
    wanted = range(len(shape)) if dim is None else [d % len(shape) for d in listed((dim,))]
    axes = [d for d in wanted if shape[d] == 1]
    return (
        w.op("Squeeze", w.tensor(x), w.constant(axes, np.int64))
        if axes
        else w.op("Identity", w.tensor(x))
    )


@converts("cat concat concatenate stack")
def _cat(w: Writer, node: Node, tensors: Any, dim: int = 0) -> str:
    stacked = call_name(node.target) == "stack"
    axis = dim % (w.value(tensors[0]).ndim + stacked)
    names = [w.tensor(t, dtype_of(w, node)) for t in tensors]
    if stacked:
        names = [w.op("Unsqueeze", n, w.constant([axis], np.int64)) for n in names]
    return w.op("Concat", *names, axis=axis)


@converts("chunk split unbind")
def _split(w: Writer, node: Node, x: Any, size: Any = None, dim: int = 0) -> list[str]:
    if node.target == "unbind" or getattr(node.target, "__name__", "") == "unbind":
        dim = size or 0
    axis = axis_of(w, x, dim)
    parts = w.known[node]
    if w.known[node][0].ndim < w.value(x).ndim:  # unbind
        return [
            w.op("Gather", w.tensor(x), w.constant(i, np.int64), axis=axis)
            for i in range(len(parts))
        ]
    lengths = w.constant([p.shape[axis] for p in parts], np.int64)
    made = w.op("Split", w.tensor(x), lengths, outputs=len(parts), axis=axis)
    return made if isinstance(made, list) else [made]


@converts("expand")
def _expand(w: Writer, node: Node, x: Any, *sizes: Any) -> str:
    wanted = [1 if isinstance(s, int) and s == -1 else s for s in listed(sizes)]
    return w.op("Expand", w.tensor(x), w.sizes(wanted))


@converts("pad")
def _pad(w: Writer, node: Node, x: Any, pad: Any, mode: str = "constant", value: Any = None) -> str:
    kind = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[
        mode
    ]
    missing = w.value(x).ndim - len(pad) // 2
    before, after = ([0] * missing + list(reversed(pad[i::2])) for i in (0, 1))
    filler = [w.tensor(value or 0, w.value(x).dtype)] if kind == "constant" else []
    return w.op("Pad", w.tensor(x), w.sizes(before + after), *filler, mode=kind)


@converts("getitem")
def _getitem(w: Writer, node: Node, x: Any, index: Any) -> Any:
    value = w.value(x)
    if not isinstance(value, gradlib.Tensor):
        if isinstance(w.names[x], list):
            return w.names[x][index]
        return w.op("Gather", w.names[x], w.constant(index % len(value), np.int64), axis=0)
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(e is not None and e is not ... for e in entries)
    if ... in [e for e in entries if not isinstance(e, Node)]:
        at = next(i for i, e in enumerate(entries) if e is ...)
        entries[at : at + 1] = [slice(None)] * (value.ndim - used)
    name, axis = w.tensor(x), 0
    indexed = [e for e in entries if isinstance(e, Node) and isinstance(w.value(e), gradlib.Tensor)]
    if len(indexed) > 1 or any(w.value(e).dtype is gradlib.bool_ for e in indexed):
        raise TypeError("several tensors, or a mask, as an index")
    for entry in entries:
        if entry is None:
            name = w.op("Unsqueeze", name, w.constant([axis], np.int64))
            axis += 1
        elif isinstance(entry, slice):
            if entry != slice(None):
                ends = (
                    0 if entry.start is None else entry.start,
                    _LAST if entry.stop is None else entry.stop,
                )
                step = 1 if entry.step is None else entry.step
                name = w.op("Slice", name, *(w.sizes([v]) for v in (*ends, axis, step)))
            axis += 1
        else:
            place = (
                w.tensor(entry, gradlib.int64)
                if isinstance(entry, Node)
                else w.constant(entry, np.int64)
            )
            name = w.op("Gather", name, place, axis=axis)
            axis += w.value(entry).ndim if isinstance(w.value(entry), gradlib.Tensor) else 0
    return name


def _reduction(names: str, kind: str) -> None:
    def write(
        w: Writer, node: Node, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> str:
        inputs = [w.tensor(x, dtype_of(w, node))]
        if dim is not None:
            inputs.append(w.constant([axis_of(w, x, d) for d in listed((dim,))], np.int64))
        return w.op(kind, *inputs, keepdims=int(keepdim))

    converts(names)(write)


for _names, _kind in (
    ("mean", "ReduceMean"), ("sum", "ReduceSum"), ("amax", "ReduceMax"), ("amin", "ReduceMin"),
    ("logsumexp", "ReduceLogSumExp"),
):  # fmt: skip
    _reduction(_names, _kind)


@converts("argmax argmin")
def _argmax(w: Writer, node: Node, x: Any, dim: int, keepdim: bool = False) -> str:
    name = node.target if isinstance(node.target, str) else call_name(node.target)
    kind = "ArgMax" if name == "argmax" else "ArgMin"
    return w.op(kind, w.tensor(x), axis=axis_of(w, x, dim), keepdims=int(keepdim))


@converts("where")
def _where(w: Writer, node: Node, condition: Any, a: Any, b: Any) -> str:
    dtype = dtype_of(w, node)
    return w.op("Where", w.tensor(condition), w.tensor(a, dtype), w.tensor(b, dtype))


@converts("masked_fill")
def _masked_fill(w: Writer, node: Node, x: Any, mask: Any, value: Any) -> str:
    return w.op("Where", w.tensor(mask), w.tensor(value, dtype_of(w, node)), w.tensor(x))


@converts("triu tril")
def _triangle(w: Writer, node: Node, x: Any, diagonal: int = 0) -> str:
    upper = (node.target if isinstance(node.target, str) else call_name(node.target)) == "triu"
    inner = w.value(x).dtype is gradlib.bool_  # of which runtimes have no such operator
    name = w.tensor(x, gradlib.float32) if inner else w.tensor(x)
    made = w.op("Trilu", name, w.constant(diagonal, np.int64), upper=int(upper))
    return w.op("Cast", made, to=w.kind(gradlib.bool_)) if inner else made


@converts("to type float double long int bool half type_as")
def _cast(w: Writer, node: Node, x: Any, *args: Any, **kwargs: Any) -> str:
    return w.op("Cast", w.tensor(x), to=w.kind(w.known[node].dtype))


@converts("arange")
def _arange(w: Writer, node: Node, *args: Any, dtype: Any = None, **more: Any) -> str:
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    return w.op("Range", *(w.tensor(v, dtype_of(w, node)) for v in (start, end, step)))


@converts("ones zeros")
def _filled(w: Writer, node: Node, *shape: Any, **more: Any) -> str:
    value = np.asarray([call_name(node.target) == "ones"], w.known[node].numpy().dtype)
    filler = w.numpy_helper.from_array(value)
    return w.op("ConstantOfShape", w.sizes(listed(shape)), value=filler)


@converts("full")
def _full(w: Writer, node: Node, size: Any, fill_value: Any, **more: Any) -> str:
    return w.op("Expand", w.tensor(fill_value, dtype_of(w, node)), w.sizes(list(size)))


@converts("zeros_like ones_like")
def _like(w: Writer, node: Node, x: Any, **more: Any) -> str:
    value = np.asarray([call_name(node.target) == "ones_like"], w.known[node].numpy().dtype)
    return w.op(
        "ConstantOfShape", w.op("Shape", w.tensor(x)), value=w.numpy_helper.from_array(value)
    )


@converts("tensor")
def _tensor(w: Writer, node: Node, *args: Any, **more: Any) -> str:
    return w.constant(w.known[node].numpy())
