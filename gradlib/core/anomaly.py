"""Anomaly mode: nodes remember the stack of their forward call, and backward looks for nan."""

from __future__ import annotations

import sys
import traceback
import warnings

from .modes import state
from .source import LIBRARY


def stamp(node) -> None:
    """Remember where the program is, and the node whose backward is running, if one is."""
    extra = node.make_extra()
    frame = sys._getframe(1)
    while LIBRARY[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    # source lines are read when the text is asked for
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    stack.reverse()
    extra.traceback, extra.parent = stack, state.current_node


def describe(node) -> str:
    """The forward call of `node`, and those of the nodes whose backward made it."""
    extra = node.extra
    name = node.name()
    if extra is None or extra.traceback is None:
        return (
            f"Error detected in {name}. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information."
        )
    parts = [
        f"Error detected in {name}. Traceback of forward call that caused the error:\n",
        *extra.traceback.format(),
    ]
    parent = extra.parent
    while parent is not None:
        extra = parent.extra
        text = f"\n\nPrevious calculation was induced by {parent.name()}. "
        if extra is None or extra.traceback is None:
            parts.append(
                f"{text}No forward pass information available. Enable detect anomaly during "
                "forward pass for more information."
            )
            break
        parts += [
            f"{text}Traceback of forward call that induced the previous calculation:\n",
            *extra.traceback.format(),
        ]
        parent = extra.parent
    return "".join(parts)


def report(node) -> None:
    """Warn about the node whose backward failed; on stderr where warnings are errors, so that the error stays itself."""
    text = describe(node)
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        print(text, file=sys.stderr)


def check_nan(node, outs: tuple) -> None:
    """RuntimeError if a gradient (raw array, Tensor or None) has a nan."""
    for i, out in enumerate(outs):
        array = getattr(out, "_array", out)
        if array is not None and array.dtype.kind in "fcV" and bool((array != array).any()):  # noqa: PLR0124
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
