"""Steps captured with mode="max": kernels and products of small arrays are one call, up to a line that is neither."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradlib as torch
from gradlib import nn
from gradlib._capture import sequence as gathering
from gradlib.devices.numpy import chains, sequences
from tests.capture.programs import bits

F4, F8 = np.dtype("f4"), np.dtype("f8")


def joined(step):
    return [f.why for f in torch.explain(step) if f.why.startswith("joined")]


def source_of(step):
    (plan,) = [plan for entry in step._entries.values() for plan in entry.plans]
    return plan.draft.source.splitlines()


def compare(step, *args, calls=6, leaves=()):
    """The captured step, which gives eager's results and gradients in each call."""
    run = torch.capture(step, mode="max")
    for _ in range(calls):
        found, expected = [], []
        for call, into in ((run, found), (step, expected)):
            for leaf in leaves:
                leaf.grad = None
            results = call(*args)
            results = list(results) if isinstance(results, tuple) else [results]
            into += [bits(t) for t in results] + [bits(leaf.grad) for leaf in leaves]
        assert found == expected
    assert run.replays == 1, torch.explain(run)
    return run


# -- products ----------------------------------------------------------------------------------------------------------


def laid_out(draw, shape, dtype):
    array = np.asarray(draw.standard_normal(shape), dtype)
    return array, (array.shape, array.strides)


@pytest.mark.parametrize("dtype", [F4, F8])
def test_products_are_those_of_dot_for_all_layouts(dtype):
    draw = np.random.default_rng(0)
    for n, k, m in [(1, 1, 1), (4, 8, 8), (1, 8, 3), (5, 1, 2), (3, 7, 1), (33, 17, 40)]:
        for left in ("plain", "transposed", "vector"):
            for right in ("plain", "transposed", "vector"):
                shape = (k,) if left == "vector" else (n, k) if left == "plain" else (k, n)
                a, _ = laid_out(draw, shape, dtype)
                shape = (k,) if right == "vector" else (k, m) if right == "plain" else (m, k)
                b, _ = laid_out(draw, shape, dtype)
                x, y = (a.T if left == "transposed" else a), (b.T if right == "transposed" else b)
                layouts = (x.shape, x.strides), (y.shape, y.strides)
                if left == right == "vector":
                    assert not sequences.fitting(*layouts, dtype)  # `dot` gives a number
                    continue
                assert sequences.fitting(*layouts, dtype)
                out = np.full(x.dot(y).shape, np.nan, dtype)
                product = sequences.Product((*layouts, (out.shape, out.strides)), dtype, (0, 1, 2))
                slots = [sequences.Slot(dtype, z.size) for z in (a, b, out)]
                sequences.Sequence(slots, (), [product], refused)(a, b, out)
                assert out.tobytes() == x.dot(y).tobytes()


def refused(*arrays):
    raise AssertionError("the kernel does not take them")


def test_of_other_kinds_there_are_no_products():
    half = np.dtype("f2")
    assert not sequences.fitting(((2, 3), (6, 2)), ((3, 2), (4, 2)), half)
    whole = np.dtype("i8")
    assert not sequences.fitting(((2, 3), (24, 8)), ((3, 2), (16, 8)), whole)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 12), st.integers(0, 6)), max_size=12))
@settings(deadline=None)
def test_what_is_needed_at_the_same_time_lies_apart(drawn):
    needs = [(size, first, first + more) for size, first, more in drawn]
    offsets, total = sequences.allocated(needs)
    spans = [(o, o + n[0], *n[1:]) for o, n in zip(offsets, needs, strict=True)]
    for k, (lo, hi, first, last) in enumerate(spans):
        assert lo >= 0 and hi <= total and lo % 64 == 0
        for lo2, hi2, first2, last2 in spans[:k]:
            assert hi <= lo2 or hi2 <= lo or last < first2 or last2 < first


def test_memory_of_what_is_used_up_is_used_again():
    assert sequences.allocated([(64, k, k + 1) for k in range(50)])[1] == 128


