"""Where processes meet: addresses, files, the environment of launchers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradlib.distributed import (
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    TCPStore,
    _launched,
    _wire,
    register_rendezvous_handler,
    rendezvous,
)
from gradlib.distributed import rendezvous as rendezvous_function
from gradlib.distributed._launched import Launched, first_host, launched

ROOT = Path(__file__).parent.parent.parent
PREFIXES = ("SLURM", "OMPI", "PMI", "MPI", "MV2", "TORCHELASTIC", "GRADLIB_JOB", "MASTER")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(PREFIXES) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(_wire.TOKEN, "")  # so that what is set later goes with the test
    monkeypatch.delenv(_wire.TOKEN)


def test_address_and_file(tmp_path: Path) -> None:
    store, rank, size = next(rendezvous("tcp://127.0.0.1:0", 0, 1))
    assert isinstance(store, TCPStore) and (rank, size) == (0, 1)
    assert next(rendezvous("tcp://127.0.0.1:0?rank=0&world_size=1"))[1:] == (0, 1)
    meeting = rendezvous(f"file://{tmp_path}/store?rank=0&world_size=1")
    store, rank, size = next(meeting)
    assert isinstance(store, FileStore) and (rank, size) == (0, 1)
    with pytest.raises(RuntimeError, match="Unable to perform"):
        next(meeting)


def test_a_file_of_an_earlier_job_is_an_error(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    killed = next(rendezvous(url, 0, 2))[0]  # never closed
    with pytest.raises(DistStoreError, match=r"Rank 0 has met others at .*store before"):
        next(rendezvous(url, 0, 2))
    assert killed.check(["rendezvous/0"])


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("tcp://127.0.0.1:1", "using tcp:// rendezvous: rank parameter missing"),
        ("tcp://127.0.0.1:1?rank=0", "world size parameter missing"),
        ("tcp://127.0.0.1?rank=0&world_size=1", "port number missing"),
        ("file:///x?world_size=1", "using file:// rendezvous: rank parameter missing"),
        ("file://", "path missing"),
        ("env://", "environment variable RANK expected, but not set"),
        ("env://?rank=0", "environment variable WORLD_SIZE expected, but not set"),
        ("env://?rank=0&world_size=1", "environment variable MASTER_ADDR expected, but not set"),
        ("tcp://127.0.0.1:1?rank=2&world_size=2", "rank 2 is not one of 2 processes"),
    ],
)
def test_what_is_missing_is_named(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("?", r"\?")):
        next(rendezvous(url))


def test_the_module_stands_for_the_function() -> None:
    module = sys.modules[rendezvous_function.__module__]
    assert next(module("tcp://127.0.0.1:0", 0, 1))[1:] == (0, 1)  # type: ignore[operator]


def test_wrong_arguments() -> None:
    with pytest.raises(RuntimeError, match="No rendezvous handler for ucx://"):
        rendezvous("ucx://x")
    with pytest.raises(RuntimeError, match="`rank` must be an integer"):
        rendezvous("tcp://x:1", rank="0")  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="already"):
        rendezvous("tcp://x:1?rank=0", rank=0)


def test_a_programs_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[rendezvous_function.__module__]
    monkeypatch.setattr(module, "_handlers", dict(module._handlers))  # type: ignore[attr-defined]
    register_rendezvous_handler("mine", lambda url, **_: iter([(HashStore(), 4, 5)]))
    assert next(rendezvous("mine://x"))[1:] == (4, 5)
    with pytest.raises(RuntimeError, match="already registered"):
        register_rendezvous_handler("mine", lambda url, **_: iter([]))


def test_the_launchers_store(monkeypatch: pytest.MonkeyPatch) -> None:
    held = TCPStore("127.0.0.1", 0, is_master=True)
    for name, value in dict(
        RANK=0, WORLD_SIZE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=held.port,
        TORCHELASTIC_USE_AGENT_STORE=True, TORCHELASTIC_RESTART_COUNT=2,
    ).items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    store, rank, size = next(rendezvous("env://"))
    assert isinstance(store, PrefixStore) and (rank, size) == (0, 1)
    store.set("a", "1")
    assert held.get("/worker/attempt_2/a") == b"1"


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        (
            {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
             "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            Launched("Open MPI", 3, 4, 1, 2),
        ),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            Launched("MPICH", 1, 2, 1, 2),
        ),
        (
            {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_LOCALID": "0",
             "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2,1"},
            Launched("Slurm", 2, 3, 0, 1),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # the batch script itself
    ],
)  # fmt: skip
def test_other_launchers(
    variables: dict[str, str], found: Launched | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launched() == found


def test_hosts_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_host("node[03-05,9],login") == "node03"
    assert first_host("a,b") == "a" and first_host("gpu-1") == "gpu-1" and first_host("") == ""
    assert _launched._slurm_local_size("2(x3),1") == "2"
    monkeypatch.setenv("SLURM_NODEID", "3")
    assert _launched._slurm_local_size("2(x3),1") == "1"
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    ports = {_launched.slurm_port()}
    monkeypatch.setenv("SLURM_STEP_ID", "1")
    ports.add(_launched.slurm_port())
    assert len(ports) == 2 and all(20000 <= port < 32000 for port in ports)


def test_slurm_on_several_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in dict(
        SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1", SLURM_STEP_NODELIST="localhost,node2",
        SLURM_STEP_TASKS_PER_NODE="5", SLURM_JOB_ID=str(os.getpid()),
    ).items():  # fmt: skip
        monkeypatch.setenv(name, value)
    store, rank, size = next(rendezvous("env://"))
    assert isinstance(store, TCPStore) and (rank, size) == (0, 1)
    assert (store.host, store.port) == ("localhost", _launched.slurm_port())


MEET = """
from gradlib.distributed import rendezvous
for turn in range(2):
    store, rank, size = next(rendezvous("env://"))
    store.set(f"{turn}/{rank}", "here")
    store.wait([f"{turn}/{other}" for other in range(size)])
    store.barrier(f"{turn}/end", size)
print(rank, size)
"""


def test_mpiexec_on_one_machine_needs_no_address(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    environment.update(
        PYTHONPATH=str(ROOT), TMPDIR=str(tmp_path), PMI_SIZE="2", MPI_LOCALNRANKS="2"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEET],
            env={**environment, "PMI_RANK": str(rank), "MPI_LOCALRANKID": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (1, 0)
    ]
    assert [process.communicate(timeout=300)[0] for process in processes] == ["1 2\n", "0 2\n"]
    assert not list(tmp_path.glob("gradlib-job-*"))
