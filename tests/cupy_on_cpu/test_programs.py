"""Whole programs on CuPy itself: the examples as they are, and what measures speed on a device."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def output(*command: object) -> str:
    """What a program prints that runs to its end with ``--device cuda``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cupy_on_cpu", *map(str, command), "--device", "cuda"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_training_an_image_classifier(tmp_path):
    pytest.importorskip("sklearn")
    printed = output("examples/train_digits.py", "--epochs", 2, "--limit", 128, "--out", tmp_path)
    assert "device cuda" in printed
    losses = re.findall(r"^epoch \d/2  loss ([\d.]+)", printed, re.MULTILINE)
    assert len(losses) == 2 and float(losses[1]) < float(losses[0])
    assert (tmp_path / "checkpoint.pt").exists()


def test_training_a_language_model(tmp_path):
    sizes = ("--steps", 8, "--context", 16, "--batch-size", 4, "--length", 8)
    printed = output("examples/train_text.py", *sizes, "--out", tmp_path)
    assert "device cuda" in printed
    assert re.search(r"step 8  loss [\d.]+  test loss [\d.]+", printed)


def test_profiling(tmp_path):
    printed = output("examples/profiling.py", "--steps", 2, "--batch-size", 8, "--out", tmp_path)
    assert "native_batch_norm_backward" in printed and "Memory on cuda:0" in printed
    assert (tmp_path / "profile.html").exists() and (tmp_path / "trace.json").exists()


@pytest.mark.parametrize("program", ["cuda_graph.py", "streams.py", "nsys_profile.py"])
def test_programs_for_a_device(program):
    assert "loss" in output(f"examples/{program}", "--steps", 3)


def test_every_workload_of_the_benchmark(tmp_path):
    path = tmp_path / "result.json"
    output("ci/bench", "--quick", "--json", path)
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) > 20
    assert not [row["name"] for row in rows if row["error"]]
