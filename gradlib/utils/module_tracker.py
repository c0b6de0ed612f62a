"""`ModuleTracker`: in which modules the program is, forward and backward."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..autograd.graph import register_multi_grad_hook
from ..nn.modules._global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ..tape.engine import queue_callback
from ..tape.modes import state
from ..tape.pytree import flatten
from ..tape.tensor import Tensor

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A block that knows, at any time, the names of the modules whose forward or backward runs.

    ``parents`` is a set of names: "Global", the class of the outermost module, and paths below it ("Net.layers.0"). A
    module's backward begins with the first gradient of its results, and ends with the last of its arguments' (or of the
    pass, where these need none).

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2))
        >>> with gradlib.utils.module_tracker.ModuleTracker() as tracker:
        ...     handle = model[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
        ...     _ = model(gradlib.ones(1, 2))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._named: weakref.WeakSet[Any] = weakref.WeakSet()  # whose children have names, too
        self._pass: Any = None  # the backward pass after which the set is as at first

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass runs in this thread.

        Example:
            >>> gradlib.utils.module_tracker.ModuleTracker().is_bw
            False
        """
        return state.current_task is not None

    def _name(self, module: Any) -> str:
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        if module not in self._named:
            for key, child in module.named_children():
                self._names[child] = f"{name}.{key}"
                self._name(child)
            self._named.add(module)
        return name

    def _entered(self, name: str, backward: bool) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            if backward and self._pass is not state.current_task:
                self._pass = state.current_task
                queue_callback(self._ended)
            if name in self.parents:
                when = "backward" if backward else "forward"
                warnings.warn(
                    f"The module hierarchy tracking seems to be broken: {name} was entered in {when} while it ran. Is "
                    "a module called inside of itself, or is part of the graph used twice?",
                    stacklevel=2,
                )
            self.parents.add(name)

        return enter

    def _left(self, name: str, backward: bool) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            if name in self.parents:
                self.parents.remove(name)
            elif not backward:
                raise RuntimeError(
                    f"The module {name} ended, but never began: was it entered before the tracker was?"
                )

        return leave

    def _ended(self) -> None:
        self.parents, self._pass = {"Global"}, None

    def _before(self, module: Any, args: tuple) -> None:
        name = self._name(module)
        self._entered(name, False)()
        tensors = _recorded(args)
        if tensors and not self.is_bw:
            self._handles.append(register_multi_grad_hook(tensors, self._left(name, True)))

    def _after(self, module: Any, args: tuple, result: Any) -> None:
        name = self._name(module)
        self._left(name, False)()
        tensors = _recorded(result)
        if tensors and not self.is_bw:
            enter = self._entered(name, True)
            self._handles.append(register_multi_grad_hook(tensors, enter, mode="any"))

    def __enter__(self) -> ModuleTracker:
        self._handles: list[Any] = []
        self._global = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in (*self._global, *self._handles):
            handle.remove()
        self._handles.clear()


def _recorded(values: Any) -> list[Tensor]:
    """The tensors among them that gradients come to."""
    return [v for v in flatten(values)[0] if isinstance(v, Tensor) and v.requires_grad]
