"""vmap on all entries at once gives what the entries give one by one: for every op, value, gradient and tangent."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import gradlib as gl
from gradlib.func import grad, jacfwd, jvp, vmap
from gradlib.op import vmap as batched
from gradlib.op.declare import REGISTRY

sys.path.insert(0, str(Path(__file__).parent.parent / "operators"))  # samples.py
from samples import flat, replaced, samples_of

SIZE = 3
NAMES = sorted(n for n in REGISTRY if not n.startswith("draw_") and not REGISTRY[n].dynamic)


def tensors_of(out) -> list:
    return [out] if isinstance(out, gl.Tensor) else list(out)


def variants(t: gl.Tensor, k: int) -> gl.Tensor:
    """Entry `k` of a batch of tensors like `t`: the same integers, other numbers of the same kind."""
    t = t.detach()
    if not (t.is_floating_point() or t.is_complex()) or not k:
        return t.clone()
    return t + (0.01 * k) * t


def cases(name: str):
    """(function of tensors, batch of each, in_dims) for each sample, with one argument shared in turn."""
    op = REGISTRY[name]
    for args in samples_of(op, requires_grad=False):
        tensors = flat(args)
        stacks = [gl.stack([variants(t, k) for k in range(SIZE)]) for t in tensors]

        def fn(*new, args=args):
            return op.call(*replaced(args, list(new)))

        yield fn, stacks, (0,) * len(stacks)
        if len(stacks) > 1:
            for i in range(len(stacks)):
                mixed = [s[0] if j == i else s for j, s in enumerate(stacks)]
                yield fn, mixed, tuple(None if j == i else 0 for j in range(len(stacks)))


def entries(stacks, dims, k):
    return [s if d is None else s[k] for s, d in zip(stacks, dims, strict=True)]


def close(a, b) -> bool:
    x, y = (t.detach().numpy(force=True) for t in (a, b))
    return np.allclose(x, y, rtol=1e-9, atol=1e-9, equal_nan=True)


def at_once(fn, stacks, dims):
    """``vmap(fn)``, op by op; None for an op whose shape depends on values that differ by entry."""
    level = batched.BatchLevel(SIZE, "error")
    values = [level.entry(s, d) for s, d in zip(stacks, dims, strict=True)]
    try:
        with level.running():
            outs = tensors_of(fn(*values))
    except RuntimeError as exc:
        if "dynamic shape" not in str(exc) and "counts places in memory" not in str(exc):
            raise
        return None
    return [level.result(o, 0) for o in outs]


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    for fn, stacks, dims in cases(name):
        found = at_once(fn, stacks, dims)
        if found is None:
            continue
        for k in range(SIZE):
            expected = tensors_of(fn(*entries(stacks, dims, k)))
            assert len(found) == len(expected)
            for f, e in zip(found, expected, strict=True):
                assert f[k].shape == e.shape and f.dtype == e.dtype
                assert close(f[k], e), (name, dims, [tuple(s.shape) for s in stacks])


def scalar_of(fn):
    """A scalar function of the floating-point results of `fn`."""

    def scalar(*values):
        total = gl.zeros((), dtype=gl.float64)
        for out in tensors_of(fn(*values)):
            if out.is_floating_point():
                total = total + out.sin().sum()
        return total

    return scalar


def tangent_of(scalar):
    """The directional derivative along ones."""
    return lambda *values: jvp(scalar, values, tuple(gl.ones_like(v) for v in values))[1]


def derivatives(fn, stacks):
    """The gradient of `fn` with respect to its floating-point arguments, and its derivative along ones."""
    inputs = tuple(i for i, s in enumerate(stacks) if s.is_floating_point())
    if inputs:
        yield "gradient", grad(scalar_of(fn), inputs)
    if len(inputs) == len(stacks):
        yield "tangent", tangent_of(scalar_of(fn))


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].differentiable])
def test_gradients_and_tangents(name):
    for fn, stacks, dims in cases(name):
        for what, derivative in derivatives(fn, stacks):
            try:
                expected = [tensors_of(derivative(*entries(stacks, dims, k))) for k in range(SIZE)]
            except (NotImplementedError, RuntimeError):
                continue  # no derivative
            found = at_once(derivative, stacks, dims)
            if found is None:
                continue
            for k in range(SIZE):
                for f, e in zip(found, expected[k], strict=True):
                    assert close(f[k], e), (name, what, dims)


def conv_and_pool(x):
    images = gl.nn.functional.conv2d(x[None, None], gl.ones(2, 1, 2, 2), padding=1)
    return gl.nn.functional.max_pool2d(images, 2).flatten()


def picked(x):
    return x.gather(1, gl.tensor([[0, 1], [2, 0], [3, 3]])).clamp(-0.5, 0.5).abs().amax(1)


def rearranged(x):
    return (
        gl.stack([x.t()[1], x.t().contiguous().view(-1)[:3]]).permute(1, 0).expand(2, 3, 2).prod(-1)
    )


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: gl.softmax(x @ x.T, -1).sum(),
        lambda x: gl.nn.functional.layer_norm(x, (4,)).tanh().mean(0),
        lambda x: gl.cat([x[0], x[:, 1], x.reshape(-1)[2:5]]).exp(),
        conv_and_pool,
        lambda x: gl.where(x > 0, x, x * 0.1).var(1),
        lambda x: gl.einsum("ij,kj->ik", x, x).relu().logsumexp(0),
        picked,
        rearranged,
        lambda x: gl.nn.functional.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True),
    ],
)
def test_usual_functions_run_at_once(fn, monkeypatch):
    """No everyday op is run for each entry, nor its gradient."""
    monkeypatch.setattr(batched, "one_by_one", lambda *_: pytest.fail("ran for each entry"))
    monkeypatch.setattr(batched.BatchLevel, "entries", lambda *_: pytest.fail("ran for each entry"))
    x = gl.randn(5, 3, 4)
    out = vmap(fn)(x)
    assert all(close_single(out[k], fn(x[k])) for k in range(5))
    g = vmap(grad(lambda v: fn(v).sin().sum()))(x)
    assert all(close_single(g[k], grad(lambda v: fn(v).sin().sum())(x[k])) for k in range(5))


def close_single(a, b) -> bool:
    return gl.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_per_sample_gradients_of_a_model_run_at_once(monkeypatch):
    monkeypatch.setattr(batched, "one_by_one", lambda *_: pytest.fail("ran for each entry"))
    model = gl.nn.Sequential(gl.nn.Linear(6, 8), gl.nn.Tanh(), gl.nn.Linear(8, 3))
    params = {name: p.detach() for name, p in model.named_parameters()}
    x, t = gl.randn(4, 6), gl.tensor([0, 2, 1, 1])

    def loss(params, x, t):
        out = gl.func.functional_call(model, params, (x[None],))
        return gl.nn.functional.cross_entropy(out, t[None])

    found = vmap(grad(loss), (None, 0, 0))(params, x, t)
    for k in range(4):
        expected = grad(loss)(params, x[k], t[k])
        for name in params:
            assert gl.allclose(found[name][k], expected[name], atol=1e-6)


def test_gradients_flow_out_of_a_batched_run():
    """The physical tensors have a history of their own: outer leaves, closed over or passed in, get gradients."""
    w = gl.randn(4, requires_grad=True, dtype=gl.float64)
    x = gl.randn(3, 4, requires_grad=True, dtype=gl.float64)

    def f(w, x):
        return vmap(grad(lambda v: (v * w).sin().sum() * (v * v).sum()))(x).cos().sum()

    assert gl.autograd.gradcheck(f, (w, x))


def test_a_function_runs_once():
    """Also where it draws, reads values in an op of its own, or is cut in chunks: side effects happen once."""
    x, total = gl.randn(6, 3, 4).abs(), gl.zeros(())
    seen = []

    def f(v):
        seen.append(1)
        total.add_(1)
        taps = gl.searchsorted(v[0].sort()[0], v[1])
        return v + gl.rand(4) + gl.nn.functional.dropout(v), taps

    vmap(f, randomness="different")(x)
    assert len(seen) == 1 and total == 1
    vmap(f, randomness="same", chunk_size=2)(x)
    assert len(seen) == 1 + 3 and total == 4
    with pytest.raises(RuntimeError, match=r"calling \.item"):
        vmap(lambda v: v * v[0, 0].item())(x)


def test_integers_of_functions_that_read_values_have_the_derivative_zero():
    x = gl.randn(4, 3)
    edges = gl.tensor([-1.0, 0.0, 1.0])
    for f in (
        lambda v: gl.bucketize(v, edges),
        lambda v: gl.searchsorted(v.sort()[0], v, right=True),
    ):
        expected = gl.stack([f(row) for row in x])
        for out, tangent in (
            vmap(lambda v, f=f: jvp(f, (v,), (v,)))(x),
            jvp(vmap(f), (x,), (x,)),
        ):
            assert gl.equal(out, expected) and gl.equal(tangent, gl.zeros_like(expected))
        rows = vmap(jacfwd(f))(x)
        assert rows.shape == (4, 3, 3) and rows.dtype is gl.int64 and not rows.any()


@pytest.mark.parametrize("chunk", [None, 2])
def test_random_numbers_are_those_of_each_entry_or_of_all(chunk):
    x = gl.zeros(5, 3)
    draws = [
        lambda v: gl.randn(2, 3), lambda v: gl.rand_like(v), lambda v: v.clone().normal_(), lambda v: gl.randperm(40),
        lambda v: gl.nn.functional.dropout(v + 1, 0.5), lambda v: gl.bernoulli(v + 0.5), lambda v: gl.normal(v, 1.0),
        lambda v: gl.nn.functional.gumbel_softmax(v), lambda v: gl.multinomial(gl.softmax(v, 0), 2),
        lambda v: gl.nn.functional.rrelu(v - 1, training=True), lambda v: gl.randint(0, 10**6, (2,)),
        lambda v: gl.nn.functional.alpha_dropout(v + 1, 0.5, True), lambda v: gl.poisson(v + 9),
        lambda v: v.clone().uniform_().requires_grad_(),
    ]  # fmt: skip
    for draw in draws:
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(draw)(x)
        same = vmap(draw, randomness="same", chunk_size=chunk)(x)
        assert same.shape[0] == 5 and all(close_single(row, same[0]) for row in same)
        many = [vmap(draw, randomness="different", chunk_size=chunk)(x) for _ in range(8)]
        assert not all(gl.equal(row, m[0]) for m in many for row in m)


def test_random_numbers_in_place_of_what_entries_share():
    shared = gl.zeros(3)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda v: v + shared.normal_(), randomness="different")(gl.zeros(4, 3))
    out = vmap(lambda v: v + shared.normal_(), randomness="same")(gl.zeros(4, 3))
    assert gl.equal(out, shared.expand(4, 3))


def test_drawn_values_end_the_gradient():
    x = gl.rand(4, 3)
    g = vmap(grad(lambda v: (v * 1).normal_().sum() + v.sum()), randomness="different")(x)
    assert gl.equal(g, gl.ones(4, 3))
    masked = vmap(grad(lambda v: gl.nn.functional.dropout(v, 0.5).sum()), randomness="different")(x)
    assert all(value in (0.0, 2.0) for value in masked.flatten().tolist())


def test_writes_of_one_entry_reach_its_views():
    def f(v):
        out = v * 1.0
        out[0].mul_(2.0)
        out += v
        return out

    x = gl.randn(3, 4)
    out = vmap(f)(x)
    assert all(gl.allclose(out[k], f(x[k])) for k in range(3))


def test_on_a_device(cuda):
    """The stand-in for an entry has its layout and device, not its values."""
    model = gl.nn.Sequential(gl.nn.Linear(6, 8), gl.nn.Tanh(), gl.nn.Linear(8, 3)).to("cuda")
    params = {name: p.detach() for name, p in model.named_parameters()}
    x, t = gl.randn(4, 6).cuda(), gl.tensor([0, 2, 1, 1]).cuda()

    def loss(params, x, t):
        assert x.is_cuda and x.device == t.device and gl.zeros_like(x).is_cuda
        return gl.nn.functional.cross_entropy(
            gl.func.functional_call(model, params, (x[None],)), t[None]
        )

    found = vmap(grad(loss), (None, 0, 0))(params, x, t)
    for k in range(4):
        expected = grad(loss)(params, x[k], t[k])
        for name in params:
            assert found[name].is_cuda
            assert gl.allclose(found[name][k].cpu(), expected[name].cpu(), atol=1e-6)


F = gl.nn.functional
# functions that make tensors of their own, beside those they are given
WITH_CONSTANTS = {
    "affine_grid": lambda x: F.affine_grid(x[None, :2, :3], (1, 1, 3, 3), align_corners=False),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "ctc_loss": lambda x: F.ctc_loss(
        x.log_softmax(-1)[:, None], gl.tensor([[1, 2]]), gl.tensor([4]), gl.tensor([2])
    ),
    "embedding_bag": lambda x: F.embedding_bag(gl.tensor([[0, 1]], device=x.device), x),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, gl.tensor([0, 1, 2, 0], device=x.device)),
    "mvlgamma": lambda x: gl.mvlgamma(x.exp() + 1, 2),
    "pdist": lambda x: F.pdist(x),
}


@pytest.mark.parametrize("name", WITH_CONSTANTS)
def test_constants_are_made_where_the_batch_is(name, cuda):
    fn, x = WITH_CONSTANTS[name], gl.randn(3, 4, 5, dtype=gl.float64)
    for f in (fn, grad(lambda v: fn(v).sin().sum())):
        try:
            expected = vmap(f)(x.cpu())
        except RuntimeError as exc:  # ctc_loss has no gradient there: the losses' values are needed
            with pytest.raises(RuntimeError, match=re.escape(str(exc)[:60])):
                vmap(f)(x.cuda())
            continue
        found = vmap(f)(x.cuda())
        assert found.is_cuda
        gl.testing.assert_close(found.cpu(), expected)
        gl.testing.assert_close(f(x[1].cuda()).cpu(), expected[1])


@pytest.mark.parametrize("dtype", [gl.float64, gl.float32, gl.complex128])
def test_as_strided_of_elements_that_share_memory_inside_vmap(dtype):
    """Their gradient is shared among them: by counts, which are constants of the batch."""
    x = gl.tensor(0.5, dtype=dtype)

    def f(z):
        return z.as_strided((1,), (0,)) * 4

    for found in (
        gl.func.jacrev(f)(x.expand(2)),
        gl.func.jacrev(f)(x.expand(1, 2)).reshape(1, 2),
    ):
        assert gl.equal(found, gl.full((1, 2), 2.0, dtype=dtype))
    assert jacfwd(f)(gl.ones(2, dtype=dtype)).tolist() == [[4, 0]]
