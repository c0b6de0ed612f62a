"""Element types: PyTorch's names and promotion rules over NumPy's storage types."""

from __future__ import annotations

import functools
from typing import Any, overload

import ml_dtypes
import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """An element type, for example ``gradlib.float32``. Instances are singletons: compare with ``is``."""

    __slots__ = ("category", "is_signed", "itemsize", "name", "np", "tensor_type")

    def __init__(self, name: str, np_type, category: int, tensor_type: str, signed: bool = True):
        self.name, self.np, self.category = name, np.dtype(np_type), category
        self.itemsize, self.is_signed, self.tensor_type = self.np.itemsize, signed, tensor_type

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a real floating-point dtype; complex ones are not."""
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex dtype."""
        return self.category == COMPLEX

    def to_real(self) -> dtype:
        """The type of the real part: complex64 to float32, complex128 to float64; real types stay.

        Example:
            >>> gradlib.complex128.to_real()
            torch.float64
        """
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type that holds this type: float64 to complex128, other floating types to complex64.

        RuntimeError for integers and bool.
        """
        if self.category < FLOATING or self in _FLOAT8:
            kind = self.scalar_type
            raise RuntimeError(f"Unknown Complex ScalarType for {kind}")
        return complex128 if self in (float64, complex128) else complex64

    @property
    def scalar_type(self) -> str:
        """The name that error messages have for it.

        Example:
            >>> gradlib.int64.scalar_type
            'Long'
        """
        return self.tensor_type.removesuffix("Tensor")

    @property
    def cpp_name(self) -> str:
        """The name that PyTorch has for it in C++, which some messages give."""
        return _CPP_NAMES.get(self.name, self.name)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self):
        return (by_name, (self.name,))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


bool_ = dtype("bool", np.bool_, BOOL, "BoolTensor", signed=False)
uint8 = dtype("uint8", np.uint8, INTEGER, "ByteTensor", signed=False)
int8 = dtype("int8", np.int8, INTEGER, "CharTensor")
int16 = dtype("int16", np.int16, INTEGER, "ShortTensor")
int32 = dtype("int32", np.int32, INTEGER, "IntTensor")
int64 = dtype("int64", np.int64, INTEGER, "LongTensor")
uint16 = dtype("uint16", np.uint16, INTEGER, "UInt16Tensor", signed=False)
uint32 = dtype("uint32", np.uint32, INTEGER, "UInt32Tensor", signed=False)
uint64 = dtype("uint64", np.uint64, INTEGER, "UInt64Tensor", signed=False)
float16 = dtype("float16", np.float16, FLOATING, "HalfTensor")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOATING, "BFloat16Tensor")
float32 = dtype("float32", np.float32, FLOATING, "FloatTensor")
float64 = dtype("float64", np.float64, FLOATING, "DoubleTensor")


def _stored(number: Any) -> np.dtype:
    """The NumPy type of arrays that are moved, indexed and converted, but not computed with: a field of numbers."""
    return np.dtype([("value", number)])


float8_e4m3fn = dtype(
    "float8_e4m3fn", _stored(ml_dtypes.float8_e4m3fn), FLOATING, "Float8_e4m3fnTensor"
)
float8_e5m2 = dtype("float8_e5m2", _stored(ml_dtypes.float8_e5m2), FLOATING, "Float8_e5m2Tensor")
float8_e4m3fnuz = dtype(
    "float8_e4m3fnuz", _stored(ml_dtypes.float8_e4m3fnuz), FLOATING, "Float8_e4m3fnuzTensor"
)
float8_e5m2fnuz = dtype(
    "float8_e5m2fnuz", _stored(ml_dtypes.float8_e5m2fnuz), FLOATING, "Float8_e5m2fnuzTensor"
)
float8_e8m0fnu = dtype(
    "float8_e8m0fnu",
    _stored(ml_dtypes.float8_e8m0fnu),
    FLOATING,
    "Float8_e8m0fnuTensor",
    signed=False,
)
complex64 = dtype("complex64", np.complex64, COMPLEX, "ComplexFloatTensor")
complex128 = dtype("complex128", np.complex128, COMPLEX, "ComplexDoubleTensor")

ALL = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16)
ALL += (float32, float64, complex64, complex128)
_FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
ALL += _FLOAT8
ALIASES = {
    "half": float16, "float": float32, "double": float64, "cfloat": complex64, "cdouble": complex128,
    "short": int16, "int": int32, "long": int64,
}  # fmt: skip
BY_NP = {t.np: t for t in ALL}
BY_NAME = {t.name: t for t in ALL}
# Arithmetic of these NumPy types already follows PyTorch's rules, weak Python numbers included.
FLOAT8 = frozenset(t.np for t in _FLOAT8)
HALVES = frozenset((float16.np, bfloat16.np))
NP_FLOATING = frozenset(t.np for t in (float16, float32, float64, complex64, complex128))
COMPLEXES = frozenset(t.np for t in ALL if t.category == COMPLEX)
DIFFERENTIABLE = frozenset(t.np for t in ALL if t.category >= FLOATING)

_CPP_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int",
    "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_default = float32


def by_name(name: str) -> dtype:
    return BY_NAME[name]


def from_np(np_type) -> dtype:
    """The gradlib dtype of a NumPy dtype; TypeError for types that tensors cannot hold."""
    try:
        return BY_NP[np.dtype(np_type)]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(np_type).type.__name__}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, "
            "uint8, and bool."
        ) from None


def of(value) -> dtype:
    """A dtype from a gradlib dtype or a Python type: ``float`` is float64, ``int`` int64; TypeError for others."""
    if isinstance(value, dtype):
        return value
    if value is float:
        return float64
    if value is int:
        return int64
    if value is bool:
        return bool_
    if value is complex:
        return complex128
    raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(value).__name__}")


def get_default_dtype() -> dtype:
    """The dtype of new tensors of Python floats, and of factories without `dtype`; see `set_default_dtype`.

    Example:
        >>> gradlib.get_default_dtype()
        torch.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Choose the dtype of new tensors of Python floats, and of factories without `dtype`.

    Args:
        d: a floating dtype; float32 at first.

    Raises:
        TypeError: it is no dtype, or none of those.

    Example:
        >>> gradlib.set_default_dtype(gradlib.float64)
        >>> kind = gradlib.tensor(1.0).dtype
        >>> gradlib.set_default_dtype(gradlib.float32)
        >>> kind
        torch.float64
    """
    global _default
    if not isinstance(d, dtype):
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d in _FLOAT8:
        raise TypeError(f"couldn't find storage object {d.scalar_type}Storage")
    _default = d


def of_scalar(value) -> dtype:
    """The dtype that a bare Python (or NumPy) number takes part in promotion with."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _default
    if isinstance(value, (complex, np.complexfloating)):
        return _default.to_complex()
    raise TypeError(f"expected a number, got {type(value).__name__}")


