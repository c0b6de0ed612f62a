"""One step of each recurrent cell, and the walk of a cell over time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from ...devices.cuda.kernels import FLOATS
from ...operators import public as ops
from ...operators.nn.recurrent import gru_step_op, lstm_step_op
from ...operators.nn.recurrent_layers import gru_layer_op, lstm_layer_op, rnn_layer_op
from ...tape.arrays import kernels_of
from ...tape.modes import AUTOCAST, DISPATCH, FORWARD_AD, VMAP, shared, state
from ...tape.tensor import Tensor
from .. import functional as F
from ..parameter import Parameter

States = tuple[Tensor, ...]


class Cell:
    """A cell: `project` all inputs at once, then `step` through time."""

    gates: int
    weight_hr: Any = None

    def __init__(self, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None):
        self.weight_ih, self.weight_hh = weight_ih, weight_hh
        self.bias_ih, self.bias_hh = bias_ih, bias_hh

    def project(self, x: Tensor) -> Tensor:
        """x: [..., in] -> its part of the gates [..., gates * hidden]."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def step(self, gates: Tensor, states: States) -> States:
        """gates: [N, gates * hidden], states: [N, hidden] each -> the next states."""
        raise NotImplementedError

    def is_whole(self, x: Tensor, n: int, states: States) -> bool:
        """Whether `layer` may run; n: sequences."""
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        return self.weight_hr is None and _whole(x, n, self.gates, states, weights)

    def layer(self, x: Tensor, states: States, reverse: bool) -> tuple[Tensor, States]:
        """All steps as one op: x [T, N, in], states as in `step` -> [T, N, hidden], last states."""
        raise NotImplementedError


def tanh(x: Tensor) -> Tensor:
    """The method as a function."""
    return x.tanh()


def relu(x: Tensor) -> Tensor:
    """The method as a function."""
    return x.relu()


def _one_node(*values: Tensor) -> bool:
    """Whether a step of `values` may run as one op: matrices in memory of one kind, of full precision on the host."""
    first = values[0]._array
    if first.__class__ is np.ndarray:
        if first.dtype.kind != "f" or first.dtype.itemsize < 4:
            return False
    elif not _has_kernel(first):
        return False
    if shared.active and state.bits & (AUTOCAST | VMAP):
        return False
    for value in values:
        array = value._array
        if value.__class__ is not Tensor or array.ndim != 2 or array.dtype != first.dtype:
            return False
        if array.shape[0] != first.shape[0]:
            return False
    return True


def _has_kernel(array: Any) -> bool:
    """Whether `array` is one of a device, with kernels for steps of its dtype."""
    if shared.cuda is None or array.__class__ is not shared.cuda.array:
        return False
    return kernels_of(array).fuses and array.dtype in FLOATS


def _whole(x: Tensor, n: int, gates: int, states: States, weights: Any) -> bool:
    """Whether a layer may run as one op: on the host, in one full precision, without a mode that looks at steps."""
    first = x._array
    if first.__class__ is not np.ndarray or not first.size:
        return False
    d = first.dtype
    if d.kind != "f" or d.itemsize < 4:
        return False
    if shared.active and state.bits & (AUTOCAST | DISPATCH | FORWARD_AD | VMAP):
        return False
    size = weights[1]._array.shape[-1]
    rows = gates * size
    shapes = (rows, first.shape[-1]), (rows, size), (rows,), (rows,)
    if any(w is not None and w._array.shape != shape for w, shape in zip(weights, shapes)):
        return False  # a step says what does not fit
    if any(s._array.shape != (n, size) for s in states):
        return False
    for value in (x, *states, *weights):
        if value is None:
            continue
        if value.__class__ is not Tensor and value.__class__ is not Parameter:
            return False
        if value._array.__class__ is not np.ndarray or value._array.dtype != d:
            return False
    return True


