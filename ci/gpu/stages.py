"""The stages of `ci/gpu`: what each runs, and how long it may take."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
KERNEL_TESTS = (
    "tests_gpu/test_kernels.py",
    "tests_gpu/test_kernels_layers.py",
    "tests_gpu/test_gemm.py",
    "tests_gpu/test_epilogues.py",
)
# where there is no GPU the run shows that each stage works, on little
FEW = "softmax and float32"


class Options(NamedTuple):
    """What the whole run was asked for."""

    out: Path
    python: str
    real: bool  # whether there is a GPU; else CuPy on the CPU
    workers: int


class Stage(NamedTuple):
    """A command with a hard limit in seconds, which ends it and all that it started."""

    name: str
    limit: int
    command: Callable[[Options], Sequence[str] | None]  # None where this machine cannot run it
    about: str


def _script(name: str) -> Callable[[Options], list[str]]:
    def command(options: Options) -> list[str]:
        more = [] if options.real else ["--device", "cupy-on-cpu"]
        return [options.python, str(HERE / f"{name}.py"), *more]

    return command


def _pytest(options: Options, paths: Sequence[str], more: Sequence[str], workers: int) -> list[str]:
    words = [options.python, "-m", "pytest", "-q", "-p", "pytest_rows", *paths, *more]
    if workers > 1 and importlib.util.find_spec("xdist"):
        words += ["-n", str(workers), "--max-worker-restart", "32"]
    if options.real and importlib.util.find_spec("pytest_timeout"):
        words += ["--timeout", "60"]
    if not options.real:
        words += ["--device", "cupy-on-cpu", "--sample", "40"]
    return words


def kernels(options: Options) -> list[str]:
    """The tests of single kernels against formulas."""
    few = [] if options.real else ["-k", FEW]
    return _pytest(options, KERNEL_TESTS, few, options.workers)


def others(options: Options) -> list[str]:
    """The rest of tests_gpu."""
    if not options.real:
        return _pytest(options, ["tests_gpu/test_foreach.py"], ["-k", "add"], 1)
    ignored = [f"--ignore={path}" for path in KERNEL_TESTS]
    return _pytest(options, ["tests_gpu"], ignored, options.workers)


def sanitizer(options: Options) -> list[str] | None:
    """Kernels under compute-sanitizer; without CuPy's pool, in which arrays have neighbours."""
    if shutil.which("compute-sanitizer") is None:
        return None
    tests = _pytest(options, KERNEL_TESTS[:1], ["-x", "-k", "float32 and not conv"], 1)
    one = "compute-sanitizer --tool {} --error-exitcode 9 --target-processes all " + shlex.join(
        tests
    )
    both = " && ".join(one.format(tool) for tool in ("memcheck", "racecheck"))
    return ["env", "GRADLIB_NO_POOL=1", "bash", "-c", both]


STAGES = (
    Stage("facts", 40, _script("facts"), "driver, versions, bandwidth, one capture"),
    Stage("compile", 110, _script("compile"), "all kernels, and CuPy's that tests use, in parallel, into DIR/cache"),
    Stage("kinds", 40, _script("kinds"), "one kernel of each kind against the CPU"),
    Stage("kernels", 110, kernels, "kernels against formulas"),
    Stage("tests", 235, others, "the rest of tests_gpu"),
    Stage("sanitizer", 90, sanitizer, "memcheck and racecheck over the kernels"),
    Stage("micro", 200, _script("micro"), "single ops beside PyTorch"),
    Stage("models", 160, _script("models"), "training steps beside PyTorch, memory, tables of kernels"),
)  # fmt: skip
