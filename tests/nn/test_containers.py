"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import gradlib
from gradlib import nn


def names(module):
    return [type(m).__name__ for m in module]


def test_sequential_runs_in_order():
    net = nn.Sequential(nn.Identity(), nn.Flatten(0))
    assert tuple(net(gradlib.ones(2, 3)).shape) == (6,)
    named = nn.Sequential(OrderedDict([("a", nn.Identity()), ("b", nn.Flatten(0))]))
    assert named.b is named[1]
    assert list(named._modules) == ["a", "b"]


def test_sequential_edits():
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert names(net[:2]) == ["ReLU", "Tanh"]
    assert isinstance(net[-1], nn.Sigmoid)
    del net[1]
    assert list(net._modules) == ["0", "1"]
    net.append(nn.GELU()).insert(0, nn.ELU()).extend([nn.SELU()])
    assert names(net) == ["ELU", "ReLU", "Sigmoid", "GELU", "SELU"]
    assert isinstance(net.pop(0), nn.ELU)
    net[0] = nn.Tanh()
    assert names(net + nn.Sequential(nn.ReLU()))[-1] == "ReLU"
    assert len(net * 2) == 8
    with pytest.raises(IndexError, match="index 9 is out of range"):
        _ = net[9]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        _ = net * 0


def test_module_list():
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers.append(nn.ELU())
    layers.insert(1, nn.GELU())
    layers += [nn.SELU()]
    assert names(layers) == ["ReLU", "GELU", "Tanh", "ELU", "SELU"]
    del layers[1:3]
    assert names(layers) == ["ReLU", "ELU", "SELU"]
    assert names(layers[1:]) == ["ELU", "SELU"]
    with pytest.raises(TypeError, match="extend should be called with an iterable"):
        layers.extend(3)
    with pytest.raises(NotImplementedError, match=r"Module \[ModuleList\] is missing"):
        layers(1)


def test_module_dict():
    acts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    acts.update([("c", nn.ELU())])
    assert list(acts) == list(acts.keys()) == ["a", "b", "c"]
    assert "a" in acts
    assert isinstance(acts.pop("a"), nn.ReLU)
    assert len(acts) == 2
    with pytest.raises(KeyError):
        _ = acts["a"]
    acts.clear()
    assert len(acts) == 0
    with pytest.raises(ValueError, match="has length 1; 2 is required"):
        nn.ModuleDict([("a",)])


def test_parameter_list():
    params = nn.ParameterList([gradlib.ones(2), "text", nn.Parameter(gradlib.zeros(3))])
    assert [n for n, _ in params.named_parameters()] == ["0", "2"]
    assert isinstance(params[0], nn.Parameter)
    assert params[1] == "text"
    params.append(gradlib.ones(1)).extend([gradlib.ones(1)])
    assert len(params) == 5
    assert len(params[1:3]) == 2
    params[-1] = gradlib.zeros(4)
    assert tuple(params[4].shape) == (4,)
    with pytest.raises(IndexError):
        _ = params[9]


def test_parameter_dict():
    params = nn.ParameterDict({"a": gradlib.ones(2), "b": 5})
    assert [n for n, _ in params.named_parameters()] == ["a"]
    assert params["b"] == 5
    params.update({"c": gradlib.ones(1)})
    assert list(params.keys()) == ["a", "b", "c"]
    assert params.get("z", 4) == 4
    assert params.setdefault("q", 7) == 7
    assert params.popitem() == ("q", 7)
    assert tuple(params.pop("a").shape) == (2,)
    assert "a" not in params
    merged = params | nn.ParameterDict({"d": gradlib.ones(1)})
    assert list(merged) == ["b", "c", "d"]
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        params[3] = 1


def test_containers_round_trip_through_state_dicts():
    source = nn.ParameterDict({"a": gradlib.ones(2)})
    target = nn.ParameterDict({"a": gradlib.zeros(2)})
    target.load_state_dict(source.state_dict())
    assert target["a"].tolist() == [1.0, 1.0]
