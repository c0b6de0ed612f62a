"""The training examples in several processes: by the launcher, resumed by another number of them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

for package in ("matplotlib", "sklearn", "tqdm"):
    pytest.importorskip(package, reason="the examples extra is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = pathlib.Path(sys.prefix, "bin", "mpiexec")
MPIEXEC = OURS if OURS.exists() else shutil.which("mpiexec") or "mpiexec"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
DIGITS = ("--limit", "150", "--batch-size", "30")
TEXT = ("--context", "16", "--batch-size", "4", "--length", "20", "--prompt", "import ")


def printed_by(processes, program, *options, mpi=False):
    """What an example prints in so many processes; in one it is started as it is."""
    launcher = ["-m", "gradlib.distributed.run", "--standalone", "--nproc-per-node", processes]
    words = [
        *([MPIEXEC, "-n", processes] if mpi else []),
        sys.executable,
        *(launcher if processes > 1 and not mpi else []),
        ROOT / "examples" / program,
        *options,
    ]
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=600, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits_by_two_processes_goes_on_with_one_and_with_three(tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    for epochs, processes in ((2, 2), (3, 1), (4, 3)):
        resume = ("--resume", checkpoint) if epochs > 2 else ()
        printed = printed_by(
            processes, "train_digits.py", *DIGITS, "--epochs", epochs, "--out", tmp_path, *resume
        )
        assert printed.count("120 images to train on") == 1  # one process speaks for all
        found = re.findall(rf"^epoch (\d)/{epochs}  loss ([\d.]+)", printed, re.MULTILINE)
        assert [int(epoch) for epoch, _ in found] == ([1, 2] if epochs == 2 else [epochs])
        assert all(float(loss) < 3 for _, loss in found)


def test_digits_under_mpiexec_go_on_with_another_number(tmp_path):
    for epochs, processes in ((1, 2), (2, 3)):
        resume = ("--resume", tmp_path / "checkpoint.pt") if epochs > 1 else ()
        options = (*DIGITS, "--epochs", epochs, "--out", tmp_path, *resume)
        printed = printed_by(processes, "train_digits.py", *options, mpi=True)
        assert re.findall(rf"^epoch (\d)/{epochs}  loss", printed, re.MULTILINE) == [str(epochs)]


def test_text_by_two_processes_goes_on_with_one(tmp_path):
    options = (*TEXT, "--out", tmp_path)
    first = printed_by(2, "train_text.py", *options, "--steps", 12)
    [loss] = re.findall(r"^step 12  loss ([\d.]+)", first, re.MULTILINE)
    assert float(loss) < 4.8  # ln 128 = 4.85 is what an untrained model scores
    assert first.split("a sample:\n\n")[1].startswith("import ")
    more = ("--steps", 16, "--resume", tmp_path / "checkpoint.pt")
    assert re.findall(r"^step (\d+) ", printed_by(1, "train_text.py", *options, *more), re.M) == [
        "16"
    ]


def test_a_batch_smaller_than_the_number_of_processes_is_refused_once(tmp_path):
    launcher = ["-m", "gradlib.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [ROOT / "examples" / "train_text.py", "--batch-size", "1", "--out", tmp_path]
    done = subprocess.run(
        [sys.executable, *launcher, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=600,
        env=ENVIRONMENT,
    )
    assert done.returncode != 0
    text = "train_text.py: --batch-size 1 is too small for 2 processes"
    assert done.stderr.count(text) == 1
