"""The public functions of all operations. Written by ci/stubs.py: do not edit."""

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

from ..tape.declared import _aminmax, _cummax, _cummin, _eig, _frexp, _geqrf, _histogram, _histogramdd, _kthvalue, _lu_unpack, _max, _median, _min, _mode, _nanmedian, _qr, _slogdet, _sort, _svd, _topk, _triangular_solve
def abs(input: Tensor, *, out: Any = None) -> Tensor:
    """The absolute value of each element; of a complex number sqrt(re^2 + im^2), which is real."""
def abs_(input: Tensor) -> Tensor:
    """In-place version of ``abs``; RuntimeError for complex tensors."""
def absolute(input: Tensor, *, out: Any = None) -> Tensor:
    """The absolute value of each element; of a complex number sqrt(re^2 + im^2), which is real."""
def acos(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1]."""
def acos_(input: Tensor) -> Tensor:
    """In-place version of ``acos``: the result is written into this tensor."""
def acosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
def acosh_(input: Tensor) -> Tensor:
    """In-place version of ``acosh``: the result is written into this tensor."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that are chosen so that the output has a given size."""
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """The largest element in each of `output_size` equal parts of a row, and its index: see"""
def add(input: Tensor, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """``input + alpha * other``, with broadcasting."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * (batch1[0] @ batch2[0] + batch1[1] @ batch2[1] + ...)``."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
    """``input + value * tensor1 / tensor2``."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast, and ignored with beta 0."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """In-place version of ``addmv``."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transposes of matrices: the last two dimensions exchanged, complex elements conjugated."""
def affine_grid_generator(theta: Any, size: Any, align_corners: Any) -> Tensor:
    """The places for ``grid_sample`` that affine maps send a regular grid to: ``nn.functional.affine_grid``."""
def alias_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``alias`` gives as a view, with memory of its own."""
def all(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """Whether all elements (along `dim`) are true; bool, uint8 for uint8 tensors."""
def allclose(input: Tensor, other: Tensor | _b.complex, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: _b.bool = False) -> _b.bool:
    """Whether all elements are close (see ``isclose``)."""
def alpha_dropout(input: Tensor, p: Any, train: Any) -> Tensor:
    """``nn.functional.alpha_dropout`` with `train` as its third argument."""
def alpha_dropout_(input: Tensor, p: Any, train: Any) -> Tensor:
    """In-place version of ``alpha_dropout``."""
def amax(input: Tensor, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The largest element over dimensions; equally large ones share the gradient."""
def amin(input: Tensor, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The smallest element over dimensions; equally small ones share the gradient."""
def aminmax(input: Tensor, *, dim: Any = None, keepdim: _b.bool = False, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> _aminmax:
    """The smallest and the largest element over one dimension, or over all."""
def angle(input: Tensor, *, out: Any = None) -> Tensor:
    """The angle of each complex number in radians, in [-pi, pi]; of real numbers 0, and pi where they are negative."""
def any(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """Whether any element (along `dim`) is true; bool, uint8 for uint8 tensors."""
def arange(start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """The numbers start, start + step, ... below `end`."""
def arccos(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1]."""
def arccos_(input: Tensor) -> Tensor:
    """In-place version of ``arccos``: the result is written into this tensor."""
def arccosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
def arccosh_(input: Tensor) -> Tensor:
    """In-place version of ``arccosh``: the result is written into this tensor."""
def arcsin(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
def arcsin_(input: Tensor) -> Tensor:
    """In-place version of ``arcsin``: the result is written into this tensor."""
def arcsinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
def arcsinh_(input: Tensor) -> Tensor:
    """In-place version of ``arcsinh``: the result is written into this tensor."""
def arctan(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse tangent of each element, in [-pi/2, pi/2]."""
def arctan2(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
def arctan_(input: Tensor) -> Tensor:
    """In-place version of ``arctan``: the result is written into this tensor."""
def arctanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
def arctanh_(input: Tensor) -> Tensor:
    """In-place version of ``arctanh``: the result is written into this tensor."""
def argmax(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The index (int64) of the first largest element: in the flattened tensor, or along `dim`."""
def argmin(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The index (int64) of the first smallest element: in the flattened tensor, or along `dim`."""
def argsort(input: Tensor, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, axis: Any = None, out: Any = None) -> Tensor:
    """The indices that sort `input` along `dim`."""
def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not zero, as rows: ``nonzero`` under NumPy's name."""
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """A view of the memory of `input` with any size and strides."""
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """In-place version of ``as_strided``: the tensor itself gets another shape and strides over its memory."""
def as_strided_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``as_strided`` gives as a view, with memory of its own."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """A copy of `input` with `src` in place of ``input.as_strided(size, stride, storage_offset)``."""
def as_tensor(data: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where dtype and device allow it."""
def asarray(obj: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, copy: Any = None, requires_grad: _b.bool | None = None) -> Tensor:
    """`obj` as a tensor: itself or sharing its memory where that can be, unless `copy` is true."""
def asin(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
def asin_(input: Tensor) -> Tensor:
    """In-place version of ``asin``: the result is written into this tensor."""
def asinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
def asinh_(input: Tensor) -> Tensor:
    """In-place version of ``asinh``: the result is written into this tensor."""
def atan(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse tangent of each element, in [-pi/2, pi/2]."""
def atan2(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
def atan_(input: Tensor) -> Tensor:
    """In-place version of ``atan``: the result is written into this tensor."""
def atanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
def atanh_(input: Tensor) -> Tensor:
    """In-place version of ``atanh``: the result is written into this tensor."""
def atleast_1d(*tensors: Tensor) -> Any:
    """Views with at least 1 dimension."""
def atleast_2d(*tensors: Tensor) -> Any:
    """Views with at least 2 dimensions."""
def atleast_3d(*tensors: Tensor) -> Any:
    """Views with at least 3 dimensions."""
def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _b.bool = False, count_include_pad: _b.bool = True) -> Tensor:
    """The average of each window."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)`` of batches of matrices."""
def bartlett_window(window_length: Any, periodic: _b.bool = True, **options: Any) -> Tensor:
    """The triangular window, 1 in the middle and 0 at the ends."""
def batch_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Any, running_var: Any, training: Any, momentum: Any, eps: Any, cudnn_enabled: _b.bool = True) -> Tensor:
    """``nn.functional.batch_norm`` with its arguments in another order, also of one value per channel."""
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """1 with probability `p` (or the element of `input`), else 0; not differentiable."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """``sum_ij input1[..., i] * weight[k, i, j] * input2[..., j] + bias[k]``."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Any = None, reduction: Any = 0) -> Tensor:
    """The binary cross entropy of scores, not reduced unless asked for."""
def bincount(input: Tensor, weights: Any = None, minlength: Any = 0) -> Tensor:
    """How often each of 0, 1, 2... occurs in an integer vector, or the sum of the weights of its occurrences."""
def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Tensor:
    """Numbers of successes in independent trials."""
def bitwise_and(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The bits that both integers have; of bool the logical and."""
def bitwise_left_shift(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Integers shifted to the left: input * 2^other, without what does not fit; `other` is a number of bits."""
def bitwise_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element with all bits inverted: -x - 1 of signed integers; of bool tensors the logical not."""
def bitwise_or(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The bits that one of the integers has, or both; of bool the logical or."""
def bitwise_right_shift(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Integers shifted to the right: floor(input / 2^other); `other` is a number of bits."""
def bitwise_xor(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The bits that exactly one of the integers has; of bool whether they differ."""
def blackman_window(window_length: Any, periodic: _b.bool = True, **options: Any) -> Tensor:
    """``0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)`` for x from 0 to 1."""
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices along its diagonal and zeros elsewhere."""
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None, out_dtype: Any = None) -> Tensor:
    """The products of two equally long lists of matrices: (b, n, k) times (b, k, m) gives (b, n, m)."""
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of the given shapes broadcast to, without making them."""
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to the shape that they broadcast to."""
def broadcast_to(input: Tensor, size: Any, *more: Any) -> Tensor:
    """A view with dimensions of length one repeated up to `size`: ``expand`` under NumPy's name."""
def bucketize(input: Tensor | _b.complex, boundaries: Tensor | _b.complex, *, out_int32: _b.bool = False, right: _b.bool = False, out: Any = None) -> Tensor:
    """The number of the interval between sorted `boundaries` that each value lies in; see ``searchsorted``."""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows, the last one changing fastest."""
def cat(tensors: Sequence[Tensor], dim: Any = 0, *, axis: Any = None, out: Any = None) -> Tensor:
    """The tensors one after the other along `dim`."""
def cdist(x1: Tensor, x2: Tensor, p: Any = 2.0, compute_mode: Any = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """The distances in the p-norm of all pairs of rows."""
def ceil(input: Tensor, *, out: Any = None) -> Tensor:
    """The smallest whole number that is not below each element; integers as they are."""
def ceil_(input: Tensor) -> Tensor:
    """In-place version of ``ceil``: the result is written into this tensor."""
def celu(input: Tensor, alpha: Any = 1.0, inplace: _b.bool = False) -> Tensor:
    """``x`` where positive, else ``alpha * (exp(x / alpha) - 1)``: elu without a bend at 0, whatever `alpha` is."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of ``celu``."""
def chain_matmul(*matrices: Any, out: Any = None) -> Tensor:
    """The product of several matrices, multiplied in the cheapest order; deprecated, as ``linalg.multi_dot`` does it."""
def channel_shuffle(input: Tensor, groups: _b.int) -> Tensor:
    """Channels, which are in groups, taken in turn from each group."""
def cholesky(input: Tensor, upper: _b.bool = False, *, out: Any = None) -> Tensor:
    """L with ``input = L @ L^H``: the older form of ``linalg.cholesky``, with its errors."""
def cholesky_inverse(L: Any, upper: _b.bool = False, *, out: Any = None) -> Tensor:
    """The inverse of matrices that are given by their Cholesky factors."""
def cholesky_solve(B: Any, L: Any, upper: _b.bool = False, *, out: Any = None) -> Tensor:
    """X with ``A @ X = B``, where A is given by its Cholesky factor."""
def chunk(input: Tensor, chunks: _b.int, dim: Any = 0, *, axis: Any = None) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of equal length along `dim` (the last may be smaller)."""
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of ``clamp``."""
def clamp_max(input: Tensor, max: Any, *, out: Any = None) -> Tensor:
    """The smaller one of each element of `input` and `max`: ``clamp`` with an upper bound alone."""
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    """In-place version of ``clamp_max``."""
def clamp_min(input: Tensor, min: Any, *, out: Any = None) -> Tensor:
    """The larger one of each element of `input` and `min`: ``clamp`` with a lower bound alone."""
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    """In-place version of ``clamp_min``."""
def clip(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
def clip_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of ``clamp``."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy with memory of its own, through which gradients flow to `input`."""
def column_stack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Tensors joined along dimension 1, vectors and scalars as columns."""
def combinations(input: Tensor, r: Any = 2, with_replacement: _b.bool = False) -> Tensor:
    """All ways to choose `r` elements of a vector, as rows, in the order of ``itertools.combinations``."""
def complex(real: Any, imag: Any, *, out: Any = None) -> Tensor:
    """The complex numbers with the given real and imaginary parts."""
def concat(tensors: Sequence[Tensor], dim: Any = 0, *, axis: Any = None, out: Any = None) -> Tensor:
    """The tensors one after the other along `dim`."""
def concatenate(tensors: Sequence[Tensor], dim: Any = 0, *, axis: Any = None, out: Any = None) -> Tensor:
    """The tensors one after the other along `dim`."""
def conj(input: Tensor) -> Tensor:
    """The complex conjugates, as a view: they are computed where they are needed."""
def conj_physical(input: Tensor, *, out: Any = None) -> Tensor:
    """The complex conjugates, with memory of their own: ``conj`` that does not wait until values are needed."""
def conj_physical_(input: Tensor) -> Tensor:
    """In-place version of ``conj_physical``."""
def constant_pad_nd(input: Tensor, pad: Any, value: Tensor | _b.complex = 0) -> Tensor:
    """`input` with a border of one value: ``nn.functional.pad`` in constant mode."""
def contiguous(input: Tensor, memory_format: _memory_format | None = None) -> Tensor:
    """`input` with elements that follow each other in memory in row-major order, or in the order of a memory format."""
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
def convolution(input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, output_padding: Any, groups: _b.int) -> Tensor:
    """The general form of all convolutions; see ``conv1d`` and ``conv_transpose1d``."""
def copysign(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The magnitude of each element of `input` with the sign of that of `other`; -0.0 is negative."""
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlations of variables: covariances divided by both standard deviations."""
def cos(input: Tensor, *, out: Any = None) -> Tensor:
    """The cosine of each element, in radians."""
def cos_(input: Tensor) -> Tensor:
    """In-place version of ``cos``: the result is written into this tensor."""
def cosh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic cosine of each element: (e^x + e^-x) / 2."""
def cosh_(input: Tensor) -> Tensor:
    """In-place version of ``cosh``: the result is written into this tensor."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0.0, reduction: Any = 0) -> Tensor:
    """1 - cos(x1, x2) where `target` is 1, max(0, cos(x1, x2) - margin) where it is -1; not reduced unless asked for."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: Any = 1, eps: Any = 1e-08) -> Tensor:
    """The cosine of the angle between vectors."""
def count_nonzero(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """The number (int64) of elements that are not zero, over the dimension(s) `dim` (all by default)."""
def cov(input: Tensor, *, correction: Any = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariance matrix of variables."""
def cross(input: Tensor, other: Tensor | _b.complex, dim: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
    """``linalg.cross``; without `dim`, along the first dimension of length 3."""
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: Any = 0, zero_infinity: _b.bool = False) -> Tensor:
    """The connectionist temporal classification loss, not reduced unless asked for."""
def cummax(input: Tensor, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummax:
    """The largest element so far along a dimension, and where it is."""
def cummin(input: Tensor, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummin:
    """The smallest element so far along a dimension, and where it is."""
def cumprod(input: Tensor, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
    """The running product along a dimension."""
def cumsum(input: Tensor, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
    """The running sum along a dimension."""
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: Any = -1) -> Tensor:
    """The running integral along a dimension by the trapezoid rule."""
def deg2rad(input: Tensor, *, out: Any = None) -> Tensor:
    """Each angle, given in degrees, in radians: x * pi / 180."""
def deg2rad_(input: Tensor) -> Tensor:
    """In-place version of ``deg2rad``: the result is written into this tensor."""
def det(A: Any, *, out: Any = None) -> Tensor:
    """The determinant of square matrices. The gradient exists for singular matrices, too."""
def detach(input: Tensor) -> Tensor:
    """The same memory outside of the graph."""
def detach_(input: Tensor) -> Tensor:
    """Take this tensor out of its graph in place; RuntimeError for a view. In inference mode nothing happens."""
def detach_copy(input: Tensor, *, out: Any = None) -> Tensor:
    """A copy with memory of its own and no history: ``detach`` followed by a copy."""
def diag(input: Tensor, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
def diag_embed(input: Tensor, offset: _b.int = 0, dim1: _b.int = -2, dim2: _b.int = -1) -> Tensor:
    """Matrices, or tensors of more dimensions, with the last dimension of `input` on a diagonal and zeros elsewhere."""
def diagflat(input: Tensor, offset: _b.int = 0) -> Tensor:
    """A square matrix with all elements of `input`, in their order, on a diagonal, and zeros elsewhere."""
def diagonal(input: Tensor, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1) -> Tensor:
    """A view of the diagonal of the dimensions `dim1` and `dim2`, which go; it is the last dimension."""
def diagonal_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``diagonal`` gives as a view, with memory of its own."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` in place of ``input.diagonal(offset, dim1, dim2)``."""
def diff(input: Tensor, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
    """The n-th differences of neighbours along `dim`, after `prepend` and `append` are put at the ends."""
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of ``lgamma``."""
def dist(input: Tensor, other: Tensor | _b.complex, p: Any = 2) -> Tensor:
    """The norm of order `p` of ``input - other``, of all elements as one vector."""
def div(input: Tensor, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
    """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
def divide(input: Tensor, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
    """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
def dot(input: Tensor, tensor: Tensor, *, out: Any = None) -> Tensor:
    """The sum of products of two vectors of the same length (complex: nothing is conjugated)."""
def dropout(input: Tensor, p: Any, train: Any) -> Tensor:
    """`nn.functional.dropout` with `train` as its third argument; without it `input` itself."""
def dropout_(input: Tensor, p: Any, train: Any) -> Tensor:
    """In-place version of ``dropout``."""
def dsplit(input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
    """Views of pieces along the dimension that ``dstack`` joins."""
def dstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Tensors joined along dimension 2, after ``atleast_3d``: vectors and matrices become pages of depth one."""
def eig(input: Tensor, *args: Any, **kwargs: Any) -> _eig:
    """Gone from PyTorch, too: use torch.linalg.eig or torch.linalg.eigvals, which give complex numbers."""
def einsum(*args: Any) -> Tensor:
    """Sums of products of the operands in index notation."""
def embedding(weight: Tensor, indices: Any, padding_idx: Any = -1, scale_grad_by_freq: _b.bool = False, sparse: _b.bool = False) -> Tensor:
    """The rows of a matrix that `indices` names; see ``nn.functional.embedding``."""
def embedding_renorm_(weight: Tensor, indices: Any, max_norm: Any, norm_type: Any) -> Tensor:
    """Scale the rows of `weight` that `indices` names down until their norm is at most `max_norm`, in place."""
def empty(*size: Any, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None, **kw: Any) -> Tensor:
    """A tensor of the given size, uninitialised."""
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, pin_memory: _b.bool = False) -> Tensor:
    """A tensor of the size of `input`, uninitialised."""
def empty_permuted(size: Any, physical_layout: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """An uninitialised dense tensor whose dimensions lie in memory in the order `physical_layout`."""
def empty_strided(size: Any, stride: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """An uninitialised tensor with the given strides."""
def eq(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are equal to those of `other`; nan equals nothing."""
def equal(input: Tensor, other: Tensor | _b.complex) -> _b.bool:
    """Whether both tensors have the same size and elements."""
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element."""
def erf_(input: Tensor) -> Tensor:
    """In-place version of ``erf``: the result is written into this tensor."""
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """The complementary error function ``1 - erf(input)``."""
def erfc_(input: Tensor) -> Tensor:
    """In-place version of ``erfc``: the result is written into this tensor."""
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of ``erf``."""
def exp(input: Tensor, *, out: Any = None) -> Tensor:
    """e to the power of each element."""
def exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def exp2_(input: Tensor) -> Tensor:
    """In-place version of ``exp2``: the result is written into this tensor."""
def exp_(input: Tensor) -> Tensor:
    """In-place version of ``exp``: the result is written into this tensor."""
def expand(input: Tensor, *size: Any, implicit: _b.bool = False, **kw: Any) -> Tensor:
    """A view with dimensions of length one repeated up to `size`, without a copy: their elements share memory."""
def expand_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``expand`` gives as a view, with memory of its own."""
def expit(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + e^-x) of each element, in [0, 1]."""
def expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """e^x - 1 of each element, exact near 0."""
def expm1_(input: Tensor) -> Tensor:
    """In-place version of ``expm1``: the result is written into this tensor."""
def eye(n: Any, m: Any = None, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """The n x m matrix with ones on the diagonal."""
def feature_alpha_dropout(input: Tensor, p: Any, train: Any) -> Tensor:
    """``nn.functional.feature_alpha_dropout`` with `train` as its third argument."""
def feature_dropout(input: Tensor, p: Any, train: Any) -> Tensor:
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``."""
def fill(input: Tensor, value: Tensor | _b.complex) -> Tensor:
    """A tensor like `input` with every element `value`."""
def fill_(self: Tensor, value: Tensor | _b.complex) -> Tensor:
    """Every element set to `value`."""
def fix(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element without its fraction, rounded towards 0; integers as they are."""
def fix_(input: Tensor) -> Tensor:
    """In-place version of ``fix``: the result is written into this tensor."""
def flatten(input: Tensor, start_dim: _b.int = 0, end_dim: _b.int = -1) -> Tensor:
    """The dimensions from `start_dim` to `end_dim` merged into one; itself if there is nothing to merge."""
def flip(input: Tensor, dims: Any) -> Tensor:
    """A copy with the order of the entries of `dims` (a tuple) reversed."""
def fliplr(input: Tensor) -> Tensor:
    """A copy with the order of the columns reversed: ``flip`` of dimension 1."""
def flipud(input: Tensor) -> Tensor:
    """A copy with the order of the rows reversed: ``flip`` of dimension 0."""
def float_power(input: Tensor | _b.complex, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input ** exponent``, computed in float64, of complex arguments in complex128."""
def floor(input: Tensor, *, out: Any = None) -> Tensor:
    """The largest whole number that is not above each element; integers as they are."""
def floor_(input: Tensor) -> Tensor:
    """In-place version of ``floor``: the result is written into this tensor."""
def floor_divide(input: Tensor | _b.complex, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The largest whole number that is not above ``input / other``; unlike ``div`` with rounding it has no derivative."""
def fmax(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The larger one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
def fmin(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The smaller one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
def fmod(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Remainder of the division, with the sign of `input`."""
def frac(input: Tensor, *, out: Any = None) -> Tensor:
    """The fraction of each element, with its sign: x - trunc(x)."""
def frac_(input: Tensor) -> Tensor:
    """In-place version of ``frac``: the result is written into this tensor."""
def frexp(input: Tensor, *, out: Any = None) -> _frexp:
    """Fractions and exponents: ``input = mantissa * 2**exponent``."""
def from_dlpack(ext_tensor: Any, *, device: _device | _b.str | _b.int | None = None, copy: Any = None) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack (NumPy, CuPy, PyTorch, JAX), or with a capsule."""
def from_file(filename: Any, shared: Any = None, size: Any = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, pin_memory: _b.bool = False, requires_grad: _b.bool = False) -> Tensor:
    """A vector of `size` elements that is the beginning of a file, read as they are needed."""
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares memory with a NumPy array."""
def frombuffer(buffer: Any, *, dtype: _dtype | None, count: Any = -1, offset: _b.int = 0, requires_grad: _b.bool = False) -> Tensor:
    """A vector that shares memory with an object of the buffer protocol (bytearray, mmap, array...)."""
def full(size: Any, fill_value: Any, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None) -> Tensor:
    """A tensor of the given size filled with one number."""
def full_like(input: Tensor, fill_value: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, pin_memory: _b.bool = False) -> Tensor:
    """A tensor of the size of `input` filled with one number."""
def gather(input: Tensor, dim: Any, index: Tensor, *, sparse_grad: _b.bool = False, out: Any = None) -> Tensor:
    """The entries of one dimension that `index` names: ``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on."""
def gcd(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The greatest common divisor of two integers, not negative; gcd(0, 0) is 0."""
def gcd_(input: Tensor, other: Tensor | _b.complex) -> Tensor:
    """In-place version of ``gcd``: the result is written into this tensor."""
def ge(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are not below those of `other`."""
def geqrf(input: Tensor, *, out: Any = None) -> _geqrf:
    """The QR decomposition as the reflections that it is made of; without derivative."""
def ger(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
def get_device(input: Tensor) -> _b.int:
    """The number of the CUDA device that holds `input`."""
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: Any = 1) -> tuple[Tensor, ...]:
    """Estimated derivatives along dimensions, from the differences of neighbours."""
def greater(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are above those of `other`."""
def greater_equal(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are not below those of `other`."""
def grid_sampler(input: Tensor, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers."""
def grid_sampler_2d(input: Tensor, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers."""
def grid_sampler_3d(input: Tensor, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers."""
def group_norm(input: Tensor, num_groups: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05, cudnn_enabled: _b.bool = True) -> Tensor:
    """``nn.functional.group_norm``, also of groups of one value."""
def gt(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are above those of `other`."""
def hamming_window(window_length: Any, periodic: _b.bool = True, alpha: Any = 0.54, beta: Any = 0.46, **options: Any) -> Tensor:
    """``alpha - beta cos(2 pi x)`` for x from 0 to 1."""
def hann_window(window_length: Any, periodic: _b.bool = True, **options: Any) -> Tensor:
    """``0.5 - 0.5 cos(2 pi x)`` for x from 0 to 1."""
def hardshrink(input: Tensor, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
    """0 where ``|x| <= lambd``, else `input`."""
def hash_tensor(input: Tensor, dim: Any = ..., *, keepdim: _b.bool = False, mode: Any = 0, out: Any = None) -> Tensor:
    """A 64-bit number that depends on all elements: the exclusive or of their patterns as float64 or int64."""
def heaviside(input: Tensor, values: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The step function: 0 below 0, 1 above it, and at 0 the element of `values`."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Any = 1.0, reduction: Any = 0) -> Tensor:
    """x where `target` is 1, max(0, margin - x) where it is -1; not reduced unless asked for."""
def histc(input: Tensor, bins: Any = 100, min: Any = 0, max: Any = 0, *, out: Any = None) -> Tensor:
    """How many elements fall into each of equal intervals."""
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _b.bool = False, out: Any = None) -> _histogram:
    """How many elements fall into each of several intervals, and the edges of these."""
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: _b.bool = False) -> _histogramdd:
    """How many points fall into each cell of a grid, and the edges of the grid."""
def hsplit(input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
    """Views of pieces along the dimension that ``hstack`` joins."""
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse tensor whose values are rows."""
def hstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined horizontally: vectors along dimension 0, others along dimension 1."""
def hypot(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The length of the vector of two elements: sqrt(input^2 + other^2), without overflow. At (0, 0) the gradient is 0."""
def i0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function I0."""
def i0_(input: Tensor) -> Tensor:
    """In-place version of ``i0``: the result is written into this tensor."""
def igamma(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised lower incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
def igammac(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """1 less the integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised upper incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
def imag(input: Tensor) -> Tensor:
    """The imaginary parts of a complex tensor."""
def index_add(input: Tensor, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """A copy of `input` with ``alpha * source`` added to the slices of `dim` that `index` names."""
def index_copy(input: Tensor, dim: Any, index: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with the slices of `source` in place of those of `dim` that `index` names."""
def index_fill(input: Tensor, dim: Any, index: Tensor, value: Tensor | _b.complex) -> Tensor:
    """A copy of `input` with `value` in the slices of `dim` that `index` names."""
def index_put(input: Tensor, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
    """A copy of `input` with `values` at ``input[indices]``."""
def index_put_(input: Tensor, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
    """``values`` written to ``input[indices]``: ``index_put`` into `input` itself."""
def index_reduce(input: Tensor, dim: Any, index: Tensor, source: Tensor, reduce: Any, *, include_self: _b.bool = True, out: Any = None) -> Tensor:
    """A copy of `input` with the slices of `source` reduced into those of `dim` that `index` names."""
def index_select(input: Tensor, dim: Any, index: Tensor, *, out: Any = None) -> Tensor:
    """The slices of `dim` that `index` names, in its order: a copy."""
def inner(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Products summed over the last dimension of both; tensors without dimensions just multiply."""
def instance_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Any, running_var: Any, use_input_stats: Any, momentum: Any, eps: Any, cudnn_enabled: _b.bool = True) -> Tensor:
    """`nn.functional.instance_norm` with all arguments in PyTorch's order of the namespace."""
def inverse(A: Any, *, out: Any = None) -> Tensor:
    """The inverses of square matrices."""
def is_complex(input: Tensor) -> _b.bool:
    """Whether the dtype of `input` is complex."""
def is_conj(input: Tensor) -> _b.bool:
    """Whether the values are the conjugates of those in memory: of a tensor made by ``conj``, and of views of it."""
def is_floating_point(input: Tensor) -> _b.bool:
    """Whether the dtype of `input` is a real floating one: float16, bfloat16, float32 or float64."""
def is_inference(input: Tensor) -> _b.bool:
    """Whether `input` was made in inference mode: it can neither be saved for a gradient nor written to outside."""
def is_neg(input: Tensor) -> _b.bool:
    """Whether the values are the negatives of those in memory: of the imaginary part of a conjugated tensor."""
def is_nonzero(input: Tensor) -> _b.bool:
    """Whether the one element of a tensor is not zero."""
def is_same_size(input: Tensor, other: Tensor | _b.complex) -> _b.bool:
    """Whether two tensors have the same shape."""
def is_signed(input: Tensor) -> _b.bool:
    """Whether the dtype of `input` holds negative numbers: all but bool and unsigned integers do."""
def is_storage(obj: Any) -> _b.bool:
    """Whether `obj` is a storage: the memory of a tensor, as ``untyped_storage()`` or ``storage()`` gives it."""
def is_tensor(obj: Any) -> _b.bool:
    """Whether `obj` is a Tensor, or an instance of a subclass of it."""
def isclose(input: Tensor, other: Tensor | _b.complex, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: _b.bool = False) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, elementwise."""
def isfinite(input: Tensor) -> Tensor:
    """Whether each element is neither infinite nor nan."""
def isin(elements: Any, test_elements: Any, *, assume_unique: _b.bool = False, invert: _b.bool = False, out: Any = None) -> Tensor:
    """Whether each element is among `test_elements`."""
def isinf(input: Tensor) -> Tensor:
    """Whether each element is infinite, in the real or the imaginary part."""
def isnan(input: Tensor) -> Tensor:
    """Whether each element is nan, in the real or the imaginary part."""
def isneginf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is -inf."""
def isposinf(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is +inf."""
def isreal(input: Tensor) -> Tensor:
    """Whether each element has the imaginary part 0."""
def istft(input: Tensor, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: _b.bool = True, normalized: _b.bool = False, onesided: Any = None, length: Any = None, return_complex: _b.bool = False) -> Tensor:
    """The signal (n) or signals (b, n) with the given short-time Fourier transform (b, bins, pieces): least squares."""
def kaiser_window(window_length: Any, periodic: _b.bool = True, beta: Any = 12.0, **options: Any) -> Tensor:
    """The Kaiser window, ``I0(beta * sqrt(1 - x^2)) / I0(beta)`` for x from -1 to 1, with the Bessel function I0."""
def kl_div(input: Tensor, target: Tensor, reduction: Any = 0, log_target: _b.bool = False) -> Tensor:
    """target * (log(target) - input) of each element, for log probabilities `input`; not reduced unless asked for."""
def kron(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The Kronecker product: every element of `input` times `other`, as blocks."""
def kthvalue(input: Tensor, k: Any, dim: Any = -1, keepdim: _b.bool = False, *, out: Any = None) -> _kthvalue:
    """The `k`-th smallest element along a dimension."""
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Any = None, eps: Any = 1e-05, cudnn_enable: _b.bool = True) -> Tensor:
    """The last dimensions normalised to mean 0 and variance 1, then times `weight` plus `bias`."""
def lcm(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The least common multiple of two integers, not negative; 0 if one of them is."""
def lcm_(input: Tensor, other: Tensor | _b.complex) -> Tensor:
    """In-place version of ``lcm``: the result is written into this tensor."""
def ldexp(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input * 2**other``: a number put together from a fraction and an exponent."""
def ldexp_(input: Tensor, other: Tensor | _b.complex) -> Tensor:
    """In-place version of ``ldexp``: the result is written into this tensor."""
def le(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are not above those of `other`."""
def lerp(input: Tensor, end: Tensor | _b.complex, weight: Tensor, *, out: Any = None) -> Tensor:
    """``input + weight * (end - input)``, with broadcasting; `weight` is a number or a tensor."""
def less(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are below those of `other`."""
def less_equal(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are not above those of `other`."""
def lgamma(input: Tensor, *, out: Any = None) -> Tensor:
    """``log(|gamma(input)|)``."""
def linspace(start: Any, end: Tensor | _b.complex, steps: _b.int, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
def lobpcg(A: Any, k: Any = None, B: Any = None, X: Any = None, n: Any = None, iK: Any = None, niter: Any = None, tol: Any = None, largest: Any = None, method: Any = None, tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None) -> Tensor:
    """(E, X): the k largest (or smallest) eigenvalues of the symmetric A, or of ``A x = e B x``, and their vectors."""
def log(input: Tensor, *, out: Any = None) -> Tensor:
    """The natural logarithm of each element; -inf at 0, nan below it."""
def log10(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm of each element to the base 10; -inf at 0, nan below it."""
def log10_(input: Tensor) -> Tensor:
    """In-place version of ``log10``: the result is written into this tensor."""
def log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """log(1 + x) of each element, exact near 0; nan below -1."""
def log1p_(input: Tensor) -> Tensor:
    """In-place version of ``log1p``: the result is written into this tensor."""
def log2(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm of each element to the base 2; -inf at 0, nan below it."""
def log2_(input: Tensor) -> Tensor:
    """In-place version of ``log2``: the result is written into this tensor."""
def log_(input: Tensor) -> Tensor:
    """In-place version of ``log``: the result is written into this tensor."""
def log_softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None, *, axis: Any = None, out: Any = None) -> Tensor:
    """The logarithm of ``softmax(input, dim)``, computed without loss of precision."""
def logaddexp(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """log(e^a + e^b) of two elements, without overflow."""
def logaddexp2(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """log2(2^a + 2^b) of two elements, without overflow."""
def logcumsumexp(input: Tensor, dim: Any = None, *, out: Any = None, axis: Any = None) -> Tensor:
    """The logarithm of the running sum of exponentials along a dimension, without overflow."""
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of square matrices."""
def logical_and(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether both elements are other than 0."""
def logical_not(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element is 0."""
def logical_or(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether one of the elements is, or both are, other than 0."""
def logical_xor(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether exactly one of the elements is other than 0."""
def logit(input: Tensor, eps: Any = None, *, out: Any = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of the sigmoid; -inf at 0, inf at 1, nan outside of [0, 1]."""
def logit_(input: Tensor, eps: Any = None) -> Tensor:
    """In-place version of ``logit``."""
def logspace(start: Any, end: Tensor | _b.complex, steps: _b.int, base: Any = 10.0, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """``base ** linspace(start, end, steps)``: numbers whose exponents are evenly spaced, both ends included."""
def logsumexp(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over the dimension(s) `dim`, without overflow."""
def lstsq(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Gone from PyTorch, too: use torch.linalg.lstsq(A, B).solution, with its arguments the other way round."""
def lt(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` are below those of `other`."""
def lu(A: Any, pivot: _b.bool = True, get_infos: _b.bool = False, out: Any = None) -> Any:
    """The LU decomposition of matrices: the older form of ``linalg.lu_factor``."""
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Tensor:
    """X with ``A @ X = b``, where A is given by ``lu_factor``: the older form of ``linalg.lu_solve``."""
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: _b.bool = True, unpack_pivots: _b.bool = True, *, out: Any = None) -> _lu_unpack:
    """(P, L, U) of what ``lu_factor`` returns: ``A = P @ L @ U``."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Any = 0.0, reduction: Any = 0) -> Tensor:
    """max(0, -target * (input1 - input2) + margin), not reduced unless asked for."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _b.complex) -> Tensor:
    """A copy of `input` with `value`, a number or 0-dim tensor, where the bool tensor `mask` is true."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` with the elements of `source`, in their order, where `mask` is true."""
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """The elements where the bool tensor `mask` is true, in one dimension; both are broadcast together."""
def matmul(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The matrix product: of vectors a dot product, of stacks of matrices a stack."""
def matrix_exp(A: Any) -> Tensor:
    """The exponential of square matrices, ``1 + A + A @ A / 2 + ...``."""
def matrix_power(A: Any, n: Any, *, out: Any = None) -> Tensor:
    """The n-th power of square matrices by repeated squaring."""
def matrix_rank(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Gone from PyTorch, too: use torch.linalg.matrix_rank."""
@overload
def max(input: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _max: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor: ...
def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """``max_pool1d``, and the places of the maxima."""
def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _b.bool = False, return_indices: _b.bool = False) -> Any:
    """The maximum of each window."""
def maximum(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The larger one of two elements; nan if one of them is. At ties both have half of the gradient."""
def mean(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The mean over all elements, or over the dimension(s) `dim`. Integer input needs a floating `dtype`."""
@overload
def median(input: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _median: ...
def meshgrid(*tensors: Tensor, indexing: Any = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors: one tensor for each, all of one shape."""
@overload
def min(input: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _min: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor: ...
def minimum(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The smaller one of two elements; nan if one of them is. At ties both have half of the gradient."""
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices: (n, k) times (k, m) gives (n, m)."""
def mode(input: Tensor, dim: Any = -1, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> _mode:
    """The most frequent element along a dimension, the smallest of those."""
def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with the dimension(s) `source` moved to the position(s) `destination`."""
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with the dimension(s) `source` moved to the position(s) `destination`."""
def msort(input: Tensor, *, out: Any = None) -> Tensor:
    """A copy with the elements of each column sorted: ``sort`` along the first dimension, without the indices."""
def mul(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input * other``, with broadcasting."""
def multinomial(input: Tensor, num_samples: Any, replacement: _b.bool = False, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable."""
def multiply(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input * other``, with broadcasting."""
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """The product of a matrix (n, m) and a vector (m): (n)."""
def mvlgamma(input: Tensor, p: Any, *, out: Any = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`; the result is nan or inf outside its domain."""
def nan_to_num(input: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None, *, out: Any = None) -> Tensor:
    """`input` with nan replaced by `nan` (0) and infinities by `posinf`, `neginf` (the limits of the dtype)."""
def nan_to_num_(input: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    """In-place version of ``nan_to_num``."""
def nanmean(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The mean over dimensions of the elements that are not nan."""
@overload
def nanmedian(input: Tensor, *, out: Any = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _nanmedian: ...
def nanquantile(input: Tensor, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The quantiles of the elements that are not nan; see ``quantile``."""
def nansum(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The sum over dimensions with nan counted as zero."""
def narrow(input: Tensor, dim: Any, start: Any, length: Any) -> Tensor:
    """A view of `length` entries of dimension `dim` from `start` on."""
def narrow_copy(input: Tensor, dim: Any, start: Any, length: Any, *, out: Any = None) -> Tensor:
    """The entries ``start, ..., start + length - 1`` of `dim` with memory of their own: a copy of ``narrow``."""
def native_batch_norm(input: Tensor, weight: Tensor, bias: Any, running_mean: Any, running_var: Any, training: Any, momentum: Any, eps: Any, *, out: Any = None) -> Any:
    """``batch_norm``, and what it needs for its gradient."""
def native_channel_shuffle(input: Tensor, groups: _b.int) -> Tensor:
    """Channels, which are in groups, taken in turn from each group."""
def native_dropout(input: Tensor, p: Any, train: Any) -> Any:
    """Dropout, and which elements were kept."""
def native_dropout_backward(grad_output: Any, mask: Tensor, scale: Any) -> Tensor:
    """The gradient of ``native_dropout``: `grad_output` times `scale` where an element was kept, else 0."""
def native_group_norm(input: Tensor, weight: Tensor, bias: Any, N: Any, C: Any, HxW: Any, group: Any, eps: Any) -> Any:
    """``group_norm``, and what it needs for its gradient."""
def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor, bias: Any, eps: Any) -> Any:
    """``layer_norm``, and what it needs for its gradient."""
def ne(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` differ from those of `other`; nan differs from all."""
def neg(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element with the other sign."""
def neg_(input: Tensor) -> Tensor:
    """In-place version of ``neg``: the result is written into this tensor."""
def negative(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element with the other sign."""
def negative_(input: Tensor) -> Tensor:
    """In-place version of ``negative``: the result is written into this tensor."""
def nextafter(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The next number of the dtype after each element of `input` on the way to that of `other`."""
def nonzero(input: Tensor, *, out: Any = None, as_tuple: _b.bool = False) -> Any:
    """The indices of the elements that are not zero, one row each; as_tuple: one vector for each dimension."""
def nonzero_static(input: Tensor, *, size: Any, fill_value: Any = -1, out: Any = None) -> Tensor:
    """The first `size` rows of ``nonzero``, filled up with `fill_value`: the shape does not depend on the values."""
def norm(input: Tensor, p: Any = 'fro', dim: Any = None, keepdim: _b.bool = False, out: Any = None, dtype: _dtype | None = None) -> Tensor:
    """The norm of order `p` over dimensions; see ``linalg.vector_norm`` and ``linalg.matrix_norm``."""
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False) -> Tensor:
    """Normally distributed numbers."""
def not_equal(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Whether elements of `input` differ from those of `other`; nan differs from all."""
def numel(input: Tensor) -> _b.int:
    """The number of elements."""
def ones(*size: Any, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None, **kw: Any) -> Tensor:
    """A tensor of the given size, filled with ones."""
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, pin_memory: _b.bool = False) -> Tensor:
    """A tensor of the size of `input`, filled with ones."""
def orgqr(A: Any, tau: Any, *, out: Any = None) -> Tensor:
    """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition."""
def ormqr(input: Tensor, tau: Any, other: Tensor | _b.complex, left: _b.bool = True, transpose: _b.bool = False, *, out: Any = None) -> Tensor:
    """`other` multiplied by the full Q, or its conjugate transpose, that ``geqrf`` describes."""
def outer(input: Tensor, vec2: Tensor, *, out: Any = None) -> Tensor:
    """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-06, keepdim: _b.bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension: distances of rows at the same place."""
def pca_lowrank(A: Any, q: Any = None, center: _b.bool = True, niter: Any = 2) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of rank q of the rows of a matrix, by random projections: its principal components."""
def pdist(input: Tensor, p: Any = 2.0) -> Tensor:
    """The distances in the p-norm of all pairs of rows, each pair once."""
def permute(input: Tensor, *dims: Any, **kw: Any) -> Tensor:
    """A view with the dimensions in the order `dims`."""
def permute_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``permute`` gives as a view, with memory of its own."""
def pinverse(A: Any, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: _b.bool = False, out: Any = None) -> Tensor:
    """The Moore-Penrose pseudo-inverse of matrices."""
def pixel_shuffle(input: Tensor, upscale_factor: Any) -> Tensor:
    """Channels spread over places: images that are larger by a factor with fewer channels."""
def pixel_unshuffle(input: Tensor, downscale_factor: Any) -> Tensor:
    """Places gathered into channels: the inverse of ``pixel_shuffle``."""
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson distributed numbers."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: Any, full: Any, eps: Any, reduction: Any) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps) without `log_input`; not reduced unless asked"""
def polar(abs: Any, angle: Any, *, out: Any = None) -> Tensor:
    """The complex numbers with the given absolute values and angles in radians."""
def polygamma(n: Any, input: Tensor, *, out: Any = None) -> Tensor:
    """The n-th derivative of ``digamma``; ``digamma`` itself for n = 0."""
def positive(input: Tensor) -> Tensor:
    """`input` itself: the unary ``+``."""
def pow(input: Tensor | _b.complex, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input ** exponent`` for tensors and numbers on either side."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where positive, else ``weight * x``, with a slope that can be learnt."""
def prod(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The product of all elements, or over the dimension `dim` (an int). Exact gradients where elements are zero."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _b.bool = False) -> Tensor:
    """A copy of `input` with `source` written at the positions `index` of the flat tensor."""
def qr(input: Tensor, some: _b.bool = True, *, out: Any = None) -> _qr:
    """(Q, R) with ``input = Q @ R``: the older form of ``linalg.qr``."""
def quantile(input: Tensor, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The q-quantiles of all elements or along `dim`; those of a vector q are in the first dimension of the result."""
def rad2deg(input: Tensor, *, out: Any = None) -> Tensor:
    """Each angle, given in radians, in degrees: x * 180 / pi."""
def rad2deg_(input: Tensor) -> Tensor:
    """In-place version of ``rad2deg``: the result is written into this tensor."""
def rand(*size: Any, generator: Generator | None = None, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None, **kw: Any) -> Tensor:
    """A tensor of the given size filled with uniform numbers in [0, 1)."""
def rand_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, generator: Generator | None = None) -> Tensor:
    """A tensor of the size of `input` filled with uniform numbers in [0, 1)."""
def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Generator | None = None, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``."""
def randint_like(input: Tensor, low: Any = None, high: Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None) -> Tensor:
    """Integers in [low, high) in a tensor of the size of `input`."""
def randn(*size: Any, generator: Generator | None = None, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None, **kw: Any) -> Tensor:
    """A tensor of the given size filled with standard normal numbers."""
def randn_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, generator: Generator | None = None) -> Tensor:
    """A tensor of the size of `input` filled with standard normal numbers."""
def randperm(n: Any, *, generator: Generator | None = None, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """A random permutation of 0..n-1."""
def range(start: Any = 0, end: Tensor | _b.complex | None = None, step: Any = 1, *, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False) -> Tensor:
    """The numbers start, start + step, ... up to `end`, that one included; deprecated, ``arange`` leaves the end out."""
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, in row-major order."""
def real(input: Tensor) -> Tensor:
    """The real parts."""
def reciprocal(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / x of each element; inf at 0."""
def reciprocal_(input: Tensor) -> Tensor:
    """In-place version of ``reciprocal``: the result is written into this tensor."""
def relu(input: Tensor, *, out: Any = None) -> Tensor:
    """max(x, 0) of each element; nan stays nan. The gradient at 0 is 0."""
def relu_(input: Tensor) -> Tensor:
    """In-place version of ``relu``: the result is written into this tensor."""
def remainder(input: Tensor | _b.complex, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """Remainder of the division, with the sign of `other`."""
def renorm(input: Tensor, p: Any, dim: Any, maxnorm: Any, *, out: Any = None) -> Tensor:
    """A copy of `input` with each slice along `dim` scaled down until its p-norm is at most `maxnorm`."""
def repeat_interleave(input: Tensor, repeats: Any = None, dim: Any = None, *, axis: Any = None, output_size: Any = None) -> Tensor:
    """Each entry of a dimension repeated in place."""
def reshape(input: Tensor, *shape: Any, **kw: Any) -> Tensor:
    """The elements of a tensor in another shape, in row-major order."""
def resize_as_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``resize_`` to the shape of `tensor`."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or, of a conjugated view (``is_conj``), a copy that holds the conjugates in memory."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or, of a negated view (``is_neg``), a copy that holds the negatives in memory."""
def result_type(tensor1: Tensor | _b.complex, tensor2: Tensor | _b.complex) -> _dtype:
    """The dtype that an arithmetic operation on two tensors or numbers would have."""
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: Any = None) -> Tensor:
    """The last dimensions divided by the root of their mean square, then times `weight`."""
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """A copy with the entries of `dims` moved by `shifts` places, round the end; all as flat without `dims`."""
def rot90(input: Tensor, k: Any = 1, dims: Any = ...) -> Tensor:
    """A copy turned by `k` quarters in the plane of `dims`, from the first towards the second."""
def round(input: Tensor, *, decimals: Any = 0, out: Any = None) -> Tensor:
    """The nearest whole number, or number of `decimals` digits after the point; of two equally near ones the even one."""
def round_(input: Tensor, *, decimals: Any = 0) -> Tensor:
    """In-place version of ``round``."""
def row_stack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined vertically: along dimension 0, vectors as rows."""
def rrelu(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False, inplace: _b.bool = False) -> Tensor:
    """Leaky relu with a random slope for each negative element."""
def rrelu_(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _b.bool = False) -> Tensor:
    """In-place version of ``rrelu``."""
def rsqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / sqrt(x) of each element; inf at 0, nan below it."""
def rsqrt_(input: Tensor) -> Tensor:
    """In-place version of ``rsqrt``: the result is written into this tensor."""
def rsub(input: Tensor, other: Tensor | _b.complex, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``: ``sub`` with its first two arguments exchanged."""
def scalar_tensor(s: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False) -> Tensor:
    """A number as a tensor without dimensions, of the default dtype whatever kind of number it is."""
def scaled_dot_product_attention(query: Any, key: Any, value: Tensor | _b.complex, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: _b.bool = False, *, scale: Any = None, enable_gqa: _b.bool = False) -> Tensor:
    """``nn.functional.scaled_dot_product_attention``, under the name that PyTorch has beside it."""
def scatter(input: Tensor, dim: Any, index: Tensor, src: Tensor | None = None, *, value: Tensor | _b.complex | None = None, reduce: Any = None, out: Any = None) -> Tensor:
    """A copy of `input` with `src` at the places of `dim` that `index` names: ``out[index[i][j]][j] = src[i][j]``."""
def scatter_add(input: Tensor, dim: Any, index: Tensor, src: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` added at the places of `dim` that `index` names, repeated ones included."""
def scatter_reduce(input: Tensor, dim: Any, index: Tensor, src: Tensor, reduce: Any, *, include_self: _b.bool = True, out: Any = None) -> Tensor:
    """A copy of `input` where all of `src` that `index` sends to one place are reduced into it."""
def searchsorted(sorted_sequence: Tensor | _b.complex, input: Tensor | _b.complex, *, out_int32: _b.bool = False, right: _b.bool = False, side: Any = None, out: Any = None, sorter: Any = None) -> Tensor:
    """Where each value would be inserted to keep a sequence sorted."""
def select(input: Tensor, dim: Any, index: Tensor) -> Tensor:
    """A view of the entries at `index` of dimension `dim`, which goes away."""
def select_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``select`` gives as a view, with memory of its own."""
def select_scatter(input: Tensor, src: Tensor, dim: Any, index: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` in place of ``input.select(dim, index)``."""
def selu(input: Tensor, inplace: _b.bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the two constants that keep mean 0 and variance 1 from layer to layer."""
def selu_(input: Tensor) -> Tensor:
    """In-place version of ``selu``."""
def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a floating tensor type the default dtype; deprecated for ``set_default_dtype``, with a warning."""
def sgn(input: Tensor, *, out: Any = None) -> Tensor:
    """The direction of each element: x / abs(x), and 0 at 0; of real numbers their sign."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + e^-x) of each element, in [0, 1]."""
def sigmoid_(input: Tensor) -> Tensor:
    """In-place version of ``sigmoid``: the result is written into this tensor."""
def sign(input: Tensor, *, out: Any = None) -> Tensor:
    """-1, 0 or 1: the sign of each element; its gradient is 0."""
def signbit(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether each element has its sign bit set: negative numbers, and -0.0."""
def sin(input: Tensor, *, out: Any = None) -> Tensor:
    """The sine of each element, in radians."""
def sin_(input: Tensor) -> Tensor:
    """In-place version of ``sin``: the result is written into this tensor."""
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """In-place version of ``sinc``: the result is written into this tensor."""
def sinh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic sine of each element: (e^x - e^-x) / 2."""
def sinh_(input: Tensor) -> Tensor:
    """In-place version of ``sinh``: the result is written into this tensor."""
def slice_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``slice`` gives as a view, with memory of its own."""
def slice_inverse(input: Tensor, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1) -> Tensor:
    """The tensor that `input` is a slice of, laid out in memory as `src` is: the opposite of slicing."""
def slice_scatter(input: Tensor, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` in place of the slice ``start:end:step`` of `dim`."""
def slogdet(A: Any, *, out: Any = None) -> _slogdet:
    """The determinant of square matrices as sign and logarithm: ``det = sign * exp(logabsdet)``, without overflow."""
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse tensor."""
def softmax(input: Tensor, dim: Any = None, dtype: _dtype | None = None, *, axis: Any = None, out: Any = None) -> Tensor:
    """``exp(input) / sum(exp(input))`` along `dim`, safe from overflow. dtype: the input is converted to it first."""
def solve(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Gone from PyTorch, too: use torch.linalg.solve(A, B), with its arguments the other way round."""
def sort(input: Tensor, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, axis: Any = None, out: Any = None) -> _sort:
    """The elements in order along a dimension, and where they were; equal ones keep their order."""
def sparse_bsc_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """A matrix in compressed sparse block column layout; see ``sparse_compressed_tensor``."""
def sparse_bsr_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """A matrix in compressed sparse block row layout; see ``sparse_compressed_tensor``."""
def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Tensor | _b.complex, size: Any = None, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, pin_memory: _b.bool = False, requires_grad: _b.bool = False, check_invariants: Any = None) -> Any:
    """A sparse matrix in a compressed layout: CSR, CSC, BSR or BSC."""
def sparse_coo_tensor(indices: Any, values: Tensor | _b.complex | None = None, size: Any = None, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, pin_memory: _b.bool = False, requires_grad: _b.bool = False, check_invariants: Any = None, is_coalesced: Any = None) -> Any:
    """A sparse tensor with `values` at the places that the columns of `indices` name."""
def sparse_csc_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """A matrix in compressed sparse column layout; see ``sparse_compressed_tensor``."""
def sparse_csr_tensor(*args: Any, **kwargs: Any) -> Any:
    """A matrix in compressed sparse row layout; see ``sparse_compressed_tensor``."""
def split(tensor: Tensor, split_size_or_sections: Any = None, dim: Any = 0, *, split_size: Any = None) -> tuple[Tensor, ...]:
    """Pieces of `split_size` entries of `dim` (the last may be smaller), or of the given lengths."""
def split_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> tuple[Tensor, ...]:
    """A copy of what ``split`` gives as a view, with memory of its own."""
def split_with_sizes(input: Tensor, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
    """Views of pieces of given lengths along `dim`."""
def split_with_sizes_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> tuple[Tensor, ...]:
    """A copy of what ``split_with_sizes`` gives as a view, with memory of its own."""
def sqrt(input: Tensor, *, out: Any = None) -> Tensor:
    """The square root of each element; nan below 0."""
def sqrt_(input: Tensor) -> Tensor:
    """In-place version of ``sqrt``: the result is written into this tensor."""
def square(input: Tensor, *, out: Any = None) -> Tensor:
    """x * x of each element; of integers without what does not fit into their dtype."""
def square_(input: Tensor) -> Tensor:
    """In-place version of ``square``: the result is written into this tensor."""
def squeeze(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """A view without dimensions of length one: all of them, or those among `dim` (an int or a tuple)."""
def squeeze_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``squeeze`` gives as a view, with memory of its own."""
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` as a sparse tensor; `mat1` is sparse, `mat2` dense."""
def stack(tensors: Sequence[Tensor], dim: Any = 0, *, axis: Any = None, out: Any = None) -> Tensor:
    """Tensors of one shape, one after the other along a new dimension."""
def std(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The standard deviation over dimensions."""
def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean, as a tuple, over dimensions."""
def stft(input: Tensor, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: _b.bool = True, pad_mode: Any = 'reflect', normalized: _b.bool = False, onesided: Any = None, return_complex: Any = None, align_to_window: Any = None) -> Tensor:
    """The Fourier transforms of overlapping windowed pieces of a signal (n) or signals (b, n): (b, bins, pieces)."""
def sub(input: Tensor, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """``input - alpha * other``, with broadcasting."""
def subtract(input: Tensor, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
    """``input - alpha * other``, with broadcasting."""
def sum(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The sum over all elements, or over dimensions."""
def svd(input: Tensor, some: _b.bool = True, compute_uv: _b.bool = True, *, out: Any = None) -> _svd:
    """(U, S, V) with ``input = U @ diag(S) @ V^H``: the older form of ``linalg.svd``, which returns V^H."""
def svd_lowrank(A: Any, q: Any = 6, niter: Any = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of rank q, with nearly the largest singular values of a matrix, by random projections."""
def swapaxes(input: Tensor, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
    """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
def swapdims(input: Tensor, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
    """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
def symeig(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Gone from PyTorch, too: use torch.linalg.eigh or torch.linalg.eigvalsh, with UPLO='U' for the upper triangle."""
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
def t_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``t`` gives as a view, with memory of its own."""
def take(input: Tensor, index: Tensor, *, out: Any = None) -> Tensor:
    """The elements at the positions `index` of the flat input, in the shape of `index`."""
def take_along_dim(input: Tensor, indices: Any, dim: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
    """``gather`` with `input` and `indices` broadcast against each other in all dimensions but `dim`."""
def tan(input: Tensor, *, out: Any = None) -> Tensor:
    """The tangent of each element, in radians."""
def tan_(input: Tensor) -> Tensor:
    """In-place version of ``tan``: the result is written into this tensor."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic tangent of each element: (e^x - e^-x) / (e^x + e^-x), in [-1, 1]."""
def tanh_(input: Tensor) -> Tensor:
    """In-place version of ``tanh``: the result is written into this tensor."""
def tensor(data: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences, NumPy arrays."""
def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: Any = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
    """`sections` pieces whose lengths differ by at most one, or pieces cut before the given indices."""
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Tensor:
    """Products summed over pairs of dimensions: the last `dims` of `a` with the first of `b`, or ``(of_a, of_b)``."""
def threshold(input: Tensor, threshold: Any, value: Tensor | _b.complex, inplace: _b.bool = False) -> Tensor:
    """`input` where it is above `threshold`, else `value`."""
def threshold_(input: Tensor, threshold: Any, value: Tensor | _b.complex) -> Tensor:
    """In-place version of ``threshold``."""
def tile(input: Tensor, *dims: Any, **kw: Any) -> Tensor:
    """``repeat``; missing leading counts are ones."""
def to_dlpack(tensor: Tensor) -> Any:
    """A capsule for another library's `from_dlpack`, which takes the tensor itself, too."""
def topk(input: Tensor, k: Any, dim: Any = -1, largest: _b.bool = True, sorted: _b.bool = True, *, axis: Any = None, out: Any = None) -> _topk:
    """(values, indices) of the `k` largest (or smallest) elements along `dim`, the first being the extreme one."""
def trace(input: Tensor) -> Tensor:
    """The sum of the main diagonal of a matrix."""
def transpose(input: Tensor, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
    """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
def transpose_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``transpose`` gives as a view, with memory of its own."""
def trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: Any = -1) -> Tensor:
    """The integral along `dim` by the trapezoid rule, over the places `x` or with the spacing `dx`."""
def trapz(y: Any, x: Any = None, *, dx: Any = 1.0, dim: Any = -1) -> Tensor:
    """The integral along `dim` by the trapezoid rule, over the places `x` or with the spacing `dx`."""
def triangular_solve(b: Any, A: Any, upper: _b.bool = True, transpose: _b.bool = False, unitriangular: _b.bool = False, *, out: Any = None) -> _triangular_solve:
    """X with ``A @ X = b`` for triangular A: the older form of ``linalg.solve_triangular``."""
def tril(input: Tensor, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
    """A copy of matrices with zeros everywhere but on and below a diagonal."""
def tril_indices(row: _b.int, col: _b.int, offset: _b.int = 0, *, dtype: _dtype | None = ..., device: _device | _b.str | _b.int | None = None, layout: _layout | None = None, pin_memory: _b.bool = False) -> Tensor:
    """The indices of the lower triangle of a matrix, in the order of its rows."""
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: Any = 1.0, p: Any = 2.0, eps: Any = 1e-06, swap: _b.bool = False, reduction: Any = 0) -> Tensor:
    """max(0, |anchor - positive|_p - |anchor - negative|_p + margin), not reduced unless asked for."""
def triu(input: Tensor, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
    """A copy of matrices with zeros everywhere but on and above a diagonal."""
def triu_indices(row: _b.int, col: _b.int, offset: _b.int = 0, *, dtype: _dtype | None = ..., device: _device | _b.str | _b.int | None = None, layout: _layout | None = None, pin_memory: _b.bool = False) -> Tensor:
    """The indices of the upper triangle of a matrix, in the order of its rows."""
def true_divide(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input / other``: ``div`` without rounding."""
def trunc(input: Tensor, *, out: Any = None) -> Tensor:
    """Each element without its fraction, rounded towards 0; integers as they are."""
def trunc_(input: Tensor) -> Tensor:
    """In-place version of ``trunc``: the result is written into this tensor."""
def typename(obj: Any) -> _b.str:
    """The name of the type of a tensor, or of any other object."""
def unbind(input: Tensor, dim: Any = 0, *, axis: Any = None) -> tuple[Tensor, ...]:
    """All entries of `dim`, as a tuple of views without that dimension."""
def unbind_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> tuple[Tensor, ...]:
    """A copy of what ``unbind`` gives as a view, with memory of its own."""
def unflatten(input: Tensor, dim: Any, sizes: Any) -> Tensor:
    """The dimension `dim` split into `sizes` (one may be -1)."""
def unfold_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``unfold`` gives as a view, with memory of its own."""
def unique(input: Tensor, sorted: _b.bool = True, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
    """The distinct elements, or slices, in ascending order."""
def unique_consecutive(input: Tensor, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
    """The elements that differ from the one before them."""
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates of positions in a flat array of `shape`."""
def unsafe_chunk(input: Tensor, chunks: _b.int, dim: Any = 0) -> tuple[Tensor, ...]:
    """Pieces as of ``chunk``, but each may be written to in place where gradients are recorded."""
def unsafe_split(tensor: Tensor, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
    """Pieces as of ``split``, but each may be written to in place where gradients are recorded."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
    """Pieces as of ``split_with_sizes``, but each may be written to in place where gradients are recorded."""
def unsqueeze(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """A view with a dimension of length one inserted at `dim`."""
def unsqueeze_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``unsqueeze`` gives as a view, with memory of its own."""
def vander(x: Any, N: Any = None, increasing: _b.bool = False) -> Tensor:
    """The matrix of powers of the elements of a vector."""
def var(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """The variance over dimensions."""
def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> tuple[Tensor, Tensor]:
    """The variance and the mean, as a tuple, over dimensions."""
def vdot(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The sum of products of two vectors, the first one conjugated."""
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of real numbers seen as complex ones: the last dimension holds the real and the imaginary part."""
def view_as_complex_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``view_as_complex`` gives as a view, with memory of its own."""
def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor seen as real numbers: a last dimension holds the real and the imaginary part."""
def view_as_real_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``view_as_real`` gives as a view, with memory of its own."""
def view_copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Tensor:
    """A copy of what ``view`` gives as a view, with memory of its own."""
def vsplit(input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
    """Views of pieces along the dimension that ``vstack`` joins."""
def vstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined vertically: along dimension 0, vectors as rows."""
def where(condition: Any, input: Tensor | _b.complex | None = None, other: Tensor | _b.complex | None = None, *, out: Any = None) -> Tensor:
    """Elements of `input` where `condition` is true, else elements of `other`."""
def xlogy(input: Tensor | _b.complex, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input * log(other)``, and 0 where `input` is 0."""
def xlogy_(input: Tensor, other: Tensor | _b.complex) -> Tensor:
    """In-place version of ``xlogy``: the result is written into this tensor."""
def zero_(self: Tensor) -> Tensor:
    """Every element set to zero."""
def zeros(*size: Any, out: Any = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False, names: Any = None, **kw: Any) -> Tensor:
    """A tensor of the given size, filled with zeros."""
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, memory_format: _memory_format | None = None, pin_memory: _b.bool = False) -> Tensor:
    """A tensor of the size of `input`, filled with zeros."""
