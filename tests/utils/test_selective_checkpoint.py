"""Selective checkpointing: which results are kept, how a policy names ops, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.nn import functional as F
from gradlib.utils import _selective
from gradlib.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

aten = gl.ops.aten


def kernels_run(monkeypatch) -> list[str]:
    """The names of the ops whose kernels run while a selective context is there."""
    found, run = [], _selective.interpret.compute_raw
    monkeypatch.setattr(
        _selective.interpret,
        "compute_raw",
        lambda op, *rest: (found.append(op.name), run(op, *rest))[1],
    )
    return found


@pytest.fixture
def weights():
    rng = np.random.default_rng(0)
    return [gl.tensor(rng.standard_normal((4, 4)), requires_grad=True) for _ in range(2)]


def chain(x, weights):
    return ((x @ weights[0]).sin() @ weights[1]).exp()


@pytest.mark.parametrize(
    "keep", [[], [aten.mm.default], [gl.mm, gl.sin], [aten.mm.default, gl.exp]]
)
def test_gradients_and_kernels_of_the_second_run(weights, keep, monkeypatch):
    x = gl.ones(3, 4, dtype=gl.float64, requires_grad=True)
    expected = gl.autograd.grad(chain(x, weights).sum(), [x, *weights])
    ran = kernels_run(monkeypatch)
    y = checkpoint(
        chain, x, weights, use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(keep), early_stop=False,
    )  # fmt: skip
    assert ran == ["mm", "sin", "mm", "exp"]
    ran.clear()
    found = gl.autograd.grad(y.sum(), [x, *weights])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    kept = {"mm": {aten.mm.default, gl.mm}, "sin": {gl.sin}, "exp": {gl.exp}}
    again = [n for n in ("mm", "sin", "mm", "exp") if not any(k in kept[n] for k in keep)]
    assert [n for n in ran if n in kept] == again


def test_policy_is_told_op_arguments_and_result(weights):
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append((str(op), ctx.is_recompute, args[0].shape, tuple(ctx.op_output.shape)))
        return op in {aten.mm.default}  # by hash

    x = gl.ones(3, 4, dtype=gl.float64, requires_grad=True)
    y = checkpoint(
        chain, x, weights, use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(policy),
    )  # fmt: skip
    y.sum().backward()
    assert [s[0] for s in seen] == [f"aten.{n}.default" for n in ("mm", "sin", "mm", "exp")]
    assert set(seen) == {(name, False, (3, 4), (3, 4)) for name, *_ in seen}


@pytest.mark.parametrize(
    ("call", "name", "function"),
    [
        (lambda x, w: x @ w, "mm", gl.mm),
        (lambda x, w: x[None] @ w[None], "bmm", gl.bmm),
        (lambda x, w: F.linear(x, w, w[0]), "addmm", F.linear),
        (lambda x, w: F.linear(x, w), "mm", F.linear),
        (lambda x, w: F.softmax(x, -1), "_softmax", F.softmax),
        (lambda x, w: x.to(gl.float32), "_to_copy", gl.Tensor.to),
        (lambda x, w: x * w.mul_(2)[:3], "mul_", gl.Tensor.mul_),
        (
            lambda x, w: F.scaled_dot_product_attention(x[None, None], w[None, None], w[None, None]),
            "_scaled_dot_product_efficient_attention", F.scaled_dot_product_attention,
        ),
    ],
)  # fmt: skip
def test_names_of_ops(call, name, function):
    seen = []
    x = gl.rand(3, 4, dtype=gl.float64, requires_grad=True)
    w = gl.rand(4, 4, dtype=gl.float64)
    checkpoint(
        call, x, w, use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(lambda c, op, *a: seen.append(op) or False),
    )  # fmt: skip
    packet = getattr(aten, name)
    assert packet.default in seen
    assert any(op == function for op in seen)
    assert all(op != gl.cos and op != aten.cos.default for op in seen)
    assert packet.Tensor is packet.default
    assert packet.default.name() == "aten::" + str(packet.default).split(".")[1]


def test_refusals(weights):
    with pytest.raises(
        ValueError, match=r"got: aten.mm of type .*change it to `torch.ops.aten.mm.default`"
    ):
        create_selective_checkpoint_contexts([aten.mm])
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload but got: 3"):
        create_selective_checkpoint_contexts([3])
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)  # type: ignore[arg-type]
    x = gl.ones(3, 4, dtype=gl.float64, requires_grad=True)
    context_fn = lambda: create_selective_checkpoint_contexts([aten.exp.default])
    y = checkpoint(chain, x, weights, use_reentrant=False, context_fn=context_fn)
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()


@pytest.mark.parametrize("allowed", [False, True])
def test_kept_results_that_were_mutated(allowed):
    x = gl.rand(3, dtype=gl.float64, requires_grad=True)

    def run(x):
        return (x * 3).add_(1).sin()

    context_fn = lambda: create_selective_checkpoint_contexts([aten.mul.Tensor], allowed)
    y = checkpoint(run, x, use_reentrant=False, context_fn=context_fn)
    if allowed:
        y.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="has been mutated"):
            y.sum().backward()


@pytest.mark.parametrize("policy", [lambda *a: True, lambda *a: CheckpointPolicy.MUST_RECOMPUTE])
def test_views_changes_in_place_and_random_numbers_are_made_again(policy):
    x = gl.ones(64, dtype=gl.float64, requires_grad=True)

    def run(x):
        y = F.dropout(x.sin(), 0.5)
        z = gl.zeros(64, dtype=gl.float64)
        z[:32].add_(y[32:])
        return F.dropout(z * y, 0.5) * gl.rand(64)

    context_fn = lambda: create_selective_checkpoint_contexts(policy)
    gl.manual_seed(3)
    y = checkpoint(run, x, use_reentrant=False, context_fn=context_fn)
    y.sum().backward()
    x2 = gl.ones(64, dtype=gl.float64, requires_grad=True)
    gl.manual_seed(3)
    run(x2).sum().backward()
    np.testing.assert_array_equal(x.grad, x2.grad)


def test_inside_another(weights):
    x = gl.ones(3, 4, dtype=gl.float64, requires_grad=True)
    expected = gl.autograd.grad(chain(x, weights).cos().sum(), [x, *weights])
    context_fn = lambda: create_selective_checkpoint_contexts([aten.mm.default])

    def outer(x):
        return checkpoint(chain, x, weights, use_reentrant=False, context_fn=context_fn).cos()

    y = checkpoint(outer, x, use_reentrant=False, context_fn=context_fn)
    for a, b in zip(gl.autograd.grad(y.sum(), [x, *weights]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_grad_runs_without_contexts():
    def context_fn():
        first, second = create_selective_checkpoint_contexts([aten.exp.default])
        first.decide = None  # type: ignore[method-assign]
        return first, second

    with gl.no_grad():
        assert checkpoint(
            gl.exp, gl.zeros(2), use_reentrant=False, context_fn=context_fn
        ).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("names", "public"),
    [
        ("mkldnn_convolution cudnn_convolution convolution", "convolution"),
        ("cudnn_batch_norm miopen_batch_norm", "native_batch_norm"),
        ("_to_copy", "to"),
        ("max_pool2d", "max_pool2d_with_indices"),
        ("nll_loss_forward nll_loss2d_forward", "nll_loss"),
        ("_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
         "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
         "scaled_dot_product_attention"),
        ("_softmax", "softmax"),
    ],
)  # fmt: skip
def test_names_of_what_pytorch_runs(names, public):
    assert {str(getattr(aten, name).default) for name in names.split()} == {
        f"aten.{public}.default"
    }


def test_the_gradient_of_attention_is_another_operation():
    back = aten._scaled_dot_product_flash_attention_backward.default
    assert back != aten._scaled_dot_product_flash_attention.default
