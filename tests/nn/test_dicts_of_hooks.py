"""Modules make their dicts of hooks when somebody asks for one: what programs see of them is as before."""

from __future__ import annotations

import copy
import pickle

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn.modules._base import ModuleFields

NAMES = [n for n in ModuleFields.__annotations__ if "_hooks" in n]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_there_for_who_asks(name):
    layer = nn.Linear(2, 2)
    assert name not in vars(layer)
    hooks = getattr(layer, name)
    assert len(hooks) == 0 and getattr(layer, name) is hooks is vars(layer)[name]
    assert not hasattr(nn.Module, name) and getattr(nn.Linear(2, 2), name) is not hooks


def test_what_only_reads_makes_none():
    layer = nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    layer.load_state_dict(layer.state_dict())
    assert not [n for n in vars(layer) if "_hooks" in n]


def test_hooks_are_called_copied_and_removed():
    layer, seen = nn.Linear(2, 2), []
    handle = layer.register_forward_hook(lambda m, args, out: seen.append("forward"))
    layer._forward_pre_hooks[7] = lambda m, args: seen.append("before")  # as some programs do
    layer(torch.ones(1, 2))
    assert seen == ["before", "forward"]
    again = copy.deepcopy(layer)
    again(torch.ones(1, 2))
    assert len(seen) == 4
    handle.remove()
    layer(torch.ones(1, 2))
    assert seen[4:] == ["before"] and list(again._forward_hooks)


@pytest.mark.parametrize("made", [False, True])
def test_pickles_with_and_without_them(made):
    layer = nn.Linear(2, 2)
    if made:
        assert not layer._forward_hooks
    found = pickle.loads(pickle.dumps(layer))
    assert found(torch.ones(2)).tolist() == layer(torch.ones(2)).tolist()
    found.register_forward_hook(lambda m, args, out: out * 0)
    assert found(torch.ones(2)).tolist() == [0, 0]


def test_one_global_hook_reaches_modules_without_any():
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, args, out: seen.append(type(m))
    )
    nn.ReLU()(torch.ones(1))
    handle.remove()
    assert seen == [nn.ReLU]
