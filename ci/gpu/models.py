"""Training steps beside PyTorch on the device: times, peak memory, and which kernels take the time."""

from __future__ import annotations

import dataclasses

import cuda_workloads
import device
import measure
import rows
import workloads as base

FIRST = ("gpt2", "cnn", "mlp", "capture")  # what is measured first, by the beginning of its name


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
    ranked = sorted(
        every, key=lambda w: next((i for i, n in enumerate(FIRST) if w.name.startswith(n)), 9)
    )
    chosen = ranked if device.REAL else ranked[:1]
    rows.add_measured(chosen, lambda workload: measure.run(workload, libraries, "cuda", effort))
    if not device.REAL or "torch" not in libraries:
        return
    scale, how = cuda_workloads.FULL, cuda_workloads.KINDS["bf16"]
    for name in ("gradlib", "torch"):
        try:
            table(
                "gpt2 bf16",
                libraries[name],
                lambda torch, where: base.gpt(torch, where, how, scale.gpt2),
            )
        except Exception as error:
            rows.add(f"kernels: gpt2 bf16, {name}", error=f"{type(error).__name__}: {error}"[:300])


main()
