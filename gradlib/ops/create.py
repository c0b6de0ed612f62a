"""Creation: tensor, zeros, ones, full, arange, eye, random numbers and their *_like and new_* forms."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..backends import backend_for
from ..core import dtypes
from ..core.device import CPU
from ..core.formulas import formula_function
from ..core.tensor import Size, Tensor
from .cast import check_device
from .expose import PUBLIC, function, method, write_out


def wrap_like(array) -> Tensor:
    """A raw array as a Tensor outside any graph."""
    return Tensor._make(array)


def sizes(size: tuple) -> tuple:
    """(2, 3) from ``f(2, 3)`` or ``f((2, 3))``."""
    if len(size) == 1 and not isinstance(size[0], (int, np.integer, Tensor)):
        size = tuple(size[0])
    shape = tuple(builtins.int(n) for n in size)
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return shape


def finish(array, requires_grad: bool = False, out: Tensor | None = None) -> Any:
    """Wrap a new raw array, check requires_grad, or write it to `out`."""
    result = Tensor._make(array)
    if out is not None:
        return write_out(out, result)
    if requires_grad:
        if result._array.dtype not in dtypes.DIFFERENTIABLE:
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result._rg = True
    return result


def place(dtype, dev, like: Tensor | None = None):
    """(backend, NumPy dtype, device) for a factory's arguments."""
    target = (
        like.device
        if dev is None and like is not None
        else CPU
        if dev is None
        else check_device(dev)
    )
    kind = (
        dtypes.of(dtype)
        if dtype is not None
        else like.dtype
        if like is not None
        else dtypes.get_default_dtype()
    )
    return backend_for(target.type), kind.np, target


def _filled(kind: str):
    def factory(
        *size,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        pin_memory=False,
        names=None,
        memory_format=None,
        **kw,
    ):
        if "size" in kw:
            size = (kw["size"],)
        xp, d, _ = place(dtype, device, out)
        return finish(getattr(xp, kind)(sizes(size), d), requires_grad, out)

    factory.__name__ = factory.__qualname__ = kind
    factory.__doc__ = f"A tensor of the given size, {'uninitialised' if kind == 'empty' else 'filled with ' + kind}."

    def like(
        input,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad=False,
        memory_format=None,
        pin_memory=False,
    ):
        xp, d, target = place(dtype, device, input)
        if target.type == input.device.type:
            return finish(getattr(xp, kind + "_like")(input._array, d), requires_grad)
        return finish(getattr(xp, kind)(input._array.shape, d), requires_grad)

    like.__name__ = like.__qualname__ = kind + "_like"
    like.__doc__ = f"``{kind}`` with the size, dtype and device of `input`."

    def new(
        self,
        *size,
        dtype=None,
        device=None,
        requires_grad=False,
        layout=None,
        pin_memory=False,
        **kw,
    ):
        if "size" in kw:
            size = (kw["size"],)
        xp, d, _ = place(dtype, device, self)
        return finish(getattr(xp, kind)(sizes(size), d), requires_grad)

    new.__name__ = new.__qualname__ = "new_" + kind
    new.__doc__ = f"``{kind}`` with the dtype and device of this tensor."
    PUBLIC[kind], PUBLIC[kind + "_like"] = factory, like
    setattr(Tensor, "new_" + kind, new)
    return factory, like


zeros, zeros_like = _filled("zeros")
ones, ones_like = _filled("ones")
empty, empty_like = _filled("empty")


@formula_function("zeros_like")
def _zeros_like(F, x):
    """Zeros of the shape and dtype of x, which no gradient flows through."""
    return zeros_like(x) if hasattr(x, "_array") else F.backend.zeros(x.shape, x.dtype)


