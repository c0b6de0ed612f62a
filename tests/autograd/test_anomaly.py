"""Anomaly mode."""

from __future__ import annotations

import warnings

import pytest

import gradlib as gl
from gradlib.autograd import Function, detect_anomaly, set_detect_anomaly

ENABLED = "Anomaly Detection has been enabled. This mode will increase the runtime"


class MyFunc(Function):
    @staticmethod
    def forward(ctx, inp):
        return inp.clone()

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("Some error in backward")


class Twice(Function):
    """Its backward is a MyFunc."""

    @staticmethod
    def forward(ctx, inp):
        ctx.save_for_backward(inp)
        return inp * inp

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return MyFunc.apply(g * 2 * x)


def run_fn(a):
    out = MyFunc.apply(a)
    return out.sum()


def failing(action):
    """The error that `action` raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError) as error:
            action()
    return str(error.value), [str(w.message) for w in caught]


def test_error_with_the_forward_call():  # rows: ANOM-01 ANOM-02 ANOM-03
    def action():
        with detect_anomaly():
            assert gl.is_anomaly_enabled()
            run_fn(gl.ones(2, requires_grad=True)).backward()

    error, (enabled, told) = failing(action)
    assert error == "Some error in backward"
    assert enabled.startswith(ENABLED)
    assert told.startswith(
        "Error detected in MyFuncBackward. Traceback of forward call that caused the error:"
    )
    assert "in run_fn" in told
    assert "out = MyFunc.apply(a)" in told
    assert not gl.is_anomaly_enabled()


def test_without_the_mode():
    error, told = failing(lambda: run_fn(gl.ones(2, requires_grad=True)).backward())
    assert (error, told) == ("Some error in backward", [])


def test_forward_outside_the_mode():
    out = run_fn(gl.ones(2, requires_grad=True))

    def action():
        with set_detect_anomaly(True):
            out.backward()

    _, (told,) = failing(action)
    assert "No forward pass information available" in told


def test_the_error_stays_when_warnings_are_errors(capsys):  # rows: ANOM-03
    with set_detect_anomaly(True), pytest.raises(RuntimeError, match="Some error in backward"):
        run_fn(gl.ones(2, requires_grad=True)).backward()
    assert "Error detected in MyFuncBackward" in capsys.readouterr().err


def nan_backward():
    x = gl.tensor([0.0], requires_grad=True)
    (gl.sqrt(x) * 0).sum().backward()
    return x.grad


def test_nan(capsys):  # rows: ANOM-04 ANOM-05
    text = "Function 'SqrtBackward0' returned nan values in its 0th output."
    with set_detect_anomaly(True), pytest.raises(RuntimeError, match=text):
        nan_backward()
    with pytest.warns(UserWarning, match=ENABLED), detect_anomaly(check_nan=False):
        assert nan_backward().isnan().all()
    with set_detect_anomaly(True, check_nan=False):
        assert not gl.is_anomaly_check_nan_enabled()
        assert nan_backward().isnan().all()
    assert nan_backward().isnan().all()


def test_set_detect_anomaly_as_a_function():  # rows: ANOM-06 ANOM-07
    assert not gl.is_anomaly_enabled()
    assert gl.is_anomaly_check_nan_enabled()
    set_detect_anomaly(True, check_nan=False)
    assert gl.is_anomaly_enabled()
    assert not gl.is_anomaly_check_nan_enabled()
    set_detect_anomaly(False)
    assert not gl.is_anomaly_enabled()
    assert gl.is_anomaly_check_nan_enabled()


def test_parents_in_double_backward():  # rows: ANOM-08
    def action():
        with set_detect_anomaly(True):
            x = gl.ones(2, requires_grad=True)
            y = Twice.apply(x)
            (g,) = gl.autograd.grad(y.sum(), x, create_graph=True)
            g.sum().backward()

    _, told = failing(action)
    text = "".join(told)
    assert "Error detected in MyFuncBackward" in text
    assert "return MyFunc.apply(g * 2 * x)" in text
    assert (
        "Previous calculation was induced by TwiceBackward. Traceback of forward call that induced the previous "
        "calculation:" in text
    )
    assert "y = Twice.apply(x)" in text


def test_the_state_is_restored_after_an_error():  # rows: ANOM-09
    with pytest.raises(KeyError), set_detect_anomaly(True, check_nan=False):
        raise KeyError
    with (
        pytest.warns(UserWarning, match=ENABLED),
        pytest.raises(KeyError),
        detect_anomaly(check_nan=False),
    ):
        raise KeyError
    assert not gl.is_anomaly_enabled()
    assert gl.is_anomaly_check_nan_enabled()


def test_a_hook_of_a_leaf_that_fails_tells_where_the_leaf_was_first_used():
    def broken(gradient):
        raise ValueError("from the hook")

    with set_detect_anomaly(True):
        leaf = gl.ones(2, requires_grad=True)
        result = (leaf * 3).sum()
        leaf.register_hook(broken)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="from the hook"):
                result.backward()
    text = "".join(str(w.message) for w in told)
    assert "Error detected in torch::autograd::AccumulateGrad. Traceback of forward call" in text
    assert "result = (leaf * 3).sum()" in text
