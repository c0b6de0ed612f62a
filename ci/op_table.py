"""Print the coverage of every declared op; exit 1 on a hole. `--write` puts it into docs/ops.md.

A hole is an op with neither a derivative nor a reason in NOT_DIFFERENTIABLE below.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gradlib  # noqa: F401 - declares the ops
from gradlib.op.declare import REGISTRY, Op
from gradlib.op.overlays import on

overlays = on("cuda")

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "ops.md"

# Why an op has no derivative. Everything else must have one.
NOT_DIFFERENTIABLE = {
    "bool": "its values are bool",
    "integer": "its values are integers",
    "random": "it is not a deterministic function",
}

HEAD = """# Operations

Every operation that gradlib declares, and what it has. Written by `python ci/op_table.py --write`; a test compares.

- **node**: the name of its graph node, where it has a gradient.
- **vjp**: `yes` for one formula per argument, `joint` for one formula for all.
- **jvp**: forward mode by a formula of its own (`explicit`), by the operation itself (`linear`), from the vjp of an
  elementwise operation (`elementwise`), or derived from the vjp. Second derivatives exist wherever a vjp does, since
  formulas are differentiable themselves.
- **batch**: the rule of `vmap` (in `operators/batching/`), or `loop`: this op for each entry, results stacked.
- **cuda**: a kernel of its own in `kernels/` for the forward, for the vjp, or `generated` from the formula (pointwise
  operations). All others run on CUDA as well, by the functions of CuPy that their formulas name.
"""


def jvp(op: Op) -> str:
    """How forward mode comes about."""
    if not op.differentiable:
        return "-"
    return op.jvp if isinstance(op.jvp, str) else "explicit" if op.jvp else "derived"


def batch(op: Op) -> str:
    """The rule of vmap."""
    name = op.batch.__name__ if callable(op.batch) else op.batch
    return name.replace("_", " ") or ("rule" if op.apart else "loop")


def fused(op: Op) -> str:
    """Kernels in place of formulas on CUDA."""
    found = {"forward": overlays.forward_of(op), "vjp": overlays.vjp_of(op)}
    own = overlays.names()
    words = [
        kind if op.name in own[kind] else f"{kind} generated"
        for kind, overlay in found.items()
        if overlay is not None
    ]
    return ", ".join(words)


def row(op: Op) -> dict[str, str]:
    """The table's cells for one op."""
    reason = op.nondifferentiable if isinstance(op.nondifferentiable, str) else ""
    hole = NOT_DIFFERENTIABLE.get(reason, reason or "HOLE: no derivative, no reason")
    return {
        "op": op.name,
        "node": op.node_name if op.differentiable else "",
        "vjp": "joint" if op.vjp else "yes" if op.formulas else "-",
        "jvp": jvp(op),
        "inplace": "yes" if op.inplace else "",
        "view": "yes" if op.view else "",
        "batch": batch(op),
        "complex": "yes" if op.complex else "",
        "cuda": fused(op),
        "note": "" if op.differentiable else hole,
    }


def table(rows: list[dict[str, str]], markdown: bool) -> list[str]:
    """The lines of the table."""
    columns = list(rows[0])
    widths = {c: max(len(c), *(len(r[c]) for r in rows)) for c in columns}

    def line(cells: dict[str, str]) -> str:
        if markdown:
            return f"| {' | '.join(cells[c] for c in columns)} |"
        return "  ".join(cells[c].ljust(widths[c]) for c in columns).rstrip()

    head = [line({c: c for c in columns})]
    if markdown:
        head.append("|---" * len(columns) + "|")
    return [*head, *map(line, rows)]


def holes(rows: list[dict[str, str]]) -> list[str]:
    return [r["op"] for r in rows if r["note"].startswith("HOLE")]


def summary(rows: list[dict[str, str]]) -> str:
    """The counts."""
    derived = sum(r["jvp"] == "derived" for r in rows)
    return (
        f"{len(rows)} ops, {sum(r['vjp'] != '-' for r in rows)} differentiable ({derived} with a derived jvp), "
        f"{sum(r['batch'] != 'loop' for r in rows)} with a batching rule, "
        f"{sum(bool(r['cuda']) for r in rows)} with CUDA kernels, {len(holes(rows))} holes"
    )


def document() -> str:
    """The text of docs/ops.md."""
    rows = [row(REGISTRY[name]) for name in sorted(REGISTRY)]
    return "\n".join([HEAD, f"{summary(rows)}.", "", *table(rows, markdown=True), ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--write", action="store_true", help="write docs/ops.md")
    args = parser.parse_args()
    rows = [row(REGISTRY[name]) for name in sorted(REGISTRY)]
    if args.write:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(document())
    else:
        print("\n".join(table(rows, args.markdown)), end="\n\n")
    print(summary(rows))
    if holes(rows):
        print("holes: " + ", ".join(holes(rows)))
    return 1 if holes(rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
