"""no_grad, enable_grad, set_grad_enabled, inference_mode, set_multithreading_enabled."""

from __future__ import annotations

import threading

import pytest

import gradlib as gl
from gradlib.autograd import grad_mode
from gradlib.autograd.graph import saved_tensors_hooks

MODES = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode"]


@pytest.fixture
def x():
    return gl.tensor([1.0, 2.0], requires_grad=True)


def in_thread(fn):
    """What `fn` returns in a new thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(fn()))
    thread.start()
    thread.join()
    return found[0]


def test_no_grad_records_nothing(x):  # rows: MODE-01 MODE-10
    with gl.no_grad():
        y = x * 2
        assert not gl.is_grad_enabled()
        assert gl.ones(2, requires_grad=True).requires_grad
    assert not y.requires_grad
    assert y.grad_fn is None
    assert x.requires_grad


def test_enable_grad_inside_no_grad(x):  # rows: MODE-02
    with gl.no_grad(), gl.enable_grad():
        y = x * 2
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_set_grad_enabled_as_context_and_function(x):  # rows: MODE-03 MODE-04
    with gl.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert gl.is_grad_enabled()
    gl.set_grad_enabled(False)
    try:
        assert not gl.is_grad_enabled()
    finally:
        gl.set_grad_enabled(True)
    assert (x * 2).requires_grad
    with pytest.raises(TypeError, match="must be bool"):
        gl.set_grad_enabled(1)


def test_decorators(x):  # rows: MODE-05
    double = lambda t: t * 2
    assert not gl.no_grad()(double)(x).requires_grad
    assert not gl.no_grad(double)(x).requires_grad
    assert not gl.inference_mode(double)(x).requires_grad
    off = gl.set_grad_enabled(False)(double)
    assert gl.is_grad_enabled(), "decoration must not change the mode"
    assert not off(x).requires_grad
    with gl.no_grad():
        assert gl.enable_grad()(double)(x).requires_grad
        assert gl.enable_grad(double)(x).requires_grad
        assert gl.set_grad_enabled(True)(double)(x).requires_grad


def test_decorated_recursion_restores_the_mode(x):  # rows: MODE-05
    @gl.no_grad()
    def depth(n):
        assert not gl.is_grad_enabled()
        return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(3) == 3
    assert gl.is_grad_enabled()


def test_decorating_a_class_warns():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @gl.no_grad()
        class Thing:
            def __init__(self):
                self.mode = gl.is_grad_enabled()

    assert Thing().mode is False


def test_generators_are_in_the_mode_only_while_they_run(x):  # rows: MODE-06
    @gl.no_grad()
    def steps():
        got = yield (x * 2).requires_grad
        assert got == "sent"
        assert not gl.is_grad_enabled()
        try:
            yield "second"
        except ValueError:
            assert not gl.is_grad_enabled()
            yield "caught"
        return "done"

    run = steps()
    assert next(run) is False
    assert gl.is_grad_enabled()
    assert run.send("sent") == "second"
    assert run.throw(ValueError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(run)
    assert stop.value.value == "done"
    assert gl.is_grad_enabled()


def test_closing_a_decorated_generator():  # rows: MODE-06
    closed = []

    @gl.no_grad()
    def steps():
        try:
            yield 1
        finally:
            closed.append(gl.is_grad_enabled())

    run = steps()
    next(run)
    run.close()
    assert closed == [False]
    assert gl.is_grad_enabled()


def test_modes_are_thread_local():  # rows: MODE-07 INFER-10
    with gl.no_grad():
        assert in_thread(gl.is_grad_enabled)
    with gl.inference_mode():
        assert not in_thread(gl.is_inference_mode_enabled)


@pytest.mark.parametrize(
    "mode", [gl.no_grad, gl.inference_mode, lambda: gl.set_grad_enabled(False)]
)
def test_the_mode_is_restored_after_an_error(mode):  # rows: MODE-08
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert gl.is_grad_enabled()
    assert not gl.is_inference_mode_enabled()


def test_results_of_no_grad_can_be_used_later(x):  # rows: MODE-09 MODE-11
    with gl.no_grad():
        u = x * 2
    with gl.inference_mode():
        assert not (x * 2).requires_grad
    (x * u).sum().backward()
    assert x.grad.tolist() == u.tolist()


def test_names_are_the_same_objects():  # rows: MODE-12
    for name in MODES:
        assert getattr(gl, name) is getattr(gl.autograd, name) is getattr(grad_mode, name)


def test_nothing_is_saved_without_need(x):  # rows: MODE-13 MODE-14
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        with gl.no_grad():
            x * x
        frozen = x.detach()
        frozen * frozen
        frozen.exp()
        assert not packed
        x * x
    assert len(packed) == 2


def test_inference_tensors(x):  # rows: INFER-01 INFER-02 INFER-07
    with gl.inference_mode():
        t = x * 2
        assert gl.is_inference_mode_enabled()
        t.add_(1)
    assert not t.requires_grad
    assert t.is_inference()
    assert not x.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        t._version  # noqa: B018


def test_inference_tensors_outside(x):  # rows: INFER-03 INFER-04 INFER-05 INFER-06 INFER-09
    with gl.inference_mode():
        t = gl.ones(2) * 3
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * t
    (x + t).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(
        RuntimeError, match="Inplace update to inference tensor outside InferenceMode"
    ):
        t.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        t.requires_grad = True
    assert (x * t.clone()).requires_grad


def test_modes_inside_inference_mode(x):  # rows: INFER-08
    with gl.inference_mode():
        with gl.inference_mode(False):
            assert (x * 2).requires_grad
        with gl.enable_grad():
            y = x * 2
            assert gl.is_grad_enabled()
            assert not y.requires_grad
            assert y.is_inference()
    assert gl.is_grad_enabled()


def test_forward_mode_is_off_in_inference_mode():  # rows: INFER-11
    from gradlib.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(gl.ones(2), gl.ones(2))
        with gl.inference_mode():
            assert forward_ad.unpack_dual(dual.sin()).tangent is None
            with gl.inference_mode(False):
                assert forward_ad.unpack_dual(dual.sin()).tangent is not None
        assert forward_ad.unpack_dual(dual.sin()).tangent is not None


def test_set_multithreading_enabled():  # rows: MT-09
    from gradlib.tape.modes import state

    assert state.multithreading
    with gl.autograd.set_multithreading_enabled(False):
        assert not state.multithreading
    assert state.multithreading
    grad_mode.set_multithreading_enabled(False)
    assert not state.multithreading
    grad_mode.set_multithreading_enabled(True)


def test_preserved_version_counter():
    t = gl.ones(2)
    with grad_mode._unsafe_preserve_version_counter(t):
        t.add_(1)
    assert t._version == 0


def test_data_taken_in_inference_mode_is_what_its_tensor_is():
    x = gl.ones(2)
    with gl.inference_mode():
        same, other = x.data, gl.ones(2).data
    same.add_(1)
    assert x.tolist() == [2.0, 2.0]
    assert not same.is_inference()
    assert other.is_inference()
