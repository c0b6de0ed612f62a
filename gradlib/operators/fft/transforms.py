"""Discrete Fourier transforms: three recorded ops (complex to complex, real to complex, complex to real) and torch.fft.

The transforms are linear and unitary up to a factor, so the gradient of each is the transform of the other direction
with the same factor. A half spectrum stands for both of its mirrored halves: going from real numbers to a half
spectrum and back, the bins that have a mirror image count half, or twice.

Source: J. W. Cooley, J. W. Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, Math. Comp. 19
(1965), for the transform; the kernels are those of NumPy and cuFFT.
"""

from __future__ import annotations

import operator

from ...op.declare import declare
from ...op.expose import write_out
from ...tape import dtypes
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.conjugate import conj
from ..shape.pad import pad_constant_op
from ..shape.slicing import slice_op

FFT: dict = {}  # gradlib.fft.<name>

# -- kernels and formulas ----------------------------------------------------------------------------------------

# factors: 0 none, 1 by the root of the number of points, 2 by the number of points; under NumPy's names
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")
_NONE, _ROOT, _POINTS = range(3)


def _c2c(xp, self, *, dim, normalization, inverse):
    if not dim:
        return self.copy()
    if not self.size:
        return xp.zeros(self.shape, dtypes.from_np(self.dtype).to_complex().np)
    norm = (_INVERSE if inverse else _FORWARD)[normalization]
    if len(dim) == 1:
        return (xp.fft.ifft if inverse else xp.fft.fft)(self, axis=dim[0], norm=norm)
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(self, axes=dim, norm=norm)


def _r2c(xp, self, *, dim, normalization, onesided):
    if not onesided:
        return _c2c(xp, self, dim=dim, normalization=normalization, inverse=False)
    last = dim[-1]
    if not self.size:
        shape = list(self.shape)
        shape[last] = shape[last] // 2 + 1
        return xp.zeros(shape, dtypes.from_np(self.dtype).to_complex().np)
    half = xp.fft.rfft(self, axis=last, norm=_FORWARD[normalization])
    return half if len(dim) == 1 else xp.fft.fftn(half, axes=dim[:-1], norm=_FORWARD[normalization])


def _c2r(xp, self, *, dim, normalization, last_dim_size):
    last = dim[-1]
    if not self.size:
        shape = list(self.shape)
        shape[last] = last_dim_size
        return xp.zeros(shape, dtypes.from_np(self.dtype).to_real().np)
    if len(dim) > 1:
        self = xp.fft.ifftn(self, axes=dim[:-1], norm=_INVERSE[normalization])
    return xp.fft.irfft(self, last_dim_size, axis=last, norm=_INVERSE[normalization])


