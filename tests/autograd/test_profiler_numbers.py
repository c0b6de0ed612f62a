"""Sequence numbers in profiles: which backward node belongs to which operation, in which thread."""

from __future__ import annotations

import threading

import gradlib
from gradlib.autograd import profiler
from gradlib.tape import recording
from tests.autograd.profiles import backward_in_another_thread, named


# rows: SEQ-07
def test_sequence_numbers_join_forward_and_backward():
    x = gradlib.rand(3, requires_grad=True)
    with profiler.profile() as prof:
        a = x * 2
        b = a.exp()
        c = b.sum()
        expected = [t.grad_fn._sequence_nr() for t in (a, b, c)]
        c.backward()
    forward = [e for e in prof.function_events if e.scope == 0 and e.sequence_nr >= 0]
    assert [e.name for e in forward] == ["mul", "exp", "sum"]
    assert [e.sequence_nr for e in forward] == expected
    nodes = {e.name: e.sequence_nr for e in prof.function_events if e.scope == 1}
    assert [nodes[f"{name}Backward0"] for name in ("Mul", "Exp", "Sum")] == expected
    assert nodes["torch::autograd::AccumulateGrad"] == -1


# rows: SEQ-07
def test_sequence_numbers_of_double_backward():
    x = gradlib.rand(3, requires_grad=True)
    with profiler.profile() as prof:
        (g,) = gradlib.autograd.grad(x.exp().sum(), x, create_graph=True)
        number = g.grad_fn._sequence_nr()
        gradlib.autograd.grad(g.sum(), x)
    inside = [e.sequence_nr for e in prof.function_events if e.name == "mul"]
    assert number in inside
    twice = [e for e in prof.function_events if e.sequence_nr == number and e.scope == 1]
    assert [e.name for e in twice] == ["MulBackward0"]


# rows: SEQ-01
def test_numbers_are_consecutive():
    x = gradlib.ones(2, requires_grad=True)
    a = x * 2
    b = a.exp()
    assert a.grad_fn._sequence_nr() + 1 == b.grad_fn._sequence_nr()
    with profiler.profile():
        c = b.sin()
        d = c.cos()
    assert c.grad_fn._sequence_nr() + 1 == d.grad_fn._sequence_nr()
    assert recording.peek_seq() == d.grad_fn._sequence_nr() + 1


# rows: SEQ-08
def test_numbers_of_two_threads_are_told_apart():
    found, barrier = {}, threading.Barrier(2)

    def work(k):
        x = gradlib.ones(2, requires_grad=True)
        with profiler.profile() as prof:
            barrier.wait()
            for _ in range(20):
                y = x.exp()
            y.sum().backward()
        found[k] = prof.function_events

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [[e.sequence_nr for e in found[k] if e.name == "exp"] for k in range(2)]
    assert all(mine == sorted(set(mine)) for mine in numbers)
    assert not set(numbers[0]) & set(numbers[1])
    for k in range(2):
        (node,) = [e for e in found[k] if e.name == "ExpBackward0"]
        assert node.sequence_nr == numbers[k][-1] and node.fwd_thread == node.thread


# rows: SEQ-08
def test_the_thread_of_the_forward_pass():
    prof = backward_in_another_thread()
    node, forward = named(prof, "ExpBackward0"), named(prof, "exp")
    assert node.thread != forward.thread == node.fwd_thread


# rows: SEQ-09
def test_accumulation_comes_first_then_the_newest_node():
    x, z = gradlib.ones(2, requires_grad=True), gradlib.ones(2, requires_grad=True)
    with profiler.profile() as prof:
        (x * 2 + (z * 3).exp()).sum().backward()
    leaf = (x * 2).grad_fn.next_functions[0][0]
    assert leaf._sequence_nr() == 2**64 - 1
    order = [e.name for e in prof.function_events if e.scope == 1]
    assert order[1:] == [
        "SumBackward0",
        "AddBackward0",
        "ExpBackward0",
        "MulBackward0",
        "torch::autograd::AccumulateGrad",
        "MulBackward0",
        "torch::autograd::AccumulateGrad",
    ]
