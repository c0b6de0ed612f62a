"""DeviceMesh, DTensor, fully_shard and tensor parallelism beside PyTorch's own: one program, both libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("sharded_program.py")


def results(launcher: list[str], folder: Path) -> dict[str, Any]:
    out = folder / "found.json"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, *launcher, str(PROGRAM), f"file://{folder}/meet", str(out)]
    processes = [
        subprocess.Popen(command, env={**env, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    ours = results(["-m", "gradlib"], tmp_path_factory.mktemp("gradlib"))
    return ours, results([], tmp_path_factory.mktemp("torch"))


def alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        try:
            left, right = np.array(a, dtype=float), np.array(b, dtype=float)
        except (TypeError, ValueError):
            return len(a) == len(b) and all(alike(x, y, tolerance) for x, y in zip(a, b))
        return left.shape == right.shape and np.allclose(
            left, right, atol=tolerance, rtol=tolerance
        )
    return a == b if isinstance(a, str) else bool(np.isclose(a, b, atol=tolerance, rtol=tolerance))


def test_as_pytorch(found: tuple[dict[str, Any], dict[str, Any]]) -> None:
    ours, theirs = found
    assert list(ours) == list(theirs)
    different = {
        name: (ours[name], theirs[name])
        for name in ours
        if not alike(ours[name], theirs[name], 2e-2 if "half" in name else 1e-5)
    }
    assert different == {}
