"""Products by cuBLAS itself: what the library is given, checked by a stand-in that multiplies what it is told to."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import gradlib as torch
from gradlib.devices.cuda import epilogues, gemm
from gradlib.devices.cuda.fused import embedding, windows
from gradlib.devices.cuda.gaps import Linalg
from gradlib.devices.cuda.kernels import rows_launch
from gradlib.tape.arrays import backend_for

BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPES = [
    ((3, 4), (4, 5)), ((1, 4), (4, 1)), ((3, 1), (1, 5)), ((1, 1), (1, 1)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)), ((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
    ((0, 4), (4, 3)), ((3, 0), (0, 2)), ((2, 3, 0), (0, 2)),
]  # fmt: skip
FORMS = ["dense", "transposed", "strided", "narrow"]


def host(shape, form, dtype, rng):
    """A NumPy array of the shape whose memory is laid out in a certain form."""
    if form == "transposed" and len(shape) > 1:
        shape = (*shape[:-2], shape[-1], shape[-2])
    last = {"strided": 2 * shape[-1], "narrow": shape[-1] + 3}.get(form, shape[-1])
    values = rng.standard_normal((*shape[:-1], last)).astype("f4")
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(values.shape)
    values = values.astype(dtype)
    if form == "transposed" and len(shape) > 1:
        return values.swapaxes(-1, -2)
    return (
        values[..., ::2]
        if form == "strided"
        else values[..., 1 : 1 + shape[-1]]
        if form == "narrow"
        else values
    )


def on_device(cupy, array):
    """A device array of the same layout."""
    if not array.size:
        return cupy.asarray(array)
    base = array if array.base is None else array.base
    whole = cupy.asarray(np.ascontiguousarray(base))
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return cupy.ndarray(array.shape, array.dtype, memptr=whole.data + offset, strides=array.strides)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", BF16], ids=str)
def test_products_of_all_layouts(dtype, cuda):
    rng, dtype = np.random.default_rng(0), np.dtype(dtype)
    xp = backend_for("cuda")
    wide = np.dtype("f4") if dtype.itemsize == 2 else dtype
    tolerance = 2e-2 if dtype.itemsize == 2 else 1e-5
    for (first, second), one, two in itertools.product(SHAPES, FORMS, FORMS):
        a, b = host(first, one, dtype, rng), host(second, two, dtype, rng)
        want = np.matmul(a.astype(wide), b.astype(wide))
        got = xp.matmul(on_device(cuda, a), on_device(cuda, b))
        assert got.dtype == dtype and got.shape == want.shape
        np.testing.assert_allclose(got.get().astype(wide), want, rtol=tolerance, atol=tolerance)
    assert xp.gemm.lib.calls


def test_transposed_views_are_not_copied(cuda):
    xp = backend_for("cuda")
    a, b = cuda.ones((3, 4), "f4"), cuda.ones((5, 4), "f4")
    xp.matmul(a, b.T)
    (call,) = xp.gemm.lib.calls
    # cuBLAS sees b and a by columns: b.T is b as it lies, which has to be transposed for it
    assert (call["transa"], call["transb"]) == (gemm.T, gemm.N)
    assert (call["m"], call["n"], call["k"], call["lda"], call["ldb"]) == (5, 3, 4, 4, 4)
    xp.matmul(cuda.ones((6, 2, 3), "f4").swapaxes(1, 2), cuda.ones((2, 4), "f4"))
    assert xp.gemm.lib.calls[-1]["batch"] == 6


def test_rows_of_a_stack_are_one_product(cuda):
    xp = backend_for("cuda")
    xp.matmul(cuda.ones((6, 7, 3), "f4"), cuda.ones((3, 4), "f4"))
    (call,) = xp.gemm.lib.calls
    assert (call["n"], call["batch"]) == (42, 1)


def test_half_types_are_summed_in_float32(cuda):
    """2048 + 1 + 1... stays 2048 in float16."""
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.ones(1, 4096, dtype=dtype, device="cuda")
        assert (a @ a.t()).item() == 4096.0
        assert torch.bmm(a[None], a.t()[None]).item() == 4096.0
    assert {c["compute"] for c in backend_for("cuda").gemm.lib.calls} == {68}


@pytest.fixture
def precision():
    yield
    torch.set_float32_matmul_precision("highest")


def test_float32_precision(precision, cuda):
    a = torch.full((2, 2), 1 + 2.0**-12, device="cuda")
    exact = (a @ a)[0, 0].item()
    assert torch.backends.cuda.matmul.allow_tf32 is False
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    assert (a @ a)[0, 0].item() == 2.0 != exact
    torch.set_float32_matmul_precision("medium")
    assert (a @ a)[0, 0].item() == 2.0
    assert [c["compute"] for c in backend_for("cuda").gemm.lib.calls] == [68, 77, 75]
    assert (a.double() @ a.double())[0, 0].item() == 2 * (1 + 2.0**-12) ** 2
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"


def test_each_stream_has_its_workspace(cuda):
    xp = backend_for("cuda")
    a = cuda.ones((2, 2), "f4")
    xp.matmul(a, a)
    for _ in range(2):
        with cuda.cuda.Stream(non_blocking=True) as s:
            xp.matmul(a, a)
            assert xp.gemm.lib.calls[-1]["stream"] == s.ptr
    addresses = {m.ptr for m in xp.gemm.workspaces.values()}
    assert len(addresses) == len(xp.gemm.workspaces) == 3
    assert len(xp.gemm.lib.handles) == 1
    with cuda.cuda.Device(1):
        b = cuda.ones((2, 2), "f4")
        xp.matmul(b, b)
    assert len(xp.gemm.lib.handles) == 2


def test_handles_go_with_their_threads(cuda):
    xp = backend_for("cuda")
    a = cuda.ones((2, 2), "f4")
    xp.matmul(a, a)
    before = len(xp.gemm.lib.handles)
    seen = []

    def work():
        xp.matmul(a, a)
        seen.append(len(xp.gemm.lib.handles))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()
    assert seen == [before + 1] * 3
    assert len(xp.gemm.lib.handles) == before


def test_a_forked_child_destroys_no_handle():
    """What its parent has is not the child's, which has no driver to give it back to."""

    class Library:
        def __init__(self):
            self.destroyed = []

        def __getattr__(self, name):
            def call(at, *_):
                if "Create" in name:
                    at._obj.value = 5
                else:
                    self.destroyed.append(name)
                return 0

            return call

    for make, name in (
        (lambda lib: gemm._Handle(lib, 0), "cublasDestroy_v2"),
        (lambda lib: epilogues._Described(lib, "MatmulDesc"), "cublasLtMatmulDescDestroy"),
    ):
        lib = Library()
        make(lib)
        assert lib.destroyed == [name]
        made = make(lib)
        made.process += 1
        del made
        assert lib.destroyed == [name]


