"""Backward on CUDA streams, on a simulated device that does queued work as late and as disorderly as it may.

Each scenario is a function of the library of streams that returns (got, expected) pairs of numbers. It is run for many
seeds; and every wait that the engine makes is taken out in turn, after which some scenario must fail.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import threading

import numpy as np
import pytest

import gradlib as torch
from gradlib.tape import engine, streams

SEEDS = 8  # for each scenario; all scenarios together run on more than 200
SIZE = 64


def side(cp):
    return cp.cuda.Stream(non_blocking=True)


def joined(cp, *others):
    """Let the current stream wait for `others`: what a user does before using their results."""
    here = cp.cuda.get_current_stream()
    for other in others:
        here.wait_event(other.record())


def forked(cp, *others):
    """Let `others` wait for the current stream."""
    event = cp.cuda.get_current_stream().record()
    for other in others:
        other.wait_event(event)


def leaf(*values, **kwargs):
    return torch.full((SIZE,), *values, device="cuda", requires_grad=True, **kwargs)


def busy(t, times=6):
    """Some work that takes its time."""
    for _ in range(times):
        t = t * 1.0
    return t


# -- scenarios ---------------------------------------------------------------------------------------------------------


def two_branches(cp):
    """Two independent branches on two streams meet on the caller's."""
    x, s1, s2 = leaf(2.0), side(cp), side(cp)
    base = x * 1.0
    forked(cp, s1, s2)
    with s1:
        a = busy(base * 3.0)
    with s2:
        b = busy(base * base)
    joined(cp, s1, s2)
    (a * b).sum().backward()
    return [(x.grad, 36.0)]  # 3 x^3


def everything_on_a_side_stream(cp):
    """Forward on a side stream, backward and use of the gradient on the caller's (a leaf stream to be joined)."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    with s:
        y = busy(x * x).sum()
    joined(cp, s)
    y.backward()
    return [(x.grad * 2.0, 12.0)]


def inside_the_block(cp):
    """Backward and use of the gradient in one stream block need no synchronisation."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    with s:
        busy(x * x).sum().backward()
        out = x.grad * 2.0
        return [(out, 12.0, s), (x, 3.0)]  # x lives on: its memory is that of another stream


def another_stream_than_forward(cp):
    """Backward called while another side stream is current: that one is the caller's."""
    x, s1, s2 = leaf(3.0), side(cp), side(cp)
    forked(cp, s1)
    with s1:
        y = busy(x * x)
    s2.wait_event(s1.record())
    with s2:
        y.sum().backward()
        return [(busy(x.grad), 6.0, s2), (x, 3.0)]


def late_root_gradient(cp):
    """The gradient given to backward is still being computed on the caller's stream."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    with s:
        y = x * x
    joined(cp, s)
    y.backward(busy(torch.full((SIZE,), 5.0, device="cuda")))
    return [(x.grad, 30.0)]


def late_accumulated_gradient(cp):
    """A .grad that the caller's stream is still writing is added to on the stream of the gradient that arrives."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    with s:
        y = (x * x).sum()
    joined(cp, s)
    x.grad = busy(torch.full((SIZE,), 1.0, device="cuda"))
    y.backward()
    return [(x.grad, 7.0)]


def late_saved_tensor(cp):
    """What the caller's stream did before backward (here: to a weight used under no_grad) comes first."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    scale = torch.ones(SIZE, device="cuda")
    with s:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda _: scale):
            out = x * torch.full((SIZE,), 2.0, device="cuda")
        total = out.sum()
    joined(cp, s)
    scale.copy_(busy(torch.full((SIZE,), 4.0, device="cuda")))
    total.backward()
    return [(x.grad, 4.0)]


def root_on_the_host(cp):
    """A loss on the CPU: no gradient comes from the caller's stream, and yet what it did comes first."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    scale = torch.ones(SIZE, device="cuda")
    with s:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda _: scale):
            out = x * torch.full((SIZE,), 2.0, device="cuda")
        total = out.cpu().sum()
    scale.copy_(busy(torch.full((SIZE,), 4.0, device="cuda")))
    total.backward()
    return [(x.grad, 4.0)]


def results_of_grad(cp):
    """autograd.grad: its results may be used on the caller's stream at once."""
    x, w, s = leaf(3.0), leaf(2.0), side(cp)
    forked(cp, s)
    with s:
        y = busy(x * w).sum()
    joined(cp, s)
    gx, gw = torch.autograd.grad(y, (x, w))
    return [(gx + gw, 5.0)]


def gradient_of_an_intermediate(cp):
    """A captured gradient of a node on a side stream."""
    x, s = leaf(3.0), side(cp)
    forked(cp, s)
    with s:
        h = x * 2.0
        y = busy(h * h).sum()
    joined(cp, s)
    (gh,) = torch.autograd.grad(y, h)
    return [(gh * 1.0, 12.0)]


