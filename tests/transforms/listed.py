"""What cannot be: the entries of exceptions.txt, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "exceptions.txt"
GROUPS = {
    "derivatives": "grad double jvp jacobian hessian third vmap_grad vmap_jvp grad_vmap jvp_grad_vmap checkpoint "
    "complex precision outside outside_vmap",
    "forward": "jvp jacobian hessian third vmap_jvp grad_vmap jvp_grad_vmap complex precision outside outside_vmap",
    "batches": "vmap vmap_vmap vmap_grad vmap_jvp grad_vmap jvp_grad_vmap jacobian hessian third no_entries "
    "outside_vmap",
}


class Entry(NamedTuple):
    key: str  # of a callable, or of one of its cases: "gradlib.add#2"
    checks: tuple[str, ...]  # at least one fails; empty: the callable has no sample
    reason: str


@cache
def entries() -> tuple[Entry, ...]:
    """Blocks of a line ``## checks or groups: reason``, and lines of keys."""
    found: list[Entry] = []
    checks: tuple[str, ...] = ()
    reason = ""
    for line in FILE.read_text().splitlines():
        if line.startswith("## "):
            head, _, reason = line[3:].partition(": ")
            names = [GROUPS.get(name, name) for name in head.split() if name != "none"]
            checks = tuple(" ".join(names).split())
        elif line and not line.startswith("#"):
            found += [Entry(key, checks, reason) for key in line.split()]
    return tuple(found)


@cache
def left_out(key: str) -> bool:
    """Whether a callable is listed as one without samples, by its name or as one of a module's rest."""
    return any(not e.checks and fnmatchcase(key, e.key) for e in entries())


@cache
def _places() -> frozenset[tuple[str, str]]:
    return frozenset((e.key, check) for e in entries() for check in e.checks)


def listed(key: str, number: int, check: str) -> bool:
    """Whether this check of this case is known to fail."""
    return (key, check) in _places() or (f"{key}#{number}", check) in _places()
