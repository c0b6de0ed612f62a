"""Lazy modules before and after their first input."""

import copy
import pickle

import pytest

import gradlib
from gradlib import nn


def test_a_state_dict_keeps_what_waits():
    one, two = nn.LazyLinear(3), nn.LazyLinear(3)
    two.load_state_dict(one.state_dict())
    assert two.has_uninitialized_params()
    two(gradlib.ones(2, 4))
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        two.load_state_dict(one.state_dict())


def test_loading_before_the_first_call_sets_the_size():
    lazy = nn.LazyLinear(3)
    lazy.load_state_dict(nn.Linear(4, 3).state_dict())
    lazy(gradlib.ones(1, 4))
    assert type(lazy) is nn.Linear and lazy.in_features == 4
    assert not lazy._forward_pre_hooks and not lazy._load_state_dict_pre_hooks


@pytest.mark.parametrize("use", [
    lambda p: p + 1, lambda p: gradlib.ones(2) * p, lambda p: p.clone(), lambda p: p.numel(), lambda p: p.detach(),
    lambda p: p[0], len, bool, lambda p: p == p, lambda p: gradlib.stack([p]), lambda p: p.requires_grad_(False),
])  # fmt: skip
@pytest.mark.parametrize("make", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_what_has_no_shape_cannot_be_used(make, use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in "):
        use(make())


def test_conversions_copies_and_pickles_keep_waiting():
    norm = nn.LazyBatchNorm1d().double()
    for made in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm))):
        assert made.has_uninitialized_params() and made.running_mean.dtype is gradlib.float64
        made(gradlib.ones(2, 3).double())
        assert type(made) is nn.BatchNorm1d and made.weight.dtype is gradlib.float64
    assert norm.has_uninitialized_params()


class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.UninitializedParameter()

    def forward(self, x):
        return x * self.weight


def test_a_lazy_module_of_ones_own():
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented"):
        Scale()(gradlib.ones(2))
    Scale.initialize_parameters = lambda self, x: None
    with pytest.raises(RuntimeError, match="module Scale has not been fully initialized"):
        Scale()(gradlib.ones(2))
    Scale.initialize_parameters = lambda self, x: self.weight.materialize(x.shape)
    assert Scale()(gradlib.ones(2)).shape == (2,)


def test_memory_that_forked_processes_share():
    layer = nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() for p in layer.parameters())
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
        nn.LazyLinear(2).share_memory()
