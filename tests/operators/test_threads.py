"""Several threads: the same numbers to the last bit for any number of them, and a pool that nobody notices."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import samples
from test_overlays import LARGE
from test_overlays import Maker as Tensors

import gradlib as gl
from gradlib.devices.numpy import parallel
from gradlib.op import formulas, spreading
from gradlib.op.declare import REGISTRY
from gradlib.tape.arrays import backend_for
from gradlib.utils.data import DataLoader

pytestmark = pytest.mark.host  # NumPy's kernels

F = gl.nn.functional
N = spreading.LARGE + 37
COUNTS = (2, 3, 4)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = gl.get_num_threads()
    yield
    gl.set_num_threads(before)


def raw(values: Any) -> list:
    """The bytes of arrays and tensors, with dtypes and shapes."""
    values = values if isinstance(values, (list, tuple)) else [values]
    arrays = [v.detach().resolve_conj()._array if isinstance(v, gl.Tensor) else v for v in values]
    return [
        None if a is None else (a.dtype, a.shape, a.strides, np.asarray(a).tobytes())
        for a in arrays
    ]


def same_for_all(compute: Any, counts: tuple = COUNTS) -> None:
    gl.set_num_threads(1)
    wanted = raw(compute())
    for n in counts:
        gl.set_num_threads(n)
        assert raw(compute()) == wanted, f"{n} threads give other numbers than 1"


# -- what is computed --------------------------------------------------------------------------------------------------


class Wide(samples.Maker):
    """Every tensor with elements and dimensions has one larger shape."""

    def __call__(self, *shape, **options):
        return super().__call__(*((7, 433) if shape and all(shape) else shape), **options)


SPREAD = sorted(name for name, op in REGISTRY.items() if spreading.suits(op))


def wide_samples(op: Any, dtype: Any, monkeypatch: Any) -> list[tuple]:
    monkeypatch.setattr(samples, "Maker", Wide)
    return samples.samples_of(op, dtype=dtype)


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64, gl.bfloat16], ids=str)
@pytest.mark.parametrize("name", SPREAD)
def test_elementwise_ops_and_their_gradients_in_pieces_are_those_of_the_whole(
    name, dtype, monkeypatch
):
    """In pieces of few elements, which end at all places that larger ones could end at."""
    op, xp = REGISTRY[name], backend_for("cpu")
    monkeypatch.setattr(spreading, "PIECE", 256)
    monkeypatch.setattr(spreading, "LONG_PIECE", 512)
    for args in wide_samples(op, dtype, monkeypatch):
        tensors = args[: len(op.tensors)]
        attrs = dict(zip(op.attrs, args[len(op.tensors) :], strict=False))
        arrays = [t._array if isinstance(t, gl.Tensor) else t for t in tensors]
        try:
            result = op.forward(xp, *arrays, **attrs)
        except Exception:  # refused: in any number of pieces
            continue
        if op.ufunc:
            kernel = getattr(xp, op.ufunc)
            same_for_all(lambda: spreading.spread(kernel, *arrays))  # noqa: B023
        else:
            same_for_all(lambda: spreading.spread_formula(op.forward, xp, *arrays, **attrs))  # noqa: B023
        if op.vjp is not None or np.asarray(result).dtype.kind not in "fcV":
            continue
        g = np.asarray(np.random.default_rng(3).uniform(-1, 1, np.shape(result)))
        values: dict = {"g": g.astype(result.dtype), "result": result, "F": formulas.raw_ops(g)}
        values |= dict(zip(op.tensors, arrays, strict=False)) | attrs
        for formula in op.formulas.values():
            if spreading.spreadable(op, formula.wants):
                given = [values[want] for want in formula.wants]
                same_for_all(lambda: spreading.spread_gradient(formula.fn, *given))  # noqa: B023


# the sums of products of matrices, and decompositions, are those of a library with threads of its own
PRODUCTS = "linear", "rnn_layer", "gru_layer", "lstm_layer"
BLOCKS = sorted(
    n
    for n in LARGE
    if n not in PRODUCTS and not n.startswith(("conv", "linalg_", "cholesky", "triangular"))
)


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64], ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_kernels_of_blocks(name, dtype, monkeypatch):
    monkeypatch.setattr(parallel, "SHARED", 1)
    op = REGISTRY[name]

    def compute() -> list:
        found = []
        for args in LARGE[name](Tensors(dtype, strided=False)):
            if any([isinstance(a, gl.Tensor) and a.dtype is gl.bool for a in args[:1]]):
                continue
            out = op.call(*args)
            outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o is not None]
            found += outs
            leaves = [a for a in args if isinstance(a, gl.Tensor) and a.requires_grad]
            taken = [o for o in outs if o.requires_grad]
            if leaves and taken:
                total = sum((o * o).sum() for o in taken)
                found += gl.autograd.grad(total, leaves, allow_unused=True)
        return found

    same_for_all(compute, (2, 4))


def layers() -> dict:
    def made(*shape):
        return gl.from_numpy(np.random.default_rng(1).standard_normal(shape, np.float32))

    rows, image, flat = made(700, 600), made(8, 16, 50, 50), made(N)
    flat.requires_grad_(), rows.requires_grad_(), image.requires_grad_()
    weight, bias, other = made(600).requires_grad_(), made(600).requires_grad_(), made(N)
    target = gl.from_numpy(np.random.default_rng(2).integers(0, 600, 700))
    heads, mask = made(2, 3, 300, 32).requires_grad_(), made(300, 300)

    def graph(out, *leaves):
        return [out, *gl.autograd.grad((out * out).sum(), leaves)]

    return {
        "norm": lambda: graph(F.layer_norm(rows, (600,), weight, bias), rows, weight, bias),
        "batch": lambda: graph(F.batch_norm(image, None, None, training=True), image),
        "batch2": lambda: graph(F.batch_norm(rows, None, None, weight, bias, True), rows, weight),
        "group": lambda: graph(F.group_norm(image, 4), image),
        "rms": lambda: graph(F.rms_norm(rows, (600,), weight), rows, weight),
        "entropy": lambda: graph(F.cross_entropy(rows, target), rows),
        "attention": lambda: graph(
            F.scaled_dot_product_attention(heads, heads, heads, is_causal=True), heads
        ),
        "masked": lambda: graph(F.scaled_dot_product_attention(heads, heads, heads, mask), heads),
        "softmax": lambda: graph(rows.softmax(1).log_softmax(0), rows),
        "moments": lambda: [rows.var(1), rows.std(0), rows.mean(1), rows.sum(0), rows.sum()],
        "gelu": lambda: graph(F.gelu(flat), flat),
        "chain": lambda: graph((flat * 2.5 + other).tanh() * flat.sigmoid() / (1 + other.exp()), flat),
        "out": lambda: [gl.add(flat.detach(), other, out=gl.empty(N)), gl.empty(N).copy_(other)],
        "inplace": lambda: [other.clone().mul_(other).add_(other, alpha=0.5).sigmoid_().sub_(other[3])],
        "casts": lambda: [other.double(), other.to(gl.bfloat16), other.half().float(), other.bool()],
        "relu": lambda: graph(F.relu(flat), flat),
        "whole": lambda: [(other * 1000).to(gl.int64) + 7, other > 0.5, other.isnan()],
    }  # fmt: skip


@pytest.mark.parametrize("name", list(layers()))
def test_functions_on_large_tensors(name):
    same_for_all(layers()[name])


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64], ids=str)
@pytest.mark.parametrize("width", [33, 64, 600, 1000, 1024, 2048, 3001])
def test_sums_of_rows(width, dtype):
    rows = spreading.LARGE // width + 13
    values = np.random.default_rng(width).standard_normal((rows, width))
    x = gl.from_numpy(values).to(dtype)
    same_for_all(lambda: [x.sum(1), x.mean(-1, keepdim=True), x.sum(), x.sum(0), x.t().sum(0)])


def test_a_number_of_the_memory_that_is_written():
    for n in (1, 4):
        gl.set_num_threads(n)
        x = np.arange(1, N + 1, dtype=np.float64)
        number = x[2:3].reshape(())
        assert spreading.spread_inplace(np.multiply, x, number) is (n > 1)
        assert n == 1 or (x[2] == 9 and x[-1] == 3 * N and x[0] == 3)
        assert not spreading.spread_inplace(np.add, x[1:], x[:-1])  # NumPy knows what to do


BESIDE = [
    (700,),
    (1, 700),
    (800, 1),
    (1, 1),
    (800, 700),
    (1,),
    (3, 1, 1),
    (1, 1, 700),
    (3, 800, 1),
    (3, 1, 700),
]


@pytest.mark.parametrize("shape", BESIDE, ids=str)
@pytest.mark.parametrize("dtype", [gl.float32, gl.complex64, gl.int64, gl.bfloat16], ids=str)
def test_broadcast_arguments_in_pieces_of_rows(shape, dtype):
    g = gl.Generator().manual_seed(2)
    large = (3, 800, 700) if len(shape) == 3 else (800, 700)
    x = (gl.randn(*large, generator=g) * 50).to(dtype)
    y = (gl.randn(*shape, generator=g) * 50).to(dtype)
    for f in (
        lambda: x + y,
        lambda: y * x,
        lambda: x - y,
        lambda: x.clone().mul_(y),
        lambda: x == y,
        lambda: x.movedim(0, 1) + y.movedim(0, 1) if x.ndim == y.ndim else x.mT - y.reshape(-1)[0],
    ):
        same_for_all(f)


def test_rows_of_the_memory_that_is_written():
    """They are no argument to be read piece by piece: the first piece would change what the others read."""
    gl.set_num_threads(2)
    target = np.ones((800, 700), np.float32)
    for part, may in (
        (target[:1], False),
        (target[0], False),
        (target[0].copy(), True),
        (target, True),
    ):
        assert spreading.spread_inplace(np.add, target, part) is may
    assert not spreading.spread_inplace(np.add, np.ones(700, np.float32), target)


@pytest.mark.parametrize("name", ["elu", "gelu", "silu", "tanh", "hardswish", "leaky_relu"])
def test_gradients_of_sums(name, monkeypatch):
    """They are one number that is repeated, and shared out all the same."""
    x = gl.from_numpy(np.random.default_rng(1).standard_normal((700, 800), np.float32))
    x.requires_grad_()
    function = getattr(F, name)
    same_for_all(lambda: gl.autograd.grad(function(x).sum(), x))
    out, shared = function(x).sum(), []
    run = parallel.run
    monkeypatch.setattr(parallel, "run", lambda n, piece: shared.append(n) or run(n, piece))
    monkeypatch.setattr(spreading, "_share", parallel.run)
    gl.autograd.grad(out, x)
    assert shared


def test_no_pieces():
    for n in (1, 2):
        gl.set_num_threads(n)
        parallel.run(0, lambda k: 1 / 0)


def test_arrays_of_other_layouts_are_computed_as_they_are():
    def compute():
        x = gl.from_numpy(np.random.default_rng(1).standard_normal((800, 700), np.float32))
        return [F.gelu(x.t()), x.t() + x.t(), x[:, ::2] * 2, x + x[0], x[:, :1] + x, x.t().exp_()]

    same_for_all(compute)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Rprop"])
def test_optimizers(kind):
    def compute():
        random = np.random.default_rng(1)
        shapes = [(N,), (700, 400), *[(90, 90)] * 40]
        params = [
            gl.from_numpy(random.standard_normal(s, np.float32)).requires_grad_() for s in shapes
        ]
        given = {"momentum": 0.9, "weight_decay": 0.1} if kind == "SGD" else {}
        optimizer = getattr(gl.optim, kind)(params, lr=0.01, **given)
        for _ in range(2):
            for p in params:
                p.grad = gl.from_numpy(random.standard_normal(p.shape, np.float32))
            optimizer.step()
        return params

    same_for_all(compute, (2, 4))


def test_random_numbers_do_not_depend_on_threads():
    def compute():
        gl.manual_seed(5)
        return [gl.randn(N), gl.rand(N), gl.randperm(N), F.dropout(gl.ones(N))]

    same_for_all(compute)


def test_a_captured_step():
    def compute():
        x = gl.from_numpy(np.random.default_rng(1).standard_normal(N, np.float32))
        w = x.clone().requires_grad_()
        optimizer = gl.optim.SGD([w], lr=0.1)

        @gl.compile
        def step(x):
            optimizer.zero_grad()
            loss = ((w * x).tanh() + w.sigmoid() * w).sum()
            loss.backward()
            optimizer.step()
            return loss

        return [*(step(x) for _ in range(4)), w]

    same_for_all(compute)


# -- the pool ----------------------------------------------------------------------------------------------------------


def test_every_piece_runs_once_on_several_threads():
    gl.set_num_threads(3)
    seen, who, two = [], set(), threading.Barrier(2)

    def piece(i: int) -> None:
        if i < 2:
            two.wait(60)  # which one thread alone would never pass
        seen.append(i)
        who.add(threading.get_ident())

    parallel.run(50, piece)
    assert sorted(seen) == list(range(50)) and 2 <= len(who) <= 3


def test_the_exception_of_the_first_piece_is_the_callers():
    gl.set_num_threads(4)

    def piece(i: int) -> None:
        if i == 3:
            time.sleep(0.01)  # others fail before it
        if i >= 3:
            raise ValueError(f"piece {i}")

    for _ in range(5):
        with pytest.raises(ValueError, match="piece 3"):
            parallel.run(40, piece)
    done = []
    parallel.run(8, done.append)
    assert sorted(done) == list(range(8))


def test_what_numpy_shall_do_about_errors_holds_in_pieces():
    gl.set_num_threads(2)
    x = np.full(N, 1e38, np.float32)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        spreading.spread(np.multiply, x, x)
    assert np.isinf(spreading.spread(np.multiply, x, x)).all()  # nothing is said of it as a rule


def test_pieces_of_pieces_run_in_their_thread():
    gl.set_num_threads(2)
    found = []

    def inner(i: int) -> None:
        found.append((threading.get_ident(), parallel.width()))

    def outer(i: int) -> None:
        me, before = threading.get_ident(), len(found)
        parallel.run(5, inner)
        assert [f for f in found[before:] if f[0] == me].count((me, 1)) == 5

    parallel.run(4, outer)
    assert len(found) == 20 and parallel.width() == 2


def test_several_threads_compute_at_once():
    gl.set_num_threads(3)
    x = gl.from_numpy(np.random.default_rng(1).standard_normal(N, np.float32)).requires_grad_()

    def compute():
        (grad,) = gl.autograd.grad((F.gelu(x) * x.tanh()).sum(), x)
        return raw([grad, x.detach().reshape(-1, 1)[:4096].softmax(0)])

    wanted, found = compute(), []
    users = [
        threading.Thread(target=lambda: [found.append(compute()) for _ in range(3)])
        for _ in range(4)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(found) == 12 and all(f == wanted for f in found)
    assert gl.get_num_threads() == 3  # also of linear algebra, which had one meanwhile


def test_setting_the_number_while_threads_are_busy_holds_afterwards():
    gl.set_num_threads(2)
    parallel.run(2, lambda i: i or gl.set_num_threads(4))
    assert gl.get_num_threads() == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork_the_child_makes_threads_of_its_own():
    code = """
