"""Real CuPy on a machine without a GPU: its kernels compiled by g++, its CUDA calls answered by `runtime.cpp`.

    from tests.cupy_on_cpu import machine
    machine.install()  # before the first import of cupy
    import cupy

CuPy's extension modules carry NVIDIA's runtime inside them. `install` writes a jump to our function over the beginning
of each of its functions, in memory; those that `runtime.cpp` does not have answer cudaErrorNotSupported. The driver,
cuBLAS and the other libraries are shared objects made here, loaded before CuPy looks for them. What CuPy would give to
NVRTC is given to g++, with `tests/kernels/cuda_on_cpu.h` in place of the language's own parts, in the arithmetic that
CuPy's options ask for; `sources.py` gives the same to NVRTC afterwards. The wheels for CUDA 12 and 13 both work.

So everything of CuPy runs as it does on a GPU, but for sorting by Thrust and transforms by cuFFT: NumPy does those on
the same memory (`libraries.py`); and for CUB's functions on whole arrays (`cub.cpp`).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import mmap
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.kernels.cxx import arithmetic, cache_folder, launchers, shared_object

HERE = Path(__file__).parent
KERNEL_HEADERS = HERE.parent / "kernels"
CUDART_MODULES = (
    "cupy_backends/cuda/api/runtime", "cupy/cuda/cub", "cupy/cuda/thrust", "cupy/random/_generator_api",
)  # fmt: skip
"""The extension modules that NVIDIA's runtime is linked into."""
USERS = {
    "cublas": "cupy_backends/cuda/libs/cublas",
    "cusolver": "cupy_backends/cuda/libs/cusolver",
    "cusparse": "cupy_backends/cuda/libs/cusparse",
    "curand": "cupy_backends/cuda/libs/curand",
    "cufft": "cupy/cuda/cufft",
}
"""NVIDIA's libraries and the extension modules that call them."""
EMPTY = {
    12: ("libnvJitLink.so.12", "libcufftw.so.11"),
    13: ("libnvJitLink.so.13", "libcufftw.so.12"),
}
"""Libraries that others depend on, of which nothing is called; by the version of CUDA."""
CACHE = "cupy-on-cpu"
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing", *arithmetic(True))
RECORD = "GRADLIB_RECORD_SOURCES"
"""A variable of the environment: the folder in which what CuPy compiles is left, for `nvrtc.py`."""


