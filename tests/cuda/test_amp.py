"""Mixed precision: autocast and GradScaler, on the CPU and on the simulated device."""

from __future__ import annotations

import _thread
import gc
import inspect
import sys
import threading
import weakref

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.amp import _casts, _policy, autocast_mode
from gradlib.autograd import Function
from gradlib.nn import functional as F
from gradlib.op.declare import REGISTRY
from gradlib.tape import override, source
from gradlib.tape.modes import shared, state
from gradlib.utils.checkpoint import checkpoint

HALF, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


def rand(*shape, dtype=F32, device="cpu"):
    return (torch.rand(*shape) + 0.1).to(dtype).to(device)


# -- autocast ----------------------------------------------------------------------------------------------------------


def test_what_ops_declare_is_a_policy():
    declared = [op.autocast for op in REGISTRY.values() if isinstance(op.autocast, str)]
    assert sum(bool(_policy.by_device(text)) for text in declared) > 90
    for device in _policy.FUNCTIONS:
        assert any(device in policies for policies in autocast_mode._listed().values())


def test_policies_of_device_types():
    assert _policy.by_device("lower") == {"cpu": _policy.LOWER, "cuda": _policy.LOWER}
    assert _policy.by_device("cuda:promote") == {"cuda": _policy.WIDEST}
    assert _policy.by_device("cpu:float32 cuda:refuse") == {
        "cpu": _policy.FLOAT32,
        "cuda": _policy.REFUSED,
    }
    for wrong in ("higher", "tpu:lower", "cpu:"):
        with pytest.raises(ValueError, match="unknown autocast policy"):
            _policy.by_device(wrong)


