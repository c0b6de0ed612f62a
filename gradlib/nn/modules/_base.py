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


HOOK_DICTS = tuple(name for name in ModuleFields.__annotations__ if "_hooks" in name)


def new_fields() -> dict[str, Any]:
    """The `__dict__` of a module that owns nothing yet."""
    fields: dict[str, Any] = {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_is_full_backward_hook": None,
        "_modules": {},
    }
    for name in HOOK_DICTS:
        fields[name] = OrderedDict()
    return fields
