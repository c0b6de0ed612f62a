"""What every declaration promises, tested from the declaration alone: no op needs test code of its own for this."""

from __future__ import annotations

import numpy as np
import pytest
from samples import Maker, flat, ops, replaced, samples_of

import gradlib as gl
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.op import interpret
from gradlib.op.declare import REGISTRY
from gradlib.op.inplace import inplace

ALL = sorted(REGISTRY)
DIFFERENTIABLE = [name for name in ALL if REGISTRY[name].differentiable]
COMPLEX = [name for name in DIFFERENTIABLE if REGISTRY[name].complex]
INPLACE = [name for name in ALL if REGISTRY[name].inplace]


def tensors_of(out) -> list[gl.Tensor]:
    return [out] if isinstance(out, gl.Tensor) else list(out)


def function_of(op, args):
    """The op as a function of the tensors among `args`, and those tensors."""
    return (lambda *new: op.call(*replaced(args, list(new)))), tuple(flat(args))


def checkable(op, args) -> bool:
    """gradcheck needs an input that requires grad and a differentiable output with elements."""
    if not any(t.requires_grad for t in flat(args)):
        return False
    return any(o.requires_grad for o in tensors_of(op.call(*args)))


@pytest.mark.parametrize("name", ALL)
def test_has_samples(name):
    """Every op is exercised by the tests below."""
    assert samples_of(REGISTRY[name]), f"op {name} declares no samples"


@pytest.mark.parametrize("name", ALL)
def test_generated_call_equals_general_path(name):
    """The generated fast path and interpret.general give the same values, dtypes and graph."""
    op = REGISTRY[name]
    for args in samples_of(op):
        n = 1 if op.variadic else len(op.tensors)
        fast, slow = op.call(*args), interpret.general(op, args[:n], args[n:])
        for a, b in zip(tensors_of(fast), tensors_of(slow), strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
            np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
            assert type(a.grad_fn) is type(b.grad_fn)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck_both_directions(name):
    # rows: GC-19 FWD-09
    op = REGISTRY[name]
    checked = 0
    for args in samples_of(op):
        if checkable(op, args):
            fn, inputs = function_of(op, args)
            assert gradcheck(fn, inputs, check_forward_ad=True)
            checked += 1
    underivable = all(getattr(f.fn, "missing", False) for f in op.formulas.values())
    assert checked or (op.formulas and underivable), f"no sample of {name} can be gradchecked"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradgradcheck(name):
    # rows: GC-19
    op = REGISTRY[name]
    for args in samples_of(op):
        if checkable(op, args) and all(t.numel() for t in flat(args)):
            fn, inputs = function_of(op, args)
            assert gradgradcheck(fn, inputs)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradcheck(name):
    op = REGISTRY[name]
    for args in samples_of(op, dtype=gl.complex128):
        if checkable(op, args) and all(t.numel() for t in flat(args)):
            fn, inputs = function_of(op, args)
            assert gradcheck(fn, inputs, check_forward_ad=True)
            assert gradgradcheck(fn, inputs)


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_equals_out_of_place(name):
    """Value, gradient, identity and version counter of the in-place form."""
    op = REGISTRY[name]
    for args in samples_of(op):
        tensors, attrs = args[: len(op.tensors)], args[len(op.tensors) :]
        expected = op.call(*args)
        first = tensors[0]
        if expected.shape != first.shape or expected.dtype.category > first.dtype.category:
            continue
        leaf = first.detach().clone().requires_grad_(first.requires_grad)
        target = leaf * 1 if leaf.requires_grad else leaf.clone()
        before = target._version
        result = inplace(op, target, tensors[1:], attrs)
        assert result is target and target._version > before
        assert gl.equal(target, expected.to(target.dtype))
        if expected.requires_grad and first.requires_grad and expected.dtype is first.dtype:
            weight = gl.from_numpy(np.asarray(Maker().rng.normal(size=expected.shape)))
            (a,) = gl.autograd.grad(
                expected,
                first,
                weight,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            (b,) = gl.autograd.grad(result, leaf, weight, allow_unused=True, materialize_grads=True)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_strided_inputs_give_the_same(name):
    op = REGISTRY[name]
    for plain, strided in zip(samples_of(op), samples_of(op, strided=True), strict=True):
        for a, b in zip(tensors_of(op.call(*plain)), tensors_of(op.call(*strided)), strict=True):
            a, b = (t.numpy(force=True) for t in (a, b))
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_ops_helper_selects_by_attribute():
    assert all(op.view for op in ops(view=True))
