"""What the specification says of modules and parameters where they meet autograd."""

from __future__ import annotations

import io
import threading

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd.graph import saved_tensors_hooks
from gradlib.nn.modules import module as everywhere


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((2,), 3.0))
        self.body = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))

    def forward(self, x):
        return self.body(x) * self.scale


def test_parameters():
    # rows: NN-01 NN-02 NN-05
    p = nn.Parameter(torch.ones(2))
    assert isinstance(p, torch.Tensor) and p.requires_grad and p.is_leaf
    assert not nn.Parameter(torch.ones(2), requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,) and nn.Parameter().requires_grad
    net = Net()
    named = dict(net.named_parameters())
    assert list(named) == ["scale", "body.0.weight", "body.0.bias", "body.2.weight"]
    assert [id(p) for p in net.parameters()] == [id(p) for p in named.values()]
    assert named["scale"] is net.scale
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert len(list(net.parameters(recurse=False))) == 1
    layer = nn.Linear(512, 100)
    assert all(p.requires_grad and p.is_leaf for p in layer.parameters())
    assert sum(p.numel() for p in layer.parameters()) == 512 * 100 + 100


def test_requires_grad_of_a_whole_module():
    # rows: NN-03
    net = Net()
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())
    assert not net(torch.ones(1, 2)).requires_grad
    net.requires_grad_()
    assert all(p.requires_grad for p in net.parameters())


def test_fine_tuning_a_frozen_base():
    # rows: NN-04
    base = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4), nn.Sigmoid())
    for p in base.parameters():
        p.requires_grad = False
    head = nn.Linear(4, 2)
    model = nn.Sequential(base, head)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    frozen = [p.detach().clone() for p in base.parameters()]
    before = head.weight.detach().clone()
    saved = []
    x = torch.randn(5, 3)
    with saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        features = base(x)
    assert saved == [] and not features.requires_grad and features.grad_fn is None
    model(x).pow(2).sum().backward()
    optimizer.step()
    assert all(p.grad is None for p in base.parameters())
    assert head.weight.grad is not None and head.bias.grad is not None
    assert all(torch.equal(a, b) for a, b in zip(frozen, base.parameters(), strict=True))
    assert not torch.equal(before, head.weight)


def test_zero_grad():
    # rows: NN-06
    net = Net()
    net(torch.ones(1, 2)).sum().backward()
    kept = [p.grad for p in net.parameters()]
    net.zero_grad(set_to_none=False)
    for p, g in zip(net.parameters(), kept, strict=True):
        assert p.grad is g and torch.equal(g, torch.zeros_like(p))
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_eval_is_no_grad_mode():
    # rows: NN-07
    net = Net()
    assert net.training and net.body[0].training
    assert net.eval() is net and not net.training and not net.body[0].training
    assert net(torch.ones(1, 2)).requires_grad and torch.is_grad_enabled()
    assert net.train() is net and net.training and net.body[2].training
    net.train(False)
    assert not net.training
    with torch.no_grad():
        assert not net.train()(torch.ones(1, 2)).requires_grad and net.training


def test_dropout_and_batch_norm_follow_the_mode():
    # rows: NN-08
    x = torch.randn(8, 3, 4, 4)
    drop = nn.Dropout(p=0.5)
    y = drop(x)
    assert (y == 0).any() and torch.allclose(y[y != 0], 2 * x[y != 0])
    assert torch.equal(drop.eval()(x), x)
    norm = nn.BatchNorm2d(3)
    assert norm.running_mean.tolist() == [0.0] * 3
    out = norm(x)
    mean = x.mean((0, 2, 3))
    assert torch.allclose(norm.running_mean, 0.1 * mean, atol=1e-6)
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    norm.eval()
    before = norm.running_mean.clone(), norm.running_var.clone()
    out = norm(x)
    assert torch.equal(norm.running_mean, before[0]) and torch.equal(norm.running_var, before[1])
    shape = (1, 3, 1, 1)
    expected = (x - before[0].view(shape)) / (before[1].view(shape) + 1e-5).sqrt()
    assert torch.allclose(out, expected, atol=1e-5)


def test_calling_a_module_runs_forward_and_hooks():
    # rows: NN-09
    net, order = Net(), []
    net.register_forward_pre_hook(lambda m, args: order.append("pre"))
    net.register_forward_hook(lambda m, args, out: order.append("after"))
    x = torch.ones(1, 2)
    direct = net.forward(x)
    assert order == []
    assert torch.equal(net(x), direct) and order == ["pre", "after"]
    with pytest.raises(NotImplementedError, match='is missing the required "forward" function'):
        nn.Module()(x)


