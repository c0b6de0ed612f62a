"""Calls of the functional interface that are compared with PyTorch.

Name, function of (torch, tensors...), input arrays.
"""

from __future__ import annotations

import numpy as np

rng = np.random.default_rng(11)


def normal(*shape):
    return rng.normal(size=shape)


def positive(*shape, low=0.1, high=0.9):
    return rng.uniform(low, high, size=shape)


def whole(high, *shape):
    return rng.integers(0, high, size=shape)


def distinct(*shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape) * 0.37 - 5.0


CASES: list = []


def case(name, fn, *arrays, double=True):
    """`double`: whether second derivatives are compared too."""
    CASES.append((name, fn, arrays, double))


def functional(name, *arrays, double=True, label="", **kwargs):
    """``nn.functional.<name>(*arrays, **kwargs)``."""
    case(
        f"{name}{label}{kwargs or ''}",
        lambda t, *a: getattr(t.nn.functional, name)(*a, **kwargs),
        *arrays,
        double=double,
    )


# activations
EDGES = np.array([-7.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0])
functional("hardsigmoid", normal(3, 4), double=False)  # PyTorch has no second derivative of it
for _name in (
    "gelu silu mish elu selu celu leaky_relu relu6 hardtanh hardswish hardshrink softshrink softplus softsign "
    "tanhshrink logsigmoid relu"
).split():
    functional(_name, normal(3, 4))
    functional(_name, EDGES, double=False, label=" at edges")
functional("gelu", normal(3, 4), approximate="tanh")
functional("elu", normal(3, 4), alpha=0.4)
functional("celu", normal(3, 4), alpha=0.5)
functional("leaky_relu", normal(3, 4), negative_slope=0.3)
functional("hardtanh", normal(3, 4), min_val=-0.2, max_val=0.9)
functional("softplus", normal(3, 4), beta=2.0, threshold=1.0)
functional("softshrink", normal(3, 4), lambd=0.2)
functional("hardshrink", normal(3, 4), lambd=0.2)
functional("glu", normal(3, 4))
functional("glu", normal(4, 3), dim=0)
case("threshold", lambda t, x: t.nn.functional.threshold(x, 0.1, 20.0), normal(3, 4))
case("prelu", lambda t, x, w: t.nn.functional.prelu(x, w), normal(2, 3, 4), normal(3))
case("prelu one", lambda t, x, w: t.nn.functional.prelu(x, w), normal(2, 3), normal(1))
case("rrelu eval", lambda t, x: t.nn.functional.rrelu(x, 0.1, 0.3, training=False), normal(3, 4))
for _dim in (0, 1, -1):
    for _name in ("softmax", "log_softmax", "softmin"):
        functional(_name, normal(3, 4, 2), dim=_dim)
case("softmax large", lambda t, x: t.softmax(x * 300, 1), normal(3, 4))
case(
    "softmax masked",
    lambda t, x: t.softmax(x.masked_fill(t.tensor([[True, False, False]] * 2), -np.inf), 1),
    normal(2, 3),
)
case("softmax 0-dim", lambda t, x: t.softmax(x, 0), normal())
case("normalize", lambda t, x: t.nn.functional.normalize(x, p=2.0, dim=1), normal(3, 4))
for _name in ("lgamma", "digamma", "erfinv", "logit", "i0"):
    case(_name, lambda t, x, _n=_name: getattr(t, _n)(x), positive(3, 4))
case("polygamma", lambda t, x: t.polygamma(2, x), positive(3, 4))
case("xlogy", lambda t, x, y: t.xlogy(x, y), normal(3, 4), positive(4))
case("mvlgamma", lambda t, x: t.mvlgamma(x, 3), positive(3, 4, low=1.5, high=4))
for _name in ("erf", "erfc"):
    case(_name, lambda t, x, _n=_name: getattr(t, _n)(x), normal(3, 4) * 2)
# PyTorch's derivative loses its digits near 0; tests/operators has the series
case("sinc", lambda t, x: t.sinc(x), np.abs(normal(3, 4) * 2) + 0.3)

