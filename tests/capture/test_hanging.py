"""Results that backward is called on outside of the captured step: bits, errors and everything that hangs on them."""

from __future__ import annotations

import copy
import os
import pickle
import random
import re
import threading
import weakref

import pytest

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import nn
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.devices.numpy import chains
from tests.capture import longer_losses, losses
from tests.capture.as_steps import differences, differentiated, facts
from tests.capture.models import MODELS

LOSSES = {**losses.REPLAYED, **longer_losses.REPLAYED}
SOME = random.Random(int(os.environ.get("FUZZ_SEED", "0"))).sample(sorted(LOSSES), 24)
WAYS = ("plain", "requires", "retained", "double")


def train(make, loss, wrap, way, steps=9):
    """What backward outside of a captured loss gives over some steps, and the captured function."""
    torch.manual_seed(0)
    model, batch, own = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    f, seen = wrap(lambda *given: (loss or own)(model, *given)), []
    params = [p for p in model.parameters() if p.requires_grad]
    for k in range(steps):
        x, y = batch()
        if way == "requires" and x.is_floating_point():
            x = x.requires_grad_() if k % 2 else x.requires_grad_() * 1.5
            if k % 2 == 0:
                x.retain_grad()
        value = f(x, y)
        if way == "retained":
            value.backward(retain_graph=True)
        if way == "double":
            grads = torch.autograd.grad(value, params, create_graph=True, allow_unused=True)
            more = [(g * g).sum() for g in grads if g is not None and g.requires_grad]
            value = value + sum(more)
        value.backward()
        seen.append(facts([value.detach(), x.detach(), x.grad, *[p.grad for p in params]]))
        if k % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    left = [*model.state_dict().values(), torch.get_rng_state()]
    return seen, facts(left), f


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_models(name, way):
    *expected, _ = train(MODELS[name], None, lambda f: f, way)
    *found, f = train(MODELS[name], None, torch.capture, way)
    assert found == expected and f.replays, torch.explain(f)


@pytest.mark.parametrize("name", SOME)
def test_losses(name):
    def make():
        return nn.Sequential(nn.Linear(6, 4)), lambda: (torch.randn(5, 6), torch.randn(5, 4)), None

    for way in WAYS:
        try:
            *expected, _ = train(make, LOSSES[name], lambda f: f, way)
        except (ValueError, RuntimeError):  # a scale below 0 in the end, a write to a leaf
            continue
        *found, f = train(make, LOSSES[name], torch.capture, way)
        assert found == expected, way
        if name == "checkpointed":  # what is packed is unpacked by functions, in backward
            assert "packed values" in torch.explain(f)[0].why
            continue
        assert f.replays, torch.explain(f)
        if chains.available():
            *found, f = train(make, LOSSES[name], torch.capture(mode="max"), way)
            assert found == expected, way


def ready(f, *given, calls=7):
    """`f` captured, and replayed with backward through it."""
    step = torch.capture(f)
    for _ in range(calls):
        out = step(*given)
        total = sum([t.sum() for t in (out if isinstance(out, tuple) else (out,))])
        total.backward()
    assert step.replays, torch.explain(step)
    return step


def text(action, *given):
    with pytest.raises(RuntimeError) as caught:
        action(*given)
    return str(caught.value)


W = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
X = torch.tensor([0.5, -1.0, 2.0])


@pytest.fixture(autouse=True)
def no_gradients():
    W.grad = None
    yield
    W.grad = None


def test_the_node():
    step = ready(lambda x: x * W, X)
    out = step(X)
    assert (
        out.grad_fn.name() == "CompiledFunctionBackward" and out.requires_grad and not out.is_leaf
    )
    assert out.grad_fn.next_functions[0][0] is (W * 1).grad_fn.next_functions[0][0]
    W.grad = None
    out.sum().backward()
    assert W.grad.tolist() == X.tolist()
    assert "a second time" in text(torch.Tensor.backward, out.sum())
    assert torch.explain(step) == []


