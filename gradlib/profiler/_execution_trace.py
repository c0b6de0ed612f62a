"""Execution traces: what each operation was given and what it made, in the format of the Chakra project (JSON).

Tools that replay or simulate a workload read such files. A node stands for an operation, a backward node or a label:

    {"id": 5, "name": "mul", "ctrl_deps": 2, "inputs": {...}, "outputs": {...}, "attrs": [{"name", "type", "value"}...]}

``ctrl_deps`` is the node around it. Inputs and outputs have lists of values, shapes, types and strides; the value of a
tensor is [its number, the number of its memory, offset, elements, bytes of an element, device].
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import weakref
from typing import Any

from ..tape import recording
from ..tape.node import LEAF_SEQ
from ..tape.tensor import Tensor

SCHEMA = "1.1.1-chakra.0.0.4"
ROOT, THREAD = (
    "[pytorch|profiler|execution_trace|process]",
    "[pytorch|profiler|execution_trace|thread]",
)
VARIABLE = "ENABLE_PYTORCH_EXECUTION_TRACE"  # of the environment, as in PyTorch
TYPES = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "int8": "signed char", "uint8": "unsigned char", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


class ExecutionTraceObserver:
    """Writes the execution trace of this thread from `start` to `stop`, also as part of a `profile`.

    Example:
        >>> observer = ExecutionTraceObserver().register_callback("trace.json")
        >>> with profile(execution_trace_observer=observer):
        ...     y = gradlib.ones(2) * 2
        >>> import json
        >>> [node["name"] for node in json.load(open("trace.json"))["nodes"]][-1]
        'mul'
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._running = False
        self._nodes: list[dict] = []
        self._open: dict[int, list[dict]] = {}  # by thread
        self._known: dict[Any, tuple[Any, int]] = {}  # numbers of tensors and of memory
        self._last = 0
        self._started: tuple[int, str] = 0, ""

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer with a new temporary file if ENABLE_PYTORCH_EXECUTION_TRACE is 1 in the environment.

        Returns:
            The observer, or None.
        """
        if os.environ.get(VARIABLE) != "1":
            return None
        file, path = tempfile.mkstemp(".et.json")
        os.close(file)
        return ExecutionTraceObserver().register_callback(path)

    def register_callback(self, output_file_path: str | os.PathLike) -> ExecutionTraceObserver:
        """Write to this file; only the first call of an observer counts.

        Args:
            output_file_path: the file.

        Returns:
            The observer.
        """
        if self._path is None:
            self._path = os.fspath(output_file_path)
        return self

    def unregister_callback(self) -> None:
        """Stop, and write to no file from now on.

        What was recorded until now is written.
        """
        self.stop()
        self._path = None

    cleanup = unregister_callback

    @property
    def is_registered(self) -> bool:
        """Whether there is a file to write to."""
        return self._path is not None

    def is_running(self) -> bool:
        """Whether it observes."""
        return self._running

    def get_output_file_path(self) -> str | None:
        """The path of the file that is written to; None for none.

        See `register_callback`.
        """
        return self._path

    def start(self) -> None:
        """Begin to observe this thread; nothing happens without a file.

        What was observed before is forgotten.
        """
        if self._path is None or self._running:
            return
        self._running, self._nodes, self._open, self._known, self._last = True, [], {}, {}, 0
        self._started = time.perf_counter_ns() // 1000, time.strftime("%Y-%m-%d %H:%M:%S")
        self._nodes.append(self._node(ROOT, 1, recording.LABEL, -1))
        recording.add(self)

    def stop(self) -> None:
        """End, and write the file; nothing happens if it does not observe.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._running:
            return
        recording.remove(self)
        self._running = False
        trace = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "time": self._started[1],
            "start_ts": self._started[0],
            "nodes": self._nodes,
            "finish_ts": time.perf_counter_ns() // 1000,
        }
        with open(self._path or os.devnull, "w") as file:
            json.dump(trace, file)

    # -- what it is told of; see tape.recording ------------------------------------------------------------------------

    def enter(self, name: str, op: Any, args: Any, attrs: tuple, seq: int, scope: int) -> dict:
        """Note the beginning of a range; called by operations.

        Returns:
            What `exit` gets.
        """
        ident = threading.get_ident()
        around = self._open.get(ident)
        if around is None:
            node = self._node(THREAD, 1, recording.LABEL, -1, thread=len(self._open) + 1)
            self._nodes.append(node)
            around = self._open[ident] = [node]
        number = -1 if seq == LEAF_SEQ else seq
        node = self._node(
            name, around[-1]["id"], scope, number, thread=_attribute(around[0], "tid")
        )
        given = args if isinstance(args, (tuple, list)) else (args,)
        node["inputs"] = self._values((*given, *attrs))
        around.append(node)
        return node

    def exit(self, token: dict, result: Any) -> None:
        """Note the end of a range; those inside it come first in the file.

        Args:
            token: what `enter` returned.
            result: of the operation.
        """
        if not self._running:
            return
        self.abandon(token)
        given = result if isinstance(result, tuple) else () if result is None else (result,)
        token["outputs"] = self._values(given)
        self._nodes.append(token)

    def abandon(self, token: dict) -> None:
        """Forget a range that is open.

        Args:
            token: what `enter` returned.
        """
        around = self._open[threading.get_ident()]
        if token in around:  # not a label that was opened elsewhere
            around.remove(token)

    def _node(self, name: str, around: int, scope: int, seq: int, thread: int = 0) -> dict:
        self._last += 1
        attrs = [("rf_id", "uint64", self._last), ("fw_parent", "uint64", 0), ("seq_id", "int64", seq),
                 ("scope", "uint64", scope), ("tid", "uint64", thread), ("fw_tid", "uint64", 0),
                 ("op_schema", "string", "")]  # fmt: skip
        return {
            "id": self._last, "name": name, "ctrl_deps": around,
            "inputs": self._values(()), "outputs": self._values(()),
            "attrs": [{"name": n, "type": t, "value": v} for n, t, v in attrs],
        }  # fmt: skip

    # -- values --------------------------------------------------------------------------------------------------------

    def _values(self, given: tuple) -> dict[str, list]:
        found = [self._described(value) for value in given]
        keys = ("values", "shapes", "types", "strides")
        return {key: [row[k] for row in found] for k, key in enumerate(keys)}

    def _described(self, value: Any) -> tuple[Any, list, str, list]:
        """(value, shape, type, strides) of an argument."""
        if isinstance(value, Tensor):
            kind = str(value.dtype).rpartition(".")[2]
            memory = self._number(("memory", value.untyped_storage().data_ptr()))
            numbers = [self._number_of(value), memory, value.storage_offset(), value.numel()]
            shown = [*numbers, value.element_size(), str(value.device)]
            return (
                shown,
                list(value.shape),
                f"Tensor({TYPES.get(kind, kind)})",
                list(value.stride()),
            )
        if isinstance(value, (list, tuple)):
            rows = [self._described(item) for item in value]
            kinds = ",".join(row[2] for row in rows)
            return (
                [r[0] for r in rows],
                [r[1] for r in rows],
                f"GenericList[{kinds}]",
                [r[3] for r in rows],
            )
        for kind, name in ((bool, "Bool"), (int, "Int"), (float, "Double"), (str, "String")):
            if isinstance(value, kind):
                return value, [], name, []
        return (
            ("<None>", [], "None", [])
            if value is None
            else (str(value), [], type(value).__name__, [])
        )

    def _number_of(self, tensor: Tensor) -> int:
        """A number that this tensor has alone, while it lives and after."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            self._known[id(tensor)] = weakref.ref(tensor), self._next()
        return self._known[id(tensor)][1]

    def _number(self, key: tuple) -> int:
        if key not in self._known:
            self._known[key] = None, self._next()
        return self._known[key][1]

    def _next(self) -> int:
        self._last += 1
        return self._last


def _attribute(node: dict, name: str) -> Any:
    return next(a["value"] for a in node["attrs"] if a["name"] == name)
