"""kernels/dropout.cu: its random numbers against the published ones, its products against the formula."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, KINDS, check_forward, check_vjp, close, numpy, tensor, values

import gradlib as gl
from gradlib.devices.cuda.fused.dropout import dropout, keep_mask, new_state
from gradlib.devices.cuda.kernels import Module, source

CODE = """
__global__ void words(unsigned* out, uint64 counter, uint64 seed) {
  const uint4 four = philox(counter, seed);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}
"""
MODULE = Module("test philox", ["words"], source("common.cuh") + source("philox.cuh") + CODE)


def reference(counter: int, seed: int) -> list[int]:
    """Philox 4x32-10 in Python."""
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize(("counter", "seed"), [(0, 0), (1, 5), (2**33 + 7, 2**63 + 1)])
def test_random_words(device, counter, seed):
    # rows: DEV-26
    out = device.zeros(4, np.uint32)
    device.launcher.launch(MODULE, "words", 1, 1, (out, np.uint64(counter), np.uint64(seed)))
    assert numpy(out).tolist() == reference(counter, seed)
    if not counter and not seed:  # the published vector for zeros
        assert reference(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("kind", DTYPES)
def test_dropout(device, kind):
    # rows: DEV-26
    for shape in ((), (1,), (31,), (3, 33), (1025,), (0, 4)):
        x = values(shape).astype(KINDS[kind].np) if shape else np.asarray(1.5, KINDS[kind].np)
        state = new_state(device, 42, 3)
        out, keep = dropout(device, device.put(x), 0.25, state)
        words = [w for i in range(-(-x.size // 4)) for w in reference(3 + i, 42)][: x.size]
        assert numpy(keep).reshape(-1).tolist() == [w >= 2**30 for w in words]
        close(out, x.astype(np.float64) * numpy(keep) / 0.75, kind)
        assert state[1] == 3 + -(-x.size // 4)


def test_masks_follow_each_other_and_have_the_right_share(device):
    # rows: DEV-26
    state = new_state(device, 7)
    first, second = keep_mask(device, (5000,), 0.3, state), keep_mask(device, (5000,), 0.3, state)
    assert (
        (first != second).any()
        and abs(first.mean() - 0.7) < 0.03
        and abs(second.mean() - 0.7) < 0.03
    )
    again = keep_mask(device, (5000,), 0.3, new_state(device, 7))
    assert (again == first).all()
    assert keep_mask(device, (100,), 0.0, state).all()
    with pytest.raises(ValueError, match="dropout probability"):
        keep_mask(device, (3,), 1.0, state)


@pytest.mark.parametrize("kind", DTYPES)
def test_masked_scale(device, kind):
    # rows: DEV-26
    for shape in ((1,), (3, 33), (0, 4)):
        mask = gl.from_numpy(np.arange(int(np.prod(shape))).reshape(shape) % 3 > 0)
        check_forward(device, "masked_scale", (tensor(values(shape), kind), mask, 1.5), kind)
        check_vjp(device, "masked_scale", (tensor(values(shape), kind), mask, 1.5), kind)
    check_forward(
        device,
        "masked_scale",
        (tensor(values((2, 3))), gl.tensor([[True], [False]]), 2.0),
        runs=False,
    )
