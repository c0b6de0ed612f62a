"""gradlib.devices.cuda.kernels and overlays: sources, instances, the CuPy launcher, the registry."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from host_launcher import Parameter
from test_nvrtc import LIMITED

from gradlib.devices.cuda import fused, kernels
from gradlib.devices.cuda.fused.batch_norm import _Channels
from gradlib.devices.cuda.kernels import (
    F4,
    CupyLauncher,
    Module,
    instance,
    instances,
    parts_launch,
    rows_launch,
    source,
)
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import check, on
from tests.kernels.cxx import BOUNDED

overlays = on("cuda")

fused.load()


class Function:
    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    @property
    def kernel(self):
        return self  # of the current device

    def __call__(self, grid, block, args, shared_mem=0):
        self.calls.append((self.name, grid, block, args, shared_mem))


class Library:
    """What the launcher uses of CuPy."""

    def __init__(self):
        self.compiled, self.calls, self.device = [], [], 0
        self.cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: self.device))

    def RawModule(self, *, code, options, name_expressions):
        self.compiled.append((code, options, name_expressions))
        return SimpleNamespace(get_function=lambda name: Function(name, self.calls))


def test_the_cupy_launcher_compiles_once_for_each_device():
    # rows: DEV-26
    library = Library()
    launcher = CupyLauncher(library)
    module = Module("m", ("f<float>", "f<double>", "g<float, 2>"), "code")
    for _ in range(3):
        launcher.launch(module, "f<float>", 3, (32, 8), ("a", np.int64(5)), 100)
    assert library.calls == [("f<float>", (3,), (32, 8), ("a", 5), 100)] * 3
    assert library.compiled == [("code", ("--std=c++17",), ("f<float>", "g<float, 2>"))]
    library.device = 1
    launcher.launch(module, "f<float>", (1, 2), 32, (), 64 * 1024)
    assert len(library.compiled) == 2
    assert launcher.functions[module, "f<float>", 1].max_dynamic_shared_size_bytes == 64 * 1024
    with pytest.raises(KeyError, match="has no kernel f<int>"):
        launcher.launch(module, "f<int>", 1, 32, ())


def test_a_backend_keeps_one_launcher():
    # rows: DEV-26
    backend = SimpleNamespace(xp=Library())
    assert kernels.launcher_of(backend) is kernels.launcher_of(backend)


def test_names_of_instances():
    # rows: DEV-26
    assert instance("f", F4, True, 3) == "f<float, true, 3>" and instance("f") == "f"
    assert instance("nothing like it", np.int64(2) > 1) == "nothing like it<true>"  # NumPy's bool
    assert instances("f", kernels.HALVES, (False,)) == ["f<float16, false>", "f<bfloat16, false>"]


def test_sources_are_pasted_together():
    # rows: DEV-26
    text = source("softmax.cu")
    assert "#include" not in text and "block_sum" in text and "softmax_grad" in text
    with pytest.raises(FileNotFoundError):
        source("nothing.cu")


@pytest.mark.parametrize("width", [1, 31, 256, 257, 1000, 5000, 10**7])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_rows_have_threads(rows, width):
    # rows: DEV-26
    grid, (x, y) = rows_launch(rows, width)
    assert x % 32 == 0 and x * y <= 1024 and grid * y >= rows and (grid - 1) * y < rows
    assert x == 32 or y == 1


@pytest.mark.parametrize("parts", [1, 2, 3, 31, 32, 1000])
def test_parts_have_threads(parts):
    # rows: DEV-26
    grid, (x, y) = parts_launch(70, parts)
    assert (grid, x) == (3, 32) and 1 <= y <= 32 and y <= parts < (2 * y if y < 32 else 1e9)


def test_an_op_has_one_overlay():
    # rows: DEV-26
    overlays.names()
    with pytest.raises(TypeError, match="op softmax has two overlays"):
        overlays.forward("softmax")(lambda xp, self, *, dim: None)


def test_overlays_are_those_of_declared_ops():
    # rows: DEV-26
    for kind, names in overlays.names().items():
        for name in names:
            op = REGISTRY[name]
            assert (overlays.forward_of if kind == "forward" else overlays.vjp_of)(op) is not None
            if kind == "forward":
                from gradlib.op.declare import parameters

                assert parameters(overlays.forwards[name])[1:] == (*op.tensors, *op.attrs)


def test_an_overlay_may_ask_only_for_what_is_saved():
    # rows: DEV-26
    op = REGISTRY["softmax"]
    with pytest.raises(TypeError, match=r"softmax asks for \['self'\], which the op does not save"):
        check(op, lambda F, g, self: None)


@pytest.mark.parametrize("family", sorted(kernels.FAMILIES))
def test_arguments_fit_a_launch(device, family):
    # rows: DEV-26
    module = kernels.FAMILIES[family]
    library, names = device.launcher.load(module, module.kernels[0])
    for number, name in enumerate(names):
        parameters = (Parameter * 64)()
        count = library[f"parameters_{number}"](parameters)
        size = sum(-(-p.size // 8) * 8 for p in parameters[:count])
        assert size <= 4096, f"{name}: {size} bytes"  # what every GPU takes


def test_parts_of_channels_fill_the_device():
    # rows: DEV-26
    for shape, parts in (
        ((8, 64, 200, 200), 8),
        ((256, 64, 7, 7), 16),
        ((4096, 1024), 128),  # 8 blocks of 32 packs of channels
        ((2, 2048, 7, 7), 1),
    ):
        assert _Channels(np.empty(shape, np.float32)).launch()[0][1] == parts


# -- what a block may be -----------------------------------------------------------------------------------------------


def test_the_kernels_with_bounds_are_those_whose_registers_were_counted_for_less():
    """NVRTC's test counts registers for 1024 threads, or for the bound; no device launches more than the bound."""
    found = {match["name"] for m in kernels.FAMILIES.values() for match in BOUNDED.finditer(m.code)}
    assert found == set(LIMITED)


def test_a_block_beyond_the_bounds_of_its_kernel_is_refused(device):
    module = kernels.FAMILIES["conv"]
    for threads, refused in ((128, None), (256, "more threads than __launch_bounds__")):
        why = device.launcher.refused(module, "conv_map<float>", 1, threads)
        assert why == refused or refused in why
    assert "1 to 1024 threads" in device.launcher.refused(module, "conv_map<float>", 1, (64, 32))
    assert "too large" in device.launcher.refused(module, "conv_map<float>", (1, 1 << 16), 128)
    one = kernels.FAMILIES["softmax"]
    assert device.launcher.refused(one, "softmax<float, false, false>", 1, 1024) is None
