"""What random programs do otherwise than on PyTorch, one seed after another; `fuzz` runs this as a process of its own.

    python tests/oracle/fuzz_examine.py 7 1000       # seeds 7 to 1006

On standard output it says what it is about to run, since PyTorch may crash, and what it has found, as lines of JSON.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2])]

import fuzz_lines  # noqa: F401  (the kinds of lines)
import fuzz_scenes
from found_programs import differences, run
from fuzz_accepted import accepted, parts
from fuzz_decide import ROUGH
from fuzz_maker import Maker
from fuzz_shrink import (
    each_try_dropped,
    each_without_try,
    shrink,
    signature,
    until,
    without_try,
)

SECONDS = 60  # of computing that the examination of one seed may take; half of it, to make the program smaller


def _tell(what: Any) -> None:
    if __name__ == "__main__":
        print(json.dumps(what), flush=True)


def program_of(seed: int) -> str:
    """The program of a seed."""
    _tell("torch")
    maker = Maker(seed)
    maker.draw(maker.r.randint(3, 14))
    lines = maker.body()
    if not maker.failed:
        lines = "\n".join([lines, *fuzz_scenes.ending(maker)])
    return lines


def compared(program: str) -> list[str]:
    """How the program ends on PyTorch, then the differences; of errors with their texts and lines."""
    _tell("torch")  # first: where it crashes, or does not end, there is nothing to compare with
    theirs = run(program, "torch")
    _tell("gradlib")
    ours = run(program, "gradlib")
    texts = [o.pop("text", "") for o in (theirs, ours)]
    ended, lines = theirs["ended"], [o.get("line", 0) for o in (theirs, ours)]
    if ours["ended"] != ended or lines[0] != lines[1]:
        said = f"PyTorch: {texts[0]}; gradlib: {texts[1]}"
        return [ended, f"ended: {ended} vs {ours['ended']}; lines {lines}; {said}"]
    if "Inplace update to inference tensor" in texts[0]:
        return [ended]  # PyTorch raises after it has written
    if ended != "well":
        # what an error in backward leaves undone depends on how ops are cut into nodes
        del ours["logged"], theirs["logged"]
    texts_differ = ended != "well" and texts[0] != texts[1]
    found = differences(ours, theirs, rough=bool(re.search(ROUGH, program)))
    if found and texts_differ:  # PyTorch may have stopped earlier in the same line
        found.append(f"texts: lines {lines}; PyTorch: {texts[0]}; gradlib: {texts[1]}")
    return [ended, *found]


def kinds(says: list[str]) -> set[str]:
    """What kinds of differences these are, without the numbers; empty if there is none."""
    ended, *rest = says
    if rest and rest[0].startswith("ended"):
        return {rest[0].partition("; lines")[0]}
    return {f"{_kind(s)} ({ended})" for s in rest if not s.startswith("texts")}


def _kind(text: str) -> str:
    where = re.sub(r"\[\d+\]", "", text.partition(": ")[0]).split()
    kind = where[-1] if where[0] == "variable" and len(where) > 2 else where[0]
    return re.sub(r"\d", "", kind)


def explained(program: str, says: list[str]) -> bool:
    """Whether the differences are on purpose, also those of what a `try` statement keeps from ending the program."""
    if accepted(program, says):
        return True
    if says[1].startswith("ended"):
        theirs, ours, *_ = parts(says[1])
        if theirs and not 0 < ours <= theirs:  # what follows where PyTorch stopped says nothing
            shorter = until(program, theirs)
            if accepted(shorter, compared(shorter)):
                return True
    for plain in each_without_try(program):
        found = compared(plain)
        stopped = any(s.startswith(("ended", "texts")) for s in found[1:])
        if stopped and accepted(plain, found):
            return True
    for without in each_try_dropped(program):
        found = compared(without)
        if kinds(found) == kinds(says) and accepted(without, found):
            return True
    return False


def examine(seed: int) -> dict | None:
    """What the program of `seed` does otherwise than on PyTorch."""
    program = program_of(seed)
    says = compared(program)
    if len(says) == 1:
        return None
    plain = without_try(program)
    if plain != program and len(compared(plain)) > 1:
        program, says = plain, compared(plain)
    if explained(program, says):
        return None
    wanted, began = kinds(says), time.process_time()

    def shows(smaller: str) -> bool:
        if time.process_time() - began > SECONDS / 2:
            return False
        try:
            found = compared(smaller)
            return bool(wanted & kinds(found)) and not explained(smaller, found)
        except Exception:
            return False

    small = shrink(program, shows)
    says = compared(small)
    cause = [signature(small), *sorted(kinds(says))]
    return {"seed": seed, "program": small, "says": says[1:], "cause": cause}


def main(start: int, count: int) -> None:
    for seed in range(start, start + count):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)  # for what waits
        _tell(seed)
        found = examine(seed)
        if found:
            _tell(found)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
