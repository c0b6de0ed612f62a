"""Functions that PyTorch has removed: they say what to call instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op.expose import function
from ..tape.tensor import Tensor

_EYE, _ONE = "gradlib.eye(1)", "gradlib.ones(1, 1)"
# name -> what to call instead, such a call and what it shows
_INSTEAD = {
    "solve": (
        "torch.linalg.solve(A, B), with its arguments the other way round",
        f"gradlib.linalg.solve({_EYE}, {_ONE})",
        "tensor([[1.]])",
    ),
    "lstsq": (
        "torch.linalg.lstsq(A, B).solution, with its arguments the other way round",
        f"gradlib.linalg.lstsq({_EYE}, {_ONE}).solution",
        "tensor([[1.]])",
    ),
    "eig": (
        "torch.linalg.eig or torch.linalg.eigvals, which give complex numbers",
        f"gradlib.linalg.eigvals({_EYE})",
        "tensor([1.+0.j])",
    ),
    "symeig": (
        "torch.linalg.eigh or torch.linalg.eigvalsh, with UPLO='U' for the upper triangle",
        f"gradlib.linalg.eigvalsh({_EYE}, UPLO='U')",
        "tensor([1.])",
    ),
    "matrix_rank": (
        "torch.linalg.matrix_rank",
        f"gradlib.linalg.matrix_rank({_EYE})",
        "tensor(1)",
    ),
}


def _gone(name: str, instead: str, call: str, shown: str) -> Callable[..., Any]:
    def gone(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed. Use {instead}."
        )

    gone.__name__ = gone.__qualname__ = name
    gone.__doc__ = f"""Gone from PyTorch, too: use {instead}.

Raises:
    RuntimeError: always.

Example:
    >>> {call}
    {shown}
"""
    return gone


for _name, _texts in _INSTEAD.items():
    function(_name, method=_name != "matrix_rank")(_gone(_name, *_texts))
