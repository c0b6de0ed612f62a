"""backward() and grad(): their arguments, the order of nodes, and the layout of ``.grad``."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import backward, grad

README = Path(__file__).parents[2] / "README.md"


def leaf(*values, **kw):
    return torch.tensor(list(values), requires_grad=True, **kw)


def test_backward_of_several_tensors():
    # rows: BWD-01
    a = leaf(1.0, 1.0)
    backward([a * 2, a * 3], [torch.ones(2), torch.ones(2)])
    assert a.grad.tolist() == [5.0, 5.0]
    a.grad = None
    backward((a.sum(), (a * a).sum()))
    assert a.grad.tolist() == [3.0, 3.0]


def test_grad_variables_is_the_deprecated_name():
    # rows: BWD-08
    a = leaf(1.0, 1.0)
    with pytest.warns(
        FutureWarning, match="`grad_variables` is deprecated. Use `grad_tensors` instead."
    ):
        backward([a * 2], grad_variables=[torch.ones(2)])
    assert a.grad.tolist() == [2.0, 2.0]
    with (
        pytest.warns(FutureWarning),
        pytest.raises(RuntimeError) as caught,
    ):
        backward([a * 2], [torch.ones(2)], grad_variables=[torch.ones(2)])
    assert str(caught.value) == (
        "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
        "Please only use `grad_tensors`."
    )


def test_grad_outputs_follow_the_rules_of_grad_tensors():
    # rows: BWD-11
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(
        RuntimeError, match=r"^grad can be implicitly created only for scalar outputs"
    ):
        grad(x * 2, x)
    assert grad(x.sum(), x)[0].tolist() == [1.0, 1.0, 1.0]
    assert grad(x * 2, x, torch.tensor([1.0, 0.0, 2.0]))[0].tolist() == [2.0, 0.0, 4.0]
    assert grad([x.sum(), x * 2], x, [None, torch.ones(3)])[0].tolist() == [3.0, 3.0, 3.0]
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        grad(x * 2, x, torch.ones(2))


def test_only_inputs_false_accumulates_into_the_other_leaves():
    # rows: BWD-12
    a, b = leaf(2.0), leaf(3.0)
    with pytest.warns(
        FutureWarning, match="only_inputs argument is deprecated"
    ) as caught:  # decision D-03
        (ga,) = grad(a * b, a, only_inputs=False)
    assert "ignored" not in str(caught[0].message)
    assert ga.tolist() == [3.0] and a.grad is None and b.grad.tolist() == [2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grad(a * b, a, only_inputs=True)


def test_batched_grad_outputs():
    # rows: BWD-16
    y = leaf(1.0, 2.0, 3.0)
    (out,) = grad(y * y, y, torch.eye(3), is_grads_batched=True)
    assert torch.equal(out, torch.diag(2 * y.detach()))
    with pytest.raises(RuntimeError) as caught:
        grad(y * y, y, torch.eye(2), is_grads_batched=True)
    assert str(caught.value).startswith(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension."
    )


def test_a_node_runs_once_after_all_its_gradients_arrived():
    # rows: BWD-22
    x = leaf(2.0)
    order = []

    def watch(name, t):
        t.grad_fn.register_prehook(lambda gs: order.append((name, gs[0].item())))
        return t

    top = watch("top", x * 1)
    left, right = watch("left", top * 2), watch("right", top * 3)
    deeper = watch("deeper", right * 5)
    join = watch("join", left + deeper)
    x.register_hook(lambda g: order.append(("leaf", g.item())))
    (join * x).sum().backward()
    names = [name for name, _ in order]
    assert sorted(names) == sorted(["join", "left", "right", "deeper", "top", "leaf"])
    for user, used in (
        ("join", "left"),
        ("join", "deeper"),
        ("deeper", "right"),
        ("left", "top"),
        ("right", "top"),
        ("top", "leaf"),
    ):
        assert names.index(user) < names.index(used)
    assert dict(order) == {
        "join": 2.0,
        "left": 2.0,
        "deeper": 2.0,
        "right": 10.0,
        "top": 34.0,
        "leaf": 68.0,
    }
    assert x.grad.tolist() == [68.0]


def test_grad_set_to_none_is_made_anew_by_the_layout_rules():
    # rows: LAYOUT-05
    dense = torch.ones(3, 2).t().detach().requires_grad_()
    gaps = torch.ones(4, 6)[:, ::2].detach().requires_grad_()
    for k in range(1, 4):
        dense.grad = gaps.grad = None
        (dense * k).sum().backward()
        (gaps * k).sum().backward()
        assert dense.grad.stride() == dense.stride() == (1, 2)
        assert gaps.grad.stride() == (3, 1) != gaps.stride()
        assert dense.grad.tolist() == [[float(k)] * 3] * 2
        assert gaps.grad.tolist() == [[float(k)] * 3] * 4


@pytest.mark.parametrize("how", ["module", "optimizer"])
def test_zeroing_keeps_the_layout(how):
    # rows: LAYOUT-06
    model = nn.Linear(2, 3, bias=False)
    model.weight = nn.Parameter(torch.ones(2, 3).t())
    owner = model if how == "module" else torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    before = model.weight.grad
    assert before.stride() == (1, 3)
    owner.zero_grad(set_to_none=False)
    after = model.weight.grad
    assert after is before and after.stride() == (1, 3) and after.tolist() == [[0.0, 0.0]] * 3
    assert not after.requires_grad


def test_a_grad_made_by_hand_keeps_its_layout():
    # rows: LAYOUT-07
    p = torch.ones(2, 3, requires_grad=True)
    p.grad = torch.zeros(3, 2).t()
    mine = p.grad
    assert mine.stride() == (1, 2)
    for k in range(1, 4):
        (p * 2).sum().backward()
        assert p.grad is mine and mine.stride() == (1, 2)
        assert mine.tolist() == [[2.0 * k] * 3] * 2


def test_gradients_of_an_embedding_are_sparse_where_that_is_asked_for():
    # rows: LAYOUT-09
    assert torch.ones(2).is_sparse is False
    weight = torch.ones(3, 2, requires_grad=True)
    nn.functional.embedding(torch.tensor([0]), weight, sparse=True).sum().backward()
    assert weight.grad.is_sparse is True and weight.grad.to_dense().tolist() == [
        [1.0, 1.0],
        [0.0, 0.0],
        [0.0, 0.0],
    ]


@pytest.mark.parametrize("create_graph", [False, True])
def test_each_element_of_a_gradient_has_its_own_place(create_graph):
    x = leaf(1.0, 2.0, 3.0)
    (g,) = grad(x.mean(), x, create_graph=create_graph)
    h = torch.func.grad(lambda u: u.sum())(x.detach())
    with torch.no_grad():
        g[0] = h[1] = 5
    assert g.tolist() == pytest.approx([5.0, 1 / 3, 1 / 3])
    assert h.tolist() == [1.0, 5.0, 1.0]
