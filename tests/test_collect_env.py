"""``python -m gradlib.collect_env`` works on every machine, and names what is there."""

import json
import subprocess
import sys
import types

import numpy as np

import gradlib as gl
from gradlib import collect_env
from gradlib.devices.cuda import namespace as cupy_backend


def run(*options):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "gradlib.collect_env", *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout


def test_program_prints_a_line_for_each_fact():
    printed = run()
    heads = [line.partition(":")[0] for line in printed.splitlines() if not line.startswith(" ")]
    assert heads == [*collect_env.environment()]
    assert f"gradlib: {gl.__version__} at " in printed
    assert "unknown: " not in printed.partition("NVIDIA driver")[0]
    assert json.loads(run("--json"))["Python"].startswith(sys.version.split()[0])


def test_versions_and_extras():
    facts = collect_env.environment()
    assert f"numpy {np.__version__}" in facts["Dependencies"]
    assert "opt" in facts["Dependencies"] and "pytest" not in facts["Dependencies"]
    extras = dict(line.strip().split(": ", 1) for line in facts["Extras"].splitlines())
    assert "pytest " in extras["test"]
    assert "nvtx" in extras["profile"]
    assert facts["BLAS"].split()[1][0].isdigit()


def test_settings(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS=3" in collect_env.environment()["Settings"]


def test_a_fact_that_fails_says_why(monkeypatch):
    def fail():
        raise OSError("no such thing")

    monkeypatch.setitem(collect_env._FACTS, "BLAS", fail)
    assert collect_env.environment()["BLAS"] == "unknown: OSError: no such thing"
    assert "BLAS: unknown" in collect_env.report()


def test_devices(monkeypatch):
    runtime = types.SimpleNamespace(
        runtimeGetVersion=lambda: 12090,
        driverGetVersion=lambda: 13000,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda index: {
            "name": b"NVIDIA H200",
            "totalGlobalMem": 139 * 2**30,
            "major": 9,
            "minor": 0,
        },
    )
    cupy = types.SimpleNamespace(__version__="14.2.0", cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(cupy_backend, "why_not", lambda: None)
    monkeypatch.setattr(cupy_backend, "get_backend", lambda: types.SimpleNamespace(xp=cupy))
    nvml = types.ModuleType("pynvml")
    nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
    nvml.nvmlSystemGetDriverVersion = lambda: "580.65"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    facts = collect_env.environment()
    assert facts["CUDA"].splitlines() == [
        "CuPy 14.2.0, runtime 12.9, driver supports 13.0",
        "  cuda:0 NVIDIA H200, sm_90, 139.0 GiB",
    ]
    assert facts["NVIDIA driver"] == "580.65"
