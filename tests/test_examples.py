"""The examples run as a user runs them: as programs, with small settings."""

import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import pytest

for package in ("matplotlib", "sklearn", "tqdm"):
    pytest.importorskip(package, reason="the examples extra is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "PYTHONUNBUFFERED": "1",  # each line is seen when it is printed
}
DIGITS = ("--limit", "150", "--epochs", "2")
TEXT = ("--steps", "12", "--context", "16", "--batch-size", "4", "--length", "20")


def command(program, *options):
    return [sys.executable, str(ROOT / "examples" / program), *map(str, options)]


def run(program, *options, cwd=None):
    """Run an example to its end."""
    return subprocess.run(
        command(program, *options),
        capture_output=True,
        text=True,
        timeout=300,
        env=ENVIRONMENT,
        cwd=cwd,
    )


def output(program, *options):
    """What an example prints when all goes well."""
    done = run(program, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_one_line(done, *words):
    """The run ended with status 2 and a single line on standard error that holds `words`."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A short run of train_digits.py: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("digits")
    return folder, output("train_digits.py", *DIGITS, "--out", folder)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A short run of train_text.py: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("text")
    return folder, output("train_text.py", *TEXT, "--prompt", "import ", "--out", folder)


def test_digits_reports_each_epoch_and_writes_plot_and_checkpoint(digits):
    folder, printed = digits
    assert "120 images to train on, 30 to test on" in printed
    assert re.findall(r"^epoch (\d)/2  loss [\d.]+  test loss", printed, re.MULTILINE) == ["1", "2"]
    assert re.search(r"^test accuracy [\d.]+% after", printed, re.MULTILINE)
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.pt", "digits.png"]


def test_digits_learns(tmp_path):
    printed = output("train_digits.py", "--limit", 600, "--epochs", 5, "--out", tmp_path)
    accuracies = [float(percent) for percent in re.findall(r"accuracy ([\d.]+)%", printed)]
    assert accuracies[-1] > 75  # blind guessing gives about 10


def test_digits_repeats_with_the_same_seed(digits, tmp_path):
    _, printed = digits
    again = output("train_digits.py", *DIGITS, "--out", tmp_path)
    assert epochs(again) == epochs(printed)


# Runs an example that interrupts itself at the line of its first epoch: whoever watches it may be too late.
INTERRUPTED = """
import builtins, os, runpy, signal, sys

def tell(*words, **how):
    say(*words, **how)
    if words and str(words[0]).startswith("epoch 1/"):
        os.kill(os.getpid(), signal.SIGINT)

say, builtins.print = print, tell
signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner in the background ignores it
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_digits_resumes_as_if_never_stopped(tmp_path):
    """Interrupted after its first epoch, resumed: the figures are those of an unbroken run."""
    options = ("--limit", "200", "--epochs", "6", "--out")
    unbroken = output("train_digits.py", *options, tmp_path / "unbroken")
    broken = tmp_path / "broken"
    example, *more = command("train_digits.py", *options, broken)[1:]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, example, *more],
        capture_output=True, text=True, timeout=300, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1].endswith("train_digits.py: interrupted")

    checkpoint = broken / "checkpoint.pt"
    resumed = output("train_digits.py", *options, broken, "--resume", checkpoint)
    assert 0 < len(epochs(resumed)) < 6
    assert epochs(resumed) == epochs(unbroken)[-len(epochs(resumed)) :]


def epochs(printed):
    """The lines on epochs."""
    return [line for line in printed.splitlines() if line.startswith("epoch ")]


def test_text_falls_in_loss_and_writes_from_its_prompt(text):
    folder, printed = text
    (loss,) = re.findall(r"^step 12  loss ([\d.]+)  test loss", printed, re.MULTILINE)
    assert float(loss) < 4.8  # ln 128 = 4.85 is what an untrained model scores
    sample = printed.split("a sample:\n\n")[1]
    assert sample.startswith("import ")
    assert len(sample) == len("import ") + 20 + 1  # and the end of the line
    assert (folder / "text.png").read_bytes().startswith(b"\x89PNG")


def test_text_resumes(text, tmp_path):
    folder, _ = text
    options = ("--steps", 20, *TEXT[2:], "--resume", folder / "checkpoint.pt", "--out", tmp_path)
    printed = output("train_text.py", *options)
    assert re.findall(r"^step (\d+) ", printed, re.MULTILINE) == ["20"]


def test_nsys_profile_runs_without_a_profiler():
    assert re.fullmatch(r"loss [\d.]+ after 2 steps\n", output("nsys_profile.py", "--steps", 2))


def test_nsys_profile_reports_by_op_and_line(tmp_path):
    path = tmp_path / "run.sqlite"
    database = sqlite3.connect(path)
    database.executescript("""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, correlationId INT);
        INSERT INTO NVTX_EVENTS VALUES (0, 2000, 59, 'mul, seq=7, at=train.py:41', 1);
        INSERT INTO NVTX_EVENTS VALUES (3000, 7000, 59, 'MulBackward0, stashed seq=7, seq=0', 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (4000, 4001, 1, 5);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9000, 17000, 5);
    """)
    database.close()
    printed = output("nsys_profile.py", "--report", path)
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line}
    assert rows["mul"] == rows["train.py:41"] == ["1", "0.000us", "8.000us", "2.000us", "4.000us"]


