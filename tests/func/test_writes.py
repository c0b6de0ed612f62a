"""What a transformed function writes to from outside keeps its history; no_grad where a jvp inside a jvp records."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib import func
from gradlib.autograd import forward_ad as fwAD
from gradlib.func import grad, jacfwd, jacrev, jvp, vjp


def test_what_a_function_closes_over_gets_no_private_history():
    c = torch.tensor([1.0, 2.0])
    d, x = c[:1], torch.tensor([3.0, 4.0])
    out, pull = vjp(lambda u: c.mul_(u), x)
    assert not c.requires_grad and not d.requires_grad
    assert out.tolist() == c.tolist() == [3.0, 8.0]
    assert pull(torch.ones(2))[0].tolist() == [1.0, 2.0]
    assert grad(lambda u: d.mul_(u[:1]).sum())(x).tolist() == [3.0, 0.0]
    assert not c.requires_grad and not d.requires_grad


def test_it_gets_that_of_what_is_outside():
    c, x = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0], requires_grad=True)
    d = c[:1]
    grad(lambda u: d.mul_(u[:1]).sum())(x)
    c.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0]


def test_a_transform_around_sees_the_write():
    w, x = torch.zeros(2), torch.tensor([3.0, 4.0])

    def inner(u):
        return grad(lambda z: (w.copy_(z * u) * z).sum())(u).sum() + w.sum()

    assert grad(inner)(x).tolist() == [18.0, 24.0]  # of 2 u u + u u
    assert not w.requires_grad


def test_under_no_grad_a_write_to_what_has_a_history_is_not_recorded():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    with torch.no_grad():
        grad(lambda u: (y.mul_(2) * u).sum())(torch.ones(2))
    y.sum().backward()
    assert y.tolist() == [6.0, 12.0]
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_after_an_error_nothing_of_the_private_graph_is_left():
    c = torch.tensor([1.0, 2.0])

    def fails(u):
        c.mul_(u)
        raise KeyError

    with pytest.raises(KeyError):
        grad(fails)(torch.ones(2))
    assert not c.requires_grad


def test_no_grad_within_reverse_around_a_jvp_inside_a_jvp_is_refused():
    def f(y):
        with torch.no_grad():
            c = y.exp()
        return (y * y * c).sum()

    def unused(y):
        with torch.no_grad():
            y.exp()
        return (y * y * y).sum()

    x = torch.zeros(1)
    with pytest.raises(RuntimeError, match="jvp inside jvp"):
        jacfwd(jacrev(jacfwd(grad(f))))(x)
    assert jacfwd(jacrev(jacfwd(unused)))(x).item() == 6.0


@pytest.mark.parametrize(("written", "used"), [("u", "y"), ("y", "u"), ("u", "v")])
def test_two_levels_of_forward_mode_refuse_one_memory_under_two_names(written, used):
    """The inner level works on copies, which would not see what is written to each other."""

    def outer(y):
        def inner(u, v):
            names = {"u": u, "v": v, "y": y}
            names[written].mul_(2)
            return names[used] * 3

        return jvp(inner, (y, y), (torch.ones(2), torch.ones(2)))[0]

    x = torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"Please clone\(\) one of them first"):
        jvp(outer, (x,), (torch.ones(2),))


def tangents_after(change, x, tangent):
    """(value, tangent) of what `change` returns of a dual tensor, and of that tensor."""
    with fwAD.dual_level():
        y = fwAD.make_dual(x.clone(), tangent.clone())
        found = [fwAD.unpack_dual(a) for a in (change(y), y)]
        return [(a.primal, torch.zeros(3) if a.tangent is None else a.tangent) for a in found]


def test_what_is_differentiated_has_the_tangent_of_what_it_is_an_alias_of():
    x, t = torch.tensor([0.5, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0])

    def clamped(z):
        with torch.no_grad():
            z.clamp_(min=1)
        return z.sum()

    _, (value, tangent) = tangents_after(func.grad(clamped), x, t)
    assert value.tolist() == [1.0, 2.0, 3.0] and tangent.tolist() == [0.0, 2.0, 3.0]

    def part(u, v):
        v[1] /= 2
        return (u * u).sum()

    (value, tangent), _ = tangents_after(lambda y: func.grad(part)(y, y), x, t)
    assert value.tolist() == [1.0, 2.0, 6.0] and tangent.tolist() == [2.0, 2.0, 6.0]

    def through(u, v):
        with torch.no_grad():
            u[:2] *= 3
        return (v * u).sum()

    (value, tangent), (written, its) = tangents_after(lambda y: func.grad(through)(y, y), x, t)
    assert value.tolist() == written.tolist() == [1.5, 6.0, 3.0]
    assert tangent.tolist() == its.tolist() == [3.0, 6.0, 3.0]


def values_and_jacobian(h):
    return lambda *args: (func.vjp(lambda y: h(y, args[1]), args[0])[0],)


@pytest.mark.parametrize("transform", [func.jacrev, values_and_jacobian])
def test_an_argument_that_is_written_and_differentiated_by_has_no_history_afterwards(transform):
    x = torch.tensor([1.0, -2.0])

    def h(y, z):
        z.mul_(y)
        return z * 1

    transform(h)(x, x)
    assert not x.requires_grad and x.is_leaf and x.tolist() == [1.0, 4.0]


def test_the_same_inside_vmap():
    x = torch.tensor([[0.5, 2.0, 3.0], [1.5, 0.2, 0.3]])
    t = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def clamped(z):
        with torch.no_grad():
            z.clamp_(min=1)
        return (z * z).sum()

    def part(u, v):
        v[1] /= 2
        return (u * u).sum()

    for f in (func.grad(clamped), lambda y: func.grad(part)(y, y)):

        def h(y, f=f):
            y = y * 1
            return f(y), y * 1

        alone = [func.jvp(h, (a,), (b,)) for a, b in zip(x, t, strict=True)]
        outside = func.jvp(func.vmap(h), (x,), (t,))
        inside = func.vmap(lambda a, b, h=h: func.jvp(h, (a,), (b,)))(x, t)
        for k in (0, 1):
            for n in (0, 1):
                wanted = torch.stack([a[k][n] for a in alone])
                assert torch.equal(outside[k][n], wanted) and torch.equal(inside[k][n], wanted)


def test_a_module_is_made_inside_a_jvp_inside_a_jvp():
    """Its initialization writes to leaves under no_grad."""

    def f(x):
        layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
            layer.bias.zero_()
        return layer(x**2).sum()

    x = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    second = jvp(lambda q: jvp(f, (q,), (x,))[1], (x,), (x,))[1]
    assert second.item() == pytest.approx(2 * (1 + 2 + 3 * 0.25))
