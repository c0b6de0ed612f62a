"""oneMKL itself: its numbers beside NumPy's and the formulas, when it is loaded, what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import mkl
from gradlib.devices.numpy.namespace import backend
from gradlib.nn import functional as F
from gradlib.op.overlays import off

pytestmark = pytest.mark.host

N = 3 * mkl.SMALL + 7
WIDE = {mkl.F4: np.float64, mkl.F8: np.longdouble}
DOMAIN = {
    "log": (1e-3, 50.0), "log2": (1e-3, 50.0), "log10": (1e-3, 50.0), "log1p": (-0.99, 50.0), "arcsin": (-1.0, 1.0),
    "arccos": (-1.0, 1.0), "arctanh": (-0.99, 0.99), "arccosh": (1.0, 50.0),
}  # fmt: skip


def special(dtype: np.dtype) -> np.ndarray:
    tiny, top = np.finfo(dtype).tiny, np.finfo(dtype).max
    few = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        1e3,
        -1e3,
        -95.0,
        1e5,
    ]
    return np.array([*few, tiny, -tiny, tiny / 8, -tiny / 8, top, -top], dtype)


def agree(found: np.ndarray, expected: np.ndarray, ulps: float) -> None:
    """Equal, nan in the same places, the same signs of zeros, or finite and within `ulps`."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    with np.errstate(all="ignore"):
        near = np.abs(found - expected) <= ulps * np.spacing(np.abs(expected))
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    fine = same | (np.isnan(found) & np.isnan(expected)) | (np.isfinite(expected) & near)
    assert fine.all(), (found[~fine][:5], expected[~fine][:5])


@pytest.mark.parametrize("dtype", [mkl.F4, mkl.F8], ids=str)
@pytest.mark.parametrize("name", mkl.FUNCTIONS)
@pytest.mark.usefixtures("everywhere")
def test_values_are_within_one_unit_in_the_last_place(name, dtype):
    low, high = DOMAIN.get(name, (-20.0, 20.0))
    x = np.random.default_rng(0).uniform(low, high, N).astype(dtype)
    ufunc = getattr(np, name)
    found = getattr(backend, name)(x)
    assert mkl._chosen[name, dtype] is not None
    exact = ufunc(x.astype(WIDE[dtype]))
    error = np.abs(found - exact) / np.spacing(np.abs(exact).astype(dtype))
    assert error.max() < 1.01, error.max()


@pytest.mark.parametrize("dtype", [mkl.F4, mkl.F8], ids=str)
@pytest.mark.parametrize("name", mkl.FUNCTIONS)
@pytest.mark.usefixtures("everywhere")
def test_special_values_are_numpys(name, dtype):
    x = np.resize(special(dtype), N)
    with np.errstate(all="ignore"):
        agree(getattr(backend, name)(x), getattr(np, name)(x), 4)


