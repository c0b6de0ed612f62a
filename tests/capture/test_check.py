"""A draft with a wrong line becomes no plan: the lines are tried out in the recording that confirms it."""

from __future__ import annotations

import re

import pytest

import gradlib as torch
from gradlib import nn
from gradlib._capture import check, memory, steps, trial, writer
from tests.capture.as_steps import facts


@pytest.fixture(autouse=True)
def as_users_have_it(strict, monkeypatch):
    """Wrong lines are what is made here."""
    monkeypatch.setattr(writer, "first_difference", check.first_difference)
    monkeypatch.setattr(steps, "gives_again", trial.gives_again)


def run(wrap):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Dropout(0.2), nn.Linear(4, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        h = model(x)
        h[:, 1] *= 2
        loss = (h - y).square().mean() + h.exp().sum() * 1e-3
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, found = wrap(step), []
    for _ in range(6):
        found.append(facts([step(torch.randn(4, 4), torch.randn(4, 4)), *model.parameters()]))
    return found, step


def other_variable(line, values):
    """A variable in whose place the line could read another one, and that one; None if there is none."""
    for old in line.ins:
        array = values.get(old)
        for name, v in values.items():
            alike = (
                name[0] == old[0] == "t"
                and name not in (old, *line.outs)
                and v.__class__ is array.__class__
            )
            if (
                alike
                and (v.shape, v.dtype) == (array.shape, array.dtype)
                and v.tobytes() != array.tobytes()
            ):
                return old, name
    return None


def test_wrong_lines(monkeypatch):
    expected, _ = run(lambda f: f)
    number, faults, noticed, count, before = 0, 0, 0, 1, 0

    def with_fault(draft, given, arguments, values, drawn):
        nonlocal faults, count
        if faults > before:  # a part of the step
            return check.first_difference(draft, given, arguments, values, drawn)
        count, line = len(draft.lines), draft.lines[number]
        known = (
            list(values)[: list(values).index(line.outs[0])]
            if line.outs and line.outs[0] in values
            else []
        )
        found = other_variable(line, {n: values[n] for n in known})
        if found and not line.effect:
            faults += 1
            left, sign, right = line.text.rpartition(" = ")
            text = left + sign + re.sub(rf"\b{found[0]}\b", found[1], right)
            draft.lines[number] = line._replace(text=text, ins=(*line.ins, found[1]))
        return check.first_difference(draft, given, arguments, values, drawn)

    monkeypatch.setattr(writer, "first_difference", with_fault)
    while number < count:
        before = faults
        found, step = run(torch.capture)
        assert found == expected
        said = [f.why for f in torch.explain(step)]
        if faults > before:
            noticed += any(["its lines give other numbers than the step" in why for why in said])
        number += 1
    assert faults > 20
    assert noticed >= faults - 1  # the gradient of what is overwritten is 0, whatever it is made of


# -- plans that are tried out as a whole -------------------------------------------------------------------------------


def run_without_an_optimizer(wrap):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Dropout(0.2))

    def step(x, y):
        model.zero_grad()
        h = model(x)
        h[:, 1] *= 2
        loss = (h - y).square().mean() + h.exp().sum() * 1e-3
        loss.backward()
        return loss.detach(), h.detach().exp(), loss.item()

    step, found = wrap(step), []
    for _ in range(5):
        result = step(torch.randn(4, 4), torch.randn(4, 4))
        gradients = [p.grad for p in model.parameters()]
        found.append((facts([*result[:2], *gradients]), result[2]))
    return found, step


