"""Steps that are run with and without capture: small models of every kind, and what is left after some steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F


class Block(nn.Module):
    """A transformer block with dropout."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, steps, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (
            p.view(batch, steps, self.heads, width // self.heads).transpose(1, 2) for p in parts
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, steps, width)))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Two blocks, positions made in forward, and a head that shares its weight with the embedding."""

    def __init__(self):
        super().__init__()
        self.symbol, self.place = nn.Embedding(17, 16), nn.Embedding(8, 16)
        self.blocks = nn.ModuleList([Block(16, 2), Block(16, 2)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 17, bias=False)
        self.head.weight = self.symbol.weight

    def forward(self, text):
        x = self.symbol(text) + self.place(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(6, 3)

    def forward(self, x):
        out, _ = self.layer(x)
        return self.head(out[:, -1])


class Cells(nn.Module):
    """A loop over time written in Python."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


class Many(nn.Module):
    """Views, writes in place, a buffer of its own, numbers, dtypes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0) * 0.1)
        y = x @ self.weight + 1.5
        y = torch.cat([y, y * 2], 1)
        z = torch.where(y > 0, y, 0.1 * y)
        z += 1
        z = z.softmax(-1).log().clamp(min=-3)
        a, b = z.chunk(2, 1)
        wide = x.to(torch.float64).sum(1, keepdim=True)
        return (a * b).pow(2).sqrt() - self.mean.unsqueeze(0) + wide.float()


def cnn() -> Any:
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
    more = nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, *more, nn.Dropout(0.2), nn.Linear(8, 5))


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def sequence(make: Callable) -> Callable:
    return lambda: Recurrent(make(5, 6, batch_first=True))


def of_text(out, target):
    return F.cross_entropy(out.view(-1, 17), target.view(-1))


def normal(*shapes):
    return lambda g: tuple(torch.randn(*shape, generator=g) for shape in shapes)


def classes(shape, high, *of):
    return lambda g: (torch.randn(*shape, generator=g), torch.randint(0, high, of, generator=g))


def texts(g):
    return torch.randint(0, 17, (3, 8), generator=g), torch.randint(0, 17, (3, 8), generator=g)


STEPS = normal((4, 7, 5), (4, 3))
# name -> (makes the model, makes a batch, loss)
MODELS: dict[str, tuple[Callable, Callable, Callable]] = {
    "mlp": (mlp, normal((5, 8), (5, 4)), F.mse_loss),
    "cnn": (cnn, classes((4, 3, 12, 12), 5, 4), F.cross_entropy),
    "gpt": (GPT, texts, of_text),
    "rnn": (sequence(nn.RNN), STEPS, F.mse_loss),
    "lstm": (sequence(nn.LSTM), STEPS, F.mse_loss),
    "gru": (sequence(nn.GRU), STEPS, F.mse_loss),
    "cells": (Cells, STEPS, F.mse_loss),
    "many": (Many, normal((3, 4), (3, 4)), F.smooth_l1_loss),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def bits(value: Any) -> Any:
    """What a tensor (or a number) is to the last bit."""
    if not isinstance(value, torch.Tensor):
        return value
    array = value._array
    return str(value.dtype), array.shape, array.tobytes(), value.requires_grad


def left(model: Any, optimizer: Any) -> list:
    """All that steps leave behind: parameters, buffers, gradients, versions, state of the optimizer, random state."""
    tensors = list(model.state_dict(keep_vars=True).values())
    found = [bits(t) for t in tensors] + [t._version for t in tensors]
    found += [bits(p.grad) for p in model.parameters()]
    for state in optimizer.state.values():
        found += [bits(v) for v in state.values()]
    return [*found, bits(torch.get_rng_state())]


def train(wrap: Callable, name: str, optimizer: str, calls: int = 6) -> tuple[list, Any]:
    """Train a model; returns what was returned and is left, and the step."""
    make, batch, loss_of = MODELS[name]
    torch.manual_seed(0)
    model = make()
    opt = OPTIMIZERS[optimizer](model.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        opt.step()
        return loss

    run, found = wrap(step), []
    for i in range(calls):
        loss = run(*batch(torch.Generator().manual_seed(i)))
        found += [bits(loss), loss.grad_fn.name()]
    return found + left(model, opt), run
