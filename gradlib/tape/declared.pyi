"""Methods of Tensor that declarations make. Written by ci/stubs.py: do not edit."""

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

class _aminmax(NamedTuple):
    min: Tensor
    max: Tensor

class _cummax(NamedTuple):
    values: Tensor
    indices: Tensor

class _cummin(NamedTuple):
    values: Tensor
    indices: Tensor

class _eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class _frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor

class _geqrf(NamedTuple):
    a: Tensor
    tau: Tensor

class _histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor

class _histogramdd(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]

class _kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor

class _lu_unpack(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class _max(NamedTuple):
    values: Tensor
    indices: Tensor

class _median(NamedTuple):
    values: Tensor
    indices: Tensor

class _min(NamedTuple):
    values: Tensor
    indices: Tensor

class _mode(NamedTuple):
    values: Tensor
    indices: Tensor

class _nanmedian(NamedTuple):
    values: Tensor
    indices: Tensor

class _qr(NamedTuple):
    Q: Tensor
    R: Tensor

class _slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _sort(NamedTuple):
    values: Tensor
    indices: Tensor

class _svd(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor

class _topk(NamedTuple):
    values: Tensor
    indices: Tensor

class _triangular_solve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor

class Declared:
    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix (n, m), on the same memory."""
    @property
    def T(self) -> Tensor:
        """A view with all dimensions in reverse order: of a matrix its transpose; for others it is deprecated and warns."""
    def __abs__(self, /) -> Tensor: ...
    def __add__(self, other: Any, /) -> Tensor: ...
    def __and__(self, other: Any, /) -> Tensor: ...
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: _b.bool = False) -> Tensor:
        """The result of a NumPy function on this tensor, as a tensor on its device; bool becomes uint8, as in PyTorch."""
    def __contains__(self, other: Any, /) -> _b.bool: ...
    def __delitem__(self, other: Any, /) -> Tensor: ...
    def __div__(self, other: Any, /) -> Tensor: ...
    def __eq__(self, other: Any, /) -> Tensor: ...
    def __floordiv__(self, other: Any, /) -> Tensor: ...
    def __ge__(self, other: Any, /) -> Tensor: ...
    def __getitem__(self, other: Any, /) -> Tensor: ...
    def __gt__(self, other: Any, /) -> Tensor: ...
    def __iadd__(self, other: Any, /) -> Tensor: ...
    def __iand__(self, other: Any, /) -> Tensor: ...
    def __idiv__(self, other: Any, /) -> Tensor: ...
    def __ifloordiv__(self, other: Any, /) -> Tensor: ...
    def __ilshift__(self, other: Any, /) -> Tensor: ...
    def __imod__(self, other: Any, /) -> Tensor: ...
    def __imul__(self, other: Any, /) -> Tensor: ...
    def __invert__(self, /) -> Tensor: ...
    def __ior__(self, other: Any, /) -> Tensor: ...
    def __ipow__(self, other: Any, /) -> Tensor: ...
    def __irshift__(self, other: Any, /) -> Tensor: ...
    def __isub__(self, other: Any, /) -> Tensor: ...
    def __iter__(self, /) -> Iterator[Tensor]: ...
    def __itruediv__(self, other: Any, /) -> Tensor: ...
    def __ixor__(self, other: Any, /) -> Tensor: ...
    def __le__(self, other: Any, /) -> Tensor: ...
    def __long__(self, other: Any, /) -> _b.int: ...
    def __lshift__(self, other: Any, /) -> Tensor: ...
    def __lt__(self, other: Any, /) -> Tensor: ...
    def __matmul__(self, other: Any, /) -> Tensor: ...
    def __mod__(self, other: Any, /) -> Tensor: ...
    def __mul__(self, other: Any, /) -> Tensor: ...
    def __ne__(self, other: Any, /) -> Tensor: ...
    def __neg__(self, /) -> Tensor: ...
    def __nonzero__(self, other: Any, /) -> _b.bool: ...
    def __or__(self, other: Any, /) -> Tensor: ...
    def __pos__(self, /) -> Tensor: ...
    def __pow__(self, other: Any, /) -> Tensor: ...
    def __radd__(self, other: Any, /) -> Tensor: ...
    def __rand__(self, other: Any, /) -> Tensor: ...
    def __rdiv__(self, other: Any, /) -> Tensor: ...
    def __reversed__(self, /) -> Tensor: ...
    def __rfloordiv__(self, other: Any, /) -> Tensor: ...
    def __rlshift__(self, other: Any, /) -> Tensor: ...
    def __rmatmul__(self, other: Any, /) -> Tensor: ...
    def __rmod__(self, other: Any, /) -> Tensor: ...
    def __rmul__(self, other: Any, /) -> Tensor: ...
    def __ror__(self, other: Any, /) -> Tensor: ...
    def __rpow__(self, other: Any, /) -> Tensor: ...
    def __rrshift__(self, other: Any, /) -> Tensor: ...
    def __rshift__(self, other: Any, /) -> Tensor: ...
    def __rsub__(self, other: Any, /) -> Tensor: ...
    def __rtruediv__(self, other: Any, /) -> Tensor: ...
    def __rxor__(self, other: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: Tensor | _b.complex) -> None:
        """``x[key] = value`` for every key that ``x[key]`` takes; `value` is a number or a tensor that broadcasts."""
    def __sub__(self, other: Any, /) -> Tensor: ...
    def __truediv__(self, other: Any, /) -> Tensor: ...
    def __xor__(self, other: Any, /) -> Tensor: ...
    @property
    def _cdata(self) -> Tensor:
        """A number that no other tensor of this moment has."""
    def _coalesced_(self, coalesced: Any) -> Tensor:
        """Say whether the tensor is coalesced; it is believed. Returns the tensor."""
    def _dimI(self) -> _b.int:
        """``sparse_dim()`` of a COO tensor."""
    def _dimV(self) -> _b.int:
        """``dense_dim()`` of a COO tensor."""
    def _indices(self) -> Tensor:
        """The places as they are kept, of a tensor that need not be coalesced."""
    def _is_all_true(self) -> Tensor:
        """Whether all elements of a bool tensor are True, as a tensor; RuntimeError for another dtype."""
    def _is_any_true(self) -> Tensor:
        """Whether one element of a bool tensor is True, as a tensor; RuntimeError for another dtype."""
    def _is_zerotensor(self) -> _b.bool:
        """False: every tensor has memory for its zeros."""
    def _neg_view(self) -> Tensor:
        """The negative, a view with the negative bit set."""
    def _nested_tensor_size(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def _nested_tensor_storage_offsets(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def _nested_tensor_strides(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def _nnz(self) -> _b.int:
        """How many values are kept (of BSR and BSC: blocks)."""
    def _values(self) -> Tensor:
        """The values as they are kept, outside of the graph, of a tensor that need not be coalesced."""
    def abs(self, *, out: Any = None) -> Tensor:
        """The absolute value of each element; of a complex number sqrt(re^2 + im^2), which is real."""
    def abs_(self) -> Tensor:
        """In-place version of ``abs``; RuntimeError for complex tensors."""
    def absolute(self, *, out: Any = None) -> Tensor:
        """The absolute value of each element; of a complex number sqrt(re^2 + im^2), which is real."""
    def absolute_(self) -> Tensor:
        """In-place version of ``abs``; RuntimeError for complex tensors."""
    def acos(self, *, out: Any = None) -> Tensor:
        """The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1]."""
    def acos_(self) -> Tensor:
        """In-place version of ``acos``: the result is written into this tensor."""
    def acosh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
    def acosh_(self) -> Tensor:
        """In-place version of ``acosh``: the result is written into this tensor."""
    def add(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input + alpha * other``, with broadcasting."""
    def add_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``add``: the result is written into this tensor."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (batch1[0] @ batch2[0] + batch1[1] @ batch2[1] + ...)``."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addbmm``: the result is written into this tensor."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
        """``input + value * tensor1 / tensor2``."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1) -> Tensor:
        """In-place version of ``addcdiv``."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
        """``input + value * tensor1 * tensor2``."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1) -> Tensor:
        """In-place version of ``addcmul``."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast, and ignored with beta 0."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addmm``."""
    def addmv(self, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (mat @ vec)``."""
    def addmv_(self, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addmv``."""
    def addr(self, vec1: Tensor, vec2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addr``."""
    def adjoint(self) -> Tensor:
        """The conjugate transposes of matrices: the last two dimensions exchanged, complex elements conjugated."""
    def all(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """Whether all elements (along `dim`) are true; bool, uint8 for uint8 tensors."""
    def allclose(self, other: Tensor | _b.complex, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: _b.bool = False) -> _b.bool:
        """Whether all elements are close (see ``isclose``)."""
    def amax(self, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The largest element over dimensions; equally large ones share the gradient."""
    def amin(self, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The smallest element over dimensions; equally small ones share the gradient."""
    def aminmax(self, *, dim: Any = None, keepdim: _b.bool = False, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> _aminmax:
        """The smallest and the largest element over one dimension, or over all."""
    def angle(self, *, out: Any = None) -> Tensor:
        """The angle of each complex number in radians, in [-pi, pi]; of real numbers 0, and pi where they are negative."""
    def any(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """Whether any element (along `dim`) is true; bool, uint8 for uint8 tensors."""
    def apply_(self, callable: Callable[..., Any]) -> Tensor:
        """Every element replaced by ``callable(element)``: slow, since it is a call of Python for each."""
    def arccos(self, *, out: Any = None) -> Tensor:
        """The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1]."""
    def arccos_(self) -> Tensor:
        """In-place version of ``arccos``: the result is written into this tensor."""
    def arccosh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
    def arccosh_(self) -> Tensor:
        """In-place version of ``arccosh``: the result is written into this tensor."""
    def arcsin(self, *, out: Any = None) -> Tensor:
        """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """In-place version of ``arcsin``: the result is written into this tensor."""
    def arcsinh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
    def arcsinh_(self) -> Tensor:
        """In-place version of ``arcsinh``: the result is written into this tensor."""
    def arctan(self, *, out: Any = None) -> Tensor:
        """The inverse tangent of each element, in [-pi/2, pi/2]."""
    def arctan2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
    def arctan2_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``arctan2``: the result is written into this tensor."""
    def arctan_(self) -> Tensor:
        """In-place version of ``arctan``: the result is written into this tensor."""
    def arctanh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
    def arctanh_(self) -> Tensor:
        """In-place version of ``arctanh``: the result is written into this tensor."""
    def argmax(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The index (int64) of the first largest element: in the flattened tensor, or along `dim`."""
    def argmin(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The index (int64) of the first smallest element: in the flattened tensor, or along `dim`."""
    def argsort(self, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, axis: Any = None, out: Any = None) -> Tensor:
        """The indices that sort `input` along `dim`."""
    def argwhere(self) -> Tensor:
        """The indices of all elements that are not zero, as rows: ``nonzero`` under NumPy's name."""
    def as_strided(self, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """A view of the memory of `input` with any size and strides."""
    def as_strided_(self, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """In-place version of ``as_strided``: the tensor itself gets another shape and strides over its memory."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of ``input.as_strided(size, stride, storage_offset)``."""
    def as_subclass(self, cls: Any) -> Tensor:
        """The same memory and history as an instance of a subclass of Tensor."""
    def asin(self, *, out: Any = None) -> Tensor:
        """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
    def asin_(self) -> Tensor:
        """In-place version of ``asin``: the result is written into this tensor."""
    def asinh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
    def asinh_(self) -> Tensor:
        """In-place version of ``asinh``: the result is written into this tensor."""
    def atan(self, *, out: Any = None) -> Tensor:
        """The inverse tangent of each element, in [-pi/2, pi/2]."""
    def atan2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
    def atan2_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``atan2``: the result is written into this tensor."""
    def atan_(self) -> Tensor:
        """In-place version of ``atan``: the result is written into this tensor."""
    def atanh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
    def atanh_(self) -> Tensor:
        """In-place version of ``atanh``: the result is written into this tensor."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (batch1 @ batch2)`` of batches of matrices."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``baddbmm``."""
    def bernoulli(self, p: Any = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
        """1 with probability `p` (or the element of `input`), else 0; not differentiable."""
    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with ones with a probability, and else with zeros."""
    def bfloat16(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to bfloat16: ``to(gradlib.bfloat16)``."""
    def bincount(self, weights: Any = None, minlength: Any = 0) -> Tensor:
        """How often each of 0, 1, 2... occurs in an integer vector, or the sum of the weights of its occurrences."""
    def bitwise_and(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that both integers have; of bool the logical and."""
    def bitwise_and_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_and``: the result is written into this tensor."""
    def bitwise_left_shift(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Integers shifted to the left: input * 2^other, without what does not fit; `other` is a number of bits."""
    def bitwise_left_shift_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_left_shift``: the result is written into this tensor."""
    def bitwise_not(self, *, out: Any = None) -> Tensor:
        """Each element with all bits inverted: -x - 1 of signed integers; of bool tensors the logical not."""
    def bitwise_not_(self) -> Tensor:
        """In-place version of ``bitwise_not``: the result is written into this tensor."""
    def bitwise_or(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that one of the integers has, or both; of bool the logical or."""
    def bitwise_or_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_or``: the result is written into this tensor."""
    def bitwise_right_shift(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Integers shifted to the right: floor(input / 2^other); `other` is a number of bits."""
    def bitwise_right_shift_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_right_shift``: the result is written into this tensor."""
    def bitwise_xor(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that exactly one of the integers has; of bool whether they differ."""
    def bitwise_xor_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_xor``: the result is written into this tensor."""
    def bmm(self, mat2: Tensor, *, out: Any = None, out_dtype: Any = None) -> Tensor:
        """The products of two equally long lists of matrices: (b, n, k) times (b, k, m) gives (b, n, m)."""
    def bool(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to bool: ``to(gradlib.bool)``."""
    def broadcast_to(self, size: Any, *more: Any) -> Tensor:
        """A view with dimensions of length one repeated up to `size`: ``expand`` under NumPy's name."""
    def byte(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to uint8: ``to(gradlib.uint8)``."""
    def cauchy_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the Cauchy distribution."""
    def ccol_indices(self) -> Tensor:
        """Of a matrix compressed by columns: where the values of each column begin, and where the last end."""
    def cdouble(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to complex128: ``to(gradlib.complex128)``."""
    def ceil(self, *, out: Any = None) -> Tensor:
        """The smallest whole number that is not below each element; integers as they are."""
    def ceil_(self) -> Tensor:
        """In-place version of ``ceil``: the result is written into this tensor."""
    def cfloat(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to complex64: ``to(gradlib.complex64)``."""
    def chalf(self, *args: Any, **kwargs: Any) -> Any:
        """Complex numbers of two float16, which are not here."""
    def char(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to int8: ``to(gradlib.int8)``."""
    def cholesky(self, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """L with ``input = L @ L^H``: the older form of ``linalg.cholesky``, with its errors."""
    def cholesky_inverse(self, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """The inverse of matrices that are given by their Cholesky factors."""
    def cholesky_solve(self, L: Any, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """X with ``A @ X = B``, where A is given by its Cholesky factor."""
    def chunk(self, chunks: _b.int, dim: Any = 0, *, axis: Any = None) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal length along `dim` (the last may be smaller)."""
    def clamp(self, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
        """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of ``clamp``."""
    def clamp_max(self, max: Any, *, out: Any = None) -> Tensor:
        """The smaller one of each element of `input` and `max`: ``clamp`` with an upper bound alone."""
    def clamp_max_(self, max: Any) -> Tensor:
        """In-place version of ``clamp_max``."""
    def clamp_min(self, min: Any, *, out: Any = None) -> Tensor:
        """The larger one of each element of `input` and `min`: ``clamp`` with a lower bound alone."""
    def clamp_min_(self, min: Any) -> Tensor:
        """In-place version of ``clamp_min``."""
    def clip(self, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
        """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
    def clip_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of ``clamp``."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy with memory of its own, through which gradients flow to this tensor."""
    def coalesce(self) -> Tensor:
        """Each place once, in order; the values of one place are added."""
    def col_indices(self) -> Tensor:
        """Of a matrix compressed by rows: the column of each value."""
    def conj(self) -> Tensor:
        """The complex conjugates, as a view: they are computed where they are needed."""
    def conj_physical(self, *, out: Any = None) -> Tensor:
        """The complex conjugates, with memory of their own: ``conj`` that does not wait until values are needed."""
    def conj_physical_(self) -> Tensor:
        """In-place version of ``conj_physical``."""
    def conjugate(self) -> Tensor:
        """The complex conjugate; NumPy's spelling, shared by arrays, numbers and tensors, for gradient formulas."""
    def const_data_ptr(self) -> _b.int:
        """The address of the first element, as ``data_ptr()`` gives it."""
    def contiguous(self, memory_format: _memory_format | None = None) -> Tensor:
        """`input` with elements that follow each other in memory in row-major order, or in the order of a memory format."""
    def copy_(self, src: Tensor, non_blocking: _b.bool = False) -> Tensor:
        """The elements of `src` written into this tensor, converted to its dtype and moved to its device."""
    def copysign(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The magnitude of each element of `input` with the sign of that of `other`; -0.0 is negative."""
    def copysign_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``copysign``: the result is written into this tensor."""
    def corrcoef(self) -> Tensor:
        """The matrix of correlations of variables: covariances divided by both standard deviations."""
    def cos(self, *, out: Any = None) -> Tensor:
        """The cosine of each element, in radians."""
    def cos_(self) -> Tensor:
        """In-place version of ``cos``: the result is written into this tensor."""
    def cosh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic cosine of each element: (e^x + e^-x) / 2."""
    def cosh_(self) -> Tensor:
        """In-place version of ``cosh``: the result is written into this tensor."""
    def count_nonzero(self, dim: Any = None, *, axis: Any = None) -> Tensor:
        """The number (int64) of elements that are not zero, over the dimension(s) `dim` (all by default)."""
    def cov(self, *, correction: Any = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        """The covariance matrix of variables."""
    def cpu(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor in host memory: itself if it is there already, else a copy."""
    def cross(self, other: Tensor | _b.complex, dim: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
        """``linalg.cross``; without `dim`, along the first dimension of length 3."""
    def crow_indices(self) -> Tensor:
        """Of a matrix compressed by rows: where the values of each row begin, and where the last end."""
    def cuda(self, device: _device | _b.str | _b.int | None = None, non_blocking: _b.bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor in the memory of a CUDA device: itself if it is there already."""
    def cummax(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummax:
        """The largest element so far along a dimension, and where it is."""
    def cummin(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummin:
        """The smallest element so far along a dimension, and where it is."""
    def cumprod(self, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
        """The running product along a dimension."""
    def cumprod_(self, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
        """In-place version of ``cumprod``: the result is written into this tensor."""
    def cumsum(self, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
        """The running sum along a dimension."""
    def cumsum_(self, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
        """In-place version of ``cumsum``: the result is written into this tensor."""
    def deg2rad(self, *, out: Any = None) -> Tensor:
        """Each angle, given in degrees, in radians: x * pi / 180."""
    def deg2rad_(self) -> Tensor:
        """In-place version of ``deg2rad``: the result is written into this tensor."""
    def dense_dim(self) -> _b.int:
        """How many dimensions, the last ones, are dense: of a dense tensor all."""
    def dequantize(self) -> Tensor:
        """This tensor in float32, since none is quantized."""
    def det(self, *, out: Any = None) -> Tensor:
        """The determinant of square matrices. The gradient exists for singular matrices, too."""
    def diag(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    def diag_embed(self, offset: _b.int = 0, dim1: _b.int = -2, dim2: _b.int = -1) -> Tensor:
        """Matrices, or tensors of more dimensions, with the last dimension of `input` on a diagonal and zeros elsewhere."""
    def diagflat(self, offset: _b.int = 0) -> Tensor:
        """A square matrix with all elements of `input`, in their order, on a diagonal, and zeros elsewhere."""
    def diagonal(self, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1) -> Tensor:
        """A view of the diagonal of the dimensions `dim1` and `dim2`, which go; it is the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of ``input.diagonal(offset, dim1, dim2)``."""
    def diff(self, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
        """The n-th differences of neighbours along `dim`, after `prepend` and `append` are put at the ends."""
    def digamma(self, *, out: Any = None) -> Tensor:
        """The derivative of ``lgamma``."""
    def digamma_(self) -> Tensor:
        """In-place version of ``digamma``: the result is written into this tensor."""
    def dist(self, other: Tensor | _b.complex, p: Any = 2) -> Tensor:
        """The norm of order `p` of ``input - other``, of all elements as one vector."""
    def div(self, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
        """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
    def div_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``div``: the result is written into this tensor."""
    def divide(self, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
        """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
    def divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``divide``: the result is written into this tensor."""
    def dot(self, tensor: Tensor, *, out: Any = None) -> Tensor:
        """The sum of products of two vectors of the same length (complex: nothing is conjugated)."""
    def double(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to float64: ``to(gradlib.float64)``."""
    def dsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """Views of pieces along the dimension that ``dstack`` joins."""
    def eig(self, *args: Any, **kwargs: Any) -> _eig:
        """Gone from PyTorch, too: use torch.linalg.eig or torch.linalg.eigvals, which give complex numbers."""
    def eq(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are equal to those of `other`; nan equals nothing."""
    def eq_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``eq``: the result is written into this tensor."""
    def equal(self, other: Tensor | _b.complex) -> _b.bool:
        """Whether both tensors have the same size and elements."""
    def erf(self, *, out: Any = None) -> Tensor:
        """The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element."""
    def erf_(self) -> Tensor:
        """In-place version of ``erf``: the result is written into this tensor."""
    def erfc(self, *, out: Any = None) -> Tensor:
        """The complementary error function ``1 - erf(input)``."""
    def erfc_(self) -> Tensor:
        """In-place version of ``erfc``: the result is written into this tensor."""
    def erfinv(self, *, out: Any = None) -> Tensor:
        """The inverse of ``erf``."""
    def erfinv_(self) -> Tensor:
        """In-place version of ``erfinv``: the result is written into this tensor."""
    def exp(self, *, out: Any = None) -> Tensor:
        """e to the power of each element."""
    def exp2(self, *, out: Any = None) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """In-place version of ``exp2``: the result is written into this tensor."""
    def exp_(self) -> Tensor:
        """In-place version of ``exp``: the result is written into this tensor."""
    def expand(self, *size: Any, implicit: _b.bool = False, **kw: Any) -> Tensor:
        """A view with dimensions of length one repeated up to `size`, without a copy: their elements share memory."""
    def expand_as(self, other: Tensor | _b.complex) -> Tensor:
        """A view of this tensor with the shape of `other`: ``expand(other.shape)``, with its errors."""
    def expit(self, *, out: Any = None) -> Tensor:
        """1 / (1 + e^-x) of each element, in [0, 1]."""
    def expit_(self) -> Tensor:
        """In-place version of ``expit``: the result is written into this tensor."""
    def expm1(self, *, out: Any = None) -> Tensor:
        """e^x - 1 of each element, exact near 0."""
    def expm1_(self) -> Tensor:
        """In-place version of ``expm1``: the result is written into this tensor."""
    def exponential_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the exponential distribution."""
    def fill_(self, value: Tensor | _b.complex) -> Tensor:
        """Every element set to `value`."""
    def fill_diagonal_(self, fill_value: Any, wrap: _b.bool = False) -> Tensor:
        """`fill_value` written where all indices are equal."""
    def fix(self, *, out: Any = None) -> Tensor:
        """Each element without its fraction, rounded towards 0; integers as they are."""
    def fix_(self) -> Tensor:
        """In-place version of ``fix``: the result is written into this tensor."""
    def flatten(self, start_dim: _b.int = 0, end_dim: _b.int = -1) -> Tensor:
        """The dimensions from `start_dim` to `end_dim` merged into one; itself if there is nothing to merge."""
    def flip(self, *dims: Any, **kw: Any) -> Tensor:
        """A copy with the order of the entries of `dims` reversed."""
    def fliplr(self) -> Tensor:
        """A copy with the order of the columns reversed: ``flip`` of dimension 1."""
    def flipud(self) -> Tensor:
        """A copy with the order of the rows reversed: ``flip`` of dimension 0."""
    def float(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to float32: ``to(gradlib.float32)``."""
    def float_power(self, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input ** exponent``, computed in float64, of complex arguments in complex128."""
    def float_power_(self, exponent: Tensor | _b.complex) -> Tensor:
        """In-place version of ``float_power``; the tensor must have the dtype of the result."""
    def floor(self, *, out: Any = None) -> Tensor:
        """The largest whole number that is not above each element; integers as they are."""
    def floor_(self) -> Tensor:
        """In-place version of ``floor``: the result is written into this tensor."""
    def floor_divide(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The largest whole number that is not above ``input / other``; unlike ``div`` with rounding it has no derivative."""
    def floor_divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``floor_divide``: the result is written into this tensor."""
    def fmax(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The larger one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
    def fmin(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The smaller one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
    def fmod(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Remainder of the division, with the sign of `input`."""
    def fmod_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``fmod``: the result is written into this tensor."""
    def frac(self, *, out: Any = None) -> Tensor:
        """The fraction of each element, with its sign: x - trunc(x)."""
    def frac_(self) -> Tensor:
        """In-place version of ``frac``: the result is written into this tensor."""
    def frexp(self, *, out: Any = None) -> _frexp:
        """Fractions and exponents: ``input = mantissa * 2**exponent``."""
    def gather(self, dim: Any, index: Tensor, *, sparse_grad: _b.bool = False, out: Any = None) -> Tensor:
        """The entries of one dimension that `index` names: ``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on."""
    def gcd(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The greatest common divisor of two integers, not negative; gcd(0, 0) is 0."""
    def gcd_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``gcd``: the result is written into this tensor."""
    def ge(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not below those of `other`."""
    def ge_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ge``: the result is written into this tensor."""
    def geometric_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the geometric distribution: trials up to the first success."""
    def geqrf(self, *, out: Any = None) -> _geqrf:
        """The QR decomposition as the reflections that it is made of; without derivative."""
    def ger(self, vec2: Tensor, *, out: Any = None) -> Tensor:
        """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
    def greater(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are above those of `other`."""
    def greater_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``greater``: the result is written into this tensor."""
    def greater_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not below those of `other`."""
    def greater_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``greater_equal``: the result is written into this tensor."""
    def gt(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are above those of `other`."""
    def gt_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``gt``: the result is written into this tensor."""
    def half(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to float16: ``to(gradlib.float16)``."""
    def hardshrink(self, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
        """0 where ``|x| <= lambd``, else `input`."""
    def hash_tensor(self, dim: Any = ..., *, keepdim: _b.bool = False, mode: Any = 0, out: Any = None) -> Tensor:
        """A 64-bit number that depends on all elements: the exclusive or of their patterns as float64 or int64."""
    def heaviside(self, values: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The step function: 0 below 0, 1 above it, and at 0 the element of `values`."""
    def heaviside_(self, values: Tensor | _b.complex) -> Tensor:
        """In-place version of ``heaviside``: the result is written into this tensor."""
    def histc(self, bins: Any = 100, min: Any = 0, max: Any = 0, *, out: Any = None) -> Tensor:
        """How many elements fall into each of equal intervals."""
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _b.bool = False, out: Any = None) -> _histogram:
        """How many elements fall into each of several intervals, and the edges of these."""
    def hsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """Views of pieces along the dimension that ``hstack`` joins."""
    def hypot(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The length of the vector of two elements: sqrt(input^2 + other^2), without overflow. At (0, 0) the gradient is 0."""
    def hypot_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``hypot``: the result is written into this tensor."""
    def i0(self, *, out: Any = None) -> Tensor:
        """The modified Bessel function I0."""
    def i0_(self) -> Tensor:
        """In-place version of ``i0``: the result is written into this tensor."""
    def igamma(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised lower incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
    def igamma_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``igamma``: the result is written into this tensor."""
    def igammac(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """1 less the integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised upper incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
    def igammac_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``igammac``: the result is written into this tensor."""
    imag: Tensor
    def index_add(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Any = None) -> Tensor:
        """A copy of `input` with ``alpha * source`` added to the slices of `dim` that `index` names."""
    def index_add_(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """In-place version of ``index_add``."""
    def index_copy(self, dim: Any, index: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
        """A copy of `input` with the slices of `source` in place of those of `dim` that `index` names."""
    def index_copy_(self, dim: Any, index: Tensor, source: Tensor) -> Tensor:
        """In-place version of ``index_copy``."""
    def index_fill(self, dim: Any, index: Tensor, value: Tensor | _b.complex) -> Tensor:
        """A copy of `input` with `value` in the slices of `dim` that `index` names."""
    def index_fill_(self, dim: Any, index: Tensor, value: Tensor | _b.complex) -> Tensor:
        """In-place version of ``index_fill``."""
    def index_put(self, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
        """A copy of `input` with `values` at ``input[indices]``."""
    def index_put_(self, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
        """``values`` written to ``input[indices]``: ``index_put`` into `input` itself."""
    def index_reduce(self, dim: Any, index: Tensor, source: Tensor, reduce: Any, *, include_self: _b.bool = True, out: Any = None) -> Tensor:
        """A copy of `input` with the slices of `source` reduced into those of `dim` that `index` names."""
    def index_reduce_(self, dim: Any, index: Tensor, source: Tensor, reduce: Any, *, include_self: _b.bool = True) -> Tensor:
        """In-place version of ``index_reduce``."""
    def index_select(self, dim: Any, index: Tensor, *, out: Any = None) -> Tensor:
        """The slices of `dim` that `index` names, in its order: a copy."""
    def indices(self) -> Tensor:
        """The places of the values of a coalesced tensor: integers (sparse dimensions, n)."""
    def inner(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Products summed over the last dimension of both; tensors without dimensions just multiply."""
    def int(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to int32: ``to(gradlib.int32)``."""
    def int_repr(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def inverse(self, *, out: Any = None) -> Tensor:
        """The inverses of square matrices."""
    def ipu(self, *args: Any, **kwargs: Any) -> Any:
        """A copy on a device that there is none of."""
    def is_coalesced(self) -> _b.bool:
        """Whether each place is known to occur once, in order."""
    def is_conj(self) -> _b.bool:
        """Whether the values are the conjugates of those in memory: of a tensor made by ``conj``, and of views of it."""
    def is_distributed(self) -> _b.bool:
        """False: no tensor lies on several machines."""
    def is_neg(self) -> _b.bool:
        """Whether the values are the negatives of those in memory: of the imaginary part of a conjugated tensor."""
    def is_nonzero(self) -> _b.bool:
        """Whether the one element of a tensor is not zero."""
    def is_shared(self) -> _b.bool:
        """Whether processes share the memory of this tensor."""
    def isclose(self, other: Tensor | _b.complex, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: _b.bool = False) -> Tensor:
        """``|input - other| <= atol + rtol * |other|``, elementwise."""
    def isfinite(self, *, out: Any = None) -> Tensor:
        """Whether each element is neither infinite nor nan."""
    def isinf(self, *, out: Any = None) -> Tensor:
        """Whether each element is infinite, in the real or the imaginary part."""
    def isnan(self, *, out: Any = None) -> Tensor:
        """Whether each element is nan, in the real or the imaginary part."""
    def isneginf(self, *, out: Any = None) -> Tensor:
        """Whether each element is -inf."""
    def isposinf(self, *, out: Any = None) -> Tensor:
        """Whether each element is +inf."""
    def isreal(self, *, out: Any = None) -> Tensor:
        """Whether each element has the imaginary part 0."""
    def istft(self, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: _b.bool = True, normalized: _b.bool = False, onesided: Any = None, length: Any = None, return_complex: _b.bool = False) -> Tensor:
        """The signal (n) or signals (b, n) with the given short-time Fourier transform (b, bins, pieces): least squares."""
    def kron(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The Kronecker product: every element of `input` times `other`, as blocks."""
    def kthvalue(self, k: Any, dim: Any = -1, keepdim: _b.bool = False, *, out: Any = None) -> _kthvalue:
        """The `k`-th smallest element along a dimension."""
    def lcm(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The least common multiple of two integers, not negative; 0 if one of them is."""
    def lcm_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``lcm``: the result is written into this tensor."""
    def ldexp(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * 2**other``: a number put together from a fraction and an exponent."""
    def ldexp_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ldexp``: the result is written into this tensor."""
    def le(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not above those of `other`."""
    def le_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``le``: the result is written into this tensor."""
    def lerp(self, end: Tensor | _b.complex, weight: Tensor, *, out: Any = None) -> Tensor:
        """``input + weight * (end - input)``, with broadcasting; `weight` is a number or a tensor."""
    def lerp_(self, end: Tensor | _b.complex, weight: Tensor) -> Tensor:
        """In-place version of ``lerp``."""
    def less(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are below those of `other`."""
    def less_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``less``: the result is written into this tensor."""
    def less_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not above those of `other`."""
    def less_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``less_equal``: the result is written into this tensor."""
    def lgamma(self, *, out: Any = None) -> Tensor:
        """``log(|gamma(input)|)``."""
    def lgamma_(self) -> Tensor:
        """In-place version of ``lgamma``: the result is written into this tensor."""
    def log(self, *, out: Any = None) -> Tensor:
        """The natural logarithm of each element; -inf at 0, nan below it."""
    def log10(self, *, out: Any = None) -> Tensor:
        """The logarithm of each element to the base 10; -inf at 0, nan below it."""
    def log10_(self) -> Tensor:
        """In-place version of ``log10``: the result is written into this tensor."""
    def log1p(self, *, out: Any = None) -> Tensor:
        """log(1 + x) of each element, exact near 0; nan below -1."""
    def log1p_(self) -> Tensor:
        """In-place version of ``log1p``: the result is written into this tensor."""
    def log2(self, *, out: Any = None) -> Tensor:
        """The logarithm of each element to the base 2; -inf at 0, nan below it."""
    def log2_(self) -> Tensor:
        """In-place version of ``log2``: the result is written into this tensor."""
    def log_(self) -> Tensor:
        """In-place version of ``log``: the result is written into this tensor."""
    def log_normal_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the log-normal distribution."""
    def log_softmax(self, dim: Any = None, dtype: _dtype | None = None, *, axis: Any = None, out: Any = None) -> Tensor:
        """The logarithm of ``softmax(input, dim)``, computed without loss of precision."""
    def logaddexp(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """log(e^a + e^b) of two elements, without overflow."""
    def logaddexp2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """log2(2^a + 2^b) of two elements, without overflow."""
    def logcumsumexp(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> Tensor:
        """The logarithm of the running sum of exponentials along a dimension, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant of square matrices."""
    def logical_and(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether both elements are other than 0."""
    def logical_and_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_and``: the result is written into this tensor."""
    def logical_not(self, *, out: Any = None) -> Tensor:
        """Whether each element is 0."""
    def logical_not_(self) -> Tensor:
        """In-place version of ``logical_not``: the result is written into this tensor."""
    def logical_or(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether one of the elements is, or both are, other than 0."""
    def logical_or_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_or``: the result is written into this tensor."""
    def logical_xor(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether exactly one of the elements is other than 0."""
    def logical_xor_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_xor``: the result is written into this tensor."""
    def logit(self, eps: Any = None, *, out: Any = None) -> Tensor:
        """``log(x / (1 - x))``, the inverse of the sigmoid; -inf at 0, inf at 1, nan outside of [0, 1]."""
    def logit_(self, eps: Any = None) -> Tensor:
        """In-place version of ``logit``."""
    def logsumexp(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """``log(sum(exp(input)))`` over the dimension(s) `dim`, without overflow."""
    def long(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to int64: ``to(gradlib.int64)``."""
    def lstsq(self, *args: Any, **kwargs: Any) -> Any:
        """Gone from PyTorch, too: use torch.linalg.lstsq(A, B).solution, with its arguments the other way round."""
    def lt(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are below those of `other`."""
    def lt_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``lt``: the result is written into this tensor."""
    def lu(self, pivot: _b.bool = True, get_infos: _b.bool = False, out: Any = None) -> Any:
        """The LU decomposition of matrices: the older form of ``linalg.lu_factor``."""
    def lu_solve(self, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Tensor:
        """X with ``A @ X = b``, where A is given by ``lu_factor``: the older form of ``linalg.lu_solve``."""
    @property
    def mH(self) -> Tensor:
        """The conjugate transposes of matrices (..., n, m): the last two dimensions exchanged; see ``adjoint``."""
    @property
    def mT(self) -> Tensor:
        """A view with the last two dimensions exchanged: the transposes of a stack of matrices (..., n, m)."""
    def map2_(self, x: Any, y: Any, callable: Callable[..., Any]) -> Tensor:
        """Every element replaced by ``callable(element, a, b)`` of the elements of `x` and `y` at its place."""
    def map_(self, tensor: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Every element replaced by ``callable(element, other)``, where `other` is the element of `tensor` at its place."""
    def masked_fill(self, mask: Tensor, value: Tensor | _b.complex) -> Tensor:
        """A copy of `input` with `value`, a number or 0-dim tensor, where the bool tensor `mask` is true."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _b.complex) -> Tensor:
        """`value` written where `mask` is true."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` with the elements of `source`, in their order, where `mask` is true."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """The elements of `source`, in their order, written where `mask` is true."""
    def masked_select(self, mask: Tensor, *, out: Any = None) -> Tensor:
        """The elements where the bool tensor `mask` is true, in one dimension; both are broadcast together."""
    def matmul(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The matrix product: of vectors a dot product, of stacks of matrices a stack."""
    def matrix_exp(self) -> Tensor:
        """The exponential of square matrices, ``1 + A + A @ A / 2 + ...``."""
    def matrix_power(self, n: Any, *, out: Any = None) -> Tensor:
        """The n-th power of square matrices by repeated squaring."""
    @overload
    def max(self, *, out: Any = None) -> Tensor: ...
    @overload
    def max(self, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _max: ...
    @overload
    def max(self, other: Tensor, *, out: Any = None) -> Tensor: ...
    def maximum(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The larger one of two elements; nan if one of them is. At ties both have half of the gradient."""
    def mean(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The mean over all elements, or over the dimension(s) `dim`. Integer input needs a floating `dtype`."""
    @overload
    def median(self, *, out: Any = None) -> Tensor: ...
    @overload
    def median(self, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _median: ...
    @overload
    def min(self, *, out: Any = None) -> Tensor: ...
    @overload
    def min(self, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _min: ...
    @overload
    def min(self, other: Tensor, *, out: Any = None) -> Tensor: ...
    def minimum(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The smaller one of two elements; nan if one of them is. At ties both have half of the gradient."""
    def mm(self, mat2: Tensor, *, out: Any = None) -> Tensor:
        """The product of two matrices: (n, k) times (k, m) gives (n, m)."""
    def mode(self, dim: Any = -1, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> _mode:
        """The most frequent element along a dimension, the smallest of those."""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """A view with the dimension(s) `source` moved to the position(s) `destination`."""
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """A view with the dimension(s) `source` moved to the position(s) `destination`."""
    def msort(self, *, out: Any = None) -> Tensor:
        """A copy with the elements of each column sorted: ``sort`` along the first dimension, without the indices."""
    def mtia(self, *args: Any, **kwargs: Any) -> Any:
        """A copy on a device that there is none of."""
    def mul(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * other``, with broadcasting."""
    def mul_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``mul``: the result is written into this tensor."""
    def multinomial(self, num_samples: Any, replacement: _b.bool = False, *, generator: Generator | None = None, out: Any = None) -> Tensor:
        """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable."""
    def multiply(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * other``, with broadcasting."""
    def multiply_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``multiply``: the result is written into this tensor."""
    def mv(self, vec: Tensor, *, out: Any = None) -> Tensor:
        """The product of a matrix (n, m) and a vector (m): (n)."""
    def mvlgamma(self, p: Any) -> Tensor:
        """``mvlgamma(self, p)``: log of the multivariate gamma function of dimension `p`, of each element."""
    def mvlgamma_(self, p: Any) -> Tensor:
        """In-place version of ``mvlgamma``; RuntimeError for a tensor of whole numbers, which cannot hold the result."""
    def nan_to_num(self, nan: Any = None, posinf: Any = None, neginf: Any = None, *, out: Any = None) -> Tensor:
        """`input` with nan replaced by `nan` (0) and infinities by `posinf`, `neginf` (the limits of the dtype)."""
    def nan_to_num_(self, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
        """In-place version of ``nan_to_num``."""
    def nanmean(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The mean over dimensions of the elements that are not nan."""
    @overload
    def nanmedian(self, *, out: Any = None) -> Tensor: ...
    @overload
    def nanmedian(self, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _nanmedian: ...
    def nanquantile(self, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The quantiles of the elements that are not nan; see ``quantile``."""
    def nansum(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The sum over dimensions with nan counted as zero."""
    def narrow(self, dim: Any, start: Any, length: Any) -> Tensor:
        """A view of `length` entries of dimension `dim` from `start` on."""
    def narrow_copy(self, dim: Any, start: Any, length: Any, *, out: Any = None) -> Tensor:
        """The entries ``start, ..., start + length - 1`` of `dim` with memory of their own: a copy of ``narrow``."""
    def ne(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` differ from those of `other`; nan differs from all."""
    def ne_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ne``: the result is written into this tensor."""
    def neg(self, *, out: Any = None) -> Tensor:
        """Each element with the other sign."""
    def neg_(self) -> Tensor:
        """In-place version of ``neg``: the result is written into this tensor."""
    def negative(self, *, out: Any = None) -> Tensor:
        """Each element with the other sign."""
    def negative_(self) -> Tensor:
        """In-place version of ``negative``: the result is written into this tensor."""
    def new(self, *args: Any, device: _device | _b.str | _b.int | None = None) -> Tensor:
        """A tensor of the dtype of this one, of a size or of data: the old form of ``new_empty`` and ``new_tensor``."""
    def new_empty(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """A tensor of the given size, uninitialised, with the dtype and device of this tensor; see ``empty``."""
    def new_empty_strided(self, size: Any, stride: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
        """An uninitialised tensor with the given strides and the dtype and device of this one; see ``empty_strided``."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False) -> Tensor:
        """A tensor of the given size filled with one number, with the dtype and device of this tensor; see ``full``."""
    def new_ones(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """A tensor of the given size, filled with ones, with the dtype and device of this tensor; see ``ones``."""
    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
        """A tensor of `data`, with the dtype and device of this tensor where none is given; see ``gradlib.tensor``."""
    def new_zeros(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """A tensor of the given size, filled with zeros, with the dtype and device of this tensor; see ``zeros``."""
    def nextafter(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The next number of the dtype after each element of `input` on the way to that of `other`."""
    def nextafter_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``nextafter``: the result is written into this tensor."""
    def nonzero(self, *, out: Any = None, as_tuple: _b.bool = False) -> Any:
        """The indices of the elements that are not zero, one row each; as_tuple: one vector for each dimension."""
    def nonzero_static(self, *, size: Any, fill_value: Any = -1, out: Any = None) -> Tensor:
        """The first `size` rows of ``nonzero``, filled up with `fill_value`: the shape does not depend on the values."""
    def norm(self, p: Any = 'fro', dim: Any = None, keepdim: _b.bool = False, dtype: _dtype | None = None) -> Tensor:
        """The norm of order `p` of this tensor over dimensions: ``gradlib.norm``, with its arguments and errors."""
    def normal_(self, mean: Any = 0.0, std: Any = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with normally distributed numbers."""
    def not_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` differ from those of `other`; nan differs from all."""
    def not_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``not_equal``: the result is written into this tensor."""
    def orgqr(self, tau: Any, *, out: Any = None) -> Tensor:
        """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition."""
    def ormqr(self, tau: Any, other: Tensor | _b.complex, left: _b.bool = True, transpose: _b.bool = False, *, out: Any = None) -> Tensor:
        """`other` multiplied by the full Q, or its conjugate transpose, that ``geqrf`` describes."""
    def outer(self, vec2: Tensor, *, out: Any = None) -> Tensor:
        """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
    def permute(self, *dims: Any, **kw: Any) -> Tensor:
        """A view with the dimensions in the order `dims`."""
    def pin_memory(self, device: _device | _b.str | _b.int | None = None) -> Tensor:
        """A copy in page-locked memory, from which copies to a CUDA device need not be waited for; itself if it is there."""
    def pinverse(self, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: _b.bool = False, out: Any = None) -> Tensor:
        """The Moore-Penrose pseudo-inverse of matrices."""
    def polygamma(self, n: Any) -> Tensor:
        """``polygamma(n, self)``: the n-th derivative of digamma of each element."""
    def polygamma_(self, n: Any) -> Tensor:
        """In-place version of ``polygamma``: the result is written into this tensor, which is returned."""
    def positive(self) -> Tensor:
        """`input` itself: the unary ``+``."""
    def pow(self, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input ** exponent`` for tensors and numbers on either side."""
    def pow_(self, exponent: Tensor | _b.complex) -> Tensor:
        """In-place version of ``pow``."""
    def prelu(self, weight: Tensor) -> Tensor:
        """``x`` where positive, else ``weight * x``, with a slope that can be learnt."""
    def prod(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The product of all elements, or over the dimension `dim` (an int). Exact gradients where elements are zero."""
    def put(self, index: Tensor, source: Tensor, accumulate: _b.bool = False) -> Tensor:
        """A copy of `input` with `source` written at the positions `index` of the flat tensor."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _b.bool = False) -> Tensor:
        """In-place version of ``put``."""
    def q_per_channel_axis(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def q_per_channel_scales(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def q_per_channel_zero_points(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def q_scale(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def q_zero_point(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def qr(self, some: _b.bool = True, *, out: Any = None) -> _qr:
        """(Q, R) with ``input = Q @ R``: the older form of ``linalg.qr``."""
    def qscheme(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def quantile(self, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The q-quantiles of all elements or along `dim`; those of a vector q are in the first dimension of the result."""
    def rad2deg(self, *, out: Any = None) -> Tensor:
        """Each angle, given in radians, in degrees: x * 180 / pi."""
    def rad2deg_(self) -> Tensor:
        """In-place version of ``rad2deg``: the result is written into this tensor."""
    def random_(self, from_: Any = None, to: Any = ..., *, generator: Generator | None = None, **kw: Any) -> Tensor:
        """Fill this tensor with integers in [from, to), all equally probable."""
    def ravel(self) -> Tensor:
        """All elements in one dimension, in row-major order."""
    real: Tensor
    def reciprocal(self, *, out: Any = None) -> Tensor:
        """1 / x of each element; inf at 0."""
    def reciprocal_(self) -> Tensor:
        """In-place version of ``reciprocal``: the result is written into this tensor."""
    def reinforce(self, reward: Any) -> Tensor:
        """Gone from PyTorch, too: the loss is minus the logarithm of the probability of what was drawn, times the reward."""
    def relu(self, *, out: Any = None) -> Tensor:
        """max(x, 0) of each element; nan stays nan. The gradient at 0 is 0."""
    def relu_(self) -> Tensor:
        """In-place version of ``relu``: the result is written into this tensor."""
    def remainder(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Remainder of the division, with the sign of `other`."""
    def remainder_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``remainder``: the result is written into this tensor."""
    def renorm(self, p: Any, dim: Any, maxnorm: Any, *, out: Any = None) -> Tensor:
        """A copy of `input` with each slice along `dim` scaled down until its p-norm is at most `maxnorm`."""
    def renorm_(self, p: Any, dim: Any, maxnorm: Any) -> Tensor:
        """In-place version of ``renorm``."""
    def repeat(self, *repeats: Any, **kw: Any) -> Tensor:
        """A copy with all entries repeated so many times along each dimension."""
    def repeat_interleave(self, repeats: Any, dim: Any = None, *, axis: Any = None, output_size: Any = None) -> Tensor:
        """Each entry of `dim` repeated: ``gradlib.repeat_interleave`` of this tensor, with its arguments and errors."""
    def reshape(self, *shape: Any, **kw: Any) -> Tensor:
        """The elements of a tensor in another shape, in row-major order."""
    def reshape_as(self, other: Tensor | _b.complex) -> Tensor:
        """This tensor in the shape of `other`: ``reshape(other.shape)``."""
    def resize(self, *sizes: Any) -> Any:
        """Another shape with as many elements; deprecated: use ``reshape``."""
    def resize_as(self, tensor: Tensor) -> Any:
        """The shape of another tensor with as many elements; deprecated: use ``reshape_as``."""
    def resize_as_sparse_(self, the_template: Any) -> Tensor:
        """Give a COO tensor the size and the numbers of dimensions of another, in place; see ``sparse_resize_``."""
    def resolve_conj(self) -> Tensor:
        """The tensor itself, or, of a conjugated view (``is_conj``), a copy that holds the conjugates in memory."""
    def resolve_neg(self) -> Tensor:
        """The tensor itself, or, of a negated view (``is_neg``), a copy that holds the negatives in memory."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """A copy with the entries of `dims` moved by `shifts` places, round the end; all as flat without `dims`."""
    def rot90(self, k: Any = 1, dims: Any = ...) -> Tensor:
        """A copy turned by `k` quarters in the plane of `dims`, from the first towards the second."""
    def round(self, *, decimals: Any = 0, out: Any = None) -> Tensor:
        """The nearest whole number, or number of `decimals` digits after the point; of two equally near ones the even one."""
    def round_(self, *, decimals: Any = 0) -> Tensor:
        """In-place version of ``round``."""
    def row_indices(self) -> Tensor:
        """Of a matrix compressed by columns: the row of each value."""
    def rsqrt(self, *, out: Any = None) -> Tensor:
        """1 / sqrt(x) of each element; inf at 0, nan below it."""
    def rsqrt_(self) -> Tensor:
        """In-place version of ``rsqrt``: the result is written into this tensor."""
    def scatter(self, dim: Any, index: Tensor, src: Tensor | None = None, *, value: Tensor | _b.complex | None = None, reduce: Any = None, out: Any = None) -> Tensor:
        """A copy of `input` with `src` at the places of `dim` that `index` names: ``out[index[i][j]][j] = src[i][j]``."""
    def scatter_(self, dim: Any, index: Tensor, src: Tensor | None = None, *, value: Tensor | _b.complex | None = None, reduce: Any = None) -> Tensor:
        """In-place version of ``scatter``."""
    def scatter_add(self, dim: Any, index: Tensor, src: Tensor, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` added at the places of `dim` that `index` names, repeated ones included."""
    def scatter_add_(self, dim: Any, index: Tensor, src: Tensor) -> Tensor:
        """In-place version of ``scatter_add``."""
    def scatter_reduce(self, dim: Any, index: Tensor, src: Tensor, reduce: Any, *, include_self: _b.bool = True, out: Any = None) -> Tensor:
        """A copy of `input` where all of `src` that `index` sends to one place are reduced into it."""
    def scatter_reduce_(self, dim: Any, index: Tensor, src: Tensor, reduce: Any, *, include_self: _b.bool = True) -> Tensor:
        """In-place version of ``scatter_reduce``."""
    def select(self, dim: Any, index: Tensor) -> Tensor:
        """A view of the entries at `index` of dimension `dim`, which goes away."""
    def select_scatter(self, src: Tensor, dim: Any, index: Tensor, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of ``input.select(dim, index)``."""
    def sgn(self, *, out: Any = None) -> Tensor:
        """The direction of each element: x / abs(x), and 0 at 0; of real numbers their sign."""
    def sgn_(self) -> Tensor:
        """In-place version of ``sgn``: the result is written into this tensor."""
    def share_memory_(self) -> Tensor:
        """Move the elements, and those of all views, into memory that processes share."""
    def short(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor converted to int16: ``to(gradlib.int16)``."""
    def sigmoid(self, *, out: Any = None) -> Tensor:
        """1 / (1 + e^-x) of each element, in [0, 1]."""
    def sigmoid_(self) -> Tensor:
        """In-place version of ``sigmoid``: the result is written into this tensor."""
    def sign(self, *, out: Any = None) -> Tensor:
        """-1, 0 or 1: the sign of each element; its gradient is 0."""
    def sign_(self) -> Tensor:
        """In-place version of ``sign``: the result is written into this tensor."""
    def signbit(self, *, out: Any = None) -> Tensor:
        """Whether each element has its sign bit set: negative numbers, and -0.0."""
    def sin(self, *, out: Any = None) -> Tensor:
        """The sine of each element, in radians."""
    def sin_(self) -> Tensor:
        """In-place version of ``sin``: the result is written into this tensor."""
    def sinc(self, *, out: Any = None) -> Tensor:
        """``sin(pi x) / (pi x)``, and 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place version of ``sinc``: the result is written into this tensor."""
    def sinh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic sine of each element: (e^x - e^-x) / 2."""
    def sinh_(self) -> Tensor:
        """In-place version of ``sinh``: the result is written into this tensor."""
    def slice_inverse(self, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1) -> Tensor:
        """The tensor that `input` is a slice of, laid out in memory as `src` is: the opposite of slicing."""
    def slice_scatter(self, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of the slice ``start:end:step`` of `dim`."""
    def slogdet(self, *, out: Any = None) -> _slogdet:
        """The determinant of square matrices as sign and logarithm: ``det = sign * exp(logabsdet)``, without overflow."""
    def smm(self, mat: Tensor) -> Tensor:
        """The product of a sparse matrix and a dense one, as a sparse tensor."""
    def softmax(self, dim: Any = None, dtype: _dtype | None = None, *, axis: Any = None, out: Any = None) -> Tensor:
        """``exp(input) / sum(exp(input))`` along `dim`, safe from overflow. dtype: the input is converted to it first."""
    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Gone from PyTorch, too: use torch.linalg.solve(A, B), with its arguments the other way round."""
    def sort(self, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, axis: Any = None, out: Any = None) -> _sort:
        """The elements in order along a dimension, and where they were; equal ones keep their order."""
    def sparse_dim(self) -> _b.int:
        """How many dimensions, the first ones, are sparse: of a dense tensor 0."""
    def sparse_mask(self, mask: Tensor) -> Any:
        """What stands at the places of a sparse tensor."""
    def sparse_resize_(self, size: Any, sparse_dim: Any, dense_dim: Any) -> Tensor:
        """Give a COO tensor another size, in place; with values it only grows, in its sparse dimensions."""
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: Any, dense_dim: Any) -> Tensor:
        """Give a COO tensor another size and no values, in place."""
    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Views of pieces of this tensor along `dim`: ``gradlib.split``, with its errors."""
    def split_with_sizes(self, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Views of pieces of given lengths along `dim`."""
    def sqrt(self, *, out: Any = None) -> Tensor:
        """The square root of each element; nan below 0."""
    def sqrt_(self) -> Tensor:
        """In-place version of ``sqrt``: the result is written into this tensor."""
    def square(self, *, out: Any = None) -> Tensor:
        """x * x of each element; of integers without what does not fit into their dtype."""
    def square_(self) -> Tensor:
        """In-place version of ``square``: the result is written into this tensor."""
    def squeeze(self, dim: Any = None, *, axis: Any = None) -> Tensor:
        """A view without dimensions of length one: all of them, or those among `dim` (an int or a tuple)."""
    def squeeze_(self, dim: Any = None) -> Tensor:
        """In-place version of ``squeeze``: the tensor itself loses dimensions of length one, its memory stays."""
    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)`` as a sparse tensor; `mat1` is sparse, `mat2` dense."""
    def std(self, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The standard deviation over dimensions."""
    def stft(self, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: _b.bool = True, pad_mode: Any = 'reflect', normalized: _b.bool = False, onesided: Any = None, return_complex: Any = None, align_to_window: Any = None) -> Tensor:
        """The Fourier transforms of overlapping windowed pieces of a signal (n) or signals (b, n): (b, bins, pieces)."""
    def sub(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input - alpha * other``, with broadcasting."""
    def sub_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``sub``: the result is written into this tensor."""
    def subtract(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input - alpha * other``, with broadcasting."""
    def subtract_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``subtract``: the result is written into this tensor."""
    def sum(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The sum over all elements, or over dimensions."""
    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over dimensions that leaves the shape `size`: the opposite of ``expand``, and its gradient."""
    def svd(self, some: _b.bool = True, compute_uv: _b.bool = True, *, out: Any = None) -> _svd:
        """(U, S, V) with ``input = U @ diag(S) @ V^H``: the older form of ``linalg.svd``, which returns V^H."""
    def swapaxes(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
    def swapaxes_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions, its memory stays."""
    def swapdims(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
    def swapdims_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions, its memory stays."""
    def symeig(self, *args: Any, **kwargs: Any) -> Any:
        """Gone from PyTorch, too: use torch.linalg.eigh or torch.linalg.eigvalsh, with UPLO='U' for the upper triangle."""
    def t(self) -> Tensor:
        """The transpose of a matrix; vectors and scalars as they are."""
    def t_(self) -> Tensor:
        """In-place version of ``t``: the matrix itself is transposed, its memory stays."""
    def take(self, index: Tensor, *, out: Any = None) -> Tensor:
        """The elements at the positions `index` of the flat input, in the shape of `index`."""
    def take_along_dim(self, indices: Any, dim: Any = None, *, axis: Any = None, out: Any = None) -> Tensor:
        """``gather`` with `input` and `indices` broadcast against each other in all dimensions but `dim`."""
    def tan(self, *, out: Any = None) -> Tensor:
        """The tangent of each element, in radians."""
    def tan_(self) -> Tensor:
        """In-place version of ``tan``: the result is written into this tensor."""
    def tanh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic tangent of each element: (e^x - e^-x) / (e^x + e^-x), in [-1, 1]."""
    def tanh_(self) -> Tensor:
        """In-place version of ``tanh``: the result is written into this tensor."""
    def tensor_split(self, indices_or_sections: Any = None, dim: Any = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """`sections` pieces whose lengths differ by at most one, or pieces cut before the given indices."""
    def tile(self, *dims: Any, **kw: Any) -> Tensor:
        """``repeat``; missing leading counts are ones."""
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """This tensor with another dtype, on another device, or both."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: Any = None) -> Tensor:
        """The dense tensor of the same numbers: itself if it is dense."""
    def to_mkldnn(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def to_padded_tensor(self, *args: Any, **kwargs: Any) -> Any:
        """Of nested or quantized tensors, which there are none of."""
    def to_sparse(self, sparse_dim: Any = None, *, layout: _layout | None = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
        """The sparse tensor of the same numbers."""
    def to_sparse_bsc(self, blocksize: Any, dense_dim: Any = None) -> Tensor:
        """The same matrix compressed by block columns. Gradients flow."""
    def to_sparse_bsr(self, blocksize: Any, dense_dim: Any = None) -> Tensor:
        """The same matrix compressed by block rows. Gradients flow."""
    def to_sparse_coo(self, sparse_dim: Any = None, *, layout: _layout | None = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
        """The sparse tensor of the same numbers."""
    def to_sparse_csc(self, dense_dim: Any = None) -> Tensor:
        """The same matrix compressed by columns. Gradients flow."""
    def to_sparse_csr(self, dense_dim: Any = None) -> Any:
        """The same matrix compressed by rows. Gradients flow."""
    def topk(self, k: Any, dim: Any = -1, largest: _b.bool = True, sorted: _b.bool = True, *, axis: Any = None, out: Any = None) -> _topk:
        """(values, indices) of the `k` largest (or smallest) elements along `dim`, the first being the extreme one."""
    def trace(self) -> Tensor:
        """The sum of the main diagonal of a matrix."""
    def transpose(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged; of a tensor without dimensions a view of it."""
    def transpose_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions, its memory stays."""
    def triangular_solve(self, A: Any, upper: _b.bool = True, transpose: _b.bool = False, unitriangular: _b.bool = False, *, out: Any = None) -> _triangular_solve:
        """X with ``A @ X = b`` for triangular A: the older form of ``linalg.solve_triangular``."""
    def tril(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """A copy of matrices with zeros everywhere but on and below a diagonal."""
    def tril_(self, diagonal: _b.int = 0) -> Tensor:
        """In-place version of ``tril``: the result is written into this tensor."""
    def triu(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """A copy of matrices with zeros everywhere but on and above a diagonal."""
    def triu_(self, diagonal: _b.int = 0) -> Tensor:
        """In-place version of ``triu``: the result is written into this tensor."""
    def true_divide(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input / other``: ``div`` without rounding."""
    def true_divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``true_divide``: the result is written into this tensor."""
    def trunc(self, *, out: Any = None) -> Tensor:
        """Each element without its fraction, rounded towards 0; integers as they are."""
    def trunc_(self) -> Tensor:
        """In-place version of ``trunc``: the result is written into this tensor."""
    def type(self, dtype: _dtype | None = None, non_blocking: _b.bool = False) -> Any:
        """The name of the type of this tensor; or the tensor converted to another type."""
    def type_as(self, other: Tensor | _b.complex) -> Tensor:
        """This tensor converted to the dtype and moved to the device of `other`."""
    def unbind(self, dim: Any = 0, *, axis: Any = None) -> tuple[Tensor, ...]:
        """All entries of `dim`, as a tuple of views without that dimension."""
    def unflatten(self, dim: Any, sizes: Any) -> Tensor:
        """The dimension `dim` split into `sizes` (one may be -1)."""
    def unfold(self, dimension: Any, size: Any, step: Any) -> Tensor:
        """A view of all windows of one dimension: each is a new last dimension."""
    def uniform_(self, from_: Any = 0.0, to: Any = 1.0, *, generator: Generator | None = None, **kw: Any) -> Tensor:
        """Fill this tensor with numbers that are uniformly distributed in [from, to)."""
    def unique(self, sorted: _b.bool = True, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
        """The distinct elements, or slices, in ascending order."""
    def unique_consecutive(self, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
        """The elements that differ from the one before them."""
    def unsafe_chunk(self, chunks: _b.int, dim: Any = 0) -> tuple[Tensor, ...]:
        """Pieces as of ``chunk``, but each may be written to in place where gradients are recorded."""
    def unsafe_split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Pieces as of ``split``, but each may be written to in place where gradients are recorded."""
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Pieces as of ``split_with_sizes``, but each may be written to in place where gradients are recorded."""
    def unsqueeze(self, dim: Any = None, *, axis: Any = None) -> Tensor:
        """A view with a dimension of length one inserted at `dim`."""
    def unsqueeze_(self, dim: Any) -> Tensor:
        """In-place version of ``unsqueeze``: the tensor itself gets a dimension of length one, its memory stays."""
    def values(self) -> Tensor:
        """The values of a sparse tensor, which must be coalesced: (n, ...). Gradients flow."""
    def var(self, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The variance over dimensions."""
    def vdot(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The sum of products of two vectors, the first one conjugated."""
    def view(self, *size: Any, dtype: _dtype | None = None, **kw: Any) -> Tensor:
        """A view in another shape, or with another dtype of the same bytes."""
    def view_as(self, other: Tensor | _b.complex) -> Tensor:
        """A view of this tensor in the shape of `other`: ``view(other.shape)``, with its errors."""
    def vsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """Views of pieces along the dimension that ``vstack`` joins."""
    def where(self, condition: Any, other: Tensor | _b.complex) -> Tensor:
        """The elements of this tensor where `condition` is true, those of `other` elsewhere, with broadcasting."""
    def xlogy(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * log(other)``, and 0 where `input` is 0."""
    def xlogy_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``xlogy``: the result is written into this tensor."""
    def xpu(self, *args: Any, **kwargs: Any) -> Any:
        """A copy on a device that there is none of."""
    def zero_(self) -> Tensor:
        """Every element set to zero."""