# normalisations
functional("layer_norm", normal(3, 5), normalized_shape=(5,))
case(
    "layer_norm affine",
    lambda t, x, w, b: t.nn.functional.layer_norm(x, (3, 4), w, b, 1e-3),
    normal(2, 3, 4),
    normal(3, 4),
    normal(3, 4),
)
case(
    "layer_norm weight",
    lambda t, x, w: t.nn.functional.layer_norm(x, (4,), w),
    normal(2, 3, 4),
    normal(4),
)
functional("rms_norm", normal(3, 5), normalized_shape=(5,))
case(
    "rms_norm weight",
    lambda t, x, w: t.nn.functional.rms_norm(x, (3, 4), w, 1e-3),
    normal(2, 3, 4),
    normal(3, 4),
)
case(
    "group_norm",
    lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b),
    normal(2, 4, 3),
    normal(4),
    normal(4),
)
case("group_norm plain", lambda t, x: t.nn.functional.group_norm(x, 4), normal(2, 4, 2, 2))
for _shape in ((5, 3), (4, 3, 2), (2, 3, 4, 4)):
    case(
        f"batch_norm {_shape}", lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True, 0.1, 1e-4),
        normal(*_shape), normal(3), normal(3),
    )  # fmt: skip
    case(
        f"batch_norm eval {_shape}",
        lambda t, x, w, b: t.nn.functional.batch_norm(
            x, t.tensor([0.1, -0.2, 0.3], dtype=x.dtype), t.tensor([0.5, 1.5, 2.0], dtype=x.dtype), w, b
        ),
        normal(*_shape), normal(3), normal(3),
    )  # fmt: skip
case(
    "batch_norm plain",
    lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
    normal(4, 3),
)
case(
    "instance_norm",
    lambda t, x, w, b: t.nn.functional.instance_norm(x, None, None, w, b),
    normal(2, 3, 4),
    normal(3),
    normal(3),
)
functional("local_response_norm", normal(2, 5, 3), size=3, alpha=0.5)
functional("local_response_norm", normal(2, 5, 3, 2), size=2, alpha=0.5)

# convolutions
case(
    "conv1d",
    lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, 2, 1),
    normal(2, 3, 8),
    normal(4, 3, 3),
    normal(4),
)
case(
    "conv2d",
    lambda t, x, w, b: t.nn.functional.conv2d(x, w, b, padding=1),
    normal(2, 3, 5, 6),
    normal(4, 3, 3, 3),
    normal(4),
)
case(
    "conv2d stride",
    lambda t, x, w: t.nn.functional.conv2d(x, w, None, (2, 1), (0, 2), (1, 2)),
    normal(2, 2, 6, 7),
    normal(3, 2, 2, 3),
)
case(
    "conv2d groups",
    lambda t, x, w: t.nn.functional.conv2d(x, w, groups=2),
    normal(2, 4, 5, 5),
    normal(6, 2, 3, 3),
)
case(
    "conv2d depthwise",
    lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=3),
    normal(2, 3, 5, 5),
    normal(3, 1, 3, 3),
)
case(
    "conv2d 1x1",
    lambda t, x, w: t.nn.functional.conv2d(x, w),
    normal(2, 3, 5, 5),
    normal(4, 3, 1, 1),
)
case(
    "conv2d same",
    lambda t, x, w: t.nn.functional.conv2d(x, w, padding="same"),
    normal(2, 3, 5, 5),
    normal(4, 3, 2, 3),
)
case(
    "conv2d unbatched",
    lambda t, x, w: t.nn.functional.conv2d(x, w, padding="valid"),
    normal(3, 5, 5),
    normal(4, 3, 2, 3),
)
case(
    "conv3d",
    lambda t, x, w, b: t.nn.functional.conv3d(x, w, b, padding=1),
    normal(1, 2, 3, 4, 3),
    normal(2, 2, 2, 3, 2),
    normal(2),
)
case(
    "conv_transpose1d",
    lambda t, x, w, b: t.nn.functional.conv_transpose1d(x, w, b, 2, 1, 1),
    normal(2, 3, 4),
    normal(3, 2, 3),
    normal(2),
)
case(
    "conv_transpose2d", lambda t, x, w, b: t.nn.functional.conv_transpose2d(x, w, b, 2, 1, 1, 2, 1),
    normal(2, 4, 3, 4), normal(4, 2, 3, 3), normal(4),
)  # fmt: skip
case(
    "conv_transpose2d dilated",
    lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, dilation=2),
    normal(1, 2, 3, 3),
    normal(2, 3, 2, 2),
)
case(
    "conv_transpose3d",
    lambda t, x, w: t.nn.functional.conv_transpose3d(x, w, stride=2),
    normal(1, 2, 2, 3, 2),
    normal(2, 2, 2, 2, 2),
)
case(
    "conv_tbc",
    lambda t, x, w, b: t.conv_tbc(x, w, b, 1),
    normal(5, 2, 3),
    normal(3, 3, 4),
    normal(4),
)

