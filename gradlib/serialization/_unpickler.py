"""Reading: a pickle to objects, either all that it asks for or only what is known as safe."""

from __future__ import annotations

import importlib
import math
import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _names as names

Persistent = Callable[[Any], Any]

_HOW_TO_TRUST = (
    "If you trust the source of the file, load it with `weights_only=False`: that can run any code "
    "the file contains."
)


# --------------------------------------------------------------------------------------------
# Names that the user has allowed

_lock = threading.Lock()
_allowed: list[Any] = []


def full_name(entry: Any) -> tuple[str, Any]:
    """The name under which a file mentions an allowed object, and the object."""
    if isinstance(entry, tuple):
        obj, name = entry
        return name, obj
    return f"{entry.__module__}.{entry.__qualname__}", entry


def set_allowed(entries: Iterable[Any]) -> list[Any]:
    """Replace the allowed objects; returns the former list."""
    global _allowed
    entries = list(entries)
    for entry in entries:
        if isinstance(entry, tuple) and not (len(entry) == 2 and isinstance(entry[1], str)):
            raise ValueError(f"expected a pair (object, 'module.name'), but got {entry!r}")
        if not callable(entry[0] if isinstance(entry, tuple) else entry):
            raise ValueError(f"expected a class or function, but got {entry!r}")
    with _lock:
        before, _allowed = _allowed, entries
        return before


def get_allowed() -> list[Any]:
    """The objects that the user has allowed."""
    return list(_allowed)


def is_known(module: str, name: str) -> bool:
    """Whether a weights-only file may mention `module.name`."""
    if names.find(module, name) is not None:
        return True
    return f"{module}.{name}" in dict(map(full_name, _allowed))


# --------------------------------------------------------------------------------------------
# Weights only

_KEPT_OPCODES = (
    pickle.PROTO + pickle.STOP + pickle.MARK + pickle.POP + pickle.POP_MARK
    + pickle.DUP + pickle.NONE + pickle.NEWTRUE + pickle.NEWFALSE + pickle.INT + pickle.BININT
    + pickle.BININT1 + pickle.BININT2 + pickle.LONG + pickle.LONG1 + pickle.LONG4 + pickle.FLOAT
    + pickle.BINFLOAT + pickle.STRING + pickle.BINSTRING + pickle.SHORT_BINSTRING + pickle.UNICODE
    + pickle.BINUNICODE + pickle.BINBYTES + pickle.SHORT_BINBYTES + pickle.TUPLE
    + pickle.EMPTY_TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3 + pickle.EMPTY_LIST
    + pickle.LIST + pickle.APPEND + pickle.APPENDS + pickle.EMPTY_DICT + pickle.DICT
    + pickle.SETITEM + pickle.SETITEMS + pickle.EMPTY_SET + pickle.GET + pickle.BINGET
    + pickle.LONG_BINGET + pickle.PUT + pickle.BINPUT + pickle.LONG_BINPUT + pickle.GLOBAL
    + pickle.REDUCE + pickle.NEWOBJ + pickle.BUILD + pickle.BINPERSID
)  # fmt: skip
_PLAIN_DTYPE_STATE = (3, None, None, None, -1, -1, 0)
_Base: Any = pickle._Unpickler  # type: ignore[attr-defined]


def _refusing(code: int) -> Callable[[Any], None]:
    """What stands for an instruction that a weights-only file may not contain; those of protocol 4 are among them."""

    def refuse(self: Any) -> None:
        raise pickle.UnpicklingError(f"Weights only load failed. Unsupported operand {code}")

    return refuse