@pytest.mark.parametrize("changed", ["parameter", "argument", "result"])
def test_what_is_saved_and_changed(changed):
    def f(x):
        return (x * W).exp()

    step = ready(f, X.clone().requires_grad_())
    for how in (f, step):
        x = X.clone().requires_grad_()
        out = how(x)
        with torch.no_grad():
            {"parameter": W, "argument": x, "result": out}[changed].mul_(1.0)
        said = text(torch.Tensor.backward, out.sum())
        assert "modified by an inplace operation" in said and "expected version" in said
        if how is f:
            expected = said
    first, second = (re.sub(r"\d+", "", t.split("\n")[0]) for t in (said, expected))
    assert first == second


def test_what_is_changed_and_not_saved():
    step = ready(lambda x: x + W, X)
    x = X.clone()
    out = step(x)
    x.zero_()
    out.mul_(2.0)
    W.grad = None
    out.sum().backward()
    assert W.grad.tolist() == [2, 2, 2]


def test_a_parameter_with_new_memory():
    step = ready(lambda x: x * W.sin(), X)
    out = step(X)
    before = W.data
    try:
        W.data = torch.zeros(3)
        W.grad = None
        out.sum().backward()
        assert (
            W.grad.tolist() == X.tolist()
        )  # as in eager mode, where the node has the parameter itself
    finally:
        W.data = before


def several(x):
    h = torch.sin(x * W)
    return h * 2, h.exp(), x * 3


def test_some_of_several_results():
    step, results = torch.capture(several), {}
    for k in range(60):
        chosen = [i for i in range(2) if (k % 3) + 1 >> i & 1]
        for how in (several, step):
            out = how(X)
            W.grad = None
            sum([out[i].sum() for i in chosen]).backward()
            results[how] = facts([W.grad, *[o.detach() for o in out]])
        assert results[step] == results[several]
    assert step.replays == 1 and not step(X)[2].requires_grad


def test_layouts_of_gradients():
    w = torch.randn(4, 5, requires_grad=True)
    step = torch.capture(lambda x: x @ w)
    x = torch.randn(3, 4)
    layouts = [
        torch.ones(1).expand(3, 5), torch.randn(3, 5), torch.randn(5, 3).t(), torch.randn(3, 10)[:, ::2],
    ]  # fmt: skip
    for k in range(40):
        g = layouts[k % 4]
        w.grad = None
        (x @ w).backward(g)
        expected = facts(w.grad)
        w.grad = None
        step(x).backward(g)
        assert facts(w.grad) == expected, k
    assert step.replays == 1


def test_too_many_layouts_run_as_they_are():
    step = torch.capture(lambda x: x * W)
    for k in range(30):
        g = torch.ones(3 * (k + 1))[:: k + 1]
        W.grad = None
        step(X).backward(g)
        assert W.grad.tolist() == X.tolist()
    assert step.replays == 0
    assert "layouts of gradients" in torch.explain(step)[0].why


def said(order, name, g):
    order.append((name, g.tolist()))
    return g


def test_hooks_on_results_and_parameters():
    step = ready(lambda x: (x * W).tanh(), X)
    seen = {}
    for how in (step, lambda x: (x * W).tanh()):
        order = []
        handle = W.register_hook(lambda g, order=order: said(order, "W", g) * 2)
        out = how(X)
        out.register_hook(lambda g, order=order: said(order, "out", g) * 3)
        out.retain_grad()
        W.grad = None
        (out * 2).sum().backward()
        handle.remove()
        seen[how] = [*order, W.grad.tolist(), out.grad.tolist()]
    assert len({str(v) for v in seen.values()}) == 1


