"""A test that loses the device is named, and no test after it runs in its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = '''
import numpy as np
import gradlib as torch

SOURCE = """extern "C" __global__ void stop(float* to) { __trap(); }"""

def test_well():
    assert torch.ones(2, device="cuda").tolist() == [1, 1]

def test_that_faults():
    import cupy
    x = torch.ones(2, device="cuda")
    cupy.RawKernel(SOURCE, "stop")((1,), (1,), (x._array,))  # and does not wait for it

def test_after_it():
    assert torch.ones(2, device="cuda").tolist() == [1, 1]
'''


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess:
    (folder / "conftest.py").write_text("from tests_gpu.conftest import *\n")
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\nfilterwarnings = error\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "GRADLIB_"))}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "ci" / "gpu")])
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--device", "cupy-on-cpu", *words, str(folder)],
        capture_output=True, text=True, timeout=300, cwd=folder, env=env | more,
    )  # fmt: skip


def test_one_process_stops(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 70, done.stdout + done.stderr
    assert "test_it.py::test_that_faults lost the device: cudaErrorLaunchFailure" in done.stdout
    assert "test_well PASSED" in done.stdout and "test_after_it" not in done.stdout


def test_a_process_of_several_is_replaced(tmp_path):
    done = run(tmp_path, "-n", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running" in done.stdout and "test_it.py::test_that_faults" in done.stdout
    assert "PASSED test_it.py::test_after_it" in done.stdout  # it has a device again


def test_a_run_on_a_gpu_leaves_a_row(tmp_path):
    file = tmp_path / "rows.json"
    done = run(tmp_path, "-p", "pytest_rows", GRADLIB_GPU_ROWS=str(file), GRADLIB_GPU_STAGE="tests")
    assert done.returncode == 70, done.stdout + done.stderr
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert row["name"].endswith("test_it.py::test_that_faults")
    assert row["error"].startswith("lost the device: cudaErrorLaunchFailure: stop: __trap()")
