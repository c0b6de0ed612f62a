"""What a step can read beside its arguments: all that the names in its code lead to, and whether it is as it was.

A plan is right as long as Python would do the same again. So all that the step's functions can reach is walked:
variables of outer functions, globals that their code names, attributes, entries of lists and dicts. Numbers and texts
are compared by value, other things by identity. What cannot be looked into (an iterator, a file, an object of a C
extension) ends the walk: such a step is not captured.
"""

from __future__ import annotations

import dis
import enum
import re
import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import numpy as np

from ..nn.parameter import Buffer, Parameter
from ..optim.optimizer import Optimizer, _global_post_hooks, _global_pre_hooks
from ..tape.attributes import raw_attributes
from ..tape.device import device
from ..tape.dtypes import dtype
from ..tape.generator import Generator
from ..tape.sizes import Size
from ..tape.source import is_library
from ..tape.storage import INFERENCE
from ..tape.tensor import Tensor
from .identity import Same

MOST = 50_000  # things that are looked at, at most
_VALUES = (bool, int, float, complex, str, bytes, Size)
_FIXED: tuple[type, ...] = (
    type(None), type(Ellipsis), type(NotImplemented), dtype, device, np.dtype, range, slice, np.generic,
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType, types.CodeType, re.Pattern,
    enum.Enum, np.ufunc, types.GenericAlias, types.UnionType, Generator,
)  # fmt: skip
CONSTANTS = (*_VALUES, type(None), type(Ellipsis), dtype, device, np.dtype, range, enum.Enum)
_TENSORS = (Tensor, Parameter, Buffer)
_SETTINGS = {"param_groups", "state", "defaults"}  # of optimizers
_CHANGING: Any = (dict, OrderedDict, list, set)
_HEAP = 1 << 9
_PLAIN = (dict, OrderedDict, defaultdict, list, tuple, set, frozenset)
_BY_TEXT = frozenset("getattr hasattr setattr delattr attrgetter methodcaller __dict__".split())
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift", "==": "eq", "!=": "ne", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "UNARY_NEGATIVE": "neg", "UNARY_INVERT": "invert", "BINARY_SUBSCR": "getitem",
    "BINARY_SLICE": "getitem", "STORE_SUBSCR": "setitem", "STORE_SLICE": "setitem", "CONTAINS_OP": "contains",
    "FOR_ITER": "iter", "GET_ITER": "iter",
}  # fmt: skip


class Opaque(Exception):
    """Something that the walk cannot look into; its text says what and where. found: what came before it."""

    found: list[Any]


def same(a: Any, b: Any) -> bool:
    """Whether two things that are no containers are the same to a program: identical, or equal values of one type."""
    if a is b:
        return True
    if a.__class__ is not b.__class__ or not isinstance(a, (*_VALUES, dtype, device, slice, range)):
        return False
    if isinstance(a, (float, complex, slice, range)):
        return repr(a) == repr(b)  # 0.0 is not -0.0, nan is nan, and slice(1) is not slice(True)
    return bool(a == b)


class StandIn:
    """What stands for a function of the program, ``step``: that is looked at in its place."""

    step: Any


