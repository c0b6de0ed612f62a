"""What a program may ask the engine while a backward pass runs, and what it may ask it to do at the end."""

import pytest

import gradlib as gl
from gradlib.autograd import Variable, graph


def test_the_order_of_execution_is_known_in_a_hook():
    ran, told = [], []
    x = gl.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp() + y * 3
    total = z.sum()
    nodes = [total.grad_fn]
    for node in nodes:
        nodes += [n for n, _ in node.next_functions if n is not None and n not in nodes]
    for node in nodes:
        node.register_prehook(lambda g, node=node: ran.append(node))
    z.register_hook(lambda g: told.append(gl._C._current_graph_task_execution_order()))
    total.backward()
    assert told == [ran]


def test_passes_have_numbers():
    seen = []
    x = gl.ones(2, requires_grad=True)
    x.register_hook(lambda g: seen.append(gl._C._current_graph_task_id()))
    for _ in range(2):
        (x * 2).sum().backward()
    assert 0 <= seen[0] < seen[1]
    assert gl._C._current_graph_task_id() == -1
    with pytest.raises(RuntimeError, match="only be called during the backward pass"):
        gl._C._current_graph_task_execution_order()


def test_a_callback_runs_once_when_the_pass_is_over():
    seen = []
    x = gl.ones(2, requires_grad=True)

    def hook(grad):
        Variable._execution_engine.queue_callback(lambda: seen.append(x.grad.tolist()))

    handle = x.register_hook(hook)
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [[2.0, 2.0]]


def test_a_callback_may_queue_another():
    seen = []
    x = gl.ones(2, requires_grad=True)
    queue = Variable._execution_engine.queue_callback
    x.register_hook(lambda g: queue(lambda: seen.append(1)))
    x.register_hook(lambda g: queue(lambda: seen.append(2)))
    (x * 2).sum().backward()
    assert seen == [1, 2]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        queue(lambda: None)


def test_a_failed_pass_calls_no_callback():
    seen = []
    x = gl.ones(2, requires_grad=True)
    y = x * 2

    def hook(grad):
        Variable._execution_engine.queue_callback(lambda: seen.append(1))
        raise ValueError("stop")

    y.register_hook(hook)
    with pytest.raises(ValueError, match="stop"):
        y.sum().backward()
    assert not seen


def test_multi_grad_hooks_need_tensors_that_require_grad():
    with pytest.raises(AssertionError, match="Expected gradient function"):
        graph.register_multi_grad_hook((gl.ones(1),), print)
