"""How many training steps there were, for those that announce them."""

from __future__ import annotations

import warnings
from collections import defaultdict


class KinetoStepTracker:
    """Counts training steps for several requesters; the global step is the largest count.

    Several parts of a program (an optimizer, a profile) may each announce the steps; counted together they count once.

    Example:
        >>> KinetoStepTracker.init_step_count("trainer")
        >>> before = KinetoStepTracker.current_step()
        >>> KinetoStepTracker.increment_step("trainer") - before
        1
        >>> KinetoStepTracker.erase_step_count("trainer")
        True
    """

    _current_step = 0
    _step_dict: dict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Let `requester` take part, from the current step on.

        Args:
            requester: a name.
        """
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget `requester`.

        Args:
            requester: a name.

        Returns:
            Whether it was known.
        """
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of `requester`; one that is not known takes part from now on.

        Args:
            requester: a name.

        Returns:
            The global step. A warning says so when that grows by more than 1.
        """
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        new_step = max(cls._step_dict.values())
        if new_step > cls._current_step:
            delta = new_step - cls._current_step
            if delta > 1:
                warnings.warn(
                    "Profiler step count has increased more than 1 - "
                    f"current_step = {cls._current_step} step dict =  {cls._step_dict}",
                    stacklevel=2,
                )
            cls._current_step = new_step
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The global step: the largest count of all requesters.

        It does not fall when one is forgotten.
        """
        return cls._current_step
