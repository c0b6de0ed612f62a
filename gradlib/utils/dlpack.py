"""Tensors from and to other libraries without a copy, by the DLPack protocol."""

from __future__ import annotations

import enum

from ..operators.public import from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


DLDeviceType = enum.IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8, "kDLVPI": 9,
        "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13, "kDLOneAPI": 14, "kDLWebGPU": 15,
        "kDLHexagon": 16, "kDLMAIA": 17,
    },
)  # fmt: skip
DLDeviceType.__doc__ = """The numbers that the protocol has for kinds of devices.

Example:
    >>> DLDeviceType(2)
    <DLDeviceType.kDLCUDA: 2>
"""
