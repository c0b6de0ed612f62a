"""Kept memory of plans: nobody sees it, what is needed at the same time has memory of its own, and the bits stay."""

from __future__ import annotations

import copy
import random
import threading

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib._capture.memory import OUT, Groups, Layout, Made, made
from gradlib._capture.plan import Line
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from tests.capture.programs import MODELS, OPTIMIZERS, bits, left
from tests.capture.running import outcome


def plans(step):
    return [plan for entry in step._entries.values() for plan in entry.plans]


def arrays(step):
    """All that plans keep between replays."""
    return [array for plan in plans(step) for memory in plan.forward.memory for array in memory]


def spoil(step):
    """Write over all that plans keep: nobody else may see it, and the next replay must not read it."""
    for array in arrays(step):
        array.fill(77)


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_whose_inputs_results_and_gradients_the_caller_keeps(name):
    make, batch, loss_of = MODELS[name]
    logs = []
    for wrap in (lambda step: step, torch.capture):
        torch.manual_seed(0)
        model = make()
        opt = OPTIMIZERS["adamw"](model.parameters())

        def step(x, y, model=model, opt=opt):
            opt.zero_grad()
            out = model(x)
            loss = loss_of(out, y)
            loss.backward()
            opt.step()
            return loss.detach(), out.detach() * 1, (out.detach() > 0) | (out.detach() < -1)

        run, kept, seen = wrap(step), [], []
        for i in range(20):
            given = batch(torch.Generator().manual_seed(i % 3))
            kept.append([*given, *run(*given), *(p.grad for p in model.parameters())])
            seen.append([bits(t) for t in kept[-1]])
            if run is not step:
                spoil(run)
        assert [[bits(t) for t in tensors] for tensors in kept] == seen
        logs.append([seen, left(model, opt)])
    assert logs[1] == logs[0]
    assert run.replays == 1 and arrays(run)
    visible = [t._array for tensors in kept for t in tensors]
    visible += [t._array for t in model.state_dict(keep_vars=True).values()]
    visible += [v._array for s in opt.state.values() for v in s.values()]
    for array in arrays(run):
        assert not any(np.may_share_memory(array, v) for v in visible)


X = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))

OPS = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - 0.5 * b,
    lambda a, b: a @ b,
    lambda a, b: a.t(),
    lambda a, b: a.reshape(4, 9).transpose(0, 1).reshape(6, 6),
    lambda a, b: a[1:].sum(0) + b,
    lambda a, b: torch.cat([a[:3], b[3:]]),
    lambda a, b: F.pad(a[:, :5], (1, 0)),
    lambda a, b: a.tanh(),
    lambda a, b: a.clamp(-1, 1),
    lambda a, b: a.clone().add_(b),
    lambda a, b: (a - 0.25).mul_(2).view(6, 6),
    lambda a, b: written(a.detach().clone()) + b,
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: a.softmax(-1),
    lambda a, b: a.flatten()[:36].view(6, 6),
    lambda a, b: a.expand(2, 6, 6)[1],
    lambda a, b: torch.stack([a, b]).mean(0),
    lambda a, b: F.layer_norm(a, (6,)),
    lambda a, b: F.linear(a, b, b[0]),
    lambda a, b: a.detach() + b,
    lambda a, b: a.contiguous(),
]


def written(a):
    """`a`, changed through a view of it."""
    a[1:3].mul_(2).add_(a[0])
    return a.t()


def some_step(seed):
    """A step of ops drawn at random, whose results are used again and again, and its leaf."""
    draw = random.Random(seed)
    chosen = [(draw.choice(OPS), draw.random(), draw.random()) for _ in range(25)]
    leaf = torch.linspace(-1, 1, 36).view(6, 6).requires_grad_()

    def step(x):
        leaf.grad = None
        values = [x, leaf, leaf * 0.5]
        for op, i, j in chosen:
            out = op(values[int(i * len(values))], values[int(j * len(values))])
            values.append(out)
        total = sum((v * v).mean() for v in values[3:])
        (total + leaf.sum()).backward()
        return total.detach(), values[-1].detach() * 1, values[-5].detach() + 0

    return step, leaf


