"""Products with epilogues by cuBLASLt: what the library is given, checked by a stand-in that does what it is told."""

from __future__ import annotations

import gc
import itertools
import threading

import ml_dtypes
import numpy as np
import pytest

import gradlib as torch
from gradlib.devices.cuda import epilogues, gemm
from gradlib.tape.arrays import backend_for
from tests.cuda.test_gemm import FORMS, host, on_device, precision  # noqa: F401

BF16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [(3, 4, 5), (1, 2, 3), (7, 2, 2), (2, 9, 16)]


def close(got, want, dtype):
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
    assert got.dtype == dtype and got.shape == want.shape
    np.testing.assert_allclose(got.get().astype(want.dtype), want, rtol=tolerance, atol=tolerance)


def inputs(cupy, sizes, forms, dtype):
    """Two matrices and a vector on the host in a wide type, and on the device."""
    n, k, m = sizes
    rng = np.random.default_rng(0)
    arrays = [host(s, f, dtype, rng) for s, f in zip(((n, k), (k, m)), forms, strict=True)]
    arrays.append(host((m,), "dense", dtype, rng))
    wide = np.dtype("f4") if dtype.itemsize == 2 else dtype
    return [a.astype(wide) for a in arrays], [on_device(cupy, a) for a in arrays]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", BF16], ids=str)
def test_all_layouts_are_the_product_and_what_goes_with_it(dtype, cuda):
    dtype, lt = np.dtype(dtype), backend_for("cuda").epilogues
    for sizes, one, two in itertools.product(SIZES, FORMS, FORMS):
        (a, b, bias), (x, y, z) = inputs(cuda, sizes, (one, two), dtype)
        found = lt.product_and_bias(x, y, z)
        if found is NotImplemented:  # neither rows nor columns lie side by side
            assert "strided" in (one, two)
            continue
        close(found, a @ b + bias, dtype)
        for name, sums in (("row", a.sum(1)), ("column", b.sum(0))):
            found = getattr(lt, f"product_and_{name}_sums")(x, y)
            if found is NotImplemented:
                assert sizes[0] == 1
                continue
            close(found[0], a @ b, dtype)
            close(found[1], sums, dtype)
    made = [c["epilogue"] for c in lt.lib.epilogues]
    assert (made.count(4), made.count(256), made.count(512)) == (39, 27, 27)


def test_transposed_views_are_not_copied(cuda):
    lt = backend_for("cuda").epilogues
    x, w = cuda.ones((6, 4), "f4"), cuda.ones((8, 4), "f4")
    lt.product_and_bias(x, w.T, cuda.ones(8, "f4"))
    lt.product_and_row_sums(cuda.ones((6, 8), "f4").T, x)
    first, second = lt.lib.epilogues
    assert (first["transa"], first["transb"]) == (gemm.T, gemm.N)
    assert (first["m"], first["n"], first["k"]) == (8, 6, 4)
    assert (second["transa"], second["transb"]) == (gemm.N, gemm.T)
    assert (second["m"], second["n"], second["k"]) == (4, 8, 6)
    assert not lt.lib.calls


def test_half_types_are_rounded_once(cuda):
    """2048 + 0.75 + 0.75 in float16, where numbers lie 2 apart."""
    lt = backend_for("cuda").epilogues
    a, b = cuda.asarray(np.array([[2048, 0.75]], "f2")), cuda.ones((2, 2), "f2")
    got = lt.product_and_bias(a, b, cuda.full(2, 0.75, "f2"))
    assert got.get().tolist() == [[2050, 2050]]
    assert (cuda.matmul(a, b) + cuda.full(2, 0.75, "f2")).get().tolist() == [[2048, 2048]]
    assert {c["compute"] for c in lt.lib.epilogues} == {68}


def test_float32_as_precise_as_products_are(precision, cuda):  # noqa: F811
    lt = backend_for("cuda").epilogues
    a = cuda.full((2, 2), 1 + 2.0**-12, "f4")
    bias = cuda.full(2, 2.0**-12, "f4")
    found = []
    for level in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(level)
        found.append(lt.product_and_bias(a, a, bias)[0, 0].item())
    assert found[0] == np.float32(2 * (1 + 2.0**-12) ** 2 + 2.0**-12)
    assert found[1:] == [np.float32(2 + 2.0**-12)] * 2  # the bias itself is not rounded
    assert [c["compute"] for c in lt.lib.epilogues] == [68, 77, 75]


def test_what_the_library_is_not_asked_for(cuda):
    lt = backend_for("cuda").epilogues
    f4, long = cuda.ones((3, 3), "f4"), cuda.ones((3, 3), "i8")
    assert lt.takes(f4, f4, f4) and lt.takes(f4, f4, None)
    for a, b, c in (
        (long, long, long), (f4, f4.astype("f8"), f4), (f4, f4, f4.astype("f2")),
        (f4.astype("c8"), f4.astype("c8"), None),
    ):  # fmt: skip
        assert not lt.takes(a, b, c)
    for n, k, m in ((3, 1, 3), (3, 3, 1), (0, 3, 3), (3, 0, 3), (3, 3, 0)):
        given = cuda.ones((n, k), "f4"), cuda.ones((k, m), "f4")
        assert lt.product_and_bias(*given, cuda.ones(m, "f4")) is NotImplemented
        assert lt.product_and_row_sums(*given) is NotImplemented
        assert lt.product_and_column_sums(*given) is NotImplemented
    wide = cuda.ones(7, "f4")
    for bias in (wide[::2][:3], wide[1:4], cuda.broadcast_to(wide[:1], (3,))):
        assert lt.product_and_bias(f4, f4, bias) is NotImplemented
    assert not lt.lib.epilogues


