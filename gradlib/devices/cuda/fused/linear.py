"""linear and addmm with their bias in the product, and its gradient in that of the weight (`epilogues.py`)."""

from __future__ import annotations

from typing import Any

from ....tape.switches import switches
from .. import gemm, precision
from ..kernels import F4
from . import forward, vjp


def _rows(x: Any) -> Any:
    """A stack of rows as one matrix, without a copy; None where that takes one."""
    if x.ndim == 2:
        return x
    return x.reshape(-1, x.shape[-1]) if x.size and x.flags.c_contiguous else None


def _as_matrix(xp: Any, g: Any) -> Any:
    """A stack of rows as one matrix that cuBLAS reads as it is; copied, once for all products, where it does not."""
    rows = _rows(g)
    return (
        xp.ascontiguousarray(g).reshape(-1, g.shape[-1]) if rows is None else gemm.dense(xp, rows)
    )


def _exact_sums(dtype: Any) -> bool:
    """Whether sums of an operand are those of its values.

    Tensor cores round the operands of float32 products, which may show in sums made on the way; and nobody promises
    that they come out the same in every run.
    """
    exact = dtype != F4 or precision.get_float32_matmul_precision() == "highest"
    return exact and not switches.deterministic


@forward("linear")
def linear(xp, input, weight, bias=None):
    if bias is None:
        return NotImplemented
    epilogues = getattr(xp, "epilogues", None)
    if epilogues is None or not epilogues.takes(input, weight, bias):
        return NotImplemented
    rows = _rows(input)
    if rows is None:
        return NotImplemented
    out = epilogues.product_and_bias(rows, weight, bias, transposed=True)
    if out is NotImplemented or input.ndim == 2:
        return out
    return out.reshape(*input.shape[:-1], weight.shape[0])


@vjp("linear")
def linear_vjp(F, g, input, weight, needs):
    xp = F.backend
    epilogues = getattr(xp, "epilogues", None)
    if not (needs[1] and needs[2]) or epilogues is None or not epilogues.takes(g, input, None):
        return NotImplemented
    rows = _rows(input)
    if rows is None or not g.size or not _exact_sums(g.dtype):
        return NotImplemented
    flat = _as_matrix(xp, g)
    found = epilogues.product_and_row_sums(flat, rows, transposed=True)
    if found is NotImplemented:
        return NotImplemented
    return xp.matmul(flat, weight).reshape(input.shape) if needs[0] else None, *found


@forward("addmm")
def addmm(xp, self, mat1, mat2, *, beta, alpha):
    if self.ndim != 1 or beta != 1 or alpha != 1 or self.shape[0] != mat2.shape[1]:
        return NotImplemented
    epilogues = getattr(xp, "epilogues", None)
    if epilogues is None or not epilogues.takes(mat1, mat2, self):
        return NotImplemented
    return epilogues.product_and_bias(mat1, mat2, self)


@vjp("addmm")
def addmm_vjp(F, g, mat1, mat2, self_shape, beta, alpha, needs):
    xp = F.backend
    epilogues = getattr(xp, "epilogues", None)
    whole = needs[0] and needs[2] and self_shape == g.shape[1:] and beta == 1 and alpha == 1
    if not whole or epilogues is None or not epilogues.takes(g, mat1, None):
        return NotImplemented
    if not _exact_sums(g.dtype):
        return NotImplemented
    g = _as_matrix(xp, g)
    found = epilogues.product_and_column_sums(mat1, g, transposed=True)
    if found is NotImplemented:
        return NotImplemented
    grad, sums = found
    return sums, xp.matmul(g, mat2.T) if needs[1] else None, grad
