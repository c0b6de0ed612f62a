"""Importing the package."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from textwrap import dedent

import pytest


def test_importing_leaves_the_collector_as_it_was():
    program = """
        import gc, sys
        sys.modules["gradlib.operators"] = None  # the first import fails
        try:
            import gradlib
        except ImportError:
            failed = True
        assert failed and gc.isenabled()
        for name in [n for n in sys.modules if n.startswith("gradlib")]:
            del sys.modules[name]
        gc.disable()
        import gradlib
        assert not gc.isenabled()
        del sys.modules["gradlib"]
        gc.enable()
        import gradlib
        assert gc.isenabled()
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about the heap of glibc")
def test_freed_memory_stays_for_the_next_step():
    program = """
        import resource
        import gradlib as torch
        x = torch.ones(3 << 18)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            y = x + 1
            del y
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    faults = subprocess.check_output([sys.executable, "-c", dedent(program)], text=True, env=own)
    assert int(faults) < 2 * (3 << 20) // resource.getpagesize()  # of 20 arrays of that size
