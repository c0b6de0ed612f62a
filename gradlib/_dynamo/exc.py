"""Exceptions of PyTorch's compiler that programs catch; `UserError` is what `gradlib.export` raises."""

from __future__ import annotations

__all__ = ["InternalTorchDynamoError", "TorchDynamoException", "Unsupported", "UserError"]


class TorchDynamoException(RuntimeError):
    """The base of these exceptions.

    It is there for ``except``.
    """


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the compiler; there is none.

    It is there for ``except``.
    """


class Unsupported(TorchDynamoException):
    """Code that the compiler cannot read; there is none.

    It is there for ``except``.
    """


class UserError(Unsupported):
    """A program that cannot be exported.

    The text says why.
    """