class AddingCell(Cell):
    """A cell that adds all parts of its gates: both biases go with those of the inputs, once for all steps."""

    def bias(self) -> Tensor | None:
        """The sum of the biases."""
        return None if self.bias_ih is None else self.bias_ih + self.bias_hh

    def project(self, x: Tensor) -> Tensor:
        """x: [..., in] -> all of the gates that does not depend on states [..., gates * hidden]."""
        return F.linear(x, self.weight_ih, self.bias())


class SimpleCell(AddingCell):
    """h' = f(gates + W_hh h + b_hh)."""

    gates = 1

    def __init__(self, activation: Callable[[Tensor], Tensor], *weights: Any):
        super().__init__(*weights)
        self.activation = activation

    def step(self, gates: Tensor, states: States) -> States:
        """gates: [N, hidden], states: (h,) -> (h',)."""
        return (self.activation(gates + F.linear(states[0], self.weight_hh)),)

    def layer(self, x: Tensor, states: States, reverse: bool) -> tuple[Tensor, States]:
        """x: [T, N, in], states: (h,) -> [T, N, hidden], (h',)."""
        weights = self.weight_ih, self.weight_hh, self.bias()
        relus = self.activation is relu
        out, h = rnn_layer_op.call(x, *states, *weights, relus, reverse)
        return out, (h,)


class LSTMCellStep(AddingCell):
    """c' = f c + i g, h' = o tanh(c'), projected if there is a projection."""

    gates = 4

    def __init__(self, *weights: Any, weight_hr: Any = None):
        super().__init__(*weights)
        self.weight_hr = weight_hr

    def step(self, gates: Tensor, states: States) -> States:
        """gates: [N, 4 * hidden], states: (h, c) -> (h', c')."""
        h, c = states
        gates = gates + F.linear(h, self.weight_hh)
        if _one_node(gates, c):
            h, c = lstm_step_op.call(gates, c)
        else:
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        if self.weight_hr is not None:
            h = F.linear(h, self.weight_hr)
        return h, c

    def layer(self, x: Tensor, states: States, reverse: bool) -> tuple[Tensor, States]:
        """x: [T, N, in], states: (h, c) -> [T, N, hidden], (h', c')."""
        weights = self.weight_ih, self.weight_hh, self.bias()
        out, h, c = lstm_layer_op.call(x, *states, *weights, reverse)
        return out, (h, c)


class GRUCellStep(Cell):
    """h' = n + z (h - n), the reset gate r inside n."""

    gates = 3

    def step(self, gates: Tensor, states: States) -> States:
        """gates: [N, 3 * hidden], states: (h,) -> (h',)."""
        (h,) = states
        hidden = F.linear(h, self.weight_hh, self.bias_hh)
        if _one_node(gates, hidden, h):
            return (gru_step_op.call(gates, hidden, h),)
        xr, xz, xn = gates.chunk(3, -1)
        hr, hz, hn = hidden.chunk(3, -1)
        r = (xr + hr).sigmoid()
        z = (xz + hz).sigmoid()
        n = (xn + r * hn).tanh()
        return (n + z * (h - n),)

    def layer(self, x: Tensor, states: States, reverse: bool) -> tuple[Tensor, States]:
        """x: [T, N, in], states: (h,) -> [T, N, hidden], (h',)."""
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        out, h = gru_layer_op.call(x, *states, *weights, reverse)
        return out, (h,)


def cell_of(mode: str, bias: bool, weights: list[Any]) -> Cell:
    """The cell of one layer and direction, from its parameters in the order of registration."""
    main = weights[: 4 if bias else 2]
    if mode == "LSTM":
        rest = weights[len(main) :]
        return LSTMCellStep(*main, weight_hr=rest[0] if rest else None)
    if mode == "GRU":
        return GRUCellStep(*main)
    return SimpleCell(tanh if mode == "RNN_TANH" else relu, *main)


