"""``torch._foreach_*`` on a device: what the CPU gives, also where a kernel for lists does not fit."""

from __future__ import annotations

import pytest

import gradlib as torch

DEVICE = "cuda"

SHAPES = [(2, 3), (), (7,), (0, 2)]


def lists_of(device, seed=0):
    torch.manual_seed(seed)
    return [torch.rand(s).add_(0.5).to(device) for s in SHAPES]


def run(name, device):
    xs, ys, zs = (lists_of(device, seed) for seed in range(3))
    function = getattr(torch, f"_foreach_{name}")
    if name.rstrip("_") in ("addcmul", "addcdiv"):
        return function(xs, ys, zs, value=0.5), xs
    if name.rstrip("_") == "lerp":
        return function(xs, ys, 0.25), xs
    if name.rstrip("_") in ("add", "sub"):
        return function(xs, ys, alpha=2), xs
    if name.rstrip("_") in ("mul", "div", "pow", "maximum", "clamp_min"):
        return function(xs, ys), xs
    return function(xs), xs


@pytest.mark.parametrize(
    "base", "add sub mul div pow maximum clamp_min addcmul addcdiv lerp exp sqrt neg".split()
)
@pytest.mark.parametrize("end", ["", "_"], ids=["new", "in place"])
def test_the_cpu_gives_the_same(base, end):
    made, given = run(base + end, DEVICE)
    expected, _ = run(base + end, "cpu")
    for found, want in zip(made, expected, strict=True):
        assert found.device.type == torch.device(DEVICE).type
        torch.testing.assert_close(found.cpu(), want)
    if end:
        assert made is given and all(x._version == 1 for x in given)


def test_lists_that_share_memory_are_written_in_order():
    def results(device):
        a, b = torch.ones(3, device=device), torch.full((3,), 2.0, device=device)
        torch._foreach_add_([a, b], [b, a])  # b gets the new a
        torch._foreach_mul_([a, a], 2.0)
        return a.tolist(), b.tolist()

    assert results(DEVICE) == results("cpu") == ([12.0] * 3, [5.0] * 3)


def test_gradients_and_parameters():
    xs = [torch.ones(2, device=DEVICE, requires_grad=True) for _ in range(2)]
    grads = torch.autograd.grad(torch.cat(torch._foreach_mul(xs, 3.0)).sum(), xs)
    assert [g.tolist() for g in grads] == [[3.0, 3.0]] * 2
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch._foreach_add_(xs, 1.0)
    with torch.no_grad():
        torch._foreach_add_(xs, [1.0, 2.0])
    assert [x.tolist() for x in xs] == [[2.0, 2.0], [3.0, 3.0]]
