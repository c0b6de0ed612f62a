"""Ranges for NVIDIA's and Intel's profilers: one for each op, backward node and labelled block of a thread.

The texts carry sequence numbers, by which a backward node's range is matched with that of the op that made the node;
`load_nsys` and `load_nvprof` read them back.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from ..devices.cuda.library import is_available, synchronize
from ..devices.cuda.nvtx import connect
from ..devices.packages import find
from ..tape import recording
from ..tape.modes import INFERENCE, NO_GRAD, state
from ..tape.node import LEAF_SEQ, peek_seq
from ..tape.recording import BACKWARD, OP
from ..tape.source import user_frame
from ._collector import shapes_of

__all__ = ["emit_itt", "emit_nvtx"]


def sizes_text(args: Any, attrs: tuple) -> str:
    """``", sizes=[[2, 3], []]"``: the sizes of the arguments, [] for those that are no tensors; "" without any."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]  # of an op that takes a list of tensors
    return f", sizes={shapes_of(args, attrs)}" if args else ""


class NvtxRecorder:
    """Emits the range of each op and node with its sequence number, as text and as payload."""

    def __init__(self, emitter: Any, record_shapes: bool, with_stack: bool):
        self.emitter, self.record_shapes, self.with_stack = emitter, record_shapes, with_stack

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> None:
        """Open a range."""
        if scope == OP:
            text, category = f"{name}, seq={max(seq, 0)}", "forward"
        elif scope == BACKWARD and seq >= 0:
            makes_nodes = not state.bits & (NO_GRAD | INFERENCE)
            text = f"{name}, stashed seq={seq}, seq={peek_seq() if makes_nodes else 0}"
            category = "backward"
            if seq == LEAF_SEQ:  # no op made it, and it is too large for an int64
                seq = -1
        else:
            self.emitter.push(name)
            return
        if self.record_shapes:
            text += sizes_text(args, attrs)
        if self.with_stack and scope == OP:
            frame = user_frame(sys._getframe(1))
            text += f", at={frame.f_code.co_filename}:{frame.f_lineno}"
        self.emitter.push_tagged(text, category, seq)

    def exit(self, token: Any, result: Any) -> None:
        """Close the range opened last."""
        self.emitter.pop()


class IttRecorder:
    """Emits the range of each op and node by name: ITT keeps every text for ever, so there are no numbers in them."""

    def __init__(self, library: Any, record_shapes: bool):
        self.domain = library.Domain("gradlib")
        self.handle = functools.cache(library.StringHandle)
        self.begin, self.end = library.task_begin, library.task_end
        self.record_shapes = record_shapes

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> None:
        """Open a range."""
        if self.record_shapes:
            name += sizes_text(args, attrs)
        self.begin(self.domain, self.handle(name))

    def exit(self, token: Any, result: Any) -> None:
        """Close the range opened last."""
        self.end(self.domain)


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=4)


class _Emitting:
    """What `emit_nvtx` and `emit_itt` have in common: a recorder of this thread for the length of a block."""

    kind = ""

    def __init__(self, enabled: bool, record_shapes: bool):
        self.enabled, self.record_shapes = enabled, record_shapes
        self.entered = False
        self._recorder: Any = None

    def _make_recorder(self) -> Any:
        """The recorder; None if nobody listens."""
        raise NotImplementedError

    def _wait(self) -> None:
        """Let work that was launched before the block, or in it, end there."""

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.kind} annotation context manager is not reentrant")
        self._recorder = self._make_recorder()
        self.entered = True
        self._wait()
        if self._recorder is not None:
            recording.add(self._recorder)
        return self

    def __exit__(self, *exc) -> None:
        try:
            if self.enabled:
                self._wait()
        finally:
            if self._recorder is not None:
                recording.remove(self._recorder)
                self._recorder = None


class emit_nvtx(_Emitting):
    """Every op of the block emits an NVTX range, which Nsight Systems and nvprof show above the kernels it launched.

    Record with ``nsys profile --trace=cuda,nvtx -o run python train.py`` and read the result with `load_nsys`, or with
    ``nvprof --profile-from-start off -o run.nvprof python train.py`` and `load_nvprof`. The ranges need the nvtx
    package (``pip install 'gradlib[profile]'``) and no GPU. With no profiler attached the block runs at full speed.

    The range of an op is called ``mul, seq=37``: if the op makes a backward node, that gets the number 37. The range
    of this node in backward is ``MulBackward0, stashed seq=37, seq=0``; there the second number, and those of the ops
    inside, tell which nodes are made in backward (``create_graph=True``), and are 0 if none can be. The numbers are
    also the payload of the ranges, in the categories "forward" and "backward" of the domain "gradlib" (-1 where there
    is none).

    enabled: False makes this a no-op.
    record_shapes: append the sizes of the arguments, ``sizes=[[2, 3], []]``; those that are no tensors have [].
    with_stack: append the line that called the op, ``at=train.py:41``, for ``load_nsys(...).by_line()``.

    On a machine with a device in use, it is synchronized on entry and exit. RuntimeError if entered twice.

    Example:
        >>> def training():
        ...     y = model(x)  # warm up
        ...     with gradlib.cuda.profiler.profile(), gradlib.autograd.profiler.emit_nvtx():
        ...         model(x).sum().backward()
        >>> if gradlib.cuda.is_available():
        ...     training()
    """

    kind = "NVTX"

    def __init__(self, enabled: bool = True, record_shapes: bool = False, with_stack: bool = False):
        super().__init__(enabled, record_shapes)
        self.with_stack = with_stack

    def _make_recorder(self) -> NvtxRecorder | None:
        emitter = connect("gradlib")
        if emitter is None:
            if find("nvtx") is None:
                _warn_once(
                    "emit_nvtx emits nothing: the nvtx package is not installed. Install it with "
                    "pip install 'gradlib[profile]'."
                )
            return None
        return NvtxRecorder(emitter, self.record_shapes, self.with_stack)

    def _wait(self) -> None:
        # a program that has not imported CuPy has no work to wait for
        if "cupy" in sys.modules and is_available():
            synchronize()


class emit_itt(_Emitting):
    """Every op of the block emits an ITT task, which Intel VTune shows on its timeline.

    The tasks are in the domain "gradlib" and carry the names of the ops (``mul``) and backward nodes
    (``MulBackward0``). They need the ittapi package (``pip install 'gradlib[profile]'``).

    enabled: False makes this a no-op.
    record_shapes: append the sizes of the arguments, ``sizes=[[2, 3], []]``; those that are no tensors have [].

    RuntimeError without the package, or if entered twice.

    Example:
        >>> with gradlib.autograd.profiler.emit_itt():
        ...     y = model(x)
    """

    kind = "ITT"

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        super().__init__(enabled, record_shapes)

    def _make_recorder(self) -> IttRecorder:
        library = find("ittapi")
        if library is None:
            raise RuntimeError(
                "emit_itt needs the ittapi package, which is not installed. Install it with "
                "pip install 'gradlib[profile]'."
            )
        return IttRecorder(library, self.record_shapes)
