"""What counts as a container in `utils._pytree`: the registry, the keys of paths, and the functions that register.

`SUPPORTED_NODES` holds for each type how it is taken apart and made again. A type that is not in it is a leaf; a
subclass of one that is, is a leaf, too. All named tuples share the entry of `collections.namedtuple`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from .. import return_types
from ..tape.tensor import Size

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


class NodeDef(NamedTuple):
    """How a type of container is taken apart and made again."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class SerializeNodeDef(NamedTuple):
    """The name of a type in text, and how its context becomes JSON."""

    typ: Any
    serialized_type_name: str | None
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
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


def _numbered(d: Any) -> list:
    return [(SequenceKey(i), entry) for i, entry in enumerate(d)]


def _dict_flatten(d: Any) -> tuple[list, Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values: Iterable, context: Any) -> dict:
    return dict(zip(context, values, strict=True))


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list, Any]:
    return [(GetAttrKey(n), getattr(d, n)) for n in d._fields], type(d)


def _default_context(d: defaultdict) -> list:
    return [d.default_factory, list(d)]


def _enter_structseq(cls: Any) -> None:
    _enter(
        cls,
        _list_flatten,
        lambda v, _: cls(*v),
        flatten_with_keys_fn=lambda d: (_numbered(d), None),
    )


for _kind in (tuple, list):
    _enter(
        _kind,
        _list_flatten,
        lambda v, _, kind=_kind: kind(v),
        serialized_type_name=f"builtins.{_kind.__name__}",
        flatten_with_keys_fn=lambda d: (_numbered(d), None),
    )
_enter(
    dict,
    _dict_flatten,
    _dict_unflatten,
    serialized_type_name="builtins.dict",
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
_enter(
    namedtuple,
    lambda d: (list(d), type(d)),
    lambda v, cls: cls(*v),
    serialized_type_name="collections.namedtuple",
    flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)
_enter(
    OrderedDict,
    _dict_flatten,
    lambda v, keys: OrderedDict(zip(keys, v, strict=True)),
    serialized_type_name="collections.OrderedDict",
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
_enter(
    defaultdict,
    lambda d: (list(d.values()), _default_context(d)),
    lambda v, context: defaultdict(context[0], zip(context[1], v, strict=True)),
    serialized_type_name="collections.defaultdict",
    flatten_with_keys_fn=lambda d: (_dict_flatten_with_keys(d)[0], _default_context(d)),
)
_enter(
    deque,
    lambda d: (list(d), d.maxlen),
    lambda v, maxlen: deque(v, maxlen=maxlen),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=lambda d: (_numbered(d), d.maxlen),
)
STANDARD_DICT_TYPES: frozenset[type] = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES: frozenset[Any] = frozenset(SUPPORTED_NODES)
for _kind in sorted(_RETURNED, key=lambda kind: kind.__name__):
    _enter_structseq(_kind)
_enter(
    Size, _list_flatten, lambda v, _: Size(v), flatten_with_keys_fn=lambda d: (_numbered(d), None)
)
