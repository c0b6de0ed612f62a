"""Places in the program: entries of stacks, lines as "file:line", short forms of them, and their text."""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from collections.abc import Iterable

from ..tape import source


def stack_entry(site: tuple) -> str:
    """(code, instruction) as an entry of ``event.stack``."""
    code = site[0]
    return f"{code.co_filename}({source.line(site)}): {code.co_name}"


_ENTRY = re.compile(r"(.+)\((\d+)\): ")


def line_of(stack: Iterable[str] | None) -> str:
    """The innermost call as "file:line", "" without any."""
    for entry in stack or ():
        found = _ENTRY.match(entry)
        return f"{found[1]}:{found[2]}" if found else entry
    return ""


def short_lines(lines: Iterable[str]) -> dict[str, str]:
    """Short forms such as "model.py:88" of "/home/me/model.py:88", with as many folders as tell the files apart."""
    files: dict[str, list[str]] = {}
    for line in lines:
        file = line.rpartition(":")[0]
        files[file] = file.replace("\\", "/").split("/")
    names, depth = {file: parts[-1] for file, parts in files.items()}, 1
    while depth < max(map(len, files.values()), default=0):
        sharing = defaultdict(list)
        for file, name in names.items():
            sharing[name].append(file)
        depth += 1
        for group in sharing.values():
            if len(group) > 1:
                names.update({file: "/".join(files[file][-depth:]) for file in group})
    return {line: f"{names[line.rpartition(':')[0]]}:{line.rpartition(':')[2]}" for line in lines}


def source_text(line: str) -> str:
    """The program's text at "file:line"; "" if the file cannot be read."""
    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""
