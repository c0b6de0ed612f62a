"""`ci/gpu compile` leaves in CuPy's cache what tests of single ops would compile, under the keys it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import machine

ROOT = Path(__file__).parents[2]
COMPILE = ROOT / "ci" / "gpu" / "compile.py"
CACHED = """
import sys
from tests.cupy_on_cpu import machine
machine.install()
import cupy_kernels
from tests_gpu import faults
name, until = sys.argv[1], float(sys.argv[2])
print("answer:", cupy_kernels.called(name, until)[2])
"""

BROKEN = """
import cupy_kernels
from cupy.cuda import compiler
def fail(*args):
    raise compiler.CompileException("no such type", "", "", ())
machine.compile_kernels = fail
"""


@pytest.fixture
def env(tmp_path):
    """A cache of its own, in which nothing is, on the disk also while sources are recorded."""
    other = ("PYTEST_", machine.RECORD, "CUPY_CACHE_IN_MEMORY")
    made = {k: v for k, v in os.environ.items() if not k.startswith(other)}
    made["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(COMPILE.parent)])
    made["CUPY_CACHE_DIR"] = str(tmp_path / "cache")
    made |= {"GRADLIB_GPU_ROWS": str(tmp_path / "rows.json"), "GRADLIB_GPU_STAGE": "compile"}
    return made


def run(env, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=env, cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kept(env) -> set[str]:
    return {path.name for path in Path(env["CUPY_CACHE_DIR"]).glob("*.cubin")}


def test_tests_find_what_was_compiled(env):
    run(env, COMPILE, "--device", "cupy-on-cpu")
    made = kept(env)
    rows = [json.loads(line) for line in Path(env["GRADLIB_GPU_ROWS"]).read_text().splitlines()]
    assert (rows[-1]["ops"], rows[-1]["of"]) == (1, 1)
    assert rows[-1]["kept"] == rows[-1]["new"] == len(made) > 10  # the others are of softmax
    words = ["-q", "-p", "no:cacheprovider", "--device", "cupy-on-cpu", "--sample", "1"]
    told = run(env, "-m", "pytest", *words, "tests_gpu/test_ops.py", "-k", "[neg] or [neg-")
    assert int(told.rpartition(" passed")[0].split()[-1]) >= 9
    assert kept(env) == made


def test_a_fault_of_the_compiler_is_told(env):
    env["PYTHONPATH"] += os.pathsep + str(Path(env["CUPY_CACHE_DIR"]).parent)
    program = Path(env["CUPY_CACHE_DIR"]).parent / "program.py"
    program.write_text(CACHED)
    assert run(env, program, "neg", "1") == "answer: later\n" and not kept(env)
    program.write_text(CACHED.replace("import cupy_kernels\n", BROKEN))
    told = run(env, program, "neg", "inf")
    assert told.startswith("answer: CompileException: no such type") and not kept(env)
