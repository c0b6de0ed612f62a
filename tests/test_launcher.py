"""`python -m gradlib` and `as_torch`: what they promise, with a PyTorch installed (one that says so) and without."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradlib
from gradlib.compat import AbsentError, TorchVersion, as_torch

ROOT = Path(gradlib.__file__).parent.parent

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Block())
"""


@pytest.fixture(params=["installed", "absent"])
def surroundings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has a (pretended) PyTorch, or none."""
    site = tmp_path / "site"
    site.mkdir()
    if request.param == "installed":
        (site / "torch").mkdir()
        (site / "torch" / "__init__.py").write_text("real = True\n__version__ = '1.0'\n")
        (site / "torch" / "nn.py").write_text("real = True\n")
    else:
        (site / "sitecustomize.py").write_text(BLOCKED)
    path = os.pathsep.join((str(site), str(ROOT)))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(env: dict[str, str], *arguments: str, cwd: Path, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


SCRIPT = '''
"""
>>> torch.ones(2).sum()
tensor(2.)
"""
import doctest, importlib, importlib.metadata, importlib.util, inspect, multiprocessing, os, pickle, sys
import torch, torch.nn as nn, torch.nn.functional as F
from torch.optim import SGD
import torch.missing.part, torch.hub.part
from torch.elsewhere import Thing
from torch import nowhere
from torch.hub.part import thing
from torch.nn.attention.flex_attention import BlockMask, _UNKNOWN
import gradlib

class Kept:
    def __init__(self, value): self.value = value

def work(queue):
    import torch
    queue.put((torch.__version__, type(torch.ones(1)).__module__))

if __name__ == "__main__":
    assert sys.modules["torch"] is torch is gradlib and nn is gradlib.nn and F is gradlib.nn.functional
    assert sys.modules["torch.nn.functional"] is F and SGD is gradlib.optim.SGD
    assert nn.__name__ == nn.__spec__.name == "gradlib.nn"
    assert importlib.import_module("torch.nn.init") is gradlib.nn.init
    assert torch.__version__ == importlib.metadata.version("torch") == "2.13.0+gradlib"
    assert torch.version.__version__ == torch.__version__
    assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nn")
    assert importlib.util.find_spec("torch.absent") is None
    assert importlib.metadata.distribution("torch").metadata["Name"] == "torch"
    assert "torch" in importlib.metadata.packages_distributions()
    assert not isinstance(1, BlockMask)
    assert sys.argv == ["script.py", "a", "--report"] and sys.path[0] == os.path.dirname(__file__)
    assert sys.modules["__main__"].Kept is Kept and Kept.__module__ == "__main__" and __spec__ is None
    assert pickle.loads(pickle.dumps(Kept(torch.ones(2)))).value.tolist() == [1, 1]
    assert inspect.getsource(Kept).startswith("class Kept:") and inspect.getfile(Kept) == __file__
    assert doctest.testmod().attempted == 1 and doctest.testmod().failed == 0
    assert os.environ["GRADLIB_AS_TORCH"] == "1"
    for method in ("spawn", "fork", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        answer = queue.get(timeout=300)
        assert answer == ("2.13.0+gradlib", type(torch.ones(1)).__module__), answer
        child.join()
    print("done")
'''


def test_a_script_runs_as_it_is(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    out, err = run(
        surroundings, "-W", "ignore", "-m", "gradlib", "script.py", "a", "--report", cwd=tmp_path
    )
    assert (out, err) == ("done\n", "")


def test_a_module_and_code_run(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(
        "import sys, torch, pickle\n"
        "class A: pass\n"
        "pickle.loads(pickle.dumps(A()))\n"
        "print(__name__, __spec__.name, sys.argv[1:], torch.__name__)\n"
        "sys.exit(3)\n"
    )
    out, _ = run(ENV, "-m", "gradlib", "-m", "prog", "x", cwd=tmp_path, status=3)
    assert out == "__main__ prog ['x'] gradlib\n"
    code = "import sys, torch; print(sys.argv, torch.__name__, sys.path[0] == '')"
    out, _ = run(ENV, "-m", "gradlib", "-c", code, "y", cwd=tmp_path)
    assert out == "['-c', 'y'] gradlib True\n"


def test_tracebacks_show_the_programs_lines_alone(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import torch\n\ntorch.ones(2) @ torch.ones(3)\n")
    _, err = run(ENV, "-m", "gradlib", "bad.py", cwd=tmp_path, status=1)
    lines = err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[1].strip() == f'File "{tmp_path}/bad.py", line 3, in <module>'
    assert "__main__.py" not in err and "runpy" not in err
    (tmp_path / "bad.py").write_text("x = = 1\n")
    _, err = run(ENV, "-m", "gradlib", "bad.py", cwd=tmp_path, status=1)
    assert err.lstrip().startswith(f'File "{tmp_path}/bad.py", line 1') and "SyntaxError" in err
    (tmp_path / "bad.py").write_text("import torch.missing\nimport deeper\n")
    (tmp_path / "deeper.py").write_text("try:\n    1 / 0\nexcept ValueError:\n    pass\n")
    _, err = run(ENV, "-m", "gradlib", "bad.py", cwd=tmp_path, status=1)
    assert "gradlib/" not in err and f'File "{tmp_path}/deeper.py", line 2' in err
    _, err = run(ENV, "-m", "gradlib", "none.py", cwd=tmp_path, status=1)
    assert "can't open file 'none.py'" in err and "Traceback" not in err


ABSENT = """import torch
import torch.missing.part as part
from torch.elsewhere import Thing
from torch.fft import nothing
part.call()
"""


def test_report_lists_what_was_touched(tmp_path: Path) -> None:
    (tmp_path / "touches.py").write_text(ABSENT)
    _, err = run(ENV, "-m", "gradlib", "--report", "touches.py", cwd=tmp_path, status=1)
    file = f"{tmp_path}/touches.py"
    assert (
        f"torch.missing.part.call does not exist in gradlib {gradlib.__version__} (used at {file}:5)"
        in err
    )
    for line in (
        f"torch.missing.part  {file}:2  imported",
        f"torch.elsewhere.Thing  {file}:3  imported",
        f"torch.fft.nothing  {file}:4  imported",
        f"torch.missing.part.call  {file}:5  used",
    ):
        assert line in err.splitlines()


FALLBACKS = """
import contextlib, sys
import torch.early  # its placeholder is in sys.modules
from torch import nothing
found = []
try:
    import torch.missing
