"""What packages decorate their functions for PyTorch's older exporter with; nothing here calls those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._refused import refuse

__all__ = ["parse_args", "quantized_args"]

__getattr__ = refuse(__name__)


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that changes nothing.

    Args:
        arg_descriptors: accepted.
    """
    return lambda fn: fn


quantized_args = parse_args
