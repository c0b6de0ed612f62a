"""Training leaves nothing behind: no tensors, nodes or bytes, without the cyclic collector."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import Function
from gradlib.autograd.graph import Node
from gradlib.utils.checkpoint import checkpoint

pytestmark = pytest.mark.host  # counts bytes and objects of the host, slowly
WARM_UP, STEPS, ALLOWED = 50, 1000, 20_000


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def alive() -> tuple[int, int]:
    """Live tensors and nodes. The collector sees all of both kinds; it is not run."""
    tensors = nodes = 0
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, torch.Tensor):
            tensors += 1
        elif issubclass(kind, Node):
            nodes += 1
    return tensors, nodes


def empty_caches() -> int:
    """Empty the interpreter's own: free lists, names of looked-up attributes; and what was in cycles."""
    getattr(sys, "_clear_internal_caches", sys._clear_type_cache)()
    return gc.collect()


def growth(step, n: int = STEPS) -> tuple[int, int, int, int]:
    """Tensors, nodes, objects in reference cycles and bytes that `n` steps leave behind."""
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        try:
            for _ in range(WARM_UP):
                step()
            empty_caches()
            tensors, nodes = alive()
            size = tracemalloc.get_traced_memory()[0]
            for _ in range(n):
                step()
            after = alive()
            in_cycles = empty_caches()
            size = tracemalloc.get_traced_memory()[0] - size
        finally:
            tracemalloc.stop()
        return after[0] - tensors, after[1] - nodes, in_cycles, size
    finally:
        gc.enable()


def test_a_thousand_training_steps_leave_nothing():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    seen = {"full": 0, "forward": 0, "tensor": 0, "node": 0, "leaf": 0}

    def count(key):
        def hook(*_):
            seen[key] += 1

        return hook

    model[0].register_full_backward_hook(count("full"))
    model[1].register_forward_hook(count("forward"))
    model[2].weight.register_post_accumulate_grad_hook(count("leaf"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, target = torch.randn(5, 3), torch.randn(5, 2)

    def step():
        optimizer.zero_grad()
        hidden = checkpoint(model[:2], x.clone().requires_grad_(), use_reentrant=False)
        hidden.register_hook(count("tensor"))
        hidden.retain_grad()
        out = Square.apply(model[2](hidden))
        out.grad_fn.register_hook(count("node"))
        out[:, 0].mul_(0.5)
        loss = nn.functional.mse_loss(out, target)
        loss.backward()
        optimizer.step()

    tensors, nodes, in_cycles, size = growth(step)
    assert all(n > STEPS for n in seen.values()), seen
    assert (tensors, nodes, in_cycles) == (0, 0, 0) and size < ALLOWED


def _leaf():
    return torch.ones(4, requires_grad=True)


def _second_derivative():
    x = _leaf()
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()


def _reentrant_checkpoint():
    checkpoint(lambda x: x.sin().exp(), _leaf(), use_reentrant=True).sum().backward()


def _graph_without_backward():
    y = _leaf().exp()
    ((y * y).tanh().softmax(0) + y.cumsum(0)).sum()


def _retained_graph():
    x = _leaf()
    y = x.exp()
    y.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True)


def _views_and_writes():
    x = _leaf() * 1
    x.view(2, 2)[0].mul_(2)
    x[1:].copy_(x[:-1].clone())
    x.sum().backward()


def _several_outputs():
    x = _leaf()
    values, _ = x.sort()
    first, second = values.split(2)
    (first * second + x.max(0)[0]).sum().backward()


def _saved_tensor_hooks():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = _leaf().exp() ** 2
    y.sum().backward()


def _forward_mode():
    fwAD = torch.autograd.forward_ad
    with fwAD.dual_level():
        dual = fwAD.make_dual(_leaf(), torch.ones(4))
        fwAD.unpack_dual(dual.exp() * dual)


def _functional():
    torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.ones(3))


def _error_in_backward():
    y = _leaf().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError):
        y.sum().backward()


def _multi_grad_hook():
    a, b = _leaf(), _leaf()
    y, z = a * 2, b * 3
    handle = torch.autograd.graph.register_multi_grad_hook((y, z), lambda grads: None)
    (y * z).sum().backward()
    handle.remove()


def _backward_of_hook():
    x = _leaf()
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda gs: None)
    (y * y).sum().backward()


def _no_grad_and_inference():
    with torch.no_grad():
        _leaf().exp()
    with torch.inference_mode():
        torch.ones(3).exp().mul_(2)


CASES = [
    _second_derivative,
    _reentrant_checkpoint,
    _graph_without_backward,
    _retained_graph,
    _views_and_writes,
    _several_outputs,
    _saved_tensor_hooks,
    _forward_mode,
    _functional,
    _error_in_backward,
    _multi_grad_hook,
    _backward_of_hook,
    _no_grad_and_inference,
]


@pytest.mark.parametrize("step", CASES, ids=lambda f: f.__name__[1:])
def test_no_reference_cycles(step):
    tensors, nodes, in_cycles, _ = growth(step, 20)
    assert (tensors, nodes, in_cycles) == (0, 0, 0)


LAYERS = {
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2)),
        (2, 1, 6, 6),
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
    "lstm": (lambda: nn.LSTM(3, 4), (5, 2, 3)),
    "dropout": (lambda: nn.Sequential(nn.LayerNorm(4), nn.Dropout(0.5), nn.GELU()), (2, 4)),
}


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers_leave_no_reference_cycles(name):
    make, shape = LAYERS[name]
    model = make()
    x = torch.randn(*shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        out = model(x)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
        optimizer.step()

    tensors, nodes, in_cycles, _ = growth(step, 20)
    assert (tensors, nodes, in_cycles) == (0, 0, 0)
