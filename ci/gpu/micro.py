"""Single ops beside PyTorch on the device, and what the host spends on an op."""

from __future__ import annotations

import dataclasses

import device
import measure
import rows
from measure import Workload
from workloads import with_tf32

from gradlib.devices.cuda import cudnn
from gradlib.devices.cuda.fused import paths
from gradlib.op import overlays

WIDE = 4096 if device.REAL else 8
SEQ, HEADS = (1024, 12) if device.REAL else (8, 2)
IMAGES, CHANNELS, SIZE = (64, 64, 56) if device.REAL else (2, 4, 6)


def forward_and_gradients(make):
    """A workload's build from ``make(torch, where)``, which gives (function of no arguments, leaves)."""

    def build(torch, where):
        run, leaves = make(torch, where)
        seed = torch.ones_like(run())

        def forward():
            with torch.no_grad():
                return run()

        def both():
            return torch.autograd.grad(run(), leaves, seed)

        return {"forward": forward, "forward and gradients": both}

    return build


def leaf(torch, *shape, dtype="bfloat16", where="cuda", scale=1.0):
    """The same numbers in every library."""
    import numpy as np

    drawn = np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape, dtype=np.float32)
    made = torch.from_numpy(drawn * scale).to(where).to(getattr(torch, dtype))
    return made.requires_grad_()


def linear(torch, where):
    x = leaf(torch, WIDE, WIDE)
    w, b = leaf(torch, WIDE, WIDE, scale=WIDE**-0.5), leaf(torch, WIDE)
    return lambda: torch.nn.functional.linear(x, w, b), [x, w, b]


def attention(torch, where):
    q, k, v = (leaf(torch, 8, HEADS, SEQ, 64, scale=s) for s in (1.0, 0.9, 0.8))
    call = torch.nn.functional.scaled_dot_product_attention
    return lambda: call(q, k, v, is_causal=True), [q, k, v]


