"""What lines of a plan became, where several became one: for `explain`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..tape.source import describe


class Fused(NamedTuple):
    """A run that became one kernel: its ops, how many elements, and the lines of the program."""

    ops: list[str]
    elements: int
    sites: list[Any]

    def told(self, name: str) -> tuple[str, str, str]:
        """What, why and where, for people."""
        what = f"{', '.join(self.ops)} on {self.elements} elements is one kernel"
        return name, f"fused: {what}", _places(self.sites)


class Joined(NamedTuple):
    """A sequence that became one call: its ops, how many runs and products, and the lines of the program."""

    ops: list[str]
    steps: int
    sites: list[Any]

    def told(self, name: str) -> tuple[str, str, str]:
        """What, why and where, for people."""
        what = f"{self.steps} kernels of {', '.join(self.ops)} are one call"
        return name, f"joined: {what}", _places(self.sites)


def _places(sites: list[Any]) -> str:
    return "; ".join(dict.fromkeys([describe(site) for site in sites if site is not None]))
