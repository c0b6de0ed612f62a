"""What a tensor knows about gradients: requires_grad, is_leaf, grad, grad_fn, detach, tensor hooks."""

from __future__ import annotations

import warnings

import pytest

import gradlib as torch


def leaf(*values, **kw):
    return torch.tensor(list(values), requires_grad=True, **kw)


def test_requires_grad_is_a_flag_of_the_user():
    # rows: TENSOR-01
    x = torch.ones(2)
    assert x.requires_grad is False
    x.requires_grad = True
    assert x.requires_grad is True and x.is_leaf
    x.requires_grad = False
    assert x.requires_grad is False
    n = torch.tensor([1, 2])
    with pytest.raises(
        RuntimeError,
        match=r"^only Tensors of floating point and complex dtype can require gradients$",
    ):
        n.requires_grad = True
    assert n.requires_grad is False


FACTORIES = {
    "tensor": lambda **kw: torch.tensor([1.0], **kw),
    "rand": lambda **kw: torch.rand(2, 3, **kw),
    "randn": lambda **kw: torch.randn((2, 3, 4), **kw),
    "zeros": lambda **kw: torch.zeros(2, **kw),
    "ones": lambda **kw: torch.ones(2, **kw),
    "full": lambda **kw: torch.full((2,), 1.5, **kw),
    "eye": lambda **kw: torch.eye(2, **kw),
    "empty": lambda **kw: torch.empty(2, **kw),
    "arange": lambda **kw: torch.arange(0.0, 3.0, **kw),
    "linspace": lambda **kw: torch.linspace(0, 1, 3, **kw),
    "zeros_like": lambda **kw: torch.zeros_like(torch.rand(2), **kw),
    "ones_like": lambda **kw: torch.ones_like(torch.rand(2), **kw),
    "full_like": lambda **kw: torch.full_like(torch.rand(2), 2.0, **kw),
    "empty_like": lambda **kw: torch.empty_like(torch.rand(2), **kw),
    "rand_like": lambda **kw: torch.rand_like(torch.rand(2), **kw),
    "randn_like": lambda **kw: torch.randn_like(torch.rand(2), **kw),
}


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_factories_take_requires_grad(name):
    # rows: TENSOR-02
    make = FACTORIES[name]
    assert make().requires_grad is False
    assert make(requires_grad=False).requires_grad is False
    x = make(requires_grad=True)
    assert x.requires_grad is True and x.is_leaf and x.grad_fn is None
    with torch.no_grad():
        assert make(requires_grad=True).requires_grad is True


def test_dtypes_that_can_require_grad():
    # rows: TENSOR-03
    for dtype in (
        torch.half,
        torch.float,
        torch.double,
        torch.bfloat16,
        torch.cfloat,
        torch.cdouble,
    ):
        assert torch.tensor([1.0], dtype=dtype, requires_grad=True).requires_grad
        assert torch.zeros(2, dtype=dtype).requires_grad_().requires_grad
    message = "^Only Tensors of floating point and complex dtype can require gradients$"
    for values in ([1], [True]):
        with pytest.raises(RuntimeError, match=message):
            torch.tensor(values, requires_grad=True)
    for dtype in (torch.int64, torch.int8, torch.uint8, torch.bool):
        with pytest.raises(RuntimeError, match=message):
            torch.zeros(2, dtype=dtype, requires_grad=True)


def test_grad_is_assignable():
    # rows: TENSOR-05
    x = leaf(1.0, 2.0, 3.0)
    given = torch.ones(3)
    x.grad = given
    assert x.grad is given
    with pytest.raises(RuntimeError) as caught:
        x.grad = torch.ones(4)
    assert str(caught.value).startswith(
        "attempting to assign a gradient of size '[4]' to a tensor of size '[3]'"
    )
    with pytest.raises(TypeError) as caught:
        x.grad = 3
    assert (
        str(caught.value)
        == "assigned grad expected to be a Tensor or None but got grad of type int"
    )
    with pytest.raises(RuntimeError, match=r"^can't assign Variable as its own grad$"):
        x.grad = x
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        x.grad = torch.ones(3, dtype=torch.float64)
    assert x.grad is given
    x.grad = None
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    del x.grad
    assert x.grad is None


