"""Ranges, device facts and the profiler's switch with NVIDIA's own tools."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradlib as gl
from gradlib.autograd.profiler import load_nsys

EXAMPLE = Path(__file__).parents[1] / "examples" / "nsys_profile.py"


# rows: DEV-24
@pytest.mark.skipif(shutil.which("nsys") is None, reason="Nsight Systems is not installed")
def test_nsys_shows_ranges_with_numbers_and_kernels(tmp_path):
    pytest.importorskip("nvtx")
    report, export = tmp_path / "run.nsys-rep", tmp_path / "run.sqlite"
    subprocess.run(
        [
            "nsys",
            "profile",
            "--trace=cuda,nvtx",
            "--sample=none",
            "--cpuctxsw=none",
            "--output",
            report,
        ]
        + [sys.executable, EXAMPLE, "--device", "cuda", "--steps", "3"],
        check=True,
        timeout=300,
    )
    subprocess.run(
        ["nsys", "export", "--type", "sqlite", "--output", export, report], check=True, timeout=300
    )
    trace = load_nsys(export)
    rows = {row.key: row for row in trace.forward_backward()}
    assert rows["linear"].calls == 6
    assert rows["linear"].forward_device_us > 0
    assert rows["linear"].backward_device_us > 0
    lines = [row.key for row in trace.by_line()]
    assert any(line.startswith(f"{EXAMPLE}:") for line in lines)


# rows: PROF-43
def test_cuda_profiler_starts_and_stops():
    with gl.cuda.profiler.profile():
        gl.ones(3, device="cuda") + 1


# rows: DEV-25
def test_device_facts():
    pytest.importorskip("pynvml")
    held = gl.ones(2**20, device="cuda")
    assert gl.cuda.device_memory_used() > held.numel() * 4
    assert 0 <= gl.cuda.utilization() <= 100
    assert 0 <= gl.cuda.memory_usage() <= 100
    assert 10 < gl.cuda.temperature() < 110
    assert gl.cuda.power_draw() > 1_000
    assert gl.cuda.clock_rate() > 100
