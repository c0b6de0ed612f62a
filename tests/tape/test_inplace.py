"""In-place operations, version counters, views and the history they rewrite."""

from __future__ import annotations

import pytest

import gradlib as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_versions_are_shared_by_views_and_detached_aliases():
    # rows: INPLACE-01 INPLACE-02 TENSOR-14 TENSOR-15 TENSOR-19
    x = torch.ones(3)
    assert x._version == 0
    x.add_(1)
    assert x._version == 1
    x[0].add_(1)
    x.detach().add_(1)
    assert x._version == 3 and x.tolist() == [4.0, 3.0, 3.0]
    x.data.add_(1)
    assert x._version == 3 and x.tolist() == [5.0, 4.0, 4.0]


def test_modified_saved_input_names_both_lines():
    # rows: INPLACE-03 INPLACE-04
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x = a * 1
    y = x * b
    x.add_(1)
    text = "one of the variables needed for gradient computation has been modified by an inplace operation"
    with pytest.raises(RuntimeError, match=text) as caught:
        y.sum().backward()
    assert "y = x * b" in str(caught.value) and "x.add_(1)" in str(caught.value)
    assert "is at version 1; expected version 0 instead" in str(caught.value)
    with pytest.raises(RuntimeError, match=text):
        _ = y.grad_fn._saved_self


def test_modified_saved_result():
    # rows: INPLACE-05
    b = leaf(1.0).exp()
    b.add_(1)
    with pytest.raises(RuntimeError, match="output 0 of Exp"):
        b.sum().backward()


def test_inplace_where_the_old_value_is_not_needed():
    # rows: INPLACE-06 INPLACE-07
    a = leaf(1.0, 2.0)
    x = a * 1
    y = x + 2
    x.mul_(5)
    (y + x).sum().backward()
    assert a.grad.tolist() == [6.0, 6.0]
    t = leaf(0.5) * 1
    t.cos_()
    assert t.grad_fn.name() == "CosBackward0"


def test_both_factors_of_mul_get_gradients():
    a, b = leaf(2.0), leaf(3.0)
    x = a * 1
    x.mul_(b)
    x.sum().backward()
    assert (a.grad.item(), b.grad.item()) == (3.0, 2.0)


def test_leaves_and_their_views_refuse():
    # rows: INPLACE-08 INPLACE-09 INPLACE-10
    x = leaf(1.0, 2.0)
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad is being used in an in-place operation",
    ):
        x.add_(1)
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used"
    ):
        x[:1].add_(1)
    with torch.no_grad():
        x.sub_(1)
    assert x.tolist() == [0.0, 1.0] and x.is_leaf and x._version == 1


def test_overlap_refuses():
    # rows: INPLACE-12
    with pytest.raises(
        RuntimeError,
        match="more than one element of the written-to tensor refers to a single memory",
    ):
        torch.ones(3).expand(3, 3).add_(1)


def test_writing_to_a_view_rewrites_its_base():
    # rows: VIEW-02 VIEW-03 INPLACE-13
    x = leaf(1.0, 2.0, 3.0, 4.0)
    base = x * 1
    view = base[:2]
    other = base[1:3]
    view.mul_(10)
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    base.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [10.0, 10.0, 1.0, 1.0]
    x.grad = None
    other.sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 1.0, 0.0]


def test_writing_to_a_base_renews_its_views():
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[:2]
    before = view.grad_fn
    base.mul_(3)
    assert view.grad_fn is not before and view.requires_grad
    view.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0]


def test_a_buffer_without_grad_joins_the_graph_with_its_views():
    w = leaf(5.0)
    buffer = torch.zeros(3)
    view, second = buffer[:2], buffer[1:]
    view.add_(w)
    assert buffer.requires_grad and second.requires_grad
    second.sum().backward()
    assert w.grad.tolist() == [1.0]


