"""Write api.txt: the public names of CuPy, the parameters of its functions and the types of its ufuncs.

    python -m tests.simulated_cuda.record_api

needs an importable CuPy, but no GPU. Run it when the simulated device is to follow a newer CuPy.
"""

from __future__ import annotations

import gc
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


REDUCTIONS = "sum prod max min any all argmax argmin mean".split()


def reductions():
    """The types of CuPy's reductions, which are not ufuncs and have no attribute that tells."""
    found = {}
    for kernel in gc.get_objects():
        name = str(getattr(kernel, "name", "")) if "eductionKernel" in type(kernel).__name__ else ""
        for tables in gc.get_referents(kernel) if name.startswith("cupy_") else ():
            if type(tables).__name__ == "_Ops":
                (ops,) = gc.get_referents(tables)[:1]
                parts = [[r for r in gc.get_referents(op) if isinstance(r, tuple)] for op in ops]
                found[name[5:]] = [signature(p) for p in parts]
    for name in REDUCTIONS:
        yield f"reduction {name} {' '.join(found[name])}"


def signature(tuples: list) -> str:
    """``e->e`` from the tuples of dtypes of an operation: inputs, outputs."""
    import numpy as np

    dtypes = [t for t in tuples if t and all(isinstance(d, np.dtype) for d in t)]
    return "->".join("".join(d.char for d in t) for t in dtypes[:2])


def main() -> None:
    import cupy
    import cupy._core._routines_math as math_routines

    lines = [f"version {cupy.__version__}"]
    for name in MODULES:
        lines += describe(getattr(cupy, name) if name else cupy, name and name + ".")
    lines += reductions()
    lines.append(f"ufunc _clip cupy_clip {' '.join(math_routines.clip.types)}")
    lines += [f"method {n}" for n in dir(cupy.ndarray) if n[:2] != "__" and n[0] != "_"]
    lines += [f"runtime {n}" for n in dir(cupy.cuda.runtime) if not n.startswith("_")]
    Path(__file__).with_name("api.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
