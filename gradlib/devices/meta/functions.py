"""What NumPy's functions make of arrays without values: NumPy's protocols for other arrays lead here.

The dtype of a result is found by the function itself on arrays of one element, the shape by a rule. A function of
`_RUN` runs on stand-ins, and what it gives is forgotten but for shape and dtype. There is nothing else: a function
without a rule is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .array import ITEM, NO_DATA, MetaArray, dense, fresh, refuse_shape, refuse_value


@cache
def _one(dtype: np.dtype) -> np.ndarray:
    """An array of one element."""
    one = np.ones(1, dtype)
    one.flags.writeable = False
    return one


def _tiny(value: Any) -> Any:
    return _one(value.dtype) if isinstance(value, (MetaArray, np.ndarray)) else value


def _shape(value: Any) -> tuple:
    return value.shape if isinstance(value, MetaArray) else np.shape(value)


def _like(arrays: tuple, shape: tuple, dtype: np.dtype) -> MetaArray:
    """A result of an elementwise function, in the order of strides of its first whole argument."""
    for a in arrays:
        if isinstance(a, MetaArray) and a.shape == shape and len(shape) > 1:
            return a.astype(dtype)
    return fresh(shape, dtype)


def _written(out: Any, made: Any) -> Any:
    """`made`, or the array given as out= for it."""
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if out is None:
        return made
    out[...] = made
    return out


# -- ufuncs ------------------------------------------------------------------------------------------------------------


def of_ufunc(self: MetaArray, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """The result of a ufunc or of one of its methods."""
    return _METHODS[method](ufunc, *inputs, **kwargs)


def _call(ufunc: Any, *inputs: Any, out: Any = None, where: Any = True, **kwargs: Any) -> Any:
    if ufunc.signature is not None:
        return _written(out, _products(ufunc, *inputs))
    given = out if isinstance(out, tuple) else ()
    whole = all(isinstance(o, (MetaArray, np.ndarray)) for o in given)
    tiny = {"out": tuple([np.empty(1, o.dtype) for o in given])} if given and whole else {}
    made = ufunc(*[_tiny(a) for a in inputs], **tiny, **kwargs)
    shape = np.broadcast_shapes(*[_shape(a) for a in inputs])
    if ufunc.nout > 1:
        return tuple([_like(inputs, shape, m.dtype) for m in made])
    return _written(out, _like(inputs, shape, made.dtype))


def _products(ufunc: Any, a: Any, b: Any) -> MetaArray:
    """matmul and its relatives."""
    dtype = ufunc(
        np.ones((1,) * max(min(a.ndim, 2), 1), a.dtype),
        np.ones((1,) * max(min(b.ndim, 2), 1), b.dtype),
    ).dtype
    sa, sb = a.shape, b.shape
    if ufunc is np.vecdot:
        return fresh(np.broadcast_shapes(sa, sb)[:-1], dtype)
    if ufunc is np.vecmat:
        return fresh((*np.broadcast_shapes(sa[:-1], sb[:-2]), sb[-1]), dtype)
    if ufunc is np.matvec:
        return fresh((*np.broadcast_shapes(sa[:-2], sb[:-1]), sa[-2]), dtype)
    left, right = (1, *sa) if len(sa) == 1 else sa, (*sb, 1) if len(sb) == 1 else sb
    if left[-1] != right[-2]:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0 (size {right[-2]} is different from "
            f"{left[-1]})"
        )
    rows, columns = () if len(sa) == 1 else left[-2:-1], () if len(sb) == 1 else right[-1:]
    return fresh((*np.broadcast_shapes(left[:-2], right[:-2]), *rows, *columns), dtype)


def reduced(shape: tuple, axis: Any, keepdims: bool) -> tuple:
    """The shape of a reduction over `axis` (None: all)."""
    n = len(shape)
    axes = range(n) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    gone = set()
    for a in map(operator.index, axes):
        if not -n <= a < max(n, 1):
            raise np.exceptions.AxisError(a, n)
        gone.add(a % n if n else 0)
    if keepdims:
        return tuple([1 if d in gone else length for d, length in enumerate(shape)])
    return tuple([length for d, length in enumerate(shape) if d not in gone])


def _reduce(
    ufunc: Any,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    **kwargs: Any,
) -> Any:
    shape = reduced(a.shape, axis, bool(keepdims))
    kind = ufunc.reduce(_one(a.dtype), dtype=dtype).dtype
    if a.size == 0 and math.prod(shape) and ufunc.identity is None and "initial" not in kwargs:
        ufunc.reduce(np.empty(0, a.dtype))  # raises
    return _written(out, fresh(shape, kind))


def _accumulate(ufunc: Any, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    return _written(out, fresh(a.shape, ufunc.accumulate(_one(a.dtype), dtype=dtype).dtype))


def _outer(ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Any:
    return fresh(_shape(a) + _shape(b), ufunc(_tiny(a), _tiny(b)).dtype)


_METHODS: dict[str, Callable] = {
    "__call__": _call, "reduce": _reduce, "accumulate": _accumulate, "outer": _outer,
    "at": lambda *args, **kwargs: None,
}  # fmt: skip

# -- functions ---------------------------------------------------------------------------------------------------------

_RULES: dict[str, Callable] = {}


def of_function(self: MetaArray, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
    """The result of a function of NumPy."""
    name = function.__name__
    rule = _RULES.get(name)
    if rule is not None:
        return rule(*args, **kwargs)
    if name in _RUN or getattr(function, "__module__", "") in ("numpy.linalg", "numpy.fft"):
        return _forgotten(function(*_stand_ins(args), **_stand_ins(kwargs)))
    raise _NoRule(f"meta tensors: nothing says what shape {name} has")


class _NoRule(NotImplementedError):
    """A function of NumPy that has no rule here."""


_RUN = frozenset(
    "diff tile kron cross einsum tensordot pad trace roll apply_along_axis inner".split()
)


def _stand_ins(value: Any, number: int = 0) -> Any:
    """Arrays with values for those that have none: `number`, or as matrices identities, which can be solved."""
    if isinstance(value, MetaArray):
        shape, dtype = value.shape, value.dtype
        if len(shape) > 1 and dtype.kind not in "iub":
            return np.ascontiguousarray(np.broadcast_to(np.eye(*shape[-2:], dtype=dtype), shape))
        return np.broadcast_to(np.asarray(number).astype(dtype), shape)
    if isinstance(value, (tuple, list)):
        return type(value)([_stand_ins(v, number) for v in value])
    return {k: _stand_ins(v) for k, v in value.items()} if isinstance(value, dict) else value


def _forgotten(value: Any) -> Any:
    """Results without their values."""
    if isinstance(value, np.ndarray):
        return dense(value.shape, value.dtype, value.strides)
    if isinstance(value, np.generic):
        return fresh((), value.dtype)
    if isinstance(value, (tuple, list)):
        parts = [_forgotten(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def kernel_of(op: Any, numpy_backend: Any) -> Callable:
    """The forward of an op here: its own, or where that looks at values, its own on stand-ins.

    Where the values decide what shape comes out there is no answer, and the error stays.
    """

    def kernel(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        try:
            return op.forward(xp, *arrays, **attrs)
        except RuntimeError as error:
            known = isinstance(error, _NoRule) or str(error) in (ITEM, NO_DATA)
            if not known or op.leaves_device:
                raise
        if op.dynamic:
            refuse_shape(op.public)
        given = _stand_ins(arrays, int(op.elementwise))  # a number that can be divided by
        try:
            return _forgotten(op.forward(numpy_backend, *given, **_stand_ins(attrs)))
        except (ArithmeticError, LookupError, ValueError):
            raise NotImplementedError(
                f"{op.public}: not for meta tensors, since it needs values"
            ) from None

    return kernel


def _rule(*names: str) -> Callable:
    def enter(function: Callable) -> Callable:
        for name in names:
            _RULES[name] = function
        return function

    return enter


def _reduction(name: str) -> Callable:
    function = getattr(np, name)

    def rule(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        **kwargs: Any,
    ) -> Any:
        keepdims = keepdims is True
        shape = reduced(a.shape, axis, keepdims)
        kind = function(_one(a.dtype), **({} if dtype is None else {"dtype": dtype})).dtype
        if a.size == 0 and math.prod(shape) and name in _NO_EMPTY:
            function(np.empty(0, a.dtype))  # raises
        return _written(out, fresh(shape, kind))

    return rule


_NO_EMPTY = frozenset("max min amax amin argmax argmin nanmax nanmin".split())
for _name in "sum mean prod max min amax amin any all argmax argmin count_nonzero var std nansum nanmean".split():
    _RULES[_name] = _reduction(_name)


def _extremum(name: str) -> Callable:
    """argmax and argmin, max and min: their third argument is no dtype."""
    general = _RULES[name]

    def rule(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **kwargs: Any
    ) -> Any:
        return general(a, axis, None, out, keepdims)

    return rule


for _name in "max min amax amin any all argmax argmin count_nonzero".split():
    _RULES[_name] = _extremum(_name)


def _same(a: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
    return _written(out, fresh(a.shape, a.dtype))


for _name in "sort partition tril triu round around ascontiguousarray nan_to_num sinc i0".split():
    _RULES[_name] = _same
_RULES["copy"] = lambda a, order="K", subok=False: a.copy(order)
_RULES["real"], _RULES["imag"] = operator.attrgetter("real"), operator.attrgetter("imag")
_RULES["shape"], _RULES["ndim"] = operator.attrgetter("shape"), operator.attrgetter("ndim")
_RULES["size"] = lambda a, axis=None: a.size if axis is None else a.shape[axis]
_RULES["iscomplexobj"] = lambda x: x.dtype.kind == "c"
_RULES["result_type"] = lambda *args: np.result_type(*[_tiny(a) for a in args])
_RULES["may_share_memory"] = _RULES["shares_memory"] = lambda a, b, max_work=None: (
    isinstance(a, MetaArray) and isinstance(b, MetaArray) and a.memory is b.memory
)


@_rule("argsort", "argpartition")
def _orders(a: Any, *args: Any, **kwargs: Any) -> Any:
    return fresh(a.shape, np.intp)


@_rule("cumsum", "cumprod")
def _running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    kind = np.cumsum(_one(a.dtype), dtype=dtype).dtype
    return _written(out, fresh(a.size if axis is None else a.shape, kind))


@_rule("where")
def _where(condition: Any, *operands: Any) -> Any:
    if not operands:
        refuse_shape("nonzero")
    dtype = np.where(_one(np.dtype(bool)), *[_tiny(o) for o in operands]).dtype
    arrays = (*operands, condition)
    return _like(arrays, np.broadcast_shapes(*[_shape(a) for a in arrays]), dtype)


@_rule("clip")
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    dtype = np.clip(_one(a.dtype), _tiny(a_min), _tiny(a_max)).dtype
    bounds = [b for b in (a_min, a_max) if b is not None]
    shape = np.broadcast_shapes(a.shape, *[_shape(b) for b in bounds])
    return _written(out, _like((a, *bounds), shape, dtype))


@_rule("isclose")
def _isclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    return fresh(np.broadcast_shapes(_shape(a), _shape(b)), bool)


@_rule("isposinf", "isneginf")
def _infinite(x: Any, out: Any = None) -> Any:
    return _written(out, _like((x,), x.shape, np.dtype(bool)))


@_rule("isin")
def _isin(element: Any, *args: Any, **kwargs: Any) -> Any:
    return fresh(_shape(element), bool)


@_rule("angle")
def _angle(z: Any, deg: bool = False) -> Any:
    return _like((z,), z.shape, np.angle(_one(z.dtype)).dtype)


@_rule("concatenate")
def _concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, **kwargs: Any
) -> Any:
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [a.ravel() for a in arrays], 0
    kind = dtype or np.concatenate([_one(a.dtype) for a in arrays]).dtype
    shape = list(arrays[0].shape)
    axis %= len(shape)
    for a in arrays[1:]:
        if len(a.shape) != len(shape) or any(
            [n != m for d, (n, m) in enumerate(zip(a.shape, shape)) if d != axis]
        ):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly"
            )
    shape[axis] = sum([a.shape[axis] for a in arrays])
    return _written(out, fresh(shape, kind))


@_rule("stack")
def _stack(arrays: Any, axis: int = 0, out: Any = None, **kwargs: Any) -> Any:
    arrays = list(arrays)
    if len({a.shape for a in arrays}) > 1:
        raise ValueError("all input arrays must have the same shape")
    shape = list(arrays[0].shape)
    shape.insert(axis % (len(shape) + 1), len(arrays))
    return _written(out, fresh(shape, np.concatenate([_one(a.dtype) for a in arrays]).dtype))


@_rule("take")
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    shape = _shape(indices)
    if axis is not None:
        axis %= a.ndim
        shape = (*a.shape[:axis], *shape, *a.shape[axis + 1 :])
    return _written(out, fresh(shape, a.dtype))


@_rule("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        return fresh(indices.shape, arr.dtype)
    axis %= arr.ndim
    free = [n if d != axis else 1 for d, n in enumerate(arr.shape)]
    shape = list(
        np.broadcast_shapes(
            tuple(free), tuple([n if d != axis else 1 for d, n in enumerate(indices.shape)])
        )
    )
    shape[axis] = indices.shape[axis]
    return fresh(shape, arr.dtype)


@_rule("repeat")
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, MetaArray):
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    a = a.reshape(-1) if axis is None else a
    axis = 0 if axis is None else axis % a.ndim
    counts = np.broadcast_to(np.asarray(repeats), a.shape[axis])
    return fresh((*a.shape[:axis], int(counts.sum()), *a.shape[axis + 1 :]), a.dtype)


@_rule("searchsorted")
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    return fresh(_shape(v), np.intp)


@_rule("dot")
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    if not a.ndim or not b.ndim:
        return _written(out, a * b)
    if b.ndim > 2:
        raise NotImplementedError("meta tensors: dot of arrays of more than two dimensions")
    return _written(out, np.matmul(a, b))


@_rule("zeros_like", "ones_like", "empty_like", "full_like")
def _made_like(
    a: Any, *args: Any, dtype: Any = None, order: str = "K", shape: Any = None, **kwargs: Any
) -> Any:
    if args and not isinstance(args[0], (int, float, complex, np.generic, MetaArray)):
        dtype = args[0]
    kind = a.dtype if dtype is None else np.dtype(dtype)
    return a.astype(kind, order or "K") if shape is None else fresh(shape, kind)


@_rule("copyto", "put_along_axis", "putmask", "place", "put", "fill_diagonal")
def _write(*args: Any, **kwargs: Any) -> None:
    """Nothing to write to."""


@_rule("broadcast_arrays")
def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple:
    shape = np.broadcast_shapes(*[_shape(a) for a in arrays])
    return tuple([np.broadcast_to(a, shape) for a in arrays])


@_rule("split", "array_split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list:
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        parts = np.array_split(np.arange(n), indices_or_sections)
        ends = np.cumsum([len(p) for p in parts]).tolist()
    else:
        ends = [*indices_or_sections, n]
    starts = [0, *ends[:-1]]
    lead = (slice(None),) * (axis % ary.ndim)
    return [ary[(*lead, slice(a, b))] for a, b in zip(starts, ends, strict=True)]


_RULES["reshape"] = lambda a, shape=None, order="C", **kw: a.reshape(shape, order=order)
_RULES["ravel"] = lambda a, order="C": a.ravel(order)
_RULES["transpose"] = lambda a, axes=None: a.transpose(axes)
_RULES["swapaxes"] = lambda a, axis1, axis2: a.swapaxes(axis1, axis2)
_RULES["squeeze"] = lambda a, axis=None: a.squeeze(axis)
_RULES["broadcast_to"] = lambda array, shape, subok=False: array.broadcast_to(shape)
_RULES["expand_dims"] = lambda a, axis: _expanded(a, axis)
_RULES["moveaxis"] = lambda a, source, destination: a._view(
    np.moveaxis(a._ghost, source, destination)
)
_RULES["flip"] = lambda m, axis=None: m._view(np.flip(m._ghost, axis))
_RULES["rot90"] = lambda m, k=1, axes=(0, 1): m._view(np.rot90(m._ghost, k, axes))
_RULES["diagonal"] = lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2)
_RULES["diag"] = lambda v, k=0: (
    fresh((v.shape[0] + abs(k),) * 2, v.dtype) if v.ndim == 1 else v.diagonal(k)
)


def _expanded(a: MetaArray, axis: Any) -> MetaArray:
    return a._view(np.expand_dims(a._ghost, axis))


@_rule(
    "nonzero",
    "flatnonzero",
    "argwhere",
    "unique",
    "bincount",
    "unique_inverse",
    "unique_values",
    "histogram",
)
def _by_values(*args: Any, **kwargs: Any) -> Any:
    refuse_shape("nonzero")


@_rule("allclose", "array_equal", "array_equiv")
def _number_of_values(*args: Any, **kwargs: Any) -> Any:
    refuse_value()


def _method(name: str) -> Callable:
    rule = _RULES[name]

    def method(self: MetaArray, *args: Any, **kwargs: Any) -> Any:
        return rule(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "sum mean prod max min any all argmax argmin var std cumsum cumprod round clip take repeat searchsorted dot "
    "argsort argpartition nonzero"
).split():
    setattr(MetaArray, _name, _method(_name))
MetaArray.conj = MetaArray.conjugate = lambda self: (
    np.conjugate(self) if self.dtype.kind == "c" else self
)
MetaArray.__array_ufunc__, MetaArray.__array_function__ = of_ufunc, of_function
