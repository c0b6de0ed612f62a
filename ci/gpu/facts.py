"""The machine, its bandwidth and products, one capture."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from typing import Any

import cuda_workloads
import device
import measure
import numpy as np
import rows

import gradlib as torch
from gradlib.devices.cuda import cudnn, fused
from gradlib.tape.arrays import backend_for

PACKAGES = (
    "numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton", "ml_dtypes", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12",
    "nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-nccl-cu13", "pytest",
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
        command = ["nvidia-smi", asked, "--format=csv,noheader"]
        try:
            smi = subprocess.run(command, capture_output=True, text=True, timeout=20)
            text = smi.stdout.strip() or smi.stderr.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            text = str(error)  # not each image has it
        rows.add("nvidia-smi", text=text)
    found_library = cudnn.library()
    where = "not found, or switched off" if found_library is None else found_library._name
    rows.add("cuDNN of convolutions", version=cudnn.version(), path=where)
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
for name, part in (("versions", versions), ("bandwidth", bandwidth), ("capture", capture)):
    with rows.attempt(name):
        part()
