"""export: programs as graphs of functions."""

from __future__ import annotations

import copy

import pytest

import gradlib as torch
from gradlib import nn
from gradlib._dynamo.exc import UserError
from gradlib.export import Dim, ExportedProgram, export


class Branch(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 2 else x * 3


def test_a_branch_on_a_size_that_varies_is_checked_when_the_graph_runs():
    graph = export(Branch(), (torch.ones(4),), dynamic_shapes={"x": {0: Dim("n")}}).module()
    assert graph(torch.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="was True in the example, and is False now"):
        graph(torch.ones(2))


def test_a_branch_that_goes_both_ways_is_refused():
    with pytest.raises(UserError, match="a size that varies"):
        export(Branch(), (torch.ones(2),), dynamic_shapes={"x": {0: Dim("n")}})


def test_a_size_from_a_slice_is_checked():
    """A size that is the same in both examples, though it depends on one that varies."""

    class Model(nn.Module):
        def forward(self, x):
            first = x[:3]
            return first.sum() / first.shape[0]

    graph = export(Model(), (torch.ones(4),), dynamic_shapes={"x": {0: Dim("n")}}).module()
    assert graph(torch.ones(7)).item() == 1.0
    with pytest.raises(RuntimeError, match="in the example"):
        graph(torch.ones(2))


def test_a_size_that_depends_on_values_is_checked():
    class Model(nn.Module):
        def forward(self, x):
            chosen = x[x > 0]
            return chosen.sum() / chosen.shape[0]

    graph = export(Model(), (torch.tensor([1.0, -1.0, 2.0]),)).module()
    assert graph(torch.tensor([-1.0, 3.0, 5.0])).item() == 4.0
    with pytest.raises(RuntimeError, match="in the example"):
        graph(torch.tensor([1.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: x * x.sum().item(),
        lambda self, x: x if bool(x.any()) else -x,
        lambda self, x: x * x.tolist()[0],
        lambda self, x: x if torch.equal(x, x + 1) else -x,
    ],
)
def test_values_that_decide_are_refused(forward):
    model = type("Model", (nn.Module,), {"forward": forward})()
    with pytest.raises(UserError):
        export(model, (torch.ones(2),))


def test_modes_inside_are_refused():
    class Quiet(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x * 2
            return x + y

    with pytest.raises(NotImplementedError, match="no_grad"):
        export(Quiet(), (torch.ones(2),))


def test_assigning_a_tensor_to_a_module_is_refused_and_leaves_it_alone():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(2))

        def forward(self, x):
            self.last = x * 2
            return x

    model = Keeps()
    with pytest.raises(NotImplementedError, match="last"):
        export(model, (torch.ones(2),))
    assert type(model.last) is torch.Tensor and model.last.tolist() == [0.0, 0.0]


def test_the_module_is_left_as_it_is():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = copy.deepcopy(model.state_dict())
    x, state = torch.randn(4, 3), torch.get_rng_state()
    program = export(model, (x,))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    program.module()(torch.randn(4, 3))
    assert model[0].num_batches_tracked == 1  # which the graph does


def test_gradients_reach_the_parameters():
    model = nn.Linear(3, 2)
    graph = export(model, (torch.ones(4, 3),)).module()
    graph(torch.ones(4, 3)).sum().backward()
    assert model.weight.grad is not None and graph.weight is model.weight


def test_recurrent_layers_are_one_step():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 1)

        def forward(self, x):
            h, (last, _) = self.rnn(x)
            return self.out(h), last

    model = Model()
    x = torch.randn(2, 5, 2)
    graph = export(model, (x,)).module()
    for ours, theirs in zip(graph(x), model(x), strict=True):
        assert torch.allclose(ours, theirs)
    with pytest.raises(NotImplementedError, match="LSTM"):
        export(model.rnn, (x,))


def test_isinstance_holds_for_what_is_traced():
    class Model(nn.Module):
        def forward(self, x, n):
            assert isinstance(x, torch.Tensor) and isinstance(n, int)
            return x * n if isinstance(x.shape[0], int) else x

    graph = export(Model(), (torch.ones(3), 4), dynamic_shapes=({0: Dim.AUTO}, None)).module()
    assert graph(torch.ones(2), 4).tolist() == [4.0, 4.0]
    with pytest.raises(AssertionError, match="n == 4"):
        graph(torch.ones(2), 5)


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ((torch.ones(3, 3),), "ndim"),
        ((torch.ones(3, dtype=torch.float64),), "dtype"),
        ((torch.ones(4),), "size"),
        ((3.0,), "is a tensor"),
    ],
)
def test_other_arguments_are_refused(args, what):
    graph = export(nn.ReLU(), (torch.ones(3),)).module()
    with pytest.raises(AssertionError, match=what):
        graph(*args)


def test_dimensions_with_one_name_are_equal():
    class Model(nn.Module):
        def forward(self, x, y):
            return x.sum() + y.sum()

    n = Dim("n", min=2, max=6)
    spec = {"x": {0: n}, "y": {1: n}}
    graph = export(Model(), (torch.ones(3), torch.ones(2, 3)), dynamic_shapes=spec).module()
    assert graph(torch.ones(5), torch.ones(2, 5)).item() == 15
    with pytest.raises(AssertionError, match="== n =="):
        graph(torch.ones(5), torch.ones(2, 4))
    with pytest.raises(AssertionError, match="<= 6"):
        graph(torch.ones(7), torch.ones(2, 7))


@pytest.mark.parametrize(
    "spec",
    [{"z": None}, {"x": 3}, {"x": {5: Dim("n")}}, {"x": {0: 7}}, {"x": ("a", None)}, {"x": [None]}],
)
def test_wrong_dynamic_shapes(spec):
    with pytest.raises(ValueError, match=r"dynamic_shapes|arguments"):
        export(Branch(), (torch.ones(3, 2),), dynamic_shapes=spec)


def test_what_is_absent_says_so():
    program = export(nn.ReLU(), (torch.ones(2),))
    assert isinstance(copy.deepcopy(program), ExportedProgram)
    assert "USER_INPUT" in str(program)
    with pytest.raises(NotImplementedError, match="decompositions"):
        program.run_decompositions()
    with pytest.raises(NotImplementedError, match="save"):
        torch.export.save(program, "x.pt2")
    with pytest.raises(NotImplementedError, match="computed of others"):
        Dim("n") * 2
