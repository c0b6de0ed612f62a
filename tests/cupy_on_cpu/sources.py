"""Compile with NVRTC what CuPy handed to the compiler: ``python -m tests.cupy_on_cpu.sources FOLDER``.

On the CPU g++ compiles CuPy's kernels and ours, with stand-ins for parts of the language and of NVIDIA's headers. A run
with GRADLIB_RECORD_SOURCES=FOLDER leaves every source there, with its options and names; here the compiler of a real
device translates each of them to machine code, with the options that CuPy gave. Needs no GPU. The compiler, and the
headers of CuPy and CUDA, are those of the environment that this runs in: it may have CuPy for another CUDA than the one
that the sources were left by.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from tests.kernels import nvrtc

from . import machine


class Recorded(NamedTuple):
    """What CuPy gave to its compiler."""

    source: str
    options: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        """What to call it in a message."""
        found = (
            self.names
            or re.findall(r"(?s)__global__\s+void\s+(\w+)", self.source)
            or ("no kernel",)
        )
        return found[0]


def recorded(folder: Path) -> list[Recorded]:
    """The sources in a folder; RuntimeError if there are none."""
    found = []
    for path in sorted(folder.glob("*.json")):
        text = json.loads(path.read_text())
        found.append(Recorded(text["source"], tuple(text["options"]), tuple(text["names"])))
    if not found:
        raise RuntimeError(
            f"{folder} has no sources: run tests with {machine.RECORD}={folder} first"
        )
    return found


def here(option: str) -> str:
    """An option with the folder of headers, if it names one, that this environment has in its place."""
    if re.fullmatch(r"-I.*/site-packages/nvidia/\w+/include", option):
        return f"-I{machine.cuda_headers()}"
    return re.sub(r"^-I.*/site-packages/cupy/", f"-I{machine.site()}/cupy/", option)


def error_of(one: Recorded) -> str:
    """What is wrong with a source, or nothing."""
    options = tuple(map(here, one.options))
    try:
        nvrtc.translate(one.source, options, one.names, machine.cuda_major())
    except RuntimeError as exc:
        return f"{one.title}: {exc}"
    return ""


def main(folder: Path) -> int:
    """Compile everything, in a process for each processor; 1 if something does not compile."""
    sources = recorded(folder)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        errors = [e for e in pool.imap_unordered(error_of, sources, chunksize=8) if e]
    using = {
        what: sum(what in s.source for s in sources) for what in ("bfloat16", "cub::BlockReduce")
    }
    counts = ", ".join(f"{count} with {what}" for what, count in using.items())
    version = "{}.{}".format(*nvrtc.version(machine.cuda_major()))
    print(f"NVRTC {version}: {len(sources)} sources ({counts}), {len(errors)} do not compile")
    print("\n".join(errors[:20]))
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {__doc__}")
    sys.exit(main(Path(sys.argv[1])))
