"""Kernels in place of formulas: which ops have them on which device, and how to ask.

An op is defined by its declared forward and gradient formulas, on every device. An overlay is a faster way to the same
numbers on the arrays of one device: it is tried first, and where it says NotImplemented (another dtype, another layout,
too few elements) the formula is what runs. Derivatives of derivatives always use the formulas.

    forward, vjp = on("numpy")

    @forward("softmax")
    def softmax(xp, self, *, dim): ...

    @vjp("softmax")
    def softmax_vjp(F, g, result, dim): ...

- A **forward** overlay has the signature of the op's forward and returns what that returns: the result, or results
  followed by hidden values.
  It may say no because of the values that it is given.
- A **vjp** overlay says no because of layouts alone. It names what it needs by parameters, like a formula: `F` (whose
  `backend` is `xp`), `g` or `gs`, `needs`, and what the op saves: what its own formulas use, its hidden values and what
  it `saves`. It returns one gradient (or None) for each tensor argument. Gradients of elementwise ops have the result's
  shape: the caller sums them to the argument's, as for formulas.

This floor knows no device: a device fills its table (`Overlays.come_from`), and the namespace of its arrays carries it
as `overlays` (None: there are none). Generated code asks for an overlay once, when it is written.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .signature import parameters

_FILLING = threading.RLock()


class Overlays:
    """The overlays of one kind of device."""

    def __init__(self, kind: str):
        self.kind = kind
        self.forwards: dict[str, Callable] = {}
        self.vjps: dict[str, Callable] = {}
        self._load: Callable[[], Any] | None = None
        self._generate: Callable[[str, Any], Callable | None] = _none
        self._found: dict[tuple[str, Any], Callable | None] = {}

    def __iter__(self) -> Iterator[Callable]:
        """The two decorators: ``forward, vjp = on(kind)``."""
        return iter((self.forward, self.vjp))

    def come_from(
        self,
        load: Callable[[], Any],
        generate: Callable[[str, Any], Callable | None] | None = None,
    ) -> None:
        """Say where the overlays are: `load()` imports the modules that register them, at first need.

        generate: ``generate("forward", "vjp" or "mixed", op)`` gives the overlay of an op without one of its own, or
        None.
        """
        self._load = load
        self._generate = generate or _none

    def forward(self, *names: str) -> Callable[[Callable], Callable]:
        """Register a function as the forward overlay of the ops `names`."""
        return lambda function: _put(self.forwards, names, function)

    def vjp(self, *names: str) -> Callable[[Callable], Callable]:
        """Register a function as the vjp overlay of the ops `names`."""
        return lambda function: _put(self.vjps, names, function)

    def before(self, name: str, what: str = "forward") -> Callable[[Callable], Callable]:
        """Register an overlay that is asked before the one that the op `name` has: of `what`, "forward" or "vjp".

        Where it says NotImplemented, the other one is asked. Both take the same parameters.
        """
        table = self.vjps if what == "vjp" else self.forwards

        def register(function: Callable) -> Callable:
            other = table.pop(name, None)
            _put(table, (name,), function if other is None else _first_of(function, other))
            return function

        return register

    def forward_of(self, op: Any) -> Callable | None:
        """The forward overlay of an op, which lays its results out as the op does; or None."""
        found = self.bare_forward_of(op)
        if found is None or not op.channels_last:
            return found
        try:
            return self._found["laid out", op]
        except KeyError:
            self._found["laid out", op] = made = op.laid_out(found)
            return made

    def bare_forward_of(self, op: Any) -> Callable | None:
        """The forward overlay of an op, whose results the caller lays out; or None."""
        return self._lookup("forward", op)

    def vjp_of(self, op: Any) -> Callable | None:
        """The vjp overlay of an op, or None. `parameters` of it are the names it wants."""
        return self._lookup("vjp", op)

    def mixed_of(self, op: Any) -> Callable | None:
        """``f(xp, arrays)``: the result of an elementwise op of float32 and a half type, in float32; or None."""
        return self._lookup("mixed", op)

    def names(self) -> dict[str, list[str]]:
        """The ops with an overlay of their own: ``{"forward": [...], "vjp": [...]}``; for tables and tests."""
        self._fill()
        return {"forward": sorted(self.forwards), "vjp": sorted(self.vjps)}

    def _lookup(self, what: str, op: Any) -> Callable | None:
        try:
            return self._found[what, op]
        except KeyError:
            self._fill()
            found = {"forward": self.forwards, "vjp": self.vjps}.get(what, {}).get(op.name)
            if found is None:
                found = self._generate(what, op)
            if found is not None and what == "vjp":
                check(op, found)
            self._found[what, op] = found
            return found

    def _fill(self) -> None:
        with _FILLING:  # another thread waits until all are there
            if self._load is not None:
                load, self._load = self._load, None
                load()


def _none(what: str, op: Any) -> None:
    return None


def _put(table: dict[str, Callable], names: tuple[str, ...], function: Callable) -> Callable:
    for name in names:
        if name in table:
            raise TypeError(f"op {name} has two overlays: {table[name]} and {function}")
        table[name] = function
    return function


def _first_of(function: Callable, other: Callable) -> Callable:
    """What `function` gives, or `other` where that says NotImplemented."""
    signature = inspect.signature(function)
    if parameters(function) != parameters(other):
        raise TypeError(
            f"{function} and {other} take other parameters: one is to be asked before the other"
        )
    given = ", ".join(
        f"{name}={name}" if p.kind is p.KEYWORD_ONLY else name
        for name, p in signature.parameters.items()
    )
    # written out, as *args and **kwargs cost as much as a small kernel
    text = f"lambda {_heading(signature)}: other({given}) if (made := function({given})) is NotImplemented else made"
    overlay = eval(text, {"function": function, "other": other})
    return functools.update_wrapper(overlay, function)


def _heading(signature: inspect.Signature) -> str:
    """Parameters as text, whose defaults are None."""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))[1:-1]


def check(op: Any, function: Callable) -> None:
    """TypeError if a vjp overlay asks for what its op does not save."""
    kept = {*op.saved_tensors, *op.saved_results, *op.saved_hidden, *op.saved_attrs}
    kept |= {f"{name}_shape" for name in op.saved_shapes}
    unknown = (
        set(parameters(function)) - kept - {"F", "gs", "needs", "g" if op.n_out == 1 else "gs"}
    )
    if unknown:
        raise TypeError(
            f"the vjp overlay of {op.name} asks for {sorted(unknown)}, which the op does not save; "
            f"it saves {sorted(kept)}"
        )


_KINDS: dict[str, Overlays] = {}


def on(kind: str) -> Overlays:
    """The overlays of a kind of device: "numpy" or "cuda"."""
    found = _KINDS.get(kind)
    if found is None:
        found = _KINDS[kind] = Overlays(kind)
    return found


# -- asking ------------------------------------------------------------------------------------------------------------

_off = False


def forward_of(xp: Any, op: Any) -> Callable | None:
    """The forward overlay of an op for arrays of the namespace `xp`, or None."""
    table = xp.overlays
    return None if table is None or _off else table.forward_of(op)


def either(overlay: Callable, formula: Callable, *args: Any, **kwargs: Any) -> Any:
    """What a forward overlay gives, or the formula where it says no: some look at values before they do."""
    found = overlay(*args, **kwargs)
    return formula(*args, **kwargs) if found is NotImplemented else found


def vjp_of(xp: Any, op: Any) -> Callable | None:
    """The vjp overlay of an op for arrays of the namespace `xp`, or None."""
    table = xp.overlays
    return None if table is None or _off else table.vjp_of(op)


def mixed_of(xp: Any, op: Any) -> Callable | None:
    """The overlay of an elementwise op for float32 beside a half type on arrays of the namespace `xp`, or None."""
    table = xp.overlays
    return None if table is None or _off else table.mixed_of(op)


# -- switching them off: generated code holds an overlay in a variable, where another function takes its place ---------

_held: dict[tuple, tuple[dict, Callable]] = {}
_forgetters: list[Callable[[], None]] = []
HELD = "overlay"  # the variable


def hold(names: dict, overlay: Callable | None, op: Any, *where: Any) -> None:
    """Put an overlay, if there is one, into the globals of generated code: that of `op`, and `where` of its codes."""
    if overlay is not None:
        _held[op, *where] = names, overlay
        names[HELD] = _declined if _off else overlay


def forget_by(forget: Callable[[], None]) -> None:
    """`forget` is called when overlays are switched off or on: it drops what was made with them."""
    _forgetters.append(forget)


def _declined(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


@contextmanager
def off() -> Iterator[None]:
    """Inside, no overlay runs on any device: only the declared formulas. For tests; it holds for all threads.

    Example:
        >>> with off():
        ...     gradlib.softmax(x, 0)
    """
    global _off
    before = _off
    _switch(True)
    try:
        yield
    finally:
        _switch(before)


def _switch(to: bool) -> None:
    global _off
    _off = to
    for names, overlay in _held.values():
        names[HELD] = _declined if to else overlay
    for forget in _forgetters:
        forget()
