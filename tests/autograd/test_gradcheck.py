"""gradcheck and gradgradcheck: right gradients pass, wrong ones fail and are diagnosed."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import Function, gradcheck, gradgradcheck
from gradlib.autograd.gradcheck import GradcheckError

FAST = pytest.mark.parametrize("fast", [False, True])


def draw(*shape, dtype=gl.float64):
    return gl.rand(shape, dtype=dtype, requires_grad=True)


def make(forward, backward=None, **more):
    body = {"forward": staticmethod(forward)} | {k: staticmethod(v) for k, v in more.items()}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type("Bad", (Function,), body).apply


def factor(c):
    """x -> 2 x with the gradient of x -> c x."""
    return make(lambda ctx, a: a * 2, lambda ctx, g: g * c)


def save(ctx, a, out):
    ctx.save_for_backward(a)
    return out


def test_names():  # rows: GC-03
    assert issubclass(GradcheckError, RuntimeError)
    module = importlib.import_module("gradlib.autograd.gradcheck")
    assert module.gradcheck is gradcheck is gl.autograd.gradcheck
    assert sys.modules["gradlib.autograd.gradcheck"].GradcheckError is GradcheckError


@FAST
def test_right_gradients_pass(fast):  # rows: GC-01 GC-10 GC-15 CPLX-08
    x, m, z = draw(3), draw(3, 3), draw(2, dtype=gl.complex128)
    assert gradcheck(gl.sin, (x,), fast_mode=fast) is True
    assert gradcheck(gl.sin, x, fast_mode=fast) is True
    everything = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True,
                  "check_grad_dtypes": True, "fast_mode": fast}  # fmt: skip
    for f, inputs in (
        (lambda a, b: (a * b, a.exp()), (x, m)),
        (lambda a, b: a @ b, (m, draw(3, 3))),
        (lambda a: a * a.conj(), (z,)),
        (lambda a: a.abs(), (z,)),
        (lambda a, k: a * k, (x, 4)),
        (lambda a: a.sum(), (draw(0),)),
        (lambda a, b: a * b, (x, gl.rand(3, dtype=gl.float64))),
        (lambda a: gl.view_as_real(a), (z,)),
    ):
        assert gradcheck(f, inputs, **everything)


def test_options():  # rows: GC-04 GC-05 GC-08 GC-09 GC-18
    x = draw(3)
    assert gradcheck(factor(3), (x,), raise_exception=False) is False
    assert gradcheck(factor(3), (x,), rtol=1.0)
    assert gradcheck(factor(3), (x,), atol=5.0)
    assert gradcheck(gl.sin, (x,), 1e-6, 1e-5, 1e-3, True)
    assert gradcheck(factor(3), (x,), 1e-6, 1e-5, 1e-3, False) is False
    assert gradcheck(gl.sin, (x,), eps=1e-3, atol=1e-3)
    with pytest.warns(FutureWarning, match="`check_sparse_nnz` is deprecated"):
        assert gradcheck(gl.sin, (x,), check_sparse_nnz=False)
    assert gradcheck(gl.sin, (x,), masked=True)
    with pytest.raises(TypeError, match="by position"):
        gradcheck(gl.sin, (x,), *range(20))


def test_inputs_are_checked():  # rows: GC-10 GC-11 GC-12 GC-13
    x = draw(3)
    with pytest.raises(
        ValueError,
        match="expects at least one input tensor to require gradient, but none of them have",
    ):
        gradcheck(gl.sin, (x.detach(),))
    with pytest.raises(
        AssertionError, match="at least one of check_forward_ad or check_backward_ad to be True"
    ):
        gradcheck(gl.sin, (x,), check_backward_ad=False)
    with pytest.warns(
        UserWarning, match="Input #0 requires gradient and is not a double precision floating point"
    ):
        gradcheck(gl.sin, (gl.rand(2, requires_grad=True),), raise_exception=False)
    spread = gl.rand(1, dtype=gl.float64).expand(3).requires_grad_()
    with pytest.raises(
        RuntimeError,
        match=r"The 0th input has a dimension with stride 0. gradcheck only supports inputs",
    ):
        gradcheck(gl.sin, (spread,))


@FAST
def test_mismatch(fast):  # rows: GC-02
    with pytest.raises(
        GradcheckError,
        match=r"^Jacobian mismatch for output 0 with respect to input 0,\nnumerical:",
    ) as e:
        gradcheck(factor(3), (draw(3),), fast_mode=fast)
    text = str(e.value)
    if fast:
        assert "in fast mode" in text and "Analytical:\ntensor([[3., 0., 0.]" in text
        assert "The max per-element difference (slow mode) is: 1.0" in text
    else:
        assert "analytical:tensor([[3., 0., 0.]" in text


@FAST
def test_diagnosis(fast):  # rows: GC-02 GC-15
    x, m, z = draw(3), draw(3, 3), draw(2, dtype=gl.complex128)
    square = lambda ctx, a: save(ctx, a, a * a)
    product = lambda ctx, a, b: save(ctx, a, a @ b)
    cases = [
        (factor(3), (x,), "off by a factor of 1.5"),
        (factor(-2), (x,), "wrong sign"),
        (make(square, lambda ctx, g: 2 * g * ctx.saved_tensors[0]), (z,), "complex conjugate"),
        (
            make(product, lambda ctx, g: (None, g.t() @ ctx.saved_tensors[0])),
            (m.detach(), draw(3, 3)),
            "transposed",
        ),
        (
            make(lambda ctx, a, b: a + b, lambda ctx, g: (g, g.sum(1))),
            (m, x),
            "sum over the wrong axis",
        ),
        (make(lambda ctx, a: a * 2, lambda ctx, g: None), (x,), "returns None or zeros"),
        (
            make(square, lambda ctx, g: 2 * g * ctx.saved_tensors[0] ** 2),
            (x,),
            "a factor too much: the input",
        ),
        (make(square, lambda ctx, g: 2 * g), (x,), "lacks a factor: the input"),
        (make(lambda ctx, a: a * 2, lambda ctx, g: g * float("nan")), (x,), "has nan"),
    ]
    for f, inputs, text in cases:
        with pytest.raises(GradcheckError, match=text):
            gradcheck(f, inputs, fast_mode=fast)


def test_complex_outputs_say_which_part():  # rows: GC-15
    f = make(lambda ctx, a: a * 2j, lambda ctx, g: g * 2j)
    with pytest.raises(
        GradcheckError,
        match=r"^While considering the (real|imaginary) part of complex outputs only, Jac",
    ):
        gradcheck(f, (draw(2, dtype=gl.complex128),))


@FAST
def test_nondeterministic_backward(fast):  # rows: GC-06
    f = make(lambda ctx, a: a * 2, lambda ctx, g: g * 2 + gl.rand(3, dtype=gl.float64) * 1e-8 * g)
    with pytest.raises(
        GradcheckError,
        match=r"^Backward is not reentrant, i.e., running backward with same input and gra",
    ):
        gradcheck(f, (draw(3),), fast_mode=fast)
    assert gradcheck(f, (draw(3),), nondet_tol=1e-3, fast_mode=fast)


def test_undefined_gradients():  # rows: GC-07
    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2

    f = make(forward, lambda ctx, g: gl.ones(3, dtype=gl.float64) if g is None else g * 2)
    with pytest.raises(GradcheckError, match="Expected all input grads to be undefined or zero"):
        gradcheck(f, (draw(3),))
    assert gradcheck(f, (draw(3),), check_undefined_grad=False)
    with pytest.raises(TypeError):
        gradcheck(make(forward, lambda ctx, g: g * 2), (draw(3),))

    def refusing(ctx, g):
        if g is None:
            raise RuntimeError("no gradient")
        return g * 2

    with pytest.raises(
        GradcheckError, match="Expected backward function to handle undefined output grads"
    ):
        gradcheck(make(forward, refusing), (draw(3),))


@FAST
def test_imaginary_parts_come_first(fast):
    z = draw(2, dtype=gl.complex128)
    wrong = make(lambda ctx, a: a * 2, lambda ctx, g: g * 3)
    text = "^While considering the imaginary part of complex outputs only, Jacobian mismatch"
    with pytest.raises(GradcheckError, match=text):
        gradcheck(wrong, (z,), fast_mode=fast)
    wrong = make(lambda ctx, a: a * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 3)
    text = "^While considering the imaginary part of complex inputs only, Jacobian computed with forward mode"
    with pytest.raises(GradcheckError, match=text):
        gradcheck(wrong, (z,), fast_mode=fast, check_forward_ad=True)


def test_fast_mode_says_when_only_it_fails():
    almost = gl.tensor([1000.9, 999.1], dtype=gl.float64)  # the projection of 1000, 1000 is small
    slightly = make(lambda ctx, a: 1000 * a.sum(), lambda ctx, g: g * almost)
    assert gradcheck(slightly, (draw(2),))
    text = "Fast gradcheck failed but element-wise differences are small"
    with pytest.raises(GradcheckError, match=text):
        gradcheck(slightly, (draw(2),), fast_mode=True)


@pytest.mark.parametrize("result", [3, None, "a", {}])
def test_outputs_must_be_tensors(result):
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(AttributeError, match="requires_grad"):
            check(lambda a: result, (draw(2),))
        with pytest.raises(AttributeError, match="requires_grad"):
            check(lambda a: (a * 2, result), (draw(2),))


def test_modes_of_gradgradcheck():
    only_forward = {"check_fwd_over_rev": True, "check_rev_over_rev": False}
    for name in ("check_undefined_grad", "check_batched_grad"):
        options = {"check_undefined_grad": False, name: True, **only_forward}
        with pytest.raises(
            AssertionError, match=f"Setting {name}=True requires check_rev_over_rev"
        ):
            gradgradcheck(gl.sin, (draw(2),), **options)
    with pytest.raises(AssertionError, match="Expected at least one of check_fwd_over_rev"):
        gradgradcheck(gl.sin, (draw(2),), check_rev_over_rev=False)
    assert gradgradcheck(gl.sin, (draw(2),), check_undefined_grad=False, **only_forward)


@FAST
def test_batched_gradients_of_numbers(fast):
    options = {"check_batched_grad": True, "fast_mode": fast}
    for f in (gl.sin, lambda a: a.sum(), lambda a: a.reshape(-1), lambda a: (a * a).mean() * a):
        for x in (draw(), draw(1), draw(2)):
            assert gradcheck(f, (x,), **options)
            assert gradgradcheck(f, (x,), **options)


def test_deprecated_jacobians():
    module = importlib.import_module("gradlib.autograd.gradcheck")
    x = draw(2)
    want = np.diag(2 * x.detach().numpy())
    with pytest.warns(FutureWarning, match="`get_numerical_jacobian`"):
        (found,) = module.get_numerical_jacobian(lambda i: i[0] ** 2, (x,))
    np.testing.assert_allclose(found, want, rtol=1e-6)
    with pytest.warns(FutureWarning, match="`get_analytical_jacobian`"):
        (found,), *flags = module.get_analytical_jacobian((x,), x**2)
    np.testing.assert_allclose(found, want)
    assert flags == [True, True, True]
    (found,) = module.get_numerical_jacobian_wrt_specific_input(
        lambda a: a**2, 0, (x,), (x**2,), 1e-6
    )
    np.testing.assert_allclose(found, want, rtol=1e-6)
    with pytest.raises(AssertionError, match="Expected input to have requires_grad=True"):
        module.get_numerical_jacobian_wrt_specific_input(gl.sin, 0, (x.detach(),), (), 1e-6)
    for name in ("get_numerical_jacobian", "get_analytical_jacobian"):
        with pytest.warns(FutureWarning), pytest.raises(ValueError, match=r"grad_out to be 1\.0"):
            getattr(module, name)((x,), x, grad_out=2.0)


def test_backward_that_ignores_grad_output():  # rows: GC-14
    f = make(lambda ctx, a: a.sum(), lambda ctx, g: gl.ones(3, dtype=gl.float64))
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(f, (draw(3),))


def test_outputs_without_gradient():
    assert gradcheck(lambda a: gl.ones(3, dtype=gl.float64), (draw(3),))
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, (draw(3),))


@FAST
def test_forward_mode(fast):  # rows: GC-10
    f = make(lambda ctx, a: a * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 3)
    with pytest.raises(
        GradcheckError,
        match="Jacobian computed with forward mode mismatch for output 0 with respect to",
    ):
        gradcheck(f, (draw(3),), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(f, (draw(3),), fast_mode=fast)
    wrong_backward = make(lambda ctx, a: a * 2, lambda ctx, g: g * 5, jvp=lambda ctx, t: t * 2)
    assert gradcheck(
        wrong_backward, (draw(3),), check_forward_ad=True, check_backward_ad=False, fast_mode=fast
    )


def test_gradgradcheck():  # rows: GC-16 GC-17 GC-18
    x, z = draw(3), draw(2, dtype=gl.complex128)
    assert gradgradcheck(gl.sin, (x,)) is True
    assert gradgradcheck(lambda a: (a * a).exp(), (z,), check_fwd_over_rev=True)
    assert gradgradcheck(
        lambda a, b: (a * b).sin(), (x, draw(3, 3)), fast_mode=True, check_fwd_over_rev=True
    )
    assert gradgradcheck(gl.sin, (x,), gl.rand(3, dtype=gl.float64))
    assert gradgradcheck(gl.sin, (x,), None, 1e-6, 1e-5, 1e-3, True)
    wrong = make(
        lambda ctx, a: save(ctx, a, a * a), lambda ctx, g: 2 * g * ctx.saved_tensors[0].detach()
    )
    assert gradcheck(wrong, (x,))
    with pytest.raises(GradcheckError):
        gradgradcheck(wrong, (x,))
    options = {
        "eps": 1e-6,
        "atol": 1e-5,
        "rtol": 1e-3,
        "nondet_tol": 0.0,
        "check_undefined_grad": True,
        "check_grad_dtypes": True,
        "check_batched_grad": True,
        "check_rev_over_rev": True,
        "masked": False,
    }
    assert gradgradcheck(wrong, (x,), raise_exception=False, **options) is False
    assert gradgradcheck(gl.sin, (x,), **options)


@pytest.mark.parametrize("scattered", [False, True])
def test_contiguity_of_random_gradients(scattered):  # rows: GC-17
    seen = []
    f = make(lambda ctx, a: a * 2, lambda ctx, g: seen.append(g.is_contiguous()) or g * 2)
    assert gradgradcheck(f, (draw(3),), gen_non_contig_grad_outputs=scattered)
    assert seen[0] is not scattered


def test_inputs_are_left_as_they_were():
    x = draw(3)
    before, version = x.tolist(), x._version
    gradcheck(gl.sin, (x,), check_forward_ad=True)
    assert x.tolist() == before
    assert x._version == version
    assert x.grad is None