LARGE = {  # operands of which one size, or one distance of rows, is above 3: it alone, where that can be
    "rows": lambda t: (t(5, 2), t(2, 3)),
    "columns": lambda t: (t(2, 3), t(3, 4)),
    "inner": lambda t: (t(5, 2).T, t(5, 3)),
    "rows of the first": lambda t: (t(2, 6)[:, :2], t(2, 3)),
    "rows of the second": lambda t: (t(2, 2), t(2, 6)[:, :3]),
    "stack": lambda t: (t(5, 2, 3), t(5, 3, 2)),
    "stack and columns": lambda t: (t(5, 2, 3), t(5, 3, 4)),
}


@pytest.mark.parametrize("name", LARGE)
def test_sizes_beyond_32_bits_take_other_functions(cuda, monkeypatch, name):
    monkeypatch.setattr(gemm, "LARGEST", 3)
    xp, rng = backend_for("cuda"), np.random.default_rng(0)
    a, b = LARGE[name](lambda *shape: rng.standard_normal(shape))
    got = xp.matmul(on_device(cuda, a), on_device(cuda, b)).get()
    np.testing.assert_allclose(got, a @ b)
    assert xp.gemm.lib.calls[-1]["bits"] == 64
    monkeypatch.setattr(gemm, "LARGEST", 1 << 30)
    xp.gemm.calls.clear()  # made for the other limit
    xp.matmul(on_device(cuda, a), on_device(cuda, b))
    assert "bits" not in xp.gemm.lib.calls[-1]