def test_what_is_a_leaf():
    # rows: TENSOR-06 TENSOR-07 TENSOR-28
    assert torch.rand(10).is_leaf
    assert (torch.rand(2) + 1).is_leaf
    x = torch.rand(10, requires_grad=True)
    assert x.is_leaf and x.grad_fn is None
    y = x + 2
    assert not y.is_leaf and y.grad_fn is not None
    for z in (x * 2, x[0], x.exp(), torch.stack([x, x]), x.double()):
        assert not z.is_leaf and z.requires_grad
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
            z.requires_grad = False
        assert z.requires_grad


def test_grad_of_a_non_leaf_is_none_with_a_warning():
    # rows: TENSOR-08
    x = leaf(1.0, 2.0)
    y = x * 2
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    message = "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
    with pytest.warns(UserWarning, match=message) as caught:
        assert y.grad is None
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.ones(2).grad is None and leaf(1.0).grad is None


def test_retain_grad():
    # rows: TENSOR-09
    x = leaf(1.0, 2.0)
    y = x * 2
    assert y.retains_grad is False
    y.retain_grad()
    assert y.retains_grad is True
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]
    x.retain_grad()  # no effect on a leaf
    assert x.retains_grad is False
    with pytest.raises(
        RuntimeError, match=r"^can't retain_grad on Tensor that has requires_grad=False$"
    ):
        torch.ones(2).retain_grad()


def test_retained_grads_accumulate_and_follow_in_place_writes():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * 3).sum().backward(retain_graph=True)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [6.0, 6.0]
    z = x * 2
    z.retain_grad()
    z.mul_(5)
    z.sum().backward()
    assert z.grad.tolist() == [1.0, 1.0]


def test_backward_computes_and_accumulates():
    # rows: TENSOR-10
    x = leaf(1.0, -2.0, 3.0)
    assert (x * x).sum().backward() is None
    assert x.grad.tolist() == (2 * x).tolist()
    (x * x).sum().backward()
    assert x.grad.tolist() == (4 * x).tolist()


def test_geometry_of_a_detached_tensor_is_fixed():
    # rows: TENSOR-16
    a = torch.ones(2, 3)
    tail = "is not allowed on a Tensor created from .data or .detach()"
    for change, what in (
        (lambda b: b.resize_(5), "set_sizes_contiguous"),
        (lambda b: b.resize_as_(torch.ones(5)), "set_sizes_contiguous"),
        (lambda b: b.set_(torch.ones(5)), "set_storage"),
        (lambda b: b.transpose_(0, 1), "set_sizes_and_strides"),
    ):
        b = a.detach()
        with pytest.raises(RuntimeError) as caught:
            change(b)
        assert what in str(caught.value) and tail in str(caught.value)
        assert (
            a.shape == b.shape == (2, 3) and a.stride() == (3, 1) and a.tolist() == [[1.0] * 3] * 2
        )
    c = torch.ones(2, 3)  # not detached: allowed
    assert c.transpose_(0, 1) is c and c.shape == (3, 2)
    assert c.resize_(2, 2) is c and c.shape == (2, 2)


def test_detach_in_place():
    # rows: TENSOR-17
    x = leaf(1.0, 2.0)
    w = x * 2
    assert w.detach_() is w
    assert w.is_leaf and w.grad_fn is None and w.requires_grad is False
    assert w.tolist() == [2.0, 4.0]
    assert not (w * 3).requires_grad


def test_views_cannot_be_detached_in_place():
    # rows: TENSOR-18
    x = leaf(1.0, 2.0, 3.0)
    y = (x * 2)[:2]
    with pytest.raises(RuntimeError, match=r"^Can't detach views in-place. Use detach\(\) instead"):
        y.detach_()
    assert y.requires_grad and y.grad_fn is not None
    assert not y.detach().requires_grad


