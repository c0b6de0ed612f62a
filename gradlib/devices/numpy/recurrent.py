"""The gradients of LSTM and GRU steps: few passes, each written into place."""

from __future__ import annotations

from typing import Any

from ...operators.nn.recurrent import activations, gru_gates, slope
from . import vjp


@vjp("lstm_step")
def lstm_step_vjp(F, gs: Any, gates, c, result1):
    xp, (to_h, to_c), new = F.backend, gs, result1
    i, f, g, o = activations(xp, gates)
    n = c.shape[1]
    out = xp.empty(gates.shape, gates.dtype)
    if to_h is None:
        total = to_c
        out[:, 3 * n :] = 0
    else:
        t = xp.tanh(new)
        part = to_h * o
        total = t * t
        total *= part
        xp.subtract(part, total, out=total)  # part * (1 - t ** 2)
        if to_c is not None:
            total += to_c
        t *= to_h
        xp.multiply(t, slope(o), out=out[:, 3 * n :])
    xp.multiply(total * g, slope(i), out=out[:, :n])
    xp.multiply(total * c, slope(f), out=out[:, n : 2 * n])
    xp.multiply(total * i, 1 - g * g, out=out[:, 2 * n : 3 * n])
    return out, total * f


@vjp("gru_step")
def gru_step_vjp(F, g: Any, x, hidden, h):
    xp, grad = F.backend, g
    r, z, n, hn = gru_gates(xp, x, hidden)
    size = h.shape[1]
    to_h = grad * z
    to_n = grad - to_h
    to_n *= 1 - n * n
    to_x = xp.empty(x.shape, x.dtype)
    xp.multiply(to_n * hn, slope(r), out=to_x[:, :size])
    xp.multiply(grad * (h - n), slope(z), out=to_x[:, size : 2 * size])
    to_x[:, 2 * size :] = to_n
    to_hidden = to_x.copy()
    to_hidden[:, 2 * size :] *= r
    return to_x, to_hidden, to_h
