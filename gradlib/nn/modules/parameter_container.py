"""Parameters in lists and dicts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from ...tape.tensor import Tensor
from ..parameter import Parameter
from .container import _index, _pairs
from .module import Module

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    """Tensors become parameters; anything else stays what it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(label: Any, value: Any, old_names: bool = False) -> str:
    if not isinstance(value, Tensor):
        return f"({label}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    device = f" ({value.device})" if value.is_cuda else ""
    dtype = value.type() if old_names else value.dtype
    return f"({label}): {kind} containing: [{dtype} of size {size}{device}]"


class ParameterList(Module):
    """A list whose tensors become registered parameters; other values stay what they are.

    Args:
        values: an iterable.

    Raises:
        TypeError: it is none.

    Example:
        >>> weights = nn.ParameterList([gradlib.ones(2), gradlib.ones(3)])
        >>> [p.numel() for p in weights.parameters()]
        [2, 3]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, str(_index(len(self), idx)))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_index(len(self), idx)), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end, a tensor as a Parameter; returns self.

        Example:
            >>> len(nn.ParameterList().append(gradlib.ones(2)))
            1
        """
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end, tensors as Parameters; returns self.

        Raises:
            TypeError: `values` is no iterable, or a tensor.

        Example:
            >>> len(nn.ParameterList().extend([gradlib.ones(2), gradlib.ones(3)]))
            2
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join("  " + _describe(i, value) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors become registered parameters; other values stay what they are.

    Keys keep the order of insertion; `|` joins two.

    Args:
        parameters: a mapping, or an iterable of pairs (name, value).

    Raises:
        TypeError: a key is no string.

    Example:
        >>> params = nn.ParameterDict({"scale": gradlib.ones(2)})
        >>> params["scale"].requires_grad, list(params)
        (True, ['scale'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _name(key: Any) -> str:
        """Keys are attribute names; one that is taken by the class needs a prefix."""
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need "
                "non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        name = self._name(key)
        if name not in self._keys:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{key}'")
        return self._parameters[name] if name in self._parameters else self.__dict__[name]

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._name(key)
        self._keys[name] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        name = self._name(key)
        del self._keys[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new ParameterDict with the same values, which are not copied.

        Example:
            >>> params = nn.ParameterDict({"scale": gradlib.ones(2)})
            >>> params.copy()["scale"] is params["scale"]
            True
        """
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, set to `default` first if there is none.

        Example:
            >>> nn.ParameterDict().setdefault("scale", gradlib.ones(2)).requires_grad
            True
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values.

        Example:
            >>> params = nn.ParameterDict({"scale": gradlib.ones(2)})
            >>> params.clear()
            >>> len(params)
            0
        """
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of a key.

        Raises:
            AttributeError: there is none.

        Example:
            >>> nn.ParameterDict({"scale": gradlib.ones(2)}).pop("scale").tolist()
            [1.0, 1.0]
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (key, value).

        Raises:
            KeyError: there is none.

        Example:
            >>> nn.ParameterDict({"a": 1, "b": 2}).popitem()
            ('b', 2)
        """
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` where there is none.

        Example:
            >>> print(nn.ParameterDict().get("scale"))
            None
        """
        return self[key] if key in self else default  # noqa: SIM401

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict with `default` under each of `keys`.

        Example:
            >>> nn.ParameterDict().fromkeys(["a", "b"], 3)["b"]
            3
        """
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Iterable[str]:
        """The keys, in the order of insertion.

        Example:
            >>> list(nn.ParameterDict({"a": 1, "b": 2}).keys())
            ['a', 'b']
        """
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, value) pairs, in the order of insertion.

        Example:
            >>> list(nn.ParameterDict({"a": 1, "b": 2}).items())
            [('a', 1), ('b', 2)]
        """
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values, in the order of insertion.

        Example:
            >>> list(nn.ParameterDict({"a": 1, "b": 2}).values())
            [1, 2]
        """
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values, or put others in place of those with the same keys.

        Args:
            parameters: a mapping, or an iterable of pairs (key, value).

        Raises:
            TypeError: it is neither.
            ValueError: an element of the iterable has another length than 2.

        Example:
            >>> params = nn.ParameterDict({"a": 1})
            >>> params.update({"b": 2})
            >>> list(params)
            ['a', 'b']
        """
        for key, value in _pairs(parameters, "ParameterDict", "Parameter"):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join("  " + _describe(k, value, True) for k, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self
