"""save_on_cpu with pinned memory, and copies that the host does not wait for, on the simulated device."""

from __future__ import annotations

import inspect
import re
import textwrap

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd import _offload
from gradlib.autograd.graph import save_on_cpu, saved_tensors_hooks
from gradlib.tape.modes import shared

SIZE = 64


def chain(x, w, depth=6):
    """A computation that saves something at every step."""
    h = x
    for _ in range(depth):
        h = (h * w).sin() * 1.5
    return h


def gradients(x, w, offload=None):
    x, w = (t.detach().clone().requires_grad_() for t in (x, w))
    if offload is None:
        chain(x, w).sum().backward()
    else:
        with offload:
            y = chain(x, w)
        y.sum().backward()
    return x.grad, w.grad


def inputs(device="cuda"):
    x = torch.arange(SIZE, dtype=torch.float32) / SIZE + 0.1
    return x.to(device), (1.5 - x).to(device)


def expected():
    return [g.numpy() for g in gradients(*inputs("cpu"))]


@pytest.mark.first_device
# rows: GRAPH-20 GRAPH-22 GRAPH-23
def test_saved_tensors_lie_in_pinned_memory(cuda):
    assert issubclass(save_on_cpu, saved_tensors_hooks)
    kept = []
    hooks = save_on_cpu(pin_memory=True)
    pack = hooks.pack_hook
    hooks.pack_hook = lambda t: kept.append(pack(t)) or kept[-1]
    got = gradients(*inputs(), hooks)
    assert kept and all(packed[1].is_pinned() and not packed[1].is_cuda for packed in kept)
    assert all(packed[0] == torch.device("cuda", 0) for packed in kept)
    for a, b in zip(got, expected(), strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b, rtol=1e-5)


# rows: GRAPH-20
def test_without_pinned_memory(cuda):
    hooks = save_on_cpu()
    got = gradients(*inputs(), hooks)
    for a, b in zip(got, expected(), strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b, rtol=1e-5)


# rows: GRAPH-21
@pytest.mark.host
def test_tensors_on_the_cpu_are_not_copied(cuda):
    x = torch.ones(3, requires_grad=True)
    with save_on_cpu(pin_memory=True):
        y = x * x
    assert y.grad_fn._saved_self.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def wrong(seed: int, lazy_cuda, side: bool = False, ahead: int = 400, budget: int = 600) -> bool:
    """Whether a training step with offloading gives other gradients than without."""
    with lazy_cuda(seed) as cp:
        hooks = save_on_cpu(pin_memory=True)
        offload = _offload.Offload(budget, ahead)
        hooks.pack_hook, hooks.unpack_hook = offload.pack, offload.unpack
        stream = cp.cuda.Stream(non_blocking=True) if side else cp.cuda.get_current_stream()
        with stream:
            x, w = inputs()
            got = gradients(x, w, hooks)
            trash = [torch.full((SIZE,), 9.0, device="cuda") for _ in range(4)]
            again = gradients(x, w, hooks)
            del trash
            values = [g.cpu().numpy() for g in (*got, *again)]
        return not all(
            np.allclose(a, b, rtol=1e-5) for a, b in zip(values, expected() * 2, strict=True)
        )


# rows: GRAPH-22
@pytest.mark.parametrize("side", [False, True])
def test_gradients_are_right_in_every_order(side, lazy_cuda):
    for seed in range(30):
        assert not wrong(seed, lazy_cuda, side)
    assert not wrong(1, lazy_cuda, side, ahead=0, budget=0)
    assert not wrong(2, lazy_cuda, side, ahead=1 << 20, budget=1 << 20)


SAFETY = re.compile(r"\.wait\(|\.retire\(|\.guard\(")


def mutants():
    """Offload without one of the lines that keep its stream and the others in order."""
    lines = inspect.getsource(_offload.Offload).splitlines()
    for i, line in enumerate(lines):
        if SAFETY.search(line):
            indent = line[: len(line) - len(line.lstrip())]
            names = dict(vars(_offload))
            exec(textwrap.dedent("\n".join([*lines[:i], indent + "pass", *lines[i + 1 :]])), names)
            yield line.strip(), names["Offload"]


@pytest.mark.parametrize(("line", "mutant"), [*mutants()], ids=[line for line, _ in mutants()])
def test_no_wait_can_be_left_out(line, mutant, lazy_cuda, monkeypatch):
    if "retire(host" in line:  # the simulated pinned pool makes memory anew for everybody
        kept = []
        monkeypatch.setattr(
            type(shared.cuda)
            if shared.cuda
            else __import__("gradlib.devices.cuda.lanes", fromlist=["Streams"]).Streams,
            "retire",
            lambda self, values, lane: kept.append(values),
        )
        assert not wrong(0, lazy_cuda)
        assert any(isinstance(v, np.ndarray) for v in kept)
        return
    monkeypatch.setattr(_offload, "Offload", mutant)
    for seed in range(120):
        if wrong(seed, lazy_cuda, bool(seed % 2)):
            return
    pytest.fail(f"nothing fails without {line!r}")


