"""The table of ways for attentions and convolutions: what is taken, and that each way gives what the formula gives."""

from __future__ import annotations

import pytest
from overlay_checks import check_forward, check_vjp, tensor, values

from gradlib.devices.cuda import precision
from gradlib.devices.cuda.fused import paths

ONE, NONE = (1, 1), (0, 0)
CASES = {
    "pointwise": ((2, 3, 5, 4), (6, 3, 1, 1), ONE, NONE, ONE, 1),
    "depthwise": ((2, 3, 6, 5), (3, 1, 3, 3), ONE, ONE, ONE, 3),
    "3x3": ((2, 3, 6, 5), (4, 3, 3, 3), (2, 1), ONE, ONE, 1),
}
# case -> ways that can compute it, the first of which is taken; in TF32 kernels that multiply in float32 are not
ABLE = {
    "pointwise": ("product", "kernel", "formula"),
    "depthwise": ("depthwise", "kernel", "formula"),
    "3x3": ("kernel", "formula"),
}
LAUNCHED = {"product": "", "depthwise": "conv_depthwise", "kernel": "conv_map"}


def convolve(device, case, kind="float32", runs=True):
    """The names of kernels of a convolution and its gradients, which are compared with those of the formula."""
    shape, weight, *how = CASES[case]
    args = (tensor(values(shape), kind), tensor(values(weight, 1), kind), None, *how)
    before = len(device.launcher.launched)
    check_forward(device, "convolution", args, kind, factor=4, runs=runs)
    if runs:
        check_vjp(device, "convolution", args, kind, factor=8)
    return {name.partition("<")[0] for name in device.launcher.launched[before:]}


@pytest.mark.parametrize(("case", "way"), [(c, w) for c, ways in ABLE.items() for w in ways])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_each_way_of_a_convolution_gives_what_the_formula_gives(device, case, way, kind):
    with paths.force(convolution=way):
        launched = convolve(device, case, kind, runs=way != "formula")
    assert LAUNCHED.get(way, "") in {*launched, ""}
    assert bool(launched & {"conv_map", "conv_depthwise"}) == (way in ("kernel", "depthwise"))


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_first_way_is_taken(device, monkeypatch, case, tf32):
    monkeypatch.setattr(precision, "_tf32_in_convolutions", tf32)
    way = ABLE[case][0] if not tf32 or case != "3x3" else "formula"
    launched = convolve(device, case, runs=way != "formula")
    assert launched & {"conv_map", "conv_depthwise"} == (
        {LAUNCHED[way]} - {""} if way != "formula" else set()
    )


def test_ways_of_an_attention(device):
    q, k, v = (tensor(values((2, 5, 8), i), "float32") for i in range(3))
    args = (q, k, v, None, True, 0.3)
    check_forward(device, "scaled_dot_product_attention_op", args, "float32")
    with paths.force(attention="kernel"):
        check_forward(device, "scaled_dot_product_attention_op", args, "float32")
        check_vjp(device, "scaled_dot_product_attention_op", args, "float32", factor=4)
        wide = tuple(tensor(values((2, 3, 200), i), "float32") for i in range(3))
        with pytest.raises(ValueError, match="the way 'kernel' cannot compute Attention"):
            check_forward(device, "scaled_dot_product_attention_op", (*wide, *args[3:]), "float32")
    with paths.force(attention="formula"):
        check_forward(device, "scaled_dot_product_attention_op", args, "float32", runs=False)
    check_forward(device, "scaled_dot_product_attention_op", args, "float32")


def test_a_way_that_cannot_be_taken_is_refused(device):
    for case, way in (("3x3", "product"), ("pointwise", "depthwise")):
        with (
            paths.force(convolution=way),
            pytest.raises(ValueError, match=f"the way '{way}' cannot"),
        ):
            convolve(device, case)
    with (
        pytest.raises(ValueError, match="no way 'cudnn'; there are"),
        paths.force(attention="cudnn"),
    ):
        pass
    assert not paths._forced
