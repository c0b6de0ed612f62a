"""What random programs do otherwise than on PyTorch, one seed after another; `fuzz` runs this as a process of its own.

    python tests/oracle/fuzz_examine.py 7 1000       # seeds 7 to 1006

On standard output it says what it is about to run, since PyTorch may crash, and what it has found, as lines of JSON.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2])]

import fuzz_lines  # noqa: F401  (the kinds of lines)
import fuzz_scenes
from found_programs import differences, run
from fuzz_maker import Maker
from fuzz_shrink import shrink, signature, without_try

SECONDS = 60  # that the examination of one seed may take

# Differences kept on purpose: (what the smallest program contains, what the difference says, why); regular expressions.
FORWARD = r"jvp|fwAD|jacfwd|hessian"
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    # fewer tensors are saved for backward
    (
        "",
        r"lines \[\d+, 0\]; 'Trying to backward through the graph a second",
        "an op that saves nothing can run again",
    ),
    (
        "",
        r"lines \[\d+, 0\]; 'one of the variables needed for gradient",
        "the value is not saved, or a copy of it is",
    ),
    # PyTorch refuses what works here
    ("", "Nested forward mode AD is not supported", "more transforms can be nested"),
    (
        "grad|jac|hess|vjp",
        "would mutate a captured Tensor",
        "a function may write to what it closes over",
    ),
    (
        "grad|jac|hess|vjp",
        "don't yet support saved tensor hooks",
        "transforms work inside saved_tensors_hooks",
    ),
    (
        "",
        "does not support automatic differentiation for outputs with complex dtype",
        "they are differentiated",
    ),
    (
        "fwAD|jvp",
        r"forward AD with \w+ that does not support it",
        "out= takes dual tensors, and more ops do",
    ),
    (FORWARD, "ZeroTensors are immutable", "a tangent of zeros is an ordinary tensor"),
    ("", "floor_divide", "another type of exception"),
    # PyTorch's result is wrong, undefined, or an internal error
    (
        FORWARD + "(?s:.)*hardsig|hardsigmoid|hardswish",
        "value",
        "the slope of hardsigmoid is exactly 1/6",
    ),
    ("", "value: raises RuntimeError vs", "a wrapper of a transform was left behind"),
    ("vmap", "Cannot set version_counter for inference tensor|34359738", "an internal error"),
    ("jac|grad", "Cannot set version_counter for inference tensor", "an internal error"),
    (
        "",
        r"value: [^v]*\bnan\b.* vs [^n]*$",
        "the second derivative is 0 * inf where the function is not smooth",
    ),
    (
        rf"(?s)({FORWARD}).*(\b(\w+)(\[.*\])? [-+*/]= .*\b\3\b|\b(\w+)\.\w+_\(.*\b\5\b)",
        "value",
        "the tangent of an in-place op that reads what it writes is taken at the new value",
    ),
    # a gradient that is zero
    (
        FORWARD + r"|jac\w+\(jac|create_graph",
        "requires_grad: True vs False|leaf: False vs True",
        "PyTorch records a tangent, or a gradient, as a function of the primal also where the derivative is 0",
    ),
    (
        FORWARD,
        r"; '' vs .*(does not|doesn't) require grad|; .*'NoneType' object has no attribute 'register",
        "the same",
    ),
)


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
    _tell("gradlib")
    ours = run(program, "gradlib")
    _tell("torch")
    theirs = run(program, "torch")
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


def examine(seed: int) -> dict | None:
    """What the program of `seed` does otherwise than on PyTorch."""
    program = program_of(seed)
    says = compared(program)
    if len(says) == 1:
        return None
    plain = without_try(program)
    if plain != program and len(compared(plain)) > 1:
        program, says = plain, compared(plain)
    wanted = kinds(says)

    expected = accepted(program, says)

    def shows(smaller: str) -> bool:
        try:
            found = compared(smaller)
        except Exception:
            return False
        return bool(wanted & kinds(found)) and (expected or not accepted(smaller, found))

    small = shrink(program, shows)
    says = compared(small)
    if accepted(small, says):
        return None
    cause = [signature(small), *sorted(kinds(says))]
    return {"seed": seed, "program": small, "says": says[1:], "cause": cause}


def main(start: int, count: int) -> None:
    for seed in range(start, start + count):
        signal.alarm(SECONDS)
        _tell(seed)
        found = examine(seed)
        if found:
            _tell(found)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
