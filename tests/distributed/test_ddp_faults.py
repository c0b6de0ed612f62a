"""A rank that fails in the middle of training: the others say which one and how, soon, and keep good weights."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import gradlib as torch
from gradlib import distributed
from gradlib.distributed.fsdp import FSDPModule, fully_shard
from gradlib.nn.parallel import DistributedDataParallel
from tests.distributed import harness
from tests.distributed.ddp_programs import batch, loss_of, make, optimizer_of, part, weights

BAD = 1  # the rank that fails
STEP = 3  # when


def parts(model):
    """What this rank holds of the parameters; backward, where it failed, had whole ones."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    return {n: np.array(p.detach().to_local()) for n, p in model.named_parameters()}


def failing(fault, sharded):
    """Train until the fault; what the others raise, after how long, and weights of whole steps alone."""
    rank, held = distributed.get_rank(), parts if sharded else weights
    module = make("cnn")
    if sharded:
        fully_shard(module.classify)
        model = fully_shard(module)
    else:
        model = DistributedDataParallel(module, bucket_cap_mb=0.001)
    optimizer = optimizer_of(model)
    good = []  # after each step

    store = distributed.distributed_c10d._get_default_store()

    def fail(_):
        # nobody is in the middle of the step before, which it may leave only after others
        store.wait([f"step {STEP} of {other}" for other in (0, 2)])
        if fault == "raise":
            raise ValueError("no gradient today")
        if fault == "wrong shape":
            distributed.all_reduce(torch.ones(3))
        harness.stop(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)

    begun = time.monotonic()
    for step in range(STEP + 1):
        x, y = part(batch("cnn", step))
        if step == STEP and rank == BAD:
            # in the middle of backward
            module.classify.register_forward_hook(
                lambda m, args, out: out.register_hook(fail) and None
            )
        optimizer.zero_grad()
        store.set(f"step {step} of {rank}", "")
        begun = time.monotonic()
        try:
            loss_of(model(x), y).backward()
        except Exception as error:
            if rank == BAD and fault == "raise":
                raise  # an error that nobody catches is what the others are told of
            return (
                f"{type(error).__name__}: {error}",
                time.monotonic() - begun,
                good,
                held(model),
            )
        optimizer.step()
        good.append(held(model))
    return "nothing", time.monotonic() - begun, good, held(model)


@pytest.mark.parametrize(
    ("fault", "words", "seconds"),
    [
        ("raise", ["rank 1 raised", "Traceback"], 2),
        ("kill", ["rank 1"], 5),
        ("stop", ["rank 1"], 8),
        ("wrong shape", ["rank 1: number", "float32[3]", "ddp_faults.py"], 1),
    ],
)
@pytest.mark.parametrize("sharded", [False, True], ids=["DDP", "fully_shard"])
def test_the_others_name_the_rank(fault, words, seconds, sharded):
    with harness.start(failing, 3, fault=fault, sharded=sharded) as job:
        ends = job.ends([0, 2])
        if fault == "stop":
            job.kill(BAD)
    for kind, answer in ends:
        assert kind == "result", answer
        text, took, good, now = answer
        for word in words:
            assert word in text
        assert took < seconds + harness.ROOM
        assert len(good) == STEP
        for name, value in good[-1].items():
            np.testing.assert_array_equal(now[name], value)  # no step with half of the gradients
