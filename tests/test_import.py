"""Importing the package."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent


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