# pooling
functional("max_pool1d", distinct(2, 3, 9), kernel_size=3, stride=2, padding=1)
functional("max_pool2d", distinct(2, 3, 6, 8), kernel_size=2)
functional("max_pool2d", distinct(2, 3, 7, 7), kernel_size=3, stride=2, padding=1, ceil_mode=True)
functional("max_pool2d", distinct(2, 3, 7, 7), kernel_size=(2, 3), stride=(3, 1), dilation=(2, 1))
functional("max_pool2d", distinct(3, 7, 6), kernel_size=(3, 2), ceil_mode=True)
functional("max_pool3d", distinct(1, 2, 4, 5, 4), kernel_size=2, stride=1)
case(
    "max_pool2d ties",
    lambda t, x: t.nn.functional.max_pool2d(x.relu(), 2),
    np.round(normal(2, 3, 4, 4)),
)
case(
    "max_pool2d indices",
    lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True),
    distinct(2, 3, 7, 6),
)
case(
    "max_pool1d indices",
    lambda t, x: t.nn.functional.max_pool1d(x, 2, return_indices=True),
    distinct(2, 3, 7),
)
functional("avg_pool1d", normal(2, 3, 9), kernel_size=3, stride=2, padding=1)
functional("avg_pool2d", normal(2, 3, 6, 8), kernel_size=2)
functional(
    "avg_pool2d",
    normal(2, 3, 7, 7),
    kernel_size=3,
    stride=2,
    padding=1,
    ceil_mode=True,
    count_include_pad=False,
)
functional("avg_pool2d", normal(2, 3, 7, 7), kernel_size=3, stride=2, padding=1, ceil_mode=True)
functional("avg_pool2d", normal(2, 3, 7, 7), kernel_size=3, divisor_override=2)
functional("avg_pool3d", normal(1, 2, 4, 5, 4), kernel_size=2, stride=1)
for _n in (1, 2, 3):
    functional(f"adaptive_avg_pool{_n}d", normal(2, 3, *(7, 5, 6)[:_n]), output_size=3)
    functional(f"adaptive_max_pool{_n}d", distinct(2, 3, *(7, 5, 6)[:_n]), output_size=3)
    functional(f"lp_pool{_n}d", positive(2, 3, *(6, 4, 6)[:_n]), norm_type=2.0, kernel_size=2)
functional("adaptive_avg_pool2d", normal(2, 3, 7, 5), output_size=1)
functional("adaptive_avg_pool2d", normal(2, 3, 7, 5), output_size=(None, 4))
functional("adaptive_max_pool2d", distinct(2, 3, 7, 5), output_size=(2, 3), return_indices=True)
case(
    "max_unpool2d",
    lambda t, x: t.nn.functional.max_unpool2d(
        *t.nn.functional.max_pool2d(x, 2, return_indices=True), 2
    ),
    distinct(2, 3, 4, 6),
)
case(
    "fractional_max_pool2d",
    lambda t, x, u: t.nn.functional.fractional_max_pool2d(x, 2, output_size=(3, 4), _random_samples=u.detach()),
    distinct(2, 3, 7, 8), positive(2, 3, 2), double=False,
)  # fmt: skip
case(
    "fractional_max_pool3d",
    lambda t, x, u: t.nn.functional.fractional_max_pool3d(x, 2, output_size=(2, 3, 2), _random_samples=u.detach()),
    distinct(1, 2, 4, 6, 5), positive(1, 2, 3), double=False,
)  # fmt: skip

