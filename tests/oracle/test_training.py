"""The networks of the examples, trained under gradlib and PyTorch from the same weights."""

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


def twins(load, script, build, dtype):
    """(library, example, model) for PyTorch and gradlib, with the weights that PyTorch drew."""
    torch.manual_seed(0)
    examples = {lib: load(script, lib.__name__) for lib in (torch, gradlib)}
    models = {lib: build(examples[lib]).to(getattr(lib, dtype)) for lib in examples}
    drawn = models[torch].state_dict()
    drawn = {name: gradlib.tensor(value.numpy()) for name, value in drawn.items()}
    models[gradlib].load_state_dict(drawn)
    return [(lib, examples[lib], models[lib]) for lib in examples]


def train(lib, schedule, model, loss_of):
    """The losses of STEPS steps with the optimizer and schedule of an example."""
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    scheduler = lib.optim.lr_scheduler.LambdaLR(optimizer, schedule(STEPS))
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def assert_same_course(losses, dtype):
    """The losses fell, and gradlib's are PyTorch's."""
    assert losses[torch][-1] < 0.98 * losses[torch][0]
    np.testing.assert_allclose(losses[gradlib], losses[torch], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_digits_network_trains_like_pytorch(load, dtype):
    random = np.random.default_rng(0)
    images = random.normal(size=(32, 1, 8, 8)).astype(dtype)
    labels = random.integers(10, size=32)
    losses = {}
    for lib, example, model in twins(load, "train_digits", lambda e: e.DigitNet(), dtype):
        model.dropout.p = 0.0  # the libraries draw different numbers

        def loss_of(model, lib=lib):
            return lib.nn.functional.cross_entropy(model(lib.tensor(images)), lib.tensor(labels))

        losses[lib] = train(lib, example.schedule, model, loss_of)
    assert_same_course(losses, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_small_gpt_trains_like_pytorch(load, dtype):
    def build(example):
        return example.GPT(example.SYMBOLS, context=32, width=64, layers=2)

    symbols = np.random.default_rng(0).integers(128, size=(8, 33))
    losses = {}
    for lib, example, model in twins(load, "train_text", build, dtype):
        batch = lib.tensor(symbols[:, :-1]), lib.tensor(symbols[:, 1:])

        def loss_of(model, example=example, batch=batch):
            return example.loss_of(model, *batch)

        losses[lib] = train(lib, example.schedule, model, loss_of)
    assert_same_course(losses, dtype)
