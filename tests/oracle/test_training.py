"""The networks of the examples, trained side by side under gradlib and PyTorch from the same weights."""

import pathlib
import sys
import types

import numpy as np
import pytest
import torch

import gradlib

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
STEPS = 20
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}  # relative, of every loss


@pytest.fixture
def load(monkeypatch):
    """load(name, library): the example as a module that computes with the library."""
    for package in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(package, reason="the examples extra is not installed")
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name, library):
        module = types.ModuleType(f"{name}_{library}")
        path = EXAMPLES / f"{name}.py"
        source = path.read_text().replace("gradlib", library)
        exec(compile(source, f"{path} under {library}", "exec"), module.__dict__)
        return module

    yield load
    sys.modules.pop("script_tools", None)


def same_weights(ours, theirs):
    """Copy the state of PyTorch's model `theirs` into `ours`."""
    state = {name: gradlib.tensor(value.numpy()) for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state)


def train(lib, example, model, loss_of, steps=STEPS):
    """The losses of so many steps with the optimizer and schedule of an example."""
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    scheduler = lib.optim.lr_scheduler.LambdaLR(optimizer, example.schedule(steps))
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_digits_network_trains_like_pytorch(load, dtype):
    random = np.random.default_rng(0)
    images = random.normal(size=(32, 1, 8, 8)).astype(dtype)
    labels = random.integers(10, size=32)
    losses, models = {}, {}
    torch.manual_seed(0)
    for lib in (torch, gradlib):
        example = load("train_digits", lib.__name__)
        model = models[lib] = example.DigitNet().to(getattr(lib, dtype))
        if lib is gradlib:
            same_weights(model, initial)
        else:
            initial = example.DigitNet().to(getattr(lib, dtype))
            initial.load_state_dict(model.state_dict())
        model.dropout.p = 0.0  # the two draw different numbers

        def loss_of(model, lib=lib):
            scores = model(lib.tensor(images))
            return lib.nn.functional.cross_entropy(scores, lib.tensor(labels))

        losses[lib] = train(lib, example, model, loss_of)
    assert losses[torch][-1] < 0.7 * losses[torch][0]
    np.testing.assert_allclose(losses[gradlib], losses[torch], rtol=TOLERANCE[dtype])
    for name, value in models[torch].state_dict().items():
        assert models[gradlib].state_dict()[name].shape == tuple(value.shape), name


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_small_gpt_trains_like_pytorch(load, dtype):
    symbols = np.random.default_rng(0).integers(128, size=(8, 33))
    losses = {}
    torch.manual_seed(0)
    for lib in (torch, gradlib):
        example = load("train_text", lib.__name__)
        model = example.GPT(example.SYMBOLS, context=32, width=64, layers=2).to(getattr(lib, dtype))
        if lib is gradlib:
            same_weights(model, initial)
        else:
            initial = example.GPT(example.SYMBOLS, context=32, width=64, layers=2)
            initial.to(getattr(lib, dtype)).load_state_dict(model.state_dict())
        batch = lib.tensor(symbols[:, :-1]), lib.tensor(symbols[:, 1:])

        def loss_of(model, example=example, batch=batch):
            return example.loss_of(model, *batch)

        losses[lib] = train(lib, example, model, loss_of)
    assert losses[torch][-1] < 0.98 * losses[torch][0]
    np.testing.assert_allclose(losses[gradlib], losses[torch], rtol=TOLERANCE[dtype])