def package_folder(name: str) -> Path:
    """Where an installed package lies; it is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def site() -> Path:
    return package_folder("cupy").parent


@cache
def cuda_headers() -> Path:
    """The headers of the CUDA that CuPy was built for."""
    name = "cuda_runtime" if cuda_major() == 12 else f"cu{cuda_major()}"
    return package_folder(f"nvidia.{name}") / "include"


@cache
def cuda_version() -> tuple[int, int]:
    """The version that the headers are of, as NVRTC says it."""
    [found] = re.findall(r"#define CUDA_VERSION (\d+)", (cuda_headers() / "cuda.h").read_text())
    return int(found) // 1000, int(found) % 1000 // 10


@cache
def cuda_major() -> int:
    return int(soname("cublas").rpartition(".")[2])


def soname(library: str) -> str:
    """The file that an extension module of CuPy wants of a library of NVIDIA's."""
    done = subprocess.run(
        ["readelf", "-d", str(extension(USERS[library]))],
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(rf"\[(lib{library}\.so\.\d+)\]", done.stdout)[0]


@cache
def include_folders() -> tuple[Path, ...]:
    cupy, runtime = site() / "cupy" / "_core" / "include", cuda_headers()
    cccl = cupy / "cupy" / "_cccl"
    return (
        HERE / "include", HERE, KERNEL_HEADERS, cupy, cccl / "libcudacxx", cccl / "thrust", cccl / "cub", runtime,
    )  # fmt: skip


def extension(path: str) -> Path:
    """The file of an extension module of CuPy."""
    [found] = [p for p in (site() / path).parent.glob(f"{Path(path).name}.*.so")]
    return found


def compiled(name: str, *texts: str, flags: tuple[str, ...] = ()) -> Path:
    """The shared object of some C++ texts; compiled once for each content."""
    target = f"{CACHE}/{name}"
    return shared_object(target, texts, (*FLAGS, *flags), include_folders(), headers_digest())


@cache
def headers_digest() -> str:
    cupy = site() / "cupy" / "_version.py"  # for the headers of CuPy
    files = [
        KERNEL_HEADERS / "cuda_on_cpu.h",
        *sorted(HERE.rglob("*.*h")),
        cupy,
        cuda_headers() / "cuda.h",
    ]
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


def cache_key() -> str:
    """Part of the key of CuPy's cache: what makes an image, beside its source."""
    made_by = (Path(__file__), KERNEL_HEADERS / "cxx.py")
    return (
        hashlib.sha256(b"\0".join(f.read_bytes() for f in made_by)).hexdigest() + headers_digest()
    )


# -- libraries -------------------------------------------------------------------------------------------------------


def symbols(path: Path, *options: str) -> list[tuple[int, str, str]]:
    """(address, type, name) of the symbols of a shared object, by nm."""
    done = subprocess.run(["nm", *options, str(path)], capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        *address, kind, name = line.split()
        found.append((int(address[0], 16) if address else 0, kind, name.partition("@")[0]))
    return found


def stub_text(prefix: str, user: str) -> str:
    """Functions that answer "not supported", but for handles; weak, so that others may be put in their place."""
    lines = ['extern "C" int cuda_on_cpu_missing(const char*);']
    for _, kind, name in symbols(extension(user), "-D"):
        if kind != "U" or not name.startswith(prefix):
            continue
        if re.search(r"(Create|Destroy|SetStream)$", name):
            body = "{ return 0; }"
        else:
            body = f'{{ cuda_on_cpu_missing("{name}"); return 7; }}'
        lines.append(f'extern "C" __attribute__((weak)) int {name}() {body}')
    return "\n".join(lines)


def load(soname: str, *texts: str, needs: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile a library and load it under the name by which others ask for it; `needs` are files it depends on."""
    flags = (f"-Wl,-soname,{soname}", *(("-Wl,--no-as-needed", *needs) if needs else ()))
    path = compiled(soname.partition(".")[0], *texts, flags=flags)
    return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


# -- jumps -----------------------------------------------------------------------------------------------------------


def base_address(path: Path) -> int:
    """Where a loaded shared object begins in memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[5] == str(path.resolve()) and int(fields[2], 16) == 0:
            return int(fields[0].partition("-")[0], 16)
    raise RuntimeError(f"{path} is not loaded")


def write_code(address: int, code: bytes) -> None:
    """Overwrite machine code of this process."""
    page = mmap.PAGESIZE
    start, end = address // page * page, -(-(address + len(code)) // page) * page
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(start, end - start, 7):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.memmove(address, code, len(code))


def jump(target: int) -> bytes:
    """x86-64: jmp [rip+0], followed by the address."""
    return b"\xff\x25\0\0\0\0" + target.to_bytes(8, "little")


def redirect(module: Path, runtime: ctypes.CDLL, thunks: Any) -> None:
    """Send the functions of the runtime inside an extension module to ours."""
    ctypes.CDLL(str(module))
    base = base_address(module)
    for address, kind, name in symbols(module):
        if kind not in "tT" or not re.fullmatch(r"cuda[A-Z]\w+", name):
            continue
        plain = re.sub(r"_v\d+$", "", name)
        try:
            target = ctypes.cast(getattr(runtime, f"my_{plain}"), ctypes.c_void_p).value
        except AttributeError:
            target = thunks(name)
        assert target is not None
        write_code(base + address, jump(target))


def redirect_cub(module: Path, library: ctypes.CDLL) -> None:
    """Send the functions of CuPy's own that call CUB to ours; in C++ a name comes with its length and its arguments."""
    base = base_address(module)
    for address, kind, name in symbols(module):
        found = re.match(r"_Z(\d+)(cub_device_\w+)", name) if kind == "T" else None
        if found:
            function = getattr(library, f"my_{found[2][: int(found[1])]}")
            write_code(base + address, jump(ctypes.cast(function, ctypes.c_void_p).value or 0))


class Thunks:
    """Pieces of code that call `cuda_on_cpu_missing(name)`, one for each name."""

    def __init__(self, runtime: ctypes.CDLL):
        self.handler = ctypes.cast(runtime.cuda_on_cpu_missing, ctypes.c_void_p).value or 0
        self.memory = mmap.mmap(-1, 1 << 18, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.names: dict[str, tuple] = {}
        self.used = 0

    def __call__(self, name: str) -> int:
        if name not in self.names:
            text = ctypes.create_string_buffer(name.encode())
            code = (
                b"\x48\xbf" + ctypes.addressof(text).to_bytes(8, "little")  # mov rdi, text
                + b"\x48\xb8" + self.handler.to_bytes(8, "little")  # mov rax, handler
                + b"\xff\xe0"  # jmp rax
            )  # fmt: skip
            self.memory[self.used : self.used + len(code)] = code
            self.names[name] = self.address + self.used, text
            self.used += 32
        return self.names[name][0]


# -- compilation -----------------------------------------------------------------------------------------------------


def kernel_names(source: str) -> list[str]:
    """The kernels of a translation unit that are not templates."""
    return re.findall(
        r'extern "C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(', source
    )


def kernel_text(source: str, kernels: list[str], macros: tuple[str, ...] = ()) -> str:
    """CUDA C++ as C++, with the functions that `runtime.cpp` looks for."""
    header = "cupy_on_cpu.h" if "cupy/" in source else "cuda_on_cpu.h"
    source = re.sub(
        r"extern\s+__shared__\s+([\w:<> ]+?)\s+(\w+)\[\];",
        r"\1* \2 = reinterpret_cast<\1*>(cuda_on_cpu::dynamic_shared);",
        source,
    )
    lines = [f"#define {m.replace('=', ' ')}" for m in macros] + [f'#include "{header}"', source]
    tests = "".join(f'  if (!strcmp(name, "{k}")) return {i};\n' for i, k in enumerate(kernels))
    return "\n".join(
        [
            *lines,
            *launchers(kernels, source, doubles="double" in source and "<" not in "".join(kernels)),
            f'extern "C" int cuda_on_cpu_number(const char* name) {{\n{tests}  return -1;\n}}',
        ]
    )


def compile_kernels(source: str, options=(), name_expressions=None) -> bytes:
    """An image, as `cuModuleLoadData` takes it: here the path of a shared object."""
    names = list(name_expressions or kernel_names(source))
    macros = tuple(o[2:].strip() for o in options if o.startswith("-D"))
    return str(compiled("kernels", kernel_text(source, names, macros))).encode() + b"\0"


def record(folder: Path, source: str, options: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Leave what is given to the compiler, once for each content."""
    text = json.dumps({"source": source, "options": options, "names": names})
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    if not path.exists():
        own = path.with_suffix(f".{os.getpid()}")
        own.write_text(text)
        own.replace(path)


class Program:
    """What stands for CuPy's `_NVRTCProgram`, so that CuPy itself chooses the options."""

    def __init__(
        self, src, name="", headers=(), include_names=(), name_expressions=None, method="cubin"
    ):
        self.source, self.names = src, tuple(name_expressions or ())

    def compile(self, options=(), log_stream=None) -> tuple[bytes, dict[str, str] | None]:
        """(image, names of templates)"""
        if folder := os.environ.get(RECORD):
            record(Path(folder), self.source, tuple(options), self.names)
        image = compile_kernels(self.source, options, self.names)
        return image, {n: n for n in self.names} or None


@cache
def cub() -> ctypes.CDLL:
    """What stands for the parts of CUB that are compiled for GPUs only."""
    return load("libcuda_on_cpu_cub.so", (HERE / "cub.cpp").read_text())


@cache
def install() -> ctypes.CDLL:
    """Make CuPy importable and usable on this machine. Returns the runtime."""
    os.environ.setdefault("CUPY_CACHE_DIR", str(cache_folder(CACHE) / "cupy"))
    if RECORD in os.environ:
        os.environ["CUPY_CACHE_IN_MEMORY"] = (
            "1"  # nothing is left out for having been compiled before
        )
    os.environ.setdefault(
        "NVCC", "nvcc"
    )  # CuPy reduces by blocks of CUB where there is one; it is not called
    runtime = load("libcuda.so.1", (HERE / "runtime.cpp").read_text())
    for name in EMPTY[cuda_major()]:
        load(name, f"// {name}")
    lt = load(f"libcublasLt.so.{cuda_major()}", (HERE / "cublaslt.cpp").read_text())
    libraries_loaded = {}
    for name, user in USERS.items():
        ours = HERE / f"{name}.cpp"
        texts = [stub_text(name, user), *([ours.read_text()] if ours.exists() else [])]
        # so that its functions are found in cuBLAS, too
        needs = (lt._name,) if name == "cublas" else ()
        libraries_loaded[name] = load(soname(name), *texts, needs=needs)
    [lapack] = (package_folder("numpy").parent / "numpy.libs").glob("libscipy_openblas64_*")
    libraries_loaded["cusolver"].cuda_on_cpu_lapack(str(lapack).encode())
    load("libnccl.so.2", (HERE / "nccl.cpp").read_text())
    load("libcudnn.so.9", (HERE / "cudnn.cpp").read_text())
    thunks = Thunks(runtime)
    for path in CUDART_MODULES:
        redirect(extension(path), runtime, thunks)
    redirect_cub(extension("cupy/cuda/cub"), cub())
    _keep_alive.extend((runtime, thunks))

    from cupy.cuda import compiler

    compiler._NVRTCProgram = Program
    compiler._preprocess = lambda *args: cache_key()
    compiler._get_nvrtc_version = cuda_version
    from . import libraries

    libraries.install()
    return runtime


_keep_alive: list = []
