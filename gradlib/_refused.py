"""Names of PyTorch that gradlib has not: they can be imported and named, and raise when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class _Refused(type):
    """The type of absent classes: a base, an annotation, the second argument of isinstance, but nothing to call."""

    _why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(cls._why)


def refuse(module: str, names: str, why: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has not all of PyTorch's names.

    Args:
        module: its name below gradlib.
        names: PyTorch's names that it lacks, between spaces. Those that begin with a capital letter become classes,
            whose subclasses cannot be made either; the others functions.
        why: what to do without them, as a sentence.

    Returns:
        A function of a name. What it gives raises NotImplementedError, with the name and `why`, when it is called;
        names that PyTorch has not raise AttributeError.
    """
    absent = frozenset(names.split())
    made: dict[str, Any] = {}

    def make(name: str) -> Any:
        said = f"gradlib has no {module}.{name}. {why}"
        if name[0].isupper():
            return _Refused(
                name, (), {"__module__": f"gradlib.{module}", "__doc__": said, "_why": said}
            )

        def refused(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError(said)

        refused.__name__ = refused.__qualname__ = name
        refused.__module__, refused.__doc__ = f"gradlib.{module}", said
        return refused

    def find(name: str) -> Any:
        if name not in absent:
            raise AttributeError(f"module 'gradlib.{module}' has no attribute '{name}'")
        if name not in made:
            made[name] = make(name)
        return made[name]

    return find