def test_products_and_losses_on_the_cpu():
    x, w = rand(2, 3), rand(3, 4)
    with torch.autocast("cpu"):
        assert torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cpu") is BF16
        y = x @ w
        assert y.dtype is BF16
        assert (y + 1).dtype is BF16
        assert F.mse_loss(y, y * 0).dtype is F32
        assert F.l1_loss(y, y * 0).dtype is F32
        assert torch.cat([x @ w, x @ w.float(), rand(2, 4)]).dtype is F32
        assert (x.double() @ w.double()).dtype is F64
        assert x.addmm(rand(2, 2), rand(2, 3)).dtype is BF16
        with torch.autocast("cpu", dtype=HALF):
            assert (x @ w).dtype is HALF
        with torch.autocast("cpu", enabled=False):
            assert (x @ w).dtype is F32 and not torch.is_autocast_enabled("cpu")
        assert (x @ w).dtype is BF16
    assert (x @ w).dtype is F32
    assert not state.interposers and not shared.active


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_products_softmax_and_losses_on_cuda(dtype, cuda):
    x, w = rand(2, 3, device="cuda"), rand(3, 4, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        y = x @ w
        assert y.dtype is dtype
        for low in (F.linear(x, w.t()), x.mv(w[:, 0]), torch.einsum("ij,jk->ik", x, w)):
            assert low.dtype is dtype
        for wide in (
            y.softmax(-1), y.exp(), y.log(), y.sum(), y.pow(2), y.norm(), y.cumsum(0), F.layer_norm(y, (4,)),
            F.cosine_similarity(y, y), F.cross_entropy(y, torch.tensor([0, 1], device="cuda")),
        ):  # fmt: skip
            assert wide.dtype is F32
        for same in (y.relu(), y * 2, F.gelu(y), y.mean()):
            assert same.dtype is dtype
        assert torch.addcmul(x, y[:, :3], x).dtype is F32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(y.sigmoid(), y.sigmoid())
        assert (rand(2, 3) @ rand(3, 2)).dtype is F32  # the CPU is another device type


def test_gradients_reach_float32_leaves():
    w = torch.ones(3, 4, requires_grad=True)
    x = rand(2, 3)
    with torch.autocast("cpu"):
        loss = (x @ w).float().sum()
    loss.backward()
    assert w.grad.dtype is F32
    assert torch.allclose(w.grad, x.to(BF16).float().sum(0)[:, None].expand(3, 4), rtol=1e-2)


def test_parameters_are_cast_once():
    w = torch.ones(3, 3, requires_grad=True)
    x = rand(2, 3)

    def cast_of(y):
        return y.grad_fn.next_functions[1][0]

    with torch.autocast("cpu"):
        first, second = x @ w, x @ w
        assert cast_of(first) is cast_of(second)
        with torch.autocast("cpu"):
            assert cast_of(x @ w) is cast_of(first)
        with torch.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad
        with torch.no_grad():
            w.mul_(0)
        assert (x @ w).sum().item() == 0  # written since: cast anew
    with torch.autocast("cpu"):
        assert cast_of(x @ w) is not cast_of(first)
    with torch.autocast("cpu", cache_enabled=False):
        assert cast_of(x @ w) is not cast_of(x @ w)
    assert not _casts.casts.kept
    (first.sum() + second.sum()).backward()
    for _ in range(2):
        with torch.autocast("cpu"):  # several passes over one cast
            (x @ w).sum().backward()
            (x @ w).sum().backward()
    assert w.grad.abs().sum().item() > 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_call_and_its_casts_are_looked_for_once(device, cuda, monkeypatch):
    w, b = (torch.ones(n, requires_grad=True, device=device) for n in ((3, 3), (3,)))
    x, found = torch.ones(2, 3, device=device, requires_grad=True), []
    above = source._above
    monkeypatch.setattr(source, "_above", lambda frame: found.append(0) or above(frame))
    for _ in range(2):  # the second time the casts of both parameters are one launch
        with torch.autocast(device, torch.bfloat16):
            y = nn.Sequential(torch.nn.Identity())(F.linear(x * 1, w, b))
            with torch.no_grad():
                F.linear(x, w, b)
            with pytest.raises(RuntimeError):
                F.linear(x, w[:, :2], b)
        assert state.site is None
    # a recorded product of numbers, the layer, the layer that fails; on CUDA no frame of autocast is looked at
    assert len(found) == (2 * 3 if device == "cpu" else 0)
    nodes = [y.grad_fn, *(node for node, _ in y.grad_fn.next_functions)]
    assert [n.name() for n in nodes[1:]] == ["ToCopyBackward0"] * 3
    lines = {source.describe(n.site) for n in nodes}
    assert len(lines) == 1 and "y = nn.Sequential" in lines.pop()


class Looks(dict):
    """What `source.user_frame` knows of files, and the files of the frames that it was asked about."""

    def get(self, name, default=None):
        self.names = [*getattr(self, "names", ()), name]
        return super().get(name, default)


def test_no_frame_of_autocast_is_looked_at_on_cuda(cuda, monkeypatch):
    x, w = (torch.ones(3, 3, requires_grad=True, device="cuda") for _ in range(2))
    x * w + w * 2, F.linear(x, w)  # their code is written
    looks = Looks(source.LIBRARY)
    monkeypatch.setattr(source, "LIBRARY", looks)
    with torch.autocast("cuda", torch.bfloat16):
        product, number = x * w, w * 2
        # of each call one frame, that of this function; and where classes of tensors are asked first, theirs
        assert {n for n in looks.names if not n.endswith("override.py")} == {__file__}
        layer = F.linear(x, w)
        lowered = layer * layer + layer  # what is of one half type already
        assert not [n for n in looks.names if "_cast" in n or "interpret" in n or "<gradlib" in n]
    lines = [source.describe(y.grad_fn.site) for y in (product, number, layer, lowered)]
    assert all("in test_no_frame_of_autocast_is_looked_at_on_cuda" in line for line in lines)
    told = ["product, number = x * w", "w * 2", "layer = F.linear", "layer * layer + layer"]
    assert all(text in line for text, line in zip(told, lines, strict=True))


def test_a_thread_whose_function_is_an_op(cuda, monkeypatch):
    """There is no frame above those of the library."""
    failed, x = [], torch.ones(3, requires_grad=True, device="cuda")
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    for other in (x, 2):
        given, done = torch.ones(3, requires_grad=True, device="cuda"), threading.Event()
        given * other
        weakref.finalize(given, done.set)  # when the thread has ended
        _thread.start_new_thread(torch.mul, (given, other))
        del given
        assert done.wait(60) and not failed
    assert source.user_frame_above(10**6) is sys._getframe()


def test_functions_of_several_ops_are_cast_as_a_whole():
    x, y = rand(4, 3, dtype=BF16), rand(4, 3, dtype=BF16)

    def inside(a, b):  # a program's own function of the same ops
        return (a - b).abs().mean()

    for _ in range(2):
        with torch.autocast("cpu"):
            assert F.l1_loss(x, y).dtype is F32 and inside(x, y).dtype is BF16
            # the float32 function inside the one that is left alone, and back
            assert F.cosine_embedding_loss(x, y, torch.ones(4)).dtype is F32
            assert (x * y).dtype is BF16
            with torch.autocast("cpu", enabled=False):
                assert F.l1_loss(x, y).dtype is BF16
            with pytest.raises(AttributeError):
                F.cosine_similarity(x, None)
            assert state.cast_as is None
        assert F.l1_loss(x, y).dtype is BF16
        with (
            override.for_now(),
            torch.autocast("cpu"),
        ):  # functions that ask classes that override them
            assert F.l1_loss(x, y).dtype is F32 and inside(x, y).dtype is BF16
    assert list(inspect.signature(F.l1_loss).parameters)[:2] == ["input", "target"]


def test_the_cache_keeps_no_parameter_alive():
    with torch.autocast("cpu"):
        w = torch.ones(3, 3, requires_grad=True)
        rand(2, 3) @ w
        gone = weakref.ref(w)
        torch.clear_autocast_cache()
        del w
        gc.collect()
        assert gone() is None


def test_decorator_nesting_and_exceptions():
    @torch.autocast("cpu")
    def product(x):
        """Docs."""
        assert torch.is_autocast_enabled("cpu")
        return x @ x

    assert product(rand(2, 2)).dtype is BF16 and product.__doc__ == "Docs."
    with pytest.raises(ValueError, match="x"), torch.autocast("cpu"):
        raise ValueError("x")
    assert not torch.is_autocast_enabled("cpu")
    mode = torch.autocast("cpu")
    with mode, mode:
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


def test_it_belongs_to_the_thread():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((rand(2, 2) @ rand(2, 2)).dtype))
        thread.start()
        thread.join()
    assert seen == [F32]