def test_arrays_of_another_layout_are_computed_line_by_line():
    calls = []
    slots = [sequences.Slot(F4, 6), sequences.Slot(F4, 6), sequences.Slot(F4, 4)]
    layouts = ((2, 3), (12, 4)), ((3, 2), (8, 4)), ((2, 2), (8, 4))
    product = sequences.Product(layouts, F4, (0, 1, 2))
    sequence = sequences.Sequence(slots, (), [product], lambda *arrays: calls.append(arrays))
    a, b, out = np.ones((2, 3), F4), np.ones((3, 2), F4), np.zeros((2, 2), F4)
    sequence(a, b, out)
    assert not calls and out.tolist() == [[3, 3], [3, 3]]
    for wrong in (
        a.astype(F8),
        np.asfortranarray(a),
        np.ones((2, 4), F4),
        np.ones((4, 6), F4)[::2, ::2],
    ):
        sequence(wrong, b, out)
        assert calls.pop()[0] is wrong


# -- steps -------------------------------------------------------------------------------------------------------------


def mlp(layers, width=8, activation=nn.Tanh, dtype=torch.float32):
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), activation())]
    return nn.Sequential(*parts).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.Sigmoid])
def test_the_layers_of_a_narrow_model_are_one_call(activation, dtype):
    model = mlp(6, activation=activation, dtype=dtype)
    x = torch.randn(4, 8, dtype=dtype)

    def step():
        out = model(x)
        out.square().mean().backward()
        return out

    run = compare(step, leaves=list(model.parameters()))
    forward = joined(run)[0]
    assert "linear" in forward and "are one call" in forward
    assert sum(".dot(" in line for line in source_of(run)) == 0


def test_inference_is_one_line():
    model, x = mlp(5), torch.randn(4, 8)

    def step(x):
        with torch.no_grad():
            return model(x)

    run = compare(step, x)
    calls = [line for line in source_of(run) if "_array" not in line and "(c" not in line]
    assert len(joined(run)) == 1 and len(calls) < 7, calls


def test_training_over_many_steps():
    for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop):
        found = []
        for mode in (None, "max"):
            model, x = mlp(4), torch.linspace(-1, 1, 32).reshape(4, 8)
            updates = optimizer(model.parameters(), lr=0.01)

            def step(model=model, updates=updates, x=x):
                updates.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                updates.step()
                return loss

            run = step if mode is None else torch.capture(step, mode=mode)
            losses = [bits(run()) for _ in range(20)]
            found.append((losses, [bits(p) for p in model.parameters()]))
        assert found[0] == found[1]


def test_gradients_that_are_kept_are_added_to():
    found = []
    for mode in (None, "max"):
        model, x = mlp(3), torch.ones(4, 8)

        def step(model=model, x=x):
            model(x).sum().backward()

        run = step if mode is None else torch.capture(step, mode=mode)
        for _ in range(7):
            run()
        found.append([bits(p.grad) for p in model.parameters()])
    assert found[0] == found[1]


def test_parameters_that_get_other_memory():
    model, x = mlp(3), torch.randn(4, 8)

    def step(x):
        with torch.no_grad():
            return model(x)

    run = torch.capture(step, mode="max")
    for k in range(12):
        if k == 5:
            model[0].weight.data = model[0].weight.data.clone() * 2
        if k == 8:
            model[2].weight.data = torch.randn(8, 8).t()  # laid out in another way
        assert bits(run(x)) == bits(step(x))


def test_results_of_a_replay_are_not_those_of_the_next():
    model, x = mlp(3), torch.randn(4, 8)
    run = torch.capture(lambda x: (model[:2](x), model(x), model(x).t()), mode="max")
    for _ in range(4):
        run(x)
    first = run(x)
    before = [bits(t) for t in first]
    run(x * 2)
    assert [bits(t) for t in first] == before
    assert len({t._array.__array_interface__["data"][0] for t in first}) == 3


def test_writes_in_place_between_products():
    w = torch.randn(8, 8)

    def step(x):
        h = x @ w
        h.add_(1).tanh_()
        g = h @ w.t()
        h.mul_(2)  # after it was read
        return g, h, (h @ g.t()).exp_()

    compare(step, torch.randn(8, 8))


