"""Custom Functions in what backward is called on outside of a captured step: bits, errors, and what is not replayed."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import Function
from gradlib.autograd.function import once_differentiable
from tests.capture.as_steps import facts

CALLS = 9
SCALE = 3.0
SEEN: list = []
ELSEWHERE = torch.full((5, 4), 2.0)


class Saved(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x, None)
        ctx.k, ctx.shape, ctx.more = k, x.shape, (x.dtype, (1, None), slice(2))
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        x, nothing = ctx.saved_tensors
        if nothing is not None or ctx.more != (x.dtype, (1, None), slice(2)):
            g = g * 100
        return (g * 2 * x * ctx.k).view(ctx.shape), None


class Output(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        _, y = ctx.saved_tensors
        return g * y


class Attribute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.pair = x.detach().cos(), (x, 1.5)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.x + ctx.pair[0] * g * 0 * ctx.pair[1]


class Two(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x.tanh()

    @staticmethod
    def backward(ctx, a, b):
        return a * 2 + b


class Missing(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x + 1

    @staticmethod
    def backward(ctx, a, b):
        return b * 7 if a is None else a * 2 if b is None else a * 2 + b


class Constant(Function):
    @staticmethod
    def forward(ctx, x):
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return x * 2, sign

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


class Needed(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        first, second = ctx.needs_input_grad
        return g * y if first else None, g * x if second else None


class SetUp(Function):
    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def vjp(ctx, g):
        return helper(g, ctx.factor), None


class Noisy(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g + torch.randn(4) * 0.1


def helper(g, factor):
    return g * factor * SCALE


PROGRAMS = {
    "saved": lambda h: Saved.apply(h, 1.5),
    "the output": Output.apply,
    "twice the output": lambda h: Output.apply(Output.apply(h.tanh()) * 0.1),
    "attributes": Attribute.apply,
    "two outputs": lambda h: torch.add(*Two.apply(h)),
    "one of two outputs": lambda h: Two.apply(h)[1],
    "two outputs, not materialized": lambda h: torch.add(*Missing.apply(h)),
    "one of two, not materialized": lambda h: Missing.apply(h)[1],
    "a constant": lambda h: torch.mul(*Constant.apply(h)),
    "once": Once.apply,
    "needed": lambda h: Needed.apply(h, h.detach()) + Needed.apply(h * 2, h),
    "setup_context and vjp": lambda h: SetUp.apply(h, 0.5),
    "in a row": lambda h: Saved.apply(Attribute.apply(SetUp.apply(h, 0.3)), 2),
    "draws": Noisy.apply,
}


def train(wrap, program, way, change=lambda k: None, loss=lambda y: y.square().mean()):
    torch.manual_seed(0)
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    f = wrap(lambda x: second(program(first(x))))
    params, seen = [*first.parameters(), *second.parameters()], []
    for k in range(CALLS):
        change(k)
        x = torch.randn(5, 3, requires_grad=k % 2 == 0)
        for p in params:
            p.grad = None
        try:
            value = loss(f(x))
            if way == "retained":
                value.backward(retain_graph=True)
            if way == "double":
                grads = torch.autograd.grad(value, params, create_graph=True)
                value = value + sum((g * g).sum() for g in grads)
            value.backward()
        except RuntimeError as exc:
            seen.append(str(exc))
        seen.append(facts([x.grad, *[p.grad for p in params], torch.get_rng_state()]))
        with torch.no_grad():
            for p in params:
                p -= 0 if p.grad is None else 0.01 * p.grad
    return seen, f


@pytest.mark.parametrize("way", ["plain", "retained", "double"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions(name, way):
    wanted, _ = train(lambda f: f, PROGRAMS[name], way)
    found, step = train(torch.capture, PROGRAMS[name], way)
    assert found == wanted
    assert step.replays == (2 if way != "draws" else 1), torch.explain(step)
    if way == "plain":
        assert torch.explain(step) == []


def test_a_function_that_gives_the_result_itself():
    """What the node that stands for the step gets is added up before its Function sees it."""
    runs = []
    w = torch.linspace(-1, 1, 20).view(5, 4).requires_grad_()
    for wrap in (lambda f: f, torch.capture):
        f, found = wrap(lambda: Output.apply(w * 0.5)), []
        for _ in range(6):
            y = f()
            (g,) = torch.autograd.grad((y * y).sum() + y.sin().sum(), w, create_graph=True)
            found.append(facts(torch.autograd.grad((g * y + y.exp()).sum(), [w])))
        runs.append(found)
    assert runs[0] == runs[1] and f.replays == 1


def test_a_function_that_no_gradient_reaches_does_not_run():
    runs = []
    w, v = (torch.full((3,), k, requires_grad=True) for k in (2.0, 3.0))
    for wrap in (lambda f: f, torch.capture):
        f, found = wrap(lambda: (w * 2, Two.apply(v)[0], Two.apply(v * w)[1])), []
        for k in range(8):
            w.grad = v.grad = None
            a, b, c = f()
            (a.sum() if k % 4 < 3 else a.sum() + b.sum() + c.sum() * 0).backward()
            found.append(facts([w.grad, v.grad]))
        runs.append(found)
    assert runs[0] == runs[1] and f.replays == 1
    assert runs[0][0] == facts([torch.full((3,), 2.0), None])


def _changes(k, monkeypatch, what):
    if k == 6:
        if what == "a global":
            monkeypatch.setattr("tests.capture.test_hanging_functions.SCALE", -1.0)
        elif what == "a function":
            monkeypatch.setattr("tests.capture.test_hanging_functions.helper", lambda g, f: g * f)
        elif what == "vjp":
            monkeypatch.setattr(SetUp, "vjp", staticmethod(lambda ctx, g: (g * 100, None)))
        elif what == "the default dtype":
            torch.set_default_dtype(torch.float64)


@pytest.mark.parametrize("what", ["a global", "a function", "vjp", "the default dtype"])
def test_changes_of_what_backward_reaches(what, monkeypatch):
    runs = []
    for wrap in (lambda f: f, torch.capture):
        with monkeypatch.context() as patch:
            change = functools.partial(_changes, monkeypatch=patch, what=what)
            try:
                seen, step = train(
                    wrap, PROGRAMS["setup_context and vjp"], "plain", change,
                    loss=lambda y: (y * torch.ones(2, dtype=torch.float32)).sum(),
                )  # fmt: skip
            finally:
                torch.set_default_dtype(torch.float32)
            runs.append(seen)
    assert runs[0] == runs[1]
    assert runs[0][4] != runs[0][7] and step.replays >= 1


def test_autocast_around_backward():
    runs = []
    for wrap in (lambda f: f, torch.capture):
        w = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()

        class Product(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x @ x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return (g @ x.mT + x.mT @ g).to(x.dtype)

        f, found = wrap(lambda: Product.apply(w * 1.1)), []  # noqa: B023
        for k in range(9):
            y = f()
            w.grad = None
            with torch.autocast("cpu", torch.bfloat16, enabled=k % 3 == 2):
                y.sum().backward()
            found.append(facts(w.grad))
        runs.append(found)
    assert runs[0] == runs[1] and f.replays == 1 and runs[0][0] != runs[0][2]


def test_errors():
    """A saved tensor that was changed, a graph that was freed, and an error in the Function's own code."""

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.view(7, 7)

    for program, spoil in (
        (lambda w: Saved.apply(w, 2), lambda w, y: w.detach().add_(1)),
        (lambda w: Output.apply(w), lambda w, y: y.detach().mul_(2)),
        (lambda w: Saved.apply(w, 2), lambda w, y: y.sum().backward()),
        (lambda w: Fails.apply(w), lambda w, y: None),
    ):
        texts = []
        for wrap in (lambda f: f, torch.capture):
            w = torch.ones(5, 4, requires_grad=True)
            f = wrap(lambda: program(w))  # noqa: B023
            texts.append([])
            for _ in range(6):
                y = f()
                spoil(w, y)
                with pytest.raises(RuntimeError) as raised:
                    y.sum().backward()
                texts[-1].append(str(raised.value).partition("\n")[0])  # then where it was recorded
        assert texts[0] == texts[1]


