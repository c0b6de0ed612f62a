"""Module: attributes, registration, traversal, conversion, printing, copies."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradlib
from gradlib import nn


class Scale(nn.Module):
    """w * x, the smallest module with a parameter."""

    def __init__(self, n=2):
        super().__init__()
        self.w = nn.Parameter(gradlib.full((n,), 3.0))
        self.register_buffer("calls", gradlib.zeros(()))

    def forward(self, x):
        return x * self.w


def tree():
    net = nn.Module()
    net.first = Scale()
    net.again = net.first
    net.rest = nn.ModuleList([Scale(1), nn.Identity()])
    net.bias = nn.Parameter(gradlib.zeros(1))
    return net


@pytest.mark.first_device
def test_parameter_is_a_tensor_that_requires_grad():
    p = nn.Parameter(gradlib.ones(2))
    assert isinstance(p, gradlib.Tensor)
    assert isinstance(p, nn.Parameter)
    assert not isinstance(gradlib.ones(2), nn.Parameter)
    assert p.requires_grad
    assert p.is_leaf
    assert nn.Parameter(gradlib.ones(1), requires_grad=False).requires_grad is False
    assert tuple(nn.Parameter().shape) == (0,)
    where = ", device='cuda:0'" if p.is_cuda else ""
    assert repr(p) == f"Parameter containing:\ntensor([1., 1.]{where}, requires_grad=True)"


def test_parameter_shares_storage():
    data = gradlib.zeros(2)
    p = nn.Parameter(data)
    data.fill_(5.0)
    assert p.tolist() == [5.0, 5.0]


def test_parameter_copies():
    p = nn.Parameter(gradlib.ones(2), requires_grad=False)
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is nn.Parameter
        assert q.requires_grad is False
        assert q.tolist() == [1.0, 1.0]
        q.data.zero_()
        assert p.tolist() == [1.0, 1.0]


def test_assignment_registers():
    net = tree()
    assert [n for n, _ in net.named_parameters()] == ["bias", "first.w", "rest.0.w"]
    assert [n for n, _ in net.named_buffers()] == ["first.calls", "rest.0.calls"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    every = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert every == ["bias", "first.w", "again.w", "rest.0.w"]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.bias"]
    assert len(list(net.parameters())) == 3


def test_assigning_another_kind_moves_the_name():
    net = nn.Module()
    net.x = 3
    net.x = nn.Parameter(gradlib.ones(1))
    assert "x" in net._parameters
    assert "x" not in net.__dict__
    net.x = None
    assert net.x is None
    del net.x
    net.register_buffer("x", gradlib.ones(1))
    net.x = nn.Identity()
    assert "x" in net._modules
    assert "x" not in net._buffers


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda m: setattr(m.first, "w", gradlib.ones(1)),
            TypeError,
            r"cannot assign 'torch\.(cuda\.)?FloatTensor' as parameter 'w'",
        ),
        (lambda m: setattr(m, "first", 3), TypeError, "cannot assign 'int' as child module"),
        (lambda m: m.first.register_buffer("w", None), KeyError, "attribute 'w' already exists"),
        (lambda m: m.register_buffer("a.b", None), KeyError, "buffer name can.*t contain"),
        (lambda m: m.register_buffer("", None), KeyError, "buffer name can.*t be empty"),
        (lambda m: m.register_parameter("a", 3), TypeError, "cannot assign 'int' object to param"),
        (lambda m: m.add_module("a", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.nothing, AttributeError, "'Module' object has no attribute 'nothing'"),
        (lambda m: m.get_submodule("first.x"), AttributeError, "Scale has no attribute `x`"),
        (lambda m: m.get_submodule("bias"), AttributeError, "`bias` is not an nn.Module"),
        (lambda m: m.get_parameter("first.calls"), AttributeError, "is not an nn.Parameter"),
        (lambda m: m.get_buffer("first.w"), AttributeError, "`w` is not a buffer"),
        (lambda m: m(1), NotImplementedError, r'Module \[Module\] is missing the required "for'),
        (lambda m: m.train(1), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(gradlib.int32), TypeError, "only accepts floating point or complex"),
        (lambda m: nn.Module(3), TypeError, "takes 1 positional argument but 2 were given"),
        (lambda m: nn.Module(a=3), TypeError, "got an unexpected keyword argument 'a'"),
    ],
)
def test_error_texts(act, error, text):
    with pytest.raises(error, match=text):
        act(tree())


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.x = value

    with pytest.raises(AttributeError, match="cannot assign parameters before Module"):
        Early(nn.Parameter(gradlib.ones(1)))
    with pytest.raises(AttributeError, match="cannot assign module before Module"):
        Early(nn.Identity())


def test_computed_tensors_are_no_parameters():
    computed = nn.Parameter(gradlib.ones(1)) * 2
    computed._is_param = True
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'w'"):
        nn.Module().register_parameter("w", computed)


def test_lookup_by_dotted_name():
    net = tree()
    assert net.get_submodule("rest.0") is net.rest[0]
    assert net.get_parameter("first.w") is net.first.w
    assert net.get_buffer("first.calls") is net.first.calls
    net.set_submodule("rest.1", Scale())
    assert isinstance(net.rest[1], Scale)


def test_buffers_outside_the_state_dict():
    net = nn.Module()
    net.register_buffer("kept", gradlib.ones(1))
    net.register_buffer("scratch", gradlib.ones(1), persistent=False)
    net.marked = nn.Buffer(gradlib.ones(1), persistent=False)
    assert list(net.state_dict()) == ["kept"]
    assert [n for n, _ in net.named_buffers()] == ["kept", "scratch", "marked"]


def test_conversion_keeps_parameters_the_same_objects():
    net = tree()
    p = net.first.w
    p.grad = gradlib.ones(2)
    assert net.double() is net
    assert net.first.w is p
    assert p.dtype == p.grad.dtype == gradlib.float64
    assert p.is_leaf
    assert net.first.calls.dtype == gradlib.float64
    assert net.half().bias.dtype == gradlib.float16
    assert net.bfloat16().bias.dtype == gradlib.bfloat16
    assert net.float().bias.dtype == gradlib.float32
    assert net.to(gradlib.zeros(1, dtype=gradlib.float64)).bias.dtype == gradlib.float64
    assert net.to("cpu", gradlib.float32).bias.dtype == gradlib.float32
    assert net.cpu() is net


def test_integer_buffers_are_not_cast():
    net = nn.BatchNorm1d(2).double()
    assert net.num_batches_tracked.dtype == gradlib.int64
    assert net.running_mean.dtype == gradlib.float64


def test_training_mode_and_requires_grad():
    net = tree()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Scale()
    net.w.grad = held = gradlib.ones(2)
    net.zero_grad(set_to_none=False)
    assert net.w.grad is held
    assert held.tolist() == [0.0, 0.0]
    net.zero_grad()
    assert net.w.grad is None


def test_apply_visits_children_first():
    seen = []
    tree().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Scale", "Scale", "Identity", "ModuleList", "Module"]


def test_repr_is_a_tree():
    assert repr(tree()) == (
        "Module(\n"
        "  (first): Scale()\n"
        "  (again): Scale()\n"
        "  (rest): ModuleList(\n"
        "    (0): Scale()\n"
        "    (1): Identity()\n"
        "  )\n"
        ")"
    )
    layers = nn.ModuleList([nn.ReLU()] * 3 + [nn.Dropout(0.1)])
    assert (
        repr(layers) == "ModuleList(\n  (0-2): 3 x ReLU()\n  (3): Dropout(p=0.1, inplace=False)\n)"
    )


def test_copies_are_independent():
    net = tree()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.first is other.again
        assert other.first.w is not net.first.w
        assert other.first.w.tolist() == [3.0, 3.0]
        assert list(other.state_dict()) == list(net.state_dict())


def test_dir_lists_what_getattr_finds():
    names = dir(tree())
    assert {"first", "bias", "forward", "training"} <= set(names)
    assert "0" not in dir(nn.ModuleList([nn.Identity()]))


def test_gradients_reach_parameters():
    net = Scale()
    net(gradlib.tensor([1.0, 2.0])).sum().backward()
    assert net.w.grad.tolist() == [1.0, 2.0]


def test_lazy_layers_take_the_size_of_their_first_input():
    layer = nn.LazyBatchNorm1d()
    assert layer.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        _ = layer.weight.shape
