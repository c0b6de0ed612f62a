"""Work on lists of tensors in few launches (`kernels/lists.cuh`): tables of pointers, and elementwise formulas.

Pointers and numbers travel as kernel arguments: nothing is copied from the host, nothing waits, and a captured launch
keeps them. A formula is traced and written out as one kernel, as those of single arrays are (`pointwise.py`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from struct import pack_into
from typing import Any

import numpy as np

from ....tape import override
from ....tape.arrays import backend_of
from ....tape.lazy import is_lazy
from ....tape.modes import NO_GRAD, shared, state
from ....tape.storage import before_write, bump
from ....tape.tensor import Tensor
from ..kernels import F4, F8, FLOATS, HALVES, Module, instance, instances, launcher_of, source
from .generate import DENSE, NUMBER, Traced, trace, vectors, written
from .trace import Ops

TENSORS, PIECE = 48, 4096  # as in kernels/lists.cuh


def table_type(arrays: int, numbers: int = 1) -> np.dtype:
    """The struct Table<arrays, numbers>."""
    return np.dtype(
        [("at", "u8", (arrays, TENSORS)), ("number", "f8", (numbers, TENSORS)), ("size", "i8", TENSORS),
         ("first", "i4", TENSORS), ("count", "i4"), ("unused", "i4")]
    )  # fmt: skip


def fit(lists: Sequence[Sequence[Any]]) -> bool:
    """Whether all arrays have one dtype that kernels take, and those of each tensor lie alike in memory."""
    first = lists[0]
    if not first or first[0].dtype not in FLOATS:
        return False
    dtype = first[0].dtype
    for arrays in zip(*lists, strict=True):
        lead = arrays[0]
        if any(a.dtype != dtype or a.shape != lead.shape for a in arrays):
            return False
        if all(a.flags.c_contiguous for a in arrays):
            continue
        order = sorted(range(lead.ndim), key=lambda d: -lead.strides[d])
        if (
            any(a.strides != lead.strides for a in arrays)
            or not lead.transpose(order).flags.c_contiguous
        ):
            return False
    return True


def tables(
    xp: Any,
    kind: np.dtype,
    lists: dict[int, Sequence[Any]],
    sizes: Sequence[int],
    numbers: Sequence[Sequence[float]] = (),
) -> Iterator[tuple[Any, int]]:
    """(table, number of blocks) for up to TENSORS tensors at a time; those without elements are left out.

    lists: arrays by their number in the table. sizes: elements of each tensor. numbers: lists of one for each tensor.
    """
    if shared.cuda is not None and shared.cuda.held is not None:
        shared.cuda.held.append(list(lists.values()))  # a graph knows them by their addresses alone
    pointer = launcher_of(xp).pointer
    places, whole = _places(kind)
    chosen = [i for i, n in enumerate(sizes) if n]
    for begin in range(0, len(chosen), TENSORS):
        some = chosen[begin : begin + TENSORS]
        table, count = bytearray(kind.itemsize), len(some)
        for which, arrays in lists.items():
            at = places["at"] + 8 * TENSORS * which
            pack_into(f"={count}Q", table, at, *[pointer(arrays[i]) for i in some])
        for which, values in enumerate(numbers):
            at = places["number"] + 8 * TENSORS * which
            pack_into(f"={count}d", table, at, *[values[i] for i in some])
        own = [sizes[i] for i in some]
        blocks = [-(-n // PIECE) for n in own]
        pack_into(f"={count}q", table, places["size"], *own)
        pack_into(f"={count}i", table, places["first"], *accumulate(blocks[:-1], initial=0))
        pack_into("=i", table, places["count"], count)
        yield np.frombuffer(table, whole), sum(blocks)


@cache
def _places(kind: np.dtype) -> tuple[dict[str, int], np.dtype]:
    """(where the fields of a struct begin, the struct with one field): an array library looks at each field."""
    fields: Any = kind.fields
    return {name: field[1] for name, field in fields.items()}, in_one(kind)


def in_one(kind: np.dtype) -> np.dtype:
    """A struct of the same size with one field of bytes."""
    return np.dtype([("bytes", f"V{kind.itemsize}")])


class Listed(Module):
    """A module of one generated kernel: a formula on each element of each tensor of lists."""

    __slots__ = ("inputs", "numbers", "own", "table")

    def __init__(self, label: str, traced: Traced, places: dict[str, str]):
        self.inputs = [k for k, how in places.items() if how == DENSE]
        self.numbers = [k for k, how in places.items() if how == NUMBER]
        self.table = table_type(len(self.inputs) + 1, max(1, len(self.numbers)))
        text = f"{traced.body()}{places}{traced.dtype}"
        name = f"list_{label}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        kind = f"Table<{len(self.inputs) + 1}, {max(1, len(self.numbers))}>"
        lines = ["typedef wide<T> A;", "const Piece piece(table);", "const int64 size = piece.end;"]
        lines += [
            f"const A in_{k} = A(table.number[{i}][piece.tensor]);"
            for i, k in enumerate(self.numbers)
        ]
        lines += [
            f"const T* p_{k} = piece.array<const T>(table, {i + 1});"
            for i, k in enumerate(self.inputs)
        ]
        lines += ["T* out0 = piece.array<T>(table, 0);", *written(traced, places)]
        step = "Pack<T>::size"
        lines += [
            f"for (int64 first = piece.begin + threadIdx.x * {step}; first < size; first += blockDim.x * {step}) {{",
            *vectors(traced, places),
            "}",
        ]
        head = f"template <typename T> __global__ void {name}({kind} table) {{"
        self.own = head + "\n  " + "\n  ".join(lines) + "\n}\n"
        super().__init__(name, instances(name, (F8,) if traced.dtype == F8 else (*HALVES, F4)))

    @property
    def code(self) -> str:
        return source("lists.cuh") + source("pointwise.cuh") + self.own


_made: dict[tuple, Listed | None] = {}


def each(
    xp: Any,
    label: str,
    formula: Callable[..., Any],
    given: Mapping[str, Sequence[Any]],
    into: Sequence[Any] | None = None,
) -> Any:
    """``formula(F, **values)`` for each tensor of lists, element by element, in a launch for 48 of them.

    Args:
        label: names the formula.
        formula: of symbols; see `trace.py`.
        given: for each of its arguments a list of raw arrays, or of numbers, one for each tensor.
        into: where the results go instead of new arrays; they may be the arguments'.

    Returns:
        A list of arrays; NotImplemented, with nothing written, if arrays do not fit or the formula is none of elements.
    """
    arrays = {k: v for k, v in given.items() if hasattr(v[0], "strides")}
    numbers = {k: v for k, v in given.items() if k not in arrays}
    lists = [*arrays.values(), *([into] if into is not None else [])]
    if not fit(lists) or any(not isinstance(n, (int, float)) for v in numbers.values() for n in v):
        return NotImplemented
    first = lists[0]
    wide = F8 if first[0].dtype == F8 else F4
    key = (label, wide, *given, *arrays)
    if key not in _made:
        traced = trace(wide, list(given), lambda F, symbols: [_run(formula, F, symbols)])
        if traced is None or traced.inputs.keys() != given.keys():
            _made[key] = None
        else:
            places = {k: DENSE if k in arrays else NUMBER for k in traced.inputs}
            _made[key] = Listed(label, traced, places)
    module = _made[key]
    if module is None:
        return NotImplemented
    outs = [xp.empty_like(a) for a in first] if into is None else into
    if into is None and not fit([*lists, outs]):
        return NotImplemented
    placed = {0: outs} | {i + 1: arrays[k] for i, k in enumerate(module.inputs)}
    values = [numbers[k] for k in module.numbers]
    name = instance(module.name, first[0].dtype)
    for table, blocks in tables(xp, module.table, placed, [a.size for a in first], values):
        launcher_of(xp).launch(module, name, blocks, 256, (table,))
    return outs


def _run(formula: Callable[..., Any], F: Ops, symbols: dict[str, Any]) -> Any:
    return formula(F, *symbols.values())


# -- tensors ----------------------------------------------------------------------------------------------------------


def namespace_of(tensors: Sequence[Tensor]) -> Any:
    """The backend of tensors on the current device that kernels for lists may fit, else None."""
    if not tensors or not tensors[0].is_cuda or len({t.device for t in tensors}) > 1:
        return None
    if any(map(is_lazy, tensors)) or any([override.overrides(type(t)) for t in tensors]):
        return None
    first = tensors[0]._array
    xp = backend_of(first)
    return xp if xp.fuses and shared.cuda.elsewhere(first) is None else None


def each_tensor(
    label: str, formula: Callable[..., Any], given: Mapping[str, Sequence[Any]], writes: bool
) -> tuple[Tensor, ...] | None:
    """``formula(F, **values)`` for each tensor of lists; None, with nothing written, where the ops have to do it.

    writes: to the tensors of the first list. The ops do what is recorded, watched or batched, and what depends on the
    order of the tensors because they share memory.
    """
    lists = [v for v in given.values() if isinstance(v[0], Tensor)]
    every = [t for tensors in lists for t in tensors]
    if state.bits & ~NO_GRAD or not all([isinstance(t, Tensor) for t in every]):
        return None
    xp = namespace_of(every)
    if xp is None or (not state.bits and any([t._rg for t in every])):
        return None
    raw = {k: [t._array for t in v] if isinstance(v[0], Tensor) else v for k, v in given.items()}
    first = raw[next(iter(raw))]
    if writes:
        arrays = [v for v in raw.values() if hasattr(v[0], "strides")]
        if not _apart(launcher_of(xp).pointer, first, arrays[1:]):
            return None
        for t in lists[0]:
            before_write(t)
    made = each(xp, label, formula, raw, first if writes else None)
    if made is NotImplemented:
        return None
    if not writes:
        return tuple([Tensor._make(a) for a in made])
    for t in lists[0]:
        bump(t)
    return tuple(lists[0])


def _apart(pointer: Callable, written: Sequence[Any], others: Sequence[Sequence[Any]]) -> bool:
    """Whether no array that is written shares memory with another one, but with that of its own place in a list."""
    spans = sorted([(pointer(a), pointer(a) + a.nbytes, i) for i, a in enumerate(written)])
    if any(end > begin for (_, end, _), (begin, _, _) in pairwise(spans)):
        return False
    begins = [begin for begin, _, _ in spans]
    for arrays in others:
        for i, a in enumerate(arrays):
            begin, end = pointer(a), pointer(a) + a.nbytes
            k = bisect_left(begins, end) - 1
            while k >= 0 and spans[k][1] > begin:
                if spans[k][2] != i or spans[k][0] != begin:
                    return False
                k -= 1
    return True
