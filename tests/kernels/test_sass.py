"""The machine code of the kernels is as good as ci/sass.txt says, and the table reads machine code rightly."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from nvrtc import compile_module, ptx_of, version

from gradlib.devices.cuda import fused
from gradlib.devices.cuda.kernels import FAMILIES, OPTIONS, source
from tests.kernels import sass

fused.load()

ON_TENSOR_CORES = ("attention", "attention_dq", "attention_dkv", "conv_map", "conv_weight")
"""The products of half types (kernels/product.cuh)."""
WRITE = "python ci/sass.py --write writes the table"
# what the kernels do not do yet, so that the columns are known to see it
STAGED = r"""
template <int> __global__ void staged(const float4* from, float* to, int tiles) {
  __shared__ __align__(16) float4 room[64];
  const unsigned at = (unsigned)__cvta_generic_to_shared(room + threadIdx.x);
  float sums[4] = {0, 0, 0, 0};
  for (int tile = 0; tile < tiles; ++tile) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from + tile * 64 + threadIdx.x));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    unsigned a[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[0]), "r"(a[1]));
    __syncthreads();
  }
  for (int k = 0; k < 4; ++k) to[threadIdx.x * 4 + k] = sums[k];
}
"""
COPY = r"""
template <typename T> __global__ void copy(const T* from, T* to) { to[threadIdx.x] = from[threadIdx.x]; }
template <int N> __global__ void keep(const float* from, float* to) {
  float kept[N];
  for (int k = 0; k < N; ++k) kept[k] = from[k];
  for (int k = 0; k < N; ++k) to[k] = kept[(int)from[k]];
}
"""

FRAGMENTS = r"""
template <bool FLIPPED> __global__ void fragments(unsigned* out) {
  SHARED_MEMORY(float16, tile);
  unsigned four[4];
  load_four<FLIPPED>(four, tile + 24);
  for (int i = 0; i < 4; ++i) out[i * 32 + threadIdx.x] = four[i];
}
"""

ARITHMETIC = r"""
template <typename T> __global__ void compute(const T* x, T* y, bool* larger) {
  y[0] = x[0] * x[1] + x[2];
  y[1] = x[3] * x[4];
  y[2] = x[5] + x[6];
  larger[0] = x[7] > x[8];
}
template <int> __global__ void widen(const float* x, double* y) { y[0] = x[0]; }
"""


def a_row(**changed) -> sass.Row:
    row = sass.Row("k", 32, 0, 0, 8, 4, 2, 10.0, 20.0, {128: 2, 32: 1}, {64: 1}, {})
    return replace(row, **changed)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_kernel_got_worse(family):
    # rows: DEV-26
    made_by, before = sass.table()
    assert made_by == "{}.{}".format(*version()), f"another NVRTC than the table's: {WRITE}"
    module = FAMILIES[family]
    found = []
    for row in sass.rows_of(module.code, module.kernels, OPTIONS):
        known = before.get(row.kernel.replace(" ", ""))
        found += sass.worse(row, known) if known else [f"{row.kernel} is new: {WRITE}"]
        if row.kernel.startswith(tuple(f"{name}<" for name in ON_TENSOR_CORES)):
            assert bool(row.mma) == ("float16" in row.kernel), row
    assert not found, "\n".join(found)


def test_the_table_has_no_kernels_that_are_gone():
    # rows: DEV-26
    there = {k.replace(" ", "") for module in FAMILIES.values() for k in module.kernels}
    assert set(sass.table()[1]) <= there, WRITE


def test_products_loads_and_copies_are_seen():
    # rows: DEV-26
    code = COPY + STAGED
    [row] = sass.rows_of(code, ("staged<0>",), OPTIONS)
    assert row.mma == row.ldsm == row.async_ > 0
    assert row.inner is not None and row.inner == row.outer and 5 < row.inner < 60
    narrow, wide, kept = sass.rows_of(code, ("copy<short>", "copy<float4>", "keep<300>"), OPTIONS)
    assert (narrow.ldg, wide.ldg) == ({16: 1}, {128: 1}) and (narrow.stg, wide.stg) == (
        {16: 1},
        {128: 1},
    )
    assert narrow.inner is None and narrow.stack == narrow.local == 0
    assert kept.stack >= 1200 and kept.local > 0


@pytest.mark.parametrize("flipped", [False, True])
def test_matrices_come_from_shared_memory_as_the_pretended_device_has_them(flipped):
    """What `load_four` is on a GPU, of one small kernel; test_cuda_on_cpu.py runs what stands for it elsewhere."""
    code = source("common.cuh") + source("product.cuh") + FRAGMENTS
    kernel = f"fragments<{str(flipped).lower()}>"
    text = ptx_of("compute_90", code, kernel, OPTIONS)
    [(how, given, at)] = re.findall(r"\bldmatrix\.(\S+) \{([^}]*)\}, \[([^\]]*)\]", text)
    assert how == f"sync.aligned.m8n8.x4.{'trans.' * flipped}shared.b16"
    stored = re.findall(r"st\.global\.u32\s+\[%\w+(?:\+(\d+))?\], (%r\d+);", text)
    assert stored == [(str(128 * i or ""), r) for i, r in enumerate(given.split(","))]  # in order
    assert re.search(rf"add\.s64\s+(%rd\d+), %rd\d+, 48;\s+cvt\.u32\.u64\s+{at}, \1;", text), text
    made = compile_module(sass.ARCHITECTURE, code, (kernel,), OPTIONS)
    [function] = sass.disassembled(made.binary).values()
    moved = [o for o in function.operations if o.startswith("LDSM")]
    assert moved == [f"LDSM.16.M{'T' * flipped}88.4"]


def test_what_is_small_is_flushed_in_float32_alone_and_products_are_fused():
    # rows: DEV-26
    kernels = ("compute<float>", "compute<double>", "widen<0>")
    made = compile_module(sass.ARCHITECTURE, ARITHMETIC, kernels, OPTIONS)
    codes = sass.disassembled(made.binary)
    single, double, widen = (
        [o for o in codes[name].operations if o[0] in "FD"] for name in made.names.values()
    )
    assert [o.partition(".")[0] for o in single] == ["FFMA", "FMUL", "FADD", "FSETP"]
    assert all("FTZ" in o for o in single)
    assert [o.partition(".")[0] for o in double] == ["DFMA", "DMUL", "DADD", "DSETP"]
    assert not any("FTZ" in o for o in double)
    assert widen == ["FMUL.FTZ", "F2F.F64.F32"]  # a product with one: flushed before it is cast


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stack": 8}, "k: stack grew from 0 to 8"),
        ({"local": 1}, "k: local grew from 0 to 1"),
        ({"mma": 0}, "tensor cores: there were 8, now there are none"),
        ({"ldsm": 0}, "ldmatrix"),
        ({"async_": 0}, "asynchronous copies"),
        ({"inner": 10.1}, "inner loop) grew from 10.0 to 10.1"),
        ({"outer": 25.0}, "outer loop"),
        ({"ldg": {64: 4, 32: 1}}, "ldg: the widest was 128 bits, now it is 64"),
    ],
)
def test_worse_is_reported(changed, said):
    # rows: DEV-26
    [text] = sass.worse(a_row(**changed), a_row())
    assert said in text


def test_better_is_not_worse():
    # rows: DEV-26
    better = {"stack": 0, "mma": 16, "inner": 9.0, "outer": None, "lds": {128: 1}, "stg": {128: 1}}
    assert sass.worse(a_row(**better), a_row()) == []


def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    # rows: DEV-26
    rows = [a_row(), a_row(kernel="f<float, 2>", inner=None, ldg={})]
    monkeypatch.setattr(sass, "TABLE", tmp_path / "sass.txt")
    sass.TABLE.write_text(sass.table_text(rows))
    _, read = sass.table.__wrapped__()
    assert list(read.values()) == [rows[0], replace(rows[1], kernel="f<float,2>")]
