"""How processes put their values together."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

__all__ = ["ReduceOp", "reduce_op"]


class ReduceOp(enum.Enum):
    """How the values of all processes become one.

    SUM, PRODUCT, MIN and MAX are what they say; AVG is the sum divided by the number of processes; BAND, BOR and BXOR
    are for integers and bool; PREMUL_SUM (see `_make_nccl_premul_sum`) multiplies each value by a factor first.

    Example:
        >>> gradlib.distributed.ReduceOp.SUM.name
        'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    @property
    def op(self) -> ReduceOp:
        """The op itself, as an op with a factor has it too."""
        return self


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch has two classes, which programs name


class PremulSum(NamedTuple):
    """A sum of values that are multiplied by a factor first.

    Args:
        factor: a number, or a tensor of one element.
    """

    factor: Any

    @property
    def op(self) -> ReduceOp:
        return ReduceOp.PREMUL_SUM


def _make_nccl_premul_sum(factor: Any) -> PremulSum:
    """The op that multiplies the values of each process by `factor`, then adds them.

    Args:
        factor: a number, or a tensor of one element. Each process gives its own.
    """
    return PremulSum(factor)


class _Deprecated(type):
    def __getattr__(cls, name: str) -> ReduceOp:
        try:
            return ReduceOp[name]
        except KeyError:
            raise AttributeError(f"reduce_op has no member {name!r}") from None


class reduce_op(metaclass=_Deprecated):  # PyTorch's name
    """The older name of `ReduceOp`, with the same members.

    Example:
        >>> gradlib.distributed.reduce_op.SUM is gradlib.distributed.ReduceOp.SUM
        True
    """
