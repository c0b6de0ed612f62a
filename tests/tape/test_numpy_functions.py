"""Tensors in NumPy's functions and beside NumPy's arrays and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gradlib as torch
from gradlib import func
from gradlib.autograd import forward_ad
from gradlib.tape import errors

pytestmark = pytest.mark.host


def test_functions_give_tensors_and_bool_becomes_uint8():
    t = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert torch.equal(np.exp(t), t.exp()) and type(np.add.reduce(t)) is torch.Tensor
    assert np.isnan(t).dtype is torch.uint8
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert type(np.stack([t, t])) is np.ndarray


def test_numbers_leave_the_operator_to_the_tensor():
    t = torch.tensor([2.0], requires_grad=True)
    for made in (np.float64(2) * t, np.float64(2) ** t, np.float32(2) - t):
        assert type(made) is torch.Tensor and made.requires_grad and made.dtype is torch.float32


def test_an_array_before_a_tensor_is_refused_so_that_no_write_is_lost():
    t, array = torch.ones(2), np.ones(2)
    kept = array
    with pytest.raises(TypeError):
        array += t
    with pytest.raises(TypeError):
        array *= t
    assert array is kept and array.tolist() == [1.0, 1.0]


def test_an_array_after_a_tensor_keeps_gradient_and_tangent():
    t, array = torch.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0])
    (t * array).sum().backward()
    assert t.grad is not None and t.grad.tolist() == [3.0, 4.0]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        tangent = forward_ad.unpack_dual(dual * array).tangent
        assert tangent is not None and tangent.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.ones(2, np.longdouble)])
def test_arrays_that_tensors_cannot_hold(array):
    if array.dtype == np.float64:
        pytest.skip("long double is double here")
    with pytest.raises(TypeError):
        torch.ones(2) + array


def test_no_array_of_a_tensor_that_requires_grad():
    t = torch.ones(2, requires_grad=True)
    for call in (np.exp, np.asarray, np.add.reduce, lambda t: np.stack([t, t])):
        with pytest.raises(
            RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"
        ):
            call(t)


def test_no_array_of_an_argument_of_jvp():
    """What comes of it would have the tangent 0, silently."""
    t = torch.ones(2)
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        func.jvp(np.exp, (t,), (t,))
    _, tangent = func.jvp(lambda x: x * torch.from_numpy(np.ones(2)), (t,), (t,))
    assert tangent.tolist() == [1.0, 1.0]
    with forward_ad.dual_level():  # by hand: an array is taken as from a detached tensor
        assert forward_ad.make_dual(t, t).numpy().tolist() == [1.0, 1.0]


def test_names_of_the_errors_that_are_told_apart_by_name():
    """A NumPy that calls them otherwise is found out here."""
    with pytest.raises(TypeError) as caught:
        np.bitwise_and(np.ones(2), np.ones(2))
    assert errors.no_kernel(caught.value) or "not supported for the input types" in str(
        caught.value
    )
    with pytest.raises(TypeError) as caught:
        np.subtract(np.array(["a"]), np.array(["b"]))
    assert errors.no_kernel(caught.value)
    with pytest.raises(TypeError) as caught:
        np.add(np.ones(2), 1, out=np.ones(2, int))
    assert errors.wrong_out(caught.value)


def test_no_private_module_of_numpy_is_imported():
    """They come and go with NumPy's versions; names in checkpoints are data."""
    source = Path(torch.__file__).parent
    for path in source.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not re.match(r"\s*(from|import) numpy\S*\._", line), f"{path}: {line}"
            assert not re.search(r"\bnp\.(\w+\.)*_(?!_)", line), f"{path}: {line}"
