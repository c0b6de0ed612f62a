"""Masks of flex_attention: functions of positions, and the blocks in which they show something."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

from ...func import vmap
from ...operators import public as ops
from ...tape import device as devices
from ...tape import dtypes
from ...tape.tensor import Tensor

__all__ = [
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "everywhere",
    "noop_mask",
    "or_masks",
]

_BLOCK = 128


# -- functions of positions --------------------------------------------------------------------------------------------


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that hides nothing.

    Example:
        >>> create_mask(noop_mask, 1, 1, 1, 2)
        tensor([[[[True, True]]]])
    """
    return batch.new_ones((), dtype=dtypes.bool_)


def and_masks(*mask_mods: Callable) -> Callable:
    """The mask that shows what all the given ones show.

    Raises:
        RuntimeError: one of them cannot be called.
    """
    _check_callable(mask_mods)

    def both(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=dtypes.bool_)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return both


def or_masks(*mask_mods: Callable) -> Callable:
    """The mask that shows what one of the given ones shows.

    Raises:
        RuntimeError: one of them cannot be called.
    """
    _check_callable(mask_mods)

    def either(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=dtypes.bool_)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return either


def _check_callable(mask_mods: tuple) -> None:
    if not all([callable(mask) for mask in mask_mods]):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def everywhere(
    mod: Callable, sizes: tuple[int, int, int, int], device: Any, *scores: Tensor
) -> Any:
    """What `mod` gives for all batches, heads and positions; `scores` [B, H, Q, KV] come first among its arguments."""
    places = [ops.arange(n, device=device) for n in sizes]
    for dim in range(3, -1, -1):
        in_dims = tuple([0] * len(scores) + [0 if d == dim else None for d in range(4)])
        mod = vmap(mod, in_dims=in_dims)
    return mod(*scores, *places)


def _positional(mod: Callable) -> int:
    """How many arguments a modification takes."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(mod).parameters.values()
    count = sum([p.kind in kinds and p.default is p.empty for p in given])
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The dense mask of a function of positions.

    Args:
        mod_fn: a mask, or a modification of scores: then everything is shown whose score it does not make -inf.
        B: batches; None counts as 1.
        H: heads; None counts as 1.
        Q_LEN: queries.
        KV_LEN: keys.
        device: where the mask is made.

    Returns:
        A bool tensor [B, H, Q_LEN, KV_LEN].

    Raises:
        AssertionError: `mod_fn` takes neither four nor five arguments.

    Example:
        >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    where = devices.default.device if device is None else device
    if _positional(mod_fn) == 5:
        scores = everywhere(mod_fn, sizes, where, ops.zeros(*sizes, device=where))
        return ops.isneginf(scores).logical_not()
    shown = everywhere(mod_fn, sizes, where)
    return shown.to(dtypes.bool_).expand(sizes).clone()


# -- masks of blocks ---------------------------------------------------------------------------------------------------


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row are there, and all the columns, those that are there first."""
    marked = dense.to(dtypes.int32)
    order = ops.argsort(marked, dim=-1, descending=True, stable=True)
    return marked.sum(-1).to(dtypes.int32), order.to(dtypes.int32).contiguous()


def _dense(counts: Tensor, columns: Tensor) -> Tensor:
    """Which blocks are there, from what `_ordered` gave: int32 [..., rows, columns]."""
    n = columns.shape[-1]
    there = ops.arange(n, device=columns.device) < counts[..., None]
    made = ops.zeros(columns.shape, dtype=dtypes.int32, device=columns.device)
    return made.scatter(-1, columns.to(dtypes.int64), there.to(dtypes.int32))


