"""``gradlib.nn.functional``: PyTorch's functional interface, gathered from gradlib/operators."""

# ruff: noqa: F401

from __future__ import annotations

from importlib import import_module as _import_module

from .._refused import refuse as _refuse
from ..op.expose import PUBLIC
from ..op.expose import overridable as _overridable
from ..op.expose import write_same as _write_same
from ..operators.elementwise.activation import (
    celu,
    celu_,
    elu,
    elu_,
    glu,
    logsigmoid,
    mish,
    selu,
    selu_,
    silu,
    softplus,
    softsign,
    tanhshrink,
)
from ..operators.elementwise.gelu import gelu
from ..operators.elementwise.piecewise import (
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    prelu,
    relu,
    relu6,
    rrelu,
    rrelu_,
    softshrink,
    threshold,
    threshold_,
)
from ..operators.linalg.grouped_mm import grouped_mm
from ..operators.linalg.linear import linear_op
from ..operators.nn.attention import scaled_dot_product_attention
from ..operators.nn.batch_norm import batch_norm
from ..operators.nn.binary_cross_entropy import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
)
from ..operators.nn.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from ..operators.nn.cross_entropy import cross_entropy, nll_loss
from ..operators.nn.ctc_loss import ctc_loss
from ..operators.nn.distribution_loss import gaussian_nll_loss, kl_div, poisson_nll_loss
from ..operators.nn.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from ..operators.nn.embedding import embedding, embedding_bag, one_hot
from ..operators.nn.grid import affine_grid, grid_sample
from ..operators.nn.interpolate import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from ..operators.nn.layer_norm import layer_norm, rms_norm
from ..operators.nn.margin_loss import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ..operators.nn.max_unpool import max_unpool1d, max_unpool2d, max_unpool3d
from ..operators.nn.multihead import (
    _canonical_mask,
    _none_or_dtype,
    bilinear,
    gumbel_softmax,
    multi_head_attention_forward,
)
from ..operators.nn.normalization import group_norm, instance_norm, local_response_norm, normalize
from ..operators.nn.pool import (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from ..operators.nn.pool_adaptive import (
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
)
from ..operators.nn.pool_average import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from ..operators.nn.pool_fractional import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from ..operators.nn.regression_loss import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from ..operators.nn.softmax import functional_log_softmax as log_softmax
from ..operators.nn.softmax import functional_softmax as softmax
from ..operators.nn.softmax import functional_softmin as softmin
from ..operators.nn.vision import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from ..operators.reduce.norm import cosine_similarity, pairwise_distance, pdist
from ..operators.shape.pad import pad
from ..ops.aten import PLACES as _PLACES
from ..tape import override as _override
from ._linear_cross_entropy import linear_cross_entropy

_absent = _refuse(__name__)


def __getattr__(name):
    """What copies of PyTorch's layers find here, too: the questions of ``gradlib.overrides``."""
    if name.endswith("torch_function") or name.startswith("has_torch_function"):
        return getattr(_import_module("gradlib.overrides"), name)
    return _absent(name)


def linear(input, weight, bias=None, *, out=None):
    """``input @ weight.T + bias``: input (..., n), weight (m, n) or (n,), bias (m,).

    RuntimeError when they do not fit.
    """
    try:
        x, w = input._array.shape, weight._array.shape
    except AttributeError:
        if _override.met(linear, (input, weight, bias)):
            return linear(input, weight, bias)
        name, bad = ("input", input) if not hasattr(input, "_array") else ("weight", weight)
        raise TypeError(
            f"linear(): argument '{name}' must be Tensor, not {type(bad).__name__}"
        ) from None
    if len(w) != 2:
        result = input.matmul(weight if len(w) == 1 else weight.t())
        return _write_same(out, result if bias is None else result + bias)
    if not x or x[-1] != w[1]:
        rows = 1
        for n in x[:-1]:
            rows *= n
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{x[-1] if x else 1} and {w[1]}x{w[0]})"
        )
    if bias is not None and bias._array.shape != w[:1]:  # a bias that is broadcast
        return _write_same(out, linear_op.call(input, weight, None) + bias)
    result = linear_op.call(input, weight, bias)
    return result if out is None else _write_same(out, result)


sigmoid, tanh = PUBLIC["sigmoid"], PUBLIC["tanh"]
relu_ = PUBLIC["relu_"] if "relu_" in PUBLIC else lambda input: input.relu_()
_overridable(globals())
_PLACES.append(
    globals().get
)  # so that they are equal to the ops of their names in gradlib.ops.aten
