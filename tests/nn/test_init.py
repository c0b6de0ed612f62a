"""nn.init: ranges, moments, structure, error texts; always outside the graph."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib
from gradlib import nn
from gradlib.nn import init


def big():
    return nn.Parameter(gradlib.empty(200, 300))


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda w: init.uniform_(w, -2.0, 2.0), 2.0),
        (init.xavier_uniform_, math.sqrt(6 / 500)),
        (lambda w: init.xavier_uniform_(w, gain=2.0), 2 * math.sqrt(6 / 500)),
        (lambda w: init.kaiming_uniform_(w, a=math.sqrt(5)), 1 / math.sqrt(300)),
        (
            lambda w: init.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"),
            math.sqrt(6 / 200),
        ),
    ],
)
def test_uniform_fillings(fill, bound):
    w = big()
    assert fill(w) is w
    values = w.detach().numpy()
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.99 * bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert w.is_leaf
    assert w.grad_fn is None


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda w: init.normal_(w, 0.0, 0.5), 0.5),
        (init.xavier_normal_, math.sqrt(2 / 500)),
        (lambda w: init.kaiming_normal_(w, nonlinearity="relu"), math.sqrt(2 / 300)),
    ],
)
def test_normal_fillings(fill, std):
    values = fill(big()).detach().numpy()
    assert values.mean() == pytest.approx(0.0, abs=0.02 * std)
    assert values.std() == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize(("a", "b"), [(-1.0, 1.0), (2.5, 4.0)])
def test_truncated_normal_stays_inside(a, b):
    values = init.trunc_normal_(big(), mean=max(a, 1.0), a=a, b=b).detach().numpy()
    assert values.min() >= a
    assert values.max() <= b
    assert values.std() > 0.1


def test_truncated_normal_far_outside_warns():
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(gradlib.empty(3), mean=10.0, std=1.0)


def test_constants_and_structure():
    assert init.ones_(gradlib.empty(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(gradlib.empty(2)).tolist() == [0.0, 0.0]
    assert init.constant_(gradlib.empty(2), 0.5).tolist() == [0.5, 0.5]
    assert init.eye_(gradlib.empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    dirac = init.dirac_(gradlib.empty(4, 2, 3), groups=2)
    assert dirac[:, :, 1].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert float(dirac.sum()) == 4.0
    sparse = init.sparse_(gradlib.empty(10, 4), sparsity=0.3).numpy()
    assert ((sparse == 0).sum(axis=0) == 3).all()


def test_gains():
    assert init.calculate_gain("linear") == 1
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)
    assert init.calculate_gain("relu") == pytest.approx(math.sqrt(2))
    assert init.calculate_gain("leaky_relu", 1) == pytest.approx(1.0)
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="Unsupported nonlinearity other"):
        init.calculate_gain("other")


def test_errors():
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        init.kaiming_uniform_(gradlib.empty(3))
    with pytest.raises(ValueError, match="Mode other not supported"):
        init.kaiming_uniform_(gradlib.empty(3, 3), mode="other")
    with pytest.raises(ValueError, match="Only tensors with 2 dimensions are supported"):
        init.eye_(gradlib.empty(3))
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(gradlib.empty(0, 3))
    with pytest.warns(FutureWarning, match="now deprecated in favor of `nn.init.uniform_`"):
        init.uniform(gradlib.empty(3))


def test_generator_is_used():
    draws = []
    for _ in range(2):
        generator = gradlib.Generator(gradlib.get_default_device()).manual_seed(5)
        draws.append(init.normal_(gradlib.empty(4), generator=generator).tolist())
    assert draws[0] == draws[1]


def test_orthogonal():
    for shape in ((5, 3), (3, 5), (4, 2, 2)):
        w = init.orthogonal_(gradlib.empty(*shape, dtype=gradlib.float64), gain=2.0)
        flat = w.numpy().reshape(shape[0], -1)
        small = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)