@pytest.mark.parametrize("seed", range(12))
def test_programs_drawn_at_random(seed):
    plain, plain_leaf = some_step(seed)
    step, leaf = some_step(seed)
    step, kept = torch.capture(step), []
    for i in range(6):
        x = X * (i + 1)
        expected = [*plain(x), plain_leaf.grad]
        kept.append(([*step(x), leaf.grad], [bits(t) for t in expected], bits(x), x))
        spoil(step)
    for found, expected, before, x in kept:
        assert [bits(t) for t in found] == expected
        assert bits(x) == before
    assert step.replays == 1, torch.explain(step)
    for array in arrays(step):
        assert not any(np.may_share_memory(array, t._array) for k in kept for t in (*k[0], k[3]))


def test_large_arrays_have_memory_from_replay_to_replay():
    x = torch.ones(1 << 19, requires_grad=True)

    @torch.capture
    def step():
        x.grad = None
        total = (x.exp() * 0.5 + x).mean()
        total.backward()
        return total.detach()

    found = [bits(step()) for _ in range(5)]
    assert found == [bits((x.exp() * 0.5 + x).mean().detach())] * 5
    before = [a.ctypes.data for a in arrays(step)]
    step()
    assert [a.ctypes.data for a in arrays(step)] == before and before
    # three results on the way through forward, of which two are needed at the same time
    assert plans(step)[0].forward.layout.size < 4 * x.numel() * 4


