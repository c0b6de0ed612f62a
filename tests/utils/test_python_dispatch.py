"""Modes that are asked in the place of kernels: what they are told, and that the op's own formula is recorded."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.utils import _python_dispatch as dispatch
from gradlib.utils._python_dispatch import TorchDispatchMode
from gradlib.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from gradlib.utils.flop_counter import FlopCounterMode
from gradlib.utils.module_tracker import ModuleTracker


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.told = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.told.append(str(func))
        for a in args:
            if isinstance(a, gl.Tensor):
                assert not a.requires_grad
        return func(*args, **(kwargs or {}))


class Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func == gl.ops.aten.mul.default else out


def test_it_is_told_of_ops():
    x, w = gl.ones(2, 3, requires_grad=True), gl.ones(4, 3)
    with Names() as names:
        y = gl.nn.functional.linear(x, w).relu().max(1)[0]
        y.detach().add_(1)
        z = gl.cat([y, y])[1:].sum()
    assert names.told[:2] == ["aten.mm.default", "aten.relu.default"]
    assert names.told[-3:] == ["aten.cat.default", "aten.slice.default", "aten.sum.default"]
    assert "aten.add_.default" in names.told
    count = len(names.told)
    z.backward()
    assert x.grad is not None and x.grad.sum().item() == 9.0
    assert len(names.told) == count


def test_what_it_gives_is_recorded_as_the_op():
    x = gl.ones(2, requires_grad=True)
    with Doubled():
        y = (x * 3).sum()
    assert y.item() == 12.0
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_modes_nest_and_are_off_inside_of_themselves():
    with Names() as outer:
        with Names() as inner, Doubled():
            gl.ones(2) * gl.ones(2)
        assert dispatch.is_in_torch_dispatch_mode()
        with dispatch._disable_current_modes() as off:
            gl.ones(2).exp()
        assert off == [outer]
    assert not dispatch.is_in_torch_dispatch_mode()
    assert "aten.mul.default" in inner.told and "aten.mul.default" in outer.told
    assert "aten.exp.default" not in outer.told


def test_hidden_values_and_several_results():
    x = gl.arange(6.0).reshape(2, 3).requires_grad_()
    with Names():
        values, places = gl.sort(x, 1, descending=True)
        loss = gl.nn.functional.cross_entropy(x, gl.tensor([0, 2])) + values[:, 0].sum()
    loss.backward()
    expected = gl.arange(6.0).reshape(2, 3).requires_grad_()
    (
        gl.nn.functional.cross_entropy(expected, gl.tensor([0, 2]))
        + gl.sort(expected, 1, descending=True)[0][:, 0].sum()
    ).backward()
    assert x.grad is not None and expected.grad is not None
    assert x.grad.tolist() == expected.grad.tolist() and places.tolist() == [[2, 1, 0]] * 2


def test_it_sees_through_transforms():
    with Names() as names:
        out = gl.func.vmap(lambda a: (a * a).sum())(gl.ones(3, 2))
    assert out.tolist() == [2.0] * 3 and "aten.mul.default" in names.told
    with Names() as names:
        _, slope = gl.func.jvp(lambda a: a.sin(), (gl.zeros(2),), (gl.ones(2),))
    assert slope.tolist() == [1.0, 1.0] and "aten.sin.default" in names.told


class Tenfold(TorchDispatchMode):
    """Gives each op ten times its last tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        last = max(i for i, a in enumerate(args) if isinstance(a, gl.Tensor))
        return func(*args[:last], args[last] * 10, *args[last + 1 :])


def test_what_the_op_is_given_is_what_the_mode_hands_on():
    x = gl.ones(2)
    with Tenfold():
        assert x.add_(gl.ones(2)).tolist() == [11.0, 11.0]
        assert gl.neg(gl.ones(2)).tolist() == [-10.0, -10.0]
        assert gl.func.vmap(gl.neg)(gl.ones(2)).tolist() == [-10.0, -10.0]
    with Names() as outer, Names() as inner:
        x.add_(gl.ones(2))
    assert outer.told.count("aten.add_.default") == inner.told.count("aten.add_.default") == 1


def test_attributes_by_name_are_refused():
    class Named(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, alpha=2)

    with Named(), pytest.raises(TypeError, match="by position"):
        gl.ones(2) + 1


