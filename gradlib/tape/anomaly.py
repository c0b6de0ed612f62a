"""Anomaly mode: nodes remember the stack of their forward call, and backward looks for nan."""

from __future__ import annotations

import sys
import warnings

from . import handed
from .lazy import raw_values
from .modes import shared, state
from .source import is_library


def stamp(node) -> None:
    """Remember where the program is, and the node whose backward is running, if one is."""
    import traceback  # few programs need it, and importing it takes time

    extra = node.make_extra()
    frame = sys._getframe(1)
    while is_library(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    # source lines are read when the text is asked for
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    stack.reverse()
    extra.traceback, extra.parent = stack, state.current_node


UNKNOWN = (
    "No forward pass information available. Enable detect anomaly during forward pass for more "
    "information."
)


def describe(node) -> list[str]:
    """A text on the forward call of `node`, and one for each node whose backward made it in turn."""
    texts = []
    first, call = f"Error detected in {node.name()}. ", "caused the error"
    while node is not None:
        extra = node.extra
        if extra is None or extra.traceback is None:
            texts.append(first + UNKNOWN)
            break
        lines = "".join(extra.traceback.format())
        texts.append(f"{first}Traceback of forward call that {call}:\n{lines}")
        node = extra.parent
        if node is not None:
            first = f"\n\nPrevious calculation was induced by {node.name()}. "
            call = "induced the previous calculation"
    return texts


def report(node) -> None:
    """Warn about the node whose backward failed; on stderr where warnings are errors, lest they hide the error."""
    for text in describe(node):
        try:
            warnings.warn(text, UserWarning, stacklevel=2)
        except UserWarning:
            print(text, file=sys.stderr)


def check_nan(node, outs: tuple) -> None:
    """RuntimeError if a gradient (raw array, Tensor or None) has a nan."""
    for i, out in enumerate(outs):
        array = raw_values(out) if hasattr(out, "_array") else out
        if array is None or array.dtype.kind not in "fcV" or hasattr(array, "nowhere"):
            continue  # `nowhere`: it has no values
        if array.__class__ is shared.sparse:
            array = array.values
        if bool((array != array).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


handed.over(stamp)
