"""What a plan leaves out is looked after: a change of anything that the step reads is seen, and what a plan cannot
repeat is never left out."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
import warnings

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib._capture.state import State
from gradlib.autograd import Function
from gradlib.nn import functional as F
from tests.capture.programs import bits

X = torch.arange(6.0).reshape(2, 3)
factor = 2.0
settings = {"scale": 2.0, "names": ["a"]}


def captured(step, *args, calls=4):
    step = torch.capture(step)
    for _ in range(calls):
        step(*args)
    return step


def assert_replayed(step, plans=1):
    assert step.replays == plans, torch.explain(step)


def test_a_variable_of_an_outer_function():
    scale = 1.0

    def f(x):
        return x * scale

    step = captured(f, X)
    assert_replayed(step)
    scale = 3.0
    assert step(X).tolist() == (X * 3).tolist()
    for _ in range(3):
        assert step(X).tolist() == (X * 3).tolist()
    assert_replayed(step, 2)
    scale = 1.0
    assert step(X).tolist() == X.tolist()
    assert_replayed(step, 2)


def test_a_global_and_an_entry_of_a_dict(monkeypatch):
    step = captured(lambda x: x * factor + settings["scale"], X)
    assert_replayed(step)
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert step(X).tolist() == (X * 5 + 2).tolist()
    monkeypatch.setitem(settings, "scale", -1.0)
    assert step(X).tolist() == (X * 5 - 1).tolist()


@pytest.mark.parametrize("value", [2, True, -2.0])
def test_a_number_of_another_kind_is_another_number(value):
    held = [2.0]
    step = captured(lambda x: x // held[0], X)
    assert_replayed(step)
    held[0] = value
    expected = X // value
    assert bits(step(X)) == bits(expected)


def test_zeros_of_both_signs_are_told_apart():
    held = [0.0]
    step = captured(lambda x: x * held[0], X)
    held[0] = -0.0
    assert bits(step(X)) == bits(X * -0.0)


def test_training_mode_attributes_and_exchanged_layers():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    step = captured(lambda x: model(x).detach() + 0, X)
    assert_replayed(step)
    model.eval()
    assert bits(step(X)) == bits(model(X).detach())
    model[1].p = 0.0
    model.train()
    assert bits(step(X)) == bits(model(X).detach())
    model[0] = nn.Linear(3, 2)
    assert bits(step(X)) == bits(model(X).detach())


def test_parameters_with_other_memory_and_without_gradient():
    model = nn.Linear(3, 2)

    def f(x):
        model.zero_grad()
        model(x).sum().backward()
        return model(x).detach() + 0

    step = captured(f, X)
    assert_replayed(step)
    model.weight.data = torch.ones(2, 3)
    assert bits(step(X)) == bits(model(X).detach())
    model.bias.requires_grad_(False)
    step(X)
    assert model.bias.grad is None and model.weight.grad is not None
    model.weight.data = torch.ones(3, 2).T
    assert bits(step(X)) == bits(model(X).detach())


def test_hooks_that_come_later():
    model, seen = nn.Linear(3, 2), []

    def f(x):
        model.zero_grad()
        model(x).sum().backward()

    step = captured(f, X)
    assert_replayed(step)
    for register in (
        model.weight.register_hook,
        model.weight.register_post_accumulate_grad_hook,
        lambda hook: model.register_forward_hook(lambda *_: hook(None)),
    ):
        handle = register(lambda g: seen.append(1))
        step(X)
        step(X)
        assert len(seen) == 2
        handle.remove()
        seen.clear()
    node = (model.weight * 1).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: seen.append(1))
    step(X)
    assert seen == [1]


def test_modes():
    w = torch.ones(3, requires_grad=True)
    step = captured(lambda x: (x * w).detach() + torch.tensor(1.0), X)
    assert_replayed(step)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert step(X).dtype == torch.float64 or bits(step(X)) == bits(
            (X * w).detach() + torch.tensor(1.0)
        )
    finally:
        torch.set_default_dtype(before)
    with torch.profiler.profile() as prof:
        step(X)
    assert "mul" in {e.key for e in prof.key_averages()}
    with torch.autocast("cpu"):
        assert bits(step(X)) == bits(X + 1)


def test_more_than_eight_variants_warn_once_and_name_what_changed():
    held = [0.0]
    step = torch.capture(lambda x: x + held[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(12):
            held[0] = float(k)
            for _ in range(4):
                assert step(X).tolist() == (X + k).tolist()
    assert len(caught) == 1
    assert "runs as it is" in str(caught[0].message)
    assert step.replays == 8


# -- what is never left out --------------------------------------------------------------------------------------------


def refused(step, *args, why, line=None):
    """The step ran as it is, and `explain` says why and where."""
    assert step.replays == 0
    [finding] = torch.explain(step)
    assert why in finding.why, finding
    if line is not None:
        assert line in finding.where, finding


def test_printing(capsys):
    def f(x):
        y = x * 2
        print("here")
        return y

    step = captured(f, X, calls=6)
    assert capsys.readouterr().out == "here\n" * 6
    refused(step, why="print is called", line='print("here")')


def test_what_outlives_the_step():
    losses, total, model = [], 0, nn.Linear(3, 2)
    cache: dict = {}

    def append(x):
        losses.append(1)
        return x * 2

    def count(x):
        nonlocal total
        total += 1
        return x * 2

    def attribute(x):
        model.last = x * 2
        return x * 2

    def entry(x):
        cache["x"] = x * 2
        return x * 2

    for f, why in (
        (append, "list.append"),
        (count, "outlives"),
        (attribute, "outlives"),
        (entry, "outlives"),
    ):
        refused(captured(f, X, calls=6), why=why)
    assert len(losses) == 6 and total == 6
    assert model.last.tolist() == cache["x"].tolist() == (X * 2).tolist()


def test_lists_of_its_own_are_fine():
    def f(x):
        parts, table = [], {}
        for i in range(3):
            parts.append(x * i)
            table[i] = parts[-1]
        return sum(table.values()) + torch.stack(sorted(parts, key=id)[:0] + parts).sum(0)

    step = torch.capture(lambda x: f(x))
    for _ in range(5):
        step(X)
    refused(step, why="id")  # the order by addresses is nothing that a plan may keep

    def g(x):
        parts = []
        for i in range(3):
            parts.append(x * i)
        return torch.stack(parts).sum(0)

    step = captured(g, X, calls=5)
    assert_replayed(step)
    assert bits(step(X + 1)) == bits(g(X + 1))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(), lambda x: bool(x.sum() > 0), lambda x: x.tolist()[0][0], lambda x: float(x[0, 0]),
        lambda x: x.numpy()[0, 0], lambda x: len(x.nonzero()), lambda x: int(x.max()), lambda x: np.asarray(x)[0, 0],
        lambda x: len(x[x > 0]), lambda x: x.data_ptr(), lambda x: len(f"{x}"), lambda x: len(repr(x)),
        lambda x: len(torch.arange(9)[torch.arange(3)[x.sum().long() % 2 + 1] :]),
        lambda x: torch.equal(x, X), lambda x: len(torch.unique(x)), lambda x: torch.allclose(x, X),
    ],
)  # fmt: skip
def test_values_that_are_read(read):
    def f(x):
        return x * 2 if read(x) else x * 3

    step = torch.capture(f)
    for x in (X, X, X, X, X * 0, -X, X * 0):
        assert bits(step(x)) == bits(f(x))
    assert step.replays or torch.explain(step)  # a plan for that value, or none


def test_random_numbers():
    def by_library(x):
        return x + torch.rand(3) + torch.rand_like(x)

    def by_python(x):
        return x * random.random()

    def by_numpy(x):
        return x * float(np.random.rand())

    for f in (by_library, by_python, by_numpy):
        runs = []
        for wrap in (lambda f: f, torch.capture):
            torch.manual_seed(3)
            random.seed(3)
            np.random.seed(3)
            step = wrap(f)
            runs.append([bits(step(X)) for _ in range(6)])
        assert runs[0] == runs[1]
        assert step.replays == (f is by_library) and bool(torch.explain(step)) != (f is by_library)


def test_clocks_and_iterators():
    pending = iter(range(10))
    step = captured(lambda x: x * next(pending), X, calls=5)
    assert next(pending) == 5
    assert step.replays == 0
    step = captured(lambda x: x * (time.perf_counter() > 0), X)
    assert step.replays == 0


def test_what_plans_do_not_know_runs_as_it_is():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = torch.ones(3, requires_grad=True)

    def custom(x):
        w.grad = None
        Double.apply(x * w).sum().backward()
        return w.grad

    def hooked(x):
        w.grad = None
        y = x * w
        y.register_hook(lambda g: g * 3)
        y.sum().backward()
        return w.grad

    def checkpointed(x):
        w.grad = None
        torch.utils.checkpoint.checkpoint(
            lambda v: (v * w).sin(), x, use_reentrant=False
        ).sum().backward()
        return w.grad

    def again(x):
        (g,) = torch.autograd.grad((x * w).sin().sum(), w, create_graph=True)
        w.grad = None
        g.sum().backward()
        return w.grad

    def graph(x):
        return x * w

    def written_view(x):
        w.grad = None
        y = x * w
        y[0] = 1.0
        y.sum().backward()
        return w.grad

    def mapped(x):
        return torch.vmap(lambda v: v * 2)(x)

    for f in (custom, hooked, checkpointed, again, graph, written_view, mapped):
        step = torch.capture(f)
        for k in range(6):
            w.grad = None
            expected = bits(f(X + k))
            w.grad = None
            assert bits(step(X + k)) == expected, f.__name__
        assert step.replays == 1 and torch.explain(step) == [], f.__name__


def test_arguments_that_require_grad():
    x = torch.ones(2, requires_grad=True)
    step = captured(lambda x: x * 2, x)
    assert step.replays == 1
    step(x).sum().backward()
    assert x.grad.tolist() == [2, 2]

    def backward_inside(x):
        (x * 2).sum().backward()

    step = captured(backward_inside, x)
    assert step.replays == 0
    assert "an argument requires grad" in torch.explain(step)[0].why


def test_several_threads():
    model = nn.Linear(3, 3)
    step = torch.capture(lambda x: F.relu(model(x)).detach() * 1)
    expected = [bits(F.relu(model(X + k)).detach() * 1) for k in range(8)]
    wrong = []

    def work(k):
        for _ in range(20):
            if bits(step(X + k)) != expected[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_captured_step_inside_another_one():
    inner = torch.capture(lambda x: x * 2)
    step = captured(lambda x: inner(x) + 1, X, calls=6)
    assert bits(step(X)) == bits(X * 2 + 1)


def test_bad_calls():
    with pytest.raises(TypeError, match="step must be a function, but got int"):
        torch.capture(3)
    with pytest.raises(TypeError, match=r"explain\(\): expected what gradlib.capture returned"):
        torch.explain(lambda: 0)


def test_reset_and_names():
    @torch.capture
    def step(x):
        """Doubles."""
        return x * 2

    for _ in range(4):
        step(X)
    assert_replayed(step)
    assert step.__name__ == "step" and step.__doc__ == "Doubles."
    step.reset()
    assert step.replays == 0
    assert bits(step(X)) == bits(X * 2)


def test_nothing_is_left_on_after_a_recording():
    """A constant that is returned is written down when the recording is over already."""
    import sys

    from gradlib.tape.modes import state

    step = captured(lambda x: torch.zeros(3), X)
    assert_replayed(step)
    assert sys.getprofile() is None and state.capture is None and not state.bits
    assert state.interposers == () and state.recorder is None
    first, second = step(X), step(X)
    first += 1
    assert second.tolist() == step(X).tolist() == [0.0] * 3

    def fails(x):
        raise KeyError("here")

    step = torch.capture(fails)
    for _ in range(4):
        with pytest.raises(KeyError, match="here"):
            step(X)
    assert sys.getprofile() is None and state.capture is None and not state.bits


def test_arguments_that_are_changed_as_objects():
    def append(x, log):
        log["n"] = log["n"] + [1]
        return x * 2

    log = {"n": []}
    step = captured(append, X, log, calls=6)
    assert len(log["n"]) == 6 and step.replays == 0

    kept = []

    def hand_out(x):
        return kept

    step = captured(hand_out, X, calls=5)
    assert step(X) is kept and step.replays == 0

    def extend(parts):
        parts.append(parts[0] * 2)
        return parts[-1] + 1

    step = torch.capture(extend)
    for _ in range(6):
        parts = [X]
        step(parts)
        assert len(parts) == 2 and parts[1].tolist() == (X * 2).tolist()
    assert step.replays == 0


def test_whether_there_is_a_gradient_is_guarded():
    def program(wrap):
        w = torch.ones(3, requires_grad=True)

        def f(x):
            fresh = w.grad is None
            (w * x * (2.0 if fresh else 1.0)).sum().backward()
            return w.grad

        step, found = wrap(f), []
        for k in range(12):
            if k > 4 and k % 2:
                w.grad = None
            found.append(bits(step(X)))
        return found, step

    expected, _ = program(lambda f: f)
    found, _ = program(torch.capture)
    assert found == expected


def test_settings_that_a_step_changes():
    def seeds(x):
        torch.manual_seed(5)
        return x * 2

    def other_mode(x):
        torch.set_grad_enabled(False)
        return x * 2

    def other_dtype(x):
        torch.set_default_dtype(torch.float64)
        return x * 2

    def other_memory(x):
        w.data = torch.ones(3)
        return x * w.detach()

    def frozen(x):
        w.requires_grad_(not w.requires_grad)
        return x * 2

    w = torch.ones(3)
    for f in (seeds, other_mode, other_dtype, other_memory, frozen):
        step = torch.capture(f)
        for _ in range(5):
            try:
                step(X)
                assert f is not other_mode or not torch.is_grad_enabled()
                assert f is not other_dtype or torch.get_default_dtype() == torch.float64
            finally:
                torch.set_grad_enabled(True)
                torch.set_default_dtype(torch.float32)
        assert step.replays == 0, f.__name__


def test_versions_and_warnings_are_read_and_said_each_time():
    count = torch.zeros(3)

    def version(x):
        count.add_(1)
        return x * count._version

    expected = [bits(X * k) for k in range(1, 6)]
    step = torch.capture(version)
    assert [bits(step(X)) for _ in range(5)] == expected

    def warns(x):
        warnings.warn("again", stacklevel=1)
        return x * 2

    step = torch.capture(warns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            step(X)
    assert len(caught) == 6


def test_exceptions_that_a_step_catches():
    table = torch.arange(6.0).reshape(3, 2)

    def catches(i):
        try:
            return F.embedding(i, table).sum()
        except IndexError:
            return torch.tensor(-1.0)

    def cleans_up(i):
        try:
            return F.embedding(i, table).sum()
        finally:
            settings["scale"] = 2.0

    for f in (catches, cleans_up):
        step = captured(f, torch.tensor([1]))
        assert_replayed(step, 0)
        assert "catches exceptions" in torch.explain(step)[0].why
    assert captured(catches, torch.tensor([1]))(torch.tensor([3])).item() == -1

    def plain(i):
        with torch.no_grad():
            return F.embedding(i, table).sum()

    step = captured(plain, torch.tensor([1]))
    assert_replayed(step)
    with pytest.raises(IndexError, match="out of range"):
        step(torch.tensor([3]))


def test_a_method_that_a_plan_cannot_repeat_is_in_the_way_only_where_it_is_called():
    @dataclasses.dataclass(frozen=True)
    class How:  # what a dataclass writes for __repr__ catches exceptions
        scale: float = 2.0

        def imports(self):
            import json

            return json

        def tries(self):
            try:
                return self.scale
            finally:
                self.imports()

    how = How()
    step = captured(lambda x: x * how.scale, X)
    assert_replayed(step)
    step = captured(lambda x: x * how.tries(), X)
    assert "catches exceptions" in torch.explain(step)[0].why
    step = captured(lambda x: x * len(how.imports().__name__), X)
    assert "imports json while it runs" in torch.explain(step)[0].why


def test_code_of_two_files_that_is_equal_is_not_the_same():
    functions = []
    for file in ("one.py", "other.py"):
        namespace = {}
        exec(compile("def f(x): return x * factor", file, "exec"), namespace)
        functions.append(namespace["f"])
    one, other = functions
    assert one.__code__ == other.__code__
    assert id(one.__code__) in State(one).codes
    assert id(other.__code__) not in State(one).codes


def test_numbers_beside_tensors_keep_their_meaning():
    values = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 3e-40, 3e38]
    w = torch.full((8,), 0.5, dtype=torch.float64, requires_grad=True)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64):
        x = torch.tensor([v if dtype.is_floating_point else 3 for v in values], dtype=dtype)

        def f(x, w=w):
            w.grad = None
            y = (1 - x.sigmoid()) * 3 + (x * -0.0) / 7 - 0.1
            (1 - w.tanh() * y.double()).sum().backward()
            return y, (x.double() * w).detach() / 3, w.grad

        step = captured(f, x)
        assert_replayed(step)
        assert [bits(v) for v in step(x)] == [bits(v) for v in f(x)]
