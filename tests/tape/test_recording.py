"""tape.recording: what recorders are told, in properly nested pairs."""

from __future__ import annotations

import json

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.op import formulas
from gradlib.op.declare import REGISTRY
from gradlib.profiler import ExecutionTraceObserver
from gradlib.tape import modes, recording
from gradlib.tape.node import LEAF_SEQ, Node


class Log:
    """A recorder that keeps everything."""

    def __init__(self, shared=None, tag=""):
        self.entered, self.open, self.results = [], [], []
        self.shared, self.tag = [] if shared is None else shared, tag

    def enter(self, name, op, args, attrs, seq, scope):
        token = object()
        self.entered.append((name, op, args, attrs, seq, scope))
        self.open.append(token)
        self.shared.append(f"{self.tag}+{name}")
        return token

    def exit(self, token, result):
        assert self.open.pop() is token
        self.results.append(result)
        self.shared.append(f"{self.tag}-")


@pytest.fixture
def log():
    recorder = Log()
    recording.add(recorder)
    yield recorder
    recording.remove(recorder)
    assert recorder.open == []
    assert len(recorder.entered) == len(recorder.results)


def test_an_op_and_its_node(log):
    x = gradlib.ones(2, 3, requires_grad=True)
    y = x.sum(1, True)
    y.backward(gradlib.ones(2, 1))
    (forward, root, node, *inner, leaf) = log.entered
    name, op, args, attrs, seq, scope = forward
    assert (name, op.name, scope) == ("sum", "sum", recording.OP)
    assert args[0] is x and (1,) in attrs and True in attrs
    assert seq == y.grad_fn._sequence_nr() and log.results[0] is y
    assert root == (recording.GRAPH_ROOT, None, (), (), -1, recording.BACKWARD)
    assert node[0] == "SumBackward1" and node[1] is y.grad_fn and node[4] == seq
    assert node[2][0].shape == (2, 1) and node[5] == recording.BACKWARD
    assert all(entry[4] == -1 and entry[5] == recording.OP for entry in inner)
    assert isinstance(leaf[1], Node) and leaf[2] == (x,) and leaf[4] == LEAF_SEQ
    assert log.results[1] is None


def test_a_number_is_peeked_without_being_taken(log):
    x = gradlib.ones(2, requires_grad=True)
    y = x.exp()
    gradlib.ones(2) * 2  # makes no node
    z = y.exp()
    first, none, second = [entry[4] for entry in log.entered]
    assert (first, second) == (y.grad_fn._sequence_nr(), z.grad_fn._sequence_nr())
    assert none == second == first + 1


def test_recorders_nest():
    lines: list[str] = []
    outer, inner = Log(lines, "a"), Log(lines, "b")
    recording.add(outer)
    recording.add(inner)
    assert recording.recorders() == (outer, inner)
    gradlib.ones(2) * 2
    recording.remove(outer)
    gradlib.ones(2) + 2
    recording.remove(inner)
    gradlib.ones(2) - 2
    assert lines == ["a+mul", "b+mul", "b-", "a-", "b+add", "b-"]
    assert recording.recorders() == () and not modes.has_flag(modes.PROFILE)


def test_ranges_end_when_an_op_raises(log):
    with pytest.raises(RuntimeError):
        gradlib.ones(2) * gradlib.ones(3)
    x = gradlib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    assert log.open == []
    assert log.results == [None, None]
    assert modes.has_flag(modes.PROFILE)


def test_lists_of_tensors_and_results(log):
    x = gradlib.ones(2)
    gradlib.cat([x, x], 0)
    gradlib.ones(4).split(2)
    assert log.entered[0][2][0] == [x, x]
    assert isinstance(log.results[1], tuple) and len(log.results[1]) == 2


def test_public_names(log):
    x = gradlib.rand(3, 4)
    x**2, x**x, x.sum(), x.hash_tensor(), gradlib.where(x > 0, x, x), x.clamp(0, 1), x.max()
    x.random_(), x.random_(5), x.random_(2, 5), x.bernoulli_(0.5), x.bernoulli_(gradlib.rand(3, 4))
    gradlib.nn.functional.mse_loss(x, x)
    assert [name for name, *_ in log.entered] == (
        "pow pow sum hash_tensor gt where clamp max random_ random_ random_ bernoulli_ bernoulli_ mse_loss".split()
    )


def test_traced_formulas_are_written_out_once_and_unpack_once():
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    unpacked = []

    def unpack(value):
        unpacked.append(value)
        return value

    gradlib.autograd.grad((3 / x / x).sum(), x, create_graph=True)  # writes the code
    with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.detach() * 1
        z = (x + 0) / y.requires_grad_()
    unpacked.clear()
    assert type(z.grad_fn).gradients is not formulas.gradients
    gx, gy = gradlib.autograd.grad(z.sum(), (x, y), create_graph=True)
    assert len(unpacked) == 2  # self and other, although both formulas need the latter
    assert gx.tolist() == [1.0, 0.5] and gy.tolist() == [-1.0, -0.5]


def test_a_range_that_is_abandoned_is_forgotten(tmp_path):
    """A fused kernel that declines leaves no range of its own, whoever listens."""
    log, x = Log(), gradlib.ones(2)
    trace = ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    with profiler.profile() as prof:
        trace.start()
        recording.add(log)  # has no `abandon`: it is told of the end
        given = {"needs": (True,)}
        kept = recording.run_whole(REGISTRY["exp"], (x,), given, lambda: (x,))
        declined = recording.run_whole(REGISTRY["tanh"], (x,), given, lambda: NotImplemented)
        recording.remove(log)
        trace.stop()
    assert kept == (x,) and declined is NotImplemented
    assert [e.name for e in prof.function_events] == ["exp_backward"]
    names = [node["name"] for node in json.loads((tmp_path / "trace.json").read_text())["nodes"]]
    assert "exp_backward" in names and "tanh_backward" not in names
    assert [name for name, *_ in log.entered] == ["exp_backward", "tanh_backward"]
    assert log.results == [(x,), None] and not log.open
    _, op, args, attrs, seq, scope = log.entered[0]
    assert (op.name, op.attrs, op.view) == ("exp_backward", ("needs",), None)
    assert args == (x,) and attrs == ((True,),) and (seq, scope) == (-1, recording.OP)
