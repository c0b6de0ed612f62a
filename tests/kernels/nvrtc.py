"""NVRTC without CuPy and without a GPU: does a translation unit compile for an architecture, and what does it need?"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import re
import struct
import sysconfig
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.kernels.cxx import cache_folder

CUPY = (
    "-ftz=true",
    "--device-as-default-execution-space",
)  # what CuPy adds to the options of a RawModule
SIZED, MAX_THREADS = 4, 5  # a format and an attribute of .nv.info


class Needs(NamedTuple):
    """What a compiled kernel takes of a multiprocessor."""

    registers: int  # of a thread
    shared: int  # bytes of static shared memory of a block
    spilled: int  # bytes of registers and arrays of a thread that went to memory


class Compiled(NamedTuple):
    """A translation unit in machine code."""

    binary: bytes  # an ELF file
    names: dict[str, str]  # what the kernels that were asked for are called in it
    log: str  # of the compiler, with what ptxas says of each kernel


@cache
def installed(pattern: str, package: str) -> Path:
    """A file of NVIDIA's packages, by its place below their folder; RuntimeError that says how to get it."""
    for scheme in ("platlib", "purelib"):
        for found in sorted(Path(sysconfig.get_paths()[scheme], "nvidia").glob(pattern)):
            return found
    raise RuntimeError(
        f"{pattern.rpartition('/')[2]} was not found: pip install {package} (pip install 'gradlib[test]' brings it)"
    )


@cache
def library(major: int = 12) -> ctypes.CDLL:
    """libnvrtc of CUDA 12 or 13; RuntimeError that says how to get it."""
    package = "nvidia-cuda-nvrtc-cu12" if major == 12 else f"nvidia-cuda-nvrtc=={major}.*"
    return ctypes.CDLL(str(installed(f"*/lib/libnvrtc.so.{major}", package)))


@cache
def version(major: int = 12) -> tuple[int, int]:
    """The version of CUDA that a libnvrtc belongs to."""
    numbers = ctypes.c_int(), ctypes.c_int()
    _check(library(major), library(major).nvrtcVersion(*map(ctypes.byref, numbers)), "version")
    return numbers[0].value, numbers[1].value


def _check(nvrtc: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{what}: {nvrtc.nvrtcGetErrorString(status).decode()}")


def _bytes(nvrtc, program, what: str) -> bytes:
    n = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(n)), "size")
    text = ctypes.create_string_buffer(n.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, text), "content")
    return text.raw


def translate(
    code: str, options: tuple[str, ...], kernels: tuple[str, ...] = (), major: int = 12
) -> Compiled:
    """Machine code of a translation unit, by the options as they are. Each content is compiled once and kept.

    kernels: instances of templates, as name expressions; others come by themselves. RuntimeError with what the
    compiler says.
    """
    key = json.dumps((version(major), options, kernels, code))
    kept = cache_folder("nvrtc") / hashlib.sha256(key.encode()).hexdigest()[:32]
    if kept.exists():
        head, _, binary = kept.read_bytes().partition(b"\n")
        return Compiled(binary, **json.loads(head))
    made = _translate(library(major), code, options, kernels)
    head = json.dumps({"names": made.names, "log": made.log}).encode()
    own = kept.with_suffix(f".{os.getpid()}")
    own.write_bytes(head + b"\n" + made.binary)
    own.replace(kept)  # other test processes see all of it or nothing
    return made


def _translate(
    nvrtc, code: str, options: tuple[str, ...], kernels: tuple[str, ...], content: str = "CUBIN"
) -> Compiled:
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), code.encode(), b"kernels.cu", 0, None, None
    )
    _check(nvrtc, created, "create")
    try:
        for kernel in kernels:
            _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, kernel.encode()), kernel)
        flags = [option.encode() for option in options]
        status = nvrtc.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*flags)
        )
        log = _bytes(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
        if status:
            raise RuntimeError(f"{' '.join(options)}:\n{log[:8000]}")
        lowered = {}
        for kernel in kernels:
            name = ctypes.c_char_p()
            found = nvrtc.nvrtcGetLoweredName(program, kernel.encode(), ctypes.byref(name))
            _check(nvrtc, found, kernel)
            assert name.value
            lowered[kernel] = name.value.decode()
        binary = _bytes(nvrtc, program, content)
        assert content != "CUBIN" or binary[:4] == b"\x7fELF"
        assert all(name.encode() in binary for name in lowered.values())
        return Compiled(binary, lowered, log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def compile_module(
    architecture: str, code: str, kernels: tuple[str, ...], options: tuple[str, ...] = ()
) -> Compiled:
    """Compile to machine code as CuPy does. RuntimeError with the compiler's errors and warnings."""
    given = (f"--gpu-architecture={architecture}", *options, *CUPY, "--ptxas-options=-v")
    made = translate(code, given, kernels)
    if "warning" in made.log:
        raise RuntimeError(f"{architecture}:\n{made.log[:8000]}")
    return made


def compile_for(
    architecture: str, code: str, kernels: tuple[str, ...], options: tuple[str, ...] = ()
) -> dict[str, Needs]:
    """What each kernel needs; see `compile_module`."""
    made = compile_module(architecture, code, kernels, options)
    needs = needs_of(made.log)
    return {kernel: needs[name] for kernel, name in made.names.items()}


def ptx_of(architecture: str, code: str, kernel: str, options: tuple[str, ...] = ()) -> str:
    """The intermediate code of a kernel for a virtual architecture ("compute_90"); errors as of `translate`."""
    given = (f"--gpu-architecture={architecture}", *options, *CUPY)
    return _translate(library(), code, given, (kernel,), "PTX").binary.rstrip(b"\0").decode()


def bounds_of(binary: bytes) -> dict[str, int]:
    """The threads of a block that kernels were compiled for (__launch_bounds__), by lowered names; others have none.

    The ELF file has a section ``.nv.info.KERNEL`` for each kernel: attributes of a format, a number and a size.
    """
    table, size, count, of_names = (
        struct.unpack_from(form, binary, at)[0]
        for form, at in (("<Q", 0x28), ("<H", 0x3A), ("<H", 0x3C), ("<H", 0x3E))
    )
    sections = [
        struct.unpack_from("<I", binary, at) + struct.unpack_from("<QQ", binary, at + 24)
        for at in range(table, table + size * count, size)
    ]
    names = sections[of_names][1]
    found = {}
    for name_at, start, length in sections:
        name = binary[names + name_at : binary.index(b"\0", names + name_at)].decode()
        if not name.startswith(".nv.info."):
            continue
        at = start
        while at < start + length:
            form, attribute, more = struct.unpack_from("<BBH", binary, at)
            at += 4
            if form == SIZED:
                if attribute == MAX_THREADS:
                    found[name.removeprefix(".nv.info.")] = math.prod(
                        struct.unpack_from("<3I", binary, at)
                    )
                at += more
    return found


def needs_of(log: str) -> dict[str, Needs]:
    """What ptxas reports, by lowered names."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        stack = re.search(r"(\d+) bytes stack frame", part)
        registers = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        assert stack and registers, part
        name = part.partition("'")[0]
        found[name] = Needs(int(registers[1]), int(shared[1]) if shared else 0, int(stack[1]))
    return found
