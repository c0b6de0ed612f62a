"""What a step's code leads to and what changes between calls: captured or not, each call gives the same bits."""

from __future__ import annotations

import builtins
import functools
import types
from collections import OrderedDict
from collections.abc import Callable

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.running import CALLS, assert_same, changing, outcome, x_of

config = types.ModuleType("config")
PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def shape_and_flags_of_a_tensor_that_no_op_uses(wrap):
    w = torch.ones(3)

    def change(k):
        if k == 6:
            w.requires_grad_()
        if k == 8:
            w.requires_grad_(False)
            w.data = torch.ones(5)
        if k == 10:
            w.data = torch.ones(5, dtype=torch.float64)

    step = wrap(lambda x: x * w.shape[0] + w.requires_grad + (w.dtype == torch.float64))
    return changing(step, change)


@program
def a_builtin_that_a_global_takes_the_place_of(wrap):
    def change(k):
        if k == 6:
            globals()["sum"] = lambda v: v[0] * 100
        if k == 9:
            globals().pop("sum")

    try:
        return changing(wrap(lambda x: sum([x, x * 2])), change)
    finally:
        globals().pop("sum", None)


@program
def a_builtin_that_is_replaced(wrap):
    before = builtins.divmod

    def change(k):
        builtins.divmod = before if k < 6 else lambda a, b: (a, b)

    try:
        return changing(wrap(lambda x: x * divmod(7, 2)[0]), change)
    finally:
        builtins.divmod = before


@program
def an_attribute_of_a_module_by_its_name_as_text(wrap):
    def change(k):
        config.scale = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * getattr(config, "scale")), change)  # noqa: B009


@program
def an_attribute_of_a_module_by_a_name_in_a_variable(wrap):
    which = ["scale"]

    def change(k):
        config.scale, config.other = 2.0 if k < 6 else 3.0, 11.0
        which[0] = "other" if k > 9 else "scale"

    return changing(wrap(lambda x: x * getattr(config, which[0])), change)


@program
def an_attribute_of_a_module_by_a_name_that_is_put_together(wrap):
    def change(k):
        config.scale_1 = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * getattr(config, f"scale_{len(x) - 1}")), change)


@program
def an_attribute_that_a_module_gets_later(wrap):
    def change(k):
        if k == 0:
            vars(config).pop("debug", None)
        if k == 6:
            config.debug = 5.0

    return changing(
        wrap(lambda x: x * getattr(config, "debug", 1.0) + hasattr(config, "debug")), change
    )


@program
def the_dict_of_a_module(wrap):
    def change(k):
        config.scale = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * config.__dict__["scale"]), change)


@program
def an_attribute_of_a_module_that_the_step_sets(wrap):
    def step(x):
        setattr(config, "last_" + "seen", 1)
        return x * 2

    found, step = [], wrap(step)
    for k in range(CALLS):
        config.last_seen = 0
        found += [outcome(step, x_of(k)), config.last_seen]
    return found


@program
def the_class_of_an_object(wrap):
    class Double:
        def __call__(self, x):
            return x * 2

    class Triple:
        def __call__(self, x):
            return x * 3

    layer = Double()
    layer.name = "layer"

    def change(k):
        layer.__class__ = Double if k < 6 else Triple

    return changing(wrap(lambda x: layer(x)), change)


@program
def the_class_of_an_object_without_attributes(wrap):
    class Double:
        def __call__(self, x):
            return x * 2

    class Triple:
        def __call__(self, x):
            return x * 3

    layer = Double()

    def change(k):
        layer.__class__ = Double if k < 6 else Triple

    return changing(wrap(lambda x: layer(x)), change)


@program
def the_class_of_a_module(wrap):
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    class Triple(nn.Module):
        def forward(self, x):
            return x * 3

    layer = Double()

    def change(k):
        layer.__class__ = Double if k < 6 else Triple

    return changing(wrap(lambda x: layer(x)), change)


@program
def the_bases_of_a_class(wrap):
    class A:
        scale = 2.0

    class B:
        scale = 3.0

    class Root:
        pass

    class C(A, Root):
        pass

    def change(k):
        C.__bases__ = (A if k < 6 else B, Root)

    return changing(wrap(lambda x: x * C.scale), change)


@program
def an_attribute_of_a_metaclass(wrap):
    class Meta(type):
        scale = 2.0

    class C(metaclass=Meta):
        pass

    def change(k):
        Meta.scale = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * C.scale), change)


@program
def a_property_of_a_metaclass(wrap):
    held = [2.0]

    class Meta(type):
        @property
        def scale(cls):
            return held[0]

    class C(metaclass=Meta):
        pass

    def change(k):
        held[0] = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * C.scale), change)


