"""A layer of RNN, GRU or LSTM over a whole sequence, one node each.

Shapes: `input` [T, N, in], states [N, H], `weight_ih` [gates * H, in], `weight_hh` [gates * H, H]; the results are
those of all steps [T, N, H] and the last states. `reverse` walks from the last step to the first. The bias of an RNN
and an LSTM, [gates * H], is the sum of its two.

Formulas compute the steps again. What an overlay of the gradient wants is hidden: states [T + 1, N, H], the first
before all steps, and values of the gates [T, parts, N, H], both in the order of the walk: (r, z, n, hn) of a GRU, hn
the product with the state; (o, i, f, g, c) of an LSTM, c before the step; the last c besides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

from ...op.declare import declare
from ..kinds import F4, is_half, narrow, wide_or_none
from .recurrent import activations, gru_gates, slope


def _rounded_once(kernel: Callable) -> Callable:
    """A kernel that computes half types in float32: all its results are rounded in the end."""

    @functools.wraps(kernel)
    def forward(xp, input, *rest, **attrs):
        if not is_half(input):
            return kernel(xp, input, *rest, **attrs)
        found = kernel(xp, xp.wide(input), *[wide_or_none(xp, a) for a in rest], **attrs)
        return tuple([narrow(f, input.dtype) for f in found])

    return forward


def _formula_rounded_once(formula: Callable) -> Callable:
    """The same of a gradient formula ``f(F, gs, input, ...)``."""

    @functools.wraps(formula)
    def rounded(F, gs, input, *rest):
        have = getattr(input, "_array", input).dtype
        if not is_half(getattr(input, "_array", input)):
            return formula(F, gs, input, *rest)

        def wide(a: Any) -> Any:
            return F.cast(a, F4, have) if hasattr(a, "dtype") else a

        found = formula(F, [wide(g) for g in gs], *map(wide, (input, *rest)))
        return tuple([None if g is None else F.cast(g, have, F4) for g in found])

    return rounded


def _walk(xp, input, weight_ih, bias, reverse):
    """The steps' part of the gates that depends on the inputs alone, in the order of the walk."""
    x = xp.matmul(input, weight_ih.T)
    if bias is not None:
        x = x + bias
    return x[::-1] if reverse else x


def _times(input, reverse) -> list[int]:
    times = list(range(input.shape[0]))
    return times[::-1] if reverse else times


def _joined(xp, states, reverse):
    """(results by time, states in the order of the walk)."""
    kept = xp.stack(states)
    return (kept[:0:-1] if reverse else kept[1:]).copy(), kept


def _to_products(F, parts, before, input, weight_ih, hidden_parts=None):
    """Gradients of (input, weight_ih, weight_hh, bias) by those of the gates of each step, [N, gates * H] each.

    before: the state at each step; hidden_parts: gradients of the products with it, where they are others.
    """
    d = F.stack(parts, 0)
    flat = F.cat(parts, 0)
    hidden = flat if hidden_parts is None else F.cat(hidden_parts, 0)
    rows = F.reshape(input, (flat.shape[0], input.shape[2]))
    to_ih = F.matmul(F.t(flat), rows)
    to_hh = F.matmul(F.t(hidden), F.cat(before, 0))
    return F.matmul(d, weight_ih), to_ih, to_hh, F.sum(flat, (0,), False)


def _hidden(names: str) -> dict:
    """Hidden values that no formula asks for."""
    return {name: lambda F, h: h for name in names.split()}


def _flops(at: int) -> Any:
    """Products with the inputs and with the states; `weight_ih` is the argument number `at`, `weight_hh` the next."""

    def count(_: Any, input: tuple, *rest: tuple) -> int:
        return 2 * prod(input[:2]) * (prod(rest[at - 1]) + prod(rest[at]))

    return count


# -- RNN: h' = f(gates + W_hh h) ---------------------------------------------------------------------------------------


