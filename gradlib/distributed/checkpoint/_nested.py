"""A state dict of dicts and lists as one dict: `{"a": {"b": [x]}}` is `{"a.b.0": x}` and back.

A list is taken apart only if a tensor is somewhere in it; a tuple never is. So what is left in one piece are numbers,
text and lists of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._shards import is_tensor

__all__ = ["IntKey", "Path", "flatten", "insert", "store"]


class IntKey(int):
    """A whole number that is the key of a dict, where a plain one in a path is a place in a list."""


Path = tuple[Any, ...]


def flatten(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The values by one name each, and the path of keys that each name was made from.

    ValueError if two paths make one name.
    """
    values: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _leaves(state, ()):
        name = ".".join(str(key) for key in path)
        if name in values:
            raise ValueError(
                f"duplicated flatten key {name}: both {paths[name]} and {path} have this name"
            )
        values[name], paths[name] = value, path
    return values, paths


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            plain = type(key) is int  # a bool or an enum stands for itself, by its text
            yield from _leaves(inner, (*path, IntKey(key) if plain else key))
    elif isinstance(value, list) and _has_tensor(value):
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*path, i))
    else:
        yield path, value


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_tensor(v) for v in value.values())
    if isinstance(value, list):
        return any(_has_tensor(v) for v in value)
    return is_tensor(value)


def store(state: Any, path: Path, value: Any) -> None:
    """Put a value where it came from, into dicts and lists that are there."""
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


def insert(state: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value at the end of a path, making the dicts and lists on the way."""
    here: Any = state
    for key, following in zip(path, (*path[1:], None)):
        last = following is None
        wanted = value if last else [] if type(following) is int else {}
        if type(key) is int:
            here.extend([None] * (key + 1 - len(here)))
            absent = here[key] is None
        else:
            key = int(key) if isinstance(key, IntKey) else key
            absent = key not in here
        if last or absent:
            here[key] = wanted
        here = here[key]
