"""What an exception in a hook says: which hook, of which tensor."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd.graph import get_gradient_edge


def broken(*values):
    raise ValueError("from the hook")


def of_another_size(gradient):
    return torch.ones(7)


def on_tensor(leaf, hook):
    leaf.register_hook(hook)


def after_accumulation(leaf, hook):
    leaf.register_post_accumulate_grad_hook(hook)


def before_node(leaf, hook):
    get_gradient_edge(leaf).node.register_prehook(hook)


def after_node(leaf, hook):
    get_gradient_edge(leaf).node.register_hook(hook)


def failure(backward, **options):
    """The notes of the exception that a backward pass raises."""
    with pytest.raises((ValueError, RuntimeError)) as caught:
        backward(**options)
    return "\n".join(getattr(caught.value, "__notes__", []))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("register", [on_tensor, after_accumulation, before_node, after_node])
def test_of_a_leaf(register, create_graph):
    leaf = torch.ones(2, 3, requires_grad=True)
    result = (leaf * 3).sum()
    register(leaf, broken)
    text = failure(result.backward, create_graph=create_graph)
    line = broken.__code__.co_firstlineno
    assert re.fullmatch(
        rf"raised in hook broken \(.*test_hook_errors.py:{line}\) of a leaf of shape \[2, 3\] and dtype \S*float32",
        text,
    )


def test_of_a_leaf_that_returns_something_else():
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(of_another_size)
    assert "in hook of_another_size (" in failure((leaf * 3).sum().backward)


def test_of_a_leaf_that_is_the_root():
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(broken)
    assert "of a leaf of shape [2]" in failure(leaf.backward, gradient=torch.ones(2))


def test_of_another_tensor():
    leaf = torch.ones(2, requires_grad=True)
    middle = leaf * 3
    middle.register_hook(broken)
    text = failure(middle.sum().backward)
    assert text.startswith("raised in hook broken (")
    assert ") of MulBackward0, which was made at" in text and "middle = leaf * 3" in text


def test_of_a_node_that_is_no_function():
    class Hook:
        def __call__(self, *values):
            raise ValueError

    leaf = torch.ones(2, requires_grad=True)
    made = leaf * 3
    made.grad_fn.register_hook(Hook())
    assert "raised in hook Hook of MulBackward0" in failure(made.sum().backward)


def test_the_next_node_is_not_blamed_for_a_leaf_and_a_formula_is_as_before():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError

    leaf = torch.ones(2, requires_grad=True)
    text = failure(Double.apply(leaf).sum().backward)
    assert text.startswith("raised in the backward of DoubleBackward, which was made at")


def test_of_a_pass_inside_a_hook():
    """The hook of the inner pass is named, once."""
    inner, outer = torch.ones(1, requires_grad=True), torch.ones(2, requires_grad=True)
    inner.register_hook(broken)

    def pass_inside(gradient):
        with torch.enable_grad():
            (inner * 2).sum().backward()

    outer.register_hook(pass_inside)
    text = failure((outer * 3).sum().backward)
    assert text.count("raised") == 1 and "hook broken" in text and "shape [1]" in text


@pytest.mark.host
def test_saved_tensors_of_other_shapes():
    """What kernels raise in backward are PyTorch's errors; what the user's hooks raise stays theirs."""
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: torch.ones(6)):
        y = x.sin()
    with pytest.raises(RuntimeError, match=r"tensor a \(3\) must match .* tensor b \(6\)") as told:
        y.sum().backward()
    assert "SinBackward0" in told.value.__notes__[0]
    assert isinstance(told.value.__cause__, ValueError)

    def hook(grad):
        return np.ones(3) + np.ones(2)

    y = x * 2
    y.register_hook(hook)
    with pytest.raises(ValueError, match="broadcast together"):
        y.sum().backward()
