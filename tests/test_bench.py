"""The benchmark runs as a program; its figures are nobody's test."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def bench(*options):
    command = [sys.executable, str(ROOT / "ci" / "bench"), "--quick", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_prints_a_table_and_writes_it_as_json(tmp_path):
    done = bench("--only", "chain", "--json", tmp_path / "result.json")
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((tmp_path / "result.json").read_text())
    names = [row["name"] for row in content["rows"]]
    assert names == ["chain-no-grad", "chain-recording", "chain-backward"]
    for row in content["rows"]:
        assert row["error"] == ""
        assert row["seconds"]["gradlib"] > 0
        assert row["name"] in done.stdout


def test_times_single_ops():
    done = bench("--ops", "--only", "tanh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tanh" in done.stdout


def test_unknown_workload_is_refused():
    done = bench("--only", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
