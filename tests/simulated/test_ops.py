"""Every declared op gives on a CUDA device what it gives on the CPU: values, gradients, tangents."""

from __future__ import annotations

import numpy as np
import pytest
from samples import flat, replaced, samples_of

import gradlib as gl
from gradlib.autograd import forward_ad
from gradlib.op.declare import REGISTRY
from gradlib.op.inplace import inplace
from gradlib.tape.arrays import backend_for
from tests.simulated_cuda import CUDARuntimeError

ALL = sorted(set(REGISTRY) - {"to_device"})  # copies between devices: test_device.py
DIFFERENTIABLE = [name for name in ALL if REGISTRY[name].differentiable]
TOLERANCE = {gl.float32: 1e-5, gl.complex64: 1e-5, gl.float16: 4e-3, gl.bfloat16: 4e-2}


pytestmark = pytest.mark.usefixtures("cuda")


def outputs(out) -> list[gl.Tensor]:
    return [out] if isinstance(out, gl.Tensor) else list(out)


def moved(tensor: gl.Tensor) -> gl.Tensor:
    return tensor.detach().cuda().requires_grad_(tensor.requires_grad)


def on_device(args: tuple, copies: list[gl.Tensor]) -> tuple:
    """The arguments with these tensors in place of theirs; raw arrays among them are moved too."""
    backend = backend_for("cuda")
    return tuple(
        backend.to_backend(a) if isinstance(a, np.ndarray) else a for a in replaced(args, copies)
    )


def assert_same(here, there) -> None:
    """Same presence, dtype, shape and values; the second is on the device."""
    assert (here is None) == (there is None)
    if here is None:
        return
    assert there.is_cuda and there.dtype is here.dtype and there.shape == here.shape
    a, b = here.numpy(force=True), there.numpy(force=True)
    if a.dtype.kind == "V":
        a, b = a.astype("f4"), b.astype("f4")
    tolerance = TOLERANCE.get(here.dtype, 1e-9)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def gradients(outs, inputs, create_graph: bool = False):
    """Gradients of the outputs that have one, weighted by fixed numbers."""
    outs = [o for o in outs if o.requires_grad]
    weights = []
    for i, o in enumerate(outs):
        values = np.linspace(0.5, 1.5, o.numel()).reshape(o.shape) + i
        weights.append(gl.from_numpy(np.asarray(values)).to(o.dtype).to(o.device))
    return gl.autograd.grad(outs, inputs, weights, allow_unused=True, create_graph=create_graph)


def results_of(op, args: tuple) -> list:
    """The results of one call, with the signs that it may choose (of pairs of singular vectors) made positive."""
    outs = outputs(op.call(*args))
    if op.name != "linalg_svd":
        return outs
    U, S, Vh = outs
    signs = U.detach().sum(-2).sign()
    return [U * signs.unsqueeze(-2), S, Vh * signs.unsqueeze(-1)]


def attempt(fn) -> tuple[list | None, str]:
    """What `fn` returns, or None and the text of the exception it raised; a fault of the device is no refusal."""
    try:
        return fn(), ""
    except Exception as exc:
        if is_of_the_device(exc):
            raise
        return None, str(exc)


def is_of_the_device(error: BaseException | None) -> bool:
    """Whether CUDA itself raised an exception, or what it was raised from: CuPy's errors, the stand-in's, `gemm`'s."""
    while error is not None:
        ours = isinstance(error, CUDARuntimeError) or str(error).startswith("CUDA error")
        if ours or type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends"):
            return True
        error = error.__cause__ or error.__context__
    return False


def agree(here, there) -> tuple[list, list] | None:
    """The results of two functions, or None if both raise."""
    a, why = attempt(here)
    b, why_not = attempt(there)
    if a is None:
        assert b is None, f"the CPU raised an error, the device did not: {why}"
        return None
    assert b is not None, f"the device raised an error, the CPU did not: {why_not}"
    return a, b


