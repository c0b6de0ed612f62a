"""Structures of `utils._pytree` as JSON, in PyTorch's form: a list of the protocol's number and nested dicts."""

from __future__ import annotations

import enum
import importlib
import json
from collections import defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

from ._pytree_nodes import (
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    GetAttrKey,
    SerializeNodeDef,
)

PROTOCOL = 1
# named tuples that have a name in text; their entry in the registry is that of all named tuples
NAMED: dict[type, str] = {}


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    """Give a class of named tuples a name in `treespec_dumps`."""
    NAMED[cls] = serialized_type_name
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializeNodeDef(cls, serialized_type_name, None, None)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


class _Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, enum.Enum):
            kind = type(o)
            return {
                "__enum__": True,
                "fqn": f"{kind.__module__}:{kind.__qualname__}",
                "name": o.name,
            }
        return super().default(o)


def _found(module: str, qualname: str) -> Any:
    value: Any = importlib.import_module(module)
    for name in qualname.split("."):
        value = GetAttrKey(name).get(value)
    return value


def _decode(pairs: dict) -> Any:
    if pairs.get("__enum__"):
        return _found(*pairs["fqn"].split(":"))[pairs["name"]]
    return pairs


def _dumped(kind: Any, context: Any) -> Any:
    """A context as JSON holds it."""
    if kind is namedtuple:
        if context not in NAMED:
            raise NotImplementedError(
                f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
                "serializated_type_name. Please register using `_register_namedtuple`."
            )
        return NAMED[context]
    if kind is defaultdict:
        factory, keys = context
        return {
            "default_factory_module": factory.__module__ if factory else None,
            "default_factory_name": factory.__qualname__ if factory else None,
            "dict_context": keys,
        }
    own = SUPPORTED_SERIALIZED_TYPES[kind].to_dumpable_context
    if own is not None:
        return own(context)
    try:
        return json.dumps(context, cls=_Encoder)
    except TypeError as e:
        raise TypeError(
            f"The context of {kind} is not JSON: {e}. Give register_pytree_node a to_dumpable_context."
        ) from e


def _loaded(kind: Any, text: Any) -> Any:
    if kind is namedtuple:
        return SERIALIZED_TYPE_TO_PYTHON_TYPE[text]
    if kind is defaultdict:
        module = text["default_factory_module"]
        return [
            _found(module, text["default_factory_name"]) if module else None,
            text["dict_context"],
        ]
    own = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    return own(text) if own is not None else json.loads(text, object_hook=_decode)


def to_schema(spec: Any) -> dict:
    """A structure as nested dicts.

    Raises:
        NotImplementedError: a type in it has no name in text.
    """
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    kind = spec.type
    if kind not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(f"Serializing {kind} in pytree is not registered.")
    name = SUPPORTED_SERIALIZED_TYPES[kind].serialized_type_name
    if name is None:
        raise NotImplementedError(
            f"No registered serialization name for {kind} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    return {
        "type": name,
        "context": _dumped(kind, spec.context),
        "children_spec": [to_schema(child) for child in spec.children()],
    }


def from_schema(schema: dict, make: Callable[[Any, Any, list], Any]) -> Any:
    """The structure that nested dicts describe, made by ``make(type, context, children)``.

    Raises:
        NotImplementedError: a name in it that no type has.
    """
    name = schema["type"]
    if name is None:
        return make(None, None, [])
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    if kind is None or kind not in SUPPORTED_NODES:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    children = [from_schema(child, make) for child in schema["children_spec"]]
    return make(kind, _loaded(kind, schema["context"]), children)