@pytest.mark.parametrize("dtype", [mkl.F4, mkl.F8], ids=str)
@pytest.mark.parametrize("name", ["Exp", "Erf", "Erfc", "Ln", "Tanh", "Sin"])
def test_bits_do_not_depend_on_where_a_number_lies(name, dtype):
    values = np.random.default_rng(0).uniform(0.1, 3.0, 1000).astype(dtype)
    function, room = mkl.bare(name, dtype), np.empty(1100, dtype)
    results = set()
    for start in (0, 1, 3, 4, 7, 8, 13):
        x = room[start : start + 1000]
        x[...] = values
        for cut in (0, 1, 2, 5):
            out = np.empty(1000, dtype)[cut:]
            results.add(mkl.run(function, x[cut:], out)[8:].tobytes()[-900 * dtype.itemsize :])
    assert len(results) == 1


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64, gl.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["erf", "erfc", "gelu"])
@pytest.mark.usefixtures("everywhere")
def test_erf_and_its_relatives_beside_their_formulas(name, dtype):
    function = F.gelu if name == "gelu" else getattr(gl, name)
    width = mkl.F4 if dtype is not gl.float64 else mkl.F8
    values = np.concatenate([np.resize(special(width), N // 2), np.linspace(-30, 30, N)])
    x = gl.tensor(values, dtype=dtype, requires_grad=True)
    slope = gl.linspace(-2, 2, len(values), dtype=dtype)

    def run():
        y = function(x)
        return [y, *gl.autograd.grad(y, x, slope)]

    tolerance = {gl.float32: 1e-6, gl.float64: 1e-14, gl.bfloat16: 2e-2}[dtype]
    found = run()
    with off():
        expected = run()
    for a, b in zip(found, expected, strict=True):
        gl.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("slower", ["gelu", "gelu_grad"])
def test_a_kernel_that_is_slower_than_its_formula_is_not_used(monkeypatch, slower):
    monkeypatch.setattr(mkl, "_wins", lambda name, *given: name != slower)
    x = gl.randn(N, requires_grad=True)

    def run():
        y = F.gelu(x)
        return {"gelu": y, "gelu_grad": gl.autograd.grad(y, x, x.detach())[0]}

    found = run()
    with off():
        expected = run()
    assert [name for name in found if gl.equal(found[name], expected[name])] == [slower]


@pytest.mark.usefixtures("everywhere")
def test_transforms_of_gelu_beside_formulas():
    x = gl.randn(4, N // 3, dtype=gl.float64)
    t = gl.randn(4, N // 3, dtype=gl.float64)

    def run():
        y = x.clone().requires_grad_()
        (first,) = gl.autograd.grad(F.gelu(y).sum(), y, create_graph=True)
        (second,) = gl.autograd.grad(first.sin().sum(), y)
        mapped = gl.func.vmap(F.gelu)(x)
        value, tangent = gl.func.jvp(F.gelu, (x,), (t,))
        with gl.autocast("cpu", gl.bfloat16):
            lower = F.gelu(x.float())
        return first.detach(), second, mapped, value, tangent, lower

    found = run()
    with off():
        expected = run()
    for a, b in zip(found, expected, strict=True):
        gl.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("everywhere")
def test_layouts_and_results_given():
    wide = gl.randn(300, 2 * mkl.SMALL // 100, dtype=gl.float64)
    dense = wide[:, ::2].contiguous()
    for view in (wide[:, ::2], dense.t(), dense.t().contiguous().t()):
        assert gl.equal(view.exp(), dense.exp() if view.shape == dense.shape else dense.exp().t())
        assert gl.equal(F.gelu(view).contiguous(), F.gelu(view.contiguous()))
    expected = dense.exp()
    assert gl.equal(dense.clone().exp_(), expected)
    out = gl.empty_like(dense)
    assert gl.exp(dense, out=out) is out and gl.equal(out, expected)
    flat = dense.numpy().reshape(-1).copy()
    kept = flat.copy()
    backend.exp(flat[:-1], flat[1:])  # what is written overlaps what is read: NumPy's
    np.testing.assert_array_equal(flat[1:], np.exp(kept[:-1]))
    frozen = kept.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        backend.exp(frozen, frozen)
    assert backend.exp(0.0) == 1 and backend.exp(np.zeros(3)).tolist() == [1, 1, 1]
    assert backend.exp(np.zeros(N, "f4"), dtype="f8").dtype == np.float64


@pytest.mark.usefixtures("everywhere")
def test_numpys_own_reports_of_faults_are_not_disturbed():
    x = np.resize(special(mkl.F4), N)
    with np.errstate(all="raise"):
        backend.exp(x)
        backend.log(x)
        assert (np.ones(5, "f4") / np.float32(3)).sum() > 1


def test_deterministic_programs_get_numpys_bits(everywhere):
    x = gl.randn(N, dtype=gl.float64)
    gl.use_deterministic_algorithms(True)
    try:
        assert x.exp().numpy().tobytes() == np.exp(x.numpy()).tobytes()
        with off():
            expected = F.gelu(x)
        assert gl.equal(F.gelu(x), expected)
    finally:
        gl.use_deterministic_algorithms(False)
    assert mkl._chosen == {}
    x.exp()
    assert mkl._chosen


def test_threads_compute_at_the_same_time_and_agree(everywhere):
    x = gl.randn(8 * N, dtype=gl.float64)
    expected, found = x.exp(), []
    threads = [threading.Thread(target=lambda: found.append(x.exp())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and all(gl.equal(f, expected) for f in found)
    assert mkl.library().MKL_Get_Max_Threads() == 1  # NumPy's are all there are


def test_a_captured_step_has_the_bits_of_eager():
    text = gl.randn(64, 128)

    def trained(captured: bool) -> list[bytes]:
        gl.manual_seed(1)
        model = gl.nn.Sequential(
            gl.nn.Linear(128, 512), gl.nn.GELU(), gl.nn.Linear(512, 512), gl.nn.Softmax(-1),
            gl.nn.Linear(512, 300), gl.nn.Sigmoid(),
        )  # fmt: skip
        optimizer = gl.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x):
            optimizer.zero_grad()
            loss = gl.erf(model(x)).exp().square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = gl.capture(step) if captured else step
        losses = [run(text).detach().numpy().tobytes() for _ in range(5)]
        return losses + [p.detach().numpy().tobytes() for p in model.parameters()]

    assert trained(False) == trained(True)


def test_it_is_loaded_by_the_first_large_array_and_timed_once(tmp_path):
    program = (
        "import gradlib as gl; from gradlib.devices.numpy import mkl\n"
        "gl.randn(100).exp(), gl.nn.functional.gelu(gl.randn(100))\n"
        "assert not mkl.library.cache_info().currsize\n"
        "import sys; timed = []; compare = mkl._compare\n"
        "mkl._compare = lambda *given: timed.append(given[0]) or compare(*given)\n"
        "gl.ones(1 << 16).exp(), gl.ones(1 << 16).exp(); gl.nn.functional.gelu(gl.randn(1 << 16))\n"
        "assert mkl.library.cache_info().currsize and gl.backends.mkl.is_available()\n"
        "text = gl.__config__.show(); assert 'USE_MKL=ON' in text and 'oneMKL 20' in text, text\n"
        "print(*timed), print([mkl._chosen[name, mkl.F4] is None for name in ('exp', 'gelu')])"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    texts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert not done.returncode, done.stderr
        texts.append(done.stdout.splitlines())
    # tanh is what gelu's formula calls, which is timed beside the kernel
    assert [t[0] for t in texts] == ["exp tanh", ""] and texts[0][1] == texts[1][1]
    assert '"gelu float32"' in (tmp_path / "gradlib" / "mkl.json").read_text()
    environment["GRADLIB_MKL"] = "0"
    program = "import gradlib as gl; gl.ones(1 << 16).exp(); print(gl.__config__.show())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "USE_MKL=OFF" in done.stdout, done.stderr
