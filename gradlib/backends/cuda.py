"""Switches for CUDA under PyTorch's names: ``gradlib.backends.cuda.matmul.allow_tf32 = True``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .._refused import refuse
from ..devices.cuda import precision

__all__ = [
    "SDPBackend",
    "can_use_flash_attention",
    "cuBLASModule",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]
__getattr__ = refuse(__name__)


def is_built() -> bool:
    """Whether this build can use CUDA: always, CuPy is found when it is needed."""
    return True


class cuBLASModule:
    """How matrices are multiplied.

    allow_tf32: round float32 inputs to TF32; the same switch as ``set_float32_matmul_precision("high")``.
    fp32_precision: "ieee" or "tf32", the same again.
    allow_fp16_reduced_precision_reduction, allow_bf16_reduced_precision_reduction, allow_fp16_accumulation: accepted;
    sums of half types are always kept in float32.
    """

    _accepted = {
        "allow_fp16_reduced_precision_reduction": True,
        "allow_bf16_reduced_precision_reduction": True,
        "allow_fp16_accumulation": False,
    }

    def __init__(self) -> None:
        self.__dict__.update(self._accepted)

    def __getattr__(self, name: str) -> Any:
        tf32 = precision.get_float32_matmul_precision() != "highest"
        if name == "allow_tf32":
            return tf32
        if name == "fp32_precision":
            return "tf32" if tf32 else "ieee"
        raise AttributeError("Unknown attribute " + name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            precision.set_float32_matmul_precision("high" if value else "highest")
        elif name == "fp32_precision":
            if value not in ("ieee", "tf32", "none"):
                raise RuntimeError(f"fp32_precision must be 'ieee' or 'tf32', but got {value!r}")
            precision.set_float32_matmul_precision("high" if value == "tf32" else "highest")
        elif name in self._accepted:
            self.__dict__[name] = bool(value)
        else:
            raise AttributeError("Unknown attribute " + name)


matmul = cuBLASModule()

# -- attention: there is one implementation; which of PyTorch's may be used is remembered, without effect -------------


class SDPBackend:
    """Names of PyTorch's implementations of attention, for `nn.attention.sdpa_kernel`.

    There is one implementation here; names change nothing. ERROR is what PyTorch answers where none
    is allowed.
    """

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION = -1, 0, 1, 2, 3


_allowed = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was told."""
    return _allowed["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted; there is one implementation of attention."""
    _allowed["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told."""
    return _allowed["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accepted; there is one implementation of attention."""
    _allowed["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told."""
    return _allowed["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accepted; there is one implementation of attention."""
    _allowed["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told."""
    return _allowed["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accepted; there is one implementation of attention."""
    _allowed["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """False: PyTorch's kernel is not here."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """False: PyTorch's kernel is not here."""
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Accepted; there is one implementation of attention."""
    before = dict(_allowed)
    _allowed.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _allowed.update(before)


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library of ``linalg`` on CUDA: "cusolver"; others are refused."""
    if backend not in (None, "default", "cusolver"):
        raise NotImplementedError(
            f"preferred_linalg_library: there is only 'cusolver', but got {backend!r}"
        )
    return "cusolver"


def preferred_blas_library(backend: str | None = None) -> str:
    """The library of matrix products on CUDA: "cublas"; others are refused."""
    if backend not in (None, "default", "cublas"):
        raise NotImplementedError(
            f"preferred_blas_library: there is only 'cublas', but got {backend!r}"
        )
    return "cublas"
