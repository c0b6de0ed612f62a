"""Events, streams, memory figures and several devices."""

from __future__ import annotations

import pytest
from shared import needs_two_devices, take_over

import gradlib as torch
from tests.cuda import test_streams as on_any

take_over(
    globals(),
    on_any,
    # the first two count devices or bytes of the simulated one, the others limit its memory
    but="""test_devices test_record_stream_keeps_memory_for_another_stream test_out_of_memory_says_what_holds_it
    test_out_of_memory_in_backward_leaves_the_gradients_alone test_elapsed_time""",
    two_devices="""test_stream_of_another_device_makes_it_current
    test_operations_run_on_the_device_of_their_arguments""",
)


def test_elapsed_time_is_that_of_the_work():
    # rows: DEV-21
    x = torch.ones(128, 128, device="cuda")
    x @ x
    short, long = (timed(lambda n=n: [x @ x for _ in range(n)]) for n in (1, 200))
    assert 0 <= short < long < 60_000


def timed(work):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def test_memory_of_an_impossible_tensor_is_refused():
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(1 << 46, device="cuda")
    assert torch.ones(4, device="cuda").sum().item() == 4


def test_a_graph_gives_back_its_memory():
    def step(x):
        y = x
        for _ in range(5):
            y = y.sin() * x
        y.sum().backward()
        x.grad = None

    step(torch.rand(1 << 16, device="cuda", requires_grad=True))  # constants are kept from now on
    before = torch.cuda.memory_allocated()
    x = torch.rand(1 << 16, device="cuda", requires_grad=True)
    for _ in range(3):
        step(x)
        assert torch.cuda.memory_allocated() - before == 4 << 16
    del x
    assert torch.cuda.memory_allocated() == before


def test_properties_of_the_device():
    # rows: DEV-03
    properties = torch.cuda.get_device_properties(0)
    assert properties.name == torch.cuda.get_device_name() and properties.total_memory > 1 << 30
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device=f"cuda:{torch.cuda.device_count()}")


@needs_two_devices
def test_a_model_on_two_devices():
    first, second = torch.nn.Linear(3, 4).to("cuda:0"), torch.nn.Linear(4, 2).to("cuda:1")
    x = torch.rand(5, 3, device="cuda:0", requires_grad=True)
    loss = second(first(x).relu().to("cuda:1")).square().mean()
    loss.backward()
    assert loss.device == torch.device("cuda:1") and x.grad.device == torch.device("cuda:0")
    assert second.weight.grad.device == torch.device("cuda:1")
    parameters = [*first.parameters(), *second.parameters()]
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1e-3)
    assert (
        norm.item() > 1e-3
        and abs(torch.nn.utils.get_total_norm(p.grad for p in parameters).item() - 1e-3) < 1e-6
    )
    for name in ("SGD", "AdamW", "RMSprop", "Adadelta", "Rprop"):
        before = [p.tolist() for p in parameters]
        optimizer = getattr(torch.optim, name)(parameters, lr=0.01)
        for _ in range(2):
            optimizer.step()
        assert all(p.tolist() != b for p, b in zip(parameters, before, strict=True)), name
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        second(first(x))
