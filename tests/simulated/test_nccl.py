"""The order of collectives on a GPU: nothing but streams and events keeps them behind what they read, and before what
reads them. The other rank of these groups of two is an echo: it has what this one has."""

from __future__ import annotations

import ctypes
import sys
import types
from datetime import timedelta

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.cuda import lanes
from gradlib.distributed import HashStore, PrefixStore
from gradlib.distributed._nccl import engine as engines
from gradlib.distributed._nccl import points
from gradlib.distributed._process_group import ProcessGroup
from tests.simulated_cuda import machine

SEEDS = range(40)


def floats(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


class Echo:
    """A communicator: work on the stream that it is given, of float32."""

    def __init__(self, size, name, rank):
        pass

    def allReduce(self, given, into, count, dtype, op, stream):
        def run():
            floats(into, count)[:] = 2 * floats(given, count)

        machine.submit(run, machine.queue(stream), "all_reduce")

    def allGather(self, given, into, nbytes, dtype, stream):
        def run():
            floats(into, nbytes // 2)[:] = np.tile(floats(given, nbytes // 4), 2)

        machine.submit(run, machine.queue(stream), "all_gather")

    def send(self, given, nbytes, dtype, peer, stream):
        sent.append((given, nbytes, stream))

    def recv(self, into, nbytes, dtype, peer, stream):
        received.append((into, nbytes, stream))

    def check_async_error(self):
        pass

    def destroy(self):
        pass


sent: list = []
received: list = []


def group_end():
    """What is received is what is sent in the same group."""
    for (given, nbytes, stream), (into, _, _) in zip(sent, received, strict=True):

        def run(given=given, into=into, n=nbytes // 4):
            floats(into, n)[:] = floats(given, n)

        machine.submit(run, machine.queue(stream), "send, recv")
    sent.clear(), received.clear()


class Host:
    """In place of gloo: the other rank's host agrees."""

    def __init__(self, *args):
        pass

    def compare(self, digest, describe):
        return None

    def barrier(self):
        pass

    def aborted(self):
        return None

    def abort(self):
        pass

    def close(self):
        pass


NCCL = types.SimpleNamespace(
    available=True,
    get_unique_id=lambda: b"\0" * 128,
    NcclCommunicator=Echo,
    NcclError=ZeroDivisionError,
    groupStart=lambda: None,
    groupEnd=group_end,
    **{
        f"NCCL_{name}": i
        for i, name in enumerate(
            "SUM PROD MIN MAX CHAR UINT8 INT8 INT32 UINT32 INT64 UINT64 FLOAT16 FLOAT32 FLOAT64 BFLOAT16".split()
        )
    },
)


@pytest.fixture
def group(monkeypatch):
    """What makes a group of two ranks on the simulated device of the moment."""
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", NCCL)
    monkeypatch.setattr(engines, "Gloo", Host)
    monkeypatch.setattr(points, "MOMENT", 60)  # both sides of a message are in one group

    def make():
        store, limit = HashStore(), timedelta(seconds=30)
        makers = {"cuda": ("nccl", lambda: engines.Nccl(PrefixStore("nccl", store), 0, 2, limit))}
        return ProcessGroup([0, 1], 0, "0", store, limit, makers, "")

    return make


def program(group) -> bool:
    """Collectives between work on two streams of the caller's; whether all numbers are right."""
    right = []
    one, two = gl.cuda.Stream(), gl.cuda.Stream()
    with gl.cuda.stream(one):
        x = gl.full((64,), 3.0, device="cuda") * 2
        work = group._all_reduce([x], async_op=True)
        y = gl.ones(64, device="cuda") * 5  # beside it
        strided = gl.ones(8, 8, device="cuda").t() * 4
        group._all_reduce([strided[:, ::2]], async_op=False)
        outs = [gl.empty(64, device="cuda") for _ in range(2)]
        group._all_gather([outs], [y], async_op=False)
        receiving = group._recv_from(got := gl.empty(64, device="cuda"), 1)
        sending = group._send_to(y, 1)
        receiving.wait()
        sending.wait()
        right += [strided.sum().item() == 4 * 32 + 8 * 32, (outs[0] + outs[1]).sum().item() == 640]
        right.append(got.sum().item() == 320)
    two.wait_stream(one)
    with gl.cuda.stream(two):
        work.wait()
        right += [(x + y).sum().item() == 64 * 17]
    group.shutdown()
    return all(right)


def dropped(group) -> bool:
    """The memory of what nobody waits for is handed out again: only when the collective is done."""
    with gl.cuda.stream(gl.cuda.Stream()):
        lost = gl.full((64,), 7.0, device="cuda")
        group._all_reduce([lost], async_op=True)
        del lost
        z = gl.ones(64, device="cuda")
        gl.cuda.synchronize()
        return z.sum().item() == 64


def test_collectives_are_in_order_with_the_callers_streams(lazy_cuda, group):
    for seed in SEEDS:
        with lazy_cuda(seed):
            assert program(group()) and dropped(group()), seed


def test_a_missing_wait_would_be_found(lazy_cuda, group, monkeypatch):
    monkeypatch.setattr(lanes.Lane, "wait", lambda self, event: None)
    wrong = 0
    for seed in SEEDS:
        with lazy_cuda(seed):
            wrong += not program(group())
    assert wrong > 5


def test_memory_that_is_not_kept_would_be_found(lazy_cuda, group, monkeypatch):
    monkeypatch.setattr(lanes.Streams, "retire", lambda self, values, lane: None)
    wrong = 0
    for seed in SEEDS:
        with lazy_cuda(seed):
            wrong += not dropped(group())
    assert wrong > 5


def test_without_nccl_it_is_said(lazy_cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", types.SimpleNamespace(available=False))
    with lazy_cuda(0), pytest.raises(ImportError, match="pip install nvidia-nccl-cu12"):
        engines.nccl_library()