def test_gradients_of_some_inputs_and_of_batches():
    x = X.clone().requires_grad_()

    def f(x):
        return (x * W).sin() * x

    step = ready(f, x)
    for how in (f, step):
        W.grad = x.grad = None
        out = how(x)
        (g,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
        rows = torch.autograd.grad(out, x, torch.eye(3), True, is_grads_batched=True)[0]
        out.sum().backward(inputs=[W])
        if how is f:
            expected = facts([g, rows, W.grad])
    assert facts([g, rows, W.grad]) == expected and x.grad is None


def test_gradcheck_through_replays():
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)

    def f(x, w):
        return (x * w).tanh() @ x.exp(), w.sin() / (2 + x.cos())

    step = torch.capture(f)
    for _ in range(6):
        sum([o.sum() for o in step(x, w)]).backward()
    assert step.replays
    assert gradcheck(step, (x, w)) and gradgradcheck(step, (x, w))
    a, b = (torch.autograd.functional.hessian(lambda v, h=h: h(v, w)[0], x) for h in (f, step))
    assert torch.equal(a, b)


def test_double_backward_twice():
    def f(x):
        return (x * W).sin().prod() + (W * W * W).sum()

    step = ready(f, X)
    for how in (f, step):
        out = how(X)
        (g,) = torch.autograd.grad(out, W, create_graph=True)
        (h,) = torch.autograd.grad(g.sum() * out, W, create_graph=True)
        (i,) = torch.autograd.grad((h * g).sum() + out, W)
        if how is f:
            expected = facts([g, h, i], named=False)
    assert facts([g, h, i], named=False) == expected


def test_anomaly_and_profile_run_the_steps_own_nodes():
    step = ready(lambda x: (x * W).sqrt(), X.abs())
    out = step(torch.zeros(3))
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
    ):
        (out * 0).sum().backward()
    out = step(X.abs())
    W.grad = None
    with torch.autograd.profiler.profile() as profile:
        out.sum().backward()
    assert {"SqrtBackward0", "MulBackward0"} <= {e.name for e in profile.function_events}
    assert W.grad is not None


def test_results_and_gradients_are_nobody_elses():
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Sigmoid(), nn.LayerNorm(4), nn.Linear(4, 4), nn.Softmax(1)
    )
    step = torch.capture(lambda x: model(x))
    kept, graphs = [], []
    for k in range(24):
        x = torch.randn(3, 4)
        out = step(x)
        grads = torch.autograd.grad(
            out.square().sum(),
            [*model.parameters()],
            retain_graph=k % 3 > 0,
            create_graph=k % 3 == 2,
        )
        for t in (out, *grads):
            kept.append((t, t.detach().clone()))
        if k % 3:
            graphs.append((x, out, grads))
    assert step.replays == 1
    for t, then in kept:
        assert torch.equal(t, then)
    for x, out, _ in graphs:  # what they hang on is theirs, too
        again = torch.autograd.grad(model(x).square().sum(), [*model.parameters()])
        for a, b in zip(
            torch.autograd.grad(out.square().sum(), [*model.parameters()]), again, strict=True
        ):
            assert torch.equal(a, b)


def test_views_and_pieces():
    w = torch.randn(4, 6, requires_grad=True)

    def f(x):
        h = (x @ w).sin()
        return h.view(3, 2, 3).transpose(0, 1), (x @ w).unsqueeze(0)

    step = torch.capture(f)
    for _ in range(8):
        x, found = torch.randn(3, 4), []
        for how in (f, step):
            a, b = how(x)
            w.grad = None
            ((a * 2).sum() + b.exp().sum()).backward()
            found.append(facts([a.detach(), b.detach(), w.grad]))
        assert found[0] == found[1]
    assert step.replays == 1
    a, _ = step(x)
    a.mul_(2)
    a.sum().backward()

    def chunks(x):
        return (x @ w).chunk(2, 1)

    step = torch.capture(chunks)
    for _ in range(5):
        sum([c.sum() for c in step(x)]).backward()
    assert step.replays == 0 and "same memory" in torch.explain(step)[0].why


