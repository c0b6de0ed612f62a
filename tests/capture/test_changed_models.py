"""Models that change, and what becomes of results: captured or not, each call gives the same bits."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.programs import bits
from tests.capture.running import CALLS, assert_same, changing, outcome, x_of

PROGRAMS: dict[str, Callable[[Callable], list]] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


@program
def a_model_that_is_copied(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)
    held = [model]
    step = wrap(lambda x: held[0](x).detach() * 1)

    def change(k):
        if k == 6:
            held[0] = copy.deepcopy(model)
            with torch.no_grad():
                held[0].weight.mul_(2)
        if k == 9:
            held[0].load_state_dict(model.state_dict())

    return changing(step, change)


@program
def a_copy_of_a_model_whose_forward_is_captured(wrap):
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.fill_(0.25)
    model.forward = wrap(model.forward)
    with torch.no_grad():
        found = [outcome(model, x_of(k)) for k in range(5)]
        other = copy.deepcopy(model)
        other.weight.mul_(3)
        for k in range(5):
            found += [outcome(model, x_of(k)), outcome(other, x_of(k))]
    return found


@program
def a_model_in_another_dtype(wrap):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)

    def step(x):
        model.zero_grad()
        out = model(x.to(next(model.parameters()).dtype))
        out.pow(2).sum().backward()
        return out.detach() * 1, model[0].weight.grad

    def change(k):
        if k == 6:
            model.double()
        if k == 9:
            model.bfloat16()

    return changing(wrap(step), change)


@program
def tied_weights_that_are_untied(wrap):
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    with torch.no_grad():
        for p in (*a.parameters(), *b.parameters()):
            p.fill_(0.5)
    b.weight = a.weight

    def step(x):
        a.zero_grad()
        b.zero_grad()
        b(a(x)).sum().backward()
        return a.weight.grad, b.weight.grad

    def change(k):
        if k == 6:
            b.weight = nn.Parameter(a.weight.detach().clone())
        if k == 9:
            b.weight = a.weight

    return changing(wrap(step), change)


@program
def frozen_and_thawed_layers(wrap):
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.5)

    def step(x):
        model.zero_grad()
        out = model(x)
        if out.requires_grad:
            out.sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    def change(k):
        if k == 5:
            model[0].requires_grad_(False)
        if k == 7:
            model.requires_grad_(False)
        if k == 9:
            model.requires_grad_(True)

    return changing(wrap(step), change)


@program
def a_graph_from_outside_that_is_kept(wrap):
    w = torch.ones(3, requires_grad=True)
    outer = (w * 2).sin()

    def step(x):
        w.grad = None
        (outer * x).sum().backward(retain_graph=True)
        return w.grad

    return changing(wrap(step), lambda k: None)


@program
def retained_gradients_and_loss_that_is_used_again(wrap):
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        y = w * x
        y.retain_grad()
        loss = y.sum()
        loss.backward()
        return y.grad

    def returned(x):
        loss = (w * x).sum()
        loss.backward()
        return loss

    step, found = wrap(step), []
    found += changing(step, lambda k: None)
    step = wrap(returned)
    for k in range(CALLS):
        loss = step(x_of(k))
        found.append(outcome(loss.backward))
        found += [bits(w.grad), loss.grad_fn.name(), loss.is_leaf]
    return found


@program
def captured_tensors_that_share_an_array_for_a_while(wrap):
    w = torch.ones(3)
    v, u = w.detach(), torch.ones(3)

    def change(k):
        if k == 6:
            v.data = torch.full((3,), 5.0)
        if k == 8:
            u.data = w
        if k == 9:
            w.data = torch.full((3,), 7.0)

    return changing(wrap(lambda x: x * w + v * 2 - u * w), change)


@program
def what_is_put_on_the_node_of_a_result(wrap):
    w = torch.ones(3, requires_grad=True)

    def step(x):
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss

    step, found = wrap(step), []
    for k in range(CALLS):
        loss = step(x_of(k))
        found += [bits(loss), dict(loss.grad_fn.metadata), loss.retains_grad]
        if k == 6:
            loss.grad_fn.metadata["seen"] = True
        if k == 9:
            loss.retain_grad()
            loss.register_hook(lambda g: g * 2)
    return found


@program
def results_that_are_one_tensor_or_views_or_arguments(wrap):
    w = torch.ones(3)
    found = []
    for f in (
        lambda x: (y := x * 2, y),
        lambda x: (y := x * 2, y[0]),
        lambda x: x,
        lambda x: (x, x.view(-1)),
        lambda x: w,
        lambda x: w.view(3),
        lambda x: x.detach(),
        lambda x: x.t(),
        lambda x: x.contiguous(),
        lambda x: x.to(torch.float32),
        lambda x: x.expand(2, 2, 3),
        lambda x: torch.broadcast_tensors(x, w),
        lambda x: x.real,
        lambda x: x.mul_(2),
        lambda x: x.relu_(),
        lambda x: x.flatten().unsqueeze(0),
        lambda x: nn.Identity()(x),
        lambda x: F.dropout(x, 0.0),
        lambda x: x.clone().t(),
        lambda x: torch.chunk(x * 1, 2),
        lambda x: x.sum(),
        lambda x: {"a": [x * 2, None, 3.0, "s"], "b": (torch.float32, True)},
    ):
        step = wrap(f)
        for k in range(7):
            x = x_of(k)
            out = step(x)
            leaves = [
                v
                for v in (out if isinstance(out, (tuple, list)) else [out])
                if isinstance(v, torch.Tensor)
            ]
            found.append(
                [(v is x, v is w, v is leaves[0], v._base is None, v.is_leaf) for v in leaves]
            )
            for v in leaves:
                found.append(outcome(lambda v=v: v.add_(1)))
            found += [bits(x), bits(w), [bits(v) for v in leaves], x._version, w._version]
            found.append(repr(out))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_or_not_is_the_same(name):
    assert_same(PROGRAMS[name])
