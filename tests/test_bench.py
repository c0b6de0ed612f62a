"""The benchmark runs as a program; its figures are nobody's test."""

import importlib
import json
import pathlib
import subprocess
import sys
from importlib.util import find_spec

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
    fused = ["chain-fused"] if find_spec("numba") else []
    assert names == ["chain-no-grad", "chain-recording", "chain-backward", "chain-captured", *fused]
    for row in content["rows"]:
        assert row["error"] == ""
        assert row["seconds"]["gradlib"] > 0
        assert row["name"] in done.stdout


def test_each_library_chooses_its_kernels_of_products(monkeypatch, tmp_path):
    """A machine may pin those of NumPy's library to old ones, of half the speed, and has no such pin for PyTorch's."""
    own = "import numpy; from gradlib.devices.numpy import threads; print(threads.kernels())"
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    command = [sys.executable, "-c", own]
    chosen = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    bench("--only", "chain-no-grad", "--json", tmp_path / "result.json")
    facts = json.loads((tmp_path / "result.json").read_text())["facts"]
    assert facts["kernels of products"] == (chosen.stdout.strip() or "unknown")


def test_times_single_ops(tmp_path):
    done = bench("--ops", "--only", "tanh", "--threads", 2, "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tanh" in done.stdout and "threads: 2" in done.stdout
    assert json.loads((tmp_path / "result.json").read_text())["facts"]["threads"] == 2


def test_captured_steps_beside_compiled_ones(tmp_path):
    path = tmp_path / "result.json"
    options = "--only", "chain-captured", "--compile", "--json", path
    done = bench(*options, program=("-c", GRADLIB_TWICE))
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert not row["error"] and not row["notes"]
    assert {*row["seconds"]} == {"gradlib", "torch", "eager", "torch.compile"}
    assert {*row["ready"]} == {"captured", "cold", "warm"}
    assert "captured steps: times over torch's eager step" in done.stdout
    done = bench("--compile", "--ops")
    assert done.returncode == 2 and "--compile goes with captured steps" in done.stderr


GRADLIB_TWICE = """
import runpy, sys

import gradlib

sys.modules["torch"] = gradlib
runpy.run_path("ci/bench", run_name="__main__")
"""


def test_when_a_captured_step_has_paid(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    readiness = importlib.import_module("readiness")
    # two recordings of 4 and 2 seconds, eager ones take 1, replays a half
    assert readiness.cost([4, 2, 0.5, 0.5], 1) == 4
    assert readiness.pays_after([4, 2, 0.5, 0.5], 1, 0.5) == 4 + 6
    assert readiness.pays_after([4, 2, 0.5, 0.5], 1, 1.0) is None
    assert readiness.cost([0.5, 0.5], 1) == 0 and readiness.pays_after([0.5, 0.5], 1, 0.5) == 2


def test_what_cannot_be_compiled_is_said(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    measure, readiness = importlib.import_module("measure"), importlib.import_module("readiness")
    with pytest.raises(RuntimeError, match="No module named 'nowhere'"):
        readiness.compiled_costs(measure.Workload("chain-captured", None), "nowhere", 1)


def test_times_two_processes(tmp_path):
    names = ["gloo-all-reduce-4B", "gloo-ddp-mlp"]
    done = bench("--distributed", "--only", *names, "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "result.json").read_text())["rows"]}
    assert [*rows] == [*names, "gloo-ddp-mlp-exposed"]
    assert rows["gloo-ddp-mlp"]["seconds"]["gradlib"] > 0
    assert "gradlib" in rows["gloo-ddp-mlp-exposed"]["values"]


def test_compares_with_an_earlier_run(tmp_path):
    path = tmp_path / "old.json"
    assert bench("--only", "chain-no-grad", "--json", path).returncode == 0
    content = json.loads(path.read_text())
    (entry,) = content["rows"]
    before = dict(entry["seconds"]), entry["ratio"]

    def scaled(factor, unit="us/op"):
        entry["unit"] = unit
        entry["seconds"] = {name: seconds * factor for name, seconds in before[0].items()}
        entry["ratio"] = before[1] and before[1] * factor
        path.write_text(json.dumps(content))
        return bench("--only", "chain-no-grad", "--compare", path)

    done = scaled(1000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rows compared, 0 lost more than 5 %" in done.stdout
    done = scaled(1 / 1000)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "LOST, measured 3 times" in done.stdout
    assert "1 lost more than 5 %: chain-no-grad" in done.stdout
    entry["error"] = "it failed"
    done = scaled(1 / 1000)
    assert done.returncode == 0 and "0 rows compared" in done.stdout


def test_a_file_to_compare_with_is_looked_at_first(tmp_path):
    done = bench("--only", "chain-no-grad", "--compare", tmp_path / "none.json")
    assert done.returncode == 1 and "cannot read" in done.stderr
    (tmp_path / "list.json").write_text("[]")
    done = bench("--only", "chain-no-grad", "--compare", tmp_path / "list.json")
    assert done.returncode == 1 and "no file that --json wrote" in done.stderr
    content = {"facts": {"device": "cuda, a GPU"}, "rows": []}
    (tmp_path / "cuda.json").write_text(json.dumps(content))
    done = bench("--only", "chain-no-grad", "--compare", tmp_path / "cuda.json")
    assert done.returncode == 1 and "was measured on cuda, a GPU" in done.stderr
    content = {"facts": {"device": "cpu, a processor", "threads": 2}, "rows": []}
    (tmp_path / "threads.json").write_text(json.dumps(content))
    done = bench("--only", "chain-no-grad", "--compare", tmp_path / "threads.json")
    assert done.returncode == 1 and "compare it with --threads 2" in done.stderr
    done = bench("--only", "chain-no-grad", "--loss", "-1")
    assert done.returncode == 2 and "--loss" in done.stderr


def test_what_counts_as_a_loss(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    comparison, measure = importlib.import_module("comparison"), importlib.import_module("measure")

    def row(name, unit="ms", **medians):
        return measure.Row(name, unit, samples={key: [value] for key, value in medians.items()})

    def entry(name, ratio=None, unit="ms", error="", **values):
        key = "seconds" if unit == "ms" else "values"
        return {"name": name, "unit": unit, "ratio": ratio, "error": error, key: values}

    earlier = {
        e["name"]: e
        for e in [
            entry("same-ratio", 0.5, gradlib=1.0, torch=2.0),
            entry("slower-machine", 0.5, gradlib=1.0, torch=2.0),
            entry("time", gradlib=1.0),
            entry("bandwidth", unit="GB/s", gradlib=100.0),
            entry("share", unit="share", gradlib=0.0),
            entry("forward", gradlib=1.0),
            entry("noise", 0.5, gradlib=1.0, torch=2.0),
        ]
    }
    rows = [
        row("same-ratio", gradlib=1.02, torch=2.0), row("slower-machine", gradlib=5.0, torch=10.0),
        row("time", gradlib=1.2, torch=1.0), row("bandwidth", "GB/s", gradlib=80.0),
        row("share", "share", gradlib=0.5), row("  forward", gradlib=9.0), row("new", gradlib=1.0),
        row("noise", gradlib=3.0, torch=2.0),
    ]  # fmt: skip
    measured = []

    def again(name):
        measured.append(name)
        if name == "noise":
            return row("noise", gradlib=1.0, torch=2.0)
        return next(r for r in rows if r.name == name)

    assert comparison.print_changes(rows, earlier, 0.05, again) == ["time", "bandwidth"]
    assert measured == ["time", "time", "bandwidth", "bandwidth", "noise"]
    assert "5 rows compared, 2 lost more than 5 %: time, bandwidth" in capsys.readouterr().out
    assert comparison.print_changes(rows, earlier, 0.30, again) == []


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


def test_times_are_kept_where_numbers_disagree(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    measure = importlib.import_module("measure")
    import gradlib

    made = iter([1.0, 2.0, 2.0])

    def build(torch, device):
        value = next(made)
        return lambda: torch.full((2,), value)

    libraries = {"gradlib": gradlib, "torch": gradlib}
    others = {"torch.compile": ("torch", build)}  # a column that fails is a note
    work = measure.Workload("sum", build, others=others)
    [row] = measure.run(work, libraries, "cpu", measure.QUICK)
    assert row.notes == {"torch.compile": row.error}
    assert row.error == "results disagree: relative difference 0.5"
    assert row.medians.keys() == {"gradlib", "torch"} and row.ratio


def test_the_resnet_is_that_of_the_paper(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "bench"))
    resnet = importlib.import_module("resnet")
    import gradlib

    with gradlib.device("meta"):
        model = resnet.network(gradlib, resnet.FULL)
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
    step = resnet.step(gradlib, "cpu", sizes=resnet.Sizes(4, 16, 2, (1, 1), 3))
    losses = [step().item() for _ in range(6)]
    assert losses[-1] < losses[0]
