"""A function writes what it is differentiated by through one view, and returns another one of the same memory."""

import itertools

import pytest

import gradlib as torch
from gradlib import func

BASES = {
    "new": lambda y: y.new_zeros(3, 3),
    "view": lambda y: y.new_zeros(3, 3)[:],
    "view of a view": lambda y: y.new_zeros(1, 4, 3)[0][1:],
}
VIEWS = {
    "itself": lambda b: b, "all": lambda b: b[:], "row": lambda b: b[1], "transposed": lambda b: b.t(),
    "diagonal": lambda b: b.diagonal(), "flat": lambda b: b.view(-1) if b.is_contiguous() else b[0],
}  # fmt: skip
WRITES = {
    "add_": lambda v, y: v.add_(y), "copy_": lambda v, y: v.copy_(y.expand_as(v)),
    "item": lambda v, y: v.__setitem__(0, y), "mul_": lambda v, y: v.add_(1).mul_(y),
}  # fmt: skip


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("write", WRITES)
def test_all_transforms_give_the_same(base, write):
    for returned, written, early in itertools.product(VIEWS, VIEWS, (True, False)):

        def f(y, returned=returned, written=written, early=early):
            b = BASES[base](y)
            out = VIEWS[returned](b) if early else None
            WRITES[write](VIEWS[written](b), y * 3)
            return VIEWS[returned](b) if out is None else out

        y = torch.tensor(2.0, requires_grad=True)
        out = f(y)
        wanted = torch.stack(
            [
                torch.zeros(())
                if not o.requires_grad
                else torch.autograd.grad(o, y, retain_graph=True)[0]
                for o in out.reshape(-1)
            ]
        ).reshape(out.shape)
        y = y.detach()
        case = returned, written, early
        value, pull = func.vjp(f, y)
        assert torch.equal(value, out.detach()) and not value.requires_grad, case
        weights = torch.arange(float(value.numel())).reshape(value.shape) + 1
        assert torch.equal(pull(weights)[0], (weights * wanted).sum()), case
        assert torch.equal(func.jacrev(f)(y), wanted), case
        assert torch.equal(func.jacfwd(f)(y), wanted), case
        assert torch.equal(func.jvp(f, (y,), (torch.ones(()),))[1], wanted), case
        assert torch.equal(
            func.grad(lambda y, f=f, w=weights: (f(y) * w).sum())(y), (weights * wanted).sum()
        ), case
        ys = torch.stack([y, y])
        assert torch.equal(func.vmap(func.jacrev(f))(ys), torch.stack([wanted, wanted])), case
        assert torch.equal(func.linearize(f, y)[1](torch.ones(())), wanted), case
        assert torch.equal(torch.autograd.functional.jacobian(f, y), wanted), case


def test_views_made_under_no_grad_are_differentiated_as_often_as_others():
    """They require grad as their base does, and have no history: nothing but a transform differentiates them."""
    x = torch.tensor([[3.0]], dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        views = [x.diagonal(), x[0:], x.view(1), x.t(), x.view_as(x), x[0]]

    def f(z):
        return (z**3).sum()

    def inner(z):
        return func.grad(f)(z).sum()

    for y in views:
        assert y.requires_grad and y.is_leaf
        second = [
            func.grad(inner)(y),
            func.jacrev(inner)(y),
            func.jacfwd(inner)(y),
            func.hessian(f)(y),
        ]
        assert [t.item() for t in second] == [18.0] * 4
        third = func.grad(lambda z: func.grad(inner)(z).sum())(y)
        assert third.item() == 6.0