@pytest.mark.parametrize("inside", [True, False])
def test_beside_selective_checkpointing(inside):
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(str(op))
        return CheckpointPolicy.MUST_SAVE

    def part(t):
        return (t @ t).sin()

    def run(t):
        if inside:
            return part(t)
        with Names() as names:
            out = part(t)
        assert names.told == ["aten.mm.default", "aten.sin.default"]
        return out

    def contexts():
        return create_selective_checkpoint_contexts(policy)

    x = gl.full((2, 2), 0.1, requires_grad=True)
    with Names() as names:
        y = checkpoint(run, x, use_reentrant=False, context_fn=contexts)
    assert asked == ["aten.mm.default", "aten.sin.default"]
    assert [n for n in names.told if n != "aten.clone.default"] == asked  # of the argument
    y.sum().backward()
    expected = x.detach().requires_grad_()
    part(expected).sum().backward()
    assert x.grad is not None and expected.grad is not None
    assert x.grad.tolist() == expected.grad.tolist()


class Pair:
    """What stands for a tensor made of two."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["a"], inner["b"])

    def size(self):
        return self.a.size()

    def stride(self):
        return self.a.stride()


def test_subclasses_that_can_be_taken_apart():
    made = dispatch.transform_subclass(Pair(gl.ones(2), gl.zeros(2)), lambda name, t: t + 1)
    assert made.a.tolist() == [2.0, 2.0] and made.b.tolist() == [1.0, 1.0]
    assert dispatch.is_traceable_wrapper_subclass_type(Pair)
    assert not dispatch.is_traceable_wrapper_subclass(gl.ones(2))


def test_it_is_told_of_the_ops_of_a_backward_pass():
    def run():
        x = gl.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        w = gl.linspace(0, 1, 12).reshape(4, 3).requires_grad_()
        loss = gl.nn.functional.linear(x, w).tanh().sum()
        return x, w, loss

    x, w, loss = run()
    with Names() as names:
        loss.backward()
    assert names.told.count("aten.mm.default") == 2
    a, b, loss = run()
    loss.backward()
    for have, want in ((x, a), (w, b)):
        assert have.grad is not None and want.grad is not None
        assert gl.equal(have.grad, want.grad)


def test_what_it_gives_in_a_backward_pass_counts():
    x = gl.ones(2, requires_grad=True)
    y = (x * 3).sum()
    with Doubled():
        y.backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 6.0]


@pytest.mark.host  # by NumPy's overlay; a device without one runs the formula
def test_gradients_that_one_kernel_computes_are_told_as_one_op():
    def run():
        q = gl.linspace(-1, 1, 24).reshape(2, 3, 4).requires_grad_()
        return q, gl.nn.functional.scaled_dot_product_attention(q, q, q).square().sum()

    (x, loss), (plain, expected) = run(), run()
    with Names() as outer, Names() as inner:
        loss.backward()
    expected.backward()
    assert "aten.scaled_dot_product_attention_backward.default" in inner.told
    assert outer.told == inner.told
    assert x.grad is not None and plain.grad is not None
    assert gl.equal(x.grad, plain.grad)

    class Other(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "attention_backward" in str(func):
                args = (args[0] * 2, *args[1:])
            return func(*args)

    with Other(), pytest.raises(NotImplementedError, match="in one piece"):
        run()[1].backward()


def test_flops_of_attention():
    """By PyTorch's formula: two products forward; backward five, of which three sum over the keys' last dimension."""
    q, k, v = (gl.ones(2, 3, *n, requires_grad=True) for n in ((4, 8), (5, 8), (5, 6)))
    with FlopCounterMode(display=False) as counter:
        gl.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
    pairs = 2 * (2 * 3) * 4 * 5
    name = "aten._scaled_dot_product_flash_attention"
    counts = {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}
    assert counts == {name: pairs * (8 + 6), name + "_backward": pairs * (3 * 8 + 2 * 6)}


def test_the_table_is_printed_and_modules_used_twice_are_told(capsys):
    class Twice(gl.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = gl.nn.Linear(2, 2, bias=False)

        def forward(self, x):
            return self.inner(self.inner(x))

    with FlopCounterMode(depth=None) as counter:
        Twice()(gl.ones(1, 2))
    assert capsys.readouterr().out == counter.get_table() + "\n"
    assert "Twice.inner" in counter.get_table()
    assert "Twice.inner" not in counter.get_table(1)
    assert counter.get_total_flops() == 2 * 8


def test_the_tracker_is_as_at_first_after_a_backward_pass():
    model = gl.nn.Sequential(gl.nn.Linear(2, 2), gl.nn.Tanh())
    with ModuleTracker() as tracker:
        loss = model(gl.ones(1, 2)).sum()
        assert tracker.parents == {"Global"} and not tracker.is_bw
        seen = []
        handle = model[0].weight.register_hook(
            lambda g: seen.append((tracker.is_bw, set(tracker.parents)))
        )
        loss.backward()
    handle.remove()
    assert tracker.parents == {"Global"}
    assert seen == [(True, {"Global", "Sequential", "Sequential.0"})]