def one_leaf_many_streams(cp):
    """A weight used on three streams: what arrives from all of them is added up."""
    w = leaf(2.0)
    sides = [side(cp) for _ in range(3)]
    forked(cp, *sides)
    parts = []
    for k, s in enumerate(sides):
        with s:
            parts.append(busy(w * (k + 1.0), 3 * k))
    joined(cp, *sides)
    (parts[0] + parts[1] + parts[2]).sum().backward()
    return [(w.grad, 6.0)]


def one_node_many_streams(cp):
    """An intermediate value used on several streams and on its own: its gradients add up on its own stream."""
    x, s1, s2 = leaf(2.0), side(cp), side(cp)
    h = x * x
    forked(cp, s1, s2)
    with s1:
        a = busy(h * 2.0)
        a = a + h
    with s2:
        b = busy(h * 3.0)
    joined(cp, s1, s2)
    (a + b + h).sum().backward()
    return [(x.grad, 28.0)]


def memory_that_crosses(cp):
    """A gradient made on one stream and read on another is not overwritten by later work of the first."""
    x, s = leaf(2.0), side(cp)
    forked(cp, s)
    h = x * 1.0
    forked(cp, s)
    with s:
        y = busy(h, 8) * 3.0
    joined(cp, s)
    z = y * 2.0
    w = leaf(5.0)
    out = (z * 1.0 + w * w).sum()
    out.backward()
    trash = [torch.full((SIZE,), 99.0, device="cuda") for _ in range(8)]
    with s:
        trash += [torch.full((SIZE,), 77.0, device="cuda") for _ in range(8)]
    return [(x.grad, 6.0), (w.grad, 10.0)]


def memory_passed_on(cp):
    """The same where formulas pass on what they were given (addition), stream after stream."""
    x, s1, s2 = leaf(2.0), side(cp), side(cp)
    forked(cp, s1)
    with s1:
        a = x + 1.0
        b = a + x
    s2.wait_event(s1.record())
    with s2:
        c = b + 0.5
        d = c * c
    joined(cp, s2)
    e = d * 1.0
    grads = torch.autograd.grad(e.sum(), x)
    with s2:
        trash = [torch.full((SIZE,), 77.0, device="cuda") for _ in range(8)]
    del trash
    return [(grads[0], 22.0)]


def second_derivative(cp):
    """The nodes that backward makes have streams, too."""
    x, s = leaf(2.0), side(cp)
    forked(cp, s)
    with s:
        y = busy(x * x * x)
    joined(cp, s)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad((g * g).sum(), x)
    return [(g.detach(), 12.0), (gg, 288.0)]


