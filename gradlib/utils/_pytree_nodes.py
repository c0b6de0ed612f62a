"""What counts as a container in `utils._pytree`: the registry, the keys of paths, and the functions that register.

`SUPPORTED_NODES` holds for each type how it is taken apart and made again. A type that is not in it is a leaf; a
subclass of one that is, is a leaf, too. All named tuples share the entry of `collections.namedtuple`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from ..tape.pytree_nodes import RETURNED as RETURNED
from ..tape.pytree_nodes import STANDARD as STANDARD
from ..tape.pytree_nodes import SUPPORTED_NODES as SUPPORTED_NODES
from ..tape.pytree_nodes import NodeDef as NodeDef
from ..tape.pytree_nodes import _defaultdict_flatten as _defaultdict_flatten
from ..tape.pytree_nodes import _defaultdict_unflatten as _defaultdict_unflatten
from ..tape.pytree_nodes import _deque_flatten as _deque_flatten
from ..tape.pytree_nodes import _deque_unflatten as _deque_unflatten
from ..tape.pytree_nodes import _dict_flatten as _dict_flatten
from ..tape.pytree_nodes import _dict_unflatten as _dict_unflatten
from ..tape.pytree_nodes import _get_node_type as _get_node_type
from ..tape.pytree_nodes import _list_flatten as _list_flatten
from ..tape.pytree_nodes import _list_unflatten as _list_unflatten
from ..tape.pytree_nodes import _namedtuple_flatten as _namedtuple_flatten
from ..tape.pytree_nodes import _namedtuple_unflatten as _namedtuple_unflatten
from ..tape.pytree_nodes import _ordereddict_flatten as _ordereddict_flatten
from ..tape.pytree_nodes import _ordereddict_unflatten as _ordereddict_unflatten
from ..tape.pytree_nodes import _tuple_flatten as _tuple_flatten
from ..tape.pytree_nodes import _tuple_unflatten as _tuple_unflatten
from ..tape.pytree_nodes import is_namedtuple as is_namedtuple
from ..tape.pytree_nodes import is_namedtuple_class as is_namedtuple_class
from ..tape.pytree_nodes import is_namedtuple_instance as is_namedtuple_instance
from ..tape.pytree_nodes import is_structseq as is_structseq
from ..tape.pytree_nodes import is_structseq_class as is_structseq_class
from ..tape.pytree_nodes import is_structseq_instance as is_structseq_instance
from ..tape.sizes import Size

Context = PyTree = DumpableContext = Any
FlattenFn = Callable[[Any], tuple[list, Any]]
UnflattenFn = Callable[[Iterable, Any], Any]
ToDumpableContextFn = FromDumpableContextFn = Callable[[Any], Any]


class KeyEntry(Protocol):
    """One step of a path: what `get` finds below a container."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any: ...


