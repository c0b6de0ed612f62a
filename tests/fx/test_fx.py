"""Graphs: what only gradlib decides; tests/oracle/found/fx.txt compares the rest with PyTorch."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import subprocess
import sys

import pytest

import gradlib as torch
from gradlib import fx, nn
from gradlib.fx.passes.shape_prop import ShapeProp
from gradlib.fx.passes.split_module import split_module
from gradlib.fx.proxy import TraceError
from gradlib.nn.functional import relu
from gradlib.nn.functional import softmax as soft

fx.wrap("len")


@fx.wrap
def untraced(x, y):
    if x.sum() > 0:
        return y
    return -y


def doubled(x):
    return relu(x) * 2


def test_functions_are_recorded_under_whatever_name_the_program_has_them():
    traced = fx.symbolic_trace(lambda x: soft(relu(x), dim=-1) + torch.cat([x, x])[:2])
    assert "torch.nn.functional.relu(" in traced.code
    assert "torch.nn.functional.softmax(" in traced.code
    x = torch.randn(2, 3)
    assert torch.equal(traced(x), soft(relu(x), dim=-1) + x)


def test_wrapped_functions_are_not_traced_through():
    def f(x):
        return untraced(x, x * 2) + len(x) + math.sqrt(4)

    traced = fx.symbolic_trace(f)
    assert [n.target for n in traced.graph.find_nodes(op="call_function")][1] is untraced
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(traced(x), f(x))
    again = pickle.loads(pickle.dumps(traced))
    assert torch.equal(again(torch.ones(3)), f(torch.ones(3)))
    assert f(torch.ones(2)).tolist() == [6.0, 6.0]  # nothing remains replaced


def test_a_failed_trace_puts_everything_back():
    before = nn.Module.__call__, dict(vars(sys.modules[__name__]))
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: untraced(x, x) if x else x)
    assert nn.Module.__call__ is before[0] and "__getattr__" in vars(nn.Module)
    assert vars(sys.modules[__name__])["untraced"] is before[1]["untraced"]
    assert not fx._symbolic_trace.is_fx_tracing()


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.add_(1),
        lambda x: torch.neg(x, out=x),
        lambda x: torch.nn.functional.relu(x, inplace=True),
        lambda x: x.__setitem__(0, 5.0),
    ],
)
def test_dead_code_that_writes_is_kept(step):
    def f(x):
        y = x * 1
        step(y)
        x + 3  # nobody needs it
        return y

    traced = fx.symbolic_trace(f)
    assert traced.graph.eliminate_dead_code()
    traced.recompile()
    assert "+ 3" not in traced.code
    x = torch.tensor([-2.0, 1.0])
    assert torch.equal(traced(x), f(x))


def test_batching_and_derivatives_of_a_traced_module():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.Tanh()))
    x = torch.randn(5, 3, requires_grad=True)
    (g,) = torch.autograd.grad(traced(x).sum(), x)
    assert g.shape == x.shape
    assert torch.allclose(torch.vmap(traced)(x), traced(x))


def test_tracing_through_all_layers_gives_functions():
    class Through(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3),
        nn.LogSoftmax(-1),
    )  # fmt: skip
    tracer = Through()
    graph = tracer.trace(model)
    traced = fx.GraphModule(model, graph)
    assert not graph.find_nodes(op="call_module")
    x = torch.randn(2, 1, 6, 6)
    assert torch.allclose(traced(x), model(x))
    assert list(traced.state_dict()) == list(model.state_dict())


def test_split_module():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
            self.w = nn.Parameter(torch.ones(4))

        def forward(self, x, y):
            h = self.a(x).relu() * self.w
            return self.b(h + y), h

    model = Model()
    traced = fx.symbolic_trace(model)
    names: dict[str, str] = {}
    parts = split_module(traced, model, lambda n: int(n.name in ("b", "add")), names)
    assert [n for n, _ in parts.named_children()] == ["submod_0", "submod_1"]
    assert names == {"submod_0.a": "a", "submod_1.b": "b"}
    x, y = torch.randn(2, 3), torch.randn(2, 4)
    for ours, theirs in zip(parts(x, y), model(x, y), strict=True):
        assert torch.equal(ours, theirs)
    parts(x, y)[0].sum().backward()
    assert model.w.grad is not None
    with pytest.raises(RuntimeError, match="cycle"):
        split_module(traced, model, lambda n: int(n.name in ("relu", "add")))


def test_shapes_stand_in_readable_code(capsys):
    traced = fx.symbolic_trace(nn.Linear(3, 2))
    ShapeProp(traced).propagate(torch.ones(4, 3))
    text = traced.print_readable()
    assert 'linear: "f32[4, 2]"' in text and capsys.readouterr().out.strip() == text.strip()
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%linear"):
        ShapeProp(traced).propagate(torch.ones(4, 5))


def test_lines_of_the_program_are_kept_if_asked_for():
    class Lines(fx.Tracer):
        record_stack_traces = True

    class Model(nn.Module):
        def forward(self, x):
            return doubled(x)

    graph = Lines().trace(Model())
    [node] = graph.find_nodes(op="call_function", target=relu)
    assert "return relu(x) * 2" in node.stack_trace
    assert "code: return relu(x) * 2" in graph.python_code("self", verbose=True).src


def test_to_folder(tmp_path, monkeypatch):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))
            self.register_buffer("b", torch.randn(3))
            self.lin = nn.Linear(3, 3)

        def forward(self, x):
            return self.lin(x) * self.w + self.b

    traced = fx.symbolic_trace(Model())
    traced.to_folder(tmp_path / "written_model", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("written_model").Written()
    x = torch.randn(2, 3)
    assert torch.equal(made(x), traced(x))


def test_an_interpreter_names_the_node_that_failed():
    traced = fx.symbolic_trace(lambda x: x @ x)
    with pytest.raises(RuntimeError, match="While executing %matmul"):
        fx.Interpreter(traced).run(torch.ones(2, 3))


def test_normalized_arguments():
    traced = fx.symbolic_trace(lambda x: torch.nn.functional.dropout(x, 0.25))
    [node] = traced.graph.find_nodes(op="call_function")
    found = node.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert {k: v for k, v in found.kwargs.items() if k != "input"} == {
        "p": 0.25,
        "training": True,
        "inplace": False,
    }


def test_param_shapes_constant():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            return x @ self.w if self.w.shape[0] == 3 else x

    tracer = fx.Tracer(param_shapes_constant=True)
    graph = tracer.trace(Model())
    assert [n.op for n in graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]
    with pytest.raises(TraceError):
        fx.Tracer().trace(Model())


def test_asserts_may_be_traced():
    class Asserting(fx.Tracer):
        trace_asserts = True

    names: dict = {}  # pytest writes other code for its own asserts
    exec("def f(x):\n    assert x.shape[0] == 2\n    return x * 2", names)
    traced = fx.GraphModule(nn.Module(), Asserting().trace(names["f"]))
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError):
        traced(torch.ones(3))


def test_concrete_arguments_of_a_module():
    class Model(nn.Module):
        def forward(self, x, flag):
            return x["a"] * 2 if flag else x["b"]

    traced = fx.symbolic_trace(Model(), {"x": {"a": fx.PH, "b": fx.PH}, "flag": True})
    x = {"a": torch.ones(2), "b": torch.zeros(2)}
    assert torch.equal(traced(x, True), torch.full((2,), 2.0))
    with pytest.raises(AssertionError, match="flag has been specialized"):
        traced(x, False)


def test_copies_are_apart():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    other = copy.deepcopy(traced)
    with torch.no_grad():
        getattr(other, "0").weight.zero_()
    assert getattr(traced, "0").weight.abs().sum() > 0
    assert copy.copy(traced).graph is traced.graph


def test_what_does_not_exist_says_so():
    proxy_tensor = importlib.import_module("gradlib.fx.experimental.proxy_tensor")
    with pytest.raises(NotImplementedError, match="make_fx"):
        proxy_tensor.make_fx(doubled)
    with pytest.raises(NotImplementedError, match="fake_mode"):
        ShapeProp(fx.symbolic_trace(doubled), fake_mode=object())


def test_eager_functions_ask_nobody_without_fx():
    """Importing gradlib does not import fx, and importing fx arms nothing."""
    code = (
        "import sys, gradlib; from gradlib.tape import override\n"
        "lazy = ('gradlib.fx', 'gradlib.export', 'gradlib.jit', 'gradlib.library')\n"
        "assert not any(m.startswith(lazy) for m in sys.modules)\n"
        "import gradlib.fx, gradlib.jit, gradlib.export, gradlib.library\n"
        "assert not override.armed"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