@pytest.mark.parametrize("where", ["module", "global"])
def test_full_backward_hooks(where):
    # rows: NN-10 HOOK-18
    layer = nn.Linear(3, 2)
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((module, grad_input, grad_output))
        return (grad_input[0] * 10,)

    register = (
        layer.register_full_backward_hook
        if where == "module"
        else everywhere.register_module_full_backward_hook
    )
    handle = register(hook)
    try:
        x = torch.randn(4, 3, requires_grad=True)
        out = layer(x)
        assert out.grad_fn.name() == "BackwardHookFunctionBackward"
        assert out.grad_fn.next_functions[0][0].name() != "AccumulateGrad"
        g = torch.randn(4, 2)
        out.backward(g)
    finally:
        handle.remove()
    ((module, grad_input, grad_output),) = seen
    assert module is layer and len(grad_input) == len(grad_output) == 1
    assert torch.equal(grad_output[0], g)
    assert torch.allclose(grad_input[0], g @ layer.weight.detach())
    assert torch.allclose(x.grad, 10 * grad_input[0])
    assert torch.allclose(layer.weight.grad, g.t() @ x.detach(), atol=1e-6)  # not the hook's matter
    assert torch.allclose(layer.bias.grad, g.sum(0), atol=1e-6)
    layer(x).sum().backward()
    assert len(seen) == 1


def test_init_functions_do_not_record():
    # rows: NN-11
    p = nn.Parameter(torch.ones(4, 4))
    for fill in (
        nn.init.zeros_,
        nn.init.ones_,
        nn.init.normal_,
        nn.init.uniform_,
        lambda t: nn.init.constant_(t, 2.0),
        nn.init.xavier_uniform_,
        nn.init.kaiming_normal_,
        nn.init.orthogonal_,
        nn.init.eye_,
    ):
        assert fill(p) is p
        assert p.is_leaf and p.requires_grad and p.grad_fn is None
    assert torch.equal(p.detach(), torch.eye(4))
    assert nn.init.constant_(p, 2.0).tolist() == [[2.0] * 4] * 4
    nn.init.normal_(p, mean=100.0, std=0.1)
    assert 99 < p.mean().item() < 101
    nn.init.uniform_(p, a=5.0, b=6.0)
    assert (p >= 5).all() and (p < 6).all()


@pytest.mark.first_device
def test_data_parallel():
    # rows: NN-12
    model = Net()
    x = torch.randn(6, 2)
    net = nn.DataParallel(model)
    assert torch.equal(net(x), model(x))
    net(x).sum().backward()
    assert model.scale.grad is not None
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(threading.get_ident())
            return x.exp()

    packs = []
    x.requires_grad_()
    with saved_tensors_hooks(lambda t: packs.append(t) or t, lambda t: t):
        out = nn.DataParallel(Spy(), device_ids=[x.device, x.device])(x)
    assert len(seen) == 2 and threading.get_ident() not in seen
    assert packs == []  # the hooks are those of this thread alone
    assert torch.equal(out, x.exp())
    out.sum().backward()
    assert torch.allclose(x.grad, x.detach().exp())


def test_sgd_with_momentum():
    # rows: NN-13
    p = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    value, velocity = [1.0, -2.0], [0.0, 0.0]
    for _ in range(2):
        optimizer.zero_grad()
        assert p.grad is None
        (p * p).sum().backward()
        optimizer.step()
        velocity = [0.9 * v + 2 * x for v, x in zip(velocity, value, strict=True)]
        value = [x - 0.1 * v for v, x in zip(velocity, value, strict=True)]
        assert p.tolist() == pytest.approx(value, rel=1e-6)
    plain = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([plain], lr=1e-2)
    (3 * plain).sum().backward()
    optimizer.step()
    assert plain.item() == pytest.approx(0.97) and plain.is_leaf


def test_moved_parameters_stay_leaves():
    # rows: NN-14
    net = Net()
    for p in net.parameters():
        p.data.fill_(0.5)
    ids = [id(p) for p in net.parameters()]
    assert net.to(torch.float64) is net and net.cpu() is net
    for p in net.parameters():
        assert p.is_leaf and p.requires_grad and p.dtype is torch.float64 and not p.is_cuda
    assert [id(p) for p in net.parameters()] == ids
    net(torch.ones(1, 2, dtype=torch.float64, device="cpu")).sum().backward()
    assert all(p.grad.dtype is torch.float64 for p in net.parameters())


def test_save_and_load_round_trip():
    # rows: SAVED-11
    for tensor in (
        torch.randn(2, 3),
        torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
        torch.tensor([1 + 2j]),
        torch.tensor([True, False]),
        torch.arange(5),
        torch.tensor([1.5], dtype=torch.bfloat16),
        torch.tensor(3.0),
    ):
        file = io.BytesIO()
        torch.save(tensor, file)
        file.seek(0)
        back = torch.load(file)
        assert torch.equal(back.detach(), tensor.detach()) and back.dtype is tensor.dtype
        assert back.requires_grad is tensor.requires_grad and back.shape == tensor.shape


def test_saved_tensors_on_disk(tmp_path):
    names = []

    def pack(tensor):
        names.append(tmp_path / f"{len(names)}.pt")
        torch.save(tensor, names[-1])
        return names[-1]

    x = torch.randn(5, requires_grad=True)
    with saved_tensors_hooks(pack, torch.load):
        y = x * x
    assert len(names) == 2
    y.sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())
