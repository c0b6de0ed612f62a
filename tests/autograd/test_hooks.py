"""Tensor hooks, node hooks and post-accumulate-grad hooks: when they run, in which order, and what they may do."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import Function


@pytest.fixture
def x():
    return gl.ones(3, requires_grad=True)


@pytest.fixture
def watched(x):
    """y = 2 x with a hook of each kind, and the record of those that fired."""
    y, fired = x * 2, []
    y.register_hook(lambda g: fired.append("tensor"))
    y.grad_fn.register_prehook(lambda outs: fired.append("pre"))
    y.grad_fn.register_hook(lambda ins, outs: fired.append("post"))
    return y, fired


def test_which_hooks_fire(x, watched):  # rows: HOOK-01 HOOK-08 HOOK-09 HOOK-10
    y, fired = watched
    gl.autograd.grad(y.sum(), y, retain_graph=True)
    assert fired == ["tensor"]
    fired.clear()
    gl.autograd.grad(y.sum(), [y, x], retain_graph=True)
    assert fired == ["tensor", "pre", "post"]
    fired.clear()
    gl.autograd.backward(y.sum(), inputs=[y])
    assert fired == ["tensor", "pre", "post"]


def test_what_a_tensor_hook_returns(x):  # rows: HOOK-02 HOOK-03
    cases = [
        (lambda g: 5, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: gl.ones(7), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (lambda g: g.double(), RuntimeError, r"the type of value \(was torch.FloatTensor got torch.DoubleTensor\)"),
    ]  # fmt: skip
    for hook, error, text in cases:
        y = x * 2
        y.register_hook(hook)
        with pytest.raises(error, match=text):
            y.sum().backward()
    x.register_hook(lambda g: None)
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_post_accumulate_grad_hooks(x):  # rows: HOOK-04 HOOK-05 TENSOR-23
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (x * 2).sum().backward()
    gl.autograd.grad((x * 2).sum(), x)
    other = gl.ones(3, requires_grad=True)
    (x * other).sum().backward(inputs=[other])
    assert seen == [[2.0] * 3]
    with pytest.raises(
        RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"
    ):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_a_post_accumulate_hook_may_drop_the_gradient(x):
    x.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    (x * 2).sum().backward()
    assert x.grad is None


def test_node_hooks_replace_gradients(x):  # rows: HOOK-06 HOOK-07
    y = x * 3
    y.grad_fn.register_prehook(lambda outs: (outs[0] * 2,))
    y.grad_fn.register_hook(lambda ins, outs: (ins[0] + 100, *ins[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [106.0] * 3
    y = x * 3
    y.grad_fn.register_hook(lambda ins, outs: (ins[0], ins[0], ins[0]))
    with pytest.raises(
        RuntimeError, match="hook '<lambda>' has returned an incorrect number of values"
    ):
        y.sum().backward()


def test_hooks_on_a_custom_functions_node(x):
    class F(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2, a * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    y, z = F.apply(x)
    seen = []
    y.grad_fn.register_prehook(lambda outs: seen.append([o is not None for o in outs]))
    z.register_hook(lambda g: g * 10)
    (y + z).sum().backward()
    assert seen == [[True, True]]
    assert x.grad.tolist() == [32.0] * 3


def test_order(x):  # rows: HOOK-11
    order = []
    y = x * 2
    y.retain_grad()
    leaf = y.grad_fn.next_functions[0][0]
    y.grad_fn.register_hook(lambda gi, go: order.append(("y post", y.grad is not None)))
    y.grad_fn.register_prehook(lambda go: order.append(("y pre", y.grad is not None)))
    y.register_hook(lambda g: order.append(("y tensor", y.grad is not None)))
    leaf.register_hook(lambda gi, go: order.append(("x post", x.grad is not None)))
    x.register_post_accumulate_grad_hook(
        lambda p: order.append(("x accumulated", p.grad is not None))
    )
    leaf.register_prehook(lambda go: order.append(("x pre", x.grad is not None)))
    x.register_hook(lambda g: order.append(("x tensor", x.grad is not None)))
    y.sum().backward()
    assert order == [
        ("y tensor", False), ("y pre", False), ("y post", True),
        ("x tensor", False), ("x pre", False), ("x accumulated", True), ("x post", True),
    ]  # fmt: skip


def test_hooks_of_one_kind_run_in_order(x):  # rows: HOOK-12 HOOK-13
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [20.0] * 3
    assert x.grad.tolist() == [20.0] * 3


def test_a_hook_belongs_to_the_value_at_registration(x):  # rows: HOOK-15
    before, after = [], []
    v = x * 0.5
    v.register_hook(before.append)
    v.cos_()
    v.register_hook(after.append)
    v.sum().backward()
    np.testing.assert_allclose(before[0], -np.sin(np.full(3, 0.5)), rtol=1e-6)
    assert after[0].tolist() == [1.0] * 3


def test_a_leafs_hook_stays(x):  # rows: HOOK-16 HOOK-17
    seen = []
    handle = x.register_hook(seen.append)
    for _ in range(2):
        (x * 2).sum().backward()
    assert len(seen) == 2
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 2
    with x.register_hook(seen.append):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert len(seen) == 3


def test_a_leaf_that_is_the_root(x):
    x.register_hook(lambda g: g * 2)
    x.backward(gl.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_gradients_are_summed_before_the_hook(x):  # rows: HOOK-19
    seen = []
    y = x * 1
    y.register_hook(seen.append)
    (y * 2 + y * 3).sum().backward()
    assert [g.tolist() for g in seen] == [[5.0] * 3]


@pytest.mark.parametrize(
    "reduce", [lambda x: x.mean(), lambda x: x.sum(), lambda x: (x + 1).mean(0).sum()]
)
@pytest.mark.parametrize("captured", [False, True])
def test_a_hook_may_write_to_the_gradient_of_a_mean(reduce, captured):
    x = gl.ones(2, 3, requires_grad=True)
    x.register_hook(lambda g: g.mul_(2))

    def step():
        x.grad = None
        y = x * 1
        y.register_hook(lambda g: g.clamp_(max=0.25))
        reduce(y).backward()
        return x.grad.clone()

    run = gl.capture(step) if captured else step
    share = gl.autograd.grad(reduce(y2 := gl.ones(2, 3, requires_grad=True)), y2)[0][0, 0].item()
    for _ in range(5):
        assert run().tolist() == gl.full((2, 3), 2 * min(share, 0.25)).tolist()
