"""Subclasses of Tensor with a ``__torch_dispatch__``: asked in the place of kernels, below autograd.

Such a tensor has an array of one of two classes that no fast path takes: `Wrapped` tells shape, dtype and strides and
has no values (``Tensor._make_wrapper_subclass``), `Held` is the array of a tensor that keeps its own. So an op that is
given one comes to `interpret.general`, which comes here: the classes of the arguments are asked for the result, with
autograd off, and the op is recorded around that with its own formula. A backward pass runs the formulas on Tensors
while such a tensor lives, so that the classes are asked for its ops, too.

What a handler is told is an op of `aten` with PyTorch's arguments, as far as `calls` knows them. Called inside of its
handler with other tensors, it runs the op that was declared.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ..op import interpret
from ..op.inplace import finish
from ..operators import public
from ..tape import arrays, dtypes, override
from ..tape.device import CPU
from ..tape.device import device as Device
from ..tape.layout import strided
from ..tape.modes import FORWARD_AD, NO_GRAD, Flag, set_bits, shared, state
from ..tape.source import here
from ..tape.storage import bump, share
from ..tape.tensor import Tensor
from ..tape.valueless import Valueless
from . import aten
from .calls import DECOMPOSED, Call

new = object.__new__
_NOTHING = bytes(64)
_living: dict[int, weakref.ref] = {}


class Wrapped(Valueless):
    """Shape, dtype, strides and device of a tensor whose values are where its class keeps them."""

    refusal = (
        "{} needs the values of a tensor whose class keeps them elsewhere: __torch_dispatch__ is asked for declared "
        "ops only"
    )
    place: Device
    told_strides: tuple[int, ...]  # in bytes
    told_offset: int  # in elements

    @property
    def strides(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.told_strides

    @property
    def flags(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(
            c_contiguous=_in_order(self.shape[::-1], self.told_strides[::-1], self.itemsize),
            f_contiguous=_in_order(self.shape, self.told_strides, self.itemsize),
            writeable=True,
        )

    @property
    def base(self) -> None:  # type: ignore[override]
        return None

    def get(self) -> NoReturn:
        """Refused: what copies an array to the host asks for it."""
        raise RuntimeError(
            ".numpy() and .tolist() are not supported for tensor subclasses that keep their values elsewhere "
            "(Tensor._make_wrapper_subclass): call it on the tensors that the class keeps"
        )

    @property
    def nowhere(self) -> int:
        """What is taken from its address, which is nobody's, before users see it."""
        return self.__array_interface__["data"][0]


class Held(np.ndarray):
    """The array of a tensor that its class shall be asked about, although it has values."""

    def get(self) -> np.ndarray:
        """What copies an array to the host: the values."""
        return self.view(np.ndarray)


KINDS = (Wrapped, Held)


class _Kernels:
    """What stands for the backend of `Wrapped` arrays: it has no kernels."""

    name = "wrapped"

    def device_of(self, array: Wrapped) -> Device:
        return array.place

    def __getattr__(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"a function needs the values of a tensor ({name}) whose class keeps them elsewhere, and is no op that its "
            "__torch_dispatch__ can be asked for: call it on the tensors that the class keeps"
        )


def _in_order(shape: tuple, strides: tuple, step: int) -> bool:
    """Whether elements follow each other without gaps, the first dimension fastest."""
    if 0 in shape:
        return True
    for length, stride in zip(shape, strides, strict=True):
        if length != 1:
            if stride != step:
                return False
            step *= length
    return True


# -- making tensors ----------------------------------------------------------------------------------------------------

_REFUSED = ("dispatch_device", "dispatch_layout", "_extra_dispatch_keys")


