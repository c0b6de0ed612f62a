"""Steps captured with mode="max": the bits of eager, what is put together, and what may not be."""

from __future__ import annotations

import random

import pytest

import gradlib as torch
from gradlib import nn
from gradlib._capture import fusion
from gradlib.devices.numpy import chains, parallel
from gradlib.nn import functional as F
from gradlib.op import spreading
from gradlib.op.declare import REGISTRY
from tests.capture.programs import MODELS, bits, train
from tests.capture.running import assert_same, changing


def fused(step):
    return torch.capture(step, mode="max")


def kernels(step):
    return [f for f in torch.explain(step) if f.why.startswith("fused")]


def chains_of(step):
    plans = [plan for entry in step._entries.values() for plan in entry.plans]
    return [v for plan in plans for v in plan.draft.names.values() if isinstance(v, chains.Chain)]


def given(*shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes]


def assert_fused(step, *args, kernels_at_least=1, calls=5):
    """The step gives the bits of eager in each call, is replayed, and has kernels."""
    run = fused(step)
    for _ in range(calls):
        found, expected = run(*args), step(*args)
        assert [bits(t) for t in flat(found)] == [bits(t) for t in flat(expected)]
    assert run.replays == 1, torch.explain(run)
    assert len(kernels(run)) >= kernels_at_least, torch.explain(run)
    return run


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


# -- ops -------------------------------------------------------------------------------------------

POINTWISE = sorted(
    name
    for name, op in REGISTRY.items()
    if spreading.suits(op) and op.differentiable and len(op.tensors) <= 3 and not op.attrs
)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(torch.float32, (7, 9)), (torch.float64, (7, 9)), (torch.float32, (300, 450))],
)
def test_every_elementwise_op_and_its_gradient(dtype, shape):
    tried = 0
    large = shape[0] > 7  # what is written down otherwise; special functions take their time then
    for name in [n for n in POINTWISE if not large or "special" not in n]:
        op = REGISTRY[name].call
        count = len(REGISTRY[name].tensors)
        leaves = [
            t.abs().add_(0.1).div_(5).requires_grad_() for t in given(*[shape] * count, dtype=dtype)
        ]

        def step(op=op, leaves=leaves):
            for leaf in leaves:
                leaf.grad = None
            out = op(*[leaf * 0.5 + leaf for leaf in leaves])
            (out * 2.0 + 1.0).sum().backward()
            return out.detach(), *[leaf.grad for leaf in leaves]

        try:
            expected = [bits(t) for t in step()]
        except (RuntimeError, TypeError, NotImplementedError):
            continue  # not for such arguments
        run = fused(step)
        for _ in range(4):
            assert [bits(t) for t in run()] == expected, name
        assert run.replays == 0 or kernels(run), name
        tried += run.replays
    assert tried > (30 if large else 40)


def test_gelu_of_large_arrays_is_one_kernel_each_way():
    (x,) = given((400, 500))
    x.requires_grad_()

    def step():
        x.grad = None
        out = F.gelu(x)
        out.backward(torch.ones(400, 500))
        return out.detach(), x.grad

    run = assert_fused(step)
    assert "gelu" in kernels(run)[0].why and all(len(c.program) > 100 for c in chains_of(run)[:1])


def test_integers_bools_and_choices():
    x, y = given((6, 40), (6, 40))
    i = torch.arange(240).view(6, 40)

    def step(x, y, i):
        low = (x > y) & (x < 1.5) | ~(y >= 0)
        j = (i * 3 - 7) * i
        return (
            torch.where(low, x, y * 2.0),
            low,
            j,
            (j == 3) ^ low,
            x.where(low, y),
            j / 2,
            x.maximum(y),
        )

    assert_fused(step, x, y, i)


def test_special_numbers():
    x = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-42, -1e38, 3.4e38] * 40
    )

    def step(x):
        y = (x * 2.0 - x).clamp(-1e38, 1e38)
        return (
            y,
            x.relu() + 0.0,
            (-x).abs() / x,
            torch.minimum(x, y * 1e-3),
            x.sign() * y,
            (x + 1.0).sqrt().exp(),
        )

    assert_fused(step, x)


# -- programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_train_to_the_same_bits(name):
    found, run = train(fused, name, "adamw", calls=6)
    assert found == train(lambda f: f, name, "adamw", calls=6)[0]
    assert run.replays == 1
    assert bool(kernels(run)) == (name not in ("gru", "lstm", "rnn"))  # a layer of those is one op


