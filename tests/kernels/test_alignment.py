"""Arrays that begin anywhere: kernels that move several elements at once must not do so where a GPU would refuse."""

from __future__ import annotations

import numpy as np
import pytest
from overlay_checks import DTYPES, KINDS, numpy, values

from gradlib.devices.cuda.fused import dropout, optim
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

overlays = on("cuda")

WINDOWS = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
CASES = {
    "softmax": ([(4, 64)], {"dim": 1}),
    "log_softmax": ([(2, 64, 3)], {"dim": 1}),
    "softmax_grad": ([(4, 64), (4, 64)], {"dim": 1}),
    "native_layer_norm": ([(3, 64), (64,), (64,)], {"normalized_shape": (64,), "eps": 1e-5}),
    "native_group_norm": ([(2, 4, 8), (4,), (4,)], {"groups": 2, "eps": 1e-5}),
    "native_batch_norm": ([(3, 4, 8), (4,), (4,)], {"training": True, "eps": 1e-5, "box": None}),
    "sum": ([(4, 64)], {"dim": (1,), "keepdim": False}),
    "sum_all": ([(4096,)], {}),
    "silu": ([(64,)], {}),
    "convolution": ([(1, 2, 4, 4), (4, 2, 3, 3)], {**WINDOWS, "groups": 1}),
    "scaled_dot_product_attention_op": ([(1, 8, 16)] * 3, {"is_causal": True, "scale": 0.25}),
}


def at(device, array, start: int):
    """The array on the device, `start` elements after an address that suits every kernel."""
    flat = np.concatenate([np.zeros(start, array.dtype), array.reshape(-1)])
    return device.put(flat)[start:].reshape(array.shape)


def results(raw) -> list:
    return [numpy(a) for a in (raw if isinstance(raw, tuple) else (raw,)) if a is not None]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_forward(device, name, kind):
    # rows: DEV-26
    shapes, attrs = CASES[name]
    run = overlays.forward_of(REGISTRY[name])
    given = [values(s, i).astype(KINDS[kind].np) for i, s in enumerate(shapes)]
    wanted = results(run(device, *(at(device, a, 0) for a in given), **attrs))
    for start in (1, 2, 3, 4):
        found = results(run(device, *(at(device, a, start) for a in given), **attrs))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", DTYPES)
def test_masks(device, kind):
    # rows: DEV-26
    x, mask = values((67,)).astype(KINDS[kind].np), np.arange(67) % 3 > 0
    for i, j in ((0, 0), (0, 1), (1, 0), (3, 2)):
        out = overlays.forwards["masked_scale"](
            device, at(device, x, i), at(device, mask, j), scale=2.0
        )
        np.testing.assert_array_equal(numpy(out).astype(float), x.astype(float) * mask * 2)
        state = dropout.new_state(device, 5)
        out, keep = dropout.dropout(device, at(device, x, i), 0.5, state)
        np.testing.assert_array_equal(numpy(out).astype(float), x.astype(float) * numpy(keep) * 2)


@pytest.mark.parametrize("kind", DTYPES)
def test_rows(device, kind):
    # rows: DEV-26
    table, index = values((5, 16)).astype(KINDS[kind].np), np.array([3, 0, 3, 4])
    for start in range(4):
        found = overlays.forwards["embedding_op"](
            device, at(device, table, start), device.put(index), padding_idx=-1, scale_grad_by_freq=False
        )  # fmt: skip
        np.testing.assert_array_equal(numpy(found).astype(float), table[index].astype(float))


@pytest.mark.parametrize("kind", DTYPES)
def test_steps_and_norms(device, kind):
    # rows: DEV-26
    p, g = (values((101,), i).astype(KINDS[kind].np) for i in range(2))
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        params, grads = [at(device, p, i)], [at(device, g, j)]
        optim.step(device, "sgd", params, grads, [], (), {"lr": 0.5})
        wanted = p.astype(float) - 0.5 * g.astype(float)
        np.testing.assert_allclose(numpy(params[0]).astype(float), wanted, rtol=0, atol=1e-2)
        norm = optim.total_norm(device, grads)
        np.testing.assert_allclose(float(norm), np.linalg.norm(g.astype(float)), rtol=1e-5)
