"""What CuPy makes of half types: the dtypes of results, recorded in half_types.txt.

    python -m tests.simulated_cuda.half_types

writes the file. It needs CuPy, but no GPU (tests/cupy_on_cpu). Run it when the simulated device is to follow a newer
CuPy; tests/simulated/test_half_types.py compares the file with the stand-in and, on a device, with CuPy itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from .api import BFLOAT16

FILE = Path(__file__).with_suffix(".txt")
KINDS = {"bfloat16": BFLOAT16, "float16": np.dtype(np.float16)}
# v, w: vectors; m: a matrix; s: a square one; z: 0-dim; c: bool; i, u, n: int8, uint8, int64; k: positions; f, d: wider
PROBES = """
where(c, v, w)
where(c, v, z)
where(c, v, 0)
where(c, 0, v)
where(c, v, 0.5)
where(c, v, c)
where(c, v, f)
where(c, v, v.dtype.type(2))
clip(v, -1, 1)
clip(v, w, w)
clip(v, None, 1.0)
clip(v, w, None)
v.clip(None, w)
round(v)
round(v, 1)
v.round()
tril(m)
triu(m, 1)
v + 1
v + 1.5
v + 1j
v + c
v + i
v + u
v + n
v + f
v + d
v + z
v + xp.float32(2)
v + v.dtype.type(2)
f + 1j
n + 1.5
c * 1.5
v / 2
2 / v
v ** 2
v // 2
v % w
v < 1.5
add(v, w, f)
add(v, f, v)
add(v, w, dtype=v.dtype)
maximum(v, 0.5)
maximum(v, w)
arctan2(v, w)
copysign(v, 1)
divmod(v, w)
frexp(v)
hypot(v, w)
ldexp(v, k.astype('i4'))
logaddexp(v, w)
modf(v)
nextafter(v, w)
power(v, w)
sign(v)
signbit(v)
isnan(v)
logical_not(v)
angle(v)
nan_to_num(v)
isclose(v, w)
isin(v, w)
sum(m, 0)
sum(m, 0, dtype='f4')
m.prod(0)
m.mean(0)
m.max(0)
m.argmax(0)
m.any(0)
m.var(0)
m.std(0)
nansum(m, 0)
nanmean(m, 0)
nanmax(m, 0)
median(m, 0)
count_nonzero(m)
cumsum(m, 0)
m.cumprod(0)
add.accumulate(m, 0)
add.reduce(m, 0)
diff(v)
sort(v)
argsort(v)
v.argsort()
partition(v, 1)
unique(v)
searchsorted(w, v)
bincount(k, v)
arange(3, dtype=v.dtype)
full(3, 1.5, v.dtype)
full_like(v, 2)
eye(3, dtype=v.dtype)
array([1.5, 2], v.dtype)
v.astype('i8')
n.astype(v.dtype)
concatenate([v, w])
concatenate([v, f])
concatenate([v, n])
stack([v, f])
take(v, k)
repeat(v, 2)
v[k]
outer(v, w)
matmul(m, m.T)
matmul(m, v[:3])
matmul(m[None], m.T[None])
dot(v, w)
tensordot(m, m, 2)
result_type(v, f)
result_type(v, n)
linalg.norm(v)
linalg.det(s)
linalg.slogdet(s)
linalg.inv(s)
linalg.solve(s, s)
linalg.qr(s)
linalg.svd(s)
linalg.eigh(s)
linalg.eig(s)
linalg.cholesky(s)
linalg.matrix_power(s, 2)
""".strip().splitlines()


def arguments(xp: Any, dtype: np.dtype) -> dict[str, Any]:
    def array(values: Any, kind: Any = dtype):
        return xp.asarray(np.asarray(values).astype(kind))

    return {
        "xp": xp, "v": array([1.5, -2.0, 0.3, 100]), "w": array([0.5, 0.25, -0.75, 1]),
        "m": array([[1.5, -2, 3], [0.25, 5, -0.5]]), "s": array([[4, 1], [1, 3]]), "z": array(2.5),
        "c": array([1, 0, 1, 0], "?"), "i": array([3, -1, 2, 1], "i1"), "u": array([3, 1, 2, 1], "u1"),
        "n": array([3, -1, 2, 300], "i8"), "k": array([0, 2, 1, 1], "i8"), "f": array([1.1, 2.2, -3.3, 1], "f4"),
        "d": array([1.1, 2.2, -3.3, 4], "f8"),
    }  # fmt: skip


def answer(xp: Any, probe: str, dtype: np.dtype) -> str:
    """The dtypes of the result, or "error"."""
    names = arguments(xp, dtype)
    function = probe.partition("(")[0].partition(".")[0]
    if function not in names and hasattr(xp, function):
        names[function] = getattr(xp, function)
    try:
        result = eval(probe, names)
    except Exception:
        return "error"
    parts = result if isinstance(result, (tuple, list)) else [result]
    return " ".join(str(getattr(part, "dtype", part)) for part in parts)


def answers(xp: Any, kind: str) -> dict[str, str]:
    return {probe: answer(xp, probe, KINDS[kind]) for probe in PROBES}


def recorded(kind: str) -> dict[str, str]:
    rows = [line.split("\t") for line in FILE.read_text().splitlines()]
    column = rows[0].index(kind)
    return {row[0]: row[column] for row in rows[1:]}


def main() -> None:
    from ..cupy_on_cpu import machine

    machine.install()
    import cupy

    columns = {kind: answers(cupy, kind) for kind in KINDS}
    rows = [["CuPy " + cupy.__version__, *KINDS]]
    rows += [[probe, *(column[probe] for column in columns.values())] for probe in PROBES]
    FILE.write_text("\n".join("\t".join(row) for row in rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
