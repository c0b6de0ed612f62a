"""python -m tests.transforms [--all] [--check NAME]... [KEY...]: every public callable under every transform.

Without --all a part of the combinations is drawn, by the seed in GRADLIB_TRANSFORMS_SEED. A KEY is a part of a name.
"""

from __future__ import annotations

import argparse
import time

from .cases import cases
from .listed import listed
from .trying import CHECKS, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("--check", action="append", choices=sorted(CHECKS))
    parser.add_argument("--listed", action="store_true", help="those of exceptions.txt, too")
    parser.add_argument("--part", default="0/1", help="k/n: the k-th of n parts")
    parser.add_argument("keys", nargs="*")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    tried = failed = 0
    spent: dict[str, float] = {}
    for n, (key, own) in enumerate(cases().items()):
        if n % parts != part or (options.keys and not any(k in key for k in options.keys)):
            continue
        for case in own:
            for check in options.check or CHECKS:
                if not options.listed and listed(key, case.number, check):
                    continue
                start = time.perf_counter()
                text = outcome(case, check)
                spent[check] = spent.get(check, 0.0) + time.perf_counter() - start
                tried += text != "-"
                if text not in (None, "-"):
                    failed += 1
                    print(f"{check} | {case!r} | {text}", flush=True)
    print(f"{tried} tried, {failed} failed;", {k: round(v) for k, v in spent.items()})
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
