"""``tensor.__dict__``: what the program has put on a tensor, without what autograd keeps there.

Rare state of a tensor (its AccumulateGrad, hooks, tangents) lies in the same dictionary as the program's attributes:
the interpreter finds it there at full speed, and most tensors have none. Only who asks for ``__dict__`` pays for
telling the two apart.
"""

from __future__ import annotations

from typing import Any

INTERNAL = frozenset(
    "_accumulator _backward_hooks _grad_dtype _post_accumulate_grad_hooks _retain _tangent _tangent_level "
    "_tangent_part _tangent_copied _geometries _stands_for _inherits _detached _mirrored".split()
)
"""Attributes of a Tensor that belong to the graph or to its memory: no program sees them, no file has them."""


class _Store:
    """What gives a tensor its dictionary."""

    __slots__ = ("__dict__", "__weakref__")


raw_attributes = vars(_Store)["__dict__"].__get__  # the dictionary itself, with internal state


class _Shown(dict):
    """The program's attributes of a tensor; what is written to it is written there.

    Also where there is no internal state yet: a program may hold this while an op makes some.
    """

    def __init__(self, whole: dict[str, Any]):
        super().__init__({k: v for k, v in whole.items() if k not in INTERNAL})
        self._whole = whole

    def __setitem__(self, key: str, value: Any) -> None:
        self._whole[key] = value
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        del self._whole[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        if key in self:
            self._whole.pop(key, None)
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        self._whole.pop(key, None)
        return key, value

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class Attributes(_Store):
    """The part of Tensor that shows attributes: its first base, so that no other gives it a dictionary."""

    __slots__ = ()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return _Shown(raw_attributes(self))

    @__dict__.setter
    def __dict__(self, value: dict[str, Any]) -> None:
        shown = self.__dict__
        if value is not shown:
            shown.clear()
            shown.update(value)
