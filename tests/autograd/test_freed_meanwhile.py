"""A thread frees a graph while another runs it: between any two steps of one node, the other gets in.

Python switches threads between bytecodes; here a tracer does so at each of them in turn.
"""

from __future__ import annotations

import sys
from functools import partial

import pytest

import gradlib as torch
from gradlib.tape import saved
from gradlib.tape.modes import DIFFERENTIATED

pytestmark = pytest.mark.first_device  # run by hand, not by the engine, which sets the device
OPS = {
    "saved arguments": lambda x: (x * x.detach()) * x,
    "a saved result": lambda x: x.tanh(),
    "a hidden value": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "one of several results": lambda x: torch.linalg.eigh(x + x.mT).eigenvectors,
    "an index": lambda x: x[torch.tensor([2, 0, 1])],
}


def node_of(name):
    return OPS[name](torch.arange(9.0).reshape(3, 3).sin().requires_grad_()).grad_fn


def interrupted_after(step: int, functions, action, interruption):
    """``(action(), True)`` with `interruption` before one bytecode of `functions`; False if there are fewer."""
    codes = {f.__code__ for f in functions}
    passed = 0

    def tracer(frame, event, _):
        nonlocal passed
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            passed += 1
            if passed == step:
                interruption()
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        result = action()
    finally:
        sys.settrace(before)
    return result, passed >= step


def gradient(node, traced: bool):
    """What `node` gives for a gradient of ones, or the exception."""
    ones = torch.ones(3, 3)
    grads = [ones if traced else ones._array] * node.n_out
    if node.n_out > 1:
        grads[0] = None
    try:
        if traced:
            return node.gradients(tuple(grads), DIFFERENTIATED)[0]
        inbox: dict = {}
        node.run(grads if node.n_out > 1 else grads[0], inbox)
        return next(iter(inbox.values()))
    except Exception as exc:
        return exc


def note_gradient(results: list, node, traced: bool) -> None:
    results.append(gradient(node, traced))


def same(result, expected) -> bool:
    if isinstance(result, Exception):
        return type(result) is RuntimeError and "Specify retain_graph=True" in str(result)
    return bool((result == expected).all())


@pytest.mark.parametrize("traced", [False, True], ids=["raw", "traced"])
@pytest.mark.parametrize("name", OPS)
def test_freed_while_it_runs(name, traced):
    # rows: MT-04
    for _ in range(3):  # the code for traced gradients is written at the second use
        node = node_of(name)
        expected = gradient(node, traced)
    functions = [type(node).run, type(node).gradients, saved.unpack_tensor, saved.unpack_array]
    # Python 3.12.1 tells of no bytecodes the first time
    interrupted_after(0, functions, partial(gradient, node, traced), node.release)
    step, going_on, results = 1, True, []
    while going_on:
        node = node_of(name)
        result, going_on = interrupted_after(
            step, functions, partial(gradient, node, traced), node.release
        )
        assert same(result, expected), (step, result)
        results.append(isinstance(result, Exception))
        step += 1
    assert results[0] and not results[-1]


@pytest.mark.parametrize("traced", [False, True], ids=["raw", "traced"])
@pytest.mark.parametrize("name", OPS)
def test_run_while_it_is_freed(name, traced):
    # rows: MT-04
    expected = gradient(node_of(name), traced)
    step, going_on, results = 1, True, []
    while going_on:
        node = node_of(name)
        _, going_on = interrupted_after(
            step,
            [type(node).release],
            node.release,
            partial(note_gradient, results, node, traced),
        )
        for result in results[step - 1 :]:
            assert same(result, expected), (step, result)
        step += 1
    assert isinstance(results[-1], RuntimeError) and not isinstance(results[0], Exception)
