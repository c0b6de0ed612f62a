"""Lazily conjugated and negated views (tape/lazy.py): memory, versions, history, and what reads raw arrays."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.op.inplace import CopySlices


def numbers(*shape, seed=0, rg=False) -> Any:
    rng = np.random.default_rng(seed)
    made = gl.tensor(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
    return made.requires_grad_() if rg else made


def values(t) -> Any:
    return t.detach().numpy(force=True)


def test_conj_is_a_view_and_writes_go_both_ways():
    x = numbers(2, 3)
    before, c = values(x).copy(), x.conj()
    assert c.is_conj() and not x.is_conj() and c._base is x and c.data_ptr() == x.data_ptr()
    assert c.stride() == x.stride() and c.is_contiguous() and c.conj().is_conj() is False
    np.testing.assert_array_equal(values(c), before.conj())
    c.mul_(2j)
    np.testing.assert_allclose(values(x), (before.conj() * 2j).conj())
    assert x._version == c._version == 1
    x[0] = 1j
    np.testing.assert_array_equal(values(c)[0], [-1j] * 3)
    c[1, 1:].imag.fill_(7)
    np.testing.assert_array_equal(values(x)[1, 1:].imag, [-7, -7])


def test_a_real_tensor_has_no_lazy_conjugate():
    x = gl.ones(2)
    assert x.conj() is x and x.resolve_conj() is x and x.resolve_neg() is x
    assert not gl._neg_view(gl._neg_view(x)).is_neg()


def test_both_bits_commute():
    x = numbers(3)
    both = gl._neg_view(x.conj())
    assert both.is_conj() and both.is_neg() and not both.conj().is_conj() and both.conj().is_neg()
    np.testing.assert_array_equal(values(both), -values(x).conj())
    assert both.real.is_neg() and not both.imag.is_neg()
    np.testing.assert_array_equal(values(both.real), -values(x).real)
    np.testing.assert_array_equal(values(both.imag), values(x).imag)


@pytest.mark.parametrize("order", ["conj of a part", "part of a conj"])
def test_writes_through_lazy_parts_are_recorded(order):
    leaf = numbers(3, 2, rg=True)
    base = leaf * 1
    part = base[1:].conj() if order == "conj of a part" else base.conj()[1:]
    factor = numbers(2, 2, seed=1)
    part.mul_(factor)
    assert base.grad_fn.__class__ is CopySlices and part.is_conj()
    weight = numbers(3, 2, seed=2)
    (base * weight).real.sum().backward()
    expected = values(weight).conj()
    expected[1:] *= values(factor)  # of x -> conj(conj(x) f) = x conj(f)
    np.testing.assert_allclose(values(leaf.grad), expected)


def test_derivatives_of_writes_agree_with_differences():
    w = numbers(2, 2, seed=3)

    def run(x):
        y = x * 1
        v = y.mH
        v.mul_(w).sin_()
        v.imag[0].mul_(3)
        y.conj().T[1].copy_(w[0].conj() * y[0, 0])
        return y, y.conj() * v

    x = numbers(2, 2, rg=True)
    assert gl.autograd.gradcheck(run, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gl.autograd.gradgradcheck(run, (x,))


def test_writes_to_lazy_tensors_without_dimensions_are_recorded():
    for both in (False, True):
        leaf = numbers(rg=True)
        y = leaf * 1
        v = gl._neg_view(y.conj()) if both else y.conj()
        v.mul_(2j)
        y.backward(gl.tensor(1 + 1j, dtype=y.dtype))
        assert leaf.grad.item() == (1 + 1j) * 2j  # of x -> conj(conj(x) 2j) = -2j x, and conjugated


def test_saved_lazy_arguments_keep_identity_and_are_checked():
    x = numbers(2, rg=True)
    b = x * 1
    y = b.conj()
    z = y * y
    assert z.grad_fn._saved_self is y
    b.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward(gl.tensor(1 + 0j, dtype=z.dtype))


def test_gradients_are_never_lazy_unless_given():
    x = numbers(3, rg=True)
    g = numbers(3, seed=1)
    x.conj().backward(g)
    assert not x.grad.is_conj()
    np.testing.assert_allclose(values(x.grad), values(g).conj())
    x.grad = g.conj()
    assert x.grad.is_conj()
    before = values(g).copy()
    (x * 2).backward(g.conj())
    np.testing.assert_allclose(values(x.grad), 3 * before.conj())
    np.testing.assert_allclose(values(g), 3 * before)  # .grad was a view of it


def test_a_raw_reader_gets_an_error_or_nan():
    array = numbers(2, 2).conj()._array
    for read in (
        lambda: array + 1,
        lambda: array[0],
        lambda: np.sum(array),
        array.tolist,
        lambda: array.real,
    ):
        with pytest.raises(RuntimeError, match="conjugate or negative bit"):
            read()
    assert np.isnan(np.asarray(array)).all()
    assert gl._neg_view(gl.tensor([1, 2]))._array.view(np.ndarray).max() < -1e18
    with pytest.raises((ValueError, RuntimeError)):
        array[...] = 1


@pytest.mark.host
def test_numpy_and_dlpack_refuse():
    c = numbers(2).conj()
    with pytest.raises(RuntimeError, match=r"conjugate bit set.*tensor\.resolve_conj"):
        c.numpy()
    with pytest.raises(RuntimeError, match=r"negative bit set.*tensor\.resolve_neg"):
        np.asarray(c.imag)
    with pytest.raises(BufferError, match="conjugate bit set"):
        c.__dlpack__()
    with pytest.raises(
        BufferError, match="negative bit set"
    ):  # PyTorch hands out what is in memory
        gl.from_dlpack(c.imag)
    with pytest.raises(RuntimeError, match="unresolved conjugated"):
        gl.view_as_real(c)
    assert c.numpy(force=True).tolist() == c.tolist() == c.resolve_conj().numpy().tolist()


def test_copies_and_files():
    x = numbers(2, 2)
    for y in (x.conj(), x.conj().imag, x.mH[0], gl._neg_view(x)):
        duplicate = copy.deepcopy(y)
        assert not duplicate.is_conj() and not duplicate.is_neg()
        again = pickle.loads(pickle.dumps(y))
        file = io.BytesIO()
        gl.save([y, y.resolve_conj()], file)
        file.seek(0)
        saved = gl.load(file)[0]
        for made in (again, saved):
            assert made.is_conj() == y.is_conj() and made.is_neg() == y.is_neg()
        for made in (duplicate, again, saved):
            np.testing.assert_array_equal(values(made), values(y))


def test_optimizers_on_lazy_parameters():
    for make in (
        lambda p: gl.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: gl.optim.Adam(p, lr=0.1),
        lambda p: gl.optim.SGD(p, lr=0.1, differentiable=False, maximize=True),
    ):
        found = []
        for is_lazy in (False, True):
            start = numbers(3)
            p = start.conj() if is_lazy else start.conj().clone()
            p = p.detach().requires_grad_()
            other = numbers(2, seed=4).requires_grad_()
            optimizer = make([p, other])
            for _ in range(3):

                def closure(p=p, other=other, optimizer=optimizer):
                    optimizer.zero_grad()
                    loss = (p.abs() ** 2).sum() + (other * p[:2]).real.sum()
                    loss.backward()
                    return loss

                if is_lazy:
                    p.grad = numbers(3, seed=5).conj()
                optimizer.step(closure)
            assert p.is_conj() is is_lazy
            if is_lazy:
                np.testing.assert_array_equal(values(start), values(p).conj())
            found.append(np.concatenate([values(p), values(other)]))
        np.testing.assert_allclose(*found)


def test_geometry_in_place():
    x = numbers(2, 3)
    c = x.conj()
    expected = values(x).conj()
    c.t_()
    assert c.is_conj() and c.shape == (3, 2)
    np.testing.assert_array_equal(values(c), expected.T)
    c = numbers(4).conj()
    kept = values(c).copy()
    c.resize_(2, 2)
    assert c.is_conj()
    np.testing.assert_array_equal(values(c).reshape(-1), kept)
    c.set_(x)
    assert c.is_conj() and c.data_ptr() == x.data_ptr()
    y = numbers(2)
    y.set_(x.conj()[0])
    np.testing.assert_array_equal(values(y), values(x)[0])  # the memory, as it is


def test_out_arguments_and_data():
    x, y = numbers(3), numbers(3, seed=1)
    memory = numbers(3, seed=2)
    gl.mul(x, y, out=memory.conj())
    np.testing.assert_allclose(values(memory), (values(x) * values(y)).conj())
    gl.cat([x[:1].conj(), y[:2]], out=memory)
    np.testing.assert_allclose(values(memory), [*values(x)[:1].conj(), *values(y)[:2]])
    x.data = y.conj()
    assert x.is_conj()
    np.testing.assert_allclose(values(x * 2), 2 * values(y).conj())


def test_indices_may_be_negated_views():
    places = gl._neg_view(gl.tensor([-2, 0]))
    x = numbers(3)
    np.testing.assert_array_equal(values(x[places]), values(x)[[2, 0]])
    np.testing.assert_array_equal(values(x.index_select(0, places)), values(x)[[2, 0]])
    np.testing.assert_array_equal(values(x.gather(0, places)), values(x)[[2, 0]])
    assert [1, 2, 3][gl._neg_view(gl.tensor(-1))] == 2


@pytest.mark.host  # to look at indices on a device means to wait for it
def test_negated_indices_out_of_range():
    places, x = gl._neg_view(gl.tensor([3, 0])), numbers(3)
    for wrong in (x.index_select, x.gather):
        with pytest.raises((IndexError, RuntimeError)):
            wrong(0, places)
        with pytest.raises((IndexError, RuntimeError)):
            wrong(0, gl._neg_view(gl.tensor([-3])))


def test_selective_checkpointing_of_lazy_arguments():
    from gradlib.utils.checkpoint import (
        CheckpointPolicy,
        checkpoint,
        create_selective_checkpoint_contexts,
    )

    def run(x):
        c = x.conj()
        return ((c * x.mH).sin() @ c).exp()

    x = numbers(2, 2, rg=True)
    wanted = gl.autograd.grad(run(x).abs().sum(), x)[0]
    for policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE):

        def contexts(policy=policy):
            return create_selective_checkpoint_contexts(lambda *_, **__: policy)

        out = checkpoint(run, x, use_reentrant=False, context_fn=contexts)
        np.testing.assert_allclose(values(out), values(run(x)))
        np.testing.assert_allclose(values(gl.autograd.grad(out.abs().sum(), x)[0]), values(wanted))


def test_autocast_and_profiles():
    x = gl.ones(2, 2, dtype=gl.complex64).mul(1 + 2j)
    n = x.conj().imag
    with gl.autocast("cpu", dtype=gl.bfloat16):
        assert (n @ n).tolist() == [[8, 8], [8, 8]]
    with gl.autograd.profiler.profile() as prof:
        assert (n + x.conj().imag).tolist() == [[-4, -4], [-4, -4]]
    names = [e.name for e in prof.function_events]
    assert names.count("_conj") == 2 and names.count("add") == 1 and "_neg_view" in names
