"""Optimizers, settings, random numbers, exceptions around captured steps: each call gives the same bits."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.programs import bits
from tests.capture.running import CALLS, assert_same, changing, outcome, x_of

PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def settings_of_an_optimizer_that_are_read(wrap):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def change(k):
        optimizer.param_groups[0]["lr"] = 0.5 if k < 6 else 0.25

    found = changing(wrap(lambda x: x * optimizer.state_dict()["param_groups"][0]["lr"]), change)
    found += changing(wrap(lambda x: x * getattr(optimizer, "param_" + "groups")[0]["lr"]), change)
    found += changing(wrap(lambda x: x * len(repr(optimizer).replace("0.25", ""))), change)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1.0 if k < 5 else 0.3)

    def ahead(k):
        optimizer.step()
        scheduler.step()

    found += changing(wrap(lambda x: x * scheduler.get_last_lr()[0]), ahead)
    return found


@program
def hooks_of_an_optimizer_that_change_what_follows(wrap):
    w, held, count = torch.ones(3, requires_grad=True), [2.0], [0]
    optimizer = torch.optim.SGD([w], lr=0.5)

    def hook(*_):
        count[0] += 1
        if count[0] > 5:
            held[0] = float(count[0])

    optimizer.register_step_post_hook(hook)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * held[0]

    return changing(wrap(step), lambda k: None)


@program
def hooks_of_all_optimizers_that_change_what_follows(wrap):
    w, held = torch.ones(3, requires_grad=True), [2.0]
    optimizer = torch.optim.SGD([w], lr=0.5)

    def hook(*_):
        held[0] += 1

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * held[0]

    step = wrap(step)
    found = changing(step, lambda k: None)
    handle = torch.optim.optimizer.register_optimizer_step_post_hook(hook)
    try:
        return found + changing(step, lambda k: None)
    finally:
        handle.remove()


@program
def gradients_every_third_step(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x, last):
        loss = model(x).pow(2).mean() / 3
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.detach() * 1

    step, found = wrap(step), []
    for k in range(24):
        found += [outcome(step, x_of(k), k % 3 == 2), bits(model.weight), bits(model.weight.grad)]
        found.append(model.weight.grad._version)
    return found


@program
def a_counter_of_a_module(wrap):
    class Warm(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return x * min(1.0, self.steps / 8)

    model = Warm()
    return changing(wrap(lambda x: model(x)), lambda k: None)


@program
def default_arguments_and_keyword_defaults(wrap):
    def inner(x, by=[2.0], *, plus={"v": 1.0}):  # noqa: B006
        return x * by[0] + plus["v"]

    def change(k):
        if k == 5:
            inner.__defaults__[0][0] = 3.0
        if k == 7:
            inner.__kwdefaults__["plus"]["v"] = 4.0
        if k == 9:
            inner.__kwdefaults__["plus"] = {"v": 5.0}

    return changing(wrap(lambda x: inner(x)), change)


@program
def an_exception_that_a_context_swallows(wrap):
    table = torch.arange(6.0).reshape(3, 2)

    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return True

    def by_library(i):
        with contextlib.suppress(IndexError):
            return F.embedding(i, table) + 1
        return table * 2

    def by_class(i):
        with Swallow():
            return F.embedding(i, table) + 1
        return table * 3

    @contextlib.contextmanager
    def swallow():
        try:
            yield
        except IndexError:
            pass

    def by_function(i):
        with swallow():
            return F.embedding(i, table) + 1
        return table * 4

    def by_stack(i):
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(IndexError))
            return F.embedding(i, table) + 1
        return table * 5

    found = []
    for f in (by_library, by_class, by_function, by_stack):
        step = wrap(f)
        for k in range(8):
            found.append(outcome(step, torch.tensor([k // 2])))
    return found


@program
def contexts_with_an_end(wrap):
    table, log = torch.arange(6.0).reshape(3, 2), [0]

    class Restores:
        def __enter__(self):
            self.before, log[0] = log[0], 1

        def __exit__(self, *exc):
            log[0] = self.before + (exc[0] is not None)

    def step(i):
        with Restores():
            return F.embedding(i, table) + 1

    step, found = wrap(step), []
    for k in range(8):
        found += [outcome(step, torch.tensor([k // 2])), log[0]]
    return found


@program
def modes_of_numpy(wrap):
    def step(x):
        return x / (x - x), torch.log(x - 10), (x * 1e38 * 1e10).exp(), x.sum() / 0

    step, found = wrap(step), []
    for k in range(CALLS):
        with np.errstate(all="raise" if k > 6 else "ignore"):
            found.append(outcome(step, x_of(k)))
    return found


@program
def warnings_that_are_errors(wrap):
    def step(x):
        return (
            x / (x - x),
            torch.log(x - 10),
            (x * 1e38 * 1e10).exp(),
            (x - x).pow(-1),
            x.half() * 1e5,
        )

    step, found = wrap(step), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(CALLS):
            found.append(outcome(step, x_of(k)))
    return found


@program
def state_of_the_library_that_is_read(wrap):
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    generator = torch.Generator()

    def change(k):
        torch.set_num_threads(1 if k < 6 else 2)
        torch.manual_seed(k // 6)
        generator.manual_seed(k // 6)
        torch.set_float32_matmul_precision("highest" if k < 6 else "high")
        torch.use_deterministic_algorithms(k > 8, warn_only=True)
        torch.set_warn_always(k > 5)

    try:
        found = []
        for read in (
            lambda x: x * torch.get_num_threads(),
            lambda x: x * torch.initial_seed(),
            lambda x: x * generator.initial_seed(),
            lambda x: x * len(torch.get_float32_matmul_precision()),
            lambda x: x + torch.is_deterministic_algorithms_warn_only_enabled(),
            lambda x: x + torch.are_deterministic_algorithms_enabled(),
            lambda x: x + torch.is_warn_always_enabled(),
            lambda x: x * torch.get_deterministic_debug_mode(),
        ):
            found += changing(wrap(read), change)
        return found
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])
        torch.use_deterministic_algorithms(False)
        torch.set_warn_always(False)


@program
def a_generator_that_is_seeded_between_calls(wrap):
    g = torch.Generator()

    def change(k):
        g.manual_seed(0 if k < 6 else k)
        torch.manual_seed(0 if k < 6 else k)

    found = []
    for draw in (
        lambda x: x + torch.rand(3, generator=g),
        lambda x: x + torch.randperm(3, generator=g),
        lambda x: x + torch.empty(3).normal_(generator=g),
        lambda x: x.uniform_(generator=g) * 1,
        lambda x: torch.bernoulli(torch.full((2, 3), 0.5), generator=g) * x,
        lambda x: x + torch.rand(3),
        lambda x: F.dropout(x, 0.5),
        lambda x: F.gumbel_softmax(x),
        lambda x: x + torch.randn_like(x),
        lambda x: F.rrelu(x, training=True),
        lambda x: torch.multinomial(x.abs(), 2) * 1,
        lambda x: x + torch.distributions.Normal(0.0, 1.0).sample((3,)),
    ):
        found += changing(wrap(draw), change)
        found.append(bits(g.get_state()))
        found.append(bits(torch.get_rng_state()))
    return found


@program
def a_generator_as_argument(wrap):
    step, found = wrap(lambda x, g: x + torch.rand(3, generator=g)), []
    g = torch.Generator()
    for k in range(CALLS):
        g.manual_seed(0 if k < 6 else k)
        found.append(outcome(step, x_of(k), g))
    return found


@program
def random_numbers_of_numpy_that_seldom_change(wrap):
    seeds = [0]

    def step(x):
        return x * float(np.random.default_rng(seeds[0]).integers(1, 9))

    def unseeded(x):
        return x * int(np.random.default_rng().integers(0, 10**9) >= 0)

    def change(k):
        seeds[0] = k // 6

    return changing(wrap(step), change) + changing(wrap(unseeded), change)


@program
def blocks_of_hooks_and_modes_around_a_call(wrap):
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sin().sum().backward()
        return w.grad

    def double(t):
        return t * 2

    blocks = [
        lambda: torch.autograd.graph.saved_tensors_hooks(double, double),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.graph.save_on_cpu(),
        lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"),
        lambda: torch.autograd.set_multithreading_enabled(False),
        lambda: torch.device("meta"),
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.autograd.graph.allow_mutation_on_saved_tensors(),
        lambda: torch.nn.utils.parametrize.cached(),
        lambda: torch.random.fork_rng(),
    ]
    step, found = wrap(step), []
    for k in range(5 + 2 * len(blocks)):
        with blocks[(k - 5) // 2]() if k > 4 and k % 2 else contextlib.nullcontext():
            found += [outcome(step, x_of(k)), bits(w.grad)]
    return found


@program
def a_cached_parametrization(wrap):
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.arange(1.0, p.numel() + 1).reshape(p.shape))
    step, found = wrap(lambda x: model(x).detach() * 1), []
    for k in range(CALLS):
        with nn.utils.parametrize.cached() if k > 4 else contextlib.nullcontext():
            found.append(outcome(step, x_of(k)))
            with torch.no_grad():
                model.bias.add_(1)
                next(model.parametrizations.weight.parameters()).mul_(1.5)
            found.append(outcome(step, x_of(k)))
    return found


@program
def checks_of_values(wrap):
    found = []
    table = torch.arange(6.0).reshape(3, 2)
    for f, good, bad in (
        (lambda i: F.embedding(i, table), [1], [5]),
        (lambda i: F.cross_entropy(table, i.expand(3).contiguous()), [1], [5]),
        (lambda i: F.nll_loss(table, i.expand(3).contiguous()), [1], [-3]),
        (lambda i: table.index_select(0, i), [1], [5]),
        (lambda i: table.gather(0, i.reshape(1, 1)), [1], [5]),
        (lambda i: table.scatter(0, i.reshape(1, 1), 1.0), [1], [5]),
        (lambda i: table[i], [1], [5]),
        (lambda i: table.index_add(0, i, torch.ones(1, 2)), [1], [5]),
        (lambda i: F.one_hot(i, 3), [1], [5]),
        (lambda i: F.binary_cross_entropy(i / 2.0, torch.ones(1)), [1], [5]),
        (lambda i: torch.bernoulli(i / 2.0), [1], [5]),
        (lambda i: torch.linalg.inv(torch.eye(2) * i), [1], [0]),
        (lambda i: torch.linalg.cholesky(torch.eye(2) * i), [1], [-1]),
        (lambda i: torch.multinomial(i.float(), 1), [1], [-1]),
        (lambda i: torch.distributions.Normal(0.0, i.float()).log_prob(i), [1], [-1]),
        (lambda i: i // torch.tensor(1) % i, [1], [0]),
        (lambda i: 2**i, [1], [-1]),
        (lambda i: torch.repeat_interleave(table, i.expand(3), 0), [1], [2]),
        (lambda i: table.take(i), [1], [50]),
        (
            lambda i: F.ctc_loss(
                table.reshape(3, 1, 2).log_softmax(2), i.reshape(1, 1), (3,), (1,)
            ),
            [1],
            [9],
        ),
        (lambda i: torch.tensor_split(table, i), [1], [2]),
        (lambda i: torch.arange(6)[: i[0]], [1], [2]),
        (lambda i: torch.full((2,), i[0]), [1], [2]),
        (lambda i: torch.linspace(0, i[0], 3), [1], [2]),
        (lambda i: table.narrow(0, i[0], 1), [1], [2]),
        (lambda i: torch.add(table, table, alpha=i[0]), [1], [2]),
        (lambda i: table.clamp(max=i[0]), [1], [2]),
        (lambda i: table.new_full((2,), i[0]), [1], [2]),
        (lambda i: torch.zeros(2).fill_(i[0]), [1], [2]),
        (lambda i: torch.bincount(i), [1], [3]),
        (lambda i: torch.histc(i.float(), 3), [1], [3]),
        (lambda i: torch.quantile(table, i[0] / 4), [1], [3]),
        (lambda i: torch.combinations(i.expand(3)), [1], [3]),
        (lambda i: torch.roll(table, int(i)), [1], [2]),
        (lambda i: torch.where(i > 1, i[0], 7.0), [1], [3]),
        (lambda i: torch.tensor([1.0, i[0]]), [1], [3]),
        (lambda i: torch.tensor([[1.0], i.tolist()]), [1], [3]),
        (lambda i: torch.as_tensor([i[0], i[0]]), [1], [3]),
        (lambda i: torch.asarray([i[0]]), [1], [3]),
        (lambda i: i.clone().apply_(lambda v: v + 1), [1], [3]),
        (lambda i: nn.utils.rnn.pack_padded_sequence(torch.ones(3, 1, 2), i).data, [1], [3]),
        (lambda i: nn.utils.rnn.pad_sequence([torch.ones(n) for n in i.tolist()]), [1], [3]),
        (lambda i: F.embedding_bag(torch.zeros(3, dtype=torch.long), table, i - 1), [1], [1]),
        (lambda i: torch.searchsorted(torch.arange(3), i), [1], [3]),
        (lambda i: torch.bucketize(i, torch.arange(3)), [1], [3]),
        (lambda i: table.masked_fill(table > i, 0.0), [1], [3]),
        (lambda i: table.masked_scatter(table > i, table), [1], [3]),
        (lambda i: torch.block_diag(i, i), [1], [3]),
        (lambda i: table * i.item(), [1], [3]),
        (lambda i: table[i.item()], [1], [2]),
        (lambda i: table.split(i.tolist() + [3 - int(i)]), [1], [2]),
        (lambda i: torch.tril_indices(3, 3, int(i)), [1], [2]),
        (lambda i: i.to(torch.uint8).numpy().sum() * table, [1], [2]),
        (lambda i: torch.tensor(i), [1], [2]),
        (lambda i: table * float(i), [1], [2]),
        (lambda i: table.repeat(i, 1), [1], [2]),
        (lambda i: table.expand(i, 3, 2) * 1, [1], [2]),
        (lambda i: torch.zeros(i, 2), [1], [2]),
        (lambda i: torch.unique(i) * 1, [1], [2]),
        (lambda i: table.logcumsumexp(int(i[0] > 1)), [1], [2]),
        (lambda i: table.std(0, correction=i[0]), [1], [2]),
    ):
        step = wrap(f)
        for k in range(8):
            torch.manual_seed(0)
            found.append(outcome(step, torch.tensor(bad if k in (5, 6) else good)))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])
