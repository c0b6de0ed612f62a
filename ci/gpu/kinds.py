"""One kernel of each kind, forward and backward, against the CPU."""

from __future__ import annotations

from collections.abc import Callable

import device
import numpy as np
import rows

import gradlib as torch
from gradlib.devices.cuda import cudnn, fused
from gradlib.devices.cuda.fused import paths

F = torch.nn.functional


def one_of_each() -> None:
    """One kernel of each kind, forward and backward, against the CPU."""
    torch.manual_seed(0)
    image, weight = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)
    text, table = torch.randint(0, 10, (2, 7)), torch.randn(10, 16)
    heads = torch.randn(2, 2, 8, 16)
    kinds: dict[str, tuple[Callable, tuple]] = {
        "pointwise": (lambda x: F.gelu(x) * 2, (image,)),
        "reduce": (lambda x: x.sum((0, 2)), (image,)),
        "softmax": (lambda x: x.softmax(-1), (table,)),
        "norm": (lambda x: F.layer_norm(x, (16,)), (table,)),
        "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (image,)),
        "conv": (lambda x, w: F.conv2d(x, w, padding=1), (image, weight)),
        "pool": (lambda x: F.max_pool2d(x, 2), (image,)),
        "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (heads,)),
        "embedding": (lambda t: F.embedding(text.to(t.device), t), (table,)),
        "cross_entropy": (lambda x: F.cross_entropy(x, torch.arange(10).to(x.device)), (table[:, :10],)),
        "gather": (lambda x: x.gather(1, torch.zeros(10, 3, dtype=torch.int64).to(x.device)), (table,)),
        "products": (lambda x: x @ x.T, (table,)),
    }  # fmt: skip
    if device.REAL:  # tensor cores; where there is none g++ takes long over their kernels

        def attention(x):
            return F.scaled_dot_product_attention(*[x.bfloat16()] * 3, is_causal=True).float()

        def conv(x, w):
            return F.conv2d(x.bfloat16(), w.bfloat16(), padding=1).float()

        def linear(x):
            return F.linear(x.bfloat16(), x.bfloat16(), x[:, 0].bfloat16()).float()

        kinds["attention bf16"] = attention, (heads,)
        kinds["conv bf16"] = conv, (image, weight)
        kinds["linear bf16"] = linear, (table,)
        kinds["conv bf16 by the kernel"] = by("kernel", conv), (image, weight)
    if cudnn.library() is not None:
        kinds["conv by cuDNN"] = by("cudnn", kinds["conv"][0]), (image, weight)
        half = by("cudnn", lambda x, w: F.conv2d(x.half(), w.half(), padding=1).float())
        kinds["conv float16 by cuDNN"] = half, (image, weight)
    for name, (run, given) in kinds.items():
        with rows.attempt(f"kernel: {name}"):
            rows.add(
                f"kernel: {name}",
                difference=difference(run, given, 0.1 if "16" in name else 1e-2),
            )


def by(way: str, run: Callable) -> Callable:
    """The function with its convolution computed in one way of `paths`; gradients take that which is better."""

    def forced(x, *others):
        with paths.force(**({"convolution": way} if x.is_cuda else {})):
            return run(x, *others)

    return forced


def difference(run: Callable, given: tuple, most: float) -> float:
    """The largest difference of results and gradients between the devices, relative to the largest number.

    ValueError if it is `most` or more.
    """
    found = []
    for where in ("cpu", "cuda"):
        leaves = [t.detach().to(where).requires_grad_() for t in given]
        out = run(*leaves)
        grads = torch.autograd.grad(out.sin().sum(), leaves)
        found.append([t.detach().cpu().numpy() for t in (out, *grads)])
    worst = max(
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) for a, b in zip(*found, strict=True)
    )
    if not worst < most:
        raise ValueError(f"differs from the CPU by {worst:.2g}")
    return worst


fused.load()
one_of_each()
