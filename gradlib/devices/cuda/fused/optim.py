"""Optimizer steps, global norm and clipping for many tensors in few launches (`kernels/optim.cu`).

Nothing is copied from the host and nothing waits: pointers travel as kernel arguments, step counts and learning rate
may lie on the device. So a step can be captured in a CUDA graph and replayed.

Every function takes lists of raw device arrays and returns NotImplemented, before anything is changed, when the kernels
do not fit: mixed dtypes, arrays with gaps, or arrays of a parameter that lie in memory in different orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, HALVES, SINGLES, family
from .lists import fit, in_one, table_type, tables

ARRAYS = 6  # as in kernels/optim.cu
PARAM, GRAD, FIRST, SECOND, LARGEST, STEP = range(ARRAYS)  # slots are FIRST, SECOND...
NORMS = {float("inf"): 0, 1.0: 1, 2.0: 2}
MODULE = family(
    "optim",
    advance_steps=[()],
    adam=product(FLOATS),
    sgd=product(FLOATS),
    norm_pieces=product(FLOATS, NORMS.values()),
    norm_total=product(SINGLES, NORMS.values()),
    clip=product(FLOATS),
)
TABLE = table_type(ARRAYS)
SETTINGS = np.dtype(
    [("lr", "f8"), ("betas", "f8", 2), ("eps", "f8"), ("weight_decay", "f8"), ("momentum", "f8"), ("dampening", "f8"),
     ("step", "f8"), ("decoupled_weight_decay", "i4"), ("maximize", "i4"), ("nesterov", "i4"), ("unused", "i4")]
)  # fmt: skip
SETTINGS_IN_ONE = in_one(SETTINGS)


def _tables(xp: Any, lists: dict[int, Sequence[Any]]) -> Iterator[tuple[Any, int]]:
    """(table, number of blocks) for up to TENSORS tensors at a time; `lists`: arrays by their number in the table."""
    return tables(xp, TABLE, lists, [a.size for a in lists[GRAD]])


def _settings(settings: dict[str, Any]) -> tuple[Any, Any]:
    """(the struct of settings, the learning rate's array or None)."""
    lr = settings["lr"]
    on_device = hasattr(lr, "dtype") and hasattr(lr, "shape") and not isinstance(lr, np.generic)
    made = np.zeros(1, SETTINGS)
    for name in SETTINGS.names or ():
        if name in settings and not (on_device and name == "lr"):
            made[name] = settings[name]
    return made.view(SETTINGS_IN_ONE), lr if on_device else None


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
    if not fit(list(lists.values())) or not _signals(lr_at, found_inf, scale, *steps):
        return NotImplemented
    if steps:
        lists[STEP] = steps
    kernel = (rule, params[0].dtype)
    for table, blocks in _tables(xp, lists):
        if steps:
            MODULE.launch(xp, ("advance_steps",), 1, 64, table, found_inf)
        MODULE.launch(xp, kernel, blocks, 256, table, made, lr_at, found_inf, scale)
    return None


def total_norm(xp: Any, grads: Sequence[Any], norm_type: float = 2.0) -> Any:
    """The norm of all elements of `grads` as one vector: an array [], float32 or float64 (half types: float32).

    norm_type: 1, 2 or inf; NotImplemented for others.
    """
    if not fit([grads]) or norm_type not in NORMS:
        return NotImplemented
    dtype, kind = grads[0].dtype, NORMS[norm_type]
    wide = F4 if dtype in HALVES else dtype
    tables = list(_tables(xp, {GRAD: grads}))
    total = xp.zeros((), wide)
    count = sum(blocks for _, blocks in tables)
    if not count:
        return total
    partial, before = xp.empty(count, wide), 0
    for table, blocks in tables:
        kernel = ("norm_pieces", dtype, kind)
        MODULE.launch(xp, kernel, blocks, 256, table, partial, np.int64(before))
        before += blocks
    MODULE.launch(xp, ("norm_total", wide, kind), 1, 1024, partial, total, np.int64(count))
    return total


def clip(xp: Any, grads: Sequence[Any], total: Any, max_norm: float) -> Any:
    """Multiply `grads` in place by ``min(1, max_norm / (total + 1e-6))``; `total` as `total_norm` returns it."""
    if not fit([grads]):
        return NotImplemented
    dtype = grads[0].dtype
    if total.dtype != (F4 if dtype in HALVES else dtype) or total.size != 1:
        return NotImplemented
    for table, blocks in _tables(xp, {GRAD: grads}):
        MODULE.launch(xp, ("clip", dtype), blocks, 256, table, total, np.float64(max_norm))
    return None
