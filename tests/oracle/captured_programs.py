"""Random programs as captured steps: whether these do what the plain ones do. A process of its own, see `fuzz`.

    python tests/oracle/captured_programs.py 7 1000       # seeds 7 to 1006

It prints each seed before its program is drawn (which may crash PyTorch), and lines that begin with ``#`` for what is
found.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

HERE = Path(__file__).parent
LONG = 30.0  # seconds after which no further program is begun


def examine(start: int, count: int) -> int:
    """Run programs; returns how many differ."""
    from fuzz_examine import program_of

    import gradlib
    from tests.capture.as_steps import captured_part, differences, differentiated

    began, replayed, bad = time.time(), 0, 0
    for seed in range(start, start + count):
        if time.time() - began > LONG:  # some programs are slow, and so are some machines
            break
        print(seed, flush=True)
        try:
            program = program_of(seed)
            compile(program, "<program>", "exec")
        except Exception:  # it cannot be drawn, or is none
            continue
        around = (lambda: gradlib.autocast("cpu")) if seed % 3 == 1 else nullcontext
        found, _ = differences(program, raw=seed % 4 == 0, around=around)
        if not found:
            program, _ = captured_part(program)
            found, plans = differences(program, around=around)
            replayed += bool(plans)
        if not found and seed % 3 != 2:  # backward outside
            program, _ = captured_part(program, raw=True)
            found, _ = differences(program, raw=True, after=differentiated, around=around)
        if found:
            bad += 1
            text = "\n".join([f"seed {seed}", program, *[f[:2000] for f in found]])
            print("\n".join(f"# {line}" for line in text.split("\n")), flush=True)
    seconds = time.time() - began
    print(f"{count} programs, {replayed} replayed, {bad} differ, {seconds:.0f} s")
    return bad


def search(start: int, count: int) -> tuple[list[str], int]:
    """What is found among the programs of `count` seeds, and how many of them crash PyTorch."""
    seed, end, said, crashes = start, start + count, [], 0
    while seed < end:
        command = [sys.executable, "-W", "ignore", __file__, str(seed), str(end - seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        lines = done.stdout.splitlines()
        said += [line for line in lines if line.startswith("#")]
        if done.returncode >= 0:
            assert lines and lines[-1].endswith(" s"), done.stderr
            break
        crashes += 1
        seed = int([line for line in lines if line.isdigit()][-1]) + 1
    return said, crashes


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1])]
    import fuzz_lines  # noqa: F401  (the kinds of lines)
    import fuzz_scenes  # noqa: F401

    raise SystemExit(bool(examine(int(sys.argv[1]), int(sys.argv[2]))))