def test_an_argument_that_is_written_to():
    w = torch.randn(8, 8)

    def step(x):
        x.mul_(0.5).add_(1)
        return (x @ w).tanh()

    x, y = torch.ones(4, 8), torch.ones(4, 8)
    run = torch.capture(step, mode="max")
    for _ in range(6):
        assert bits(run(x)) == bits(step(y)) and bits(x) == bits(y)


def test_large_arrays_are_left_alone():
    n = int(gathering.SMALL**0.5) + 8
    w = torch.randn(n, n)
    run = compare(lambda x: ((x @ w).tanh() @ w).exp(), torch.randn(n, n))
    assert not joined(run)


def test_a_call_alone_is_that_of_numpy():
    run = compare(lambda x: x.exp().cumsum(0).tanh(), torch.randn(5, 7))
    plans = [plan for entry in run._entries.values() for plan in entry.plans]
    text = plans[0].draft.source
    assert not joined(run)
    used = [n for n, v in plans[0].draft.names.items() if isinstance(v, chains.Chain)]
    assert not [n for n in used if f"{n}(" in text]


def test_backward_through_what_is_returned():
    model, x = mlp(4), torch.randn(4, 8)
    compiled = torch.compile(mlp(4), mode="max-autotune")
    for _ in range(7):
        grads = []
        for m in (model, compiled):
            m.zero_grad()
            m(x).square().mean().backward()
            grads.append([bits(p.grad) for p in m.parameters()])
        assert grads[0] == grads[1]


# -- drawn at random ---------------------------------------------------------------------------------------------------


def drawn(seed):
    """A straight program on small matrices: products, views, elementwise ops, writes in place."""
    choose = random.Random(seed)
    n = choose.choice([1, 2, 4, 8])
    lines, values = [], ["x", "w"]
    for k in range(choose.randint(4, 14)):
        a, b = choose.choice(values), choose.choice(values)
        kind = choose.choice(
            ["mm", "mm", "tmm", "mmt", "view", "unary", "binary", "bias", "mv", "put", "sum"]
        )
        name = f"v{k}"
        text = {
            "mm": f"{a} @ {b}", "tmm": f"{a}.t() @ {b}", "mmt": f"{a} @ {b}.t()", "view": f"{a}.t()",
            "unary": f"({a} * 0.1).{choose.choice(['tanh', 'exp', 'sigmoid', 'relu'])}()", "binary": f"{a} * {b} - {a}",
            "bias": f"{a} + {b}[0]", "mv": f"({a} @ {b}[0]).reshape({n}, 1) + {b}", 
            "put": f"{a}.clone().mul_({b}).add_(1)",
            "sum": f"{a}.sum(0) * {b}",
        }[kind]  # fmt: skip
        lines.append(f"    {name} = {text}")
        lines += [f"    {name} = {name} / ({name}.abs().max().detach() + 1)"] * (
            choose.random() < 0.2
        )
        values.append(name)
    kept = choose.sample(values, k=min(len(values), 3))
    return n, "\n".join(["def step(x):", *lines, f"    return {', '.join(kept)}, {values[-1]}.t()"])


@pytest.mark.parametrize("seed", range(60))
def test_programs_drawn_at_random(seed):
    n, text = drawn(seed)
    torch.manual_seed(seed)
    scope = {"w": torch.randn(n, n, requires_grad=seed % 2 == 0) * 0.3}
    scope["w"] = scope["w"].detach().requires_grad_(seed % 2 == 0)
    exec(text, scope)
    x = torch.randn(n, n)
    run, step, w = torch.capture(scope["step"], mode="max"), scope["step"], scope["w"]
    for _ in range(7):
        gradients = []
        results = [call(x) for call in (run, step)]
        assert [bits(t) for t in results[0]] == [bits(t) for t in results[1]], text
        for found in results:
            total = sum([t.sum() for t in found])
            gradients.append(
                bits(torch.autograd.grad(total, w)[0])
                if getattr(total, "requires_grad", False)
                else b""
            )
        assert gradients[0] == gradients[1], text
