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
        """The conjugate transpose of a matrix."""
    @property
    def T(self) -> Tensor:
        """A view with all dimensions in reverse order."""
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
    def _neg_view(self) -> Tensor:
        """The negative, a view with the negative bit set."""
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
        """In-place version of ``acos``: the result is written into this tensor, which is returned."""
    def acosh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
    def acosh_(self) -> Tensor:
        """In-place version of ``acosh``: the result is written into this tensor, which is returned."""
    def add(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input + alpha * other``, with broadcasting."""
    def add_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``add``: the result is written into this tensor, which is returned."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * sum(batch1 @ batch2)``, summed over the batch; with beta 0 `input` is ignored."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addbmm``; a smaller tensor that needs no gradient grows to the size of the result."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
        """``input + value * tensor1 / tensor2``, with broadcasting; integer quotients are refused."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1) -> Tensor:
        """In-place version of ``addcdiv``."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1, out: Any = None) -> Tensor:
        """``input + value * tensor1 * tensor2``, with broadcasting."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *more: Any, value: Tensor | _b.complex = 1) -> Tensor:
        """In-place version of ``addcmul``."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast, and ignored with beta 0."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addmm``."""
    def addmv(self, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (mat @ vec)``; `input` is broadcast, and ignored with beta 0."""
    def addmv_(self, mat: Tensor, vec: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addmv``."""
    def addr(self, vec1: Tensor, vec2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``; `input` is broadcast, and ignored with beta 0."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``addr``."""
    def adjoint(self) -> Tensor:
        """The last two dimensions exchanged, and conjugated if complex."""
    def all(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """Whether all elements (along `dim`) are true; bool, uint8 for uint8 tensors."""
    def allclose(self, other: Tensor | _b.complex, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: _b.bool = False) -> _b.bool:
        """Whether all elements are close (see ``isclose``)."""
    def amax(self, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The largest element over the dimension(s) `dim` (all by default); ties share the gradient equally."""
    def amin(self, dim: Any = ..., keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The smallest element over the dimension(s) `dim` (all by default); ties share the gradient equally."""
    def aminmax(self, *, dim: Any = None, keepdim: _b.bool = False, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> _aminmax:
        """(min, max) over one dimension or all of them; a named tuple."""
    def angle(self, *, out: Any = None) -> Tensor:
        """The angle of each complex number in radians; for real numbers 0, or pi if negative."""
    def any(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """Whether any element (along `dim`) is true; bool, uint8 for uint8 tensors."""
    def apply_(self, callable: Callable[..., Any]) -> Tensor:
        """Every element replaced by ``callable(element)``: slow, a Python call for each. CPU only, no gradients."""
    def arccos(self, *, out: Any = None) -> Tensor:
        """The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1]."""
    def arccos_(self) -> Tensor:
        """In-place version of ``acos``: the result is written into this tensor, which is returned."""
    def arccosh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1."""
    def arccosh_(self) -> Tensor:
        """In-place version of ``acosh``: the result is written into this tensor, which is returned."""
    def arcsin(self, *, out: Any = None) -> Tensor:
        """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """In-place version of ``asin``: the result is written into this tensor, which is returned."""
    def arcsinh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
    def arcsinh_(self) -> Tensor:
        """In-place version of ``asinh``: the result is written into this tensor, which is returned."""
    def arctan(self, *, out: Any = None) -> Tensor:
        """The inverse tangent of each element, in [-pi/2, pi/2]."""
    def arctan2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
    def arctan2_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``atan2``: the result is written into this tensor, which is returned."""
    def arctan_(self) -> Tensor:
        """In-place version of ``atan``: the result is written into this tensor, which is returned."""
    def arctanh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
    def arctanh_(self) -> Tensor:
        """In-place version of ``atanh``: the result is written into this tensor, which is returned."""
    def argmax(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The index (int64) of the first largest element: in the flattened tensor, or along `dim`."""
    def argmin(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The index (int64) of the first smallest element: in the flattened tensor, or along `dim`."""
    def argsort(self, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, out: Any = None) -> Tensor:
        """The indices that sort `input` along `dim`."""
    def argwhere(self) -> Tensor:
        """``nonzero``."""
    def as_strided(self, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """A view of the memory of `input` with any size and strides (in elements) from `storage_offset` on."""
    def as_strided_(self, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """In-place version of ``as_strided``."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of ``input.as_strided(size, stride, storage_offset)``."""
    def as_subclass(self, cls: Any) -> Tensor:
        """The same memory and history as an instance of `cls`, a subclass of Tensor."""
    def asin(self, *, out: Any = None) -> Tensor:
        """The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1]."""
    def asin_(self) -> Tensor:
        """In-place version of ``asin``: the result is written into this tensor, which is returned."""
    def asinh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1))."""
    def asinh_(self) -> Tensor:
        """In-place version of ``asinh``: the result is written into this tensor, which is returned."""
    def atan(self, *, out: Any = None) -> Tensor:
        """The inverse tangent of each element, in [-pi/2, pi/2]."""
    def atan2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The angle of each point (other, input) in the plane, in [-pi, pi]: atan(input / other) in the right quadrant."""
    def atan2_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``atan2``: the result is written into this tensor, which is returned."""
    def atan_(self) -> Tensor:
        """In-place version of ``atan``: the result is written into this tensor, which is returned."""
    def atanh(self, *, out: Any = None) -> Tensor:
        """The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1]."""
    def atanh_(self) -> Tensor:
        """In-place version of ``atanh``: the result is written into this tensor, which is returned."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
        """``beta * input + alpha * (batch1 @ batch2)``; `input` is broadcast, and ignored with beta 0."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *more: Any, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place version of ``baddbmm``."""
    def bernoulli(self, p: Any = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
        """1 with probability `p` (or the element of `input`), else 0; not differentiable."""
    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill with 1 with probability p (a number or a tensor), else 0."""
    def bfloat16(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to bfloat16; itself if it is so already."""
    def bincount(self, weights: Any = None, minlength: Any = 0) -> Tensor:
        """How often each of 0, 1, 2... occurs in an integer vector, or the sum of the weights of its occurrences."""
    def bitwise_and(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that both integers have; of bool the logical and."""
    def bitwise_and_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_and``: the result is written into this tensor, which is returned."""
    def bitwise_left_shift(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Integers shifted to the left: input * 2^other, without what does not fit; `other` is a number of bits."""
    def bitwise_left_shift_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_left_shift``: the result is written into this tensor, which is returned."""
    def bitwise_not(self, *, out: Any = None) -> Tensor:
        """Each element with all bits inverted: -x - 1 of signed integers; of bool tensors the logical not."""
    def bitwise_not_(self) -> Tensor:
        """In-place version of ``bitwise_not``: the result is written into this tensor, which is returned."""
    def bitwise_or(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that one of the integers has, or both; of bool the logical or."""
    def bitwise_or_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_or``: the result is written into this tensor, which is returned."""
    def bitwise_right_shift(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Integers shifted to the right: floor(input / 2^other); `other` is a number of bits."""
    def bitwise_right_shift_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_right_shift``: the result is written into this tensor, which is returned."""
    def bitwise_xor(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The bits that exactly one of the integers has; of bool whether they differ."""
    def bitwise_xor_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``bitwise_xor``: the result is written into this tensor, which is returned."""
    def bmm(self, mat2: Tensor, *, out: Any = None, out_dtype: Any = None) -> Tensor:
        """The products of two equally long lists of matrices: (b, n, k) times (b, k, m) gives (b, n, m)."""
    def bool(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to bool; itself if it is so already."""
    def broadcast_to(self, size: Any, *more: Any) -> Tensor:
        """``expand`` to `size`."""
    def byte(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to uint8; itself if it is so already."""
    def cauchy_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the Cauchy distribution; it is returned."""
    def cdouble(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to complex128; itself if it is so already."""
    def ceil(self, *, out: Any = None) -> Tensor:
        """The smallest whole number that is not below each element; integers as they are."""
    def ceil_(self) -> Tensor:
        """In-place version of ``ceil``: the result is written into this tensor, which is returned."""
    def cfloat(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to complex64; itself if it is so already."""
    def char(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to int8; itself if it is so already."""
    def cholesky(self, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """See ``linalg.cholesky``."""
    def cholesky_inverse(self, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """The inverse of the matrix that a Cholesky factor was made from."""
    def cholesky_solve(self, L: Any, upper: _b.bool = False, *, out: Any = None) -> Tensor:
        """X with ``A @ X = B``, where A is given by its Cholesky factor: (..., n, k) and (..., n, n), batches broadcast."""
    def chunk(self, chunks: _b.int, dim: Any = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal length along `dim` (the last may be smaller)."""
    def clamp(self, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
        """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of ``clamp``."""
    def clamp_max(self, max: Any, *, out: Any = None) -> Tensor:
        """``min(input, max)`` elementwise."""
    def clamp_max_(self, max: Any) -> Tensor:
        """In-place version of ``clamp_max``."""
    def clamp_min(self, min: Any, *, out: Any = None) -> Tensor:
        """``max(input, min)`` elementwise."""
    def clamp_min_(self, min: Any) -> Tensor:
        """In-place version of ``clamp_min``."""
    def clip(self, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
        """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
    def clip_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of ``clamp``."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy; the copy is recorded, so gradients flow to the original."""
    def conj(self) -> Tensor:
        """The complex conjugate, a view with the conjugate bit set; a real tensor itself."""
    def conj_physical(self, *, out: Any = None) -> Tensor:
        """The complex conjugate; a real tensor itself."""
    def conj_physical_(self) -> Tensor:
        """In-place version of ``conj_physical``."""
    def conjugate(self) -> Tensor:
        """The complex conjugate; NumPy's spelling, shared by arrays, numbers and tensors, for gradient formulas."""
    def const_data_ptr(self) -> _b.int:
        """The address of the first element."""
    def contiguous(self, memory_format: _memory_format | None = None) -> Tensor:
        """Itself if it is dense and row-major (or in the given memory format), else a copy that is."""
    def copy_(self, src: Tensor, non_blocking: _b.bool = False) -> Tensor:
        """The elements of `src`, broadcast and converted to this dtype and device; gradients flow to `src`."""
    def copysign(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The magnitude of each element of `input` with the sign of that of `other`; -0.0 is negative."""
    def copysign_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``copysign``: the result is written into this tensor, which is returned."""
    def corrcoef(self) -> Tensor:
        """The correlation matrix of variables (rows) over observations (columns); of one variable 1."""
    def cos(self, *, out: Any = None) -> Tensor:
        """The cosine of each element, in radians."""
    def cos_(self) -> Tensor:
        """In-place version of ``cos``: the result is written into this tensor, which is returned."""
    def cosh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic cosine of each element: (e^x + e^-x) / 2."""
    def cosh_(self) -> Tensor:
        """In-place version of ``cosh``: the result is written into this tensor, which is returned."""
    def count_nonzero(self, dim: Any = None, *, axis: Any = None) -> Tensor:
        """The number (int64) of elements that are not zero, over the dimension(s) `dim` (all by default)."""
    def cov(self, *, correction: Any = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        """The covariance matrix of variables (rows) over observations (columns); of one variable its variance."""
    def cpu(self, memory_format: _memory_format | None = None) -> Tensor:
        """A copy in host memory (itself if it is there)."""
    def cross(self, other: Tensor | _b.complex, dim: Any = None, *, out: Any = None) -> Tensor:
        """``linalg.cross``; without `dim`, along the first dimension of length 3."""
    def cuda(self, device: _device | _b.str | _b.int | None = None, non_blocking: _b.bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """A copy on a CUDA device (itself if it is there)."""
    def cummax(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummax:
        """(values, indices): the largest element so far along `dim`, and the last place where it was found."""
    def cummin(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> _cummin:
        """(values, indices): the smallest element so far along `dim`, and the last place where it was found."""
    def cumprod(self, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
        """The running product along `dim`."""
    def cumprod_(self, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
        """In-place version of ``cumprod``: the result is written into this tensor, which is returned."""
    def cumsum(self, dim: Any = None, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None) -> Tensor:
        """The running sum along `dim`."""
    def cumsum_(self, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
        """In-place version of ``cumsum``: the result is written into this tensor, which is returned."""
    def deg2rad(self, *, out: Any = None) -> Tensor:
        """Each angle, given in degrees, in radians: x * pi / 180."""
    def deg2rad_(self) -> Tensor:
        """In-place version of ``deg2rad``: the result is written into this tensor, which is returned."""
    def det(self, *, out: Any = None) -> Tensor:
        """The determinant of square matrices (..., n, n): (...). The gradient exists for singular matrices too."""
    def diag(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal."""
    def diag_embed(self, offset: _b.int = 0, dim1: _b.int = -2, dim2: _b.int = -1) -> Tensor:
        """Zeros with the last dimension of `input` on the diagonal of the new dimensions `dim1` and `dim2`."""
    def diagflat(self, offset: _b.int = 0) -> Tensor:
        """A matrix with all elements of `input` on a diagonal."""
    def diagonal(self, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1) -> Tensor:
        """A view of the diagonal of the dimensions `dim1` and `dim2`, which go; it is the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: _b.int = 0, dim1: _b.int = 0, dim2: _b.int = 1, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of ``input.diagonal(offset, dim1, dim2)``."""
    def diff(self, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None, *, out: Any = None) -> Tensor:
        """The n-th differences of neighbours along `dim`, after `prepend` and `append` are put at the ends."""
    def digamma(self, *, out: Any = None) -> Tensor:
        """The derivative of ``lgamma``."""
    def digamma_(self) -> Tensor:
        """In-place version of ``digamma``: the result is written into this tensor, which is returned."""
    def dist(self, other: Tensor | _b.complex, p: Any = 2) -> Tensor:
        """The norm of order `p` of ``input - other`` (with broadcasting)."""
    def div(self, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
        """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
    def div_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``div``: the result is written into this tensor, which is returned."""
    def divide(self, other: Tensor | _b.complex, *, rounding_mode: _b.str | None = None, out: Any = None) -> Tensor:
        """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
    def divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``divide``: the result is written into this tensor, which is returned."""
    def dot(self, tensor: Tensor, *, out: Any = None) -> Tensor:
        """The sum of products of two vectors of the same length (complex: nothing is conjugated)."""
    def double(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to float64; itself if it is so already."""
    def dsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """``tensor_split`` along the dimension that ``dstack`` joins."""
    def eq(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are equal to those of `other`; nan equals nothing."""
    def eq_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``eq``: the result is written into this tensor, which is returned."""
    def equal(self, other: Tensor | _b.complex) -> _b.bool:
        """Whether both tensors have the same size and elements."""
    def erf(self, *, out: Any = None) -> Tensor:
        """The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element."""
    def erf_(self) -> Tensor:
        """In-place version of ``erf``: the result is written into this tensor, which is returned."""
    def erfc(self, *, out: Any = None) -> Tensor:
        """The complementary error function ``1 - erf(input)``."""
    def erfc_(self) -> Tensor:
        """In-place version of ``erfc``: the result is written into this tensor, which is returned."""
    def erfinv(self, *, out: Any = None) -> Tensor:
        """The inverse of ``erf``."""
    def erfinv_(self) -> Tensor:
        """In-place version of ``erfinv``: the result is written into this tensor, which is returned."""
    def exp(self, *, out: Any = None) -> Tensor:
        """e to the power of each element."""
    def exp2(self, *, out: Any = None) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """In-place version of ``exp2``: the result is written into this tensor, which is returned."""
    def exp_(self) -> Tensor:
        """In-place version of ``exp``: the result is written into this tensor, which is returned."""
    def expand(self, *size: Any, implicit: _b.bool = False, **kw: Any) -> Tensor:
        """A view with dimensions of length one repeated (without copy) up to `size`; -1 keeps a dimension."""
    def expand_as(self, other: Tensor | _b.complex) -> Tensor:
        """``expand`` to the shape of `other`."""
    def expit(self, *, out: Any = None) -> Tensor:
        """1 / (1 + e^-x) of each element, in [0, 1]."""
    def expit_(self) -> Tensor:
        """In-place version of ``sigmoid``: the result is written into this tensor, which is returned."""
    def expm1(self, *, out: Any = None) -> Tensor:
        """e^x - 1 of each element, exact near 0."""
    def expm1_(self) -> Tensor:
        """In-place version of ``expm1``: the result is written into this tensor, which is returned."""
    def exponential_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the exponential distribution of rate lambd; it is returned."""
    def fill_(self, value: Tensor | _b.complex) -> Tensor:
        """Every element set to `value`, a number or a 0-dim tensor (gradients flow to it)."""
    def fill_diagonal_(self, fill_value: Any, wrap: _b.bool = False) -> Tensor:
        """`fill_value` written where all indices are equal; `wrap`: of a tall matrix, again and again."""
    def fix(self, *, out: Any = None) -> Tensor:
        """Each element without its fraction, rounded towards 0; integers as they are."""
    def fix_(self) -> Tensor:
        """In-place version of ``trunc``: the result is written into this tensor, which is returned."""
    def flatten(self, start_dim: _b.int = 0, end_dim: _b.int = -1) -> Tensor:
        """The dimensions from `start_dim` to `end_dim` merged into one; itself if there is nothing to merge."""
    def flip(self, *dims: Any, **kw: Any) -> Tensor:
        """A copy with the order of the entries of `dims` reversed."""
    def fliplr(self) -> Tensor:
        """``flip`` of dimension 1."""
    def flipud(self) -> Tensor:
        """``flip`` of dimension 0."""
    def float(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to float32; itself if it is so already."""
    def float_power(self, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``pow`` in float64 (complex128 for complex arguments)."""
    def float_power_(self, exponent: Tensor | _b.complex) -> Tensor:
        """In-place version of ``float_power``; the tensor must have the dtype of the result."""
    def floor(self, *, out: Any = None) -> Tensor:
        """The largest whole number that is not above each element; integers as they are."""
    def floor_(self) -> Tensor:
        """In-place version of ``floor``: the result is written into this tensor, which is returned."""
    def floor_divide(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``floor(input / other)``; unlike ``div`` with rounding it has no derivative."""
    def floor_divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``floor_divide``: the result is written into this tensor, which is returned."""
    def fmax(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The larger one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
    def fmin(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The smaller one of two elements; of a nan and a number the number. At ties both have half of the gradient."""
    def fmod(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Remainder of the division, with the sign of `input`."""
    def fmod_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``fmod``: the result is written into this tensor, which is returned."""
    def frac(self, *, out: Any = None) -> Tensor:
        """The fraction of each element, with its sign: x - trunc(x)."""
    def frac_(self) -> Tensor:
        """In-place version of ``frac``: the result is written into this tensor, which is returned."""
    def frexp(self, *, out: Any = None) -> _frexp:
        """(mantissa, exponent) with ``input = mantissa * 2**exponent`` and the mantissa in (-1, -0.5] or [0.5, 1)."""
    def gather(self, dim: Any, index: Tensor, *, sparse_grad: _b.bool = False, out: Any = None) -> Tensor:
        """``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on: the entries of `dim` that `index` names."""
    def gcd(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The greatest common divisor of two integers, not negative; gcd(0, 0) is 0."""
    def gcd_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``gcd``: the result is written into this tensor, which is returned."""
    def ge(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not below those of `other`."""
    def ge_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ge``: the result is written into this tensor, which is returned."""
    def geometric_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the geometric distribution: trials up to the first success; it is returned."""
    def geqrf(self, *, out: Any = None) -> _geqrf:
        """(a, tau): R above the diagonal and the Householder vectors below it, and their factors. No derivative."""
    def ger(self, vec2: Tensor, *, out: Any = None) -> Tensor:
        """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
    def greater(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are above those of `other`."""
    def greater_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``gt``: the result is written into this tensor, which is returned."""
    def greater_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not below those of `other`."""
    def greater_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ge``: the result is written into this tensor, which is returned."""
    def gt(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are above those of `other`."""
    def gt_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``gt``: the result is written into this tensor, which is returned."""
    def half(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to float16; itself if it is so already."""
    def hardshrink(self, lambd: Any = 0.5, *, out: Any = None) -> Tensor:
        """0 where ``|x| <= lambd``, else `input`."""
    def hash_tensor(self, dim: Any = ..., *, keepdim: _b.bool = False, mode: Any = 0, out: Any = None) -> Tensor:
        """A 64-bit hash (uint64) of all elements or along `dim`: the exclusive or of them as float64 or int64 patterns."""
    def heaviside(self, values: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The step function: 0 below 0, 1 above it, and at 0 the element of `values`."""
    def heaviside_(self, values: Tensor | _b.complex) -> Tensor:
        """In-place version of ``heaviside``: the result is written into this tensor, which is returned."""
    def histc(self, bins: Any = 100, min: Any = 0, max: Any = 0, *, out: Any = None) -> Tensor:
        """How many elements fall into each of `bins` equal intervals from `min` to `max`."""
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _b.bool = False, out: Any = None) -> _histogram:
        """(hist, bin_edges) of all elements."""
    def hsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """``tensor_split`` along the dimension that ``hstack`` joins."""
    def hypot(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The length of the vector of two elements: sqrt(input^2 + other^2), without overflow. At (0, 0) the gradient is 0."""
    def hypot_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``hypot``: the result is written into this tensor, which is returned."""
    def i0(self, *, out: Any = None) -> Tensor:
        """The modified Bessel function I0."""
    def i0_(self) -> Tensor:
        """In-place version of ``i0``: the result is written into this tensor, which is returned."""
    def igamma(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The regularised lower incomplete gamma function of (a, x), differentiable in x."""
    def igamma_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``igamma``: the result is written into this tensor, which is returned."""
    def igammac(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The regularised upper incomplete gamma function of (a, x), differentiable in x."""
    def igammac_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``igammac``: the result is written into this tensor, which is returned."""
    imag: Tensor
    def index_add(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Any = None) -> Tensor:
        """A copy of `input` with ``alpha * source`` added to the slices of `dim` that `index` names."""
    def index_add_(self, dim: Any, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """In-place version of ``index_add``."""
    def index_copy(self, dim: Any, index: Tensor, source: Tensor, *, out: Any = None) -> Tensor:
        """A copy of `input` with `source` in place of the slices of `dim` that `index` names."""
    def index_copy_(self, dim: Any, index: Tensor, source: Tensor) -> Tensor:
        """In-place version of ``index_copy``."""
    def index_fill(self, dim: Any, index: Tensor, value: Tensor | _b.complex) -> Tensor:
        """A copy of `input` with `value`, a number or 0-dim tensor, in the slices of `dim` that `index` names."""
    def index_fill_(self, dim: Any, index: Tensor, value: Tensor | _b.complex) -> Tensor:
        """In-place version of ``index_fill``."""
    def index_put(self, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
        """A copy of `input` with `values` at ``input[indices]``; `accumulate` adds them, repeated indices included."""
    def index_put_(self, indices: Any, values: Tensor | _b.complex, accumulate: _b.bool = False) -> Tensor:
        """``index_put`` written into `input` itself."""
    def index_reduce(self, dim: Any, index: Tensor, source: Tensor, reduce: Any, *, include_self: _b.bool = True, out: Any = None) -> Tensor:
        """A copy of `input` with the slices of `source` reduced into those of `dim` that `index` names."""
    def index_reduce_(self, dim: Any, index: Tensor, source: Tensor, reduce: Any, *, include_self: _b.bool = True) -> Tensor:
        """In-place version of ``index_reduce``."""
    def index_select(self, dim: Any, index: Tensor, *, out: Any = None) -> Tensor:
        """The slices of `dim` that the integer vector `index` names, in its order (a copy)."""
    def inner(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Products summed over the last dimension of both: (..., k) and (***, k) give (..., ***); numbers just multiply."""
    def int(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to int32; itself if it is so already."""
    def inverse(self, *, out: Any = None) -> Tensor:
        """The inverse of square matrices. Raises LinAlgError for a singular one."""
    def is_conj(self) -> _b.bool:
        """Whether the values are the conjugates of those in memory: of a tensor made by ``conj``, and views of it."""
    def is_neg(self) -> _b.bool:
        """Whether the values are the negatives of those in memory: of the imaginary part of a conjugated tensor."""
    def is_nonzero(self) -> _b.bool:
        """Whether a tensor of one element is not zero; RuntimeError for more or fewer elements."""
    def is_shared(self) -> _b.bool:
        """Whether processes forked from now on share this memory: after ``share_memory_``, and on a CUDA device."""
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
        """(values, indices) of the `k`-th smallest element along `dim` (k counts from 1)."""
    def lcm(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The least common multiple of two integers, not negative; 0 if one of them is."""
    def lcm_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``lcm``: the result is written into this tensor, which is returned."""
    def ldexp(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * 2**other``."""
    def ldexp_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ldexp``: the result is written into this tensor, which is returned."""
    def le(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not above those of `other`."""
    def le_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``le``: the result is written into this tensor, which is returned."""
    def lerp(self, end: Tensor | _b.complex, weight: Tensor, *, out: Any = None) -> Tensor:
        """``input + weight * (end - input)``, with broadcasting; `weight` is a number or a tensor."""
    def lerp_(self, end: Tensor | _b.complex, weight: Tensor) -> Tensor:
        """In-place version of ``lerp``."""
    def less(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are below those of `other`."""
    def less_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``lt``: the result is written into this tensor, which is returned."""
    def less_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are not above those of `other`."""
    def less_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``le``: the result is written into this tensor, which is returned."""
    def lgamma(self, *, out: Any = None) -> Tensor:
        """``log(|gamma(input)|)``."""
    def lgamma_(self) -> Tensor:
        """In-place version of ``lgamma``: the result is written into this tensor, which is returned."""
    def log(self, *, out: Any = None) -> Tensor:
        """The natural logarithm of each element; -inf at 0, nan below it."""
    def log10(self, *, out: Any = None) -> Tensor:
        """The logarithm of each element to the base 10; -inf at 0, nan below it."""
    def log10_(self) -> Tensor:
        """In-place version of ``log10``: the result is written into this tensor, which is returned."""
    def log1p(self, *, out: Any = None) -> Tensor:
        """log(1 + x) of each element, exact near 0; nan below -1."""
    def log1p_(self) -> Tensor:
        """In-place version of ``log1p``: the result is written into this tensor, which is returned."""
    def log2(self, *, out: Any = None) -> Tensor:
        """The logarithm of each element to the base 2; -inf at 0, nan below it."""
    def log2_(self) -> Tensor:
        """In-place version of ``log2``: the result is written into this tensor, which is returned."""
    def log_(self) -> Tensor:
        """In-place version of ``log``: the result is written into this tensor, which is returned."""
    def log_normal_(self, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        """Fill this tensor with numbers from the log-normal distribution; it is returned."""
    def log_softmax(self, dim: Any, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
        """The logarithm of ``softmax(input, dim)``, computed without loss of precision."""
    def logaddexp(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """log(e^a + e^b) of two elements, without overflow."""
    def logaddexp2(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """log2(2^a + 2^b) of two elements, without overflow."""
    def logcumsumexp(self, dim: Any = None, *, out: Any = None, axis: Any = None) -> Tensor:
        """The logarithm of the running sum of exponentials along `dim`, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant: nan where it is negative, -inf where it is 0."""
    def logical_and(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether both elements are other than 0."""
    def logical_and_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_and``: the result is written into this tensor, which is returned."""
    def logical_not(self, *, out: Any = None) -> Tensor:
        """Whether each element is 0."""
    def logical_not_(self) -> Tensor:
        """In-place version of ``logical_not``: the result is written into this tensor, which is returned."""
    def logical_or(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether one of the elements is, or both are, other than 0."""
    def logical_or_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_or``: the result is written into this tensor, which is returned."""
    def logical_xor(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether exactly one of the elements is other than 0."""
    def logical_xor_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``logical_xor``: the result is written into this tensor, which is returned."""
    def logit(self, eps: Any = None, *, out: Any = None) -> Tensor:
        """``log(x / (1 - x))``; with `eps` the input is first limited to [eps, 1 - eps]."""
    def logit_(self, eps: Any = None) -> Tensor:
        """In-place version of ``logit``."""
    def logsumexp(self, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """``log(sum(exp(input)))`` over the dimension(s) `dim`, without overflow."""
    def long(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to int64; itself if it is so already."""
    def lt(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` are below those of `other`."""
    def lt_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``lt``: the result is written into this tensor, which is returned."""
    def lu(self, pivot: _b.bool = True, get_infos: _b.bool = False, out: Any = None) -> Any:
        """(LU, pivots), with info as third if asked for; see ``linalg.lu_factor``. Tensors of any type may be `out`."""
    def lu_solve(self, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Tensor:
        """See ``linalg.lu_solve``."""
    @property
    def mH(self) -> Tensor:
        """The last two dimensions exchanged, and conjugated if complex."""
    @property
    def mT(self) -> Tensor:
        """A view with the last two dimensions exchanged."""
    def map_(self, tensor: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Every element replaced by ``callable(element, other)``, `other` being that of `tensor`, which is broadcast."""
    def masked_fill(self, mask: Tensor, value: Tensor | _b.complex) -> Tensor:
        """A copy of `input` with `value`, a number or 0-dim tensor, where the bool tensor `mask` is true."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _b.complex) -> Tensor:
        """`value` written where `mask` is true; `mask` must broadcast to this shape."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` with consecutive elements of `source` where `mask` is true."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """Consecutive elements of `source` written where `mask` is true."""
    def masked_select(self, mask: Tensor, *, out: Any = None) -> Tensor:
        """The elements where the bool tensor `mask` is true, in one dimension; both are broadcast together."""
    def matmul(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The matrix product: of vectors a dot product, of stacks of matrices (batch dimensions broadcast) a stack."""
    def matrix_exp(self) -> Tensor:
        """The exponential of square matrices."""
    def matrix_power(self, n: Any, *, out: Any = None) -> Tensor:
        """The n-th power of square matrices by repeated squaring; a negative n inverts first."""
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
        """(values, indices) of the most frequent element along `dim`, the smallest of those."""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """A view with the dimension(s) `source` moved to the position(s) `destination`."""
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """A view with the dimension(s) `source` moved to the position(s) `destination`."""
    def msort(self, *, out: Any = None) -> Tensor:
        """Sorted along the first dimension."""
    def mul(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * other``, with broadcasting."""
    def mul_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``mul``: the result is written into this tensor, which is returned."""
    def multinomial(self, num_samples: Any, replacement: _b.bool = False, *, generator: Generator | None = None, out: Any = None) -> Tensor:
        """Indices drawn with the (unnormalised) probabilities in each row of `input`; int64, not differentiable."""
    def multiply(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * other``, with broadcasting."""
    def multiply_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``mul``: the result is written into this tensor, which is returned."""
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
        """The mean of the elements that are not nan."""
    @overload
    def nanmedian(self, *, out: Any = None) -> Tensor: ...
    @overload
    def nanmedian(self, dim: _b.int, keepdim: _b.bool = False, *, out: Any = None) -> _nanmedian: ...
    def nanquantile(self, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """``quantile`` of the elements that are not nan."""
    def nansum(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The sum with nan counted as zero."""
    def narrow(self, dim: Any, start: Any, length: Any) -> Tensor:
        """A view of `length` entries of dimension `dim` from `start` on."""
    def narrow_copy(self, dim: Any, start: Any, length: Any, *, out: Any = None) -> Tensor:
        """A copy of ``narrow``."""
    def ne(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` differ from those of `other`; nan differs from all."""
    def ne_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ne``: the result is written into this tensor, which is returned."""
    def neg(self, *, out: Any = None) -> Tensor:
        """Each element with the other sign."""
    def neg_(self) -> Tensor:
        """In-place version of ``neg``: the result is written into this tensor, which is returned."""
    def negative(self, *, out: Any = None) -> Tensor:
        """Each element with the other sign."""
    def negative_(self) -> Tensor:
        """In-place version of ``neg``: the result is written into this tensor, which is returned."""
    def new(self, *args: Any, device: _device | _b.str | _b.int | None = None) -> Tensor:
        """``Tensor(*args)`` with the dtype of this tensor: a size, a sequence of numbers, or nothing."""
    def new_empty(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """``empty`` with the dtype and device of this tensor."""
    def new_empty_strided(self, size: Any, stride: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
        """``empty_strided`` with the dtype and device of this tensor."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False) -> Tensor:
        """``full`` with the dtype and device of this tensor."""
    def new_ones(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """``ones`` with the dtype and device of this tensor."""
    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, pin_memory: _b.bool = False) -> Tensor:
        """``tensor(data)`` with the dtype and device of this tensor."""
    def new_zeros(self, *size: Any, dtype: _dtype | None = None, device: _device | _b.str | _b.int | None = None, requires_grad: _b.bool = False, layout: _layout | None = None, pin_memory: _b.bool = False, **kw: Any) -> Tensor:
        """``zeros`` with the dtype and device of this tensor."""
    def nextafter(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The next number of the dtype after each element of `input` on the way to that of `other`."""
    def nextafter_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``nextafter``: the result is written into this tensor, which is returned."""
    def nonzero(self, *, out: Any = None, as_tuple: _b.bool = False) -> Any:
        """The indices of the elements that are not zero, one row each; as_tuple: one vector for each dimension."""
    def nonzero_static(self, *, size: Any, fill_value: Any = -1, out: Any = None) -> Tensor:
        """The first `size` rows of ``nonzero``, filled up with `fill_value`."""
    def norm(self, p: Any = 'fro', dim: Any = None, keepdim: _b.bool = False, dtype: _dtype | None = None) -> Tensor:
        """See ``gradlib.norm``."""
    def normal_(self, mean: Any = 0.0, std: Any = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with normal numbers."""
    def not_equal(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Whether elements of `input` differ from those of `other`; nan differs from all."""
    def not_equal_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``ne``: the result is written into this tensor, which is returned."""
    def orgqr(self, tau: Any, *, out: Any = None) -> Tensor:
        """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition."""
    def ormqr(self, tau: Any, other: Tensor | _b.complex, left: _b.bool = True, transpose: _b.bool = False, *, out: Any = None) -> Tensor:
        """`other` multiplied by the full Q (or Q^H) that ``geqrf`` describes."""
    def outer(self, vec2: Tensor, *, out: Any = None) -> Tensor:
        """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
    def permute(self, *dims: Any, **kw: Any) -> Tensor:
        """A view with the dimensions in the order `dims`."""
    def pin_memory(self, device: _device | _b.str | _b.int | None = None) -> Tensor:
        """A copy in page-locked memory, from which copies to a CUDA device need not be waited for; itself if it is there."""
    def pinverse(self, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: _b.bool = False, out: Any = None) -> Tensor:
        """The Moore-Penrose pseudo-inverse; singular values up to max(atol, rtol * largest) count as 0."""
    def polygamma(self, n: Any) -> Tensor:
        """``polygamma(n, self)``: the n-th derivative of digamma of each element."""
    def polygamma_(self, n: Any) -> Tensor:
        """In-place version of ``polygamma``: the result is written into this tensor, which is returned."""
    def positive(self) -> Tensor:
        """`input` itself; RuntimeError for bool tensors."""
    def pow(self, exponent: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input ** exponent`` for tensors and numbers on either side."""
    def pow_(self, exponent: Tensor | _b.complex) -> Tensor:
        """In-place version of ``pow``."""
    def prelu(self, weight: Tensor) -> Tensor:
        """``x`` where positive, else ``weight * x``; `weight` has one element, or one for each channel (dimension 1)."""
    def prod(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The product of all elements, or over the dimension `dim` (an int). Exact gradients where elements are zero."""
    def put(self, index: Tensor, source: Tensor, accumulate: _b.bool = False) -> Tensor:
        """A copy of `input` with `source` written (or added) at the positions `index` of the flat input."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _b.bool = False) -> Tensor:
        """In-place version of ``put``."""
    def qr(self, some: _b.bool = True, *, out: Any = None) -> _qr:
        """See ``linalg.qr``."""
    def quantile(self, q: Any, dim: Any = None, keepdim: _b.bool = False, *, interpolation: Any = 'linear', out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The q-quantiles of all elements or along `dim`; those of a vector q are in the first dimension of the result."""
    def rad2deg(self, *, out: Any = None) -> Tensor:
        """Each angle, given in radians, in degrees: x * 180 / pi."""
    def rad2deg_(self) -> Tensor:
        """In-place version of ``rad2deg``: the result is written into this tensor, which is returned."""
    def random_(self, from_: Any = None, to: Any = ..., *, generator: Generator | None = None, **kw: Any) -> Tensor:
        """Fill with integers in [from, to), to the largest that the dtype holds without `to`; a number alone is `to`."""
    def ravel(self) -> Tensor:
        """All elements in one dimension."""
    real: Tensor
    def reciprocal(self, *, out: Any = None) -> Tensor:
        """1 / x of each element; inf at 0."""
    def reciprocal_(self) -> Tensor:
        """In-place version of ``reciprocal``: the result is written into this tensor, which is returned."""
    def relu(self, *, out: Any = None) -> Tensor:
        """max(x, 0) of each element; nan stays nan. The gradient at 0 is 0."""
    def relu_(self) -> Tensor:
        """In-place version of ``relu``: the result is written into this tensor, which is returned."""
    def remainder(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """Remainder of the division, with the sign of `other`."""
    def remainder_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``remainder``: the result is written into this tensor, which is returned."""
    def renorm(self, p: Any, dim: Any, maxnorm: Any, *, out: Any = None) -> Tensor:
        """Each slice of `input` along `dim` scaled down so that its p-norm is at most `maxnorm`."""
    def renorm_(self, p: Any, dim: Any, maxnorm: Any) -> Tensor:
        """In-place version of ``renorm``."""
    def repeat(self, *repeats: Any, **kw: Any) -> Tensor:
        """A copy repeated so many times along each dimension; further dimensions may be put in front."""
    def repeat_interleave(self, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Tensor:
        """``gradlib.repeat_interleave`` of this tensor."""
    def reshape(self, *shape: Any, **kw: Any) -> Tensor:
        """The elements of `input` in another shape; one dimension may be -1. A view if possible."""
    def reshape_as(self, other: Tensor | _b.complex) -> Tensor:
        """``reshape`` to the shape of `other`."""
    def resize(self, *sizes: Any) -> Any:
        """Deprecated: ``reshape`` to sizes with as many elements; RuntimeError for another number of them."""
    def resize_as(self, tensor: Tensor) -> Any:
        """Deprecated: ``reshape`` to the shape of `tensor`, which has as many elements."""
    def resolve_conj(self) -> Tensor:
        """The tensor itself, or a copy with the values of a conjugated view."""
    def resolve_neg(self) -> Tensor:
        """The tensor itself, or a copy with the values of a negated view."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """A copy with the entries of `dims` moved by `shifts` places, round the end; all as flat without `dims`."""
    def rot90(self, k: Any = 1, dims: Any = ...) -> Tensor:
        """A copy turned by `k` quarters in the plane of `dims`, from the first towards the second."""
    def round(self, *, decimals: Any = 0, out: Any = None) -> Tensor:
        """Round to the nearest number with `decimals` digits after the point; halves go to the even neighbour."""
    def round_(self, *, decimals: Any = 0) -> Tensor:
        """In-place version of ``round``."""
    def rsqrt(self, *, out: Any = None) -> Tensor:
        """1 / sqrt(x) of each element; inf at 0, nan below it."""
    def rsqrt_(self) -> Tensor:
        """In-place version of ``rsqrt``: the result is written into this tensor, which is returned."""
    def scatter(self, dim: Any, index: Tensor, src: Tensor | None = None, *, value: Tensor | _b.complex | None = None, reduce: Any = None, out: Any = None) -> Tensor:
        """A copy of `input` with `src` (a tensor or a number) written at the places of `dim` that `index` names."""
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
        """In-place version of ``sgn``: the result is written into this tensor, which is returned."""
    def share_memory_(self) -> Tensor:
        """Move the elements, and those of all views, into memory that processes forked later share."""
    def short(self, memory_format: _memory_format | None = None) -> Tensor:
        """Converted to int16; itself if it is so already."""
    def sigmoid(self, *, out: Any = None) -> Tensor:
        """1 / (1 + e^-x) of each element, in [0, 1]."""
    def sigmoid_(self) -> Tensor:
        """In-place version of ``sigmoid``: the result is written into this tensor, which is returned."""
    def sign(self, *, out: Any = None) -> Tensor:
        """-1, 0 or 1: the sign of each element; its gradient is 0."""
    def sign_(self) -> Tensor:
        """In-place version of ``sign``: the result is written into this tensor, which is returned."""
    def signbit(self, *, out: Any = None) -> Tensor:
        """Whether each element has its sign bit set: negative numbers, and -0.0."""
    def sin(self, *, out: Any = None) -> Tensor:
        """The sine of each element, in radians."""
    def sin_(self) -> Tensor:
        """In-place version of ``sin``: the result is written into this tensor, which is returned."""
    def sinc(self, *, out: Any = None) -> Tensor:
        """``sin(pi x) / (pi x)``, and 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place version of ``sinc``: the result is written into this tensor, which is returned."""
    def sinh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic sine of each element: (e^x - e^-x) / 2."""
    def sinh_(self) -> Tensor:
        """In-place version of ``sinh``: the result is written into this tensor, which is returned."""
    def slice_inverse(self, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1) -> Tensor:
        """The tensor that `input` is a slice of, laid out in memory as `src` is: the opposite of slicing."""
    def slice_scatter(self, src: Tensor, dim: Any = 0, start: Any = None, end: Tensor | _b.complex | None = None, step: Any = 1, *, out: Any = None) -> Tensor:
        """A copy of `input` with `src` in place of the slice ``start:end:step`` of `dim`."""
    def slogdet(self, *, out: Any = None) -> _slogdet:
        """(sign, logabsdet) of square matrices: ``det = sign * exp(logabsdet)`` without overflow."""
    def softmax(self, dim: Any, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
        """``exp(input) / sum(exp(input))`` along `dim`, safe from overflow. dtype: the input is converted to it first."""
    def sort(self, dim: Any = -1, descending: _b.bool = False, stable: _b.bool = False, *, out: Any = None) -> _sort:
        """(values, indices) in ascending or descending order along `dim`; equal elements keep their order."""
    def sparse_mask(self, **kwargs: Any) -> Any:
        """Not supported: sparse tensors are out of scope."""
    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """``split`` as a method."""
    def split_with_sizes(self, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Pieces of the given lengths along `dim`; RuntimeError if they do not add up to its size."""
    def sqrt(self, *, out: Any = None) -> Tensor:
        """The square root of each element; nan below 0."""
    def sqrt_(self) -> Tensor:
        """In-place version of ``sqrt``: the result is written into this tensor, which is returned."""
    def square(self, *, out: Any = None) -> Tensor:
        """x * x of each element."""
    def square_(self) -> Tensor:
        """In-place version of ``square``: the result is written into this tensor, which is returned."""
    def squeeze(self, dim: Any = None) -> Tensor:
        """A view without dimensions of length one: all of them, or those among `dim` (an int or a tuple)."""
    def squeeze_(self, dim: Any = None) -> Tensor:
        """In-place version of ``squeeze``."""
    def std(self, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The standard deviation over the dimension(s) `dim` (all by default)."""
    def stft(self, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: _b.bool = True, pad_mode: Any = 'reflect', normalized: _b.bool = False, onesided: Any = None, return_complex: Any = None, align_to_window: Any = None) -> Tensor:
        """The Fourier transforms of overlapping windowed pieces of a signal (n) or signals (b, n): (b, bins, pieces)."""
    def sub(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input - alpha * other``, with broadcasting."""
    def sub_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``sub``: the result is written into this tensor, which is returned."""
    def subtract(self, other: Tensor | _b.complex, *more: Any, alpha: Any = 1, out: Any = None) -> Tensor:
        """``input - alpha * other``, with broadcasting."""
    def subtract_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``subtract``: the result is written into this tensor, which is returned."""
    def sum(self, dim: Any = None, keepdim: _b.bool = False, *, dtype: _dtype | None = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The sum over all elements, or over the dimension(s) `dim`."""
    def sum_to_size(self, *size: Any) -> Tensor:
        """Summed over dimensions until the shape is `size`; itself if it is so already."""
    def svd(self, some: _b.bool = True, compute_uv: _b.bool = True, *, out: Any = None) -> _svd:
        """(U, S, V) with ``input = U @ diag(S) @ V^H``; see ``linalg.svd``."""
    def swapaxes(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged."""
    def swapaxes_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions."""
    def swapdims(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged."""
    def swapdims_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions."""
    def t(self) -> Tensor:
        """The transpose of a matrix (a view); vectors and scalars as they are."""
    def t_(self) -> Tensor:
        """In-place version of ``t``."""
    def take(self, index: Tensor, *, out: Any = None) -> Tensor:
        """The elements at the positions `index` of the flat input, in the shape of `index`."""
    def take_along_dim(self, indices: Any, dim: Any = None, *, out: Any = None) -> Tensor:
        """``gather`` with `indices` and `input` broadcast against each other in all dimensions but `dim`."""
    def tan(self, *, out: Any = None) -> Tensor:
        """The tangent of each element, in radians."""
    def tan_(self) -> Tensor:
        """In-place version of ``tan``: the result is written into this tensor, which is returned."""
    def tanh(self, *, out: Any = None) -> Tensor:
        """The hyperbolic tangent of each element: (e^x - e^-x) / (e^x + e^-x), in [-1, 1]."""
    def tanh_(self) -> Tensor:
        """In-place version of ``tanh``: the result is written into this tensor, which is returned."""
    def tensor_split(self, indices_or_sections: Any = None, dim: Any = 0, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """`sections` pieces whose lengths differ by at most one, or pieces cut before the given indices."""
    def tile(self, *dims: Any, **kw: Any) -> Tensor:
        """``repeat``; missing leading counts are ones."""
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _b.bool = True) -> Tensor:
        """The tensor itself: all tensors here are dense."""
    def to_sparse(self, **kwargs: Any) -> Any:
        """Not supported: sparse tensors are out of scope."""
    def to_sparse_coo(self, **kwargs: Any) -> Any:
        """Not supported: sparse tensors are out of scope."""
    def to_sparse_csr(self, **kwargs: Any) -> Any:
        """Not supported: sparse tensors are out of scope."""
    def topk(self, k: Any, dim: Any = -1, largest: _b.bool = True, sorted: _b.bool = True, *, out: Any = None) -> _topk:
        """(values, indices) of the `k` largest (or smallest) elements along `dim`, the first being the extreme one."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix."""
    def transpose(self, dim0: _b.int | None = None, dim1: _b.int | None = None, *, axis0: Any = None, axis1: Any = None) -> Tensor:
        """A view with two dimensions exchanged."""
    def transpose_(self, dim0: _b.int, dim1: _b.int) -> Tensor:
        """In-place version of ``transpose``: the tensor itself gets the new order of dimensions."""
    def triangular_solve(self, A: Any, upper: _b.bool = True, transpose: _b.bool = False, unitriangular: _b.bool = False, *, out: Any = None) -> _triangular_solve:
        """(solution, a copy of A): the older form of ``linalg.solve_triangular``."""
    def tril(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """A copy with zeros except on and below the given diagonal of the last two dimensions."""
    def tril_(self, diagonal: _b.int = 0) -> Tensor:
        """In-place version of ``tril``: the result is written into this tensor, which is returned."""
    def triu(self, diagonal: _b.int = 0, *, out: Any = None) -> Tensor:
        """A copy with zeros except on and above the given diagonal of the last two dimensions."""
    def triu_(self, diagonal: _b.int = 0) -> Tensor:
        """In-place version of ``triu``: the result is written into this tensor, which is returned."""
    def true_divide(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input / other``."""
    def true_divide_(self, other: Tensor | _b.complex, *, alpha: Any = 1, rounding_mode: _b.str | None = None) -> Tensor:
        """In-place version of ``true_divide``: the result is written into this tensor, which is returned."""
    def trunc(self, *, out: Any = None) -> Tensor:
        """Each element without its fraction, rounded towards 0; integers as they are."""
    def trunc_(self) -> Tensor:
        """In-place version of ``trunc``: the result is written into this tensor, which is returned."""
    def type(self, dtype: _dtype | None = None, non_blocking: _b.bool = False) -> Any:
        """The type name ('torch.FloatTensor') without argument; else converted to `dtype`."""
    def type_as(self, other: Tensor | _b.complex) -> Tensor:
        """Converted to the dtype and device of `other`."""
    def unbind(self, dim: Any = 0) -> tuple[Tensor, ...]:
        """All entries of `dim`, as a tuple of views without that dimension."""
    def unflatten(self, dim: Any, sizes: Any) -> Tensor:
        """The dimension `dim` split into `sizes` (one may be -1)."""
    def unfold(self, dimension: Any, size: Any, step: Any) -> Tensor:
        """A view of all windows of `size` entries of `dimension`, `step` apart; the window is a new last dimension."""
    def uniform_(self, from_: Any = 0.0, to: Any = 1.0, *, generator: Generator | None = None, **kw: Any) -> Tensor:
        """Fill with uniform numbers in [from, to)."""
    def unique(self, sorted: _b.bool = True, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
        """The distinct elements (or slices of `dim`) in ascending order."""
    def unique_consecutive(self, return_inverse: _b.bool = False, return_counts: _b.bool = False, dim: Any = None) -> Any:
        """The elements (or slices of `dim`) that differ from the one before them; results as of ``unique``."""
    def unsafe_chunk(self, chunks: _b.int, dim: Any = 0) -> tuple[Tensor, ...]:
        """``chunk`` whose pieces may be written to in place, as long as the input is not used any more."""
    def unsafe_split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """``split`` whose pieces may be written to in place, as long as the input is not used any more."""
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """``split_with_sizes`` whose pieces may be written to in place, as ``unsafe_split``."""
    def unsqueeze(self, dim: Any) -> Tensor:
        """A view with a dimension of length one inserted at `dim`."""
    def unsqueeze_(self, dim: Any) -> Tensor:
        """In-place version of ``unsqueeze``."""
    def var(self, dim: Any = None, unbiased: Any = None, keepdim: _b.bool = False, *, correction: Any = None, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
        """The variance over the dimension(s) `dim` (all by default)."""
    def vdot(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """The sum of products of two vectors, the first one conjugated."""
    def view(self, *size: Any, dtype: _dtype | None = None, **kw: Any) -> Tensor:
        """A view in another shape (one dimension may be -1), or with another dtype: ``x.view(torch.int32)``."""
    def view_as(self, other: Tensor | _b.complex) -> Tensor:
        """A view in the shape of `other`."""
    def vsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> tuple[Tensor, ...]:
        """``tensor_split`` along the dimension that ``vstack`` joins."""
    def where(self, condition: Any, other: Tensor | _b.complex) -> Tensor:
        """The elements of this tensor where `condition` is true, those of `other` elsewhere, with broadcasting."""
    def xlogy(self, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
        """``input * log(other)``, and 0 where `input` is 0."""
    def xlogy_(self, other: Tensor | _b.complex) -> Tensor:
        """In-place version of ``xlogy``: the result is written into this tensor, which is returned."""
    def zero_(self) -> Tensor:
        """Every element set to zero."""
