"""Models, data and helpers for what the ranks of the tests of DistributedDataParallel run."""

from __future__ import annotations

import traceback
import warnings

import gradlib as torch
from gradlib import distributed, nn
from gradlib.nn import functional as F
from gradlib.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    """A small convolutional network without statistics over the batch.

    It is smooth: what ReLU and the largest of a window choose between two nearly equal numbers depends on their last
    bits, and those on how many images are convolved at a time.
    """

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.Tanh(), nn.AvgPool2d(2)
        )
        self.classify = nn.Linear(6 * 4 * 4, 10)

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder of text with an embedding that is its head, too: a shared parameter."""

    def __init__(self, symbols=17, context=8, width=16):
        super().__init__()
        self.symbol, self.position = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        self.head.weight = self.symbol.weight

    def forward(self, text):
        x = self.symbol(text) + self.position(torch.arange(text.shape[1]))
        return {"scores": self.head(self.norm(self.blocks(x)))}


def batch(kind, step, rows=12):
    """The whole batch of a step: the same on all ranks."""
    torch.manual_seed(1000 + step)
    if kind == "cnn":
        return torch.randn(rows, 1, 8, 8), torch.randint(0, 10, (rows,))
    text = torch.randint(0, 17, (rows, 9))
    return text[:, :-1], text[:, 1:]


def loss_of(output, target):
    scores = output["scores"].flatten(0, 1) if isinstance(output, dict) else output
    return F.cross_entropy(scores, target.flatten())


def make(kind, seed=0):
    torch.manual_seed(seed)
    return Net() if kind == "cnn" else GPT()


def optimizer_of(model, name="SGD"):
    if name == "SGD":
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return getattr(torch.optim, name)(model.parameters(), lr=0.01)


def weights(model):
    model = getattr(model, "module", model)
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def train_alone(kind, steps=20):
    """The same steps in one process on whole batches."""
    model = make(kind)
    optimizer = optimizer_of(model)
    for step in range(steps):
        x, y = batch(kind, step)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return weights(model)


def part(tensors):
    """This rank's rows."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    return [t[rank::size] for t in tensors]


def train(kind, steps=20, **options):
    """Train on this rank's rows; the weights."""
    model = DistributedDataParallel(make(kind, seed=distributed.get_rank()), **options)
    if distributed.get_rank() == 0:
        assert weights(model).keys() == weights(make(kind)).keys()
    optimizer = optimizer_of(model)
    for step in range(steps):
        x, y = part(batch(kind, step))
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return weights(model)


# -- features: functions that the same processes run one after the other -------------------------------------------

FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def run_all(names=(), features=FEATURES):
    """What each feature gives: ("gave", value, warnings), or ("raised", traceback, [])."""
    found = {}
    for name in names or features:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = features[name]()
            found[name] = ("gave", value, [str(w.message) for w in caught])
        except Exception:
            found[name] = ("raised", traceback.format_exc(), [])
    return found


def raised(function):
    """The text of what a call raises."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def rank():
    return distributed.get_rank()


def size():
    return distributed.get_world_size()


def line(**options):
    """y = w x with w = 1."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    return DistributedDataParallel(net, **options)


def mine():
    """1, 2... by rank."""
    return torch.full((1, 1), float(rank() + 1))


class Two(nn.Module):
    """Two layers, of which a call uses those that are asked for."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x, use="ab"):
        if "d" in use:
            return self.a(x) + nn.functional.linear(x, self.b.weight.detach())
        return sum(getattr(self, name)(x) for name in use)


def grads(model):
    return [None if p.grad is None else p.grad.flatten().tolist() for p in model.parameters()]
