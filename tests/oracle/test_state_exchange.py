"""Layers and optimizers take over PyTorch's state through a safetensors file, and train on as PyTorch does."""

from __future__ import annotations

import warnings

import module_catalog
import numpy as np
import pytest
import torch
from catalog_sample import Outside, as_array, leaves
from safetensors.torch import save_file

import gradlib

STEPS = 10
TRAINED = [
    info
    for info in module_catalog.module_db
    if not info.is_lazy
    and info.name
    not in ("nn.AdaptiveLogSoftmaxWithLoss",)  # gives a named tuple: in test_module_catalog
]


def loss_of(lib, out):
    """A loss of the floating-point results."""
    total = 0.0
    for o in leaves(out, lib.Tensor):
        if o.is_floating_point():
            total = total + (o * o).sum() + o.sin().sum()
    return total


def losses_and_parameters(lib, module, args, kwargs, make):
    """Ten training steps: the loss of each, and the parameters afterwards."""
    optimizer, found = make(lib, module.parameters()), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(lib, module(*args, **kwargs))
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, {name: p.detach().numpy() for name, p in module.named_parameters()}


def parameters_of(info) -> bool:
    given = module_catalog.inputs_of(info, torch.float64, True, 1)[0]
    build = given.constructor_input
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(True for _ in info.module_cls(*build.args, **build.kwargs).parameters())


@pytest.mark.filterwarnings("ignore")  # PyTorch's advice on its own faster paths
@pytest.mark.parametrize("info", [i for i in TRAINED if parameters_of(i)], ids=lambda i: i.name)
def test_ten_steps_after_loading(info, tmp_path):
    checked = 0
    for given in module_catalog.inputs_of(info, torch.float64, True, 3):
        try:
            sample = module_catalog.ModuleSample(info, given, torch.float64, True)
        except Outside:
            continue
        if not sample.construct() or not list(sample.module.parameters()):
            continue
        theirs, ours = sample.module, sample.ours
        for module in (*theirs.modules(), *ours.modules()):
            if hasattr(module, "dropout") and isinstance(module.dropout, float):
                module.dropout = 0.0
            if type(module).__name__.startswith("Dropout"):
                module.p = 0.0
        path = tmp_path / "state.safetensors"
        save_file({k: v.contiguous().clone() for k, v in theirs.state_dict().items()}, path)
        fresh = sample.cls(*sample.our_build[0], **sample.our_build[1]).to(gradlib.float64)
        fresh.load_state_dict(gradlib.safetensors.load_file(path))
        for name, value in fresh.state_dict().items():
            assert np.array_equal(value.numpy(), as_array(theirs.state_dict()[name])), name
        for module in fresh.modules():
            if hasattr(module, "dropout") and isinstance(module.dropout, float):
                module.dropout = 0.0
            if type(module).__name__.startswith("Dropout"):
                module.p = 0.0

        def make(lib, parameters):
            return lib.optim.SGD(
                parameters, lr=1e-3, momentum=0.9
            )  # Adam would divide rounding errors by each other

        expected, wanted = losses_and_parameters(torch, theirs, sample.args, sample.kwargs, make)
        found, have = losses_and_parameters(
            gradlib, fresh, sample.our_args, sample.our_kwargs, make
        )
        assert np.allclose(found, expected, rtol=1e-10, atol=1e-10)
        for name, value in wanted.items():
            assert np.allclose(have[name], value, rtol=1e-10, atol=1e-10), name
        checked += 1
    assert checked


OPTIMIZERS = {
    "SGD": {"lr": 0.01, "momentum": 0.9, "nesterov": True}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adamax": {},
    "NAdam": {}, "RAdam": {}, "Adagrad": {}, "Adadelta": {}, "RMSprop": {"momentum": 0.5, "centered": True},
    "Rprop": {}, "ASGD": {}, "Adafactor": {},
}  # fmt: skip


def flat(state: dict) -> dict[str, torch.Tensor]:
    """The tensors of an optimizer's state as a safetensors file can hold them."""
    return {
        f"{index}.{name}": value.clone()
        for index, entries in state["state"].items()
        for name, value in entries.items()
        if isinstance(value, torch.Tensor)
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_on_from_pytorchs_state(name, tmp_path):
    """Five steps in PyTorch, its model and optimizer state through files, and ten steps more in both."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
    theirs = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    ).double()
    optimizer = getattr(torch.optim, name)(theirs.parameters(), **OPTIMIZERS[name])

    def step(lib, model, optimizer, x, y):
        optimizer.zero_grad()
        lib.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    for _ in range(5):
        step(torch, theirs, optimizer, x, y)
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    save_file(flat(optimizer.state_dict()), tmp_path / "optimizer.safetensors")

    layers = gradlib.nn.Linear(4, 5), gradlib.nn.Tanh(), gradlib.nn.Linear(5, 3)
    ours = gradlib.nn.Sequential(*layers).double()
    ours.load_state_dict(gradlib.safetensors.load_file(tmp_path / "model.safetensors"))
    mine = getattr(gradlib.optim, name)(ours.parameters(), **OPTIMIZERS[name])
    state = optimizer.state_dict()
    tensors = gradlib.safetensors.load_file(tmp_path / "optimizer.safetensors")
    entries: dict[int, dict] = {i: dict(e) for i, e in state["state"].items()}
    for key, value in tensors.items():
        index, entry = key.split(".", 1)
        entries[int(index)][entry] = value
    mine.load_state_dict({"state": entries, "param_groups": state["param_groups"]})
    gx, gy = gradlib.from_numpy(x.numpy()), gradlib.from_numpy(y.numpy())
    for _ in range(STEPS):
        step(torch, theirs, optimizer, x, y)
        step(gradlib, ours, mine, gx, gy)
        for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
            assert np.allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-10, atol=1e-10)
