"""What stands around oneMKL, with a library of Python functions in its place: finding, choosing, the table, refusals.

oneMKL itself is tested in tests/mkl.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import mkl
from gradlib.devices.numpy.namespace import NumpyBackend

pytestmark = pytest.mark.host

N = mkl.SMALL + 1
CACHED = mkl.path, mkl.library, mkl.version, mkl.bare, mkl._key


def stand_in(version: str = "2031.4") -> Any:
    """A library whose exp gives the true one plus 1, in the place of vmsExp_64 and vmdExp_64."""

    def exp(kind: Any) -> Any:
        def call(n, argument, result, mode):
            assert mode == mkl.MODE
            x, y = (np.ctypeslib.as_array((kind * n).from_address(a)) for a in (argument, result))
            np.add(np.exp(x), 1, y)

        return call

    def tell(buffer, size):
        buffer.value = (
            f"Intel(R) oneAPI Math Kernel Library Version {version}-Product Build".encode()
        )

    return SimpleNamespace(
        vmsExp_64=exp(ctypes.c_float), vmdExp_64=exp(ctypes.c_double), MKL_Get_Version_String=tell
    )


@pytest.fixture
def library(monkeypatch, tmp_path):
    """MKL is found and is a stand-in; its table lies in `tmp_path`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(mkl, "_chosen", {})
    monkeypatch.setattr(mkl, "path", lambda: "libmkl_rt.so")
    made = stand_in()
    monkeypatch.setattr(mkl, "library", lambda: made)
    for function in CACHED:
        function.cache_clear()
    yield made
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def times(monkeypatch):
    """What functions are timed, and MKL's time over NumPy's: for ordinary arguments, then for extreme ones."""
    found = SimpleNamespace(asked=[], ratios=(0.5, 1.0))

    def ratio(function, ufunc, x):
        found.asked.append((ufunc.__name__, x.dtype.name, bool(np.isfinite(x).all())))
        return found.ratios[0 if np.isfinite(x).all() else 1]

    monkeypatch.setattr(mkl, "_ratio", ratio)
    return found


def test_where_nothing_is_found_functions_are_numpys_own(monkeypatch):
    monkeypatch.setattr(mkl, "path", lambda: None)
    assert NumpyBackend().exp is np.exp and mkl.quicker("tanh", np.tanh) is np.tanh


def test_functions_that_mkl_lacks_are_numpys_own(library):
    assert NumpyBackend().add is np.add and NumpyBackend().sqrt is np.sqrt


def test_large_arrays_of_floats_alone_go_there(library, times):
    xp = NumpyBackend()
    for dtype in ("f4", "f8"):
        assert xp.exp(np.zeros(N, dtype)).tolist() == [2] * N
    for x in (
        np.zeros(N - 1),
        np.zeros(N, "f2"),
        np.zeros(N, "c8"),
        np.zeros(N, ">f8"),
        np.zeros(N, int),
        0.0,
    ):
        assert np.all(xp.exp(x) == 1)
    assert xp.exp(np.zeros(N, "f4"), dtype="f8")[0] == 1
    assert xp.exp(np.zeros(N), where=np.ones(N, bool), out=np.zeros(N))[0] == 1
    assert times.asked == [("exp", d, o) for d in ("float32", "float64") for o in (True, False)]


def test_layouts(library, times):
    """Arrays with gaps are copied; what overlaps, or is laid out otherwise, NumPy writes."""
    xp, wide = NumpyBackend(), np.zeros((4, N, 2))
    found = xp.exp(wide[..., 0].T)
    assert np.all(found == 2) and found.flags.f_contiguous
    out = np.empty((4, N))
    assert xp.exp(np.zeros((4, N)), out) is out and np.all(out == 2)
    assert xp.exp(out, out=out) is out and np.all(out == np.exp(2.0) + 1)
    assert np.all(xp.exp(np.zeros((4, N)), np.empty((N, 4)).T) == 1)
    assert np.all(xp.exp(np.zeros((4, N)), wide[..., 1]) == 1)
    assert np.all(xp.exp(np.zeros(N, "f4"), np.empty(N)) == 1)
    flat = np.zeros(N + 1)
    assert np.all(xp.exp(flat[1:], flat[:-1]) == 1)
    flat.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        xp.exp(flat, flat)


@pytest.mark.parametrize(
    ("ratios", "taken"), [((0.5, 1.0), True), ((0.95, 1.0), False), ((0.5, 3.0), False)]
)
def test_mkl_computes_where_it_is_quicker_and_never_much_slower(library, times, ratios, taken):
    times.ratios = ratios
    assert NumpyBackend().exp(np.zeros(N))[0] == (2 if taken else 1)
    assert ("exp float64" in mkl.report()) == taken


