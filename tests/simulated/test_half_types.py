"""float16 and bfloat16 on a device: the stand-in treats them as CuPy does, gradlib's backend as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy.namespace import backend as numpy_backend
from gradlib.tape.arrays import backend_for
from tests.simulated_cuda import half_types

FROM_NUMPY = """
where(c, v, w)
where(c, v, z)
where(c, v, 0)
where(c, True, v)
where(c, v, c)
where(c, i, v)
where(c, v, f)
where(c[:, None], v, w[:, None])
where(c, v[::2][k // 2], v.dtype.type(2))
clip(v, None, w)
clip(v, w, None)
round(v)
round(v, 1)
tril(m)
triu(m.T, -1)
divmod(v, w)
cumsum(m, 1)
cumsum(m, 0, dtype='f4')
cumprod(m, 0)
add.accumulate(m, 0)
multiply.accumulate(m, 1)
maximum.accumulate(m, 1)
add.reduce(m, 0)
maximum.reduce(m, 0)
var(m, 0)
std(m, 0)
nanmean(m, 0)
sort(v)
argsort(v)
unique(v)
unique(m, return_counts=True)
angle(v)
nan_to_num(v)
""".strip().splitlines()


@pytest.mark.parametrize("kind", half_types.KINDS)
def test_results_have_the_dtypes_that_cupy_gives_them(cuda, kind):
    assert half_types.answers(cuda, kind) == half_types.recorded(kind)


@pytest.mark.parametrize("kind", half_types.KINDS)
@pytest.mark.parametrize("probe", FROM_NUMPY)
def test_functions_of_the_backend_give_what_those_of_numpy_give(cuda, probe, kind):
    results = []
    for xp in (numpy_backend, backend_for("cuda")):
        names = half_types.arguments(xp, half_types.KINDS[kind])
        function = probe.partition("(")[0].partition(".")[0]
        result = eval(probe, names | {function: getattr(xp, function)})
        results.append(result if isinstance(result, tuple) else (result,))
    for here, there in zip(*results, strict=True):
        assert there.dtype == here.dtype and there.shape == here.shape
        a, b = here.astype("f8"), there.get().astype("f8")
        np.testing.assert_allclose(b, a, rtol=1e-2 if kind == "bfloat16" else 2e-3)


@pytest.mark.parametrize(
    "probe", ["clip(v, -1, 1)", "clip(v, None, 0.3)", "clip(v, 0.3, None)", "clip(v, w - 1, w)"]
)
def test_clipping_keeps_bfloat16(cuda, probe):
    xp = backend_for("cuda")
    names = half_types.arguments(xp, half_types.KINDS["bfloat16"])
    clipped = eval(probe, names | {"clip": xp.clip})
    wide = eval(probe, {name: names[name].get().astype("f4") for name in "vw"} | {"clip": np.clip})
    assert clipped.dtype == names["v"].dtype
    assert (clipped.get() == wide.astype(clipped.dtype)).all()


def test_choosing_copies_every_bit(cuda):
    xp, dtype = backend_for("cuda"), half_types.KINDS["bfloat16"]
    words = np.arange(1 << 16, dtype=np.uint16)
    here = xp.asarray(words).view(dtype)
    there = xp.where(here == here, here, here)
    assert there.dtype == dtype and (there.view(np.uint16).get() == words).all()


def test_neighbours_are_those_of_the_type_itself(cuda):
    for dtype in half_types.KINDS.values():
        one = cuda.ones(1, dtype)
        assert (cuda.nextafter(one, one * 2) > one).all()


LINALG = {
    "linalg.det linalg.lu_factor linalg.lu": "lu_cpu",
    "linalg.qr geqrf": "geqrf_cpu",
    "linalg.svd linalg.svdvals linalg.cond": "linalg_svd_cpu",
    "linalg.eigh linalg.eigvalsh": "linalg_eigh_cpu",
    "linalg.eig linalg.eigvals": "linalg_eig_out_cpu",
    "linalg.cholesky": "cholesky_cpu",
    "cholesky_inverse": "cholesky_inverse_out_cpu",
    "linalg.ldl_factor": "ldl_factor_kernel_cpu",
}
REFUSED = [(name, kernel) for names, kernel in LINALG.items() for name in names.split()]


@pytest.mark.parametrize(("dtype", "spelling"), [("float16", "Half"), ("bfloat16", "BFloat16")])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("name", "kernel"), REFUSED)
def test_linear_algebra_refuses_half_types_alike(cuda, name, kernel, size, dtype, spelling):
    module, _, function = name.rpartition(".")
    call = getattr(gl.linalg if module else gl, function)
    for device in ("cpu", "cuda"):
        x = gl.eye(size, dtype=getattr(gl, dtype), device=device)
        with pytest.raises(
            NotImplementedError, match=f"\"{kernel}\" not implemented for '{spelling}'"
        ):
            call(x)


@pytest.mark.parametrize("name", ["linalg.slogdet", "linalg.inv", "logdet"])
def test_functions_that_look_at_the_dtype_first_refuse_half_types_alike(cuda, name):
    module, _, function = name.rpartition(".")
    call = getattr(gl.linalg if module else gl, function)
    for device in ("cpu", "cuda"):
        with pytest.raises(
            RuntimeError, match=f"^{name}: Low precision dtypes not supported. Got Half"
        ):
            call(gl.eye(2, device=device).half())
