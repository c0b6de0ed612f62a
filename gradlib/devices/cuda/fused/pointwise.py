"""Elementwise ops as one kernel: the declared formulas, traced and written out as CUDA C++.

Every elementwise op gets a forward overlay if its formula takes several passes over memory, and a vjp overlay if the
gradients that are needed take several together. A kernel is made for each combination of attributes, needed gradients
and kinds of arguments that occurs (at most `VARIANTS` for an op: an attribute that changes all the time would mean
compiling all the time), and for each way arguments lie in memory: dense, one element, or strided and broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import F4, F8, FLOATS, HALVES, instance, launcher_of
from . import direct
from .generate import DENSE, NUMBER, ONE, STRIDED, Generated, Traced, trace
from .trace import Ops, Untraceable, run_forward, traceable

VARIANTS = 32
MAX_DIMS = 8


# -- running -----------------------------------------------------------------------------------------------------------


class Kernel:
    """A traced formula that can be run on arrays.

    order: the names of the values that it is called with. A single operation saves no pass over memory: it is only
    for arrays that lie side by side, for which the launch costs the host less than the array library's own.
    """

    def __init__(self, label: str, traced: Traced, order: Sequence[str]):
        self.label, self.traced = label, traced
        self.names = tuple(traced.inputs)
        self.picks = tuple(order.index(name) for name in self.names)
        self.count = len(traced.outputs)
        self.single = traced.cost == 1
        self.modules: dict[tuple, Generated] = {}
        self.dense: dict[
            Any, tuple[Generated, str]
        ] = {}  # by dtype, for arguments that are all dense

    def __call__(self, xp: Any, given: Sequence[Any], shape: tuple, dtype: np.dtype) -> Any:
        """The results, or NotImplemented if the arguments are of different dtypes."""
        values = [given[i] for i in self.picks]
        for v in values:
            if (
                getattr(v, "shape", None) != shape or v.dtype != dtype or not v.flags.c_contiguous
                or isinstance(v, np.generic)
            ):  # fmt: skip
                if self.single:
                    return NotImplemented
                return self._general(xp, dict(zip(self.names, values)), shape, dtype)
        outs = [xp.empty(shape, dtype) for _ in range(self.count)]
        size = outs[0].size
        if size:
            module, name = self.dense.get(dtype) or self._ready(dtype)
            args = (*values, *outs, np.int64(size))
            launcher_of(xp).launch(module, name, module.blocks(size, dtype), 256, args)
        return outs

    def direct(
        self, xp: Any, order: Sequence[str], gives: Any, dtype: np.dtype, otherwise: Callable
    ) -> Callable:
        """The function of the values in `order` that needs no look at the rest; see `direct.write`."""
        return direct.write(
            xp, lambda form: self._module(form, 0), order, self.names, gives, dtype, otherwise
        )

    def _ready(self, dtype: np.dtype) -> tuple[Generated, str]:
        module = self._module(dict.fromkeys(self.names, DENSE), 0)
        self.dense[dtype] = module, instance(module.name, dtype)
        return self.dense[dtype]

    def _module(self, places: dict[str, str], dims: int) -> Generated:
        key = (tuple(places.values()), dims)
        if key not in self.modules:
            self.modules[key] = Generated(self.label, self.traced, places, dims)
        return self.modules[key]

    def _general(self, xp: Any, values: dict[str, Any], shape: tuple, dtype: np.dtype) -> Any:
        """For numbers among the arguments, and arrays that are broadcast, strided or in another order."""
        # a NumPy number is a value, as Python's are: the kernel would take its bits for an address
        arrays = {
            k: v for k, v in values.items() if hasattr(v, "dtype") and not isinstance(v, np.generic)
        }
        if any(a.dtype != dtype for a in arrays.values()):
            return NotImplemented
        outs, places, sizes, strides = _layout(xp, arrays, shape, dtype, self.count)
        size = math.prod(shape)
        if outs is None:
            return NotImplemented
        if not size:
            return outs
        module = self._module({k: places.get(k, NUMBER) for k in values}, len(sizes))
        wide = (F4 if dtype in HALVES else dtype).type
        operands = [v if k in arrays else wide(v) for k, v in values.items()]
        numbers = [np.int64(n) for n in (size, *sizes, *strides)]
        args = (*operands, *outs, *numbers)
        name = instance(module.name, dtype)
        launcher_of(xp).launch(module, name, module.blocks(size, dtype), 256, args)
        return outs


def _layout(xp: Any, arrays: dict[str, Any], shape: tuple, dtype: Any, n_out: int) -> tuple:
    """(new results, where each array's elements are, sizes, strides) with strides in elements, of strided ones."""
    whole = [a for a in arrays.values() if a.shape == shape]
    first = whole[0] if whole else None
    if first is not None and len(whole) == len(arrays) and _dense_alike(whole):
        outs = [xp.empty_like(first) for _ in range(n_out)]
        if all(o.strides == first.strides for o in outs):
            return outs, dict.fromkeys(arrays, DENSE), (), ()
    outs = [xp.empty(shape, dtype) for _ in range(n_out)]
    places = {
        k: ONE if a.size == 1 else DENSE if a.shape == shape and a.flags.c_contiguous else STRIDED
        for k, a in arrays.items()
    }
    strided = [a for k, a in arrays.items() if places[k] == STRIDED]
    if not strided:
        return outs, places, (), ()
    sizes, rows = collapse(shape, [byte_strides(a, shape) for a in strided])
    if len(sizes) > MAX_DIMS:
        return None, {}, (), ()
    return outs, places, sizes, [s // dtype.itemsize for row in rows for s in row]


def _dense_alike(arrays: list) -> bool:
    """Whether arrays of one shape lie in memory in the same order and without gaps."""
    first = arrays[0]
    if any(a.strides != first.strides for a in arrays[1:]) and not all(
        a.flags.c_contiguous for a in arrays
    ):
        return False
    if first.flags.c_contiguous or first.flags.f_contiguous:
        return True
    order = sorted(range(first.ndim), key=lambda d: -first.strides[d])
    return first.transpose(order).flags.c_contiguous


def byte_strides(a: Any, shape: tuple) -> tuple:
    """Byte strides of `a` broadcast to `shape`."""
    lead = len(shape) - a.ndim
    own = [0 if n == 1 else s for n, s in zip(a.shape, a.strides)]
    return (0,) * lead + tuple(own)


def collapse(shape: tuple, strides: list[tuple]) -> tuple[list[int], list[list[int]]]:
    """Fewest dimensions that describe the same elements: neighbours that every array walks evenly are joined."""
    sizes: list[int] = []
    rows: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(row[-1] == s[d] * n for row, s in zip(rows, strides)):
            sizes[-1] *= n
            for row, s in zip(rows, strides):
                row[-1] = s[d]
            continue
        sizes.append(n)
        for row, s in zip(rows, strides):
            row.append(s[d])
    return sizes, rows


# -- overlays ----------------------------------------------------------------------------------------------------------


def _declined(*values: Any) -> Any:
    return NotImplemented


class Overlay:
    """Common part of the two overlays of an op: a kernel for each variant that occurs.

    singles: whether kernels of one operation are wanted, too.
    """

    singles = True

    def __init__(self, op: Any, label: str):
        self.op, self.label = op, f"{op.name}_{label}"
        self.variants: dict[tuple, Kernel | None] = {}
        # functions of the raw values, by the backend of the arrays and the parts of those keys
        self.ready: dict[tuple, Callable] = {}

    def make(
        self, key: tuple, order: Sequence[str], trace_it: Callable[[], Traced | None]
    ) -> Kernel | None:
        """The kernel of a new variant; None if there is none, or one that would not save a pass over memory."""
        try:
            if len(self.variants) >= VARIANTS or key in self.variants:
                return self.variants.get(key)
        except TypeError:  # an attribute without a hash, an array for instance
            return None
        traced, found = trace_it(), None
        if traced is not None and traced.inputs and self.worth(traced):
            found = Kernel(self.label, traced, order)
        self.variants[key] = found
        return found

    def worth(self, traced: Traced) -> bool:
        """Whether a kernel is better than the array library's functions, which give arguments back as they are."""
        given = {id(node) for node in traced.inputs.values()}
        passes = not any(id(node) in given for node in traced.outputs)
        return traced.cost > 1 or (traced.cost == 1 and passes and self.singles)

    def known(self, key: tuple) -> Any:
        """The kernel of a variant, None if it has none, or NotImplemented if it has not been met before."""
        try:
            return self.variants.get(key, NotImplemented)
        except TypeError:
            return None


class ForwardOverlay(Overlay):
    """``forward(xp, *arrays, **attrs)`` in one kernel; `function` is the overlay."""

    def __init__(self, op: Any):
        super().__init__(op, "forward")
        self.singles = bool(op.ufunc)  # whose formula is the operation
        self.function = self._function()

    def _function(self) -> Callable:
        """The overlay with the op's own parameters: what is ready is looked up and called, the rest is for `run`."""
        op = self.op
        tensors = "".join(f"{t}, " for t in op.tensors)
        named = "".join(f"{a}, " for a in op.attrs)
        text = (
            f"def forward(xp_, {tensors}{'*, ' if named else ''}{named}):\n"
            f"    try: direct_ = ready_.get((xp_, {op.tensors[0]}.dtype, {named}))\n"
            "    except (TypeError, AttributeError): direct_ = None\n"
            f"    if direct_ is None: return run_(xp_, ({tensors}), ({named}))\n"
            f"    return direct_({tensors})\n"
        )
        space: dict[str, Any] = {"run_": self.run, "ready_": self.ready}
        exec(text, space)
        return space["forward"]

    def run(self, xp: Any, arrays: tuple, settings: tuple) -> Any:
        """The result for the arrays of `op.tensors` and the attributes in their order."""
        first = arrays[0]
        dtype, shape = first.dtype, first.shape
        if dtype not in FLOATS:
            if not settings and direct.possible(xp):
                self.ready[xp, dtype] = _declined
            return NotImplemented
        for a in arrays[1:]:
            if a is not None and (a.shape != shape or a.dtype != dtype):
                if a.dtype != dtype:
                    return NotImplemented
                shape = np.broadcast_shapes(shape, a.shape)
        given = tuple([a is not None for a in arrays])
        key = (dtype, given, *settings)
        kernel = self.known(key)
        if kernel is NotImplemented:
            op = self.op
            names = tuple(n for n, there in zip(op.tensors, given) if there)
            kernel = self.make(key, op.tensors, lambda: self._trace(_wide(dtype), names, settings))
            if all(given) and key in self.variants:
                self._prepare(xp, kernel, dtype, settings)
        if kernel is None:
            return NotImplemented
        out = kernel(xp, arrays, shape, dtype)
        return out if out is NotImplemented else out[0]

    def untraceable(self) -> bool:
        """Whether a function of the array library, which has no attributes, is one that kernels do not know."""
        return not self.op.attrs and self._trace(F4, self.op.tensors, ()) is None

    def _prepare(self, xp: Any, kernel: Kernel | None, dtype: Any, settings: tuple) -> None:
        if not direct.possible(xp):
            return
        if kernel is None:
            self.ready[xp, dtype, *settings] = _declined
        elif len(kernel.names) == len(self.op.tensors):
            self.ready[xp, dtype, *settings] = kernel.direct(
                xp, self.op.tensors, None, dtype, lambda *arrays: self.run(xp, arrays, settings)
            )

    def _trace(self, wide: np.dtype, names: tuple, settings: tuple) -> Traced | None:
        op = self.op

        def run(F: Ops, symbols: dict[str, Any]) -> list:
            result = run_forward(F, op, (*(symbols.get(t) for t in op.tensors), *settings))
            if result.dtype != wide:
                raise Untraceable("a result that is not a number")
            return [result]

        return trace(wide, names, run)


def _wide(dtype: Any) -> np.dtype:
    return F8 if dtype == F8 else F4


class VjpOverlay(Overlay):
    """The gradients that are needed, in one kernel; `function` is the overlay."""

    def __init__(self, op: Any):
        super().__init__(op, "vjp")
        wants = (w for f in op.formulas.values() for w in f.wants)
        self.wants = tuple(dict.fromkeys(w for w in wants if w not in ("F", "g", "needs")))
        self.values = tuple(w for w in self.wants if w in op.tensors or w in op.results)
        self.settings = tuple(w for w in self.wants if w not in self.values)
        self.order = ("g", *self.values)
        self.function = self._function()

    def _function(self) -> Callable:
        """A function whose parameters are the names of what the formulas need."""
        names = "".join(f", {w}" for w in self.wants)
        values = "".join(f"{w}, " for w in self.order)
        settings = "".join(f"{w}, " for w in self.settings)
        text = (
            f"def vjp(F, g, needs{names}):\n"
            f"    try: direct_ = ready_.get((F.backend, g.dtype, needs, {settings}))\n"
            "    except (TypeError, AttributeError): direct_ = None\n"
            f"    if direct_ is None: return run_(F.backend, needs, ({values}), ({settings}))\n"
            f"    return direct_({values})\n"
        )
        space: dict[str, Any] = {"run_": self.run, "ready_": self.ready}
        exec(text, space)
        return space["vjp"]

    def run(self, xp: Any, needs: tuple, given: tuple, settings: tuple) -> Any:
        """The gradients from the values of `self.order` and of `self.settings`."""
        g, op = given[0], self.op
        if g is None or g.dtype not in FLOATS:
            return NotImplemented
        dtype = g.dtype
        key = (dtype, needs, *settings)
        kernel = self.known(key)
        if kernel is NotImplemented:
            attrs = dict(zip(self.settings, settings))
            kernel = self.make(key, self.order, lambda: self._trace(_wide(dtype), needs, attrs))
            if key in self.variants:
                self._prepare(xp, kernel, dtype, needs, settings)
        if kernel is None:
            return NotImplemented
        found = kernel(xp, given, g.shape, dtype)
        if found is NotImplemented:
            return NotImplemented
        if len(found) == len(op.tensors):
            return tuple(found)
        results = iter(found)
        return tuple(
            [next(results) if n and t in op.formulas else None for t, n in zip(op.tensors, needs)]
        )

    def _prepare(
        self, xp: Any, kernel: Kernel | None, dtype: Any, needs: tuple, settings: tuple
    ) -> None:
        if not direct.possible(xp):
            return
        if kernel is None:
            self.ready[xp, dtype, needs, *settings] = _declined
        elif kernel.names[0] == "g":
            gives = [n and t in self.op.formulas for t, n in zip(self.op.tensors, needs)]
            self.ready[xp, dtype, needs, *settings] = kernel.direct(
                xp, self.order, gives, dtype, lambda *given: self.run(xp, needs, given, settings)
            )

    def _trace(self, wide: np.dtype, needs: tuple, attrs: dict[str, Any]) -> Traced | None:
        op = self.op

        def run(F: Ops, symbols: dict[str, Any]) -> list:
            known = {"F": F, "needs": needs, **symbols, **attrs}
            return [
                op.formulas[name].fn(*(known[w] for w in op.formulas[name].wants))
                for name, need in zip(op.tensors, needs)
                if need and name in op.formulas
            ]

        return trace(wide, ("g", *self.values), run)


def overlay(kind: str, op: Any) -> Callable | None:
    """The overlay of an elementwise op, if its declaration can have one."""
    if not traceable(op) or op.integer_results:
        return None
    if kind == "forward":
        made = ForwardOverlay(op)
        return None if op.ufunc and made.untraceable() else made.function
    if not op.formulas or op.vjp is not None:
        return None
    known = {"F", "g", "needs", *op.tensors, *op.results, *op.attrs}
    if any(w not in known for f in op.formulas.values() for w in f.wants):
        return None
    return VjpOverlay(op).function
