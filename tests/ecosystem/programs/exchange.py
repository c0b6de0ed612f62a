"""What the programs here share: equal weights on both sides, and the numbers that are compared.

A program records values under names and calls `save` last, which writes them to the file that its first argument names.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
import torch

_values: dict[str, np.ndarray] = {}


def numbers(name: str, *shape: int) -> np.ndarray:
    """Numbers between -1 and 1 that depend on a name alone: neither library's generator draws them."""
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(-1, 1, shape)


def tensor(name: str, *shape: int) -> torch.Tensor:
    """A float32 tensor of such numbers."""
    return torch.from_numpy(numbers(name, *shape).astype(np.float32))


def whole(name: str, high: int, *shape: int) -> torch.Tensor:
    """An int64 tensor of numbers from 0 to `high` - 1."""
    return torch.from_numpy(((numbers(name, *shape) + 1) / 2 * high).astype(np.int64) % high)


def fill(model: torch.nn.Module) -> torch.nn.Module:
    """Give each parameter numbers of its name: about 1 for the scales of norms, small for the rest."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = (
                "norm" in name.lower() or "ln_" in name or "bn" in name or "downsample.1" in name
            )
            middle = 1.0 if scale and name.endswith("weight") else 0.0
            values = np.asarray(middle + 0.2 * numbers(name, *parameter.shape))
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return model


def record(name: str, value: Any) -> None:
    """Keep a tensor, a number, or a list of numbers for the comparison."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    assert name not in _values, name
    _values[name] = np.array(value)


def record_gradients(prefix: str, model: torch.nn.Module) -> None:
    """Keep the gradients of all parameters; one that has none has to be without on the other side, too."""
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            record(f"{prefix} no gradient {name}", True)
        else:
            record(f"{prefix} gradient {name}", parameter.grad)


def record_weights(prefix: str, model: torch.nn.Module) -> None:
    """Keep all parameters and buffers."""
    for name, value in model.state_dict().items():
        record(f"{prefix} weight {name}", value)


def save() -> None:
    """Write what was recorded; a program that fails before it writes nothing."""
    np.savez(sys.argv[1], **_values)