# images
functional("unfold", normal(2, 3, 5, 6), kernel_size=(2, 3), padding=1, stride=2, dilation=(1, 2))
functional("fold", normal(2, 12, 6), output_size=(3, 4), kernel_size=2)
for _mode in ("reflect", "replicate", "circular"):
    functional("pad", normal(2, 3, 4), pad=(2, 1), mode=_mode)
    functional("pad", normal(2, 3, 4, 5), pad=(2, 1, 3, 0), mode=_mode)
    functional("pad", normal(1, 2, 3, 4, 3), pad=(1, 1, 2, 0, 1, 2), mode=_mode)
functional("pad", normal(2, 3, 4), pad=(1, 2, -1, 1), value=0.5)
functional("pixel_shuffle", normal(2, 8, 2, 3), upscale_factor=2)
functional("pixel_unshuffle", normal(2, 2, 4, 6), downscale_factor=2)
functional("channel_shuffle", normal(2, 6, 2, 2), groups=3)
for _mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    functional("interpolate", normal(2, 3, 4, 5), size=(7, 3), mode=_mode)
    functional("interpolate", normal(2, 3, 4, 5), scale_factor=(1.7, 2.3), mode=_mode)
for _mode in ("bilinear", "bicubic"):
    functional("interpolate", normal(2, 3, 4, 5), size=(7, 3), mode=_mode, align_corners=True)
    functional(
        "interpolate", normal(2, 3, 8, 9), size=(3, 5), mode=_mode, antialias=True, double=False
    )
functional("interpolate", normal(2, 3, 5), scale_factor=2, mode="linear")
functional("interpolate", normal(1, 2, 3, 4, 2), scale_factor=2, mode="trilinear")
functional("interpolate", normal(1, 2, 3, 4, 2), size=5, mode="nearest")
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        for _corners in (False, True):
            case(
                f"grid_sample {_mode} {_padding} {_corners}",
                lambda t, x, g, m=_mode, p=_padding, c=_corners: t.nn.functional.grid_sample(x, g, m, p, c),
                normal(2, 3, 4, 5), normal(2, 3, 2, 2) * 0.9, double=_mode == "bilinear",
            )  # fmt: skip
case(
    "grid_sample 3d",
    lambda t, x, g: t.nn.functional.grid_sample(x, g, align_corners=False),
    normal(1, 2, 3, 4, 3),
    normal(1, 2, 2, 3, 3),
    double=False,
)
case(
    "affine_grid",
    lambda t, m: t.nn.functional.affine_grid(m, (2, 1, 3, 4), align_corners=False),
    normal(2, 2, 3),
)
case(
    "affine_grid 3d",
    lambda t, m: t.nn.functional.affine_grid(m, (2, 1, 3, 4, 2), align_corners=True),
    normal(2, 3, 4),
)

