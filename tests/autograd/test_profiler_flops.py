"""Estimates of floating point operations in profiles."""

from __future__ import annotations

import pytest
from samples import samples_of

import gradlib
from gradlib.autograd import profiler
from gradlib.op.declare import REGISTRY


# rows: PROF-09
def test_flops_of_products():
    a, b = gradlib.ones(2, 3), gradlib.ones(3, 4)
    with profiler.profile(with_flops=True) as prof:
        a @ b
        a + 1
    assert {e.name: e.flops for e in prof.function_events} == {"mm": 48, "add": 0}
    assert "Total FLOPs" in prof.table()


# rows: PROF-09
@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda t: t(5, 2, 3) @ t(5, 3, 4), 2 * 5 * 2 * 3 * 4),
        (lambda t: t(5, 2, 3) @ t(3, 4), 2 * 5 * 2 * 3 * 4),
        (lambda t: t(2, 3) @ t(3), 2 * 2 * 3),
        (lambda t: t(3) @ t(3), 2 * 3),
        (lambda t: t(3) @ t(3, 4), 2 * 3 * 4),
        (lambda t: gradlib.bmm(t(5, 2, 3), t(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda t: gradlib.addmm(t(4), t(2, 3), t(3, 4)), 2 * 2 * 3 * 4),
        (lambda t: gradlib.baddbmm(t(5, 2, 4), t(5, 2, 3), t(5, 3, 4)), 2 * 5 * 2 * 3 * 4),
        (lambda t: gradlib.nn.functional.linear(t(6, 3), t(4, 3), t(4)), 2 * 6 * 3 * 4),
        (lambda t: gradlib.nn.functional.conv2d(t(2, 3, 8, 8), t(4, 3, 3, 3)), 2 * 2 * 36 * 4 * 27),
        (
            lambda t: gradlib.nn.functional.conv2d(
                t(2, 4, 9, 9), t(6, 2, 3, 3), stride=2, padding=1, groups=2
            ),
            2 * 2 * 25 * 6 * 18,
        ),
        (
            lambda t: gradlib.nn.functional.conv_transpose2d(t(2, 3, 8, 8), t(3, 4, 3, 3)),
            2 * 2 * 64 * 3 * 4 * 9,
        ),
        (lambda t: gradlib.einsum("bij,bjk->bik", t(2, 3, 4), t(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
        (
            lambda t: gradlib.einsum("ij,jk,kl->il", t(2, 3), t(3, 4), t(4, 5)),
            2 * 2 * 3 * 4 + 2 * 2 * 4 * 5,
        ),
    ],
)
def test_flops_of_each_kind_of_product(run, flops):
    with profiler.profile(with_flops=True) as prof:
        run(gradlib.ones)
    assert prof.total_average().flops == flops


# rows: PROF-09
@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (2, 2)])
def test_flops_of_a_convolution_and_its_gradients(groups, stride):
    """Each of the two gradients costs what the convolution without its padding costs."""
    x = gradlib.ones(2, 4, 9, 9, requires_grad=True)
    w = gradlib.ones(6, 4 // groups, 3, 3, requires_grad=True)
    with profiler.profile(with_flops=True) as prof:
        gradlib.nn.functional.conv2d(x, w, stride=stride, groups=groups).sum().backward()
    flops = {e.name: e.flops for e in prof.function_events if e.flops}
    places = ((9 - 3) // stride + 1) ** 2
    once = 2 * 2 * places * w.numel()
    assert flops == {"convolution": once, "conv_grad_input": once, "conv_grad_weight": once}


# rows: PROF-09
def test_flops_of_attention():
    q, k, v = gradlib.ones(2, 3, 4, 8), gradlib.ones(2, 3, 5, 8), gradlib.ones(2, 3, 5, 6)
    with profiler.profile(with_flops=True) as prof:
        gradlib.nn.functional.scaled_dot_product_attention(q, k, v)
    assert prof.total_average().flops == 2 * (2 * 3) * (4 * 8 * 5 + 4 * 5 * 6)


@pytest.mark.host  # by NumPy's overlay; a device without one runs the formula
def test_flops_of_the_gradient_of_attention():
    """One kernel that makes five products where forward makes two."""
    q, k, v = (gradlib.ones(2, 3, *n, requires_grad=True) for n in ((4, 8), (5, 8), (5, 6)))
    with profiler.profile(with_flops=True) as prof:
        gradlib.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
    flops = {e.name: e.flops for e in prof.function_events if e.flops}
    once = 2 * (2 * 3) * (4 * 8 * 5 + 4 * 5 * 6)
    name = "scaled_dot_product_attention"
    assert flops == {name: once, name + "_backward": once + 2 * (2 * 3) * (4 * 5 * (2 * 8 + 6))}


@pytest.mark.parametrize("name", sorted(n for n, op in REGISTRY.items() if op.flops))
def test_flops_are_estimated_for_each_sample(name):
    op = REGISTRY[name]
    for args in samples_of(op):
        with profiler.profile(with_flops=True) as prof:
            op.call(*args)
        flops = sum(e.flops for e in prof.function_events)
        work = all(a.numel() for a in args if isinstance(a, gradlib.Tensor))
        assert flops > 0 if work else flops >= 0