except ImportError:
    found.append(1)
try:
    from torch.missing.part import (
        a,
        b,
    )
except (ValueError, ModuleNotFoundError):
    found.append(2)
try:
    from torch.nn import nothing
except Exception:
    found.append(3)
try:
    import torch.early
except:
    found.append(4)
try:
    from torch import early
except ImportError:
    found.append(5)
try:
    from torch.early import thing
except ImportError as error:
    found.append(6)
with contextlib.suppress(ImportError):
    import torch.early.part
    found.append("not suppressed")
try:
    def later():
        from torch.other import name
        return name
    import torch.nn.functional, torch.fft
except ImportError:
    found.append("not in the try")
kept = later()
try:
    from torch.fft import no_such
except ValueError:
    pass
try:
    pass
except ImportError:
    import torch.missing
else:
    from torch.fft import no_such_either
assert found == [1, 2, 3, 4, 5, 6], found
"""


@pytest.mark.parametrize("scope", ["", "packages=['__main__']"])
def test_an_import_in_a_try_fails(tmp_path: Path, scope: str) -> None:
    start = f"import gradlib; gradlib.as_torch({scope})" if scope else ""
    (tmp_path / "tries.py").write_text(start + FALLBACKS)
    launcher = [] if scope else ["-m", "gradlib", "--report"]
    _, err = run(ENV, *launcher, "tries.py", cwd=tmp_path)
    if not scope:
        assert f"torch.missing  {tmp_path}/tries.py:7  imported in a try" in err.splitlines()


def test_check_reads_and_runs_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.py").write_text(
        "raise SystemExit('it ran')\n"
        "import torch.nn as nn, torch.missing\n"
        "from torch.nn import functional as F, Nothing\n"
        "import torch\n"
        "def f(torch, nn=nn): return torch.whatever, nn.too\n"
        "def g(): return later.absent_one, torch.ones(1).anything, torch.Tensor.no_such_method\n"
        "import torch.optim as later\n"
        "F.relu, F.no_relu, nn.Linear, torch.float32.nothing, other.torch\n"
        "torch.distributed.is_initialized(), torch.distributed.fsdp.ShardingStrategy.FULL_SHARD\n"
        "torch.distributed.rpc.rpc_sync, torch.distributed.rpc.init_rpc\n"
    )
    (tree / "b.py").write_text("import torch\ntorch.ones(1)\n")
    out, _ = run(ENV, "-m", "gradlib", "--check", str(tree), cwd=tmp_path, status=1)
    wanted = (
        "2 torch.missing|3 torch.nn.Nothing|6 torch.Tensor.no_such_method|6 torch.optim.absent_one"
        "|8 torch.nn.functional.no_relu|10 torch.distributed.rpc.init_rpc|10 torch.distributed.rpc.rpc_sync"
    )
    lines = [w.replace(" ", ": ", 1) for w in wanted.split("|")]
    assert out.splitlines() == [f"{tree}/a.py:{line}" for line in lines]
    out, _ = run(ENV, "-m", "gradlib", "--check", str(tree / "b.py"), cwd=tmp_path)
    assert out == "no absent name was found\n"


SCOPES = """
import sys, gradlib
with gradlib.as_torch({arguments}):
    import mine.part, other
    assert mine.part.torch is gradlib and mine.part.nn is gradlib.nn, mine.part.torch
    assert mine.part.F is gradlib.nn.functional and mine.part.missing
    assert other.found == {real}, other.found
    import torch
    assert (torch is gradlib) == {here_too}
