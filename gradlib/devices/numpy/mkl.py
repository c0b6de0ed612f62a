"""Intel's oneMKL beside NumPy (the extra `mkl`): exponentials, logarithms... of large arrays.

One library, ``libmkl_rt``, is looked for when a function that it has is first asked for, and loaded by the first call
with a large array. It computes where it is the quicker one: each function is timed beside NumPy's, once for each
machine, and the outcome is kept in the user's cache. Without a library that can be loaded nothing changes.

- Accuracy: mode HA, errors below 1 unit in the last place; small numbers are kept, special values are NumPy's.
- Threads: MKL is told to compute in the thread that calls it, so it adds none to those of NumPy's OpenBLAS, which
  `set_num_threads` counts. An MKL that the process had loaded before is left as it is.
- After ``use_deterministic_algorithms(True)`` NumPy computes everything that it can: a choice by time is another one on
  another machine.

``GRADLIB_MKL=0`` in the environment switches it off; a path there names the library.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...tape import dtypes
from ...tape.switches import switches

F4, F8 = dtypes.float32.np, dtypes.float64.np
SMALL = 1 << 14  # elements up to which NumPy computes: a call by ctypes costs about 2 us
MOST = (1 << 31) - 1  # elements of one call
# MKL is taken where it needs at most this part of NumPy's time, and at most that of it for extreme arguments
GAIN, LOSS = 0.9, 1.5
# VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, given to every call: what is set otherwise holds for one thread
MODE = 0x2 | 0x140000 | 0x100
SEQUENTIAL, LP64 = (
    1,
    0,
)  # MKL_THREADING_SEQUENTIAL, MKL_INTERFACE_LP64: ours are called by 64-bit names anyway

# NumPy's name of a function and MKL's; what else NumPy has, such as sqrt, it computes as fast
FUNCTIONS = {
    "exp": "Exp", "exp2": "Exp2", "expm1": "Expm1", "log": "Ln", "log2": "Log2", "log10": "Log10", "log1p": "Log1p",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "arcsin": "Asin",
    "arccos": "Acos", "arctan": "Atan", "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "cbrt": "Cbrt",
}  # fmt: skip
_FILES = {
    "win32": ("mkl_rt.3.dll", "mkl_rt.2.dll"),
    "darwin": ("libmkl_rt.3.dylib", "libmkl_rt.2.dylib", "libmkl_rt.dylib"),
}
_NEEDED = (
    "vmsExp_64", "vmdExp_64", "MKL_Get_Version_String", "MKL_Set_Threading_Layer", "MKL_Set_Interface_Layer",
)  # fmt: skip
_LOCK = threading.RLock()
_chosen: dict[tuple[str, np.dtype], Any] = {}


# -- finding and loading -----------------------------------------------------------------------------------------------


@cache
def path() -> str | None:
    """The file of the library, or None: from the environment, the wheel, or where Intel's installers put it."""
    wanted = os.environ.get("GRADLIB_MKL", "")
    if wanted == "0" or platform.machine() not in ("x86_64", "AMD64"):
        return None
    if os.sep in wanted:
        return wanted
    names = _FILES.get(sys.platform, ("libmkl_rt.so.3", "libmkl_rt.so.2"))
    root = os.environ.get("MKLROOT", "/opt/intel/oneapi/mkl/latest")
    folders = [
        os.path.join(sys.prefix, "Library", "bin") if os.name == "nt" else f"{sys.prefix}/lib",
        os.path.join(root, "lib"),
        os.path.join(root, "lib", "intel64"),
        os.path.join(root, "bin"),
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
    ]
    for folder in folders:
        for name in names:
            if folder and os.path.exists(file := os.path.join(folder, name)):
                return file
    return None


