"""Why ops cannot be recorded in a CUDA graph: the texts of `captures` in declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SOLVER = "it uses cuSOLVER, which cannot be captured"
SHAPE = "the shape of its result depends on values, so the host waits for them"
COUNT = "how many elements the mask takes depends on values, so the host waits for them"
HOST = "it is computed on the host, or asks the device for values"


def of_indices(tensors: Sequence[Any], attrs: dict[str, Any]) -> str | None:
    """Indexing, by what it is indexed with."""
    indices = attrs.get("indices")
    for index in indices if isinstance(indices, (tuple, list)) else (indices,):
        if getattr(getattr(index, "dtype", None), "kind", "") == "b":
            return f"indexing with a mask: {SHAPE}; use where or masked_fill"
        if isinstance(index, list):
            return "a list of indices is copied to the device; use a tensor that is there"
    return None


def across(tensors: Sequence[Any], attrs: dict[str, Any]) -> str | None:
    """Copies between devices."""
    crosses = attrs["target"].type != tensors[0].device.type
    return "it copies between the host and the device" if crosses else None
