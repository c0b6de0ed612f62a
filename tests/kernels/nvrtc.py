"""NVRTC without CuPy and without a GPU: does a translation unit compile for an architecture, and what does it need?"""

from __future__ import annotations

import ctypes
import re
import sysconfig
from functools import cache
from pathlib import Path
from typing import NamedTuple

CUPY = (
    "-ftz=true",
    "--device-as-default-execution-space",
)  # what CuPy adds to the options of a RawModule


class Needs(NamedTuple):
    """What a compiled kernel takes of a multiprocessor."""

    registers: int  # of a thread
    shared: int  # bytes of static shared memory of a block
    spilled: int  # bytes of registers and arrays of a thread that went to memory


@cache
def library() -> ctypes.CDLL:
    """libnvrtc of the package nvidia-cuda-nvrtc-cu12; RuntimeError that says how to get it."""
    for scheme in ("platlib", "purelib"):
        folder = Path(sysconfig.get_paths()[scheme], "nvidia")
        for found in sorted(folder.glob("*/lib/libnvrtc.so.*")):
            if ".alt" not in found.name:
                return ctypes.CDLL(str(found))
    raise RuntimeError(
        "libnvrtc was not found: pip install 'gradlib[test]' brings nvidia-cuda-nvrtc-cu12"
    )


def _check(status: int, what: str) -> None:
    if status:
        nvrtc = library()
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{what}: {nvrtc.nvrtcGetErrorString(status).decode()}")


def _bytes(program, size_of, content_of) -> bytes:
    n = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(n)), "size")
    text = ctypes.create_string_buffer(n.value)
    _check(content_of(program, text), "content")
    return text.raw


def compile_for(
    architecture: str, code: str, kernels: tuple[str, ...], options: tuple[str, ...] = ()
) -> dict[str, Needs]:
    """Compile to machine code as CuPy does; what each kernel needs.

    RuntimeError with the compiler's errors and warnings.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), code.encode(), b"kernels.cu", 0, None, None
    )
    _check(created, "create")
    try:
        for kernel in kernels:
            _check(nvrtc.nvrtcAddNameExpression(program, kernel.encode()), kernel)
        given = (f"--gpu-architecture={architecture}", *options, *CUPY, "--ptxas-options=-v")
        flags = [option.encode() for option in given]
        status = nvrtc.nvrtcCompileProgram(
            program, len(flags), (ctypes.c_char_p * len(flags))(*flags)
        )
        log = _bytes(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode()
        if status or "warning" in log:
            raise RuntimeError(f"{architecture}:\n{log[:8000]}")
        lowered = {}
        for kernel in kernels:
            name = ctypes.c_char_p()
            _check(nvrtc.nvrtcGetLoweredName(program, kernel.encode(), ctypes.byref(name)), kernel)
            assert name.value
            lowered[kernel] = name.value.decode()
        binary = _bytes(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        assert binary[:4] == b"\x7fELF"
        assert all(name.encode() in binary for name in lowered.values())
        needs = _needs(log)
        return {kernel: needs[name] for kernel, name in lowered.items()}
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _needs(log: str) -> dict[str, Needs]:
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
