"""The machine, its bandwidth and products, one kernel of each kind, one capture."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import cuda_workloads
import device
import measure
import numpy as np
import rows

import gradlib as torch
from gradlib.devices.cuda import fused
from gradlib.tape.arrays import backend_for

F = torch.nn.functional
PACKAGES = (
    "numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "ml_dtypes", "nvidia-cudnn-cu13", "nvidia-cublas",
    "nvidia-cuda-nvrtc", "nvidia-nccl-cu13", "pytest",
)  # fmt: skip


def versions() -> None:
    """Python, packages, driver, device, the libraries that are loaded."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    rows.add("versions", python=platform.python_version(), processor=platform.machine(), **found)
    runtime = backend_for("cuda").xp.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    rows.add(
        "device", device=properties["name"].decode(), capability=f"{properties['major']}.{properties['minor']}",
        multiprocessors=properties["multiProcessorCount"], bytes=properties["totalGlobalMem"],
        driver=runtime.driverGetVersion(), runtime=runtime.runtimeGetVersion(),
    )  # fmt: skip
    if device.REAL:
        asked = "--query-gpu=driver_version,clocks.max.sm,clocks.max.memory,power.limit"
        smi = subprocess.run(
            ["nvidia-smi", asked, "--format=csv,noheader"], capture_output=True, text=True
        )
        rows.add("nvidia-smi", text=smi.stdout.strip() or smi.stderr.strip())
    if sys.platform == "linux":
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if ".so" in line}
        named = ("cublas", "cudnn", "nvrtc", "cudart", "curand", "cusolver")
        rows.add("libraries", paths=sorted(p for p in paths if any(n in p for n in named)))


def bandwidth() -> None:
    """GB/s of a copy on the device, and TFLOP/s of a product in bfloat16."""
    scale, width = (cuda_workloads.FULL, 8192) if device.REAL else (cuda_workloads.QUICK, 16)
    clock = measure.clock_of(torch, "cuda")
    copied = cuda_workloads.copy_bandwidth(scale)(torch, "cuda", clock)
    rows.add("copy", gradlib=copied, unit="GB/s")
    a = torch.randn(width, width, device="cuda").bfloat16()
    seconds = cuda_workloads.seconds_of(lambda: a @ a, clock)
    rows.add("bfloat16 product", gradlib=2 * width**3 / seconds / 1e12, unit="TFLOP/s")


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
    for name, (run, given) in kinds.items():
        try:
            rows.add(f"kernel: {name}", difference=difference(run, given))
        except Exception as error:
            rows.add(f"kernel: {name}", error=f"{type(error).__name__}: {error}"[:300])
            if sticky():
                sys.exit(f"the device is lost after the kernel {name}: {error}")


def difference(run: Callable, given: tuple) -> float:
    """The largest difference of results and gradients between the devices, relative to the largest number."""
    found = []
    for where in ("cpu", "cuda"):
        leaves = [t.detach().to(where).requires_grad_() for t in given]
        out = run(*leaves)
        grads = torch.autograd.grad(out.sin().sum(), leaves)
        found.append([t.detach().cpu().numpy() for t in (out, *grads)])
    worst = max(
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)) for a, b in zip(*found, strict=True)
    )
    if not worst < 1e-2:
        raise ValueError(f"differs from the CPU by {worst:.2g}")
    return worst


def sticky() -> bool:
    """Whether the device answers nothing any more."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


def capture() -> None:
    """A training step as a CUDA graph gives the losses of eager."""
    losses: list[list[Any]] = []
    for captured in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(4, 8, device="cuda")

        def step(model=model, optimizer=optimizer, x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.cuda.capture(step) if captured else step
        losses.append([run().item() for _ in range(6)])
    rows.add("capture", error="" if np.allclose(*losses, rtol=1e-5) else f"losses {losses}")


fused.load()
versions()
bandwidth()
one_of_each()
capture()