KeyPath = tuple[KeyEntry, ...]
FlattenWithKeysFn = Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The entry `idx` of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The entry `key` of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The attribute `name` of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class SerializeNodeDef(NamedTuple):
    """The name of a type in text, and how its context becomes JSON."""

    typ: Any
    serialized_type_name: str | None
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_SERIALIZED_TYPES: dict[Any, SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()


def _enter(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Enter a type, over what was known of it."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=3,
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = SerializeNodeDef(
        cls, serialized_type_name, to_dumpable_context, from_dumpable_context
    )
    if serialized_type_name is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


_private_register_pytree_node = _enter


def register_pytree_node(
    cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    """Make a type a container for all functions of `utils._pytree`.

    Args:
        cls: the type; its subclasses stay leaves.
        flatten_fn: gives ``(entries, context)`` of an object.
        unflatten_fn: makes an object from ``(entries, context)``.
        serialized_type_name: the type's name in `treespec_dumps`.
        to_dumpable_context, from_dumpable_context: context to and from what JSON holds; both or none.
        flatten_with_keys_fn: as `flatten_fn`, each entry as ``(key, entry)``; the functions with paths need it.

    Raises:
        ValueError: the type is a container already.
        TypeError: an unknown option.

    Example::

        >>> from gradlib.utils import _pytree
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda entries, _: Pair(*entries))
        >>> _pytree.tree_leaves([Pair(1, 2), 3])
        [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _enter(cls, flatten_fn, unflatten_fn, **options)


def _register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **options: Any,
) -> None:
    """The former name of `register_pytree_node`: warns, and replaces what is registered."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn("`to_str_fn` and `maybe_from_str_fn` are ignored.", FutureWarning, 2)
    _enter(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type) -> None:
    """Make a type a leaf again."""
    del SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    if name is not None:
        del SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    CONSTANT_NODES.discard(cls)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a container of its fields; fields that are None are no entries.

    Args:
        field_names: the entries; None for all fields that ``__init__`` takes. Required for other classes.
        drop_field_names: fields that are left out, and get their defaults again.
        serialized_type_name: the name in `treespec_dumps`.

    Raises:
        ValueError: the names are not those of the fields, or are missing for a class that is no dataclass.
    """
    if field_names is None:
        if not dataclasses.is_dataclass(cls):
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        dropped = set(drop_field_names or ())
        field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    elif dataclasses.is_dataclass(cls):
        needed = {f.name for f in dataclasses.fields(cls) if f.init} - set(drop_field_names or ())
        missing, extra = needed - set(field_names), set(field_names) - needed
        if missing or extra:
            which = (
                f"Missing fields in `field_names`: {missing}." if missing else "",
                f"Unexpected fields in `field_names`: {extra}." if extra else "",
            )
            raise ValueError(
                "field_names does not include all dataclass fields.\n"
                + "\n".join(filter(None, which))
            )
    names = list(field_names)

    def flatten_with_keys(obj: Any) -> tuple[list, Any]:
        there = [n for n in names if getattr(obj, n) is not None]
        none = [n for n in names if getattr(obj, n) is None]
        return [(GetAttrKey(n), getattr(obj, n)) for n in there], [there, none]

    def flatten(obj: Any) -> tuple[list, Any]:
        pairs, context = flatten_with_keys(obj)
        return [entry for _, entry in pairs], context

    def unflatten(entries: Iterable, context: Any) -> Any:
        there, none = context
        return cls(**dict(zip(there, entries, strict=True)), **dict.fromkeys(none))

    _enter(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant: the constant."""

    value: Any


def register_constant(cls: type) -> None:
    """Make a type part of the structure: its objects have no leaves, and structures differ where they do.

    Raises:
        TypeError: the type has no ``__eq__`` or no ``__hash__`` of its own.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation."
        )
    if cls.__hash__ is None or cls.__hash__ is object.__hash__:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    _enter(
        cls,
        lambda obj: ([], ConstantNode(obj)),
        lambda _, context: context.value,
        flatten_with_keys_fn=lambda obj: ([], ConstantNode(obj)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether `register_constant` was called for this type."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# -- paths into Python's containers -----------------------------------------------------------------------------------


def _list_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return _numbered(d), None


def _numbered(d: Any) -> list:
    return [(SequenceKey(i), entry) for i, entry in enumerate(d)]


def _dict_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(GetAttrKey(n), getattr(d, n)) for n in d._fields], type(d)


def _defaultdict_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _deque_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return _numbered(d), d.maxlen


_tuple_flatten_with_keys, _ordereddict_flatten_with_keys = (
    _list_flatten_with_keys,
    _dict_flatten_with_keys,
)


def _with_paths(kind: Any, flatten_with_keys: FlattenWithKeysFn, name: str | None = None) -> None:
    """Let the functions with paths know a container of the floor below, and `treespec_dumps` its name."""
    SUPPORTED_NODES[kind] = SUPPORTED_NODES[kind]._replace(flatten_with_keys_fn=flatten_with_keys)
    SUPPORTED_SERIALIZED_TYPES[kind] = SerializeNodeDef(kind, name, None, None)
    if name is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = kind


for _kind in STANDARD:
    _name = _kind.__name__
    _with_paths(
        _kind, globals()[f"_{_name.lower()}_flatten_with_keys"], f"{_kind.__module__}.{_name}"
    )
STANDARD_DICT_TYPES: frozenset[type] = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES: frozenset[Any] = frozenset(STANDARD)
for _kind in (*RETURNED, Size):
    _with_paths(_kind, _list_flatten_with_keys)