def test_an_old_library_refuses_them(cuda, monkeypatch):
    xp = backend_for("cuda")
    monkeypatch.setattr(gemm, "LARGEST", 3)
    monkeypatch.delattr(type(xp.gemm.lib), "cublasGemmEx_64")
    with pytest.raises(RuntimeError, match=r"a product of 2 x 3 by 3 x 5 needs cuBLAS 12"):
        xp.matmul(cuda.ones((2, 3), "f4"), cuda.ones((3, 5), "f4"))


def test_without_the_library_cupy_multiplies(cuda, monkeypatch):
    xp = backend_for("cuda")
    monkeypatch.setattr(xp.gemm, "lib", None)
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f2", BF16):
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((2, 3, 4), (2, 4, 5)))
        got = xp.matmul(cuda.asarray(a), cuda.asarray(b)).get()
        want = np.matmul(a.astype("f4"), b.astype("f4"))
        np.testing.assert_allclose(got.astype("f4"), want, rtol=2e-2, atol=2e-2)


def test_integers_and_mixed_dtypes_go_to_cupy(cuda):
    a = torch.arange(6, device="cuda").reshape(2, 3)
    assert (a @ a.t()).tolist() == [[5, 14], [14, 50]]
    assert not backend_for("cuda").gemm.lib.calls
    with pytest.raises(RuntimeError, match="same dtype"):
        a.float() @ a.t().double()


def test_errors_of_the_library_are_named(cuda, monkeypatch):
    xp = backend_for("cuda")
    monkeypatch.setattr(xp.gemm.lib, "cublasGemmEx", lambda *_: 13)
    with pytest.raises(
        RuntimeError, match=r"cublasGemmEx failed with status 13 \(execution failed\)"
    ):
        xp.matmul(cuda.ones((2, 2), "f4"), cuda.ones((2, 2), "f4"))


