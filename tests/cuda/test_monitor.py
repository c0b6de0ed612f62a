"""Device facts, read through a stand-in for pynvml."""

import sys
import types
import weakref

import pytest

import gradlib as gl
from gradlib.cuda import monitor
from gradlib.devices.cuda import driver
from gradlib.devices.cuda import namespace as cupy_backend


class NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """A machine with two devices, the second hot and busy."""
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError, nvml.NVML_TEMPERATURE_GPU, nvml.NVML_CLOCK_SM = NVMLError, 0, 1
    nvml.starts = []
    nvml.nvmlInit = lambda: nvml.starts.append(1)
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index
    nvml.nvmlDeviceGetHandleByPciBusId = lambda address: {"0000:3B:00.0": 1}[address]
    nvml.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(
        gpu=90 * handle, memory=40 * handle
    )
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=handle * 2**30)
    nvml.nvmlDeviceGetTemperature = lambda handle, sensor: {(0, 0): 31, (1, 0): 76}[handle, sensor]
    nvml.nvmlDeviceGetPowerUsage = lambda handle: 70_000 + 600_000 * handle
    nvml.nvmlDeviceGetClockInfo = lambda handle, kind: {(0, 1): 345, (1, 1): 1980}[handle, kind]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(cupy_backend, "why_not", lambda: "CUDA is not available")
    return nvml


# rows: DEV-25
def test_facts(nvml):
    facts = "utilization memory_usage device_memory_used temperature power_draw clock_rate".split()
    assert [getattr(gl.cuda, name)("cuda:1") for name in facts] == [
        90,
        40,
        2**30,
        76,
        670_000,
        1980,
    ]
    assert [getattr(gl.cuda, name)() for name in facts] == [0, 0, 0, 31, 70_000, 345]
    assert gl.cuda.temperature(1) == gl.cuda.temperature(gl.device("cuda", 1)) == 76
    assert gl.cuda.monitor is monitor
    assert nvml.starts == [1]


# rows: DEV-25
def test_the_device_is_found_by_its_address(nvml, monkeypatch):
    """CUDA_VISIBLE_DEVICES renumbers devices for CUDA, not for the driver."""
    runtime = types.SimpleNamespace(
        deviceGetPCIBusId=lambda index: {0: "0000:3B:00.0"}[index],
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
    )
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(cupy_backend, "why_not", lambda: None)
    monkeypatch.setattr(cupy_backend, "get_backend", lambda: types.SimpleNamespace(xp=cupy))
    assert gl.cuda.temperature() == gl.cuda.temperature("cuda:0") == 76


# rows: DEV-25
def test_what_is_missing_is_named(nvml, monkeypatch):
    def no_driver():
        raise NVMLError("NVML Shared Library Not Found")

    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        gl.cuda.temperature("cpu")
    monkeypatch.setattr(driver, "_started", weakref.WeakSet())
    nvml.nvmlInit = no_driver
    with pytest.raises(RuntimeError, match=r"Library Not Found.*need a machine with an NVIDIA"):
        gl.cuda.power_draw()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(RuntimeError, match=r"pip install 'gradlib\[profile\]'"):
        gl.cuda.utilization()
    with pytest.raises(AttributeError, match="has no attribute 'fan_speed'"):
        _ = gl.cuda.fan_speed


def test_each_module_is_initialized(monkeypatch):
    """Also one that lies in the memory of another that is gone."""
    monkeypatch.setattr(cupy_backend, "why_not", lambda: "CUDA is not available")
    monkeypatch.setitem(sys.modules, "pynvml", None)  # put back in the end
    for _ in range(20):
        starts: list = []
        module = types.ModuleType("pynvml")
        module.nvmlInit = lambda starts=starts: starts.append(1)  # pyright: ignore
        module.nvmlDeviceGetHandleByIndex = lambda index: index  # pyright: ignore
        module.nvmlDeviceGetPowerUsage = lambda handle: 1  # pyright: ignore
        sys.modules["pynvml"] = module
        assert gl.cuda.power_draw() == 1
        assert starts == [1]
        del sys.modules["pynvml"], module
