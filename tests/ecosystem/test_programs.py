"""Programs that import published packages, unmodified: on gradlib through its launcher, and on PyTorch.

Each of `programs` runs once in an environment without PyTorch, as ``python -m gradlib program.py``, and once on
PyTorch with the same packages. Both write their numbers to a file. `ECOSYSTEM_PYTHON` is the interpreter of the
environment, `ECOSYSTEM_TORCH` one that has PyTorch, of the same version of Python; ``ci/ecosystem`` sets both.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = sorted(p.stem for p in (HERE / "programs").glob("*.py") if p.stem != "exchange")
PYTHON, TORCH = os.environ["ECOSYSTEM_PYTHON"], os.environ["ECOSYSTEM_TORCH"]
TIMEOUT = 400


def ask(interpreter: str, code: str, **environment: str) -> str:
    return subprocess.run(
        [interpreter, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, **environment},
    ).stdout.strip()


@pytest.fixture(scope="session")
def packages() -> str:
    """The folder of the environment's packages, which has no PyTorch and suits the interpreter that has."""
    has_torch = "import importlib.util; print(bool(importlib.util.find_spec('torch')))"
    assert ask(PYTHON, has_torch) == "False", "the environment is to be one without PyTorch"
    version = "import sys; print(sys.version_info[:2])"
    assert ask(PYTHON, version) == ask(TORCH, version), "two versions of Python"
    return ask(PYTHON, "import sysconfig; print(sysconfig.get_path('purelib'))")


def start(command: list[str], path: str, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir()
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, **quiet, "PYTHONPATH": path},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def difference(name: str, ours: np.ndarray, theirs: np.ndarray, largest: float) -> str | None:
    """What is wrong with a value; None if nothing is. `largest` is that of all gradients of its model."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{name}: {ours.dtype} {ours.shape}, PyTorch's is {theirs.dtype} {theirs.shape}"
    if theirs.dtype.kind not in "fc":
        return None if np.array_equal(ours, theirs) else f"{name}: {ours}, PyTorch's is {theirs}"
    size = np.abs(theirs).max(initial=0.0)
    if "gradient" in name:  # one that is 0 but for rounding is compared with the others
        allowed = 1e-5 * max(size, largest / 10)
    elif "loss" in name:
        allowed = 1e-6 * max(size, 1.0)
    elif name.startswith("half"):
        allowed = 2e-2 * size
    else:
        allowed = 1e-5 * max(size, 0.1)
    wrong = np.abs(ours - theirs).max(initial=0.0)
    return None if wrong <= allowed else f"{name}: off by {wrong:.2e}, allowed is {allowed:.2e}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_are_those_of_pytorch(program: str, packages: str, tmp_path: Path) -> None:
    file = str(HERE / "programs" / f"{program}.py")
    output = {side: tmp_path / f"{side}.npz" for side in ("gradlib", "pytorch")}
    running = {
        "gradlib": start(
            [PYTHON, "-m", "gradlib", file, str(output["gradlib"])], str(ROOT), tmp_path / "ours"
        ),
        "pytorch": start(
            [TORCH, str(HERE / "on_pytorch.py"), file, str(output["pytorch"])],
            packages,
            tmp_path / "theirs",
        ),
    }
    try:
        for process in running.values():
            process.wait(TIMEOUT)
    finally:
        for process in running.values():
            process.kill()
    for side, folder in (("gradlib", "ours"), ("pytorch", "theirs")):
        log = (tmp_path / folder / "log").read_text(errors="replace")
        assert running[side].returncode == 0, f"{program} on {side}:\n{log[-6000:]}"
    ours, theirs = (np.load(output[side]) for side in ("gradlib", "pytorch"))
    assert sorted(ours.files) == sorted(theirs.files)
    largest: dict[str, float] = {}
    for name in theirs.files:
        if " gradient " in name and theirs[name].dtype.kind == "f":
            model = name.partition(" ")[0]
            largest[model] = max(largest.get(model, 0.0), float(np.abs(theirs[name]).max()))
    wrong = [
        difference(n, ours[n], theirs[n], largest.get(n.partition(" ")[0], 0.0))
        for n in theirs.files
    ]
    assert not any(wrong), "\n".join(filter(None, wrong))
