"""``__torch_function__``: nothing is asked until somebody overrides, then everything is.

What handlers are told is compared with PyTorch by tests/oracle/found/overrides.txt.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import warnings
from types import FunctionType

import pytest

import gradlib as gl
from gradlib import overrides
from gradlib.tape import override

NAMESPACES = (gl, gl.nn.functional, gl.linalg, gl.fft, gl.special)
FUNCTIONS = [
    pytest.param(value, id=f"{space.__name__}.{name}")
    for space in NAMESPACES
    for name, value in vars(space).items()
    if isinstance(value, FunctionType)
    and name[0] != "_"
    and name not in override.IGNORED | override.FACTORIES
]


class Foreign:
    """An object that is no tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types


class Loud(gl.Tensor):
    told: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.told.append(overrides.resolve_name(func).rpartition(".")[2])
        return super().__torch_function__(func, types, args, kwargs)


def called(function, first):
    """The function, with `first` as its first argument and ones for the rest that it needs."""
    needed = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return function(first, *[1] * (len(needed) - 1))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_asks(function):
    override.arm()
    func, types = called(function, Foreign())
    assert func is function
    assert types == (Foreign,)


FRESH = """
import gradlib as gl, gradlib.linalg, gradlib.fft, gradlib.special
from gradlib import nn
from gradlib.tape import override
net = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(2), nn.BatchNorm1d(2))
net(gl.ones(3, 2)).sum().backward()
gl.optim.SGD(net.parameters(), lr=0.1).step()
assert not override.armed
class Foreign:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func
"""


def fresh(code: str) -> str:
    """What a new process prints, in which nothing was overridden."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FRESH + code], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.host
def test_nothing_asks_before_somebody_overrides():
    assert fresh("print(gl.sum.__code__.co_name, override.armed)").endswith("False")


@pytest.mark.host
@pytest.mark.parametrize(
    "call",
    [
        "gl.add(Foreign(), 1) is gl.add",
        "gl.add(gl.ones(2), Foreign()) is gl.add",
        "gl.reshape(Foreign(), (2,)) is gl.reshape",
        "gl.cat([gl.ones(2), Foreign()]) is gl.cat",
        "nn.functional.linear(gl.ones(2, 2), Foreign()) is nn.functional.linear",
        "nn.functional.conv1d(Foreign(), gl.ones(1, 1, 1)) is nn.functional.conv1d",
        "nn.functional.dropout(Foreign(), 0.5) is nn.functional.dropout",
        "gl.einsum('ii', Foreign()) is gl.einsum",
        "gl.linalg.norm(Foreign()) is gl.linalg.norm",
        "gl.where(gl.ones(2) > 0, Foreign(), 1) is gl.where",
        "gl.special.zeta(2.0, Foreign()) is gl.special.zeta",
    ],
)
def test_the_first_foreign_object_is_asked(call):
    assert fresh(f"print({call})") == "True"


@pytest.mark.host
def test_after_a_trace_nothing_asks():
    code = """
from gradlib import fx
seen = []
graph = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
assert graph(gl.ones(1, 2)).shape == (1, 2)
assert not override.armed and not override._entries and gl.sum.__code__.co_name != "entry"
assert gl.ones(2).shape == (2,) and gl.reshape(gl.ones(4), (2, 2)).sum().item() == 4.0
class Loud(gl.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)
x = gl.ones(2).as_subclass(Loud)
fx.symbolic_trace(nn.ReLU())
x + 1
print(override.armed, seen)
"""
    assert fresh(code) == "True ['add']"


@pytest.mark.host
def test_a_property_is_the_one_that_it_was():
    """Tables of handlers are made before the first subclass; reads of properties are specialised before it, too."""
    code = """
told = []
get, set_ = gl.Tensor.grad.__get__, gl.Tensor.grad.__set__
shape = gl.Tensor.__dict__["shape"]
class Loud(gl.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        told.append(func)
        return super().__torch_function__(func, types, args, kwargs)
def read(t): return t.grad, t.shape
for _ in range(100): read(gl.ones(2))
x = gl.ones(2).as_subclass(Loud)
read(x)
x.grad = None
assert told == [get, shape.__get__, set_], told
assert get in gl.overrides.get_default_nowrap_functions()
assert gl.overrides.resolve_name(get) == "torch.Tensor.grad.__get__"
override._disarm()
read(x)
print(len(told))
"""
    assert fresh(code) == "3"


def test_results_have_the_class_and_the_history():
    x = gl.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 1).as_subclass(Loud)
    Loud.told.clear()
    z = (y * y + 1).sum()
    assert type(z) is Loud
    assert Loud.told == ["mul", "add", "sum"]
    z.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0]


def test_parameters_are_plain():
    assert type(gl.nn.Parameter(gl.ones(2)) * 2) is gl.Tensor


def test_a_subclass_is_copied_and_pickled():
    x = gl.ones(2).as_subclass(Loud)
    for made in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is Loud
        with gl._C.DisableTorchFunctionSubclass():
            assert made.tolist() == [1.0, 1.0]


def test_nobody_is_asked_in_a_disabled_block():
    x = gl.ones(2).as_subclass(Loud)
    with gl._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is gl.Tensor
    with overrides.BaseTorchFunctionMode(), gl._C.DisableTorchFunction():
        assert type(x + 1) is gl.Tensor


def test_refusals_name_the_function_and_the_classes():
    class No:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    text = r"Multiple dispatch failed for 'torch.add'; all __torch_function__ handlers returned NotImplemented"
    with pytest.raises(TypeError, match=text) as caught:
        gl.add(No(), 1)
    assert "No" in str(caught.value)


def test_the_signature_stays():
    override.arm()
    assert list(inspect.signature(gl.reshape).parameters) == ["input", "shape", "kw"]
    assert inspect.signature(gl.nn.functional.dropout).parameters["p"].default == 0.5


def test_warnings_speak_of_the_users_line():
    override.arm()
    y = gl.ones(2, requires_grad=True) * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert y.grad is None
    assert caught[0].filename == __file__


def test_what_can_be_overridden_is_listed():
    listed = overrides.get_overridable_functions()
    assert gl.sum in listed[gl] and gl.Tensor.shape.__get__ in listed[gl.Tensor]  # pyright: ignore
    assert gl.is_tensor in overrides.get_ignored_functions()
    assert overrides.get_testing_overrides()[gl.add](1, 2) == -1
    assert not {f for fs in listed.values() for f in fs} & overrides.get_ignored_functions()


def test_frames_of_functions_that_ask_can_be_read():
    frames = []

    class Reads(Foreign):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            frame = sys._getframe()
            while frame is not None:
                frames.append(frame.f_locals)
                frame = frame.f_back
            return 1

    assert gl.nn.functional.avg_pool2d(Reads(), 2) == 1  # a function with a closure
    assert gl.linalg.inv(Reads()) == 1 and len(frames) > 4
    out = gl.ones(1, 1, 2, 2)
    with pytest.raises(RuntimeError, match=r"avg_pool2d|out"):
        gl.nn.functional.avg_pool2d(gl.ones(1, 1, 4, 4, requires_grad=True), 2, out=out)


def test_each_function_asks_once():
    override.arm()
    assert not {entry.run for entry in override._entries.values()} & set(override._entries)
