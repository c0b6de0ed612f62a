"""Execution traces: nodes, their nesting, what they were given and what they made."""

from __future__ import annotations

import json

import pytest

import gradlib
from gradlib.profiler import ExecutionTraceObserver, profile, record_function, schedule


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


def read(path):
    """The trace, and its nodes by number."""
    trace = json.loads(path.read_text())
    return trace, {node["id"]: node for node in trace["nodes"]}


def attribute(node, name):
    (value,) = [a["value"] for a in node["attrs"] if a["name"] == name]
    return value


def only(nodes, name):
    (node,) = [node for node in nodes.values() if node["name"] == name]
    return node


def test_nodes_of_a_training_step(path):
    observer = ExecutionTraceObserver().register_callback(path)
    assert observer.is_registered and observer.get_output_file_path() == str(path)
    x = gradlib.ones(2, 3, requires_grad=True)
    with profile(execution_trace_observer=observer) as prof:
        assert observer.is_running()
        with record_function("label"):
            y = (x * 2).sum(1)
        y.sum().backward()
    assert not observer.is_running()
    trace, nodes = read(path)
    assert trace["schema"] == "1.1.1-chakra.0.0.4" and trace["start_ts"] <= trace["finish_ts"]
    assert len(nodes) == len(trace["nodes"])
    root = only(nodes, "[pytorch|profiler|execution_trace|process]")
    thread = only(nodes, "[pytorch|profiler|execution_trace|thread]")
    assert thread["ctrl_deps"] == root["id"] == root["ctrl_deps"] == 1
    names = [n["name"] for n in nodes.values() if n["id"] not in (root["id"], thread["id"])]
    assert sorted(names) == sorted(e.name for e in prof.events())

    label, mul = (
        only(nodes, "label"),
        nodes[min(n["id"] for n in nodes.values() if n["name"] == "mul")],
    )
    assert label["ctrl_deps"] == thread["id"] and mul["ctrl_deps"] == label["id"]
    assert mul["inputs"]["shapes"] == [[2, 3], []] and mul["inputs"]["strides"][0] == [3, 1]
    assert mul["inputs"]["types"] == ["Tensor(float)", "Int"] and mul["inputs"]["values"][1] == 2
    number, memory, offset, count, size, device = mul["outputs"]["values"][0]
    assert (offset, count, size, device) == (0, 6, 4, "cpu")
    assert mul["inputs"]["values"][0][:2] != [number, memory]
    node = only(nodes, "MulBackward0")
    assert attribute(node, "seq_id") == attribute(mul, "seq_id") >= 0
    assert (attribute(node, "scope"), attribute(label, "scope")) == (1, 7)
    first_sum = min((n for n in nodes.values() if n["name"] == "sum"), key=lambda n: n["id"])
    assert first_sum["inputs"]["values"][0][:2] == [number, memory]  # what mul made
    assert first_sum["inputs"]["values"][1:] == [[1], False]


def test_lists_views_and_tensors_of_other_types(path):
    observer = ExecutionTraceObserver().register_callback(path)
    x = gradlib.ones(4, dtype=gradlib.bfloat16)
    observer.start()
    gradlib.cat([x[1:], x[2:]])
    x.to(gradlib.complex128)
    observer.stop()
    _, nodes = read(path)
    cat = only(nodes, "cat")
    assert cat["inputs"]["types"][0] == "GenericList[Tensor(c10::BFloat16),Tensor(c10::BFloat16)]"
    assert cat["inputs"]["shapes"][0] == [[3], [2]]
    assert [value[2] for value in cat["inputs"]["values"][0]] == [1, 2]
    assert only(nodes, "to")["outputs"]["types"] == ["Tensor(c10::complex<double>)"]


def test_only_what_a_schedule_records(path):
    observer = ExecutionTraceObserver().register_callback(path)
    plan = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(schedule=plan, execution_trace_observer=observer) as prof:
        for function in (gradlib.sin, gradlib.cos, gradlib.exp, gradlib.tanh):
            function(gradlib.ones(2))
            prof.step()
    names = {node["name"] for node in read(path)[1].values()}
    assert "exp" in names and not names & {"sin", "cos", "tanh"}


def test_registration(path, monkeypatch):
    observer = ExecutionTraceObserver()
    observer.start()
    assert not observer.is_running() and not observer.is_registered
    observer.register_callback(path)
    observer.register_callback(path.parent / "other.json")
    assert observer.get_output_file_path() == str(path)
    observer.start()
    observer.start()  # again
    gradlib.ones(2).sin()
    observer.unregister_callback()
    assert not observer.is_running() and not observer.is_registered
    assert only(read(path)[1], "sin")["outputs"]["shapes"] == [[2]]
    monkeypatch.delenv("ENABLE_PYTORCH_EXECUTION_TRACE", raising=False)
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("TMPDIR", str(path.parent))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = ExecutionTraceObserver.build_execution_trace_obs_from_env()
    assert made.is_registered and made.get_output_file_path().startswith(str(path.parent))