# losses
for _reduction in ("mean", "sum", "none"):
    _r = {"reduction": _reduction}
    for _name in (
        "mse_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "poisson_nll_loss",
    ):
        case(
            f"{_name} {_reduction}",
            lambda t, x, y, n=_name, r=_reduction: getattr(t.nn.functional, n)(x, y, reduction=r),
            normal(3, 4),
            positive(3, 4),
        )
    functional("l1_loss", normal(3, 4), normal(3, 4), double=False, **_r)
    case(
        f"soft_margin_loss {_reduction}",
        lambda t, x, y, r=_reduction: t.nn.functional.soft_margin_loss(x, y.detach(), reduction=r),
        normal(3, 4),
        np.sign(normal(3, 4)),
    )
    functional("binary_cross_entropy", positive(3, 4), positive(3, 4), **_r)
    functional("hinge_embedding_loss", normal(3, 4), np.sign(normal(3, 4)), **_r)
    functional("multilabel_soft_margin_loss", normal(3, 4), positive(3, 4), **_r)
    functional("nll_loss", normal(5, 4), whole(4, 5), **_r)
    functional("cross_entropy", normal(5, 4), whole(4, 5), **_r)
    functional("cross_entropy", normal(2, 4, 3), whole(4, 2, 3), ignore_index=2, **_r)
    functional("cross_entropy", normal(5, 4), whole(4, 5), label_smoothing=0.2, **_r)
    functional(
        "cross_entropy",
        normal(5, 4),
        positive(5, 4),
        label=" probabilities",
        label_smoothing=0.1,
        **_r,
    )
    case(
        f"cross_entropy weight {_reduction}",
        lambda t, x, y, w, r=_reduction: t.nn.functional.cross_entropy(
            x, y, w.detach(), reduction=r, ignore_index=1, label_smoothing=0.1
        ),
        normal(5, 4),
        whole(4, 5),
        positive(4),
    )
    case(
        f"nll_loss weight {_reduction}",
        lambda t, x, y, w, r=_reduction: t.nn.functional.nll_loss(
            x, y, w.detach(), reduction=r, ignore_index=1
        ),
        normal(2, 4, 3),
        whole(4, 2, 3),
        positive(4),
    )
    functional("multi_margin_loss", normal(3, 4), whole(4, 3), p=2, double=False, **_r)
    case(
        f"multilabel_margin_loss {_reduction}",
        lambda t, x, r=_reduction: t.nn.functional.multilabel_margin_loss(
            x, t.tensor([[1, 3, -1, 0], [0, -1, 2, 2], [2, 1, 0, 3]]), reduction=r
        ),
        normal(3, 4),
        double=False,
    )
    case(
        f"gaussian_nll_loss {_reduction}",
        lambda t, x, y, v, r=_reduction: t.nn.functional.gaussian_nll_loss(
            x, y, v, full=True, reduction=r
        ),
        normal(3, 4),
        normal(3, 4),
        positive(3, 4),
    )
    case(
        f"cosine_embedding_loss {_reduction}",
        lambda t, x, y, r=_reduction: t.nn.functional.cosine_embedding_loss(
            x, y, t.tensor([1, -1, 1]), 0.1, reduction=r
        ),
        normal(3, 4),
        normal(3, 4),
    )
    case(
        f"margin_ranking_loss {_reduction}",
        lambda t, x, y, r=_reduction: t.nn.functional.margin_ranking_loss(
            x, y, t.tensor([1, -1, 1]), 0.1, reduction=r
        ),
        normal(3),
        normal(3),
    )
    case(
        f"triplet_margin_loss {_reduction}",
        lambda t, x, y, z, r=_reduction: t.nn.functional.triplet_margin_loss(
            x, y, z, swap=True, reduction=r
        ),
        normal(3, 4),
        normal(3, 4),
        normal(3, 4),
    )
    case(
        f"ctc_loss {_reduction}",
        lambda t, x, r=_reduction: t.nn.functional.ctc_loss(
            x.log_softmax(2),
            t.tensor([[1, 2, 2], [3, 1, 0]]),
            t.tensor([6, 5]),
            t.tensor([3, 2]),
            reduction=r,
        ),
        normal(6, 2, 4),
        double=False,
    )
functional("poisson_nll_loss", normal(3, 4), positive(3, 4, low=0.5, high=4), full=True)
case(
    "huber_loss delta",
    lambda t, x, y: t.nn.functional.huber_loss(x, y, delta=0.3),
    normal(3, 4),
    normal(3, 4),
)
case(
    "smooth_l1_loss beta",
    lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y, beta=0.3),
    normal(3, 4),
    normal(3, 4),
)
case(
    "bce weights",
    lambda t, x, y, w, p: t.nn.functional.binary_cross_entropy_with_logits(
        x, y, w.detach(), pos_weight=p.detach()
    ),
    normal(3, 4),
    positive(3, 4),
    positive(3, 4),
    positive(4),
)
case(
    "kl_div log_target",
    lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean", log_target=True),
    normal(3, 4),
    normal(3, 4),
)