class Counts(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.count = 1.0
        return x * 1

    @staticmethod
    def backward(ctx, g):
        ctx.count += 1
        return g * ctx.count


class Reaches(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * ELSEWHERE


class Tells(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        SEEN.append(g.sum().item())
        return g * 2


class Reads(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 2 if g.sum() > 0 else g * 3


class Writes(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Keeps(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.box: Any = [x.detach()]
        return x * 1

    @staticmethod
    def backward(ctx, g):
        ctx.box.append(1)
        return g * len(ctx.box)


@pytest.mark.parametrize("way", ["plain", "retained"])
@pytest.mark.parametrize("kind", [Counts, Reaches, Tells, Reads, Writes, Keeps])
def test_what_is_not_replayed(kind, way):
    """It runs as it is, each time."""
    runs = []
    for wrap in (lambda f: f, torch.capture):
        SEEN.clear()
        seen, step = train(wrap, kind.apply, way)
        runs.append((seen, [*SEEN]))
    assert runs[0] == runs[1]
    if (
        kind is not Tells
    ):  # for which there are plans, but not for what is in the list the next time
        assert torch.explain(step) != []


def test_a_compiled_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.second(Output.apply(torch.tanh(Saved.apply(self.first(x), 0.5))))

    runs = []
    for wrap in (lambda m: m, torch.compile):
        torch.manual_seed(0)
        model = Model()
        optimizer, run, found = torch.optim.Adam(model.parameters()), wrap(model), []
        for _ in range(12):
            optimizer.zero_grad()
            loss = run(torch.randn(5, 3)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(facts([loss.detach(), *model.parameters()]))
        runs.append(found)
    assert runs[0] == runs[1] and loss.grad_fn is not None
    assert torch.explain(run) == []


def test_compiled_modules_say_what_is_in_the_way():
    class Prints(nn.Linear):
        def forward(self, x):
            print(end="")
            return super().forward(x)

    model = Prints(2, 2)
    model.compile()
    for compiled in (torch.compile(Prints(2, 2)), model):
        for _ in range(4):
            compiled(torch.ones(1, 2))
        assert "print" in torch.explain(compiled)[0].why
    with pytest.raises(TypeError, match="got Prints"):
        torch.explain(Prints(2, 2))
