"""The code that is written for a rule gives what the rule says, whatever expressions it is made of."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from gradlib.optim._rules import Program

NUMPY = SimpleNamespace(
    sqrt=np.sqrt, abs=np.absolute, maximum=np.maximum, clamp=np.clip,
    where=lambda test, a, b: np.where(test, a, b),
)  # fmt: skip
OPERATIONS = [
    lambda F, h, a, b: a + b,
    lambda F, h, a, b: a - b * (1 - h.small),
    lambda F, h, a, b: a * b,
    lambda F, h, a, b: h.small - a,
    lambda F, h, a, b: a / (F.abs(b) + 2.0),
    lambda F, h, a, b: -a,
    lambda F, h, a, b: F.sqrt(F.abs(a)),
    lambda F, h, a, b: F.maximum(a, b),
    lambda F, h, a, b: F.clamp(a, -1.0, h.small),
    lambda F, h, a, b: F.where(a > b, a, 0.5),
    lambda F, h, a, b: F.where(a < 0.0, b * h.small, a),
    lambda F, h, a, b: F.where(a == b, 0.0, b),
    lambda F, h, a, b: F.where(h.yes, a, b),
]


def drawn(seed: int):
    """A rule of random operations on random values before it, and how many slots it has."""
    draw = random.Random(seed)
    slots = draw.randrange(4)
    plan = [
        (draw.choice(OPERATIONS), draw.random(), draw.random()) for _ in range(draw.randint(1, 12))
    ]
    places = [draw.random() for _ in range(slots + 1)]

    def rule(F, h, p, g, s):
        values = [p, g, *s.values()]
        inputs = len(values)
        for operation, i, k in plan:
            a, b = values[int(i * len(values))], values[int(k * len(values))]
            values.append(operation(F, h, a, b))
        made = values[inputs:]
        change, *new = (made[int(x * len(made))] for x in places)
        return change, dict(zip(s, new))

    return rule, slots


@pytest.mark.parametrize("seed", range(200))
def test_code_does_what_the_rule_says(seed):
    rule, count = drawn(seed)
    rng = np.random.default_rng(seed)
    p, g, *slots = (rng.standard_normal(6) for _ in range(count + 2))
    p[0] = g[0]
    h = {"small": 0.25, "yes": bool(seed % 2)}
    names = tuple("abc"[:count])
    before = [a.copy() for a in (p, g)]
    change, new = rule(NUMPY, SimpleNamespace(**h), p, g, dict(zip(names, slots)))
    wanted = [np.array(a) for a in (change, *new.values())]
    program = Program(rule, names, h)
    out, *spare = (np.full(6, np.nan) for _ in range(program.spare + 1))
    program.run(np, h, p, g, slots, out, spare)
    for a, b in zip((out, *slots, p, g), (*wanted, *before), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=program.code)


def test_a_rule_may_not_branch_on_values():
    with pytest.raises(TypeError, match="constants that are bool, not on values"):
        Program(lambda F, h, p, g, s: (g if h.lr else p, {}), (), {"lr": 0.1})


def test_results_may_change_places():
    program = Program(lambda F, h, p, g, s: (g * 1.0, {"a": s["b"], "b": s["a"]}), ("a", "b"), {})
    a, b = np.ones(2), np.zeros(2)
    program.run(np, {}, None, np.ones(2), [a, b], np.empty(2), [])
    assert a.tolist() == [0.0, 0.0]
    assert b.tolist() == [1.0, 1.0]


def test_no_array_is_kept_that_is_not_needed():
    def rule(F, h, p, g, s):
        m = s["m"] + (g - s["m"]) * 0.1
        return m / (F.sqrt(m * m) + 1.0), {"m": m}

    program = Program(rule, ("m",), {})
    assert program.spare == 0
    assert not program.reads_param
    assert "copyto" not in program.code
