"""Flags of a thread."""

from __future__ import annotations

import pytest

import gradlib
from gradlib.amp import _casting
from gradlib.op import interpret
from gradlib.op.registry import REGISTRY
from gradlib.op.vmap import BatchLevel, Physically
from gradlib.tape import modes, recording


def test_ops_ask_for_inference_leaves_while_there_are_some():
    with gradlib.inference_mode():
        leaf = gradlib.ones(2, requires_grad=True)
        leaf.requires_grad_()  # again
    assert modes.state.bits & modes.INFERENCE_LEAF
    assert not (leaf + leaf).requires_grad and (leaf + gradlib.ones(2)).requires_grad
    del leaf
    gradlib.ones(2) + 1
    assert not modes.state.bits & modes.INFERENCE_LEAF


@pytest.mark.parametrize("mode", ["autocast", "profile", "profile in place", "vmap"])
def test_threads_with_flags_are_counted_right_where_the_last_inference_leaf_dies_inside_an_op(mode):
    """It may die at any time, of garbage collection: here while the flag of the mode is off for the op."""

    def leaf():
        with gradlib.inference_mode():
            return [gradlib.nn.Parameter(gradlib.ones(2, device="cpu"))]

    class Ends(recording.Recorder):
        def enter(self, *args):
            return None

        def exit(self, token, result):
            return None

    def ends(x):
        held.clear()
        return x + 1  # which asks whether one lives

    start = modes.state.bits, modes.shared.active
    held, x = leaf(), gradlib.ones(2, 2, device="cpu")
    assert modes.shared.active >= 1
    if mode == "autocast":
        with gradlib.autocast("cpu"):
            monkey = _casting.cast
            _casting.cast = lambda a, *more: (ends(x), monkey(a, *more))[1]
            try:
                assert (x @ x).dtype is gradlib.bfloat16
            finally:
                _casting.cast = monkey
    elif mode == "vmap":
        with Physically(BatchLevel(2, "error")):
            ends(x)
    else:
        recorder = Ends()
        recording.add(recorder)
        try:
            op = REGISTRY["mul"]
            if mode == "profile":
                call, op.call = op.call, lambda *args: (ends(x), call(*args))[1]
                try:
                    interpret.general(op, (x, x), ())
                finally:
                    op.call = call
            else:
                recording.run_inplace(lambda *_: ends(x), op, x, (x,), ())
        finally:
            recording.remove(recorder)
    assert not held
    x + 1
    assert (modes.state.bits, modes.shared.active) == start
    with gradlib.no_grad():
        assert not (gradlib.ones(1, requires_grad=True) * 2).requires_grad


def test_flags_that_change_while_flags_are_set_are_counted():
    """Garbage collection calls finalizers at any allocation: here while the lock is taken."""

    class Lock:
        def __enter__(self):
            if meanwhile:
                meanwhile.pop()()

        def __exit__(self, *exc):
            pass

    def asked():
        modes.no_leaf_left()

    def marked():
        with gradlib.no_grad():
            pass

    start, counted = modes.state.bits, modes.shared.active
    modes.set_bits(0)
    others = modes.shared.active
    lock, modes._lock = modes._lock, Lock()
    try:
        for call in (asked, marked):
            for before, after in (
                (0, modes.INFERENCE_LEAF),
                (modes.INFERENCE_LEAF, 0),
                (0, modes.NO_GRAD),
            ):
                meanwhile = []
                modes.set_bits(before)
                meanwhile.append(call)
                modes.set_bits(after)
                assert modes.shared.active == others + bool(modes.state.bits)
                modes.set_bits(0)
                assert modes.shared.active == others
    finally:
        modes._lock = lock
        modes.set_bits(start)
    assert modes.shared.active == counted
