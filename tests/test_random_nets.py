"""Random networks: what transforms give of them, and what captured steps do with them. New ones in each run.

The seed is printed with a failure; GRADLIB_NETS_SEED repeats it.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np
import pytest

from tests import nets
from tests.oracle.found_programs import differences, run

# workers of one run share the seed
SEED = os.environ.get("GRADLIB_NETS_SEED") or os.environ.get(
    "PYTEST_XDIST_TESTRUNUID", str(time.time_ns())
)
PARTS, EACH = 8, 12


def seeds(part: int) -> list[int]:
    draw = random.Random(f"{SEED} {part}")
    return [draw.randrange(1 << 40) for _ in range(EACH)]


@pytest.mark.parametrize("part", range(PARTS))
def test_transforms_of_networks_give_what_backward_passes_give(part):
    """Values, and their gradients by the parameters, of which the transform does not know."""
    for seed in seeds(part):
        transform, passes = nets.transformed(seed)
        expected = run(passes, "gradlib")
        if expected["ended"] != "well":
            continue
        found = run(transform, "gradlib")
        assert found["ended"] == "well", f"{seed}:\n{transform}\n{found['text']}"
        says = differences(found["logged"], expected["logged"])
        if says:
            again = run(nets.shaken(passes), "gradlib")
            noise = differences(again["logged"], expected["logged"])
            assert noise, f"{seed}:\n{transform}\n{says}"


def same_bits(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


@pytest.mark.parametrize("part", range(PARTS))
def test_captured_training_steps_have_the_bits_of_eager(part):
    for seed in seeds(part):
        program = nets.training(seed, steps=7)
        eager = run("step = lambda f: f\n" + program, "gradlib")
        captured = run("step = torch.capture\n" + program, "gradlib")
        says = differences(captured, eager)
        assert same_bits(eager, captured), f"{seed}:\n{program}\n{says}"
