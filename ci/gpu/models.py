"""Training steps beside PyTorch on the device: times, peak memory, and which kernels take the time."""

from __future__ import annotations

import dataclasses

import cuda_workloads
import device
import measure
import rows
import workloads as base

# what is measured first, before the tables of kernels, by the beginning of its name; the rest comes behind them
FIRST = ("gpt2", "resnet50", "mlp-small", "gpt-captured")


def table(name, torch, build) -> None:
    """The kernels of a step that take most of its time; PyTorch's profiler sees those of all libraries."""
    import torch as theirs

    step = build(torch, "cuda")
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    activities = [theirs.profiler.ProfilerActivity.CUDA]
    with theirs.profiler.profile(activities=activities) as profile:
        step()
        torch.cuda.synchronize()
    found = sorted(profile.key_averages(), key=lambda e: -e.self_device_time_total)
    kernels = [[e.key[:90], e.count, round(e.self_device_time_total)] for e in found[:25]]
    total = sum(e.self_device_time_total for e in found)
    count = sum(e.count for e in found)
    rows.add(
        f"kernels: {name}, {torch.__name__}",
        microseconds=round(total),
        launches=count,
        kernels=kernels,
    )


def main() -> None:
    """A row for each workload, then tables of kernels."""
    libraries = measure.load_libraries("cuda")
    effort = measure.Effort(sample=0.05, rounds=5, budget=4.0) if device.REAL else measure.QUICK
    effort = dataclasses.replace(effort, warm_up=1 + measure.CAPTURES)
    every = cuda_workloads.workloads(quick=not device.REAL)
    # beside PyTorch's eager mode alone: to compile a model takes it longer than all else here
    every = [dataclasses.replace(w, others={}) if hasattr(w, "others") else w for w in every]
    first = [w for name in FIRST for w in every if w.name.startswith(name)]

    def run(workload):
        return measure.run(workload, libraries, "cuda", effort)

    if not device.REAL:
        rows.add_measured(first[:1], run)
        return
    rows.add_measured(first, run)
    if "torch" in libraries:
        tables(libraries)
    rows.add_measured([w for w in every if w not in first], run)


def tables(libraries) -> None:
    """The kernels of a step of each library."""
    scale, how = cuda_workloads.FULL, cuda_workloads.KINDS["bf16"]
    builds = {
        "gpt2 bf16": lambda torch, where: base.gpt(torch, where, how, scale.gpt2),
        "resnet50 bf16": cuda_workloads.resnet50(scale),
    }
    for name, build in builds.items():
        for library in ("gradlib", "torch"):
            with rows.attempt(f"kernels: {name}, {library}"):
                table(name, libraries[library], build)


main()
