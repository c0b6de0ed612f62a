"""Whole training steps as CUDA graphs: layers, attention, recurrence, mixed precision, clipping, dropout."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(20, 16), nn.Parameter(torch.zeros(8, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
        self.norm, self.out = nn.LayerNorm(16), nn.Linear(16, 20)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        mask = nn.Transformer.generate_square_subsequent_mask(8, device=tokens.device)
        return self.out(self.norm(self.layer(x, src_mask=mask, is_causal=True)))

    def batch(self, k):
        return torch.arange(16).reshape(2, 8) * (k + 1) % 20, torch.arange(16) % 20


class Convolutions(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2),
            nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 3),
        )  # fmt: skip

    def batch(self, k):
        return torch.sin(torch.arange(128.0).reshape(2, 1, 8, 8) * (k + 1)), torch.tensor([0, 1])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])

    def batch(self, k):
        return torch.sin(torch.arange(24.0).reshape(2, 3, 4) * (k + 1)), torch.tensor([0, 1])


def losses(model, wrap):
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
    scaler = torch.amp.GradScaler("cuda")

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            out = model(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return [step(*(t.cuda() for t in model.batch(k))).item() for k in range(4)]


@pytest.mark.parametrize("model", [Transformer, Convolutions, Recurrent])
def test_a_captured_step_trains_as_a_plain_one(model, cuda):
    want = losses(model, lambda f: f)
    got = losses(model, torch.cuda.capture(warmup=1))
    np.testing.assert_allclose(got, want, rtol=2e-3)
