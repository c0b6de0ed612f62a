"""kernels/cross_entropy.cu against the formulas."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, check_forward, check_vjp, close, tensor, values

import gradlib as gl
from gradlib.devices.cuda.fused import cross_entropy
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

overlays = on("cuda")

OPS = ("cross_entropy_op", "nll_loss_op")
SHAPES = [(4,), (1, 1), (3, 5), (33, 31), (3, 8), (2, 1025), (2, 4, 3), (2, 5, 3, 7)]


def log_sums(hidden):
    """The logarithms of the sums of exponentials: hidden are a shift, which is free, and what is left of it."""
    return [hidden[0] + hidden[1]] if len(hidden) == 2 else hidden


def problem(shape, kind="float64", weight=False, index=np.int64, seed=0):
    classes = shape[0] if len(shape) == 1 else shape[1]
    lines = () if len(shape) == 1 else (shape[0], *shape[2:])
    target = np.random.default_rng(seed).integers(0, classes, lines)
    weights = tensor(values((classes,), 5, 0.5, 1.5), kind, grad=False) if weight else None
    return (
        tensor(values(shape, seed, -4, 4), kind),
        gl.from_numpy(np.asarray(target, index)),
        weights,
    )


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("kind", DTYPES)
def test_losses_and_gradients(device, name, kind):
    # rows: DEV-26
    for shape in SHAPES:
        for reduction in range(3):
            for weight in (False, True):
                index = np.int32 if weight else np.int64
                args = (*problem(shape, kind, weight, index), reduction, -100)
                check_forward(device, name, args, kind, factor=3, meaning=log_sums)
                check_vjp(device, name, args, kind, factor=3)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("kind", DTYPES)
def test_many_lines_are_added_up_by_several_blocks(device, name, kind, monkeypatch):
    # rows: DEV-26
    monkeypatch.setattr(cross_entropy, "ONE_BLOCK", 100)
    monkeypatch.setattr(cross_entropy, "LEAST", 64)
    for reduction in (1, 2):
        for weight in (False, True):
            args = (*problem((300, 3), kind, weight), reduction, 1)
            check_forward(device, name, args, kind, factor=3, meaning=log_sums)
            check_vjp(device, name, args, kind, factor=3)
    launched = {k.partition("<")[0] for k in device.launcher.launched}
    assert {"loss_parts", "loss_total", "weight_total", "sum_rows"} <= launched


@pytest.mark.parametrize("name", OPS)
def test_ignored_targets(device, name):
    # rows: DEV-26
    for shape in ((33, 5), (2, 5, 7)):
        x, target, weight = problem(shape, weight=True)
        assert (target == 2).any()
        for ignored in (2, -100):
            if ignored == -100:
                target._array[0] = -100
            for reduction in range(3):
                check_forward(
                    device, name, (x, target, weight, reduction, ignored), meaning=log_sums
                )
                check_vjp(device, name, (x, target, weight, reduction, ignored))


@pytest.mark.parametrize("name", OPS)
def test_a_mean_of_nothing(device, name):
    # rows: DEV-26
    x = tensor(values((3, 5)))
    args = (x, gl.tensor([1, 1, 1]), None, 1, 1)
    with np.errstate(all="ignore"):
        out = check_forward(device, name, args, meaning=log_sums)
        assert np.isnan(out[0] if isinstance(out, tuple) else out)
        assert (check_vjp(device, name, args)[0] == 0).all()


def test_the_gradient_of_nll_as_an_op(device):
    # rows: DEV-26
    for reduction, shape in ((0, (3,)), (1, ()), (2, ())):
        _, target, weight = problem((3, 5), weight=True)
        args = (tensor(values(shape)), target, weight, (3, 5), reduction, -100)
        check_forward(device, "nll_loss_grad", args)


@pytest.mark.parametrize("name", OPS)
def test_a_target_that_is_no_class_gives_nan(device, name):
    # rows: DEV-26
    x, _, _ = problem((3, 5))
    for wrong in (5, -1):
        target = np.array([1, wrong, 2])
        for reduction in (1, 2):
            how = {"reduction": reduction, "ignore_index": -100}
            out = overlays.forwards[name](device, *device.put([x._array, target]), **how)
            assert np.isnan(out[0] if isinstance(out, tuple) else out)
        node = REGISTRY[name].call(x, gl.tensor([1, 4, 2]), None, 2, -100).grad_fn
        node.s_target._array[1] = wrong
        from overlay_checks import run_gradients

        grad = run_gradients(device, REGISTRY[name], node, np.array(1.0), gl.float64)[0]
        assert np.isnan(grad[1]).all() and np.isfinite(grad[[0, 2]]).all()


def test_large_scores_stay_exact(device):
    # rows: DEV-26
    x = tensor(np.array([[1e4, 1e4 - 1, 0.0], [-np.inf, 0.0, 1.0]]), "float32")
    out = check_forward(
        device,
        "cross_entropy_op",
        (x, gl.tensor([1, 2]), None, 0, -100),
        "float32",
        meaning=log_sums,
    )
    close(out[0], np.log1p(np.exp(np.array([1.0, -1.0]))), "float32")


def test_what_the_kernels_do_not_take(device):
    # rows: DEV-26
    x, target, _ = problem((3, 5))
    check_forward(device, "nll_loss_op", (x[:0], target[:0], None, 2, -100), runs=False)
    check_forward(device, "nll_loss_op", (x, target.to(gl.uint8), None, 2, -100), runs=False)