def test_guards_random_numbers_and_numbers_of_python():
    scale = [1.0]
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5))

    def program(wrap):
        torch.manual_seed(3)
        step = wrap(lambda x: (torch.rand(2, 4) * scale[0] + model(x).detach() * 2.0).exp() * 0.5)
        found = changing(step, lambda k: scale.__setitem__(0, 1.0 + k // 5))
        return [*found, bits(torch.rand(3)), bits(torch.get_rng_state())]

    assert program(fused) == program(lambda f: f)


def test_chunks_of_one_tensor_and_what_is_broadcast():
    x, row, column = given((6, 40), (10,), (6, 1))

    def step(x, row, column):
        a, b, c, d = x.chunk(4, dim=1)
        memory = torch.sigmoid(a) * row + torch.sigmoid(b) * torch.tanh(c + column)
        return (
            torch.sigmoid(d) * torch.tanh(memory),
            memory,
            (row * 2.0 + 1.0) * column,
            column.exp() * 2.0 - 1.0,
        )

    assert_fused(step, x, row, column, kernels_at_least=2)


UNARY = [
    lambda a: a * 2.0,
    lambda a: 1.5 - a,
    lambda a: a.tanh(),
    lambda a: a.exp().clamp(max=9.0),
    lambda a: a.abs().sqrt(),
    lambda a: a.neg(),
    lambda a: a.sigmoid(),
    lambda a: F.gelu(a),
    lambda a: a.clone().mul_(0.5),
    lambda a: a.relu(),
    lambda a: a.detach(),
    lambda a: (a - 0.25).mul_(2).view(a.shape),
    lambda a: a.double().float(),
    lambda a: a.t().t(),
    lambda a: inside(a.detach().clone()),
    lambda a: a.cumsum(0) * 0.1,
    lambda a: a.flip(0),
    lambda a: a.contiguous(),
]
BINARY = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: a - b[0],
    lambda a, b: a / (b.abs() + 1.0),
    lambda a, b: a.maximum(b),
    lambda a, b: a * b[:, :1],
    lambda a, b: a.clone().add_(b),
    lambda a, b: a.clone().mul_(b).sub_(a),
    lambda a, b: a + b.sum(),
    lambda a, b: a * (b > 0).to(a.dtype),
    lambda a, b: into(a.clone(), b),
    lambda a, b: a @ b.t() @ a * 0.1,
]


def inside(a):
    """`a`, changed through a view of a part of it, between other changes."""
    a.mul_(1.5)
    a[1:3].mul_(2.0).add_(a[0])
    return a.add_(0.5) + a


def into(a, b):
    """`a`, written to while views of it are read."""
    before, part = a * 2.0, a[1]
    a.add_(b)
    return before + a + part


def some_step(seed, shape):
    draw = random.Random(seed)
    plan = []
    for k in range(draw.randrange(5, 30)):
        f = draw.choice(UNARY + BINARY)
        plan.append((f, draw.randrange(k + 2), draw.randrange(k + 2)))
    keep = draw.random() < 0.5
    (leaf,) = given(shape)
    leaf.requires_grad_()

    def step(x):
        leaf.grad = None
        values = [x, leaf]
        for f, i, j in plan:
            values.append(f(values[i]) if f in UNARY else f(values[i], values[j]))
        loss = (values[-1] * 0.5 + values[-2] + leaf * 1e-3).mean()
        loss.backward()
        more = [v.detach().clone() for v in values[2:]] if keep else []
        return loss.detach(), leaf.grad, *more

    return step


@pytest.mark.parametrize("seed", range(30))
def test_programs_drawn_at_random(seed, monkeypatch):
    shape = [(4, 5), (6, 6), (33, 40), (5, 700)][seed % 4]
    if seed % 3 == 0:
        monkeypatch.setattr(fusion, "MOST", 3)
    step = some_step(seed, shape)
    run = fused(step)
    for k in range(6):
        (x,) = given(shape)
        x += k
        expected = [bits(t) for t in step(x)]
        assert [bits(t) for t in run(x)] == expected
    plain = torch.capture(step)
    for _ in range(3):
        plain(x)
    assert run.replays == plain.replays


@pytest.mark.parametrize("seed", range(5))
def test_kernels_that_do_not_take_the_arrays_leave_it_to_the_lines(seed, monkeypatch):
    step = some_step(seed, (6, 6))
    run = fused(step)
    (x,) = given((6, 6))
    for _ in range(4):
        run(x)
    for chain in chains_of(run):
        monkeypatch.setattr(chain, "run", lambda *a: 1)
    assert [bits(t) for t in run(x)] == [bits(t) for t in step(x)]


# -- memory ----------------------------------------------------------------------------------------


def test_arguments_that_are_written_to_and_results_that_are_kept():
    def program(wrap):
        step = wrap(lambda a, b: ((a * 2.0 + b).exp(), a.add_(b), (a - b) * 0.5)[::2])
        kept, found = [], []
        a, b = given((4, 6), (4, 6))
        for _ in range(6):
            kept.append(step(a, b))
            found.append([bits(t) for r in kept for t in r] + [bits(a), a._version])
        return found

    assert program(fused) == program(lambda f: f)


@pytest.mark.parametrize("size", [1 << 18, 300_000, 5 * (1 << 16) + 96, 300_001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_and_means_of_what_a_kernel_makes(size, dtype, monkeypatch):
    (x,) = given((size,), dtype=dtype)
    x.requires_grad_()

    def step():
        x.grad = None
        y = (x * 0.5).exp()
        total = (y + x).sum() * 0.25 + (y * x).mean()
        total.backward()
        return total.detach(), x.grad, y.detach().sum()

    summed = [bool(c.windows) for c in chains_of(assert_fused(step))]
    assert any(summed) == (size % 32 == 0)
    monkeypatch.setattr(parallel.threads, "count", lambda: 3)
    run = assert_fused(step)
    for chain in chains_of(run):
        monkeypatch.setattr(chain, "run", lambda *a: 1)
    assert [bits(t) for t in run()] == [bits(t) for t in step()]


def test_arguments_that_share_memory():
    def program(wrap):
        step = wrap(lambda a, b: ((a * 2.0 + b).mul_(3.0), b.mul_(0.5), (a + b) * 2.0)[::2])
        found = []
        for k in range(8):
            (base,) = given((9, 6))
            a, b = (base[:4], base[1:5]) if k % 2 else (base[:4], base[5:])
            found.append([[bits(t) for t in step(a, b)], bits(base)])
        return found

    assert program(fused) == program(lambda f: f)


def test_strides_that_change_and_arrays_in_another_order():
    def program(wrap):
        step = wrap(lambda a, b: (a * 2.0 + b).exp() * a)
        (x,) = given((6, 6))
        return [bits(step(x.t() if k % 3 == 0 else x, x)) for k in range(12)]

    assert program(fused) == program(lambda f: f)


def test_large_arrays_on_threads(monkeypatch):
    (x,) = given((1000, 700))
    x.requires_grad_()
    monkeypatch.setattr(parallel.threads, "count", lambda: 2)

    def step():
        x.grad = None
        total = (x.exp() * 0.5 + x).sum()
        total.backward()
        return total.detach(), x.grad

    run = assert_fused(step)
    assert any(chain.large for chain in chains_of(run))


# -- what is said ----------------------------------------------------------------------------------


def test_explain_tells_the_ops_and_their_lines():
    (x,) = given((8, 9))
    run = assert_fused(lambda x: (x.exp() * 0.5 + x).tanh(), x)
    (found,) = kernels(run)
    assert found.why == "fused: exp, mul, add, tanh on 72 elements is one kernel"
    assert found.where.count("test_fused_steps.py") >= 1 and "x.exp() * 0.5" in found.where
    assert torch.explain(torch.capture(lambda x: x)) == []


def test_a_profile_shows_what_was_fused():
    (x,) = given((8, 9))
    run = assert_fused(lambda x: (x.exp() * 0.5 + x).tanh(), x)
    with torch.profiler.profile() as prof:
        run(x)
    assert "exp, mul, add, tanh (fused)" in {event.key for event in prof.key_averages()}


def test_modes(monkeypatch):
    assert torch.capture(lambda x: x).fuses is False
    assert torch.capture(mode="max")(lambda x: x).fuses is True
    with pytest.raises(ValueError, match="mode must be None or 'max', but got 'fast'"):
        torch.capture(lambda x: x, mode="fast")
    compiled = [
        torch.compile(lambda x: x, mode=m).fuses
        for m in (None, "default", "max-autotune", "max-autotune-no-cudagraphs")
    ]
    assert compiled == [False, False, True, True]
    monkeypatch.setattr(chains.util, "find_spec", lambda name: None)
    chains.kernel.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'gradlib\[fast\]'"):
        torch.capture(lambda x: x, mode="max")
    assert torch.compile(lambda x: x, mode="max-autotune").fuses is False


def test_without_the_mode_nothing_is_fused():
    assert_same(lambda wrap: [bits(wrap(lambda x: (x.exp() * 0.5 + x).tanh())(given((4, 5))[0]))])
    run = torch.capture(lambda x: (x.exp() * 0.5 + x).tanh())
    (x,) = given((8, 9))
    for _ in range(4):
        run(x)
    assert run.replays == 1 and torch.explain(run) == [] and not chains_of(run)
