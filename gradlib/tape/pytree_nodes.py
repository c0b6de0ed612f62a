"""What counts as a container: the registry that `pytree` and ``gradlib.utils._pytree`` share.

`SUPPORTED_NODES` holds for each type how it is taken apart and made again. A type that is not in it is a leaf; a
subclass of one that is, is a leaf, too. All named tuples share the entry of `collections.namedtuple`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .. import return_types
from .sizes import Size


class NodeDef(NamedTuple):
    """How a type of container is taken apart and made again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[Iterable, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list, Any]] | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


# -- kinds of tuples -------------------------------------------------------------------------------------------------

_RETURNED = frozenset(
    v
    for v in vars(return_types).values()
    if isinstance(v, type) and hasattr(v, "_fields") and issubclass(v, tuple)
)


def is_structseq_class(cls: type) -> bool:
    """Whether this is a class of `return_types`, or a named tuple made in C such as ``time.struct_time``."""
    return cls in _RETURNED or (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(cls.__dict__.get(n), int)
            for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
    )


def is_namedtuple_class(cls: type) -> bool:
    """Whether this is a class that `collections.namedtuple` or `typing.NamedTuple` made, or below one."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and cls not in _RETURNED
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(callable(getattr(cls, n, None)) for n in ("_make", "_asdict"))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether the class of an object is a named tuple's."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Whether an object is a named tuple, or the class of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: object) -> bool:
    """Whether the class of an object passes `is_structseq_class`."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Whether an object is one of `is_structseq_class`, or such a class."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """The key of a value in `SUPPORTED_NODES`, if it is a container."""
    kind = type(tree)
    # the registry first: a named tuple with an entry of its own keeps it
    if kind not in SUPPORTED_NODES and isinstance(tree, tuple) and is_namedtuple_class(kind):
        return namedtuple
    return kind


# -- Python's containers ---------------------------------------------------------------------------------------------


def _list_flatten(d: Any) -> tuple[list, Any]:
    return list(d), None


def _list_unflatten(values: Iterable, context: Any) -> list:
    return list(values)


def _tuple_unflatten(values: Iterable, context: Any) -> tuple:
    return tuple(values)


_tuple_flatten = _list_flatten


def _dict_flatten(d: Any) -> tuple[list, Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable, context: Any) -> dict:
    return dict(zip(context, values, strict=True))


_ordereddict_flatten = _dict_flatten


def _ordereddict_unflatten(values: Iterable, context: Any) -> OrderedDict:
    return OrderedDict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list, Any]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable, context: Any) -> Any:
    return context(*values)


def _defaultdict_flatten(d: Any) -> tuple[list, Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable, context: Any) -> defaultdict:
    return defaultdict(context[0], _dict_unflatten(values, context[1]))


def _deque_flatten(d: Any) -> tuple[list, Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable, context: Any) -> deque:
    return deque(values, maxlen=context)


STANDARD: tuple[Any, ...] = (tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque)
for _kind in STANDARD:
    _name = _kind.__name__.lower()
    SUPPORTED_NODES[_kind] = NodeDef(
        _kind, globals()[f"_{_name}_flatten"], globals()[f"_{_name}_unflatten"]
    )


def _enter_sequence(kind: Any, make: Callable[[Iterable], Any]) -> None:
    SUPPORTED_NODES[kind] = NodeDef(kind, _list_flatten, lambda values, _: make(values))


_enter_sequence(Size, Size)
RETURNED = sorted(_RETURNED, key=lambda kind: kind.__name__)
for _kind in RETURNED:
    _enter_sequence(_kind, lambda values, kind=_kind: kind(*values))
