"""Steps with vmap, derivatives of functions, checkpoints and hooks give the same bits captured, fused and plain."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from tests.capture import transforms
from tests.capture.as_steps import facts

MODES = [None, "max"] if chains.available() else [None]
pytestmark = pytest.mark.filterwarnings("ignore")


def plainly(f):
    return f


def captured(mode):
    return lambda f: torch.capture(f, mode=mode)


def run(make, wrap, calls=7, change=lambda k, m: None):
    """What a step of ``make() -> (step, model)`` returns and leaves, for new values in each call; and the step."""
    step, model = make()
    step, found = wrap(step), []
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    for k in range(calls):
        change(k, model)
        x, y = torch.randn(4, 5, generator=g), torch.randn(4, 3, generator=g)
        found.append(facts([step(x, y), x, y, *model.parameters(), torch.get_rng_state()]))
    return found, step


def assert_same(make, replays=1, **more):
    expected, _ = run(make, plainly, **more)
    for mode in MODES:
        found, step = run(make, captured(mode), **more)
        assert found == expected
        assert step.replays == replays, torch.explain(step)
    return step


def trained(loss, optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), prepare=len):
    def make():
        model = transforms.model()
        prepare(model)
        opt = optimizer(model.parameters())

        def step(x, y):
            opt.zero_grad()
            found = loss(model, x, y)
            found.backward()
            opt.step()
            return found.detach()

        return step, model

    return make


def plain_loss(m, x, y):
    return F.mse_loss(m(x), y)


REPLAYED = transforms.TRANSFORMS | transforms.CHECKPOINTS | transforms.HOOKS


@pytest.mark.parametrize("name", REPLAYED)
def test_replayed(name):
    def frozen(k, m):
        m[3].bias.requires_grad_(k != 6)

    assert_same(trained(REPLAYED[name]), change=frozen)


@pytest.mark.parametrize("loss", transforms.EFFECTS, ids=lambda f: f.__name__)
def test_hooks_with_other_effects(loss):
    transforms.SEEN.clear()
    make = trained(loss)
    expected, _ = run(make, plainly)
    seen, transforms.SEEN[:] = len(transforms.SEEN), []
    found, step = run(make, torch.capture)
    assert found == expected and len(transforms.SEEN) == seen
    assert not step.replays
    assert transforms.EFFECTS[loss] in torch.explain(step)[0].why


def test_hooks_of_parameters_that_come_and_go():
    handles = []

    def change(k, m):
        if k == 5:
            handles.append(m[0].weight.register_hook(lambda g: g * 2))
        if k == 11:
            handles.pop().remove()

    def prepare(m):
        for p in m.parameters():
            p.register_hook(lambda g: g.clamp(-0.05, 0.05))

    assert_same(trained(plain_loss, prepare=prepare), replays=2, calls=14, change=change)


def test_hooks_of_modules():
    def prepare(m):
        m[3].register_forward_hook(lambda module, args, out: out * 2)
        m[3].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        m[3].register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
        m[6].register_full_backward_pre_hook(lambda module, out: (out[0] * 3,))

    assert_same(trained(plain_loss, prepare=prepare))


def test_an_optimizer_within_the_pass():
    def make():
        model = transforms.model()
        opts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def update(p):
            p.grad.mul_(0.5)
            opts[p].step()
            opts[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)

        def step(x, y):
            loss = plain_loss(model, x, y)
            loss.backward()
            return loss

        return step, model

    assert_same(make)


def test_a_hook_that_raises():
    def make():
        model = transforms.model()
        raises = torch.zeros(1)

        def check(g):
            if raises.item():
                raise ValueError("as asked")

        model[0].weight.register_hook(check)

        def step(x, y):
            loss = plain_loss(model, x, y)
            loss.backward()
            return loss.detach()

        def outcome(step):
            def called(x, y):
                try:
                    return step(x, y)
                except ValueError as exc:
                    return str(exc)

            return called

        return step, model, raises, outcome

    found = []
    for wrap in (plainly, torch.capture):
        step, model, raises, outcome = make()
        step = outcome(wrap(step))
        torch.manual_seed(0)
        for k in range(8):
            raises.fill_(k in (5, 7))
            found.append(facts([step(torch.ones(4, 5), torch.ones(4, 3)), *model.parameters()]))
    assert found[:8] == found[8:] and "as asked" in found[5][1][0][1]


def test_graphs_from_before_the_step_run_as_they_are():
    """They may get hooks, and lead to leaves that nothing else tells of."""
    found = []
    for wrap in (plainly, torch.capture):
        w = torch.ones(3, requires_grad=True)
        h = w.exp()

        def step(x, h=h):
            (h * x).sum().backward(retain_graph=True)

        run = wrap(step)
        for k in range(8):
            w.grad = None
            if k == 5:
                h.register_hook(lambda g: g * 5)
            run(torch.arange(3.0) + k)
            found.append(facts(w.grad))
    assert found[:8] == found[8:]
    assert "from before" in torch.explain(run)[0].why


@pytest.mark.parametrize(
    "optimizer", [lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.AdamW(p, lr=0.01)]
)
def test_closures(optimizer):
    def make():
        model = transforms.model()
        opt = optimizer(model.parameters())

        def step(x, y):
            def closure():
                opt.zero_grad()
                loss = plain_loss(model, x, y)
                loss.backward()
                return loss

            return opt.step(closure).detach() * 2

        return step, model

    assert_same(make)


def test_an_optimizer_that_evaluates_several_times_runs_as_it_is():
    def make():
        model = transforms.model().eval()
        opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

        def step(x, y):
            def closure():
                opt.zero_grad()
                loss = plain_loss(model, x, y)
                loss.backward()
                return loss

            return opt.step(closure).detach()

        return step, model

    step = assert_same(make, replays=0)
    assert "closure" in torch.explain(step)[0].why


def test_gradients_that_are_asked_for():
    """Of values and of some leaves, one twice: the same tensor."""

    def make():
        model = transforms.model().eval()

        def step(x, y):
            h = model[0](x)
            a, b = h.chunk(2, 1)
            loss = (model[1:](h) * y).sum() + (a * b).sum()
            got = torch.autograd.grad(loss, [h, a, model[3].weight, h], retain_graph=True)
            got[0].mul_(2)
            (only,) = torch.autograd.grad(loss, model[0].bias)
            return [g * 1 for g in got], only, got[0] is got[3]

        return step, model

    assert_same(make)


def test_random_states_within_a_step():
    def make():
        model = transforms.model()

        def step(x, y):
            before = torch.get_rng_state()
            first = model(x).detach()
            torch.set_rng_state(before)
            second = model(x).detach()
            return first, second - first, torch.rand(2)

        return step, model

    assert_same(make)


def test_writes_to_tangents_and_batches_that_outlive_the_step():
    def make():
        model = transforms.model().eval()
        kept = torch.zeros(4, 5)

        def step(x, y):
            with torch.no_grad():
                kept.copy_(torch.vmap(torch.func.grad(lambda v: model(v).sum()))(x))
            kept[1:].mul_(y[1:, :1])
            return torch.func.jvp(model, (kept,), (x,))[1].detach() * kept.sum()

        step.kept = kept
        return step, model

    assert_same(make)


def test_the_same_numbers_for_all_entries():
    def make(drawn):
        model = transforms.model()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            plain_loss(model, x, y).backward()
            opt.step()
            return torch.vmap(drawn, randomness="same")(x)

        return step, model

    assert_same(lambda: make(lambda v: v.sum() + torch.rand(2)))
    assert_same(lambda: make(lambda v: v + torch.rand_like(v)))

    def again(v):
        return torch.vmap(lambda u: u + torch.rand_like(u), randomness="same")(v)

    step = assert_same(lambda: make(again), replays=0)
    assert "the same random numbers" in torch.explain(step)[0].why


def test_the_dtype_of_autocast_is_another_one():
    def step(x):
        with torch.autocast("cpu"):
            return x @ x

    run, before = torch.capture(step), torch.get_autocast_dtype("cpu")
    try:
        for k in range(10):
            torch.set_autocast_dtype("cpu", torch.float16 if k > 4 else torch.bfloat16)
            assert run(torch.ones(2, 2)).dtype is torch.get_autocast_dtype("cpu")
    finally:
        torch.set_autocast_dtype("cpu", before)
    assert run.replays == 2
