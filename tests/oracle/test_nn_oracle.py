"""Modules give PyTorch's outputs, gradients, texts and initial values."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

sys.path.insert(0, str(Path(__file__).parent))
from layer_cases import CASES, Fixed
from module_texts import TEXTS


def as_tensors(lib, value):
    """Arrays as tensors; float64 ones require grad."""
    if isinstance(value, np.ndarray):
        return lib.tensor(value, requires_grad=value.dtype == np.float64)
    if isinstance(value, Fixed):
        return lib.tensor(value.array)
    if isinstance(value, (tuple, list)):
        return type(value)(as_tensors(lib, v) for v in value)
    return value


def tensors_in(lib, value):
    """All tensors in nested tuples and lists."""
    if isinstance(value, lib.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(lib, v)]
    return []


def gradient(t):
    return None if t.grad is None else t.grad.detach().numpy()


def run(lib, make, args, kwargs, training, state=None):
    """Outputs, gradients of inputs and parameters, buffers afterwards, and the state used."""
    module = make(lib.nn).double()
    if state is None:
        rng = np.random.default_rng(1)
        state = {k: v.detach().numpy().copy() for k, v in module.state_dict().items()}
        for key, value in state.items():
            if value.dtype == np.float64:  # away from zeros and ones
                state[key] = value + 0.1 * rng.random(value.shape)
    module.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
    module.train(training)
    args = as_tensors(lib, args)
    kwargs = {k: as_tensors(lib, v) for k, v in kwargs.items()}
    outputs = tensors_in(lib, module(*args, **kwargs))
    terms = []
    for i, out in enumerate(outputs):
        if out.requires_grad:
            weights = np.cos(np.arange(out.numel()) + i).reshape(tuple(out.shape))
            terms.append((out * lib.tensor(weights)).sum())
    if terms:
        sum(terms).backward()
    inputs = [t for t in tensors_in(lib, [args, list(kwargs.values())]) if t.requires_grad]
    return {
        "outputs": [o.detach().numpy() for o in outputs],
        "inputs": [gradient(t) for t in inputs],
        "parameters": {n: gradient(p) for n, p in module.named_parameters()},
        "buffers": {n: b.numpy() for n, b in module.named_buffers()},
    }, state


def assert_close(got, expected):
    """No gradient is the same as a gradient of zeros."""
    if got is None or expected is None:
        value = got if expected is None else expected
        assert value is None or not value.any()
        return
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "args", "kwargs", "training"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_layer(make, args, kwargs, training):
    expected, state = run(torch, make, args, kwargs, training)
    got, _ = run(gradlib, make, args, kwargs, training, state)
    for kind in ("outputs", "inputs"):
        assert len(got[kind]) == len(expected[kind])
        for a, b in zip(got[kind], expected[kind]):
            assert_close(a, b)
    for kind in ("parameters", "buffers"):
        assert list(got[kind]) == list(expected[kind])
        for name, value in expected[kind].items():
            assert_close(got[kind][name], value)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_packed_sequences(name, bidirectional):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 3, 4))
    results = []
    state = None
    for lib in (torch, gradlib):
        net = getattr(lib.nn, name)(4, 6, 2, bidirectional=bidirectional).double()
        if state is None:
            state = {k: v.detach().numpy() for k, v in net.state_dict().items()}
        net.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
        inputs = lib.tensor(x, requires_grad=True)
        rnn = lib.nn.utils.rnn
        packed = rnn.pack_padded_sequence(inputs, [2, 5, 3], enforce_sorted=False)
        out, h = net(packed)
        padded, lengths = rnn.pad_packed_sequence(out)
        h = h if name == "LSTM" else (h,)
        (padded.sin().sum() + sum(s.cos().sum() for s in h)).backward()
        arrays = [padded, *h, inputs.grad, *(p.grad for p in net.parameters())]
        results.append([a.detach().numpy() for a in arrays])
        assert lengths.tolist() == [2, 5, 3]
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(5, 4),
        lambda nn: nn.Conv2d(4, 6, 3, groups=2),
        lambda nn: nn.ConvTranspose1d(4, 6, 3),
        lambda nn: nn.Embedding(5, 3, padding_idx=1),
        lambda nn: nn.Bilinear(2, 3, 4),
        lambda nn: nn.LSTM(3, 4, 2, bidirectional=True),
        lambda nn: nn.GRUCell(3, 4),
        lambda nn: nn.MultiheadAttention(4, 2, add_bias_kv=True),
        lambda nn: nn.MultiheadAttention(4, 2, kdim=3),
        lambda nn: nn.Transformer(4, 2, 1, 1, 8),
        lambda nn: nn.Sequential(nn.BatchNorm1d(2), nn.PReLU(3), nn.LayerNorm(2)),
        lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_initial_values_come_from_the_same_draws(make, monkeypatch):
    logs = []
    for lib in (torch, gradlib):
        log: list = []
        logs.append(log)
        with monkeypatch.context() as patched:
            for name, second in (("uniform_", 1.0), ("normal_", 1.0)):
                patched.setattr(lib.Tensor, name, logged(log, name, second))
            state = make(lib.nn).state_dict()
        log.append(list(state))
        log.append([tuple(v.shape) for v in state.values()])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 2 or "PReLU" in str(make(gradlib.nn))


def logged(log, name, second):
    """A random filling that only writes down what it was asked for."""

    def fill(tensor, a=0.0, b=second, generator=None):
        log.append((name, tuple(tensor.shape), round(float(a), 12), round(float(b), 12)))
        return tensor.zero_()

    return fill


def observe(lib, code):
    """What a piece of code prints, raises and warns."""
    printed = io.StringIO()
    names = {"torch": lib, "nn": lib.nn, "optim": lib.optim}
    error = None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            exec(code.replace("from torch.", f"from {lib.__name__}."), names)
        except Exception as e:
            error = type(e).__name__, str(e).replace("gradlib", "torch").split("\nraised in ")[0]
    said = [str(w.message).split(" See https")[0] for w in caught]
    said = [s for s in said if not s.startswith("Converting a tensor with requires_grad")]
    return printed.getvalue().replace("gradlib", "torch"), error, said


@pytest.mark.parametrize("code", TEXTS)
def test_prints_errors_and_warnings(code):
    assert observe(gradlib, code) == observe(torch, code)