def test_threads_that_replay_a_plan_at_the_same_time():
    model = nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 40), nn.GELU())
    step = torch.capture(lambda x: (model(x) * 2 + x).detach() * 1)
    inputs = [torch.randn(50, 40, generator=torch.Generator().manual_seed(k)) for k in range(4)]
    expected = [bits((model(x) * 2 + x).detach() * 1) for x in inputs]
    for _ in range(3):
        step(inputs[0])
    wrong = []

    def work(k):
        found = [step(inputs[k]) for _ in range(30)]
        wrong.extend(k for f in found if bits(f) != expected[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and step.replays == 1


def test_an_exception_in_a_replay_leaves_the_next_one_right():
    weight = torch.ones(3, 2, requires_grad=True)
    table = torch.arange(4.0)

    @torch.capture
    def step(x, index):
        out = (x @ weight).tanh() * 2
        return (out.sum() + table[index].sum()).detach()

    x, good = torch.ones(4, 3), torch.tensor([0, 1])
    expected = [bits(step(x * k, good)) for k in (1, 1, 1, 1)]
    with pytest.raises(IndexError):
        step(x, torch.tensor([0, 9]))
    assert [bits(step(x, good)) for _ in range(2)] == expected[:2]


def test_plans_of_other_shapes_give_their_memory_back(monkeypatch):
    monkeypatch.setattr("gradlib._capture.passes.KEPT", 10_000)
    step = torch.capture(lambda x: (x * 2 + x).exp().sum())
    for n in (1000, 2000, 3000):
        for _ in range(4):
            step(torch.ones(n))
    assert step.replays == 3
    assert [len(plan.forward.memory) for plan in plans(step)] == [0, 0, 1]
    assert bits(step(torch.ones(1000))) == bits((torch.ones(1000) * 3).exp().sum())
    step.reset()
    assert arrays(step) == []


def text_of(step):
    return plans(step)[0].draft.source


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_and_columns_beside_small_arrays(dtype, turned):
    g = torch.Generator().manual_seed(3)
    row, column, cube = (
        torch.randn(*s, generator=g, dtype=dtype) for s in ((5,), (4, 1), (3, 1, 5))
    )

    def step(x, big):
        x = x.mT if turned else x.clone()
        found = [x + row, column - x, x * column[0], x / row, cube * x, row * column, big + row]
        x += row
        x *= column
        found.append(x.mT - column.mT)
        return [*found, [f.stride() for f in found]]

    captured = torch.capture(step)
    for k in range(5):
        g = torch.Generator().manual_seed(k)
        shape = (5, 4) if turned else (4, 5)
        x = torch.randn(*shape, generator=g, dtype=dtype)
        big = torch.randn(1000, 5, generator=g, dtype=dtype)
        *wanted, wanted_strides = step(x.clone(), big)
        *found, strides = captured(x.clone(), big)
        assert strides == wanted_strides
        assert [bits(f) for f in found] == [bits(w) for w in wanted], k
    assert captured.replays == 1
    assert ("[...] = " in text_of(captured)) is not dtype.is_complex
    assert text_of(captured).count("1000") == 0


def test_complex_products_of_one_element():
    """NumPy fuses the product with the sum in some loops, which other strides lead to."""
    captured, plain = [wrap(lambda x: torch.outer(x, x)) for wrap in (torch.capture, lambda f: f)]
    g = torch.Generator().manual_seed(1)
    for _ in range(300):
        x = torch.randn(1, dtype=torch.complex128, generator=g)
        assert bits(captured(x)) == bits(plain(x))


def test_gradients_are_handed_over_together_where_nobody_can_tell():
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = model[0].weight

    def once(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    def twice(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        model(x * 2).square().sum().backward()
        optimizer.step()
        return first.grad.clone()

    def added(x):
        model(x).sum().backward()
        return first.grad * 2

    for step, calls in ((once, 1), (twice, 9), (added, 8)):
        state = copy.deepcopy(model.state_dict())
        runs = []
        for wrap in (lambda f: f, torch.capture):
            model.load_state_dict(state)
            optimizer.zero_grad()
            run, found = wrap(step), []
            for k in range(6):
                x = torch.randn(2, 3, generator=torch.Generator().manual_seed(k))
                found += [outcome(run, x), *[bits(p.grad) for p in model.parameters()]]
            runs.append(found)
        assert runs[0] == runs[1]
        assert text_of(run).count("take(") == calls


def test_an_input_that_is_the_gradient_which_is_added_to():
    first, second = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)

    def step(x):
        (first * 3 + second * x).sum().backward()
        return x * 2

    runs = []
    for run in (step, torch.capture(step)):
        first.grad, second.grad = torch.ones(2, 3), None
        runs.append([[bits(run(first.grad)), bits(second.grad)] for _ in range(6)])
    assert runs[0] == runs[1]


# -- lines -------------------------------------------------------------------------------------------------------------


def line(outs, ins, n=0, effect=False):
    """A line; n: elements of a new array that it can write into a kept one, 0 if it is not known to be new."""
    known = Made(f"f({OUT})", (n,), np.dtype(np.float32)) if n else None
    return Line("", tuple(outs.split()), tuple(ins.split()), None, "", effect, made=known)


def places(lines, *returned):
    return Layout(lines, Groups(lines, returned)).places


def test_a_result_has_its_memory_until_its_last_use():
    lines = [line("t1", "a0", 8), line("t2", "t1", 8), line("t3", "t2", 8), line("t4", "t3", 8)]
    assert places(lines) == {0: 0, 1: 1, 2: 0, 3: 1}
    lines[3] = line("t4", "t3 t1", 8)
    assert places(lines) == {0: 0, 1: 1, 2: 2, 3: 1}


def test_a_view_keeps_the_memory_of_its_base():
    lines = [line("t1", "a0", 8), line("t2", "t1"), line("t3", "a0", 8), line("t4", "t2 t3", 8)]
    assert places(lines) == {0: 0, 2: 1, 3: 2}


def test_what_leaves_takes_along_what_may_be_its_memory():
    lines = [line("t1", "a0", 8), line("t2", "t1"), line("t3", "t1", 8), line("t4", "t3", 8)]
    assert places(lines, "t2") == {2: 0, 3: 1}
    assert places([*lines, line("", "t4", effect=True)], "t2") == {2: 0}
    # memory of a parameter is no memory of the plan: what may be either is a group by itself
    lines = [line("t1", "r0"), line("t2", "t1 r0"), line("t3", "r0", 8), line("t4", "t3 r0")]
    assert places(lines, "t2") == {2: 0}


def test_the_transposed_view_of_a_kept_array_is_kept():
    lines = [
        line("t1", "a0", 8),
        *[line(f"t{k}", "t1")._replace(text=f"t{k} = t1.T") for k in (2, 3)],
    ]
    lines += [
        line("t4", "a0", 8),
        line("t5", "t4")._replace(text="t5 = t4.T"),
        line("t6", "t2 t3 t5", 8),
    ]
    lines += [
        line("t6", "t6")._replace(text="t6 = g(t6)"),
        line("t7", "t6")._replace(text="t7 = t6.T"),
    ]
    layout = Layout(lines, Groups(lines, ()))
    assert len(layout) == 5 and layout.turned == {1: 3, 2: 3, 4: 4}  # what g gives is not known
    *kept, first, second = layout.arrays()
    for view, array in ((first, kept[layout.places[0]]), (second, kept[layout.places[3]])):
        assert view.base is not None and view.ctypes.data == array.ctypes.data


def test_slots_grow_and_are_aligned():
    lines = [line("t1", "a0", 8), line("t2", "a0", 4), line("t3", "a0", 10), line("t4", "t3", 3)]
    layout = Layout(lines, Groups(lines, ()))
    found = layout.arrays()
    assert [a.size for a in found] == [8, 4, 10, 3]
    assert all(a.ctypes.data % 64 == 0 for a in found)
    assert np.may_share_memory(found[0], found[1])  # one after the other
    assert not np.may_share_memory(found[2], found[3])


def test_only_new_arrays_of_calls_that_write_the_same_bits_count():
    x = np.ones((2, 3), np.float32)
    assert made(x.T, "") is None and made(x[:1], "") is None and made(x.sum(), "") is None
    assert made(x.T.copy("F"), "") is None or x.T.copy("F").flags.c_contiguous
    assert made(x + 1, "add", lambda out: np.add(x, 1, out)) == Made("add", x.shape, x.dtype)
    assert made(x + 1, "add", lambda out: np.add(x, 2, out)) == Made("", x.shape, x.dtype)
    assert made(x + 1, "add", lambda out: np.add(x, 1, out.T)) == Made("", x.shape, x.dtype)
    assert made(x + 1) == Made("", x.shape, x.dtype)


def test_a_gradient_that_is_a_view_of_what_lives_on_is_copied():
    weight = torch.ones(36, requires_grad=True)
    other = torch.full((6, 6), 2.0)

    @torch.capture
    def step(x):
        weight.view(6, 6).backward(other)
        weight.view(6, 6).backward(x)

    x = torch.full((6, 6), 3.0)
    for _ in range(6):
        weight.grad = None
        step(x)
        assert weight.grad.tolist() == [5.0] * 36
        for t in (other, x):
            assert not np.may_share_memory(weight.grad._array, t._array)
    assert other.tolist() == [[2.0] * 6] * 6 and x.tolist() == [[3.0] * 6] * 6
    assert step.replays == 1, torch.explain(step)


@pytest.mark.skipif(not chains.available(), reason="needs numba")
def test_what_writes_to_memory_stays_behind_what_reads_it():
    torch.manual_seed(0)
    p, q = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)

    def step(x):
        v, _ = torch.autograd.grad((q.flip(0) * p * p * x).sum(), [p, q])
        n = torch.linalg.norm(v)
        last = torch.where((n * x) > 0, n * x, v * 2)
        v[0] = v[1]
        return v, last

    run = torch.capture(step, mode="max")
    for _ in range(8):
        x = torch.randn(3, 3)
        assert [t.tolist() for t in run(x)] == [t.tolist() for t in step(x)]
    assert run.replays == 1
