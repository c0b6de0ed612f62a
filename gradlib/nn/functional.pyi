"""What gradlib.nn.functional gives. Written by ci/stubs.py: do not edit."""

import builtins as _b
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from ..tape.device import device as _device
from ..tape.dtypes import dtype as _dtype
from ..tape.generator import Generator as Generator
from ..tape.layout import layout as _layout
from ..tape.layout import memory_format as _memory_format
from ..tape.sizes import Size as Size
from ..tape.tensor import Tensor as Tensor

from ..nn._linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from ..op.expose import write_same as write_same

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows chosen so that (N, C, L) becomes (N, C, output_size)."""
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows chosen so that the last two dimensions become `output_size`; None keeps a size."""
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows chosen so that the last three dimensions become `output_size`; None keeps a size."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows chosen so that (N, C, L) becomes (N, C, output_size)."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool1d`` with positions."""
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows chosen so that the last two dimensions become `output_size`; None keeps a size."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool2d`` with positions."""
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows chosen so that the last three dimensions become `output_size`; None keeps a size."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool3d`` with positions."""
def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Tensor:
    """The grid of ``grid_sample`` for affine maps `theta` (N, 2, 3) or (N, 3, 4) and an output of"""
def alpha_dropout(input: Tensor, p: Any = 0.5, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """Dropout for selu networks: dropped elements saturate, and mean and variance are kept."""
def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True) -> Tensor:
    """The average of each window of `input` (N, C, L) or (C, L)."""
def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True, divisor_override: Any = None, *, out: Any = None) -> Tensor:
    """The average of each window of `input` (N, C, H, W); divisor_override replaces the number of elements."""
def avg_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True, divisor_override: Any = None, *, out: Any = None) -> Tensor:
    """The average of each window of `input` (N, C, D, H, W); see ``avg_pool2d``."""
def batch_norm(input: Tensor, running_mean: Any, running_var: Any, weight: Tensor | None = None, bias: Any = None, training: _b.bool = False, momentum: Any = 0.1, eps: Any = 1e-05) -> Tensor:
    """Normalise each channel (dimension 1) over all other dimensions; then scale by `weight` and shift by `bias`."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """``sum_ij input1[..., i] * weight[k, i, j] * input2[..., j] + bias[k]``: (..., outputs)."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``-(y * log(x) + (1 - y) * log(1 - x))`` with the logarithms limited to -100 from below."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', pos_weight: Any = None) -> Tensor:
    """Binary cross entropy of scores, sigmoid included; `pos_weight` weighs the term of the positive class."""
def celu(input: Tensor, alpha: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of ``celu``."""
def channel_shuffle(input: Tensor, groups: _b.int) -> Tensor:
    """Channels (dimension 1) in `groups` groups, taken in turn from each group."""
def conv1d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation of `input` (N, C, L) or (C, L) with `weight` (O, C / groups, K)."""
def conv2d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation of `input` (N, C, H, W) or (C, H, W) with `weight` (O, C / groups, KH, KW); see ``conv1d``."""
def conv3d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation of `input` (N, C, D, H, W) with `weight` (O, C / groups, KD, KH, KW); see ``conv1d``."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Any, pad: Any = 0) -> Tensor:
    """``conv1d`` on (time, batch, channels) with weight (K, C, O)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution: the gradient of ``conv1d`` with respect to its input, `weight` (C, O / groups, K)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution over two dimensions; see ``conv_transpose1d``."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution over three dimensions; see ``conv_transpose1d``."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``1 - cos`` of pairs with target 1, ``max(0, cos - margin)`` of those with target -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: Any = 1, eps: Any = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along `dim`; norms below `eps` count as `eps`."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: Any = -100, reduce: Any = None, reduction: Any = 'mean', label_smoothing: Any = 0.0) -> Tensor:
    """Cross entropy of scores `input` (N, C, ...) against class indices (N, ...) or probabilities (N, C, ...)."""
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: Any = 'mean', zero_infinity: _b.bool = False) -> Tensor:
    """The negative log probability of label sequences, summed over all alignments with blanks."""
