"""``loss_parallel``: a cross entropy of which each rank has some classes; refused, with what to do instead."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["loss_parallel"]


def loss_parallel() -> NoReturn:
    """Not there: ``cross_entropy`` of a DTensor that is cut along the classes gathers them.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "gradlib has no loss_parallel: leave the block out, cross_entropy of a DTensor that is cut along its classes "
        "gathers them"
    )
