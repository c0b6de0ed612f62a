"""CuPy's ufuncs: its loops and its choice among them, computed by NumPy's functions of the same names."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import api
from .array import ndarray
from .launch import compute
from .machine import machine

_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 2}
_WEAK = (int, float, complex)  # Python's bool is as strong as an array of bool
_SCALARS = (*_WEAK, bool, np.generic)
# computed or refused here; others may have a rule of their own
OPERANDS = (ndarray, np.ndarray, *_SCALARS)
_NUMPY = {"fix": np.trunc, "logical_not": np.logical_not}
EXACT = {"nextafter"}  # not by way of float32
_SCATTER = {
    "add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip
_SCATTERED = {  # dtypes that CuPy has atomics for
    "add": "iqefdIQ", "subtract": "iI", "maximum": "iqfdIQ", "minimum": "iqfdIQ",
    "bitwise_and": "iqIQ", "bitwise_or": "iqIQ", "bitwise_xor": "iqIQ",
}  # fmt: skip


def check_operand(arg: Any) -> Any:
    """A device array or a number; NumPy arrays are refused."""
    if isinstance(arg, (ndarray, *_SCALARS)):
        return arg
    if hasattr(arg, "__cuda_array_interface__"):
        raise NotImplementedError("the simulated device takes only its own arrays")
    raise TypeError(f"Unsupported type {type(arg)}")


def wide(dtype: np.dtype) -> np.dtype:
    """Half types are computed in float32 and rounded once, as CuPy's kernels do."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


class ufunc:
    """A CuPy ufunc."""

    def __init__(self, public: str, name: str, types: list[str]):
        self.name, self.types, self.__name__ = name, types, public
        self.fn = _NUMPY.get(public) or getattr(np, public, None) or getattr(np, name[5:])
        pairs = [t.split("->") for t in types]
        self.loops = [(tuple(map(api.dtype_of, i)), tuple(map(api.dtype_of, o))) for i, o in pairs]
        self.nin, self.nout = len(self.loops[0][0]), len(self.loops[0][1])
        self.nargs = self.nin + self.nout
        self.cache: dict = {}

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def __call__(self, *args: Any, out=None, dtype=None, casting="same_kind", **rest: Any):
        if rest:
            raise TypeError(f"Wrong arguments {rest}")
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or {self.nargs} "
                f"(with outputs), but given {len(args)}."
            )
        if len(args) > self.nin:
            if out is not None:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            out = args[self.nin :] if self.nout > 1 else args[self.nin]
        inputs = tuple(check_operand(a) for a in args[: self.nin])
        if isinstance(out, tuple) and self.nout == 1:
            (out,) = out
        ins, outs = self.loop(inputs, dtype)
        self.check_outputs(out, outs, casting)
        return compute(self.kernel(ins, outs), inputs, out=out, label=self.name)

    def loop(self, inputs: tuple, dtype: Any) -> tuple:
        """The first loop that all operands can be cast to; Python numbers adapt to it."""
        if dtype is not None:
            wanted = np.dtype(dtype)
            for ins, outs in self.loops:
                if all(o == wanted for o in outs):
                    return ins, outs
            raise TypeError(f"Wrong type ({wanted}) of arguments for {self.name}")
        weak = tuple(type(a) if type(a) in _WEAK else None for a in inputs)
        types = tuple(a.dtype if hasattr(a, "dtype") else np.dtype(type(a)) for a in inputs)
        key = types, weak
        if key not in self.cache:
            self.cache[key] = self.choose(types, weak)
        found = self.cache[key]
        if found is None:
            raise TypeError(f"Wrong type ({types}) of arguments for {self.name}")
        return found

    def choose(self, types: tuple, weak: tuple) -> tuple | None:
        strong = [_KINDS[t.kind] for t, w in zip(types, weak, strict=True) if w is None]
        soft = [_KINDS[t.kind] for t, w in zip(types, weak, strict=True) if w is not None]
        if not strong or (soft and max(soft) > max(strong)):
            weak = (None,) * len(types)
        for ins, outs in self.loops:
            if all(fits(t, w, i) for t, w, i in zip(types, weak, ins, strict=True)):
                return ins, outs
        return None

    def kernel(self, ins: tuple, outs: tuple):
        fn, wides = self.fn, ins if self.__name__ in EXACT else tuple(wide(i) for i in ins)
        single, out = len(outs) == 1, outs[0]

        def run(*operands):
            given = [
                a if getattr(a, "dtype", None) == w else np.asarray(a, i).astype(w, copy=False)
                for a, w, i in zip(operands, wides, ins, strict=True)
            ]
            result = fn(*given)
            if single:
                return np.asarray(result).astype(out, copy=False)
            return tuple(
                np.asarray(r).astype(o, copy=False) for r, o in zip(result, outs, strict=True)
            )

        return run

    def check_outputs(self, out: Any, outs: tuple, casting: Any) -> None:
        for given, made in zip(out if isinstance(out, tuple) else (out,), outs):
            if given is None:
                continue
            if not isinstance(given, ndarray):
                raise TypeError(f"Unsupported type {type(given)}")
            if not np.can_cast(made, given.dtype, casting):
                raise TypeError(
                    f"output (typecode '{made.char}') could not be coerced to provided output parameter "
                    f"(typecode '{given.dtype.char}') according to the casting rule \"{casting}\""
                )

    def outer(self, a, b, **kwargs):
        return self(
            a.reshape(a.shape + (1,) * b.ndim), b.reshape((1,) * a.ndim + b.shape), **kwargs
        )

    def at(self, a, indices, b=None) -> None:
        if self.name[5:] not in _SCATTER:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        scatter(a, indices, b, self.name[5:])

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        if self.name == "cupy_add":
            return array.sum(axis, dtype, out, keepdims)
        if self.name == "cupy_multiply":
            return array.prod(axis, dtype, out, keepdims)
        raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")

    def accumulate(self, array, axis=0, dtype=None, out=None):
        if self.name == "cupy_add":
            return array.cumsum(axis, dtype, out)
        if self.name == "cupy_multiply":
            return array.cumprod(axis, dtype, out)
        raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        raise NotImplementedError(f"`{self.name}.reduceat` is not supported yet")


