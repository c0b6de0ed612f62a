"""Tensors, gradients and functions on a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import Function
from gradlib.autograd import functional as AF
from gradlib.autograd.graph import save_on_cpu
from tests.autograd.functions import Exp


def test_cuda_copies_are_recorded():
    # rows: DEV-04
    x = torch.rand(10, requires_grad=True)
    y = x.cuda()
    assert not y.is_leaf and y.is_cuda and y.grad_fn.name() == "ToCopyBackward0"
    (y * y).sum().backward()
    assert not x.grad.is_cuda and torch.allclose(x.grad, 2 * x.detach())


def test_a_cuda_copy_without_grad_is_a_leaf():
    # rows: DEV-05 DEV-06
    y = torch.rand(10).cuda()
    assert y.is_leaf and y.requires_grad_() is y and y.is_leaf and y.is_cuda
    for z in (
        torch.rand(10, device="cuda", requires_grad=True),
        torch.ones(3, device="cuda", requires_grad=True),
        torch.tensor([1.0], device="cuda:0", requires_grad=True),
    ):
        assert z.is_leaf and z.is_cuda and z.requires_grad
        z.sum().backward()
        assert z.grad.is_cuda


def test_the_way_back_is_recorded_too():
    # rows: DEV-07
    x = torch.rand(4, device="cuda", requires_grad=True)
    assert x.cuda() is x and x.to("cuda") is x
    (x.cpu() * 3).sum().backward()
    assert x.grad.is_cuda and x.grad.cpu().tolist() == [3.0] * 4
    x.grad = None
    (x.to("cpu") * 2).to("cuda").sum().backward()
    assert x.grad.is_cuda and x.grad.tolist() == [2.0] * 4


def test_a_copy_keeps_the_order_of_strides():
    # rows: DEV-04
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    for t in (
        x.contiguous(memory_format=torch.channels_last),
        x.permute(2, 0, 3, 1),
        x.contiguous(memory_format=torch.channels_last)[
            :, 1:
        ],  # with gaps: dense, in the same order
        torch.arange(24.0).reshape(2, 3, 4).mT,
        x[:, :, ::2],
        x[:1].expand(3, -1, -1, -1),
    ):
        there = t.cuda()
        want = t.clone().stride()
        for moved in (there, there.cpu(), t.to("cuda", non_blocking=True), there.to("cuda:0")):
            assert moved.stride() == want
            assert torch.equal(moved.cpu(), t)
        assert t.to("cuda", torch.float16).stride() == want
    last = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    last.cuda().square().backward(last.detach().cuda())
    assert last.grad.stride() == last.stride() and torch.equal(last.grad, 2 * x * x)
    pinned = torch.arange(24.0).reshape(2, 3, 4).pin_memory().mT
    there = pinned.to("cuda", non_blocking=True)
    assert there.stride() == pinned.stride() and torch.equal(there.cpu(), pinned)


def test_operands_on_two_devices():
    # rows: DEV-10
    there, here = torch.ones(2, device="cuda"), torch.ones(2)
    for pair in ((there, here), (here, there)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            pair[0] * pair[1]
    assert (there + torch.tensor(2.0)).is_cuda and (torch.tensor(2.0) * there).is_cuda


def test_a_gradient_is_where_its_tensor_is():
    # rows: DEV-11
    a = torch.rand(3, requires_grad=True)
    b = torch.rand(3, device="cuda", requires_grad=True)
    (a.cuda() * b).sum().backward()
    assert a.grad.device == a.device and b.grad.device == b.device
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with device type"):
        a.grad = torch.ones(3, device="cuda")


def test_a_model_agrees_with_the_cpu():
    # rows: DEV-12
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).double()
    x, target = torch.randn(5, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    here = {name: p.grad.numpy() for name, p in model.named_parameters()}
    model.zero_grad()
    model.cuda()
    there = nn.functional.cross_entropy(model(x.cuda()), target.cuda())
    there.backward()
    np.testing.assert_allclose(there.item(), loss.item(), rtol=1e-9)
    for name, p in model.named_parameters():
        assert p.is_leaf and p.is_cuda and p.grad.is_cuda
        np.testing.assert_allclose(p.grad.cpu().numpy(), here[name], rtol=1e-8, atol=1e-10)


def test_functional_on_the_device():
    # rows: FUNC-24
    def f(x):
        return x.exp() * x.sum()

    x = torch.rand(3, dtype=torch.float64)
    v = torch.rand(3, dtype=torch.float64)
    for run in (
        lambda x, v: AF.jacobian(f, x),
        lambda x, v: AF.jacobian(f, x, vectorize=True),
        lambda x, v: AF.hessian(lambda y: f(y).sum(), x),
        lambda x, v: AF.vjp(f, x, v)[1],
        lambda x, v: AF.jvp(f, x, v)[1],
        lambda x, v: AF.hvp(lambda y: f(y).sum(), x, v)[1],
        lambda x, v: AF.vhp(lambda y: f(y).sum(), x, v)[1],
    ):
        here, there = run(x, v), run(x.cuda(), v.cuda())
        assert there.is_cuda
        np.testing.assert_allclose(there.cpu().numpy(), here.numpy(), rtol=1e-10)


class Across(Function):
    """Moves its input to the device by hand, and the gradient back."""

    @staticmethod
    def forward(ctx, x):
        ctx.origin = x.device
        return x.cuda() * 2

    @staticmethod
    def backward(ctx, g):
        assert g.is_cuda
        return (g * 2).to(ctx.origin)


def test_custom_functions():
    # rows: FN-47
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    y = x.detach().cuda().requires_grad_()
    here, there = Exp.apply(x), Exp.apply(y)
    assert there.is_cuda
    here.sum().backward()
    there.sum().backward()
    np.testing.assert_allclose(there.detach().cpu().numpy(), here.detach().numpy(), rtol=1e-12)
    assert y.grad.is_cuda
    np.testing.assert_allclose(y.grad.cpu().numpy(), x.grad.numpy(), rtol=1e-12)
    x.grad = None
    out = Across.apply(x)
    assert out.is_cuda
    out.sum().backward()
    assert not x.grad.is_cuda and x.grad.tolist() == [2.0] * 4


def test_save_on_cpu_in_pinned_memory():
    # rows: GRAPH-22
    x = torch.rand(5, device="cuda", requires_grad=True)
    kept = []

    class Watched(save_on_cpu):
        def __init__(self):
            super().__init__(pin_memory=True)
            pack = self.pack_hook

            def watching(tensor):
                packed = pack(tensor)
                kept.append(packed[1])
                return packed

            self.pack_hook = watching

    with Watched():
        y = x * x
    assert kept and all(t.is_pinned() and not t.is_cuda for t in kept)
    y.sum().backward()
    assert x.grad.is_cuda and torch.allclose(x.grad, 2 * x.detach())


def test_modes_of_the_caller_hold_on_device_nodes():
    # rows: MT-10
    for create_graph in (False, True):
        x = torch.ones(2, device="cuda", requires_grad=True)
        y = x * x
        seen = []
        y.grad_fn.register_prehook(lambda gs, seen=seen: seen.append(torch.is_grad_enabled()))
        torch.autograd.grad(y.sum(), x, create_graph=create_graph)
        assert seen == [create_graph]
