"""utils.checkpoint: the same gradients with fewer activations, both variants."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref

import numpy as np
import pytest

import gradlib as gl
from gradlib.utils import checkpoint as module
from gradlib.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from tests.autograd.functions import Exp

BOTH = pytest.mark.parametrize("reentrant", [True, False])


def f(a, b, k=1):
    h = (a * b).exp() * k
    return (h * h).sin() + a


def gradients(run):
    a = gl.tensor([0.1, 0.2, 0.3], requires_grad=True)
    b = gl.tensor([0.5, 0.6, 0.7], requires_grad=True)
    run(a * 1, b).sum().backward()
    return np.stack([a.grad.numpy(), b.grad.numpy()])


@BOTH
def test_gradients_are_the_same(reentrant):
    def once(a, b):
        return checkpoint(f, a, b, use_reentrant=reentrant)

    def nested(a, b):
        inner = lambda a, b: once(a, b) * once(b, a)
        return checkpoint(inner, a, b, use_reentrant=reentrant)

    def deep(a, b):
        return checkpoint(lambda a, b: nested(a * 2, b) * once(b, a), a, b, use_reentrant=reentrant)

    np.testing.assert_array_equal(gradients(once), gradients(f))
    np.testing.assert_allclose(
        gradients(nested), gradients(lambda a, b: f(a, b) * f(b, a)), rtol=1e-6
    )
    plain = lambda a, b: f(2 * a, b) * f(b, 2 * a) * f(b, a)
    np.testing.assert_allclose(gradients(deep), gradients(plain), rtol=1e-6)


@BOTH
def test_several_outputs_and_partial_backward(reentrant):
    a = gl.tensor([0.1, 0.2], requires_grad=True)
    _, z, seven = checkpoint(lambda a: (a.exp(), a * a, 7), a, use_reentrant=reentrant)
    assert seven == 7
    z.sum().backward()
    np.testing.assert_allclose(a.grad, [0.2, 0.4], rtol=1e-6)


@BOTH
def test_random_numbers_are_the_same(reentrant):
    a = gl.ones(100, requires_grad=True)
    y = checkpoint(lambda x: gl.nn.functional.dropout(x * 1, 0.5) * x, a, use_reentrant=reentrant)
    state = gl.get_rng_state()
    y.sum().backward()
    assert (gl.get_rng_state() == state).all()
    assert a.grad.tolist() == (2 * y.detach()).tolist()


@BOTH
def test_retained_graph(reentrant):
    a = gl.tensor([0.1, 0.2], requires_grad=True)
    y = checkpoint(lambda a: a.exp(), a, use_reentrant=reentrant).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(a.grad, 2 * np.exp([0.1, 0.2]), rtol=1e-6)


@BOTH
def test_custom_functions_and_in_place_ops_inside(reentrant):
    def part(a):
        b = a * 2
        b.add_(1)
        return Exp.apply(b).sin()

    a = gl.tensor([0.1, 0.2], requires_grad=True)
    (want,) = gl.autograd.grad(part(a).sum(), a)
    checkpoint(part, a, use_reentrant=reentrant).sum().backward()
    np.testing.assert_allclose(a.grad, want)


@BOTH
def test_sequential(reentrant):
    parts = [gl.sin, gl.exp, gl.cos, gl.tanh, gl.sin]
    a = gl.tensor([0.1, 0.2], requires_grad=True)
    y = a
    for p in parts:
        y = p(y)
    (want,) = gl.autograd.grad(y.sum(), a)
    for segments in (1, 2, 5):
        a.grad = None
        checkpoint_sequential(parts, segments, a, use_reentrant=reentrant).sum().backward()
        np.testing.assert_allclose(a.grad, want)
    model = gl.nn.Sequential(gl.nn.Linear(2, 3), gl.nn.Tanh(), gl.nn.Linear(3, 1))
    checkpoint_sequential(model, 2, a, use_reentrant=reentrant).sum().backward()
    assert model[0].weight.grad is not None


def test_without_reentrance_only():
    a = gl.tensor([0.1, 0.2], requires_grad=True)
    w = gl.tensor([2.0, 3.0], requires_grad=True)
    run = lambda *args, **kw: checkpoint(f, *args, use_reentrant=False, **kw)
    (g,) = gl.autograd.grad(run(a, a).sum(), a, create_graph=True)
    (h,) = gl.autograd.grad(g.sum(), a)
    (g2,) = gl.autograd.grad(f(a, a).sum(), a, create_graph=True)
    (h2,) = gl.autograd.grad(g2.sum(), a)
    np.testing.assert_allclose(h, h2, rtol=1e-5)
    np.testing.assert_allclose(run(a, a, k=3).detach(), f(a, a, k=3).detach())
    checkpoint(lambda t: t * w, gl.ones(2), use_reentrant=False).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]
    with gl.no_grad():
        assert not run(a, a).requires_grad


def test_activations_are_not_kept():
    kept = []

    def part(a):
        b = a.exp()
        kept.append(weakref.ref(b._array))
        return b.sin().sum()

    gc.disable()
    try:
        a = gl.ones(4, requires_grad=True)
        y = checkpoint(part, a, use_reentrant=False)
        assert kept[0]() is None
        y.backward()
        assert len(kept) == 2
        assert kept[1]() is None
    finally:
        gc.enable()


def test_early_stop():
    log = []

    def part(x):
        y = x.exp()
        log.append("exp")
        z = y + 1
        log.append("add")
        return z

    def run(**options):
        log.clear()
        a = gl.ones(2, requires_grad=True)
        y = checkpoint(part, a, use_reentrant=False, **options)
        log.clear()
        y.sum().backward()
        return list(log)

    assert run() == []
    assert run(early_stop=False) == ["exp", "add"]
    with module.set_checkpoint_early_stop(False):
        assert run() == ["exp", "add"]


def test_a_second_run_that_differs():
    runs = []

    def unsteady(first, second):
        def part(a):
            runs.append(1)
            return first(a) if len(runs) == 1 else second(a)

        return part

    def run(first, second, **options):
        runs.clear()
        a = gl.ones(3, requires_grad=True)
        checkpoint(unsteady(first, second), a, use_reentrant=False, **options).sum().backward()

    with pytest.raises(
        CheckpointError, match="A different number of tensors was saved during the original forward"
    ):
        run(lambda a: a.exp().sin(), lambda a: a.exp())
    with pytest.raises(
        CheckpointError, match="trying to save more tensors during recomputation than"
    ):
        run(lambda a: a.exp(), lambda a: a.exp().sin(), early_stop=False)
    with pytest.raises(
        CheckpointError, match="have different metadata than during the forward pass"
    ):
        run(lambda a: a.exp().sin(), lambda a: gl.cat([a, a]).exp().sin())
    with pytest.raises(CheckpointError, match="all tensors saved in forward") as e:
        run(lambda a: a.exp().sin(), lambda a: gl.cat([a, a]).exp().sin(), debug=True)
    first, second = str(e.value).split("Ops of the recomputation")
    assert "1 of 2: aten.exp.default(float32[3]) -> float32[3]" in first
    assert "1 of 3: aten.cat.default(float32[3], float32[3]) -> float32[6]" in second
    assert first.count(f"{__file__}:") == 2


def test_debug_is_a_context_of_its_own():
    contexts = lambda: (contextlib.nullcontext(), contextlib.nullcontext())
    a = gl.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        checkpoint(gl.exp, a, use_reentrant=False, debug=True, context_fn=contexts)
    with module.set_checkpoint_debug_enabled(True):
        y = checkpoint(lambda a: (a * 3).mul_(2).sin(), a, use_reentrant=False)
    y.sum().backward()
    b = gl.ones(3, requires_grad=True)
    (b * 3).mul(2).sin().sum().backward()
    np.testing.assert_array_equal(a.grad, b.grad)


def write_to_saved_result(a):
    return a.exp().mul_(2).sin()


def write_to_saved_argument(a):
    y = a * 1
    z = y.sin()
    y.mul_(2)
    return z * y


@BOTH
@pytest.mark.parametrize("part", [write_to_saved_result, write_to_saved_argument])
def test_saved_tensors_that_the_part_itself_writes_to(reentrant, part):
    a = gl.ones(3, requires_grad=True)
    y = checkpoint(part, a, use_reentrant=reentrant)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation(.|\n)*changed by mul_ at"
    ):
        y.sum().backward()


def test_context_fn():
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *args):
            pass

    a = gl.ones(2, requires_grad=True)
    y = checkpoint(
        gl.exp, a, use_reentrant=False, context_fn=lambda: (Note("forward"), Note("again"))
    )
    assert log == ["forward"]
    y.sum().backward()
    assert log == ["forward", "again"]


def test_arguments():
    a = gl.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint(gl.exp, a)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(gl.exp, a, use_reentrant=True, foo=3)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(gl.exp, a, use_reentrant=False, determinism_check="x")
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(gl.exp, a, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(gl.exp, gl.ones(2), use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"is incompatible with .grad()"):
        gl.autograd.grad(checkpoint(gl.exp, a, use_reentrant=True).sum(), a)


def test_saved_attributes_can_be_read_outside_of_backward():
    a = gl.ones(2, requires_grad=True)
    y = checkpoint(lambda a: (a * 2).exp(), a, use_reentrant=False)
    np.testing.assert_allclose(y.grad_fn._saved_result.detach(), np.exp([2.0, 2.0]), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y.sum().backward()
    np.testing.assert_allclose(a.grad, 2 * np.exp([2.0, 2.0]), rtol=1e-6)


def test_inside_vmap():
    part = lambda x: (x * x).exp().sin()
    run = lambda x: checkpoint(part, x, use_reentrant=False)
    x = gl.rand(4, 3, requires_grad=True)
    np.testing.assert_array_equal(gl.vmap(run)(x.detach()), part(x.detach()))
    slope = gl.func.grad(lambda x: run(x).sum())
    np.testing.assert_allclose(gl.vmap(slope)(x.detach()), slope(x.detach()))
    (g,) = gl.autograd.grad(gl.vmap(run)(x).sum(), x)
    np.testing.assert_allclose(g, gl.autograd.grad(part(x).sum(), x)[0])


def test_vectorized_jacobian_of_nested_parts():
    inner = lambda x: (x * x).exp()
    middle = lambda x: checkpoint(inner, x.sin(), use_reentrant=False) * x
    outer = lambda x: checkpoint(middle, x, use_reentrant=False).cos()
    plain = lambda x: (inner(x.sin()) * x).cos()
    x = gl.rand(3, dtype=gl.float64)
    found, want = (gl.autograd.functional.jacobian(f, x, vectorize=True) for f in (outer, plain))
    np.testing.assert_allclose(found, want, rtol=1e-12)
