"""Every kernel compiles for the architectures that gradlib is used on: A100 (sm_80) and H100, H200 (sm_90)."""

from __future__ import annotations

import re

import pytest
from nvrtc import bounds_of, compile_for, compile_module, needs_of, ptx_of

from gradlib.devices.cuda import fused
from gradlib.devices.cuda.kernels import FAMILIES, MAX_BLOCK, OPTIONS, Module, folder

fused.load()

REGISTERS, SHARED = (
    1 << 16,
    48 * 1024,
)  # of a multiprocessor; bytes of a block that nobody has to ask for
HALF, OTHER = 128, 256
LIMITED = {
    "attention": (HALF, OTHER), "attention_dq": (HALF, OTHER), "attention_dkv": (HALF, OTHER),
    "conv_map": (HALF, HALF), "conv_weight": (HALF, HALF),
}  # fmt: skip
"""Threads of a block of the kernels that never have the most, of half types and of others, as __launch_bounds__ says.

For all other kernels any block may be chosen."""
SPILLED = {"conv_map<float>": 64, "conv_map<double>": 128, "conv_weight<float>": 64}
"""Bytes of each thread that are kept in memory, so that three blocks fit."""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_family_compiles(family, architecture):
    # rows: DEV-26
    module = FAMILIES[family]
    made = compile_module(architecture, module.code, module.kernels, OPTIONS)
    bounds, all_needs = bounds_of(made.binary), needs_of(made.log)
    for kernel, name in made.names.items():
        limits, need = LIMITED.get(kernel.partition("<")[0]), all_needs[name]
        assert bounds.get(name) == (limits and limits["float16" not in kernel]), kernel
        # a launch with more than a multiprocessor has fails, and only where it happens
        threads = bounds.get(name, MAX_BLOCK)
        assert need.registers * threads <= REGISTERS, f"{kernel}: {need}"
        assert need.shared <= SHARED, f"{kernel}: {need}"
        assert need.spilled <= SPILLED.get(kernel, 0), f"{kernel}: {need}"


MOVES = {
    "norm": {"norm<bfloat16, float, false, false>": (1, 1), "norm_grad<bfloat16, float, false, false>": (2, 1)},
    "batch_norm": {
        "batch_moments<bfloat16, false>": (1, 0), "batch_moments<float16, true>": (1, 0),
        "batch_apply<bfloat16, float>": (1, 1), "batch_apply_grad<bfloat16, float>": (2, 1),
    },
    "softmax": {"softmax<bfloat16, false, false>": (1, 1)},
    "reduce": {"sum_rows<bfloat16>": (1, 0), "sum_columns<bfloat16>": (1, 0)},
    "conv": {"add_bias<bfloat16>": (1, 1)},
}  # fmt: skip
"""How many accesses of 16 bytes kernels have at least, reading and writing."""


@pytest.mark.parametrize("family", MOVES)
def test_half_types_are_moved_in_packs_of_16_bytes(family):
    # rows: DEV-26
    for kernel, (loads, stores) in MOVES[family].items():
        text = ptx_of("compute_90", FAMILIES[family].code, kernel, OPTIONS)
        assert len(re.findall(r"ld\.global(?:\.nc)?\.v4\.[ufb]32", text)) >= loads, kernel
        assert len(re.findall(r"st\.global\.v4\.[ufb]32", text)) >= stores, kernel


def test_every_source_is_a_family():
    # rows: DEV-26
    assert {f.stem for f in folder().glob("*.cu")} == set(FAMILIES)


def test_bounds_are_read_from_machine_code():
    # rows: DEV-26
    code = """
    __global__ void __launch_bounds__(96) some(int* x) { x[0] = 1; }
    __global__ void __launch_bounds__(64, 4) few(int* x) { x[0] = 1; }
    __global__ void unlimited(int* x) { x[0] = 1; }
    """
    made = compile_module("sm_90", code, ("some", "few", "unlimited"))
    bounds = bounds_of(made.binary)
    assert [bounds.get(made.names[k]) for k in ("some", "few", "unlimited")] == [96, 64, None]


def test_a_mistake_is_shown():
    # rows: DEV-26
    with pytest.raises(RuntimeError, match=r"identifier .*treadIdx.* is undefined"):
        compile_for("sm_80", "__global__ void f(int* x) { x[treadIdx.x] = 1; }", ("f",))


def test_warnings_are_mistakes():
    # rows: DEV-26
    with pytest.raises(RuntimeError, match="declared but never referenced"):
        compile_for("sm_80", "__global__ void f() { int unused; }", ("f",))


def test_only_declared_kernels_can_be_launched():
    # rows: DEV-26
    module = Module("two", ("f<float>", "f<double>", "g<float, 1>"), "")
    assert module.group("f<float>") == ("f<float>", "g<float, 1>")
    with pytest.raises(KeyError, match="module two has no kernel h"):
        module.group("h")
