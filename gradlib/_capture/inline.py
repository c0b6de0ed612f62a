"""Kernels and formulas as the NumPy calls that they make: what they look up, compare and decide is known in a plan.

A kernel is run once more with probes in the place of arrays. A probe answers what depends on the layout alone (shape,
dtype, strides), and writes down each call that gets it. Whatever asks for a value, or gets at the memory in a way that
a probe does not see, ends that: the plan then calls the kernel as it is. So the calls are the same, in the same order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .memory import OUT, Made, filled, made, repeated
from .template import Template

ndarray = np.ndarray
LARGE = 1 << 17  # elements from which the time is in the calls, which may be spread over threads
MANY = 24  # calls of one kernel at most
_LOOKS = frozenset("shape dtype ndim size itemsize nbytes strides flags".split())
_METHODS = frozenset(
    "astype clip conj conjugate copy cumsum diagonal dot max mean min prod ravel repeat reshape squeeze sum swapaxes "
    "take transpose view argmax argmin".split()
)


class Unknown(Exception):
    """A kernel asks for something that a probe does not answer."""


class Trace:
    """The calls of one kernel, as lines of text."""

    def __init__(self, draft: Any):
        self.draft = draft
        # text, variables it gives, variables in it, what is known of a new array that it gives
        self.lines: list[tuple[str, tuple, tuple, Made | None]] = []
        self.kept: list[Any] = []
        self.open = True

    def add(self, text: str, outs: tuple, ins: tuple, new: Made | None = None) -> None:
        if not self.open or len(self.lines) >= MANY:
            raise Unknown
        self.lines.append((text, outs, ins, new))

    def text(self, value: Any, ins: list[str]) -> str:
        """How an argument of a call is written; the variables in it are added to `ins`."""
        if type(value) is Probe:
            ins.append(value._name)
            return value._name
        if isinstance(value, (tuple, list)) and any([_has_probe(v) for v in value]):
            inner = "".join(f"{self.text(v, ins)}, " for v in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"
        elif value is None or value is True or value is False or type(value) is int:
            return repr(value) if not isinstance(value, int) or value >= 0 else f"({value})"
        return self.draft.constant(value)

    def probe(self, value: Any, name: str) -> Probe:
        if not isinstance(value, (ndarray, np.generic)):
            raise Unknown
        self.kept.append(value)
        self.draft.laid_out(name, value)
        return Probe(self, value, name)

    def result(self, text: str, ins: list[str], value: Any, new: Made | None = None) -> Any:
        """A new variable for what a call gave; for a tuple one for each part. new: see `memory.made`."""
        if isinstance(value, tuple):
            names = tuple([self.draft.fresh() for _ in value])
            self.add(f"{''.join(f'{n}, ' for n in names)}= {text}", names, tuple(ins))
            return tuple([self.probe(v, n) for v, n in zip(value, names, strict=True)])
        name = self.draft.fresh()
        self.add(f"{name} = {text}", (name,), tuple(ins), new)
        return self.probe(value, name)

    def alike(self, value: Any, beside: Any) -> Any:
        """An operand, in the shape of the one beside it if that is quicker; not where lines are to be one kernel."""
        if type(value) is not Probe or self.draft.fuses:
            return value
        found = repeated(value._value, value._name, _bare(beside), self.draft.constant(filled))
        if found is None:
            return value
        return self.result(found[0], [value._name], filled(value._value, found[1].shape), found[1])


def _has_probe(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any([_has_probe(v) for v in value])
    return type(value) is Probe


def _bare(value: Any) -> Any:
    if type(value) is Probe:
        return value._value
    if isinstance(value, (tuple, list)) and _has_probe(value):
        return type(value)([_bare(v) for v in value])
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items()}
    return value


def _check_new(found: Any, given: Any) -> None:
    """Unknown if what a call gave is something that it was given: it may have been written to."""
    if any([_bare(v) is f for v in _flat(given) for f in _flat(found)]):
        raise Unknown


def _flat(value: Any) -> list:
    if type(value) is Probe or not isinstance(value, (tuple, list, dict)):
        return [value] if isinstance(value, ndarray) else []
    return [x for v in (value.values() if isinstance(value, dict) else value) for x in _flat(v)]


class Probe:
    """Stands for an array while a kernel runs for the sake of its calls."""

    __slots__ = ("_name", "_trace", "_value")

    def __init__(self, trace: Trace, value: Any, name: str):
        self._trace, self._value, self._name = trace, value, name

    @property
    def __class__(self) -> type:  # kernels ask for it
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        if not self._trace.open:
            raise Unknown
        value = self._value
        if name in _LOOKS:
            return getattr(value, name)
        if name == "T":
            return self._trace.result(f"{self._name}.T", [self._name], value.T)
        if name in ("real", "imag"):
            return self._trace.result(f"{self._name}.{name}", [self._name], getattr(value, name))
        if name not in _METHODS:
            raise Unknown

        def method(*args: Any, **kwargs: Any) -> Any:
            if "out" in kwargs:
                raise Unknown
            found = getattr(value, name)(*_bare(args), **_bare(kwargs))
            if found is value:
                return self
            _check_new(found, (args, kwargs))
            ins = [self._name]
            text = f"{self._name}.{name}({_written(self._trace, args, kwargs, ins)}"
            new = None
            if name in ("astype", "copy"):
                new = made(found)
            elif name in ("dot", "clip"):
                call = getattr(value, name)
                if name == "dot" and len(args) == 1:
                    other = _bare(args[0])
                    into = None if _blas(value, other) else lambda out: call(other, out)
                    new = made(found, f"{text}, {OUT})", into)
                else:
                    again = partial(call, *_bare(args), **_bare(kwargs))
                    new = made(found, f"{text}, out={OUT})", lambda out: again(out=out))
            return self._trace.result(f"{text})", ins, found, new)

        return method

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method not in ("__call__", "reduce"):
            raise Unknown
        trace, ins = self._trace, []
        outs = kwargs.pop("out", None)
        if outs is not None and len(outs) != 1:
            raise Unknown
        outs = None if outs is None or outs[0] is None else outs
        name = trace.draft.constant(ufunc) + ("" if method == "__call__" else ".reduce")
        call = ufunc if method == "__call__" else ufunc.reduce
        text = _written(trace, inputs, kwargs, ins)
        if outs is None:
            given, more = _bare(inputs), _bare(kwargs)
            value = call(*given, **more)
            out = f"out={OUT}" if kwargs or method != "__call__" else out_of(ufunc)
            new = made(value, f"{name}({text}, {out})", lambda out: call(*given, **more, out=out))
            return trace.result(f"{name}({text})", ins, value, new)
        out = outs[0]
        if type(out) is not Probe or not isinstance(out._value, ndarray):
            raise Unknown  # what happens to an array that is no probe is not seen
        call(*_bare(inputs), **_bare(kwargs), out=out._value)
        trace.add(f"{name}({text}, out={out._name})", (), (*ins, out._name))
        return out

    def __array_function__(self, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        if kwargs.get("out") is not None:
            raise Unknown
        trace, ins = self._trace, []
        text = f"{trace.draft.constant(function)}({_written(trace, args, kwargs, ins)})"
        given, more = _bare(args), _bare(kwargs)
        found = function(*given, **more)
        _check_new(found, (args, kwargs))
        new = None
        if function in _INTO:
            new = made(
                found, f"{text[:-1]}, out={OUT})", lambda out: function(*given, **more, out=out)
            )
        return trace.result(text, ins, found, new)

    def __getitem__(self, key: Any) -> Any:
        ins = [self._name]
        text = f"{self._name}[{self._trace.text(key, ins)}]"
        return self._trace.result(text, ins, self._value[_bare(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        ins = [self._name]
        text = f"{self._name}[{self._trace.text(key, ins)}] = {self._trace.text(value, ins)}"
        self._value[_bare(key)] = _bare(value)
        self._trace.add(text, (), tuple(ins))

    def __len__(self) -> int:
        return len(self._value)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise Unknown

    __bool__ = __int__ = __float__ = __index__ = __complex__ = __iter__ = __array__ = (
        __contains__
    ) = _refuse
    __hash__ = object.__hash__


def _written(trace: Trace, args: Any, kwargs: dict, ins: list[str]) -> str:
    parts = [trace.text(a, ins) for a in args]
    return ", ".join(parts + [f"{k}={trace.text(v, ins)}" for k, v in kwargs.items()])


def _as_array(trace: Trace, number: Any, array: Any) -> Any:
    """A Python number as an array of the dtype in which NumPy computes with it: quicker, and the same bits."""
    if number.__class__ not in (int, float) or array.__class__ is not ndarray or not array.ndim:
        return number
    if array.dtype.char not in "fd" or not abs(number) <= 1 << 20:  # so that nothing overflows
        return number
    return trace.draft.number(number, array.dtype)


def _blas(a: Any, b: Any) -> bool:
    """Whether NumPy hands the product of two arrays to BLAS, with a result array as without."""
    return (
        b.__class__ is ndarray
        and a.dtype is b.dtype
        and a.dtype.char in "fd"
        and a.ndim == b.ndim == 2
    )


def out_of(function: Any) -> str:
    """How the array that a ufunc writes into is given to it: by its place, which is quicker, or by name.

    function: a ufunc, or one that stands for it in a namespace (of oneMKL, say).
    """
    by_place = getattr(function, "nin", 0) == 1 or function in _BY_PLACE
    return OUT if by_place else f"out={OUT}"


_BY_PLACE = (np.add, np.subtract, np.multiply, np.true_divide, np.matmul)
_INTO = (np.dot, np.concatenate, np.stack)  # write into `out`
_UFUNCS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "@": np.matmul, "==": np.equal,
    "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip  # what an operator calls


def _binary(symbol: str, call: Callable, reflected: bool) -> Callable:
    def method(self: Probe, other: Any) -> Any:
        ins: list[str] = []
        if symbol in "+-*/":
            other = _as_array(self._trace, other, self._value)
        pair = (other, self) if reflected else (self, other)
        if symbol in "+-*/":
            pair = self._trace.alike(pair[0], pair[1]), self._trace.alike(pair[1], pair[0])
        texts = [self._trace.text(v, ins) for v in pair]
        value, new, ufunc = call(*_bare(pair)), None, _UFUNCS.get(symbol)
        if ufunc is not None:
            text = f"{self._trace.draft.constant(ufunc)}({', '.join(texts)}, {OUT})"
            new = made(value, text, lambda out: ufunc(*_bare(pair), out))
        return self._trace.result(f" {symbol} ".join(texts), ins, value, new)

    return method


def _inplace(symbol: str, call: Callable) -> Callable:
    def method(self: Probe, other: Any) -> Any:
        ins = [self._name]
        if not isinstance(self._value, ndarray):
            raise Unknown
        if symbol in "+-*/":
            other = self._trace.alike(other, self)
        text = f"{self._name} {symbol}= {self._trace.text(other, ins)}"
        call(self._value, _bare(other))
        self._trace.add(text, (), tuple(ins))
        return self

    return method


for _symbol, _name in {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}.items():  # fmt: skip
    _call = getattr(operator, f"__{_name}__")
    setattr(Probe, f"__{_name}__", _binary(_symbol, _call, False))
    if _symbol[0] not in "=!<>":
        setattr(Probe, f"__r{_name}__", _binary(_symbol, _call, True))
        setattr(Probe, f"__i{_name}__", _inplace(_symbol, getattr(operator, f"__i{_name}__")))


def _unary(symbol: str, call: Callable) -> Callable:
    def method(self: Probe) -> Any:
        value = call(self._value)
        return self._trace.result(f"{symbol}{self._name}", [self._name], value, made(value))

    return method


setattr(Probe, "__neg__", _unary("-", operator.neg))  # noqa: B010
setattr(Probe, "__invert__", _unary("~", operator.invert))  # noqa: B010


def calls(
    draft: Any,
    function: Callable,
    args: list,
    names: list,
    kwargs: dict,
    results: Any,
    pointwise: bool = False,
) -> tuple | None:
    """The calls of ``function(*args, **kwargs)``, which gave `results`; None if they cannot be told.

    args, names: values, and the variables of those that are arrays (None for the others).
    pointwise: they work on each element alone; large arrays do not matter if they are to be fused.

    Returns:
        (lines, the variables of the results), each line (text, variables it gives, variables in it, `memory.Made` or
        None).
    """
    arrays = [a for a, n in zip(args, names, strict=True) if n is not None]
    if any([not isinstance(a, (ndarray, np.generic)) for a in arrays]):
        return None
    if any([a.size > LARGE for a in arrays]):
        large = pointwise and draft.fuses
        return _calls_of_a_part(draft, function, args, names, kwargs, results) if large else None
    key = _key(function, args, names, kwargs)
    templates = draft.learned.templates
    if key is not None and key in templates:
        return templates[key].lines(draft, names, args, kwargs)
    before = draft.mark()
    trace = Trace(draft)
    probes = {id(a): Probe(trace, a, n) for a, n in zip(args, names, strict=True) if n is not None}
    given = [a if n is None else probes[id(a)] for a, n in zip(args, names, strict=True)]
    try:
        with np.errstate(all="ignore"):
            found = function(*given, **kwargs)
        outs = _outs(found, results)
    except Exception:
        outs = None
    trace.open = False
    known = {*names, None}
    if outs is not None and (len(set(outs)) < len(outs) or known & set(outs)):
        outs = None
    if outs is None:
        draft.back_to(*before)
    found = None if outs is None else (trace.lines, outs)
    if key is not None:
        texts = _texts(trace.lines) if found else []
        used = {n: draft.names[n] for text in texts for n in _CONSTANT.findall(text)}
        for name in names:  # of an array that is a constant, in whose place another one may stand
            used.pop(name, None)
        others = [a for a, n in zip(args, names, strict=True) if n is None]
        templates[key] = template = Template(found, names, used, function, others, kwargs)
        if found is not None:  # written as it will be the next time
            draft.back_to(*before)
            return template.lines(draft, names, args, kwargs)
    return found


PART = 61  # a number of elements that is no other number
_PART = re.compile(rf"\b{PART}\b")


def _calls_of_a_part(
    draft: Any, function: Callable, args: list, names: list, kwargs: dict, result: Any
) -> tuple | None:
    """The calls for large arrays of one shape, on each element alone: those for some of the elements.

    Only for what is to be fused: such calls of whole arrays would be slow.
    """
    if result.__class__ is not ndarray or not result.flags.c_contiguous:
        return None
    given = []
    for a, n in zip(args, names, strict=True):
        if n is not None and a.ndim:
            repeated = not any(a.strides)
            if a.shape != result.shape or a.dtype.char not in "fd?":
                return None
            if not (repeated or a.flags.c_contiguous):
                return None
            if repeated:
                a = np.broadcast_to(a[(0,) * a.ndim], (PART,))
            else:
                a = a.reshape(-1)[:PART].copy()
        given.append(a)
    before = draft.mark()
    found = calls(draft, function, given, names, kwargs, result.reshape(-1)[:PART].copy())
    if found is None:
        return None
    lines = []
    for text, outs, ins, new in found[0]:
        if (
            (new is None and outs)
            or _PART.search(text)
            or any([_has_part(draft.names[c]) for c in _CONSTANT.findall(text)])
        ):
            draft.back_to(*before)
            return None
        if new is not None and new.shape == (PART,):
            new = new._replace(shape=result.shape)
        lines.append((text, outs, ins, new))
    return lines, found[1]


def _has_part(value: Any) -> bool:
    """Whether a constant depends on how many elements there were."""
    return bool(_PART.search(repr(value))) or PART in getattr(value, "shape", ())


def always_declines(draft: Any, function: Callable, args: list, names: list, kwargs: dict) -> bool:
    """Whether an overlay gives NotImplemented for all arrays of these layouts, whatever values they have."""
    before, trace = draft.mark(), Trace(draft)
    given = [a if n is None else Probe(trace, a, n) for a, n in zip(args, names, strict=True)]
    try:
        found = function(*given, **kwargs)
    except Exception:  # it asks for a value, or goes beyond NumPy
        found = None
    trace.open = False
    draft.back_to(*before)
    return found is NotImplemented


def holds_arrays(value: Any) -> bool:
    """Whether something has arrays in it, whose values are others each time."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return any([holds_arrays(v) for v in value])
    return isinstance(value, (ndarray, np.generic)) or hasattr(value, "_array")


