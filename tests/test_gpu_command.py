"""`python ci/gpu` where there is no GPU: it says so, keeps its limits, and names the test that lost the device."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, str(ROOT / "ci" / "gpu")]


def gpu(out: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*COMMAND, "--out", str(out), *words], capture_output=True, text=True, timeout=900, cwd=ROOT
    )


def test_without_a_device_it_fails_and_says_why(tmp_path):
    done = gpu(tmp_path, "facts", "kernels")
    assert done.returncode == 1
    assert "facts: FAILED (exit 1, see facts.log)" in done.stdout
    assert "CUDA is not available" in (tmp_path / "facts.log").read_text()
    assert done.stdout.count("CUDA is not available") >= 2  # the end of the output of both stages
    assert "kernels: FAILED" in done.stdout  # nothing is skipped in green
    assert "CUDA is not available" in (tmp_path / "kernels.log").read_text()


def test_a_stage_that_is_over_its_limit_is_ended(tmp_path):
    done = gpu(tmp_path, "facts", "compile", "--limit", "0.001")
    assert done.returncode == 1
    for stage in ("facts", "compile"):
        assert f"{stage}: FAILED (over its limit of" in done.stdout


def test_the_plan_of_the_first_hour_names_what_there_is():
    text = (ROOT / "docs" / "first_hour_on_a_gpu.md").read_text()
    assert len(text.split("\n")) < 110  # two pages
    stages = re.findall(r'Stage\("(\w+)"', (ROOT / "ci" / "gpu" / "stages.py").read_text())
    asked = [w for line in re.findall(r"python ci/gpu ([\w ]*)--out", text) for w in line.split()]
    assert asked and set(asked) <= set(stages)
    for names, file in re.findall(r"^\| (`[A-Z_`, ]+`) \| `([\w/]+\.py)`", text, re.M):
        code = (ROOT / "gradlib" / "devices" / "cuda" / file).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(?:\w+, )*{name}\b.* = ", code, re.M), (file, name)
    measured = (ROOT / "ci" / "gpu" / "micro.py").read_text()
    for row in ("attention bf16 causal", "conv 3x3 tf32", "conv 3x3 float32", "softmax of columns"):
        assert f"`{row}`" in text and f'"{row}"' in measured
    for path in re.findall(r"\b(?:tests_gpu|tests|ci|examples)/[\w/]+\.py", text):
        assert (ROOT / path).exists(), path


def test_unknown_stages_are_named(tmp_path):
    done = gpu(tmp_path, "fact")
    assert done.returncode == 2
    assert "no stage fact; stages are facts, compile, kinds, kernels, tests" in done.stderr


def test_measurements_are_rows_in_their_units(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "gpu"))
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    import measure
    import rows

    monkeypatch.setenv(rows.FILE, str(tmp_path / "rows.json"))
    monkeypatch.setenv(rows.STAGE, "micro")

    def run(workload):
        times = {"gradlib": [0.002, 0.002], "torch": [0.001], "jax": [1.0]}
        yield measure.Row(workload.name, samples=times)
        yield measure.Row("  forward", samples={"gradlib": [0.5]})
        yield measure.Row("host", "us/op", samples={"gradlib": [5e-6]})
        yield measure.Row("peak", "MiB", samples={"gradlib": [3.0]}, error="too much")

    rows.add_measured([measure.Workload("softmax", None)], run)
    first, phase, host, peak = rows.read(tmp_path / "rows.json", "micro")
    assert (first["name"], first["gradlib"], first["torch"], first["ratio"]) == (
        "softmax",
        2.0,
        1.0,
        2.0,
    )
    assert first["jax"] == 1000.0
    assert (phase["name"], phase["gradlib"], phase["ratio"]) == ("softmax: forward", 500.0, None)
    assert (host["gradlib"], host["unit"]) == (5.0, "us/op")
    assert (peak["gradlib"], peak["error"]) == (3.0, "too much")


def test_rows_outlive_whoever_writes_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "gpu"))
    import rows

    file = tmp_path / "rows.json"
    monkeypatch.setenv(rows.FILE, str(file))
    monkeypatch.setenv(rows.STAGE, "facts")
    rows.add("first", seconds=1.0)
    with file.open("a") as cut_off:
        cut_off.write('{"stage": "facts", "name": "cut')
    with rows.attempt("second"):
        raise ValueError("no such clock")
    rows.add("third")
    found = rows.read(file, "facts")
    assert [row["name"] for row in found] == ["first", "second", "third"]
    assert found[1]["error"] == "ValueError: no such clock"


def run_tests(folder: Path, text: str) -> tuple[int, list[dict]]:
    """The exit status of a run of pytest with the plugin, and its rows."""
    (folder / "test_it.py").write_text(text)
    file = folder / "rows.json"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")} | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "ci" / "gpu"), str(ROOT)]),
        "GRADLIB_GPU_ROWS": str(file), "GRADLIB_GPU_STAGE": "kernels",
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "pytest_rows",
        "-p",
        "no:cacheprovider",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env, cwd=folder)
    return done.returncode, [json.loads(line) for line in file.read_text().splitlines()]


def test_failures_are_rows(tmp_path):
    code, rows = run_tests(
        tmp_path, "def test_well():\n    pass\n\ndef test_bad():\n    assert 1 == 2\n"
    )
    assert code == 1
    failed, whole = rows
    assert failed["name"].endswith("test_it.py::test_bad") and "assert 1 == 2" in failed["error"]
    assert (whole["passed"], whole["failed"], whole["stage"]) == (1, 1, "kernels")


def test_a_lost_device_names_the_test_and_ends_the_process(tmp_path):
    text = (
        "import pytest_rows\n\ndef test_faults():\n    pytest_rows.lost = lambda: 'an illegal memory access'\n\n"
        "def test_never():\n    pass\n"
    )
    code, rows = run_tests(tmp_path, text)
    assert code == 70
    assert [r["name"].rpartition("::")[2] for r in rows] == ["test_faults"]
    assert rows[0]["error"] == "lost the device: an illegal memory access"


def test_what_was_run_is_known_when_the_limit_ends_a_run(tmp_path):
    text = (
        "import os, signal, pytest_rows\n\npytest_rows.EVERY = -1\n\ndef test_well():\n    pass\n\n"
        "def test_at_the_limit():\n    os.kill(os.getpid(), signal.SIGTERM)\n\ndef test_never():\n    pass\n"
    )
    code, rows = run_tests(tmp_path, text)
    assert code == 2
    *so_far, whole = rows
    assert {row["name"] for row in so_far} == {"tests so far"} and so_far[0]["passed"] == 1
    assert whole["name"] == "tests" and whole["passed"] == 1
    assert whole["error"] == "ended by its limit: not all tests were run"


def test_a_run_of_no_tests_is_a_failure(tmp_path):
    code, rows = run_tests(tmp_path, "")
    assert code == 5
    assert rows[0]["error"] == "no test passed"
