"""Attention whose scores and mask are functions of positions: flex_attention, and the masks that it takes.

A modification of scores is ``score_mod(score, batch, head, q_index, kv_index)`` of 0-dim tensors, a mask is
``mask_mod(batch, head, q_index, kv_index)``. Both are run for all positions at once by `vmap`, and the attention is
computed densely: a `BlockMask` says which blocks may be attended to, and saves neither time nor memory here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor
from ._block_mask import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    everywhere,
    noop_mask,
    or_masks,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What `flex_attention` shall give beside its result.

    Example:
        >>> AuxRequest(lse=True)
        AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an `AuxRequest`: tensors [batch, heads, queries], None for the rest.

    Example:
        >>> q = gradlib.zeros(1, 1, 1, 4)
        >>> flex_attention(q, q, q, return_aux=AuxRequest(lse=True))[1]
        AuxOutput(lse=tensor([[[0.]]]), max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Settings of PyTorch's kernels; accepted, without effect.

    Example:
        >>> FlexKernelOptions(BLOCK_M=64)
        {'BLOCK_M': 64}
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    BACKEND: str


# -- attention ---------------------------------------------------------------------------------------------------------


def _check(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.is_complex() or key.is_complex() or value.is_complex():
        raise NotImplementedError(
            "flex_attention is for real tensors: scores of complex ones have no order"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    batches, heads = query.shape[:2]
    if key.shape[1] != heads and not gqa:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    if heads % key.shape[1]:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={key.shape[1]}."
        )
    if key.shape[0] not in (batches, 1) or (key.shape[0] != batches and mask is None):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
            f"block_mask={mask}, Bq={batches}, and Bkv={key.shape[0]}."
        )
    if mask is not None and mask.seq_lengths != (query.shape[2], key.shape[2]):
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={query.shape[2]} and "
            f"kv_len={key.shape[2]}. Make one for these lengths."
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Scaled dot-product attention with scores that a function changes, and a mask of blocks.

    Args:
        query: [B, H, L, E].
        key: [B, H, S, E]; fewer heads with `enable_gqa`.
        value: [B, H, S, Ev].
        score_mod: ``score_mod(score, batch, head, q_index, kv_index)`` gives the score to use, in float32 or wider.
        block_mask: what is attended to; None: everything.
        scale: of the scores; None: 1 / sqrt(E).
        enable_gqa: whether several heads of queries share one of keys and values.
        return_lse: whether to give the logarithm of the sum of the exponentials of the scores of each query, too.
        kernel_options: without effect.
        return_aux: what else to give, as an `AuxOutput`.

    Returns:
        [B, H, L, Ev] in the dtype of `query`; with `return_lse` or `return_aux` a pair.

    Raises:
        ValueError: shapes that do not go together.
        NotImplementedError: other than four dimensions, or complex tensors.

    Example:
        >>> q = gradlib.ones(1, 1, 2, 4)
        >>> flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j)).shape
        torch.Size([1, 1, 2, 4])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if enable_gqa:
        shared = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    wide = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.matmul(query, key.mT.to(query.dtype)).to(wide) * factor
    sizes: Any = tuple(scores.shape)
    if score_mod is not None:
        scores = everywhere(score_mod, sizes, query.device, scores).to(wide)
    if block_mask is not None:
        scores = ops.where(block_mask.shown(sizes, query.device), scores, -math.inf)
    lse = scores.logsumexp(-1)
    hidden = ops.isneginf(lse)[..., None]  # queries that may attend to nothing
    weights = ops.exp(scores - ops.where(hidden, 0.0, lse[..., None]))
    out = ops.matmul(weights.to(query.dtype), value.to(query.dtype))
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse if return_aux.lse else None, largest)
    return (out, lse) if return_lse else out