@overload
def promote(a: dtype, b: dtype | None) -> dtype: ...
@overload
def promote(a: dtype | None, b: dtype | None) -> Any: ...
def promote(a: dtype | None, b: dtype | None) -> dtype | None:
    """The smallest dtype that both convert to without a loss of category; None is neutral.

    Args:
        a: a dtype.
        b: another one.

    Example:
        >>> gradlib.promote_types(gradlib.int32, gradlib.float16)
        torch.float16
    """
    if a is b or b is None:
        return a
    if a is None:
        return b
    if a in _FLOAT8 or b in _FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{a.scalar_type} and {b.scalar_type}"
        )
    if a in _LARGE_UNSIGNED or b in _LARGE_UNSIGNED:
        return _promote_unsigned(a, b)
    if a.category < b.category:
        a, b = b, a
    if a.category == COMPLEX:
        return complex128 if b in (float64, complex128) else a
    if a.category == b.category == FLOATING and {a, b} == {float16, bfloat16}:
        return float32
    if a.category != b.category:
        return a
    if a.category == FLOATING:
        return a if a.itemsize > b.itemsize else b
    return BY_NP[np.promote_types(a.np, b.np)]


_LARGE_UNSIGNED = frozenset((uint16, uint32, uint64))


def _promote_unsigned(a: dtype, b: dtype) -> dtype:
    """The common type of two different ones that are not both usual: only floating types take the others in."""
    for kind in (a, b):
        if kind.category == FLOATING:
            return kind
    names = [kind.scalar_type for kind in (a, b)]
    raise RuntimeError(
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
        f"{names[0]} and {names[1]}"
    )


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """`lower` counts only when its category is above that of `higher`."""
    if higher is None or lower is None or lower.category <= higher.category:
        return higher or lower
    if higher.category == FLOATING:
        return higher.to_complex()
    return lower