class State:
    """All that is reached from a function, and its values when it was walked.

    Attributes:
        tensors: the tensors by id.
        containers: ids of lists, dicts, sets and objects.
        codes: the code that may run, by its id: functions of two files may have equal code.
        barred: why no plan can be made where some of that code runs, by its id.
        modules: Python's modules that the code names.
        functions: functions of C that are kept somewhere.
        generators: of random numbers.
        answers: functions of the library that take nothing, and what they gave: settings of the process.
    """

    def __init__(self, step: Any, *others: Any):
        self.tensors: dict[int, Any] = {}
        self.containers: set[int] = set()
        self.codes: dict[int, types.CodeType] = {}
        self.barred: dict[int, str] = {}
        self.functions: list[Any] = []
        self._python: dict[type, bool] = {}  # see `_is_python`
        self._slots_of: dict[type, list[str]] = {}
        self.kept: list[Any] = []
        self.names: set[str] = set()  # attributes that the code reads
        self._dicts: list[Any] = []
        self._lists: list[Any] = []  # and sets
        self._empty: list[Any] = []
        self._objects: list[Any] = []  # whose class could be replaced
        self.generators: list[Generator] = []
        self.answers: list[tuple[Any, Any]] = []  # functions of the library that the step asked
        self._fixed: set[int] = set()  # ids of dicts of the library's objects, whose names stay
        self._absent: dict[int, tuple[Any, set[str]]] = {}  # dicts, and names that are not in them
        self._unset: list[tuple[Any, str]] = []  # slots without a value
        self._texts: set[str] = set()  # names by which attributes may be asked for as texts
        self._by_text = False  # whether any are
        self._cells: list[Any] = []
        self._slots: list[tuple[Any, str]] = []
        self._entries: dict[tuple[int, str], tuple[dict, str]] = {}
        self.modules: list[tuple[types.ModuleType, str]] = []
        self._optimizers: list[tuple[Optimizer, str]] = []
        self._library: dict[
            int, tuple[Any, Any, str]
        ] = {}  # its modules and classes, and their names
        self._seen: set[int] = set()
        self._global_paths: set[str] = set()
        self._todo: list[tuple[Any, str]] = [(step, getattr(step, "__name__", "step"))]
        self._todo += [(other, "an argument") for other in others] + [(Tensor, "Tensor")]
        self._walk()
        named = [f for f in self.kept if isinstance(f, (types.FunctionType, type))]
        self._slots += [(f, n) for n in self.names & _OF_DEFINITIONS for f in named]
        self._kinds = Same(map(type, self._objects))
        self._lengths = [len(c) for c in chain(self._dicts, self._lists)]
        self._views = [d.values() for d in self._dicts]  # of what is in them at any time
        self._values = Same(self._read())
        self._named = [d for d in self._dicts if id(d) not in self._fixed]
        self._keys = Same(chain.from_iterable(self._named))

    def values(self) -> list[Any]:
        """What was found, and functions of C that are kept somewhere."""
        return [*self._values.things, *self.functions]

    def dicts(self) -> list[Any]:
        """The dicts that were found, and those of classes and objects."""
        return [*self._dicts, *self._empty]

    def also(self, d: Any, name: str) -> None:
        """One more thing that is to stay as it is: an entry of a dict."""
        if (id(d), name) not in self._entries:
            self._entries[id(d), name] = d, name
            self._values.add(d[name])
            self.kept.append(d)

    # -- is it as it was ---------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Any]:
        return chain(
            chain.from_iterable(self._views),
            chain.from_iterable(self._lists),
            [c.cell_contents for c in self._cells],
            [getattr(value, name) for value, name in self._slots],
            [d[name] for d, name in self._entries.values()],
        )

    def unchanged(self) -> bool:
        """Whether everything has the value that it had."""
        if any(self._empty) or not self._kinds.are(map(type, self._objects)):
            return False
        if self._absent and not all([d.keys().isdisjoint(n) for d, n in self._absent.values()]):
            return False
        if self.answers and not all([same(ask(), value) for ask, value in self.answers]):
            return False
        if self._unset and any([hasattr(value, name) for value, name in self._unset]):
            return False
        try:
            if list(map(len, chain(self._dicts, self._lists))) != self._lengths:
                return False
            if not self._values.are(self._read()):
                return self._same()
            return self._keys.are(chain.from_iterable(self._named)) or self._same()
        except (KeyError, ValueError, AttributeError):  # something that is gone
            return False

    def _same(self) -> bool:
        """`unchanged` by value; equal values take the place of those that are kept, so that it is quick again."""
        values, keys = Same(self._read()), Same(chain.from_iterable(self._named))
        now = chain(values.things, keys.things)
        pairs = zip(now, chain(self._values.things, self._keys.things), strict=True)
        if not all(same(a, b) for a, b in pairs):
            return False
        self._values, self._keys = values, keys
        return True

    def difference(self) -> str:
        """Where something changed, for people."""
        names = [f"the global {name}" for _, name in self._entries.values()]
        try:
            for d, n in zip(self._dicts, self._lengths, strict=False):
                if len(d) != n:
                    return f"entries {', '.join(map(str, list(d)[-3:]))} of {self._owner(d)}"
            n = sum(self._lengths[: len(self._dicts)])
            keys = list(chain.from_iterable(self._dicts))
            for key, a, b in zip(
                keys, chain.from_iterable([d.values() for d in self._dicts]), self._values.things[:n],
                strict=False,
            ):  # fmt: skip
                if not same(a, b):
                    return f"{key!r}, which was {_short(b)} and is now {_short(a)}"
            start = len(self._values.things) - len(self._entries)
            for name, (d, key), b in zip(
                names, self._entries.values(), self._values.things[start:], strict=True
            ):
                if not same(d[key], b):
                    return f"{name}, which was {_short(b)} and is now {_short(d[key])}"
        except KeyError as exc:
            return f"the global {exc}"
        return "a list, a dict or a variable of an outer function"

    def _owner(self, d: Any) -> str:
        return "a dict" if isinstance(d, dict) else "a class"

    # -- the walk ----------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        try:
            self._walk_on()
        except Opaque as exc:
            exc.found = [*self.kept, *[value for value, _ in self._todo]]
            raise

    def _walk_on(self) -> None:
        while self._todo or self._look_into_modules():
            value, path = self._todo.pop()
            if value.__class__ in _VALUES or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self.kept.append(value)
            if len(self._seen) > MOST:
                raise Opaque(f"more than {MOST} things can be reached, the last one as {path}")
            self._look(value, path)

    def _look_into_modules(self) -> bool:
        """Of modules, what the code that was found names, and whether that is more; optimizers, if it reads them."""
        for module, path in self.modules:
            d = vars(module)
            for name in (self.names | self._texts) & d.keys():
                if (id(d), name) not in self._entries:
                    self._entry(d, name, f"{path}.{name}")
            if self._by_text and id(d) not in self._seen:  # by names that are only known in the end
                self._seen.add(id(d))
                self._dicts.append(d)
        for owner, d, path in [*self._library.values()]:
            if self._by_text and isinstance(owner, types.ModuleType):
                self._lack(d, self._texts - d.keys())
            for name in (self.names | self._texts | {"forward", "__call__"}) & d.keys():
                if (id(d), name) not in self._entries:
                    self._entries[id(d), name] = (
                        d,
                        name,
                    )  # which may be replaced; but not looked into
                    if isinstance(d[name], (types.FunctionType, types.ModuleType)):
                        self._todo.append((d[name], f"{path}.{name}"))
        if self._optimizers and (self.names | self._texts) & _SETTINGS:
            path = self._optimizers[0][1]
            raise Opaque(f"the step reads settings or state of {path}, an optimizer")
        return bool(self._todo)

    def _lack(self, d: Any, names: set[str]) -> None:
        """Names that are to stay absent from a dict."""
        self._absent.setdefault(id(d), (d, set()))[1].update(names)

    def _entry(self, d: dict, name: str, path: str) -> None:
        self._entries[id(d), name] = d, name
        self._global_paths.add(path)
        self.kept.append(d)
        self._todo.append((d[name], path))

    def _look(self, value: Any, path: str) -> None:
        kind: Any = value.__class__
        if kind in _CHANGING and not value:
            self.containers.add(id(value))
            self._empty.append(value)
            return
        if isinstance(value, _FIXED):
            if kind is types.BuiltinFunctionType and path not in self._global_paths:
                self.functions.append(value)
            elif isinstance(value, Generator):
                self.generators.append(value)
            elif isinstance(value, enum.Enum):
                self._dicts.append(vars(value))
                names = [n for n in vars(value) if n == "_value_" or not n.startswith("_")]
                self._todo += [(vars(value)[n], f"{path}.{n}") for n in names]
            return
        if isinstance(value, StandIn):
            self._todo.append((value.step, path))
            return
        if isinstance(value, Tensor):
            if kind not in _TENSORS:
                raise Opaque(f"{path} is a {kind.__name__}, a tensor of a class of its own")
            if value._ver is INFERENCE:  # no version says whether it is changed
                raise Opaque(f"{path} is a tensor that was made in inference mode")
            self.tensors[id(value)] = value
            self._objects.append(value)
            self._todo.append((kind, kind.__name__))
            extra = raw_attributes(value).keys() - _OF_LEAVES
            if extra:
                raise Opaque(f"{path} is a tensor with the attributes {', '.join(sorted(extra))}")
            for hooks in [h for n in _HOOKS if (h := raw_attributes(value).get(n)) is not None]:
                self.containers.add(id(hooks))
                self._dict(hooks, f"a hook of {path}", "")
        elif isinstance(value, Optimizer):
            self._optimizers.append((value, path))
            self._todo.append((kind, kind.__name__))
            for name in ("step", "zero_grad"):  # which schedulers, say, put over those of the class
                if name in vars(value):
                    self._entry(vars(value), name, f"{path}.{name}")
                else:
                    self._lack(vars(value), {name})
            own = [value._optimizer_step_pre_hooks, value._optimizer_step_post_hooks]
            for hooks in (*own, _global_pre_hooks, _global_post_hooks):
                self.containers.add(id(hooks))
                self._dict(hooks, f"a hook of {path}", "")
            if not is_library(_file(kind.step)):
                raise Opaque(f"{path} is an optimizer of a class of its own")
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.MethodType):
            self._todo += [(value.__func__, path), (value.__self__, path)]
        elif isinstance(value, types.ModuleType):
            if value.__name__.partition(".")[0] in ("gradlib", "torch", "numpy", "builtins"):
                self._library[id(value)] = value, vars(value), path
            else:
                self.modules.append((value, path))
        elif isinstance(value, type):
            self._class(value, path)
        elif kind is partial:
            self._todo += [(value.func, path), (value.args, path), (value.keywords, path)]
        elif isinstance(value, property):
            self._todo += [(f, path) for f in (value.fget, value.fset) if f is not None]
        elif isinstance(value, (staticmethod, classmethod)):
            self._todo.append((value.__func__, path))
        else:
            self._container(value, path, kind)

    def _container(self, value: Any, path: str, kind: type) -> None:
        self.containers.add(id(value))
        if isinstance(value, dict):
            if _iterates(kind, OrderedDict if issubclass(kind, OrderedDict) else dict):
                if not all(
                    [isinstance(k, (*_VALUES, *_FIXED)) or id(k) in self._seen for k in value]
                ):
                    self._todo += [(k, f"a key of {path}") for k in value]
                self._dict(value, path, "[{!r}]")
            else:
                raise Opaque(f"{path} is a dict of a class that gives its entries in another way")
        elif isinstance(value, (list, tuple, set, frozenset)):
            base = next(b for b in (list, tuple, set, frozenset) if isinstance(value, b))
            if not _iterates(kind, base):
                raise Opaque(
                    f"{path} is a {base.__name__} of a class that gives its entries in another way"
                )
            if base in (list, set):
                (self._lists if value else self._empty).append(value)
            self._todo += [(v, f"{path}[{i}]") for i, v in enumerate(value)]
        plain = self._python.get(kind)
        if plain is None:
            plain = self._python[kind] = _is_python(kind)
        if plain:
            self._objects.append(value)
            self._todo.append((kind, kind.__name__))
            if (d := getattr(value, "__dict__", None)) is not None:
                self.containers.add(id(d))
                self._dict(d, path, ".{}")
                if d and is_library(_file(kind.__init__)):
                    self._fixed.add(id(d))
            if (slots := self._slots_of.get(kind)) is None:
                slots = self._slots_of[kind] = _slots(kind)
            for name in slots:
                if hasattr(value, name):
                    self._slots.append((value, name))
                    self._todo.append((getattr(value, name), f"{path}.{name}"))
                else:
                    self._unset.append((value, name))
        elif kind not in _PLAIN:
            raise Opaque(f"{path} is a {kind.__module__}.{kind.__name__}, which may change unseen")

    def _dict(self, d: Any, path: str, form: str) -> None:
        (self._dicts if d else self._empty).append(d)
        self._todo += [(v, path + form.format(k)) for k, v in d.items()]

    def _class(self, cls: type, path: str) -> None:
        if type(cls) is not type:
            self._todo.append((type(cls), f"the class of {path}"))
        for c in cls.__mro__:
            if id(c) in self._seen and c is not cls:
                continue
            self._seen.add(id(c))
            if not c.__flags__ & _HEAP or c.__module__.partition(".")[0] in (
                "gradlib",
                "builtins",
                "abc",
                "typing",
            ):
                if id(c) not in self._library:
                    self._library[id(c)] = c, vars(c), c.__name__
                continue
            values = vars(c)
            self._dicts.append(values)
            self._slots.append((c, "__mro__"))
            self._todo += [
                (v, f"{c.__name__}.{k}")
                for k, v in values.items()
                if isinstance(v, types.FunctionType) or not k.startswith(("__", "_abc_"))
            ]

    def _function(self, f: types.FunctionType, path: str) -> None:
        if is_library(f.__code__.co_filename):  # what `no_grad` makes of a function, say
            for cell in f.__closure__ or ():
                inner = _content(cell)
                if isinstance(inner, (types.FunctionType, types.MethodType)):
                    self._cells.append(cell)
                    self._todo.append((inner, path))
            return
        self._slots += [(f, name) for name in ("__code__", "__defaults__", "__kwdefaults__")]
        for cell, name in zip(f.__closure__ or (), f.__code__.co_freevars, strict=True):
            try:
                self._todo.append((cell.cell_contents, name))
            except ValueError:
                raise Opaque(f"the variable {name} of {path} has no value yet") from None
            self._cells.append(cell)
        self._todo += [(v, path) for v in (f.__defaults__, f.__kwdefaults__) if v]
        if f.__dict__:
            self._dict(f.__dict__, path, ".{}")
        for code in codes_of(f.__code__):
            self.codes[id(code)] = code
            if not _BY_TEXT.isdisjoint(code.co_names):
                self._by_text = True
                self._texts |= {
                    c for c in code.co_consts if c.__class__ is str and c.isidentifier()
                }
            if _catches(code):
                self.barred[id(code)] = f"{path} catches exceptions, which a plan hands on"
            for instruction in instructions(code):
                name = instruction.argval
                if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    if name in f.__globals__:
                        self._entry(f.__globals__, name, name)
                    else:  # a builtin, which a global may take the place of
                        self._lack(f.__globals__, {name})
                        if name in (own := f.__builtins__):
                            self._entries[id(own), name] = own, name
                elif instruction.opname in _ATTRIBUTES:
                    self.names.add(name)
                elif (symbol := _OPERATORS.get(instruction.opname)) is not None:
                    self.names.add(f"__{symbol}__")
                elif instruction.opname in ("BINARY_OP", "COMPARE_OP"):
                    text = instruction.argrepr.removeprefix("bool(").removesuffix(")")
                    symbol = _OPERATORS.get(text) or _OPERATORS.get(text.removesuffix("="))
                    self.names |= {f"__{kind}{symbol}__" for kind in ("", "r", "i")}
                elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                    self.barred[id(code)] = f"{path} changes the global {name}"
                elif instruction.opname == "IMPORT_NAME":
                    self.barred[id(code)] = f"{path} imports {name} while it runs"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable without a value
        return None


