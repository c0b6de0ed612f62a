"""nn.utils: clipping, vectors, sequences, parametrisations; DataParallel."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gradlib
from gradlib import nn
from gradlib.nn.utils import parametrize
from gradlib.nn.utils import rnn as sequences


def with_gradients(*values):
    params = []
    for value in values:
        p = gradlib.zeros(len(value), requires_grad=True)
        p.grad = gradlib.tensor(value)
        params.append(p)
    return params


def test_clip_grad_norm():
    params = with_gradients([3.0], [0.0, 4.0])
    held, version = params[0].grad, params[0].grad._version
    assert nn.utils.clip_grad_norm_(params, 1.0).item() == pytest.approx(5.0)
    np.testing.assert_allclose(params[1].grad.tolist(), [0.0, 0.8], rtol=1e-5)
    assert params[0].grad is held
    assert held._version > version
    before = held.tolist()
    nn.utils.clip_grad_norm_(params, 10.0)
    assert held.tolist() == before
    assert nn.utils.clip_grad_norm_(with_gradients([3.0, -4.0]), 1.0, float("inf")).item() == 4.0


def test_clip_grad_norm_of_nothing_and_of_nan():
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0.0
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(with_gradients([float("nan")]), 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    (p,) = with_gradients([3.0, -3.0, 0.5])
    nn.utils.clip_grad_value_(p, 1.0)
    assert p.grad.tolist() == [1.0, -1.0, 0.5]


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    nn.utils.vector_to_parameters(gradlib.arange(3.0), net.parameters())
    assert net.weight.tolist() == [[0.0, 1.0]]
    assert net.bias.tolist() == [2.0]
    assert nn.utils.parameters_to_vector(net.parameters()).tolist() == [0.0, 1.0, 2.0]


def test_packing_round_trip():
    rows = [gradlib.arange(2.0), gradlib.arange(3.0), gradlib.arange(1.0)]
    padded = sequences.pad_sequence(rows, batch_first=True, padding_value=-1.0)
    assert padded.tolist() == [[0.0, 1.0, -1.0], [0.0, 1.0, 2.0], [0.0, -1.0, -1.0]]
    left = sequences.pad_sequence(rows, batch_first=True, padding_side="left")
    assert left[0].tolist() == [0.0, 0.0, 1.0]
    packed = sequences.pack_sequence(rows, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert [r.tolist() for r in sequences.unpack_sequence(packed)] == [r.tolist() for r in rows]
    again, lengths = sequences.pad_packed_sequence(packed, total_length=4)
    assert tuple(again.shape) == (4, 3)
    assert lengths.tolist() == [2, 3, 1]
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        sequences.pack_sequence(rows)
    with pytest.raises(RuntimeError, match="has to be greater than 0"):
        sequences.pack_padded_sequence(gradlib.ones(3, 2), [3, 0])


def test_gradients_flow_through_packing():
    x = gradlib.ones(3, 2, requires_grad=True)
    packed = sequences.pack_padded_sequence(x, [3, 1])
    packed.data.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, x):
        return x.triu()


def test_parametrisation():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    layer.weight = gradlib.tensor([[1.0, 2.0], [2.0, 3.0]])
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert [n for n, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.original",
    ]
    layer(gradlib.ones(1, 2)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    with parametrize.cached():
        assert layer.weight is layer.weight
    twin = copy.deepcopy(layer)
    twin.parametrizations.weight.original.data.zero_()
    assert layer.weight[0, 0].item() == 1.0
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0]]


def test_parametrisation_may_not_change_shape_or_dtype():
    class Row(nn.Module):
        def forward(self, x):
            return x[0]

    with pytest.raises(ValueError, match="may not change the shape of the tensor"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Row())


def test_weight_norm_both_interfaces():
    for interface in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):
        layer = nn.Linear(3, 2)
        expected = layer.weight.detach().clone()
        if interface is nn.utils.weight_norm:
            with pytest.warns(FutureWarning, match="is deprecated in favor of"):
                interface(layer)
            g = layer.weight_g
        else:
            interface(layer)
            g = layer.parametrizations.weight.original0
        np.testing.assert_allclose(layer.weight.tolist(), expected.tolist(), rtol=1e-6)
        assert tuple(g.shape) == (2, 1)
        g.data.mul_(2.0)
        layer(gradlib.ones(1, 3))
        np.testing.assert_allclose(layer.weight.tolist(), (2 * expected).tolist(), rtol=1e-5)
    layer = nn.Linear(3, 2)
    with pytest.warns(FutureWarning, match="weight_norm"):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight"]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_weight_norm_has_second_derivatives(dim):
    v = gradlib.tensor([[1.0, 2.0, -1.0], [3.0, -1.0, 0.5]], dtype=gradlib.float64)
    g = gradlib.tensor([[1.5], [-2.0]], dtype=gradlib.float64)
    g = g if dim == 0 else gradlib.ones(1, 3, dtype=gradlib.float64) if dim == 1 else g[:1, 0].sum()
    given = (v.requires_grad_(), g.requires_grad_())
    assert gradlib.autograd.gradgradcheck(lambda v, g: gradlib._weight_norm(v, g, dim), given)


def test_spectral_norm_both_interfaces():
    for interface in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        layer = interface(nn.Linear(4, 3), n_power_iterations=50)
        layer(gradlib.ones(1, 4))
        largest = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)[0]
        assert largest == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal(kind):
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5).double(), orthogonal_map=kind)
    w = layer.weight.detach().numpy()
    np.testing.assert_allclose(w.T @ w, np.eye(3), atol=1e-10)


def test_skip_init_draws_nothing():
    gradlib.manual_seed(3)
    expected = gradlib.rand(1).item()
    gradlib.manual_seed(3)
    layer = nn.utils.skip_init(nn.Linear, 3, 2)
    assert type(layer) is nn.Linear
    assert gradlib.rand(1).item() == expected


def test_functional_call_puts_everything_back():
    layer = nn.Linear(1, 1, bias=False)
    held = layer.weight
    w = gradlib.full((1, 1), 5.0, requires_grad=True)
    out = nn.utils.stateless.functional_call(layer, {"weight": w}, gradlib.ones(1))
    assert out.tolist() == [5.0]
    assert layer.weight is held
    out.sum().backward()
    assert w.grad.tolist() == [[1.0]]
    with pytest.raises(AttributeError, match="has no attribute `nothing`"):
        nn.utils.stateless.functional_call(layer, {"nothing": w}, gradlib.ones(1))


@pytest.mark.first_device
def test_data_parallel_without_devices_calls_the_module():
    net = nn.Linear(2, 2)
    x = gradlib.ones(4, 2)
    parallel = nn.DataParallel(net)
    assert parallel(x).tolist() == net(x).tolist()
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]


@pytest.mark.first_device
def test_data_parallel_in_two_threads():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).double()
    here = gradlib.zeros(1).device
    parallel = nn.DataParallel(net, device_ids=[here, here])
    x = gradlib.randn(5, 2, dtype=gradlib.float64)
    packs = []

    def pack(t):
        packs.append(1)
        return t

    with gradlib.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = parallel(x)
    assert packs == []  # hooks of this thread do not reach the others
    np.testing.assert_allclose(out.tolist(), net(x).tolist(), rtol=1e-14)
    out.sum().backward()
    got = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    for a, p in zip(got, net.parameters()):
        np.testing.assert_allclose(a, p.grad.tolist(), rtol=1e-12)
    with gradlib.no_grad():
        assert not parallel(x).requires_grad


@pytest.mark.parametrize("kind", ["householder", "matrix_exp", "cayley"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_an_orthogonal_weight_stays_when_it_is_parametrised(kind, shape):
    layer = nn.Linear(shape[1], shape[0]).double()
    q = gradlib.linalg.qr(gradlib.randn(max(shape), min(shape)).double())[0]
    with gradlib.no_grad():
        layer.weight.copy_(q if shape[0] >= shape[1] else q.T)
    before = layer.weight.detach().clone()
    nn.utils.parametrizations.orthogonal(layer, orthogonal_map=kind)
    gradlib.testing.assert_close(layer.weight.detach(), before)
