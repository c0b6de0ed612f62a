"""Names that PyTorch programs use around autograd: compile, versions, accelerators, attention's implementations."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import gradlib as torch


def test_compile_keeps_results_and_modules():
    def f(x):
        return x * 2

    for made in (torch.compile(f), torch.compile(mode="max-autotune")(f)):
        assert [made(torch.ones(1)).item() for _ in range(5)] == [2.0] * 5
        assert made.__name__ == "f" and made.replays == 1
        torch.compiler.reset()
        assert made.replays == 0
    assert torch.compile(f, disable=True) is f and torch.compile(f, backend="eager") is f
    net = torch.nn.Linear(2, 2)
    called = torch.compile(net, fullgraph=True, backend="inductor")
    assert called._orig_mod is net and torch.compile(net, disable=True) is net
    assert torch.equal(called(torch.ones(2)), net(torch.ones(2)))
    net.compile(dynamic=True)
    assert net(torch.ones(2)).shape == (2,)
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        torch.compile(f, mode="default", options={})


def test_compiler():
    @torch.compiler.disable
    def f():
        return torch.compiler.is_compiling()

    assert f() is False
    assert torch.compiler.disable(recursive=False)(f)() is False
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()
    assert "inductor" in torch.compiler.list_backends()


def test_version():
    assert torch.version.__version__ == torch.__version__
    assert torch.version.cuda is None or torch.version.cuda.split(".")[0].isdigit()
    assert torch.version.hip is None


def test_accelerator(cuda):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.device_count() == torch.cuda.device_count()
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device=torch.accelerator.current_accelerator()).device.index == 1
    torch.accelerator.set_stream(torch.cuda.Stream())
    assert torch.accelerator.current_stream() == torch.cuda.current_stream()
    torch.accelerator.set_stream(torch.cuda.default_stream())
    torch.accelerator.synchronize()


def test_accelerator_without_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch.accelerator.current_accelerator(check_available=True) is None


def test_implementations_of_attention():
    attention = importlib.import_module("gradlib.nn.attention")
    flags = torch.backends.cuda
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        assert flags.math_sdp_enabled() and not flags.flash_sdp_enabled()
        q = torch.ones(1, 2, 3)
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == (1, 2, 3)
    assert flags.flash_sdp_enabled()
    with (
        pytest.raises(TypeError, match="takes SDPBackend values, but got"),
        attention.sdpa_kernel("x"),
    ):
        pass


def test_dlpack():
    x = torch.arange(3.0)
    y = torch.utils.dlpack.from_dlpack(x)
    y[0] = 7
    assert x[0] == 7
    capsule = torch.utils.dlpack.to_dlpack(x)
    assert type(capsule).__name__ == "PyCapsule"
    assert np.from_dlpack(x).tolist() == [7.0, 1.0, 2.0]


def test_out_of_memory_error():
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    assert torch.OutOfMemoryError is torch.cuda.OutOfMemoryError


def test_no_accelerator_without_its_packages(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None, raising=False)
    assert torch.accelerator.current_accelerator() is None
    monkeypatch.setattr(torch.version, "cuda", "13.0", raising=False)
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
