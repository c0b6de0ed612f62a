"""autograd.functional: jacobian, hessian, vjp, jvp, vhp, hvp."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import Function
from gradlib.autograd.differentiate import Rows
from gradlib.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

A = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)


def exp_reducer(x):
    return x.exp().sum(dim=1)


def adder(x, y):
    return 2 * x + 3 * y


def pow_reducer(x):
    return x.pow(3).sum()


def pow_adder_reducer(x, y):
    return (2 * x.pow(2) + 3 * y.pow(2)).sum()


def linear(x):
    return (x * 2).sum()


@pytest.fixture
def x():
    return gl.tensor(A.tolist())


@pytest.fixture
def pair():
    return gl.tensor([1.0, 2.0]), gl.tensor([3.0, 4.0])


def exp_jacobian():
    want = np.zeros((2, 2, 3), np.float32)
    for i in range(2):
        want[i, i] = np.exp(A[i])
    return want


BATCHED = pytest.mark.parametrize("vectorize", [False, True])


@BATCHED
def test_jacobian(x, pair, vectorize):  # rows: FUNC-01 FUNC-02 FUNC-06
    J = jacobian(exp_reducer, x, vectorize=vectorize)
    np.testing.assert_allclose(J, exp_jacobian(), rtol=1e-6)
    assert not J.requires_grad
    a, b = jacobian(adder, pair, vectorize=vectorize)
    assert (a.tolist(), b.tolist()) == ([[2, 0], [0, 2]], [[3, 0], [0, 3]])
    rows = jacobian(lambda x, y: (x * y, y.sum()), pair, vectorize=vectorize)
    assert [[j.tolist() for j in row] for row in rows] == [
        [[[3, 0], [0, 4]], [[1, 0], [0, 2]]],
        [[0, 0], [1, 1]],
    ]
    assert (
        jacobian(lambda x: gl.ones(2), x, vectorize=vectorize).tolist()
        == np.zeros((2, 2, 3)).tolist()
    )
    assert jacobian(lambda x: x * 2, gl.ones(0), vectorize=vectorize).shape == (0, 0)


def test_jacobian_in_forward_mode(x, pair):  # rows: FUNC-07
    options = {"vectorize": True, "strategy": "forward-mode"}
    np.testing.assert_allclose(jacobian(exp_reducer, x, **options), exp_jacobian(), rtol=1e-6)
    rows = jacobian(lambda x, y: (x * y, y.sum()), pair, **options)
    assert rows[0][1].tolist() == [[1, 0], [0, 2]]
    assert rows[1][0].tolist() == [0, 0]
    text = "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented"
    with pytest.raises(NotImplementedError, match=text):
        jacobian(exp_reducer, x, strategy="forward-mode")
    with pytest.raises(
        AssertionError, match='Expected strategy to be either "forward-mode" or "reverse-mode"'
    ):
        jacobian(exp_reducer, x, strategy="x")
    with pytest.raises(NotImplementedError, match="`create_graph=True`"):
        jacobian(exp_reducer, x, create_graph=True, **options)
    with pytest.raises(RuntimeError, match="`strict=True`"):
        jacobian(exp_reducer, x, strict=True, **options)


@BATCHED
def test_create_graph(x, vectorize):  # rows: FUNC-03
    x.requires_grad_()
    J = jacobian(exp_reducer, x, create_graph=True, vectorize=vectorize)
    assert J.grad_fn is not None
    J.sum().backward()
    np.testing.assert_allclose(x.grad, np.exp(A), rtol=1e-6)
    with gl.no_grad():
        assert jacobian(exp_reducer, x, create_graph=True).requires_grad
        np.testing.assert_allclose(jacobian(exp_reducer, x), exp_jacobian(), rtol=1e-6)


def test_strict_jacobian(pair):  # rows: FUNC-04 FUNC-05 FUNC-06
    first = lambda x, y: x * 2
    assert jacobian(first, pair)[1].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(
        RuntimeError,
        match=r"Output 0 of the user-provided function is independent of input 1. This is",
    ):
        jacobian(first, pair, strict=True)
    with pytest.raises(
        RuntimeError, match="Output 0 of the user-provided function does not require gradients"
    ):
        jacobian(lambda x, y: gl.ones(2), pair, strict=True)
    with pytest.raises(
        RuntimeError, match="The jacobian of the user-provided function is independent of input 0"
    ):
        jacobian(lambda x: x * 2, pair[0].requires_grad_(), strict=True, create_graph=True)
    with pytest.raises(
        RuntimeError, match="`strict=True` and `vectorized=True` are not supported together"
    ):
        jacobian(first, pair, strict=True, vectorize=True)


def test_types(x):  # rows: FUNC-08
    start = "must be either a Tensor or a tuple of Tensors but the"
    cases = [
        (
            exp_reducer,
            3,
            f"The inputs given to jacobian {start} given inputs has type <class 'int'>.",
        ),
        (
            exp_reducer,
            (x, 3),
            f"The inputs given to jacobian {start} value at index 1 has type <class 'int'>.",
        ),
        (
            lambda x: 3,
            x,
            f"The outputs of the user-provided function given to jacobian {start} given outputs",
        ),
        (lambda x: (x, 3), x, "value at index 1 has type <class 'int'>"),
    ]
    for f, inputs, text in cases:
        with pytest.raises(TypeError, match=text):
            jacobian(f, inputs)


def test_constants_in_a_lambda(pair):  # rows: FUNC-09
    x, constant = pair
    J = jacobian(lambda t: t * constant, x)
    assert J.tolist() == [[3, 0], [0, 4]]


@BATCHED
def test_hessian(x, pair, vectorize):  # rows: FUNC-10 FUNC-12
    H = hessian(pow_reducer, x, vectorize=vectorize)
    assert H.shape == (2, 3, 2, 3)
    np.testing.assert_allclose(H.reshape(6, 6), np.diag(6 * A.ravel()), rtol=1e-6)
    (aa, ab), (ba, bb) = hessian(pow_adder_reducer, pair, vectorize=vectorize)
    assert aa.tolist() == [[4, 0], [0, 4]]
    assert ab.tolist() == ba.tolist() == [[0, 0], [0, 0]]
    assert bb.tolist() == [[6, 0], [0, 6]]
    graph = hessian(pow_reducer, x.requires_grad_(), create_graph=True, vectorize=vectorize)
    graph.sum().backward()
    np.testing.assert_allclose(x.grad, np.full((2, 3), 6.0), rtol=1e-6)


def test_hessian_forward_over_reverse(x, pair):  # rows: FUNC-12 FUNC-07
    options = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    H = hessian(pow_reducer, x, **options)
    assert H.requires_grad  # as in PyTorch: the inputs are given their flag in place
    np.testing.assert_allclose(H.detach().reshape(6, 6), np.diag(6 * A.ravel()), rtol=1e-6)
    (_, ab), (_, bb) = hessian(pow_adder_reducer, pair, **options)
    assert ab.tolist() == [[0, 0], [0, 0]]
    assert bb.tolist() == [[6, 0], [0, 6]]


@pytest.mark.parametrize("f", [hessian, vhp, hvp])
def test_single_element_functions_only(x, f):  # rows: FUNC-11 FUNC-21
    v = () if f is hessian else (gl.ones(2, 3),)
    name = f.__name__
    with pytest.raises(
        RuntimeError,
        match=f"The Tensor returned by the function given to {name} should contain a single",
    ):
        f(exp_reducer, x, *v)
    with pytest.raises(
        RuntimeError, match=f"The function given to {name} should return a single Tensor"
    ):
        f(lambda x: (x.sum(), x.sum()), x, *v)
    with pytest.raises(
        RuntimeError,
        match=r"While computing the hessian, found that the jacobian.*input 0 is independent",
    ):
        f(linear, x, *v, strict=True)


def test_vjp(x, pair):  # rows: FUNC-13 FUNC-14
    y, g = vjp(exp_reducer, x, gl.ones(2))
    np.testing.assert_allclose(y, np.exp(A).sum(1), rtol=1e-6)
    np.testing.assert_allclose(g, np.exp(A), rtol=1e-6)
    _, (a, b) = vjp(adder, pair, gl.ones(2))
    assert (a.tolist(), b.tolist()) == ([2, 2], [3, 3])
    assert vjp(linear, x)[1].tolist() == np.full((2, 3), 2.0).tolist()
    with pytest.raises(
        RuntimeError,
        match="The vector v can only be None if the user-provided function returns a single",
    ):
        vjp(exp_reducer, x)


def test_jvp(x, pair):  # rows: FUNC-16 FUNC-17 FUNC-18
    y, t = jvp(exp_reducer, x, gl.ones(2, 3))
    np.testing.assert_allclose(t, y, rtol=1e-6)
    assert jvp(adder, pair, (gl.ones(2), gl.ones(2)))[1].tolist() == [5, 5]
    assert jvp(lambda x: x * gl.ones(3), gl.tensor([2.0]))[1].tolist() == [1, 1, 1]
    with pytest.raises(
        RuntimeError,
        match="The vector v can only be None if the input to the user-provided function is",
    ):
        jvp(exp_reducer, x)

    class Cube(Function):
        """Has no jvp."""

        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    np.testing.assert_allclose(jvp(Cube.apply, x, gl.ones(2, 3))[1], 3 * A**2, rtol=1e-6)


def test_v_is_checked(x, pair):  # rows: FUNC-15
    cases = [
        (
            vjp,
            exp_reducer,
            x,
            gl.ones(3),
            r"v has invalid size: should be torch.Size\(\[2\]\) but got torch.Size\(\[3\]\).",
        ),
        (jvp, adder, pair, (gl.ones(2),), "v is a tuple of invalid length: should be 2 but got 1."),
        (
            vjp,
            exp_reducer,
            x,
            (gl.ones(2), gl.ones(2)),
            "The given v should contain a single Tensor.",
        ),
        (jvp, adder, pair, (gl.ones(3), gl.ones(2)), "Entry 0 in v has invalid size"),
    ]
    for f, function, inputs, v, text in cases:
        with pytest.raises(RuntimeError, match=text):
            f(function, inputs, v)


@pytest.mark.parametrize("f", [vhp, hvp])
def test_hessian_products(x, pair, f):  # rows: FUNC-19 FUNC-20 FUNC-21
    y, p = f(pow_reducer, x, gl.ones(2, 3))
    np.testing.assert_allclose(y, (A**3).sum(), rtol=1e-6)
    np.testing.assert_allclose(p, 6 * A, rtol=1e-6)
    _, (a, b) = f(pow_adder_reducer, pair, (gl.zeros(2), gl.ones(2)))
    assert (a.tolist(), b.tolist()) == ([0, 0], [6, 6])
    assert f(pow_reducer, gl.tensor([2.0]))[1].tolist() == [12.0]
    assert f(linear, x, gl.ones(2, 3))[1].tolist() == np.zeros((2, 3)).tolist()
    with pytest.raises(RuntimeError, match="The vector v can only be None if the input"):
        f(pow_reducer, x)


def test_create_graph_of_products(x):  # rows: FUNC-22
    for f, function, v in (
        (vjp, exp_reducer, gl.ones(2)), (jvp, exp_reducer, gl.ones(2, 3)), (vhp, pow_reducer, gl.ones(2, 3)),
        (hvp, pow_reducer, gl.ones(2, 3)),
    ):  # fmt: skip
        assert not any(t.requires_grad for t in f(function, x, v))
        leaf = x.clone().requires_grad_()
        y, p = f(function, leaf, v, create_graph=True)
        assert y.grad_fn.name().startswith("Sum")
        assert p.requires_grad
        p.sum().backward()
        assert leaf.grad is not None


def test_strict_products(pair):  # rows: FUNC-23
    first = lambda x, y: x * 2
    v = gl.ones(2)
    text = "The output of the user-provided function is independent of input 1. This is not allowed in strict mode."
    with pytest.raises(RuntimeError, match=text):
        vjp(first, pair, v, strict=True)
    with pytest.raises(RuntimeError, match=text):
        jvp(first, pair, (v, v), strict=True)
    for f in (vhp, hvp):
        with pytest.raises(RuntimeError, match=text):
            f(lambda x, y: x.pow(3).sum(), pair, (v, v), strict=True)
    for f, given in ((vjp, v), (jvp, (v, v))):
        with pytest.raises(RuntimeError, match="does not require gradients"):
            f(lambda x, y: gl.ones(2), pair, given, strict=True)
        found = f(lambda x, y: gl.ones(2), pair, given)[1]
        for t in found if isinstance(found, tuple) else (found,):
            assert t.tolist() == [0, 0]
    with pytest.raises(
        RuntimeError, match="The jacobian of the user-provided function is independent of input 0"
    ):
        vjp(lambda x: x * 2, pair[0].requires_grad_(), v, create_graph=True, strict=True)


def test_rows_share_one_order_of_nodes_and_hooks_run_in_each():
    x = gl.ones(3, requires_grad=True)
    seen = []

    def f(x):
        y = x.exp()
        y.register_hook(lambda g: seen.append(g.tolist()))
        return y * gl.tensor([1.0, 2.0, 3.0])

    found = jacobian(f, x)
    e = math.exp(1.0)
    assert gl.allclose(found, gl.diag(gl.tensor([e, 2 * e, 3 * e])))
    assert seen == [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]


def test_rows_of_an_output_whose_graph_was_freed():
    x = gl.ones(2, requires_grad=True)
    y = x.exp()
    y.sum().backward()
    row = Rows(y, [x], False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            row(gl.ones(2))
