"""Random networks are trained to the numbers of PyTorch: new ones in each run, from the seed that pytest reports.

FUZZ_SEED=7 repeats a run.
"""

from __future__ import annotations

import os

import pytest
from found_programs import differences, run

from tests import nets

PARTS, EACH = 2, 40
# Programs of a part that may differ, which are printed, each worth a look: PyTorch is wrong in one of some hundreds.
KNOWN = 1


@pytest.mark.parametrize("part", range(PARTS))
def test_random_networks_are_trained_alike(part):
    start, found = int(os.environ["FUZZ_SEED"]) + part * EACH, []
    for seed in range(start, start + EACH):
        program = "step = lambda f: f\n" + nets.training(seed)
        theirs = run(program, "torch")
        if theirs["ended"] != "well":
            continue
        ours = run(program, "gradlib")
        # roughly: optimizers divide gradients that are all rounding by themselves
        says = differences(ours["logged"], theirs["logged"], rough=True)
        if ours["ended"] != "well":
            says = [ours["text"]]
        elif says:
            again = run(nets.shaken(program), "torch")
            if differences(again["logged"], theirs["logged"], rough=True):
                continue  # noise decides
        if says:
            found.append("\n".join([f"{seed}:", program, *says]))
    print("\n\n".join(found))
    assert len(found) <= KNOWN, "\n\n".join(found)
