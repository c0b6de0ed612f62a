"""Exceptions of PyTorch's compiler; programs find them in ``torch._dynamo.exc``."""

from __future__ import annotations


class TorchDynamoException(RuntimeError):
    """The base of these exceptions.

    It is there for ``except``.
    """


class Unsupported(TorchDynamoException):
    """A function that cannot be captured as one, where `gradlib.compile` was called with ``fullgraph=True``.

    The text says what is in the way, and at which line.
    """


class InvalidBackend(TorchDynamoException):
    """There is no compiler of that name.

    The text says which there are.
    """


for _kind in (TorchDynamoException, Unsupported, InvalidBackend):
    _kind.__module__ = f"{__package__}._dynamo.exc"