def views_and_writes(cp):
    """CopySlices: the history of a base that was written through a view on a side stream."""
    x, w, s = leaf(2.0), leaf(3.0), side(cp)
    h = x * 1.0
    forked(cp, s)
    with s:
        h[: SIZE // 2].mul_(busy(w[: SIZE // 2] * 1.0))
    joined(cp, s)
    (h * 2.0).sum().backward()
    return [
        (x.grad[: SIZE // 2] * 1.0, 6.0),
        (x.grad[SIZE // 2 :] * 1.0, 2.0),
        (w.grad[: SIZE // 2] * 1.0, 4.0),
    ]


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3.0

    @staticmethod
    def backward(ctx, g):
        return busy(g) * 3.0


def custom_function(cp):
    x, s = leaf(2.0), side(cp)
    forked(cp, s)
    with s:
        y = Triple.apply(x)
    joined(cp, s)
    (y * y).sum().backward()
    return [(x.grad, 36.0)]


def checkpointed(cp):
    """A backward pass inside a backward pass: the inner one's caller is the stream of the outer node."""
    x, s = leaf(2.0), side(cp)
    forked(cp, s)
    with s:
        y = torch.utils.checkpoint.checkpoint(lambda t: busy(t * t) * t, x, use_reentrant=True)
    joined(cp, s)
    (y * 2.0).sum().backward()
    return [(x.grad, 24.0)]


def two_devices(cp):
    """Half of the work on another device; gradients come back to the leaf's."""
    x = leaf(2.0)
    h = x * x
    far = h.to("cuda:1")
    y = busy(far * 3.0)
    (y.to("cuda:0") * h).sum().backward()
    return [(x.grad, 96.0)]  # 3 x^4


def through_the_host(cp):
    """A part of the graph on the CPU."""
    x, s = leaf(2.0), side(cp)
    forked(cp, s)
    with s:
        h = busy(x * x)
    joined(cp, s)
    y = (h.cpu() * 3.0).cuda()
    (y * x).sum().backward()
    return [(x.grad, 36.0)]


SCENARIOS = [
    two_branches,
    everything_on_a_side_stream,
    inside_the_block,
    another_stream_than_forward,
    late_root_gradient,
    late_accumulated_gradient,
    late_saved_tensor,
    root_on_the_host,
    results_of_grad,
    gradient_of_an_intermediate,
    one_leaf_many_streams,
    one_node_many_streams,
    memory_that_crosses,
    memory_passed_on,
    second_derivative,
    views_and_writes,
    custom_function,
    checkpointed,
    two_devices,
    through_the_host,
]


def wrong(scenario, seed: int, lazy_cuda) -> str | None:
    """What a scenario gets wrong for one seed."""
    with lazy_cuda(seed) as cp:
        for value, expected, *stream in scenario(cp):
            with stream[0] if stream else cp.cuda.get_current_stream():
                got = value.detach().cpu().numpy()
            if not np.allclose(got, expected):
                return (
                    f"{scenario.__name__}, seed {seed}: {np.unique(got)[:4]}, expected {expected}"
                )
    return None


# rows: DEV-13 DEV-14 DEV-15 DEV-16 DEV-17 DEV-20
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_scenarios(scenario, lazy_cuda):
    first = SCENARIOS.index(scenario) * SEEDS
    for seed in range(first, first + SEEDS + 4):
        assert wrong(scenario, seed, lazy_cuda) is None


# -- every wait is needed ----------------------------------------------------------------------------------------------

SAFETY = re.compile(r"\.wait\(|\.retire\(|\.append\(value\)|\.enter\(\)$|self\.enter\(")


def mutants() -> list[tuple[str, type]]:
    """StreamInbox without one of the lines that keep streams in order, for each of them."""
    lines = inspect.getsource(streams.StreamInbox).splitlines()
    made = []
    for i, line in enumerate(lines):
        if not SAFETY.search(line) or line.strip().startswith(("def", "#")):
            continue
        indent = line[: len(line) - len(line.lstrip())]
        text = "\n".join([*lines[:i], indent + "pass", *lines[i + 1 :]])
        names = dict(vars(streams))
        exec(textwrap.dedent(text), names)
        made.append((line.strip(), names["StreamInbox"]))
    return made


# rows: DEV-15 DEV-16
@pytest.mark.parametrize(("line", "mutant"), mutants(), ids=[line for line, _ in mutants()])
def test_no_wait_can_be_left_out(line, mutant, lazy_cuda, monkeypatch):
    monkeypatch.setattr(engine.streams, "StreamInbox", mutant)
    for seed in range(40):
        for scenario in SCENARIOS:
            try:
                caught = wrong(scenario, seed, lazy_cuda)
            except ValueError as exc:  # a device array was met while another device was current
                caught = "device" in str(exc)
            if caught:
                return
    pytest.fail(f"nothing fails without {line!r}")


# -- rows --------------------------------------------------------------------------------------------------------------


# rows: DEV-13
def test_hooks_run_on_the_stream_of_the_forward_op(cuda):
    x, s = leaf(2.0), side(cuda)
    seen = []
    with s:
        y = x * x
        y.grad_fn.register_prehook(lambda g: seen.append(cuda.cuda.get_current_stream()))
    y.sum().backward()
    assert seen == [s]
    assert cuda.cuda.get_current_stream() != s


# rows: DEV-18
def test_backward_does_not_wait_for_the_device(lazy_cuda, monkeypatch):
    with lazy_cuda(3) as cp:
        x, s = leaf(2.0), side(cp)
        forked(cp, s)
        with s:
            y = busy(x * x).sum()
        joined(cp, s)
        cuda, refuse = cp.cuda, lambda *_: pytest.fail("the host waited")
        for owner in (cuda.Stream, cuda.Event, cuda.Device):
            monkeypatch.setattr(owner, "synchronize", refuse)
        for name in ("deviceSynchronize", "streamSynchronize"):
            monkeypatch.setattr(cuda.runtime, name, refuse)
        y.backward()
        monkeypatch.undo()
        assert np.allclose(x.grad.cpu().numpy(), 4.0)


# rows: DEV-19
def test_backward_stays_in_the_callers_thread(cuda):
    x, threads = leaf(2.0), []
    x.register_hook(lambda g: threads.append(threading.get_ident()))
    h = x.to("cuda:1")
    h.register_hook(
        lambda g: threads.append((threading.get_ident(), cuda.cuda.runtime.getDevice()))
    )
    with cuda.cuda.Device(1):
        y = (h * h).sum()
    y.backward()
    me = threading.get_ident()
    assert threads == [(me, 1), me]
    assert cuda.cuda.runtime.getDevice() == 0


# rows: DEV-20
def test_what_crossed_streams_is_kept_until_it_is_read(lazy_cuda):
    """Retired gradients go when their event is done; nothing waits for that."""
    from gradlib.tape.modes import shared

    with lazy_cuda(5) as cp:
        memory_that_crosses(cp)
        assert len(shared.cuda._retired) > 0
        cp.cuda.runtime.deviceSynchronize()
        shared.cuda.sweep()
        assert len(shared.cuda._retired) == 0


def test_one_stream_takes_the_plain_path(cuda, monkeypatch):
    monkeypatch.setattr(engine.streams, "StreamInbox", lambda *_: pytest.fail("not needed"))
    x = leaf(2.0)
    (x * x).sum().backward()
    with side(cuda):
        y = leaf(2.0)
        (y * y).sum().backward()
