"""Random programs on gradlib and on PyTorch.

    python tests/oracle/fuzz.py --seed 7 --programs 1000               # prints what differs, one program for each cause
    python tests/oracle/fuzz.py --seed 7 --programs 1000 --save FOLDER # and writes the programs there
    python tests/oracle/fuzz.py --show 7                               # the program of a seed

A program is drawn by `fuzz_maker`; both libraries run it by `found_programs.run`. What differs is made smaller by
`fuzz_shrink`; programs whose smallest forms do the same with the same kind of difference count as one finding.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2])]

import fuzz_lines  # noqa: F401  (the kinds of lines)
import fuzz_scenes
from found_programs import differences, run
from fuzz_maker import Maker
from fuzz_shrink import shrink, signature, without_try

# Differences kept on purpose: (what the smallest program contains, what the difference says, why); regular expressions.
ACCEPTED: tuple[tuple[str, str, str], ...] = ()


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


def program_of(seed: int) -> str:
    """The program of a seed."""
    maker = Maker(seed)
    maker.draw(maker.r.randint(3, 14))
    lines = maker.body()
    if not maker.failed:
        lines = "\n".join([lines, *fuzz_scenes.ending(maker)])
    return lines


def compared(program: str) -> list[str]:
    """How the program ends on PyTorch, then the differences; where one raises, with the texts and lines of the errors."""
    ours, theirs = run(program, "gradlib"), run(program, "torch")
    texts = [o.pop("text", "") for o in (theirs, ours)]
    ended, lines = theirs["ended"], [o.get("line", 0) for o in (theirs, ours)]
    if ours["ended"] != ended or lines[0] != lines[1]:
        said = f"{texts[0]!r} vs {texts[1]!r}"
        return [ended, f"ended: {ended} vs {ours['ended']}; lines {lines}; {said}"]
    if (
        ended != "well"
    ):  # what an error in backward leaves undone depends on how ops are cut into nodes
        del ours["logged"], theirs["logged"]
    rough = bool(re.search("float32|float16|int64|float\\(\\)|long|complex64", program))
    return [ended, *differences(ours, theirs, rough=rough)]


def kinds(says: list[str]) -> set[str]:
    """What kinds of differences these are, without the numbers; empty if there is none."""
    ended, *rest = says
    if rest and rest[0].startswith("ended"):
        return {rest[0].partition("; lines")[0]}
    return {f"{_kind(s)} ({ended})" for s in rest}


def _kind(text: str) -> str:
    where = re.sub(r"\[\d+\]", "", text.partition(": ")[0]).split()
    kind = where[-1] if where[0] == "variable" and len(where) > 2 else where[0]
    return re.sub(r"\d", "", kind)


def accepted(program: str, says: list[str]) -> bool:
    """Whether a difference is one of those kept on purpose."""
    return any(
        re.search(does, program) and any(re.search(what, s) for s in says[1:])
        for does, what, _ in ACCEPTED
    )


def examine(seed: int) -> Finding | None:
    """What the program of `seed` does otherwise than on PyTorch."""
    program = program_of(seed)
    says = compared(program)
    if len(says) == 1:
        return None
    plain = without_try(program)
    if plain != program and len(compared(plain)) > 1:
        program, says = plain, compared(plain)
    wanted = kinds(says)

    def shows(smaller: str) -> bool:
        try:
            return bool(wanted & kinds(compared(smaller)))
        except Exception:
            return False

    small = shrink(program, shows)
    says = compared(small)
    return None if accepted(small, says) else Finding(seed, small, says[1:])


def search(start: int, count: int, show: bool = False) -> list[Finding]:
    """The findings of `count` seeds from `start` on, one for each cause."""
    found: dict[tuple, Finding] = {}
    for seed in range(start, start + count):
        one = examine(seed)
        if one is None:
            continue
        key = (signature(one.program), *sorted(kinds(["", *one.says])))
        if key in found:
            found[key].count += 1
        else:
            found[key] = one
            if show:
                print(one, flush=True)
    return list(found.values())


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
        print(program_of(given.show))
        return 0
    began = time.time()
    found = search(given.seed, given.programs, show=True)
    if given.save:
        given.save.mkdir(parents=True, exist_ok=True)
        for one in found:
            (given.save / f"{one.seed}.txt").write_text(str(one))
    print(
        f"{given.programs} programs from seed {given.seed}: {len(found)} findings, {time.time() - began:.0f} s"
    )
    return bool(found)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
