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


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that are chosen so that the output has a given size."""
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that are chosen so that the output has a given size."""
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that are chosen so that the output has a given size."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows that are chosen so that the output has a given size."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool1d``, and the places of the maxima."""
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows that are chosen so that the output has a given size."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool2d``, and the places of the maxima."""
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """Maxima of windows that are chosen so that the output has a given size."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _b.bool = False) -> Any:
    """``adaptive_max_pool3d``, and the places of the maxima."""
def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Tensor:
    """The places for ``grid_sample`` that affine maps send a regular grid to."""
def alpha_dropout(input: Tensor, p: Any = 0.5, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """Dropout for selu networks: dropped elements take the least value of selu; mean and variance are kept."""
def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True) -> Tensor:
    """The average of each window."""
def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True, divisor_override: Any = None, *, out: Any = None) -> Tensor:
    """The average of each window."""
def avg_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True, divisor_override: Any = None, *, out: Any = None) -> Tensor:
    """The average of each window."""
def batch_norm(input: Tensor, running_mean: Any, running_var: Any, weight: Tensor | None = None, bias: Any = None, training: _b.bool = False, momentum: Any = 0.1, eps: Any = 1e-05) -> Tensor:
    """Each channel normalised over all other dimensions, then times `weight` plus `bias`."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """``sum_ij input1[..., i] * weight[k, i, j] * input2[..., j] + bias[k]``."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Binary cross entropy of probabilities: ``-(y * log(x) + (1 - y) * log(1 - x))``, the logarithms at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', pos_weight: Any = None) -> Tensor:
    """Binary cross entropy of scores: of their sigmoids, without overflow."""
def celu(input: Tensor, alpha: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``: elu without a bend at 0, whatever `alpha` is."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of ``celu``."""
def channel_shuffle(input: Tensor, groups: _b.int) -> Tensor:
    """Channels, which are in groups, taken in turn from each group."""
def conv1d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation over one dimension: each output is a sum over a window of all channels of its group."""
def conv2d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation over two dimensions: each output is a sum over a window of all channels of its group."""
def conv3d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _b.int = 1) -> Tensor:
    """Cross-correlation over three dimensions: each output is a sum over a window of all channels of its group."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Any, pad: Any = 0) -> Tensor:
    """``conv1d`` with the dimensions in another order, and a bias."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution over one dimension: the gradient of ``conv1d`` with respect to its input."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution over two dimensions: the gradient of ``conv2d`` with respect to its input."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _b.int = 1, dilation: Any = 1) -> Tensor:
    """The transposed convolution over three dimensions: the gradient of ``conv3d`` with respect to its input."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``1 - cos`` of pairs with target 1, ``max(0, cos - margin)`` of those with target -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: Any = 1, eps: Any = 1e-08) -> Tensor:
    """The cosine of the angle between vectors."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: Any = -100, reduce: Any = None, reduction: Any = 'mean', label_smoothing: Any = 0.0) -> Tensor:
    """Cross entropy of scores against classes or probabilities."""
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: Any = 'mean', zero_infinity: _b.bool = False) -> Tensor:
    """The negative log probability of label sequences, summed over all alignments with blanks."""
