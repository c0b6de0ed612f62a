"""Forward mode: dual levels, dual tensors, and tangents through ops, views, in-place ops and custom functions."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradlib as gl
import gradlib.autograd.forward_ad as fw
from gradlib.autograd import Function


def tangent(tensor):
    return fw.unpack_dual(tensor).tangent


@pytest.fixture
def one():
    return gl.ones(3)


def test_dual_tensors(one):  # rows: FWD-01 FWD-02 FWD-05
    t = gl.tensor([1.0, 2.0, 3.0])
    with fw.dual_level() as level:
        assert level == 0
        dual = fw.make_dual(one, t)
        assert dual._is_view()
        assert dual._base is one
        primal, got = fw.unpack_dual(dual)
        assert got is t
        assert primal.data_ptr() == one.data_ptr()
        assert tangent(primal) is None
        out = fw.unpack_dual(dual.sin() * 2)
        np.testing.assert_allclose(out.tangent, 2 * np.cos(1) * t.numpy(), rtol=1e-6)
        assert tangent(one) is None
    assert fw.UnpackedDualTensor._fields == ("primal", "tangent")


def test_make_dual_errors(one):  # rows: FWD-02 FWD-03 FWD-04
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fw.make_dual(one, one)
    with fw.dual_level():
        with pytest.raises(
            RuntimeError,
            match=r"Tensor is of size \[3\] while the given forward gradient is of size \[4",
        ):
            fw.make_dual(one, gl.ones(4))
        with pytest.raises(
            ValueError,
            match=r"Expected primal to be floating point or complex, but got: torch.int64",
        ):
            fw.make_dual(one.long(), one)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            fw.make_dual(one, one.long())
        dual = fw.make_dual(one, one)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fw.make_dual(dual, one)
        with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
            fw.make_dual(one, dual)
        with pytest.raises(RuntimeError, match="Invalid level"):
            fw.make_dual(one, one, level=1)
        with pytest.raises(TypeError, match="must be Tensor"):
            fw.unpack_dual(3)


def test_levels(one):  # rows: FWD-06 FWD-07 FWD-08
    assert fw.enter_dual_level() == 0
    dual = fw.make_dual(one, one)
    with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported at the moment"):
        fw.enter_dual_level()
    fw.exit_dual_level(level=0)
    for level in (None, 0):
        with pytest.raises(RuntimeError):
            fw.exit_dual_level(level=level)
    assert tangent(dual) is None
    with fw.dual_level():
        assert tangent(dual) is None
        assert tangent(dual.sin()) is None


def test_levels_of_threads_are_independent(one):
    with fw.dual_level():
        dual, found = fw.make_dual(one, one), []

        def other():
            with fw.dual_level():
                found.append(tangent(fw.make_dual(one, one * 5).sin()).tolist())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(found) == 1
        np.testing.assert_allclose(tangent(dual.sin()), np.cos(np.ones(3)), rtol=1e-6)


def test_under_no_grad(one):  # rows: FWD-10
    with fw.dual_level(), gl.no_grad():
        np.testing.assert_allclose(
            tangent(fw.make_dual(one, one).sin()), np.cos(np.ones(3)), rtol=1e-6
        )


@pytest.mark.parametrize(
    "f", [lambda x: (x * x * x).sin(), lambda x: x.exp() * x, lambda x: x.sigmoid() ** 3]
)
def test_forward_over_reverse(f):  # rows: FWD-11
    x = gl.tensor([0.3, -0.5, 1.2], dtype=gl.float64, requires_grad=True)
    v = gl.tensor([1.0, 2.0, -1.0], dtype=gl.float64)
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        (g,) = gl.autograd.grad(f(dual).sum(), dual)
        forward = tangent(g)
    (g,) = gl.autograd.grad(f(x).sum(), x, create_graph=True)
    (reverse,) = gl.autograd.grad(g, x, v)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


def test_reverse_over_forward():
    x = gl.tensor([0.3, -0.5], dtype=gl.float64, requires_grad=True)
    with fw.dual_level():
        t = tangent((fw.make_dual(x, gl.ones(2, dtype=gl.float64)) ** 3).sum())
        (g,) = gl.autograd.grad(t, x)
    np.testing.assert_allclose(g, 6 * x.detach())


def test_numbers_have_no_tangent():
    x = gl.tensor([-1.0, 2.0])
    with fw.dual_level():
        dual = fw.make_dual(x, gl.ones(2))
        assert tangent(dual + 2).tolist() == [1.0, 1.0]
        assert tangent(gl.where(x > 0, 5.0, dual)).tolist() == [1.0, 0.0]


def test_infinite_values_have_zero_tangents():
    with fw.dual_level():
        dual = fw.make_dual(gl.ones(2), gl.ones(2))
        joined = gl.cat([dual, gl.tensor([float("inf")])])
        assert tangent(joined).tolist() == [1.0, 1.0, 0.0]


def test_one_tensor_as_two_arguments():
    """The derived rule tells the arguments apart."""
    x = gl.tensor([0.5, 1.5], dtype=gl.float64, requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, gl.ones(2, dtype=gl.float64))
        t = tangent(gl.atan2(dual, dual) + gl.dot(dual, dual))
        np.testing.assert_allclose(t.detach(), [4.0, 4.0])


def test_detach_drops_the_tangent(one):
    with fw.dual_level():
        dual = fw.make_dual(one, one)
        assert tangent(dual.detach()) is None
        assert tangent(dual.data) is None


@pytest.mark.parametrize("turned", ["never", "before", "after", "both"])
def test_detach_in_place_drops_the_tangent_also_for_views_that_are_made_later(turned):
    with fw.dual_level():
        x = gl.arange(6.0).reshape(2, 3)
        base = fw.make_dual(x, x * 10).neg()
        first = base[1]
        if turned in ("before", "both"):
            base.t_()
        second = base[1]
        base.detach_()
        if turned in ("after", "both"):
            base.t_()
        later = base[1]
        assert tangent(first).tolist() == [-30.0, -40.0, -50.0]
        assert tangent(first[1:]).tolist() == [-40.0, -50.0]  # of a view that has one
        assert tangent(second).tolist() == (second.detach() * 10).tolist()
        views = base, later, base[:1], base.t(), base.reshape(-1), base.diff(), base.diagonal()
        assert [tangent(v) for v in views] == [None] * len(views)
        # all that lies in the memory that is written to has the tangent that is written there
        later.copy_(fw.make_dual(gl.ones_like(later), gl.full_like(later, 7.0)))
        assert gl.equal(tangent(base), (base == 1) * 7.0)
        assert gl.equal(tangent(first), (first == 1) * 7.0)


def test_detach_in_place_inside_vmap_drops_the_tangent():
    def f(x):
        y = x * 2
        first = y[1:]
        y.detach_()
        return y[:2] * x[:2], first * 1, y[1:].sum()

    x = gl.arange(1.0, 7.0).reshape(2, 3)
    push = gl.func.vmap(lambda a, t: gl.func.jvp(f, (a,), (t,))[1])
    found = push(x, gl.ones(2, 3))
    alone = [gl.func.jvp(f, (row,), (gl.ones(3),))[1] for row in x]
    for part, rows in zip(found, zip(*alone, strict=True), strict=True):
        assert gl.equal(part, gl.stack(rows))
    assert gl.equal(found[0], x[:, :2] * 2) and not found[2].any()


def test_inplace(one):
    with fw.dual_level():
        dual = fw.make_dual(one, one * 2)
        target = gl.ones(3)
        assert tangent(target.mul_(dual)).tolist() == [2.0] * 3
        target = dual.clone()
        assert tangent(target.mul_(3)).tolist() == [6.0] * 3
        target = gl.zeros(3)
        assert tangent(target.copy_(dual)).tolist() == [2.0] * 3
        assert tangent(target.zero_()).tolist() == [0.0] * 3


def test_views_share_tangents(one):
    with fw.dual_level():
        base = fw.make_dual(one, one * 2).clone()
        view = base[:2]
        base.mul_(3)
        assert tangent(view).tolist() == [6.0, 6.0]
        view.mul_(10)
        assert tangent(base).tolist() == [60.0, 60.0, 6.0]
        plain = gl.zeros(3)
        part = plain[1:]
        plain[:2].copy_(fw.make_dual(gl.ones(2), gl.tensor([5.0, 7.0])))
        assert tangent(part).tolist() == [7.0, 0.0]
        # a dual is a view of its primal, but its tangent is its own
        dual = fw.make_dual(gl.ones(3), one.clone())
        dual[0].mul_(4)
        assert tangent(dual).tolist() == [4.0, 1.0, 1.0]
        assert tangent(dual._base) is None


def test_saved_tensor_hooks_keep_tangents():
    x = gl.tensor([0.3, 0.4], dtype=gl.float64, requires_grad=True)
    with (
        fw.dual_level(),
        gl.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), gl.from_numpy),
    ):
        dual = fw.make_dual(x, gl.ones(2, dtype=gl.float64))
        for f, second in (
            (lambda t: t * t * t, 6 * x.detach()),
            (lambda t: t.exp(), x.detach().exp()),
        ):
            (g,) = gl.autograd.grad(f(dual).sum(), dual)
            np.testing.assert_allclose(tangent(g), second)


# -- custom functions --------------------------------------------------------------------------------------------------


class Product(Function):
    @staticmethod
    def forward(ctx, x, y, z):
        assert tangent(x) is None
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.z = z
        return x * y * z

    @staticmethod
    def jvp(ctx, x_t, y_t, z_t):
        assert z_t is None
        x, y = ctx.saved_tensors
        return ctx.z * (y * x_t + x * y_t)

    @staticmethod
    def vjp(ctx, g):
        x, y = ctx.saved_tensors
        return ctx.z * g * y, ctx.z * g * x, None


def test_custom_function():  # rows: FWD-12 FN-13 FN-32 FN-12
    a, b = gl.tensor(1.0, requires_grad=True), gl.tensor(2.0, requires_grad=True)
    with fw.dual_level():
        out = fw.unpack_dual(Product.apply(fw.make_dual(a, gl.tensor(1.0)), b, 4))
        assert out.primal.item() == 8.0
        assert out.tangent.item() == 8.0
    Product.apply(a, b, 4).backward()
    assert a.grad.item() == 8.0


def make(forward, jvp=None):
    body = {"forward": staticmethod(forward)}
    if jvp is not None:
        body["jvp"] = staticmethod(jvp)
    return type("J", (Function,), body)


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_tangents(one, materialize):  # rows: FN-31
    got = []

    def forward(ctx, x, y, n):
        ctx.set_materialize_grads(materialize)
        return x * y

    with fw.dual_level():
        J = make(forward, lambda ctx, *ts: got.append(ts) or ts[0])
        J.apply(fw.make_dual(one, one), gl.ones(3), gl.ones(3, dtype=gl.int64))
    _, y_t, n_t = got[0]
    assert n_t is None
    assert y_t.tolist() == [0.0] * 3 if materialize else y_t is None


def test_custom_function_errors(one):  # rows: FN-13
    with fw.dual_level():
        dual = fw.make_dual(one, one)
        with pytest.raises(
            NotImplementedError, match="You must implement the jvp function for custom"
        ):
            make(lambda ctx, x: x * 2).apply(dual)
        with pytest.raises(
            RuntimeError, match=r"invalid number of forward gradients \(expected 2 but got 1\)"
        ):
            make(lambda ctx, x: (x, x), lambda ctx, t: t).apply(dual)
        with pytest.raises(RuntimeError, match=r"Tensor is of size \[3\] while"):
            make(lambda ctx, x: x * 2, lambda ctx, t: gl.ones(7)).apply(dual)
        with pytest.raises(
            RuntimeError, match=r"expected Variable or None \(got int\) for grad output 0"
        ):
            make(lambda ctx, x: x * 2, lambda ctx, t: 5).apply(dual)
        with pytest.raises(
            RuntimeError, match="the corresponding forward output is not a differentiable Tensor"
        ):
            make(lambda ctx, x: (x * 2, x.long()), lambda ctx, t: (t, t)).apply(dual)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (lambda ctx, t: t.mul_(2), None),
        (lambda ctx, t: t * 2, "not modifying the forward mode gradients inplace"),
        (lambda ctx, t: t.mul_(2)[:], "not returning the forward mode gradients as-is"),
    ],
)
def test_custom_function_in_place(one, rule, text):
    J = make(lambda ctx, x: (ctx.mark_dirty(x), x.mul_(2))[1], rule)
    with fw.dual_level():
        target = fw.make_dual(one, one.clone()).clone()
        if text is None:
            assert J.apply(target) is target
            assert tangent(target).tolist() == [2.0] * 3
        else:
            with pytest.raises(RuntimeError, match=text):
                J.apply(target)


def test_returned_input_has_a_view_of_its_tangent(one):
    with fw.dual_level():
        dual = fw.make_dual(one, one)
        same = make(lambda ctx, x: x, lambda ctx, t: t.view_as(t)).apply(dual)
        assert tangent(same)._base is tangent(dual)
        with pytest.raises(RuntimeError, match="the jvp is not returning a view"):
            make(lambda ctx, x: x, lambda ctx, t: t * 2).apply(dual)


def test_a_tangent_is_nobody_elses():
    """The rule of prod returns the tangent that it is given where there is but one factor."""
    with fw.dual_level():
        dual = fw.make_dual(gl.tensor([[2.0, 3.0]]), gl.tensor([[1.0, 2.0]]))
        product = dual.prod(dim=0)
        dual *= 10
        assert tangent(product).tolist() == [1.0, 2.0]


def test_what_vmap_returns_as_it_came_keeps_the_tangent_of_the_batch():
    with fw.dual_level():
        dual = fw.make_dual(gl.ones(2), gl.ones(2)) * 2
        out = gl.func.vmap(lambda u: u)(dual)
        dual *= 3
        assert tangent(out).tolist() == tangent(dual).tolist() == [6.0, 6.0]


def test_a_view_keeps_its_tangent_where_its_base_is_detached():
    with fw.dual_level():
        base = fw.make_dual(gl.ones(2), gl.ones(2)) * 1
        view = base[:1]
        base.detach_()
        assert tangent(base) is None
        assert tangent(view).tolist() == [1.0]
        view *= 2
        assert tangent(view).tolist() == [2.0]


def test_inference_tensors_have_a_jvp_where_it_is_derived():
    with gl.inference_mode():
        x = gl.tensor([1.0, 3.0])
    assert gl.func.jvp(lambda u: u.aminmax()[1], (x,), (gl.ones(2),))[1].item() == 1.0


IN_PLACE = "sqrt exp tanh sigmoid rsqrt reciprocal tan expm1".split()


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize(
    "around",
    [
        lambda: gl.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t),
        lambda: gl.autograd.graph.save_on_cpu(),
        None,
    ],
)
def test_packed_results_of_writes_have_the_tangents_of_what_was_written(name, around):
    x, t = gl.rand(4, dtype=gl.float64) + 0.2, gl.randn(4, dtype=gl.float64)

    def f(x, written):
        y = x * 1.1
        return getattr(y, name + "_")() if written else getattr(y, name)()

    def push(f):
        return gl.func.jvp(lambda x: gl.func.vjp(f, x)[1](t)[0], (x,), (t,))[1]

    wanted = push(lambda x: f(x, False))
    if around is None:
        found = push(lambda x: gl.utils.checkpoint.checkpoint(f, x, True, use_reentrant=False))
    else:
        with around():
            found = push(lambda x: f(x, True))
    assert gl.allclose(found, wanted)
