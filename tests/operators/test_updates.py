"""Updates in place by their short ways (`op/updates.py`): the bits and the errors of the ops that they stand for."""

import math

import pytest

import gradlib as torch
from gradlib.op import spreading


def pair(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1, 2, 0.1, 0.0, -0.0, 1e-30])
def test_a_scaled_update_has_the_bits_of_the_sum(dtype, alpha):
    p, g = pair(3, 5, dtype=dtype)
    p[0, 0], g[0, 0] = -0.0, -1.0
    for name in ("add", "sub"):
        want = getattr(torch, name)(p, g, alpha=alpha)
        got = getattr(p.clone(), name + "_")(g, alpha=alpha)
        assert torch.equal(got, want) and torch.equal(got.signbit(), want.signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("value", [1, 1.0, -2, 0.3, 0.0])
def test_a_combined_update_has_the_bits_of_the_op(dtype, value):
    p, g = pair(3, 5, dtype=dtype)
    d = g.abs() + 0.5
    for name in ("addcmul", "addcdiv"):
        want = getattr(torch, name)(p, g, d, value=value)
        assert torch.equal(getattr(p.clone(), name + "_")(g, d, value=value), want)
        assert torch.equal(getattr(p.clone().t(), name + "_")(g.t(), d.t(), value=value), want.t())


def test_large_updates_on_threads_have_the_same_bits(monkeypatch):
    monkeypatch.setattr(spreading, "LARGE", 1 << 17)
    monkeypatch.setattr(spreading, "PIECE", 1 << 15)
    monkeypatch.setattr(spreading, "begun", True)
    threads = torch.get_num_threads()
    p, g = pair(1 << 18)
    d = g.abs() + 0.5
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            own = [p.clone() for _ in range(4)]
            own[0].sub_(g, alpha=0.1), own[1].addcdiv_(g, d, value=-0.1), own[2].addcmul_(g, d)
            own[3][1:].add_(own[3][:-1].clone(), alpha=0.5)
            results.append(own)
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_what_lies_partly_over_the_target_is_refused():
    p = torch.arange(6.0)
    for update in (
        lambda: p[1:].sub_(p[:-1], alpha=0.5),
        lambda: p[1:].sub_(p[:-1]),
        lambda: p[1:].addcmul_(p[:-1], p[:-1]),
    ):
        with pytest.raises(RuntimeError, match=r"partial|memory location"):
            update()
    assert p.tolist() == [0, 1, 2, 3, 4, 5]
    assert p.sub_(p, alpha=0.5).tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
    assert p.addcdiv_(p, torch.ones(6)).tolist() == [0, 1, 2, 3, 4, 5]


def test_what_has_to_be_checked_is_checked():
    w, g = torch.ones(2, requires_grad=True), torch.ones(2)
    for update in (
        lambda: w.sub_(g),
        lambda: w.sub_(g, alpha=0.5),
        lambda: w.addcdiv_(g, g),
        lambda: w.detach().expand(3, 2).sub_(torch.ones(3, 2)),
    ):
        with pytest.raises(RuntimeError):
            update()
    with pytest.raises(RuntimeError, match="overflow"):
        g.clone().add_(g, alpha=1e300)
    with pytest.raises(RuntimeError, match="overflow"):
        g.clone().addcmul_(g, g, value=1e300)
    with torch.inference_mode():
        still = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        still.sub_(g, alpha=0.5)
    with torch.no_grad():
        w.sub_(g, alpha=0.5)
        w.addcdiv_(g, g)
    assert w.tolist() == [1.5, 1.5] and w._version == 2


def test_an_error_in_backward_names_the_update_and_its_line():
    w, g = torch.ones(2, requires_grad=True), torch.ones(2)
    for update, name in (
        (lambda: w.sub_(g, alpha=0.5), "sub_"),
        (lambda: w.add_(g), "add_"),
        (lambda: w.addcdiv_(g, g, value=0.5), "addcdiv_"),
    ):
        loss = (w * w).sum()
        with torch.no_grad():
            update()
        with pytest.raises(RuntimeError, match=rf"changed by {name} at .*test_updates\.py"):
            loss.backward()


def test_gradients_pass_through_updates():
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    out = (x * 1).sub_(y, alpha=0.5).addcdiv_(y, x, value=2.0)
    out.sum().backward()
    assert x.grad.tolist() == [-5.0, -5.0] and y.grad.tolist() == [1.5, 1.5]


@pytest.mark.parametrize("alpha", [1, 2, -3.5])
def test_a_difference_of_bools_is_refused_whatever_its_factor(alpha):
    mask, x = torch.tensor([True, False]), torch.ones(2)
    for call in (
        lambda: torch.sub(x, mask, alpha=alpha),
        lambda: torch.rsub(mask, x, alpha=alpha),
        lambda: x.sub_(mask, alpha=alpha),
        lambda: torch.sub(x, mask, alpha=alpha, out=torch.empty(2)),
    ):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            call()
    assert x.tolist() == [1.0, 1.0]


def test_whole_numbers_in_place():
    x = torch.tensor([1, -2, 2**62])
    before = x._version
    x.add_(1).mul_(3).sub_(torch.tensor([1, 1, 1]))
    assert x.tolist() == [5, -4, (3 * (2**62 + 1) - 1 + 2**63) % 2**64 - 2**63]  # it wraps around
    assert x._version == before + 3
    x.add_(torch.tensor(10))
    x.add_(True)
    assert x.tolist()[:2] == [16, 7]
    for wrong in (
        lambda: x.add_(1.5),
        lambda: x.div_(2),
        lambda: x.add_(torch.tensor(0.5).expand(3)),
    ):
        with pytest.raises(RuntimeError, match="can't be cast"):
            wrong()
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x.add_(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.tensor([1]).expand(3).add_(1)
    x = torch.tensor([1, 2])
    x.eq_(1)
    assert x.tolist() == [1, 0]


def test_whole_numbers_that_a_gradient_needs_are_watched():
    x, places = torch.ones(3, requires_grad=True), torch.tensor([0, 2])
    y = (x.gather(0, places) * 2).sum()
    places.mul_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_gradients_of_some_pieces():
    x = torch.linspace(-1, 1, 10, dtype=torch.float64).reshape(2, 5).requires_grad_()
    for dim, size, kept in (
        (1, 2, (0,)),
        (1, 2, (2,)),
        (0, 1, (1,)),
        (1, 3, (0, 1)),
        (1, [1, 0, 4], (1, 2)),
    ):
        pieces = x.split(size, dim)
        (found,) = torch.autograd.grad(sum((pieces[k] ** 2).sum() for k in kept), x)
        want = torch.zeros_like(x)
        for k, piece in enumerate(want.split(size, dim)):
            if k in kept:
                piece.copy_(2 * pieces[k].detach())
        assert torch.equal(found, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "weight", [0.0, -0.0, 0.3, 0.49999999, 0.5, 0.75, 1.0, 2.0, -1.5, 1, math.inf, math.nan]
)
def test_lerp_in_place_gives_the_bits_of_lerp(dtype, weight):
    x, end = pair(5, 7, dtype=dtype)
    end[0, 0] = math.inf
    wanted, version = torch.lerp(x, end, weight), x._version
    assert x.lerp_(end, weight) is x and x._version == version + 1
    assert torch.allclose(x, wanted, rtol=0, atol=0, equal_nan=True)


def test_lerp_takes_the_nearer_end_by_the_weight_in_its_dtype():
    x, end = torch.zeros(2), torch.tensor([math.inf, 1.0])
    assert x.lerp(end, 0.4999).isfinite().tolist() == [False, True]
    assert x.lerp(end, 0.4999)[0] == math.inf
    assert x.lerp(end, 0.49999999)[0].isnan()  # in float32 that is a half
    assert x.double().lerp(end.double(), 0.49999999)[0] == math.inf


@pytest.mark.parametrize("alpha", [2, -3, 0, 1 << 60])
def test_whole_factors_of_updates(alpha):
    p, g = pair(4, 4)
    wanted = p - g * float(alpha)
    assert torch.equal(p.sub_(g, alpha=alpha), wanted)
