"""kernels/optim.cu against the optimizers and the norms of the CPU."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from overlay_checks import DTYPES, KINDS, TOLERANCE, close, numpy, values

import gradlib as gl
from gradlib.devices.cuda.fused import optim as fused
from gradlib.devices.cuda.fused.lists import TENSORS
from gradlib.optim._elementwise import ElementwiseOptimizer

FACTOR = {
    "float64": 1e4,
    "float32": 4,
    "float16": 8,
    "bfloat16": 8,
}  # of a learning rate in float32; of three steps
SHAPES = [(3, 5), (1,), (1025,), (), (33, 31), (0, 4), (5000,)]  # one is cut in pieces


def arrays(device, kind, seed, shapes=SHAPES, low=-1.0, high=1.0):
    """Arrays on the device, and their exact values in float64."""
    made = [
        np.asarray(values(s, seed + i, low, high)).astype(KINDS[kind].np)
        for i, s in enumerate(shapes)
    ]
    return [device.asarray(a) for a in made], [a.astype(np.float64) for a in made]


def cases():
    """(name, options) for every optimizer with an elementwise rule: each option alone, and all that go together."""
    for name in sorted(gl.optim.__all__):
        cls = getattr(gl.optim, name)
        if not (isinstance(cls, type) and issubclass(cls, ElementwiseOptimizer)):
            continue
        has = inspect.signature(cls).parameters.keys() - NO_OPTIONS
        assert has <= OPTIONS.keys(), f"{name} has options that are not tried"
        yield name, {}
        known = {key: value for key, value in OPTIONS.items() if key in has}
        beside = {"momentum": 0.9} if "dampening" in has else {}
        yield from ((name, {**beside, key: value}) for key, value in known.items())
        yield name, {key: value for key, value in known.items() if key != "dampening"}


OPTIONS = {
    "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.6), "eps": 0.1, "amsgrad": True, "momentum": 0.5,
    "dampening": 0.25, "nesterov": True, "decoupled_weight_decay": True, "centered": True, "alpha": 0.9, "rho": 0.5,
    "lambd": 0.1, "t0": 1, "lr_decay": 0.1, "initial_accumulator_value": 0.2, "momentum_decay": 0.1, "etas": (0.4, 1.5),
    "step_sizes": (1e-3, 0.015),
}  # fmt: skip
NO_OPTIONS = {
    "params",
    "lr",
    "foreach",
    "capturable",
    "differentiable",
    "fused",
}  # they change no number
CASES = list(cases())


def cpu_steps(make, exact, grads, count):
    """`count` steps of an optimizer in float64 on the CPU: the parameters and their state."""
    params = [gl.from_numpy(np.array(p)).requires_grad_() for p in exact]
    optimizer = make(params)
    for _ in range(count):
        for p, g in zip(params, grads):
            p.grad = gl.from_numpy(np.array(g))
        optimizer.step()
    return params, [optimizer.state[p] for p in params]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(
    ("name", "options"), [c for c in CASES if getattr(gl.optim, c[0]).kernel], ids=str
)
def test_a_kernel_does_what_the_rule_says(device, kind, name, options):
    # rows: DEV-26
    params, exact = arrays(device, kind, 0)
    grads, exact_grads = arrays(
        device, kind, 50, low=0.5
    )  # squares of small ones are lost in half precision

    def make(cpu):
        return getattr(gl.optim, name)(cpu, **{"lr": 0.02, **options})

    expected, state = cpu_steps(make, exact, exact_grads, 3)
    optimizer = make([gl.zeros(1, requires_grad=True)])
    (group,) = optimizer.param_groups
    names = optimizer.slots(group)
    slots = [[device.zeros(p.shape, p.dtype) for p in params] for _ in names]
    steps = [device.zeros((), np.float32) for _ in params] if optimizer.scalars(group) else []
    for k, lr in enumerate((0.02, device.asarray(np.float32(0.02)), 0.02)):
        settings = {**group, **(optimizer.beginning if k == 0 else {}), "lr": lr}
        done = fused.step(device, optimizer.kernel, params, grads, slots, steps, settings)
        assert done is None
    for i, p in enumerate(expected):
        close(params[i], p.detach().numpy(), kind, FACTOR[kind])
        if p.numel():
            for slot, key in zip(slots, names):
                close(slot[i], state[i][key].numpy(), kind, FACTOR[kind])
            assert not steps or steps[i] == 3


def test_more_tensors_than_a_table_holds(device):
    # rows: DEV-26
    shapes = [(i % 7 * 300 + 1,) for i in range(TENSORS * 2 + 5)]
    params, exact = arrays(device, "float64", 0, shapes)
    grads, exact_grads = arrays(device, "float64", 50, shapes)
    fused.step(device, "sgd", params, grads, [], (), {"lr": 0.5})
    assert device.launcher.launched == ["sgd<double>"] * 3
    for p, a, g in zip(params, exact, exact_grads):
        close(p, a - 0.5 * g, "float64")
    norm = fused.total_norm(device, grads)
    close(norm, np.sqrt(sum((g**2).sum() for g in exact_grads)), "float64")


def test_scaled_gradients_and_skipped_steps(device):
    # rows: DEV-26
    params, exact = arrays(device, "float32", 0)
    grads, exact_grads = arrays(device, "float32", 50)
    scale, flag = device.asarray(np.float32(4.0)), device.asarray(np.float32(1.0))
    m, v = ([device.zeros(p.shape, p.dtype) for p in params] for _ in range(2))
    steps = [device.zeros((), np.float32) for _ in params]
    how = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8}
    fused.step(device, "adam", params, grads, [m, v], steps, how, flag)
    fused.step(device, "sgd", params, grads, [], (), how, flag)
    assert all((numpy(p) == a.astype(np.float32)).all() for p, a in zip(params, exact))
    assert all(s == 0 for s in steps)
    flag[...] = 0
    fused.step(device, "sgd", params, grads, [], (), how, flag, scale)
    for p, a, g in zip(params, exact, exact_grads):
        close(p, a - 0.1 * g / 4, "float32")


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_norm_and_clipping(device, kind, norm_type):
    # rows: DEV-26
    grads, exact = arrays(device, kind, 0, SHAPES)
    flat = np.concatenate([g.reshape(-1) for g in exact])
    total = fused.total_norm(device, grads, norm_type)
    assert total.dtype == (np.float64 if kind == "float64" else np.float32) and total.shape == ()
    np.testing.assert_allclose(
        numpy(total), np.linalg.norm(flat, norm_type), rtol=TOLERANCE["float32"]
    )
    for limit in (1e9, 0.5):
        fused.clip(device, grads, total, limit)
        factor = min(1.0, limit / (np.linalg.norm(flat, norm_type) + 1e-6))
        for g, a in zip(grads, exact):
            close(g, a * factor, kind, 2)


def test_nan_and_nothing(device):
    # rows: DEV-26
    grads = [device.asarray(np.array([1.0, np.nan])), device.asarray(np.ones(3))]
    for norm_type in (1.0, 2.0, float("inf")):
        assert np.isnan(fused.total_norm(device, grads, norm_type))
    fused.clip(device, grads, fused.total_norm(device, grads), 1.0)
    assert np.isnan(grads[1]).all()
    assert fused.total_norm(device, [device.zeros((0, 3))]) == 0
    assert fused.total_norm(device, [], 2.0) is NotImplemented
    assert fused.total_norm(device, grads, 3.0) is NotImplemented


def test_layouts(device):
    # rows: DEV-26
    p, g = device.put(values((4, 6))), device.put(values((4, 6), 1))
    before = numpy(p).copy()

    def sgd(params, grads):
        return fused.step(device, "sgd", params, grads, [], (), {"lr": 1.0})

    assert sgd([p.T], [g.T]) is None  # both in the same order
    close(p, before - numpy(g), "float64")
    refused = [
        ([p.T], [device.put(np.ascontiguousarray(numpy(g).T))]),
        ([p[:, ::2]], [g[:, ::2]]),
        ([p], [g.astype(np.float32)]),
    ]
    for params, grads in refused:
        assert sgd(params, grads) is NotImplemented
    step = device.zeros((), np.float64)
    zeros = [device.zeros(p.shape)]
    how = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8}
    done = fused.step(device, "adam", [p], [g], [zeros, zeros], [step], how)
    assert done is NotImplemented
