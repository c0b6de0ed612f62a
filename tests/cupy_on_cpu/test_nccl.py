"""The engine of NCCL in several processes, each with CuPy on the CPU and the NCCL of `nccl.cpp`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("size", "checks"), [(2, "methods,refused,training,late,killed"), (3, "methods")]
)
def test_ranks(size, checks, tmp_path, runtime):
    program = [sys.executable, "-m", "tests.cupy_on_cpu.nccl_program", checks]
    ranks = [
        subprocess.Popen(
            [*program, str(rank), str(size), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(size)
    ]
    try:
        printed = [rank.communicate(timeout=240)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for i, text in enumerate(printed):
        dies = "killed" in checks and i == size - 1
        assert ranks[i].returncode == (-signal.SIGKILL if dies else 0), text
        done = [line.split()[0] for line in text.splitlines() if line.endswith(" done")]
        assert done == checks.split(",")[: -1 if dies else None]
