"""Functions whose shape depends on values, inside transforms of a tensor that requires grad outside of them."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib.func import grad, hessian, jacfwd, jacrev, vmap

SELECT = {
    "masked_select": lambda y: y.masked_select(y > 0),
    "index": lambda y: y[y > 0],
    "nonzero": lambda y: y.reshape(-1)[(y.reshape(-1) > 0).nonzero()[:, 0]],
    "masked_scatter": lambda y: torch.zeros_like(y).masked_scatter(y > 0, y),
}
TRANSFORMS = {
    "jacfwd(hessian)": lambda f: jacfwd(hessian(f)),
    "hessian": hessian,
    "jacfwd(jacfwd)": lambda f: jacfwd(jacfwd(f)),
    "jacrev(jacfwd)": lambda f: jacrev(jacfwd(f)),
    "jacrev(hessian)": lambda f: jacrev(hessian(f)),
    "jacfwd(grad)": lambda f: jacfwd(grad(lambda x: f(x).sum())),
    "jacfwd(jacfwd(jacfwd))": lambda f: jacfwd(jacfwd(jacfwd(f))),
    "vmap(jacfwd)": lambda f: lambda x: vmap(lambda t: jacfwd(lambda a: f(a) * t)(x))(torch.ones(2, dtype=x.dtype)),
}  # fmt: skip


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("select", SELECT)
def test_what_is_selected_has_the_derivatives_of_what_it_is(select, transform, outside):
    found = []
    for chosen in (SELECT[select], lambda y: y):
        x = torch.tensor(0.7, dtype=torch.float64, requires_grad=outside)
        w = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
        out = TRANSFORMS[transform](lambda y, c=chosen, w=w: c(y * w) ** 5)(x).sum()
        targets = [w, x] if outside else [w]
        found.append((out.detach(), *torch.autograd.grad(out, targets)))
    torch.testing.assert_close(*found)