@function("full")
def full(
    size,
    fill_value,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor of the given size filled with `fill_value`; the dtype follows the value if not given."""
    if dtype is None:
        dtype = dtypes.of_scalar(
            fill_value.item() if isinstance(fill_value, Tensor) else fill_value
        )
    xp, d, _ = place(dtype, device, out)
    return finish(
        xp.full(sizes((size,)), _number(fill_value), d),
        requires_grad,
        out,
    )


def _number(value):
    return value.item() if isinstance(value, Tensor) else value


@function("full_like")
def full_like(
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """``full`` with the size, dtype and device of `input`."""
    xp, d, _ = place(dtype, device, input)
    return finish(xp.full(input._array.shape, _number(fill_value), d), requires_grad)


@method("new_full")
def new_full(
    self,
    size,
    fill_value,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """``full`` with the dtype and device of this tensor."""
    xp, d, _ = place(dtype, device, self)
    return finish(xp.full(sizes((size,)), _number(fill_value), d), requires_grad)


# -- from data ---------------------------------------------------------------------------------------------------


def infer(data) -> dtypes.dtype:
    """The dtype of ``tensor(data)``."""
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return dtypes.from_np(data.dtype)
    if isinstance(data, (list, tuple)):
        found = None
        for item in data:
            found = dtypes.promote(found, infer(item))
        return found or dtypes.get_default_dtype()
    return dtypes.of_scalar(data)


def to_array(data, kind: dtypes.dtype | None) -> np.ndarray:
    """A fresh NumPy array with the values of nested sequences, numbers, arrays or tensors."""
    if isinstance(data, Tensor):
        from ..core.tensor import to_host

        return np.array(to_host(data._array), dtype=kind.np if kind else None)
    try:
        if isinstance(data, (list, tuple)) and type(_first(data)) in (int, float, bool, complex):
            return _of_numbers(
                np.array(data), kind
            )  # NumPy looks at the elements quicker than we do
        if isinstance(data, (list, tuple)) and any(
            isinstance(d, (Tensor, list, tuple)) for d in data
        ):
            data = _plain(data)
        kind = kind or infer(data)
        if kind is dtypes.bfloat16:
            return np.array(data, dtype=np.float64).astype(kind.np)
        return (
            data.astype(kind.np) if isinstance(data, np.ndarray) else np.array(data, dtype=kind.np)
        )
    except (ValueError, TypeError) as exc:
        raise _bad_data(data, exc) from None


def _first(data):
    """The first number of nested sequences."""
    while isinstance(data, (list, tuple)):
        if not data:
            return None
        data = data[0]
    return data


def _of_numbers(array: np.ndarray, kind: dtypes.dtype | None) -> np.ndarray:
    """What NumPy made of Python numbers, in the dtype they have here."""
    if kind is None:
        default = dtypes.get_default_dtype()
        kind = {"b": dtypes.bool_, "i": dtypes.int64, "f": default, "c": default.to_complex()}.get(
            array.dtype.kind
        )
    if kind is None:
        raise TypeError(f"its elements are {array.dtype}")
    return array if array.dtype == kind.np else array.astype(kind.np)


def _plain(data):
    return [
        _plain(d) if isinstance(d, (list, tuple)) else d.tolist() if isinstance(d, Tensor) else d
        for d in data
    ]


def _bad_data(data, exc) -> Exception:
    if isinstance(data, (list, tuple)):
        lengths = {len(d) if isinstance(d, (list, tuple)) else 0 for d in data}
        if len(lengths) > 1:
            first = len(data[0]) if isinstance(data[0], (list, tuple)) else 0
            for d in data:
                n = len(d) if isinstance(d, (list, tuple)) else 0
                if n != first:
                    return ValueError(f"expected sequence of length {first} at dim 1 (got {n})")
    if isinstance(exc, TypeError):
        return TypeError(f"tensor(): cannot make a tensor of {type(data).__name__}: {exc}")
    return ValueError(str(exc))


@function("tensor")
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`: numbers, nested sequences, NumPy arrays.

    The dtype is inferred: Python floats give the default dtype, ints int64, bools bool.

    Example:
        >>> gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    kind = dtypes.of(dtype) if dtype is not None else None
    if isinstance(data, Tensor):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        device = data.device if device is None else device
    array = to_array(data, kind)
    if device is not None:
        target = check_device(device)
        if target.type != "cpu":
            array = backend_for(target.type).to_backend(array, target)
    return finish(array, requires_grad)


@function("as_tensor")
def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory where dtype and device allow it."""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if isinstance(data, Tensor):
        return (
            data.to(dtype=dtype, device=device) if dtype is not None or device is not None else data
        )
    return tensor(data, dtype=dtype, device=device)


PUBLIC["asarray"] = lambda obj, *, dtype=None, device=None, copy=None, requires_grad=False: (
    tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    if copy
    else as_tensor(obj, dtype, device)
)


@function("from_numpy")
def from_numpy(ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().)"
        )
    kind = dtypes.from_np(ndarray.dtype)
    return Tensor._make(ndarray if ndarray.dtype is kind.np else ndarray.view(kind.np))