def _scale_mirrored(xp, self, *, dim, size, factor):
    """The bins of a half spectrum of `size` points that have a mirror image (not 0, not the middle), times `factor`."""
    out = self.copy()
    out[(slice(None),) * dim + (slice(1, (size + 1) // 2),)] *= factor
    return out


def _r2c_self(F, g, self_shape, dim, normalization, onesided):
    if not onesided:
        return F.real(F.fft_c2c(g, dim, normalization, True))
    size = self_shape[dim[-1]]
    return F.fft_c2r(F.scale_mirrored(g, dim[-1], size, 0.5), dim, normalization, size)


def _c2r_self(F, g, dim, normalization, last_dim_size):
    half = F.fft_r2c(g, dim, normalization, True)
    return F.scale_mirrored(half, dim[-1], last_dim_size, 2.0)


def _spectrum(t, *shape):
    return t(*shape, dtype=dtypes.complex128)


c2c_op = declare(
    "fft_c2c", _c2c, autocast="cpu:float32", public="_fft_c2c", jvp="linear", node="FftC2CBackward0",
    self=lambda F, g, dim, normalization, inverse: F.fft_c2c(g, dim, normalization, not inverse),
    samples=lambda t: [
        (_spectrum(t, 5), (0,), 0, True), (_spectrum(t, 3, 4), (0, 1), 1, False), (_spectrum(t, 2, 3), (1,), 2, True),
        (_spectrum(t, 2), (), 0, True), (_spectrum(t, 0, 3), (1,), 0, True),
    ],
    batch="same_rank",
)  # fmt: skip
r2c_op = declare(
    "fft_r2c", _r2c, autocast="cpu:float32", public="_fft_r2c", jvp="linear", node="FftR2CBackward0", self=_r2c_self,
    samples=lambda t: [] if t.dtype.is_complex else [
        (t(5), (0,), 0, True), (t(3, 4), (0, 1), 1, True), (t(4, 3), (0,), 2, False), (t(0, 3), (1,), 0, True),
    ],
    batch="same_rank",
)  # fmt: skip
c2r_op = declare(
    "fft_c2r", _c2r, autocast="cpu:float32", public="_fft_c2r", jvp="linear", node="FftC2RBackward0", self=_c2r_self,
    samples=lambda t: [
        (_spectrum(t, 3), (0,), 0, 5), (_spectrum(t, 3, 3), (0, 1), 1, 4), (_spectrum(t, 2, 3), (0,), 2, 3),
        (_spectrum(t, 0, 3), (1,), 0, 4),
    ],
    batch="same_rank",
)  # fmt: skip
scale_mirrored_op = declare(
    "scale_mirrored", _scale_mirrored, jvp="linear", complex=True, node="MulBackward0",
    self=lambda F, g, dim, size, factor: F.scale_mirrored(g, dim, size, factor),
    samples=lambda t: [(t(3), 0, 5, 2.0), (t(2, 3), 1, 4, 0.5)],
)  # fmt: skip

# -- arguments ---------------------------------------------------------------------------------------------------


def _kind(tensor: Tensor) -> str:
    return tensor.dtype.scalar_type


def whole_number(name: str, argument: str, value, where: str = "") -> int:
    """An argument that must be an int (also a whole 0-dim tensor, not a bool)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"fft_{name}(): argument '{argument}' {where}must be int, not {type(value).__name__}"
        ) from None


def whole_numbers(name: str, argument: str, value) -> tuple[int, ...]:
    """An argument that must be ints; one int stands for itself."""
    try:
        if not isinstance(value, (tuple, list)):
            return (operator.index(value),)
        return tuple(operator.index(v) for v in value)
    except TypeError:
        raise TypeError(
            f"fft_{name}(): argument '{argument}' must be tuple of ints, not {type(value).__name__}"
        ) from None


def _normalization(name: str, norm, forward: bool) -> int:
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"fft_{name}(): argument 'norm' must be str, not {type(norm).__name__}")
    if norm == "ortho":
        return _ROOT
    if norm in (None, "backward"):
        return _NONE if forward else _POINTS
    if norm == "forward":
        return _POINTS if forward else _NONE
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _promoted(name: str, input, to_complex: bool = False) -> Tensor:
    """`input` in a floating (or complex) type; half types are refused."""
    if not isinstance(input, Tensor):
        raise TypeError(
            f"fft_{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    kind = input.dtype
    if kind.category < dtypes.FLOATING:
        kind = dtypes.get_default_dtype()
    if kind in (dtypes.float16, dtypes.bfloat16) and not state.bits & AUTOCAST:
        raise RuntimeError(f"Unsupported dtype {kind.scalar_type}")
    if to_complex:
        kind = kind.to_complex()
    return input if input.dtype is kind else input.to(kind)


def _wrap(dim: int, ndim: int) -> int:
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def _check_points(sizes) -> None:
    for n in sizes:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _sizes_and_dims(name: str, input: Tensor, s, dim) -> tuple[list, tuple]:
    """(number of points or -1 for each dimension, dimensions) of an n-dimensional transform."""
    ndim = input._array.ndim
    dims = None
    if dim is not None:
        dims = tuple(_wrap(d, ndim) for d in whole_numbers(name, "dim", dim))
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        dims = tuple(range(ndim)) if dims is None else dims
        return [-1] * len(dims), dims
    sizes = list(whole_numbers(name, "s", s))
    if dims is not None and len(dims) != len(sizes):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if len(sizes) > ndim:
        raise RuntimeError(
            f"Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions."
        )
    return sizes, tuple(range(ndim - len(sizes), ndim)) if dims is None else dims


def _resize(input: Tensor, sizes, dims) -> Tensor:
    """`input` cut, or filled up with zeros, to `sizes` along `dims`."""
    shape = input._array.shape
    pads = [(0, 0)] * len(shape)
    for n, d in zip(sizes, dims, strict=True):
        if n < shape[d]:
            input = slice_op.call(input, d, 0, n, 1)
        else:
            pads[d] = (0, n - shape[d])
    return pad_constant_op.call(input, tuple(pads), 0) if any(b for _, b in pads) else input


def _write(name: str, out, result: Tensor) -> Tensor:
    if out is None:
        return result
    if out.dtype.is_complex != result.dtype.is_complex:
        wanted = "complex" if result.dtype.is_complex else "floating point"
        raise RuntimeError(f"{name} expects a {wanted} output tensor, but got {_kind(out)}")
    return write_out(out, result)


# -- the transforms, after their arguments -----------------------------------------------------------------------


def _run_complex(name: str, input, sizes, dims, norm, forward: bool, out):
    factor = _normalization(name, norm, forward)
    result = c2c_op.call(_resize(input, sizes, dims), dims, factor, not forward)
    return _write(name, out, result)


def _run_to_half(name: str, input, sizes, dims, norm, forward: bool, out, onesided: bool = True):
    """The spectrum of real input; the inverse direction is its conjugate."""
    factor = _normalization(name, norm, forward)
    result = r2c_op.call(_resize(input, sizes, dims), dims, factor, onesided)
    return _write(name, out, result if forward else conj(result))


def _run_from_half(name: str, input, sizes, dims, norm, forward: bool, out):
    """Real values of a half spectrum; `sizes` ends with the number of real points."""
    factor = _normalization(name, norm, forward)
    half = _resize(input, [*sizes[:-1], sizes[-1] // 2 + 1], dims)
    if forward:
        if len(dims) > 1:
            half = c2c_op.call(half, dims[:-1], factor, False)
        half, dims = conj(half), dims[-1:]
    return _write(name, out, c2r_op.call(half, dims, factor, sizes[-1]))


def _one_size(name: str, input: Tensor, n, dim) -> tuple[list, tuple]:
    d = _wrap(whole_number(name, "dim", dim), input._array.ndim)
    size = input._array.shape[d] if n is None else whole_number(name, "n", n)
    return [size], (d,)


def _is_plain(input, dim: int) -> bool:
    """Whether a transform of all points of `dim` needs no cast and no check."""
    array = getattr(input, "_array", None)
    if array is None or array.dtype.kind not in "fc" or array.dtype.itemsize < 4:
        return False
    return bool(array.size) and -array.ndim <= dim < array.ndim


def _complex_1(name: str, forward: bool):
    def transform(input, n=None, dim=-1, norm=None, *, out=None):
        if n is norm is out is None and dim.__class__ is int and _is_plain(input, dim):
            dims, factor = (dim % input._array.ndim,), _NONE if forward else _POINTS
            if input._array.dtype.kind == "c":
                return c2c_op.call(input, dims, factor, not forward)
            result = r2c_op.call(input, dims, factor, False)
            return result if forward else conj(result)
        input = _promoted(name, input)
        sizes, dims = _one_size(name, input, n, dim)
        _check_points(sizes)
        if input.dtype.is_complex:
            return _run_complex(name, input, sizes, dims, norm, forward, out)
        return _run_to_half(name, input, sizes, dims, norm, forward, out, onesided=False)

    return transform


def _to_half_1(name: str, forward: bool):
    def transform(input, n=None, dim=-1, norm=None, *, out=None):
        plain = forward and n is norm is out is None and dim.__class__ is int
        if plain and _is_plain(input, dim) and input._array.dtype.kind == "f":
            return r2c_op.call(input, (dim % input._array.ndim,), _NONE, True)
        if isinstance(input, Tensor) and input.dtype.is_complex:
            raise RuntimeError(f"{name} expects a real input tensor, but got {_kind(input)}")
        input = _promoted(name, input)
        sizes, dims = _one_size(name, input, n, dim)
        _check_points(sizes)
        return _run_to_half(name, input, sizes, dims, norm, forward, out)

    return transform


def _from_half_1(name: str, forward: bool):
    def transform(input, n=None, dim=-1, norm=None, *, out=None):
        input = _promoted(name, input, to_complex=True)
        (size,), dims = _one_size(name, input, n, dim)
        sizes = [2 * (size - 1) if n is None else size]
        _check_points(sizes)
        return _run_from_half(name, input, sizes, dims, norm, forward, out)

    return transform


def _all_sizes(name: str, input: Tensor, s, dim, real_last: bool = False) -> tuple[list, tuple]:
    """Sizes with the defaults filled in; `real_last`: the last one is of the real side of a half spectrum."""
    sizes, dims = _sizes_and_dims(name, input, s, dim)
    shape = input._array.shape
    found = [shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)]
    _check_points(found)
    if real_last and dims and sizes[-1] == -1:
        found[-1] = 2 * (shape[dims[-1]] - 1)
        _check_points(found[-1:])
    return found, dims


def _some_axis(full_name: str, dims) -> None:
    if not dims:
        raise RuntimeError(f"{full_name} must transform at least one axis")


def _complex_n(name: str, full_name: str, default, forward: bool):
    def transform(input, s=None, dim=default, norm=None, *, out=None):
        _given(name, default, dim)
        input = _promoted(name, input, to_complex=True)
        sizes, dims = _all_sizes(name, input, s, dim)
        return _run_complex(full_name, input, sizes, dims, norm, forward, out)

    return transform


def _to_half_n(name: str, full_name: str, default, forward: bool):
    def transform(input, s=None, dim=default, norm=None, *, out=None):
        _given(name, default, dim)
        if isinstance(input, Tensor) and input.dtype.is_complex:
            if forward:
                raise RuntimeError(
                    f"{full_name} expects a real-valued input tensor, but got {_kind(input)}"
                )
            raise RuntimeError(f"Only supports floating-point dtypes, but found: {_kind(input)}")
        input = _promoted(name, input)
        sizes, dims = _all_sizes(name, input, s, dim)
        _some_axis(full_name, dims)
        if forward or len(dims) == 1:
            return _run_to_half(full_name, input, sizes, dims, norm, forward, out)
        resized = _resize(input, sizes, dims)
        half = _run_to_half(full_name, resized, sizes[-1:], dims[-1:], norm, False, None)
        return _run_complex(full_name, half, sizes[:-1], dims[:-1], norm, False, out)

    return transform


def _from_half_n(name: str, full_name: str, default, forward: bool):
    def transform(input, s=None, dim=default, norm=None, *, out=None):
        _given(name, default, dim)
        input = _promoted(name, input, to_complex=True)
        sizes, dims = _all_sizes(name, input, s, dim, real_last=True)
        _some_axis(full_name, dims)
        return _run_from_half(full_name, input, sizes, dims, norm, forward, out)

    return transform


def _given(name: str, default, dim) -> None:
    """The two-dimensional forms do not take None for their dimensions."""
    if default is not None and dim is None:
        raise TypeError(f"fft_{name}(): argument 'dim' must be tuple of ints, not NoneType")


_TEXT = """{what}

Args:
    input: a tensor (..., n, ...), cut or filled up with zeros to the given number of points; integers become the
        default floating dtype.
    {points}
    norm: "backward" (the inverse divides by the number of points; the default), "ortho" (both divide by its root) or
        "forward".
    out: written to instead of a new tensor.

Returns:
    A tensor of as many dimensions.

Raises:
    RuntimeError: float16, bfloat16, a size below 1, or another `norm`.
    IndexError: no such dimension.

Example:
    >>> gradlib.fft.{name}({given}){shown}
"""
_ONE = "n, dim: the number of points (as many as there are if None), and the dimension."
_TWO = "s, dim: the numbers of points (as many as there are if None), and the two dimensions."
_MANY = "s, dim: the numbers of points, and the dimensions; all if None, the last ones if only `s` is given."


def _publish(base: str, one, many, forward: bool, what: str, given: str, shown: str) -> None:
    """`base`, and its forms for two and for n dimensions.

    given, shown: the argument of an example, and what follows the call.
    """
    length = {"_to_half_1": 3, "_from_half_1": 6}.get(one.__name__, 4)
    whole = f".shape\n    torch.Size([2, {length}])"
    forms = (
        (base, one(base, forward), _ONE),
        (base + "2", many(base + "2", base + "n", (-2, -1), forward), _TWO),
        (base + "n", many(base + "n", base + "n", None, forward), _MANY),
    )
    for name, fn, points in forms:
        fn.__name__ = fn.__qualname__ = name
        example = (given, shown) if name == base else ("gradlib.zeros(2, 4)", whole)
        fn.__doc__ = _TEXT.format(
            what=what, points=points, name=name, given=example[0], shown=example[1]
        )
        FFT[name] = fn


for _base, _one, _many, _forward, _what, _argument, _result in (
    ("fft", _complex_1, _complex_n, True, "The discrete Fourier transform: sum_j x_j exp(-2 pi i j k / n).",
     "gradlib.ones(4)", ".real\n    tensor([4., 0., 0., 0.])"),
    ("ifft", _complex_1, _complex_n, False, "The inverse of the Fourier transform: a complex result.",
     "gradlib.ones(4)", ".real\n    tensor([1., 0., 0., 0.])"),
    ("rfft", _to_half_1, _to_half_n, True, "The Fourier transform of real input: the n // 2 + 1 bins of one half.",
     "gradlib.ones(4)", ".real\n    tensor([4., 0., 0.])"),
    ("irfft", _from_half_1, _from_half_n, False, "The inverse of ``rfft``: real values of a half spectrum.",
     "gradlib.tensor([4.0, 0j, 0j])", "\n    tensor([1., 1., 1., 1.])"),
    ("hfft", _from_half_1, _from_half_n, True, "The real Fourier transform of half of a Hermitian signal.",
     "gradlib.tensor([4.0, 0j, 0j])", "\n    tensor([4., 4., 4., 4.])"),
    ("ihfft", _to_half_1, _to_half_n, False, "The inverse of ``hfft``: one half of a Hermitian signal.",
     "gradlib.ones(4)", ".real\n    tensor([1., 0., 0.])"),
):  # fmt: skip
    _publish(_base, _one, _many, _forward, _what, _argument, _result)
