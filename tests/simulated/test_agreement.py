"""Both devices may refuse the same call; a fault of the device is no refusal, and no test may take it for one."""

from __future__ import annotations

import pytest

from gradlib.devices.cuda.gemm import check
from tests.simulated.test_ops import agree
from tests.simulated_cuda import CUDARuntimeError


def refuse():
    raise ValueError("no such dimension")


def fault():
    raise CUDARuntimeError(719, "softmax: __trap()")


def product():
    check(14, "cublasGemmEx")


def wrapped():
    try:
        fault()
    except CUDARuntimeError as error:
        raise ValueError("no result") from error


def test_two_refusals_agree():
    assert agree(refuse, refuse) is None
    assert agree(lambda: [1], lambda: [2]) == ([1], [2])


def test_one_refusal_does_not():
    with pytest.raises(AssertionError, match="the device did not: no such dimension"):
        agree(refuse, lambda: [1])
    with pytest.raises(AssertionError, match="the CPU did not: no such dimension"):
        agree(lambda: [1], refuse)


@pytest.mark.parametrize("there", [fault, product, wrapped])
def test_a_fault_of_the_device_is_no_refusal(there):
    with pytest.raises(
        (CUDARuntimeError, RuntimeError, ValueError), match=r"__trap|CUDA error|no result"
    ):
        agree(refuse, there)