def test_setting_the_state_by_hand():
    torch.set_autocast_enabled("cpu", True)
    try:
        assert (rand(2, 2) @ rand(2, 2)).dtype is BF16
        torch.set_autocast_dtype("cpu", HALF)
        assert (rand(2, 2) @ rand(2, 2)).dtype is HALF
    finally:
        torch.set_autocast_dtype("cpu", BF16)
        torch.set_autocast_enabled("cpu", False)
    assert torch.is_autocast_cache_enabled()
    assert torch.amp.is_autocast_available("cuda") and torch.amp.is_autocast_available("cpu")
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.amp.is_autocast_available("abacus")
    with pytest.raises(TypeError, match="must be bool"):
        torch.set_autocast_enabled("cpu")
    with pytest.warns(DeprecationWarning, match="is_autocast_cpu_enabled"):
        assert not torch.is_autocast_cpu_enabled()
    with pytest.warns(DeprecationWarning, match="get_autocast_gpu_dtype"):
        assert torch.get_autocast_gpu_dtype() is HALF


def test_what_autocast_refuses():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(3)
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.autocast("abacus")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        mode = torch.autocast("cpu", dtype=F32)
    with mode:
        assert (rand(2, 2) @ rand(2, 2)).dtype is F32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        torch.autocast("cuda")


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_are_computed_again_under_the_same_autocast(reentrant):
    w = torch.ones(3, 3, requires_grad=True)
    x = rand(2, 3).requires_grad_()
    seen = []

    def part(x):
        y = x @ w
        seen.append(y.dtype)
        return y.exp()

    with torch.autocast("cpu"):
        y = checkpoint(part, x, use_reentrant=reentrant)
    y.sum().backward()
    assert seen == [BF16, BF16]
    assert w.grad.dtype is F32 and x.grad.dtype is F32


def test_vmap_and_modules_under_autocast():
    w = torch.ones(3, 3)
    with torch.autocast("cpu"):
        assert torch.vmap(lambda row: row @ w)(rand(4, 3)).dtype is BF16
        lstm = nn.LSTM(3, 4)
        out, (h, c) = lstm(rand(2, 1, 3))
        assert {out.dtype, h.dtype, c.dtype} == {BF16}
        out.float().sum().backward()
    assert lstm.weight_ih_l0.grad.dtype is F32


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LayerNorm(6), lambda: nn.GroupNorm(2, 6), lambda: nn.BatchNorm1d(6), lambda: nn.RMSNorm(6),
        lambda: nn.PReLU(),
    ],
)  # fmt: skip
def test_second_derivatives_through_layers_with_float32_parameters(layer):
    model = nn.Sequential(nn.Linear(6, 6), layer(), nn.Linear(6, 3))
    parameters = list(model.parameters())
    with torch.autocast("cpu"):
        loss = model(rand(4, 6)).float().pow(2).sum()
    grads = torch.autograd.grad(loss, parameters, create_graph=True)
    assert all(g.dtype is F32 for g in grads)
    again = torch.autograd.grad(sum((g * g).sum() for g in grads), parameters, allow_unused=True)
    assert all(g is None or g.dtype is F32 for g in again)


