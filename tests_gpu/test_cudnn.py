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


def put(array, layout=torch.contiguous_format):
    """A NumPy array as a tensor on the device, of that memory format if it is of its rank."""
    t = torch.from_numpy(array)
    return (t.contiguous(memory_format=layout) if t.ndim > 3 else t).cuda()


def compare(layer, arrays, kind, layout=torch.contiguous_format, factor=16.0):
    """Results and gradients of ``layer(*tensors)`` on the device against float64 on the CPU; gives both results."""
    rounded = [a.astype(KINDS[kind].np) for a in arrays]
    there = [put(a, layout).requires_grad_() for a in rounded]
    here = [torch.from_numpy(a.astype(np.float64)).requires_grad_() for a in rounded]
    out, exact = layer(*there), layer(*here)
    close(out.detach().cpu().double().numpy(), exact.detach().numpy(), kind, factor)
    g = values(tuple(exact.shape), 99).astype(KINDS[kind].np)
    found = torch.autograd.grad(out, there, put(g, layout))
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
    arrays = [values(s).astype(KINDS[kind].np) for s in (shape, weight)]
    x, w = (torch.from_numpy(a.astype(np.float64)) for a in arrays)
    want = F.conv2d(x, w, None, *how).numpy()
    for formats in (
        (torch.channels_last, torch.contiguous_format),
        (torch.contiguous_format, torch.channels_last),
    ):
        out = has(F.conv2d, *map(put, arrays, formats), None, *how)
        assert out.is_contiguous(memory_format=torch.channels_last)
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
    x, w = torch.ones(1, 2, 4, 3, device="cuda"), torch.ones(2, 1, 2, 2, device="cuda")
    how = ((3, 2), (1, 0), (3, 2), 1, (4, 4))  # an output padding of a stride
    with pytest.raises(ValueError, match="the way 'cudnn' cannot compute"):
        F.conv_transpose2d(x, w, None, *how)


def test_views_and_arrays_that_begin_anywhere():
    flat = put(values((2 * 3 * 8 * 9 + 9,)).astype(np.float16))
    w = put(values((4, 3, 3, 3), 1).astype(np.float16))
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
        close(out.cpu().double().numpy(), want.numpy(), "float16", 16)


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
    assert (F.conv2d(x, w).cpu() == 4608).all()


def test_autocast(called):
    layout = torch.channels_last
    model = torch.nn.Conv2d(4, 6, 3, padding=1).to(memory_format=layout).cuda()
    x, g = values((2, 4, 6, 7)), values((2, 6, 6, 7), 1).astype(KINDS["bfloat16"].np)
    with torch.autocast("cuda", torch.bfloat16):
        y = model(put(x.astype(np.float32), layout))
    assert y.dtype is torch.bfloat16 and y.is_contiguous(memory_format=layout)
    y.backward(put(g, layout))
    assert called == ["Forward", "BackwardFilter"]
    exact = torch.nn.Conv2d(4, 6, 3, padding=1).double()
    exact.load_state_dict({k: v.double().cpu() for k, v in model.state_dict().items()})
    exact(torch.from_numpy(x)).backward(torch.from_numpy(g.astype(np.float64)))
    for p, q in zip(model.parameters(), exact.parameters(), strict=True):
        assert p.grad.dtype is torch.float32 and p.grad.stride() == p.stride()
        close(p.grad.cpu().double().numpy(), q.grad.numpy(), "bfloat16", 4)


def test_gradients_of_gradients(called):
    shapes = (1, 4, 4, 3), (2, 2, 2, 3), (1, 2, 2, 2)
    results = []
    for where in ("cpu", "cuda"):
        x, w, g, a, b = (
            torch.from_numpy(values(s, i)).float().to(where).requires_grad_(i < 3)
            for i, s in enumerate((*shapes, *shapes[:2]))
        )
        y = F.conv2d(x, w, None, 2, (0, 1), 1, 2)
        first = torch.autograd.grad(y, (x, w), g, create_graph=True)
        results.append([*first, *torch.autograd.grad(first, (x, w, g), (a, b))])
    for want, found in zip(*results, strict=True):
        close(found.detach().cpu().numpy(), want.detach().numpy(), "float32", 16)
    # the gradient of the output's is added up of two convolutions
    assert sorted(called) == ["BackwardData"] * 2 + ["BackwardFilter"] * 2 + ["Forward"] * 3


def test_a_captured_step_is_the_step(called):
    x, g = (put(np.zeros(s, np.float16)) for s in ((2, 3, 8, 8), (2, 2, 3, 3)))
    weights = [
        put(values(s, i).astype(np.float16)).requires_grad_()
        for i, s in enumerate(((4, 3, 3, 3), (2, 4, 3, 3)))
    ]
    inputs = [[put(values(t.shape, i).astype(np.float16)) for t in (x, g)] for i in range(3)]

    def step():
        y = F.conv2d(F.conv2d(x, weights[0], padding=1), weights[1], stride=2)
        return y, *torch.autograd.grad(y, weights, g)

    def all_of(run):
        results = []
        for new in inputs:
            x.copy_(new[0]), g.copy_(new[1])
            out = run()
            trash = [put(np.full(1 << 12, np.nan, np.float16)) for _ in range(8)]
            results.append([t.detach().cpu().double().numpy() for t in out])
            del trash
        return results

    want = all_of(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    made = len(called)
    found = all_of(lambda: graph.replay() or captured)
    for one, other in zip(found, want, strict=True):
        for a, b in zip(one, other, strict=True):
            close(a, b, "float16", 4)
    assert len(called) == made and made == 4 * (2 + 3)
    assert abs(want[0][0] - want[1][0]).max() > 1


def test_what_is_first_called_in_a_capture_is_captured():
    x = torch.ones(1, 5, 6, 7, device="cuda", dtype=torch.float16)
    w = torch.ones(3, 5, 2, 2, device="cuda", dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = F.conv2d(x, w)
    x.fill_(2)
    graph.replay()
    assert (y.cpu() == 40).all()


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
        runs = []
        for _ in range(3):
            y = F.conv2d(x, w)
            grads = torch.autograd.grad(y, (x, w), y.detach())
            runs.append([t.detach().cpu().numpy().tobytes() for t in (y, *grads)])
    assert runs[0] == runs[1] == runs[2]


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
