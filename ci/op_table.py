"""Print the coverage of every declared op: vjp, jvp, double backward, in-place, batching; exit 1 on a hole.

A hole is an op with neither a derivative nor a reason in NOT_DIFFERENTIABLE below.
"""

from __future__ import annotations

import argparse

import gradlib  # noqa: F401 - declares the ops
from gradlib.core.op import REGISTRY, Op

# Why an op has no derivative. Everything else must have one.
NOT_DIFFERENTIABLE = {
    "bool": "its values are bool",
    "integer": "its values are integers",
    "random": "it is not a deterministic function",
}


def row(op: Op) -> dict[str, str]:
    """The table's cells for one op."""
    reason = op.nondifferentiable if isinstance(op.nondifferentiable, str) else ""
    jvp = (
        ""
        if not op.differentiable
        else op.jvp
        if isinstance(op.jvp, str)
        else "explicit"
        if op.jvp
        else "derived"
    )
    return {
        "op": op.name,
        "node": op.node_name if op.differentiable else "",
        "vjp": "joint" if op.vjp else "yes" if op.formulas else "-",
        "jvp": jvp or "-",
        "double": "formula" if op.differentiable else "-",
        "inplace": "yes" if op.inplace else "",
        "view": "yes" if op.view else "",
        "batch": op.batch if isinstance(op.batch, str) else "rule",
        "complex": "yes" if op.complex else "",
        "note": ""
        if op.differentiable
        else NOT_DIFFERENTIABLE.get(reason, reason or "HOLE: no derivative, no reason"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    args = parser.parse_args()
    rows = [row(REGISTRY[name]) for name in sorted(REGISTRY)]
    columns = list(rows[0])
    widths = {c: max(len(c), *(len(r[c]) for r in rows)) for c in columns}
    join = (lambda cells: "| " + " | ".join(cells) + " |") if args.markdown else "  ".join
    print(join([c.ljust(widths[c]) for c in columns]))
    if args.markdown:
        print(join(["-" * widths[c] for c in columns]))
    for r in rows:
        print(join([r[c].ljust(widths[c]) for c in columns]).rstrip())
    holes = [r["op"] for r in rows if r["note"].startswith("HOLE")]
    derived = sum(r["jvp"] == "derived" for r in rows)
    print(
        f"\n{len(rows)} ops, {sum(r['vjp'] != '-' for r in rows)} differentiable "
        f"({derived} with a derived jvp), {len(holes)} holes"
    )
    if holes:
        print("holes: " + ", ".join(holes))
    return 1 if holes else 0


if __name__ == "__main__":
    raise SystemExit(main())
