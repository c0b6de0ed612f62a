"""What the operations of linear algebra share: publishing, checks, errors, and small linear maps for their formulas."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError as ConvergenceError  # CuPy raises NumPy's too

from ...op.declare import declare
from ...op.expose import PUBLIC, method, need_tensor, write_out
from ...op.formulas import formula_function
from ...op.tangents import any_tangent
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.errors import check_broadcast
from ...tape.interop import values_of
from ...tape.modes import AUTOCAST, FORWARD_AD, NO_GRAD, state
from ...tape.tensor import Tensor
from ..kinds import is_half, same_dtype, unsupported

LINALG: dict = {}  # gradlib.linalg.<name>


class _LinAlgError(RuntimeError):
    """A matrix for which the decomposition or solution does not exist or did not converge.

    The functions whose names end in ``_ex`` return the number of what went wrong instead.

    Example:
        >>> try:
        ...     gradlib.linalg.inv(gradlib.zeros(2, 2))
        ... except gradlib.linalg.LinAlgError:
        ...     print("singular")
        singular
    """


LinAlgError = _LinAlgError  # under the public name; the class prints as PyTorch's does


def linalg(*names: str, also: str = "", methods: str = ""):
    """Publish as ``gradlib.linalg.<name>``; also as ``gradlib.<name>`` and as Tensor methods where names are given."""

    def publish(fn):
        for name in names or (fn.__name__,):
            LINALG[name] = fn
        for name in also.split():
            PUBLIC[name] = fn
        if methods:
            method(*methods.split())(fn)
        return fn

    return publish


def function_name(name: str) -> str:
    """ "linalg_inv" for "torch.linalg.inv": how errors about the type of an argument call a function."""
    return name.removeprefix("torch.").replace(".", "_")


def plain(tensor: Tensor) -> bool:
    """Whether a tensor is an array of the host, and nothing that is on looks at what is done with it."""
    return (
        state.bits <= NO_GRAD
        and tensor.__class__ is Tensor
        and tensor._array.__class__ is np.ndarray
    )


def failures(info: Tensor) -> Iterator[tuple[str, Any]]:
    """What `info` of a factorization says other than 0, and the matrix of which, as error texts name it."""
    if plain(info) and not info._array.any():
        return
    info = all_entries(info)
    for i, number in enumerate(values_of(info.reshape((-1,)))):
        if number:
            yield f"(Batch element {i}): " if info.ndim else "", number


def singular_values(xp, A, full: bool | None) -> Any:
    """(U, S, Vh) of raw matrices, S alone if `full` is None; LinAlgError where they are not finite.

    For those LAPACK may never return.
    """
    failed = "The algorithm failed to converge because the input matrix"
    if not xp.waits and not np.isfinite(A).all():
        bad = next(i for i, one in enumerate(flat_batch(A)) if not np.isfinite(one).all())
        where = f"(Batch element {bad}): " if A.ndim > 2 else ""
        raise LinAlgError(f"linalg.svd: {where}{failed} contained non-finite values.")
    try:
        if full is None:
            return xp.checked_linalg.svd(A, compute_uv=False)
        return tuple(xp.checked_linalg.svd(A, full))
    except ConvergenceError:
        why = (
            "is ill-conditioned or has too many repeated singular values"
            if xp.isfinite(A).all()
            else "contained non-finite values"
        )
        raise LinAlgError(f"linalg.svd: {failed} {why}.") from None


FULL_PRECISION = frozenset(d for d in dtypes.DIFFERENTIABLE if d.itemsize > 2)


def full_precision(kernel: str, forward: Callable) -> Callable:
    """The forward function of an op for which no library has half types: NotImplementedError in the name of `kernel`.

    Without this an array library might refuse them with an error of its own, or compute in some wider type.
    """

    @functools.wraps(forward)
    def run(xp, first, *args, **attrs):
        if is_half(first):
            raise unsupported(kernel, first)
        return forward(xp, first, *args, **attrs)

    return run


def check_kernel(kernel: str, A: Tensor) -> None:
    """NotImplementedError, in the name of `kernel`, for integers, truth values and half types."""
    if A._array.dtype not in FULL_PRECISION:
        raise unsupported(kernel, A)


# -- checks ------------------------------------------------------------------------------------------------------


def computes_in_half(A: Tensor) -> bool:
    """Whether A has a half type in which an operation is to compute: autocast gives some of them float32."""
    return A.dtype in (dtypes.float16, dtypes.bfloat16) and not state.bits & AUTOCAST


def check_dims(name: str, A: Tensor, argument: str = "A") -> None:
    """RuntimeError for a tensor of fewer than 2 dimensions."""
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_matrix(name: str, A: Tensor, argument: str = "A", half: bool = False) -> None:
    """RuntimeError unless A is a floating or complex tensor of at least 2 dimensions.

    half: whether half types may pass, because the op itself refuses them (see `full_precision`).
    """
    if not isinstance(A, Tensor):
        raise need_tensor(function_name(name), A, argument)
    array = A._array
    if array.ndim > 1 and array.dtype in FULL_PRECISION:
        return
    check_dims(name, A, argument)
    if not half and computes_in_half(A):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {A.dtype.scalar_type}")
    if A._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{A.dtype.scalar_type}"
        )


def check_square(name: str, A: Tensor, argument: str = "A", half: bool = False) -> None:
    """The same, and square."""
    check_matrix(name, A, argument, half)
    check_lengths(name, A, argument)


def check_lengths(name: str, A: Tensor, argument: str = "A") -> None:
    """RuntimeError for matrices that are not square."""
    n, m = A._array.shape[-2:]
    if n != m:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {n} by {m} matrices"
        )


def check_types(name: str, A: Tensor, B: Tensor, first: str = "A", second: str = "B") -> None:
    """RuntimeError unless two tensors have the same dtype, TypeError if the second is none."""
    if not isinstance(B, Tensor):
        raise need_tensor(function_name(name), B, second, 2)
    if A._array.dtype is B._array.dtype:
        return
    text = (
        f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type "
    )
    same_dtype(A, B, text + f"{{}} and {second} of type {{}} instead")


def check_system(A: Tensor, B: Tensor, name: str) -> None:
    """The checks of the older functions that solve ``A @ X = B``."""
    n, m = A._array.shape[-2:]
    if n != m:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {n} by {m} matrices"
        )
    if B._array.shape[-2] != n:
        rows, columns = B._array.shape[-2:]
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix is {rows} by "
            f"{columns}"
        )
    text = (
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead."
    )
    same_dtype(B, A, text)


@contextmanager
def renamed(inner: str, name: str):
    """Errors of the function `inner` under the name of the function that calls it."""
    try:
        yield
    except LinAlgError as exc:
        raise LinAlgError(str(exc).replace(inner + ":", name + ":", 1)) from None


def flat_batch(array):
    """Matrices (..., m, n) as a list of matrices (b, m, n), also where some size is 0."""
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def column_major(xp, matrices):
    """The same matrices with their columns in one piece, as LAPACK leaves them."""
    return xp.swapaxes(xp.ascontiguousarray(xp.swapaxes(matrices, -1, -2)), -1, -2)


def check_batches(A: Tensor, B: Tensor) -> None:
    """RuntimeError unless the batch dimensions of two stacks of matrices broadcast."""
    a, b = A._array.shape[:-2], B._array.shape[:-2]
    if a != b:
        check_broadcast(a, b)


def broadcast_batch(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Two stacks of matrices with their batch dimensions broadcast to each other's (views)."""
    a, b = A._array.shape, B._array.shape
    if a[:-2] == b[:-2]:
        return A, B
    check_batches(A, B)
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return A.expand((*batch, *a[-2:])), B.expand((*batch, *b[-2:]))


