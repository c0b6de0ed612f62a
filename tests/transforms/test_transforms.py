"""Every public callable under every transform: a part of the combinations, another one each time.

The seed is printed with a failure; GRADLIB_TRANSFORMS_SEED repeats it. ``python -m tests.transforms --all`` tries all.
"""

from __future__ import annotations

import fnmatch
import os
import random
import time
from collections import Counter

import pytest

from tests.transforms.cases import cases
from tests.transforms.listed import entries, left_out, listed
from tests.transforms.space import groups, namespace
from tests.transforms.trying import CHECKS, failures, outcome

# workers of one run share the seed
SEED = os.environ.get("GRADLIB_TRANSFORMS_SEED") or os.environ.get(
    "PYTEST_XDIST_TESTRUNUID", str(time.time_ns())
)
PART = 4  # one of so many combinations is tried
KEYS = sorted(cases())
CHUNK = 25
# Public names with samples of their own, those and the other names of the same objects: they may only rise.
SAMPLED, COVERED = 1534, 2137
# Public names without samples, entries of checks in exceptions.txt: a loss, to be raised for new public names only.
LEFT_OUT, LISTED = (
    1503,
    234,
)  # 119 of them distributions, 475 of processes and their groups, 19 of sparse tensors


@pytest.mark.parametrize("chunk", range(0, len(KEYS), CHUNK), ids=lambda k: f"{KEYS[k]} and on")
def test_transforms(chunk):
    draw = random.Random(f"{SEED} {chunk}")
    chosen = [
        (case, check)
        for key in KEYS[chunk : chunk + CHUNK]
        for case in cases()[key]
        for check in CHECKS
        if draw.randrange(PART) == 0
    ]
    found = [f"{check} | {case!r} | {text}" for case, check, text in failures(chosen)]
    assert not found, f"GRADLIB_TRANSFORMS_SEED={SEED}\n" + "\n".join(found)


def counted() -> tuple[dict[str, str], list[str]]:
    """How each public name is covered: "sampled", "alias" (the same object has samples under another name), "listed".

    And those that are not.
    """
    found, missing = {}, []
    for names in groups(namespace()).values():
        sampled = any(n in cases() for n in names)
        for name in names:
            if name in cases():
                found[name] = "sampled"
            elif sampled:
                found[name] = "alias"
            elif any(left_out(n) for n in names):
                found[name] = "listed"
            else:
                missing.append(name)
    return found, missing


def test_every_public_callable_is_sampled_or_listed(capsys):
    found, missing = counted()
    assert not missing, "neither sampled nor listed: " + " ".join(missing)
    numbers = Counter(found.values())
    with capsys.disabled():
        print(f"{len(found)} public names: {dict(numbers)}")
    assert numbers["sampled"] >= SAMPLED
    assert numbers["sampled"] + numbers["alias"] >= COVERED
    assert numbers["listed"] <= LEFT_OUT, "sample what is new, or say why not and raise LEFT_OUT"


def test_the_list_holds_what_exists_and_has_reasons():
    found, _ = counted()
    listed_names = [name for name, how in found.items() if how == "listed"]
    for entry in entries():
        key, _, number = entry.key.partition("#")
        assert len(entry.reason) > 10, entry
        if not entry.checks:
            assert entry.key not in cases(), f"{entry.key} is sampled"
            assert fnmatch.filter(listed_names, entry.key), f"{entry.key} stands for nothing"
        else:
            assert key in cases(), f"{key} is not sampled"
            assert set(entry.checks) <= set(CHECKS), entry
            assert not number or int(number) < len(cases()[key]), entry


def test_the_list_does_not_grow():
    assert len([e for e in entries() if e.checks]) <= LISTED


@pytest.mark.parametrize("part", range(PART))
def test_no_listed_entry_would_pass(part):
    stale = []
    for entry in [e for e in entries() if e.checks][part::PART]:
        key, _, number = entry.key.partition("#")
        own = cases()[key][int(number) :][:1] if number else cases()[key]
        if all(outcome(case, check) in (None, "-") for case in own for check in entry.checks):
            stale.append(f"{entry.key} ({' '.join(entry.checks)})")
    assert not stale, "remove from exceptions.txt what passes: " + ", ".join(stale)


def test_a_listed_case_is_left_out_and_no_other():
    assert not listed("gradlib.mul", 0, "grad")
