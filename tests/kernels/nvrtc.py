"""NVRTC without CuPy and without a GPU: does a translation unit compile for an architecture?"""

from __future__ import annotations

import ctypes
import sysconfig
from functools import cache
from pathlib import Path


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
) -> dict[str, str]:
    """Compile to machine code; the lowered name of each kernel.

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
        flags = [f"--gpu-architecture={architecture}".encode(), *(o.encode() for o in options)]
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
        return lowered
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
