"""A child that is forked after CUDA was in use: the device says what to do, the CPU works."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib.devices.cuda.namespace import why_not
from gradlib.utils.data import DataLoader
from tests.cupy_on_cpu.children import in_child


@pytest.fixture
def x():
    return torch.ones(3, device="cuda", requires_grad=True)


ACTIONS = {
    "a new tensor": lambda x: torch.ones(2, device="cuda").tolist(),
    "an op": lambda x: (x * 2).tolist(),
    "an op on two": lambda x: (x + x).tolist(),
    "to the host": lambda x: x.detach().cpu().tolist(),
    "to the device": lambda x: torch.ones(2).to("cuda").tolist(),
    "a product": lambda x: (x @ x).item(),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_the_device_says_what_to_do(name, x):
    (x * 2).sum().backward()
    found = in_child(lambda: ACTIONS[name](x))
    assert isinstance(found, str)
    assert found.startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")
    assert "DataLoader's workers: move tensors to the device in the parent" in found
    assert ACTIONS[name](x) is not None  # the parent goes on


def test_why_there_is_no_device_is_the_same(x):
    found = in_child(lambda: (why_not(), torch.cuda.is_available()))
    assert found[0].startswith("Cannot re-initialize CUDA in forked subprocess") and not found[1]
    assert why_not() is None


def test_the_cpu_works(x):
    def action():
        torch.manual_seed(0)
        w = torch.ones(2, requires_grad=True)
        (w * torch.rand(2)).sum().backward()
        return w.grad is not None and not torch.cuda.is_available()

    assert in_child(action) is True


def test_workers_of_a_loader(x):
    loader = DataLoader([torch.full((2,), float(i)) for i in range(6)], 2, num_workers=2)
    assert sum(batch.to("cuda").sum().item() for batch in loader) == 30.0
