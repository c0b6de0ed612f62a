"""Exceptions of PyTorch's compiler that programs catch; `UserError` is what `gradlib.export` raises."""

from __future__ import annotations

from .._unsupported import InvalidBackend, TorchDynamoException, Unsupported

__all__ = [
    "InternalTorchDynamoError",
    "InvalidBackend",
    "TorchDynamoException",
    "Unsupported",
    "UserError",
]


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the compiler; there is none.

    It is there for ``except``.
    """


class UserError(Unsupported):
    """A program that cannot be exported.

    The text says why.
    """