def fits(given: np.dtype, weak: type | None, loop: np.dtype) -> bool:
    if np.can_cast(given, loop):
        return True
    if weak is None:
        return False
    try:
        return np.result_type(weak(0), loop) == loop
    except TypeError:
        return False


def scatter(a: ndarray, indices: Any, values: Any, name: str) -> None:
    """``a[indices] op= values``, every occurrence counted; atomics exist for a few dtypes only."""
    from .indexing import has_arrays, host_key, prepare_key

    allowed = [np.dtype(c) for c in _SCATTERED[name]]
    key = prepare_key(indices)
    if has_arrays(key) and a.dtype not in allowed and not all_masks(key):
        names = ", ".join(t.name for t in allowed)
        raise TypeError(f"cupy.{name}.at only supports {names} as data type")
    if not isinstance(values, (ndarray, *_SCALARS)):
        values = np.asarray(values, a.dtype)
    operation, target = _SCATTER[name], a._host
    parts = [k for k in key if isinstance(k, ndarray)]
    put = values._host if isinstance(values, ndarray) else values
    inputs = [*parts, *([values] if isinstance(values, ndarray) else []), a]
    from .launch import check_device
    from .memory import current_queue

    check_device(inputs)
    hosts = [p._host for p in parts]
    shape = a.shape

    def run():
        position = host_key(key, hosts, shape)
        operation.at(target, position, np.asarray(put).astype(target.dtype, copy=False))

    machine.submit(run, current_queue(), "scatter_" + name)


def all_masks(key: tuple) -> bool:
    return all(k.dtype.kind == "b" for k in key if isinstance(k, ndarray))


UFUNCS = {public: ufunc(public, *facts) for public, facts in api.UFUNCS.items()}
