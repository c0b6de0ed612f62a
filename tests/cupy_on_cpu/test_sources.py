"""What CuPy hands to the compiler is recorded, and is CUDA C++ for a real device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import machine, sources

ROOT = Path(__file__).parents[2]
PROGRAM = r"""
import ml_dtypes
import numpy
import gradlib as gl
import cupy
x = cupy.asarray(numpy.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16))
assert (x + x).astype("f4").sum(0).get().tolist() == [24, 30, 36, 42]
y = gl.arange(12.0, device="cuda").reshape(3, 4).requires_grad_()
(y.exp() * y).half().softmax(1).sum().backward()
assert cupy.arange(1000, dtype="i4").sum() == 499500
"""


def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess:
    """A module of this folder in a process of its own: NVRTC does not live beside our stand-ins of libraries."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources of a small program."""
    made = tmp_path_factory.mktemp("sources")
    program = made / "program.py"
    program.write_text(PROGRAM)
    done = run("tests.cupy_on_cpu", program, **{machine.RECORD: str(made)})
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_every_source_compiles_for_a_device(folder):
    done = run("tests.cupy_on_cpu.sources", folder)
    found = sources.recorded(folder)
    assert f"{len(found)} sources" in done.stdout and "0 do not compile" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    titles = " ".join(one.title for one in found)
    # CuPy's own elementwise and reduction kernels, CUB's blocks, ours by RawModule
    for title in ("cupy_add__bfloat16", "cupy_cub_sum", "softmax<float16"):
        assert title in titles
    for one in found:
        assert "-arch=sm_90" in one.options and "-ftz=true" in one.options


def test_headers_are_those_of_this_environment():
    found = [
        sources.here(option)
        for option in (
            "-I/other/lib/python3.12/site-packages/nvidia/cu11/include",
            "-I/other/lib/python3.12/site-packages/cupy/_core/include",
            "-I/usr/include",
            "-ftz=true",
        )
    ]
    site = machine.site()
    assert found == [
        f"-I{machine.cuda_headers()}",
        f"-I{site}/cupy/_core/include",
        "-I/usr/include",
        "-ftz=true",
    ]
    assert (site / "cupy/_core/include").is_dir() and machine.cuda_headers().is_dir()


def test_a_source_that_only_gcc_takes_is_shown(folder, tmp_path):
    one = sources.recorded(folder)[0]
    source = '#include <vector>\nextern "C" __global__ void f(int* x) { x[0] = std::vector<int>(3).size(); }'
    machine.record(tmp_path, source, one.options, ())
    machine.record(tmp_path, one.source, one.options, one.names)
    done = run("tests.cupy_on_cpu.sources", tmp_path)
    assert done.returncode == 1 and "2 sources" in done.stdout and "1 do not compile" in done.stdout
    assert "\nf: " in done.stdout and "vector" in done.stdout


def test_each_content_is_recorded_once(tmp_path):
    for options in (("-arch=sm_90",), ("-arch=sm_80",), ("-arch=sm_90",)):
        machine.record(tmp_path, "x", options, ())
    assert len(list(tmp_path.glob("*"))) == 2
    assert {json.loads(p.read_text())["options"][0] for p in tmp_path.glob("*")} == {
        "-arch=sm_80",
        "-arch=sm_90",
    }


def test_a_folder_without_sources_is_no_success(tmp_path):
    with pytest.raises(RuntimeError, match="has no sources: run tests with GRADLIB_RECORD_SOURCES"):
        sources.main(tmp_path)
