"""NumPy's overlays against the formulas they stand in for: values, gradients, dtypes, layouts.

Every op with an overlay is compared over its samples and over the larger arguments of `LARGE`, with overlays switched
off and on: as they are, strided, in all floating dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import softmax as softmax_kernels
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import off, on

OVERLAYS = on("numpy")
NAMES = sorted({name for names in OVERLAYS.names().values() for name in names})
TOLERANCE = {gl.float64: 1e-11, gl.float32: 3e-5, gl.float16: 4e-3, gl.bfloat16: 3e-2}
DTYPES = {str(d).removeprefix("torch."): d for d in TOLERANCE}


class Maker:
    """Tensors for samples: ``t(*shape, low=, high=, dtype=)``, as in declarations."""

    def __init__(self, dtype: Any, strided: bool):
        self.dtype, self.strided = dtype, strided
        self.random = np.random.default_rng(5)

    def __call__(self, *shape, low=-2.0, high=2.0, dtype=None, requires_grad=True) -> gl.Tensor:
        if dtype is not None and not dtype.is_floating_point:
            return gl.from_numpy(np.floor(self.random.uniform(low, high, shape)).astype(np.int64))
        values = np.asarray(self.random.uniform(low, high, shape))
        made = gl.from_numpy(values).to(dtype or self.dtype)
        if self.strided and shape:
            wide = gl.full((*shape[:-1], 2 * shape[-1]), 9.0, dtype=made.dtype)
            wide[..., ::2] = made
            made = wide[..., ::2]
        return made.requires_grad_(requires_grad)


# Arguments for which kernels go in blocks, of rows and columns that are long, or find nothing in the way.
LARGE: dict[str, Callable[[Maker], list[tuple]]] = {
    "softmax": lambda t: [(t(70, 600), 1), (t(70, 600), 0), (t(2, 70000), 1), (t(5, 40, 300), 1)],
    "softmax_grad": lambda t: [(t(70, 600), t(70, 600), 1), (t(70, 600), t(70, 600), 0)],
    "native_layer_norm": lambda t: [
        (t(300, 200), t(200), t(200), (200,), 1e-5),
        (t(2, 70000), t(70000), None, (70000,), 1e-5),
        (t(3000, 20), None, t(20), (20,), 1e-5),
    ],
    "fused_rms_norm": lambda t: [
        (t(300, 200), t(200), (200,), 1e-5),
        (t(2, 70000), None, (70000,), 1e-5),
    ],
    "native_group_norm": lambda t: [
        (t(40, 6, 300), t(6), t(6), 2, 1e-5),
        (t(2, 4, 20000), None, None, 2, 1e-5),
    ],
    "native_batch_norm": lambda t: [
        (t(3000, 30), t(30), t(30), None, None, True, 1e-5, None),
        (t(40, 5, 30, 10), t(5), t(5), None, None, True, 1e-5, None),
        (
            *(t(40, 5, 30, 10), t(5), None),
            *(t(5, requires_grad=False), t(5, low=0.5, requires_grad=False), False, 1e-5, None),
        ),
    ],
}
LARGE["log_softmax"], LARGE["log_softmax_grad"] = LARGE["softmax"], LARGE["softmax_grad"]


def floats(args: tuple) -> list[gl.Tensor]:
    return [a for a in args if isinstance(a, gl.Tensor) and a.requires_grad]


def run(op: Any, args: tuple) -> list:
    """Results and gradients; a refusal as its exception."""
    try:
        made = op.call(*args)
    except (RuntimeError, TypeError, IndexError) as exc:
        return [type(exc)]
    outs = [o for o in (made if isinstance(made, tuple) else (made,)) if o.requires_grad]
    values = list(made) if isinstance(made, tuple) else [made]
    if not outs or not floats(args):
        return values
    random = np.random.default_rng(3)
    seeds = [gl.from_numpy(random.uniform(-1, 1, tuple(o.shape))).to(o.dtype) for o in outs]
    return [*values, *gl.autograd.grad(outs, floats(args), seeds, allow_unused=True)]


def agree(found: list, expected: list, dtype: Any) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if not isinstance(a, gl.Tensor) or not isinstance(b, gl.Tensor):
            assert a is b
            continue
        assert a.dtype is b.dtype and a.shape == b.shape
        x, y = a.detach().double().numpy(), b.detach().double().numpy()
        finite = np.abs(y[np.isfinite(y)])
        atol = TOLERANCE[dtype] * max(1.0, finite.max(initial=0.0))
        np.testing.assert_allclose(x, y, rtol=TOLERANCE[dtype], atol=atol)


@pytest.mark.parametrize("layout", ["dense", "strided"])
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_gives_what_the_formula_gives(name, kind, layout):
    op, dtype = REGISTRY[name], DTYPES[kind]
    t = Maker(dtype, layout == "strided")
    for args in [*op.samples(t), *LARGE[name](t)]:
        found = run(op, args)
        with off():
            expected = run(op, args)
        agree(found, expected, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_runs(name):
    """It declines some arguments, but not all."""
    op, xp = REGISTRY[name], gl.tape.arrays.backend_for("cpu")
    overlay = OVERLAYS.forward_of(op)
    if overlay is None:
        return
    n, t = len(op.tensors), Maker(gl.float32, False)
    answers = []
    for args in [*op.samples(t), *LARGE[name](t)]:
        arrays = [a._array if isinstance(a, gl.Tensor) else a for a in args[:n]]
        answers.append(overlay(xp, *arrays, **dict(zip(op.attrs, args[n:], strict=True))))
    assert any(answer is not NotImplemented for answer in answers)


def test_switched_off_only_formulas_run(monkeypatch):
    calls = []
    kernel = softmax_kernels.by_rows
    monkeypatch.setattr(softmax_kernels, "by_rows", lambda *a: calls.append(1) or kernel(*a))
    x = gl.ones(2, 3, requires_grad=True)

    def runs() -> int:
        calls.clear()
        gl.softmax(x, 1).sum().backward()
        return len(calls)

    assert runs() == 2  # forward, and the op that its gradient is made of
    with off():
        assert runs() == 0
        with off():
            assert runs() == 0
        assert runs() == 0
    assert runs() == 2


def test_an_overlay_asks_only_for_what_is_saved():
    table = type(OVERLAYS)("test")
    table.vjp("softmax")(lambda F, g, self: (g,))
    with pytest.raises(TypeError, match="overlay of softmax asks for"):
        table.vjp_of(REGISTRY["softmax"])
