"""What launches without detours hand to CuPy: integers by address, results made of its own parts."""

from __future__ import annotations

import pytest

import gradlib as torch
from gradlib.devices.cuda.kernels import Counts
from gradlib.tape.arrays import backend_for

TELL = r"""
extern "C" __global__ void tell(long long* to, long long n) { to[0] = n; }
"""


def test_an_integer_by_its_address(cupy):
    tell, to = cupy.RawKernel(TELL, "tell").kernel, cupy.zeros(1, "i8")
    counts = Counts(cupy.cuda.function.CPointer)
    for n in (0, 3, 2**31, 2**40 + 1, 3):
        tell.linear_launch(1, (to, counts[n]), 0, 1)
        assert to.item() == n
    assert len(counts) == 4 and counts[3] is counts[3]
    first = counts[3]
    for n in range(Counts.MOST + 1):
        counts[n]
    assert len(counts) <= Counts.MOST
    tell.linear_launch(1, (to, first), 0, 1)  # who has it keeps it
    assert to.item() == 3
    assert Counts(None)[7] == 7  # for a launcher that takes integers


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_results_are_what_the_class_makes(name, cupy):
    """CuPy is given letters for the dtypes that have one."""
    dtype = getattr(torch, name)
    x = torch.ones(2, 3, dtype=dtype, device="cuda", requires_grad=True)
    for _ in range(2):  # the second time without detours
        y = x * x
        x.grad = None
        y.backward(x.detach())
    xp = backend_for("cuda")
    made = xp.xp.ndarray((2, 3), dtype.np)
    for array in (y._array, x.grad._array, xp.empty((2, 3), dtype.np)):
        assert array.__class__ is made.__class__ and array.dtype is dtype.np
        assert (array.shape, array.strides, array.size) == (made.shape, made.strides, made.size)
    assert y.tolist() == [[1] * 3] * 2 and x.grad.tolist() == [[2] * 3] * 2
