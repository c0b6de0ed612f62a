"""Wrong use raises what PyTorch's users know, and names the user's line where another line raises."""

from __future__ import annotations

import pytest

import gradlib as torch

MESSAGES = [
    (
        lambda: torch.ones(2, 3) + torch.ones(4),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (4)",
    ),
    (
        lambda: torch.ones(2, 3) @ torch.ones(4, 5),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    ),
    (lambda: torch.ones(2, 3).view(5), RuntimeError, "shape '[5]' is invalid for input of size 6"),
    (
        lambda: torch.ones(2).sum(3),
        IndexError,
        "Dimension out of range (expected to be in range of [-1, 0], but got 3)",
    ),
    (
        lambda: torch.ones(3).item(),
        RuntimeError,
        "a Tensor with 3 elements cannot be converted to Scalar",
    ),
    (
        lambda: torch.tensor([1], requires_grad=True),
        RuntimeError,
        "Only Tensors of floating point and complex dtype",
    ),
    (
        lambda: torch.tensor([1, 2]).mean(),
        RuntimeError,
        "Input dtype must be either a floating point or complex dtype",
    ),
    (
        lambda: torch.arange(3).exp_(),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    (lambda: torch.ones(2, device="zz"), RuntimeError, "device type at start of device string: zz"),
    pytest.param(
        lambda: torch.ones(3).cuda(), RuntimeError, "CUDA is not available", marks=pytest.mark.host
    ),
    (
        lambda: torch.rand(2).sum().backward(),
        RuntimeError,
        "element 0 of tensors does not require grad",
    ),
]


@pytest.mark.parametrize(("use", "kind", "text"), MESSAGES, ids=[text for _, _, text in MESSAGES])
def test_exception_and_text(use, kind, text):
    with pytest.raises(kind) as caught:
        use()
    assert text in str(caught.value)


def test_dtype_mismatch_names_both():
    with pytest.raises(RuntimeError, match="same dtype") as caught:
        torch.mm(torch.ones(2, 3), torch.ones(3, 2, dtype=torch.float64))
    assert "float" in str(caught.value)
    assert "double" in str(caught.value)


def test_an_error_inside_backward_notes_the_forward_line():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.grad_fn.register_prehook(lambda grads: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        y.sum().backward()
    (note,) = caught.value.__notes__
    assert "ExpBackward0, which was made at" in note
    assert "y = x.exp()" in note
