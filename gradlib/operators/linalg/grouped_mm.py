"""Products of groups of rows (or columns) with matrices of their own, as in mixtures of experts."""

from __future__ import annotations

from ...op.vmap import each_entry
from ...tape import dtypes
from ...tape.interop import values_of
from ...tape.tensor import Tensor
from ..shape.join import cat, stack


def _groups(offs: Tensor) -> list[tuple[int, int]]:
    if offs.dtype is not dtypes.int32:
        raise RuntimeError("Offsets have to be int32")
    if offs.dim() != 1:
        raise RuntimeError(f"offs has to be 1D, got {offs.dim()}D")
    ends = values_of(offs)
    return list(zip([0, *ends[:-1]], ends, strict=True))


@each_entry
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: dtypes.dtype | None = None,
) -> Tensor:
    """One matrix product for each group.

    Args:
        mat_a, mat_b: (G, M, K) and (G, K, N); or a two-dimensional one, whose jagged dimension `offs` cuts: rows of
            (T, K) for (G, K, N), columns of (K, T) for (G, M, K), or the common dimension T of (M, T) and (T, N).
        offs: int32 (G,), where each group ends; needed exactly where an operand is two-dimensional.
        bias, out_dtype: as in PyTorch, only None and the dtype of `mat_a`.

    Returns:
        (G, M, N), or two-dimensional where one operand is. Rows or columns past the last offset are zero.

    Raises:
        RuntimeError: operands that do not fit, or another dtype than float32, bfloat16 and float16.
    """
    for name, m in (("mat_a", mat_a), ("mat_b", mat_b)):
        if m.dtype not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {m.dtype.scalar_type}"
            )
        if m.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    flat_a, flat_b = mat_a.dim() == 2, mat_b.dim() == 2
    if (offs is not None) != (flat_a or flat_b):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is None:
        return mat_a @ mat_b
    groups = _groups(offs)
    if flat_a and flat_b:
        return stack([mat_a[:, i:j] @ mat_b[i:j] for i, j in groups])
    count = (mat_b if flat_a else mat_a).shape[0]
    if count != len(groups):
        raise RuntimeError(f"matrix batch sizes have to match: {count} and {len(groups)} groups")
    end = groups[-1][1] if groups else 0
    if flat_a:
        parts = [mat_a[i:j] @ mat_b[g] for g, (i, j) in enumerate(groups)]
        return cat([*parts, mat_a.new_zeros(mat_a.shape[0] - end, mat_b.shape[2])])
    parts = [mat_a[g] @ mat_b[:, i:j] for g, (i, j) in enumerate(groups)]
    return cat([*parts, mat_a.new_zeros(mat_a.shape[1], mat_b.shape[1] - end)], 1)
