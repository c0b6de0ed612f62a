"""Clocks, power and temperature beside a profile, through a stand-in for pynvml."""

from __future__ import annotations

import sys
import threading
import time
import types

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.profiler import _throttling
from tests.profiler.viewer import Viewer


class NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch, cuda):
    """A machine with two devices; the second is at its power limit and does not tell its temperature."""
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError = NVMLError
    nvml.NVML_TEMPERATURE_GPU, nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM = 0, 1, 2

    def temperature(handle, sensor):
        if handle == 1:
            raise NVMLError("Not Supported")
        return 61

    nvml.nvmlInit = lambda: None
    runtime = cuda.cuda.runtime
    monkeypatch.setattr(runtime, "deviceGetPCIBusId", "0000:{}B:00.0".format, raising=False)
    nvml.nvmlDeviceGetHandleByPciBusId = lambda address: int(address[5])
    nvml.nvmlDeviceGetClockInfo = lambda handle, kind: {1: 1980 - 600 * handle, 2: 3201}[kind]
    nvml.nvmlDeviceGetPowerUsage = lambda handle: 650_000
    nvml.nvmlDeviceGetTemperature = temperature
    nvml.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=97)
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: [0x1, 0x24][handle]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


def profiled(until=lambda: True):
    x = gradlib.ones(100, device="cuda")
    with profiler.profile(use_device="cuda") as prof:
        x * 2
        while not until():
            time.sleep(0.001)
    return prof


# rows: DEV-25
def test_samples(nvml, monkeypatch):
    rounds, sample = [], _throttling.Sampler._sample
    monkeypatch.setattr(_throttling.Sampler.__init__, "__defaults__", (0.01,))
    monkeypatch.setattr(
        _throttling.Sampler, "_sample", lambda self: (sample(self), rounds.append(1))
    )
    samples = profiled(lambda: len(rounds) > 1).function_events._samples
    assert len(samples) >= 6  # two devices: at the beginning, at the end, and between
    first, second = samples[:2]
    assert first[1:] == (0, 1980, 3201, 650.0, 61, 97, ())
    assert second[1:] == (1, 1380, 3201, 650.0, None, 97, ("power cap", "thermal limit"))
    assert [s.time_us for s in samples] == sorted(s.time_us for s in samples)
    assert not [t for t in threading.enumerate() if t.name == "gradlib clocks"]


# rows: DEV-25
def test_throttled_measurements_are_marked(nvml, tmp_path, monkeypatch):
    # at the beginning and at the end, however long that takes
    monkeypatch.setattr(_throttling.Sampler.__init__, "__defaults__", (3600.0,))
    prof = profiled()
    text = prof.key_averages().table()
    assert "The clocks of cuda:1 were lowered in 2 of 4 samples (power cap, thermal limit)" in text
    prof.export_chrome_trace(tmp_path / "trace.json")
    viewer = Viewer(tmp_path / "trace.json")
    clocks = {k[0]: v for k, v in viewer.counters.items() if k[1] == "SM clock (MHz)"}
    assert sorted(points[0][1]["SM clock (MHz)"] for points in clocks.values()) == [1380, 1980]
    assert len({name for _, name in viewer.counters}) == 5
    marks = {e["name"] for e in viewer.instants}
    assert marks == {"clocks lowered: power cap, thermal limit"}


# rows: DEV-25
def test_without_pynvml_there_are_no_samples(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert profiled().function_events._samples == []


# rows: DEV-25
def test_a_driver_that_fails_does_not_stop_the_profile(nvml, monkeypatch):
    def fails():
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setattr(nvml, "nvmlInit", fails)
    prof = profiled()
    assert prof.function_events._samples == []
    assert prof.key_averages()[0].key == "mul"


def test_the_newer_name_of_a_function_is_preferred(nvml):
    nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x80
    assert _throttling.figures(nvml, 0)[-1] == ("hardware power brake",)
    assert _throttling.figures(types.SimpleNamespace(NVMLError=NVMLError), 0) == (
        *[None] * 5,
        (),
    )
    assert _throttling.summary([]) == ""
