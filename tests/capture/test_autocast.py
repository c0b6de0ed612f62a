"""Steps that are called under autocast: the bits of eager mode, with what it casts once for the whole block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.devices.numpy import chains
from gradlib.nn import functional as F
from tests.capture.as_steps import facts
from tests.capture.models import MODELS
from tests.capture.programs import GPT

MODES = [None, "max"] if chains.available() else [None]
STEPS = 20
HALVES = [torch.bfloat16, torch.float16]
WAYS: dict[str, Callable] = {}
pytestmark = pytest.mark.filterwarnings("ignore")


def way(f: Callable) -> Callable:
    WAYS[f.__name__] = f
    return f


class Own(nn.Module):
    """A weight that is used several times, cast and as it is, a norm in float32, and dropout."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        x = x + (x * self.b.weight.sum(0)) + self.a.weight.abs().mean()
        x = self.dropout(F.gelu(self.a(self.norm(self.a(x)))))
        return self.b(x) * self.a.weight.square().sum() + self.a.weight.exp().mean()


def given(k: int) -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(k))


def program(wrap: Callable, one: Callable, dtype: torch.dtype) -> tuple[list, object]:
    """What STEPS calls of `one` leave, which has the captured model."""
    torch.manual_seed(0)
    model = Own()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    f, seen = wrap(model.forward), []
    for k in range(STEPS):
        result = one(f, model, k, dtype)
        seen.append(
            facts([result, *[p.grad for p in model.parameters()], torch.get_rng_state()], False)
        )
        if k % 3 == 2:
            opt.step()
            opt.zero_grad()
    return [*seen, facts(list(model.parameters()))], f


def assert_same(one: Callable, replays: int | None, dtype: torch.dtype = torch.bfloat16) -> None:
    expected, _ = program(lambda f: f, one, dtype)
    for mode in MODES:
        found, f = program(lambda f, mode=mode: torch.capture(f, mode=mode), one, dtype)
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a == b, k
        if replays is not None:
            assert f.replays == replays, torch.explain(f)
            assert not [
                x for x in torch.explain(f) if "kernel" not in x.why and "fused" not in x.why
            ]