@pytest.mark.first_device
# rows: GRAPH-22
def test_backward_fetches_ahead_on_a_stream_of_its_own(cuda):
    hooks = save_on_cpu(pin_memory=True)
    offload = _offload.Offload()
    fetched, fetch = [], offload._fetch
    offload._fetch = lambda packed: fetched.append(packed) or fetch(packed)
    hooks.pack_hook, hooks.unpack_hook = offload.pack, offload.unpack
    x, w = (t.requires_grad_() for t in inputs())
    with hooks:
        y = chain(x, w)
    y.backward(torch.ones_like(y))
    first = fetched[0]
    assert (
        len(fetched) > 2 and fetched[1] is first.before()
    )  # while the first one is still to be used
    assert offload.lanes[0].stream != cuda.cuda.get_current_stream()


def test_a_tensor_that_is_saved_twice_is_copied_once(cuda):
    offload = _offload.Offload()
    x = torch.ones(4, device="cuda")
    first = offload.pack(x)
    assert offload.pack(x) is first
    assert offload.pack(x.detach()) is first
    x.add_(1)
    second = offload.pack(x)
    assert second is not first
    assert offload.unpack(first).tolist() == [1.0] * 4
    assert offload.unpack(second).tolist() == [2.0] * 4
    del x
    assert not offload.known


def test_retain_graph_and_strides(cuda):
    x = torch.arange(6.0, device="cuda").reshape(2, 3).t().requires_grad_()
    with save_on_cpu(pin_memory=True):
        y = x * x
        z = x[::2] * x[::2]
    for _ in range(2):
        x.grad = None
        (y.sum() + z.sum()).backward(retain_graph=True)
        want = 2 * x.detach()
        want[::2] *= 2
        assert torch.equal(x.grad, want)
    assert y.grad_fn._saved_self.stride() == x.stride()


# -- pinned memory ---------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_pin_memory(cuda):
    x = torch.arange(4.0)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned() and y[1:].is_pinned() and y.pin_memory() is y
    assert y.tolist() == x.tolist()
    for made in (
        torch.empty(2, pin_memory=True), torch.zeros(2, 3, pin_memory=True), torch.full((2,), 1.0, pin_memory=True),
        torch.tensor([1.0], pin_memory=True), torch.rand(3, pin_memory=True),
    ):  # fmt: skip
        assert made.is_pinned()
    with pytest.raises(RuntimeError, match=r"cannot pin 'torch\.cuda\.FloatTensor'"):
        x.cuda().pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.ones(2, device="cuda", pin_memory=True)


@pytest.mark.host
def test_pinned_memory_needs_a_device():
    for make in (lambda: torch.ones(2).pin_memory(), lambda: torch.empty(2, pin_memory=True)):
        with pytest.raises(
            RuntimeError, match="Cannot access accelerator device when none is available"
        ):
            make()


@pytest.mark.host
def test_copies_that_the_host_does_not_wait_for(lazy_cuda, monkeypatch):
    late = 0
    for seed in range(20):
        with lazy_cuda(seed) as cp:
            x = torch.arange(32.0).pin_memory()
            monkeypatch.setattr(cp.cuda.Stream, "synchronize", lambda *_: pytest.fail("waited"))
            y = x.to("cuda", non_blocking=True) * 2
            back = y.to("cpu", non_blocking=True)
            assert back.is_pinned()
            del x, y
            monkeypatch.undo()
            late += back.tolist() != [2.0 * i for i in range(32)]
            torch.cuda.current_stream().synchronize()
            assert back.tolist() == [2.0 * i for i in range(32)]
    assert late  # some order shows that nobody waited


@pytest.mark.host
def test_non_blocking_from_pageable_memory_waits(lazy_cuda):
    with lazy_cuda(4):
        x = torch.arange(8.0)
        y = x.to("cuda", non_blocking=True)
        x.zero_()
        assert y.tolist() == [float(i) for i in range(8)]
        z = torch.zeros(8, device="cuda")
        z.copy_(y.cpu().pin_memory(), non_blocking=True)
        assert z.tolist() == y.tolist()


@pytest.mark.host
def test_what_was_copied_does_not_pile_up(cuda):
    x = torch.ones(4).pin_memory()
    for _ in range(1000):
        x.to("cuda", non_blocking=True)
    assert len(shared.cuda._retired) < 200
