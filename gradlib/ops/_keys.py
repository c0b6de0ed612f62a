"""PyTorch's dispatch keys, for programs that name them: gradlib has no dispatcher that would be told."""

from __future__ import annotations

from typing import Any, NoReturn

from ..tape.modes import AUTOCAST, set_flag, state


class _Keys(type):
    """Any name is a key."""

    def __getattr__(cls, name: str) -> DispatchKey:
        if name.startswith("__"):
            raise AttributeError(name)
        key = DispatchKey()
        key.name = name
        setattr(cls, name, key)
        return key


class DispatchKey(metaclass=_Keys):
    """A key by its name, as ``DispatchKey.CPU``: what `gradlib.library.Library.impl` takes as a string, too."""

    name = "Undefined"

    def __str__(self) -> str:
        return f"DispatchKey.{self.name}"

    __repr__ = __str__


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, *keys: DispatchKey) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys | other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys & other.keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys - other.keys)

    def has(self, key: DispatchKey) -> bool:
        """Whether a key is in it."""
        return key in self.keys


class _ExcludeDispatchKeyGuard:
    """A block without autocast, if the keys are those of autocast; others are refused: nobody could be told."""

    def __init__(self, keys: Any = None) -> None:
        names = [key.name for key in getattr(keys, "keys", ())]
        if not names or not all(name.startswith("Autocast") for name in names):
            _refuse()

    def __enter__(self) -> None:
        self.before = state.interposers
        state.interposers = tuple(i for i in self.before if i.on is None)
        self.had = set_flag(AUTOCAST, False)

    def __exit__(self, *exc: object) -> None:
        state.interposers = self.before
        set_flag(AUTOCAST, self.had)


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "gradlib has no dispatcher of which keys could be excluded; torch._C._AutoDispatchBelowAutograd skips the "
        "autograd kernels of an op"
    )
