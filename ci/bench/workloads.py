"""The workloads: each is written once and runs under gradlib and under PyTorch.

Inputs and weights come from a seeded NumPy generator, so that both libraries start from the same
numbers; steps that train return their loss, so that the next call checks gradients and update too.
"""

import contextlib
import dataclasses
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np
from measure import Workload

WORKLOADS = []


def workload(name, **settings):
    """Register `build(torch, device)` under `name`."""

    def register(build):
        WORKLOADS.append(Workload(name, build, **settings))
        return build

    return register


class Source:
    """Seeded inputs for one library on one device."""

    def __init__(self, torch, device, seed=0):
        self.torch, self.device = torch, device
        self.random = np.random.default_rng(seed)

    def tensor(self, array, requires_grad=False):
        return self.torch.tensor(array, device=self.device, requires_grad=requires_grad)

    def normal(self, *shape, scale=1.0, requires_grad=False):
        values = scale * self.random.standard_normal(shape, dtype=np.float32)
        return self.tensor(values.astype(np.float32), requires_grad)

    def weight(self, *shape):
        """A leaf, scaled so that products with it keep the size of what goes in."""
        return self.normal(*shape, scale=1 / math.sqrt(shape[0]), requires_grad=True)

    def integers(self, high, *shape):
        return self.tensor(self.random.integers(high, size=shape))

    def fill(self, module):
        """Give a module on this device weights that depend on the seed alone."""
        module = module.to(self.device)
        with self.torch.no_grad():
            for name, parameter in module.named_parameters():
                if parameter.dim() > 1:
                    fan_in = parameter.numel() // parameter.shape[0]
                    parameter.copy_(self.normal(*parameter.shape, scale=1 / math.sqrt(fan_in)))
                elif name.endswith("bias"):
                    parameter.zero_()
        return module


@dataclasses.dataclass(frozen=True)
class How:
    """The way a training step is run."""

    half: str = ""  # dtype of torch.autocast in forward
    tf32: bool = False  # float32 products rounded to TF32
    compiled: bool = (
        False  # the model, or the function that is differentiated, through torch.compile
    )
    wrap: Callable = lambda torch, step: step  # around the finished step

    def adapt(self, torch, model):
        return torch.compile(model) if self.compiled else model

    def autocast(self, torch, device):
        if not self.half:
            return contextlib.nullcontext()
        return torch.autocast(device, dtype=getattr(torch, self.half))

    def finish(self, torch, step):
        if self.tf32:
            step = with_tf32(torch, step)
        return self.wrap(torch, step)


PLAIN = How()


def with_tf32(torch, step):
    """The step with TF32 products and convolutions, in forward and backward."""
    switches = torch.backends.cuda.matmul, torch.backends.cudnn

    def run():
        for switch in switches:
            switch.allow_tf32 = True
        try:
            return step()
        finally:
            for switch in switches:
                switch.allow_tf32 = False

    return run


def trainer(torch, device, module, optimizer, loss_of, how=PLAIN):
    """A function that makes one training step and returns the loss before it."""
    model = how.adapt(torch, module)

    def step():
        optimizer.zero_grad()
        with how.autocast(torch, device):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return how.finish(torch, step)


# Cost of an op: a chain of 200 ops on 16 elements.


def chain(x, y, z):
    for _ in range(100):
        z = z * y + x
    return z


def chain_inputs(torch, device, requires_grad):
    source = Source(torch, device)
    return [source.normal(16, scale=0.5, requires_grad=requires_grad) for _ in range(3)]


@workload("chain-no-grad", unit="us/op", per=200, goal=0.8)
def chain_no_grad(torch, device):
    inputs = chain_inputs(torch, device, requires_grad=False)
    return lambda: chain(*inputs)


@workload("chain-recording", unit="us/op", per=200, goal=0.85)
def chain_recording(torch, device):
    inputs = chain_inputs(torch, device, requires_grad=True)
    return lambda: chain(*inputs)


