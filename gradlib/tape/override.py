"""``__torch_function__``: classes and modes that take the place of the library's functions.

Nothing asks for them until there is one. The first instance of a subclass of Tensor, the first mode, or an object of a
foreign class that a function cannot use calls `arm`: every public function and method gets the code of an `Entry`
instead of its own, and from then on looks at the types of its arguments. The function objects stay the same (as in
`op.write`), so that it does not matter where a program keeps them; a process without overrides pays nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .modes import state

SUBCLASSES, ALL = 1, 2  # values of state.overrides_off: what is not asked

armed = False  # whether functions ask
lasting = False  # whether there is, or was, something that may override at any time
_lock = threading.RLock()
_properties: list[
    tuple[type, str, property, tuple]
] = []  # with the functions that they had before functions asked
_entries: dict[FunctionType, Entry] = {}
_namespaces: list[dict[str, Any]] = []
_classes: list[type] = []
# `x + y` is told to a handler as the method; the operator and the method mean the same
_METHODS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__mul__": "mul",
    "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder",
    "__imod__": "remainder_", "__matmul__": "matmul", "__pow__": "pow", "__neg__": "neg", "__abs__": "abs",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
# Methods that belong to the object, not to what it holds, and what makes tensors of other classes.
_OWN = {
    "__init__", "__new__", "__hash__", "__dir__", "__iter__", "__init_subclass__", "__getattribute__", "__getattr__",
    "__dict__", "__setattr__", "__delattr__", "__delitem__", "__torch_function__", "__torch_dispatch__",
    "__class_getitem__",
    "as_subclass", "new_tensor", "solve", "symeig", "eig", "lstsq", "reinforce",
}  # fmt: skip
_PRIVATE = {"_is_view", "_version", "_base", "_grad", "_backward_hooks", "_is_zerotensor"}
# Functions of a namespace that take no tensors, or are asked about any object.
IGNORED = {
    "is_tensor", "is_storage", "typename", "save", "load", "compile", "vmap", "broadcast_shapes", "can_cast",
    "promote_types", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "set_default_dtype",
    "get_default_dtype", "set_default_device", "get_default_device", "set_printoptions", "is_grad_enabled",
    "is_inference_mode_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled", "use_deterministic_algorithms",
    "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode", "get_deterministic_debug_mode", "set_num_threads", "get_num_threads",
    "set_num_interop_threads", "get_num_interop_threads", "set_flush_denormal", "set_warn_always",
    "is_warn_always_enabled", "set_default_tensor_type", "set_float32_matmul_precision",
    "get_float32_matmul_precision", "get_device_module", "is_autocast_enabled", "set_autocast_enabled",
    "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_dtype", "set_autocast_dtype",
    "get_autocast_cpu_dtype", "set_autocast_cpu_dtype", "get_autocast_gpu_dtype", "set_autocast_gpu_dtype",
    "is_autocast_cache_enabled", "set_autocast_cache_enabled", "clear_autocast_cache", "autocast_increment_nesting",
    "autocast_decrement_nesting", "as_torch", "printoptions", 
}  # fmt: skip
# Functions that make tensors: only modes are asked.
FACTORIES = {
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "from_file", "scalar_tensor",
    "empty", "zeros", "ones", "full", "eye", "arange", "range", "linspace", "logspace", "rand", "randn", "randint",
    "randperm", "normal", "empty_strided", "empty_permuted", "tril_indices", "triu_indices", "bartlett_window",
    "blackman_window", "hamming_window", "hann_window", "kaiser_window", "fftfreq", "rfftfreq",
}  # fmt: skip


def disabled(func: Any, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """The ``__torch_function__`` of classes that are treated as Tensor itself, such as Parameter."""
    with Off(SUBCLASSES):
        return func(*args, **(kwargs or {}))


def overrides(kind: type) -> bool:
    """Whether instances of a class take the place of functions they are given to."""
    handler = getattr(kind, "__torch_function__", None)
    return handler is not None and handler is not disabled and kind not in _PLAIN


class _Kinds(set[type]):
    """A set of classes that is hashed as the object that it is: it is among the constants of code (see `_code`)."""

    __hash__ = object.__hash__  # type: ignore[assignment]


_PLAIN = _Kinds((int, float, bool, complex, str, slice, type(None), type(...)))


def plain(*kinds: type) -> None:
    """Classes that override nothing; most arguments are of these."""
    _PLAIN.update(kinds)


class Off:
    """A block in which this thread does not ask: subclasses and foreign classes, or modes either."""

    __slots__ = ("before", "what")

    def __init__(self, what: int):
        self.what = what

    def __enter__(self) -> None:
        self.before = state.overrides_off
        state.overrides_off = max(self.what, self.before) if self.what else 0

    def __exit__(self, *exc: object) -> None:
        state.overrides_off = self.before


def overloaded(values: Iterable[Any]) -> list:
    """The first value of each class that overrides, in the order in which they are asked: subclasses first."""
    found: list = []
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is list or kind is tuple:
            _merge(found, [v for v in value if type(v) not in _PLAIN and overrides(type(v))])
        elif overrides(kind):
            _merge(found, [value])
    return found


def _merge(found: list, values: list) -> None:
    for value in values:
        kind = type(value)
        if any(type(f) is kind for f in found):
            continue
        places = (i for i, f in enumerate(found) if issubclass(kind, type(f)))
        found.insert(next(places, len(found)), value)


class Entry:
    """A function that asks first: what runs otherwise, and what handlers are told that was called."""

    __slots__ = ("factory", "run", "told")
    kind = type  # `a.__class__` is what an object says

    def __init__(self, run: FunctionType, told: Any, factory: bool):
        self.run, self.told, self.factory = run, told, factory

    def call(self, args: tuple, kwargs: dict) -> Any:
        off, modes = state.overrides_off, state.function_modes
        found = ()
        if not off and not self.factory:
            for value in args:
                if type(value) not in _PLAIN:
                    found = overloaded((*args, *kwargs.values()))
                    break
            else:
                if kwargs:
                    found = overloaded(kwargs.values())
        if found or (modes and off < ALL):
            return ask(self.told, found, args, kwargs or None)
        if self.factory:
            with Off(SUBCLASSES):
                return self.run(*args, **kwargs)
        return self.run(*args, **kwargs)


def ask(func: Any, found: Iterable[Any], args: tuple, kwargs: dict | None) -> Any:
    """What the innermost mode, or else the first of `found` that has an answer, gives for ``func(*args, **kwargs)``."""
    types = tuple([type(f) for f in found])
    given = (func, types, args) if kwargs is None else (func, types, args, kwargs)
    modes = state.function_modes
    if modes and state.overrides_off < ALL:
        state.function_modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(*given)
        finally:
            state.function_modes = modes
        if result is not NotImplemented:
            return result
        if not found:
            raise TypeError(_refusal(func, [type(modes[-1])], "mode object"))
    for value in found:
        result = value.__torch_function__(*given)
        if result is not NotImplemented:
            return result
    raise TypeError(_refusal(func, [type(f) for f in found], "tensor subclass"))


def _refusal(func: Any, kinds: list[type], what: str) -> str:
    name = name_of(func) or getattr(func, "__name__", repr(func))
    asked = "\n".join(f"  - {what} {kind}" for kind in kinds)
    return (
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n\n"
        f"{asked}\n\n"
        "A handler that has no answer of its own can call super().__torch_function__(func, types, args, kwargs)."
    )


def default(cls: type, func: Any, types: Iterable[type], args: tuple, kwargs: dict | None) -> Any:
    """Tensor's own ``__torch_function__``: call `func`, and give its tensors the class `cls`."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with Off(SUBCLASSES):
        result = func(*args, **(kwargs or {}))
        return result if func in keeps_class() else _of_class(result, cls)