def test_accumulation_in_the_order_of_eager_mode():
    w = torch.randn(64, requires_grad=True)

    def f(x):
        return (x * w).sin() * w

    step = torch.capture(f)
    for _ in range(8):
        x, found = torch.randn(64), []
        for how in (f, step):
            w.grad = None
            h = how(how(x)) * w
            (how(h) + h.exp() * w).sum().backward()
            found.append(facts(w.grad))
        assert found[0] == found[1]
    assert step.replays >= 1


def test_threads():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    step, wrong = torch.capture(lambda x: model(x)), []
    inputs = [torch.randn(4, 8) for _ in range(6)]
    params = [*model.parameters()]
    expected = [facts(torch.autograd.grad(model(x).sum(), params)) for x in inputs]

    def work(k):
        for _ in range(25):
            if facts(torch.autograd.grad(step(inputs[k]).sum(), params)) != expected[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_what_is_not_replayed():
    h = X.clone().requires_grad_() * 2
    step = torch.capture(lambda x: x.mul_(W))
    for _ in range(6):
        v = h * 1
        assert torch.equal(step(v).detach(), h.detach() * W.detach()) and v.grad_fn is not None
    assert step.replays == 0 and "another history" in torch.explain(step)[0].why


def test_arguments_that_are_views():
    def reads(x):
        return (x * W).sin()

    def writes(x):
        x.mul_(2)
        return x * W

    for f in (reads, writes):
        step = torch.capture(f)
        for k in range(8):
            found = []
            for how in (f, step):
                leaf = torch.randn(
                    2, 3, generator=torch.Generator().manual_seed(k)
                ).requires_grad_()
                base = leaf * 1.5
                W.grad = None
                (how(base[1]).sum() + base.sum()).backward()
                found.append(facts([leaf.grad, W.grad, base.detach()]))
            assert found[0] == found[1], (f.__name__, k)
        assert step.replays == (f is reads)


def test_what_kind_of_tensor_an_argument_is():
    def f(x):
        if isinstance(x, nn.Parameter):
            return x * 2
        return x * 3 if x.is_leaf else x * 4

    step = torch.capture(f)
    plain = X.clone().requires_grad_()
    for _ in range(6):
        for x, times in (
            (nn.Parameter(X), 2),
            (plain, 3),
            (plain * 1, 4),
            (nn.Parameter(X, False), 2),
        ):
            assert torch.equal(step(x), X * times)
    assert step.replays == 4


def test_programs():
    program = """
a, w = D(1, 4, 3), D(2, 3, 3, rg=True)
h = (a @ w).sin()
h[1] = h[0] * 2
b = h.clone()
b[:, 0].mul_(w[0, 0])
c = torch.cat([h, b], 1).view(2, -1)
"""
    found, plans = differences(program, raw=True, after=differentiated)
    assert found == [] and plans


# -- compiled modules ------------------------------------------------------------------------------------------------


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.GELU(), nn.Linear(8, 2)
    )