class Product(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        Product.seen.append((torch.is_autocast_enabled("cpu"), g.mm(b.t()).dtype))
        return g.mm(b.t()), a.t().mm(g)


class Exact(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=F32)
    def forward(ctx, a, b):
        Product.seen.append((torch.is_autocast_enabled("cpu"), a.dtype, b.dtype))
        return a.mm(b)


def test_custom_functions():
    Product.seen = []
    a, b = rand(2, 3).requires_grad_(), rand(3, 2)
    with torch.autocast("cpu"):
        y = Product.apply(a, b)
        assert y.dtype is BF16
        assert Exact.apply(a.bfloat16(), b).dtype is F32
    y.sum().backward()
    assert Product.seen == [(False, F32, F32), (True, BF16)]
    assert a.grad.dtype is F32
    assert Product.apply(a, b).dtype is F32


def test_older_names(cuda):
    with pytest.warns(FutureWarning, match="deprecated"):
        mode = torch.cuda.amp.autocast()
    with mode:
        assert (rand(2, 2, device="cuda") @ rand(2, 2, device="cuda")).dtype is HALF
    with pytest.warns(FutureWarning, match="deprecated"):
        assert torch.cuda.amp.GradScaler().is_enabled()


# -- GradScaler --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_scaling_growth_and_backoff(device, cuda):
    w = torch.ones(3, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
    history = []
    for k in range(6):
        optimizer.zero_grad()
        loss = (w * (float("nan") if k == 3 else 1.0)).sum()
        scaled = scaler.scale(loss)
        assert k == 3 or scaled.item() == loss.item() * scaler.get_scale()
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        history.append((w[0].item(), scaler.get_scale()))
    assert history == [(0.5, 4.0), (0.0, 8.0), (-0.5, 8.0), (-0.5, 4.0), (-1.0, 4.0), (-1.5, 8.0)]
    assert scaler.state_dict()["_growth_tracker"] == 0


def test_unscale_and_clip():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale((w * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [3.0, 3.0]
    nn.utils.clip_grad_norm_([w], 1.0)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    assert w.tolist() == pytest.approx([1 - 0.5**0.5] * 2)


def test_scaler_of_nested_outputs_and_errors():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    one, (two,) = scaler.scale([torch.ones(1), (torch.ones(2),)])
    assert one.item() == 2.0 and two.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="must be a Tensor or an iterable"):
        scaler.scale("text")
    fresh = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    for use in (fresh.update, lambda: fresh.step(optimizer), lambda: fresh.unscale_(optimizer)):
        with pytest.raises(AssertionError, match="_scale is None"):
            use()
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    half = torch.ones(1, dtype=HALF, requires_grad=True)
    half.grad = torch.ones(1, dtype=HALF)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(torch.optim.SGD([half], lr=1.0))
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(AssertionError, match="growth factor"):
        torch.amp.GradScaler("cpu", growth_factor=1.0)


def test_scaler_state():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=7)
    scaler.scale(torch.ones(1))
    scaler.update(16.0)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 16.0 and other.get_growth_interval() == 7
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0 and off.scale(3) == 3
    w = torch.ones(1, requires_grad=True)
    w.grad = torch.ones(1)
    off.step(torch.optim.SGD([w], lr=1.0))
    assert w.item() == 0.0
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not torch.amp.GradScaler().is_enabled()


def test_an_optimizer_that_takes_the_scale_itself():
    seen = []

    class Fused(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self):
            seen.append((self.grad_scale.item(), self.found_inf.item()))

    w = torch.ones(1, requires_grad=True)
    optimizer = Fused([w], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for factor in (1.0, float("inf")):
        w.grad = None
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert seen == [(8.0, 0.0), (8.0, 1.0)]
    assert scaler.get_scale() == 4.0
    assert not hasattr(optimizer, "grad_scale")


def test_capturable_optimizers_are_stepped_without_waiting(lazy_cuda, monkeypatch):
    with lazy_cuda(3) as cp:
        w = torch.ones(4, device="cuda", requires_grad=True)
        optimizer = torch.optim.Adam([w], lr=0.1, capturable=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
        values = []
        for factor in (1.0, float("nan"), 1.0):
            monkeypatch.setattr(cp.cuda.Stream, "synchronize", lambda *_: pytest.fail("waited"))
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            monkeypatch.undo()
            values.append(round(w[0].item(), 4))
        assert values == [0.9, 0.9, 0.8]
        assert optimizer.state[w]["step"].item() == 2.0
        assert scaler.get_scale() == 2.0