def make_wrapper(
    cls: Any,
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int = 0,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    **others: Any,
) -> Any:
    """``Tensor._make_wrapper_subclass``."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            "class inherits from Tensor."
        )
    if not cls._dispatches:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    asked = [name for name in _REFUSED if others.get(name)]
    if dispatch_sizes_strides_policy or asked:
        what = ", ".join(asked or ["dispatch_sizes_strides_policy"])
        raise NotImplementedError(
            f"_make_wrapper_subclass: {what} is not supported: sizes, strides and device are those that are given"
        )
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    shape = tuple(map(int, size))
    array: Any = np.ndarray.__new__(Wrapped, shape, dtype.np, _NOTHING, 0, (0,) * len(shape))
    if strides is None:
        strides = [int(np.prod([max(n, 1) for n in shape[i + 1 :]])) for i in range(len(shape))]
    elif len(strides) != len(shape):
        raise RuntimeError(
            f"_make_wrapper_subclass: got {len(strides)} strides for {len(shape)} dimensions"
        )
    array.told_strides = tuple(int(s) * array.itemsize for s in strides)
    array.told_offset = int(storage_offset or 0)
    array.place = CPU if device is None else public.empty(0, device=device).device
    return _hold(_blank(cls, array), requires_grad)


def make_holder(cls: Any, data: Tensor, requires_grad: bool = False) -> Any:
    """``Tensor._make_subclass`` of a class with a ``__torch_dispatch__``."""
    out = held(_blank(cls, data._array))
    return out.requires_grad_(True) if requires_grad else out


def held(tensor: Any) -> Any:
    """A tensor of such a class, with values, from now on asked about."""
    array = tensor._array
    if array.__class__ is np.ndarray:
        tensor._array = array.view(Held)
    elif not isinstance(array, KINDS):
        raise NotImplementedError(
            f"{type(tensor).__name__} with a __torch_dispatch__ cannot be made on a {tensor.device.type} tensor: wrap "
            "it with Tensor._make_wrapper_subclass"
        )
    return _hold(tensor, False)


def _blank(cls: Any, array: Any) -> Any:
    out = new(cls)
    out._array, out._rg, out._fn, out._nr, out._grad, out._view = array, False, None, 0, None, None
    out._ver = 0
    return out


def _hold(tensor: Any, requires_grad: bool) -> Any:
    """Know of a new tensor, as long as it lives."""
    if not override.lasting and override.overrides(type(tensor)):
        override.arm()
    key = id(tensor)
    _living[key] = weakref.ref(tensor, lambda _: _forget(key))
    shared.subclasses = sys.modules[__name__]
    if requires_grad:
        tensor.requires_grad_(True)
    return tensor


def _forget(key: int) -> None:
    _living.pop(key, None)
    if not _living:
        shared.subclasses = None


def copy_object(tensor: Tensor) -> Any:
    """Another object for the same values, with the attributes of the program and without history."""
    cls = type(tensor)
    out = _blank(cls, tensor._array)
    out.__dict__.update(tensor.__dict__)
    for kind in cls.__mro__:
        if not issubclass(kind, Tensor) or kind is Tensor:
            continue
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(tensor, name):
                setattr(out, name, getattr(tensor, name))
    return _hold(out, False)


# -- asking ------------------------------------------------------------------------------------------------------------


def among(values: Iterable[Any]) -> bool:
    """Whether there is a tensor that its class is asked about."""
    if state.dispatch_off:
        return False
    for value in values:
        array = getattr(value, "_array", None)
        if array.__class__ is Wrapped or (array.__class__ is Held and type(value)._dispatches):
            return True
        if value.__class__ in (list, tuple) and among(value):
            return True
    return False


def asked_types(tensors: Iterable[Any]) -> list[type]:
    """The classes of `tensors` that are asked, the most derived one first."""
    found: list[type] = []
    for tensor in tensors:
        kind = type(tensor)
        if isinstance(tensor, Tensor) and kind not in found and kind._dispatches:
            place = next((i for i, k in enumerate(found) if issubclass(kind, k)), len(found))
            found.insert(place, kind)
    return found


def ask(func: Any, tensors: Iterable[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the first of the classes of `tensors` that has an answer gives for ``func(*args, **kwargs)``."""
    found = asked_types(tensors)
    for kind in found:
        result = kind.__torch_dispatch__(func, tuple(found), tuple(args), kwargs)
        if result is not NotImplemented:
            return result
    asked = "\n".join(f"  - tensor subclass {kind}" for kind in found)
    raise TypeError(
        f"Multiple dispatch failed for 'torch._ops.{func}'; all __torch_dispatch__ handlers returned "
        f"NotImplemented:\n\n{asked}\n"
    )


def told(call: Call, tensors: Iterable[Any], mode: Any = None) -> Any:
    """What handlers give for a call, below autograd; `mode` is asked in the place of the classes."""
    args, kwargs = call.told()
    before, bits = state.dispatched, state.bits
    state.dispatched = (*before, call)
    set_bits(bits & ~FORWARD_AD | NO_GRAD)
    try:
        if mode is not None:
            types = tuple(asked_types(tensors))
            return mode.__torch_dispatch__(call.operator, types, tuple(args), kwargs)
        return ask(call.operator, tensors, args, kwargs)
    finally:
        state.dispatched = before
        set_bits(bits)


def call(op: Any, args: tuple, attrs: tuple, answer: Any = told) -> Any:
    """The result of an op on prepared arguments, some of which are of such classes, with its history.

    answer: gives the result for a `Call` and the tensors among its arguments; modes are asked before the classes.
    """
    composed = DECOMPOSED.get(op)
    if composed is not None:
        result = composed(args, attrs)
        if result is not NotImplemented:
            return result
    plain = tuple([a.value if isinstance(a, interpret.Number) else a for a in args])
    out = answer(Call(aten.of_call(op, args), op, plain, attrs), plain)
    outs = list(out) if op.n_out != 1 else [out]
    if not all([isinstance(o, Tensor) for o in outs]):
        return out  # a handler may give anything; then there is nothing to record
    seen = {id(a) for a in args}
    outs = [copy_object(o) if id(o) in seen or o._rg else o for o in outs]
    for o in outs:
        _settle(o)
    return interpret.connect(op, args, attrs, outs, ())


