"""The user's source line of an op: kept as (code, instruction), turned into text only for an error."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType

from .modes import state

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
GENERATED = "<gradlib "


LIBRARY: dict[str, bool | int] = {}  # file name -> whether it belongs to gradlib, or ONE_SITE
ONE_SITE = (
    2  # a file whose functions record several nodes for one call of the user; see `user_frame`
)


def learn(filename: str) -> bool:
    """Fill LIBRARY on first sight of a file."""
    known = LIBRARY[filename] = filename.startswith((_PACKAGE, GENERATED))
    return known


def is_library(filename: str) -> bool:
    """Whether the file (or generated code) belongs to gradlib."""
    known = LIBRARY.get(filename)
    return learn(filename) if known is None else bool(known)


def user_frame(frame: FrameType) -> FrameType:
    """The innermost frame at or above `frame` whose code is not gradlib's.

    What lies above a function of a file marked ONE_SITE is looked for once while that function runs: it has set
    `state.site` to None, and sets it back when it ends.
    """
    while True:
        filename = frame.f_code.co_filename
        known = LIBRARY.get(filename)
        if not (learn(filename) if known is None else known):
            return frame
        if known == ONE_SITE:
            if state.site is None:
                state.site = _above(frame)
            return state.site
        outer = frame.f_back
        if outer is None:
            return frame
        frame = outer


def _above(frame: FrameType) -> FrameType:
    """`user_frame` of the caller of a function that remembers it."""
    while frame.f_back is not None:
        frame = frame.f_back
        if not is_library(frame.f_code.co_filename):
            break
    return frame


def user_frame_above(depth: int) -> FrameType:
    """`user_frame` of the caller, of whom it is known that he and the frames up to `depth` above are the library's.

    A look at a frame makes an object of it, which costs more than to pass it over.
    """
    try:
        frame = sys._getframe(depth + 2)
    except ValueError:  # a thread whose function is one of the library
        frame = sys._getframe(1)
    return user_frame(frame)


def user_level() -> int:
    """The `stacklevel` that makes a warning of the caller speak of the first frame outside of the library."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame.f_back is not None and is_library(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def here() -> tuple[CodeType, int]:
    """The site of the caller's user: where a graph is cut, changed or freed."""
    frame = user_frame(sys._getframe(1))
    return frame.f_code, frame.f_lasti


def line(site: tuple[CodeType, int]) -> int:
    """The line number of a site."""
    return _position(*site)[0] or site[0].co_firstlineno


def describe(site: tuple[CodeType, int] | None, indent: str = "  ") -> str:
    """'train.py:41, in step' followed by the line with carets under the expression."""
    if site is None:
        return "an unknown place"
    code, instruction = site
    line, end_line, start, end = _position(code, instruction)
    where = f"{code.co_filename}:{line}, in {code.co_name}"
    text = linecache.getline(code.co_filename, line or 0).rstrip("\n")
    if not text.strip():
        return where
    stripped = text.lstrip()
    lines = [where, f"{indent}    {stripped}"]
    if start is not None and end is not None and line == end_line:
        # columns are UTF-8 byte offsets
        prefix = len(text.encode()[:start].decode(errors="ignore")) - (len(text) - len(stripped))
        width = max(1, len(text.encode()[start:end].decode(errors="ignore")))
        if prefix >= 0:
            lines.append(f"{indent}    {' ' * prefix}{'^' * width}")
    return "\n".join(lines)


def _position(code: CodeType, instruction: int):
    for index, position in enumerate(code.co_positions()):
        if index == instruction // 2:
            return position
    return (code.co_firstlineno, None, None, None)
