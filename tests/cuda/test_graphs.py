"""CUDA graphs on the simulated device, which refuses in a capture what CuPy refuses."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.cuda._graph import capture_stream
from gradlib.nn import functional as F
from gradlib.tape.modes import shared

BATCHES = 6


def side(function):
    """Run `function` once on the stream of captures."""
    s = capture_stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        function()
    torch.cuda.current_stream().wait_stream(s)


# -- CUDAGraph -------------------------------------------------------------------------------------------------------


def test_a_graph_does_the_work_again_on_new_inputs(lazy_cuda):
    for seed in range(12):
        with lazy_cuda(seed):
            w = torch.full((8, 8), 0.5, device="cuda")
            x = torch.ones(4, 8, device="cuda")
            side(lambda x=x, w=w: (x @ w).relu())
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = (x @ w).relu() + 1
            for value in (1.0, -2.0, 3.0):
                x.fill_(value)
                g.replay()
                trash = [torch.full((4, 8), 9.0, device="cuda") for _ in range(4)]
                assert y.sum().item() == 32 * (max(4 * value, 0.0) + 1)
                del trash


def test_nothing_runs_during_capture(cuda):
    x = torch.zeros(3, device="cuda")
    side(lambda: None)
    g = torch.cuda.CUDAGraph()
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.graph(g):
        x.add_(1)
        assert torch.cuda.is_current_stream_capturing()
    assert x.tolist() == [0.0] * 3
    g.replay()
    g.replay()
    assert x.tolist() == [2.0] * 3


def test_what_a_graph_reads_lives_as_long_as_the_graph(lazy_cuda):
    for seed in range(10):
        with lazy_cuda(seed):
            x = torch.full((64,), 3.0, device="cuda")
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = torch.zeros(64, device="cuda").copy_(x) * 2
            del x
            trash = [torch.full((64,), 9.0, device="cuda") for _ in range(8)]
            g.replay()
            assert y.tolist() == [6.0] * 64
            del trash


def test_eager_work_does_not_disturb_a_graph(lazy_cuda):
    """Memory that died in a capture belongs to the graph: it is written by every launch."""
    for seed in range(10):
        with lazy_cuda(seed):
            x = torch.full((64,), 3.0, device="cuda")
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = ((x * 2) + 1) * 3
            with torch.cuda.stream(capture_stream()):
                others = [torch.full((64,), float(i), device="cuda") for i in range(6)]
            torch.cuda.current_stream().wait_stream(capture_stream())
            g.replay()
            assert [o.sum().item() for o in others] == [64.0 * i for i in range(6)]
            assert y.sum().item() == 64 * 21


def test_backward_in_a_graph(cuda):
    w = torch.full((4,), 2.0, device="cuda", requires_grad=True)
    x = torch.ones(4, device="cuda")
    side(lambda: (w * w * x).sum().backward())
    w.grad = None
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        (w * w * x).sum().backward()
    x.fill_(3.0)
    g.replay()
    assert w.grad.tolist() == [12.0] * 4
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_graphs_that_share_a_pool(cuda):
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(64, device="cuda")
    graphs, results = [], []
    for k in range(3):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=pool):
            results.append((x * (k + 1)) + 1)
        assert g.pool() is pool
        graphs.append(g)
    x.fill_(2.0)
    for g in graphs:
        g.replay()
    assert [r[0].item() for r in results] == [3.0, 5.0, 7.0]


def test_random_numbers_are_new_in_every_launch(cuda):
    torch.rand(2, device="cuda")
    torch.cuda.manual_seed(3)
    want = [torch.rand(4, device="cuda").tolist() for _ in range(3)]
    torch.cuda.manual_seed(3)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.rand(4, device="cuda")
    got = []
    for _ in range(2):
        g.replay()
        got.append(y.tolist())
    assert got == want[:2]
    assert torch.rand(4, device="cuda").tolist() == want[2]


def test_errors_of_graphs(cuda, tmp_path):
    g = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        g.capture_begin(capture_error_mode="strict")
    with pytest.raises(RuntimeError, match="without a preceding capture_begin"):
        g.capture_end()
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="capturing"), torch.cuda.graph(g):
        x.sum().item()
    assert shared.cuda.held is None and not torch.cuda.is_current_stream_capturing()
    with torch.cuda.graph(g):
        y = x + 1
        with pytest.raises(RuntimeError, match="do not nest"):
            torch.cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.cuda.graph(g):
        pass
    g.replay()
    assert y.tolist() == [2.0] * 3
    g.debug_dump(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    assert g.raw_cuda_graph() and g.raw_cuda_graph_exec()


def test_no_capture_without_a_device():
    assert not torch.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="CUDA is not available"):
        torch.cuda.graph_pool_handle()


def test_workspaces_of_products_belong_to_the_graph(cuda):
    from gradlib.tape.arrays import backend_for

    gemm = backend_for("cuda").gemm
    a = torch.ones(4, 4, device="cuda")
    side(lambda: a @ a)
    common = dict(gemm.workspaces)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        b = a @ a
    (own,) = g._workspaces.values()
    assert all(own.ptr != other.ptr for other in common.values())
    assert gemm.workspaces.keys() == common.keys()
    g.replay()
    assert b.tolist() == [[4.0] * 4] * 4


# -- make_graphed_callables --------------------------------------------------------------------------------------------


def test_graphed_modules_train_as_plain_ones(cuda):
    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()

    plain, graphed = model(), model()
    graphed = torch.cuda.make_graphed_callables(graphed, (torch.zeros(3, 4, device="cuda"),))
    loss_fn = torch.cuda.make_graphed_callables(
        lambda y: (y * y).mean(), (torch.zeros(3, 2, device="cuda", requires_grad=True),)
    )
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (plain, graphed)]
    for k in range(4):
        x = torch.full((3, 4), k + 1.0, device="cuda")
        losses = []
        for m, o, f in zip(
            (plain, graphed), optimizers, (lambda y: (y * y).mean(), loss_fn), strict=True
        ):
            o.zero_grad()
            loss = f(m(x))
            loss.backward()
            o.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b in zip(plain.parameters(), graphed.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="captured with argument 0"):
        graphed(torch.zeros(5, 4, device="cuda"))
    graphed.eval()
    assert graphed(torch.zeros(5, 4, device="cuda")).shape == (5, 2)  # not the graph


def test_graphed_callables_refuse(cuda):
    m = nn.Linear(2, 2).cuda()
    m.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        torch.cuda.make_graphed_callables(m, (torch.zeros(1, 2, device="cuda"),))
    with pytest.raises(TypeError, match="must contain only Tensors"):
        torch.cuda.make_graphed_callables(lambda x: x, (3,))
    with pytest.raises(ValueError, match="one tuple of sample arguments for each"):
        torch.cuda.make_graphed_callables((lambda x: x,), ())


# -- capture -----------------------------------------------------------------------------------------------------------


def training(device, wrap, optimizer="adam", dropout=0.0):
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 3)).to(
        device
    )
    if optimizer == "adam":
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, capturable=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for k in range(BATCHES):
        x = torch.sin(torch.arange(24.0).reshape(4, 6) * (k + 1)).to(device)
        y = torch.tensor([0, 1, 2, k % 3]).to(device)
        losses.append(step(x, y))
    return [loss.item() for loss in losses], step


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_captured_step_trains_as_a_plain_one(optimizer, lazy_cuda):
    for seed in range(3):
        with lazy_cuda(seed):
            want, _ = training("cuda", lambda f: f, optimizer)
            got, step = training("cuda", torch.cuda.capture, optimizer)
            np.testing.assert_allclose(got, want, rtol=1e-4)
            (entry,) = step.entries.values()
            assert entry.graph is not None


OPTIMIZERS = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "ASGD", "Rprop"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_capturable_optimizers(name, cuda):
    def train(wrap):
        w = torch.tensor([1.0, -2.0, 3.0], device="cuda", requires_grad=True)
        optimizer = getattr(torch.optim, name)([w], lr=0.05, capturable=True)

        @wrap
        def step(x):
            optimizer.zero_grad()
            ((w - x) ** 2).sum().backward()
            optimizer.step()

        for k in range(6):
            step(torch.full((3,), float(k % 3), device="cuda"))
        return w.tolist()

    assert train(torch.cuda.capture) == pytest.approx(train(lambda f: f), rel=1e-5)


def test_a_learning_rate_on_the_device_may_change(cuda):
    w = torch.zeros(1, device="cuda", requires_grad=True)
    lr = torch.tensor(0.5, device="cuda")
    optimizer = torch.optim.Adam([w], lr=lr, capturable=True)

    @torch.cuda.capture(warmup=1)
    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    values = []
    for k in range(4):
        lr.fill_(0.5 if k < 3 else 0.0)
        step()
        values.append(round(w.item(), 3))
    assert values == [-0.5, -1.0, -1.5, -1.5]


def test_a_captured_step_with_dropout_draws_anew(cuda):
    want, _ = training("cuda", lambda f: f, dropout=0.5)
    got, _ = training("cuda", torch.cuda.capture, dropout=0.5)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_a_captured_step_with_a_gradient_scaler(cuda):
    """Scaling, unscaling and the decision to skip are on the device."""
    w = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.1, capturable=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=100)

    @torch.cuda.capture
    def step(x):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = (w * x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    values = []
    for k in range(7):
        x = torch.full((4,), float("inf") if k in (2, 5) else 1.0, device="cuda")
        step(x)
        values.append((w[0].item(), scaler.get_scale()))
    moved = [a != b for (a, _), (b, _) in zip([(1.0, 0), *values], values, strict=False)]
    assert moved == [True, True, False, True, True, False, True]
    assert [s for _, s in values] == [8.0, 8.0, 4.0, 4.0, 4.0, 2.0, 2.0]


def test_a_step_for_each_shape(cuda):
    calls = []

    @torch.cuda.capture(warmup=1)
    def double(x, *, scale=2.0):
        calls.append(scale)
        return {"y": x * scale, "name": "double"}

    for _ in range(3):
        for n in (2, 3):
            out = double(torch.ones(n, device="cuda"))
            assert out["y"].tolist() == [2.0] * n and out["name"] == "double"
    assert double(torch.ones(2, device="cuda"), scale=5.0)["y"].tolist() == [5.0] * 2
    assert calls == [2.0] * 4 + [5.0]  # each: one warm-up, one capture
    assert len(double.entries) == 3
    double.reset()
    assert not double.entries


def test_gradients_belong_to_the_graph_that_ran_last(cuda):
    w = torch.ones(3, device="cuda", requires_grad=True)

    @torch.cuda.capture(warmup=1)
    def step(x):
        w.grad = None
        (w * x.sum()).sum().backward()

    for n in (1, 2, 1, 2, 1, 2, 1, 2):
        step(torch.ones(n, device="cuda"))
        assert w.grad.tolist() == [float(n)] * 3


def test_on_the_cpu_the_step_is_called(cuda):
    calls = []
    step = torch.cuda.capture(lambda x: calls.append(1) or x.sum().item())
    assert [step(torch.ones(3)) for _ in range(6)] == [3.0] * 6
    assert len(calls) == 6 and not step.entries


def test_arguments_that_capture_refuses(cuda):
    step = torch.cuda.capture(lambda *args: None)
    x = torch.ones(3, device="cuda")
    with pytest.raises(torch.cuda.CaptureError, match="argument 0 is on cpu"):
        step(torch.ones(3), x)
    with pytest.raises(torch.cuda.CaptureError, match="requires grad"):
        step(x.clone().requires_grad_())
    with pytest.raises(torch.cuda.CaptureError, match="must be hashable"):
        step(x, {1, 2})
    with pytest.raises(ValueError, match="at least 1"):
        torch.cuda.capture(lambda: None, warmup=0)


def test_what_cannot_be_captured_is_named_with_its_line(cuda):
    w = torch.ones(2, 2, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([w])

    @torch.cuda.capture
    def step(x):
        inverse = torch.linalg.inv(w + x)
        if inverse.sum() > 100:
            return None
        picked = x[x > 0]
        (inverse.sum() + picked.sum()).backward()
        optimizer.step()
        return picked.cpu()

    with pytest.raises(torch.cuda.CaptureError) as caught:
        step(torch.eye(2, device="cuda"))
    found = {f.what: f for f in caught.value.findings}
    assert "inverse = torch.linalg.inv(w + x)" in found["linalg_inv"].where
    assert "cuSOLVER" in found["linalg_inv"].why
    assert "if inverse.sum() > 100" in found["Tensor.__bool__"].where
    assert "picked = x[x > 0]" in next(f.where for f in caught.value.findings if "mask" in f.why)
    assert "capturable=True" in found["Adam.step"].why
    assert "picked.cpu()" in found["to"].where
    assert "test_graphs.py" in str(caught.value)


def test_an_error_in_the_capture_names_the_line(cuda):
    """Something that no declaration tells of."""
    first = []

    @torch.cuda.capture(warmup=1)
    def step(x):
        y = x * 2
        if first:
            torch.cuda.current_stream().synchronize()
        first.append(1)
        return y

    x = torch.ones(2, device="cuda")
    step(x)
    with pytest.raises(
        torch.cuda.CaptureError, match=r"torch\.cuda\.current_stream\(\)\.synchronize\(\)"
    ):
        step(x)
    assert (x + 1).tolist() == [2.0] * 2  # the device goes on working


def test_optimizers_that_count_on_the_host_refuse_capture(cuda):
    w = torch.ones(2, device="cuda", requires_grad=True)
    w.grad = torch.ones(2, device="cuda")
    optimizer = torch.optim.Adam([w])
    side(optimizer.step)
    with (
        pytest.raises(RuntimeError, match="instance of Adam but param_groups' capturable is False"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        optimizer.step()
