"""Whether there is a device: said with the reason, and not hidden by what has nothing to do with it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings

import pytest

from gradlib.devices.cuda import namespace
from tests_gpu import faults

pytestmark = pytest.mark.host
PACKAGE = """
import warnings
warnings.warn("several packages of CuPy are installed", UserWarning)
from . import cuda
"""
RUNTIME = """
class runtime:
    @staticmethod
    def getDeviceCount():
        return {}
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Put a package of that name, which warns when it is imported, in the place of CuPy."""

    def install(devices: int) -> None:
        folder = tmp_path / "cupy"
        folder.mkdir()
        (folder / "__init__.py").write_text(PACKAGE)
        (folder / "cuda.py").write_text(RUNTIME.format(devices))
        for name in [n for n in sys.modules if n.partition(".")[0] == "cupy"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(namespace, "_backend", None)
        monkeypatch.setattr(namespace, "_asked", False)
        importlib.invalidate_caches()

    yield install
    for name in ("cupy", "cupy.cuda"):
        sys.modules.pop(name, None)


def test_a_warning_of_the_import_is_no_missing_device(installed):
    installed(1)

    def ask():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return namespace.why_not()

    with pytest.warns(UserWarning, match="several packages"):
        reason = ask()
    assert reason is None


def test_no_device_is_named(installed):
    installed(0)
    with pytest.warns(UserWarning, match="several packages"):
        reason = namespace.why_not()
    assert reason == "CUDA is not available: no CUDA device was found. Use device='cpu'."


def test_what_is_broken_is_not_skipped(monkeypatch, tmp_path):
    """Tests of a device are skipped where there is none, not where CuPy cannot be used for another reason."""
    monkeypatch.setattr(faults, "FILES", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert faults.why_skip(None) is None
    for reason in (
        "it cannot use a device (cudaErrorNoDevice: no CUDA-capable device)",
        "it cannot use a device (cudaErrorInsufficientDriver: CUDA driver version is insufficient)",
        "CUDA is not available: no CUDA device was found.",
    ):
        assert faults.why_skip(reason) == reason
    with pytest.raises(RuntimeError, match=r"nothing is skipped: .*libcublas"):
        faults.why_skip("it cannot use a device (libcublas.so.12: cannot open shared object file)")
    (tmp_path / "nvidia0").touch()  # there is a GPU
    with pytest.raises(RuntimeError, match=r"nothing is skipped: .*InsufficientDriver"):
        faults.why_skip("it cannot use a device (cudaErrorInsufficientDriver)")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert faults.why_skip("CuPy is not installed") == "CuPy is not installed"
