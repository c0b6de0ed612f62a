"""The meta device: what the CPU gives, but for the values."""

from __future__ import annotations

import numpy
import pytest
from samples import flat, on_device, samples_of

import gradlib as gl
from gradlib.op.declare import REGISTRY

pytestmark = pytest.mark.host  # it is compared with the CPU

ALL = sorted(set(REGISTRY) - {"to_device"})  # which is refused: there is nothing to copy
DIFFERENTIABLE = [name for name in ALL if REGISTRY[name].differentiable]
META = gl.device("meta")
# the order of their strides is what a library for matrices leaves
LAID_OUT_BY_LIBRARIES = {"cofactor", "einsum"}
# the form of their indices decides: a mask takes as many elements as it has true ones
BY_VALUES = {"masked_select", "nonzero", "unique", "unique_consecutive"}


def tensors(out) -> list[gl.Tensor]:
    return [out] if isinstance(out, gl.Tensor) else list(out)


def strides(t: gl.Tensor) -> list[int]:
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1]


def has_mask(args: tuple) -> bool:
    return any(
        getattr(a, "dtype", None) == numpy.bool_
        for part in args
        if isinstance(part, tuple)
        for a in part
    )


@pytest.mark.parametrize("name", ALL)
def test_an_op_gives_the_geometry_that_it_has_on_the_cpu(name):
    op = REGISTRY[name]
    for args in samples_of(op):
        there = on_device(op, args, META)
        if name in BY_VALUES or (name == "index" and has_mask(args)):
            with pytest.raises(NotImplementedError, match="depends on values"):
                op.call(*there)
            continue
        for a, b in zip(tensors(op.call(*args)), tensors(op.call(*there)), strict=True):
            assert (b.shape, b.dtype, b.requires_grad) == (a.shape, a.dtype, a.requires_grad)
            assert b.is_meta
            assert name in LAID_OUT_BY_LIBRARIES or not a.numel() or strides(b) == strides(a)


@pytest.mark.parametrize(
    "name", sorted(set(DIFFERENTIABLE) - BY_VALUES - {"masked_select_backward"})
)
def test_backward_gives_gradients_of_the_shape_of_the_arguments(name):
    op = REGISTRY[name]
    for args in samples_of(op):
        if name in ("index", "index_put") and has_mask(args):
            continue
        there = on_device(op, args, META)
        outs = [o for o in tensors(op.call(*there)) if o.requires_grad]
        leaves = [t for t in flat(there) if t.requires_grad]
        if not outs or not leaves:
            continue
        got = gl.autograd.grad(
            outs, leaves, [gl.empty_like(o) for o in outs], allow_unused=True, retain_graph=True
        )
        for grad, leaf in zip(got, leaves, strict=True):
            assert grad is None or (grad.shape, grad.dtype, grad.device) == (
                leaf.shape,
                leaf.dtype,
                META,
            )


def test_nothing_can_be_copied_out_of_it():
    x = gl.empty(2, 3, device="meta", requires_grad=True)
    for ask in (x.cpu, x.tolist, lambda: x.to("cpu"), lambda: gl.ones(2, 3).copy_(x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            ask()
    one = gl.ones(1, device="meta")
    for ask in (one.item, one.__bool__, one.__float__, lambda: gl.allclose(x, x), lambda: 1.0 in x):
        with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
            ask()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.detach().numpy()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        numpy.asarray(x.detach())


def test_a_model_of_any_size_takes_no_memory():
    with gl.device("meta"):
        model = gl.nn.Linear(1_000_000, 1_000_000)
    assert model.weight.is_meta and model.weight.nbytes == 4_000_000_000_000
    out = model(gl.empty(16, 1_000_000, device="meta"))
    out.square().mean().backward()
    gl.optim.AdamW(model.parameters()).step()
    assert out.shape == (16, 1_000_000) and model.weight.grad.shape == model.weight.shape


def test_views_and_their_places():
    x = gl.empty(4, 6, device="meta")
    y = x.t()[1:, ::2]
    assert (y.shape, y.stride(), y.storage_offset()) == ((5, 2), (1, 12), 1)
    assert y.untyped_storage() is x.untyped_storage() and y.data_ptr() == 4
    assert x.untyped_storage().nbytes() == 96 and x.data_ptr() == 0
    assert y.as_strided((2, 2), (1, 1)).stride() == (1, 1)
    with pytest.raises(RuntimeError):
        x.as_strided((100,), (1,))
    assert y._base is x
    x.add_(1)
    assert y._version == 1


def test_other_devices_beside_it():
    x = gl.ones(2, device="meta")
    assert (x + gl.tensor(1.0)).is_meta and (gl.tensor(2.0) * x[0]).is_meta
    with pytest.raises(RuntimeError, match="not on the expected device meta"):
        x + gl.ones(2)
    assert x.copy_(gl.ones(2)) is x
    assert x[gl.tensor([0, 1, 1])].shape == (3,)


def test_anomaly_mode_looks_at_no_values():
    x = gl.ones(2, device="meta", requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection"), gl.autograd.detect_anomaly():
        (x * 2).sum().backward()
    assert x.grad.is_meta


def test_gradients_of_leaves_lie_as_the_leaves():
    row_major = gl.empty(4, 3, device="meta", requires_grad=True)
    column_major = gl.empty(3, 4, device="meta").t().requires_grad_()
    for leaf in (row_major, column_major):
        leaf.sum().backward()
        leaf.sum().backward()
        assert leaf.grad.stride() == leaf.stride() and leaf.grad.is_meta
    norm = gl.nn.utils.clip_grad_norm_([row_major, column_major], 1.0)
    assert norm.is_meta and norm.shape == ()
    assert gl.nn.utils.parameters_to_vector([row_major, row_major]).shape == (24,)