@_rounded_once
def _rnn_layer(xp, input, h, weight_ih, weight_hh, bias=None, *, relu, reverse):
    states = [h]
    for gates in _walk(xp, input, weight_ih, bias, reverse):
        total = gates + xp.matmul(states[-1], weight_hh.T)
        states.append(xp.maximum(total, 0) if relu else xp.tanh(total))
    out, kept = _joined(xp, states, reverse)
    return out, states[-1].copy(), kept


@_formula_rounded_once
def _rnn_vjp(F, gs, input, h, weight_ih, weight_hh, bias, relu, reverse):
    times = _times(input, reverse)
    to_out, to_h = F.filled(gs, [(*input.shape[:2], h.shape[1]), tuple(h.shape)])
    x = F.linear(input, weight_ih, bias)
    states = [h]
    for t in times:
        total = F.select(x, 0, t) + F.linear(states[-1], weight_hh, None)
        states.append(F.relu(total) if relu else F.tanh(total))
    parts: list = [None] * len(times)
    before: list = [None] * len(times)
    for t in reversed(times):
        new = states.pop()
        to_h = to_h + F.select(to_out, 0, t)
        parts[t] = F.masked_fill(to_h, new <= 0, 0.0) if relu else to_h * (1 - new * new)
        before[t] = states[-1]
        to_h = F.matmul(parts[t], weight_hh)
    to_x, to_ih, to_hh, to_bias = _to_products(F, parts, before, input, weight_ih)
    return to_x, to_h, to_ih, to_hh, None if bias is None else to_bias


rnn_layer_op = declare(
    "rnn_layer", _rnn_layer, flops=_flops(2), n_out=2, vjp=_rnn_vjp, node="RnnLayerBackward0", complex=False,
    hidden=_hidden("states"),
    samples=lambda t: [
        (t(3, 2, 4), t(2, 3), t(3, 4), t(3, 3), t(3), False, False),
        (t(2, 1, 3), t(1, 2), t(2, 3), t(2, 2), None, False, True),
        (t(3, 0, 2), t(0, 2), t(2, 2), t(2, 2), t(2), False, False),
    ],
)  # fmt: skip


# -- GRU ---------------------------------------------------------------------------------------------------------------


@_rounded_once
def _gru_layer(xp, input, h, weight_ih, weight_hh, bias_ih=None, bias_hh=None, *, reverse):
    states, values = [h], []
    for x in _walk(xp, input, weight_ih, bias_ih, reverse):
        hidden = xp.matmul(states[-1], weight_hh.T)
        if bias_hh is not None:
            hidden = hidden + bias_hh
        r, z, n, hn = gru_gates(xp, x, hidden)
        states.append(n + z * (states[-1] - n))
        values.append(xp.stack([r, z, n, hn]))
    out, kept = _joined(xp, states, reverse)
    return out, states[-1].copy(), xp.stack(values), kept


def _thirds(F, x):
    n = x.shape[1] // 3
    return (F.slice(x, 1, k * n, (k + 1) * n, 1) for k in range(3))


@_formula_rounded_once
def _gru_vjp(F, gs, input, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse):
    times = _times(input, reverse)
    to_out, to_h = F.filled(gs, [(*input.shape[:2], h.shape[1]), tuple(h.shape)])
    x = F.linear(input, weight_ih, bias_ih)
    steps = []
    for t in times:
        xr, xz, xn = _thirds(F, F.select(x, 0, t))
        hr, hz, hn = _thirds(F, F.linear(h, weight_hh, bias_hh))
        r, z = F.sigmoid(xr + hr), F.sigmoid(xz + hz)
        n = F.tanh(xn + r * hn)
        steps.append((h, r, z, n, hn))
        h = n + z * (h - n)
    parts: list = [None] * len(times)
    hidden_parts: list = [None] * len(times)
    before: list = [None] * len(times)
    for t in reversed(times):
        h, r, z, n, hn = steps.pop()
        to_h = to_h + F.select(to_out, 0, t)
        to_n = to_h * (1 - z) * (1 - n * n)
        first = [to_n * hn * slope(r), to_h * (h - n) * slope(z)]
        parts[t], hidden_parts[t] = F.cat([*first, to_n], 1), F.cat([*first, to_n * r], 1)
        before[t] = h
        to_h = to_h * z + F.matmul(hidden_parts[t], weight_hh)
    found = _to_products(F, parts, before, input, weight_ih, hidden_parts)
    to_x, to_ih, to_hh, to_bias = found
    to_biases = None, None
    if bias_ih is not None:
        to_biases = to_bias, F.sum(F.cat(hidden_parts, 0), (0,), False)
    return to_x, to_h, to_ih, to_hh, *to_biases