class BlockMask:
    """Which blocks of queries may attend to which blocks of keys; made by `create_block_mask` or `from_kv_blocks`.

    Attributes:
        kv_num_blocks: int32 [B, H, rows], how many blocks of keys each block of queries attends to in part.
        kv_indices: int32 [B, H, rows, columns], which: as many as that are valid.
        full_kv_num_blocks, full_kv_indices: the same for blocks in which nothing is hidden; None if they are not told.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by blocks of keys.
        BLOCK_SIZE: queries and keys of a block.
        mask_mod: what is shown within a block.
        seq_lengths: all queries and keys.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: Callable,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
        mask_mod: Callable | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask from the blocks of keys of each block of queries.

        Args:
            kv_num_blocks: int32 [B, H, rows], how many.
            kv_indices: int32 [B, H, rows, columns], which.
            full_kv_num_blocks: the same for blocks in which nothing is hidden.
            full_kv_indices: both are given, or neither.
            BLOCK_SIZE: queries and keys of a block, one number or two.
            mask_mod: what is shown within the blocks of the first kind; None: everything.
            seq_lengths: queries and keys; None: whole blocks.
            compute_q_blocks: whether to list the blocks of queries of each block of keys, too.

        Raises:
            RuntimeError: fewer than two dimensions.
            AssertionError: one of two things that belong together is missing.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        by_query: list[Tensor | None] = [None] * 4
        if compute_q_blocks:
            by_query[:2] = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                by_query[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *by_query,
            BLOCK_SIZE=size,  # type: ignore[arg-type]
            mask_mod=noop_mask if mask_mod is None else mask_mod,
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.shape
            (1, 1, 128, 256)
        """
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are, hidden ones included.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.numel()
            32768
        """
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many of a hundred scores lie in blocks that are left out.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.sparsity()
            0.0
        """
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Tensor:
        """Which blocks are attended to, in part or in full: int32 [B, H, rows, columns].

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.to_dense()
            tensor([[[[1, 1]]]], dtype=torch.int32)
        """
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        full = self._full()
        return partial if full is None else partial | full

    def _full(self) -> Tensor | None:
        """The blocks in which nothing is hidden."""
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def shown(self, sizes: tuple[int, int, int, int], device: Any) -> Tensor:
        """Which scores are not hidden: bool, broadcastable to `sizes`.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.shown((1, 1, 128, 256), "cpu").all()
            tensor(True)
        """
        spread = [self._spread(self.to_dense()), self._spread(self._full())]
        inside = create_mask(self.mask_mod, *sizes, device=device)
        if spread[1] is not None:
            inside = inside | spread[1]
        assert spread[0] is not None
        return inside & spread[0]

    def _spread(self, blocks: Tensor | None) -> Tensor | None:
        """A mask of scores from one of blocks."""
        if blocks is None:
            return None
        wide = blocks.to(dtypes.bool_)
        for dim, (size, length) in enumerate(zip(self.BLOCK_SIZE, self.seq_lengths), -2):
            wide = wide.repeat_interleave(size, dim).narrow(dim, 0, length)
        return wide

    def as_tuple(self, flatten: bool = True) -> tuple:
        """All parts, in the order of PyTorch's kernels.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.as_tuple()[:2]
            (128, 256)
        """
        sizes: tuple = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths: tuple = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *self._tensors(), None, None, None, None, *sizes, self.mask_mod)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return (
            self.kv_num_blocks,
            self.kv_indices,
            self.full_kv_num_blocks,
            self.full_kv_indices,
            self.q_num_blocks,
            self.q_indices,
            self.full_q_num_blocks,
            self.full_q_indices,
        )

    # -- other masks of it ---------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads or blocks of queries. It shows all of their blocks: set its `mask_mod`."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > 3:
            raise AssertionError("a BlockMask is indexed by batches, heads and blocks of queries")
        kept = tuple([slice(i, i + 1 or None) if isinstance(i, int) else i for i in parts])
        full = (self.full_kv_num_blocks, self.full_kv_indices)
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[kept],
            self.kv_indices[kept],
            *[None if t is None else t[kept] for t in full],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=None,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The same mask for fewer queries or keys."""
        rows, columns = (
            math.ceil(n / size)
            for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True)
        )
        partial = _ordered(_dense(self.kv_num_blocks, self.kv_indices)[..., :rows, :columns])
        full = self._full()
        return BlockMask.from_kv_blocks(
            *partial,
            *((None, None) if full is None else _ordered(full[..., :rows, :columns])),
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )

    def to(self, device: Any) -> BlockMask:
        """This mask with its tensors on `device`.

        Example:
            >>> mask = create_block_mask(noop_mask, 1, 1, 128, 256)
            >>> mask.to("cpu").shape
            (1, 1, 128, 256)
        """
        moved = [None if t is None else t.to(device) for t in self._tensors()]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)  # type: ignore[arg-type]

    # -- texts ---------------------------------------------------------------------------------------------------

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks of each batch and head: two characters for each of `grid_size` parts.

        Args:
            grid_size: rows and columns of a picture; -1: as many as there are blocks.
            limit: how many batches and heads are shown.
        """
        blocks = self.to_dense()
        size = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        pictures = []
        heads = list(itertools.product(*[range(n) for n in blocks.shape[:-2]]))
        for place in heads[:limit]:
            pictures.append(f"{place}\n" + "\n".join(_picture(blocks[place].tolist(), size)) + "\n")
        rest = len(heads) - limit
        return "\n".join(pictures) + (f"\n... and {rest} more" if rest > 0 else "")

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()})"
        )

    def __repr__(self) -> str:
        names = (
            "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices full_q_num_blocks "
            "full_q_indices"
        )
        shapes = [
            f"    {name}={None if t is None else t.shape},"
            for name, t in zip(names.split(), self._tensors(), strict=True)
        ]
        mask = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines = [
            "BlockMask(",
            *shapes,
            f"    BLOCK_SIZE={self.BLOCK_SIZE},",
            f"    shape={self.shape},",
            f"    sparsity={self.sparsity():.2f}%,",
            f"    mask_mod={mask}",
            ")",
        ]
        return "\n".join(lines)


