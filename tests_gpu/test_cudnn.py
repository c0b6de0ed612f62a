"""Convolutions by cuDNN on a device: the same as the formulas. Collected only where the library is found."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from overlay_checks import DTYPES, KINDS, close, values

import gradlib as torch
from gradlib.devices.cuda import cudnn
from gradlib.devices.cuda.fused import paths
from tests_gpu.conftest import is_on_cpu

F = torch.nn.functional

# input, weight, stride, padding, dilation, groups: no two numbers of one case are alike that may not be swapped
CASES = {
    "1d": ((2, 3, 11), (4, 3, 3), 2, 2, 1, 1),
    "2d": ((2, 3, 9, 8), (5, 3, 3, 2), (1, 2), (2, 0), (1, 3), 1),
    "groups": ((2, 6, 7, 6), (9, 2, 2, 3), (2, 1), (1, 2), (2, 1), 3),
    "3d": ((1, 2, 5, 4, 6), (3, 2, 2, 3, 1), (1, 2, 3), (0, 1, 2), (2, 1, 1), 1),
    "1x1": ((2, 4, 5, 6), (3, 4, 1, 1), 1, 0, 1, 1),
    "depthwise": ((2, 4, 6, 5), (4, 1, 3, 3), 1, (1, 0), 1, 4),
}


@pytest.fixture(autouse=True)
def called(monkeypatch):
    """The kinds of calls that were made; convolutions are made to take this way."""
    assert cudnn.library() is not None, "cuDNN was not found"
    found, launch = [], cudnn.Convolutions._launch

    def record(self, plan, *arrays):
        out = launch(self, plan, *arrays)
        if out is not NotImplemented:
            found.append(plan.problem.kind)
        return out

    monkeypatch.setattr(cudnn.Convolutions, "_launch", record)
    with torch.backends.cudnn.flags(enabled=True), paths.force(convolution="cudnn"):
        yield found


@pytest.fixture
def has(request):
    """``has(f, ...)``: f(...), but for what a cuDNN on a device says that it does not have."""

    def run(function, *args, needed=False):
        try:
            return function(*args)
        except ValueError as error:
            if is_on_cpu(request.config) or needed or "the way 'cudnn' cannot" not in str(error):
                raise
            pytest.skip(f"not in cuDNN {cudnn.version()}: {error}")

    return run


def compare(layer, arrays, kind, layout=torch.contiguous_format, factor=16.0):
    """Results and gradients of ``layer(*tensors)`` on the device against float64 on the CPU; gives both results."""
    rounded = [a.astype(KINDS[kind].np) for a in arrays]
    there, here = [], []
    for a in rounded:
        t = torch.from_numpy(a).cuda()
        there.append(t.contiguous(memory_format=layout) if a.ndim > 3 else t)
        here.append(torch.from_numpy(a.astype(np.float64)).requires_grad_())
    there = [t.detach().requires_grad_() for t in there]
    out, exact = layer(*there), layer(*here)
    close(out.detach().cpu().double().numpy(), exact.detach().numpy(), kind, factor)
    g = values(tuple(exact.shape), 99).astype(KINDS[kind].np)
    seed = torch.from_numpy(g).cuda()
    seed = seed.contiguous(memory_format=layout) if g.ndim > 3 else seed
    found = torch.autograd.grad(out, there, seed)
    want = torch.autograd.grad(exact, here, torch.from_numpy(g.astype(np.float64)))
    for a, b in zip(found, want, strict=True):
        assert a.dtype is KINDS[kind]
        close(a.cpu().double().numpy(), b.numpy(), kind, factor)
    return out, found


def layer_of(case, how):
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(case[0]) - 3]
    return lambda x, w, b=None: convolve(x, w, b, *how)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", DTYPES)
def test_convolutions_and_their_gradients(called, has, kind, name):
    shape, weight, *how = CASES[name]
    arrays = [values(shape), values(weight, 1), values(weight[:1], 2)]
    needed = name == "2d" and kind != "float64"
    has(compare, layer_of(CASES[name], how), arrays, kind, needed=needed)
    assert sorted(called) == ["BackwardData", "BackwardFilter", "Forward"]


@pytest.mark.parametrize("name", ["2d", "groups", "3d"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_channels_last_stay_last(called, has, kind, name):
    shape, weight, *how = CASES[name]
    layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    arrays = [values(shape), values(weight, 1), values(weight[:1], 2)]
    out, (dx, dw, _) = has(compare, layer_of(CASES[name], how), arrays, kind, layout)
    for t in (out, dx, dw):
        assert t.is_contiguous(memory_format=layout)
    assert sorted(called) == ["BackwardData", "BackwardFilter", "Forward"]


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_one_operand_with_channels_last(has, kind):
    shape, weight, *how = CASES["2d"]
    x, w = (torch.from_numpy(values(s).astype(KINDS[kind].np)) for s in (shape, weight))
    want = F.conv2d(x.double(), w.double(), None, *how).numpy()
    x, w, last = x.cuda(), w.cuda(), {"memory_format": torch.channels_last}
    for a, b in ((x.contiguous(**last), w), (x, w.contiguous(**last))):
        out = has(F.conv2d, a, b, None, *how)
        assert out.is_contiguous(**last)
        close(out.cpu().double().numpy(), want, kind, 16)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_transposed_convolutions(called, has, kind):
    cases = [
        (F.conv_transpose2d, (2, 6, 4, 5), (6, 2, 3, 2), ((2, 3), (1, 0), (1, 2), 3, (2, 1))),
        (F.conv_transpose1d, (2, 3, 6), (3, 4, 3), (2, 1, 1, 1, 1)),
    ]
    for convolve, shape, weight, (stride, padding, outer, groups, dilation) in cases:
        bias = weight[1] * groups
        arrays = [values(shape), values(weight, 1), values((bias,), 2)]
        how = (stride, padding, outer, groups, dilation)
        called.clear()
        has(compare, lambda x, w, b: convolve(x, w, b, *how), arrays, kind)  # noqa: B023
        assert sorted(called) == ["BackwardData", "BackwardFilter", "Forward"]


def test_an_output_longer_than_a_convolution_makes_it_takes_another_way():
    x, w = torch.randn(1, 2, 4, 3, device="cuda"), torch.randn(2, 1, 2, 2, device="cuda")
    how = ((3, 2), (1, 0), (3, 2), 1, (4, 4))  # an output padding of a stride
    with pytest.raises(ValueError, match="the way 'cudnn' cannot compute"):
        F.conv_transpose2d(x, w, None, *how)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_views_and_arrays_that_begin_anywhere(kind):
    flat = torch.from_numpy(values((2 * 3 * 8 * 9 + 9,)).astype(KINDS[kind].np)).cuda()
    w = torch.from_numpy(values((4, 3, 3, 3), 1).astype(KINDS[kind].np)).cuda()
    size = 2 * 3 * 8 * 9
    views = [flat[i : i + size].view(2, 3, 8, 9) for i in (0, 1, 8)]
    whole = views[0]
    views += [
        whole.transpose(2, 3), whole.flip(3), whole[:, :, ::2, 1:], whole[:1].expand(3, -1, -1, -1),
        whole.permute(2, 1, 0, 3),
    ]  # fmt: skip
    for view in views:
        out = F.conv2d(view, w, None, 1, 1)
        want = F.conv2d(view.cpu().double(), w.cpu().double(), None, 1, 1)
        close(out.cpu().double().numpy(), want.numpy(), kind, 16)


@pytest.mark.parametrize("allowed", [False, True])
def test_float32_is_rounded_to_tf32_only_if_it_may(called, monkeypatch, allowed):
    monkeypatch.setitem(torch.backends.cudnn._settings, "allow_tf32", not allowed)
    with torch.backends.cudnn.flags(allow_tf32=allowed):
        x = torch.full((8, 16, 8, 8), 1 + 2.0**-12, device="cuda", requires_grad=True)
        w = torch.full((16, 16, 3, 3), 1 + 2.0**-12, device="cuda", requires_grad=True)
        y = F.conv2d(x, w)
        dx, dw = torch.autograd.grad(y, (x, w), torch.full_like(y, 1 + 2.0**-12))
    for found, products in ((y[0, 0, 0, 0], 144), (dx[0, 0, 4, 4], 144), (dw[0, 0, 0, 0], 288)):
        rounded = abs(found.item() / (products * (1 + 2.0**-12) ** 2) - 1) > 2.0**-13
        assert rounded is allowed
    assert len(called) == 3


def test_half_types_are_added_up_in_float32():
    """2048 + 1 + 1... stays 2048 in float16."""
    x = torch.ones(1, 512, 5, 5, device="cuda", dtype=torch.float16)
    w = torch.ones(8, 512, 3, 3, device="cuda", dtype=torch.float16)
    assert (F.conv2d(x, w) == 4608).all()


@pytest.mark.parametrize("last", [False, True])
def test_autocast(called, last):
    model = torch.nn.Conv2d(4, 6, 3, padding=1).cuda()
    x = torch.randn(2, 4, 6, 7, device="cuda")
    if last:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16):
        y = model(x)
    assert y.dtype is torch.bfloat16
    assert y.is_contiguous(memory_format=torch.channels_last) is last
    y.float().square().mean().backward()
    assert called == ["Forward", "BackwardFilter"]
    for p in model.parameters():
        assert p.grad.dtype is torch.float32 and p.grad.stride() == p.stride()
    exact = torch.nn.Conv2d(4, 6, 3, padding=1).double()
    exact.load_state_dict({k: v.double().cpu() for k, v in model.state_dict().items()})
    exact(x.cpu().double()).square().mean().backward()
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        close(p.grad.cpu().double().numpy(), q.grad.numpy(), "bfloat16", 4)


def test_gradients_of_gradients(has):
    x = torch.randn(1, 4, 4, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 2, 2, 3, device="cuda", dtype=torch.float64, requires_grad=True)

    def check():
        convolve = lambda x, w: F.conv2d(x, w, None, (1, 2), (0, 1), 1, 2)
        assert torch.autograd.gradcheck(convolve, (x, w), fast_mode=True)
        return torch.autograd.gradgradcheck(convolve, (x, w), fast_mode=True)

    assert has(check)


def test_a_captured_step_is_the_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3, 2)
    )
    model = model.cuda().half()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x = torch.zeros(2, 3, 8, 8, device="cuda", dtype=torch.float16)
    inputs = [torch.from_numpy(values(x.shape, i)).half().cuda() for i in range(3)]

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step()
    model.load_state_dict(start)
    want = []
    for new in inputs:
        x.copy_(new)
        want.append(step().item())
    model.load_state_dict(start)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    found = []
    for new in inputs:
        x.copy_(new)
        graph.replay()
        trash = [torch.full((1 << 12,), torch.nan, device="cuda") for _ in range(8)]
        found.append(loss.item())
        del trash
    np.testing.assert_allclose(found, want, rtol=2e-3)
    assert want[0] != want[1]


def test_what_is_first_called_in_a_capture_is_captured():
    x = torch.ones(1, 5, 6, 7, device="cuda", dtype=torch.float16)
    w = torch.ones(3, 5, 2, 2, device="cuda", dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = F.conv2d(x, w)
    x.fill_(2)
    graph.replay()
    assert (y == 40).all()


def test_threads_and_streams():
    x = torch.from_numpy(values((2, 4, 7, 6))).half().cuda()
    weights = [torch.from_numpy(values((5, 4, 3, 3), i)).half().cuda() for i in range(4)]
    torch.cuda.synchronize()
    found = [None] * 4

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                found[i] = F.conv2d(x, weights[i])
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for y, w in zip(found, weights, strict=True):
        close(
            y.cpu().double().numpy(),
            F.conv2d(x.cpu().double(), w.cpu().double()).numpy(),
            "float16",
            16,
        )


def test_deterministic_gives_the_same_bits():
    x = torch.from_numpy(values((4, 8, 9, 9))).half().cuda().requires_grad_()
    w = torch.from_numpy(values((8, 8, 3, 3), 1)).half().cuda().requires_grad_()
    with torch.backends.cudnn.flags(deterministic=True):
        runs = [torch.autograd.grad(F.conv2d(x, w).square().sum(), (x, w)) for _ in range(3)]
    for again in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], again, strict=True))


def test_what_it_says_of_itself():
    switches = torch.backends.cudnn
    assert switches.is_available() and switches.version() >= 90000
    x = torch.ones(1, 1, 2, 2, device="cuda")
    assert switches.is_acceptable(x) and switches.is_acceptable(x.half())
    assert not switches.is_acceptable(x.int()) and not switches.is_acceptable(x.cpu())
    switches.enabled = False
    assert not switches.is_acceptable(x)
    with pytest.raises(ValueError, match="the way 'cudnn' cannot compute"):
        F.conv2d(x, x)