@pytest.mark.parametrize("status", [15, 7, 8, -1], ids=str)
def test_what_the_library_has_not_is_remembered(cuda, monkeypatch, status):
    lt = backend_for("cuda").epilogues
    asked, ask = [], lt.lib.cublasLtMatmulAlgoGetHeuristic
    monkeypatch.setattr(lt.lib, "declines", status)
    monkeypatch.setattr(
        lt.lib, "cublasLtMatmulAlgoGetHeuristic", lambda *a: asked.append(1) or ask(*a)
    )
    a = cuda.ones((3, 3), "f4")
    for _ in range(3):
        assert lt.product_and_bias(a, a, a[0]) is NotImplemented
    assert len(asked) == 1 and not lt.lib.epilogues


def test_a_product_that_is_refused_when_it_is_made(cuda, monkeypatch):
    lt, a = backend_for("cuda").epilogues, cuda.ones((3, 3), "f4")
    monkeypatch.setattr(lt.lib, "refuses", 15)
    assert lt.product_and_row_sums(a, a) is NotImplemented
    monkeypatch.setattr(lt.lib, "refuses", 13)
    assert lt.product_and_row_sums(a, a) is NotImplemented  # not tried again
    with pytest.raises(RuntimeError, match=r"cublasLtMatmul failed with status 13 \(execution"):
        lt.product_and_bias(a, a, a[0])
    monkeypatch.setattr(lt.lib, "declines", 14)
    with pytest.raises(RuntimeError, match="cublasLtMatmulAlgoGetHeuristic failed with status 14"):
        lt.product_and_column_sums(a, a)


def test_one_question_for_each_kind_of_product(cuda, precision):  # noqa: F811
    lt = backend_for("cuda").epilogues
    chosen = lt.lib.chosen
    whole = cuda.ones(40, "f4")
    a = whole[:9].reshape(3, 3)
    for bias in (whole[:3], whole[:3], whole[4:7], whole[12:15]):
        lt.product_and_bias(a, a, bias)
    assert [c[2] for c in chosen] == [[256, 256, 256, 256], [256, 256, 256, 16]]
    lt.product_and_bias(a, whole[1:10].reshape(3, 3), a[0])  # which begins at 4 bytes
    assert len(chosen) == 3 and chosen[2][2] == [4, 256, 256, 256]
    torch.set_float32_matmul_precision("high")
    lt.product_and_bias(a, a, a[0])
    assert len(chosen) == 4
    lt.product_and_bias(a, a.T, a[0])
    lt.product_and_row_sums(a, a)
    assert len(chosen) == 6


def test_plans_do_not_pile_up(cuda, monkeypatch):
    monkeypatch.setattr(epilogues, "PLANS", 3)
    lt = backend_for("cuda").epilogues
    for n in range(2, 12):
        got = lt.product_and_bias(
            cuda.ones((n, 2), "f4"), cuda.ones((2, 2), "f4"), cuda.ones(2, "f4")
        )
        assert got.get().tolist() == [[3, 3]] * n
    gc.collect()
    assert len(lt.lib.described) <= 3 * 4


def test_each_stream_has_its_workspace_and_each_thread_its_plans(cuda):
    lt = backend_for("cuda").epilogues
    a = cuda.ones((3, 3), "f4")
    lt.product_and_bias(a, a, a[0])
    with cuda.cuda.Stream(non_blocking=True) as s:
        lt.product_and_bias(a, a, a[0])
        assert lt.lib.epilogues[-1]["stream"] == s.ptr
    first, second = lt.lib.epilogues
    assert first["workspace"] != second["workspace"] and len(lt.lib.chosen) == 1
    before = len(lt.lib.described)
    thread = threading.Thread(target=lambda: lt.product_and_bias(a, a, a[0]))
    thread.start()
    thread.join()
    gc.collect()
    assert len(lt.lib.chosen) == 2 and len(lt.lib.described) == before
    with cuda.cuda.Device(1):
        b = cuda.ones((3, 3), "f4")
        assert lt.product_and_bias(b, b, b[0]).get().tolist() == [[4.0] * 3] * 3
    assert len(lt.lib.chosen) == 3  # devices of one machine may differ


def test_the_switch_of_pytorch(monkeypatch, cuda):
    products = backend_for("cuda").gemm
    assert epilogues.library(products.lib) is products.lib
    monkeypatch.setenv("DISABLE_ADDMM_CUDA_LT", "1")
    assert epilogues.library(products.lib) is None
    a = cuda.ones((3, 3), "f4")
    assert not epilogues.Epilogues(products).takes(a, a, a)
    monkeypatch.delenv("DISABLE_ADDMM_CUDA_LT")
    assert epilogues.library(None) is None


def test_a_library_without_the_other(tmp_path):
    """cuBLAS of some version, beside which there is no cuBLASLt: another version's is not taken."""

    class Alone:
        _name = str(tmp_path / "libcublas.so.12")

    assert epilogues.library(Alone()) is None
    Alone._name = None
    assert epilogues.library(Alone()) is None
