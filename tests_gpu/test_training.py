"""Models, optimizers, checkpoints and data loaders on a device."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest
from shared import take_over

import gradlib as gl
from gradlib import nn
from gradlib.utils.checkpoint import checkpoint, checkpoint_sequential
from gradlib.utils.data import DataLoader, TensorDataset
from tests.kernels.test_optim import CASES
from tests.simulated import test_training

take_over(globals(), test_training, but="test_a_training_step_does_not_wait_for_the_device")


def test_loading_puts_tensors_where_they_are_wanted(tmp_path):
    path = tmp_path / "model.pt"
    model = nn.Linear(3, 2)
    gl.save({"model": model.state_dict(), "note": 1}, path)
    for where in ("cuda", "cuda:0", gl.device("cuda"), lambda storage, location: storage.cuda()):
        loaded = gl.load(path, map_location=where)["model"]
        assert loaded["weight"].device == gl.device("cuda:0")
        assert gl.equal(loaded["weight"].cpu(), model.weight.detach())
    there = copy.deepcopy(model).cuda()
    there.load_state_dict(gl.load(path)["model"])
    assert there.weight.is_cuda and there.weight.is_leaf


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "RMSprop"])
def test_the_state_of_an_optimizer_follows_its_parameters(name):
    def step(optimizer, w):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    options = {"lr": 0.1, **({"momentum": 0.9} if name == "SGD" else {})}
    here = gl.arange(1.0, 5.0).requires_grad_()
    first = getattr(gl.optim, name)([here], **options)
    step(first, here)
    there = here.detach().cuda().requires_grad_()
    second = getattr(gl.optim, name)([there], **options)
    second.load_state_dict(copy.deepcopy(first.state_dict()))  # the counters are shared otherwise
    for value in second.state[there].values():
        if isinstance(value, gl.Tensor) and value.shape == there.shape:
            assert value.is_cuda
    step(first, here)
    step(second, there)
    np.testing.assert_allclose(there.detach().cpu().numpy(), here.detach().numpy(), rtol=1e-6)


def ways(name):
    """Options that have a step computed by a kernel where there is one, by the code of the rule, by it on Tensors."""
    known = inspect.signature(getattr(gl.optim, name)).parameters
    return [{}, *({k: v} for k, v in (("fused", False), ("capturable", True)) if k in known)]


@pytest.mark.parametrize(
    ("name", "options", "differently"), [(*c, way) for c in CASES for way in ways(c[0])], ids=str
)
def test_optimizers_do_the_same_on_a_device(name, options, differently):
    def steps(where, options):
        rng = np.random.default_rng(0)
        params = [gl.tensor(rng.normal(size=s), device=where, requires_grad=True) for s in SHAPES]
        optimizer = getattr(gl.optim, name)(params, **{"lr": 0.1, **options})
        for _ in range(3):
            for p in params:
                p.grad = gl.tensor(rng.normal(size=tuple(p.shape)), device=where)
            optimizer.step()
        return [p.detach().cpu().numpy() for p in params]

    counted = 1e-5 if differently.get("capturable") else 1e-9  # in float32
    for there, here in zip(steps("cuda", {**options, **differently}), steps("cpu", options)):
        np.testing.assert_allclose(there, here, rtol=counted, atol=counted)


SHAPES = [(3, 4), (), (7,), (0,), (200, 300)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_pins_feeds_the_device(workers):
    data = TensorDataset(gl.arange(20.0).reshape(10, 2), gl.arange(10))
    seen = []
    for x, y in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert x.is_pinned() and y.is_pinned() and not x.is_cuda
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        assert x.is_cuda and gl.equal(x[:, 0], 2.0 * y)
        seen += y.tolist()
    assert seen == list(range(10))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_draws_the_same_dropout_again(reentrant):
    # rows: DEV-12
    gl.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 3)).cuda()
    x = gl.randn(5, 6).cuda().requires_grad_()
    results = []
    for run in (
        model,
        lambda x: checkpoint(model, x, use_reentrant=reentrant),
        lambda x: checkpoint_sequential(model, 2, x, use_reentrant=reentrant),
    ):
        gl.cuda.manual_seed(7)
        model.zero_grad()
        x.grad = None
        out = run(x)
        out.square().sum().backward()
        grads = [p.grad for p in model.parameters()]
        assert all(g.is_cuda for g in grads)
        results.append([t.detach().cpu().numpy() for t in (out, x.grad, *grads)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_a_model_on_two_dtypes_moves_as_one():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    moved = copy.deepcopy(model).to("cuda", gl.bfloat16)
    assert {p.dtype for p in moved.parameters()} == {gl.bfloat16}
    assert moved[1].num_batches_tracked.dtype is gl.int64 and moved[1].running_mean.is_cuda
    back = moved.to("cpu")
    assert not any(t.is_cuda for t in back.state_dict().values())


def test_compiled_models_train_as_their_own():
    def run(wrap):
        gl.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).cuda()
        called = wrap(model)
        optimizer, losses = gl.optim.SGD(model.parameters(), 0.1), []
        for k in range(6):
            called.train(k != 4)
            x = gl.arange(24.0, device="cuda").reshape(6, 4).sin() + k
            loss = called(x.requires_grad_() if k % 2 else x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, called

    losses, called = run(gl.compile)
    assert losses == run(lambda model: model)[0]
    assert called._call.replays == 0
    assert ["CUDA graph" in f.why for f in gl.explain(called._call)] == [True]


def test_a_captured_function_of_what_requires_grad():
    w = gl.ones(3, device="cuda", requires_grad=True)
    step = gl.capture(lambda x: x * 2)
    for _ in range(6):
        w.grad = None
        step(w).sum().backward()
        assert w.grad.tolist() == [2, 2, 2]
    assert ["requires grad" in f.why for f in gl.explain(step)] == [True]
