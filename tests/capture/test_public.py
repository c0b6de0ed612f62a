"""Public functions inside captured steps, forward and backward, on other values in every call: the bits of eager.

It does not matter here which of them are replayed; those that are must have looked at no value.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradlib as torch
from gradlib.tape.pytree import flatten, unflatten
from tests.transforms.cases import Case, cases

PARTS, STRIDE = 4, 10  # of all sample calls every tenth is run; another start is another tenth
CALLS = 5


def chosen(part: int) -> list[Case]:
    some = [c for own in cases().values() for c in own if c.module is None and not c.inplace]
    return some[part :: STRIDE * PARTS]


def bits(values: Any) -> list:
    found = []
    for v in flatten(values)[0]:
        array = getattr(v, "_array", None)
        plain = array is not None and array.__class__.__name__ == "ndarray"
        found.append((str(v.dtype), array.shape, array.tobytes()) if plain else repr(v))
    return found


def run(case: Case, sets: list[list], wrap: Any, differentiate: bool) -> tuple[list, Any]:
    """What the calls give and leave, errors included, and the step."""
    leaves, spec = case.template
    places, function = [], case.fn
    for leaf in leaves:
        tensor = isinstance(leaf, torch.Tensor)
        places.append((tensor, sum(t for t, _ in places) if tensor else leaf))
    places = tuple(places)
    own = [t.clone() for t in sets[0]]
    if differentiate:
        own = [t.requires_grad_(t.is_floating_point()) for t in own]

    def step():
        for t in own:
            t.grad = None
        args, kwargs = unflatten([own[v] if tensor else v for tensor, v in places], spec)
        out = function(*args, **kwargs)
        if not differentiate:
            return out
        parts = [t for t in flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        loss = sum([(t * t).sum() for t in parts])
        loss.backward()
        return [loss.detach(), *[t.grad for t in own]]

    step, found = wrap(step), []
    for k, tensors in enumerate(sets):
        with torch.no_grad():
            for mine, new in zip(own, tensors, strict=True):
                if mine.shape == new.shape:
                    mine.copy_(new)
        torch.manual_seed(k)
        try:
            result = bits(step())
        except Exception as exc:
            result = [type(exc), str(exc)]
        found.append((result, bits(own), [t._version for t in own], bits(torch.get_rng_state())))
    return found, step


@pytest.mark.parametrize("differentiate", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_public_functions_give_the_bits_of_eager(part, differentiate):
    wrong, replayed, plain = [], 0, 0
    for case in chosen(part):
        with warnings.catch_warnings(action="ignore"):
            try:
                sets = [[t.detach() for t in case.draw(seed)] for seed in range(CALLS)]
            except RuntimeError:
                continue  # tensors of vmap and others that cannot be detached
            expected, _ = run(case, sets, lambda step: step, differentiate)
            found, step = run(case, sets, torch.capture, differentiate)
        if found != expected:
            wrong.append(repr(case))
        plain += 1
        replayed += step.replays
    assert wrong == []
    assert replayed > plain / 3  # so that this is about plans
