"""Random programs on gradlib and on PyTorch.

    python tests/oracle/fuzz.py --seed 7 --programs 1000               # prints what differs, one program for each cause
    python tests/oracle/fuzz.py --seed 7 --programs 1000 --save FOLDER # and writes the programs there
    python tests/oracle/fuzz.py --show 7                               # the program of a seed

A program is drawn by `fuzz_maker`; both libraries run it by `found_programs.run`. What differs is made smaller by
`fuzz_shrink`; programs whose smallest forms do the same with the same kind of difference count as one finding.

The work is done by `fuzz_examine` in another process: some programs crash PyTorch. Those are counted and left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent


@dataclasses.dataclass
class Finding:
    """Programs of one cause: the first seed, its program at its smallest, the differences."""

    seed: int
    program: str
    says: list[str]
    count: int = 1

    def __str__(self) -> str:
        says = "\n".join(f"#   {s[:400]}" for s in self.says[:4])
        return f"### seed {self.seed} ({self.count} programs)\n{self.program}\n{says}\n"


@dataclasses.dataclass
class Search:
    """What was found, and the seeds of programs that PyTorch did not survive."""

    findings: dict[tuple, Finding] = dataclasses.field(default_factory=dict)
    crashes: list[int] = dataclasses.field(default_factory=list)


def search(start: int, count: int, show: Callable[[str], None] = lambda text: None) -> Search:
    """Examine the programs of `count` seeds from `start` on."""
    result, seed, end = Search(), start, start + count
    while seed < end:
        seed = _examine_until_crash(seed, end, result, show)
    return result


def _examine_until_crash(start: int, end: int, result: Search, show: Callable) -> int:
    """Examine seeds in one process; the seed to go on with."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(HERE / "fuzz_examine.py"),
        str(start),
        str(end - start),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    seed, running = start, "nothing"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            told = json.loads(line)
            if isinstance(told, int):
                seed = told
            elif isinstance(told, str):
                running = told
            elif (cause := tuple(told.pop("cause"))) in result.findings:
                result.findings[cause].count += 1
            else:
                result.findings[cause] = Finding(**told)
                show(str(result.findings[cause]))
    if not worker.returncode:
        return end
    if running == "torch" and worker.returncode < 0:
        result.crashes.append(seed)
    else:
        said = f"the process ended with {worker.returncode} while it ran {running}"
        result.findings["crash", str(seed)] = Finding(seed, f"# --show {seed}", [said])
        show(str(result.findings["crash", str(seed)]))
    return seed + 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--show", type=int, metavar="SEED")
    given = parser.parse_args()
    if given.show is not None:
        sys.path[:0] = [str(HERE.parents[1])]
        from fuzz_examine import program_of

        print(program_of(given.show))
        return 0
    began = time.time()
    result = search(given.seed, given.programs, lambda text: print(text, flush=True))
    if given.save:
        given.save.mkdir(parents=True, exist_ok=True)
        for one in result.findings.values():
            (given.save / f"{one.seed}.txt").write_text(str(one))
    print(
        f"{given.programs} programs from seed {given.seed}: {len(result.findings)} findings, "
        f"{len(result.crashes)} that crash PyTorch, {time.time() - began:.0f} s"
    )
    return bool(result.findings)


if __name__ == "__main__":
    raise SystemExit(main())
