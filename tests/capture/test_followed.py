"""The run after the one that is written down is only followed: its plan is used if that did the same."""

from __future__ import annotations

import gc

import pytest

import gradlib as torch
from gradlib import nn
from gradlib._capture import notes, recorder


@pytest.fixture
def recordings(monkeypatch):
    """A list that gets longer with each recording."""
    found, record = [], recorder.Recorder.record

    def counted(self, *args):
        found.append(self)
        return record(self, *args)

    monkeypatch.setattr(recorder.Recorder, "record", counted)
    yield found
    found.clear()


def trained(dropout=0.0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean() + torch.zeros(()) + torch.tensor([0.5]).sum()
        loss.backward()
        optimizer.step()
        return loss.item(), loss

    return step


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_step_is_written_down_once(recordings, dropout):
    plain, step = trained(dropout), trained(dropout)
    x = torch.randn(5, 4)
    torch.manual_seed(1)
    want = [[v if isinstance(v, float) else v.tolist() for v in plain(x)] for _ in range(6)]
    step = torch.capture(step)
    torch.manual_seed(1)
    found = [[v if isinstance(v, float) else v.tolist() for v in step(x)] for _ in range(6)]
    assert found == want
    assert step.replays == 1, torch.explain(step)
    assert len(recordings) == 1


HIDDEN = {
    "a factor": lambda x, turn: x * (1 + turn),
    "an op": lambda x, turn: x.exp() if turn else x.sin(),
    "an attribute": lambda x, turn: x.sum(turn),
    "more ops": lambda x, turn: x.exp().sin() if turn else x.exp(),
    "one of two": lambda x, turn: (x.exp(), x.sin())[turn] * 2,
    "numbers": lambda x, turn: x + torch.tensor([1.0 + turn, 2.0]),
    "a result": lambda x, turn: (x.exp(), x.sin())[:: -1 if turn else 1],
    "structure": lambda x, turn: (x.exp(), [x.sin()]) if turn else [x.exp(), x.sin()],
    "a write": lambda x, turn: x.exp().mul_(2) if turn else x.exp().mul(2),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_no_guard_sees_is_noticed(name):
    """Which tensor a step is called with is nothing that could be compared, unless there are several."""
    function, tensors = HIDDEN[name], [torch.ones(2, 2), torch.ones(2, 2)]
    known = hash(tensors[0])

    def step(x):
        return function(x, int(hash(x) == known))

    def results(wrap):
        run = wrap(step)
        found = []
        for k in range(8):
            leaves, spec = torch.utils._pytree.tree_flatten(run(tensors[k % 2]))
            found.append((str(spec), [t.tolist() for t in leaves]))
        return found, run

    (found, captured), (want, _) = results(torch.capture), results(lambda f: f)
    assert found == want
    assert [f.why.partition(":")[0] for f in torch.explain(captured)] == [
        "it does something else each time"
    ]


def test_notes_tell_runs_apart():
    def noted(*events):
        found = notes.Notes(recorder.State(None), [])
        for what, *values in events:
            found.note(what, *values)
        found.result([1.0], None)
        return found

    a, b = torch.ones(2), torch.ones(2)
    same = noted(("op", a, b, 1), ("write", a)), noted(("op", b, a, 1), ("write", b))
    assert same[0].differ(same[1]) is None
    for other in (
        noted(("op", a, a, 1), ("write", a)),
        noted(("op", a, b, 1.0), ("write", a)),
        noted(("op", a, b, True), ("write", a)),
        noted(("op", a, b, 1), ("write", b)),
        noted(("op", a, b, 1), ("read", a)),
        noted(("op", a, b.requires_grad_(), 1), ("write", a)),
        noted(("op", a, b, 1)),
    ):
        b.requires_grad_(False)
        assert same[0].differ(other) is not None


def test_arrays_of_a_recorded_step_are_gone_at_once():
    step = torch.capture(lambda x: x.exp().sin().sum())
    gc.collect()
    gc.disable()
    try:
        before = {id(o) for o in gc.get_objects()}
        for _ in range(3):
            step(torch.ones(3))
        kept = [
            o for o in gc.get_objects() if id(o) not in before and isinstance(o, recorder.Recorder)
        ]
    finally:
        gc.enable()
    assert not kept
    assert step.replays == 1


@pytest.mark.parametrize("kind", ["hooks", "functions", "reads", "saved"])
def test_what_notes_do_not_tell_is_written_down_twice(recordings, kind):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = torch.ones(3, requires_grad=True)
    if kind == "hooks":
        w.register_hook(lambda g: g * 2)

    def step(x):
        w.grad = None
        y = Doubled.apply(w * x) if kind == "functions" else w * x
        if kind == "reads" and x.sum() > 100:
            y = y + 1
        if kind == "saved":
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
                y = y.exp()
        y.sum().backward()
        return y.detach()

    step = torch.capture(step)
    for _ in range(5):
        step(torch.ones(3))
    assert step.replays == 1, torch.explain(step)
    assert len(recordings) == 2


def test_autocast_inside_and_around(recordings):
    """Casts that end with a block inside are ops; those of a block around the step outlive it."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))

    def loss(x):
        return model(x).float().square().sum()

    def inside(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(x)

    x = torch.randn(5, 4)
    want = inside(x).item()
    step = torch.capture(inside)
    assert [step(x).item() for _ in range(5)] == [want] * 5
    assert step.replays == len(recordings) == 1, torch.explain(step)
    step = torch.capture(loss)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert step(x).item() == want
    for _ in range(5):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert step(x).item() == want
    assert step.replays == 1, torch.explain(step)
    assert len(recordings) == 3
