"""Lists and dicts that cannot be changed: what the arguments of a Node are made of, so that its users stay known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(
            f"{kind!r} object does not support mutation. If you are attempting to modify the kwargs or args of a "
            "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n"
            "    new_args = ...  # copy and mutate args\n    node.args = new_args\n"
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused: arguments of Nodes are not changed, but replaced.\n\nRaises:\n    TypeError: always."
    return refused


class immutable_list(list):
    """A list whose methods that change it raise TypeError.

    Example:
        >>> immutable_list([1, 2]) == [1, 2]
        True
    """

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(dict):
    """A dict whose methods that change it raise TypeError.

    Example:
        >>> immutable_dict(a=1)["a"]
        1
    """

    def __reduce__(self) -> Any:
        return immutable_dict, (list(self.items()),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


for _name in "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort".split():
    setattr(immutable_list, _name, _refuse(_name))
for _name in "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update".split():
    setattr(immutable_dict, _name, _refuse(_name))

register_pytree_node(
    immutable_list,
    lambda values: (list(values), None),
    lambda values, _: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
)
register_pytree_node(
    immutable_dict,
    lambda values: (list(values.values()), list(values)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
)
