"""nn.RNN, nn.GRU and nn.LSTM, whose layers are one op each: against their cells, and what autograd promises of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.autograd import forward_ad, gradcheck, gradgradcheck

pytestmark = pytest.mark.host  # on a device steps are ops of their own

KINDS = ["RNN", "relu", "GRU", "LSTM"]


def layers(kind: str, *sizes: int, **settings: Any) -> Any:
    if kind == "relu":
        kind, settings = "RNN", {**settings, "nonlinearity": "relu"}
    torch.manual_seed(1)
    return getattr(nn, kind)(*sizes, dtype=torch.float64, **settings)


def data(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def states_of(module: Any, n: int) -> tuple:
    directions = module.num_layers * (2 if module.bidirectional else 1)
    count = 2 if module.mode == "LSTM" else 1
    return tuple(data(directions, n, module.hidden_size) / (k + 1) for k in range(count))


def by_cells(module: Any, x: torch.Tensor, states: tuple) -> tuple:
    """The same by one cell for each layer and direction; x: [T, N, in]."""
    last = []
    for layer in range(module.num_layers):
        outs = []
        for way in range(2 if module.bidirectional else 1):
            cell = getattr(nn, type(module).__name__ + "Cell")(
                x.size(-1), module.hidden_size, bias=module.bias, dtype=x.dtype
            )
            if module.mode == "RNN_RELU":
                cell.nonlinearity = "relu"
            suffix = f"_l{layer}" + ("_reverse" if way else "")
            named = {k: getattr(module, k + suffix) for k, _ in cell.named_parameters()}
            at = layer * (2 if module.bidirectional else 1) + way
            state: Any = tuple(s[at] for s in states)
            steps = list(x.unbind(0))
            made = []
            for step in reversed(steps) if way else steps:
                given = state if len(state) == 2 else state[0]
                found = torch.func.functional_call(cell, named, (step, given))
                state = found if isinstance(found, tuple) else (found,)
                made.append(state[0])
            outs.append(torch.stack(made[::-1] if way else made))
            last.append(state)
        x = torch.cat(outs, -1)
    return (x, *(torch.stack(parts) for parts in zip(*last, strict=True)))


def run(module: Any, x: torch.Tensor, states: tuple) -> tuple:
    out, last = module(x, states if len(states) == 2 else states[0])
    return (out, *(last if isinstance(last, tuple) else (last,)))


def total(results: tuple) -> torch.Tensor:
    return sum(((r * r * (k + 1)).sum() for k, r in enumerate(results)), torch.zeros(()).double())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "n"), [(1, 1), (3, 4), (20, 1), (20, 4)])
def test_a_layer_is_what_its_cells_are(kind, steps, n):
    """Values and all gradients; with and without biases, of two layers, both ways."""
    for bias, both in product((True, False), repeat=2):
        module = layers(kind, 3, 5, num_layers=2, bias=bias, bidirectional=both)
        x = data(steps, n, 3).requires_grad_()
        states = tuple(s.requires_grad_() for s in states_of(module, n))
        wanted = by_cells(module, x, states)
        found = run(module, x, states)
        leaves = [x, *states, *module.parameters()]
        expected = torch.autograd.grad(total(wanted), leaves)
        gradients = torch.autograd.grad(total(found), leaves)
        for a, b in zip((*found, *gradients), (*wanted, *expected), strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_only_one_result_is_used(kind):
    """Gradients that do not come are none, of the results of steps and of last states alike."""
    module = layers(kind, 3, 4, bidirectional=True)
    x, states = data(5, 2, 3).requires_grad_(), states_of(module, 2)
    wanted, found = by_cells(module, x, states), run(module, x, states)
    for a, b in zip(found, wanted, strict=True):
        (first,) = torch.autograd.grad(a.square().sum(), x, retain_graph=True)
        (second,) = torch.autograd.grad(b.square().sum(), x, retain_graph=True)
        assert torch.allclose(first, second, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_long_sequences_go_in_runs(kind, monkeypatch):
    from gradlib.devices.numpy import recurrent_layers

    module = layers(kind, 3, 4)
    x, states = data(10, 2, 3).requires_grad_(), states_of(module, 2)
    results = []
    for cached in (recurrent_layers.CACHED, 100):
        monkeypatch.setattr(recurrent_layers, "CACHED", cached)
        found = run(module, x, states)
        results.append((*found, *torch.autograd.grad(total(found), [x, *module.parameters()])))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_both_orders_and_ways(kind):
    module = layers(kind, 2, 2, bidirectional=True)
    states = tuple(s.requires_grad_() for s in states_of(module, 2))
    x = data(2, 2, 2).requires_grad_()
    names = [name for name, _ in module.named_parameters()]

    def function(x, *rest):
        count = len(states)
        given = rest[:count] if count == 2 else rest[0]
        weights = dict(zip(names, rest[count:], strict=True))
        out, last = torch.func.functional_call(module, weights, (x, given))
        return (out, *(last if isinstance(last, tuple) else (last,)))

    inputs = (x, *states, *(p.detach().requires_grad_() for p in module.parameters()))
    assert gradcheck(function, inputs, fast_mode=True, check_forward_ad=True)
    assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("both", [False, True])
def test_packed_sequences_are_each_of_them_alone(kind, both):
    module = layers(kind, 3, 4, bidirectional=both)
    lengths = [7, 7, 3]
    x = data(7, 3, 3).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
    out, last = module(packed)
    padded, _ = nn.utils.rnn.pad_packed_sequence(out)
    alone = [module(x[:length, i : i + 1]) for i, length in enumerate(lengths)]
    for i, (length, (made, end)) in enumerate(zip(lengths, alone, strict=True)):
        assert torch.allclose(padded[:length, i : i + 1], made)
        ends = (last, end) if isinstance(last, torch.Tensor) else (last[1], end[1])
        assert torch.allclose(ends[0][:, i : i + 1], ends[1])
    leaves = [x, *module.parameters()]
    found = torch.autograd.grad(padded.square().sum(), leaves)
    wanted = torch.autograd.grad(sum(made.square().sum() for made, _ in alone), leaves)
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_results_may_be_changed_but_not_what_gradients_need(kind):
    module = layers(kind, 3, 4)
    x = data(5, 2, 3).requires_grad_()
    out, last = module(x)
    (wanted,) = torch.autograd.grad((3 * out).sum(), x, retain_graph=True)
    (again,) = torch.autograd.grad((3 * out).sum(), x, retain_graph=True)
    assert torch.equal(wanted, again)
    assert (module.weight_hh_l0.grad, x.grad) == (None, None)
    out.mul_(3)
    for state in last if isinstance(last, tuple) else (last,):
        state.zero_()
    (found,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    assert torch.allclose(found, wanted, rtol=1e-13)
    with torch.no_grad():
        module.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_a_freed_graph_says_so(kind):
    out, _ = layers(kind, 3, 4)(data(5, 2, 3))
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_per_sample_gradients_and_tangents(kind):
    module = layers(kind, 3, 4, batch_first=True)
    weights = {name: p.detach() for name, p in module.named_parameters()}
    x = data(3, 5, 3)

    def loss(weights, sample):
        return torch.func.functional_call(module, weights, (sample,))[0].square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for i, sample in enumerate(x):
        alone = torch.func.grad(loss)(weights, sample)
        assert all(torch.allclose(found[name][i], alone[name]) for name in weights)
    with forward_ad.dual_level():
        made = module(forward_ad.make_dual(x, torch.ones_like(x)))[0]
        tangent = forward_ad.unpack_dual(made).tangent
    _, wanted = torch.autograd.functional.jvp(lambda x: module(x)[0], x, torch.ones_like(x))
    assert torch.allclose(tangent, wanted)


def test_saved_tensors_pass_the_hooks():
    module, x = layers("LSTM", 3, 4), data(5, 2, 3).requires_grad_()
    (wanted,) = torch.autograd.grad(module(x)[0].sum(), x)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or t.clone(), lambda t: t
    ):
        out = module(x)[0]
    assert len(packed) > 5
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], wanted)


def test_weights_that_do_not_fit_say_so():
    module, x = layers("GRU", 3, 4), data(5, 2, 3)
    weights = list(module.parameters())
    settings = True, 1, 0.0, False, False, False
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.gru(x, data(1, 2, 5), weights, *settings)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.gru(data(5, 2, 4), data(1, 2, 4), weights, *settings)
