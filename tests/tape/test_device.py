"""Devices: what must hold on a machine without one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import gradlib as torch
from gradlib.devices.cuda import namespace as cupy_backend
from gradlib.devices.numpy.namespace import backend as numpy_backend
from gradlib.op import interpret
from gradlib.op.declare import REGISTRY
from gradlib.tape import arrays as backends

ROOT = Path(__file__).parents[2]


class Spy:
    """A backend that notes which of its functions are asked for."""

    def __init__(self, real):
        self.real, self.calls = real, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self.real, name)


@pytest.mark.host
def test_cpu_tensors_run_on_numpy(monkeypatch):
    # rows: DEV-01
    spy, other = Spy(numpy_backend), Spy(None)
    monkeypatch.setattr(cupy_backend, "get_backend", lambda: other)
    monkeypatch.setattr("gradlib.tape.arrays._BY_TYPE", {np.ndarray: spy})
    monkeypatch.setattr("gradlib.op.formulas._raw", {})  # which remembers the backend of arrays
    x = torch.ones(3, requires_grad=True)
    y = interpret.general(REGISTRY["exp"], (x,), ())
    assert "exp" in spy.calls and other.calls == []
    assert y.device == x.device == torch.device("cpu") and type(y.detach().numpy()) is np.ndarray
    y.sum().backward()
    assert x.grad.device == x.device and other.calls == []


BLOCKED = """
import sys
import threading

for name in ("cupy", "cupyx", "nvtx", "pynvml"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
import gradlib as torch
from gradlib import nn

x = torch.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [2.0, 4.0]
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(4, 2)).mean().backward()
optimizer.step()
torch.manual_seed(1)
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
try:
    x.cuda()
except (RuntimeError, AssertionError) as exc:
    assert "CUDA is not available" in str(exc)
else:
    raise SystemExit("x.cuda() went through")
print("fine")
"""


def test_runs_without_cuda_packages():
    # rows: DEV-02
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0 and done.stdout.strip() == "fine", done.stderr


# What CuPy may be like on a machine that cannot use it, and what the error must say.
UNUSABLE = {
    "no driver": (
        "def getDeviceCount():\n    raise RuntimeError('cudaErrorInsufficientDriver: too old')",
        "CuPy is installed but cannot use a CUDA device (cudaErrorInsufficientDriver: too old)",
    ),
    "no device": ("def getDeviceCount():\n    return 0", "no CUDA device was found"),
    "broken": (
        "raise ImportError('libcuda.so.1: cannot open shared object file')",
        "CuPy is installed but cannot use a CUDA device (libcuda.so.1: cannot open",
    ),
}

UNUSABLE_PROGRAM = """
import gradlib as torch
from gradlib import nn

model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.Linear(3, 1))
torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(4, 2)).mean().backward()
torch.cuda.manual_seed_all(1)
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
with torch.autograd.profiler.profile() as prof:
    torch.ones(2) + 1
assert torch.autocast("cpu", dtype=torch.bfloat16) and torch.amp.GradScaler("cpu")
for request in (
    lambda: torch.ones(2, device="cuda"), lambda: torch.ones(2).cuda(), lambda: model.to("cuda:0"),
    lambda: torch.cuda.current_device(), lambda: torch.cuda.Stream(), lambda: torch.cuda.synchronize(),
    lambda: torch.Generator("cuda"), lambda: torch.cuda.Event().record(),
):
    try:
        request()
    except RuntimeError as exc:
        print(exc)
    else:
        raise SystemExit("a device was used")
