"""Compare the machine code of the kernels with ci/sass.txt; exit 1 where it got worse. `--write` writes the table anew.

Needs gradlib[test]: NVRTC and nvdisasm as packages, no GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests.kernels

from gradlib.devices.cuda import fused
from gradlib.devices.cuda.kernels import FAMILIES, OPTIONS
from tests.kernels import sass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write ci/sass.txt")
    arguments = parser.parse_args()
    fused.load()
    families = [FAMILIES[name] for name in sorted(FAMILIES)]
    rows = [row for f in families for row in sass.rows_of(f.code, f.kernels, OPTIONS)]
    before = sass.table()[1] if sass.TABLE.exists() else {}
    found = [
        line
        for row in rows
        for line in sass.worse(row, before.get(row.kernel.replace(" ", ""), row))
    ]
    print("\n".join(found) or f"{len(rows)} kernels, none is worse than in {sass.TABLE.name}")
    if arguments.write:
        sass.TABLE.write_text(sass.table_text(rows))
        return 0
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
