"""Steps with what is made of ops: batches, derivatives of functions, checkpoints, hooks. What each of them leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib as torch
from gradlib import nn
from gradlib.autograd import forward_ad, graph
from gradlib.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from gradlib.nn import functional as F
from gradlib.utils.checkpoint import checkpoint, checkpoint_sequential

Loss = Callable[[Any, Any, Any], Any]


def model() -> Any:
    torch.manual_seed(0)
    layers = (
        nn.Linear(5, 6),
        nn.Tanh(),
        nn.Dropout(0.3),
        nn.Linear(6, 6),
        nn.LayerNorm(6),
        nn.GELU(),
    )
    return nn.Sequential(*layers, nn.Linear(6, 3))


def parameters(m: Any) -> dict:
    return {k: v.detach() for k, v in m.named_parameters()}


def per_sample(m, x, y):
    """Gradients of each entry, clipped, as a loss whose gradient they are."""
    m.eval()
    found = vmap(
        grad(lambda p, v, w: F.mse_loss(functional_call(m, p, (v[None],)), w[None])), (None, 0, 0)
    )(parameters(m), x, y)
    total = 0.0
    for name, p in m.named_parameters():
        scale = (0.1 / (found[name].flatten(1).norm(dim=1) + 1e-6)).clamp(max=1.0)
        mean = torch.einsum("b,b...->...", scale, found[name])
        total = total + (p * mean).sum()
    return total


def tangents(m, x, y):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, y @ torch.ones(3, 5))
        value, tangent = forward_ad.unpack_dual(m(dual))
        return F.mse_loss(value, y) + tangent.pow(2).mean()


def batch_of_gradients(m, x, y):
    x = x.clone().requires_grad_()
    seeds = torch.stack([y, y.sin(), y * 2])
    (found,) = torch.autograd.grad(m(x), x, seeds, is_grads_batched=True, create_graph=True)
    return found.pow(2).mean()


def in_place(m, x, y):
    def f(v):
        v = v.clone()
        v[0] = 3.0
        v.mul_(2)
        v[1:].add_(v[:-1].clone())
        return v.sum() * v

    return F.mse_loss(m(vmap(f)(x)), y)


def input_gradient(m, x, y):
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(m(x).pow(2).sum(), x)
    return F.mse_loss(m(found), y)


TRANSFORMS: dict[str, Loss] = {
    "per_sample": per_sample,
    "grad": lambda m, x, y: m(grad(lambda v: F.mse_loss(m(v), y))(x)).pow(2).sum(),
    "vmap_of_grad_of_outer": lambda m, x, y: (
        F.mse_loss(m(x), y) + vmap(grad(lambda v: m.eval()(v).sum()))(x).pow(2).sum()
    ),
    "jacrev": lambda m, x, y: jacrev(m.eval())(x[0]).pow(2).sum() + m(x).sum(),
    "jacrev_in_chunks": lambda m, x, y: jacrev(m.eval(), chunk_size=2)(x[0]).pow(2).sum(),
    "jacfwd": lambda m, x, y: jacfwd(m.eval())(x[0]).pow(2).sum(),
    "hessian": lambda m, x, y: hessian(lambda v: F.mse_loss(m.eval()(v), y[0]))(x[0]).sum(),
    "jvp": lambda m, x, y: sum(t.pow(2).sum() for t in jvp(m, (x,), (torch.ones_like(x),))),
    "hvp": lambda m, x, y: (
        jvp(grad(lambda v: F.mse_loss(m.eval()(v), y)), (x,), (x.cos(),))[1].pow(2).sum()
    ),
    "vjp": lambda m, x, y: vjp(m, x)[1](y)[0].pow(2).sum() + m(x).sum(),
    "linearize": lambda m, x, y: linearize(m.eval(), x)[1](x.sin()).sum(),
    "duals": tangents,
    "batch_of_gradients": batch_of_gradients,
    "random_for_each": lambda m, x, y: vmap(m, randomness="different")(x).sub(y).pow(2).sum(),
    "in_place_in_batches": in_place,
    "of_functions_of_old": lambda m, x, y: (
        torch.autograd.functional.jacobian(m.eval(), x[0], create_graph=True).pow(2).sum()
        + torch.autograd.functional.hvp(lambda v: m(v).pow(2).sum(), x, x * y.sum())[1].sum()
        * m(x).sum()
    ),
    "input_gradient": input_gradient,
}


def partly_in_place(m, x):
    h = m[0](x).clone()
    h.mul_(2)
    h[0] = 1.0
    return m[1:](h.relu_())


def packed(m, x, y):
    def pack(t):
        return (t.to(torch.bfloat16), t.dtype) if t.is_floating_point() else (t, t.dtype)

    with graph.saved_tensors_hooks(pack, lambda p: p[0].to(p[1])):
        h = m(x)
        some = F.embedding(y.argmax(1), m[0].weight).sum() + h.max(1)[0].sum()
        return some + F.cross_entropy(h, y.argmax(1))


def on_cpu(m, x, y):
    with graph.save_on_cpu():
        return F.mse_loss(m(x), y)


CHECKPOINTS: dict[str, Loss] = {
    "not_reentrant": lambda m, x, y: F.mse_loss(checkpoint(m, x, use_reentrant=False), y),
    "reentrant": lambda m, x, y: F.mse_loss(
        m[5:](
            checkpoint(m[2:5], checkpoint(m[1:2], m[0](x), use_reentrant=True), use_reentrant=True)
        ),
        y,
    ),
    "nested": lambda m, x, y: F.mse_loss(
        checkpoint(
            lambda v: checkpoint(
                m[3:], checkpoint(m[:3], v, use_reentrant=False), use_reentrant=False
            ),
            x,
            use_reentrant=False,
        ),
        y,
    ),
    "sequential": lambda m, x, y: F.mse_loss(
        checkpoint_sequential(m, 3, x, use_reentrant=False), y
    ),
    "other_numbers": lambda m, x, y: F.mse_loss(
        checkpoint(m, x, use_reentrant=False, preserve_rng_state=False), y
    ),
    "in_place": lambda m, x, y: F.mse_loss(
        checkpoint(partly_in_place, m, x, use_reentrant=False), y
    ),
    "to_the_end": lambda m, x, y: (
        F.mse_loss(checkpoint(m, x, use_reentrant=False, early_stop=False), y) + torch.rand(1).sum()
    ),
    "of_a_batch": lambda m, x, y: F.mse_loss(checkpoint(vmap(m.eval()), x, use_reentrant=False), y),
    "packed": packed,
    "on_cpu": on_cpu,
}


def on_tensors(m, x, y):
    h = m[0](x)
    h.register_hook(lambda g: g.clamp(-0.01, 0.01))
    h.register_hook(lambda g: g * 2)
    h.register_hook(lambda g: None)
    a, b = h.chunk(2, 1)
    a.register_hook(lambda g: g + torch.rand(g.shape))
    return F.mse_loss(m[1:](torch.cat([a, b], 1)), y)


def on_nodes(m, x, y):
    h = m[0](x)
    h.grad_fn.register_hook(lambda i, o: tuple([None if g is None else g * 2 for g in i]))
    k = m[1](h)
    k.grad_fn.register_prehook(lambda o: (o[0] * 0.3,))
    return F.mse_loss(m[2:](k), y)


def tripled(t):
    t.grad.mul_(3)


def on_a_leaf_of_the_step(m, x, y):
    leaf = x.clone().requires_grad_()
    leaf.register_hook(lambda g: g * 2)
    leaf.register_post_accumulate_grad_hook(tripled)
    m(leaf).sum().backward()
    return F.mse_loss(m(leaf.grad), y)


def for_a_while(m, x, y):
    handle = m[0].weight.register_hook(lambda g: g * 2)
    F.mse_loss(m(x), y).backward()
    handle.remove()
    return m(x).pow(2).sum()


def retained(m, x, y):
    h = m[0](x).clone()
    h.retain_grad()
    h.mul_(2)
    h[0] += 1
    k = h.sin()
    k.retain_grad()
    F.mse_loss(m[1:](k), y).backward(retain_graph=True)
    first = h.grad.clone()
    (k * y.sum()).sum().backward()
    return F.mse_loss(m[1:](first + h.grad * k.grad), y)


def with_another_effect(m, x, y):
    h = m[0](x)
    h.register_hook(lambda g: SEEN.append(1))
    return F.mse_loss(m[1:](h), y)


def in_the_gradient(m, x, y):
    h = m[0](x)
    h.register_hook(lambda g: g.mul_(0.5))
    return F.mse_loss(m[1:](h) + h.sum(), y)


def that_stays(m, x, y):
    m[0].weight.register_hook(lambda g: g * 0.9)
    return F.mse_loss(m(x), y)


SEEN: list = []
HOOKS: dict[str, Loss] = {
    f.__name__: f
    for f in (on_tensors, on_nodes, on_a_leaf_of_the_step, for_a_while, retained, in_the_gradient)
}
EFFECTS = {  # and what `explain` tells
    with_another_effect: "list.append changes",
    that_stays: "it puts a hook on a tensor that outlives it",
}