"""


@pytest.fixture(params=UNUSABLE)
def unusable(request, tmp_path):
    """An environment with such a CuPy, and the text to be found."""
    runtime, text = UNUSABLE[request.param]
    package = tmp_path / "cupy" / "cuda"
    package.mkdir(parents=True)
    (tmp_path / "cupy" / "__init__.py").write_text("from . import cuda\n")
    (package / "__init__.py").write_text("from . import runtime\n")
    (package / "runtime.py").write_text(runtime + "\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}, text


def test_a_cupy_that_cannot_be_used_is_named(unusable):
    # rows: DEV-02 DEV-09
    environment, text = unusable
    command = [sys.executable, "-c", UNUSABLE_PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    for line in lines:
        assert "CUDA is not available: " in line and text in line
        assert line.endswith("Use device='cpu'.")


@pytest.mark.host
def test_tests_for_a_gpu_are_skipped_with_that_reason_or_refused_where_cupy_is_broken(unusable):
    # rows: DEV-27
    environment, text = unusable
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "tests_gpu/test_memory.py",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    if "cannot open" in text:
        assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
        assert "nothing is skipped" in done.stdout and text in done.stdout
        return
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skipped and all(text in line for line in skipped) and "passed" not in done.stdout


def test_cuda_tells_whether_it_can_be_used():
    # rows: DEV-03
    if torch.cuda.is_available():
        assert torch.cuda.device_count() >= 1
        assert 0 <= torch.cuda.current_device() < torch.cuda.device_count()
    else:
        assert torch.cuda.is_available() is False and torch.cuda.device_count() == 0
        with pytest.raises(RuntimeError, match="CUDA is not available"):
            torch.cuda.current_device()


def test_a_move_to_where_it_is_already_is_no_copy():
    # rows: DEV-07
    x = torch.ones(2, requires_grad=True)
    here = x.device
    assert (x.cuda() if x.is_cuda else x.cpu()) is x and x.to(str(here)) is x and x.to(here) is x
    y = x.to(here, copy=True)
    assert y is not x and y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_device_objects():
    # rows: DEV-08
    d = torch.device("cuda:1")
    assert (d.type, d.index, str(d)) == ("cuda", 1, "cuda:1")
    assert d == torch.device("cuda", 1) != torch.device("cuda", 0)
    assert hash(d) == hash(torch.device("cuda", 1))
    assert repr(d) == "device(type='cuda', index=1)" and torch.device("cpu").index is None
    x = torch.ones(1, device="cpu")
    assert x.device == torch.device("cpu") and x.is_cuda is False
    with pytest.raises(
        RuntimeError,
        match=r"^Expected one of cpu, cuda, .* device type at start of device string: zz$",
    ):
        torch.device("zz")
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda:x'"):
        torch.device("cuda:x")


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is available")
def test_without_cuda_errors_say_so():
    # rows: DEV-09
    for request in (
        lambda: torch.ones(2).cuda(),
        lambda: torch.ones(2).to("cuda"),
        lambda: torch.rand(2, device="cuda"),
        lambda: torch.zeros(2, device="cuda:0"),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: torch.nn.Linear(2, 2).cuda(),
    ):
        with pytest.raises((RuntimeError, AssertionError), match="CUDA is not available"):
            request()


class Elsewhere(np.ndarray):
    """Stands for an array on a device."""

    def get(self):
        return np.array(self)


@pytest.mark.host
def test_operands_on_two_devices(monkeypatch):
    # rows: DEV-10
    class Backend:
        def device_of(self, array):
            return torch.device("cuda", 0)

        def number(self, value, dtype):
            return np.asarray(value, dtype).view(Elsewhere)

        def to_backend(self, array, device=None):
            return np.asarray(array).view(Elsewhere)

        def __getattr__(self, name):
            return getattr(numpy_backend, name)

    backend = Backend()
    monkeypatch.setitem(backends._BY_TYPE, Elsewhere, backend)
    monkeypatch.setattr(cupy_backend, "get_backend", lambda: backend)
    there, here = torch.Tensor._make(np.ones(2, "f4").view(Elsewhere)), torch.ones(2)
    assert there.is_cuda
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for pair in ((there, here), (here, there)):
        with pytest.raises(RuntimeError) as caught:
            pair[0] + pair[1]
        assert str(caught.value).startswith(message.split(", cuda")[0])
        assert "cuda:0" in str(caught.value) and "cpu" in str(caught.value)
    assert (there + torch.tensor(2.0)).tolist() == [3.0, 3.0]
    assert (torch.tensor(2.0) * there).is_cuda


def test_layout_of_the_repository():
    # rows: DEV-27
    for name in "pyproject.toml README.md gradlib kernels tests tests_gpu examples ci".split():
        assert (ROOT / name).exists(), name
    if torch.cuda.is_available():
        return
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "tests_gpu/test_device.py",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" in done.stdout and "CUDA is not available" in done.stdout
    assert "passed" not in done.stdout


def in_another_thread(function):
    """What `function` gives in a thread of its own."""
    given = []
    thread = threading.Thread(target=lambda: given.append(function()))
    thread.start()
    thread.join()
    return given[0]


@pytest.mark.host
def test_the_default_device_is_of_one_thread():
    before = torch.get_default_device()
    with torch.device("cuda:1"):
        assert torch.get_default_device() == torch.device("cuda:1")
        assert in_another_thread(torch.get_default_device) == torch.device("cpu")
        assert in_another_thread(lambda: torch.ones(1).device) == torch.device("cpu")
        with torch.device("cpu"):
            assert torch.ones(1).device == torch.device("cpu")
        assert torch.get_default_device() == torch.device("cuda:1")
    assert torch.get_default_device() == before
    try:
        torch.set_default_device("cuda:1")
        assert in_another_thread(torch.get_default_device) == torch.device("cpu")
        in_another_thread(lambda: torch.set_default_device("cuda:0"))
        assert torch.get_default_device() == torch.device("cuda:1")
    finally:
        torch.set_default_device(before)


@pytest.mark.host
def test_blocks_of_two_threads_do_not_end_each_other():
    """Each goes back to what its own thread had, in whatever order the blocks end."""
    before, entered, left = torch.get_default_device(), threading.Event(), threading.Event()
    seen = []

    def other():
        with torch.device("cuda:1"):
            entered.set()
            left.wait(10)
            seen.append(torch.get_default_device())
        seen.append(torch.get_default_device())

    thread = threading.Thread(target=other)
    with torch.device("cuda:0"):
        thread.start()
        entered.wait(10)
    assert torch.get_default_device() == before
    left.set()
    thread.join()
    assert seen == [torch.device("cuda:1"), torch.device("cpu")]


def test_the_default_device_has_the_index_of_the_current_one(cuda):
    with torch.device("cuda"):
        assert torch.get_default_device() == torch.device("cuda:0")
        with cuda.cuda.Device(1):
            assert torch.get_default_device() == torch.ones(1).device == torch.device("cuda:1")