def test_a_tensor_hook_sees_and_replaces_the_gradient():
    # rows: TENSOR-20 TENSOR-21
    v = leaf(0.0, 0.0, 0.0)
    handle = v.register_hook(lambda grad: grad * 2)
    v.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert v.grad.tolist() == [2.0, 4.0, 6.0]
    handle.remove()
    handle.remove()
    v.grad = None
    v.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert v.grad.tolist() == [1.0, 2.0, 3.0]
    seen = []
    y = v * 2
    y.register_hook(seen.append)
    (y * 3).sum().backward()
    assert [g.tolist() for g in seen] == [[3.0, 3.0, 3.0]] and v.grad.tolist() == [7.0, 8.0, 9.0]


def test_a_hook_needs_a_gradient():
    # rows: TENSOR-22
    with pytest.raises(
        RuntimeError, match=r"^cannot register a hook on a tensor that doesn't require gradient$"
    ):
        torch.ones(2).register_hook(lambda grad: grad)


def test_requires_grad_in_place():
    # rows: TENSOR-24
    x = torch.rand(10)
    assert x.requires_grad_() is x and x.is_leaf and x.requires_grad
    assert x.requires_grad_(False) is x and not x.requires_grad
    with pytest.raises(
        RuntimeError,
        match=r"^only Tensors of floating point dtype can require gradients$",
    ):
        torch.ones(2, dtype=torch.int64).requires_grad_()


def test_only_leaves_can_be_switched_off():
    # rows: TENSOR-25
    y = leaf(1.0) * 2
    message = (
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
    )
    with pytest.raises(RuntimeError) as caught:
        y.requires_grad = False
    assert str(caught.value) == message
    with pytest.raises(RuntimeError) as caught:
        y.requires_grad_(False)
    assert str(caught.value) == message
    y.requires_grad = True  # what it is already
    assert y.requires_grad


def test_results_require_grad_if_an_input_does():
    # rows: TENSOR-26
    x, y = torch.rand(5, 5), torch.rand(5, 5)
    z = torch.rand((5, 5), requires_grad=True)
    a = x + y
    assert a.requires_grad is False and a.grad_fn is None
    b = a + z
    assert b.requires_grad is True
    assert b.grad_fn.next_functions[0][0] is None
    b.sum().backward()
    assert x.grad is None and y.grad is None and a.grad is None
    assert z.grad.tolist() == [[1.0] * 5] * 5


def test_grad_fn_is_a_node_or_none():
    # rows: TENSOR-27
    x = leaf(1.0)
    assert isinstance(x.exp().grad_fn, torch.autograd.graph.Node)
    assert x.grad_fn is None and x.detach().exp().grad_fn is None
    with torch.no_grad():
        assert x.exp().grad_fn is None


def test_the_graph_is_built_anew_each_time():
    # rows: TENSOR-29
    x = leaf(2.0)
    for depth in (1, 3, 2, 5):
        x.grad = None
        y = x
        for k in range(depth):
            y = y * x if k % 2 else y * 3
        y.backward()
        twos = depth // 2  # y = 3 ** (depth - twos) * x ** (1 + twos)
        assert x.grad.item() == 3 ** (depth - twos) * (1 + twos) * 2.0**twos


@pytest.mark.first_device
def test_the_printed_form_tells_the_autograd_state():
    # rows: TENSOR-32
    x = torch.ones(2, requires_grad=True)
    where = ", device='cuda:0'" if x.is_cuda else ""
    assert repr(x) == f"tensor([1., 1.]{where}, requires_grad=True)"
    assert repr(x * 2) == f"tensor([2., 2.]{where}, grad_fn=<MulBackward0>)"
    assert repr(x.detach()) == f"tensor([1., 1.]{where})"