def convolution(size, last, dtype="bfloat16"):
    def make(torch, where):
        x = leaf(torch, IMAGES, CHANNELS, SIZE, SIZE, dtype=dtype)
        scale = (CHANNELS * size * size) ** -0.5
        w = leaf(torch, CHANNELS, CHANNELS, size, size, dtype=dtype, scale=scale)
        if last:
            how = {"memory_format": torch.channels_last}
            x, w = (t.detach().contiguous(**how).requires_grad_() for t in (x, w))
        return lambda: torch.nn.functional.conv2d(x, w, padding=size // 2), [x, w]

    return make


def in_tf32(build):
    """The same work with products and convolutions of float32 rounded to TF32."""

    def built(torch, where):
        return {name: with_tf32(torch, phase) for name, phase in build(torch, where).items()}

    return built


def norm(kind):
    """Half input, float32 weights: what autocast gives."""

    def make(torch, where):
        functional = torch.nn.functional
        if kind == "batch_norm":
            x = leaf(torch, IMAGES, CHANNELS, SIZE, SIZE)
            w, b = (leaf(torch, CHANNELS, dtype="float32") for _ in range(2))
            return lambda: functional.batch_norm(x, None, None, w, b, training=True), [x, w, b]
        x = leaf(torch, WIDE, WIDE)
        w, b = (leaf(torch, WIDE, dtype="float32") for _ in range(2))

        def run():
            with torch.autocast("cuda", torch.bfloat16):
                return functional.layer_norm(x, (WIDE,), w, b)

        return run, [x, w, b]

    return make


def cross_entropy(torch, where):
    x = leaf(torch, WIDE, WIDE, dtype="float32")
    target = torch.arange(WIDE).to(where)
    return lambda: torch.nn.functional.cross_entropy(x, target), [x]


def columns(torch, where):
    """Few long columns: a thread for each would be alone for long."""
    x = leaf(torch, 16 * WIDE, 64, dtype="float32")
    return lambda: torch.nn.functional.softmax(x, 0), [x]


def pointwise(name):
    def make(torch, where):
        other = "float32" if name == "mixed add" else "bfloat16"
        x, y = leaf(torch, WIDE, WIDE), leaf(torch, WIDE, WIDE, dtype=other, scale=0.5)
        runs = {
            "add": lambda: x + y,
            "mixed add": lambda: x + y,
            "cast": lambda: x.float(),
            "gelu": lambda: torch.nn.functional.gelu(x),
        }
        return runs[name], [x, y] if "add" in name else [x]

    return make


def adamw(torch, where):
    parameters = [leaf(torch, WIDE, WIDE, dtype="float32") for _ in range(4)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)
    return lambda: optimizer.step()


def host(torch, where):
    """A chain of small ops: the host cannot keep up with the device."""
    x = torch.ones(16, device=where)

    def chain():
        y = x
        for _ in range(200):
            y = y * 1.0
        return y

    return chain


WORKLOADS = [
    Workload("linear bf16", forward_and_gradients(linear), goal=1.1, rtol=5e-2),
    Workload("attention bf16 causal", forward_and_gradients(attention), goal=1.1, rtol=5e-2),
    *[
        Workload(
            f"conv {s}x{s} bf16{' channels last' * last}",
            forward_and_gradients(convolution(s, last)),
            goal=1.1,
            rtol=5e-2,
        )
        for s in (1, 3)
        for last in (False, True)
    ],
    Workload(
        "conv 3x3 float32",
        forward_and_gradients(convolution(3, False, "float32")),
        goal=1.1,
        rtol=1e-3,
    ),
    Workload(
        "conv 3x3 tf32",
        in_tf32(forward_and_gradients(convolution(3, False, "float32"))),
        goal=1.1,
        rtol=1e-2,
    ),
    Workload("layer_norm autocast", forward_and_gradients(norm("layer_norm")), goal=1.1, rtol=5e-2),
    Workload("batch_norm bf16", forward_and_gradients(norm("batch_norm")), goal=1.1, rtol=5e-2),
    Workload("cross_entropy", forward_and_gradients(cross_entropy), goal=1.1, rtol=1e-3),
    Workload("softmax of columns", forward_and_gradients(columns), goal=1.1, rtol=1e-3),
    *[
        Workload(f"{name} bf16", forward_and_gradients(pointwise(name)), goal=1.1, rtol=5e-2)
        for name in ("add", "mixed add", "cast", "gelu")
    ],
    Workload("AdamW", adamw, goal=1.1),
    Workload("host time of mul", host, unit="us", per=200, goal=1.0),
]


DECIDED = ("attention", "conv", "layer_norm", "batch_norm", "cross_entropy", "softmax")
"""What has a kernel of its own that cuBLAS, or several passes, might beat: by the beginning of its name."""


def by_formulas() -> list[Workload]:
    """The workloads of which the first hour decides whether the kernel or the formula is better."""
    chosen = [w for w in WORKLOADS if w.name.startswith(DECIDED)]
    return [dataclasses.replace(w, name=f"{w.name}, by its formula") for w in chosen]


def by_ways() -> list[tuple[str, list[Workload]]]:
    """The convolutions in each way that they might take: that by cuDNN where it is found, and the kernel."""
    chosen = [w for w in WORKLOADS if w.name.startswith("conv 3x3")]
    ways = ["kernel"] if cudnn.library() is None else ["cudnn", "kernel"]
    return [
        (way, [dataclasses.replace(w, name=f"{w.name}, by {way}") for w in chosen]) for way in ways
    ]


def main() -> None:
    """A row for each workload and phase, as soon as it is measured; then some in the ways that are not taken."""
    libraries = measure.load_libraries("cuda")
    effort = measure.QUICK if not device.REAL else measure.Effort(sample=0.02, rounds=5, budget=2.0)
    effort = dataclasses.replace(effort, warm_up=2)

    def run(workload):
        return measure.run(workload, libraries, "cuda", effort)

    rows.add_measured(WORKLOADS if device.REAL else WORKLOADS[-1:], run)
    libraries = {"gradlib": libraries["gradlib"]}
    for way, workloads in by_ways():
        with paths.force(convolution=way):
            rows.add_measured(workloads if device.REAL else workloads[-1:], run)
    with overlays.off():
        rows.add_measured(by_formulas() if device.REAL else by_formulas()[:1], run)


main()
