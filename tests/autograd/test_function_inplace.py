"""autograd.Function: forwards that write to their arguments, return views or the arguments themselves."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.autograd.function import once_differentiable
from tests.autograd.functions import make


@pytest.fixture
def x():
    return gl.tensor([1.0, 2.0, 3.0], requires_grad=True)


def writer(before: bool = False, returns: bool = True):
    """x += 1 in place, which the version counter does not see."""

    def forward(ctx, a):
        if before:
            ctx.mark_dirty(a)
        a.data.add_(1)
        if not before:
            ctx.mark_dirty(a)
        return a if returns else a * 2

    return make(forward, once_differentiable(lambda ctx, g: g))


@pytest.mark.parametrize("before", [True, False])
def test_mark_dirty(x, before):  # rows: FN-23 FN-24 FN-27
    a = x * 1
    b = a * a
    version = a._version
    out = writer(before).apply(a)
    assert out is a
    assert a._version == version + 1
    assert a.grad_fn.name() == "GBackward"
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()
    (a * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_mark_dirty_errors(x):  # rows: FN-24 FN-25 FN-26
    with pytest.raises(
        RuntimeError,
        match="Some elements marked as dirty during the forward method were not returned",
    ):
        writer(returns=False).apply(x * 1)
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad has been used in an in-place operation",
    ):
        writer().apply(gl.ones(3, requires_grad=True))

    def forward(ctx, a):
        out = a * 2
        ctx.mark_dirty(out)
        return out

    with pytest.warns(
        UserWarning, match=r"ctx.mark_dirty\(\) received a tensor that was not an input"
    ):
        make(forward).apply(x)


def test_dirty_view_rewrites_the_base(x):  # rows: FN-23
    base = x * 2
    view = base[:2]
    G = make(lambda ctx, k, a: (a.mul_(3), ctx.mark_dirty(a), a)[2], lambda ctx, g: (None, g * 3))
    assert G.apply(5, view) is view
    assert base.grad_fn.name().endswith("CopySlices")
    (g,) = gl.autograd.grad(base.sum(), x)
    assert g.tolist() == [6.0, 6.0, 2.0]
    two = make(lambda ctx, a: (a.mul_(3), ctx.mark_dirty(a), (a, a * 2))[2])
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        two.apply((x * 2)[:2])


def test_dirty_view_that_is_not_the_first_argument(x):
    G = make(
        lambda ctx, w, a: (a.mul_(w), ctx.mark_dirty(a), ctx.save_for_backward(w), a)[3],
        lambda ctx, g: (g * 7, g * ctx.saved_tensors[0]),
    )
    w, base = gl.tensor([10.0, 100.0], requires_grad=True), x * 2
    G.apply(w, base[:2])
    gw, gx = gl.autograd.grad(base.sum(), (w, x))
    assert gw.tolist() == [7.0, 7.0]
    assert gx.tolist() == [20.0, 200.0, 2.0]


def test_returned_views(x):  # rows: VIEW-06
    V = make(lambda ctx, a: a.view(3, 1), lambda ctx, g: g.view(3))
    y = V.apply(x * 2)
    assert y._is_view()
    assert y.grad_fn.name() == "GBackward"
    with pytest.raises(
        RuntimeError,
        match=r"Output 0 of G is a view and is being modified inplace. This view was cre",
    ):
        y.add_(1)
    base = x * 2
    y = V.apply(base)
    base.add_(1)
    with pytest.raises(
        RuntimeError, match="and its base or another view of its base has been modified inplace"
    ):
        y.sum().backward()
    two = make(lambda ctx, a: (a.view(3, 1), a * 2))
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        two.apply(x * 2)[0].add_(1)


def test_returned_inputs(x):  # rows: VIEW-07
    same = make(lambda ctx, a: a, lambda ctx, g: g * 3)
    y = same.apply(x)
    assert y is not x
    assert y._is_view()
    assert y._base is x
    assert y.grad_fn.name() == "GBackward"
    with pytest.raises(RuntimeError, match="an input was returned as-is"):
        y.add_(1)
    same.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0] * 3
    with gl.no_grad():
        y = same.apply(x)
    assert y is not x
    assert not y.requires_grad
