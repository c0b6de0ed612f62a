"""Debuggers, doctest, inspect, pickles and processes under `python -m gradlib`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradlib

ROOT = Path(gradlib.__file__).parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
ENV.pop("PYTHONBREAKPOINT", None)


def run(*arguments: str, cwd: Path, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=ENV,
        cwd=cwd,
        input=typed,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


DEBUGGED = """
import torch

def double(x):
    y = x * 2
    {stop}
    return y

print("result", double(torch.ones(2)).tolist())
"""


@pytest.mark.parametrize("stop", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_a_breakpoint_stops_in_the_programs_frame(tmp_path: Path, stop: str) -> None:
    (tmp_path / "program.py").write_text(DEBUGGED.format(stop=stop))
    out = run("-m", "gradlib", "program.py", cwd=tmp_path, typed="p y.tolist()\nw\nc\n")
    assert "[2.0, 2.0]" in out and "program.py(" in out and "double()" in out
    assert "result [2.0, 2.0]" in out


def test_the_debugger_runs_a_script(tmp_path: Path) -> None:
    """``python -m gradlib -m pdb script.py``: a breakpoint by line, a step into the program, then to its end."""
    (tmp_path / "program.py").write_text(DEBUGGED.format(stop="pass"))
    typed = "b program.py:6\nc\np torch.__name__, y.tolist()\nc\nq\n"
    out = run("-m", "gradlib", "-m", "pdb", "program.py", cwd=tmp_path, typed=typed)
    assert "('gradlib', [2.0, 2.0])" in out and "result [2.0, 2.0]" in out


PROCESSES = """
import multiprocessing, sys
import torch

def work(connection):
    connection.send((torch.__name__, (torch.ones(2) * 3).tolist()))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there,))
    process.start()
    print(here.recv())
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_inherit_it(tmp_path: Path, method: str) -> None:
    (tmp_path / "program.py").write_text(PROCESSES)
    out = run("-m", "gradlib", "program.py", method, cwd=tmp_path)
    assert out.split("\n")[-3:] == ["('gradlib', [3.0, 3.0])", "0", ""]


TOOLS = '''
import doctest, inspect, sys
import torch

class Layer(torch.nn.Module):
    """
    >>> Layer()(torch.ones(2))
    tensor([2., 2.])
    """
    def forward(self, x):
        return x * 2

assert "return x * 2" in inspect.getsource(Layer)
assert inspect.getsource(Layer.forward).startswith("    def forward")
assert inspect.getsourcefile(Layer) == __file__
assert inspect.signature(torch.nn.Linear).parameters["bias"].default is True
print(doctest.testmod(sys.modules["__main__"]))
'''


def test_inspect_and_doctest_see_the_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TOOLS)
    assert "TestResults(failed=0, attempted=1)" in run("-m", "gradlib", "program.py", cwd=tmp_path)
    out = run("-m", "gradlib", "-m", "doctest", "-v", "program.py", cwd=tmp_path)
    assert "Test passed." in out


PICKLES = """
import pickle, sys
{imports}
from models import Net

if sys.argv[1] == "write":
    torch.manual_seed(0)
    net = Net()
    with open("objects.pkl", "wb") as file:
        pickle.dump((net, torch.ones(2, dtype=torch.float64), torch.Size([2, 3]), torch.float16), file)
    torch.save({{"net": net.state_dict(), "size": torch.Size([4])}}, "state.pt")
else:
    with open("objects.pkl", "rb") as file:
        net, tensor, size, dtype = pickle.load(file)
    state = torch.load("state.pt")
    assert isinstance(net, Net) and type(size) is torch.Size and dtype is torch.float16
    assert all(torch.equal(net.state_dict()[k], v) for k, v in state["net"].items())
    print(tensor.dtype, net(torch.ones(1, 2)).shape, type(net.layer).__module__)
"""


@pytest.mark.parametrize("first", ["launcher", "import"])
def test_pickles_go_both_ways(tmp_path: Path, first: str) -> None:
    """Written under the launcher and read by ``import gradlib as torch``, and the other way round."""
    for name, line in (("launched", "import torch"), ("imported", "import gradlib as torch")):
        (tmp_path / f"{name}.py").write_text(PICKLES.format(imports=line))
    (tmp_path / "models.py").write_text(
        "import gradlib as torch\n\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(2, 3)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
    )
    ways = [("-m", "gradlib", "launched.py"), ("imported.py",)]
    if first == "import":
        ways.reverse()
    run(*ways[0], "write", cwd=tmp_path)
    out = run(*ways[1], "read", cwd=tmp_path)
    assert out == "torch.float64 torch.Size([1, 3]) gradlib.nn.modules.linear\n"
