"""The launcher: what processes find, who failed first, starting again, output, and that none is left over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradlib.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, to_map
from gradlib.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ErrorHandler,
    ProcessFailure,
    record,
)
from gradlib.distributed.elastic.utils import macros
from gradlib.distributed.launcher.api import LaunchConfig, elastic_launch
from gradlib.distributed.run import (
    config_from_args,
    determine_local_world_size,
    parse_args,
    parse_min_max_nnodes,
)

ROOT = Path(__file__).parent.parent.parent
PREFIXES = ("PET_", "TORCHELASTIC", "GRADLIB_", "MASTER", "SLURM", "PMI", "OMPI")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def launch(
    *arguments: str, prefix: tuple[str, ...] = ("-m", "gradlib.distributed.run"), **more: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *prefix, *arguments],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == status, (out, err)
    return out, err


def program(folder: Path, text: str, name: str = "program.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def free_port() -> int:
    """One that no connection gets by chance: it is not of those that the system deals out."""
    with socket.socket() as probe:
        for port in range(15000 + os.getpid() % 5000, 20000):
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError("all ports are taken")


# -- what processes find -----------------------------------------------------------------------------------------

SHOW = """
import json, os, sys
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR TORCHELASTIC_RESTART_COUNT".split()
print(json.dumps([sys.argv[1:], *(os.environ[name] for name in names)]) + "\\n", end="")
assert int(os.environ["MASTER_PORT"]) > 0 and os.environ["TORCHELASTIC_RUN_ID"]
assert "GRADLIB_JOB_TOKEN" in os.environ
"""


def test_one_machine(tmp_path: Path) -> None:
    script = program(tmp_path, SHOW)
    out, _ = finish(launch("--standalone", "--nproc-per-node=2", script, "--lr", "${local_rank}"))
    rows = sorted(json.loads(line) for line in out.splitlines())
    assert rows == [
        [["--lr", str(rank)], str(rank), str(rank), "2", "2", "0", "localhost", "0"]
        for rank in range(2)
    ]


def test_modules_programs_and_environment(tmp_path: Path) -> None:
    program(tmp_path, "import os; print('module', os.environ['RANK'])", "some_module.py")
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    first = launch("-m", "some_module", PYTHONPATH=path, PET_NPROC_PER_NODE="1")
    second = launch("--no-python", "sh", "-c", "echo shell $RANK; exit 3")
    assert finish(first)[0] == "module 0\n"
    out, err = finish(second, 1)
    assert out == "shell 0\n" and "sh FAILED" in err and "exitcode  : 3" in err


def test_as_torch_and_the_older_name(tmp_path: Path) -> None:
    script = program(tmp_path, "import sys, torch; print(torch.__file__, sys.argv[1:])")
    asked = ("-m", "gradlib", "-m")
    new = launch("--run-path", script, prefix=(*asked, "torch.distributed.run"))
    old = launch("--nproc_per_node=1", script, prefix=(*asked, "torch.distributed.launch"))
    file = ROOT / "gradlib" / "__init__.py"
    assert finish(new)[0] == f"{file} []\n"
    out, err = finish(old)
    assert out == f"{file} ['--local-rank=0']\n" and "deprecated" in err


MEET = """
import os, sys, time
from gradlib.distributed import rendezvous
store, rank, size = next(rendezvous("env://"))
store.set(str(rank), "here")
store.wait([str(other) for other in range(size)])
again = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"rank {rank} of {size} on {os.environ['GROUP_RANK']}, start {again}\\n", end="", flush=True)
store.set(f"{rank} said", "")
if again == "0" and sys.argv[1:]:
    if rank == 1:
        store.wait(["0 said"])
        raise ValueError("mine")
    time.sleep(600)
"""


def test_two_machines_start_again(tmp_path: Path) -> None:
    script = program(tmp_path, MEET)
    port = free_port()
    options = f"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-id=x --max-restarts=1"
    launchers = [launch(*options.split(), script, "fail") for _ in range(2)]
    both = [finish(launcher) for launcher in launchers]
    lines = sorted("".join(out for out, _ in both).splitlines())
    assert lines == sorted(f"rank {r} of 2 on {r}, start {a}" for r in range(2) for a in range(2))
    for _, err in both:
        assert "rank 1 failed (exitcode 1): all processes start again, 1 restart left" in err


# -- failures ----------------------------------------------------------------------------------------------------

FAIL = """
import os, pathlib, sys, time
from gradlib.distributed.elastic.multiprocessing.errors import record