def dropout(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """In training, each element is zero with a probability, and the others are divided by one less that."""
def dropout1d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``."""
def dropout2d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``."""
def dropout3d(input: Tensor, p: Any = 0.5, training: _b.bool = True, inplace: _b.bool = False) -> Tensor:
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``."""
def elu(input: Tensor, alpha: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
def elu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of ``elu``: the result is written into `input`."""
def embedding(input: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0, scale_grad_by_freq: _b.bool = False, sparse: _b.bool = False) -> Tensor:
    """The rows of a matrix that indices name."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Any = None, max_norm: Any = None, norm_type: Any = 2, scale_grad_by_freq: _b.bool = False, mode: Any = 'mean', sparse: _b.bool = False, per_sample_weights: Any = None, include_last_offset: _b.bool = False, padding_idx: Any = None) -> Tensor:
    """The sum, mean or maximum of the rows of a matrix in each bag of indices, without the rows in between."""
def feature_alpha_dropout(input: Tensor, p: Any = 0.5, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels: all elements of one are dropped together."""
def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Columns put back to images, overlapping elements summed: the gradient of ``unfold``."""
def fractional_max_pool2d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """Maxima of windows at random steps, as many as the output is to have."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """``fractional_max_pool2d``, and the places of the maxima."""
def fractional_max_pool3d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """Maxima of windows at random steps, as many as the output is to have."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: _b.bool = False) -> Any:
    """``fractional_max_pool3d``, and the places of the maxima."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: _b.bool = False, eps: Any = 1e-06, reduction: Any = 'mean') -> Tensor:
    """Negative log likelihood of `target` under normal distributions: ``(log(var) + (input - target)**2 / var) / 2``."""
def gelu(input: Tensor, approximate: Any = 'none', *, out: Any = None) -> Tensor:
    """``x * P(X <= x)`` for a standard normal X."""
def glu(input: Tensor, dim: Any = -1) -> Tensor:
    """The gated linear unit ``a * sigmoid(b)``, where a and b are the two halves of `input` along `dim`."""
def grid_sample(input: Tensor, grid: Any, mode: Any = 'bilinear', padding_mode: Any = 'zeros', align_corners: Any = None) -> Tensor:
    """Images at given places, between their elements."""
def group_norm(input: Tensor, num_groups: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05) -> Tensor:
    """Each group of channels of each sample normalised to mean 0 and variance 1, then times `weight` plus `bias`."""
def grouped_mm(mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """One matrix product for each group."""
def gumbel_softmax(logits: Any, tau: Any = 1, hard: _b.bool = False, eps: Any = 1e-10, dim: Any = -1) -> Tensor:
    """A sample of a relaxed categorical distribution: softmax of `logits` plus Gumbel noise, over `tau`."""
def hardshrink(input: Tensor, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
    """0 where ``|x| <= lambd``, else `input`."""
def hardsigmoid(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6``: a sigmoid of three straight lines."""
def hardswish(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * min(max(x + 3, 0), 6) / 6``."""
def hardtanh(input: Tensor, min_val: Any = -1.0, max_val: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """`input` limited to [min_val, max_val]; its gradient is 0 at the bounds and beyond them."""
def hardtanh_(input: Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    """In-place version of ``hardtanh``: the result is written into `input`."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Any = 1.0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """`input` where the target is 1, ``max(0, margin - input)`` where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: Any = 'mean', delta: Any = 1.0, weight: Tensor | None = None) -> Tensor:
    """``e**2 / 2`` of errors up to `delta`, ``delta * (|e| - delta / 2)`` of larger ones."""
def instance_norm(input: Tensor, running_mean: Any = None, running_var: Any = None, weight: Tensor | None = None, bias: Any = None, use_input_stats: _b.bool = True, momentum: Any = 0.1, eps: Any = 1e-05) -> Tensor:
    """Each channel of each sample normalised over its positions, then times `weight` plus `bias`."""
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None, recompute_scale_factor: Any = None, antialias: _b.bool = False) -> Tensor:
    """Images, or signals or volumes, resized."""
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', log_target: _b.bool = False) -> Tensor:
    """The Kullback-Leibler divergence: ``y * (log(y) - x)``."""
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', weight: Tensor | None = None) -> Tensor:
    """The absolute error; its gradient at 0 is 0."""
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05, cudnn_enable: _b.bool = True) -> Tensor:
    """The last dimensions normalised to mean 0 and variance 1, then times `weight` plus `bias`."""
