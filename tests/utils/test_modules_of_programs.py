"""Modules that programs import: what is there works, and what is not is named when it is used."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

import gradlib as torch
from gradlib import distributed, futures, hub, mps, mtia, xpu

NEW = "distributed futures hub mps mtia types xpu utils._pytree utils.hooks utils.model_zoo".split()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """A folder and the address that it is served at."""
    (tmp_path / "served").mkdir()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The cache folder, by environment."""
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub" / "checkpoints"


def test_weights_are_fetched_once_by_http(server, kept, capsys):
    folder, address = server
    torch.save({"w": torch.arange(3)}, folder / "plain.pth")
    digest = hashlib.sha256((folder / "plain.pth").read_bytes()).hexdigest()[:8]
    name = f"net-{digest}.pth"
    (folder / "plain.pth").rename(folder / name)
    got = hub.load_state_dict_from_url(f"{address}/{name}?x=1", check_hash=True)
    assert got["w"].tolist() == [0, 1, 2]
    (folder / name).unlink()
    assert torch.utils.model_zoo.load_url(f"{address}/{name}")["w"].tolist() == [0, 1, 2]
    assert [f.name for f in kept.iterdir()] == [name]
    assert capsys.readouterr().err.count("Downloading") == 1


def test_a_wrong_hash_leaves_nothing(server, kept):
    folder, address = server
    (folder / "net-01234567.pth").write_bytes(b"other")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(f"{address}/net-01234567.pth", check_hash=True, progress=False)
    assert not list(kept.iterdir())


def test_a_connection_that_ends_early_leaves_nothing(tmp_path):
    class Short(Quiet):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"abc")

    with ThreadingHTTPServer(("127.0.0.1", 0), Short) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        with pytest.raises(RuntimeError, match="3 of 100"):
            hub.download_url_to_file(
                f"http://127.0.0.1:{running.server_port}/x", str(tmp_path / "x"), progress=False
            )
        running.shutdown()
        thread.join()
    assert not list(tmp_path.iterdir())


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.delenv("TORCH_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert hub.get_dir() == "/somewhere/torch/hub"
    monkeypatch.setenv("TORCH_HOME", "/else")
    assert hub.get_dir() == "/else/hub"


def test_local_models(tmp_path):
    (tmp_path / "beside.py").write_text("SIZE = 7\n")
    (tmp_path / "hubconf.py").write_text(
        "from beside import SIZE\ndef net(n=1):\n    'A net.'\n    return n * SIZE\ndef _no(): pass\n"
    )
    before = list(sys.path)
    assert hub.load(tmp_path, "net", n=2, source="local") == 14
    assert hub.list(tmp_path, source="local") == ["net"]
    assert hub.help(tmp_path, "net", source="local") == "A net."
    assert sys.path == before
    with pytest.raises(NotImplementedError, match="Clone"):
        hub.load("pytorch/vision", "resnet18")


def test_a_future_is_waited_for_in_another_thread():
    future, seen = futures.Future(), []
    together = futures.collect_all([future, future.then(lambda f: f.value() + 1)])
    threads = [threading.Thread(target=lambda: seen.append(future.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    future.set_result(1)
    for thread in threads:
        thread.join(10)
    assert seen == [1] * 4
    assert futures.wait_all(together.wait()) == [1, 2]


def test_what_a_done_callback_raises_is_logged(caplog):
    future, seen = futures.Future(), []
    future.add_done_callback(lambda f: seen.append(1 / 0))
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(2)
    assert seen == [2]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("module", [xpu, mps, mtia, distributed])
def test_absent_names_are_named_when_used(module):
    for name in module._ABSENT.split():
        absent = getattr(module, name)
        assert getattr(module, name) is absent
        with pytest.raises(NotImplementedError, match=rf"{module.__name__[8:]}\.{name}\."):
            absent()
    with pytest.raises(AttributeError):
        getattr(module, "no_such" + "_name")


def test_absent_classes_can_be_named_but_not_made():
    class Mine(distributed.ProcessGroup):
        pass

    assert not isinstance(3, distributed.ProcessGroup)
    with pytest.raises(NotImplementedError, match="ProcessGroup"):
        Mine()


def test_import_of_gradlib_brings_none_of_them():
    code = f"import sys, gradlib; print([n for n in {NEW} if 'gradlib.' + n in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
