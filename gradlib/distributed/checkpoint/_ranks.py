"""The steps of a save or load that processes take together, with the errors of each known to all."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from ... import distributed as dist
from .api import CheckpointException, Failure

__all__ = ["Ranks"]


class Failures(dict[int, Failure]):
    """What went wrong, by rank, in place of a result."""


def _attempt(step: Callable[..., Any], *args: Any) -> Any:
    """What a step gives, or its error in a form that can be sent."""
    try:
        return step(*args)
    except Exception as error:
        stack = traceback.extract_tb(error.__traceback__)
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # it cannot travel, so its text does
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return Failures({-1: (error.with_traceback(None), stack)})


def _failures(results: list[Any]) -> Failures:
    """The errors among the results of all ranks."""
    return Failures({r: e[-1] for r, e in enumerate(results) if isinstance(e, Failures)})


def _checked(what: str, result: Any) -> Any:
    if isinstance(result, Failures):
        raise CheckpointException(what, result)
    return result


class Ranks:
    """The processes of a group; one process alone if there is no group.

    group: a process group, None for all processes.
    alone: whether to act as if there were no others.
    coordinator: rank, within the group, of the process that puts plans together.
    """

    def __init__(self, group: Any = None, alone: bool = False, coordinator: int = 0):
        self.together = not alone and dist.is_available() and dist.is_initialized()
        self.group, self.coordinator = group, coordinator
        self.rank = dist.get_rank(group) if self.together else 0
        self.size = dist.get_world_size(group) if self.together else 1
        self.is_coordinator = self.rank == coordinator or not self.together

    def all_gather(self, value: Any) -> list[Any]:
        """What each process gives, by rank."""
        if not self.together:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def broadcast(self, value: Any) -> Any:
        """What the coordinator gives."""
        if not self.together:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=self._global(self.coordinator), group=self.group)
        return values[0]

    def gather(self, value: Any) -> list[Any] | None:
        """What each process gives, at the coordinator."""
        if not self.together:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_coordinator else None
        dist.gather_object(value, values, dst=self._global(self.coordinator), group=self.group)
        return values

    def scatter(self, values: list[Any] | None) -> Any:
        """Of a list of the coordinator's, the entry of this process."""
        if not self.together:
            assert values is not None
            return values[0]
        mine: list[Any] = [None]
        source = self._global(self.coordinator)
        dist.scatter_object_list(mine, values, src=source, group=self.group)
        return mine[0]

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _together(self, made: list[Any] | None, step: Callable[[list[Any]], Any]) -> Any:
        """What the coordinator makes of what each has made; at the others nothing."""
        if made is None:
            return None
        result = _failures(made) or _attempt(step, made)
        if isinstance(result, Failures):
            return Failures({self.coordinator if r < 0 else r: e for r, e in result.items()})
        return result

    def plan(
        self, what: str, each: Callable[[], Any], all: Callable[[list[Any]], list[Any]]
    ) -> Any:
        """Every process makes something, the coordinator a list of all, and each gets its entry."""
        plans = self._together(self.gather(_attempt(each)), all)
        if isinstance(plans, Failures):
            plans = [plans] * self.size
        return _checked(what, self.scatter(plans))

    def conclude(self, what: str, each: Callable[[], Any], all: Callable[[list[Any]], Any]) -> Any:
        """Every process does something, the coordinator something with what they gave, and all get that."""
        return _checked(what, self.broadcast(self._together(self.gather(_attempt(each)), all)))

    def all(self, what: str, each: Callable[[], Any]) -> list[Any]:
        """Every process does something; what they gave, by rank."""
        done = self.all_gather(_attempt(each))
        _checked(what, _failures(done) or None)
        return done