def _settle(out: Tensor) -> None:
    """A result that shares its version counter with nobody yet keeps what the handler made of it."""
    out._fn, out._nr, out._rg = None, 0, False


def write(op: Any, tensor: Tensor, others: tuple, attrs: tuple, records: bool) -> Tensor:
    """The in-place form of an op; the tensor is what its class has made of it."""
    op = getattr(op, "op", op)
    args = interpret.prepare(op, (tensor, *others))
    if args[0] is not tensor:
        raise RuntimeError(
            f"result type {args[0].dtype.scalar_type} can't be cast to the desired output type "
            f"{tensor.dtype.scalar_type}"
        )
    plain = tuple([a.value if isinstance(a, interpret.Number) else a for a in args])
    node = None
    if records:
        if tensor._view is not None:
            raise NotImplementedError(
                f"{op.public}_ on a view of a tensor whose class is asked (__torch_dispatch__) is not recorded: write "
                "to the tensor itself, or use the out-of-place op"
            )
        kept = tensor
        if op.tensors[0] in op.saved_tensors:  # the old value
            with Flag(NO_GRAD, True):
                kept = copy_object(tensor.clone())
        if tensor._rg and kept is not tensor:
            kept._rg, kept._fn, kept._nr = True, tensor._fn, tensor._nr
        node = interpret.make_node(op, (kept, *args[1:]), attrs, tensor._array.shape)
    told(Call(aten.of_call(op, args, inplace=True), op, plain, attrs, writes=True), plain)
    bump(tensor, here(), op.public + "_")
    if node is not None:
        finish(op, node, tensor, args, ())
    return tensor


# -- functions that are no declared ops --------------------------------------------------------------------------------


def function(name: str, run: Any, *args: Any, **kwargs: Any) -> Any:
    """What the classes of tensors among `args` give for a function that is told by a name of `aten`."""
    given = Call(aten.operator(name), None, args, (), run=run, kwargs=kwargs)
    return told(given, args)


def made(factory: Any, like: Tensor, *args: Any, **kwargs: Any) -> Any:
    """What the class of `like` gives for a function that makes a tensor like it."""
    given = {name: value for name, value in kwargs.items() if value is not None}
    return function(factory.__name__, factory, like, *args, **given)


def detach(tensor: Tensor) -> Any:
    """``tensor.detach()``"""
    out = function("detach", lambda t: t.detach(), tensor)
    if out is tensor or out._rg:
        out = copy_object(out)
    out._ver = share(tensor)
    return out


def item(tensor: Tensor) -> Any:
    """``tensor.item()``"""
    return function("_local_scalar_dense", lambda t: t.item(), tensor)


def accumulated(have: Tensor | None, grad: Tensor, create_graph: bool) -> Tensor:
    """The new ``.grad`` of a leaf."""
    if have is None:
        return grad if create_graph else grad.detach()
    if create_graph:
        return have + grad
    with Flag(NO_GRAD, True):
        return have.add_(grad)


def without_dispatch(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``func(*args, **kwargs)`` on the values that tensors hold; see `Tensor.__torch_dispatch__`."""
    before, state.dispatch_off = state.dispatch_off, True
    try:
        return func(*args, **kwargs)
    finally:
        state.dispatch_off = before


def values_held(value: Any) -> Any:
    """The tensors among arguments as plain ones, on the arrays that they hold."""
    if isinstance(value, list | tuple):
        return type(value)([values_held(v) for v in value])
    if not isinstance(value, Tensor):
        return value
    if value._array.__class__ is Wrapped:
        raise NotImplementedError(
            f"{type(value).__name__} has no values of its own (it was made by Tensor._make_wrapper_subclass): its "
            "__torch_dispatch__ has to compute with the tensors that it keeps"
        )
    if value._array.__class__ is not Held:
        return value
    out = Tensor._make(value._array.view(np.ndarray))
    out._ver = share(value)
    return out


class _DisableTorchDispatch:
    """A block in which no class is asked: tensors that hold values are what they hold."""

    def __enter__(self) -> None:
        self.before, state.dispatch_off = state.dispatch_off, True

    def __exit__(self, *exc: object) -> None:
        state.dispatch_off = self.before


arrays.enter("wrapped", _Kernels, lambda: None, Wrapped)
subclasses: Any = sys.modules[__name__]