@program
def a_property_and_what_it_reads(wrap):
    class Schedule:
        def __init__(self):
            self._scale = 2.0

        @property
        def scale(self):
            return self._scale

        @functools.cached_property
        def cached(self):
            return self._scale * 10

    schedule = Schedule()

    def change(k):
        if k == 5:
            schedule._scale = 3.0
        if k == 7:
            vars(schedule).pop("cached", None)
        if k == 9:
            Schedule.scale = property(lambda self: 9.0)

    return changing(wrap(lambda x: x * schedule.scale + schedule.cached), change)


@program
def names_and_docstrings_of_functions_and_classes(wrap):
    def inner(x):
        """Nothing."""
        return x

    class Layer:
        """Nothing."""

    def change(k):
        if k == 6:
            inner.__doc__ = "Nothing at all."
        if k == 8:
            inner.__name__ = "other"
        if k == 9:
            Layer.__name__ = "AnotherLayer"

    def step(x):
        return x * len(inner.__doc__) + len(inner.__name__) * 10 + len(Layer.__name__) * 100

    return changing(wrap(step), change)


@program
def a_dict_of_a_class_that_watches_writes(wrap):
    class Registry(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)

    held = Registry(scale=2.0)

    def change(k):
        held["scale"] = 2.0 if k < 6 else 3.0

    return changing(wrap(lambda x: x * held["scale"]), change)


@program
def dicts_and_lists_of_classes_of_their_own(wrap):
    class Ordered(OrderedDict):
        pass

    class Attributes(dict):
        def __getattr__(self, name):
            return self[name]

        __setattr__ = dict.__setitem__

    class Upside(dict):
        def values(self):
            return [v + 1 for v in super().values()]

        def __len__(self):
            return 1

    class Parts(list):
        def __iter__(self):
            return iter([1.0])

    held = Ordered(a=2.0, b=3.0), Attributes(scale=2.0), Upside(a=1.0, b=2.0), Parts([2.0, 3.0])

    def change(k):
        if k == 4:
            held[0]["a"] = 5.0
        if k == 6:
            held[0].move_to_end("a")
        if k == 7:
            held[1].scale = 6.0
        if k == 8:
            held[2]["b"] = 8.0
        if k == 10:
            held[3][1] = 9.0

    def step(x):
        for v in held[0].values():
            x = x * 0.5 + v
        return x * held[1].scale + held[2]["b"] + sum(held[2].values()) + held[3][1]

    return changing(wrap(step), change)


@program
def slots_with_private_names_and_without_value(wrap):
    class Held:
        __slots__ = ("__scale", "more")

        def __init__(self):
            self.__scale = 2.0

        def scale(self):
            return self.__scale * getattr(self, "more", 1.0)

        def set(self, value):
            self.__scale = value

    held = Held()

    def change(k):
        if k == 5:
            held.set(3.0)
        if k == 8:
            held.more = 4.0

    return changing(wrap(lambda x: x * held.scale()), change)


@program
def sets_of_equal_numbers_and_their_order(wrap):
    held, order = {1}, {8, 0}

    def change(k):
        if k == 5:
            held.clear()
            held.add(True)
        if k == 7:
            held.clear()
            held.add(1.0)
        if k == 9:
            order.clear()
            order.update((0, 8)) if list(order | {0}) else None
            order.clear()
            for v in (0, 8):
                order.add(v)

    def step(x):
        total = x.long()
        for v in held:
            total = total * v
        for v in order:
            total = total * 3 + v
        return total

    return changing(wrap(step), change)


@program
def slices_and_ranges(wrap):
    held = [slice(0, 1), range(0, 3, 2)]

    def change(k):
        if k == 6:
            held[0] = slice(False, True)
        if k == 8:
            held[1] = range(0, 4, 2)

    return changing(
        wrap(lambda x: x[held[0]] * held[1].stop * (1 + isinstance(held[0].stop, bool))), change
    )


@program
def functions_and_methods_of_the_library_that_are_replaced(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)
    linear, call = F.linear, nn.Module.__call__
    cos, mul = torch.Tensor.cos, torch.Tensor.__mul__

    def change(k):
        torch.Tensor.cos = cos if k < 6 else lambda x: x - 1
        torch.Tensor.__mul__ = mul if k < 9 else lambda x, y: x - y

    def inside(k):
        F.linear = linear if k < 6 else lambda *a: linear(*a) + 1
        nn.Module.__call__ = call if k < 9 else lambda self, *a: call(self, *a) + 1

    try:
        found = changing(wrap(lambda x: x.cos() * 2), change)
        return found + changing(wrap(lambda x: model(x).detach() * 2), inside)
    finally:
        F.linear, nn.Module.__call__ = linear, call
        torch.Tensor.cos, torch.Tensor.__mul__ = cos, mul


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])
