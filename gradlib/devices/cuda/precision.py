"""How exact products of float32 are: full float32, or with the inputs rounded to TF32 on tensor cores.

Products of matrices have one setting, convolutions another (`backends.cudnn.allow_tf32`). CUDA only; the CPU always
computes in full precision. The settings belong to the process.
"""

from __future__ import annotations

import warnings

__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]

_LEVELS = ("highest", "high", "medium")
_level = "highest"
_tf32_in_convolutions = True


def get_float32_matmul_precision() -> str:
    """ "highest", "high" or "medium"; see :func:`set_float32_matmul_precision`."""
    return _level


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how float32 matrices are multiplied on CUDA.

    precision: "highest": in float32. "high": the inputs are rounded to TF32 (10 bits of mantissa), sums are kept in
    float32. "medium": the inputs may be rounded to bfloat16 (7 bits). Anything else is ignored with a warning.
    """
    global _level
    if precision not in _LEVELS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current "
            "set_float32_matmul_precision call has no effect.",
            stacklevel=2,
        )
        return
    _level = precision


def convolutions_take_tf32() -> bool:
    """Whether convolutions of float32 may round their inputs to TF32; see :func:`let_convolutions_take_tf32`."""
    return _tf32_in_convolutions


def let_convolutions_take_tf32(allowed: bool) -> None:
    """Choose whether convolutions of float32 on CUDA may round their inputs to TF32 (10 bits of mantissa).

    As in PyTorch they may unless they are told otherwise.
    """
    global _tf32_in_convolutions
    _tf32_in_convolutions = bool(allowed)
