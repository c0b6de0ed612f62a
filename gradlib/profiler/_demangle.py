"""C++ names as a compiler mangled them, made readable."""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any

_NESTED = re.compile(r"_ZN[KVr]*(\d.*)E")


def demangle(name: str) -> str:
    """The readable form of a mangled C++ name; any other name as it is.

    Uses the C++ runtime library (Itanium C++ ABI, ``__cxa_demangle``). Where there is none, only names nested in
    namespaces are understood.

    Example:
        >>> demangle("_ZN2at4mul_E")
        'at::mul_'
    """
    if not name.startswith("_Z"):
        return name
    library = _runtime()
    return _nested(name) if library is None else _by_runtime(library, name)


@functools.cache
def _runtime() -> Any:
    for path in ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib"):
        try:
            library = ctypes.CDLL(path)
            library.__cxa_demangle.restype = ctypes.c_void_p
            return library
        except (OSError, AttributeError):
            continue
    return None


def _by_runtime(library: Any, name: str) -> str:
    status = ctypes.c_int()
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(text)


def _nested(name: str) -> str:
    """``_ZN<length><name>...E``, a name in namespaces without templates."""
    match = _NESTED.fullmatch(name)
    rest, parts = match[1] if match else "", []
    while rest:
        length = re.match(r"\d+", rest)
        if length is None:
            return name
        start = length.end()
        parts.append(rest[start : start + int(length[0])])
        rest = rest[start + int(length[0]) :]
    return "::".join(parts) or name
