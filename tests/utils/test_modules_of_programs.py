"""Modules that programs import: what is there works, and what is not is named when it is used."""

from __future__ import annotations

import abc
import hashlib
import importlib
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

import gradlib as torch
from gradlib import _refused, distributed, futures, hub, mps, mtia, xpu

NEW = """
    distributed futures hub mps mtia types xpu multiprocessing utils._pytree utils.hooks utils.model_zoo _refused
""".split()


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


@pytest.mark.parametrize("module", ["xpu", "mps", "mtia", "distributed"])
def test_absent_names_are_named_when_used(module):
    holder = importlib.import_module(f"gradlib.{module}")
    for name, entry in _refused.names(module).items():
        found = getattr(holder, name)
        assert getattr(holder, name) is found
        if entry.form in ("()", "") and _refused.is_refused(found) and entry.home == module:
            with pytest.raises(
                NotImplementedError, match=rf"no {module}\.{name} \(used at {__file__}"
            ):
                found()
    with pytest.raises(AttributeError):
        getattr(holder, "no_such" + "_name")


def test_absent_classes_can_be_named_but_not_made():
    class Mine(distributed.rpc.RRef, abc.ABC):
        def one(self) -> distributed.rpc.RRef | None: ...

    assert not isinstance(3, distributed.rpc.RRef) and issubclass(Mine, distributed.rpc.RRef)
    with pytest.raises(NotImplementedError, match="RRef"):
        Mine()
    assert not isinstance(torch.ones(1), distributed.tensor.DTensor)


def test_modules_that_are_absent_can_be_imported():
    from gradlib.distributed import rpc
    from gradlib.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl

    assert CheckpointImpl.NO_REENTRANT
    with pytest.raises(
        NotImplementedError, match=r"no distributed\.rpc\.rpc_sync .*docs/distributed"
    ):
        rpc.rpc_sync("other", len)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("gradlib.distributed.no_such_part")
    with pytest.raises(AttributeError):
        torch.no_such_part  # noqa: B018
    assert issubclass(distributed.DistBackendError, RuntimeError)


def test_absent_constants_equal_themselves_alone():
    from gradlib import quantization

    one = quantization.default_dynamic_qconfig
    assert one == one != quantization.default_qconfig
    assert one in {one: 1}
    for use in (bool, iter, lambda c: c(), lambda c: c.check, lambda c: c < 1, lambda c: c + 1):
        with pytest.raises(NotImplementedError, match=r"no .*default_dynamic_qconfig"):
            use(one)


def test_what_a_module_mostly_has_answers_hasattr():
    assert not hasattr(torch, "rnn_tanh_cell_of_old") and not hasattr(
        torch, "_nested_view_from_buffer"
    )
    with pytest.raises(
        NotImplementedError, match=r"gradlib has no _nested_view_from_buffer \(asked"
    ):
        torch._nested_view_from_buffer()
    from gradlib import _nested_view_from_buffer

    with pytest.raises(
        NotImplementedError, match=r"gradlib has no _nested_view_from_buffer \(used"
    ):
        _nested_view_from_buffer()


def test_devices_that_are_not_there_take_seeds_and_count_nothing():
    for module in (xpu, mps, mtia):
        assert module.manual_seed(1) is None and not module.is_available()
    assert xpu.manual_seed_all(2) is xpu.empty_cache() is xpu.seed() is xpu.seed_all() is None
    assert xpu.memory_allocated() == xpu.max_memory_reserved() == 0 and not xpu.memory_stats()
    assert mtia.manual_seed_all(2) is None and xpu.get_rng_state_all() == []
    for refused in (xpu.synchronize, mps.empty_cache, mps.synchronize, mtia.empty_cache):
        with pytest.raises(NotImplementedError, match="There are no kernels"):
            refused()


def test_the_error_without_tensorboard_names_the_extra():
    code = "import sys; sys.modules['tensorboard'] = None\nimport gradlib.utils.tensorboard"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError" in out.stderr and "pip install 'gradlib[tensorboard]'" in out.stderr


def test_import_of_gradlib_brings_none_of_them():
    code = f"import sys, gradlib; print([n for n in {NEW} if 'gradlib.' + n in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_ops_of_a_compiled_library_can_be_named_once_it_was_refused(monkeypatch):
    """Packages with a compiled part say how its ops look whether or not it was loaded."""
    from gradlib.ops import _custom

    monkeypatch.setattr(_custom, "REFUSED", [])
    monkeypatch.setattr("gradlib.ops.REFUSED", _custom.REFUSED)
    monkeypatch.setattr("gradlib._library.custom_ops.REFUSED", _custom.REFUSED)
    with pytest.raises(RuntimeError, match="Could not find the operator"):
        torch.library.register_fake("compiled::op", lambda x: x)
    with pytest.raises(OSError, match="it needs PyTorch's compiled code"):
        torch.ops.load_library("compiled.so")

    @torch.library.register_fake("compiled::op")
    def fake(x):
        return x

    assert fake(1) == 1
    with pytest.raises(AttributeError):
        _ = torch.ops.compiled.op
