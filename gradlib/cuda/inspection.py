"""Dry runs: what in a piece of a program a CUDA graph could not record, by source line; no device is needed."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..op.captures import SHAPE
from ..optim.optimizer import register_optimizer_step_pre_hook
from ..tape import recording
from ..tape.modes import shared
from ..tape.source import describe, user_frame
from ..tape.tensor import Tensor

__all__ = ["Finding", "dry_run", "watch"]


class Finding(NamedTuple):
    """Something that cannot be captured: an entry of what `dry_run` returns and of `CaptureError.findings`.

    Attributes:
        what: the operation, or the reading of a value.
        why: the reason.
        where: the line of the program.
    """

    what: str
    why: str
    where: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}\n  at {self.where}"


_READS = ("item", "tolist", "numpy", "__bool__", "__index__")


def never(op: Any) -> str | None:
    """Why `op` cannot be captured whatever it is called with, or None."""
    why = SHAPE if op.dynamic else op.captures
    return why if isinstance(why, str) else None


def reason(op: Any, args: Any, attrs: tuple) -> str | None:
    """Why this call of `op` cannot be captured, or None."""
    given = args[0] if op.variadic else args
    tensors = [a for a in given if isinstance(a, Tensor)]
    why = never(op)
    if why is None and op.captures is not True:
        why = op.captures(tensors, dict(zip(op.attrs, attrs, strict=False)))
    if why is None and any(t.is_cuda for t in tensors) and not all(t.is_cuda for t in tensors):
        why = "a 0-dim tensor of the CPU is copied to the device; make it there, or use a number"
    return why


class Inspector:
    """A recorder (see `tape.recording`) that collects findings."""

    inspects = True

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Finding] = {}
        self.nodes: list[Any] = []
        self.thread = threading.get_ident()
        self.reading = False  # inside a reading that was noted

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> bool:
        if scope == recording.BACKWARD:
            self.nodes.append(op)
            return True
        if scope == recording.OP and op is not None:
            why = reason(op, args, attrs)
            if why is not None:
                self.add(name, why)
        return False

    def exit(self, token: bool, result: Any) -> None:
        if token:
            self.nodes.pop()

    def add(self, what: str, why: str) -> None:
        node = next((n for n in reversed(self.nodes) if getattr(n, "site", None)), None)
        if node is not None:
            what, where = f"backward of {what}", describe(node.site)
        else:
            frame = user_frame(sys._getframe(1))
            where = describe((frame.f_code, frame.f_lasti))
        self.found.setdefault((what, where), Finding(what, why, where))

    # -- what is no op -----------------------------------------------------------------------------------------------

    def read(self, name: str) -> Callable:
        """``Tensor.<name>``, which makes the host wait for a value of the device."""
        plain, inspector = getattr(Tensor, name), self

        @functools.wraps(plain)
        def reading(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            mine = threading.get_ident() == inspector.thread and not inspector.reading
            if not mine or not (tensor.is_cuda or shared.cuda is None):
                return plain(tensor, *args, **kwargs)
            inspector.add(f"Tensor.{name}", "the host waits for a value of the device")
            inspector.reading = True
            try:
                return plain(tensor, *args, **kwargs)
            finally:
                inspector.reading = False

        return reading

    def host_reads(self, name: str, tensor: Any) -> None:
        """Tensors that a function reads itself, by none of these methods."""
        if tensor.is_cuda or shared.cuda is None:
            self.add(name, "the host waits for values of the device")

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Hook of all optimizers."""
        if threading.get_ident() == self.thread and (why := refused_step(optimizer)) is not None:
            self.add(f"{type(optimizer).__name__}.step", why)


def refused_step(optimizer: Any) -> str | None:
    """Why a step of an optimizer cannot be captured, or None."""
    counts = getattr(optimizer, "scalars", None)
    for group in optimizer.param_groups:
        if group.get("capturable"):
            continue
        if "capturable" in group:
            return "param_groups' capturable is False, so step counts stay on the host; pass capturable=True"
        if type(optimizer).__name__ in ("LBFGS", "SparseAdam"):
            return "it decides on the host what to do"
        if counts is not None and counts(group):
            return "it counts its steps on the host"
    return None


@contextlib.contextmanager
def watch() -> Iterator[Inspector]:
    """Collect findings from this thread for a block.

    Gives an `Inspector`; `dry_run` is how to use it.
    """

    inspector = Inspector()
    plain = {name: vars(Tensor).get(name) for name in _READS}
    for name in _READS:
        setattr(Tensor, name, inspector.read(name))
    hook = register_optimizer_step_pre_hook(inspector.before_step)
    recording.add(inspector)
    try:
        yield inspector
    finally:
        recording.remove(inspector)
        hook.remove()
        for name, method in plain.items():
            if method is None:
                delattr(Tensor, name)  # inherited
            else:
                setattr(Tensor, name, method)


def dry_run(step: Callable, *args: Any, **kwargs: Any) -> list[Finding]:
    """Call ``step(*args, **kwargs)`` once and say what in it a CUDA graph could not record.

    It works on the CPU too, where every value that is read counts as one that a device would be asked for, and where
    optimizers with ``capturable=True`` may step meanwhile.

    Example:
        >>> def step(x):
        ...     return x if x.sum().item() > 0 else -x
        >>> if gradlib.cuda.is_available():
        ...     (finding,) = gradlib.cuda.dry_run(step, gradlib.ones(3, device="cuda"))
        ...     assert "item" in str(finding)
    """
    with watch() as inspector:
        step(*args, **kwargs)
    return list(inspector.found.values())
