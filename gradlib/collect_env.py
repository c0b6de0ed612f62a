"""What a bug report should say of the machine: ``python -m gradlib.collect_env`` prints it.

``--json`` prints the same for programs. Nothing is sent anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

from .devices.cuda import namespace as cupy_backend
from .devices.packages import find
from .version import __version__

__all__ = ["environment", "main", "report"]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "CUPY_TF32",
    "NVTX_INJECTION64_PATH",
)


def _python() -> str:
    bits = platform.architecture()[0]
    return f"{platform.python_version()} ({platform.python_implementation()}, {bits}) at {sys.executable}"


def _cpu() -> str:
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        name = found[1] if found else name
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {usable} of {os.cpu_count()} cores usable"


def _settings() -> str:
    found = [f"{name}={os.environ[name]}" for name in _THREAD_VARIABLES if name in os.environ]
    return ", ".join(found) or "none of " + ", ".join(_THREAD_VARIABLES)


def _blas() -> str:
    parts = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index]
    return f"{parts['name']} {parts['version']}"


def _driver() -> str:
    library = find("pynvml")
    if library is None:
        return "unknown: pynvml is not installed (pip install 'gradlib[profile]')"
    library.nvmlInit()
    try:
        return library.nvmlSystemGetDriverVersion()
    finally:
        library.nvmlShutdown()


def _cuda() -> str:
    reason = cupy_backend.why_not()
    if reason is not None:
        return reason
    xp = cupy_backend.get_backend().xp
    runtime = xp.cuda.runtime
    lines = [
        f"CuPy {xp.__version__}, runtime {_cuda_version(runtime.runtimeGetVersion())}, "
        f"driver supports {_cuda_version(runtime.driverGetVersion())}"
    ]
    for index in range(runtime.getDeviceCount()):
        facts = runtime.getDeviceProperties(index)
        name = facts["name"].decode() if isinstance(facts["name"], bytes) else facts["name"]
        gib = facts["totalGlobalMem"] / 2**30
        lines.append(f"  cuda:{index} {name}, sm_{facts['major']}{facts['minor']}, {gib:.1f} GiB")
    return "\n".join(lines)


def _cuda_version(number: int) -> str:
    """12040 -> "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _installed(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} (not installed)"


def _requirements() -> dict[str, list[str]]:
    """Names of required packages by extra; "" for those that are always needed."""
    found: dict[str, list[str]] = {}
    for requirement in metadata.requires("gradlib") or ():
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", requirement)
        if name and name[0] != "gradlib":
            found.setdefault(extra[1] if extra else "", []).append(name[0])
    return found


def _extras() -> str:
    return "\n".join(
        f"  {extra}: {', '.join(map(_installed, packages))}"
        for extra, packages in _requirements().items()
        if extra
    )


_FACTS: dict[str, Callable[[], str]] = {
    "gradlib": lambda: f"{__version__} at {Path(__file__).parent}",
    "Python": _python,
    "Platform": platform.platform,
    "CPU": _cpu,
    "Dependencies": lambda: ", ".join(map(_installed, _requirements().get("", ()))),
    "BLAS": _blas,
    "CUDA": _cuda,
    "NVIDIA driver": _driver,
    "Settings": _settings,
    "Extras": _extras,
}


def environment() -> dict[str, str]:
    """The facts by name. One that cannot be found says why: this must work on a machine where little does.

    Returns:
        A dict of text by text: versions, the processor, BLAS, CUDA, settings in the environment.

    Example:
        >>> "Python" in environment()
        True
    """
    facts = {}
    for name, find_out in _FACTS.items():
        try:
            facts[name] = find_out()
        except Exception as exc:
            facts[name] = f"unknown: {type(exc).__name__}: {exc}"
    return facts


def report() -> str:
    """The facts of `environment` as text, one or more lines each.

    Example:
        >>> report().startswith("gradlib: ")
        True
    """
    return "\n".join(
        f"{name}:\n{fact}" if fact.startswith("  ") else f"{name}: {fact}"
        for name, fact in environment().items()
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the report, or with ``--json`` the facts as a JSON object.

    Args:
        arguments: of the command line; those of the process if None.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gradlib.collect_env",
        description="Print what a bug report should say of the machine.",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args(arguments)
    print(json.dumps(environment(), indent=2) if options.json else report())


if __name__ == "__main__":
    main()