@workload("chain-backward", unit="us/op", per=200, goal=0.7)
def chain_backward(torch, device, how=PLAIN):
    inputs = chain_inputs(torch, device, requires_grad=True)
    ones = torch.ones(16, device=device)
    forward = how.adapt(torch, chain)

    def step():
        for leaf in inputs:
            leaf.grad = None
        forward(*inputs).backward(ones)
        return [leaf.grad for leaf in inputs]

    return how.finish(torch, step)


# Models.


@workload("mlp-deep", goal=0.75)
def deep_narrow_mlp(torch, device, how=PLAIN):
    """A training step of 50 layers of width 8, batch 4: all overhead."""
    nn, source = torch.nn, Source(torch, device)
    layers = [layer for _ in range(50) for layer in (nn.Linear(8, 8), nn.Tanh())]
    model = source.fill(nn.Sequential(*layers))
    inputs, targets = source.normal(4, 8), source.normal(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(model):
        return nn.functional.mse_loss(model(inputs), targets)

    return trainer(torch, device, model, optimizer, loss_of, how)


def mlp(torch, device, batch, make_optimizer, how=PLAIN, hidden=512):
    """A training step of a 784-512-512-10 network."""
    nn, source = torch.nn, Source(torch, device)
    layers = nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
    model = source.fill(nn.Sequential(*layers, nn.Linear(hidden, 10)))
    inputs, targets = source.normal(batch, 784), source.integers(10, batch)
    optimizer = make_optimizer(model.parameters())

    def loss_of(model):
        return nn.functional.cross_entropy(model(inputs), targets)

    return trainer(torch, device, model, optimizer, loss_of, how)


@workload("mlp-sgd-128", goal=1.0)
def mlp_sgd(torch, device):
    return mlp(torch, device, 128, lambda p: torch.optim.SGD(p, lr=0.01))


@workload("mlp-adam-128", goal=1.0)
def mlp_adam(torch, device):
    return mlp(torch, device, 128, lambda p: torch.optim.Adam(p, lr=1e-4))


@workload("mlp-sgd-1024", goal=1.0)
def mlp_sgd_large(torch, device):
    return mlp(torch, device, 1024, lambda p: torch.optim.SGD(p, lr=0.01))


@workload("mlp-adam-1024", goal=1.0)
def mlp_adam_large(torch, device):
    return mlp(torch, device, 1024, lambda p: torch.optim.Adam(p, lr=1e-4))


@workload("cnn", goal=1.25, rtol=1e-3)
def cnn(torch, device, how=PLAIN, batch=64, width=32):
    """A training step of a convolutional network on images of 3x32x32."""
    nn, source = torch.nn, Source(torch, device)

    def block(inputs, outputs):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)

    head = nn.Flatten(), nn.Linear(2 * width * 8 * 8, 10)
    model = source.fill(nn.Sequential(*block(3, width), *block(width, 2 * width), *head))
    inputs, targets = source.normal(batch, 3, 32, 32), source.integers(10, batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(model):
        return nn.functional.cross_entropy(model(inputs), targets)

    return trainer(torch, device, model, optimizer, loss_of, how)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a GPT and its batch."""

    symbols: int = 256
    length: int = 128
    width: int = 256
    layers: int = 4
    heads: int = 4
    batch: int = 8


def gpt_model(torch, sizes):
    nn, F = torch.nn, torch.nn.functional
    symbols, length, width = sizes.symbols, sizes.length, sizes.width
    layers, heads = sizes.layers, sizes.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, steps, _ = x.shape
            qkv = self.qkv(self.norm1(x)).view(batch, steps, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).reshape(batch, steps, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.symbol, self.place = nn.Embedding(symbols, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

        def forward(self, text):
            places = torch.arange(text.shape[1], device=text.device)
            return self.head(self.norm(self.blocks(self.symbol(text) + self.place(places))))

    return GPT()


@workload("gpt", goal=1.15, rtol=1e-3)
def gpt(torch, device, how=PLAIN, sizes=Sizes(), **options):
    """A training step of 4 layers, width 256, 4 heads, on 8 texts of 128 symbols; options: of AdamW."""
    source = Source(torch, device)
    model = source.fill(gpt_model(torch, sizes))
    text = source.integers(sizes.symbols, sizes.batch, sizes.length + 1)
    inputs, targets = text[:, :-1], text[:, 1:].reshape(-1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)

    def loss_of(model):
        return torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets)

    return trainer(torch, device, model, optimizer, loss_of, how)


def recurrent(torch, device, cell, gates, how):
    """Forward and backward of 100 steps of a cell, hidden size 128, batch 32."""
    source = Source(torch, device)
    inputs = source.normal(100, 32, 128)
    weights = [source.weight(128, gates * 128), source.weight(128, gates * 128)]
    bias = source.tensor(np.zeros(gates * 128, np.float32), requires_grad=True)
    start = source.tensor(np.zeros((32, 128), np.float32))
    leaves = [*weights, bias]

    def loss():
        state = (start, start)
        for x in inputs.unbind(0):
            state = cell(torch, state, x @ weights[0] + state[0] @ weights[1] + bias)
        return (state[0] * state[0]).mean()

    forward = how.adapt(torch, loss)

    def step():
        for leaf in leaves:
            leaf.grad = None
        forward().backward()
        return [leaf.grad for leaf in leaves]

    return how.finish(torch, step)


@workload("rnn", goal=0.85, rtol=1e-3)
def rnn(torch, device, how=PLAIN):
    def cell(torch, state, total):
        return (torch.tanh(total),)

    return recurrent(torch, device, cell, 1, how)


@workload("lstm", goal=1.05, rtol=1e-3)
def lstm(torch, device, how=PLAIN):
    def cell(torch, state, total):
        i, f, g, o = total.chunk(4, dim=1)
        memory = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(memory), memory

    return recurrent(torch, device, cell, 4, how)


# Size.


@workload("elementwise-10m", goal=0.25, slow=True)
def big_elementwise(torch, device, how=PLAIN):
    source = Source(torch, device)
    x = source.normal(10_000_000, requires_grad=True)
    forward = how.adapt(torch, lambda x: (x.exp() * 0.5 + x).sum())

    def step():
        x.grad = None
        total = forward(x)
        total.backward()
        return total.detach()

    run = how.finish(torch, step)
    return lambda: (run(), x.grad[:1000])


def graph(size):
    """Forward, backward and release of a graph of `size` nodes."""

    def build(torch, device):
        x, y, start = chain_inputs(torch, device, requires_grad=True)
        ones = torch.ones(16, device=device)
        kept = []

        def forward():
            z = start
            for _ in range(size // 2):
                z = z * y + x
            kept.append(z)

        def backward():
            x.grad = y.grad = start.grad = None
            kept[0].backward(ones)
            return x.grad, y.grad

        return {"forward": forward, "backward": backward, "release": kept.clear}

    return build


for size, title in {1_000: "1k", 10_000: "10k", 100_000: "100k", 1_000_000: "1m"}.items():
    WORKLOADS.append(
        Workload(
            f"graph-{title}",
            graph(size),
            unit="us/node",
            per=size,
            goal=0.9,
            slow=size > 10_000,
            counted=size == 1_000_000,
        )
    )


@workload("import", goal=0.15)
def import_time(torch, device):
    """A fresh interpreter that imports the library: what every short program waits for."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": root}
    # Compiled once, as pip does it for what it installs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = os.path.join(tempfile.gettempdir(), "bench-bytecode")
    command = [sys.executable, "-c", f"import {torch.__name__}"]

    def step():
        subprocess.run(command, env=environment, check=True)

    return step