@cache
def library() -> Any:
    """The library, loaded and set up; None if there is none, or it cannot be loaded."""
    file = path()
    if file is None:
        return None
    with _LOCK:
        already = _is_loaded(file)
        try:
            found = ctypes.CDLL(file)
        except OSError:
            return None
        if not all([hasattr(found, name) for name in _NEEDED]):
            return None  # before 2023, or something else
        if not already:  # otherwise it is another package's, which has set it up as that needs it
            found.MKL_Set_Threading_Layer(SEQUENTIAL)
            found.MKL_Set_Interface_Layer(LP64)
        return found


def _is_loaded(file: str) -> bool:
    if not hasattr(os, "RTLD_NOLOAD"):
        return False
    try:
        ctypes.CDLL(file, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


@cache
def version() -> str:
    """What the library calls itself, such as "2026.2"; the library is loaded."""
    buffer = ctypes.create_string_buffer(200)
    library().MKL_Get_Version_String(buffer, ctypes.c_int(len(buffer)))
    words = buffer.value.decode("ascii", "replace").split()
    after = words.index("Version") + 1 if "Version" in words else len(words)
    return words[after].removesuffix("-Product") if after < len(words) else "unknown"


@cache
def bare(name: str, dtype: np.dtype) -> Callable | None:
    """MKL's function ``(n, argument, result, mode)`` for addresses of dense float32 or float64 numbers, or None."""
    letter = "s" if dtype is F4 else "d"
    found = getattr(library(), f"vm{letter}{name}_64", None)
    if found is not None:
        found.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        found.restype = None
    return found


# -- the table: where MKL is the quicker one ---------------------------------------------------------------------------


def chosen(name: str, dtype: np.dtype) -> Callable | None:
    """MKL's function in the place of NumPy's `name` for arrays of `dtype`, or None where NumPy's serves better."""
    try:
        return _chosen[name, dtype]
    except KeyError:
        pass
    function = bare(FUNCTIONS[name], dtype)
    if function is None:
        return None
    return _decide(name, dtype, function, lambda: _compare(name, dtype, function))


def pays(name: str, dtype: np.dtype, kernel: Callable, formula: Callable, sample: Callable) -> bool:
    """Whether the kernel `name` by MKL is to be used for `dtype`; both are timed on what `sample()` gives."""
    try:
        return _chosen[name, dtype] is not None
    except KeyError:
        pass

    def compare() -> bool:
        arrays = sample()
        return _time_over(lambda: kernel(*arrays), lambda: formula(*arrays)) <= GAIN

    return _decide(name, dtype, kernel, compare) is not None


def _decide(name: str, dtype: np.dtype, function: Callable, compare: Callable[[], bool]) -> Any:
    """`function`, or None if it does not win; in one process that is decided once: results do not change."""
    with _LOCK:
        if (name, dtype) not in _chosen:
            _chosen[name, dtype] = function if _wins(name, dtype, compare) else None
        return _chosen[name, dtype]


def _wins(name: str, dtype: np.dtype, compare: Callable[[], bool]) -> bool:
    """What the table says; what it lacks is found by `compare` and kept."""
    file, key = _table_file(), _key()
    entry = f"{name} {dtype.name}"
    kept = _read(file).get(key)
    known = kept.get(entry) if isinstance(kept, dict) else None
    if isinstance(known, bool):
        return known
    found = compare()
    table = _read(file)  # again: another process may have written meanwhile
    mine = table.get(key)
    table[key] = {**(mine if isinstance(mine, dict) else {}), entry: found}
    _write(file, table)
    return found


def _compare(name: str, dtype: np.dtype, function: Callable) -> bool:
    """Whether MKL's function is quicker on this machine, and not much slower where arguments are extreme; some ms."""
    x = np.linspace(0.1, 0.9, SMALL, dtype=dtype)
    if name == "arccosh":
        x += 1
    extreme = (
        x.copy()
    )  # as in masked softmax, or logarithms of what is not positive: MKL computes them one by one
    extreme[1::2] = np.resize([-np.inf, -1000.0, -95.0, 0.0, -1.0, 1e5, np.nan], SMALL // 2)
    ufunc = getattr(np, name)
    return _ratio(function, ufunc, x) <= GAIN and _ratio(function, ufunc, extreme) <= LOSS


def _ratio(function: Callable, ufunc: Any, x: Any) -> float:
    """MKL's time over NumPy's."""
    out = np.empty_like(x)
    return _time_over(lambda: run(function, x, out), lambda: ufunc(x, out))


def _time_over(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """The time of one over that of the other, the best of some rounds each."""
    best = [float("inf")] * 2
    with np.errstate(all="ignore"):
        for _ in range(6):
            start = time.perf_counter()
            ours()
            middle = time.perf_counter()
            theirs()
            best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
    return best[0] / best[1]


def _table_file() -> str:
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return os.path.join(
        base or os.path.join(os.path.expanduser("~"), ".cache"), "gradlib", "mkl.json"
    )


@cache
def _key() -> str:
    """What the outcome depends on."""
    return f"MKL {version()}, NumPy {np.__version__}, {_processor()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = dict(
                [part.strip() for part in line.split(":", 1)] for line in file if ":" in line
            )
        return " ".join([lines.get(k, "") for k in ("model name", "cpu family", "model")])
    except OSError:
        return platform.processor()


def _read(file: str) -> dict:
    import json  # not needed before: `import gradlib` is quicker without

    try:
        with open(file) as text:
            found = json.load(text)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(file: str, table: dict) -> None:
    """Keep the table; where that cannot be, the next process measures again."""
    import json

    part = f"{file}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(part, "w") as text:
            json.dump(table, text, indent=1)
        os.replace(part, file)
    except OSError:
        pass


# -- calls -------------------------------------------------------------------------------------------------------------


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def fits(x: Any) -> bool:
    """Whether MKL is for this array: many float32 or float64 numbers, and the choice may be one by time."""
    return (
        SMALL < x.size <= MOST and (x.dtype is F4 or x.dtype is F8) and not switches.deterministic
    )


def dense(x: Any) -> Any:
    """`x`, or a copy of it without gaps in the same order of strides."""
    flags = x.flags
    return x if (flags.c_contiguous or flags.f_contiguous) and flags.aligned else x.copy(order="K")


def run(function: Callable, x: Any, out: Any) -> Any:
    """MKL's `function` of `x`, which is dense, in `out`: laid out alike, apart from `x` or the same."""
    function(x.size, address(x), address(out), MODE)
    return out


def quicker(name: str, ufunc: Any) -> Any:
    """NumPy's `ufunc` itself where MKL is not found, or lacks it; else a function that leaves large arrays to MKL."""
    if name not in FUNCTIONS or path() is None:
        return ufunc

    def call(x, out=None, casting="same_kind", **kwargs):
        try:
            large = x.size > SMALL
        except AttributeError:  # a number
            large = False
        if large and not kwargs and casting == "same_kind" and fits(x):
            function = chosen(name, x.dtype)
            if function is not None:
                if out is None:
                    x = dense(x)
                    return run(function, x, np.empty_like(x))
                if _can_take(out, x):
                    return run(function, x, out)
        return ufunc(x, out, casting=casting, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _can_take(out: Any, x: Any) -> bool:
    """Whether MKL may write its results for `x` into `out`."""
    flags = x.flags
    if not ((flags.c_contiguous or flags.f_contiguous) and flags.aligned):
        return False
    if not out.flags.writeable or not out.flags.aligned:
        return False
    if out is x:
        return True
    if out.dtype is not x.dtype or out.shape != x.shape or out.strides != x.strides:
        return False
    return not 0 < abs(address(out) - address(x)) < x.nbytes


def report() -> str:
    """What MKL computes, in one line, as far as that has been decided; "" where there is none."""
    if library() is None:
        return ""
    used = sorted(f"{name} {dtype.name}" for (name, dtype), f in _chosen.items() if f is not None)
    return f"oneMKL {version()} ({path()}): " + (", ".join(used) or "no function timed yet")