def result_type(operands) -> dtype:
    """The dtype of an op's result: tensors with dimensions beat 0-dim tensors beat Python numbers.

    operands: pairs (dtype, rank) with rank 2 for a tensor with dimensions, 1 for a 0-dim tensor, 0 for a number.
    """
    ranks: list[dtype | None] = [None, None, None]
    for kind, rank in operands:
        ranks[rank] = promote(ranks[rank], kind)
    result = _combine(ranks[2], _combine(ranks[1], ranks[0]))
    if result is None:
        raise RuntimeError("result_type needs at least one operand")
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether `from_` converts to `to` without going down a category (complex > float > int > bool).

    Args:
        from_: a dtype.
        to: another one.

    Example:
        >>> gradlib.can_cast(gradlib.float64, gradlib.float32), gradlib.can_cast(gradlib.float32, gradlib.int64)
        (True, False)
    """
    return of(from_).category <= of(to).category


class _Info:
    """Limits of a numeric type: common part of finfo and iinfo. They cannot be changed, and compare by their type."""

    bits: int
    dtype: str
    min: Any
    max: Any

    def _set(self, d: dtype, **limits: Any) -> None:
        self.__dict__.update(limits, dtype=d.name, bits=d.itemsize * 8)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"attribute '{name}' of 'torch.{type(self).__name__}' objects is not writable"
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dtype == other.dtype  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.dtype))


def _asked_type(name: str, given: Any) -> dtype:
    """The dtype that finfo or iinfo was asked about."""
    try:
        return of(given)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'type' (position 1) must be torch.dtype, not {type(given).__name__}"
        ) from None


@functools.cache
def _limits(d: dtype) -> dict[str, float]:
    """What finfo says about a real floating type."""
    info = ml_dtypes.finfo(d.np if d not in _FLOAT8 else d.np["value"])
    resolution = 1.0 if d in _FLOAT8 else float(f"1e-{info.precision}")
    return {
        "eps": float(info.eps), "max": float(info.max), "min": float(info.min), "tiny": float(info.smallest_normal),
        "smallest_normal": float(info.smallest_normal), "resolution": resolution,
    }  # fmt: skip


class finfo(_Info):
    """Machine limits of a floating type: eps, max, min, tiny, smallest_normal, resolution, bits."""

    eps: float
    tiny: float
    smallest_normal: float
    resolution: float

    def __init__(self, type: dtype | None = None):
        d = _asked_type("finfo", _default if type is None else type)
        if d.category < FLOATING:
            raise TypeError(
                "gradlib.finfo() requires a floating point input type. Use gradlib.iinfo to handle 'torch.finfo'"
            )
        d = d.to_real()
        self._set(d, **_limits(d))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Info):
    """Limits of an integer type: min, max, bits."""

    def __init__(self, type: dtype):
        d = _asked_type("iinfo", type)
        if d.category == BOOL:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if d.category != INTEGER:
            raise TypeError(
                "gradlib.iinfo() requires an integer input type. Use gradlib.finfo to handle 'torch.iinfo'"
            )
        info = np.iinfo(d.np)
        self._set(d, min=int(info.min), max=int(info.max))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