@function("from_dlpack")
def from_dlpack(ext_tensor) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack (NumPy, CuPy, PyTorch, JAX)."""
    kind, _ = ext_tensor.__dlpack_device__()
    if kind == 2:
        return Tensor._make(backend_for("cuda").from_dlpack(ext_tensor))
    return Tensor._make(np.from_dlpack(ext_tensor))


@function("scalar_tensor")
def scalar_tensor(
    s, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """A 0-dim tensor of the default dtype."""
    return full(
        (), s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad
    )


def scalar_tensor_like(value) -> Tensor:
    """A Python number as the 0-dim tensor it stands for."""
    return Tensor._make(np.asarray(value, dtypes.of_scalar(value).np))


def legacy_constructor(cls, *args, device=None, **kwargs) -> Tensor:
    """``Tensor()``, ``Tensor(2, 3)``, ``Tensor([1, 2])``, ``Tensor(tensor)``."""
    if not args:
        made = empty(0, device=device)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0].detach()
    elif (
        len(args) == 1
        and isinstance(args[0], (list, tuple, np.ndarray))
        and not isinstance(args[0], Size)
    ):
        made = tensor(args[0], dtype=dtypes.get_default_dtype(), device=device)
    else:
        made = empty(*args, device=device)
    return made if cls is Tensor else Tensor._make_subclass(cls, made)


# -- ranges ------------------------------------------------------------------------------------------------------


@function("arange")
def arange(
    start,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """start, start + step, ... below `end`; int64 when all three are integers."""
    if end is None:
        start, end = 0, start
    start, end, step = _number(start), _number(end), _number(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
        dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
    xp, d, _ = place(dtype, device, out)
    n = (
        -int((start - end) // step)
        if all(isinstance(v, int) for v in (start, end, step))
        else builtins.max(0, int(np.ceil((end - start) / step)))
    )
    wide = d if d.kind in "iu" else np.dtype(np.float64)
    return finish((xp.arange(n, dtype=wide) * step + start).astype(d), requires_grad, out)


@function("linspace")
def linspace(
    start, end, steps, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    xp, d, _ = place(dtype, device, out)
    start, end = _number(start), _number(end)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    wide = np.complex128 if d.kind == "c" else np.float64
    return finish(xp.linspace(start, end, steps, dtype=wide).astype(d), requires_grad, out)


@function("logspace")
def logspace(
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """``base ** linspace(start, end, steps)``."""
    xp, d, _ = place(dtype, device, out)
    grid = xp.linspace(_number(start), _number(end), steps, dtype=np.float64)
    return finish(xp.power(float(base), grid).astype(d), requires_grad, out)


@function("eye")
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The n x m matrix with ones on the diagonal."""
    xp, d, _ = place(dtype, device, out)
    return finish(xp.eye(n, m, dtype=d), requires_grad, out)


@function("tril_indices")
def tril_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    """Row and column indices of the lower triangle, as a 2 x N tensor."""
    xp, d, _ = place(dtype, device)
    return finish(xp.stack(xp.tril_indices(row, offset, col)).astype(d))


@function("triu_indices")
def triu_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    """Row and column indices of the upper triangle, as a 2 x N tensor."""
    xp, d, _ = place(dtype, device)
    return finish(xp.stack(xp.triu_indices(row, offset, col)).astype(d))


# -- out of scope ----------------------------------------------------------------------------------------------------


def _no_sparse(name: str):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: gradlib has no sparse tensors; use dense ones")

    refuse.__name__ = name
    refuse.__doc__ = "Not supported: sparse tensors are out of scope."
    return refuse


for _name in ("sparse_coo_tensor", "sparse_csr_tensor", "sparse_compressed_tensor"):
    function(_name)(_no_sparse(_name))
for _name in ("to_sparse", "to_sparse_csr", "to_sparse_coo", "sparse_mask"):
    method(_name)(_no_sparse(_name))
