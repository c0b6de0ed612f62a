"""jit and library: what needs no PyTorch to be seen; tests/oracle/found has the programs that compare."""

from __future__ import annotations

import importlib
import warnings

import pytest

import gradlib as torch
from gradlib import nn


def test_script_gives_what_it_gets():
    def f(x):
        return x

    layer = nn.ReLU()
    assert torch.jit.script(f) is f and torch.jit.script(layer) is layer
    with pytest.warns(FutureWarning):
        torch.jit.script(f, optimize=True)


@pytest.mark.parametrize("name", ["load", "save", "CompilationUnit", "export_opnames"])
def test_torchscript_files_are_refused(name):
    with pytest.raises(NotImplementedError, match=r"state_dict"):
        getattr(torch.jit, name)("model.pt")
    with pytest.raises(NotImplementedError, match=r"gradlib\.save"):
        torch.jit.trace(nn.ReLU(), torch.ones(2)).save("model.pt")
    with pytest.raises(AttributeError):
        torch.jit.nothing_at_all  # noqa: B018


def test_trace_warns_of_randomness():
    with pytest.warns(torch.jit.TracerWarning, match="randomness"):
        torch.jit.trace(lambda x: x + torch.rand(3), torch.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.trace(lambda x: x + torch.rand(3), torch.ones(3), check_trace=False)


def test_a_traced_module_runs_as_in_its_example():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.9)

        def forward(self, x):
            return (self.drop(x), x) if torch.jit.is_tracing() else self.drop(x)

    model = Model().eval()
    traced = torch.jit.trace(model, torch.ones(20))
    model.train()
    assert torch.equal(traced(torch.ones(20))[0], torch.ones(20))
    assert model.drop.training and not torch.jit.is_tracing()


def test_trace_module():
    class Model(nn.Module):
        def forward(self, x):
            return x + 1

        def other(self, x):
            return x * 2

    traced = torch.jit.trace_module(Model(), {"forward": torch.ones(2), "other": torch.ones(2)})
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0] and traced.other(
        torch.ones(2)
    ).tolist() == [2.0, 2.0]


def test_names_that_packages_import():
    annotations = importlib.import_module("gradlib.jit.annotations")
    internal = importlib.import_module("gradlib._jit_internal")
    assert annotations.BroadcastingList2[int] is None
    choose = internal.boolean_dispatch(
        "flag", 1, False, lambda x, flag=False: "yes", lambda x, flag=False: "no", None, "f"
    )
    assert (choose(1), choose(1, True), choose(1, flag=True)) == ("no", "yes", "yes")


def test_settings_of_a_compiler_can_be_patched():
    config = torch._dynamo.config
    with config.patch("verbose", True), config.patch({"suppress_errors": True}, new_setting=1):
        assert config.verbose and config.suppress_errors and config.new_setting == 1
    assert not config.verbose and not hasattr(config, "new_setting")
    torch._inductor.config.triton.unique_kernel_names = True
    with pytest.raises(AttributeError):
        torch._inductor.config.no_such_setting  # noqa: B018


# -- library -------------------------------------------------------------------------------------------------------


def test_opcheck():
    @torch.library.custom_op("checklib::good", mutates_args=())
    def good(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(3, requires_grad=True)
    report = torch.library.opcheck(good, (x,), raise_exception=False)
    assert report["test_schema"] == "SUCCESS"
    assert (
        "register_fake" in report["test_faketensor"]
        and "derivative" in report["test_autograd_registration"]
    )
    good.register_fake(torch.empty_like)
    good.register_autograd(lambda ctx, g: g * 2)
    assert set(torch.library.opcheck(good, (x,)).values()) == {"SUCCESS"}

    @torch.library.custom_op("checklib::liar", mutates_args=())
    def liar(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(torch.library.OpCheckError, match="x is not defined as mutable"):
        torch.library.opcheck(liar, (torch.ones(2),), test_utils="test_schema")


def test_an_op_that_writes_where_gradients_are_recorded_is_refused():
    @torch.library.custom_op("checklib::write", mutates_args={"y"})
    def write(y: torch.Tensor) -> None:
        y.numpy(force=True)[...] = 5

    y = torch.zeros(2)
    write(y)
    assert y.tolist() == [5.0, 5.0] and y._version == 1
    with pytest.raises(RuntimeError, match="no derivative"):
        write(torch.zeros(2, requires_grad=True) * 2)
    with torch.no_grad():
        write(torch.zeros(2, requires_grad=True))


def test_a_kernel_of_other_ops_keeps_their_history_and_one_without_warns():
    lib = torch.library.Library("checklib2", "DEF")
    lib.define("through(Tensor x) -> Tensor")
    lib.impl("through", lambda x: x * x, "CPU")
    lib.define("lost(Tensor x) -> Tensor")
    lib.impl("lost", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")
    x = torch.ones(2, requires_grad=True)
    torch.ops.checklib2.through(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    y = torch.ops.checklib2.lost(x)
    assert y.requires_grad
    with pytest.warns(UserWarning, match="register_autograd"):
        y.sum().backward()


def test_autograd_kernels():
    lib = torch.library.Library("checklib3", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.checklib3.twice(x)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    lib.impl("twice", Twice.apply, "Autograd")
    x = torch.ones(2, requires_grad=True)
    torch.ops.checklib3.twice(x).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_refused_parts_of_library():
    lib = torch.library.Library("checklib4", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    for key in ("XLA", "Python"):
        with pytest.raises(NotImplementedError, match=key):
            lib.impl("f", lambda x: x, key)
    for call in (
        lambda: torch.library.triton_op("a::b"),
        lambda: torch.ops.load_library("x.so"),
        torch.library.get_ctx,
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(RuntimeError, match="Could not find the operator"):
        torch.library.register_kernel("checklib4::nothing", "cpu", lambda x: x)


def test_a_mode_is_asked_for_ops():
    @torch.library.custom_op("checklib5::f", mutates_args=())
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return (
                "asked" if func is torch.ops.checklib5.f.default else func(*args, **(kwargs or {}))
            )

    x = torch.ones(2)
    with Mode():
        assert f(x) == "asked"
    assert f(x).tolist() == [2.0, 2.0]
