"""Subclasses of Tensor with a ``__torch_dispatch__``, where PyTorch is not needed to know what is right."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gradlib as gl
from gradlib.tape.modes import shared
from gradlib.utils._pytree import tree_map


class Inner(gl.Tensor):
    """Keeps a tensor, and gives results of its class."""

    inner: gl.Tensor

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        out = gl.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=requires_grad
        )
        out.inner = inner
        return out

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        take = lambda t: t.inner if isinstance(t, cls) else t
        wrap = lambda t: cls(t) if isinstance(t, gl.Tensor) else t
        return tree_map(wrap, func(*tree_map(take, args), **tree_map(take, kwargs or {})))


class Slotted(Inner):
    __slots__ = ("inner",)


@pytest.fixture(autouse=True)
def nothing_stays():
    gl.ones(1).conj()  # a complex view was there once: ops look for such
    (gl.ones(1) * 1j).conj()
    yield
    gc.collect()
    assert shared.subclasses is None


def test_ops_ask_only_while_one_lives():
    x = Inner(gl.ones(2))
    assert shared.subclasses is not None
    del x
    gc.collect()
    assert shared.subclasses is None


def test_functions_are_not_overridden():
    assert Inner.__torch_function__ is gl._C._disabled_torch_function_impl  # type: ignore[attr-defined]
    assert gl.Tensor.__torch_function__ is not Inner.__torch_function__


@pytest.mark.parametrize("kind", [Inner, Slotted])
def test_results_that_formulas_need_are_kept_with_their_attributes(kind):
    x = kind(gl.zeros(3), requires_grad=True)
    y = x.exp().sigmoid()
    y.sum().backward()
    s = 1 / (1 + np.exp(-1.0))
    assert isinstance(x.grad, kind)
    assert np.allclose(x.grad.inner.numpy(), s * (1 - s))


def test_modules_train_on_wrapped_parameters():
    layer = gl.nn.Sequential(gl.nn.Linear(3, 4), gl.nn.Tanh(), gl.nn.Linear(4, 1))
    other = gl.nn.Sequential(gl.nn.Linear(3, 4), gl.nn.Tanh(), gl.nn.Linear(4, 1))
    other.load_state_dict(layer.state_dict())
    for module in (other[0], other[2]):
        for name, p in list(module.named_parameters()):
            setattr(module, name, gl.nn.Parameter(Inner(p.detach())))
    x = gl.linspace(-1, 1, 6).reshape(2, 3)
    for model in (layer, other):
        model(x).square().mean().backward()
    for p, q in zip(layer.parameters(), other.parameters(), strict=True):
        assert isinstance(q.grad, Inner) and p.grad is not None
        assert np.allclose(p.grad.numpy(), q.grad.inner.numpy())


def test_batch_norm_convolution_attention_and_losses_have_the_gradients_of_plain_tensors():
    def run(wrap):
        x = wrap(gl.linspace(-1, 1, 32).reshape(2, 2, 2, 4))
        w = wrap(gl.linspace(0, 1, 16).reshape(2, 2, 2, 2))
        y = gl.nn.functional.conv2d(x, w, padding=1)
        q = wrap(gl.linspace(0, 1, 12).reshape(1, 3, 4))
        a = gl.nn.functional.scaled_dot_product_attention(q, q, q)
        logits = gl.nn.functional.layer_norm(wrap(gl.linspace(0, 3, 6).reshape(2, 3)), (3,))
        loss = y.relu().sum() + a.square().sum()
        loss = loss + gl.nn.functional.cross_entropy(logits * 2, gl.tensor([0, 2]))
        leaves = [x, w, q]
        return loss, gl.autograd.grad(loss, leaves)

    plain, expected = run(lambda t: t.requires_grad_())
    asked, found = run(lambda t: Inner(t, requires_grad=True))
    assert asked.item() == pytest.approx(plain.item(), rel=1e-6)
    for have, want in zip(found, expected, strict=True):
        assert np.allclose(have.inner.numpy(), want.numpy(), atol=1e-5)


def test_vmap_and_forward_mode_do_not_lose_derivatives_in_silence():
    x = Inner(gl.ones(2))
    _, slope = gl.func.jvp(lambda t: t * t, (x,), (gl.ones(2),))
    values = slope.inner if isinstance(slope, Inner) else slope
    assert values.tolist() == [2.0, 2.0]


def test_who_needs_values_is_told_where_they_are():
    x = Inner(gl.ones(2))
    with pytest.raises(RuntimeError):
        x.numpy()
    with pytest.raises((RuntimeError, NotImplementedError)):
        gl.optim.SGD([gl.nn.Parameter(x)], lr=0.1).param_groups[0]["params"][0].tolist()


@pytest.mark.parametrize("kind", [gl.optim.SGD, gl.optim.Adam])
@pytest.mark.parametrize("foreach", [True, False])
def test_an_optimizer_refuses_a_wrapped_parameter(kind, foreach):
    p = gl.nn.Parameter(Inner(gl.ones(2)))
    optimizer = kind([p], lr=0.5, foreach=foreach)
    (p * 3).sum().backward()
    with pytest.raises(NotImplementedError, match="call it on the tensors that the class keeps"):
        optimizer.step()
    assert p.inner.tolist() == [1.0, 1.0]


def test_a_view_that_is_written_to_is_refused_where_it_would_be_recorded():
    x = Inner(gl.ones(2, 2), requires_grad=True)
    y = x * 1
    with pytest.raises(NotImplementedError, match="on a view"):
        y[0].mul_(2)
    with gl.no_grad():
        y[0].mul_(2)
    assert y.inner.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_promotion_is_told_as_a_conversion():
    x = Inner(gl.ones(2))
    assert (x + gl.ones(2, dtype=gl.float64)).dtype is gl.float64


def test_a_handler_may_call_the_op_with_other_arguments():
    class Alpha(Inner):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is gl.ops.aten.add.Tensor:
                return func(args[0].inner, args[1], alpha=10)
            return super().__torch_dispatch__(func, types, args, kwargs)

    assert (Alpha(gl.ones(2)) + 1).tolist() == [11.0, 11.0]


def test_what_is_not_supported_is_refused():
    with pytest.raises(NotImplementedError, match="dispatch_sizes_strides_policy"):
        gl.Tensor._make_wrapper_subclass(Inner, (2,), dispatch_sizes_strides_policy="sizes")
    with pytest.raises(RuntimeError, match="1 strides for 2"):
        gl.Tensor._make_wrapper_subclass(Inner, (2, 2), strides=(1,))


def test_an_operator_without_answer_says_who_was_asked():
    class Silent(Inner):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\._ops\.aten\.exp"):
        Silent(gl.ones(2)).exp()
