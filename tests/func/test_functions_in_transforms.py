"""Custom Functions inside transforms, of tensors that something outside of the transform requires grad of.

A Function gives what its formula gives without it: the same numbers, and the same gradients of a parameter that the
transform does not differentiate with respect to.
"""

from __future__ import annotations

import pytest

import gradlib
from gradlib import func, nn
from gradlib.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap


class Same(gradlib.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a):
        return a * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def jvp(ctx, t):
        return t * 1

    @staticmethod
    def backward(ctx, g):
        return g


class AsItIs(Same):
    @staticmethod
    def forward(a):
        return a

    @staticmethod
    def jvp(ctx, t):
        return t.view_as(t)


class Cube(Same):
    @staticmethod
    def forward(a):
        return a**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, t):
        return 3 * ctx.saved_tensors[0] ** 2 * t

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeByRule(Cube):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, a):
        return CubeByRule.apply(a), in_dims[0]


FUNCTIONS = {
    "same": (lambda a: Same.apply(a) ** 3, lambda a: a**3),
    "as it is": (lambda a: AsItIs.apply(a) ** 3, lambda a: a**3),
    "last": (lambda a: Same.apply(a**3), lambda a: a**3),
    "cube": (Cube.apply, lambda a: a**3),
    "cube of sin": (lambda a: Cube.apply(a.sin()).cos(), lambda a: (a.sin() ** 3).cos()),
    "by rule": (CubeByRule.apply, lambda a: a**3),
}

TRANSFORMS = {
    "grad": lambda u: lambda x: grad(u)(x[0]),
    "jvp": lambda u: lambda x: jvp(u, (x[0],), (x[1],))[1],
    "jacfwd": lambda u: lambda x: jacfwd(u)(x[0]),
    "jacfwd(grad)": lambda u: lambda x: jacfwd(grad(u))(x[0]),
    "jacrev(jacfwd)": lambda u: lambda x: jacrev(jacfwd(u))(x[0]),
    "hessian": lambda u: lambda x: hessian(u)(x[0]),
    "vmap(grad)": lambda u: vmap(grad(u)),
    "vmap(jacfwd)": lambda u: vmap(jacfwd(u)),
    "vmap(jvp)": lambda u: vmap(lambda a: jvp(u, (a,), (a,))[1]),
    "vmap(hessian)": lambda u: vmap(hessian(u)),
    "vmap(jacfwd(grad))": lambda u: vmap(jacfwd(grad(u))),
    "vmap(jacrev(grad))": lambda u: vmap(jacrev(grad(u))),
    "vmap(jacfwd(jacfwd))": lambda u: vmap(jacfwd(jacfwd(u))),
    "vmap(vmap)": lambda u: lambda x: vmap(vmap(u))(x[:, :, None]),
    "vmap(vmap(grad))": lambda u: lambda x: vmap(vmap(grad(u)))(x[:, :, None].expand(4, 3, 3)),
    "jacfwd(vmap)": lambda u: jacfwd(lambda x: vmap(u)(x).sum()),
    "jacfwd(grad(vmap))": lambda u: jacfwd(grad(lambda x: vmap(u)(x).sum())),
    "jacrev(vmap(grad))": lambda u: jacrev(lambda x: vmap(grad(u))(x).sum(0)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_gives_what_its_formula_gives(function, transform):
    x = gradlib.arange(1.0, 13.0, dtype=gradlib.float64).reshape(4, 3) / 7
    results = []
    for f in FUNCTIONS[function]:
        w = gradlib.tensor([2.0, -1.0, 0.5], dtype=gradlib.float64, requires_grad=True)
        result = TRANSFORMS[transform](lambda a, f=f, w=w: f(w * a).sum())(x)
        assert result.requires_grad
        (by_w,) = gradlib.autograd.grad((result * result).sum(), w)
        results.append((result.detach(), by_w))
    for got, expected in zip(*results, strict=True):
        gradlib.testing.assert_close(got, expected)


def hooked():
    gradlib.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
    net[0].register_full_backward_hook(lambda m, gi, go: (None if gi[0] is None else 3 * gi[0],))
    net[0].register_full_backward_pre_hook(lambda m, go: (go[0] + 1,))
    return net


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_modules_with_full_backward_hooks_inside_transforms():
    net = hooked()
    x = gradlib.randn(4, 3, dtype=gradlib.float64)

    def u(a):
        return (net(a) ** 3).sum()

    each = gradlib.stack([grad(u)(a) for a in x])
    gradlib.testing.assert_close(vmap(grad(u))(x), each)
    params = {k: v.detach() for k, v in net.named_parameters()}
    per_sample = grad(lambda p, a: (functional_call(net, p, (a,)) ** 3).sum())
    found = vmap(per_sample, (None, 0))(params, x)
    for name, got in found.items():
        expected = gradlib.stack([per_sample(params, a)[name] for a in x])
        gradlib.testing.assert_close(got, expected)
    twice = vmap(jacrev(grad(u)))(x)
    gradlib.testing.assert_close(twice, gradlib.stack([jacrev(grad(u))(a) for a in x]))


def test_hooks_of_modules_do_not_change_tangents():
    net = hooked()
    plain = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
    plain.load_state_dict(net.state_dict())
    x, t = gradlib.randn(2, 4, 3, dtype=gradlib.float64)
    for given in (x, x.clone().requires_grad_()):
        for f in (jvp, lambda f, x, t: (jacfwd(f)(*x),)):
            got, expected = f(net, (given,), (t,)), f(plain, (given,), (t,))
            gradlib.testing.assert_close(got, expected)
    assert func.vmap(jacfwd(net))(x).shape == (4, 3, 3)


@pytest.mark.parametrize(
    "push",
    [
        lambda f, x, t: jvp(f, (x,), (t,))[1],
        lambda f, x, t: vmap(lambda a, b: jvp(f, (a,), (b,))[1])(x, t),
        lambda f, x, t: jvp(lambda a: jvp(f, (a,), (t,))[1], (x,), (t,))[1],
        lambda f, x, t: grad(lambda a: jvp(f, (a,), (t,))[1].sum())(x),
    ],
)
def test_hooks_of_modules_are_not_called_for_what_a_jvp_gives(push):
    """In PyTorch nothing requires grad inside of a jvp, so that modules have no reason to register them."""
    found = []
    for net in (hooked(), nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()):
        net.load_state_dict(hooked().state_dict())
        x, t = gradlib.linspace(-1, 1, 24, dtype=gradlib.float64).reshape(2, 4, 3)
        push(net, x, t).square().sum().backward()
        found.append([p.grad for p in net.parameters()])
    for got, expected in zip(*found, strict=True):
        gradlib.testing.assert_close(got, expected)


def test_inputs_that_do_not_require_grad_keep_their_tangents_beside_some_that_do():
    class Product(nn.Module):
        def forward(self, a, b):
            return a * b

    net = Product()
    net.register_full_backward_hook(lambda m, gi, go: None)
    a = gradlib.tensor(2.0, requires_grad=True)
    b, t = gradlib.tensor(3.0), gradlib.tensor(5.0)
    value, pushed = jvp(lambda b: net(a, b), (b,), (t,))
    assert (value.item(), pushed.item()) == (6.0, 10.0)
    assert gradlib.autograd.grad(pushed, a)[0].item() == 5.0
