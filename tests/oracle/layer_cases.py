"""Modules, their inputs and settings: what test_nn_oracle.py runs in both libraries.

A case is (name, make, args, kwargs, training): `make(nn)` builds the module; float64 arrays
among the arguments require grad, other arrays and those in `Fixed` do not.
"""

from __future__ import annotations

import numpy as np

rng = np.random.default_rng(0)
CASES: list = []


class Fixed:
    """An array that gets no gradient."""

    def __init__(self, array):
        self.array = np.asarray(array)


def normal(*shape):
    return rng.standard_normal(shape)


def uniform(*shape):
    return rng.random(shape)


def whole(high, *shape):
    return rng.integers(0, high, shape)


def case(name, make, *args, training=True, **kwargs):
    CASES.append((name, make, args, kwargs, training))


def of(name, *args, **kwargs):
    """A function that makes the module of this name."""
    return lambda nn: getattr(nn, name)(*args, **kwargs)


# Linear maps and shapes
case("Linear", of("Linear", 4, 3), normal(5, 4))
case("Linear 3d no bias", of("Linear", 4, 3, bias=False), normal(2, 5, 4))
case("Linear 1d", of("Linear", 4, 3), normal(4))
case("Bilinear", of("Bilinear", 3, 4, 5), normal(2, 3), normal(2, 4))
case("Flatten", of("Flatten"), normal(2, 3, 4))
case("Unflatten", of("Unflatten", 1, (2, -1)), normal(3, 6))

