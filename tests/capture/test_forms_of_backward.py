"""Steps with backward(inputs=), hooks that write, hooks of optimizers, draws that entries of a batch share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from gradlib.optim import optimizer as of_all
from tests.capture.as_steps import facts

MODES = [None, "max"] if chains.available() else [None]
STEPS = 20
REPLAYED: dict[str, Callable] = {}
OTHERS: dict[str, Callable] = {}
pytestmark = pytest.mark.filterwarnings("ignore")


def replayed(f: Callable) -> Callable:
    REPLAYED[f.__name__] = f
    return f


def as_it_is(f: Callable) -> Callable:
    OTHERS[f.__name__] = f
    return f


def none(value):
    """For lambdas."""


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(5, 8), nn.Linear(8, 3), nn.LayerNorm(8)

    def forward(self, x):
        return self.b(self.norm(F.gelu(self.a(x))))


def run(make: Callable, wrap: Callable, steps: int = STEPS) -> tuple[list, object]:
    """What a step of ``make(model, opt)`` gives and leaves, and the step."""
    torch.manual_seed(0)
    model = Own()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step, found = wrap(make(model, opt)), []
    g = torch.Generator().manual_seed(2)
    for k in range(steps):
        n = 4 + k % 4 // 3
        x, y = torch.randn(n, 5, generator=g), torch.randn(n, 3, generator=g)
        try:
            result = step(x, y)
        except Exception as exc:
            result = type(exc).__name__, str(exc).split("\n")[0]
        left = [*model.parameters(), *[p.grad for p in model.parameters()], torch.get_rng_state()]
        with torch.no_grad():
            found.append(
                facts([result, x, y, *left, *[s for v in opt.state.values() for s in v.values()]])
            )
    return found, step


def assert_same(make: Callable) -> object:
    expected, _ = run(make, lambda f: f)
    step = None
    for mode in MODES:
        found, step = run(make, lambda f, mode=mode: torch.capture(f, mode=mode))
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a == b, k
    return step


# -- backward(inputs=) -----------------------------------------------------------------------------------------------


@replayed
def backward_of_some_leaves(model, opt):
    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward(inputs=[model.a.weight, model.b.bias])
        opt.step()
        return loss.detach()

    return step


@replayed
def backward_twice_of_other_leaves(model, opt):
    def step(x, y):
        out = model(x)
        F.mse_loss(out, y).backward(inputs=list(model.a.parameters()), retain_graph=True)
        out.square().sum().backward(inputs=(model.a.weight, model.b.weight, model.b.weight))
        return out.detach()

    return step


@replayed
def two_players(model, opt):
    def step(x, y):
        opt.zero_grad()
        found = model.a(x)
        loss = F.mse_loss(model.b(found), y)
        loss.backward(inputs=list(model.b.parameters()), retain_graph=True)
        (-loss).backward(inputs=list(model.a.parameters()))
        opt.step()
        return loss.item()

    return step


@replayed
def leaves_with_hooks(model, opt):
    def step(x, y):
        opt.zero_grad()
        handles = [p.register_hook(lambda g: g * 2) for p in model.parameters()]
        handles.append(
            model.a.weight.register_post_accumulate_grad_hook(lambda p: none(p.grad.mul_(0.5)))
        )
        out = model(x)
        out.register_hook(lambda g: g + 1)
        out.square().sum().backward(inputs=[model.a.weight, model.norm.bias])
        for h in handles:
            h.remove()
        return out.detach()

    return step


@replayed
def gradients_of_some(model, opt):
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        found = torch.autograd.grad(loss, [model.norm.weight, model.a.bias], retain_graph=True)
        more = torch.autograd.grad(loss, [model.b.weight], create_graph=True)[0]
        more.square().sum().backward(inputs=[model.a.weight])
        return found

    return step


@replayed
def a_leaf_that_is_not_used(model, opt):
    def step(x, y):
        w = torch.ones(3, requires_grad=True)
        (model(x) * w).sum().backward(inputs=[model.a.weight, w])
        model.b(torch.ones(8)).sum().backward(inputs=[model.a.bias, model.b.bias])
        return w.grad * 2

    return step


@as_it_is
def inputs_that_are_no_leaves(model, opt):
    def step(x, y):
        h = model.a(x)
        model.b(h).sum().backward(inputs=[h, model.a.weight])
        return h.grad * 1

    return step


@as_it_is
def inputs_that_are_arguments(model, opt):
    def step(x, y):
        x.requires_grad_()
        model(x).sum().backward(inputs=[x, model.a.weight])
        return y * 2

    return step


@as_it_is
def no_inputs(model, opt):
    def step(x, y):
        model(x).sum().backward(inputs=[])
        return y * 2

    return step


# -- hooks that write ------------------------------------------------------------------------------------------------


@replayed
def clamps_in_place(model, opt):
    def step(x, y):
        opt.zero_grad()
        out = model(x)
        out.register_hook(lambda g: g.clamp_(-0.1, 0.1))
        F.mse_loss(out, y).backward()
        opt.step()
        return out.detach()

    return step


@replayed
def writes_and_gives_nothing(model, opt):
    def step(x, y):
        h = model.a(x)

        def hook(g):
            g.mul_(2).add_(0.5)
            g[0] = 0

        h.register_hook(hook)
        (model.b(h) + h.sum()).square().sum().backward()
        return h.detach()

    return step


@replayed
def a_gradient_that_goes_two_ways(model, opt):
    def step(x, y):
        h, u = model.a(x), model.norm(model.a(x * 2))
        v = h + u
        h.register_hook(lambda g: none(g.mul_(3)))
        u.register_hook(lambda g: None)
        w = v * 1.5 - h
        (model.b(w).square().sum() + v.sum()).backward()
        return v.detach()

    return step


@replayed
def hooks_of_leaves_that_write(model, opt):
    def step(x, y):
        opt.zero_grad()
        handles = [p.register_hook(lambda g: g.neg_()) for p in model.parameters()]
        model(x).square().mean().backward()
        for h in handles:
            h.remove()
        opt.step()
        return [p.grad * 1 for p in model.parameters()]

    return step


@replayed
def leaves_that_have_one_gradient(model, opt):
    def step(x, y):
        opt.zero_grad()
        b, n = model.a.bias, model.norm.bias
        handles = [b.register_hook(lambda g: none(g.mul_(3))), n.register_hook(lambda g: g.add_(1))]
        ((b + n) * x[0, 0] + (n + b).square() + b - n).sum().backward()
        for h in handles:
            h.remove()
        opt.step()
        return b.grad + n.grad

    return step


@replayed
def before_and_after_nodes(model, opt):
    def step(x, y):
        h = model.a(x)
        out = model.b(h.tanh())
        h.grad_fn.register_prehook(lambda gs: (gs[0].add_(1),))
        out.grad_fn.register_hook(
            lambda ins, outs: tuple([g.mul_(2) if g is not None else g for g in ins])
        )
        h.retain_grad()
        out.sum().backward()
        return h.grad * 1

    return step


@replayed
def the_gradient_that_it_begins_with(model, opt):
    def step(x, y):
        out = model(x)
        out.register_hook(lambda g: g.mul_(2))
        g = torch.ones_like(out)
        out.backward(g, retain_graph=True)
        loss = out.square().sum()
        loss.register_hook(lambda g: g.add_(1))
        loss.backward()
        return g

    return step


@as_it_is
def an_argument_that_it_begins_with(model, opt):
    def step(x, y):
        out = model(x)
        out.register_hook(lambda g: g.mul_(2))
        out.backward(y)
        return y * 1

    return step


@as_it_is
def memory_that_is_shared(model, opt):
    def step(x, y):
        out = model(x).expand(2, -1, -1)
        out.register_hook(lambda g: g.mul_(2))
        out.sum().backward()
        return y * 1

    return step


@replayed
def masks_in_place(model, opt):
    def step(x, y):
        h = model.a(x).relu()

        def hook(g):
            g[g > 0] = 0.25
            g[:, 1] -= 1

        h.register_hook(hook)
        (model.b(h) * y).sum().backward()
        return h.detach()

    return step


# -- hooks of optimizers -----------------------------------------------------------------------------------------------


def with_hooks(opt, before=None, after=None):
    if before is not None:
        opt.register_step_pre_hook(before)
    if after is not None:
        opt.register_step_post_hook(after)


@replayed
def clips_before_the_update(model, opt):
    def clip(optimizer, args, kwargs):
        for p in model.parameters():
            p.grad.clamp_(-0.01, 0.01)

    with_hooks(opt, clip)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step


@replayed
def norms_before_and_averages_after(model, opt):
    averages = [p.detach().clone() for p in model.parameters()]

    def average(optimizer, args, kwargs):
        with torch.no_grad():
            for a, p in zip(averages, model.parameters(), strict=True):
                a.lerp_(p, 0.1)

    with_hooks(opt, lambda *_: none(nn.utils.clip_grad_norm_(model.parameters(), 0.1)), average)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach(), *[a * 1 for a in averages]

    return step


@replayed
def noise_after_each_of_two_updates(model, opt):
    with_hooks(opt, None, lambda *_: none(model.a.weight.data.add_(torch.randn(8, 5), alpha=0.01)))

    def step(x, y):
        for _ in range(2):
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
        return loss.detach()

    return step


@replayed
def a_closure_between_hooks(model, opt):
    with_hooks(opt, lambda *_: None, lambda *_: none(model.b.bias.data.mul_(0.9)))

    def step(x, y):
        def closure():
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return opt.step(closure).detach()

    return step


@as_it_is
def other_arguments_by_a_hook(model, opt):
    with_hooks(opt, lambda o, args, kwargs: ((lambda: model.a.bias.sum(),), {}))

    def step(x, y):
        F.mse_loss(model(x), y).backward()
        return opt.step().detach() * 1

    return step


@as_it_is
def a_hook_that_fails(model, opt):
    with_hooks(opt, lambda *_: 3)

    def step(x, y):
        F.mse_loss(model(x), y).backward()
        opt.step()

    return step


@as_it_is
def a_hook_that_counts(model, opt):
    count = [0]

    def hook(*_):
        count[0] += 1

    with_hooks(opt, hook)

    def step(x, y):
        F.mse_loss(model(x), y).backward()
        opt.step()
        return x * count[0]

    return step


@as_it_is
def hooks_that_come_and_go(model, opt):
    count = [0]

    def around(step):
        def call(x, y):
            count[0] += 1
            handle = None
            if count[0] % 5 == 0:
                handle = opt.register_step_post_hook(lambda *_: none(model.b.bias.data.mul_(0.5)))
            if count[0] % 7 == 0:
                handle = of_all.register_optimizer_step_pre_hook(
                    lambda *_: none(model.b.bias.grad.mul_(0.5))
                )
            try:
                return step(x, y)
            finally:
                if handle is not None:
                    handle.remove()

        return call

    def step(x, y):
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        opt.step()
        return x * 1

    step.around = around
    return step


# -- draws that are the same for all entries ---------------------------------------------------------------------------


def same(f: Callable) -> Callable:
    return torch.vmap(f, randomness="same")


@replayed
def dropout_of_a_batch(model, opt):
    def step(x, y):
        return same(lambda v: F.dropout(v, 0.4) + torch.rand(5))(x), torch.rand(2)

    return step


@replayed
def several_draws(model, opt):
    def one(v):
        v = F.dropout(v, 0.4) * torch.rand_like(v)
        return v + torch.randn_like(v) + torch.bernoulli(v.sigmoid())

    return lambda x, y: (same(one)(x) + torch.rand(5), same(one)(x))


@replayed
def a_training_step_with_them(model, opt):
    def step(x, y):
        opt.zero_grad()
        out = same(lambda v: model.b(F.dropout(model.a(v), 0.3)))(x)
        F.mse_loss(out, y).backward()
        opt.step()
        return out.detach()

    return step


@replayed
def in_chunks(model, opt):
    def one(v):
        return v * torch.rand(5) + F.dropout(v) + torch.rand(5)

    return lambda x, y: torch.vmap(one, randomness="same", chunk_size=2)(x)


@as_it_is
def a_batch_in_a_batch(model, opt):
    def one(v):
        return same(lambda u: u * torch.rand_like(u))(v) + torch.rand_like(v)

    return lambda x, y: same(one)(x)


@as_it_is
def a_generator_of_its_own(model, opt):
    g = torch.Generator()
    return lambda x, y: same(lambda v: v.bernoulli(0.5, generator=g))(x)


# -- all ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPLAYED)
def test_it_is_replayed(name):
    assert not [v for v in run(REPLAYED[name], lambda f: f)[0] if "Error" in str(v)]
    step = assert_same(REPLAYED[name])
    assert step.replays == 2, torch.explain(step)
    assert all([f.why.startswith(("fused", "joined")) for f in torch.explain(step)])


@pytest.mark.parametrize("name", OTHERS)
def test_it_is_the_same(name):
    make = OTHERS[name]

    def made(model, opt):
        return make(model, opt)

    def run_wrapped(wrap):
        def wrapped(step):
            around = getattr(step, "around", lambda f: f)
            return around(wrap(step))

        return run(made, wrapped)[0]

    expected = run_wrapped(lambda f: f)
    for mode in MODES:
        found = run_wrapped(lambda f, mode=mode: torch.capture(f, mode=mode))
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a == b, k
