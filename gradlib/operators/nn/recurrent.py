"""The steps of LSTM and GRU cells after their matrix products, one node each.

Nothing but arguments and results is kept: gradients compute the activations of the gates again.
"""

from __future__ import annotations

from typing import Any

from ...op.declare import declare

# -- LSTM: c' = f c + i g, h' = o tanh(c') -----------------------------------------------------------------------------


def activations(xp, gates):
    """(i, f, g, o), views of one array: the logistic function of the gates, but tanh of the third quarter."""
    n = gates.shape[1] // 4
    out = xp.negative(gates)
    xp.exp(
        out, out=out
    )  # inf where a gate is very negative: the quotient is then 0, as it should be
    out += 1
    xp.reciprocal(out, out=out)
    g = out[:, 2 * n : 3 * n]
    xp.tanh(gates[:, 2 * n : 3 * n], out=g)
    return out[:, :n], out[:, n : 2 * n], g, out[:, 3 * n :]


def _lstm_step(xp, gates, c):
    i, f, g, o = activations(xp, gates)
    new = f * c
    new += i * g
    h = xp.tanh(new)
    h *= o
    return h, new


def slope(y):
    """The derivative of the logistic function by its value."""
    return y - y * y


def _quarters(F, gates):
    n = gates.shape[1] // 4
    i, f, g, o = (F.slice(gates, 1, k * n, (k + 1) * n, 1) for k in range(4))
    return F.sigmoid(i), F.sigmoid(f), F.tanh(g), F.sigmoid(o)


def _lstm_vjp(F, gs, gates, c, result1):
    i, f, g, o = _quarters(F, gates)
    t = F.tanh(result1)
    to_h, to_c = F.filled(gs, [tuple(c.shape)] * 2)
    total = to_c + to_h * o * (1 - t * t)
    parts = [
        total * g * slope(i),
        total * c * slope(f),
        total * i * (1 - g * g),
        to_h * t * slope(o),
    ]
    return F.cat(parts, 1), total * f


lstm_step_op = declare(
    "lstm_step", _lstm_step, n_out=2, vjp=_lstm_vjp, node="LstmCellBackward0", complex=False,
    samples=lambda t: [(t(3, 8), t(3, 2)), (t(1, 4), t(1, 1)), (t(0, 4), t(0, 1))],
)  # fmt: skip


# -- GRU: h' = n + z (h - n), the reset gate r inside n ----------------------------------------------------------------


def _thirds(F, x):
    n = x.shape[1] // 3
    return (F.slice(x, 1, k * n, (k + 1) * n, 1) for k in range(3))


def gru_gates(xp, x, hidden):
    """(r, z, n, hn), the first two views of one array."""
    size = x.shape[1] // 3
    both = x[:, : 2 * size] + hidden[:, : 2 * size]
    xp.negative(both, out=both)
    xp.exp(both, out=both)
    both += 1
    xp.reciprocal(both, out=both)
    r, z, hn = both[:, :size], both[:, size:], hidden[:, 2 * size :]
    n = r * hn
    n += x[:, 2 * size :]
    return r, z, xp.tanh(n, out=n), hn


def _gru_step(xp, x, hidden, h):
    _, z, n, _ = gru_gates(xp, x, hidden)
    out = h - n
    out *= z
    out += n
    return out


def _gru_vjp(F, g: Any, x, hidden, h):
    (xr, xz, xn), (hr, hz, hn) = _thirds(F, x), _thirds(F, hidden)
    r, z = F.sigmoid(xr + hr), F.sigmoid(xz + hz)
    n = F.tanh(xn + r * hn)
    to_n = g * (1 - z) * (1 - n * n)
    first = [to_n * hn * slope(r), g * (h - n) * slope(z)]
    return F.cat([*first, to_n], 1), F.cat([*first, to_n * r], 1), g * z


gru_step_op = declare(
    "gru_step", _gru_step, vjp=_gru_vjp, node="GruCellBackward0", complex=False,
    samples=lambda t: [(t(3, 6), t(3, 6), t(3, 2)), (t(1, 3), t(1, 3), t(1, 1)), (t(0, 3), t(0, 3), t(0, 1))],
)  # fmt: skip
