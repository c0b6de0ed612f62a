"""Small functions of tensors made of what is none by itself: optimizers, schedules, hooks, modes, containers, data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import gradlib as gl
from gradlib import nn, optim
from gradlib.autograd import Function, forward_ad
from gradlib.func import functional_call


def steps(
    name: str, p: gl.Tensor, g: gl.Tensor, differentiable: bool = True, **options: Any
) -> gl.Tensor:
    """The parameter after two steps of an optimizer from `p` with the gradient `g`."""
    if differentiable:
        p, options["differentiable"] = p.clone(), True
    else:
        p, g = p.detach().clone(), g.detach()
    optimizer = getattr(optim, name)([p], **options)
    if name == "SparseAdam":
        g = g.to_sparse(min(g.ndim, 1))
    p.grad = g
    optimizer.step()
    p.grad = g * 2
    optimizer.step()
    return p


def searched(p: gl.Tensor, g: gl.Tensor) -> gl.Tensor:
    """The parameter after a step of LBFGS on a quadratic function with the gradient `p + g`."""
    p, g = p.detach().clone(), g.detach()
    optimizer = optim.LBFGS([p], lr=0.1, max_iter=2)

    def closure() -> gl.Tensor:
        p.grad = p + g
        return (p * p / 2 + p * g).sum()

    optimizer.step(closure)
    return p


def scheduled(make: Callable, p: gl.Tensor, g: gl.Tensor, *given: Any) -> gl.Tensor:
    """The parameter after three steps of momentum, between which the schedule `make(optimizer)` goes on."""
    p = p.clone()
    optimizer = optim.SGD([p], lr=0.5, momentum=0.5, differentiable=True)
    schedule = make(optimizer)
    for k in range(3):
        p.grad = g * (k + 1)
        optimizer.step()
        schedule.step(*given)
    return p


def with_gradients(
    change: Callable[[list[gl.Tensor]], Any], *grads: gl.Tensor
) -> list[gl.Tensor | None]:
    """The gradients of parameters after `change(parameters)`."""
    ps = [gl.zeros_like(g) for g in grads]
    for p, g in zip(ps, grads, strict=True):
        p.grad = g.clone()
    change(ps)
    return [p.grad for p in ps]


def within(context: Any, f: Callable, *tensors: gl.Tensor) -> Any:
    """`f` under a context."""
    assert isinstance(context, AbstractContextManager)
    with context:
        return f(*tensors)


def recorded(f: Callable, *tensors: gl.Tensor) -> Any:
    """`f` of tensors that require grad, whatever the mode."""
    with gl.enable_grad():
        own = [t * 1 for t in tensors]
        found = f(*[t if t.requires_grad else t.requires_grad_() for t in own])
    if gl.is_grad_enabled():
        return found
    return found.detach() if isinstance(found, gl.Tensor) else [t.detach() for t in found]


def initial(name: str, x: gl.Tensor, *options: Any) -> gl.Tensor:
    """Initial values in the shape of `x`, and `x`."""
    return getattr(nn.init, name)(gl.empty_like(x.detach()), *options) + x


def dual(x: gl.Tensor, t: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
    """The value and the tangent of `sin(x) x`."""
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, t)
        value, tangent = forward_ad.unpack_dual(y.sin() * y)
        assert tangent is not None
        return value, tangent


def dual_by_number(x: gl.Tensor, t: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
    """The same with the level entered and left by hand."""
    level = forward_ad.enter_dual_level()
    try:
        y = forward_ad.make_dual(x, t, level=level)
        value, tangent = forward_ad.unpack_dual(y.sin() * y, level=level)
    finally:
        forward_ad.exit_dual_level(level=level)
    assert tangent is not None
    return value, tangent


class Cube(Function):
    """x ** 3, with the context set up apart, a tangent and a rule for batches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        (x,) = ctx.saved_tensors
        return grads[0] * (3 * x * x).conj()

    @staticmethod
    def jvp(ctx, *tangents):
        (x,) = ctx.saved_tensors
        return tangents[0] * 3 * x * x


class CastCube(Function):
    """The same in the old form, in the type that autocast chooses."""

    @staticmethod
    @gl.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @gl.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (3 * x * x).conj()


class OnceCube(Function):
    """The same with a gradient that is not differentiated again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @gl.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (3 * x * x).conj()


class AddIn(gl.autograd.function.InplaceFunction):
    """x + x, written to x."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Listed(nn.Module):
    """Layers kept in a ModuleList, applied one after the other."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Named(nn.Module):
    """The same with a ModuleDict."""

    def __init__(self, **layers: nn.Module):
        super().__init__()
        self.layers = nn.ModuleDict(layers)

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x


class Weights(nn.Module):
    """x times the sum and the product of parameters in a container."""

    def __init__(self, make: Callable[[nn.Parameter, nn.Parameter], nn.Module]):
        super().__init__()
        self.held = make(nn.Parameter(gl.ones(4)), nn.Parameter(gl.ones(4)))

    def forward(self, x):
        held: Any = self.held
        a, b = held.values() if hasattr(held, "values") else held
        return x * (a + b) + a * b


class Doubled(nn.Module):
    """A parametrization: twice the square."""

    def forward(self, x):
        return 2 * x * x


def changed(layer: nn.Module, change: Callable, *rest: Any, **options: Any) -> nn.Module:
    """`layer` after `change(layer, ...)`, which may give it nothing back."""
    change(layer, *rest, **options)
    return layer


class Cached(nn.Module):
    """A parametrized layer used twice within `parametrize.cached`."""

    def __init__(self):
        super().__init__()
        self.layer = changed(
            nn.Linear(3, 3), nn.utils.parametrize.register_parametrization, "weight", Doubled()
        )

    def forward(self, x):
        with nn.utils.parametrize.cached():
            return self.layer(self.layer(x))


def frozen(module: nn.Module) -> nn.Module:
    """A module for evaluation, with numbers instead of random weights."""
    module = module.double().eval()
    with gl.no_grad():
        for k, t in enumerate([*module.parameters(), *module.buffers()]):
            if t.is_floating_point():
                t.copy_((gl.arange(t.numel(), dtype=t.dtype) * 0.37 + k).sin().abs().view_as(t))
    return module


def stacked_layers(x: gl.Tensor) -> Any:
    """Two layers with their parameters stacked, each called on `x`."""
    layers = [frozen(nn.Linear(4, 3)), frozen(nn.Linear(4, 3))]
    params, buffers = gl.func.stack_module_state(layers)
    return gl.func.vmap(lambda p, b: functional_call(layers[0], (p, b), (x,)), randomness="same")(
        params, buffers
    )


def statistics(x: gl.Tensor) -> Sequence[gl.Tensor]:
    """What update_bn leaves in a layer that saw the rows of `x` in two batches."""
    layer = nn.BatchNorm1d(x.shape[-1]).double()
    optim.swa_utils.update_bn([x[:2], x[2:]], layer)
    return list(layer.buffers())[:2]


def model_average(w: gl.Tensor, v: gl.Tensor) -> list[gl.Tensor]:
    """The parameters of an AveragedModel after a layer had the weights `w`, then `v`."""
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False).double()
    model = optim.swa_utils.AveragedModel(layer)
    for values in (w, v):
        layer.weight = nn.Parameter(values)
        model.update_parameters(layer)
    return list(model.parameters())