def safe_out(name: str, out: Tensor | None, result: Tensor, what: str = "result") -> Tensor:
    """``write_out`` with the error that torch.linalg gives for a dtype that cannot hold the result."""
    if out is not None and result.dtype.category > out.dtype.category:
        kinds = [t.dtype.scalar_type for t in (result, out)]
        raise RuntimeError(
            f"{name}: Expected {what} to be safely castable from {kinds[0]} dtype, but got {what} with dtype {kinds[1]}"
        )
    return write_out(out, result)


def _no_derivative(name: str):
    raise RuntimeError(f"derivative for aten::{name} is not implemented")


unimplemented_op = declare(
    "unimplemented", lambda xp, self, source, *, name: self, promote="free", complex=True, node="NotImplemented",
    self=lambda g: g, source=lambda name: _no_derivative(name), jvp=lambda F, self_t: self_t,
    samples=lambda t: [(t(3), t(2, requires_grad=False), "x")],
)  # fmt: skip


def without_derivative(name: str, result: Tensor, *sources: Tensor) -> Tensor:
    """`result`, whose backward raises that `name` has no derivative, if one of its `sources` requires grad.

    NotImplementedError if one of them has a tangent.
    """
    if state.bits & FORWARD_AD and any_tangent(sources):
        raise NotImplementedError(
            f"Trying to use forward AD with aten::{name} that does not support it."
        )
    source = next((s for s in sources if s.requires_grad), None)
    return result if source is None else unimplemented_op.call(result, source, name)


