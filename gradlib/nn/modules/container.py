"""Modules and parameters in lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from ..._refused import refuse
from .module import Module, _addindent

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "Sequential",
]
__getattr__ = refuse(__name__)


class Container(Module):
    """A module with the submodules given as keywords; deprecated, and without forward.

    Args:
        **kwargs: name = module.

    Example:
        >>> [name for name, _ in nn.Container(first=nn.ReLU()).named_children()]
        ['first']
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _index(length: int, idx: Any) -> int:
    """A position in 0..length-1; negative ones count from the end."""
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range")
    return idx % length


class _NumberedModules(Module):
    """What Sequential and ModuleList share: submodules named '0', '1', ..."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def _name_at(self, idx: Any) -> str:
        return list(self._modules)[_index(len(self), idx)]

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        names = list(self._modules)
        gone = names[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in gone:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def insert(self, index: int, module: Module) -> Any:
        """Put `module` before position `index`; those behind it are renumbered.

        Args:
            index: as of a list; negative ones count from the end.
            module: the module.

        Example:
            >>> layers = nn.ModuleList([nn.ReLU()])
            >>> layers.insert(0, nn.Tanh())
            >>> layers[0]
            Tanh()
        """
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def pop(self, key: Any) -> Module:
        """Remove and return the module at a position; those behind it are renumbered.

        Args:
            key: the position; negative ones count from the end.

        Raises:
            IndexError: there is no such position.

        Example:
            >>> layers = nn.ModuleList([nn.Tanh(), nn.ReLU()])
            >>> layers.pop(0), len(layers)
            (Tanh(), 1)
        """
        module = self[key]
        del self[key]
        return module


class Sequential(_NumberedModules):
    """Modules called one after another, each on the result of the one before.

    It has the length, the positions and the slices of a list; `+` joins two, `*` repeats one.

    Args:
        *args: modules, or one OrderedDict of name to module.

    Raises:
        TypeError: an argument is no module.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> tuple(net(gradlib.ones(5, 2)).shape)
        (5, 3)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for key, module in args[0].items():
                self.add_module(key, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, idx: slice | int | str) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Sequential) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        _check_sequential(other)
        start = len(self)
        for i, module in enumerate(list(other)):
            self.add_module(str(start + i), module)
        return self

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*_repeated(self, other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        start, modules = len(self), list(self)
        for i, module in enumerate(_repeated(modules, other)[start:]):
            self.add_module(str(start + i), module)
        return self

    def forward(self, input: Any) -> Any:
        """input: whatever the first module takes -> what the last one returns."""
        for module in self._modules.values():
            input = module(input)
        return input

    def append(self, module: Module) -> Sequential:
        """Add a module at the end; returns self.

        Raises:
            TypeError: it is no module.

        Example:
            >>> len(nn.Sequential(nn.ReLU()).append(nn.Tanh()))
            2
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put `module` before position `index`; returns self.

        Raises:
            AssertionError: `module` is no module.
            IndexError: there is no such position.

        Example:
            >>> nn.Sequential(nn.ReLU()).insert(0, nn.Tanh())[0]
            Tanh()
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        super().insert(index, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add modules at the end; returns self.

        Args:
            sequential: another Sequential, or any iterable of modules.

        Raises:
            TypeError: an element is no module.

        Example:
            >>> len(nn.Sequential(nn.ReLU()).extend([nn.Tanh(), nn.ReLU()]))
            3
        """
        for module in list(sequential):
            self.append(module)
        return self


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )


def _repeated(modules: Iterable[Module], times: Any) -> list[Module]:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(modules)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(modules)}")
    return list(modules) * times


class ModuleList(_NumberedModules):
    """A list whose modules are registered; it has no forward.

    Args:
        modules: an iterable of modules.

    Raises:
        TypeError: an element is no module.

    Example:
        >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: slice | int) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        combined = ModuleList()
        for i, module in enumerate(chain(self, other)):
            combined.add_module(str(i), module)
        return combined

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end; returns self.

        Raises:
            TypeError: it is no module.

        Example:
            >>> len(nn.ModuleList().append(nn.ReLU()))
            1
        """
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end; returns self.

        Args:
            modules: an iterable of modules.

        Raises:
            TypeError: it is no iterable, or an element is no module.

        Example:
            >>> len(nn.ModuleList().extend([nn.ReLU(), nn.Tanh()]))
            2
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        start = len(self)
        for i, module in enumerate(list(modules)):
            self.add_module(str(start + i), module)
        return self

    def __repr__(self) -> str:
        reprs = [repr(module) for module in self]
        if not reprs:
            return f"{self._get_name()}()"
        runs: list[list[Any]] = []  # [first, last, text] of equal neighbours
        for i, text in enumerate(reprs):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for first, last, text in runs:
            label = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(_addindent(f"{label}: {count}{text}", 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict whose modules are registered, in the order of insertion; it has no forward.

    Args:
        modules: a mapping, or an iterable of pairs (name, module).

    Raises:
        TypeError: a value is no module.
        KeyError: a name is empty, has a dot, or is that of an attribute, such as "keys".

    Example:
        >>> acts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        >>> acts["relu"](gradlib.tensor([-1.0])).item(), list(acts)
        (0.0, ['relu', 'tanh'])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules.

        Example:
            >>> acts = nn.ModuleDict({"relu": nn.ReLU()})
            >>> acts.clear()
            >>> len(acts)
            0
        """
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module of a name.

        Raises:
            KeyError: there is none.

        Example:
            >>> nn.ModuleDict({"relu": nn.ReLU()}).pop("relu")
            ReLU()
        """
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """The names, in the order of insertion.

        Example:
            >>> list(nn.ModuleDict({"relu": nn.ReLU()}).keys())
            ['relu']
        """
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """(name, module) pairs, in the order of insertion.

        Example:
            >>> list(nn.ModuleDict({"relu": nn.ReLU()}).items())
            [('relu', ReLU())]
        """
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules, in the order of insertion.

        Example:
            >>> list(nn.ModuleDict({"relu": nn.ReLU()}).values())
            [ReLU()]
        """
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules, or put others in place of those of the same names.

        Args:
            modules: a mapping, or an iterable of pairs (name, module).

        Raises:
            TypeError: it is neither, or a value is no module.
            ValueError: an element of the iterable has another length than 2.

        Example:
            >>> acts = nn.ModuleDict({"relu": nn.ReLU()})
            >>> acts.update([("tanh", nn.Tanh())])
            >>> list(acts)
            ['relu', 'tanh']
        """
        for key, module in _pairs(modules, "ModuleDict", "Module"):
            self[key] = module


def _pairs(source: Any, owner: str, element: str) -> Iterable[tuple[str, Any]]:
    """The pairs of a mapping or of an iterable of pairs, checked."""
    if not isinstance(source, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got "
            + type(source).__name__
        )
    if isinstance(source, (Mapping, Module)):  # a module here is one of the two dict classes
        return list(source.items())  # type: ignore[operator]
    pairs = []
    for i, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{i} should be Iterable; is "
                + type(pair).__name__
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        pairs.append(pair)
    return pairs