def in_layers(
    cells: list[Cell],
    x: Tensor,
    sizes: list[int],
    states: States,
    bidirectional: bool,
    dropout: float,
) -> tuple[Tensor, States]:
    """Run layers of cells over a sequence.

    Args:
        cells: of each layer, and in it of each direction.
        x: as in `over_time`, like `sizes`.
        states: [len(cells), N, hidden] each.
        bidirectional: whether a layer has a way back.
        dropout: the probability of dropping a result between layers.

    Returns:
        (output, states): as of `over_time` for the last layer; the last states of all cells.
    """
    directions = 2 if bidirectional else 1
    first = [s.unbind(0) for s in states]
    last: list[list[Tensor]] = [[] for _ in states]
    for i in range(0, len(cells), directions):
        outputs = []
        for j, cell in enumerate(cells[i : i + directions]):
            out, end = over_time(cell, x, sizes, tuple(s[i + j] for s in first), reverse=j == 1)
            outputs.append(out)
            for kept, final in zip(last, end):
                kept.append(final)
        x = outputs[0] if directions == 1 else ops.cat(outputs, -1)
        if dropout > 0 and i + directions < len(cells):
            x = F.dropout(x, dropout, True)
    return x, tuple(ops.stack(kept) for kept in last)


def over_time(
    cell: Cell, x: Tensor, sizes: list[int], states: States, reverse: bool
) -> tuple[Tensor, States]:
    """Run a cell over a sequence.

    Args:
        cell: what to run.
        x: [T, N, in], or packed [sum of sizes, in].
        sizes: sequences that are alive at each time step; not increasing.
        states: [N, hidden] each, at the start.
        reverse: from the last time step to the first.

    Returns:
        (output, states): output [T, N, out] or [sum of sizes, out]; states after the last
        element of each sequence, or after its first in reverse.
    """
    packed = x.dim() == 2
    whole = cell.is_whole(x, sizes[0], states)
    if whole and not packed:
        return cell.layer(x, states, reverse)
    runs = [(n, len(list(same))) for n, same in groupby(sizes)] if whole else []
    if runs and 2 * len(runs) <= len(sizes):  # steps with as many sequences make a layer

        def advance(rows: Tensor, states: States) -> tuple[Tensor, States]:
            piece = rows.reshape(-1, states[0].size(0), rows.size(1))
            out, states = cell.layer(piece, states, reverse)
            return out.flatten(0, 1), states

        steps: Any = x.split([n * count for n, count in runs])
        sizes = [n for n, _ in runs]
    else:

        def advance(rows: Tensor, states: States) -> tuple[Tensor, States]:
            states = cell.step(rows, states)
            return states[0], states

        gates = cell.project(x)
        steps = gates.split(sizes) if packed else gates.unbind(0)
    walk = _backward if reverse else _forward
    outputs, states = walk(advance, steps, sizes, states)
    return (ops.cat(outputs) if packed else ops.stack(outputs)), states


Advance = Callable[[Tensor, States], tuple[Tensor, States]]


def _forward(
    advance: Advance, steps: Any, sizes: list[int], states: States
) -> tuple[list[Tensor], States]:
    ended: list[States] = []  # states of sequences that are over, shortest first
    outputs = []
    alive = sizes[0]
    for rows, n in zip(steps, sizes):
        if n < alive:
            ended.append(tuple(s[n:] for s in states))
            states = tuple(s[:n] for s in states)
            alive = n
        out, states = advance(rows, states)
        outputs.append(out)
    if ended:
        ended.append(states)
        ended.reverse()
        states = tuple(ops.cat(list(parts)) for parts in zip(*ended))
    return outputs, states


def _backward(
    advance: Advance, steps: Any, sizes: list[int], first: States
) -> tuple[list[Tensor], States]:
    alive = sizes[-1]
    states = first if alive == sizes[0] else tuple(s[:alive] for s in first)
    outputs = []
    for rows, n in zip(reversed(steps), reversed(sizes)):
        if n > alive:  # longer sequences have been walked already, these begin here
            states = tuple(ops.cat([s, f[alive:n]]) for s, f in zip(states, first))
            alive = n
        out, states = advance(rows, states)
        outputs.append(out)
    outputs.reverse()
    return outputs, states