def compare(op, args) -> None:
    """Values and gradients of one call on both devices; an error on one is an error on the other."""
    tensors = flat(args)
    copies = [moved(t) for t in tensors]
    both = agree(lambda: results_of(op, args), lambda: results_of(op, on_device(args, copies)))
    if both is None:
        return
    here, there = both
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        assert_same(a, b)
        assert a.requires_grad == b.requires_grad
        assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__
    pairs = [(t, c) for t, c in zip(tensors, copies, strict=True) if t.requires_grad]
    if not pairs or not any(o.requires_grad for o in here):
        return
    both = agree(
        lambda: gradients(here, [t for t, _ in pairs]),
        lambda: gradients(there, [c for _, c in pairs]),
    )
    for x, y in zip(*both, strict=True) if both else ():
        assert_same(x, y)


@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(name):
    # rows: DEV-12
    op = REGISTRY[name]
    for args in samples_of(op):
        compare(op, args)


@pytest.mark.parametrize("dtype", [gl.float32, gl.float16, gl.bfloat16], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_small_floats(name, dtype):
    # rows: DEV-12
    op = REGISTRY[name]
    try:
        samples = samples_of(op, dtype=dtype)
    except Exception:
        return  # samples made by ops without these dtypes
    for args in samples:
        compare(op, args)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if REGISTRY[n].complex])
def test_complex(name):
    # rows: DEV-12
    op = REGISTRY[name]
    for args in samples_of(op, dtype=gl.complex128):
        compare(op, args)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_tangents(name):
    """Forward mode on the device equals forward mode on the CPU."""
    op = REGISTRY[name]
    for args in samples_of(op):
        results = []
        for device in ("cpu", "cuda"):
            tensors = [t.detach() if device == "cpu" else moved(t).detach() for t in flat(args)]
            with forward_ad.dual_level():
                duals = [
                    forward_ad.make_dual(t, gl.ones_like(t) * 0.5) if old.requires_grad else t
                    for t, old in zip(tensors, flat(args), strict=True)
                ]
                given = replaced(args, duals) if device == "cpu" else on_device(args, duals)
                outs = results_of(op, given)
                results.append([forward_ad.unpack_dual(o).tangent for o in outs])
        for a, b in zip(*results, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives(name):
    """create_graph on the device: gradients of gradients equal those on the CPU."""
    op = REGISTRY[name]
    for args in samples_of(op):
        results = []
        for device in ("cpu", "cuda"):
            tensors = flat(args) if device == "cpu" else [moved(t) for t in flat(args)]
            given = args if device == "cpu" else on_device(args, tensors)
            leaves = [t for t in tensors if t.requires_grad]
            outs = [o for o in results_of(op, given) if o.requires_grad]
            if not leaves or not outs:
                return
            first = [g for g in gradients(outs, leaves, create_graph=True) if g is not None]
            if not any(g.requires_grad for g in first):
                results.append(first)
                continue
            results.append([*first, *gradients(first, leaves)])
        for a, b in zip(*results, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("name", [n for n in ALL if REGISTRY[n].inplace])
def test_in_place(name):
    op = REGISTRY[name]
    for args in samples_of(op):
        n = len(op.tensors)
        expected = op.call(*args)
        if expected.shape != args[0].shape or expected.dtype.category > args[0].dtype.category:
            continue
        given = on_device(args, [moved(t).detach() for t in flat(args)])
        target = given[0].clone()
        assert inplace(op, target, given[1:n], given[n:]) is target and target._version == 1
        assert_same(expected.to(target.dtype), target)


@pytest.mark.parametrize("name", ALL)
def test_strided_inputs(name):
    op = REGISTRY[name]
    for plain, strided in zip(samples_of(op), samples_of(op, strided=True), strict=True):
        here = results_of(op, plain)
        copies = []
        for t in flat(strided):  # the gaps survive the way to the device
            wide = (
                gl.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype).cuda() if t.ndim else None
            )
            copies.append(moved(t) if wide is None else wide[..., ::2].copy_(t.detach().cuda()))
        there = results_of(op, on_device(strided, copies))
        for a, b in zip(here, there, strict=True):
            assert_same(a, b)