def test_views_of_views_and_setitem():
    # rows: OPS-05
    x = torch.arange(12.0).requires_grad_()
    grid = (x * 1).view(3, 4)
    grid[1, 2:] = 0
    grid.t()[0] += grid[2, :3].detach()
    (grid * grid).sum().backward()
    values = x.detach().clone().view(3, 4)
    values[1, 2:] = 0
    values.t()[0] += values[2, :3]
    expected = 2 * values
    expected[1, 2:] = 0
    assert torch.equal(x.grad, expected.view(-1))


def test_multi_output_views_refuse():
    # rows: VIEW-04
    x = torch.ones(2, 3, requires_grad=True) * 1
    first, _ = x.unbind(0)
    with pytest.raises(
        RuntimeError, match=r"Output 0 of Unbind\w* is a view and is being modified inplace"
    ):
        first.add_(1)


def test_views_made_in_no_grad_refuse():
    # rows: VIEW-05
    x = leaf(1.0, 2.0) * 1
    with torch.no_grad():
        view = x[:1]
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace"
    ):
        view.add_(x[0])


def test_double_backward_through_copy_slices():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, dtype=torch.float64)

    def f(x):
        base = x * x
        base[:2].mul_(x[1:])
        return base

    assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, x)


def test_dtype_and_shape_of_the_target_are_kept():
    with pytest.raises(
        RuntimeError, match="result type Float can't be cast to the desired output type Long"
    ):
        torch.ones(2, dtype=torch.int64).add_(0.5)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"
    ):
        torch.ones(2).add_(torch.ones(3, 2))


def test_operators_are_in_place():
    # rows: INPLACE-14
    x = torch.ones(2)
    same = x
    x += 1
    x -= 0.5
    x *= 2
    x /= 3
    assert x is same and x._version == 4 and x.tolist() == [1.0, 1.0]


def test_a_view_of_a_view_that_was_made_a_leaf_is_refused():
    y = torch.zeros(1, 1).unsqueeze(0).requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        y[0:].clamp_(min=2.0)
    assert y.is_leaf


@pytest.mark.parametrize("name", ["add_", "sub_"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.bfloat16])
def test_a_factor_of_what_is_added_in_place(name, dtype):
    """The plain way without a graph gives what the product and the sum give."""
    p, g = (torch.tensor([1.0, -2.0, 3.5], dtype=dtype) for _ in range(2))
    with torch.no_grad():
        same = getattr(p, name)(g, alpha=0.3)
    assert same is p and p._version == 1
    expected = g + 0.3 * g if name == "add_" else g - 0.3 * g
    assert torch.allclose(p, expected, rtol=1e-2 if dtype is torch.bfloat16 else 1e-6)


def test_a_factor_of_what_is_added_in_place_is_recorded():
    g = torch.tensor([2.0], requires_grad=True)
    p = torch.tensor([1.0])
    p.add_(g, alpha=0.5)
    p.backward()
    assert g.grad.tolist() == [0.5]
    leaf = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.sub_(torch.ones(1), alpha=0.5)
    saved = leaf.exp()
    y = saved * leaf
    with torch.no_grad():
        saved.sub_(torch.ones(1), alpha=0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_factor_of_what_is_added_in_place_to_its_own_memory():
    p = torch.arange(4.0)
    p.add_(p, alpha=0.5)
    assert p.tolist() == [0.0, 1.5, 3.0, 4.5]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        p[1:].add_(p[:-1], alpha=0.5)
    assert p.tolist() == [0.0, 1.5, 3.0, 4.5]
    with pytest.raises(RuntimeError, match="broadcast shape"):
        p.sub_(torch.ones(2, 4), alpha=0.5)
    assert p.sub_(torch.ones(1), alpha=0.5).tolist() == [-0.5, 1.0, 2.5, 4.0]
    assert torch.tensor([3]).add_(torch.tensor([2]), alpha=2).tolist() == [7]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point"):
        torch.tensor([3]).add_(torch.tensor([2]), alpha=0.5)
