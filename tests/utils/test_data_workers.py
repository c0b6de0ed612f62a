"""The DataLoader with workers: threads and processes."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gradlib
from gradlib.random import thread_safe_generator
from gradlib.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info
from gradlib.utils.data._utils import transport
from tests.utils.datasets import Failing, Numbers, Stream, lists

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning",  # fork in a process that has threads
    "ignore:This DataLoader will create:UserWarning",  # machines with one processor
)


class Uneven(Numbers):
    """Even samples take longer, so that answers arrive out of order."""

    def __getitem__(self, index):
        time.sleep(0.02 * (index % 2 == 0))
        return index


class Big(Numbers):
    """Samples that travel through shared memory."""

    def __getitem__(self, index):
        return gradlib.full((200, 100), float(index)), np.full(3, index)


class Row(Numbers):
    """A view of a big tensor."""

    base = None

    def __getitem__(self, index):
        if Row.base is None:
            Row.base = gradlib.zeros(1000, 1000)
        return Row.base[index]


class Info(Numbers):
    def __getitem__(self, index):
        info = get_worker_info()
        seeded = thread_safe_generator() or gradlib.default_generator
        same = (info.seed % 2**64) == seeded.initial_seed()
        return info.id, info.num_workers, same, os.getpid(), threading.get_ident()


class Draws(Numbers):
    def __getitem__(self, index):
        generator = thread_safe_generator()
        return gradlib.rand(1, generator=generator).item(), float(np.random.rand())


class Dying(Numbers):
    how = staticmethod(lambda: os._exit(3))

    def __getitem__(self, index):
        if index == 2:
            self.how()
        return index


class Local:
    """A batch that cannot leave its process."""

    def __reduce__(self):
        raise TypeError("this object stays here")


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def init(number):
    os.environ["WORKER_NUMBER"] = str(number)


def bad_init(number):
    raise ZeroDivisionError("bad start")


class Environment(Numbers):
    def __getitem__(self, index):
        return os.environ.get("WORKER_NUMBER", "none")


KINDS = ["thread", "process"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_order_is_that_without_workers(kind, workers):
    loader = DataLoader(Uneven(9), batch_size=2, num_workers=workers, worker_type=kind)
    for _ in range(2):
        assert lists(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_order_is_that_without_workers(kind):
    orders = []
    for workers in (0, 2):
        gradlib.manual_seed(9)
        options = {"worker_type": kind} if workers else {}
        loader = DataLoader(Numbers(8), 3, shuffle=True, num_workers=workers, **options)
        orders.append(lists(loader))
    assert orders[0] == orders[1]


@pytest.mark.parametrize("kind", KINDS)
def test_persistent_workers_start_over(kind):
    loader = DataLoader(
        Info(6), batch_size=None, num_workers=2, persistent_workers=True, worker_type=kind
    )
    first = list(loader)
    for batch in loader:  # an epoch that is left early
        assert batch[0] == 0
        break
    again = list(loader)
    assert first == again  # the same processes, in the same order
    assert [row[0] for row in first] == [0, 1, 0, 1, 0, 1]
    assert all(row[2] for row in first)


@pytest.mark.parametrize("kind", KINDS)
def test_worker_info(kind):
    assert get_worker_info() is None
    rows = list(DataLoader(Info(4), batch_size=None, num_workers=2, worker_type=kind))
    assert [row[:3] for row in rows] == [[0, 2, True], [1, 2, True]] * 2
    assert len({row[4 if kind == "thread" else 3] for row in rows}) == 2
    assert (rows[0][3] == os.getpid()) == (kind == "thread")
    assert get_worker_info() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_stream_dealt_to_workers(kind, drop_last):
    loader = DataLoader(Stream(9), 2, num_workers=2, drop_last=drop_last, worker_type=kind)
    whole = [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert lists(loader) == (whole if drop_last else [*whole, [8]])


@pytest.mark.parametrize("kind", KINDS)
def test_stream_whose_parts_differ_in_length(kind):
    loader = DataLoader(Lopsided(), batch_size=None, num_workers=2, worker_type=kind)
    assert lists(loader) == ["a0", "b0", "a1", "a2", "a3", "a4"]


class Lopsided(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter([f"a{i}" for i in range(5)] if info.id == 0 else ["b0"])


@pytest.mark.parametrize("kind", KINDS)
def test_workers_draw_reproducibly_and_not_the_same(kind):
    runs = []
    for _ in range(2):
        gradlib.manual_seed(4)
        loader = DataLoader(Draws(4), batch_size=None, num_workers=2, worker_type=kind)
        runs.append([row[:1] if kind == "thread" else row for row in loader])
    assert runs[0] == runs[1]
    assert len({row[0] for row in runs[0]}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_a_worker_has_its_type_and_traceback(kind):
    loader = DataLoader(Failing(KeyError("boo")), num_workers=2, worker_type=kind)
    seen = []
    with pytest.raises(KeyError) as caught:
        seen.extend(loader)
    text = str(caught.value)
    assert [batch.tolist() for batch in seen] == [[0], [1]]
    assert f"Caught KeyError in DataLoader worker {kind} 0.\nOriginal Traceback (most" in text
    assert "in __getitem__" in text
    assert "KeyError: 'boo'" in text


@pytest.mark.parametrize("kind", KINDS)
def test_batches_around_a_failed_one_are_given(kind):
    batches = iter(DataLoader(Failing(ValueError("x")), num_workers=2, worker_type=kind))
    assert [next(batches).item() for _ in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker"):
        next(batches)
    assert next(batches).item() == 3
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_error_whose_class_wants_other_arguments(kind):
    with pytest.raises(RuntimeError, match="Caught Odd in DataLoader worker"):
        list(DataLoader(Failing(Odd(1, 2)), num_workers=1, worker_type=kind))


def test_error_whose_class_exists_in_the_worker_only():
    class Hidden(Exception):
        pass

    with pytest.raises(RuntimeError, match="Caught Hidden in DataLoader worker process 0"):
        list(DataLoader(Failing(Hidden("x")), num_workers=1))


def test_batch_that_cannot_be_pickled():
    loader = DataLoader([Local()], batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(TypeError, match="this object stays here"):
        list(loader)


@pytest.mark.parametrize("kind", KINDS)
def test_worker_init_fn(kind, monkeypatch):
    monkeypatch.setenv("WORKER_NUMBER", "main")
    loader = DataLoader(
        Environment(2), batch_size=None, num_workers=2, worker_init_fn=init, worker_type=kind
    )
    assert sorted(loader) == ["0", "1"] if kind == "process" else True
    loader = DataLoader(Numbers(), num_workers=1, worker_init_fn=bad_init, worker_type=kind)
    with pytest.raises(ZeroDivisionError, match="bad start"):
        list(loader)


def test_big_batches_go_through_shared_memory():
    folder_before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    loader = DataLoader(Big(6), batch_size=2, num_workers=2)
    for number, (x, y) in enumerate(loader):
        assert x.shape == (2, 200, 100)
        assert x[0, 0, 0].item() == 2 * number
        assert y.tolist() == [[2 * number] * 3, [2 * number + 1] * 3]
        x += 1.0  # it is ours to write to
    if folder_before:
        left = {n for n in set(os.listdir("/dev/shm")) - folder_before if n.startswith("gradlib-")}
        assert not left


def test_without_shared_memory_everything_goes_through_the_pipe(monkeypatch):
    monkeypatch.setattr(transport, "_MEMORY_FOLDER", "/no/such/folder")
    batches = list(DataLoader(Big(4), batch_size=2, num_workers=1))
    assert batches[1][0][0, 0, 0].item() == 2.0
    batches[0][0] += 1.0


def test_view_travels_without_its_base(monkeypatch):
    sent = []
    monkeypatch.setattr(
        transport, "receive", lambda pipe: (sent.append(pipe.recv_bytes()), (0, 0, None))[1]
    )
    next(iter(DataLoader(Row(2), batch_size=None, num_workers=1)))
    assert len(sent[0]) < 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_timeout(kind, tmp_path):
    held = Held(2)
    held.file = tmp_path / "go on"
    batches = iter(DataLoader(held, num_workers=1, timeout=0.2, worker_type=kind))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        next(batches)
    held.file.touch()


class Held(Numbers):
    """It has nothing to give before there is a file."""

    def __getitem__(self, index):
        while not self.file.exists():
            time.sleep(0.01)
        return index


def test_worker_that_dies():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpect"):
        list(DataLoader(Dying(4), num_workers=2))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_worker_that_is_killed(monkeypatch):
    monkeypatch.setattr(Dying, "how", staticmethod(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    loader = DataLoader(Dying(4), num_workers=2, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid \d+\) is killed by signal: S"):
        list(loader)


def test_workers_end_with_their_iterator():
    loader = DataLoader(Numbers(100), num_workers=2)
    batches = iter(loader)
    next(batches)
    processes = batches.pool.processes
    assert all(process.is_alive() for process in processes)
    del batches
    gc.collect()
    assert not any(process.is_alive() for process in processes)


def test_worker_threads_end_with_their_iterator():
    before = threading.active_count()
    batches = iter(DataLoader(Numbers(100), num_workers=2, worker_type="thread"))
    next(batches)
    del batches
    gc.collect()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize("kind", KINDS)
def test_batches_as_they_come(kind):
    loader = DataLoader(Uneven(6), num_workers=2, in_order=False, worker_type=kind)
    assert sorted(batch.item() for batch in loader) == list(range(6))


def test_spawned_workers():
    if "spawn" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not spawn")
    dataset = TensorDataset(gradlib.arange(6).reshape(3, 2), gradlib.arange(3))
    loader = DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert lists(loader) == [[[[0, 1], [2, 3]], [0, 1]], [[[4, 5]], [2]]]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no memory folder")
def test_workers_clean_up_when_their_parent_is_killed(tmp_path):
    program = (
        "import os, gradlib, gradlib.utils.data as data\n"
        "dataset = data.TensorDataset(gradlib.ones(1000, 100))\n"
        "batches = iter(data.DataLoader(dataset, 100, num_workers=2))\n"
        "next(batches)\n"
        "print(*[p.pid for p in batches.pool.processes], batches.pool.folder, flush=True)\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    *pids, folder = out.split()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if _is_alive(int(pid))]
        if not alive and not os.path.exists(folder):
            break
        time.sleep(0.02)
    assert not alive
    assert not os.path.exists(folder)


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_two_loaders_at_the_same_time():
    a = DataLoader(Numbers(4), num_workers=1, persistent_workers=True)
    b = DataLoader(Numbers(4), num_workers=1)
    for x, y in zip(a, b, strict=True):
        assert x.item() == y.item()
    assert lists(a) == lists(b)
