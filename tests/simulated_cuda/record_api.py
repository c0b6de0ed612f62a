"""Write api.txt: the public names of CuPy, the parameters of its functions and the types of its ufuncs.

    python tests/simulated_cuda/record_api.py

needs an importable CuPy, but no GPU. Run it when the simulated device is to follow a newer CuPy.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

MODULES = ("", "linalg", "fft")


def parameters(fn) -> str:
    """``a axis= *args **kw``: one word for each parameter, ``=`` where there is a default; ``?`` if unknown."""
    try:
        given = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return "?"
    words, keyword_only, positional_only = [], False, False
    for p in given:
        if positional_only and p.kind is not p.POSITIONAL_ONLY:
            words.append("/")
        positional_only = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.VAR_POSITIONAL:
            keyword_only = True
            words.append("*" + p.name)
            continue
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            words.append("*")
        stars = "**" if p.kind is p.VAR_KEYWORD else ""
        words.append(stars + p.name + ("" if p.default is p.empty else "="))
    return " ".join(words + ["/"] * positional_only)


def describe(module: ModuleType, prefix: str):
    import cupy

    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        if isinstance(value, cupy.ufunc):
            yield f"ufunc {prefix}{name} {value.name} {' '.join(value.types)}"
        elif isinstance(value, type) or not callable(value):
            yield f"value {prefix}{name}"
        else:
            yield f"function {prefix}{name} {parameters(value)}"


def main() -> None:
    import cupy

    lines = [f"version {cupy.__version__}"]
    for name in MODULES:
        lines += describe(getattr(cupy, name) if name else cupy, name and name + ".")
    lines += [f"method {n}" for n in dir(cupy.ndarray) if n[:2] != "__" and n[0] != "_"]
    lines += [f"runtime {n}" for n in dir(cupy.cuda.runtime) if not n.startswith("_")]
    Path(__file__).with_name("api.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
