"""What random calls are drawn with: shapes, dtypes, layouts, numbers, dimensions; and the calls themselves."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

DTYPES = (
    torch.float32, torch.float32, torch.float64, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
)  # fmt: skip
SIZES = (0, 1, 1, 2, 3, 3, 4)


@dataclasses.dataclass
class Case:
    """One call: `form` is "function", "method", "in place" or "out"."""

    name: str
    form: str
    args: list
    kwargs: dict
    rg: bool

    def __str__(self) -> str:
        parts = [show(a) for a in self.args] + [f"{k}={show(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}[{self.form}]({', '.join(parts)})"


def show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.") + str(list(value.shape))
        kind += "" if value.is_contiguous() else f"/{list(value.stride())}"
        kind += "!" if value.requires_grad else ""
        return kind + (f"={value.tolist()}" if value.numel() < 5 else "")
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(show(v) for v in value)}]"
    return repr(value)


class Draw:
    """What random arguments are drawn with."""

    def __init__(self, seed: int):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.rg = self.r.random() < 0.3
        self.dtype = self.r.choice(DTYPES[:4] if self.rg and self.r.random() < 0.8 else DTYPES)

    def shape(self, low: int = 0, high: int = 4) -> tuple:
        return tuple(self.r.choice(SIZES) for _ in range(self.r.randint(low, high)))

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def some_dtype(self) -> torch.dtype:
        return self.dtype if self.chance(0.7) else self.r.choice(DTYPES)

    def values(self, shape: tuple, dtype: torch.dtype) -> torch.Tensor:
        array = self.np.normal(size=shape) * 2
        if self.chance(0.15):
            array = np.round(array)
        if self.chance(0.06) and array.size:
            array = np.where(
                self.np.random(shape) < 0.3, self.r.choice([np.nan, np.inf, -np.inf, 0.0]), array
            )
        if dtype == torch.bool:
            return torch.as_tensor(array > 0)
        if dtype.is_complex:
            return torch.as_tensor(array + 1j * self.np.normal(size=shape)).to(dtype)
        if not dtype.is_floating_point:
            array = np.nan_to_num(np.floor(array * 2), posinf=3, neginf=3)
            array = abs(array) if dtype == torch.uint8 else array
        return torch.as_tensor(array).to(dtype)

    def tensor(self, shape: tuple | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor: dense, transposed, every second element, expanded, or with an offset."""
        shape = self.shape() if shape is None else shape
        dtype = self.some_dtype() if dtype is None else dtype
        kind, n = self.r.random(), len(shape)
        if kind < 0.15 and n > 1:
            order = list(range(n))
            self.r.shuffle(order)
            made = self.values(tuple(shape[i] for i in order), dtype)
            made = made.permute([order.index(i) for i in range(n)])
        elif kind < 0.25 and n:
            d = self.r.randrange(n)
            wide = (*shape[:d], shape[d] * 2, *shape[d + 1 :])
            made = self.values(wide, dtype)[(slice(None),) * d + (slice(None, None, 2),)]
        elif kind < 0.32 and n:
            d = self.r.randrange(n)
            made = self.values((*shape[:d], 1, *shape[d + 1 :]), dtype).expand(shape)
        elif kind < 0.37 and n:
            made = self.values((shape[0] + 1, *shape[1:]), dtype)[1:]
        elif kind < 0.42 and n == 4:
            made = self.values(shape, dtype).contiguous(memory_format=torch.channels_last)
        else:
            made = self.values(shape, dtype)
        if self.rg and (dtype.is_floating_point or dtype.is_complex) and self.chance(0.85):
            made = made.detach().requires_grad_()
        return made

    def partner(self, shape: tuple) -> torch.Tensor:
        """A tensor that broadcasts with `shape`, mostly."""
        kind = self.r.random()
        if kind < 0.4:
            return self.tensor(shape)
        if kind < 0.5:
            return self.tensor(())
        if kind < 0.6:
            return self.tensor()
        keep = self.r.randint(0, len(shape))
        return self.tensor(tuple(1 if self.chance(0.3) else n for n in shape[keep:]))

    def number(self) -> Any:
        return self.r.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, 0.0, True, 1e3])

    def operand(self, shape: tuple) -> Any:
        return self.number() if self.chance(0.25) else self.partner(shape)

    def dim(self, ndim: int) -> int:
        if self.chance(0.06):
            return self.r.choice([ndim, -ndim - 1, 5])
        return self.r.randrange(-ndim, ndim) if ndim else self.r.choice([0, -1])

    def dims(self, ndim: int) -> Any:
        kind = self.r.random()
        if kind < 0.5:
            return self.dim(ndim)
        if kind < 0.6:
            return None
        if kind < 0.65:
            return ()
        count = self.r.randint(1, max(ndim, 1))
        if self.chance(0.9) and ndim:
            return tuple(
                d - ndim if self.chance(0.5) else d for d in self.r.sample(range(ndim), count)
            )
        return tuple(self.dim(ndim) for _ in range(count))

    def indices(self, shape: tuple, size: int) -> torch.Tensor:
        high = max(size, 1) + (1 if self.chance(0.05) else 0)
        dtype = torch.int64 if self.chance(0.9) else torch.int32
        return torch.as_tensor(self.np.integers(0, high, size=shape)).to(dtype)


def optional(d: Draw, kwargs: dict, name: str, draw: Callable, p: float = 0.4) -> None:
    if d.chance(p):
        kwargs[name] = draw()
