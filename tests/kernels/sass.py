"""What the compiler made of the kernels: machine code for sm_90, taken apart by nvdisasm, and the table ci/sass.txt.

A row says of one kernel what its speed hangs on and no test of its numbers can see: spilled registers, whether products
run on tensor cores, whether tiles come by ldmatrix and by asynchronous copies, how wide memory is read, and how many
instructions there are for each matrix product of a loop. `worse` compares a row with the one that the table has.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from tests.kernels import nvrtc

ARCHITECTURE = "sm_90"
TABLE = Path(__file__).parents[2] / "ci" / "sass.txt"
HEAD = f"""\
# Machine code of the kernels for {ARCHITECTURE}, written by `python ci/sass.py --write`; tests/kernels/test_sass.py
# fails where it gets worse. regs: registers of a thread; stack: its bytes in memory, spilled registers among them;
# local: instructions that read or write those; mma: matrix products on tensor cores; ldsm: ldmatrix;
# async: asynchronous copies to shared memory; inner, outer: instructions for each mma in the innermost and in the
# outermost loop around one, - where there is none; ldg, stg, lds: reads and writes of global memory and reads of shared
# memory, as bits x how many.
"""
OPERATION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?(\S+)(.*)")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}


@dataclass(frozen=True)
class Row:
    """One kernel; the fields are the table's columns."""

    kernel: str
    regs: int
    stack: int
    local: int
    mma: int
    ldsm: int
    async_: int
    inner: float | None
    outer: float | None
    ldg: dict[int, int]
    stg: dict[int, int]
    lds: dict[int, int]


@dataclass(frozen=True)
class Function:
    """The instructions of a kernel in order, and its loops as (first, last) instruction."""

    operations: list[str]
    loops: list[tuple[int, int]]


def disassembled(binary: bytes) -> dict[str, Function]:
    """The kernels of an ELF file, by their names in it."""
    program = nvrtc.installed("*/bin/nvdisasm", "nvidia-cuda-nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = subprocess.run(
            [str(program), "-c", file.name], capture_output=True, text=True, check=True
        )
    parts = re.split(r"^//-+ \.text\.(\S+) +-+$", done.stdout, flags=re.M)
    return {name: function(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def function(text: str) -> Function:
    """A kernel from the text of its section."""
    operations: list[str] = []
    labels: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    for line in text.splitlines():
        if found := OPERATION.match(line):
            if found[2].startswith("BRA") and (target := TARGET.search(found[3])):
                branches.append((len(operations), target[1]))
            operations.append(found[2].rstrip(";"))
        elif line.startswith(".L_x_"):
            labels[line.rstrip(":")] = len(operations)
    return Function(operations, [(labels[to], at) for at, to in branches if labels[to] <= at])


def width(operation: str) -> int:
    """The bits that an instruction moves for each thread."""
    return next((WIDTHS[part] for part in operation.split(".") if part in WIDTHS), 32)


def each_mma(code: Function, innermost: bool) -> float | None:
    """Instructions for each matrix product, in the loops around products that hold no other one or are in no other."""
    at = [i for i, operation in enumerate(code.operations) if operation.startswith("HMMA")]
    around = {loop for loop in code.loops if any(loop[0] <= i <= loop[1] for i in at)}

    def within(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a != b and b[0] <= a[0] and a[1] <= b[1]

    chosen = [
        a for a in around if not any(within(b, a) if innermost else within(a, b) for b in around)
    ]
    if not chosen:
        return None
    instructions = {i for first, last in chosen for i in range(first, last + 1)}
    return round(len(instructions) / len(instructions.intersection(at)), 1)


def row(kernel: str, code: Function, needs: nvrtc.Needs) -> Row:
    """What the table says of a kernel."""
    kinds = Counter(operation.partition(".")[0] for operation in code.operations)

    def widths(*names: str) -> dict[int, int]:
        found = Counter(width(o) for o in code.operations if o.partition(".")[0] in names)
        return dict(sorted(found.items(), reverse=True))

    return Row(
        kernel=kernel,
        regs=needs.registers,
        stack=needs.spilled,
        local=kinds["LDL"] + kinds["STL"],
        mma=kinds["HMMA"],
        ldsm=kinds["LDSM"],
        async_=kinds["LDGSTS"],
        inner=each_mma(code, innermost=True),
        outer=each_mma(code, innermost=False),
        ldg=widths("LDG", "LD"),
        stg=widths("STG", "ST"),
        lds=widths("LDS"),
    )


def rows_of(code: str, kernels: tuple[str, ...], options: tuple[str, ...]) -> list[Row]:
    """The rows of a module's kernels."""
    made = nvrtc.compile_module(ARCHITECTURE, code, kernels, options)
    functions, needs = disassembled(made.binary), nvrtc.needs_of(made.log)
    return [row(kernel, functions[name], needs[name]) for kernel, name in made.names.items()]


def worse(now: Row, before: Row) -> list[str]:
    """In what a kernel is worse than the table says."""
    found = []
    for name in ("stack", "local"):
        if getattr(now, name) > getattr(before, name):
            found.append(f"{name} grew from {getattr(before, name)} to {getattr(now, name)}")
    for name, what in (
        ("mma", "tensor cores"),
        ("ldsm", "ldmatrix"),
        ("async_", "asynchronous copies"),
    ):
        if getattr(before, name) and not getattr(now, name):
            found.append(f"{what}: there were {getattr(before, name)}, now there are none")
    for name in ("inner", "outer"):
        a, b = getattr(before, name), getattr(now, name)
        if a is not None and b is not None and b > a:
            found.append(f"instructions for each mma ({name} loop) grew from {a} to {b}")
    for name in ("ldg", "stg", "lds"):
        a, b = max(getattr(before, name), default=0), max(getattr(now, name), default=0)
        if b and b < a:
            found.append(f"{name}: the widest was {a} bits, now it is {b}")
    return [f"{now.kernel}: {what}" for what in found]


# -- the table -------------------------------------------------------------------------------------------------------

COLUMNS = [f.name.rstrip("_") for f in fields(Row)]


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{bits}x{n}" for bits, n in value.items()) or "-"
    return "-" if value is None else str(value).replace(" ", "")


def table_text(rows: list[Row]) -> str:
    """The table as a text."""
    lines = [COLUMNS, *([_cell(getattr(r, f.name)) for f in fields(Row)] for r in rows)]
    widest = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = [
        " ".join(c.ljust(w) for c, w in zip(line, widest, strict=True)).rstrip() for line in lines
    ]
    return "\n".join([HEAD + "# NVRTC {}.{}".format(*nvrtc.version()), *body, ""])


@cache
def table() -> tuple[str, dict[str, Row]]:
    """(version of the compiler, rows by kernel without blanks) of the committed table."""
    text = TABLE.read_text()
    rows = {}
    for line in text.splitlines():
        cells = line.split()
        if not line.startswith("#") and cells != COLUMNS:
            regs, stack, local, mma, ldsm, async_ = map(int, cells[1:7])
            inner, outer = map(_number, cells[7:9])
            ldg, stg, lds = map(_widths, cells[9:])
            rows[cells[0]] = Row(
                cells[0], regs, stack, local, mma, ldsm, async_, inner, outer, ldg, stg, lds
            )
    [found] = re.findall(r"^# NVRTC (\S+)$", text, re.M)
    return found, rows


def _number(cell: str) -> float | None:
    return None if cell == "-" else float(cell)


def _widths(cell: str) -> dict[int, int]:
    pairs = [] if cell == "-" else [part.split("x") for part in cell.split(",")]
    return {int(bits): int(count) for bits, count in pairs}
