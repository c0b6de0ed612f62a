"""Backward over streams, saved tensors in pinned memory, copies that are not waited for, the sanitizer, on a device."""

from __future__ import annotations

import numpy as np
import pytest
from shared import take_over

import gradlib as torch
from gradlib.autograd.graph import save_on_cpu
from gradlib.cuda import sanitizer
from gradlib.cuda.sanitizer import sanitize
from tests.simulated import test_programs
from tests.tape import test_streams as scenarios

take_over(
    globals(),
    scenarios,
    # those left out change the classes of CuPy, look at what is not done yet, or count on the simulated order
    but="""test_scenarios test_no_wait_can_be_left_out test_backward_does_not_wait_for_the_device
    test_what_crossed_streams_is_kept_until_it_is_read""",
    two_devices="test_backward_stays_in_the_callers_thread",
)
take_over(
    globals(),
    test_programs,
    but="test_a_missing_wait_in_the_engine_would_be_found",
    two_devices="test_copies_between_devices",
)


# rows: DEV-13 DEV-14 DEV-15 DEV-16 DEV-17 DEV-20
@pytest.mark.parametrize("scenario", scenarios.SCENARIOS, ids=lambda s: s.__name__)
def test_scenarios(scenario, lazy_cuda):
    if scenario is scenarios.two_devices and torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices; this machine has fewer")
    for seed in range(3):
        assert scenarios.wrong(scenario, seed, lazy_cuda) is None


def chain(x, w, depth=12):
    for _ in range(depth):
        x = (x * w).sin() * 1.5
    return x


def test_save_on_cpu_gives_the_same_gradients():
    # rows: GRAPH-20 GRAPH-22
    torch.manual_seed(0)
    x, w = torch.rand(1 << 18).cuda(), torch.rand(1 << 18).cuda()
    grads = []
    for offload in (False, True):
        a, b = (t.detach().clone().requires_grad_() for t in (x, w))
        if offload:
            with save_on_cpu(pin_memory=True):
                y = chain(a, b)
        else:
            y = chain(a, b)
        y.sum().backward()
        grads.append((a.grad.cpu().numpy(), b.grad.cpu().numpy()))
    for plain, offloaded in zip(*grads, strict=True):
        np.testing.assert_array_equal(offloaded, plain)


def test_copies_that_the_host_does_not_wait_for():
    x = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    y = x.to("cuda", non_blocking=True) * 2
    back = y.to("cpu", non_blocking=True)
    assert back.is_pinned()
    torch.cuda.current_stream().synchronize()
    assert torch.equal(back, x * 2)


def branch(wait: bool):
    side = torch.cuda.Stream()
    x = torch.ones(1 << 16, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    return y + 1, x, y


def test_sanitizer():
    with sanitize():
        kept = branch(True)
    with pytest.raises(sanitizer.UnsynchronizedAccessError, match="y = x"), sanitize():
        branch(False)
    assert kept[0].sum().item() == 3 << 16