def _picture(blocks: list[list[int]], grid: tuple[int, int]) -> list[str]:
    """Lines of text: a part of the mask is blank, full, or half full."""
    rows, columns = len(blocks), len(blocks[0])
    down, across = (
        1 if wanted == -1 else max(1, math.ceil(n / wanted))
        for n, wanted in zip((rows, columns), grid, strict=True)
    )
    lines = []
    for i in range(0, rows, down):
        line = ""
        for j in range(0, columns, across):
            part = [b for row in blocks[i : i + down] for b in row[j : j + across]]
            line += "██" if all(part) else "░░" if any(part) else "  "
        lines.append(line)
    return lines


def create_block_mask(
    mask_mod: Callable,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks in which a mask shows something, for `flex_attention`.

    Args:
        mask_mod: ``mask_mod(batch, head, q_index, kv_index)``, True where a query may attend to a key.
        B: batches; None: one mask for all.
        H: heads; None: one mask for all.
        Q_LEN: queries.
        KV_LEN: keys.
        device: where its tensors are made.
        BLOCK_SIZE: queries and keys of a block, one number or two.
        _compile: without effect.
        separate_full_blocks: whether blocks in which nothing is hidden are listed apart.

    Returns:
        A `BlockMask`.

    Raises:
        TypeError: `mask_mod` cannot be called.

    Example:
        >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).to_dense()
        tensor([[[[1, 0],
                  [1, 1]]]], dtype=torch.int32)
    """
    if not callable(mask_mod):
        raise TypeError(f"{mask_mod!r} is not a callable object")
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = math.ceil(Q_LEN / size[0]), math.ceil(KV_LEN / size[1])
    wide = mask.new_zeros((*mask.shape[:2], rows * size[0], columns * size[1]))
    wide[..., :Q_LEN, :KV_LEN] = mask
    parts = wide.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).transpose(3, 4)
    some, every = parts.flatten(-2).any(-1), parts.flatten(-2).all(-1)
    full = _ordered(every) if separate_full_blocks else (None, None)
    partial = _ordered(some & every.logical_not() if separate_full_blocks else some)
    return BlockMask.from_kv_blocks(
        *partial,
        *full,
        BLOCK_SIZE=size,  # type: ignore[arg-type]
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )
