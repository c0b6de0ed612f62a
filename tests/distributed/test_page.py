"""The script of docs/distributed.md runs as the page says, and goes on with another number of processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "distributed.md").read_text()


def start(folder, *options, **variables):
    """Run `train.py` by `python -m gradlib`; what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "gradlib", *options, "train.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return re.findall(r"epoch (\d+): loss", done.stdout)


def test_the_script_runs_in_two_processes_and_goes_on_in_one(tmp_path):
    (tmp_path / "train.py").write_text(PAGE.split("```python\n")[1].split("```")[0])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert " ".join(["python -m gradlib", *launcher[:3], "--nproc-per-node"]) in PAGE
    assert start(tmp_path, *launcher) == ["0", "1"]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    assert start(tmp_path, **alone) == ["2", "3"]
    assert len(list((tmp_path / "checkpoints" / "last").iterdir())) == 2


def test_options_of_the_page_exist():
    from gradlib.distributed.run import get_args_parser

    known = {option for action in get_args_parser()._actions for option in action.option_strings}
    pieces = re.findall(r"distributed\.run(.*?)train\.py", PAGE.replace("\\\n", " "), re.DOTALL)
    used = {option for piece in pieces for option in re.findall(r"(?<=\s)--[a-z-]+", piece)}
    assert len(used) > 6
    assert used <= known
