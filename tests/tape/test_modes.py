"""Flags of a thread."""

from __future__ import annotations

import gradlib
from gradlib.tape import modes


def test_ops_ask_for_inference_leaves_while_there_are_some():
    with gradlib.inference_mode():
        leaf = gradlib.ones(2, requires_grad=True)
        leaf.requires_grad_()  # again
    assert modes.state.bits & modes.INFERENCE_LEAF
    assert not (leaf + leaf).requires_grad and (leaf + gradlib.ones(2)).requires_grad
    del leaf
    gradlib.ones(2) + 1
    assert not modes.state.bits & modes.INFERENCE_LEAF
