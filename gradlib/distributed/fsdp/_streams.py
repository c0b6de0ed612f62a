"""Side streams on CUDA for what runs beside computing; nothing on the CPU, where collectives have a thread."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...cuda import streams as cuda_streams
from ...tape.tensor import Tensor

_sides: dict[tuple[Any, str], Any] = {}


def side(device: Any, name: str) -> AbstractContextManager[Any]:
    """A block whose work goes to a stream of this name, after what the current one has so far."""
    if device.type != "cuda":
        return nullcontext()
    stream = _side(device, name)
    stream.wait_stream(cuda_streams.current_stream(device))
    return cuda_streams.stream(stream)


def join(device: Any, name: str, tensors: Iterable[Tensor]) -> None:
    """Let the current stream wait for the one of this name, and keep the memory of tensors for it."""
    if device.type != "cuda":
        return
    current = cuda_streams.current_stream(device)
    current.wait_stream(_side(device, name))
    for tensor in tensors:
        tensor.record_stream(current)


def keep(device: Any, name: str, tensors: Iterable[Tensor]) -> None:
    """Keep the memory of tensors, which the current stream made, until the one of this name has read them."""
    if device.type == "cuda":
        for tensor in tensors:
            tensor.record_stream(_side(device, name))


def _side(device: Any, name: str) -> Any:
    key = (device, name)
    if key not in _sides:
        _sides[key] = cuda_streams.Stream(device)
    return _sides[key]
