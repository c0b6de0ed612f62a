"""Hooks that would reduce quantized gradients: refused, since there are no quantized tensors."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

_TEXT = (
    "{}: quantized tensors are out of scope. fp16_compress_hook and bf16_compress_hook halve the bytes, "
    "powerSGD_hook saves far more."
)


def quantization_pertensor_hook(process_group: Any, bucket: Any) -> NoReturn:
    """Refused: there are no quantized tensors.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_TEXT.format("quantization_pertensor_hook"))


def quantization_perchannel_hook(
    process_group: Any, bucket: Any, bucket_size: int = 512
) -> NoReturn:
    """Refused: there are no quantized tensors.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(_TEXT.format("quantization_perchannel_hook"))
