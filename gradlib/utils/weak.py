"""Weak references to tensors, and dictionaries whose keys are compared by identity: tensors are equal elementwise."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from ..tape.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that equals another one to the same object, and hashes by the object's identity.

    Args:
        key: the object.
        callback: is called with the reference when the object is gone.
    """

    __slots__ = ("_id",)

    def __new__(cls, key: Any, callback: Any = None) -> WeakIdRef:
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # pyright: ignore[reportCallIssue]

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other

    def __ne__(self, other: object) -> bool:  # that of weakref.ref compares the objects
        return not self == other


class TensorWeakRef:
    """A weak reference to a tensor: called, it gives the tensor, or None if that is gone.

    Args:
        tensor: the tensor.
    """

    def __init__(self, tensor: Tensor) -> None:
        assert isinstance(tensor, Tensor)
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary that forgets what nobody else holds any more, and compares keys by identity.

    Args:
        dict: a mapping to begin with.
        ref_type: the class of references.

    Example:
        >>> key = gradlib.ones(2)
        >>> held = WeakIdKeyDictionary({key: 1})
        >>> held[key], gradlib.ones(2) in held
        (1, False)
    """

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _forget(self, reference: WeakIdRef) -> None:
        self.data.pop(reference, None)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what has no weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def keyrefs(self) -> list[WeakIdRef]:
        """The references to the keys.

        Some may be dead.
        """
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A dictionary with the same keys and values.

        Neither is copied.
        """
        return type(self)(self, self.ref_type)

    __copy__ = copy


WeakTensorKeyDictionary = WeakIdKeyDictionary
