"""Captured steps that ask for gradients: autograd.grad, gradients of gradients, leaves that the step makes."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.tape.pytree import flatten
from tests.capture.programs import bits, left


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


def of_equation(order):
    """A network that solves a differential equation: gradients with respect to its argument."""

    def make():
        model = small()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            x = x.clone().requires_grad_()
            u = model(x)
            (ux,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
            more = torch.autograd.grad(ux.sum(), x, create_graph=True)[0] if order == 2 else u
            loss = (more + u).square().mean() + ux.square().mean()
            loss.backward()
            optimizer.step()
            return loss.item(), x.grad

        return step, model, optimizer

    return make


def penalty():
    """A critic whose gradient is to have norm 1, at random places."""
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        fake = x + torch.randn_like(x)
        part = torch.rand(x.shape[0], 1)
        mixed = (part * x + (1 - part) * fake).requires_grad_()
        out = model(mixed)
        (grad,) = torch.autograd.grad(
            out, mixed, torch.ones_like(out), create_graph=True, retain_graph=True
        )
        loss = model(fake).mean() - model(x).mean() + 10 * (grad.norm(2, dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def inner_steps():
    """The loss after a step of gradient descent, as a function of the weights before it."""
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x):
        first = model(x).square().mean()
        grads = torch.autograd.grad(first, list(model.parameters()), create_graph=True)
        weight, bias = (p - 0.1 * g for p, g in zip(model.parameters(), grads, strict=True))
        loss = (x @ weight.t() + bias - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def without_accumulation():
    model = small()

    def step(x):
        loss = model(x).square().mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads, strict=True):
                p.sub_(g, alpha=0.1)
        return loss.detach(), *grads

    return step, model, torch.optim.SGD(model.parameters())


def a_view_of_a_weight_that_is_updated():
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        turned = model.weight.t()
        loss = (x @ turned).square().mean()
        loss.backward()
        optimizer.step()
        return loss, (x @ turned).detach()

    return step, model, optimizer


def expanded():
    """A gradient that arrives as one number for all elements."""
    w = nn.Parameter(torch.ones(3))
    model = nn.ParameterList([w])

    def step(x):
        (grad,) = torch.autograd.grad((w * 1).sum() * x.sum(), w)
        grad[0] = 5
        return grad

    return step, model, torch.optim.SGD([w])


CASES = {
    "first order": of_equation(1), "second order": of_equation(2), "penalty": penalty, "inner steps": inner_steps,
    "without accumulation": without_accumulation, "view of a weight": a_view_of_a_weight_that_is_updated,
    "expanded": expanded,
}  # fmt: skip


def run(make, wrap, calls=8):
    torch.manual_seed(0)
    step, model, optimizer = make()
    step, found = wrap(step), []
    for k in range(calls):
        result = step(torch.randn(5, 1, generator=torch.Generator().manual_seed(k)))
        found.append([bits(v) for v in flatten(result)[0]])
        found.append(left(model, optimizer))
    return found, step


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    expected, _ = run(CASES[name], lambda f: f)
    found, step = run(CASES[name], torch.capture)
    assert found == expected
    assert step.replays == 1, torch.explain(step)


def some_of_the_leaves():
    model = small()

    def step(x):
        return torch.autograd.grad(model(x).sum(), [model[0].weight, model[2].bias])

    return step, model, torch.optim.SGD(model.parameters())


def of_what_is_no_leaf():
    model = small()

    def step(x):
        hidden = model[0](x)
        return torch.autograd.grad(model[2:](hidden).sum(), [hidden, model[2].weight])

    return step, model, torch.optim.SGD(model.parameters())


def unused():
    model = small()
    other = torch.ones(2, requires_grad=True)

    def step(x):
        loss = model(x).sum()
        return torch.autograd.grad(loss, [*model.parameters(), other], allow_unused=True)

    return step, model, torch.optim.SGD(model.parameters())


def with_a_hook():
    model = small()
    model[0].weight.register_hook(lambda g: g * 2)

    def step(x):
        loss = model(x).sum()
        grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        return [g.detach() for g in grads]

    return step, model, torch.optim.SGD(model.parameters())


def twice_into_a_leaf_of_the_step():
    model = small()

    def step(x):
        x = x.clone().requires_grad_()
        model(x).sum().backward()
        model(x).sum().backward()
        return x.grad

    return step, model, torch.optim.SGD(model.parameters())


def turned_leaf_of_the_step():
    model = small()

    def step(x):
        w = torch.ones(5, 5).t().requires_grad_()
        v = (x * 2).t().requires_grad_()
        (model(x) * w + v).sum().backward()
        return w.grad, v.grad

    return step, model, torch.optim.SGD(model.parameters())


def retained():
    """What is kept of a gradient by a tensor that outlives the step."""
    model = small()
    outer = [model[0](torch.ones(5, 1))]
    outer[0].retain_grad()

    def step(x):
        grads = torch.autograd.grad(
            (model[2:](outer[0]) * x).sum(), [model[2].weight], create_graph=True
        )
        return grads[0].detach()

    return step, model, torch.optim.SGD(model.parameters())


def with_graph_into_grad():
    model = small()

    def step(x):
        model.zero_grad()
        model(x).sum().backward(create_graph=True)
        penalty = sum(p.grad.square().sum() for p in model.parameters())
        return penalty.detach()

    return step, model, torch.optim.SGD(model.parameters())


@pytest.mark.parametrize(
    "make",
    [
        some_of_the_leaves, of_what_is_no_leaf, unused, with_a_hook, twice_into_a_leaf_of_the_step,
        turned_leaf_of_the_step, retained, with_graph_into_grad,
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Using backward")
def test_what_may_run_as_it_is(make):
    expected, _ = run(make, lambda f: f)
    found, step = run(make, torch.capture)
    assert found == expected
    assert step.replays == 1 or torch.explain(step)


RANDOM = {
    "rand": lambda x: x + torch.rand(3, 5, 1),
    "rand_like": lambda x: torch.rand_like(x) * x,
    "randn": lambda x: (torch.randn(2, 3), torch.randn(()), torch.randn(3, dtype=torch.bfloat16)),
    "randn_like": lambda x: x + torch.randn_like(x),
    "randint": lambda x: torch.randint(0, 9, (4,)),
    "randint_like": lambda x: torch.randint_like(x, 7),
    "randperm": lambda x: x[torch.randperm(5)],
    "uniform_": lambda x: torch.zeros(2, 3).uniform_(-1, 1),
    "normal_ of an argument": lambda x: x.normal_(1, 2),
    "dropout": lambda x: torch.dropout(x, 0.5, True),
}
OTHER = {
    "rand_like of a transpose": lambda x: torch.rand_like(x.expand(5, 2).t()),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: torch.multinomial(torch.ones(4), 2),
    "normal": lambda x: torch.normal(x, 1.0),
    "empty": lambda x: torch.empty(3).normal_(),
    "out": lambda x: torch.randn(2, 3, out=torch.empty(2, 3)),
}


@pytest.mark.parametrize("name", [*RANDOM, *OTHER])
@pytest.mark.parametrize("seeds", [(3,), (3, 3, 3, 3), (3, 4, 3, 3, 5)])
def test_random_numbers(name, seeds):
    """Also where each recording begins at the same state: numbers that are drawn are no constants."""
    f, runs = (RANDOM | OTHER)[name], []
    for wrap in (lambda f: f, torch.capture):
        step, found = wrap(f), []
        for k in range(9):
            if k < len(seeds):
                torch.manual_seed(seeds[k])
            x = torch.ones(5, 1) * k
            found.append([bits(v) for v in flatten(step(x))[0]])
            found += [bits(x), x._version, bits(torch.get_rng_state())]
        runs.append(found)
    assert runs[0] == runs[1]
    assert step.replays == 1 or (name in OTHER and torch.explain(step))


def test_the_grad_dtype_of_another_tensor_is_no_matter():
    torch.ones(2, requires_grad=True).grad_dtype = torch.float64
    model, x = small(), torch.ones(3, 1)

    @torch.capture
    def step(x):
        model.zero_grad()
        model(x).square().sum().backward()

    for _ in range(4):
        step(x)
    assert torch.explain(step) == []
    model[0].weight.grad = None
    model[0].weight.grad_dtype = torch.float64
    for _ in range(4):
        step(x)
    assert (
        model[0].weight.grad.dtype is torch.float64 and model[2].weight.grad.dtype is torch.float32
    )
    assert "grad_dtype" in torch.explain(step)[0].why


ONES = {"exp": torch.exp, "tanh": torch.tanh, "scaled": lambda t: t * 3, "squared": lambda t: t * t}
BETWEEN = {
    "squeezed": lambda t: t[None].squeeze(),
    "summed": lambda t: t.view(1).sum(),
    "reshaped": lambda t: t.reshape(()),
    "same": lambda t: t,
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("f", ONES.values(), ids=ONES)
def test_the_gradient_that_a_pass_begins_with_is_that_of_no_other_node(f, between):
    """The formula of the last op begins with the constant 1; that of the same op before it has another gradient."""
    w, found = torch.tensor([0.2, 0.3], requires_grad=True), []

    def step(x):
        w.grad = None
        f(between(f((w * x).sum()))).backward()

    for wrap in (lambda f: f, torch.capture):
        step_, grads = wrap(step), []
        for k in range(6):
            step_(torch.tensor([1.0 + k, 0.2 - k]))
            grads.append(bits(w.grad))
        found.append(grads)
    assert found[0] == found[1]
    assert step_.replays == 1


def test_a_gradient_that_is_the_constant_which_a_pass_begins_with_may_be_written_to():
    w, found = torch.tensor(2.0, requires_grad=True), []

    def step(x):
        total = w.prod(dim=0)
        (g,) = torch.autograd.grad(total, w)
        g[...].data.add_(x)
        return g * 1

    for wrap in (lambda f: f, torch.capture):
        run = wrap(step)
        found.append([bits(run(torch.tensor(float(k)))) for k in range(6)])
    assert found[0] == found[1]
    assert run.replays == 1


def test_a_graph_that_is_used_up_says_so():
    w = torch.ones(3, 2, requires_grad=True)

    def step(x):
        rows = w[[1, 1]]
        torch.autograd.grad((rows * x).sum(), w)
        rows.sum().backward()

    run = torch.capture(step)
    for k in range(5):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            run(torch.ones(2) * k)


def test_gradients_that_are_batches():
    w, found = torch.ones(1, requires_grad=True), []

    def step(x):
        (g,) = torch.autograd.grad(w * 2, w, x, is_grads_batched=True, create_graph=True)
        return g.detach() * 1

    for wrap in (lambda f: f, torch.capture):
        run = wrap(step)
        found.append([bits(run(torch.ones(2, 1) * k)) for k in range(5)])
    assert found[0] == found[1]
    assert run.replays == 1
