"""Calls on small fixed tensors give what PyTorch gives: values, dtypes, strides, requires_grad, or the same error.

The files in tensor_calls/ hold one expression a line, after statements that end in `;;`. Their names: `torch` (either
library), `np`, `inf`, `nan`, and the tensors below.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import numpy as np

import gradlib

TENSORS = """
x = torch.arange(12.).reshape(3, 4)
v = torch.tensor([1., 3, 5])
i = torch.tensor([0, 2])
m = torch.tensor([[1., 3, 5], [2, 4, 6]])
s = torch.tensor(2.)
z = torch.tensor([1 + 2j, 3 - 1j])
b = torch.tensor([True, False, True])
e = torch.zeros(0)
k = torch.arange(6).reshape(2, 3)
g = torch.arange(6.).reshape(2, 3).requires_grad_()
"""
CODE = compile(TENSORS, "tensors", "exec")
CALLS = [
    pytest.param(line, id=f"{path.stem}: {line}")
    for path in sorted((Path(__file__).parent / "tensor_calls").glob("*.txt"))
    for line in path.read_text().splitlines()
    if line and not line.startswith("#")
]


def plain(value):
    """A result as text, floats to five digits."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, complex):
        return f"({value.real:.5g} {value.imag:.5g}j)"
    return f"{value:.5g}" if isinstance(value, float) else repr(value).removeprefix("torch.")


def shown(result, library):
    if isinstance(result, library.Tensor):
        layout = f"{tuple(result.shape)} {result.stride()} {result.dtype} {result.requires_grad}"
        return f"{layout} {plain(result.detach().tolist())}"
    if isinstance(result, (list, tuple)):
        return f"{type(result).__name__}[{', '.join(shown(r, library) for r in result)}]"
    return plain(result)


def outcome(line, library):
    names = {"torch": library, "np": np, "inf": float("inf"), "nan": float("nan")}
    exec(CODE, names)
    *statements, expression = line.split(";;")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for statement in statements:
                exec(statement.strip(), names)
            return shown(eval(expression.strip(), names), library)
        except Exception as exc:
            return f"{type(exc).__name__}: {exc}"[:120]


@pytest.mark.parametrize("line", CALLS)
def test_same_call(line):
    assert outcome(line, gradlib) == outcome(line, torch)
