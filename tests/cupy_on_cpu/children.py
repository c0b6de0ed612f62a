"""Programs that lose their device, each in a process of its own: what they found, as JSON on standard output.

    python -m tests.cupy_on_cpu.children < {"name": "a program", ...}

The processes are forked from one that has imported CuPy and asked the device nothing, as a server of processes would. A
program has `cupy`, `torch` (gradlib), `np` and ``text(function)``: what a call returns, or its exception as text. What
it assigns to `found` is what is printed.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any


def text(function: Callable[[], Any]) -> Any:
    """What a call returns as JSON has it, or "Type: message"."""
    try:
        result = function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return result.tolist() if hasattr(result, "tolist") else result


def in_child(action: Callable[[], Any]) -> Any:
    """What ``action()`` gives in a forked child, or the text of its exception; "no answer" if the child dies."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: the child does not use them
        child = os.fork()
    if not child:
        try:
            found = action()
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(write, pickle.dumps(found))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else "no answer"


def run(program: str) -> Any:
    """What a program assigns to `found`."""
    import cupy
    import numpy as np

    import gradlib

    space = {"cupy": cupy, "np": np, "torch": gradlib, "text": text, "in_child": in_child}
    exec(program, space)
    return space["found"]


def main() -> None:
    """Run all programs."""
    from . import machine

    machine.install()
    programs = json.load(sys.stdin)
    import cupy

    import gradlib

    assert cupy.__name__ == "cupy" and gradlib.__name__ == "gradlib"  # imported before the forks
    print(json.dumps({name: in_child(lambda p=p: run(p)) for name, p in programs.items()}))


if __name__ == "__main__":
    main()
