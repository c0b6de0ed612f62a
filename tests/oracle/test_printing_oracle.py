"""Every tensor prints as it does in PyTorch: compared on drawn values, dtypes and options."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ml_dtypes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gradlib
from gradlib.tape import printing

REAL = ["float16", "float32", "float64", "bfloat16"]
WHOLE = ["int8", "int32", "int64", "uint8", "bool"]
COMPLEX = ["complex64", "complex128"]

plain = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1000.0, 1001.0, 0.5, 1e-4, 1e-5, 1e8, 1.1e8, 2.5]),
    st.integers(-(10**6), 10**6).map(float),
    st.floats(-1e4, 1e4),
    st.floats(allow_nan=False, width=32),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 8),
        "threshold": st.integers(0, 60),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(5, 120),
        "sci_mode": st.booleans(),
    },
)


@st.composite
def arrays(draw):
    """An array of a few elements, with a dtype that both libraries have."""
    name = draw(st.sampled_from(REAL + WHOLE + COMPLEX))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7))
    size = math.prod(shape)
    pool = draw(st.lists(plain, min_size=1, max_size=8))
    picks = np.array(pool)[np.arange(size) * 7 % len(pool)].reshape(shape)
    with np.errstate(all="ignore"):
        if name in COMPLEX:
            made = np.empty(shape, name)
            made.real = picks
            made.imag = np.asarray(picks).reshape(-1)[::-1].reshape(shape)
            return name, made
        if name in WHOLE:
            picks = np.nan_to_num(picks) % 1000 - (0 if name == "uint8" else 500)
            return name, picks.astype(np.int64).astype(name)
        return name, picks.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def to_torch(name, array):
    """The same tensor in PyTorch."""
    if name == "bfloat16":
        return (
            torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).reshape(array.shape)
        )
    return torch.from_numpy(np.array(array))


@pytest.fixture(autouse=True)
def _default_options():
    yield
    printing.set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


@settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(arrays(), options, st.booleans())
def test_same_text(drawn, chosen, requires_grad):
    name, array = drawn
    for library in (printing, torch):
        library.set_printoptions(profile="default")
        library.set_printoptions(**chosen)
    requires_grad = requires_grad and name in REAL + COMPLEX
    ours = gradlib.tape.tensor.Tensor._make(np.array(array), requires_grad)
    theirs = to_torch(name, array).requires_grad_(requires_grad)
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("shape", [(2000,), (50, 50), (1, 2000), (20, 3, 20), (7, 1, 200), (2, 0)])
@pytest.mark.parametrize("name", ["float32", "int64", "complex64", "bool"])
def test_summaries(shape, name):
    array = (np.arange(math.prod(shape)).reshape(shape) * 0.37).astype(name)
    ours = gradlib.tape.tensor.Tensor._make(array)
    assert repr(ours) == repr(torch.from_numpy(array))


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_default_dtype_is_left_out(default):
    torch.set_default_dtype(getattr(torch, default))
    gradlib.set_default_dtype(getattr(gradlib, default))
    try:
        for name in ("float32", "float64", "complex64", "complex128", "int64"):
            array = np.ones(2, name)
            ours = gradlib.tape.tensor.Tensor._make(array)
            assert repr(ours) == repr(torch.from_numpy(array))
    finally:
        torch.set_default_dtype(torch.float32)