_CONSTANT = re.compile(r"\bc\d+\b")


def _key(function: Any, args: list, names: list, kwargs: dict) -> tuple | None:
    """What the calls of a kernel depend on: layouts of arrays, which of them are the same, and other arguments."""
    places: dict[int, int] = {}
    parts: list[Any] = [function]
    for k, (a, n) in enumerate(zip(args, names, strict=True)):
        if n is None:
            parts.append(
                (type(a), repr(a)) if isinstance(a, (int, float, str, tuple, type(None))) else id(a)
            )
        else:
            place = places.setdefault(id(a), k)
            parts.append((type(a), a.dtype, a.shape, a.strides, a.flags.writeable, place))
    for name, value in kwargs.items():
        simple = isinstance(value, (int, float, str, tuple, type(None), np.dtype))
        parts.append((name, type(value), repr(value) if simple else id(value)))
    try:
        hash(tuple(parts))
    except TypeError:
        return None
    return tuple(parts)


def _texts(lines: list) -> list[str]:
    return [text for line in lines for text in (line[0], line[3].text if line[3] else "")]


def _outs(found: Any, results: Any) -> tuple | None:
    """The variables of the results, if these are those of the calls to the last bit."""
    several = isinstance(results, (tuple, list))
    found, results = (tuple(found), results) if several else ((found,), (results,))
    if len(found) != len(results):
        return None
    names: list[str] = []
    for f, r in zip(found, results, strict=True):
        if r is None or f is None:
            return None
        value = _bare(f)
        if type(f) is not Probe or type(value) is not type(r) or value.dtype != r.dtype:
            return None
        if value.shape != r.shape or value.strides != r.strides or value.tobytes() != r.tobytes():
            return None
        names.append(f._name)
    return tuple(names)