# attention, embedding and others
case(
    "sdpa",
    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
    normal(2, 3, 5, 4),
    normal(2, 3, 6, 4),
    normal(2, 3, 6, 3),
    double=False,
)
case(
    "sdpa causal",
    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    normal(2, 3, 5, 4),
    normal(2, 3, 5, 4),
    normal(2, 3, 5, 4),
    double=False,
)
case(
    "sdpa bool mask",
    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
        q, k, v, t.tensor([[True, False, True]] * 4)
    ),
    normal(2, 4, 4),
    normal(2, 3, 4),
    normal(2, 3, 4),
    double=False,
)
case(
    "sdpa mask",
    lambda t, q, k, v, m: t.nn.functional.scaled_dot_product_attention(
        q, k, v, m.detach(), scale=0.3
    ),
    normal(2, 2, 4, 4),
    normal(2, 2, 3, 4),
    normal(2, 2, 3, 4),
    normal(4, 3),
    double=False,
)
case(
    "sdpa gqa",
    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    normal(2, 4, 5, 3),
    normal(2, 2, 5, 3),
    normal(2, 2, 5, 3),
    double=False,
)
case(
    "embedding", lambda t, w: t.nn.functional.embedding(t.tensor([[1, 0], [3, 1]]), w), normal(4, 3)
)
case(
    "embedding padding",
    lambda t, w: t.nn.functional.embedding(t.tensor([[1, 0], [3, 1]]), w, padding_idx=1),
    normal(4, 3),
)
case(
    "embedding frequency",
    lambda t, w: t.nn.functional.embedding(t.tensor([1, 0, 1, 1]), w, scale_grad_by_freq=True),
    normal(4, 3),
    double=False,
)
for _mode in ("sum", "mean", "max"):
    case(
        f"embedding_bag {_mode}",
        lambda t, w, m=_mode: t.nn.functional.embedding_bag(t.tensor([[1, 0], [3, 1]]), w, mode=m),
        normal(4, 3),
        double=False,
    )
    case(
        f"embedding_bag offsets {_mode}",
        lambda t, w, m=_mode: t.nn.functional.embedding_bag(
            t.tensor([1, 0, 3, 1]), w, t.tensor([0, 3, 3]), mode=m, padding_idx=0
        ),
        normal(4, 3),
        double=False,
    )
case(
    "embedding_bag weights",
    lambda t, w, s: t.nn.functional.embedding_bag(
        t.tensor([[1, 0], [3, 1]]), w, mode="sum", per_sample_weights=s
    ),
    normal(4, 3),
    normal(2, 2),
    double=False,
)
case(
    "bilinear",
    lambda t, a, b, w, c: t.nn.functional.bilinear(a, b, w, c),
    normal(5, 3),
    normal(5, 2),
    normal(4, 3, 2),
    normal(4),
)
case(
    "linear",
    lambda t, x, w, b: t.nn.functional.linear(x, w, b),
    normal(2, 5, 3),
    normal(4, 3),
    normal(4),
)
case(
    "cosine_similarity",
    lambda t, a, b: t.nn.functional.cosine_similarity(a, b),
    normal(3, 4),
    normal(3, 4),
)
case(
    "pairwise_distance",
    lambda t, a, b: t.nn.functional.pairwise_distance(a, b),
    normal(3, 4),
    normal(3, 4),
)
case("pdist", lambda t, a: t.nn.functional.pdist(a), normal(4, 3), double=False)
for _need in (True, False):
    case(
        f"multi_head_attention_forward {_need}",
        lambda t, x, w, b, ow, ob, n=_need: t.nn.functional.multi_head_attention_forward(
            x, x, x, 6, 2, w, b, None, None, False, 0.0, ow, ob, need_weights=n,
            key_padding_mask=t.tensor([[False, False, True, False], [False, True, False, False]]),
        )[0],
        normal(4, 2, 6), normal(18, 6), normal(18), normal(6, 6), normal(6), double=False,
    )  # fmt: skip
