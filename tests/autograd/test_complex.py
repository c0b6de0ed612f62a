"""Gradients of complex tensors: dL/dx + j dL/dy, the direction that gradient descent subtracts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd import gradcheck, gradgradcheck


def z(value=3 + 4j):
    return torch.tensor(value, dtype=torch.complex128, requires_grad=True)


def derivative(f, at, grad_output=None):
    x = z(at)
    out = f(x)
    given = None if grad_output is None else torch.tensor(grad_output, dtype=out.dtype)
    return torch.autograd.grad(out, x, given)[0].item()


def test_the_gradient_is_the_direction_of_steepest_ascent():
    # rows: CPLX-01
    x = z()
    loss = x.abs() ** 2
    loss.backward()
    assert x.grad.dtype is torch.complex128 and x.grad.item() == pytest.approx(6 + 8j)
    with torch.no_grad():
        lower = (x - 0.1 * x.grad).abs() ** 2
    assert lower.item() < loss.item()
    # dL/dx and dL/dy of the parts, one by one
    re, im = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (3.0, 4.0))
    (re**2 + im**2).backward()
    assert x.grad.item() == pytest.approx(complex(re.grad.item(), im.grad.item()))


def test_equation_4():
    # rows: CPLX-02
    at, g = 0.6 - 0.8j, 0.3 + 2j
    conj = np.conj
    for f, ds_dz, ds_dzc in (
        (lambda x: x * x, 2 * at, 0),
        (lambda x: x.conj(), 0, 1),
        (lambda x: x * x.conj(), conj(at), at),
        (lambda x: x.exp(), np.exp(at), 0),
        (lambda x: 1 / x, -1 / at**2, 0),
        (lambda x: x.conj().exp() * x, np.exp(conj(at)), at * np.exp(conj(at))),
    ):
        expected = conj(g) * ds_dzc + g * conj(ds_dz)
        assert derivative(f, at, g) == pytest.approx(complex(expected), rel=1e-12)


def test_a_constant_factor():
    # rows: CPLX-03
    assert derivative(lambda x: 3 * x, 1 + 1j, 1) == 3 + 0j
    assert derivative(lambda x: (3 - 2j) * x, 1 + 1j, 1) == 3 + 2j  # conj(c)


def test_complex_to_real():
    # rows: CPLX-04
    for f, expected in (
        (lambda x: x.real, 1),
        (lambda x: x.imag, 1j),
        (lambda x: x.abs(), 0.6 + 0.8j),
        (lambda x: x.angle(), -0.16 + 0.12j),
    ):
        assert derivative(f, 3 + 4j) == pytest.approx(expected)
        assert derivative(f, 3 + 4j, 2.5) == pytest.approx(2.5 * expected)


def test_real_to_complex_has_a_real_gradient():
    # rows: CPLX-05
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (x * (1 + 2j)).backward(torch.tensor(3 + 1j, dtype=torch.complex128))
    assert x.grad.dtype is torch.float64 and x.grad.item() == pytest.approx(5.0)


def test_complex_steps_inside_a_real_function():
    # rows: CPLX-06
    x = torch.tensor([0.3, 1.1, -2.0], dtype=torch.float64, requires_grad=True)
    out = torch.exp(torch.complex(torch.zeros_like(x), x)).real  # cos x
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert grad.dtype is torch.float64
    assert grad.tolist() == pytest.approx([-math.sin(v) for v in x.tolist()])


def test_holomorphic_functions():
    # rows: CPLX-07
    assert derivative(lambda x: (x * x).real, 3 + 4j) == pytest.approx(6 - 8j)


OPS = {
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "abs": lambda x: x.abs(),
    "angle": lambda x: x.angle(),
    "sgn": torch.sgn,
    "view_as_real": torch.view_as_real,
}


def test_complex_operations():
    # rows: CPLX-09
    x = torch.tensor([3 + 4j, -1 + 0.5j, 0.2 - 2j], dtype=torch.complex128, requires_grad=True)
    for f in OPS.values():
        assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))
    a, b = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    pairs = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    for f, args in (
        (torch.polar, (a, b)),
        (torch.complex, (a, b)),
        (torch.view_as_complex, (pairs,)),
    ):
        assert f(*args).is_complex()
        assert gradcheck(f, args) and gradgradcheck(f, args)
    assert torch.view_as_real(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", ["abs", "sgn", "angle"])
def test_at_zero(name):
    # rows: CPLX-10
    x = z(0j)
    out = OPS[name](x)
    out.backward(torch.ones_like(out))
    assert x.grad.item() == 0j


@pytest.mark.host
def test_conj_is_a_view_that_numpy_refuses():
    # rows: CPLX-11
    x = torch.tensor([1 + 2j])
    assert x.conj().is_conj()
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        x.conj().numpy()
    assert x.conj().resolve_conj().numpy().tolist() == [1 - 2j]


def test_two_real_parameters_walk_like_one_complex_one():
    # rows: CPLX-12
    def loss_of(re, im):
        return (re * re - 2 * im) ** 2 + (re * im + 1) ** 2

    w = z(0.5 - 0.3j)
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.5, -0.3))
    a = 0.02
    for _ in range(20):
        w.grad = x.grad = y.grad = None
        loss_of(w.real, w.imag).backward()
        loss_of(x, y).backward()
        with torch.no_grad():
            w -= a * (w.grad / 2)  # dL/dz* is half of .grad
            x -= a / 2 * x.grad
            y -= a / 2 * y.grad
        assert w.item() == pytest.approx(complex(x.item(), y.item()), rel=1e-12)
    assert w.item() != pytest.approx(0.5 - 0.3j, rel=1e-2)


def test_a_complex_scalar_is_no_loss():
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar"):
        (z() * 2).backward()


@pytest.mark.host  # signs of zeros are those of the arithmetic
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("number", [-1.5, -2, 3.0])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_real_number_has_no_imaginary_part_whose_sign_its_conjugate_could_change(
    number, dtype, recorded
):
    x = torch.ones(2, dtype=dtype, requires_grad=True)

    def step():
        return torch.autograd.grad(x * number, x, torch.zeros(2, dtype=dtype))[0]

    step = torch.capture(step) if recorded else step
    for _ in range(4):  # plain, while it is recorded, replayed
        found = np.signbit(torch.view_as_real(step()).numpy()).tolist()
        assert found == np.signbit(np.array([[0.0 * number, 0.0]] * 2)).tolist()
