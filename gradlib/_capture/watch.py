"""What Python does in a step beside tensors, by Python's own profiling hook: calls that no plan could repeat.

Code that the names of the step do not lead to, functions of C that have effects or read the world (print, a clock,
random numbers of others), and values of tensors that go to Python: each ends the recording.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import opt_einsum

from ..nn import Module
from ..optim.optimizer import Optimizer
from ..tape import override
from ..tape.generator import Generator
from ..tape.interop import Interop
from ..tape.source import LIBRARY, is_library
from ..tape.tensor import Tensor
from .state import instructions

_PURE = frozenset(
    "abs all any bin callable chr dict divmod filter float format frozenset getattr hasattr hash hex int isinstance "
    "issubclass iter len list map max min next oct ord pow range repr reversed round setattr sorted str sum tuple "
    "zip __build_class__ super".split()
)
_MODULES = frozenset("math _operator itertools _functools _collections cmath _abc".split())
_KINDS = (str, int, float, complex, bytes, bool, tuple, range, frozenset, slice, type(None))
_CHANGE = (list, dict, set, bytearray)
_READERS = frozenset(
    "item tolist tobytes tofile dump dumps max min any all sum prod mean std var argmax argmin nonzero dot __bool__ "
    "__int__ __float__ __index__ trace cumsum searchsorted".split()
)
# names of functions of C that are looked at where the library calls them
_TELLING = _READERS.union("warn reduce accumulate reduceat outer at".split())
_LOOKS = (
    "numpy tolist __array__ data_ptr untyped_storage storage storage_offset is_shared is_pinned is_set_to __repr__ "
    "__format__ __dlpack__ __reduce_ex__ __deepcopy__ __hash__".split()
)


def _forbidden() -> dict[int, str]:
    """What methods whose values go to Python are called, by the id of their code; code of two files may be equal."""
    found = {}
    for name in _LOOKS:
        method = getattr(Tensor, name, None)
        for f in (method, getattr(method, "__wrapped__", None), vars(Interop).get(name)):
            code = getattr(f, "__code__", None)
            if name != "__hash__" and code is not None:
                found[id(code)] = f"Tensor.{name}"
    of_generators = "manual_seed set_state seed get_state graphsafe_set_state initial_seed".split()
    for kind, names in (
        (Generator, of_generators),
        (Optimizer, ("state_dict", "__repr__", "__getstate__")),
    ):
        for name in names:
            found[id(override.running(getattr(kind, name)).__code__)] = f"{kind.__name__}.{name}"
    for name in ("_version", "_base"):
        value = getattr(Tensor, name, None)
        if isinstance(value, property) and value.fget is not None:
            found[id(override.running(value.fget).__code__)] = f"Tensor.{name}"
    return found


_OF_GRADIENTS = frozenset(
    [id(vars(Tensor)["grad"].fget.__code__), id(Module.zero_grad.__code__)]
)  # what asks whether there is a .grad
_STANDARD = os.path.dirname(os.__file__) + os.sep
_GLUE = frozenset(
    _STANDARD + name
    for name in "weakref.py _weakrefset.py abc.py contextlib.py functools.py types.py typing.py enum.py dataclasses.py "
    "collections/__init__.py _collections_abc.py operator.py".split()
)  # between functions of the program: nothing of the world is in them
_NUMERICAL = tuple(os.path.dirname(m.__file__ or "") + os.sep for m in (np, ml_dtypes, opt_einsum))


def _for_library(frame: FrameType) -> bool:
    """Whether code of Python's or NumPy's own runs for the library, not for the program."""
    found: FrameType | None = frame
    while found is not None:
        name = found.f_code.co_filename
        if is_library(name):
            return True
        standard = name.startswith(_STANDARD) and "site-packages" not in name
        if not (standard or name.startswith(("<", *_NUMERICAL))):
            return False
        found = found.f_back
    return False


_INSIDE = ("gradlib.tape.", "gradlib.op.", "gradlib._capture.")  # no program replaces what is there
_LOOKED_UP: dict[CodeType, list[tuple[dict, str]]] = {}


def _looked_up(code: CodeType, space: dict) -> list[tuple[dict, str]]:
    """Functions of modules that code of the library may call by name, as ``F.linear``: a program may replace them."""
    found = _LOOKED_UP.get(code)
    if found is None:
        found = _LOOKED_UP[code] = []
        modules = [m for name in code.co_names if isinstance(m := space.get(name), ModuleType)]
        for module in modules:  # which grows by modules in modules
            own = vars(module)
            for name in code.co_names:
                if isinstance(value := own.get(name), FunctionType):
                    if not module.__name__.startswith(_INSIDE):
                        found.append((own, name))
                elif isinstance(value, ModuleType) and value not in modules:
                    modules.append(value)
    return found


def _within_library(frame: FrameType) -> bool:
    """Whether the library calls, not the program."""
    return frame.f_back is not None and is_library(frame.f_back.f_code.co_filename)


def _takes_nothing(frame: FrameType) -> bool:
    """Whether a function that begins was given nothing that says something."""
    return all(
        [v is None or (v.__class__ in (tuple, dict) and not v) for v in frame.f_locals.values()]
    )


def _ends(frame: FrameType) -> str | None:
    """Why the end of a `with` block is in the way, or None: a plan that raises does not run it."""
    if is_library(frame.f_code.co_filename) or _within_library(frame):
        return None
    owner = next(iter(frame.f_locals.values()), None)
    if isinstance(owner, (contextlib.nullcontext, contextlib._GeneratorContextManager)):
        return None  # what the function of the latter catches is known
    return (
        f"the end of a block with a {type(owner).__name__} sees exceptions, which a plan hands on"
    )


class Blind:
    """In the place of a `Watch`, where the same code was looked at before."""

    def start(self) -> None:
        """Nothing is looked at."""

    stop = start


class Watch:
    """While it is on, tells its recorder of what a plan could not do."""

    def __init__(self, recorder: Any):
        self.recorder = recorder
        self.known: dict[int, CodeType] = {}
        # functions of the library, by the id of their code
        self.looked: dict[int, FunctionType] = {}
        self.asked: dict[FrameType, FunctionType] = {}  # calls of the program that take nothing

    def _hands_on(self, code: CodeType, frame: FrameType) -> str | None:
        """Functions of C that the code loads but does not call: to be called where the profiling hook does not look."""
        for i in instructions(code):
            found = None
            if i.opname == "LOAD_GLOBAL" and not (i.arg or 0) & 1:
                found = frame.f_globals.get(i.argval, frame.f_builtins.get(i.argval))
            elif i.opname == "LOAD_ATTR" and (sys.version_info < (3, 12) or not (i.arg or 0) & 1):
                for module, _ in self.recorder.reached.modules:
                    value = vars(module).get(i.argval)
                    found = value if isinstance(value, BuiltinFunctionType) else found
            if isinstance(found, BuiltinFunctionType) and (why := self._impure(found)) is not None:
                return f"{found.__name__} is handed on: {why}"
        return None

    @cached_property
    def forbidden(self) -> dict[int, str]:
        """Methods whose values go to Python, as they are when that is first asked for."""
        return _forbidden()

    def look_at(self, functions: list) -> None:
        """Functions of C that are kept where the step can reach them."""
        for function in functions:
            if (why := self._impure(function)) is not None:
                self.recorder.refuse(why, False)

    def start(self) -> None:
        sys.setprofile(self._notice)

    def stop(self) -> None:
        sys.setprofile(None)

    def _notice(self, frame: FrameType, event: str, arg: Any) -> None:
        """What Python calls for each event; most are over soon."""
        if event == "call":
            code = frame.f_code
            if id(code) in self.known:
                return
            if id(code) in self.looked:
                if not _within_library(frame) and self._is_on() and _takes_nothing(frame):
                    self.asked[frame] = self.looked[id(code)]
            elif self._is_on():
                self._called(frame, code)
        elif event == "c_call":
            if LIBRARY.get(frame.f_code.co_filename) and arg.__name__ not in _TELLING:
                return
            if self._is_on():
                self._called_in_c(frame, arg)
        elif event == "return" and (self.asked or self.recorder.ends) and self._is_on():
            recorder = self.recorder
            if frame in recorder.ends:
                recorder.ends.pop(frame).value = arg
            function = self.asked.pop(frame, None)
            if function is not None and arg is not None and isinstance(arg, _KINDS):
                recorder.reached.answers.append((function, arg))

    def _is_on(self) -> bool:
        return not self.recorder.depth and self.recorder.refused is None

    def _called(self, frame: FrameType, code: CodeType) -> None:
        recorder = self.recorder
        if code.co_name == "__exit__" and (why := _ends(frame)) is not None:
            self._refuse(why, frame)
        if id(code) in _OF_GRADIENTS:
            recorder.reads_gradients = True
        if id(code) in self.forbidden:
            self._refuse(
                f"{self.forbidden[id(code)]}: memory or values of a tensor go to Python", frame
            )
        elif is_library(code.co_filename):
            for place, name in _looked_up(code, frame.f_globals):
                recorder.reached.also(place, name)
            function = frame.f_globals.get(code.co_name)
            if not isinstance(function, FunctionType) or function.__code__ is not code:
                self.known[id(code)] = code
            else:
                self.looked[id(code)] = function
                if not _within_library(frame) and _takes_nothing(frame):
                    self.asked[frame] = function
        elif id(code) in recorder.reached.codes:
            self.known[id(code)] = code
            why = recorder.reached.barred.get(id(code)) or self._hands_on(code, frame)
            if why is not None:
                self._refuse(why, frame)
        elif code.co_filename in _GLUE or _for_library(frame):
            pass
        else:
            self._refuse(
                f"{code.co_qualname} is called, to which the step's names do not lead", frame
            )

    def _called_in_c(self, frame: FrameType, function: Any) -> None:
        code = frame.f_code
        if function.__name__ == "warn" and getattr(function, "__module__", "") == "_warnings":
            self._refuse("it warns", frame)
        elif is_library(code.co_filename) or _for_library(frame):
            owner = getattr(function, "__self__", None)
            reads = isinstance(owner, np.ndarray) and function.__name__ in _READERS
            if reads or isinstance(owner, np.ufunc):
                self._refuse(f"{code.co_name} reads values of a tensor", frame)
        elif (why := self._impure(function)) is not None:
            self._refuse(why, frame)

    def _refuse(self, why: str, frame: FrameType) -> None:
        while is_library(frame.f_code.co_filename) and frame.f_back is not None:
            frame = frame.f_back
        self.recorder.refuse(why, site=(frame.f_code, frame.f_lasti))

    def _impure(self, function: Any) -> str | None:
        """Why a function of C that the program calls cannot be left out by a plan, or None."""
        owner, name = getattr(function, "__self__", None), function.__name__
        module = getattr(function, "__module__", None) or getattr(owner, "__name__", "")
        if module == "builtins" and name in _PURE:
            return None
        if module in _MODULES:
            return None
        if isinstance(owner, type):
            return None if owner in (dict, *_KINDS) else f"{owner.__name__}.{name} is called"
        plain = owner.__class__.__module__ in ("builtins", "collections")
        if plain or isinstance(owner, (*_KINDS, *_CHANGE)):
            if not isinstance(owner, _CHANGE) or id(owner) not in self.recorder.reached.containers:
                return None if isinstance(owner, (*_KINDS, *_CHANGE)) or "dict_" in type(owner).__name__ else (
                    f"{type(owner).__name__}.{name} is called"
                )  # fmt: skip
            if name in (
                "get",
                "items",
                "keys",
                "values",
                "copy",
                "index",
                "count",
                "__contains__",
                "__getitem__",
            ):
                return None
            return f"{type(owner).__name__}.{name} changes something that outlives the step"
        return f"{name} is called: what it does beside tensors would be left out"
