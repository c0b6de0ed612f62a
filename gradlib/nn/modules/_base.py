"""The fields of a module, declared once for the classes that `Module` is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...tape.tensor import Tensor

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class ModuleFields:
    """What every module keeps in its `__dict__`."""

    dump_patches: bool = False
    _version: int = 1
    _hooked: bool = False  # on the class: global hooks exist; on an instance: it has hooks
    call_super_init: bool = False

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]


class _MadeOnDemand:
    """The dict of hooks of one kind: most modules never have one, so it is made when somebody asks for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        # no __set__: what is in the module's `__dict__` comes before this
        if module is None:
            raise AttributeError(f"type object {owner!r} has no attribute {self.name!r}")
        return vars(module).setdefault(self.name, OrderedDict())


for _name in ModuleFields.__annotations__:
    if "_hooks" in _name:
        setattr(ModuleFields, _name, _MadeOnDemand(_name))


_NONE: dict = {}


def hooks_of(module: Any, name: str) -> dict:
    """The dict of hooks of one kind, to read it: where there is none, none is made."""
    return module.__dict__.get(name, _NONE)


def new_fields() -> dict[str, Any]:
    """The `__dict__` of a module that owns nothing yet."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_is_full_backward_hook": None,
        "_modules": {},
    }
