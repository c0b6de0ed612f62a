"""Run a program with CuPy on the CPU: ``python -m tests.cupy_on_cpu examples/train_digits.py --device cuda``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from . import machine

if len(sys.argv) < 2:
    sys.exit(f"usage: {__doc__}")
machine.install()
sys.argv = sys.argv[1:]
program = Path(sys.argv[0]).resolve()
if not program.is_dir():  # as Python does; for a folder runpy does it
    sys.path.insert(0, str(program.parent))
runpy.run_path(sys.argv[0], run_name="__main__")
