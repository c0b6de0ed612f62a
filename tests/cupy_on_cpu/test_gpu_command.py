"""`python ci/gpu` runs to its end on CuPy on the CPU, on little of everything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_all_stages_leave_rows(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "ci" / "gpu"),
        "--device",
        "cupy-on-cpu",
        "--out",
        str(tmp_path),
    ]
    command += ["--limit", "10"]  # of the seconds that a GPU's machine needs: this one may be busy
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, cwd=ROOT)
    logs = "".join(f"\n{p.name}\n{p.read_text()[-2000:]}" for p in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    (file,) = tmp_path.glob("*_gpu.json")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    by_stage = {row["stage"] for row in rows}
    assert by_stage >= {"facts", "compile", "kinds", "kernels", "tests", "micro", "models"}
    assert not [row for row in rows if row.get("error")]
    assert {row["name"] for row in rows} >= {
        "device",
        "copy",
        "kernel: conv",
        "capture",
        "host time of mul",
        "kernel: conv float16 by cuDNN",
        "conv 3x3 tf32, by cudnn",
        "conv 3x3 tf32, by kernel",
    }
    assert [row["version"] for row in rows if row["name"] == "cuDNN of convolutions"] == [92801]
