"""CONTRIBUTING.md: its example runs, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_op_of_the_text_works_as_it_says(tmp_path):
    """All blocks of code are one program; in a process of its own, since it declares ops."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 4
    program = tmp_path / "contributing.py"
    checks = """
import doctest
import gradlib

assert doctest.run_docstring_examples(squareplus, {"gradlib": gradlib}) is None
from gradlib.op.declare import REGISTRY
from samples import samples_of

assert all(samples_of(REGISTRY[name]) for name in ("squareplus", "centred"))
assert gradcheck(lambda t: centred_op.call(t, 1), x, check_forward_ad=True)
assert gradgradcheck(lambda t: centred_op.call(t, 1), x)
try:
    squareplus(x, -1)
except ValueError:
    print("well")
"""
    program.write_text("\n".join(blocks) + checks)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'operators'}", "PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr) == ("well\n", "")


def test_the_op_takes_ten_lines():
    declaration = re.search(r"squareplus_op = declare\(.*?\n\)\n", TEXT, re.DOTALL)
    assert declaration is not None and declaration[0].count("\n") <= 10


def test_files_and_folders_that_it_names_exist():
    named = re.findall(r"`((?:gradlib|tests|tests_gpu|ci|docs|kernels|\.github)/[\w./-]+)`", TEXT)
    assert len(named) > 10
    for name in named:
        assert (ROOT / name).exists(), name
