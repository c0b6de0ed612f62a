"""Join: ranks that have no more inputs take part in the collectives of those that have."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

from ...operators import public as ops
from ...tape.source import user_level
from .. import collectives
from .._work import Work

__all__ = ["Join", "JoinHook", "Joinable"]

MOST_ITERATIONS_WITHOUT_WARNING = 1000


class JoinHook:
    """What a rank that has joined does for one `Joinable`; both methods do nothing unless they are overridden.

    Example:
        >>> class Counting(JoinHook):
        ...     rounds = 0
        ...     def main_hook(self):
        ...         self.rounds += 1
        >>> hook = Counting()
        >>> hook.main_hook()
        >>> hook.rounds
        1
    """

    def main_hook(self) -> None:
        """Called while another rank still has inputs, once for each of its iterations.

        It calls the collectives of one iteration, with values that change nothing.
        """

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once all ranks have joined.

        Args:
            is_last_joiner: whether this rank was one of the last.
        """


class Joinable(ABC):
    """What can be given to `Join`: its iterations call collectives, and it has a hook that stands for them.

    Subclasses call this ``__init__``, and `Join.notify_join_context` once in every iteration before its collectives.
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook for a rank that has joined.

        Args:
            kwargs: those that `Join` was made with.
        """
        ...

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors that `Join` itself reduces.

        Returns:
            A device, the same for all that is in one `Join`.
        """
        ...

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group whose ranks join.

        Returns:
            A ProcessGroup, the same for all that is in one `Join`.
        """
        ...


class _JoinConfig(NamedTuple):
    """What a `Joinable` knows of the `Join` that it is in."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        """That of an object in no `Join`."""
        return _JoinConfig(False, False, False)


class Join:
    """A context in which ranks may have different numbers of inputs: a rank that leaves it shadows the others.

    Args:
        joinables: what takes part, such as a DistributedDataParallel and a ZeroRedundancyOptimizer.
        enable: False for a context that does nothing.
        throw_on_early_termination: raise on all ranks as soon as one has no more inputs.
        kwargs: given to each `Joinable.join_hook`.

    Raises:
        ValueError: no joinables, or joinables of several groups or devices.
        TypeError: one that is no `Joinable`.
        RuntimeError: another rank has no more inputs, with `throw_on_early_termination`.

    Example::

        with Join([model, optimizer]):
            for x, y in batches:  # as many as this rank has
                optimizer.zero_grad()
                loss(model(x), y).backward()
                optimizer.step()
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for joinable in joinables:
            if not isinstance(getattr(joinable, "_join_config", None), _JoinConfig):
                raise TypeError(
                    f"The join context manager takes objects of type Joinable, but got {type(joinable)}; a subclass "
                    "has to call Joinable.__init__"
                )
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throw_on_early_termination = enable, throw_on_early_termination
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        groups = {id(j.join_process_group): j.join_process_group for j in joinables}
        devices = {j.join_device for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        if len(devices) > 1:
            raise ValueError("Using join context manager with multiple devices")
        self._process_group = joinables[0].join_process_group
        self._rank = self._process_group.rank()
        self._device = joinables[0].join_device

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._enable or type is not None:
            return
        rounds, last = 0, True
        while self._still_training():
            if self._throw_on_early_termination:
                collectives.all_reduce(ops.ones(1, device=self._device), group=self._process_group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            last = False
            for hook in self._join_hooks:
                hook.main_hook()
            rounds += 1
            if rounds == MOST_ITERATIONS_WITHOUT_WARNING:
                warnings.warn(
                    f"Rank {self._rank} has no more inputs since {rounds} iterations, which others have: divide the "
                    "inputs more evenly, or training will not be faster for this rank.",
                    stacklevel=user_level(),
                )
        for hook in self._join_hooks:
            hook.post_hook(last)

    def _still_training(self) -> int:
        """How many ranks have inputs: those call `notify_join_context` in the place of this."""
        count = ops.zeros(1, device=self._device)
        collectives.all_reduce(count, group=self._process_group)
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tell ranks that have joined that this one has an iteration more.

        Call it in each iteration, before its collectives.

        Args:
            joinable: who calls; of several in one `Join` only the first tells the others.

        Returns:
            The Work of the reduction of a one from each rank that goes on: None for all but the first, and without a
            `Join`. Its ``result()`` is [how many ranks go on].

        Raises:
            RuntimeError: a rank has no more inputs, with ``throw_on_early_termination``.

        Example::

            Join.notify_join_context(self)
        """
        assert hasattr(joinable, "_join_config"), (
            f"Check that the {type(joinable)} constructor calls the Joinable constructor"
        )
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = collectives.all_reduce(ops.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = ops.zeros(1, device=device)
            collectives.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
