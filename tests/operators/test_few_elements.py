"""Kernels for few elements, where the number of calls decides: the numbers of the formulas, at every edge."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.op import overlays

F = gl.nn.functional
SHAPES = [(4, 10), (32, 64), (3, 1), (1, 7), (2, 3, 5), (2, 2, 3, 4), (9,)]
# among them where exponentials need a shift, and where they just do not
SCALES = [0.0, 1e-3, 1.0, 11.0, 13.0, 80.0, 3e4]
EPS = {np.float32: 1.2e-7, np.float64: 2.3e-16}


def exact(x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """softmax and log_softmax in extended precision."""
    wide = x.astype(np.longdouble)
    wide = wide - wide.max(dim, keepdims=True)
    logs = wide - np.log(np.exp(wide).sum(dim, keepdims=True))
    return np.exp(logs), logs


@pytest.mark.host
@pytest.mark.parametrize("kind", EPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(kind, shape):
    rng = np.random.default_rng(0)
    for scale in SCALES:
        for offset in (0.0, -300.0):
            x = (rng.standard_normal(shape) * scale + offset).astype(kind)
            largest = 1 + float(np.abs(x).max())
            for dim in range(len(shape)):
                share, logs = exact(x, dim)
                found = F.softmax(gl.tensor(x), dim).numpy()
                assert np.abs(found - share).max() < 8 * EPS[kind] * min(largest, 100)
                found = F.log_softmax(gl.tensor(x), dim).numpy()
                assert np.abs(found - logs).max() < 8 * EPS[kind] * (largest + float(-logs.min()))


@pytest.mark.host
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_softmax(name, shape):
    rng = np.random.default_rng(1)
    x = gl.tensor(rng.standard_normal(shape), requires_grad=True)
    g = gl.tensor(rng.standard_normal(shape))
    for dim in range(len(shape)):
        (found,) = gl.autograd.grad(getattr(F, name)(x, dim), x, g)
        with overlays.off():
            (want,) = gl.autograd.grad(getattr(F, name)(x, dim), x, g)
        assert gl.allclose(found, want, 1e-12, 1e-14)


@pytest.mark.host
@pytest.mark.parametrize(
    "row", [[np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, 1, 2], [-np.inf, -np.inf], [3e38, 3e38], [1e30, -1e30], [80, 0]]
)  # fmt: skip
def test_rows_that_are_not_plain(row):
    x = gl.tensor([row, [0.5] * len(row)], dtype=gl.float32)
    for name in ("softmax", "log_softmax"):
        found = getattr(F, name)(x, 1)
        with overlays.off():
            want = getattr(F, name)(x, 1)
        assert gl.allclose(found, want, 1e-6, 1e-6, equal_nan=True)


@pytest.mark.host
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(4, 10), (1, 3), (32, 64), (5, 1)], ids=str)
def test_losses_of_classes(reduction, shape):
    rng = np.random.default_rng(2)
    x = gl.tensor(rng.standard_normal(shape), requires_grad=True)
    y = gl.tensor(rng.integers(0, shape[1], shape[0]))

    def both():
        out = []
        for loss in (
            F.cross_entropy(x, y, reduction=reduction),
            F.nll_loss(x, y, reduction=reduction),
        ):
            out += [loss, *gl.autograd.grad(loss.square().sum(), x)]
        return out

    found = both()
    with overlays.off():
        want = both()
    for a, b in zip(found, want, strict=True):
        assert gl.allclose(a, b, 1e-12, 1e-14)


@pytest.mark.host
@pytest.mark.parametrize("bad", [-1, 3, 2**62])
def test_classes_out_of_range_are_refused(bad):
    with pytest.raises(IndexError):
        F.cross_entropy(gl.zeros(2, 3), gl.tensor([0, bad]))


@pytest.mark.host
@pytest.mark.parametrize("shape", [(2048,), (6, 5), (8, 4, 8, 8), (3, 2, 7)], ids=str)
def test_batch_norm(shape):
    shape = shape if len(shape) > 1 else (32, 64)
    rng = np.random.default_rng(3)
    x = gl.tensor(rng.standard_normal(shape) + 3, requires_grad=True)
    w, b = [gl.tensor(rng.standard_normal(shape[1]), requires_grad=True) for _ in range(2)]
    g = gl.tensor(rng.standard_normal(shape))

    def run():
        out = F.batch_norm(x, None, None, w, b, True)
        return out, *gl.autograd.grad(out, (x, w, b), g)

    found = run()
    with overlays.off():
        want = run()
    for a, c in zip(found, want, strict=True):
        assert gl.allclose(a, c, 1e-9, 1e-11)


def test_stack_takes_any_strides_and_refuses_other_shapes():
    a = gl.arange(12.0).reshape(3, 4)
    parts = [a, a.t().contiguous().t(), gl.arange(24.0).reshape(3, 8)[:, ::2], a[:1].expand(3, 4)]
    found = gl.stack(parts)
    assert found.is_contiguous() and found.shape == (4, 3, 4)
    for k, part in enumerate(parts):
        assert gl.equal(found[k], part)
    assert gl.stack([gl.zeros(0, 3)] * 2).shape == (2, 0, 3)
    assert gl.stack([gl.tensor(1.0), gl.tensor(2.0)]).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match=r"equal size.* at entry 0 and .* at entry 1"):
        gl.stack([gl.zeros(2, 3), gl.zeros(1, 3), gl.zeros(3, 3)])


def test_entries_are_views():
    x = gl.zeros(3, 2)
    for k, entry in enumerate(x):
        entry.fill_(k)
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    v = gl.zeros(3)
    for entry in v:
        entry.add_(1)
    assert v.tolist() == [1, 1, 1]


def test_gradients_that_are_asked_for_do_not_repeat_memory():
    x = gl.ones(2, 3, requires_grad=True)
    for out in (x.sum(), x.sum(0), x.sum(1, keepdim=True), x.mean(-1)):
        (grad,) = gl.autograd.grad(out, x, gl.ones_like(out))
        grad[0, 0] += 1
        assert grad[1, 2] == grad[0, 1] != grad[0, 0]