# -- small linear maps that formulas need ------------------------------------------------------------------------


triangle = declare(
    "triangle", lambda xp, self, *, lower, diagonal: (xp.tril if lower else xp.triu)(self, diagonal), jvp="linear",
    self=lambda F, g, lower, diagonal: F.triangle(g, lower, diagonal), complex=True,
    node="TrilBackward0", samples=lambda t: [(t(3, 4), True, 0), (t(2, 3, 3), False, 1)],
    batch="leading",
)  # fmt: skip


def _fill_diagonal(xp, self, *, value):
    out = self.copy()
    i = xp.arange(min(self.shape[-2:]))
    out[..., i, i] = value
    return out


fill_diagonal = declare(
    "fill_diagonal", _fill_diagonal, complex=True, self=lambda F, g: F.fill_diagonal(g, 0.0),
    jvp=lambda F, self_t: F.fill_diagonal(self_t, 0.0), samples=lambda t: [(t(3, 3), 1.0), (t(2, 3, 2), 0.0)],
)  # fmt: skip


def _diag_matrix(xp, self, *, rows, columns):
    out = xp.zeros((*self.shape[:-1], rows, columns), self.dtype)
    i = xp.arange(self.shape[-1])
    out[..., i, i] = self
    return out


diag_vector = declare(
    "diag_vector", lambda xp, self: xp.diagonal(self, 0, -2, -1).copy(), public="diagonal", jvp="linear", complex=True,
    node="DiagonalBackward0",
    self=lambda F, g, self_shape: F.diag_matrix(g, self_shape[-2], self_shape[-1]), samples=lambda t: [(t(3, 4),),
    (t(2, 3, 3),)],
)  # fmt: skip
diag_matrix = declare(
    "diag_matrix", _diag_matrix, public="diag_embed", jvp="linear", complex=True, self=lambda F, g: F.diag_vector(g),
    node="DiagEmbedBackward0",
    samples=lambda t: [(t(3), 3, 3), (t(2, 3), 4, 3)],
)  # fmt: skip


@formula_function()
def column(F, v):
    """A vector (..., k) to scale rows: (..., k, 1)."""
    return F.unsqueeze(v, v.ndim)


@formula_function()
def row(F, v):
    """A vector (..., k) to scale columns: (..., 1, k)."""
    return F.unsqueeze(v, v.ndim - 1)


@formula_function()
def times_h(F, a, b, shape):
    """``a @ b^H`` summed over what was broadcast, to `shape`."""
    return F.sum_to_size(F.matmul(a, F.mH(b)), shape)


def added(a, b):
    """The sum of two gradients, either of which may be None."""
    return b if a is None else a if b is None else a + b


def eye_like(A: Tensor, n: int | None = None, m: int | None = None) -> Tensor:
    """The n x m identity (as large as the last dimension of `A`) with its dtype and device, without a batch."""
    n = A._array.shape[-1] if n is None else n
    return PUBLIC["eye"](n, n if m is None else m, dtype=A.dtype, device=A.device)