gru_layer_op = declare(
    "gru_layer", _gru_layer, flops=_flops(2), n_out=2, vjp=_gru_vjp, node="GruLayerBackward0", complex=False,
    hidden=_hidden("gates states"),
    samples=lambda t: [
        (t(3, 2, 4), t(2, 3), t(9, 4), t(9, 3), t(9), t(9), False),
        (t(2, 1, 3), t(1, 2), t(6, 3), t(6, 2), None, None, True),
        (t(3, 0, 2), t(0, 2), t(6, 2), t(6, 2), t(6), t(6), False),
    ],
)  # fmt: skip


# -- LSTM --------------------------------------------------------------------------------------------------------------


@_rounded_once
def _lstm_layer(xp, input, h, c, weight_ih, weight_hh, bias=None, *, reverse):
    states, values = [h], []
    for x in _walk(xp, input, weight_ih, bias, reverse):
        i, f, g, o = activations(xp, x + xp.matmul(states[-1], weight_hh.T))
        values.append(xp.stack([o, i, f, g, c]))
        c = f * c + i * g
        states.append(o * xp.tanh(c))
    out, kept = _joined(xp, states, reverse)
    return out, states[-1].copy(), c.copy(), xp.stack(values), kept, c.copy()


def _quarters(F, gates):
    n = gates.shape[1] // 4
    i, f, g, o = (F.slice(gates, 1, k * n, (k + 1) * n, 1) for k in range(4))
    return F.sigmoid(i), F.sigmoid(f), F.tanh(g), F.sigmoid(o)


@_formula_rounded_once
def _lstm_vjp(F, gs, input, h, c, weight_ih, weight_hh, bias, reverse):
    times = _times(input, reverse)
    shapes = [(*input.shape[:2], h.shape[1]), tuple(h.shape), tuple(c.shape)]
    to_out, to_h, to_c = F.filled(gs, shapes)
    x = F.linear(input, weight_ih, bias)
    steps = []
    for t in times:
        i, f, g, o = _quarters(F, F.select(x, 0, t) + F.linear(h, weight_hh, None))
        new = f * c + i * g
        tanh = F.tanh(new)
        steps.append((h, c, i, f, g, o, tanh))
        h, c = o * tanh, new
    parts: list = [None] * len(times)
    before: list = [None] * len(times)
    for t in reversed(times):
        before[t], c, i, f, g, o, tanh = steps.pop()
        to_h = to_h + F.select(to_out, 0, t)
        total = to_c + to_h * o * (1 - tanh * tanh)
        gates = [
            total * g * slope(i), total * c * slope(f), total * i * (1 - g * g), to_h * tanh * slope(o),
        ]  # fmt: skip
        parts[t] = F.cat(gates, 1)
        to_h, to_c = F.matmul(parts[t], weight_hh), total * f
    to_x, to_ih, to_hh, to_bias = _to_products(F, parts, before, input, weight_ih)
    return to_x, to_h, to_c, to_ih, to_hh, None if bias is None else to_bias


lstm_layer_op = declare(
    "lstm_layer", _lstm_layer, flops=_flops(3), n_out=3, vjp=_lstm_vjp, node="LstmLayerBackward0", complex=False,
    hidden=_hidden("gates states last"),
    samples=lambda t: [
        (t(3, 2, 4), t(2, 3), t(2, 3), t(12, 4), t(12, 3), t(12), False),
        (t(2, 1, 3), t(1, 2), t(1, 2), t(8, 3), t(8, 2), None, True),
        (t(3, 0, 2), t(0, 2), t(0, 2), t(8, 2), t(8, 2), t(8), False),
    ],
)  # fmt: skip
