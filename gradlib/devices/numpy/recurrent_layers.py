"""Layers of RNN, GRU and LSTM over a whole sequence: few calls for each step, on whole pieces of memory.

The gates of a step lie behind each other, [gates, N, H], so that each call of a step is one run over memory. A step
multiplies the state with the matrices of the gates, which are copied first where that pays: BLAS takes rows of inputs
times columns of weights in less time as a copy has them. The logistic function is (1 + tanh(x / 2)) / 2. The gradient
does all that does not depend on the steps behind it for many steps in one go, but not for more than stay in cache, and
the products for the gradients of inputs and weights once for all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import F4, F8
from . import forward, vjp
from .sums import column_sums

CACHED = 1 << 17  # elements of the gates of steps that are computed together
TILE = 16  # rows of a matrix that are transposed at a time, where they are
LONG = 128  # or more
FEW = 1 << 12  # elements of a step's gates that one product gives sooner than one for each gate


def _runs(steps: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of runs of steps whose gates of `size` elements each stay in cache."""
    count = max(1, CACHED // max(size, 1))
    return [(a, min(a + count, steps)) for a in range(0, steps, count)]


def _suits(*arrays: Any) -> bool:
    """Whether all are of one full precision and nothing is empty."""
    d = arrays[0].dtype
    if d is not F4 and d is not F8:
        return False
    return all(a is None or (a.dtype is d and a.size) for a in arrays)


class _Weights:
    """The products of a layer, `gates` at a time: with its inputs and with its states.

    order: where each gate lies in a step, by its place in the weights.
    halved: how many of a step's gates, from `low` on, go through the logistic function: theirs are halved.
    """

    def __init__(self, weight_ih, weight_hh, order: list[int], halved: int, steps: int, n: int):
        self.gates, self.n = len(order), n
        self.weight_ih, self.order, self.halved = weight_ih, order, halved
        self.half = number_array(0.5, weight_hh.dtype)
        size = weight_hh.shape[1]
        self.out = np.empty((self.gates, n, size), weight_hh.dtype)
        # whether a copy of the matrices costs less than it saves
        self.copied = steps >= 8 if n > 1 else steps >= 16 and size <= 128
        self.moved = order != sorted(order)
        matrix, self.given = self._arranged(weight_hh), self.out
        if not self.copied and self.moved:
            self.given = np.empty_like(self.out)
        if n == 1:  # a matrix times a vector
            if self.copied:
                matrix = _side_by_side(matrix)
            else:
                matrix = weight_hh.T
            self.row: Any = self.given.reshape(1, -1)
        elif self.gates == 1:
            matrix, self.row = matrix[0], self.given[0]
        else:
            self.row = None
        self.matrix = matrix
        self.inputs = self._arranged(weight_ih) if self.copied and n > 1 else None
        self.few = self.out.size <= FEW
        if self.inputs is not None and self.few:
            self.inputs = _side_by_side(self.inputs)

    def _arranged(self, weight):
        """[gates * H, k] as [gates, k, H]: a copy in order and halved, or as it is."""
        parts = weight.reshape(self.gates, -1, weight.shape[1]).transpose(0, 2, 1)
        if not self.copied:
            return parts
        found = np.empty(parts.shape, parts.dtype)
        size = parts.shape[2]
        tile = TILE if size >= LONG else size
        for place, part in zip(self.order, parts):
            for a in range(0, size, tile):
                found[place, :, a : a + tile] = part[:, a : a + tile]
        if self.halved:
            found[: self.halved] *= self.half
        return found

    def of_state(self, h):
        """Write ``h @ weight_hh.T`` to `out`."""
        if self.row is None:
            np.matmul(h, self.matrix, self.given)
        else:
            h.dot(self.matrix, self.row)
        if not self.copied:
            if self.moved:
                for place, part in zip(self.order, self.given):
                    self.out[place] = part
            if self.halved:
                low = self.out[: self.halved]
                np.multiply(low, self.half, low)

    def of_inputs(self, x, bias, out):
        """Write the products of steps `x` [r, N, in], plus `bias` [gates * H], to `out` [r, gates, N, H]."""
        if self.inputs is not None and self.few:
            rows = _rows(x).dot(self.inputs).reshape(len(x), self.n, self.gates, -1)
            out[...] = rows.transpose(0, 2, 1, 3)
        elif self.inputs is not None:
            np.matmul(x[:, None], self.inputs, out)
        else:
            rows = x.reshape(-1, x.shape[2]).dot(self.weight_ih.T)
            parts = rows.reshape(len(x), self.n, self.gates, -1)
            for place, part in zip(self.order, parts.transpose(2, 0, 1, 3)):
                out[:, place] = part
            if self.halved:
                out[:, : self.halved] *= self.half
        if bias is not None:
            out += bias

    def arranged_bias(self, bias):
        """A bias, [gates * H], as what `of_inputs` adds; None is None."""
        if bias is None:
            return None
        found = np.empty((self.gates, 1, self.out.shape[2]), bias.dtype)
        for place, part in zip(self.order, bias.reshape(self.gates, -1)):
            found[place, 0] = part
        if self.halved:
            found[: self.halved] *= self.half
        return found


def _side_by_side(parts):
    """The matrices of gates, [gates, k, H], as one: [k, gates * H]."""
    return parts.transpose(1, 0, 2).reshape(parts.shape[1], -1)


def _begin(h, steps: int):
    """States of all steps, of which the first is known."""
    states = np.empty((steps + 1, *h.shape), h.dtype)
    states[0] = h
    return states


def _by_time(states, reverse: bool):
    """The results of the steps, in memory of their own: nobody writes to what gradients need."""
    return (states[:0:-1] if reverse else states[1:]).copy()


def _rows(x):
    """The steps of a sequence as one matrix."""
    return x.reshape(-1, x.shape[2])


def _flat(grads, out):
    """Gradients of the gates of steps, [r, gates, N, H], as rows [r, N, gates * H]."""
    r, gates, n, size = grads.shape
    out.reshape(r, n, gates, size)[...] = grads.transpose(0, 2, 1, 3)


def _turned(g: Any, reverse: bool) -> Any:
    return g[::-1] if reverse and g is not None else g


def _start(g, like):
    """A gradient that is added to, to begin with."""
    return np.zeros(like.shape, like.dtype) if g is None else g.copy()


def _inputs(flat, weight, shape, reverse: bool):
    """The gradient of the input by that of the gates, [R, gates * H]."""
    out = flat.dot(weight).reshape(shape)
    return out[::-1].copy() if reverse else out


# -- RNN ---------------------------------------------------------------------------------------------------------------


@forward("rnn_layer")
def rnn_layer(xp, input, h, weight_ih, weight_hh, bias=None, *, relu, reverse):
    if not _suits(input, h, weight_ih, weight_hh, bias):
        return NotImplemented
    x = _turned(input, reverse)
    (steps, n), size = x.shape[:2], h.shape[1]
    states = _begin(h, steps)
    weights = _Weights(weight_ih, weight_hh, [0], 0, steps, n)
    bias, part, product = weights.arranged_bias(bias), weights.out[0], weights.of_state
    h = states[0]
    for a, b in _runs(steps, n * size):
        total = states[a + 1 : b + 1]
        weights.of_inputs(x[a:b], bias, total[:, None])
        for new in total:
            product(h)
            np.add(new, part, new)
            if relu:
                np.maximum(new, 0, out=new)
            else:
                np.tanh(new, new)
            h = new
    return _by_time(states, reverse), h.copy(), states


@vjp("rnn_layer")
def rnn_layer_vjp(F, gs, needs, relu, reverse, input, weight_ih, weight_hh, states):
    if not _suits(input, weight_ih, weight_hh):
        return NotImplemented
    to_out, x = _turned(gs[0], reverse), _turned(input, reverse)
    steps, (n, size) = len(x), states.shape[1:]
    grads = np.empty((steps, n, size), input.dtype)
    to_h = _start(gs[1], states[0])
    for a, b in reversed(_runs(steps, n * size)):
        new, run = states[a + 1 : b + 1], grads[a:b]
        if relu:
            np.less_equal(new, 0, run)
        else:
            np.multiply(new, new, run)
        np.subtract(1, run, run)
        outs = [None] * (b - a) if to_out is None else to_out[a:b][::-1]
        for grad, to in zip(run[::-1], outs):
            if to is not None:
                np.add(to_h, to, to_h)
            np.multiply(grad, to_h, grad)
            grad.dot(weight_hh, to_h)
    flat = _rows(grads)
    return (
        _inputs(flat, weight_ih, x.shape, reverse) if needs[0] else None,
        to_h,
        flat.T.dot(_rows(x)) if needs[2] else None,
        flat.T.dot(_rows(states[:-1])) if needs[3] else None,
        column_sums(flat) if needs[4] else None,
    )


# -- GRU: (r, z, n, hn) ------------------------------------------------------------------------------------------------


@forward("gru_layer")
def gru_layer(xp, input, h, weight_ih, weight_hh, bias_ih=None, bias_hh=None, *, reverse):
    if not _suits(input, h, weight_ih, weight_hh, bias_ih, bias_hh):
        return NotImplemented
    x, half = _turned(input, reverse), number_array(0.5, input.dtype)
    (steps, n), size = x.shape[:2], h.shape[1]
    states, gates = _begin(h, steps), np.empty((steps, 4, n, size), x.dtype)
    weights = _Weights(weight_ih, weight_hh, [0, 1, 2], 2, steps, n)
    product, pair, last = weights.of_state, weights.out[:2], weights.out[2]
    spare = np.empty((n, size), x.dtype)
    both = bias_n = None
    if bias_ih is not None and bias_hh is not None:
        both, bias_n = bias_ih.copy(), bias_hh[2 * size :]
        both[: 2 * size] += bias_hh[: 2 * size]
        both = weights.arranged_bias(both)
    h = states[0]
    for a, b in _runs(steps, 4 * n * size):
        run = gates[a:b]
        weights.of_inputs(x[a:b], both, run[:, :3])
        walk = zip(run[:, :2], *(run[:, k] for k in range(4)), states[a + 1 : b + 1])
        for rz, r, z, new_part, hn, new in walk:
            product(h)
            np.add(rz, pair, rz)
            np.tanh(rz, rz)
            np.multiply(rz, half, rz)
            np.add(rz, half, rz)
            if bias_n is None:
                hn[...] = last
            else:
                np.add(last, bias_n, hn)
            np.multiply(r, hn, spare)
            np.add(new_part, spare, new_part)
            np.tanh(new_part, new_part)
            np.subtract(h, new_part, new)
            np.multiply(new, z, new)
            np.add(new, new_part, new)
            h = new
    return _by_time(states, reverse), h.copy(), gates, states


@vjp("gru_layer")
def gru_layer_vjp(F, gs, needs, reverse, input, weight_ih, weight_hh, gates, states):
    if not _suits(input, weight_ih, weight_hh):
        return NotImplemented
    to_out, x = _turned(gs[0], reverse), _turned(input, reverse)
    (steps, _, n, size), d = gates.shape, gates.dtype
    of_inputs, of_states = (np.empty((steps, n, 3 * size), d) for _ in range(2))
    to_h, part = _start(gs[1], states[0]), np.empty((n, size), d)
    for a, b in reversed(_runs(steps, 4 * n * size)):
        run, before = gates[a:b].swapaxes(0, 1), states[a:b]
        r, z, new, hn = run
        grads = np.empty((b - a, 4, n, size), d)  # (z, n, r, hn)
        parts = grads.swapaxes(0, 1)
        np.multiply(z, z, parts[0])
        np.subtract(z, parts[0], parts[0])
        spare = before - new
        np.multiply(parts[0], spare, parts[0])
        np.multiply(new, new, parts[1])
        np.subtract(1, parts[1], parts[1])
        np.subtract(1, z, spare)
        np.multiply(parts[1], spare, parts[1])
        np.multiply(r, r, parts[2])
        np.subtract(r, parts[2], parts[2])
        np.multiply(parts[2], hn, parts[2])
        parts[3] = r
        back = grads[::-1]
        outs = [None] * (b - a) if to_out is None else to_out[a:b][::-1]
        rows = of_states[a:b][::-1]
        walk = zip(back[:, :2], back[:, 2:], back[:, 1], rows, z[::-1], outs)
        of_r, of_z, of_n = (
            zip(back[:, k], rows[..., i * size : (i + 1) * size]) for i, k in enumerate((2, 0, 3))
        )
        for zn, rh, to_n, row, z_t, to in walk:
            if to is not None:
                np.add(to_h, to, to_h)
            np.multiply(zn, to_h, zn)
            np.multiply(rh, to_n, rh)
            for source in (of_r, of_z, of_n):
                given, place = next(source)
                place[...] = given
            np.multiply(to_h, z_t, part)
            row.dot(weight_hh, to_h)
            np.add(to_h, part, to_h)
        of_inputs[a:b, :, : 2 * size] = of_states[a:b, :, : 2 * size]
        of_inputs[a:b, :, 2 * size :] = grads[:, 1]
    of_inputs, of_states = _rows(of_inputs), _rows(of_states)
    return (
        _inputs(of_inputs, weight_ih, x.shape, reverse) if needs[0] else None,
        to_h,
        of_inputs.T.dot(_rows(x)) if needs[2] else None,
        of_states.T.dot(_rows(states[:-1])) if needs[3] else None,
        column_sums(of_inputs) if needs[4] else None,
        column_sums(of_states) if needs[5] else None,
    )


# -- LSTM: (o, i, f, g, c) ---------------------------------------------------------------------------------------------


@forward("lstm_layer")
def lstm_layer(xp, input, h, c, weight_ih, weight_hh, bias=None, *, reverse):
    if not _suits(input, h, c, weight_ih, weight_hh, bias):
        return NotImplemented
    x, half = _turned(input, reverse), number_array(0.5, input.dtype)
    (steps, n), size = x.shape[:2], h.shape[1]
    states, gates = _begin(h, steps), np.empty((steps, 5, n, size), x.dtype)
    last = np.empty((n, size), x.dtype)
    gates[0, 4] = c
    weights = _Weights(weight_ih, weight_hh, [1, 2, 3, 0], 3, steps, n)
    bias, part, product = weights.arranged_bias(bias), weights.out, weights.of_state
    pair = np.empty((2, n, size), x.dtype)
    one, other = pair
    h = states[0]
    for a, b in _runs(steps, 5 * n * size):
        run = gates[a:b]
        weights.of_inputs(x[a:b], bias, run[:, :4])
        cells = [*gates[a + 1 : b + 1, 4], last][: b - a]
        parts = run[:, :4], run[:, :3], run[:, 1:3], run[:, 3:], run[:, 0]
        for total, oif, to_pair, of_pair, o, cell, new in zip(*parts, cells, states[a + 1 : b + 1]):
            product(h)
            np.add(total, part, total)
            np.tanh(total, total)
            np.multiply(oif, half, oif)
            np.add(oif, half, oif)
            np.multiply(to_pair, of_pair, pair)  # i * g and f * c
            np.add(one, other, cell)
            np.tanh(cell, new)
            np.multiply(new, o, new)
            h = new
    return _by_time(states, reverse), h.copy(), last.copy(), gates, states, last


@vjp("lstm_layer")
def lstm_layer_vjp(F, gs, needs, reverse, input, weight_ih, weight_hh, gates, states, last):
    if not _suits(input, weight_ih, weight_hh):
        return NotImplemented
    to_out, x = _turned(gs[0], reverse), _turned(input, reverse)
    (steps, _, n, size), d = gates.shape, gates.dtype
    to_h, to_c = _start(gs[1], states[0]), _start(gs[2], last)
    flat = np.empty((steps, n, 4 * size), d)
    few, places = 4 * n * size <= FEW, flat.reshape(steps, n, 4, size).transpose(0, 2, 1, 3)
    matrix, products = weight_hh.reshape(4, size, size), np.empty((4, n, size), d)
    left, right = products[:2], products[2:]
    after = last[None]  # c after the steps
    for a, b in reversed(_runs(steps, 5 * n * size)):
        o, i, f, g, c = gates[a:b].swapaxes(0, 1)
        cells = np.concatenate([c[1:], after])
        after = c[:1]
        np.tanh(cells, cells)
        grads = np.empty((b - a, 5, n, size), d)  # (i, f, g, o), then what c gets by tanh of it
        parts = grads.swapaxes(0, 1)
        low = gates[a:b, 1:3]
        np.multiply(low, low, grads[:, :2])
        np.subtract(low, grads[:, :2], grads[:, :2])
        np.multiply(grads[:, :2], gates[a:b, 3:], grads[:, :2])  # slopes of i and f, times g and c
        np.multiply(g, g, parts[2])
        np.subtract(1, parts[2], parts[2])
        np.multiply(parts[2], i, parts[2])
        np.multiply(o, o, parts[3])
        np.subtract(o, parts[3], parts[3])
        np.multiply(parts[3], cells, parts[3])
        np.multiply(cells, cells, cells)
        np.subtract(1, cells, cells)
        np.multiply(cells, o, parts[4])
        back = grads[::-1]
        outs = [None] * (b - a) if to_out is None else to_out[a:b][::-1]
        rows = flat[a:b][::-1], places[a:b][::-1]
        walk = zip(back[:, 3:], back[:, :3], back[:, 4], back[:, :4], f[::-1], outs, *rows)
        for by_h, by_c, through, four, f_t, to, row, place in walk:
            if to is not None:
                np.add(to_h, to, to_h)
            np.multiply(by_h, to_h, by_h)
            np.add(to_c, through, to_c)
            np.multiply(by_c, to_c, by_c)
            np.multiply(to_c, f_t, to_c)
            if few:
                place[...] = four
                row.dot(weight_hh, to_h)
            elif n == 1:
                four.reshape(1, -1).dot(weight_hh, to_h)
            else:
                np.matmul(four, matrix, products)
                np.add(left, right, left)
                np.add(left[0], left[1], to_h)
        if not few:
            _flat(grads[:, :4], flat[a:b])
    flat = _rows(flat)
    return (
        _inputs(flat, weight_ih, x.shape, reverse) if needs[0] else None,
        to_h,
        to_c,
        flat.T.dot(_rows(x)) if needs[3] else None,
        flat.T.dot(_rows(states[:-1])) if needs[4] else None,
        column_sums(flat) if needs[5] else None,
    )