def leaky_relu(input: Tensor, negative_slope: Any = 0.01, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``negative_slope * x``."""
def leaky_relu_(input: Tensor, negative_slope: Any = 0.01) -> Tensor:
    """In-place version of ``leaky_relu``: the result is written into `input`."""
def linear(input: Tensor, weight: Tensor, bias: Any = None, *, out: Any = None) -> Tensor:
    """``input @ weight.T + bias``: input (..., n), weight (m, n) or (n,), bias (m,)."""
def linear_cross_entropy(input: Tensor, linear_weight: Any, target: Tensor, *, linear_bias: Any = None, weight: Tensor | None = None, reduction: Any = 'mean', ignore_index: Any = None, label_smoothing: Any = 0.0, options: Any = None) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target, ...)``."""
def local_response_norm(input: Tensor, size: Any, alpha: Any = 0.0001, beta: Any = 0.75, k: Any = 1.0) -> Tensor:
    """``input / (k + alpha * m) ** beta`` with m the mean square over `size` neighbouring channels."""
def log_softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``input - log(sum(exp(input)))`` along a dimension, safe from overflow."""
def logsigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """``log(sigmoid(x))``, computed so that it does not overflow for large ``-x``."""
def lp_pool1d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """The p-norm of each window: the root of the sum of the powers."""
def lp_pool2d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """The p-norm of each window: the root of the sum of the powers."""
def lp_pool3d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: _b.bool = False) -> Tensor:
    """The p-norm of each window: the root of the sum of the powers."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``: which of two inputs should be larger."""
def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool1d``, and the places of the maxima."""
def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def max_pool2d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool2d``, and the places of the maxima."""
def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def max_pool3d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool3d``, and the places of the maxima."""
def max_unpool1d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the places where ``max_pool1d`` found them, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the places where ``max_pool2d`` found them, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """The values of `input` at the places where ``max_pool3d`` found them, zeros elsewhere."""
def mish(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * tanh(log(1 + exp(x)))``."""
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', weight: Tensor | None = None) -> Tensor:
    """The squared error."""
def multi_head_attention_forward(query: Any, key: Any, value: Tensor | _b.complex, embed_dim_to_check: Any, num_heads: Any, in_proj_weight: Any, in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: Any, dropout_p: Any, out_proj_weight: Any, out_proj_bias: Any, training: _b.bool = True, key_padding_mask: Any = None, need_weights: _b.bool = True, attn_mask: Any = None, use_separate_proj_weight: _b.bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: _b.bool = True, is_causal: _b.bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads: query (L, N, E), key (S, N, E'), value (S, N, E''); without N unbatched."""
def multi_margin_loss(input: Tensor, target: Tensor, p: Any = 1, margin: Any = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """For each row the sum over wrong classes of ``max(0, margin - x[y] + x[i]) ** p``, over the number of classes."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """The sum of ``max(0, 1 - (x[target] - x[other]))`` over pairs of a target class and another class, over C."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Binary cross entropy of scores, averaged over the classes."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: Any = -100, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """The negative log likelihood of classes: minus the log probability of the target."""
def normalize(input: Tensor, p: Any = 2.0, dim: Any = 1, eps: Any = 1e-12, out: Any = None) -> Tensor:
    """`input` divided by its p-norm along a dimension."""
def one_hot(tensor: Tensor, num_classes: Any = -1) -> Tensor:
    """For each class number a row of zeros with a one in its place."""
def pad(input: Tensor, pad: Any, mode: Any = 'constant', value: Tensor | _b.complex | None = None) -> Tensor:
    """`input` with borders."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-06, keepdim: _b.bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension: distances of rows at the same place."""
def pdist(input: Tensor, p: Any = 2.0) -> Tensor:
    """The distances in the p-norm of all pairs of rows, each pair once."""
def pixel_shuffle(input: Tensor, upscale_factor: Any) -> Tensor:
    """Channels spread over places: images that are larger by a factor with fewer channels."""
def pixel_unshuffle(input: Tensor, downscale_factor: Any) -> Tensor:
    """Places gathered into channels: the inverse of ``pixel_shuffle``."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _b.bool = True, full: _b.bool = False, size_average: Any = None, eps: Any = 1e-08, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """Negative log likelihood of counts under Poisson distributions."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where positive, else ``weight * x``, with a slope that can be learnt."""
def relu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``max(x, 0)``; nan stays nan. The gradient at 0 is 0."""
def relu6(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``min(max(x, 0), 6)``."""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """In-place version of ``relu``: the result is written into this tensor."""
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: Any = None) -> Tensor:
    """The last dimensions divided by the root of their mean square, then times `weight`."""
def rrelu(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """Leaky relu with a random slope for each negative element."""
def rrelu_(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False) -> Tensor:
    """In-place version of ``rrelu``."""
def scaled_dot_product_attention(query: Any, key: Any, value: Tensor | _b.complex, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: _b.bool = False, scale: Any = None, enable_gqa: _b.bool = False) -> Tensor:
    """``softmax(query @ key^T * scale + mask) @ value``: means of the values, weighted by the likeness of the keys."""
def selu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the two constants that keep mean 0 and variance 1 from layer to layer."""
def selu_(input: Tensor) -> Tensor:
    """In-place version of ``selu``."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + e^-x) of each element, in [0, 1]."""
def silu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``x * sigmoid(x)``, also of complex numbers."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean', beta: Any = 1.0) -> Tensor:
    """``e**2 / (2 * beta)`` of errors below `beta`, ``|e| - beta / 2`` of larger ones."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: Any = 'mean') -> Tensor:
    """``log(1 + exp(-target * input))``."""
def softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``exp(input) / sum(exp(input))`` along a dimension, safe from overflow."""
def softmin(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """``exp(-input) / sum(exp(-input))`` along a dimension, safe from overflow."""
def softplus(input: Tensor, beta: Any = 1.0, threshold: Any = 20.0, *, out: Any = None) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, a smooth form of relu; the identity where ``beta * x > threshold``."""
def softshrink(input: Tensor, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
    """`input` moved towards 0 by `lambd`; 0 where ``|x| <= lambd``."""
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``, in (-1, 1)."""
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
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with a distance function of one's own."""
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Sliding blocks of images as columns."""
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None) -> Tensor:
    """``interpolate`` under an older name; deprecated."""
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in mode "bilinear" with aligned corners; deprecated."""
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in mode "nearest"; deprecated."""
def __getattr__(name: _b.str) -> Any: ...
