"""Arguments of every kind that change between calls: captured or not, each call gives the same bits."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable

import pytest

import gradlib as torch
from tests.capture.programs import bits
from tests.capture.running import CALLS, assert_same, changing, outcome, x_of

PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def whether_two_arguments_are_one(wrap):
    step = wrap(lambda a, b: a * 2 if a is b else a + b * 3)
    found = []
    for k in range(CALLS):
        a = x_of(k)
        found.append(outcome(step, a, a if k > 5 else a.clone()))
    return found


@program
def whether_an_argument_is_a_tensor_of_the_model(wrap):
    w = torch.ones(2, 3)
    step = wrap(lambda x: x * 2 if x is w else x - w)
    return [outcome(step, w if k in (5, 8) else x_of(k)) for k in range(CALLS)]


@program
def an_argument_that_is_a_tensor_of_the_model_while_it_is_recorded(wrap):
    w = torch.ones(2, 3)
    step = wrap(lambda x: x * 2 + w)
    return [outcome(step, w if k < 5 else x_of(k)) for k in range(CALLS)]


@program
def a_view_without_a_history_since_its_base_was_written_to(wrap):
    step, found = wrap(lambda x: x.detach() * 2), []
    for k in range(CALLS):
        base = x_of(k).requires_grad_() * 2
        part = base.split(1, 0)[1]
        base.as_strided((2,), (1,)).pow_(2.0)
        found.append(outcome(step, part))
    return found


@program
def an_argument_that_shares_the_array_of_the_model_while_it_is_recorded(wrap):
    w = torch.ones(2, 3)
    step = wrap(lambda x: x * 2 + w)
    return [outcome(step, w.detach() if k < 5 else x_of(k)) for k in range(CALLS)]


@program
def an_argument_that_is_the_gradient_while_it_is_recorded(wrap):
    w = torch.ones(2, 3, requires_grad=True)
    w.grad = torch.ones(2, 3)

    def step(x):
        (w * x).sum().backward()
        return w.grad * 1

    step, found = wrap(step), []
    for k in range(CALLS):
        found.append(outcome(step, w.grad if k < 5 else x_of(k)))
        found.append(bits(w.grad))
    return found


@program
def a_gradient_of_an_argument(wrap):
    step, found = wrap(lambda x: x * (2 if x.grad is None else 3)), []
    for k in range(CALLS):
        x = x_of(k)
        if k > 5 and k % 2:
            x.grad = torch.ones(2, 3)
        found.append(outcome(step, x))
    return found


@program
def a_gradient_of_an_argument_is_cleared(wrap):
    def step(x):
        x.grad = None
        return x * 2

    step, found = wrap(step), []
    for k in range(CALLS):
        x = x_of(k)
        x.grad = torch.ones(2, 3)
        found += [outcome(step, x), x.grad is None]
    return found


@program
def attributes_of_an_argument(wrap):
    step, found = wrap(lambda x: x * getattr(x, "scale", 1.0)), []
    for k in range(CALLS):
        x = x_of(k)
        if k > 5 and k % 2:
            x.scale = 3.0
        found.append(outcome(step, x))
    return found


@program
def an_attribute_that_is_put_on_an_argument(wrap):
    def step(x):
        x.seen = True
        return x * 2

    step, found = wrap(step), []
    for k in range(CALLS):
        x = x_of(k)
        found += [outcome(step, x), getattr(x, "seen", False)]
    return found


@program
def an_attribute_that_is_put_on_a_captured_tensor(wrap):
    w = torch.ones(3)

    def step(x):
        w.seen = True
        return x * w

    step, found = wrap(step), []
    for k in range(CALLS):
        if hasattr(w, "seen"):
            del w.seen
        found += [outcome(step, x_of(k)), hasattr(w, "seen")]
    return found


@program
def attributes_of_a_captured_tensor(wrap):
    w = torch.ones(3)

    def change(k):
        if k == 6:
            w.scale = 5.0

    return changing(wrap(lambda x: x * w * getattr(w, "scale", 1.0)), change)


@program
def an_argument_that_is_an_inference_tensor(wrap):
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    step, found = wrap(step), []
    for k in range(CALLS):
        with torch.inference_mode(k > 5 and k % 2 == 0):
            x = x_of(k)
        found.append(outcome(step, x))
    return found


@program
def an_inference_tensor_that_is_written_to(wrap):
    step, found = wrap(lambda x: x.add_(1) * 2), []
    for k in range(CALLS):
        with torch.inference_mode(k > 5 and k % 2 == 0):
            x = x_of(k)
        found.append(outcome(step, x))
    return found


@program
def a_view_of_a_parameter_that_is_written_to(wrap):
    step, found = wrap(lambda x: x.add_(1) * 2), []
    for k in range(CALLS):
        w = torch.ones(2, 3, requires_grad=k > 5 and k % 2 == 0)
        with torch.no_grad():
            x = w[:]
        found += [outcome(step, x), bits(w)]
    return found


@program
def arguments_that_overlap_where_one_is_written_to(wrap):
    def step(a, b):
        a.copy_(b * 2)
        b.add_(a)
        return a + b

    step, found = wrap(step), []
    for k in range(CALLS):
        base = torch.arange(9.0) + k
        pair = (base[:4], base[5:])
        if k > 5:
            pair = (base[1:5] if k % 2 else base[:4], base[:4])
        found += [outcome(step, *pair), bits(base)]
    return found


@program
def where_an_argument_lies(wrap):
    step, found = wrap(lambda x: x * (x.storage_offset() + 1)), []
    for k in range(CALLS):
        base = torch.arange(12.0)
        found.append(outcome(step, base[:4] if k < 6 else base[k - 6 : k - 2]))
    return found


@program
def whether_an_argument_is_a_view(wrap):
    step, found = wrap(lambda x: x * (2 if x._base is None else 3) + x._is_view()), []
    for k in range(CALLS):
        x = x_of(k)
        found.append(outcome(step, x.view(2, 3) if k > 5 and k % 2 else x))
    return found


@program
def whether_an_argument_is_pinned_shared_or_a_leaf(wrap):
    step, found = wrap(lambda x: x * (x.is_leaf + 2 * x.is_shared() + 4 * x.is_inference())), []
    for k in range(CALLS):
        with torch.inference_mode(k % 3 == 2):
            x = x_of(k)
        if k % 4 == 3:
            x.share_memory_()
        found.append(outcome(step, x))
    return found


@program
def kinds_of_keys_of_a_dict_argument(wrap):
    step, found = wrap(lambda d: sum(v * k for k, v in d.items())), []
    for k in range(16):
        key = (1, 1, 1, 1, True, 1.0, 1, True, 1.0, 0.0, 0.0, 0.0, 0.0, -0.0, 0, False)[k]
        found.append(outcome(step, {key: torch.arange(3)}))
    return found


@program
def the_order_of_a_dict_argument(wrap):
    step, found = wrap(lambda d: functools.reduce(lambda a, b: a * 0.3 + b, d.values())), []
    for k in range(CALLS):
        a, b, c = x_of(k), x_of(k + 1), x_of(k + 2)
        d = {"a": a, "b": b, "c": c} if k % 3 < 2 else {"c": c, "a": a, "b": b}
        found.append(outcome(step, d))
    return found


@program
def kinds_of_containers_as_argument(wrap):
    Pair = namedtuple("Pair", "a b")
    kinds = [
        list,
        tuple,
        lambda v: Pair(*v),
        lambda v: OrderedDict(a=v[0], b=v[1]),
        lambda v: {"a": v[0], "b": v[1]},
    ]
    step, found = (
        wrap(lambda v: sum(v.values() if isinstance(v, dict) else v) * len(type(v).__name__)),
        [],
    )
    for k in range(20):
        found.append(outcome(step, kinds[k // 4]([x_of(k), x_of(k + 1)])))
    for k in range(20):
        found.append(outcome(step, kinds[k % 5]([x_of(k), x_of(k + 1)])))
    return found


@program
def numbers_as_arguments(wrap):
    step, found = wrap(lambda x, n: x * n + torch.tensor(3) * n), []
    numbers = [
        1,
        True,
        1.0,
        -0.0,
        0.0,
        0,
        False,
        float("nan"),
        float("inf"),
        2**40,
        2.0,
        2,
        1 + 0j,
        -1,
        1e-320,
    ]
    for n in [*numbers * 4, *reversed(numbers)]:
        found.append(outcome(step, x_of(0), n))
    return found


@program
def other_arguments(wrap):
    class Colour(enum.Enum):
        RED = 2.0
        BLUE = 5.0

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 7

    @dataclasses.dataclass
    class How:
        scale: float
        parts: list

    def step(x, how):
        if how is None:
            return x * 1
        if isinstance(how, str):
            return x * len(how)
        if isinstance(how, enum.Enum):
            return x - how.value
        return x * how.scale + sum(how.parts)

    step, how = wrap(step), How(2.0, [1.0])
    found = []
    for k in range(40):
        if k == 20:
            how.scale = 3.0
        if k == 28:
            how.parts[0] = 7.0
        if k == 36:
            how.parts.append(1.0)
        given = [None, "a", "abc", Colour.RED, Colour.BLUE, Level.LOW, Level.HIGH, how][k % 8]
        found.append(outcome(step, x_of(k), given))
        found.append(outcome(step, x_of(k), How(float(k), [1.0])))
    return found


@program
def an_enum_with_a_list_in_it(wrap):
    class Colour(enum.Enum):
        RED = [2.0]

    def change(k):
        if k == 6:
            Colour.RED.value[0] = 7.0

    return changing(wrap(lambda x: x * Colour.RED.value[0]), change)


@program
def an_attribute_of_an_enum_member(wrap):
    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    Colour.RED.scale = 2.0

    def change(k):
        Colour.RED.scale = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x, c: x * c.scale), change, Colour.RED)


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])
