"""onnx: files give what the models give, as the reference implementation of the package onnx runs them."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F

onnx = pytest.importorskip("onnx", reason="needs the package onnx: pip install 'gradlib[onnx]'")


def check(model, args, others=(), **settings):
    """Export, and compare on the example and on other arguments."""
    names = [f"x{i}" for i in range(len(args))]
    program = torch.onnx.export(model, args, input_names=names, **settings)
    runner = onnx.reference.ReferenceEvaluator(program.model_proto)
    model.eval()
    for given in (args, *others):
        want = model(*given)
        want = [w for w in (want if isinstance(want, tuple) else (want,)) if w is not None]
        got = runner.run(None, {n: t.numpy() for n, t in zip(names, given, strict=True)})
        for ours, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
    return program


@pytest.fixture(autouse=True)
def seeded():
    from onnx import reference  # noqa: F401

    torch.manual_seed(0)


def test_a_small_network_for_all_batches():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2), nn.Softmax(-1))
    check(model, (torch.randn(2, 3),), [(torch.randn(5, 3),)], dynamic_axes={"x0": {0: "b"}})


def test_a_convolutional_network():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2),
        nn.SiLU(), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 2),
    )  # fmt: skip
    model.train()
    x = torch.randn(2, 1, 12, 12)
    torch.onnx.export(model, x)
    assert model.training and model[1].num_batches_tracked == 0  # put back, and left alone
    check(model, (x,), [(torch.randn(3, 1, 12, 12),)], dynamic_axes={"x0": [0]})


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 8), nn.Linear(8, 10)
        self.places = nn.Parameter(torch.randn(1, 20, 8))
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2
        )

    def forward(self, ids):
        b, t = ids.shape
        h = self.embed(ids) * 8**0.5 + self.places[:, :t] + torch.arange(t)[:, None] / t
        h = self.layers(h)
        return self.out(h), h.view(b * t, -1).mean(0), h[:, -1]


def test_a_transformer_encoder_for_all_lengths():
    def ids(*shape):
        return torch.randint(0, 10, shape)

    others = [(ids(3, 7),), (ids(1, 2),)]
    check(Transformer(), (ids(2, 5),), others, dynamic_axes={"x0": {0: "b", 1: "t"}})


def test_attention_with_a_mask_says_what_it_takes_for_granted():
    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1
            )

        def forward(self, x):
            t = x.shape[1]
            return self.layer(x, mask=torch.triu(torch.ones(t, t, dtype=torch.bool), 1))

    check(Causal(), (torch.randn(2, 5, 8),))
    with pytest.warns(UserWarning, match="takes for granted"):
        check(
            Causal(),
            (torch.randn(2, 5, 8),),
            [(torch.randn(1, 3, 8),)],
            dynamic_axes={"x0": [0, 1]},
        )


class Functions(nn.Module):
    def forward(self, x, y):
        a, b = x.chunk(2, -1)
        z = torch.cat([a.sigmoid(), b.tanh()], -1) + y.unsqueeze(0)
        q = z.permute(1, 0).reshape(-1, 2).squeeze()
        return (
            torch.where(z > 0.5, z, z * 2) / 3, q.clamp(0, 1).pow(2).sum(1), (z == z).float(), z.argmax(1),
            torch.stack([a, b]).mean((0, 2)), x[..., 1:3, None], F.log_softmax(z, 1) - 1, F.leaky_relu(x, 0.2),
            F.elu(x), F.relu6(x), torch.rsqrt(x * x + 1), 1 - x, x.split(1, -1)[2], x.masked_fill(x > 0, 0.0), x.tril(),
            F.scaled_dot_product_attention(x[None], x[None], x[None]), torch.einsum("ij,j->i", x, y), x.flatten(),
            x.expand(2, 3, 4), x.to(torch.int64), torch.maximum(x, y), F.layer_norm(x, (4,)), x.amax(1, keepdim=True),
            F.silu(x), F.hardtanh(x), F.hardsigmoid(x), F.hardswish(x), F.pad(x, (1, 2, 0, 3), value=2.0),
            F.pad(x, (1, 1)),
        )  # fmt: skip


def test_functions():
    check(Functions(), (torch.randn(3, 4), torch.randn(4)))


def test_in_place_functions_where_nobody_sees_the_old_tensor():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act = nn.Linear(3, 3), nn.SiLU(inplace=True)

        def forward(self, x):
            out = self.act(self.a(x))
            out += x
            return out.mul_(2)

    check(Residual(), (torch.randn(2, 3),))


def test_files_and_names(tmp_path):
    model, x = nn.Linear(3, 2), torch.randn(2, 3)
    torch.onnx.export(model, x, tmp_path / "m.onnx", input_names=["a"], output_names=["b"])
    read = onnx.load(str(tmp_path / "m.onnx"))
    assert [i.name for i in read.graph.input] == ["a"] and [o.name for o in read.graph.output] == [
        "b"
    ]
    buffer = io.BytesIO()
    torch.onnx.export(model, x, buffer)
    assert buffer.getvalue()
    with pytest.warns(UserWarning, match="opset 18"):
        torch.onnx.export(model, x, opset_version=11)


@pytest.mark.parametrize(
    ("model", "x", "what"),
    [
        (
            nn.FractionalMaxPool2d(2, output_size=2),
            torch.randn(1, 1, 5, 5),
            "fractional_max_pool2d",
        ),
        (nn.AdaptiveAvgPool2d(2), torch.randn(1, 1, 5, 5), "adaptive_avg_pool2d"),
        (nn.Hardshrink(), torch.randn(3), "hardshrink"),
        (nn.ReLU(inplace=True), torch.randn(3), "in-place"),
    ],
)
def test_what_cannot_be_written_is_named(model, x, what):
    with pytest.raises(torch.onnx.OnnxExporterError, match=what):
        torch.onnx.export(model, x)
    assert not torch.onnx.is_in_onnx_export()


def test_is_in_onnx_export():
    class Model(nn.Module):
        def forward(self, x):
            return x * 2 if torch.onnx.is_in_onnx_export() else x

    program = torch.onnx.export(Model(), torch.ones(2))
    assert [n.op_type for n in program.model_proto.graph.node] == ["Mul", "Identity"]