import os, numpy as np, gradlib as gl
from gradlib.devices.numpy import parallel
gl.set_num_threads(2)
x = gl.from_numpy(np.ones(1 << 20, np.float32))
before = gl.nn.functional.gelu(x).sum().item()
child = os.fork()
if not child:
    fine = parallel.members() == 0 and gl.nn.functional.gelu(x).sum().item() == before
    os._exit(0 if fine and parallel.members() == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
assert gl.nn.functional.gelu(x).sum().item() == before
"""
    run_alone(code)


def run_alone(code: str, **environment: str) -> str:
    made = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_one_thread_makes_none_and_asks_for_no_sizes():
    code = """
import threading, numpy as np, gradlib as gl
from gradlib.op import spreading
x = gl.from_numpy(np.ones(1 << 20, np.float32)).requires_grad_()
gl.nn.functional.gelu(x).mul(2).sum().backward()
assert gl.get_num_threads() == 1 and "get_num_threads() : 1" in gl.__config__.parallel_info()
assert not spreading.begun and threading.active_count() == 1
gl.set_num_threads(2)
gl.nn.functional.gelu(x).mul(2).sum().backward()
assert spreading.begun and threading.active_count() == 2
"""
    run_alone(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def test_kernels_of_products_are_named():
    """OpenBLAS keeps what OPENBLAS_CORETYPE pins, on a newer processor too."""
    code = "import gradlib as gl; print(gl.__config__.show())"
    alone = run_alone(code)
    if "openblas" not in alone or platform.machine() not in ("x86_64", "AMD64"):
        return
    assert ", kernels " in alone
    assert ", kernels Nehalem as OPENBLAS_CORETYPE says\n" in run_alone(
        code, OPENBLAS_CORETYPE="Nehalem"
    )


class Threads(gl.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return parallel.width()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_workers_of_a_loader_have_one(kind):
    gl.set_num_threads(3)
    loader = DataLoader(Threads(), batch_size=2, num_workers=2, worker_type=kind)
    assert [v for batch in loader for v in batch.tolist()] == [1] * 4
    assert gl.get_num_threads() == 3