@record
def main():
    print("hello from", os.environ["RANK"], flush=True)
    said = pathlib.Path(sys.argv[1])
    if os.environ["RANK"] == "1":
        while not said.exists():  # else the launcher ends rank 0 before it says anything
            time.sleep(0.01)
        raise ValueError("mine")
    said.touch()
    time.sleep(600)

main()
"""


def test_the_first_failure_is_shown_first(tmp_path: Path) -> None:
    script, logs = program(tmp_path, FAIL), tmp_path / "logs"
    options = ("--nproc-per-node=2", f"--log-dir={logs}", "--tee=1", "--redirects=0:2", "--role=r")
    out, err = finish(launch(*options, script, str(tmp_path / "said")), 1)
    assert sorted(out.splitlines()) == ["[r0]:hello from 0", "[r1]:hello from 1"]
    report = err[err.index("=" * 80) :]
    assert f"{script} FAILED" in report
    assert report.index("rank      : 1 (local_rank: 1)") < report.index("rank 0, exitcode -15")
    assert "ValueError: mine" in report and "in main" in report
    (folder,) = logs.iterdir()
    written = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}
    assert written["attempt_0/1/stdout.log"] == "hello from 1\n"
    assert written["attempt_0/0/stderr.log"] == ""
    assert "attempt_0/1/stderr.log" not in written
    assert "mine" in json.loads(written["attempt_0/1/error.json"])["message"]["message"]


def test_the_end_of_a_file_stands_for_a_traceback(tmp_path: Path) -> None:
    script = program(tmp_path, "print(1)\nraise KeyError('in the file')")
    _, err = finish(launch("--redirects=3", f"--log-dir={tmp_path / 'logs'}", script), 1)
    assert "KeyError: 'in the file'" in err and "stderr.log)" in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--nproc-per-node=x", "Unsupported nproc_per_node value: x"),
        ("--nproc-per-node=gpu", "Cuda is not available."),
        ("--nnodes=1:2", "needs --rdzv-backend c10d"),
        ("--nnodes=1:2:3", 'is not in "MIN:MAX" format'),
        ("--standalone --nnodes=2", "--standalone is for one machine"),
        ("--rdzv-backend=etcd", "'static' or 'c10d' only"),
        ("--tee=9", "0, 1, 2 or 3"),
        ("--numa-binding=node", "--numa-binding is not supported"),
        ("--no-python --module", "--no-python goes with none of"),
        ("--nproc-per-node=0", "at least 1"),
    ],
)
def test_what_cannot_be(options: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises((ValueError, RuntimeError, NotImplementedError)) as caught:
        config_from_args(parse_args([*options.split(), "x.py"]))
    assert text in str(caught.value)


GROUP = """
import os, sys, time
import gradlib.distributed as dist
from gradlib import ones

dist.init_process_group("gloo")
x = ones(3)
dist.all_reduce(x)
if dist.get_rank() == 0:
    print(x.tolist(), flush=True)
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("mine")
dist.all_reduce(x)
"""


def test_processes_of_a_group_need_no_record(tmp_path: Path) -> None:
    out, err = finish(launch("--nproc-per-node=2", program(tmp_path, GROUP)), 1)
    assert out == "[2.0, 2.0, 2.0]\n"
    report = err[err.index("=" * 80) :]
    # rank 0 fails for want of the other one, or is ended before it does
    assert report.index("rank      : 1") < report.index("ValueError: mine")
    assert "rank 0" not in report[: report.index("ValueError: mine")]


def test_a_failed_collective_is_not_the_first_failure() -> None:
    """Of processes that leave no file, which ended first is a matter of chance."""
    failures = {rank: ProcessFailure(rank, 4711 + rank, 1, "") for rank in range(2)}
    failures[0].message = "...\nDistBackendError: all_reduce failed on rank 0: rank 1 raised"
    failures[1].message = "...\nValueError: mine"
    assert failures[0]._when <= failures[1]._when
    assert ChildFailedError("train.py", failures).get_first_failure()[0] == 1


# -- none is left over -------------------------------------------------------------------------------------------

FAMILY = """
import os, subprocess, sys, time
if os.environ["RANK"] == "2":
    sys.exit(print("both are known", flush=True))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(120)
