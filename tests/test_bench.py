"""The benchmark runs as a program; its figures are nobody's test."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The benchmark on the simulated device, where gradlib runs a second time in the place of PyTorch, with a compiler that
# fails.
SIMULATED = """
import runpy, sys
from tests.simulated_cuda import install

install()
import gradlib

def no_compiler(model):
    raise RuntimeError("no C++ compiler")

gradlib.compile = no_compiler
sys.modules["torch"] = gradlib
runpy.run_path("ci/bench", run_name="__main__")
"""


def bench(*options, program=(str(ROOT / "ci" / "bench"),)):
    command = [sys.executable, *program, "--quick", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


@pytest.fixture(scope="module")
def on_cuda(tmp_path_factory):
    """All that runs for --device cuda, on the simulated device: the content of the file, and the printed table."""
    path = tmp_path_factory.mktemp("bench") / "result.json"
    done = bench("--device", "cuda", "--json", path, program=("-c", SIMULATED))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text()), done.stdout


def test_prints_a_table_and_writes_it_as_json(tmp_path):
    done = bench("--only", "chain", "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((tmp_path / "result.json").read_text())
    names = [row["name"] for row in content["rows"]]
    assert names == ["chain-no-grad", "chain-recording", "chain-backward", "chain-captured"]
    for row in content["rows"]:
        assert row["error"] == ""
        assert row["seconds"]["gradlib"] > 0
        assert row["name"] in done.stdout


def test_times_single_ops():
    done = bench("--ops", "--only", "tanh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tanh" in done.stdout


def test_times_two_processes(tmp_path):
    names = ["gloo-all-reduce-4B", "gloo-ddp-mlp"]
    done = bench("--distributed", "--only", *names, "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "result.json").read_text())["rows"]}
    assert [*rows] == [*names, "gloo-ddp-mlp-exposed"]
    assert rows["gloo-ddp-mlp"]["seconds"]["gradlib"] > 0
    assert "gradlib" in rows["gloo-ddp-mlp-exposed"]["values"]


def test_unknown_workload_is_refused():
    done = bench("--only", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_every_cuda_workload_runs(on_cuda):
    content, printed = on_cuda
    rows = {row["name"]: row for row in content["rows"]}
    wanted = "chain-backward mlp-small-captured mlp-tf32 cnn-float32 gpt-bf16 gpt2-small-bf16 gpt2-small-bf16-peak"
    assert set(wanted.split()) <= set(rows)
    for name, row in rows.items():
        assert row["error"] == "", name
        measured = row.get("seconds") or row["values"]
        assert {"gradlib", "torch"} <= set(measured), name
        assert name in printed
    assert rows["streams-speed-up"]["unit"] == "times" and "values" in rows["streams-speed-up"]


def test_other_libraries_have_columns_where_they_are_installed(on_cuda):
    content, printed = on_cuda
    rows = {row["name"]: row for row in content["rows"]}
    assert "cupy" in rows["chain-backward"]["seconds"] and "cupy" in rows["mlp-float32"]["seconds"]
    assert "torch.graph" in rows["gpt-captured"]["seconds"]
    # what fails beside the two libraries is noted and stops nothing
    assert "no C++ compiler" in rows["mlp-float32"]["notes"]["torch.compile"]
    assert "mlp-float32: without torch.compile" in printed


def test_facts_of_a_cuda_run(on_cuda):
    facts = on_cuda[0]["facts"]
    assert facts["device"].startswith("cuda, ") and facts["driver"].startswith("CUDA ")
    assert {"date", "gradlib", "cupy", "numpy", "python", "revision"} <= set(facts)


def test_without_a_device_it_says_so():
    done = bench("--device", "cuda", program=("-c", NO_DEVICE))
    assert done.returncode == 1
    assert "gradlib sees no CUDA device: CUDA is not available" in done.stderr


NO_DEVICE = """
import runpy, sys

sys.modules["cupy"] = None
runpy.run_path("ci/bench", run_name="__main__")
"""