def test_wrong_plans(monkeypatch):
    """Each line that reads another variable is noticed, unless all that the step gives is the same."""
    expected, right = run_without_an_optimizer(torch.capture)
    assert right.replays == 1 and expected == run_without_an_optimizer(lambda f: f)[0]
    number, faults, noticed, count, before = 0, 0, 0, 1, 0
    make = steps.Captured._plan

    def with_fault(self, entry, recorder, returned):
        nonlocal faults, count
        if faults > before:  # a part of the step
            return make(self, entry, recorder, returned)
        draft, values = recorder.draft, recorder.values
        count, line = len(draft.lines), draft.lines[number]
        names = list(values)
        known = names[: names.index(line.outs[0])] if line.outs and line.outs[0] in values else []
        found = other_variable(line, {n: values[n] for n in known})
        if found and not line.effect and line.made is None:
            faults += 1
            left, sign, right = line.text.rpartition(" = ")
            text = left + sign + re.sub(rf"\b{found[0]}\b", found[1], right)
            draft.lines[number] = line._replace(text=text, ins=(*line.ins, found[1]))
        return make(self, entry, recorder, returned)

    monkeypatch.setattr(steps.Captured, "_plan", with_fault)
    while number < count:
        before = faults
        found, step = run_without_an_optimizer(torch.capture)
        assert found == expected
        noticed += faults > before and not step.replays
        number += 1
    assert faults > 10 and noticed >= faults - 2


def test_memory_of_a_plan_that_is_shared_by_what_is_needed_at_the_same_time_is_noticed(monkeypatch):
    def step(x):
        a, b = x.exp(), x.sin()
        return (a * b + a).sum()

    x = torch.randn(50, 50)
    arrays = memory.Layout.arrays
    whole = torch.capture(step)
    expected = step(x).item()
    assert [whole(x).item() for _ in range(4)] == [expected] * 4
    assert whole.replays == 1

    def overlapping(self):
        made = arrays(self)
        return (made[0],) * len(made)

    monkeypatch.setattr(memory.Layout, "arrays", overlapping)
    step = torch.capture(step)
    assert [step(x).item() for _ in range(4)] == [expected] * 4
    assert not step.replays
    assert ["its plan gives other numbers than the step" in f.why for f in torch.explain(step)] == [
        True
    ]


def test_what_is_tried_out_leaves_everything_as_it_was():
    w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w, other], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (torch.dropout(x, 0.5, True) * w * torch.rand(3)).sum()
        loss.backward()
        return loss.detach()

    runs = []
    for wrap in (lambda f: f, torch.capture):
        torch.manual_seed(3)
        run, found = wrap(step), []
        for k in range(6):
            other.grad = torch.ones(3)
            x = torch.ones(3) * k
            found += [
                facts(run(x)),
                facts(w.grad),
                other.grad,
                facts(torch.get_rng_state()),
                x._version,
                w._version,
            ]
        runs.append(found)
    assert runs[0] == runs[1]
    assert run.replays == 1


def test_the_random_state_and_gradients_are_left_alone():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (torch.dropout(x, 0.5, True) * w * torch.rand(3)).sum().backward()
        return torch.randn(3)

    runs = []
    for wrap in (lambda f: f, torch.capture):
        torch.manual_seed(3)
        run, found = wrap(step), []
        for k in range(6):
            found += [facts(run(torch.ones(3) * k)), facts(w.grad), facts(torch.get_rng_state())]
        runs.append(found)
    assert runs[0] == runs[1]
    assert run.replays == 1


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "float16", "bfloat16", "int64"]
)
def test_what_counts_as_the_same(dtype):
    """Last bits may depend on where arrays lie; numbers may not."""
    a = (torch.arange(6.0) * 100).to(getattr(torch, dtype))._array
    near, far = a.copy(), a.copy()
    near[5], far[1] = a[5] * (1 + 3e-3 if a.dtype.itemsize == 2 else 1 + 1e-6), a[1] * 2
    assert check.same_result(a, a.copy())
    assert check.same_result(a, near)
    assert not check.same_result(a, far)
    assert not check.same_result(a, a[::-1])
    assert not check.same_result(a, a[:5])
    if dtype != "int64":
        far[1] = a[1] * float("nan")
        assert not check.same_result(a, far)
        assert check.same_result(far, far.copy())