# Convolutions, pooling, norms and padding in 1, 2 and 3 dimensions
for d in (1, 2, 3):
    size = (7, 6, 5)[:d]
    batch, single = normal(2, 4, *size), normal(4, *size)
    conv, transposed = f"Conv{d}d", f"ConvTranspose{d}d"
    case(conv, of(conv, 4, 6, 3, stride=2, padding=1, groups=2), batch)
    case(f"{conv} dilated", of(conv, 4, 6, 2, dilation=2, bias=False), batch)
    case(f"{conv} same", of(conv, 4, 6, 4, padding="same"), batch)
    case(f"{conv} unbatched", of(conv, 4, 6, 3), single)
    for mode in ("reflect", "replicate", "circular"):
        case(f"{conv} {mode}", of(conv, 4, 6, 3, padding=1, padding_mode=mode), batch)
    case(
        transposed,
        of(transposed, 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        batch,
    )
    bigger = tuple(2 * n + 2 for n in size)
    case(f"{transposed} size", of(transposed, 4, 6, 3, stride=2), batch, output_size=bigger)
    case(f"MaxPool{d}d", of(f"MaxPool{d}d", 3, 2, 1, ceil_mode=True), batch)
    case(
        f"MaxPool{d}d indices",
        of(f"MaxPool{d}d", 2, 1, dilation=2, return_indices=True),
        batch,
    )
    case(
        f"AvgPool{d}d",
        of(f"AvgPool{d}d", 3, 2, 1, ceil_mode=True, count_include_pad=False),
        batch,
    )
    case(f"AdaptiveAvgPool{d}d", of(f"AdaptiveAvgPool{d}d", 3), batch)
    case(f"AdaptiveMaxPool{d}d", of(f"AdaptiveMaxPool{d}d", 3, return_indices=True), batch)
    case(f"LPPool{d}d", of(f"LPPool{d}d", 2, 2), uniform(2, 4, *size))
    norm = f"BatchNorm{d}d"
    samples = normal(3, 4, *size)
    case(norm, of(norm, 4), samples)
    case(f"{norm} eval", of(norm, 4), samples, training=False)
    case(f"{norm} averaging", of(norm, 4, momentum=None, affine=False), samples)
    case(
        f"{norm} not tracking",
        of(norm, 4, track_running_stats=False, bias=False),
        samples,
        training=False,
    )
    case(
        f"InstanceNorm{d}d",
        of(f"InstanceNorm{d}d", 4, affine=True, track_running_stats=True),
        samples,
    )
    case(f"InstanceNorm{d}d unbatched", of(f"InstanceNorm{d}d", 4), single)
    for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
        value = (3.5,) if kind == "Constant" else ()
        case(f"{kind}Pad{d}d", of(f"{kind}Pad{d}d", 2, *value), batch)
    case(f"Dropout{d}d eval", of(f"Dropout{d}d"), batch, training=False)
case("AvgPool2d divisor", of("AvgPool2d", 3, 2, divisor_override=2), normal(2, 4, 7, 6))
case("BatchNorm1d of vectors", of("BatchNorm1d", 4), normal(5, 4))
case("MaxUnpool1d", of("MaxUnpool1d", 2), normal(1, 1, 2), Fixed([[[0, 3]]]))
case("MaxUnpool2d", of("MaxUnpool2d", 2), normal(1, 1, 2, 2), Fixed([[[[0, 3], [9, 14]]]]))

# Other norms and dropout
case("LayerNorm", of("LayerNorm", (3, 4)), normal(2, 3, 4))
case("LayerNorm no bias", of("LayerNorm", 4, bias=False), normal(2, 3, 4))
case("LayerNorm plain", of("LayerNorm", 4, elementwise_affine=False), normal(2, 3, 4))
case("GroupNorm", of("GroupNorm", 2, 4), normal(2, 4, 5))
case("RMSNorm", of("RMSNorm", 4), normal(2, 4))
case("RMSNorm plain", of("RMSNorm", (3, 4), eps=0.1, elementwise_affine=False), normal(2, 3, 4))
case("LocalResponseNorm", of("LocalResponseNorm", 3), normal(2, 5, 4))
case("Dropout of nothing", of("Dropout", 0.0), normal(3, 4))
case("Dropout of everything", of("Dropout", 1.0), normal(3, 4))
case("AlphaDropout eval", of("AlphaDropout"), normal(3, 4), training=False)
case("FeatureAlphaDropout eval", of("FeatureAlphaDropout"), normal(3, 4), training=False)

# Embeddings
case("Embedding", of("Embedding", 10, 3, padding_idx=2), whole(10, 2, 5))
case(
    "Embedding renormalised",
    of("Embedding", 10, 3, max_norm=0.5, scale_grad_by_freq=True),
    whole(10, 2, 5),
)
for mode in ("sum", "mean", "max"):
    case(
        f"EmbeddingBag {mode}", of("EmbeddingBag", 10, 3, mode=mode, padding_idx=1), whole(10, 4, 5)
    )
    case(
        f"EmbeddingBag {mode} offsets",
        of("EmbeddingBag", 10, 3, mode=mode),
        whole(10, 8),
        Fixed([0, 3, 3]),
    )
case(
    "EmbeddingBag weighted",
    of("EmbeddingBag", 10, 3, mode="sum", include_last_offset=True),
    whole(10, 8),
    Fixed([0, 3, 8]),
    normal(8),
)

# Activations
for name in (
    *("ReLU", "ReLU6", "Hardtanh", "Sigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU", "CELU"),
    *("SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink"),
    *("PReLU", "Softsign", "Tanhshrink"),
):
    case(name, of(name), normal(3, 4) * 2)
case("RReLU eval", of("RReLU"), normal(3, 4), training=False)
case("Threshold", of("Threshold", 0.1, 5), normal(3, 4))
case("GELU tanh", of("GELU", "tanh"), normal(3, 4))
case("PReLU per channel", of("PReLU", 4), normal(3, 4))
case("Softplus beta", of("Softplus", 2, 1), normal(3, 4))
for name in ("Softmax", "LogSoftmax", "Softmin"):
    case(name, of(name, 1), normal(3, 4))
case("Softmax2d", of("Softmax2d"), normal(2, 3, 4, 4))

# Images and distances
case("PixelShuffle", of("PixelShuffle", 2), normal(2, 8, 3, 3))
case("PixelUnshuffle", of("PixelUnshuffle", 2), normal(2, 2, 4, 4))
case("ChannelShuffle", of("ChannelShuffle", 2), normal(2, 4, 3, 3))
case("Fold", of("Fold", (4, 5), (2, 2)), normal(1, 12, 12))
case("Unfold", of("Unfold", (2, 3), padding=1, stride=2), normal(2, 5, 4, 5))
case("Upsample nearest", of("Upsample", scale_factor=2), normal(1, 2, 3, 4))
case("Upsample linear", of("Upsample", scale_factor=1.5, mode="linear"), normal(1, 2, 5))
case("Upsample bilinear", of("Upsample", size=(5, 7), mode="bilinear"), normal(1, 2, 3, 4))
case("Upsample bicubic", of("Upsample", scale_factor=2, mode="bicubic"), normal(1, 2, 4, 4))
case(
    "Upsample trilinear",
    of("Upsample", scale_factor=2, mode="trilinear", align_corners=True),
    normal(1, 2, 2, 3, 2),
)
case("UpsamplingBilinear2d", of("UpsamplingBilinear2d", scale_factor=2), normal(1, 2, 3, 4))
case("UpsamplingNearest2d", of("UpsamplingNearest2d", 5), normal(1, 2, 3, 4))
case("CosineSimilarity", of("CosineSimilarity"), normal(3, 4), normal(3, 4))
case("PairwiseDistance", of("PairwiseDistance", keepdim=True), normal(3, 4), normal(3, 4))
case("PairwiseDistance p=1", of("PairwiseDistance", 1.0), normal(3, 4), normal(3, 4))

# Recurrent layers
for name in ("RNNCell", "GRUCell"):
    case(name, of(name, 3, 4), normal(2, 3), normal(2, 4))
    case(f"{name} unbatched", of(name, 3, 4, bias=False), normal(3))
case("RNNCell relu", of("RNNCell", 3, 4, nonlinearity="relu"), normal(2, 3), normal(2, 4))
case("LSTMCell", of("LSTMCell", 3, 4), normal(2, 3), (normal(2, 4), normal(2, 4)))
case("LSTMCell from zero", of("LSTMCell", 3, 4), normal(2, 3))
for both in (False, True):
    way = " both ways" if both else ""
    layers = 4 if both else 2
    for name in ("RNN", "GRU"):
        make = of(name, 3, 4, 2, bidirectional=both)
        case(name + way, make, normal(5, 2, 3), normal(layers, 2, 4))
        case(
            f"{name} batch first" + way,
            of(name, 3, 4, 2, bidirectional=both, batch_first=True, bias=False),
            normal(2, 5, 3),
        )
        case(f"{name} unbatched" + way, of(name, 3, 4, bidirectional=both), normal(5, 3))
    states = (normal(layers, 2, 4), normal(layers, 2, 4))
    case("LSTM" + way, of("LSTM", 3, 4, 2, bidirectional=both), normal(5, 2, 3), states)
    case(
        "LSTM projected" + way,
        of("LSTM", 3, 4, 2, bidirectional=both, proj_size=2),
        normal(5, 2, 3),
    )
    case("LSTM unbatched" + way, of("LSTM", 3, 4, bidirectional=both), normal(5, 3))
case("RNN relu", of("RNN", 3, 4, nonlinearity="relu"), normal(5, 2, 3))

# Attention
later = Fixed(np.triu(np.ones((5, 5), bool), 1))
padding = Fixed(np.array([[0, 0, 0, 0, 1]] * 3, bool))
case(
    "MultiheadAttention",
    of("MultiheadAttention", 8, 2),
    normal(5, 3, 8),
    normal(6, 3, 8),
    normal(6, 3, 8),
)
case(
    "MultiheadAttention masked",
    of("MultiheadAttention", 8, 2, batch_first=True),
    *[normal(3, 5, 8)] * 3,
    attn_mask=later,
    key_padding_mask=padding,
    average_attn_weights=False,
)
case(
    "MultiheadAttention of other sizes",
    of(
        "MultiheadAttention", 8, 2, kdim=5, vdim=6, add_bias_kv=True, add_zero_attn=True, bias=False
    ),
    normal(5, 3, 8),
    normal(6, 3, 5),
    normal(6, 3, 6),
)
case(
    "MultiheadAttention unbatched",
    of("MultiheadAttention", 8, 2),
    *(normal(5, 8), normal(6, 8), normal(6, 8)),
    need_weights=False,
)
case(
    "MultiheadAttention causal",
    of("MultiheadAttention", 8, 2),
    *[normal(5, 3, 8)] * 3,
    attn_mask=later,
    is_causal=True,
    need_weights=False,
)
for first in (False, True):
    how = " norm first" if first else ""
    encoder, decoder = "TransformerEncoderLayer", "TransformerDecoderLayer"
    case(
        encoder + how,
        of(encoder, 8, 2, 16, 0.0, norm_first=first, activation="gelu"),
        normal(5, 3, 8),
    )
    case(
        f"{encoder} masked" + how,
        of(encoder, 8, 2, 16, 0.0, norm_first=first, batch_first=True),
        normal(3, 5, 8),
        later,
        padding,
    )
    case(
        decoder + how,
        of(decoder, 8, 2, 16, 0.0, norm_first=first),
        normal(5, 3, 8),
        normal(6, 3, 8),
        tgt_mask=later,
    )
case(
    "Transformer",
    of("Transformer", 8, 2, 2, 2, 16, 0.0),
    normal(6, 3, 8),
    normal(5, 3, 8),
    tgt_mask=later,
)
case(
    "Transformer no bias",
    of("Transformer", 8, 2, 1, 1, 16, 0.0, batch_first=True, bias=False),
    normal(3, 6, 8),
    normal(3, 5, 8),
)


# Losses
def ctc(reduction):
    """CTCLoss on log_softmax of its input: PyTorch's gradient is right only together with it."""

    def make(nn):
        module = nn.CTCLoss(reduction=reduction, zero_infinity=True)
        module.register_forward_pre_hook(lambda m, args: (args[0].log_softmax(-1), *args[1:]))
        return module

    return make


signs, classes = Fixed(np.sign(normal(3, 4))), Fixed([0, 1, 2, 3, 2])
for reduction in ("mean", "sum", "none"):

    def loss(name, *args, make=None, _reduction=reduction, **kwargs):
        made = of(make or name, reduction=_reduction, **kwargs)
        case(f"{name} {_reduction}", made, *args)

    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss"):
        loss(name, normal(3, 4), normal(3, 4))
    loss("SmoothL1Loss beta", normal(3, 4), normal(3, 4), make="SmoothL1Loss", beta=0.3)
    loss("HuberLoss delta", normal(3, 4), normal(3, 4), make="HuberLoss", delta=0.3)
    loss("NLLLoss", normal(5, 4), classes, ignore_index=1)
    loss("NLLLoss of images", normal(2, 4, 3, 3), Fixed(whole(4, 2, 3, 3)), make="NLLLoss")
    loss("CrossEntropyLoss", normal(5, 4), classes, ignore_index=1)
    loss(
        "CrossEntropyLoss smoothed",
        *(normal(5, 4, 2), Fixed(whole(4, 5, 2))),
        make="CrossEntropyLoss",
        label_smoothing=0.1,
    )
    loss(
        "CrossEntropyLoss of probabilities",
        *(normal(5, 4), uniform(5, 4)),
        make="CrossEntropyLoss",
        label_smoothing=0.1,
    )
    loss("CrossEntropyLoss unbatched", normal(4), Fixed(2), make="CrossEntropyLoss")
    loss("PoissonNLLLoss", normal(3, 4), Fixed(uniform(3, 4) * 5), full=True)
    loss("GaussianNLLLoss", normal(3, 4), normal(3, 4), uniform(3, 4) + 0.1, full=True)
    loss("KLDivLoss", normal(3, 4), uniform(3, 4))
    loss("KLDivLoss log", normal(3, 4), normal(3, 4), make="KLDivLoss", log_target=True)
    loss("BCELoss", uniform(3, 4), Fixed(uniform(3, 4)))
    loss("BCEWithLogitsLoss", normal(3, 4), uniform(3, 4))
    loss("SoftMarginLoss", normal(3, 4), signs)
    loss("HingeEmbeddingLoss", normal(3, 4), signs)
    loss("MultiLabelMarginLoss", normal(2, 4), Fixed([[3, 0, -1, 1], [1, -1, 2, 2]]))
    loss("MultiLabelSoftMarginLoss", normal(3, 4), Fixed(uniform(3, 4).round()))
    loss("CosineEmbeddingLoss", normal(3, 4), normal(3, 4), Fixed([1.0, -1, 1]), margin=0.2)
    loss("MarginRankingLoss", normal(3), normal(3), Fixed([1.0, -1, 1]), margin=0.1)
    for p in (1, 2):
        make = "MultiMarginLoss"
        loss(f"{make} p={p}", normal(3, 4), Fixed(whole(4, 3)), make=make, p=p, margin=0.7)
    for swap in (False, True):
        for make in ("TripletMarginLoss", "TripletMarginWithDistanceLoss"):
            triple = normal(3, 4), normal(3, 4), normal(3, 4)
            loss(f"{make} swap={swap}", *triple, make=make, swap=swap)
    case(
        f"CTCLoss {reduction}",
        ctc(reduction),
        normal(10, 2, 5),
        Fixed(whole(4, 2, 3) + 1),
        Fixed([10, 8]),
        Fixed([3, 2]),
    )
case("KLDivLoss batchmean", of("KLDivLoss", reduction="batchmean"), normal(3, 4), uniform(3, 4))
case(
    "AdaptiveLogSoftmaxWithLoss",
    of("AdaptiveLogSoftmaxWithLoss", 8, 20, [5, 10]),
    normal(6, 8),
    Fixed([0, 7, 19, 3, 12, 6]),
)