_OF_DEFINITIONS = {"__doc__", "__name__", "__qualname__", "__module__"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"}
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_LEAVES = {
    *_HOOKS,
    "_accumulator",
    "_is_param",
    "_inherits",
    "_detached",
    "_retain",
}


@lru_cache(512)
def instructions(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """What a piece of code consists of."""
    return tuple(dis.get_instructions(code))


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes_of(inner)


def _catches(code: types.CodeType) -> bool:
    """Whether the code has an `except` or `finally`: a handler that is none of a `with` block."""
    names = [i.opname for i in instructions(code)]
    return names.count("PUSH_EXC_INFO") > names.count("WITH_EXCEPT_START")


def _is_python(kind: type) -> bool:
    """Whether all that an instance keeps is in its `__dict__` (or in what a built-in base keeps)."""
    own = [c for c in kind.__mro__ if c is not object]
    return all([_adds_nothing(c) or c in _PLAIN for c in own]) and any(
        [c.__flags__ & _HEAP for c in own]
    )


def _iterates(kind: type, base: type) -> bool:
    """Whether a class of containers gives its entries as `base` does."""
    return all(
        [
            getattr(kind, name, None) is getattr(base, name, None)
            for name in ("__iter__", "__len__", "__bool__", "keys", "values", "items")
        ]
    )


def _adds_nothing(c: type) -> bool:
    """Whether a class is one of Python's that keeps nothing beside a dictionary, weak references and its slots."""
    most = getattr(c.__base__, "__basicsize__", 0) + 16 + 8 * len(_own_slots(c))
    return bool(c.__flags__ & _HEAP) and c.__basicsize__ <= most


def _own_slots(c: type) -> tuple:
    slots = vars(c).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _slots(kind: type) -> list[str]:
    """The slots of a class, private names as they are kept."""
    found = [(c, s) for c in kind.__mro__ for s in _own_slots(c)]
    return [
        f"_{c.__name__.lstrip('_')}{s}" if s.startswith("__") else s
        for c, s in found
        if s not in ("__dict__", "__weakref__")
    ]


def _file(f: Any) -> str:
    f = getattr(f, "__wrapped__", f)
    return f.__code__.co_filename if hasattr(f, "__code__") else ""


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, _VALUES) else f"a {type(value).__name__}"
    return text if len(text) < 40 else text[:37] + "..."
