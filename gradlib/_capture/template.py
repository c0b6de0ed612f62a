"""The calls of a kernel as a pattern: the next lines of the same kernel, with other variables, are filled in."""

from __future__ import annotations

import re
from typing import Any

from .memory import Made

_VARIABLE = re.compile(r"\b[tarc]\d+\b")


class Template:
    """The calls of a kernel, whatever variables it is called with.

    Args:
        found: lines, and the variables of their results; None if the calls cannot be told.
        names: the variables of its arguments, None for those that are none. used: other constants in the lines.
        function, others, settings: what it is, and arguments that are no variables: their ids stay theirs.
    """

    def __init__(
        self,
        found: Any,
        names: list,
        used: dict[str, Any],
        function: Any,
        others: list,
        settings: dict,
    ):
        self._known = found is not None
        self._function, self._others, self._settings = function, others, settings
        self._used = list(used.values())
        places: dict[str, int] = {}  # of variables
        for name in (*filter(None, names), *used):
            places.setdefault(name, len(places))
        self._given = [names.index(n) for n in places if n not in used]

        def place(name: str) -> int:
            return places.setdefault(name, len(places))

        def pattern(text: str) -> str:
            text = text.replace("{", "{{").replace("}", "}}")
            return _VARIABLE.sub(lambda m: f"{{{place(m[0])}}}", text)

        self._lines = [
            (
                pattern(text),
                None if new is None else (pattern(new.text), new),
                [place(o) for o in outs],
                [place(i) for i in ins],
            )
            for text, outs, ins, new in (found[0] if found is not None else ())
        ]
        self._outs = [place(o) for o in found[1]] if found is not None else []
        self._count = len(places)

    def lines(self, draft: Any, names: list, args: list, kwargs: dict) -> tuple | None:
        """The lines for other variables, and arguments that are equal to those that it was made of."""
        if not self._known:
            return None
        new: list[str] = [names[i] for i in self._given]
        if self._used:
            given = [a for a, n in zip(args, names, strict=True) if n is None]
            same = _by_id([*self._others, *self._settings.values()], [*given, *kwargs.values()])
            new += [draft.constant(same.get(id(value), value)) for value in self._used]
        new += [draft.fresh() for _ in range(self._count - len(new))]
        lines = []
        for text, known, outs, ins in self._lines:
            if known is not None:
                known = Made(known[0].format(*new), *known[1][1:])
            written = tuple([new[o] for o in outs]), tuple([new[i] for i in ins])
            lines.append((text.format(*new), *written, known))
        return lines, tuple([new[o] for o in self._outs])


def _by_id(old: Any, new: Any) -> dict[int, Any]:
    """What is in the place of each object of a tree in an equal one."""
    found = {id(o): n for o, n in zip(old, new, strict=True)}
    for o, n in zip(old, new, strict=True):
        if isinstance(o, (tuple, list)) and o is not n:
            found |= _by_id(o, n)
    return found
