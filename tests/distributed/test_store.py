"""Stores: each method on each kind, waiting, several processes, and who is let in."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from gradlib.distributed import (
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
    TCPStore,
    _wire,
)
from gradlib.distributed._liveness import STOPPED, state

SHORT = timedelta(milliseconds=100)
LONG = timedelta(minutes=5)
LOCAL = "127.0.0.1"


def tcp(**keywords: object) -> TCPStore:
    return TCPStore(LOCAL, 0, is_master=True, **keywords)  # type: ignore[arg-type]


KINDS: dict[str, Callable[[Path], Store]] = {
    "hash": lambda folder: HashStore(),
    "file": lambda folder: FileStore(str(folder / "store"), 1),
    "tcp": lambda folder: tcp(),
    "prefix": lambda folder: PrefixStore("a", PrefixStore("b", HashStore())),
}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made = KINDS[request.param](tmp_path)
    made.set_timeout(SHORT)
    return made


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_values(store: Store) -> None:
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    store.set("é", "ü")
    store.set("", "")
    assert store.get("a") == b"1" and store.get("b") == b"\x00\xff"
    assert store.get("é").decode() == "ü" and store.get("") == b""
    assert store.check(["a", "b"]) and store.check([]) and not store.check(["a", "none"])
    assert sorted(store.list_keys()) == ["", "a", "b", "é"]
    before = store.num_keys()
    assert store.delete_key("a") and not store.delete_key("a") and not store.check(["a"])
    assert store.num_keys() == before - 1
    large = os.urandom(3_000_000)
    store.set("large", large)
    assert store.get("large") == large


def test_counters(store: Store) -> None:
    assert [store.add("n", 2), store.add("n", -5), store.add("n", 0)] == [2, -3, -3]
    assert store.get("n") == b"-3"
    store.set("n", "40")
    assert store.add("n", 2) == 42
    store.set("text", "x")
    with pytest.raises(ValueError, match="not a number"):
        store.add("text", 1)
    assert store.get("text") == b"x"


def test_compare_append_multi(store: Store) -> None:
    assert store.compare_set("x", "", "v") == b"v"
    assert store.compare_set("new", "old", "v") == b"old" and not store.check(["new"])
    assert store.compare_set("x", "v", "w") == b"w"
    assert store.compare_set("x", "v", "u") == b"w" == store.get("x")
    store.append("y", "1")
    store.append("y", b"2")
    store.multi_set(["m", "n"], ["3", b"4"])
    assert store.multi_get(["y", "m", "n"]) == [b"12", b"3", b"4"]
    with pytest.raises(ValueError, match="2 keys, but 1 values"):
        store.multi_set(["m", "n"], ["3"])


def test_waiting(store: Store) -> None:
    for ask in (
        lambda: store.get("none"),
        lambda: store.wait(["none"]),
        lambda: store.wait(["none"], timedelta(milliseconds=10)),
        lambda: store.multi_get(["none"]),
    ):
        with pytest.raises(DistStoreError, match="imeout"):
            ask()
    store.wait([])
    other = store.clone()
    assert other.timeout == SHORT or isinstance(store, FileStore | PrefixStore)
    store.set_timeout(LONG)
    thread = in_thread(lambda: (time.sleep(0.05), other.set("b", "2"), other.add("a", 1)))
    store.wait(["a", "b"])
    assert store.multi_get(["a", "b"]) == [b"1", b"2"]
    thread.join()


def test_barrier(store: Store) -> None:
    store.set_timeout(LONG)
    passed: list[int] = []

    def come(number: int) -> None:
        store.barrier("all", 3)
        passed.append(number)

    threads = [in_thread(lambda n=n: come(n)) for n in range(2)]
    time.sleep(0.05)
    assert passed == []
    come(2)
    for thread in threads:
        thread.join()
    assert sorted(passed) == [0, 1, 2]
    with pytest.raises(DistStoreError):
        store.barrier("two", 2, SHORT)


@pytest.mark.parametrize("kind", ["hash", "tcp", "prefix"])
def test_queues(kind: str, tmp_path: Path) -> None:
    store = KINDS[kind](tmp_path)
    store.set_timeout(SHORT)
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 2 and store.check(["q"])
    assert [store.queue_pop("q"), store.queue_pop("q", block=False)] == [b"1", b"2"]
    assert store.queue_len("q") == 0
    with pytest.raises(QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)
    with pytest.raises(DistStoreError):
        store.queue_pop("q")
    store.set_timeout(LONG)
    got: list[bytes] = []
    threads = [in_thread(lambda: got.append(store.queue_pop("q"))) for _ in range(2)]
    time.sleep(0.05)
    store.queue_push("q", "3")
    store.queue_push("q", "4")
    for thread in threads:
        thread.join()
    assert sorted(got) == [b"3", b"4"] and store.queue_len("q") == 0


def test_wrong_arguments(store: Store) -> None:
    with pytest.raises(TypeError, match="must be str or bytes, but got 3"):
        store.set("a", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be str"):
        store.get(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of keys was expected, but got 'a'"):
        store.check("a")
    with pytest.raises(TypeError, match="timedelta was expected"):
        store.set_timeout(3)  # type: ignore[arg-type]


def test_prefixes_keep_apart() -> None:
    whole = HashStore()
    one, two = PrefixStore("one", whole), PrefixStore("two", whole)
    one.set("k", "1")
    two.set("k", "2")
    assert (one.get("k"), two.get("k"), whole.get("two/k")) == (b"1", b"2", b"2")
    inner = PrefixStore("in", one)
    assert inner.underlying_store is one and inner._underlying_non_prefix_store is whole
    one.set_timeout(SHORT)
    assert whole.timeout == inner.timeout == SHORT


def test_a_programs_own_store() -> None:
    class Mine(Store):
        def __init__(self) -> None:
            super().__init__()
            self.values: dict[str, bytes] = {}

        def set(self, key: str, value: str | bytes, /) -> None:
            self.values[key] = value if isinstance(value, bytes) else value.encode()

        def get(self, key: str, /) -> bytes:
            return self.values[key]

    mine = Mine()
    below = PrefixStore("x", mine)
    below.multi_set(["a"], ["1"])
    assert below.multi_get(["a"]) == [b"1"] and list(mine.values) == ["x/a"]
    with pytest.raises(NotImplementedError, match="Mine has no method 'add'"):
        below.add("n", 1)


# -- files -------------------------------------------------------------------------------------------------------


def count(path: str, times: int) -> None:
    store = FileStore(path, 4)
    for _ in range(times):
        store.add("n", 1)
        store.append("text", "x")


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = FileStore(path, 4)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=count, args=(path, 50)) for _ in range(2)]
    for process in processes:
        process.start()
    count(path, 50)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert store.add("n", 0) == 150 and store.get("text") == b"x" * 150


def test_half_a_record_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = FileStore(str(path))
    store.set("a", "1")
    with path.open("ab") as file:
        file.write(b"\x01\x00\x00\x00\x09")  # of a process that was killed while it wrote
    assert store.get("a") == b"1"
    store.set("b", "2")
    assert FileStore(str(path)).multi_get(["a", "b"]) == [b"1", b"2"]


def test_the_last_process_removes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    one, two = FileStore(str(path), 2), FileStore(str(path), 2)
    del one
    assert path.exists()
    del two
    assert not path.exists()
    stays = FileStore(str(path))
    del stays
    assert path.exists()
    with pytest.raises(DistStoreError, match="No such file"):
        FileStore(str(tmp_path / "none" / "store"))


# -- network -----------------------------------------------------------------------------------------------------


def test_server_and_clients() -> None:
    server = tcp(world_size=3, wait_for_workers=False)
    clients = [TCPStore(LOCAL, server.port, 3) for _ in range(2)]
    clients[0].set("a", "1")
    assert server.get("a") == clients[1].get("a") == b"1"
    assert (server.host, clients[0].port, server.libuvBackend) == (LOCAL, server.port, True)
    assert f"port={server.port}" in repr(server)
    started = time.monotonic()
    with pytest.raises(DistStoreError, match=r"1/2 clients joined"):
        tcp(world_size=2, timeout=SHORT)
    assert time.monotonic() - started < 60


def test_the_server_waits_for_all() -> None:
    bound = socket.socket()
    bound.bind((LOCAL, 0))
    port, came = bound.getsockname()[1], []
    thread = in_thread(lambda: (time.sleep(0.1), came.append(1), TCPStore(LOCAL, port, 2)))
    TCPStore(LOCAL, port, 2, True, master_listen_fd=bound.detach())
    assert came
    thread.join()


def test_a_waiting_thread_does_not_hold_up_others() -> None:
    server = tcp()
    client = TCPStore(LOCAL, server.port)
    got: list[bytes] = []
    thread = in_thread(lambda: got.append(client.get("late")))
    time.sleep(0.05)
    client.set("late", "now")  # through the same object
    thread.join()
    assert got == [b"now"]


def test_a_short_wait_leaves_nothing() -> None:
    server = tcp()
    assert server._server is not None
    for _ in range(3):
        with pytest.raises(DistStoreError, match=r"wait timeout after 10ms, keys: /a, /b"):
            server.wait(["a", "b"], timedelta(milliseconds=10))
    assert not server._server._waiting


def test_network_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlib.distributed._tcp_server._RETIRED_SECONDS", 300.0)
    server = tcp()
    with pytest.raises(DistNetworkError, match="EADDRINUSE"):
        TCPStore(LOCAL, server.port, is_master=True)
    client = TCPStore(LOCAL, server.port, timeout=SHORT)
    port = server.port
    del server
    client.set("a", "1")  # it is there for who asks still, and for nobody new
    assert client.get("a") == b"1"
    with pytest.raises(DistNetworkError, match="timed out after 100ms while trying to connect"):
        TCPStore(LOCAL, port, timeout=SHORT)
    with pytest.raises(TypeError, match="0 to 65535"):
        TCPStore(LOCAL, 70000)


def test_a_server_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlib.distributed._tcp_server._RETIRED_SECONDS", 0.1)
    holders = [tcp()]
    client = TCPStore(LOCAL, holders[0].port)
    client.set_timeout(LONG)

    def end_it() -> None:
        held = holders[0]._server
        while "never" not in held._waiting:  # type: ignore[union-attr]
            time.sleep(0.01)
        holders.clear()

    thread = in_thread(end_it)
    with pytest.raises(DistNetworkError, match="Connection was likely closed"):
        client.get("never")
    thread.join()


def test_a_socket_that_is_given_and_a_server_that_is_shared() -> None:
    bound = socket.socket()
    bound.bind((LOCAL, 0))
    port = bound.getsockname()[1]
    store = TCPStore(LOCAL, port, is_master=True, master_listen_fd=bound.detach())
    assert store.port == port
    one = tcp(multi_tenant=True)
    two = TCPStore(LOCAL, one.port, is_master=True, multi_tenant=True)
    one.set("a", "1")
    del one
    assert two.get("a") == b"1"


def test_who_has_no_token_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_wire.TOKEN, "secret")
    server = tcp()
    server.set("a", "1")
    with socket.create_connection((LOCAL, server.port)) as stranger:
        stranger.settimeout(60)
        assert stranger.recv(100).startswith(_wire.GREETING)
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: somebody-who-does-not-know-it\r\n\r\n")
        assert stranger.recv(100) == b""
    monkeypatch.setenv(_wire.TOKEN, "guess")
    with pytest.raises(DistNetworkError, match="did not let this one in"):
        TCPStore(LOCAL, server.port)
    assert server.get("a") == b"1"  # its connections are older, and go on


def test_it_listens_where_it_was_asked_to() -> None:
    server = tcp()
    assert server._server is not None
    assert server._server._listener.getsockname()[0] == LOCAL


def test_a_stopped_server_is_an_error_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from gradlib.distributed import TCPStore; import os, signal\n"
        "store = TCPStore('127.0.0.1', 0, is_master=True); print(store.port, flush=True)\n"
        "input(); os.kill(os.getpid(), signal.SIGSTOP); input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as held:
        assert held.stdin is not None and held.stdout is not None
        client = TCPStore(LOCAL, int(held.stdout.readline()))
        client.set("a", "1")
        held.stdin.write("\n")
        held.stdin.flush()
        while state(held.pid) != STOPPED:
            time.sleep(0.01)
        monkeypatch.setattr("gradlib.distributed._tcp_store._GRACE_SECONDS", 0.2)
        with pytest.raises(DistNetworkError, match="does not answer"):
            client.set("a", "2")
        held.kill()


def test_a_forked_child_has_connections_of_its_own() -> None:
    store = tcp()
    store.set("a", "1")

    def child() -> None:
        for i in range(100):
            store.set("child", str(i))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    for i in range(100):
        store.set("parent", str(i))
        assert store.get("parent") == str(i).encode()
    process.join()
    assert process.exitcode == 0 and store.get("child") == b"99"
