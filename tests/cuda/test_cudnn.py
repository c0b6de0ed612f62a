"""How cuDNN is found and told what to compute, without CuPy; tests/cupy_on_cpu and tests_gpu call it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.cuda import cudnn
from gradlib.tape.switches import switches
from tests.cupy_on_cpu import cudnn_header


def test_numbers_and_arguments_are_those_of_the_headers():
    assert cudnn_header.own_lines() == cudnn_header.kept_lines()
    assert ctypes.sizeof(cudnn.Result) == 48


def test_where_the_library_is_looked_for(monkeypatch, tmp_path):
    folder = tmp_path / "nvidia" / "cudnn"
    (folder / "lib").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = type("Spec", (), {"submodule_search_locations": [str(folder)]})
    monkeypatch.setattr(cudnn.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.delenv("GRADLIB_CUDNN", raising=False)
    names = [name for name, _ in cudnn._candidates()]
    assert names[-1] == cudnn._NAMES[0]  # the system's
    assert str(folder) in names[-2]
    monkeypatch.setenv("GRADLIB_CUDNN", "0")
    assert list(cudnn._candidates()) == []
    monkeypatch.setenv("GRADLIB_CUDNN", str(tmp_path / "other.so"))
    assert [name for name, _ in cudnn._candidates()] == [str(tmp_path / "other.so")]


class Library:
    """What is loaded: a function for each name but those it lacks."""

    def __init__(self, version, lacks=""):
        self.version, self.lacks = version, lacks

    def __getattr__(self, name):
        if name == self.lacks:
            raise AttributeError(name)
        function = type("Function", (), {"__call__": lambda s, *args: self.version})()
        self.__dict__[name] = function
        return function


@pytest.mark.parametrize(
    ("version", "lacks", "there"),
    [(92801, "", True), (8907, "", False), (100000, "cudnnConvolutionForward", False)],
)
def test_versions_that_do_not_have_the_functions(monkeypatch, version, lacks, there):
    monkeypatch.setattr(cudnn, "_candidates", lambda: iter([("it", 0)]))
    monkeypatch.setattr(cudnn.ctypes, "CDLL", lambda name, mode: Library(version, lacks))
    cudnn.library.cache_clear()
    try:
        assert gl.backends.cudnn.is_available() is there
        assert gl.backends.cudnn.version() == (version if there else None)
        assert not gl.backends.cudnn.is_acceptable(gl.ones(2))
    finally:
        cudnn.library.cache_clear()


def test_the_switches_are_heard():
    with gl.backends.cudnn.flags(enabled=True, deterministic=True):
        assert switches.cudnn is True and switches.cudnn_deterministic is True
        gl.backends.cudnn.enabled = False
        assert switches.cudnn is False
    assert switches.cudnn_deterministic is False


ONE = ((2, 3, 7), (5, 3, 3), (2, 5, 4), (2,), (1,), (1,), 1)


def test_one_dimension_is_a_row_of_two():
    x, w, _, *how = ONE
    found = cudnn.shapes(*ONE)
    assert found == ((2, 3, 1, 7), (5, 3, 1, 3), (2, 5, 1, 4), (1, 2), (0, 1), (1, 1), 1)
    assert cudnn.shapes(x, w, (2, 5, 3), *how) is None  # not what the convolution gives
    assert cudnn.shapes(x, w, (2, 5, 0), *how) is None
    assert cudnn.shapes((0, *x[1:]), w, (0, 5, 4), *how) is None


def test_sizes_that_it_cannot_count():
    how = (1, 1), (0, 0), (1, 1), 1
    for n, there in (((1 << 15) - 1, True), (1 << 15, False)):  # 2^31 outputs have one too many
        x, y = ((n, c, 1 << 15, 1) for c in (1, 2))
        assert (cudnn.shapes(x, (2, 1, 1, 1), y, *how) is not None) is there
    far = (1, 1), (1 << 31, 0), (1, 1), 1
    assert cudnn.shapes((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, (1 << 32) + 1, 1), *far) is None
    six = (1, 1, 2, 2, 2, 2)
    assert cudnn.shapes(six, six, (1, 1, 1, 1, 1, 1), (1,) * 4, (0,) * 4, (1,) * 4, 1) is None


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 5, 6), (1, 1, 1, 1), (3, 1, 2, 1)])
def test_strides_of_both_layouts(shape):
    rows = np.empty(shape, "i1")
    assert cudnn._strides(shape, False) == rows.strides
    n = len(shape)
    last = np.empty((shape[0], *shape[2:], shape[1]), "i1").transpose(0, n - 1, *range(1, n - 1))
    assert cudnn._strides(shape, True) == last.strides
