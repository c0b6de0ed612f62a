"""Dry runs: what cannot be captured is known beforehand."""

from __future__ import annotations

import pytest
from samples import on_device, samples_of

import gradlib as torch
from gradlib.cuda import inspection as dry
from gradlib.op.declare import REGISTRY
from gradlib.tape.modes import shared


def test_dry_run_on_the_cpu():
    w = torch.ones(3, requires_grad=True)

    def step(x):
        loss = (w * x).sum()
        loss.backward()
        return loss.item(), x.nonzero()

    plain = torch.Tensor.item
    found = torch.cuda.dry_run(step, torch.ones(3))
    assert [f.what for f in found] == ["Tensor.item", "nonzero"]
    assert "return loss.item(), x.nonzero()" in found[0].where
    assert torch.cuda.dry_run(lambda: (w * 2).sum().backward()) == []
    assert torch.Tensor.item is plain  # nothing is left behind


def test_capturable_optimizers_step_in_a_dry_run_on_the_cpu():
    w = torch.ones(3, requires_grad=True, device="cpu")
    w.grad = torch.ones_like(w)
    optimizer = torch.optim.Adam([w], lr=0.5, capturable=True)
    assert torch.cuda.dry_run(optimizer.step) == []
    assert w.tolist() == pytest.approx([0.5] * 3, abs=1e-4)
    with pytest.raises(AssertionError, match="If capturable=True"):
        optimizer.step()


def refused_in_capture(cuda, name, stream) -> bool:
    """Whether a capture refuses an op on a sample that its arguments do not rule out."""
    op = REGISTRY[name]
    for args in samples_of(op):
        given = on_device(op, args, torch.device("cuda"))
        n = 1 if op.variadic else len(op.tensors)
        if not dry.never(op) and dry.reason(op, given[:n], given[n:]):
            continue
        with stream:
            op.call(*given)  # tables are made
            stream.begin_capture()
            shared.cuda.held = []
            refused = False
            try:
                op.call(*given)
            except (RuntimeError, NotImplementedError):
                refused = True
            shared.cuda.held = None
            try:
                stream.end_capture()
            except RuntimeError:
                refused = True
            if refused:
                return True
    return False


LETTERS = "acdfilmnoprstu"


@pytest.mark.parametrize("first", LETTERS + "z")
def test_what_ops_declare_is_what_the_device_refuses(first, cuda):
    """Every op that is refused in a capture says so, and no other does."""
    torch.ones(1, device="cuda")
    stream = cuda.cuda.Stream(non_blocking=True)
    names = [n for n in REGISTRY if (n[0] if n[0] in LETTERS else "z") == first]
    refused = {n for n in names if refused_in_capture(cuda, n, stream)}
    assert refused == {n for n in names if dry.never(REGISTRY[n])}


def test_reasons_are_what_holds_an_op_up():
    """A mask decides how many elements are picked, but not which size masked_scatter gives."""
    x, mask = torch.zeros(3), torch.tensor([True, False, True])
    assert torch.cuda.dry_run(lambda: x.masked_scatter(mask, torch.ones(3))) == []
    g = torch.autograd.grad
    y = x.requires_grad_().masked_select(mask)
    (found,) = torch.cuda.dry_run(lambda: g(y.sum(), x))
    assert "how many elements the mask takes" in found.why
    x = x.detach()
    (found,) = torch.cuda.dry_run(lambda: x.masked_select(mask))
    assert "the shape of its result" in found.why
    assert {op.name for op in REGISTRY.values() if op.dynamic} == {
        "masked_select", "nonzero", "unique", "unique_consecutive",
    }  # fmt: skip


def test_a_number_of_the_cpu_that_is_written_to_the_device(cuda):
    x, index = torch.zeros(3, device="cuda"), torch.tensor([0, 2], device="cuda")
    found = torch.cuda.dry_run(lambda: x.index_put_((index,), torch.tensor(1.0)))
    assert [f.why for f in found] == ["it copies between the host and the device"]
    assert torch.cuda.dry_run(lambda: x.index_put_((index,), torch.ones(2, device="cuda"))) == []


@pytest.mark.parametrize(
    "name",
    "poisson binomial multinomial bernoulli normal fractional_max_pool2d embedding_bag".split(),
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_functions_that_read_values_themselves(name, device, request):
    """They are no ops: a dry run hears of them, as a capture refuses them."""
    if device == "cuda":
        request.getfixturevalue("cuda")
    x = torch.ones(4, device=device)
    words, where = torch.ones(3, 2, device=device), torch.tensor([0, 1], device=device)
    calls = {
        "poisson": lambda: torch.poisson(x),
        "binomial": lambda: torch.binomial(x, x / 2),
        "multinomial": lambda: torch.multinomial(x, 2),
        "bernoulli": lambda: torch.bernoulli(x / 2),
        "normal": lambda: torch.normal(x, x),
        "fractional_max_pool2d": lambda: torch.nn.functional.fractional_max_pool2d(
            x.reshape(1, 1, 2, 2), 1, 1
        ),
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(where, words, where),
    }
    found = torch.cuda.dry_run(calls[name])
    assert name in [f.what for f in found]
    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(RuntimeError), torch.cuda.graph(graph):
            calls[name]()
    assert torch.cuda.dry_run(lambda: torch.rand(3, device=device)) == []
