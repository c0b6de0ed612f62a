"""What an engine is to do for a ReduceOp on tensors of a dtype, and what is done before and after."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..tape import dtypes
from ..tape.tensor import Tensor
from ._reduce_op import PremulSum, ReduceOp

__all__ = ["Plan", "plan"]

_NAMES = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "sum",
    ReduceOp.PREMUL_SUM: "sum",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
}
_OF_BOOL = {"sum": "bor", "product": "band", "min": "band", "max": "bor"}
_BITS = ("band", "bor", "bxor")


class Plan(NamedTuple):
    """How to reduce.

    `name` is the engine's op; values are multiplied by `factor` before, and divided by `divisor` after, unless
    those are None. `label` is for people.
    """

    name: str
    factor: Any
    divisor: int | None
    label: str

    def scaled(self, flat: Any) -> Any:
        """`flat` times the factor: itself without one."""
        return flat if self.factor is None else (flat * self.factor).astype(flat.dtype)

    def scale(self, flat: Any) -> None:
        """Multiply by the factor, in place."""
        if self.factor is not None:
            flat[...] = flat * self.factor

    def finish(self, flat: Any) -> None:
        """Divide by the divisor, in place."""
        if self.divisor is not None:
            flat /= flat.dtype.type(self.divisor)


_plans: dict[tuple, Plan] = {}


def plan(caller: str, op: ReduceOp | PremulSum, tensor: Tensor, size: int) -> Plan:
    """What to do for `op` on tensors like `tensor` of `size` ranks.

    Raises:
        ValueError, RuntimeError: `op` has no meaning for the dtype.
    """
    key = (op.__class__ is ReduceOp and op, tensor._array.dtype, size)
    found = _plans.get(key) if key[0] else None
    if found is None:
        found = _make(caller, op, tensor, size)
        if key[0]:
            _plans[key] = found
    return found


def _make(caller: str, op: ReduceOp | PremulSum, tensor: Tensor, size: int) -> Plan:
    kind = getattr(op, "op", None)
    if not isinstance(kind, ReduceOp):
        raise TypeError(f"{caller}(): op must be a ReduceOp, not {type(op).__name__}: {op!r}")
    dtype = dtypes.BY_NP[tensor._array.dtype]
    name = _NAMES[kind]
    if dtype.is_complex and name != "sum":
        raise ValueError(f"{caller} does not support RedOpType.{kind.name} on complex tensors")
    if dtype.np in dtypes.FLOAT8:
        raise RuntimeError(
            f"Invalid scalar type: {caller} cannot put {dtype!r} together; convert to another floating dtype first"
        )
    if dtype.is_floating_point and name in _BITS:
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    inexact = dtype.is_floating_point or dtype.is_complex
    if kind is ReduceOp.AVG and not inexact:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {dtype.scalar_type}"
        )
    factor = None
    if kind is ReduceOp.PREMUL_SUM:
        if not inexact or not isinstance(op, PremulSum):
            raise RuntimeError(
                "Cannot use ReduceOp.PREMUL_SUM with "
                + (f"{dtype!r}: floating and complex dtypes only" if isinstance(op, PremulSum) else
                   "no factor: make it with torch.distributed._make_nccl_premul_sum(factor)")
            )  # fmt: skip
        given = op.factor
        given = given._array.reshape(-1)[0] if isinstance(given, Tensor) else given
        factor = dtype.to_real().np.type(given)
    if dtype is dtypes.bool_:
        name = _OF_BOOL.get(name, name)
    return Plan(name, factor, size if kind is ReduceOp.AVG else None, kind.name)