def test_the_outcome_is_kept_for_this_machine_and_these_versions(
    library, times, tmp_path, monkeypatch
):
    file = tmp_path / "gradlib" / "mkl.json"
    assert NumpyBackend().exp(np.zeros(N))[0] == 2
    (key,) = table = json.loads(file.read_text())
    assert "MKL 2031.4, NumPy " in key and table[key] == {"exp float64": True}
    times.asked.clear()
    times.ratios = (2.0, 2.0)
    mkl._chosen.clear()
    assert NumpyBackend().exp(np.zeros(N))[0] == 2 and not times.asked  # as it was found then
    library.MKL_Get_Version_String = stand_in("2032.0").MKL_Get_Version_String
    mkl.version.cache_clear(), mkl._key.cache_clear(), mkl._chosen.clear()
    assert NumpyBackend().exp(np.zeros(N))[0] == 1 and times.asked
    assert len(json.loads(file.read_text())) == 2


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"KEY": 3}', '{"KEY": {"exp float64": "yes"}}']
)
def test_a_damaged_table_is_written_anew(library, times, tmp_path, text):
    file = tmp_path / "gradlib" / "mkl.json"
    file.parent.mkdir()
    file.write_text(text.replace("KEY", mkl._key()))
    assert NumpyBackend().exp(np.zeros(N))[0] == 2 and times.asked
    assert json.loads(file.read_text())[mkl._key()] == {"exp float64": True}


def test_where_the_table_cannot_be_kept_it_is_made_each_time(library, times, tmp_path):
    (tmp_path / "gradlib").write_text("a file in the place of the folder")
    assert NumpyBackend().exp(np.zeros(N))[0] == 2


def test_in_one_process_the_choice_stays(library, times):
    xp = NumpyBackend()
    assert xp.exp(np.zeros(N))[0] == 2
    times.ratios = (2.0, 2.0)
    assert xp.exp(np.zeros(N))[0] == 2 and len(times.asked) == 2


def test_deterministic_programs_are_computed_by_numpy(library, times):
    gl.use_deterministic_algorithms(True)
    try:
        assert NumpyBackend().exp(np.zeros(N))[0] == 1
    finally:
        gl.use_deterministic_algorithms(False)
    assert NumpyBackend().exp(np.zeros(N))[0] == 2


def test_a_comparison_takes_numbers_of_each_functions_domain(library):
    """Real times: what comes of them is not said."""
    for name in mkl.FUNCTIONS:
        assert mkl._compare(name, mkl.F4, lambda *given: None) in (True, False)


def test_config_says_what_is_used(library, times, monkeypatch):
    assert "USE_MKL=ON" in gl.__config__.show() and gl.backends.mkl.is_available()
    assert "oneMKL 2031.4 (libmkl_rt.so): no function timed yet" in gl.__config__.show()
    NumpyBackend().exp(np.zeros(N))
    assert "oneMKL 2031.4 (libmkl_rt.so): exp float64\n" in gl.__config__.show()
    monkeypatch.setattr(mkl, "library", lambda: None)
    assert "USE_MKL=OFF" in gl.__config__.show() and not gl.backends.mkl.is_available()


@pytest.mark.parametrize("content", [b"no library", None])
def test_a_library_that_cannot_be_loaded_changes_nothing(tmp_path, content):
    """In a process of its own: it is asked for once."""
    file = tmp_path / "libmkl_rt.so.3"
    if content:
        file.write_bytes(content)
    program = (
        "import gradlib as gl, numpy as np; from gradlib.devices.numpy import mkl; x = gl.randn(1 << 15)\n"
        "assert not mkl.library.cache_info().currsize\n"
        "from gradlib.op.overlays import off; F = gl.nn.functional; found = F.gelu(x), x.erf()\n"
        "assert x.exp().numpy().tobytes() == np.exp(x.numpy()).tobytes()\n"
        "with off(): assert gl.equal(F.gelu(x), found[0]) and gl.equal(x.erf(), found[1])\n"
        "assert 'USE_MKL=OFF' in gl.__config__.show(); print(mkl.path())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
        env={**os.environ, "GRADLIB_MKL": str(file)},
    )  # fmt: skip
    assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    ("setting", "found"), [("0", None), ("", "libmkl_rt.so.3"), ("/x/y.so", "/x/y.so")]
)
def test_where_it_is_looked_for(monkeypatch, tmp_path, setting, found):
    monkeypatch.setattr(mkl.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(mkl.sys, "platform", "linux")
    monkeypatch.setattr(mkl.sys, "prefix", str(tmp_path))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmkl_rt.so.3").touch()
    monkeypatch.setenv("GRADLIB_MKL", setting)
    path = mkl.path.__wrapped__()
    assert (path and path.endswith(found)) if found else path is None
    monkeypatch.setattr(mkl.platform, "machine", lambda: "aarch64")
    assert mkl.path.__wrapped__() is None
