"""Forward, backward and global hooks of modules."""

from __future__ import annotations

import gc

import pytest

import gradlib
from gradlib import nn
from gradlib.nn.modules import module as everywhere


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(gradlib.full((2,), 3.0))

    def forward(self, x, k=1.0):
        return x * self.w * k


def needs_grad():
    return gradlib.ones(2, requires_grad=True)


def test_forward_hooks_see_and_replace():
    net, seen = Scale(), []
    net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    net.register_forward_hook(lambda m, args, out: seen.append((args[0].tolist(), out.tolist())))
    net.register_forward_hook(lambda m, args, out: out * 10)
    assert net(gradlib.zeros(2)).tolist() == [30.0, 30.0]
    assert seen == [([1.0, 1.0], [3.0, 3.0])]


def test_hooks_with_keywords_and_order():
    net, order = Scale(), []
    net.register_forward_pre_hook(lambda m, a, kw: (a, {"k": 2.0}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, kw, out: order.append(kw), with_kwargs=True)
    net.register_forward_hook(lambda m, a, out: order.append("first"), prepend=True)
    assert net(gradlib.ones(2)).tolist() == [6.0, 6.0]
    assert order == ["first", {"k": 2.0}]
    net.register_forward_pre_hook(lambda m, a, kw: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        net(gradlib.ones(2))


def test_removed_hooks_leave_the_fast_path():
    net = Scale()
    handle = net.register_forward_hook(lambda m, a, out: out * 0)
    assert net._hooked
    assert net(gradlib.ones(2)).tolist() == [0.0, 0.0]
    handle.remove()
    assert net(gradlib.ones(2)).tolist() == [3.0, 3.0]
    assert not net._hooked
    with net.register_forward_hook(lambda m, a, out: out * 0):
        assert net(gradlib.ones(2)).tolist() == [0.0, 0.0]
    assert net(gradlib.ones(2)).tolist() == [3.0, 3.0]


def test_always_called_hooks_run_after_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    net, seen = Broken(), []
    net.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    net.register_forward_hook(lambda m, a, out: seen.append("not called"))
    with pytest.raises(ValueError, match="broken"):
        net(1)
    assert seen == [None]
    net.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True)
    with (
        pytest.raises(ValueError, match="broken"),
        pytest.warns(UserWarning, match="raised an exception that was silenced"),
    ):
        net(1)


def test_full_backward_hook_sees_all_gradients():
    net, seen = Scale(), []
    net.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout)))
    x = needs_grad()
    (net(x) * 2).sum().backward()
    ((gin, gout),) = seen
    assert gin[0].tolist() == [6.0, 6.0]
    assert gout[0].tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [6.0, 6.0]
    assert net.w.grad.tolist() == [2.0, 2.0]


def test_full_backward_hooks_replace_gradients():
    net, seen = Scale(), []
    net.register_full_backward_pre_hook(lambda m, gout: (gout[0] * 2,))
    net.register_full_backward_hook(lambda m, gin, gout: (gin[0] * 10,))
    net.register_full_backward_hook(lambda m, gin, gout: seen.append(gin[0].tolist()))
    x = needs_grad()
    net(x).sum().backward()
    assert x.grad.tolist() == [60.0, 60.0]
    assert net.w.grad.tolist() == [2.0, 2.0]
    assert seen == [[60.0, 60.0]]


def test_full_backward_hook_without_gradient_of_the_input():
    net, seen = Scale(), []
    net.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        net(gradlib.ones(2)).sum().backward()
    assert seen == [((None,), [1.0, 1.0])]


def test_full_backward_hook_of_several_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 3, "text"

    net, seen = Two(), []
    net.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout)))
    x, y = needs_grad(), gradlib.ones(2)
    a, b, c = net(x, y)
    assert c == "text"
    assert not b.requires_grad
    a.sum().backward()
    ((gin, gout),) = seen
    assert gin[0].tolist() == [2.0, 2.0]
    assert len(gin) == 2
    assert gout[0].tolist() == [1.0, 1.0]
    assert gout[1] is gout[2] is None


def test_wrong_number_of_gradients():
    net = Scale()
    net.register_full_backward_hook(lambda m, gin, gout: (gin[0], gin[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        net(needs_grad()).sum().backward()


def test_old_and_full_backward_hooks_exclude_each_other():
    net = Scale()
    net.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        net.register_backward_hook(lambda *_: None)


def test_old_backward_hook_sees_the_last_node():
    net, seen = Scale(), []
    net.register_backward_hook(lambda m, gin, gout: seen.append(gout[0].tolist()))
    with pytest.warns(FutureWarning, match="non-full backward hook"):
        out = net(needs_grad())
    out.sum().backward()
    assert seen == [[1.0, 1.0]]


def test_global_hooks_run_for_every_module_before_its_own():
    net, seen = nn.Sequential(Scale(), nn.Identity()), []
    net[0].register_forward_hook(lambda m, a, out: seen.append("own"))
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        everywhere.register_module_forward_hook(lambda m, a, out: seen.append("after")),
        everywhere.register_module_full_backward_hook(
            lambda m, gin, gout: seen.append(("back", type(m).__name__, gout[0].tolist()))
        ),
    ]
    try:
        net(needs_grad()).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [
        *("pre", "pre", "after", "own", "pre", "after", "after"),
        ("back", "Sequential", [1.0, 1.0]),
        ("back", "Identity", [1.0, 1.0]),
        ("back", "Scale", [1.0, 1.0]),
    ] or sorted(map(str, seen[7:])) == sorted(
        map(str, [("back", n, [1.0, 1.0]) for n in ("Sequential", "Identity", "Scale")])
    )
    seen.clear()
    net(needs_grad()).sum().backward()
    assert seen == ["own"]
    assert not nn.Module._hooked


def test_registration_hooks():
    seen = []
    handles = [
        everywhere.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)),
        everywhere.register_module_buffer_registration_hook(lambda m, n, b: seen.append(n)),
        everywhere.register_module_module_registration_hook(lambda m, n, s: seen.append(n)),
    ]
    try:
        net = nn.Module()
        net.a = nn.Parameter(gradlib.ones(1))
        net.register_buffer("b", None)
        net.c = nn.Identity()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["a", "b", "c"]


def test_full_backward_hooks_leave_no_reference_cycle():
    net = Scale()
    net.register_full_backward_hook(lambda m, gin, gout: None)
    gc.collect()
    gc.disable()
    try:
        before = gc.collect()
        net(needs_grad()).sum().backward()
        assert gc.collect() <= before
    finally:
        gc.enable()
