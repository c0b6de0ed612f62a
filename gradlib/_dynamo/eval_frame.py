"""OptimizedModule: what PyTorch's compile makes of a Module. Here it is the Module itself."""

from __future__ import annotations

from typing import NoReturn

from ..nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """The type of compiled Modules, for ``isinstance``: `gradlib.compile` gives its argument, so nothing is one.

    Raises:
        NotImplementedError: when one is made.
    """

    def __init__(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            "gradlib._dynamo.OptimizedModule cannot be made: gradlib.compile gives the module itself"
        )
