"""The functions of the `cupy` module: CuPy's parameters, NumPy's values.

Most are made from api.txt: the call is checked against CuPy's signature and computed by NumPy's function of that name.
Written out here are those that make views, wait for the device, write in place, or call NVIDIA's libraries.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from . import api, indexing, transfer
from . import methods as m
from .array import ndarray, wrap
from .launch import arrays_in, blocking, compute, refuse_library, replace, zeros_like_host
from .ufunc import UFUNCS, scatter, ufunc, wide

WAITING = """flatnonzero argwhere unique_all unique_counts unique_inverse unique_values tril_indices triu_indices
    tril_indices_from triu_indices_from extract compress delete trim_zeros intersect1d setdiff1d setxor1d union1d
    histogram histogram2d histogramdd ravel_multi_index mask_indices choose roots""".split()
SORTING = "isin lexsort median nanmedian partition percentile quantile".split()
VIEWS = """ravel transpose swapaxes moveaxis rollaxis expand_dims squeeze diagonal flip fliplr flipud rot90
    matrix_transpose permute_dims""".split()
MANY_VIEWS = "split array_split hsplit vsplit dsplit broadcast_arrays".split()
HOST = """broadcast_shapes can_cast promote_types isscalar issubdtype mintypecode get_printoptions set_printoptions
    printoptions base_repr binary_repr isdtype iterable""".split()
FACTS = "iscomplexobj isrealobj ndim shape size isfortran common_type result_type".split()
ARRAY_LIKE = {"searchsorted", "full", "full_like"}


def refuse_host(args: Any) -> None:
    """Functions of CuPy take no NumPy arrays."""
    for a in args:
        if isinstance(a, np.ndarray):
            raise TypeError(f"Unsupported type {type(a)}")
        if isinstance(a, (list, tuple)):
            refuse_host(a)


def bind(name: str, args: tuple, kwargs: dict) -> None:
    signature = api.FUNCTIONS.get(name)
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as exc:
            raise TypeError(f"cupy.{name}(): {exc}") from None


def like_numpy(name: str, runner=compute, numpy_fn: Any = None):
    """CuPy's function `name` with NumPy's meaning."""
    fn = numpy_fn or getattr(np, name)

    def call(*args, **kwargs):
        bind(name, args, kwargs)
        refuse_host(args)
        refuse_host(kwargs.values())
        for a in arrays_in(args) if name in SORTING else ():
            m.sortable(a.dtype)
        out = kwargs.pop("out", None)
        extra = {"out": out} if out is not None else {}
        return runner(fn, args, kwargs, label=name, **extra)

    call.__name__ = call.__qualname__ = name
    return call


def on_host(name: str):
    fn = getattr(np, name)

    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    call.__name__ = name
    return call


def of_facts(name: str):
    """Answers from shapes and dtypes alone."""
    fn = getattr(np, name)

    def call(*args, **kwargs):
        return fn(*replace(args, zeros_like_host), **kwargs)

    call.__name__ = name
    return call


def viewing(name: str):
    fn = getattr(np, name)

    def call(a, *args, **kwargs):
        bind(name, (a, *args), kwargs)
        if not isinstance(a, ndarray):
            raise TypeError(f"Unsupported type {type(a)}")
        return m.view_of(lambda h: fn(h, *args, **kwargs), a)

    call.__name__ = name
    return call


def viewing_many(name: str):
    fn = getattr(np, name)

    def call(*args, **kwargs):
        bind(name, args, kwargs)
        sources = list(arrays_in(args))
        made = fn(*replace(args, lambda a: a._host), **kwargs)
        if len(sources) == 1:
            sources = sources * len(made)
        return [wrap(h, a) for h, a in zip(made, sources, strict=True)]

    call.__name__ = name
    return call


def atleast(name: str):
    fn = getattr(np, name)

    def call(*arys):
        made = [m.view_of(fn, a if isinstance(a, ndarray) else transfer.array(a)) for a in arys]
        return made[0] if len(made) == 1 else made

    return call


def through_method(name: str, method: str | None = None):
    """``cupy.sum(a, ...)`` is ``a.sum(...)``."""
    signature = api.FUNCTIONS[name]
    assert signature is not None

    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs).arguments
        a = bound.pop(next(iter(signature.parameters)))
        if not isinstance(a, ndarray):
            raise TypeError(f"Unsupported type {type(a)}")
        return getattr(a, method or name)(**bound)

    call.__name__ = name
    return call


# -- written out ---------------------------------------------------------------------------------------------------

_WHERE = ufunc("where", "cupy_where", [f"?{c}{c}->{c}" for c in "?bBhHiIlLqQefdFD"])


def where(condition, x=None, y=None):
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if x is None:
        return condition.nonzero()
    return _WHERE(condition.astype("?", copy=False), x, y)


def nonzero(a):
    return a.nonzero()


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True
):
    m.sortable(ar.dtype)

    def run(h):
        return np.unique(h, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)

    return blocking(run, (ar,), label="unique")


def bincount(x, weights=None, minlength=None):
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    if x.dtype.kind not in "iub":
        raise TypeError("Cannot cast array data from {} to int64")
    if weights is not None and x.shape != weights.shape:
        raise ValueError("The weights and list don't have the same length.")
    return blocking(lambda a, w: np.bincount(a, w, minlength or 0), (x, weights), label="bincount")


def tril(m, k=0):
    """By `where`, and so in the types of its loops."""
    return _triangle(np.tril, m, k)


def triu(m, k=0):
    return _triangle(np.triu, m, k)


def _triangle(fn, a, k):
    kind = _WHERE.loop((np.bool_(), a, a.dtype.type(0)), None)[1][0]
    return compute(lambda h: fn(h, k).astype(kind), (a,), label=fn.__name__)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    if a.dtype == api.BFLOAT16:
        raise RuntimeError("cupy_nanmean does not compile for bfloat16")
    return compute(np.nanmean, (a,), {"axis": axis, "dtype": dtype, "keepdims": keepdims}, out=out)


def reshape(a, newshape, order="C", *, copy=None):
    return a.reshape(newshape, order=order)


def broadcast_to(array, shape):
    return m.view_of(lambda h: np.broadcast_to(h, shape), array)


def astype(x, dtype, /, *, copy=True):
    return x.astype(dtype, copy=copy)


def copy(a, order="K"):
    return a.copy(order=order)


def real(val):
    return val.real if isinstance(val, ndarray) else transfer.array(val).real


def imag(val):
    return val.imag if isinstance(val, ndarray) else transfer.array(val).imag


def concatenate(tup, axis=0, out=None, *, dtype=None, casting: Any = "same_kind"):
    for a in tup:
        if not isinstance(a, ndarray):
            raise TypeError("Only cupy arrays can be concatenated")
    return compute(
        lambda parts: np.concatenate(parts, axis, dtype=dtype, casting=casting), (list(tup),), out=out,
        label="concatenate",
    )  # fmt: skip


def stack(tup, axis=0, out=None, *, dtype=None, casting: Any = "same_kind"):
    for a in tup:
        if not isinstance(a, ndarray):
            raise TypeError("Only cupy arrays can be concatenated")
    return compute(
        lambda parts: np.stack(parts, axis, dtype=dtype, casting=casting),
        (list(tup),),
        out=out,
        label="stack",
    )


def sort(a, axis=-1, kind=None):
    made = a.flatten() if axis is None else a.copy()
    made.sort(axis=-1 if axis is None else axis, kind=kind)
    return made


def searchsorted(a, v, side: Any = "left", sorter=None):
    if not isinstance(a, ndarray):
        raise NotImplementedError("Only int or ndarray are supported for a")
    if a.ndim > 1:
        raise ValueError("object of too small depth for desired array")
    return compute(
        lambda h, x, s: np.asarray(np.searchsorted(h, x, side, s)),
        (a, v, sorter),
        label="searchsorted",
    )


def take_along_axis(a, indices, axis):
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is not None and a.ndim != indices.ndim:
        raise ValueError("`indices` and `a` must have the same number of dimensions")

    def run(h, i):
        return np.take_along_axis(
            h, np.mod(i, max(h.size if axis is None else h.shape[axis], 1)), axis
        )

    return compute(run, (a, indices), label="take_along_axis")


def put_along_axis(arr, indices, values, axis):
    target, positions = arr._host, indices._host
    given = values._host if isinstance(values, ndarray) else values
    _in_place(lambda: np.put_along_axis(target, positions, given, axis), "put_along_axis")


def _in_place(run, label: str) -> None:
    from .machine import machine
    from .memory import current_queue

    machine.submit(run, current_queue(), label)


def copyto(dst, src, casting: Any = "same_kind", where=None):
    if not isinstance(src, ndarray) and isinstance(src, np.ndarray):
        raise TypeError(f"Unsupported type {type(src)}")
    source = src.dtype if isinstance(src, ndarray) else np.asarray(src).dtype
    if isinstance(src, ndarray) and not np.can_cast(source, dst.dtype, casting):
        raise TypeError(f"Cannot cast {source} to {dst.dtype} in {casting} casting mode")
    if where is None:
        dst[...] = src
        return
    target, mask = dst._host, where._host if isinstance(where, ndarray) else where
    given = src._host if isinstance(src, ndarray) else src
    _in_place(lambda: np.copyto(target, given, "unsafe", where=mask), "copyto")


def fill_diagonal(a, val, wrap=False):
    target, given = a._host, val._host if isinstance(val, ndarray) else val
    _in_place(lambda: np.fill_diagonal(target, given, wrap), "fill_diagonal")


def putmask(a, mask, values):
    target, given = a._host, values._host if isinstance(values, ndarray) else values
    _in_place(lambda: np.putmask(target, mask._host, given), "putmask")


def place(arr, mask, vals):
    raise NotImplementedError("the simulated device has no cupy.place")


def may_share_memory(a, b, max_work=None):
    return np.may_share_memory(a._host, b._host)


def get_array_module(*args):
    import sys

    return sys.modules["cupy"] if any(isinstance(a, ndarray) for a in args) else np


def ix_(*args):
    return tuple(
        a.reshape(*(1,) * i, -1, *(1,) * (len(args) - i - 1))
        for i, a in enumerate(map(transfer.asarray, args))
    )


# -- matrix products: cuBLAS, refused in capture ---------------------------------------------------------------------


def _product(fn, arrays: tuple, label: str, out=None):
    kind = np.result_type(*(a.dtype for a in arrays))
    if kind.kind not in "biu":
        refuse_library("cublas")
    inner = wide(kind)

    def run(*hosts):
        return np.asarray(fn(*(h.astype(inner, copy=False) for h in hosts))).astype(
            kind, copy=False
        )

    return compute(run, arrays, out=out, label=label)


def _device(*arrays: Any) -> None:
    for a in arrays:
        if not isinstance(a, ndarray):
            raise TypeError(f"Unsupported type {type(a)}")


def matmul(
    *args,
    axes=None,
    axis=None,
    keepdims=False,
    casting: Any = "same_kind",
    dtype=None,
    signature=None,
    order="K",
    out=None,
):
    a, b, *rest = args
    _device(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    if (a.ndim > 2 or b.ndim > 2) and np.result_type(a.dtype, b.dtype) == api.BFLOAT16:
        raise TypeError("data type 'E' not understood")  # cupy#10317
    return _product(np.matmul, (a, b), "matmul", rest[0] if rest else out)


def dot(a, b, out=None):
    _device(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return UFUNCS["multiply"](a, b, out=out)
    return _product(np.dot, (a, b), "dot", out)


def inner(a, b):
    _device(a, b)
    return _product(np.inner, (a, b), "inner")


def vdot(a, b):
    _device(a, b)
    return _product(np.vdot, (a, b), "vdot")


def outer(a, b, out=None):
    _device(a, b)
    return _product(np.outer, (a, b), "outer", out)


def tensordot(a, b, axes=2):
    _device(a, b)
    return _product(lambda x, y: np.tensordot(x, y, axes), (a, b), "tensordot")


def einsum(*operands, **kwargs):
    out, dtype = kwargs.pop("out", None), kwargs.pop("dtype", None)
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        raise NotImplementedError("the simulated device takes einsum's subscripts as a string")
    _device(*arrays)
    made = _product(lambda *hs: np.einsum(subscripts, *hs), tuple(arrays), "einsum", out)
    return made if dtype is None else made.astype(dtype, copy=False)


# -- the namespace -----------------------------------------------------------------------------------------------------


def _special() -> dict[str, Any]:
    own = {
        name: fn for name, fn in globals().items()
        if name in api.FUNCTIONS and inspect.isfunction(fn) and fn.__module__ == __name__
    }  # fmt: skip
    own |= {
        n: getattr(transfer, n)
        for n in "array asarray ascontiguousarray asfortranarray asnumpy empty empty_like".split()
    }
    own |= {
        "asanyarray": transfer.asarray,
        "take": indexing.take,
        "put": indexing.put,
        "concat": concatenate,
    }
    own |= {
        n: through_method(n)
        for n in "sum prod max min any all argmax argmin mean var std cumsum cumprod ptp".split()
    }
    own |= {n: through_method(n, n[1:]) for n in ("amax", "amin")}
    own |= {n: through_method(n) for n in "argsort argpartition repeat trace round".split()}
    own["around"] = own["round_"] = own["round"]

    def clip(a, a_min, a_max, out=None):
        return a.clip(a_min, a_max, out=out)

    own["clip"] = clip
    own |= {n: viewing(n) for n in VIEWS} | {n: viewing_many(n) for n in MANY_VIEWS}
    own |= {n: atleast(n) for n in ("atleast_1d", "atleast_2d", "atleast_3d")}
    own |= {n: on_host(n) for n in HOST} | {n: of_facts(n) for n in FACTS if hasattr(np, n)}
    return own


def namespace() -> dict[str, Any]:
    """All functions under their public names."""
    made: dict[str, Any] = _special()
    for name in api.FUNCTIONS:
        if "." in name or name in made or not hasattr(np, name):
            continue
        made[name] = like_numpy(name, blocking if name in WAITING else compute)
    return made | {name: fn for name, fn in UFUNCS.items() if name[0] != "_"}


NAMESPACE = namespace()
__all__ = ["NAMESPACE", "matmul", "scatter"]
