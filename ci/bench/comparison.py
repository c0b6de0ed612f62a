"""A run beside an earlier one: which rows lost."""

import dataclasses
import json
import math
import sys

import report

MORE_IS_BETTER = {"times", "GB/s", "% copy"}  # units of figures
TRIES = 3  # measurements of a row that lost, with the first; the best of them counts


@dataclasses.dataclass(frozen=True)
class Change:
    """A row then and now: ratios to PyTorch, or times (figures) where one of the runs had none.

    loss: the part by which it got worse; 0.05 is 5 %, and below 0 it got better.
    """

    name: str
    kind: str
    old: float
    new: float
    loss: float


def read(path, device, threads):
    """The rows by name of a file that --json wrote; ends the program if it is none.

    So it does where the file is of another kind of device, or another number of threads.
    """
    try:
        content = json.loads(path.read_text())
        entries = {entry["name"]: entry for entry in content["rows"]}
        there = content["facts"]["device"]
        then = content["facts"].get("threads", 1)  # once there was no other number
    except OSError as error:
        sys.exit(f"bench: cannot read {path}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(
            f"bench: {path} is no file that --json wrote ({type(error).__name__}: {error}); "
            "run python ci/bench --json FILE on the older version"
        )
    if there.partition(",")[0] != device:
        sys.exit(f"bench: {path} was measured on {there}; compare it with --device {there[:4]}")
    if then != threads:
        sys.exit(
            f"bench: {path} was measured with {then} threads, not {threads}: "
            f"compare it with --threads {then}"
        )
    return entries


def change(row, entries):
    """How a row differs from the earlier one; None if there is nothing to compare. Phases go with their whole."""
    entry = entries.get(row.name)
    if entry is None or entry["error"] or row.error or row.name.startswith(" "):
        return None
    kind, old, new = "ratio", entry["ratio"], row.ratio
    if old is None or new is None:
        kind, values = row.unit, entry.get("seconds") or entry.get("values") or {}
        old, new = values.get("gradlib"), row.medians.get("gradlib")
        if entry["unit"] != row.unit or old is None or new is None:
            return None
    if not (old > 0 and new > 0 and math.isfinite(old) and math.isfinite(new)):
        return None  # a share of 0, say
    worse = old / new if row.unit in MORE_IS_BETTER else new / old
    return Change(row.name, kind, old, new, worse - 1)


def print_changes(rows, entries, limit, again):
    """The table. Returns the names of the rows that lost more than `limit`.

    again: ``again(name)`` measures the row of that name once more; None if it cannot.
    """
    lost, compared = [], 0
    print(f"\n{'':28}{'old':>12}{'new':>12}{'change':>10}")
    for row in rows:
        found = change(row, entries)
        if found is None:
            continue
        compared += 1
        tries = [found]
        while tries[-1].loss > limit and len(tries) < TRIES:
            other = again(row.name)
            more = None if other is None else change(other, entries)
            if more is None:
                break
            tries.append(more)
        best = min(tries, key=lambda t: t.loss)
        if best.loss > limit:
            lost.append(row.name)
        print(line(best, len(tries), best.loss > limit), flush=True)
    text = f"{compared} rows compared, {len(lost)} lost more than {100 * limit:g} %"
    print("\n" + text + (f": {', '.join(lost)}" if lost else ""))
    return lost


def line(found, tries, lost):
    """One row of the table."""
    scale = report.SCALE.get(found.kind, 1.0)
    text = f"{found.name:28}{found.old * scale:12.3f}{found.new * scale:12.3f}{100 * found.loss:+9.1f}%"
    text += f"  {found.kind}"
    if lost:
        return f"{text}  LOST, measured {tries} times"
    return text + (f"  (best of {tries})" if tries > 1 else "")
