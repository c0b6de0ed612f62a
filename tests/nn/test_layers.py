"""Layers: values that can be checked by hand, shapes, error texts, printing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib
from gradlib import nn


def fixed(layer, **values):
    """A layer with given parameters."""
    for name, value in values.items():
        getattr(layer, name).data = gradlib.tensor(value)
    return layer


def test_linear():
    layer = fixed(nn.Linear(2, 1), weight=[[1.0, 2.0]], bias=[3.0])
    x = gradlib.tensor([[1.0, 1.0], [0.0, 2.0]])
    out = layer(x)
    assert out.tolist() == [[6.0], [7.0]]
    out.sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 3.0]]
    assert layer.bias.grad.tolist() == [2.0]
    assert nn.Linear(2, 3, bias=False).bias is None


def test_linear_with_a_replaced_weight():
    layer = fixed(nn.Linear(1, 1), weight=[[2.0]], bias=[0.0])
    del layer.weight
    layer.weight = gradlib.tensor([[5.0]])
    assert layer(gradlib.ones(1)).tolist() == [5.0]


def test_conv2d_sums_windows():
    layer = fixed(nn.Conv2d(1, 1, 2, bias=False), weight=[[[[1.0, 1.0], [1.0, 1.0]]]])
    x = gradlib.arange(9.0).reshape(1, 1, 3, 3)
    assert layer(x).tolist() == [[[[8.0, 12.0], [20.0, 24.0]]]]


def test_batch_norm_keeps_running_statistics():
    layer = nn.BatchNorm1d(1)
    out = layer(gradlib.tensor([[0.0], [2.0]]))
    np.testing.assert_allclose(out.tolist(), [[-1.0], [1.0]], atol=1e-4)
    assert layer.running_mean.tolist() == pytest.approx([0.1])
    assert layer.running_var.tolist() == pytest.approx([1.1])
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    layer(gradlib.tensor([[5.0], [7.0]]))
    assert layer.running_mean.tolist() == pytest.approx([0.1])
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 1D input\)"):
        layer(gradlib.ones(1))


def test_averaging_batch_norm():
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 3.0):
        layer(gradlib.full((2, 1), value))
    assert layer.running_mean.tolist() == pytest.approx([2.0])


def test_layer_norm():
    out = nn.LayerNorm(2)(gradlib.tensor([[1.0, 3.0]]))
    np.testing.assert_allclose(out.tolist(), [[-1.0, 1.0]], atol=1e-4)


def test_embedding_and_padding():
    layer = nn.Embedding(3, 2, padding_idx=-1)
    assert layer.weight[2].tolist() == [0.0, 0.0]
    layer(gradlib.tensor([0, 2, 0])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    table = gradlib.ones(2, 2)
    frozen = nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad
    assert frozen(gradlib.tensor(1)).tolist() == [1.0, 1.0]


def test_dropout_by_mode():
    layer = nn.Dropout(0.5)
    x = gradlib.ones(1000)
    values = set(layer(x).tolist())
    assert values == {0.0, 2.0}
    assert layer.eval()(x).tolist() == x.tolist()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        nn.Dropout(2.0)


def test_pools():
    x = gradlib.tensor([[[1.0, 3.0, 2.0, 0.0]]])
    assert nn.MaxPool1d(2)(x).tolist() == [[[3.0, 2.0]]]
    assert nn.AvgPool1d(2)(x).tolist() == [[[2.0, 1.0]]]
    assert nn.AdaptiveAvgPool1d(1)(x).tolist() == [[[1.5]]]
    _, where = nn.MaxPool1d(2, return_indices=True)(x)
    assert where.tolist() == [[[1, 2]]]


def test_losses():
    logits, target = gradlib.zeros(2, 4), gradlib.tensor([0, 3])
    assert nn.CrossEntropyLoss()(logits, target).item() == pytest.approx(math.log(4))
    assert nn.MSELoss()(gradlib.zeros(2), gradlib.full((2,), 3.0)).item() == 9.0
    assert nn.L1Loss(reduction="sum")(gradlib.zeros(2), gradlib.ones(2)).item() == 2.0
    weighted = nn.CrossEntropyLoss(weight=gradlib.tensor([1.0, 1.0, 1.0, 0.0]))
    assert "weight" in dict(weighted.named_buffers())
    assert weighted(logits, target).item() == pytest.approx(math.log(4))
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"


def test_attention_is_a_mean_when_all_keys_are_equal():
    layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = gradlib.ones(1, 3, 4)
    out, weights = layer(x, x, x)
    assert tuple(out.shape) == (1, 3, 4)
    np.testing.assert_allclose(weights.tolist(), np.full((1, 3, 3), 1 / 3), rtol=1e-6)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(5, 2)


def test_causal_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(2)
    assert mask.tolist() == [[0.0, -math.inf], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by gr"),
        (
            lambda: nn.Conv2d(4, 4, 3, stride=2, padding="same"),
            ValueError,
            "padding='same' is not supported for strided convolutions",
        ),
        (lambda: nn.GroupNorm(3, 4), ValueError, "must be divisible by num_groups"),
        (lambda: nn.LSTM(2, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(2.5, 3), TypeError, "input_size should be of type int, got: float"),
        (lambda: nn.GRU(2, 3, proj_size=1), ValueError, "only supported for LSTM"),
        (lambda: nn.Unflatten(1, 3), TypeError, "unflattened_size must be a tuple of ints"),
        (lambda: nn.TripletMarginLoss(-1.0), ValueError, "expected margin to be greater than 0"),
    ],
)
def test_wrong_settings(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.Linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)"),
        (
            nn.Conv2d(2, 4, 3, padding=1, groups=2, bias=False),
            "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2, bias=False)",
        ),
        (nn.LayerNorm(3), "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (nn.Embedding(3, 4, padding_idx=1), "Embedding(3, 4, padding_idx=1)"),
        (nn.LSTM(2, 3, 2, batch_first=True), "LSTM(2, 3, num_layers=2, batch_first=True)"),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (nn.GELU(), "GELU(approximate='none')"),
    ],
)
def test_repr(layer, text):
    assert repr(layer) == text


def test_tanh_rnn_by_hand():
    net = nn.RNN(1, 1)
    for p in net.parameters():
        p.data.fill_(1.0)
    out, h = net(gradlib.zeros(2, 1, 1))
    first = math.tanh(2.0)
    second = math.tanh(2.0 + first)
    np.testing.assert_allclose(out.flatten().tolist(), [first, second], rtol=1e-6)
    assert h.flatten().tolist() == pytest.approx([second])


def test_lstm_equals_its_cell_step_by_step():
    net, cell = nn.LSTM(3, 4).double(), nn.LSTMCell(3, 4).double()
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, kind).data = getattr(net, kind + "_l0").data
    x = gradlib.randn(5, 2, 3, dtype=gradlib.float64)
    out, (h, c) = net(x)
    state = None
    for t in range(5):
        state = cell(x[t], state)
        np.testing.assert_allclose(out[t].tolist(), state[0].tolist(), rtol=1e-12)
    np.testing.assert_allclose(c[0].tolist(), state[1].tolist(), rtol=1e-12)
    np.testing.assert_allclose(h[0].tolist(), state[0].tolist(), rtol=1e-12)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_packed_equals_one_by_one(name):
    net = getattr(nn, name)(3, 4, 2, bidirectional=True).double()
    rows = [gradlib.randn(n, 3, dtype=gradlib.float64) for n in (2, 4, 1)]
    packed = nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    out, _ = net(packed)
    for row, got in zip(rows, nn.utils.rnn.unpack_sequence(out)):
        np.testing.assert_allclose(got.tolist(), net(row)[0].tolist(), rtol=1e-12)


def test_rnn_input_checks():
    net = nn.LSTM(3, 4)
    with pytest.raises(RuntimeError, match=r"Expected 3, got 2"):
        net(gradlib.ones(5, 1, 2))
    with pytest.raises(
        RuntimeError, match=r"Expected hidden\[0\] size \(1, 1, 4\), got \[1, 2, 4\]"
    ):
        net(gradlib.ones(5, 1, 3), (gradlib.ones(1, 2, 4), gradlib.ones(1, 2, 4)))


def test_lazy_linear_becomes_linear():
    layer = nn.LazyLinear(3)
    assert tuple(layer(gradlib.ones(2, 5)).shape) == (2, 3)
    assert type(layer) is nn.Linear
    assert layer.in_features == 5
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict(nn.Linear(4, 3).state_dict())
    assert tuple(loaded.weight.shape) == (3, 4)
