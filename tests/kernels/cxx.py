"""Compiling C++ for tests, and CUDA C++ as C++: each content once, the objects kept between runs."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def compiler() -> str:
    """The C++ compiler: $CXX, g++, c++ or clang++."""
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise RuntimeError("no C++ compiler found: install g++ (or set CXX) to run kernels on the CPU")


@cache
def arithmetic(as_cupy: bool) -> tuple[str, ...]:
    """Flags: rounded after every operation, or as CuPy compiles: products fused with sums, float32 flushed to zero."""
    if not as_cupy:
        return ("-ffp-contract=off",)
    fused = platform.machine() == "x86_64" and " fma " in Path("/proc/cpuinfo").read_text()
    instruction = (
        ("-mfma", "-fexpensive-optimizations") if fused else ()
    )  # without the second g++ -O1 fuses nothing
    return ("-ffp-contract=fast", "-DCUDA_ON_CPU_FLUSH=1", *instruction)


def cache_folder(name: str) -> Path:
    """Where compiled objects are kept between runs."""
    folder = Path(tempfile.gettempdir()) / f"gradlib-{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def shared_object(
    target: str, texts: Sequence[str], flags: Sequence[str], include: Sequence[Path], headers: str
) -> Path:
    """The compiled translation units `texts`, as target (folder/name) with a digest of all that it is made from.

    include: folders of header files; headers: what identifies their contents, wherever they lie.
    """
    content = "\0".join((compiler(), *flags, headers, *texts))
    folder, name = target.split("/")
    digest = hashlib.sha256(content.encode()).hexdigest()[:32]
    path = cache_folder(folder) / f"{name}-{digest}.so"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as scratch:
        files, made = (
            [Path(scratch, f"{name}_{i}.cpp") for i in range(len(texts))],
            Path(scratch, "made.so"),
        )
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        command = [
            compiler(),
            *flags,
            *(f"-I{f}" for f in include),
            *map(str, files),
            "-o",
            str(made),
            "-ldl",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} does not compile:\n{done.stderr[:8000]}")
        moved = path.with_suffix(f".{os.getpid()}")
        shutil.copy(made, moved)
        moved.replace(path)  # other test processes see all of it or nothing
    return path


BOUNDED = re.compile(
    r'(?:template\s*<(?P<template>[^;{}()]*)>\s*)?(?:extern\s+"C"\s+)?__global__\s+void\s+'
    r"__launch_bounds__\((?P<bounds>[^)]*)\)\s*(?P<name>\w+)\s*\("
)
"""A kernel of a source that says how many threads its blocks have at most."""


def launchers(kernels: Sequence[str], source: str, doubles: bool = False) -> list[str]:
    """Lines of C++ to follow `source`: what some of its kernels are, for those who launch them (`cuda_on_cpu.h`).

    For kernel number i ``launch_<i>``, ``parameters_<i>`` and ``bound_<i>``, the most threads of its blocks.
    doubles: all of them compute in float64, not those alone whose names say so.
    """
    lines = [
        'extern "C" const char* cuda_on_cpu_refused(const unsigned* sizes, size_t shared, int bound) {',
        "  return cuda_on_cpu::refused(sizes, shared, bound);",
        "}",
        'extern "C" void cuda_on_cpu_leave_out(uint64_t blocks) { cuda_on_cpu::left_out = blocks; }',
    ]
    bounded = {match["name"]: match for match in BOUNDED.finditer(source)}
    for name, match in bounded.items():
        if any(kernel.partition("<")[0] == name for kernel in kernels):
            template = f"template <{match['template']}> " if match["template"] else ""
            value = f"cuda_on_cpu::first_of({match['bounds']})"
            lines.append(f"{template}constexpr int bound_of_{name} = {value};")
    for i, kernel in enumerate(kernels):
        flush = "false" if doubles or "double" in kernel else "true"
        bound = (
            f"bound_of_{kernel}" if kernel.partition("<")[0] in bounded else "cuda_on_cpu::kLimit"
        )
        lines += [
            f'extern "C" int bound_{i}() {{ return {bound}; }}',
            f'extern "C" const char* launch_{i}(const unsigned* sizes, size_t shared, unsigned seed, void** args) {{',
            f"  return cuda_on_cpu::launch({kernel}, sizes, shared, seed, args, bound_{i}(), {flush});",
            "}",
            f'extern "C" int parameters_{i}(cuda_on_cpu::Parameter* out) {{',
            f"  return cuda_on_cpu::parameters({kernel}, out);",
            "}",
        ]
    return lines
