"""Wrong use raises PyTorch's exception type with PyTorch's first line."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import gradlib

CASES = [
    "lib.ones(2,3)+lib.ones(4)",
    "lib.ones(2,3)@lib.ones(4,5)",
    "lib.mm(lib.ones(2,3),lib.ones(4,5))",
    "lib.bmm(lib.ones(2,3,4),lib.ones(2,5,6))",
    "lib.mm(lib.ones(2,3),lib.ones(3,5,dtype=lib.float64))",
    "lib.nn.functional.linear(lib.ones(2,3),lib.ones(4,5))",
    "lib.ones(2,3).view(5)",
    "lib.ones(2,3).reshape(4)",
    "lib.ones(2)[5]",
    "lib.ones(2,3)[0,0,0]",
    "lib.ones(2).sum(3)",
    "lib.cat([lib.ones(2,3),lib.ones(3,4)])",
    "lib.stack([lib.ones(2),lib.ones(3)])",
    "lib.ones(3).item()",
    "lib.tensor([1],requires_grad=True)",
    "bool(lib.ones(3))",
    "lib.ones(2,3).expand(4,3)",
    "lib.ones(2,3).permute(0)",
    "lib.ones(2).squeeze(4)",
    "lib.nn.functional.conv2d(lib.ones(1,3,8,8),lib.ones(4,2,3,3))",
    "lib.nn.functional.cross_entropy(lib.ones(2,3),lib.tensor([0,5]))",
    "lib.nn.functional.embedding(lib.tensor([7]),lib.ones(3,2))",
    "lib.ones(3).requires_grad_().add_(1)",
    "lib.einsum('ij,jk',lib.ones(2,3),lib.ones(4,5))",
    "lib.tensor([1,2]).mean()",
    "lib.zeros(0).max()",
    "lib.ones(2,device='zz')",
    "lib.ones(-1)",
    "lib.nn.functional.layer_norm(lib.ones(2,3),(4,))",
    "lib.arange(3).exp_()",
    "lib.ones(3).gather(0,lib.tensor([5]))",
    "lib.rand(2).backward()",
    "lib.nn.Linear(2, 3)(lib.ones(4, 5))",
]


def outcome(lib, code: str) -> tuple[str, str]:
    try:
        eval(code, {"lib": lib})
    except Exception as exc:
        return type(exc).__name__, str(exc).split("\n")[0]
    return "no error", ""


@pytest.mark.parametrize("code", CASES)
def test_same_error(code):
    assert outcome(gradlib, code) == outcome(torch, code)
