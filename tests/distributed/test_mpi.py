"""The engine of MPI, in programs started by the mpiexec that comes with the MPI of the extra `distributed`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = Path(sys.prefix, "bin", "mpiexec")
MPIEXEC = str(OURS) if OURS.exists() else shutil.which("mpiexec") or "mpiexec"


def mpiexec(size: int, *checks: str) -> subprocess.CompletedProcess:
    """Run checks of mpi_program.py in so many processes."""
    return subprocess.run(
        [MPIEXEC, "-n", str(size), sys.executable, "-m", "tests.distributed.mpi_program", *checks],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "EXPECTED_SIZE": str(size),
        },
    )


@pytest.mark.parametrize("size", [2, 3])
def test_ranks(size):
    checks = ["methods", "training", "groups", "idle", "disagrees"]
    done = mpiexec(size, *checks)
    assert done.returncode == 0, done.stdout + done.stderr
    for check in checks:
        assert done.stdout.count(f"{check} done") == size


@pytest.mark.parametrize(("check", "size"), [("aborted", 2), ("fails_alone", 3)])
def test_failures(check, size):
    """After them MPI itself cannot end in order: that is in the exit status."""
    done = mpiexec(size, check)
    assert done.stdout.count(f"{check} done") == size, done.stdout + done.stderr
    assert done.returncode != 0


def test_a_rank_that_raises_ends_the_program():
    done = mpiexec(2, "raises")
    assert done.returncode != 0
    assert "rank 1 has had enough" in done.stderr
    assert "failed on rank 0: rank 1 raised:" in done.stderr


def test_without_mpiexec_it_is_said(tmp_path):
    program = (
        "import gradlib.distributed as dist\n"
        f"dist.init_process_group('mpi', 'file://{tmp_path}/meet', rank=RANK, world_size=2)\n"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program.replace("RANK", str(rank))],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for rank in range(2)
    ]
    for rank in ranks:
        assert "mpiexec -n 2 python train.py" in rank.communicate(timeout=300)[1]
        assert rank.returncode == 1


def test_without_mpi4py_it_is_said(monkeypatch):
    from gradlib.distributed._mpi import library

    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    library.cache_clear()
    with pytest.raises(ImportError, match=r"gradlib\[distributed\]"):
        library()
