"""Steps that read values: what is only returned is read in each replay, all else is a plan for what was read."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import sys
from typing import Any

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.tape.pytree import flatten
from tests.capture.programs import bits

CALLS = 14


def x_of(k):
    """Values whose sum changes its sign, and is an integer now and then."""
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(k))
    return x.round() if k % 3 == 0 else x


def outcome(step, *args):
    try:
        return [bits(v) for v in flatten(step(*args))[0]]
    except Exception as exc:
        return type(exc).__name__, str(exc).split("\n")[0]


def run(make, wrap, calls=CALLS):
    torch.manual_seed(0)
    step, *tensors = make() if isinstance(make(), tuple) else (make(),)
    step, found = wrap(step), []
    for k in range(calls):
        found.append(outcome(step, x_of(k)))
        found += [(bits(t), t._version, t.grad is None or bits(t.grad)) for t in tensors]
        found.append(bits(torch.get_rng_state()))
    return found, step


def check(make):
    """The captured step, after it gave what the plain one gives."""
    expected, _ = run(make, lambda f: f)
    found, step = run(make, torch.capture)
    for a, b in zip(found, expected, strict=True):
        assert a == b
    return step


def helper(x):
    value = x.sum().item()
    return value


def both(x):
    return x.sum().item(), helper(x)


def kept(x):
    total = x.sum()
    value = total.item()
    with torch.no_grad():
        other = total * 2
    return value, other


def overwritten(x):
    value = x.sum().item()
    value = x.mean().item()
    return value


def inside_a_block(x):
    with torch.no_grad():
        if x.shape[0] == 2:
            return x.sum().item(), float(x.mean())
    return None


def with_helper(x):
    value = helper(x)
    return {"sum": value}


class Owner:
    def total(self, x):
        return x.sum().item()

    def step(self, x):
        return self.total(x)


def training(give):
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return give(loss)

        return step, *model.parameters()

    return make


RETURNED = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "float of an item": lambda x: float(x.sum().item()),
    "int": lambda x: int(x.sum()),
    "a count": lambda x: (x > 0).sum().item(),
    "bool": lambda x: bool((x > 0).any()),
    "bfloat16": lambda x: x.bfloat16().sum().item(),
    "nested": lambda x: {"a": [x.sum().item(), (x.mean().item(), x * 2)], "b": 3},
    "beside an equal number": lambda x: ((x * 0).sum().int().item() + 0 * 0, 0),
    "several": lambda x: (x.sum().item(), x.mean().item(), x.sum().item()),
    "of an argument": lambda x: x[0, 0].item(),
    "dropped": lambda x: (x.sum().item(), x * 2)[1],
    "with a name": kept,
    "overwritten": overwritten,
    "of a function": with_helper,
    "inside a block": inside_a_block,
    "of two functions": both,
    "in a chosen branch": lambda x: x.sum().item() if x.shape[0] == 2 else None,
}


@pytest.mark.parametrize("name", RETURNED)
def test_numbers_that_are_returned(name):
    step = check(lambda: RETURNED[name])
    if name not in ("float of an item", "dropped", "beside an equal number"):
        assert step.replays == 1, torch.explain(step)
        assert torch.explain(step) == []


def test_numbers_beside_constants_that_equal_them():
    """What is a constant and what was read is decided by the code, not by the values of a recording."""
    values = [3, 3, 3, 4, 5, 3]
    step = torch.capture(lambda x: (x.item(), 3, [x.item()]))
    assert [step(torch.tensor(v)) for v in values] == [(v, 3, [v]) for v in values]
    assert step.replays == 1


def test_functions_with_decorators():
    @torch.no_grad()
    def share(x):
        return (x > 0).float().mean().item()

    step = check(lambda: share)
    assert step.replays == 1, torch.explain(step)
    step = check(lambda: lambda x: (share(x), x.sum().item()))
    assert step.replays == 1 or torch.explain(step)


def test_a_method_that_returns_a_number():
    owner = Owner()
    step = check(lambda: owner.step)
    assert step.replays == 1


@pytest.mark.parametrize("give", [torch.Tensor.item, float, lambda loss: loss.item()])
def test_training_steps(give):
    if give in (float, torch.Tensor.item):

        def of(loss):
            return float(loss) if give is float else loss.item()
    else:
        of = give
    step = check(training(of))
    assert step.replays == 1, torch.explain(step)


def test_a_loss_in_a_dict_with_tensors():
    step = check(training(lambda loss: {"loss": loss.item(), "log": (loss.detach(), float(loss))}))
    assert step.replays == 1, torch.explain(step)


class Strange:
    """Its `item` is no method of a tensor, but calls one."""

    def __init__(self, item):
        self.item = item


def strange(x):
    found = Strange(
        functools.partial(max, itertools.chain([0.0], map(torch.Tensor.item, [x.sum()])))
    )
    return found.item()


def in_a_loop(x):
    found = 0.0
    for row in x:
        found = row.sum().item()
    return found


def first_of_a_loop(x):
    found = None
    for row in x:
        if found is None:
            found = row.sum().item()
    return found


def in_a_list(x):
    found = []
    for row in x:
        found.append(row.sum().item())
    return found


def in_a_dict(x):
    found = {"a": 1}
    found["a"] = x.sum().item()
    return found


def in_a_cell(x):
    value = x.sum().item()
    return (lambda: value)()


def on_one_path(x):
    value = x.sum().item()
    if x[0, 0] > 0:
        value = 2.0
    return value


def generated(x):
    def values():
        yield x.sum().item()
        yield 2.0

    return next(values())


def unpacked(x):
    a, b = x.sum().item(), x.mean().item()
    first, *rest = [a, b, 3.0]
    return first, rest


def deleted(x):
    value = x.sum().item()
    del value
    value = 5
    return value


def list_changed_later(x):
    found = [x.sum().item(), 2.0]
    found.reverse()
    return found


def list_extended(x):
    return [x.sum().item(), *range(x.shape[0])]


def minimum(x):
    return functools.reduce(min, map(float, [x.sum(), x.mean()]))


def identity(value):
    return value


def scaled(x):
    scale = x.sum().item()
    return x * scale


def through_a_default(x):
    def give(value=x.sum().item()):  # noqa: B008
        return value

    return give()


USED = {
    "complex": lambda x: complex(x.sum()),
    "compared": lambda x: 1 if x.sum().item() > 0 else 2,
    "chosen": lambda x: x.sum().item() or 3,
    "negated": lambda x: not x.sum().item(),
    "in a sum": lambda x: x.sum().item() + 1,
    "in a text": lambda x: f"{x.sum().item():.3f}",
    "rounded": lambda x: round(x.sum().item(), 2),
    "the root": lambda x: math.sqrt(abs(x.sum())),
    "greatest": lambda x: max(x.sum().item(), 0.5),
    "greatest of a map": lambda x: max(itertools.chain([0.0], map(float, [x.sum()]))),
    "greatest with a default": lambda x: max(map(float, [x.sum()]), default=1.0),
    "sorted": lambda x: sorted([x[0].sum().item(), x[1].sum().item()]),
    "a type": lambda x: type(x.sum().item()),
    "a method": lambda x: x.sum().item().is_integer(),
    "an argument": lambda x: identity(x.sum().item()),
    "a shape": lambda x: x[:, : int((x > 0).sum()) % 3],
    "an index": lambda x: [10, 20, 30, 40, 50, 60, 70][(x > 0).sum()],
    "bool of a float": lambda x: bool(x.sum().item()),
    "walrus": lambda x: (v, v) if (v := x.sum().item()) else None,
    "strange": strange,
    "a loop": in_a_loop,
    "first of a loop": first_of_a_loop,
    "a list": in_a_list,
    "a dict": in_a_dict,
    "a cell": in_a_cell,
    "on one path": on_one_path,
    "a generator": generated,
    "unpacked": unpacked,
    "deleted": deleted,
    "a list that changes": list_changed_later,
    "a list that grows": list_extended,
    "the least": minimum,
    "a factor": scaled,
    "a default": through_a_default,
    "a comparison of tensors": lambda x: x * 2 if x.sum() > 0 else x - 1,
    "a map of helpers": lambda x: max(map(helper, [x]), default=0),
    "an is": lambda x: x.sum().item() is None,
    "a starred call": lambda x: max(*[x[0, 0].item(), x[1, 1].item()]),
    "in a tuple that is looked at": lambda x: len((x.sum().item(),)),
    "a part of a tuple": lambda x: (x.sum().item(), 2)[0],
    "in a comprehension": lambda x: [row.sum().item() for row in x],
    "a key": lambda x: {x.sum().item(): 1},
    "a set": lambda x: len({x[0, 0].item(), 0.0}),
}


@pytest.mark.parametrize("name", USED)
def test_numbers_that_are_used(name):
    check(lambda: USED[name])


def test_numbers_that_go_into_an_update():
    def make():
        w = torch.ones(3, requires_grad=True)

        def step(x):
            w.grad = None
            loss = (w * x).square().mean()
            loss.backward()
            rate = loss.item() * 0.1
            with torch.no_grad():
                w.sub_(w.grad * rate)
            return rate

        return step, w

    assert check(make).replays == 0


# -- plans for values ------------------------------------------------------------------------------------------------


def test_branches_each_have_a_plan():
    step = check(lambda: USED["a comparison of tensors"])
    assert step.replays == 2, torch.explain(step)
    assert torch.explain(step) == []


def test_a_check_for_nan_before_backward():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = model(x if x[0, 0] < 1 else x * math.nan).square().mean()
            if torch.isnan(loss):
                raise FloatingPointError("nan")
            loss.backward()
            optimizer.step()
            return loss.item()

        return step, *model.parameters()

    step = check(make)
    assert step.replays == 1, torch.explain(step)


def test_a_step_that_is_left_out_where_the_gradient_is_large():
    """What a replay did is undone where it reads another value: gradients, and random numbers."""

    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            if norm > 1:
                return loss.item(), None
            optimizer.step()
            return loss.item(), norm

        return step, *model.parameters()

    step = check(make)
    assert step.replays == 2, torch.explain(step)


def test_gradients_that_another_optimizer_has():
    """An optimizer may hold parameters that the step does not name; its reset is undone, too."""

    def make():
        w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w, other], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            if x.sum() > 0:
                raise ValueError
            (w * x).sum().backward()

        def outer(x):
            other.grad = None
            (other * x).sum().backward()
            try:
                return captured(x)
            finally:
                seen.append((w.grad is None, other.grad is None))

        seen: list = []
        captured = step
        return step, w, other

    check(make)


def test_what_cannot_be_undone_comes_before_a_read():
    def make():
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

        def step(x):
            y = model(x)
            return y * 2 if y.sum() > 0 else y

        return step, *model.parameters(), *model.buffers()

    with torch.no_grad():
        step = check(make)
    assert step.replays == 0
    assert "cannot undo" in str(torch.explain(step)[0]) or "could not undo" in str(
        torch.explain(step)[0]
    )


@pytest.mark.parametrize("where", ["argument", "buffer", "gradient", "version"])
def test_writes_before_a_read(where):
    def make():
        buffer = torch.zeros(2, 3)
        w = torch.ones(2, 3, requires_grad=True)

        def step(x):
            if where == "argument":
                x.add_(1)
            elif where == "buffer":
                buffer.add_(x)
            elif where == "gradient":
                (w * x).sum().backward()  # adds
            else:
                buffer[0].add_(1)
            return x * 2 if x.sum() > 0 else x - 1

        return step, buffer, w

    check(make)


def test_writes_into_what_the_step_made_are_no_obstacle():
    def f(x):
        y = x * 2
        y.add_(1).relu_()
        return y * 3 if y[0, 0] > 1 else y

    step = check(lambda: f)
    assert step.replays == 2, torch.explain(step)


def test_random_numbers_before_a_read():
    def f(x):
        y = nn.functional.dropout(x, 0.5)
        return y * torch.rand(3) if y.sum() > 0 else y - torch.rand(3)

    step = check(lambda: f)
    assert step.replays == 2 or torch.explain(step)


def test_values_that_are_others_each_time():
    step = check(lambda: USED["a factor"])
    assert step.replays == 0
    assert "reads another value each time" in str(torch.explain(step)[0])


def test_a_value_that_changes_too_often():
    step = torch.capture(lambda x: x * 2 if x.sum() > 0 else x - 1)
    for k in range(300):
        value = 1.0 if k < 4 else -1.0 - k % 2
        x = torch.full((2,), value)
        assert bits(step(x)) == bits(x * 2 if value > 0 else x - 1)
    values = torch.capture(lambda x: x * int(x[0]))
    for k in range(400):
        x = torch.full((2,), float(k % 16))
        assert bits(values(x)) == bits(x * (k % 16))
    assert torch.explain(values)


def test_a_plan_for_a_value_and_a_changed_global():
    scale: Any = [2.0]

    def f(x):
        return x * scale[0] if x.sum() > 0 else x - scale[0]

    def program(wrap):
        scale[0], found = 2.0, []
        step = wrap(f)
        for k in range(30):
            if k % 10 == 9:
                scale[0] += 1
            found.append(outcome(step, x_of(k)))
        return found

    assert program(torch.capture) == program(lambda g: g)


def test_nan_and_signed_zeros_are_values_of_their_own():
    step = torch.capture(lambda x: math.copysign(1.0, x.item()))
    plain = step.step
    for value in (0.0, -0.0, math.nan, -math.nan) * 5:
        x = torch.tensor(value)
        assert step(x) == plain(x)


LOOKS = {
    "locals": "locals()['v']",
    "vars": "vars()['v']",
    "eval": "eval('v')",
    "another name": "seen('v')",
    "a copy": "{**locals()}['v']",
    "an attribute": "builtins.eval('v')",
    "a frame": "sys._getframe().f_locals['v']",
    "a frame by its name": "getattr(sys, '_getframe')().f_locals['v']",
    "a function": "above()",
    "a variable": "v",
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_number_that_is_found_among_the_variables_is_used(name):
    """The same one while the step is recorded, and then another."""
    text = f"""
def above():
    return sys._getframe(1).f_locals['v']

def step(x):
    v = x.sum().item()
    return v, x * {LOOKS[name]}
"""
    space: dict = {"sys": sys, "builtins": builtins, "seen": eval}
    exec(compile(text, "<program>", "exec"), space)
    step = torch.capture(space["step"])
    for k in (0, 0, 0, 0, 1, 0, 2):
        x = torch.arange(3.0) + k
        total, product = step(x)
        assert total == x.sum().item() and torch.equal(product, x * x.sum())