assert sys.modules.get("torch") is not gradlib
"""


@pytest.mark.parametrize(
    "arguments", ["packages=['mine']", "exclude=['other', '__main__']", "exclude=['other']"]
)
def test_some_packages_alone_get_gradlib(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "part.py").write_text(
        "import torch, torch.nn.functional as F\nfrom torch import nn\nimport torch.missing.part as missing_part\n"
        "from torch.missing import thing\nmissing = type(thing) is type(missing_part)\n"
    )
    (tmp_path / "other.py").write_text(
        "import torch, torch.nn\nfound = torch.real and torch.nn.real\n"
    )
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch.nn\nreal = torch.nn.real\n")
    (tmp_path / "torch" / "nn.py").write_text("real = True\n")
    (tmp_path / "run.py").write_text(
        SCOPES.format(arguments=arguments, real=True, here_too=arguments == "exclude=['other']")
    )
    run(ENV, "run.py", cwd=tmp_path)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as if nobody had imported PyTorch (other tests of the run may have)."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_torch")
def test_leaving_undoes_all() -> None:
    def state() -> tuple[object, ...]:
        ours = {n: dict(vars(m)) for n, m in loaded.items()}
        torch = [n for n in sys.modules if n.partition(".")[0] == "torch"]
        return ours, torch, list(sys.meta_path), __import__, gradlib.__version__

    import gradlib._tries
    import gradlib.fft
    import gradlib.nn
    import gradlib.optim

    loaded = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "gradlib"}
    before = state()
    with as_torch() as inside, as_torch():
        import torch
        import torch.fft
        import torch.missing.part
        from torch.nn import nothing  # noqa: F401

        assert inside is torch is gradlib
        assert gradlib.__version__ == "2.13.0+gradlib"
    assert state() == before
    assert not hasattr(gradlib, "missing")
    with pytest.raises(AttributeError, match="module 'gradlib' has no attribute 'missing'"):
        _ = gradlib.missing
    with as_torch(), pytest.raises(RuntimeError, match="holds already"):
        as_torch(packages=["mine"])
    assert state() == before


def test_a_pytorch_that_is_imported_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    path = list(sys.meta_path)
    with pytest.raises(RuntimeError, match="before PyTorch is imported: torch"):
        as_torch()
    assert sys.meta_path == path
    with pytest.raises(TypeError, match="lists of names"):
        as_torch(packages="mine")


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(
    "use",
    [
        lambda a: a.name,
        lambda a: a(),
        lambda a: exec("class Mine(a): pass", {"a": a}),
        lambda a: isinstance(1, a),
        lambda a: issubclass(int, a),
        lambda a: bool(a),
        lambda a: list(a),
        lambda a: a[0],
        lambda a: a.__enter__(),
        lambda a: exec("from torch.missing import *"),
        lambda a: gradlib.no_such_function,
        lambda a: gradlib.nn.NoSuchLayer,
    ],
)
def test_every_use_of_an_absent_name_raises(use) -> None:
    with as_torch():
        import torch.missing
        from torch.missing import thing

        line = use.__code__.co_firstlineno
        for absent in (torch.missing, thing):
            with pytest.raises(
                NotImplementedError, match=r"torch.*does not exist in gradlib"
            ) as caught:
                use(absent)
            assert f"{__file__}:{line}" in str(caught.value) or "<string>:1" in str(caught.value)
            assert not hasattr(absent, "__file__")
            assert not hasattr(absent, "name")


@pytest.mark.usefixtures("no_torch")
def test_names_that_exist_raise_nothing_new() -> None:
    assert issubclass(AbsentError, NotImplementedError)
    with as_torch():
        import torch.missing

        assert hasattr(gradlib, "ones")
        assert not hasattr(gradlib, "no_such_function")
        assert torch.missing.__name__ == "torch.missing"
        assert str(torch.missing | None).startswith("typing.Optional")


def test_metadata_answers_only_inside() -> None:
    def version() -> str | None:
        try:
            return importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return None

    before = version()
    with as_torch(packages=[__name__.partition(".")[0]]):
        assert version() == "2.13.0+gradlib"
    with as_torch(packages=["another"]):
        assert version() == before
    assert version() == before


def test_versions_compare_by_their_numbers() -> None:
    version = TorchVersion("2.13.0+gradlib")
    assert version >= "2.2" and version > (2, 9) and version > "2.13.0" and version < "2.14.0a0"
    assert version == "2.13.0+gradlib" and version != "2.13.0" and version != 2
    assert TorchVersion("2.13.0a0") < "2.13.0" and TorchVersion("2.1.0") <= "2.1"
    assert hash(version) == hash("2.13.0+gradlib") and version.split("+")[0] == "2.13.0"


SPAWNS = """
import multiprocessing, gradlib
gradlib.as_torch(packages=["__main__"])
import torch

def work(queue):
    import torch, other
    queue.put((torch.__name__, other.torch.__name__))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    print(torch.__name__, *queue.get(timeout=300))
    child.join()
"""


def test_spawned_processes_inherit_the_scope(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "other.py").write_text("import torch\n")
    (tmp_path / "spawns.py").write_text(SPAWNS)
    assert run(ENV, "spawns.py", cwd=tmp_path)[0] == "gradlib gradlib torch\n"


def test_import_gradlib_loads_nothing_of_it() -> None:
    code = "import sys, gradlib; print([n for n in sys.modules if n in ('gradlib.compat', 'gradlib._absent_names')])"
    assert run(ENV, "-c", code, cwd=ROOT)[0] == "[]\n"