def dropout(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """In training: each element is zeroed with probability `p`, the others are divided by ``1 - p``. Else `input`."""
def dropout1d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
def dropout3d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def elu(input: Tensor, alpha: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
def elu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of ``elu``."""
def embedding(input: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0, scale_grad_by_freq: _b.bool = False, sparse: _b.bool = False) -> Tensor:
    """Rows of `weight` (rows, D) at the integer indices `input` (any shape): (*input, D)."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Any = None, max_norm: Any = None, norm_type: Any = 2, scale_grad_by_freq: _b.bool = False, mode: Any = 'mean', sparse: _b.bool = False, per_sample_weights: Any = None, include_last_offset: _b.bool = False, padding_idx: Any = None) -> Tensor:
    """The sum, mean or maximum of the rows of `weight` in each bag of indices, without the rows in between."""
def feature_alpha_dropout(input: Tensor, p: Any = 0.5, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels."""
def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sums of columns (N, C * prod(kernel_size), blocks) put back to an image (N, C, *output_size)."""
def fractional_max_pool2d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """Maxima of windows of `kernel_size` at random steps, so many that the output has `output_size` (or that ratio)."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """``fractional_max_pool2d`` with positions."""
def fractional_max_pool3d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """``fractional_max_pool2d`` over three dimensions."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """``fractional_max_pool3d`` with positions."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: _b.bool = False, eps: Any = 1e-06, reduction: Any = 'mean') -> Tensor:
    """Negative log likelihood of `target` under normal distributions with mean `input` and variance `var` (>= eps)."""
def gelu(input: Tensor, approximate: Any = 'none', *, out: Any = None) -> Tensor:
    """``x * P(X <= x)`` for a standard normal X; approximate="tanh" uses the tanh formula instead."""
def glu(input: Tensor, dim: Any = -1) -> Tensor:
    """``a * sigmoid(b)`` where a and b are the two halves of `input` along `dim`."""
def grid_sample(input: Tensor, grid: Any, mode: Any = 'bilinear', padding_mode: Any = 'zeros', align_corners: Any = None) -> Tensor:
    """`input` (N, C, H, W) at the places `grid` (N, h, w, 2) of pairs (x, y) in [-1, 1]: (N, C, h,"""
def group_norm(input: Tensor, num_groups: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05) -> Tensor:
    """Normalise each of `num_groups` groups of channels of each sample; then scale and shift each channel."""
def grouped_mm(mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """One matrix product for each group."""
def gumbel_softmax(logits: Any, tau: Any = 1, hard: _b.bool = False, eps: Any = 1e-10, dim: Any = -1) -> Tensor:
    """A sample of a relaxed categorical distribution: softmax of `logits` plus Gumbel noise, over `tau`."""
def hardshrink(input: Tensor, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
    """0 where ``|x| <= lambd``, else `input`."""
def hardsigmoid(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6``."""
def hardswish(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * hardsigmoid(x)``."""
def hardtanh(input: Tensor, min_val: Any = -1.0, max_val: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """`input` limited to [min_val, max_val]; its gradient is 0 at the bounds."""
def hardtanh_(input: Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    """In-place version of ``hardtanh``."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Any = 1.0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """`input` where the target is 1, ``max(0, margin - input)`` where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: Any = 'mean', delta: Any = 1.0, weight: Tensor | None = None) -> Tensor:
    """Half the squared error up to `delta`, beyond it ``delta * (|error| - delta / 2)``."""
def instance_norm(input: Tensor, running_mean: Any = None, running_var: Any = None, weight: Tensor | None = None, bias: Any = None, use_input_stats: _b.bool = True, momentum: Any = 0.1, eps: Any = 1e-05) -> Tensor:
    """Normalise each channel of each sample over its positions; then scale and shift each channel."""
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None, recompute_scale_factor: Any = None, antialias: _b.bool = False) -> Tensor:
    """Resize the spatial dimensions of `input` (N, C, 1 to 3 dimensions) to `size`, or by `scale_factor`."""
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', log_target: _b.bool = False) -> Tensor:
    """The Kullback-Leibler divergence: ``y * (log y - x)`` for log probabilities `input` and probabilities `target`."""
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', weight: Tensor | None = None) -> Tensor:
    """The absolute error, averaged (or summed, or of each element); its gradient at 0 is 0."""
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05, cudnn_enable: _b.bool = True) -> Tensor:
    """Normalise over the last dimensions, those of `normalized_shape`, to mean 0 and variance 1; then scale and shift."""
def leaky_relu(input: Tensor, negative_slope: Any = 0.01, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``negative_slope * x``."""
def leaky_relu_(input: Tensor, negative_slope: Any = 0.01) -> Tensor:
    """In-place version of ``leaky_relu``."""
def linear(input: Tensor, weight: Tensor, bias: Any = None, *, out: Any = None) -> Tensor:
    """``input @ weight.T + bias``: input (..., n), weight (m, n) or (n,), bias (m,)."""
def local_response_norm(input: Tensor, size: Any, alpha: Any = 0.0001, beta: Any = 0.75, k: Any = 1.0) -> Tensor:
    """``input / (k + alpha * m) ** beta`` with m the mean square over `size` neighbouring channels."""
def log_softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``log_softmax(input, dim)``; see ``gradlib.log_softmax``."""
def logsigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """``log(sigmoid(x))``, safe for large ``-x``."""
def lp_pool1d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """The `norm_type`-th root of the sum of powers over each window."""
def lp_pool2d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """``lp_pool1d`` over two dimensions."""
def lp_pool3d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """``lp_pool1d`` over three dimensions."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)`` for targets 1 and -1."""
def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window of `input` (N, C, L) or (C, L); with return_indices also its position."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool1d`` with positions."""
def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window of `input` (N, C, H, W) or (C, H, W); see ``max_pool1d``."""
def max_pool2d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool2d`` with positions."""
def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window of `input` (N, C, D, H, W) or (C, D, H, W); see ``max_pool1d``."""
def max_pool3d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool3d`` with positions."""
def max_unpool1d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the positions `indices` that ``max_pool1d`` returned, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the positions `indices` that ``max_pool2d`` returned, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the positions `indices` that ``max_pool3d`` returned, zeros elsewhere."""
def mish(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * tanh(softplus(x))``."""
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', weight: Tensor | None = None) -> Tensor:
    """The squared error, averaged (or summed, or of each element), optionally weighted elementwise."""
def multi_head_attention_forward(query: Any, key: Any, value: Tensor | _b.complex, embed_dim_to_check: Any, num_heads: Any, in_proj_weight: Any, in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: Any, dropout_p: Any, out_proj_weight: Any, out_proj_bias: Any, training: _b.bool = True, key_padding_mask: Any = None, need_weights: _b.bool = True, attn_mask: Any = None, use_separate_proj_weight: _b.bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: _b.bool = True, is_causal: _b.bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads: query (L, N, E), key (S, N, E'), value (S, N, E''); without N unbatched."""
def multi_margin_loss(input: Tensor, target: Tensor, p: Any = 1, margin: Any = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """For each row the sum over wrong classes of ``max(0, margin - x[y] + x[i]) ** p``, divided by"""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Hinge of each pair (target class, other class); the targets of a row are its entries before the first -1."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Binary cross entropy of scores, averaged over the classes (last dimension)."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: Any = -100, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """The negative log likelihood of classes: minus the log probabilities `input` (N, C, ...) at `target` (N, ...)."""
def normalize(input: Tensor, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by `eps` where the norm is smaller."""
def one_hot(tensor: Tensor, num_classes: Any = -1) -> Tensor:
    """For each class number in `tensor` (int64) a row of zeros with a one in its place: (*tensor, num_classes)."""
def pad(input: Tensor, pad: Any, mode: Any = 'constant', value: Tensor | _b.complex | None = None) -> Tensor:
    """Pad the last dimensions: `pad` is (left, right) of the last, then (top, bottom) of the one before, and so on."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-06, keepdim: _b.bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
def pdist(input: Tensor, p: Any = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j of (n, d), as a vector of n (n - 1) / 2."""
def pixel_shuffle(input: Tensor, upscale_factor: Any) -> Tensor:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: Any) -> Tensor:
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _b.bool = True, full: _b.bool = False, size_average: Any = None, eps: Any = 1e-08, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Negative log likelihood of counts under a Poisson distribution with (log) rate `input`."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where positive, else ``weight * x``; `weight` has one element, or one for each channel (dimension 1)."""
def relu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``max(x, 0)``."""
def relu6(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``min(max(x, 0), 6)``."""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place version of ``relu``: the result is written into this tensor, which is returned."""
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: Any = None) -> Tensor:
    """Divide by the root of the mean square over the dimensions of `normalized_shape`; then scale by `weight`."""
def rrelu(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """Leaky relu whose slope is drawn from [lower, upper) for each element in training, else is their mean."""
def rrelu_(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False) -> Tensor:
    """In-place version of ``rrelu``."""
def scaled_dot_product_attention(query: Any, key: Any, value: Tensor | _b.complex, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: _b.bool = False, scale: Any = None, enable_gqa: _b.bool = False) -> Tensor:
    """``softmax(query @ key^T * scale + mask) @ value``: query (..., L, E), key (..., S, E), value (..., S, V)."""
def selu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the constants of self-normalising networks."""
def selu_(input: Tensor) -> Tensor:
    """In-place version of ``selu``."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + e^-x) of each element, in [0, 1]."""
def silu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * sigmoid(x)``, also of complex numbers."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', beta: Any = 1.0) -> Tensor:
    """Squared error over ``2 * beta`` below `beta`, absolute error less ``beta / 2`` above."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``log(1 + exp(-y * x))`` for targets 1 and -1."""
def softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``softmax(input, dim)``; see ``gradlib.softmax``."""
def softmin(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``softmax(-input, dim)``."""
def softplus(input: Tensor, beta: Any = 1.0, threshold: Any = 20.0, *, out: Any = None) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``; the identity where ``beta * x > threshold``."""
def softshrink(input: Tensor, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
    """`input` moved towards 0 by `lambd`; 0 where ``|x| <= lambd``."""
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic tangent of each element: (e^x - e^-x) / (e^x + e^-x), in [-1, 1]."""
def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
def threshold(input: Tensor, threshold: Any, value: Tensor | _b.complex, inplace: _b.bool = False) -> Tensor:
    """`input` where it is above `threshold`, else `value`."""
def threshold_(input: Tensor, threshold: Any, value: Tensor | _b.complex) -> Tensor:
    """In-place version of ``threshold``."""
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: Any = 1.0, p: Any = 2, eps: Any = 1e-06, swap: _b.bool = False, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` for p-norm distances of the last dimension."""
def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *, distance_function: Any = None, margin: Any = 1.0, swap: _b.bool = False, reduction: Any = 'mean') -> Tensor:
    """``triplet_margin_loss`` with a distance function of one's own (``pairwise_distance`` if None)."""
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding blocks of `input` (N, C, H, W) or (C, H, W) as columns: (N, C * prod(kernel_size), number of blocks)."""
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None) -> Tensor:
    """``interpolate``."""
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in mode "bilinear" with aligned corners."""
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in mode "nearest"."""
def __getattr__(name: _b.str) -> Any: ...