def test_gradients_of_products(cuda):
    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        a, b = (torch.tensor(rng.standard_normal(s)).to(dtype) for s in ((2, 3, 4), (4, 5)))
        grads = []
        for device in ("cpu", "cuda"):
            x, y = (t.detach().clone().to(device).requires_grad_() for t in (a, b))
            torch.nn.functional.linear(
                x @ y, torch.ones(6, 5, dtype=dtype, device=device)
            ).sin().sum().backward()
            grads.append((x.grad.cpu().numpy(), y.grad.cpu().numpy()))
        for want, got in zip(*grads, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_matrices_that_cusolver_cannot_count_are_refused():
    found = []
    functions = {n: lambda *a, n=n: found.append(n) for n in ("inv", "svd", "solve", "norm")}
    linalg = Linalg(SimpleNamespace(linalg=SimpleNamespace(**functions)))
    large, small = SimpleNamespace(shape=(1 << 16, 1 << 16)), SimpleNamespace(shape=(2, 3, 3))
    for call in (linalg.inv, linalg.svd, lambda a: linalg.solve(a, a)):
        with pytest.raises(
            RuntimeError, match="a matrix of 65536 x 65536 has more than 2147483647 elements"
        ):
            call(large)
    linalg.inv(small)
    linalg.solve(small, small)
    linalg.norm(large)  # a sum
    assert found == ["inv", "solve", "norm"]


def test_grids_have_a_largest_size():
    assert rows_launch((1 << 34) - 8, 1)[0] == (1 << 31) - 1
    with pytest.raises(
        RuntimeError, match="needs 2147483648 blocks, and a grid has at most 2147483647"
    ):
        rows_launch(1 << 34, 1)
    with pytest.raises(RuntimeError, match="needs 2147483648 blocks"):
        rows_launch(1 << 31, 512)


def test_what_kernels_count_in_32_bits_ends_there():
    ones, half = (1, 1), (1 << 16, 1 << 15)  # of a plane of 2^31 elements
    assert windows.layout(half, ones, ones, ones, (0, 0), ones) is None
    assert windows.layout(ones, half, ones, ones, (0, 0), ones) is None
    assert windows.layout(ones, ones, half, ones, (0, 0), ones) is None
    assert (
        windows.layout((8, 8), (1 << 15, 1), ones, (1 << 16, 1), (0, 0), ones) is None
    )  # the reach
    made = windows.layout((1 << 16, (1 << 15) - 1), ones, ones, ones, (0, 0), ones)
    assert made["space"].tolist() == [[1, 1 << 16, (1 << 15) - 1]]
    assert np.iinfo(np.int32).max >= embedding.MOST + 1  # a number for each entry, and one for none


# -- switches ----------------------------------------------------------------------------------------------------------


def test_convolutions_may_take_tf32_unless_they_are_told_not_to(monkeypatch):
    from gradlib.devices.cuda import precision

    cudnn = torch.backends.cudnn
    monkeypatch.setitem(cudnn._settings, "allow_tf32", True)
    monkeypatch.setattr(precision, "_tf32_in_convolutions", True)
    with cudnn.flags(allow_tf32=False):
        assert not precision.convolutions_take_tf32() and not cudnn.allow_tf32
    assert precision.convolutions_take_tf32() and cudnn.allow_tf32
    cudnn.fp32_precision = "ieee"
    assert not precision.convolutions_take_tf32()
    with pytest.raises(RuntimeError, match="must be 'ieee', 'tf32' or 'none', but got 'bf16'"):
        cudnn.fp32_precision = "bf16"
    assert cudnn.fp32_precision == "ieee"
    cudnn.fp32_precision = "none"
    assert precision.convolutions_take_tf32()
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_switch_of_convolutions_is_on_at_first():
    text = (
        "import gradlib as t; from gradlib.devices.cuda import precision as p; "
        "print(t.backends.cudnn.allow_tf32, p.convolutions_take_tf32())"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_switches_have_pytorchs_names():
    import gradlib.backends.cudnn as cudnn

    assert cudnn is torch.backends.cudnn
    cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    before = cudnn.enabled
    with cudnn.flags(enabled=not before, deterministic=True):
        assert cudnn.enabled is not before and cudnn.deterministic
    assert cudnn.enabled is before and not cudnn.deterministic
    cudnn.benchmark = False
    assert cudnn.is_available() is (cudnn.version() is not None)
    for name in ("mkldnn", "openmp", "mps"):
        assert not getattr(torch.backends, name).is_available()
    with pytest.raises(AttributeError, match="no setting 'benchmrk'"):
        cudnn.benchmrk = True
    for change in (lambda m: m.allow_foo, lambda m: setattr(m, "allow_foo", True)):
        with pytest.raises(AttributeError, match="Unknown attribute allow_foo"):
            change(torch.backends.cuda.matmul)
    assert torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction is True
    assert (
        torch.backends.cuda.is_built()
        and torch.backends.cuda.preferred_linalg_library() == "cusolver"
    )
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    with pytest.raises(AttributeError):
        torch.backends.abacus  # noqa: B018


def test_an_unknown_precision_is_ignored_with_a_warning():
    with pytest.warns(UserWarning, match="not one of 'highest', 'high', or 'medium'"):
        torch.set_float32_matmul_precision("low")
    assert torch.get_float32_matmul_precision() == "highest"
