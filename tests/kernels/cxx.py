"""Compiling C++ for tests, and CUDA C++ as C++: each content once, the objects kept between runs."""

from __future__ import annotations

import hashlib
import os
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


def launchers(kernels: Sequence[str]) -> list[str]:
    """Lines of C++: ``launch_<i>`` and ``parameters_<i>`` for each of some kernels (see `cuda_on_cpu.h`)."""
    lines = []
    for i, kernel in enumerate(kernels):
        lines += [
            f'extern "C" const char* launch_{i}(const unsigned* sizes, size_t shared, unsigned seed, void** args) {{',
            f"  return cuda_on_cpu::launch({kernel}, sizes, shared, seed, args);",
            "}",
            f'extern "C" int parameters_{i}(cuda_on_cpu::Parameter* out) {{',
            f"  return cuda_on_cpu::parameters({kernel}, out);",
            "}",
        ]
    return lines
