"""The recorder's part for ops: which kernel runs on which arrays, and what it gives."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from ..op import halves, interpret, overlays, spreading
from ..tape import modes
from ..tape.arrays import kernels_of
from ..tape.dtypes import HALVES
from ..tape.layout import in_order
from ..tape.memory import repeats_itself
from ..tape.modes import (
    AUTOCAST,
    FORWARD_AD,
    NO_GRAD,
    OBSERVE,
    PROFILE,
    SAVED_HOOKS,
    VMAP,
    shared,
    state,
)
from ..tape.source import user_frame
from ..tape.storage import Storage, version_of
from ..tape.tensor import Tensor
from .inline import always_declines, calls, holds_arrays, out_of
from .memory import OUT, ROUNDED, Made, filled, made, repeated
from .totals import total_of
from .writer import Writer

ndarray = np.ndarray


# flags with which kernels do what they do without
_KNOWN = OBSERVE | PROFILE | NO_GRAD | FORWARD_AD | VMAP | SAVED_HOOKS | AUTOCAST


def _takes_by_value(op: Any, args: tuple, attrs: tuple) -> bool:
    """Whether the shape of the result of this call depends on values."""
    why = op.captures
    if callable(why):
        why = why(
            [a for a in args if isinstance(a, Tensor)], dict(zip(op.attrs, attrs, strict=True))
        )
    return bool(op.dynamic or op.leaves_device) or (isinstance(why, str) and "values" in why)


def _left_to_numpy(op: Any, args: tuple, attrs: tuple) -> tuple:
    """`interpret.compute_raw`, with the strides that a ufunc gives."""
    raw, hidden = interpret.compute_raw(op, args, attrs)
    arrays = [a._array if isinstance(a, Tensor) else a.value for a in args]
    in_rows = all([a.flags.c_contiguous for a in arrays if isinstance(a, ndarray)])
    if not (in_rows or raw.ndim < 2 or raw.dtype in HALVES):
        raw = getattr(np, op.ufunc)(*arrays, dtype=raw.dtype)
    return raw, hidden


class Ops(Writer):
    """What `interpret.execute` and `inplace` ask for a result, below batches, tangents and what else is made of ops."""

    # -- ops ---------------------------------------------------------------------------------------------------------

    def _unusual(self, op: Any, args: tuple, attrs: tuple, writes: bool = False) -> str | None:
        if (
            state.bits & ~_KNOWN
            or op.flips
            or shared.subclasses is not None
            or state.saved_observer
        ):
            return "a mode is on that plans do not know (inference mode, anomaly mode, ...)"
        if not writes and _takes_by_value(op, args, attrs):  # a write has the shape of its tensor
            return "the shape of its result depends on values"
        return None

    def execute(self, op: Any, args: tuple, attrs: tuple, compute: Any, given: tuple | None) -> Any:
        """The result of an op on prepared arguments; see `interpret.execute`."""
        if self.off or self.depth:
            return self._as_always(op, args, attrs, compute, given)
        self.watch.stop()
        self.spans += 1
        self.notes.note(op, args, attrs)
        outer, frame = self.writing, user_frame(sys._getframe(1))
        self.writing = (frame.f_code, frame.f_lasti), "", ""
        try:
            return self._execute(op, args, attrs, compute, given)
        finally:
            self.writing = outer
            if not self.unwatched:
                self.watch.start()

    def _as_always(self, op: Any, args: tuple, attrs: tuple, compute: Any, given: Any) -> Any:
        """What an op gives without a recorder; `given` as in `interpret.execute`."""
        if given is not None and compute is None and not self.depth:
            if not op.ufunc or isinstance(given[0], Tensor):
                return self._at_once(op, (list(given),) if op.variadic else given, attrs)
            compute = _left_to_numpy  # an operator with a number on the left
        self.depth += 1
        try:
            raw, hidden = (compute or interpret.compute_raw)(op, args, attrs)
        finally:
            self.depth -= 1
        return interpret.record(op, args, attrs, raw, hidden)

    def _at_once(self, op: Any, given: tuple, attrs: tuple) -> Any:
        if state.recorder is not self or state.interposers:
            with self.quiet():
                return op.call(*given, *attrs)
        bits = state.bits
        modes.set_bits(bits & ~(OBSERVE | PROFILE))
        self.depth += 1  # where it takes the general way, too
        try:
            return op.call(*given, *attrs)
        finally:
            self.depth -= 1
            modes.set_bits(bits)

    def _execute(self, op: Any, args: tuple, attrs: tuple, compute: Any, given: Any) -> Any:
        why = self._unusual(op, args, attrs)
        if compute is not None:
            why = "something else is computed in its place"
        written = None
        if why is not None:
            self.refuse(f"{op.public}: {why}")
        else:
            self._given = given, attrs
            self._boxes: list[tuple[str, list]] = []
            written = self._operands(op, args, attrs)
        if written is None or self.off:
            raw, hidden = (compute or interpret.compute_raw)(op, args, attrs)
            return interpret.record(op, args, attrs, raw, hidden)
        arrays, names, kwargs, texts, ins = written
        self.depth += 1
        try:
            raw, hidden, outs = self._compute(op, arrays, names, kwargs, texts, ins)
        except Exception:
            self.refuse(f"{op.public} raised an exception")
            raw, hidden = interpret.compute_raw(op, args, attrs)  # the same, as PyTorch says it
            return interpret.record(op, args, attrs, raw, hidden)
        finally:
            self.depth -= 1
        tensors = [Tensor._make(raw)] if op.n_out == 1 else [Tensor._make(r) for r in raw]
        self._name_results(op, tensors, raw, hidden, outs)
        if state.bits & SAVED_HOOKS:  # which are called now
            self.notes.plain = False
            self.watch.start()
        result = interpret.connect(op, args, attrs, tensors, hidden)
        self.notes.made([t._array for t in tensors])
        self._note(op, tensors, hidden, outs)
        return result

    def _operands(self, op: Any, args: tuple, attrs: tuple) -> tuple | None:
        arrays, names = [], []
        xp = kernels_of(next(a for a in args if isinstance(a, Tensor))._array)
        for a in args:
            if isinstance(a, Tensor):
                name = self.tensor(a)
                arrays.append(a._array)
            else:
                arrays.append(interpret._number(xp, a) if a is not None else None)
                name = "None" if a is None else self.draft.constant(arrays[-1])
                self.kept.append(arrays[-1])
            if name is None:
                return None
            names.append(name)
        kwargs, texts, ins = dict(zip(op.attrs, attrs, strict=True)), [], list(names)
        for key, value in kwargs.items():
            if (found := self.setting(op, key, value)) is None:
                self.refuse(
                    f"{op.public}: its argument '{key}' is of a kind that plans do not know"
                )
                return None
            texts.append(f"{key}={found[0]}")
            ins += found[1]
        return arrays, names, kwargs, texts, tuple(ins)

    def _compute(self, op, arrays, names, kwargs, texts, ins) -> tuple:
        """Like `interpret.compute_raw`: (raw result, hidden values, the variables of both)."""
        some = next(a for a in arrays if a is not None)
        xp = kernels_of(some)
        given = [f"[{', '.join(names)}]"] if op.variadic else names
        overlay = overlays.forward_of(xp, op)
        raw, used = NotImplemented, overlay
        if overlay is not None:
            raw = overlay(xp, arrays, **kwargs) if op.variadic else overlay(xp, *arrays, **kwargs)
        declared = halves.forward_of(op, arrays)
        if raw is NotImplemented:
            used = declared
            raw = used(xp, arrays, **kwargs) if op.variadic else used(xp, *arrays, **kwargs)
            if overlay is not None and self._declines(op, overlay, xp, arrays, names, kwargs):
                overlay = None
        outs = None
        new = None
        half = declared is not op.forward
        if overlay is None and op.ufunc and not half:
            if len(arrays) == 2 and op.ufunc in ROUNDED and not self.draft.fuses:
                arrays, names, ins = self._of_one_shape(arrays, names, ins)
            text, new = self._ufunc(op, getattr(xp, op.ufunc), arrays, names, raw)
        else:
            for_all = overlay is None or used is overlay  # values that have these layouts
            if not op.variadic and not self._boxes and for_all and not (half and used is declared):
                outs = self._inlined(op, used, xp, arrays, names, kwargs, raw)
            if outs is None:
                given = [self.draft.constant(xp), *given, *texts]
                if overlay is not None:  # in a replay it may say otherwise
                    given[:0] = self.draft.constant(overlay), self.draft.constant(declared)
                    used = overlays.either
                elif not half and spreading.suits(op) and spreading.large(arrays):
                    given.insert(0, self.draft.constant(used))
                    used = spreading.spread_formula
                text = f"{self.draft.constant(used)}({', '.join(given)})"
        if outs is not None:
            return self._finished(op, xp, arrays, names, raw, outs)
        if isinstance(raw, np.generic):  # no view of anything
            new = Made("", (), raw.dtype)
        total = None
        if self.draft.fuses and new is not None and overlay is None and len(arrays) == 1:
            total = total_of(names[0], op.forward, xp, arrays[0], kwargs, raw)
        count = len(raw) if op.n_out != 1 or op.hidden else 1
        outs = tuple([self.draft.fresh() for _ in range(count)])
        several = op.n_out != 1 or op.hidden
        if total is not None:
            self.draft.sums[outs[0]] = total
        left = f"{', '.join(outs)}{',' if several else ''}"
        self.emit(f"{left} = {text}", outs, ins, op.public, made=None if several else new)
        for name, box in self._boxes:
            for i, value in enumerate(box):
                if isinstance(value, (ndarray, np.generic)):
                    part = self.draft.fresh()
                    self.emit(f"{part} = {name}[{i}]", (part,), (name,))
                    self._name(value, part)
        return self._finished(op, xp, arrays, names, raw, outs)

    def _declines(self, op, overlay, xp, arrays, names, kwargs) -> bool:
        """Whether an overlay that said no says so in each replay."""
        own = [None if n == "None" else n for n in names]
        plain = not self._boxes and not op.variadic
        return plain and always_declines(self.draft, overlay, [xp, *arrays], [None, *own], kwargs)

    def _of_one_shape(self, arrays, names, ins) -> tuple:
        """The operands of a ufunc, of which one is brought to the shape of the other where that is quicker."""
        function = self.draft.constant(filled)
        for i in (0, 1):
            if (found := repeated(arrays[i], names[i], arrays[1 - i], function)) is not None:
                name = self.draft.fresh()
                self.emit(f"{name} = {found[0]}", (name,), (names[i],), made=found[1])
                arrays, names = [*arrays], [*names]
                arrays[i], names[i] = filled(arrays[i], found[1].shape), name
                return arrays, names, tuple(names)
        return arrays, names, ins

    def _ufunc(self, op, ufunc, arrays, names, raw) -> tuple:
        """The call of a ufunc, over several threads where that may pay, and what is known of its result."""
        called, call = ufunc, self.draft.constant(ufunc)
        given, out = ", ".join(names), out_of(ufunc)
        if spreading.suits(op) and spreading.large(arrays):
            called, given, out = partial(spreading.spread, ufunc), f"{call}, {given}", f"out={OUT}"
            call = self.draft.constant(spreading.spread)
        text = f"{call}({given}"
        key = (
            ufunc,
            *[
                (a.shape, a.strides, a.dtype) if isinstance(a, ndarray) else a.__class__
                for a in arrays
            ],
        )
        known = self.draft.learned.ufuncs
        into = None if key in known else lambda out: called(*arrays, out=out)
        new = made(raw, f"{text}, {out})", into)
        if new is not None and new.text:
            known.add(key)
        return f"{text})", new

    def _inlined(self, op, used, xp, arrays, names, kwargs, raw) -> tuple | None:
        """Write the NumPy calls that a kernel makes; the variables of its results, or None if they cannot be told."""
        if holds_arrays(list(kwargs.values())):
            return None
        own = [None if n == "None" else n for n in names]
        alone = spreading.suits(op)
        found = calls(self.draft, used, [xp, *arrays], [None, *own], kwargs, raw, alone)
        if found is None:
            return None
        for text, outs, ins, new in found[0]:
            self.emit(text, outs, ins, op.public, made=new)
        return found[1]

    def _finished(self, op, xp, arrays, names, raw, outs) -> tuple:
        """Hidden values apart, and the dtype and layout that the op promises."""
        hidden = ()
        if op.hidden:
            n = len(raw) - len(op.hidden)
            raw, hidden = (raw[0] if n == 1 else raw[:n]), raw[n:]
        if op.wide_numbers and raw.dtype not in HALVES:
            half = next((a.dtype for a in arrays if getattr(a, "dtype", None) in HALVES), None)
            if half is not None:
                raw = raw.astype(half)
                self.emit(
                    f"{outs[0]} = {outs[0]}.astype({self.draft.constant(half)})", outs[:1], outs[:1]
                )
        if (
            op.row_major or op.elementwise or (op.pointwise and (op.inplace or len(arrays) > 1))
        ) and getattr(raw, "ndim", 0) > 1:
            sized = [(a, n) for a, n in zip(arrays, names, strict=True) if getattr(a, "ndim", 0)]
            laid = interpret._laid_out(op, xp, raw, [a for a, _ in sized])
            if laid is not raw and self._strides_of_eager(op, raw) != raw.strides:
                out, beside = outs[0], ", ".join(n for _, n in sized)
                if op.row_major:
                    call = f"{self.draft.constant(xp.ascontiguousarray)}({out})"
                else:
                    call = f"{self.draft.constant(in_order)}({self.draft.constant(xp)}, {out}, [{beside}])"
                self.emit(f"{out} = {call}", (out,), (out, *[n for _, n in sized]))
                raw = laid
        return raw, hidden, outs

    def _strides_of_eager(self, op: Any, raw: Any) -> tuple | None:
        """How the result of the current op lies in memory in eager mode, where some ops leave that to NumPy."""
        args, attrs = self._given
        if args is None:  # there it takes the general way, too
            return None
        if op.ufunc and not isinstance(args[0], Tensor):  # an operator with a number on the left
            return raw.strides
        args = (list(args),) if op.variadic else args
        with self.quiet(), modes.Flag(NO_GRAD, True):
            return op.call(*args, *attrs)._array.strides

    def _name_results(self, op: Any, tensors: list, raw: Any, hidden: tuple, outs: tuple) -> None:
        """Name what an op gave."""
        raws = (raw,) if op.n_out == 1 else raw
        for t, r, name in zip(tensors, raws, outs, strict=False):
            if t._array is not r and name not in self.loaded:
                self.emit(f"{name} = asarray({name})", (name,), (name,))
            if t._array.__class__ is not ndarray:
                self.refuse(f"{op.public} gives a tensor that is not an ordinary one of the CPU")
            self._name(t._array, name)
        for value, name in zip(hidden, outs[len(tensors) :], strict=False):
            if isinstance(value, (ndarray, np.generic)):
                self._name(value, name)

    def _note(self, op: Any, tensors: list, hidden: tuple, outs: tuple) -> None:
        """What is to be known of the results of an op and of their node."""
        for t in tensors:
            self.seen.setdefault(id(t), (t, version_of(t), len(self.writes)))
        node = next((n for t in tensors if (n := self._node_of(t)) is not None), None)
        if node is not None:
            for key, name in zip(op.hidden, outs[len(tensors) :], strict=False):
                self.hidden[id(node), key] = name
            self.kept.append(node)

    @staticmethod
    def _node_of(t: Any) -> Any:
        return t._fn if t._fn is not None or t._view is None else t._view.fn

    # -- in place ----------------------------------------------------------------------------------------------------

    def write(self, op: Any, tensor: Any, args: tuple, attrs: tuple, proceed: Any) -> tuple:
        """``proceed()``, which writes the result of an op on prepared arguments to the memory of the first one."""
        if self.off or self.depth:
            return proceed()
        self.watch.stop()
        self.spans += 1
        self.notes.note("write", op, args, attrs)
        try:
            return self._write(op, tensor, args, attrs, proceed)
        finally:
            self.watch.start()

    def _write(self, op: Any, tensor: Any, args: tuple, attrs: tuple, proceed: Any) -> tuple:
        if (why := self._unusual(op, args, attrs, True)) is not None:
            self.refuse(f"{op.public}_: {why}")
            return proceed()
        if repeats_itself(tensor._array):
            self.refuse(f"{op.public}_ writes to memory that several elements share")
            return proceed()
        if args[0] is not tensor:
            self.refuse(f"{op.public}_ writes a result of another dtype")
            return proceed()
        self._boxes = []
        written = self._operands(op, args, attrs)
        if written is None or self._boxes:
            self.refuse(f"{op.public}_ is of a kind that plans do not know")
            return proceed()
        arrays, names, _, texts, ins = written
        here = self.is_made_here(tensor._array)
        if not here:
            self.confirm()
        self.depth += 1
        try:
            hidden = proceed()
        finally:
            self.depth -= 1
        xp, target = kernels_of(tensor._array), names[0]
        if op.ufunc is not None and arrays[0].dtype == tensor._array.dtype:
            run = halves.forward_of(op, arrays)
            if run is op.forward:
                call = f"{self.draft.constant(getattr(xp, op.ufunc))}({', '.join(names)}"
                call += f", out={target}, casting='same_kind')"
            else:
                given = ", ".join([self.draft.constant(xp), *names])
                call = f"{self.draft.constant(run)}({given}, out={target})"
            self.emit(
                call,
                (),
                ins,
                f"{op.public}_",
                True,
                undone=here,
                again=here,
            )
        else:
            # not the kernel of an `InPlace`, which writes: lines that only compute may be moved
            run = self.draft.constant(halves.forward_of(getattr(op, "op", op), arrays))
            out = self.draft.fresh()
            call = f"{run}({', '.join([self.draft.constant(xp), *names, *texts])})"
            self.emit(f"{out} = {call}{'[0]' if op.hidden else ''}", (out,), ins, f"{op.public}_")
            self.emit(
                f"if {out} is not {target}: {target}[...] = {out}",
                (),
                (target, out),
                "",
                True,
                undone=here,
                again=here,
            )
        self.writes.append(tensor)
        self._count_write(tensor)
        return hidden

    def _count_write(self, tensor: Any) -> None:
        """A write to memory from before raises version counters."""
        counter = tensor._ver
        for i, t in enumerate(self.arguments):
            if t is tensor or (counter.__class__ is Storage and t._ver is counter):
                self.emit(f"bump(A{i})", (), (), "", True)
                return
        for t in self.reached.tensors.values():
            if t is tensor or (counter.__class__ is Storage and t._ver is counter):
                self.emit(f"bump({self.draft.constant(t)})", (), (), "", True)
                return
        for leaf in self.leaves.values():
            if leaf._grad is tensor:
                text = f"bump({self.draft.constant(leaf)}._grad)"
                self.emit(text, (), (), "", True, undone=self.is_made_here(tensor._array))
