"""Arrays of more than 2^31 elements: the last blocks of a grid read and write where they should.

The arrays are addresses without memory behind them; only what the blocks touch takes any. A 32-bit number somewhere
between Python's sizes and a kernel's addresses shows as a result in the wrong place.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from host_launcher import DeviceArray, HostBackend, HostLauncher

from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

overlays = on("cuda")
ROW = 64
ROWS = (1 << 31) // ROW + 24
SIZE = ROWS * ROW
F2 = np.dtype(np.float16)


class FarLauncher(HostLauncher):
    """Runs the last blocks of each grid, on arrays without memory."""

    blocks = 1

    def launch(self, module, kernel, grid, block, args, shared=0):
        library, _ = self.load(module, kernel)
        sizes = grid if isinstance(grid, tuple) else (grid,)
        leave_out = library["cuda_on_cpu_leave_out"]
        leave_out.argtypes = [ctypes.c_uint64]
        leave_out(max(int(np.prod(sizes, dtype=object)) - self.blocks, 0))
        try:
            super().launch(module, kernel, grid, block, args, shared)
        finally:
            leave_out(0)

    def empty(self, shape, dtype):
        dtype = np.dtype(dtype)
        shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        size = int(np.prod(shape, dtype=object))
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        room = mmap.mmap(-1, max(size, 1) * dtype.itemsize, flags=flags)
        return np.frombuffer(room, dtype, size).reshape(shape).view(DeviceArray)


@pytest.fixture
def far():
    backend = HostBackend()
    backend.launcher = FarLauncher()
    return backend


def filled(far, shape, last):
    """Zeros that end with some values."""
    made = far.empty(shape, F2)
    made.reshape(-1)[-last.size :] = last.reshape(-1)
    return made


def end(rows, width=ROW, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (rows, width)).astype(F2)


def softmax(x):
    e = np.exp(x.astype("f8"))
    return e / e.sum(-1, keepdims=True)


def same(found, expected):
    np.testing.assert_allclose(np.asarray(found, "f8"), np.asarray(expected, "f8"), atol=4e-3)


def forward(name):
    found = overlays.bare_forward_of(REGISTRY[name])
    assert found is not None
    return found


def test_rows(far):
    last = end(8)
    x = filled(far, (ROWS, ROW), last)
    assert x.size > 1 << 31
    same(forward("softmax")(far, x, dim=1)[-8:], softmax(last))
    y, mean, _ = forward("native_layer_norm")(far, x, normalized_shape=(ROW,), eps=1e-5)
    wide = last.astype("f8")
    middle = wide.mean(1, keepdims=True)
    same(y[-8:], (wide - middle) / np.sqrt(wide.var(1, keepdims=True) + 1e-5))
    same(mean.reshape(-1)[-8:], middle[:, 0])
    same(forward("sum")(far, x, dim=(1,), keepdim=False)[-8:], wide.sum(1))


def test_columns(far):
    far.launcher.blocks = 2
    last = end(2, 256).reshape(2, 256)
    x = filled(far, (SIZE // 512, 2, 256), last)
    got = forward("softmax")(far, x, dim=1)
    same(got[-1], softmax(last.T).T)


def test_elements(far):
    last = end(1)
    x = filled(far, (SIZE,), last)
    same(forward("gelu")(far, x, approximate="tanh")[-ROW:], gelu(last.astype("f8"))[0])
    # strided: the last column of a matrix is left out
    wide = filled(far, (ROWS, ROW + 1), np.concatenate([last, np.ones((1, 1), F2)], 1))
    got = forward("gelu")(far, wide[:, :-1], approximate="tanh")
    same(got[-1], gelu(last.astype("f8"))[0])


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_places(far):
    """Lookups in a table, by numbers of 64 bits."""
    last = end(1)
    table = filled(far, (ROWS, ROW), last)
    index = far.put(np.array([ROWS - 1, 0]))
    taken = forward("embedding_op")(far, table, index, padding_idx=-1, scale_grad_by_freq=False)
    same(taken, [last[0], np.zeros(ROW)])
    columns = far.put(np.full((1, 3), SIZE - 2))
    same(forward("gather")(far, table.reshape(1, -1), columns, dim=1), [[last[0, -2]] * 3])
    # many lookups: the last one
    many = far.empty((ROWS,), np.int64).view(DeviceArray)
    many[-1] = ROWS - 1
    same(
        forward("embedding_op")(far, table, many, padding_idx=-1, scale_grad_by_freq=False)[-1],
        last[0],
    )


def test_images(far):
    """Planes of 4 x 4: the last ones of more than 2^27."""
    planes = SIZE // 16
    last = end(16, 16)
    x = filled(far, (planes // 4, 4, 4, 4), last[-4:])
    how = {
        "kernel_size": (2, 2),
        "stride": (2, 2),
        "padding": (0, 0),
        "dilation": (1, 1),
        "ceil_mode": False,
    }
    y, taps = forward("max_pool2d_op")(far, x, **how)
    expected = last[-4:].reshape(4, 2, 2, 2, 2).max((2, 4))
    same(y[-1], expected)
    back = forward("pool_put")(far, y, taps=taps, space=(4, 4), **how)
    assert np.count_nonzero(np.asarray(back[-1], "f4")) == 16
    columns = forward("im2col")(
        far, x, kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(2, 2)
    )
    same(columns[-1], last[-4:].reshape(4, 2, 2, 2, 2).transpose(0, 2, 4, 1, 3).reshape(16, 4))


def test_a_convolution(far):
    far.launcher.blocks = 1
    last = end(16, 16)
    x = filled(far, (SIZE // 64, 4, 4, 4), last[-4:])
    weight = np.zeros((4, 4, 3, 3), F2)
    weight[:, :, 1, 1] = 2 * np.eye(4)
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    weight = far.put(weight)
    same(forward("convolution")(far, x, weight, **how)[-1], 2 * last[-4:].reshape(4, 4, 4))
    depth = far.put(np.full((4, 1, 1, 1), 3, F2))
    how |= {"padding": (0, 0), "groups": 4}
    same(forward("convolution")(far, x, depth, **how)[-1], 3 * last[-4:].reshape(4, 4, 4))
