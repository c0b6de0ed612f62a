"""What importing gradlib does and does not do."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings

import pytest

import gradlib as torch


def test_optional_packages_are_not_imported():
    code = (
        "import sys, gradlib; gradlib.ones(2).exp();"
        "extras = ('cupy', 'matplotlib', 'torch', 'scipy', 'sklearn', 'tqdm', 'nvtx', 'pynvml');"
        "print([m for m in extras if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_what_few_programs_need_is_imported_when_they_do():
    code = (
        "import sys, numpy, ml_dtypes; before = set(sys.modules); import gradlib; gradlib.manual_seed(0);"
        "late = ('numpy.random', 'pathlib', 'dataclasses');"
        "print([m for m in late if m in sys.modules and m not in before]);"
        "gradlib.rand(1); print('numpy.random' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]", "True"]


def test_ops_are_there_without_an_import():
    """``torch.ops`` was the package of the declarations until somebody imported gradlib.ops."""
    code = "import gradlib as torch; print(torch.ops.aten.mm.default, torch.ops.aten.mm.default == torch.mm)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["aten.mm.default", "True"]


@pytest.mark.host
def test_infinities_are_silent_in_every_thread():
    seen = []

    def work():
        try:
            seen.append((torch.zeros(1).log() * 0).isnan().item())
        except RuntimeWarning as exc:
            seen.append(exc)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="gradlib")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()
    assert seen == [True, True]
