"""Objects that are saved through their own `state_dict` and `load_state_dict`."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """Anything with `state_dict` and `load_state_dict`: models, optimizers, data loaders, classes of one's own.

    `save` and `load` of a checkpoint take such objects as values of the state dict and call the two methods.

    Example:
        >>> isinstance(gradlib.nn.Linear(1, 1), Stateful), isinstance({}, Stateful)
        (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """What is to be saved: tensors, numbers, text, and dicts and lists of them.

        It is called for a load, too: its tensors are where the saved values go.

        Returns:
            The state by name.
        """
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state back.

        Args:
            state_dict: what `state_dict` had returned, with the saved values in it.
        """
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
