"""The steps of LSTM and GRU cells and their gradients, one launch each (`kernels/recurrent.cu`)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ..kernels import FLOATS, blocks_for, dense, family
from . import forward, vjp

MODULE = family(
    "recurrent",
    lstm_step=product(FLOATS),
    lstm_step_grad=product(FLOATS),
    gru_step=product(FLOATS),
    gru_step_grad=product(FLOATS),
)


def _launch(xp: Any, kernel: str, arrays: tuple, outs: tuple, state: Any) -> Any:
    """Run a kernel over the elements of `state`, which is [rows, n]; NotImplemented for dtypes without one."""
    given = [a for a in arrays if a is not None]
    if state.dtype not in FLOATS or any(a.dtype != state.dtype for a in given):
        return NotImplemented
    if state.size:
        sizes = np.int64(state.shape[1]), np.int64(state.size)
        args = (*[dense(xp, a) for a in arrays], *outs, *sizes)
        MODULE.launch(xp, (kernel, state.dtype), blocks_for(state.size), 256, *args)
    return outs


def _empty(xp: Any, *likes: Any) -> tuple:
    return tuple([xp.empty(like.shape, like.dtype) for like in likes])


@forward("lstm_step")
def lstm_step(xp, gates, c):
    return _launch(xp, "lstm_step", (gates, c), _empty(xp, c, c), c)


@vjp("lstm_step")
def lstm_step_vjp(F, gs, gates, c, result1):
    xp, arrays = F.backend, (*gs, gates, c, result1)
    return _launch(xp, "lstm_step_grad", arrays, _empty(xp, gates, c), c)


@forward("gru_step")
def gru_step(xp, x, hidden, h):
    outs = _launch(xp, "gru_step", (x, hidden, h), _empty(xp, h), h)
    return outs if outs is NotImplemented else outs[0]


@vjp("gru_step")
def gru_step_vjp(F, g, x, hidden, h):
    xp = F.backend
    return _launch(xp, "gru_step_grad", (g, x, hidden, h), _empty(xp, x, hidden, h), h)
