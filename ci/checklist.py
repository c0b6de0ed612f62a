"""Print which promises of docs/promises.md the tests cover: ``rows covered / rows``.

A test names the rows it covers in a comment or docstring: ``# rows: TENSOR-04 BWD-03``. With --missing the uncovered
rows are listed.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMISES = ROOT / "docs" / "promises.md"
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"rows?: ((?:[A-Z]+-\d+[ ,]*)+)")


def promised() -> dict[str, str]:
    """row id -> promise."""
    return dict(ROW.findall(PROMISES.read_text()))


def covered() -> dict[str, list[str]]:
    """row id -> test files that name it."""
    found: dict[str, list[str]] = {}
    for folder in ("tests", "tests_gpu"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for match in NAMED.finditer(path.read_text()):
                for row in re.findall(r"[A-Z]+-\d+", match.group(1)):
                    found.setdefault(row, []).append(str(path.relative_to(ROOT)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true", help="list the rows that no test names")
    args = parser.parse_args()
    rows, have = promised(), covered()
    areas: dict[str, list[str]] = {}
    for row in rows:
        areas.setdefault(row.split("-")[0], []).append(row)
    for area, ids in areas.items():
        print(f"{area:8} {sum(i in have for i in ids):3} / {len(ids)}")
        if args.missing:
            for i in ids:
                if i not in have:
                    print(f"    {i}: {rows[i]}")
    unknown = sorted(set(have) - set(rows))
    if unknown:
        print("tests name rows that do not exist: " + ", ".join(unknown))
    print(f"rows covered {sum(i in have for i in rows)} / {len(rows)}")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