@way
def one_call(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        out = f(given(k))
    out.float().square().mean().backward()
    return out.detach()


@way
def backward_in_the_block(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        out = f(given(k))
        out.float().square().mean().backward()
    return out.detach()


@way
def two_calls_and_one_backward(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        out = f(given(k)).float().square().mean() + f(given(k + 1)).sum() * 0.1
    out.backward()
    return out.detach()


@way
def two_calls_each_with_its_backward(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        for n in range(3):
            out = f(given(k + n)).float().square().mean()
            out.backward()
    return out.detach()


@way
def cast_in_eager_code_before(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        other = model.a(given(k)) if k % 2 else model.b.weight.square().sum() * 3
        out = f(given(k)).square().mean() + other.float().sum() * 0.1
        out = out + model.a(given(k + 7)).mean() + model.b.weight.sum() / 3
    out.backward()
    return out.detach()


@way
def retained_and_double(f, model, k, dtype):
    params = list(model.parameters())
    with torch.autocast("cpu", dtype):
        out = f(given(k)).float().square().mean()
    grads = torch.autograd.grad(out, params, create_graph=True)
    (out + sum([g.square().sum() for g in grads])).backward(retain_graph=True)
    out.backward()
    return out.detach()


@way
def without_gradients_in_between(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        with torch.no_grad():
            seen = f(given(k + 3))
        out = f(given(k))
        with torch.autocast("cpu", enabled=False):
            more = f(given(k + 1))
    (out.float().square().mean() + more.sum()).backward()
    return [seen, out.detach()]


@way
def without_a_cache(f, model, k, dtype):
    with torch.autocast("cpu", dtype, cache_enabled=k % 2 == 1):
        out = f(given(k))
        out = f(out.float())
    out.float().square().mean().backward()
    return out.detach()


@way
def changed_in_the_block(f, model, k, dtype):
    with torch.autocast("cpu", dtype):
        f(given(k)).float().sum().backward()
        with torch.no_grad():
            model.a.weight.mul_(0.9)
        out = f(given(k))
        if k % 2:
            torch.clear_autocast_cache()
        out = f(out.float())
    out.float().square().mean().backward()
    return out.detach()


@way
def an_argument_that_requires_grad(f, model, k, dtype):
    x = given(k).requires_grad_()
    with torch.autocast("cpu", dtype):
        out = f(x)
        out = out + f(x)
    out.float().square().mean().backward()
    return [out.detach(), x.grad]


@way
def dtypes_in_turns(f, model, k, dtype):
    with torch.autocast("cpu", HALVES[k % 2]):
        out = f(given(k))
        with torch.autocast("cpu", dtype):
            out = f(given(k + 1)) + out
    out.float().square().mean().backward()
    return out.detach()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", WAYS)
def test_a_module(name, dtype):
    assert_same(WAYS[name], None, dtype)


@pytest.mark.parametrize(
    ("name", "replays"),
    [
        ("one_call", 1),
        ("backward_in_the_block", 1),
        ("two_calls_and_one_backward", 2),
        ("two_calls_each_with_its_backward", 2),
        ("cast_in_eager_code_before", 2),
        ("retained_and_double", 1),
        ("an_argument_that_requires_grad", 2),
    ],
)
def test_it_is_replayed(name, replays):
    assert_same(WAYS[name], replays)


# -- whole steps -------------------------------------------------------------------------------------------------------

TRAINED: dict[str, Callable] = {}


def trained(f: Callable) -> Callable:
    TRAINED[f.__name__] = f
    return f


@trained
def in_the_block(model, opt):
    def step(x):
        opt.zero_grad()
        loss = model(model(x).float()).float().square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step


@trained
def a_block_of_its_own(model, opt):
    def step(x):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(model(x).float())
        out.float().square().mean().backward()
        opt.step()
        return out.detach()

    return step


@trained
def backward_alone(model, opt):
    def step(x):
        loss = model(x).float().square().mean()
        loss.backward()
        (model.a(x).sum() * model.b.weight).sum().backward()
        (model.b(x).sum() * model.b.weight).sum().backward()
        return loss.detach()

    return step


@trained
def two_updates(model, opt):
    def step(x):
        for _ in range(2):
            opt.zero_grad()
            loss = model(x).float().square().mean()
            loss.backward()
            opt.step()
        return loss.detach()

    return step


@trained
def in_place_and_draws(model, opt):
    def step(x):
        y = F.dropout(model(x).float(), 0.2) + torch.rand(3, 4)
        y[0] = model.b(x)[1].float()
        y.mul_(2).add_(torch.randn(4))
        y.sum().backward()
        return y.detach()

    return step


@trained
def values_that_decide(model, opt):
    def step(x):
        y = model.a(x)
        if y.float().sum() > 0:
            y = model.b(y)
        return model(y.float())

    return step


@trained
def a_norm_of_a_weight(model, opt):
    def step(x):
        found = torch.autograd.grad(model(x).float().sum(), list(model.parameters()))
        return [g * 2 for g in found] + [torch.cdist(x, x), torch.cosine_similarity(x, x + 1)]

    return step


@trained
def asks_for_the_state(model, opt):
    def step(x):
        on = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return model(x) * (1 + on[0]), torch.zeros(2, dtype=on[1])

    return step


@trained
def lasting_state(model, opt):
    def step(x):
        y = model.a(x)
        torch.set_autocast_dtype("cpu", torch.float16)
        return y + model.b(x)

    return step


@trained
def checkpointed(model, opt):
    def step(x):
        y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        y.float().sum().backward()
        return y.detach()

    return step


@trained
def derivatives_of_functions(model, opt):
    def step(x):
        w = model.a.weight
        found = torch.func.grad(lambda v: F.linear(x, v).float().square().sum())(w)
        return torch.vmap(lambda v: F.linear(v, w, model.b.bias))(x), found, model(x)

    return step


@trained
def prints_between(model, opt):
    def step(x):
        y = model(x)
        str(y.tolist())
        return model(y.float()) + model.a(y)

    return step


def surroundings(k: int) -> object:
    kinds = (
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.autocast("cpu", torch.bfloat16, enabled=k % 12 > 5),
        lambda: torch.autocast("cpu", torch.float16, cache_enabled=False),
    )
    return kinds[k // 2 % 3 if k > 8 else 0]()


def steps(make: Callable, wrap: Callable, around: Callable = surroundings) -> tuple[list, object]:
    torch.manual_seed(0)
    model, found = Own(), []
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = wrap(make(model, opt))
    for k in range(STEPS + 12):
        with around(k):
            seen: list = []
            for n in range(1 + k % 2):
                result = step(given(k + n))
                hanging = [t for t in torch.utils._pytree.tree_leaves(result)]
                hanging = [t for t in hanging if t.requires_grad and t.grad_fn is not None]
                if hanging:
                    sum([t.float().sum() for t in hanging]).backward()
                seen.append(result)
            later = model.a(given(k)).float()
        later.sum().backward()
        with torch.no_grad():
            found.append(
                facts([seen, [p.grad for p in model.parameters()], torch.get_rng_state()], False)
            )
        found.append(facts(list(model.parameters())))
    return found, step


@pytest.mark.parametrize("name", TRAINED)
def test_a_step(name):
    expected, _ = steps(TRAINED[name], lambda f: f)
    for mode in MODES:
        found, _ = steps(TRAINED[name], lambda f, mode=mode: torch.capture(f, mode=mode))
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a == b, k


REPLAYED = [
    "in_the_block",
    "a_block_of_its_own",
    "backward_alone",
    "in_place_and_draws",
    "values_that_decide",
    "a_norm_of_a_weight",
    "asks_for_the_state",
]


@pytest.mark.parametrize("name", REPLAYED)
def test_a_step_is_replayed(name):
    block = lambda k: torch.autocast("cpu", torch.bfloat16)
    _, step = steps(TRAINED[name], torch.capture, block)
    assert step.replays >= 1, torch.explain(step)
    assert not torch.explain(step)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("two_updates", "changed and then cast"),
        ("lasting_state", "changes a setting"),
    ],
)
def test_why_it_runs_as_it_is(name, why):
    block = lambda k: torch.autocast("cpu", torch.bfloat16)
    _, step = steps(TRAINED[name], torch.capture, block)
    assert why in torch.explain(step)[0].why


def test_modules_of_a_step_that_prints_are_replayed_in_the_block():
    block = lambda k: torch.autocast("cpu", torch.bfloat16)
    _, step = steps(TRAINED["prints_between"], torch.capture, block)
    assert step.replays == 0
    assert step.parts.replays


def test_tied_weights_of_a_language_model():
    def train(wrap):
        torch.manual_seed(0)
        model = GPT()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        f, seen = wrap(model), []
        for k in range(12):
            text = torch.randint(17, (2, 8), generator=torch.Generator().manual_seed(k))
            opt.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(f(text).flatten(0, 1), text.flatten())
                more = f(text.flip(1)).square().mean() + f(text).mean()
            (loss + more).backward()
            seen.append(facts([loss.detach(), *[p.grad for p in model.parameters()]]))
            opt.step()
        return seen, f

    expected, _ = train(lambda m: m)
    for mode in (None, "max-autotune") if chains.available() else (None,):
        found, f = train(lambda m, mode=mode: torch.compile(m, mode=mode))
        assert found == expected
        assert f._call.replays == 2


def test_parameters_as_arguments():
    def train(wrap):
        w = torch.linspace(-1, 1, 16).reshape(4, 4).clone().requires_grad_()
        f, seen = wrap(lambda w, x: F.linear(F.linear(x, w), w) + w.mean()), []
        for k in range(12):
            with torch.autocast("cpu", torch.bfloat16):
                out = f(w, given(k)) + f(w, given(k + 1))
            out.float().square().sum().backward()
            seen.append(facts([out.detach(), w.grad]))
        return seen, f

    expected, _ = train(lambda f: f)
    found, f = train(torch.capture)
    assert found == expected
    assert f.replays == 2


def test_hooks_of_parameters_are_called_in_the_order_of_eager_mode():
    def train(wrap):
        torch.manual_seed(0)
        model, seen = Own(), []
        f = wrap(model)
        for k in range(STEPS):
            if k == 9:
                for n, p in model.named_parameters():
                    p.register_hook(lambda g, n=n: seen.append(n))
            with torch.autocast("cpu", torch.bfloat16):
                out = f(given(k))
            out.float().sum().backward()
            seen.append(facts([p.grad for p in model.parameters()]))
        return seen

    assert train(torch.compile) == train(lambda m: m)


def test_an_exception_leaves_what_it_leaves_in_eager_mode():
    def train(wrap):
        torch.manual_seed(0)
        model, table, seen = Own(), torch.ones(3, 4), []
        f = wrap(lambda x, i: model.a(x) + F.embedding(i, table) + model.b(x))
        for k in range(STEPS):
            with torch.autocast("cpu", torch.bfloat16):
                try:
                    out = f(given(k), torch.tensor([k % 4]))
                except IndexError as exc:
                    seen.append(str(exc).split("\n")[0])
                out = model.a(given(k)) + model.b.weight.sum()
            out.float().sum().backward()
            seen.append(facts([p.grad for p in model.parameters()]))
        return seen

    assert train(torch.capture) == train(lambda f: f)


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    def train(wrap):
        torch.manual_seed(0)
        model, batch, loss = MODELS[name]()
        opt = torch.optim.SGD(model.parameters(), 0.001)  # no result is nan, whose sign may be any
        f, seen = wrap(lambda *given: loss(model, *given)), []
        for k in range(7):
            x, y = batch()
            with torch.autocast("cpu", torch.bfloat16):
                try:
                    value = f(x, y)
                    if k % 2:
                        value = value + f(x, y)
                except RuntimeError as exc:
                    seen.append(str(exc))
                    continue
            value.backward()
            seen.append(facts([value.detach(), *[p.grad for p in model.parameters()]]))
            opt.step()
            opt.zero_grad()
        return [*seen, facts([*model.state_dict().values(), torch.get_rng_state()])]

    assert train(torch.capture) == train(lambda f: f)
