"""Optimizer steps, global norm and clipping for many tensors in few launches (`kernels/optim.cu`).

Nothing is copied from the host and nothing waits: pointers travel as kernel arguments, step counts and learning rate
may lie on the device. So a step can be captured in a CUDA graph and replayed.

Every function takes lists of raw device arrays and returns NotImplemented, before anything is changed, when the kernels
do not fit: mixed dtypes, arrays with gaps, or arrays of a parameter that lie in memory in different orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, HALVES, SINGLES, family, instance, instances, launcher_of

TENSORS, ARRAYS, PIECE = 48, 6, 4096  # as in kernels/optim.cu
PARAM, GRAD, FIRST, SECOND, LARGEST, STEP = range(ARRAYS)  # slots are FIRST, SECOND...
NORMS = {float("inf"): 0, 1.0: 1, 2.0: 2}
MODULE = family(
    "optim",
    ["advance_steps"],
    instances("adam", FLOATS),
    instances("sgd", FLOATS),
    instances("norm_pieces", FLOATS, NORMS.values()),
    instances("norm_total", SINGLES, NORMS.values()),
    instances("clip", FLOATS),
)
TABLE = np.dtype(
    [("at", "u8", (ARRAYS, TENSORS)), ("size", "i8", TENSORS), ("first", "i4", TENSORS), ("count", "i4"),
     ("unused", "i4")]
)  # fmt: skip
SETTINGS = np.dtype(
    [("lr", "f8"), ("betas", "f8", 2), ("eps", "f8"), ("weight_decay", "f8"), ("momentum", "f8"), ("dampening", "f8"),
     ("step", "f8"), ("decoupled_weight_decay", "i4"), ("maximize", "i4"), ("nesterov", "i4"), ("unused", "i4")]
)  # fmt: skip


def _fit(lists: Sequence[Sequence[Any]]) -> bool:
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


def _tables(xp: Any, lists: dict[int, Sequence[Any]]) -> Iterator[tuple[Any, int]]:
    """(table, number of blocks) for up to TENSORS tensors at a time; `lists`: arrays by their number in the table."""
    pointer = launcher_of(xp).pointer
    sizes = [a.size for a in lists[GRAD]]
    chosen = [i for i, n in enumerate(sizes) if n]
    for begin in range(0, len(chosen), TENSORS):
        some = chosen[begin : begin + TENSORS]
        table, count = np.zeros(1, TABLE), len(some)
        row = table[0]
        for which, arrays in lists.items():
            row["at"][which, :count] = [pointer(arrays[i]) for i in some]
        own = np.array([sizes[i] for i in some])
        blocks = -(-own // PIECE)
        row["size"][:count], row["count"] = own, count
        row["first"][1:count] = np.cumsum(blocks)[:-1]
        yield table, int(blocks.sum())


def _settings(settings: dict[str, Any]) -> tuple[Any, Any]:
    """(the struct of settings, the learning rate's array or None)."""
    lr = settings["lr"]
    on_device = hasattr(lr, "dtype") and hasattr(lr, "shape") and not isinstance(lr, np.generic)
    made = np.zeros(1, SETTINGS)
    for name in SETTINGS.names or ():
        if name in settings and not (on_device and name == "lr"):
            made[name] = settings[name]
    return made, lr if on_device else None


def _signals(*arrays: Any) -> bool:
    return all(a is None or (a.dtype == F4 and a.size == 1) for a in arrays)


def step(
    xp: Any,
    rule: str,
    params: Sequence[Any],
    grads: Sequence[Any],
    slots: Sequence[Sequence[Any]],
    steps: Sequence[Any] | float,
    settings: dict[str, Any],
    found_inf: Any = None,
    scale: Any = None,
) -> Any:
    """One step of "adam" (or AdamW, with decoupled_weight_decay) or "sgd" in place, as their optimizers' rules say.

    Args:
        params, grads: arrays of any shapes, one of each for a parameter.
        slots: the lists of their moving averages (the third is for amsgrad), or of momentum buffers (none without
            momentum).
        steps: float32 arrays of one element, counted up here (but for a parameter without elements); or a number,
            that of this step, for all; () for a rule that does not count.
        settings: by the names that they have in a group of parameters; lr is a number, or a float32 array of one
            element on the device.
        found_inf: float32 array of one element; where it is not 0 nothing is changed, not even `steps`.
        scale: float32 array of one element that gradients are divided by.

    Returns:
        None, or NotImplemented.
    """
    lists = dict(enumerate((params, grads, *slots)))
    if not isinstance(steps, Sequence):
        settings, steps = settings | {"step": steps}, ()
    made, lr_at = _settings(settings)
    if not _fit(list(lists.values())) or not _signals(lr_at, found_inf, scale, *steps):
        return NotImplemented
    if steps:
        lists[STEP] = steps
    launch = launcher_of(xp).launch
    kernel = instance(rule, params[0].dtype)
    for table, blocks in _tables(xp, lists):
        if steps:
            launch(MODULE, "advance_steps", 1, 64, (table, found_inf))
        launch(MODULE, kernel, blocks, 256, (table, made, lr_at, found_inf, scale))
    return None


def total_norm(xp: Any, grads: Sequence[Any], norm_type: float = 2.0) -> Any:
    """The norm of all elements of `grads` as one vector: an array [], float32 or float64 (half types: float32).

    norm_type: 1, 2 or inf; NotImplemented for others.
    """
    if not _fit([grads]) or norm_type not in NORMS:
        return NotImplemented
    dtype, kind = grads[0].dtype, NORMS[norm_type]
    wide = F4 if dtype in HALVES else dtype
    launch, tables = launcher_of(xp).launch, list(_tables(xp, {GRAD: grads}))
    total = xp.zeros((), wide)
    count = sum(blocks for _, blocks in tables)
    if not count:
        return total
    partial, before = xp.empty(count, wide), 0
    for table, blocks in tables:
        kernel = instance("norm_pieces", dtype, kind)
        launch(MODULE, kernel, blocks, 256, (table, partial, np.int64(before)))
        before += blocks
    launch(MODULE, instance("norm_total", wide, kind), 1, 1024, (partial, total, np.int64(count)))
    return total


def clip(xp: Any, grads: Sequence[Any], total: Any, max_norm: float) -> Any:
    """Multiply `grads` in place by ``min(1, max_norm / (total + 1e-6))``; `total` as `total_norm` returns it."""
    if not _fit([grads]):
        return NotImplemented
    dtype = grads[0].dtype
    if total.dtype != (F4 if dtype in HALVES else dtype) or total.size != 1:
        return NotImplemented
    for table, blocks in _tables(xp, {GRAD: grads}):
        given = (table, total, np.float64(max_norm))
        launcher_of(xp).launch(MODULE, instance("clip", dtype), blocks, 256, given)
    return None