@pytest.mark.parametrize("options", [[], ["--offload"]])
def test_streams_does_the_same_on_the_cpu(options):
    printed = output("streams.py", "--steps", 3, "--width", 8, *options)
    assert printed.startswith("streams need a CUDA device")
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 3 and losses[2] < losses[0]


def test_cuda_graph_does_the_same_on_the_cpu():
    printed = output("cuda_graph.py", "--steps", 2, "--width", 8)
    assert printed.startswith("CUDA graphs need a CUDA device")
    assert "the step could be captured" in printed
    assert re.search(r"^plain: loss [\d.]+, [\d.]+ ms a step$", printed, re.MULTILINE)


# An example on the simulated CUDA device, its name and options as its own.
SIMULATED = """
import os, runpy, sys
from tests.simulated_cuda import install

install()
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("program", "options", "pattern"),
    [
        ("train_digits.py", ["--limit", 60, "--epochs", 2], r"device cuda\n(.*\n)*epoch 2/2 "),
        ("train_text.py", ["--steps", 2, *TEXT[2:]], r"device cuda\n(.*\n)*step 2 "),
        ("streams.py", ["--steps", 3, "--width", 8], r"step 3  loss \d"),
        ("streams.py", ["--steps", 3, "--width", 8, "--offload"], r"step 3  loss \d"),
        ("cuda_graph.py", ["--steps", 3, "--width", 8], r"plain: loss .*\ncaptured: loss \d"),
        ("nsys_profile.py", ["--steps", 2], r"loss [\d.]+ after 2 steps"),
        ("profiling.py", ["--steps", 1, "--batch-size", 4], r"(?s)Self CUDA.*wrote .*trace.json"),
    ],
)
def test_examples_run_unchanged_on_a_cuda_device(program, options, pattern, tmp_path):
    out = (
        () if program in ("streams.py", "cuda_graph.py", "nsys_profile.py") else ("--out", tmp_path)
    )
    words = [ROOT / "examples" / program, "--device", "cuda", *options, *out]
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(pattern, done.stdout), done.stdout


@pytest.mark.parametrize(
    ("program", "options", "words"),
    [
        ("streams.py", ["--steps", "0"], ["--steps", "'0'"]),
        ("cuda_graph.py", ["--device", "abacus"], ["--device abacus"]),
        ("train_digits.py", ["--epochs", "0"], ["--epochs", "'0'"]),
        ("train_digits.py", ["--batch-size", "many"], ["--batch-size", "'many'"]),
        ("train_digits.py", ["--lr", "nan"], ["--lr", "'nan'"]),
        ("train_digits.py", ["--seed", "-1"], ["--seed"]),
        ("train_digits.py", ["--device", "abacus"], ["--device abacus"]),
        ("train_digits.py", ["--limit", "1"], ["--limit"]),
        ("train_digits.py", ["--colour", "red"], ["--colour"]),
        ("train_digits.py", ["--resume", "absent.pt"], ["absent.pt", "No such file"]),
        ("train_digits.py", ["--resume", "."], ["cannot read checkpoint"]),
        ("train_digits.py", ["--out", "taken/x", "--limit", "20"], ["--out taken/x"]),
        ("train_text.py", ["--steps", "1.5"], ["--steps", "'1.5'"]),
        ("train_text.py", ["--prompt", "é"], ["--prompt", "ASCII"]),
        ("train_text.py", ["--prompt", ""], ["--prompt"]),
        ("train_text.py", ["--context", "9999999"], ["--context 9999999"]),
        ("nsys_profile.py", ["--report", "absent.sqlite"], ["absent.sqlite", "No such file"]),
        ("nsys_profile.py", ["--report", "taken"], ["taken", "nsys export --type sqlite"]),
    ],
)
def test_wrong_option_gets_one_line(program, options, words, tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should go")
    assert_one_line(run(program, *options, cwd=tmp_path), *words)


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "another pickle"])
def test_unreadable_checkpoint_gets_one_line(damage, digits, tmp_path):
    folder, _ = digits
    whole = (folder / "checkpoint.pt").read_bytes()
    path = tmp_path / "damaged.pt"
    content = {
        "empty": b"",
        "garbage": b"this is no checkpoint",
        "cut": whole[: len(whole) // 2],
        "another pickle": b"\x80\x02]q\x00.",
    }
    path.write_bytes(content[damage])
    done = run("train_digits.py", *DIGITS, "--resume", path, "--out", tmp_path)
    assert_one_line(done, "damaged.pt", "is not a checkpoint")


def test_checkpoint_of_another_run_gets_one_line(digits, text, tmp_path):
    ours, theirs = digits[0] / "checkpoint.pt", text[0] / "checkpoint.pt"
    out = ("--out", tmp_path)
    done = run("train_digits.py", *DIGITS, "--seed", 5, "--resume", ours, *out)
    assert_one_line(done, "seed")
    done = run("train_digits.py", *DIGITS, "--resume", ours, *out)
    assert_one_line(done, "2 epochs", "--epochs")
    done = run("train_digits.py", *DIGITS, "--resume", theirs, *out)
    assert_one_line(done, "train_text.py")
    done = run("train_text.py", "--steps", 20, "--resume", theirs, *out)  # another --context
    assert_one_line(done, "context")
