"""gradlib.cuda's streams, events, devices and memory, on the simulated device."""

from __future__ import annotations

import gc

import pytest

import gradlib as torch
from gradlib.tape.arrays import backend_for


# rows: DEV-21
def test_stream_becomes_current_in_its_block(cuda):
    s, before = torch.cuda.Stream(), torch.cuda.current_stream()
    assert before == torch.cuda.default_stream()
    assert s != before
    with torch.cuda.stream(s):
        assert torch.cuda.current_stream() == s
        with s:
            assert torch.cuda.current_stream() == s
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == s
    assert torch.cuda.current_stream() == before
    assert hash(s) == hash(torch.cuda.ExternalStream(s.cuda_stream, s.device))


def test_stream_of_another_device_makes_it_current(cuda):
    s = torch.cuda.Stream("cuda:1", priority=-1)
    assert s.device == torch.device("cuda:1")
    assert s.priority == -1
    with torch.cuda.stream(s):
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == s
        assert torch.ones(2, device="cuda").device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) != s


# rows: DEV-21
def test_events_order_streams(lazy_cuda):
    for seed in range(12):
        with lazy_cuda(seed):
            s = torch.cuda.Stream()
            x = torch.full((64,), 3.0, device="cuda")
            s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(s):
                y = x * 2
                done = s.record_event()
            torch.cuda.current_stream().wait_event(done)
            z = y + 1
            assert z.sum().item() == 7 * 64
            event = torch.cuda.Event()
            assert event.query()  # never recorded
            event.record()
            event.synchronize()
            assert event.query()
            s.synchronize()
            assert s.query()


# rows: DEV-21
def test_elapsed_time(cuda):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    torch.ones(1000, device="cuda").exp_()
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 60_000
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(torch.cuda.Event())
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        start.record(torch.cuda.Stream(1))
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.cuda.Event(interprocess=True)


def test_record_stream_keeps_memory_for_another_stream(lazy_cuda):
    def run(record: bool) -> float:
        s = torch.cuda.Stream()
        x = torch.full((256,), 1.0, device="cuda")
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            y = x * 2
            for _ in range(4):
                y = y * 1.0
        if record:
            x.record_stream(s)
        del x
        trash = [torch.full((256,), 9.0, device="cuda") for _ in range(4)]
        s.synchronize()
        del trash
        with torch.cuda.stream(s):
            return y.sum().item()

    right = wrong = 0
    for seed in range(40):
        with lazy_cuda(seed):
            right += run(True) == 512.0
        with lazy_cuda(seed):
            wrong += run(False) != 512.0
    assert right == 40
    assert wrong > 0  # without it some order goes wrong


# rows: DEV-03
def test_devices(cuda):
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        with torch.cuda.device(None), torch.cuda.device(-1):
            assert torch.cuda.current_device() == 1
    with torch.cuda.device_of(torch.ones(1, device="cuda:1")):
        assert torch.cuda.current_device() == 1
    torch.cuda.set_device("cuda:1")
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device(0)
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties("cuda:1").total_memory == torch.cuda.mem_get_info(1)[1]
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.synchronize("cpu")
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.cuda.set_device(7)


def test_operations_run_on_the_device_of_their_arguments(cuda):
    x = torch.ones(4, device="cuda:1", requires_grad=True)
    y = (x * 3).exp().sum()
    y.backward()
    assert torch.cuda.current_device() == 0
    assert x.grad.device == torch.device("cuda:1")
    x.grad.add_(1)
    assert x.grad.mul(2).device == torch.device("cuda:1")


def test_memory_figures(cuda):
    for _ in range(2):
        torch.ones(1, device="cuda") + 1  # a number that comes again is kept on the device
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.ones(1 << 16, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 << 16
    y = x + 1
    del x, y
    assert torch.cuda.memory_allocated() == before
    assert 8 << 16 <= torch.cuda.max_memory_allocated() - before <= (8 << 16) + 1024
    assert torch.cuda.memory_reserved() >= 8 << 16
    torch.cuda.empty_cache()
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    assert 0 <= unused < 1 << 18  # what lies in blocks that are used in part
    assert (
        torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated()
    )
    assert "allocated_bytes" in torch.cuda.memory_summary()


def test_out_of_memory_says_what_holds_it(cuda):
    torch.cuda.set_per_process_memory_fraction(2**20 / torch.cuda.mem_get_info()[1])
    w = torch.ones(1 << 16, device="cuda", requires_grad=True)
    kept = [w * w]

    def fill():
        while True:
            kept.append(kept[-1] * w)

    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        fill()
    text = str(caught.value)
    assert "Tried to allocate 256.00 KiB" in text
    assert "test_streams.py" in text
    assert "in fill" in text
    kept.clear()
    del caught
    assert torch.ones(1 << 16, device="cuda").sum().item() == 1 << 16


# rows: DEV-20
def test_out_of_memory_in_backward_leaves_the_gradients_alone(cuda):
    w = torch.ones(1 << 16, device="cuda", requires_grad=True)
    w.grad = torch.full((1 << 16,), 5.0, device="cuda")
    y = ((w * w).exp() * w).sum()
    torch.cuda.set_per_process_memory_fraction(
        torch.cuda.memory_allocated() / torch.cuda.mem_get_info()[1]
    )
    with pytest.raises(torch.cuda.OutOfMemoryError):
        y.backward()
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert w.grad.sum().item() == 5 << 16


def test_a_stream_whose_numbers_are_kept_leaves_its_pointer_to_no_other(cuda):
    x = torch.ones(3, device="cuda")
    stream = torch.cuda.Stream()
    pointer = stream.cuda_stream
    with torch.cuda.stream(stream):
        for _ in range(3):
            y = x * 1.2345
    stream.synchronize()
    del stream, y
    gc.collect()
    others = [torch.cuda.Stream() for _ in range(8)]
    assert pointer not in [other.cuda_stream for other in others]


def test_numbers_of_external_streams_are_not_kept(cuda):
    owner = torch.cuda.Stream()
    numbers = backend_for("cuda").numbers
    with torch.cuda.stream(torch.cuda.ExternalStream(owner.cuda_stream)):
        before = len(numbers)
        for _ in range(3):
            y = torch.ones(3, device="cuda") * 5.4321
        assert len(numbers) == before
    assert y.tolist() == pytest.approx([5.4321] * 3)
