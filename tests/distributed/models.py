"""Small models that tests of several processes train, and how far two of them are from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import nn

WORDS, WIDTH, LENGTH = 17, 8, 6


class Block(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.length = width // heads

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        parts = [
            f(x).unflatten(-1, (-1, self.length)).transpose(1, 2) for f in (self.q, self.k, self.v)
        ]
        return self.out(
            F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    """A transformer whose embedding is its head."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text) + self.places(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class CNN(nn.Sequential):
    """Convolutions, norms and a head."""

    def __init__(self) -> None:
        super().__init__(
            nn.Sequential(nn.Conv2d(1, 5, 3), nn.GroupNorm(1, 5), nn.ReLU()),
            nn.Sequential(nn.Conv2d(5, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
            nn.Linear(12, 4),
        )


def batch(kind: type) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets for four examples."""
    if kind is GPT:
        return torch.randint(WORDS, (4, LENGTH)), torch.randint(WORDS, (4, LENGTH))
    return torch.randn(4, 1, 8, 8), torch.randint(4, (4,))


def loss_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = model(x)
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(
    model: Any,
    kind: type,
    rank: int = 0,
    ranks: int = 1,
    steps: int = 20,
    optimizer: Callable[[Any], Any] = sgd,
    clip: float | None = 0.5,
) -> Any:
    """Train on the same batches in every process, of which each takes its part; returns the model."""
    made = optimizer(model)
    torch.manual_seed(1)
    for _ in range(steps):
        x, y = batch(kind)
        made.zero_grad()
        loss_of(model, x.chunk(ranks)[rank], y.chunk(ranks)[rank]).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        made.step()
    return model


def alone(kind: type, **kwargs: Any) -> list[torch.Tensor]:
    """The parameters after training in one process."""
    torch.manual_seed(0)
    return [p.detach() for p in train(kind(), kind, **kwargs).parameters()]


def fresh(kind: type) -> Any:
    torch.manual_seed(0)
    return kind()


def whole(p: Any) -> torch.Tensor:
    return p.full_tensor() if hasattr(p, "full_tensor") else p.detach()


def apart(expected: list[torch.Tensor], model: Any) -> float:
    """The largest difference of a parameter."""
    found = [whole(p) for p in model.parameters()]
    assert len(found) == len(expected)
    return max((a - b).abs().max().item() for a, b in zip(expected, found))
