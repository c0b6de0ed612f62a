"""What lines of a plan became, where several became one: for `explain`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..tape.source import describe


class Together(NamedTuple):
    """Lines of a plan that became one: what of what, and where the program has them."""

    what: str
    sites: list[Any]

    def told(self, name: str) -> tuple[str, str, str]:
        """What, why and where, for people."""
        places = dict.fromkeys([describe(site) for site in self.sites if site is not None])
        return name, self.what, "; ".join(places)


def fused(ops: list[str], elements: int, sites: list[Any]) -> Together:
    """A run that became one kernel."""
    return Together(f"fused: {', '.join(ops)} on {elements} elements is one kernel", sites)


def joined(ops: list[str], steps: int, sites: list[Any]) -> Together:
    """A sequence that became one call."""
    return Together(f"joined: {steps} kernels of {', '.join(ops)} are one call", sites)