def test_compiled_modules_train_as_their_own():
    def run(wrap):
        model = net()
        called = wrap(model)
        optimizer = torch.optim.Adam(called.parameters(), 0.01)
        seen = []
        for k in range(12):
            called.train(k % 4 != 3)
            loss = F.cross_entropy(called(torch.randn(6, 4)), torch.tensor([0, 1, 0, 1, 1, 0]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                seen.append(facts([loss.detach(), called(torch.ones(2, 4))]))
        return seen, facts(model.state_dict())

    assert run(torch.compile) == run(lambda m: m)

    def in_place(model):
        model.compile()
        return model

    assert run(in_place) == run(lambda m: m)


def test_optimized_modules():
    model = net()
    called = torch.compile(model)
    assert (
        isinstance(called, torch._dynamo.eval_frame.OptimizedModule) and called._orig_mod is model
    )
    assert next(iter(called.state_dict())) == "_orig_mod.0.weight" and len(called) == 5
    assert [*called.parameters()] == [*model.parameters()] and called.training
    called.eval()
    assert not model.training and not called.training
    called.factor = 3
    assert model.factor == 3 and called.factor == 3
    for _ in range(6):
        called(torch.ones(2, 4)).sum().backward()
    twin = copy.deepcopy(called)
    assert twin._orig_mod[0].weight is not model[0].weight
    twin._orig_mod[0].weight.data.zero_()
    for _ in range(6):
        assert not torch.equal(twin(torch.ones(2, 4)), called(torch.ones(2, 4)))
    assert list(pickle.loads(pickle.dumps(called)).state_dict()) == list(called.state_dict())
    with pytest.raises(AttributeError, match="nothing"):
        _ = called.nothing
    model.compile()
    assert copy.deepcopy(model).forward.step.__self__ is not model
    assert torch.equal(pickle.loads(pickle.dumps(model))(torch.ones(2, 4)), model(torch.ones(2, 4)))
    assert type(torch.compile(model, backend="eager")) is type(called)
    assert torch.compile(model, disable=True) is model


# -- steps in parts --------------------------------------------------------------------------------------------------


def in_parts(step, log, capsys):
    model = nn.Sequential(net(), nn.ModuleList([nn.Tanh()])[0], nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = step(lambda x: body(model, optimizer, log, x))
    out = [step(torch.randn(6, 4)) for _ in range(10)]
    return facts([out, model.state_dict()]), capsys.readouterr().out, step


def body(model, optimizer, log, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    print(f"{loss.item():.9f}")
    loss.backward()
    optimizer.step()
    log.append(loss.item())
    return log[-1]


def test_a_step_that_prints_is_replayed_in_parts(capsys):
    logs = [], []
    expected, said, _ = in_parts(lambda f: f, logs[0], capsys)
    found, also, step = in_parts(torch.capture, logs[1], capsys)
    assert found == expected and also == said and logs[0] == logs[1]
    assert step.replays == 0 and step.parts.replays == 1
    assert [f.what for f in torch.explain(step)] == ["<lambda>"]
    step.reset()
    assert step.parts is None


class Telling(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = net(), nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.second(self.first(x).tanh())


def test_a_module_that_counts_is_replayed_in_parts():
    def run(wrap):
        torch.manual_seed(0)
        model = Telling()
        called, seen = wrap(model), []
        for _ in range(8):
            called(torch.randn(6, 4)).sum().backward()
            seen.append(facts([p.grad for p in model.parameters()]))
        assert model.calls == 8 and "forward" not in vars(model.first)
        return seen, called

    expected, _ = run(lambda m: m)
    found, called = run(torch.compile)
    assert found == expected
    assert called._call.parts.replays == 2


class Opaque(nn.Module):
    """One that has something which cannot be looked into."""

    def __init__(self):
        super().__init__()
        self.inner, self.seen = net(), weakref.ref(W)

    def forward(self, x):
        return self.inner(x).tanh() * (self.seen() is W)


def test_what_cannot_be_looked_into_is_replayed_in_parts():
    torch.manual_seed(0)
    model = torch.compile(Opaque())
    for _ in range(7):
        model(torch.ones(6, 4)).sum().backward()
    assert model._call.replays == 0 and model._call.parts.replays == 1
    assert "ReferenceType" in torch.explain(model._call)[0].why


@pytest.mark.parametrize("used_first", [False, True])
def test_a_pass_that_comes_to_used_nodes(used_first):
    """It raises where it comes to them: what it has given by then is there, as in eager mode."""
    a, b = [torch.ones(2, requires_grad=True) for _ in "ab"]

    def both():
        def used():
            y = (a * 2).exp()
            y.sum().backward()
            return y

        def hanging():
            return (b * 3).exp()

        return [f() for f in ((used, hanging) if used_first else (hanging, used))]

    def seen(wrap):
        found, f = [], wrap(both)
        for _ in range(6):
            a.grad = b.grad = None
            x, y = f()
            with pytest.raises(RuntimeError, match="second time"):
                (x + y).sum().backward()
            found.append(facts([a.grad, b.grad], named=False))
        return found

    assert seen(torch.capture) == seen(lambda f: f)