"""


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def gone(processes: list[int]) -> bool:
    deadline = time.monotonic() + 120
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(alive, processes))


def family(launcher: subprocess.Popen[str]) -> list[int]:
    """The processes of ranks 0 and 1, and their children; the launcher has noted both before it starts rank 2."""
    assert launcher.stdout is not None
    lines = [launcher.stdout.readline() for _ in range(3)]
    return [int(number) for line in lines if "known" not in line for number in line.split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(number: signal.Signals, tmp_path: Path) -> None:
    launcher = launch("--nproc-per-node=3", program(tmp_path, FAMILY))
    processes = family(launcher)
    launcher.send_signal(number)
    _, err = finish(launcher, 128 + number)
    assert gone(processes) and f"all processes have ended, after {number.name}" in err


def test_processes_that_do_not_listen_and_those_that_are_stopped(tmp_path: Path) -> None:
    deaf = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    text = f"{deaf}if os.environ['RANK'] == '0': os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)\n{FAMILY}"
    script = program(
        tmp_path, text.replace("time.sleep(120)\n", "time.sleep(0.3); raise SystemExit(4)")
    )
    _, err = finish(launch("--nproc-per-node=2", "--shutdown-timeout=1", script), 1)
    assert "exitcode  : 4" in err


def test_the_end_of_the_launcher_is_the_end_of_its_processes(tmp_path: Path) -> None:
    launcher = launch("--nproc-per-node=3", program(tmp_path, FAMILY))
    processes = family(launcher)
    launcher.kill()
    launcher.wait()
    assert gone(processes)
    launcher.communicate()


# -- from a program ----------------------------------------------------------------------------------------------


def twice(value: int) -> tuple[int, str]:
    rank = os.environ["RANK"]
    if value < 0 and rank == "1":
        raise ValueError("mine")
    if value < 0:
        time.sleep(600)
    return 2 * value, rank


def test_functions() -> None:
    config = LaunchConfig(1, 1, 2, run_id="f", max_restarts=0, start_method="fork")
    assert elastic_launch(config, twice)(4) == {0: (8, "0"), 1: (8, "1")}
    with pytest.raises(ChildFailedError) as caught:
        elastic_launch(config, twice)(-1)
    rank, failure = caught.value.get_first_failure()
    assert rank == 1 and "ValueError: mine" in failure.message and "twice" in failure.message
    assert "GRADLIB_JOB_TOKEN" not in os.environ


def test_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))

    @record
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        fails()
    failure = ProcessFailure(0, 1, 1, str(file))
    assert "KeyError: 'mine'" in failure.message and failure.error_file == str(file)
    assert failure.timestamp <= time.time() and failure.timestamp_isoformat().startswith("20")

    class Mine(ErrorHandler):
        seen: BaseException | None = None

        def record_exception(self, e: BaseException) -> None:
            Mine.seen = e

    with pytest.raises(KeyError):
        record(fails.__wrapped__, Mine())()  # type: ignore[attr-defined]
    assert isinstance(Mine.seen, KeyError)
    below = ChildFailedError("x", {0: failure})
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "above.json"))

    @record
    def passes_on() -> None:
        raise below

    with pytest.raises(ChildFailedError):
        passes_on()
    assert "KeyError" in (tmp_path / "above.json").read_text()
    killed = ProcessFailure(1, 2, -9, "")
    assert killed.signal_name() == "SIGKILL" and "Signal 9 (SIGKILL)" in killed.message
    with pytest.raises(ValueError, match="at least one"):
        ChildFailedError("x", {})


def test_small_parts(tmp_path: Path) -> None:
    assert parse_min_max_nnodes("2") == (2, 2) and parse_min_max_nnodes("1:4") == (1, 4)
    assert determine_local_world_size("3") == 3
    assert determine_local_world_size("cpu") == determine_local_world_size("auto") == os.cpu_count()
    assert to_map(Std.ALL, 2) == {0: Std.ALL, 1: Std.ALL}
    assert macros.substitute(["a", "${local_rank}", "$x", 3], "5") == ["a", "5", "$x", 3]
    specs = DefaultLogsSpecs(str(tmp_path), Std.ERR, {1: Std.OUT}, {1})
    found = specs.reify({0: {}, 1: {}})
    assert found.stdouts[0] and not found.tee_stdouts[0]  # not of those that are shown
    assert (
        found.tee_stdouts[1] == found.stdouts[1] and found.stderrs[1] and not found.tee_stderrs[1]
    )
