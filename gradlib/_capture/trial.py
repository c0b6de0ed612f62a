"""The first run of a plan, which is undone: it has to return what the recorded step returned, and give its gradients.

For steps that did nothing else that lasts: what they were called with is still there. The memory of the plan is tried
out, too, and it takes a fraction of what it takes to run and compare all lines; see check.py.
"""

from __future__ import annotations

import re
import types
from typing import Any

import numpy as np

from ..tape.generator import default_generator
from .check import same_result
from .reads import Undo
from .recorder import Recorder
from .replay import Plan

_names = re.compile(r"\w+").findall


class _Gradients:
    """In the place of what hands gradients to leaves: compares them with those of the recorded step."""

    def __init__(self, recorder: Recorder):
        draft, values = recorder.draft, recorder.values
        self.wanted = {
            id(draft.names[line.leaf]): values[line.ins[0]] for line in draft.lines if line.leaf
        }
        self.fine = True

    def take(self, leaves: tuple, gradients: tuple) -> None:
        for leaf, gradient in zip(leaves, gradients, strict=True):
            self.fine &= same_result(gradient, self.wanted.pop(id(leaf), None))

    def accumulate(self, leaf: Any, gradients: list) -> None:
        self.take((leaf,), tuple(gradients))


def gives_again(plan: Plan, recorder: Recorder) -> bool:
    """Whether a replay gives what the step gave, of which the plan was recorded. All is left as it is."""
    gradients = _Gradients(recorder)
    run, values = plan.forward.run, recorder.values
    dry = {"take": gradients.take, "accumulate": gradients.accumulate}
    run = types.FunctionType(run.__code__, {**run.__globals__, **dry})
    before = Undo(list(recorder.reached.tensors.values()), recorder.cleared).begin()
    default_generator._unpack(recorder.drawn_from)
    memory = plan.forward.take()
    try:
        with np.errstate(all="ignore"):
            results = run(recorder.arguments, memory)
    except Exception:
        return False
    finally:
        Undo.back(before)
    plan.forward.keep(memory)  # in which no results are
    if not gradients.fine or gradients.wanted:
        return False
    if plan.region is not None:
        results = (*results[0], *results[1])  # and what is saved for backward
    reads = {read.name: read.value for read in recorder.reads}
    for name, value in zip(_names(plan.given[1]), results, strict=True):
        if name in values and not same_result(value, values[name]):
            return False
        if name in reads and repr(value) != repr(reads[name]):
            return False
    return True