def keeps_class() -> set:
    """Attributes whose tensors are those that somebody put there."""
    tensor = _classes[0]
    return {getattr(tensor, name).__get__ for name in ("_base", "grad")}


def _of_class(value: Any, cls: type) -> Any:
    tensor = _classes[0]
    if cls is tensor:
        return value
    if isinstance(value, tensor):
        return value if isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, tuple | list):
        parts = [_of_class(v, cls) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


# -- giving functions their entry --------------------------------------------------------------------------------------


def overridable(namespace: dict[str, Any]) -> None:
    """Let the public functions of a namespace be overridden."""
    with _lock:
        _namespaces.append(namespace)
        if armed:
            _arm_namespace(namespace)


def overridable_class(kind: type) -> None:
    """Let the methods and properties of Tensor be overridden."""
    _classes.append(kind)
    plain(kind)


def met(fn: Callable, args: Iterable[Any], kwargs: dict | None = None) -> bool:
    """Whether an argument that `fn` could not use overrides it: then `fn`, called again, asks for it."""
    if state.overrides_off or not overloaded((*args, *(kwargs or {}).values())):
        return False
    arm()
    return fn in _entries


def again(fn: Callable, *args: Any, **kwargs: Any) -> Any:
    """In an ``except`` block: call `fn` again where an argument overrides it; else the exception goes on."""
    if met(fn, args, kwargs):
        return fn(*args, **kwargs)
    raise


def arm(for_good: bool = True) -> None:
    """From now on functions ask."""
    global armed, lasting
    with _lock:
        lasting = lasting or for_good
        if armed:
            return
        armed = True
        for kind in _classes:
            _arm_class(kind)
        for namespace in _namespaces:
            _arm_namespace(namespace)


@contextmanager
def for_now() -> Iterator[None]:
    """A block in which functions ask; after it they do not, unless something overrides them for good."""
    before = armed
    arm(for_good=False)
    try:
        yield
    finally:
        if not (before or lasting):
            _disarm()


def _disarm() -> None:
    """Give functions and properties back what they were."""
    global armed
    with _lock:
        armed = False
        for fn, entry in _entries.items():
            fn.__code__, fn.__defaults__ = entry.run.__code__, entry.run.__defaults__
            fn.__kwdefaults__ = entry.run.__kwdefaults__
            if fn.__dict__.get("__wrapped__") is entry.run:
                del fn.__dict__["__wrapped__"]
        for owner, name, kept, before in _properties:
            _give_accessors(owner, name, kept, before)
        _entries.clear()
        _properties.clear()


def _arm_namespace(namespace: dict[str, Any]) -> None:
    for name, value in list(namespace.items()):
        if isinstance(value, FunctionType) and name[0] != "_" and name not in IGNORED:
            if value.__name__ not in namespace:
                value.__name__ = name
            give_entry(value, value, name in FACTORIES)
            inside = value.__dict__.get("guards")
            if inside is not None:
                give_entry(inside, value)  # what other modules of the library call


def _arm_class(kind: type) -> None:
    for owner in reversed(kind.__mro__[:-1]):
        for name, value in list(vars(owner).items()):
            dunder = name.startswith("__")
            if name in _OWN or (name[0] == "_" and not dunder and name not in _PRIVATE):
                continue
            if isinstance(value, FunctionType):
                method = getattr(kind, _METHODS.get(name, name))
                told = method if isinstance(method, FunctionType) else value
                if not hasattr(kind, told.__name__):
                    told.__name__ = name  # handlers are told names that programs know
                give_entry(value, told)
            elif isinstance(value, property):
                _arm_property(owner, name, value)


def _arm_property(owner: type, name: str, of: property) -> None:
    """Let a property ask. It stays the object that it is: programs keep ``Tensor.grad.__get__`` in tables of theirs.

    It gets functions of its own, as `Tensor.real` and `gradlib.real` may share one.
    """
    before = of.fget, of.fset, of.fdel
    _properties.append((owner, name, of, before))
    accessors = tuple(_copy(f) if isinstance(f, FunctionType) else f for f in before)
    for accessor, kind in zip(accessors, ("__get__", "__set__", "__delete__"), strict=True):
        if isinstance(accessor, FunctionType):
            give_entry(accessor, getattr(of, kind))
    _give_accessors(owner, name, of, accessors)


def _give_accessors(owner: type, name: str, of: property, accessors: tuple) -> None:
    fget, fset, fdel = accessors
    of.__init__(fget, fset, fdel, of.__doc__)
    setattr(owner, name, of)  # the interpreter forgets which function it found there


# `entry`, `plain` and `state` are constants that are still to be put in; `plain`: classes that override nothing
_SLOW = "return 'entry'.call(args, kwargs)"
_QUICK = """if not kwargs:
   for a in args:
    if 'entry'.kind(a) not in 'plain': break
   else:
    if not 'state'.function_modes: return 'entry'.run(*args)
  return 'entry'.call(args, kwargs)"""


@cache
def _entry(cells: int, body: str) -> CodeType:
    """The code of a function with that body, for functions with a closure of so many variables: it has as many, which
    it does not read."""
    names = ", ".join(f"v{i}" for i in range(cells))
    text = f"def around({names}):\n def asking(*args, **kwargs):\n  {body}\n"
    scope: dict[str, Any] = {}
    exec(f"{text}  {names or None}\n return asking\n", scope)
    code = scope["around"](*range(cells)).__code__
    return code.replace(co_filename=__file__)


def give_entry(fn: FunctionType, told: Any, factory: bool = False) -> None:
    """Let `fn` ask before it runs; `told` is what handlers are told that was called."""
    if fn in _entries:
        return
    entry = _entries[fn] = Entry(_copy(fn), told, factory)
    fn.__code__ = _code(entry, fn.__code__, _SLOW if factory else _QUICK)
    fn.__dict__.setdefault("__wrapped__", entry.run)  # which says what the parameters are


def _code(entry: Any, old: CodeType, body: str = _SLOW) -> CodeType:
    code = _entry(len(old.co_freevars), body)
    known = {"entry": entry, "plain": _PLAIN, "state": state}
    constants = tuple([known.get(c, c) if c.__class__ is str else c for c in code.co_consts])
    return code.replace(co_consts=constants, co_name=old.co_name)


def _copy(fn: FunctionType) -> FunctionType:
    made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__, made.__doc__ = fn.__kwdefaults__, fn.__doc__
    made.__annotations__, made.__qualname__ = fn.__annotations__, fn.__qualname__
    made.__module__ = fn.__module__
    return made


def running(fn: FunctionType) -> FunctionType:
    """The function whose code runs in the end: `fn`, or the copy that its entry calls."""
    entry = _entries.get(fn)
    return fn if entry is None else entry.run


def instead(fn: FunctionType, entry: Any) -> FunctionType:
    """Let `fn` call ``entry.call(args, kwargs)`` in the place of its own code, which the function that is returned has.

    It holds whether functions ask (see `arm`) or not, and goes on to hold when that changes.
    """
    fn = running(fn)
    before = _copy(fn)
    fn.__code__ = _code(entry, fn.__code__)
    fn.__dict__.setdefault("__wrapped__", before)
    return before


# -- names -------------------------------------------------------------------------------------------------------------


def name_of(func: Any) -> str | None:
    """``torch.add``, ``torch.Tensor.shape.__get__``: under which name a program finds what a handler is told."""
    for namespace in _namespaces:
        for name, value in namespace.items():
            if value is func and not isinstance(value, ModuleType):
                return namespace["__name__"].replace("gradlib", "torch", 1) + "." + name
    owner = getattr(func, "__self__", None)
    for kind in _classes:
        for name in dir(kind):
            value = getattr(kind, name, None)
            if value is func:
                return f"torch.Tensor.{name}"
            if owner is not None and value is owner:
                return f"torch.Tensor.{name}.{func.__name__}"
    return None


def ignored() -> set:
    """Functions of the namespaces that ask nobody, or only modes."""
    names = IGNORED | FACTORIES
    return {namespace[name] for namespace in _namespaces for name in names if name in namespace}


def functions() -> dict[Any, list[Any]]:
    """What can be overridden, by the namespace it is in."""
    arm()  # for good: what is listed is what handlers are told
    told = {id(e.told): e.told for e in _entries.values() if not e.factory}
    found: dict[Any, list[Any]] = {}
    for namespace in _namespaces:
        members = [
            v for v in namespace.values() if isinstance(v, Callable) and told.pop(id(v), None)
        ]
        found[sys.modules[namespace["__name__"]]] = members
    found[_classes[0]] = list(told.values())
    return found