class WeightsUnpickler(_Base):
    """Reads containers, numbers, text and tensors, and calls nothing that is not known as safe.

    It is the unpickler that Python's own library has in Python, with every instruction that can
    reach an object checked: which names may be mentioned, which of them called, whose state set,
    and which containers filled.
    """

    dispatch = {
        code: load if code in _KEPT_OPCODES else _refusing(code)
        for code, load in _Base.dispatch.items()
    }

    def __init__(self, file: Any, persistent: Persistent) -> None:
        super().__init__(file, encoding="utf-8")
        self.persistent_load = persistent
        self.trusted = dict(map(full_name, get_allowed()))
        self.callable_ids = {id(f) for f in names.FUNCTIONS.values()}
        self.callable_ids |= {id(f) for f in self.trusted.values()}

    def find_class(self, module: str, name: str) -> Any:
        """The object for a name, if it is known as safe."""
        known = names.find(module, name)
        if known is not None:
            return known
        spelled = f"{module}.{name}"
        if spelled in self.trusted:
            return self.trusted[spelled]
        raise pickle.UnpicklingError(
            f"Weights only load failed. Unsupported global: GLOBAL {spelled} was not an allowed "
            f"global by default. Please use `torch.serialization.add_safe_globals([{spelled}])` or "
            f"the `torch.serialization.safe_globals([{spelled}])` context manager to allowlist "
            f"this global if you trust this class/function. {_HOW_TO_TRUST}"
        )

    def check_callable(self, function: Any) -> None:
        """Only functions that are known by name may be called."""
        if id(function) not in self.callable_ids:
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file calls {function!r}, which is not known as "
                f"safe. {_HOW_TO_TRUST}"
            )

    def load_reduce(self) -> None:
        """REDUCE: call a function."""
        self.check_callable(self.stack[-2])
        _Base.load_reduce(self)

    def load_newobj(self) -> None:
        """NEWOBJ: make an object of a class that the user has allowed."""
        self.check_trusted(self.stack[-2])
        _Base.load_newobj(self)

    def check_trusted(self, kind: Any) -> None:
        """Only classes that the user has allowed are made without their own __init__."""
        if not isinstance(kind, type) or kind not in self.trusted.values():
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file makes a {kind!r}, which is not known as "
                f"safe. {_HOW_TO_TRUST}"
            )

    def load_build(self) -> None:
        """BUILD: set the state of an object."""
        target, state = self.stack[-2], self.stack[-1]
        kind = type(target)
        if kind in self.trusted.values():
            _Base.load_build(self)
            return
        if kind is OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)  # a state_dict has its _metadata there
        elif kind is np.ndarray:
            _fill_array(target, state)
        elif isinstance(target, np.dtype):
            _fill_dtype(target, state)
        else:
            raise pickle.UnpicklingError(
                f"Weights only load failed. The file sets the state of a {kind.__name__}, which "
                f"is not known as safe. {_HOW_TO_TRUST}"
            )
        self.stack.pop()

    def check_container(self, target: Any, kinds: tuple[type, ...]) -> None:
        """Only containers may be filled."""
        if not isinstance(target, kinds) and type(target) not in self.trusted.values():
            raise pickle.UnpicklingError(f"{type(target).__name__} is not a container to be filled")

    def load_setitem(self) -> None:
        """SETITEM: one entry of a dict."""
        self.check_container(self.stack[-3], (dict,))
        _Base.load_setitem(self)

    def load_setitems(self) -> None:
        """SETITEMS: several entries of a dict."""
        self.check_container(self.metastack[-1][-1], (dict,))
        _Base.load_setitems(self)

    def load_append(self) -> None:
        """APPEND: one item of a list."""
        self.check_container(self.stack[-2], (list, deque))
        _Base.load_append(self)

    def load_appends(self) -> None:
        """APPENDS: several items of a list."""
        self.check_container(self.metastack[-1][-1], (list, deque))
        _Base.load_appends(self)


for _code, _load in (
    (pickle.REDUCE, WeightsUnpickler.load_reduce),
    (pickle.NEWOBJ, WeightsUnpickler.load_newobj),
    (pickle.BUILD, WeightsUnpickler.load_build),
    (pickle.SETITEM, WeightsUnpickler.load_setitem),
    (pickle.SETITEMS, WeightsUnpickler.load_setitems),
    (pickle.APPEND, WeightsUnpickler.load_append),
    (pickle.APPENDS, WeightsUnpickler.load_appends),
):
    WeightsUnpickler.dispatch[_code[0]] = _load


def _fill_array(target: Any, state: Any) -> None:
    """Give a fresh array its pickled state, if that describes an array of numbers."""
    version, shape, dtype, is_fortran, data = state
    data = data.encode("latin1") if isinstance(data, str) else data
    numbers = isinstance(dtype, np.dtype) and dtype.kind in "biufc" and isinstance(data, bytes)
    if not numbers or len(data) != math.prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        raise pickle.UnpicklingError("only NumPy arrays of numbers are known as safe")
    target.__setstate__((version, shape, dtype, bool(is_fortran), data))


def _fill_dtype(target: Any, state: Any) -> None:
    """Give a fresh dtype its pickled state, if that is no more than a byte order."""
    version, order, *rest = state
    if (version, *rest) != _PLAIN_DTYPE_STATE or order not in ("<", ">", "|", "="):
        raise pickle.UnpicklingError("only NumPy dtypes of numbers are known as safe")
    target.__setstate__(state)


# --------------------------------------------------------------------------------------------
# Everything


def find_anything(module: str, name: str, fallback: Callable[[str, str], Any]) -> Any:
    """The object for a name in a trusted file; PyTorch's names mean those of this package."""
    if module == "torch" or module.startswith("torch."):
        found = names.find(module, name)
        if found is not None:
            return found
        try:
            found = importlib.import_module("gradlib" + module[len("torch") :])
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            raise pickle.UnpicklingError(f"{module}.{name} does not exist here") from None
        return found
    return fallback(module, name)


def make_unpickler(base: Any) -> Any:
    """An unpickler class on top of `base` that makes whatever the file asks for."""

    class TrustingUnpickler(base):
        """Reads every kind of object; only for files from a source you trust."""

        def __init__(self, file: Any, persistent: Persistent, **options: Any) -> None:
            super().__init__(file, **options)
            self.persistent = persistent

        def persistent_load(self, pid: Any) -> Any:
            return self.persistent(pid)

        def find_class(self, module: str, name: str) -> Any:
            return find_anything(module, name, super().find_class)

    return TrustingUnpickler
