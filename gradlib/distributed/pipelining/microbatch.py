"""``distributed.pipelining.microbatch``: a batch in pieces, and back."""

from __future__ import annotations

from typing import Any

from ...operators import public as ops
from ...tape.pytree import flatten, unflatten
from ...tape.tensor import Tensor

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Along which dimension a tensor is cut into microbatches.

    Args:
        split_dim: the dimension.
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"


def _pieces(value: Any, chunks: int, spec: Any) -> list[Any]:
    """One value for each microbatch: what is not cut is the same for all."""
    leaves, tree = flatten(value)
    specs = flatten(spec)[0] if spec is not None else []
    if len(specs) != len(leaves):
        specs = [spec] * len(leaves)
    cut = []
    for leaf, how in zip(leaves, specs):
        whole = not isinstance(leaf, Tensor) or (
            spec is not None and not isinstance(how, TensorChunkSpec)
        )
        if whole:
            cut.append([leaf] * chunks)
            continue
        dim = 0 if how is None else how.split_dim
        if leaf.shape[dim] % chunks:
            raise ValueError(
                f"a batch of {leaf.shape[dim]} cannot be cut into {chunks} microbatches of equal size: give a batch "
                f"that is a multiple of {chunks}"
            )
        cut.append(list(leaf.chunk(chunks, dim)))
    return [unflatten([c[i] for c in cut], tree) for i in range(chunks)]


def split_args_kwargs_into_chunks(
    args: tuple,
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple], list[dict[str, Any]]]:
    """The arguments of each microbatch.

    Args:
        args, kwargs: those of the batch.
        chunks: the number of microbatches.
        args_chunk_spec, kwargs_chunk_spec: a `TensorChunkSpec` for each that is cut, anything else for those that all
            microbatches get whole; by default tensors are cut along dimension 0.

    Returns:
        Positional arguments, and those by name, for each.

    Raises:
        ValueError: a length that `chunks` does not divide.

    Example::

        split_args_kwargs_into_chunks((torch.arange(4),), {}, 2)[0]
        # [(tensor([0, 1]),), (tensor([2, 3]),)]
    """
    by_place = [
        _pieces(arg, chunks, None if args_chunk_spec is None else args_chunk_spec[i])
        for i, arg in enumerate(args)
    ]
    by_name = {
        name: _pieces(value, chunks, None if kwargs_chunk_spec is None else kwargs_chunk_spec[name])
        for name, value in (kwargs or {}).items()
    }
    return (
        [tuple([pieces[i] for pieces in by_place]) for i in range(chunks)],
        [{name: pieces[i] for name, pieces in by_name.items()} for i in range(chunks)],
    )


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """The outputs of microbatches as that of the batch.

    Args:
        chunks: one output for each.
        chunk_spec: as for `split_args_kwargs_into_chunks`.

    Returns:
        Tensors joined along their dimension, 0 by default; of other values that of the first microbatch.

    Example::

        merge_chunks([torch.zeros(1), torch.ones(1)])
        # tensor([0., 1.])
    """
    leaves = [flatten(chunk)[0] for chunk in chunks]
    specs = flatten(chunk_spec)[0] if chunk_spec is not None else []
    if len(specs) != len(leaves[0]):
        specs = [chunk_spec] * len(leaves[0])
    merged = []
    for values, how in zip(zip(*leaves), specs):
        whole = not isinstance(values[0], Tensor) or (
            how is not None and not isinstance(how, TensorChunkSpec)
        )
        dim = how.split_dim if isinstance(how, TensorChunkSpec) else 0
        merged.append(values[0] if whole else ops.cat(list(values), dim))
    return unflatten(merged, flatten(chunks[0])[1])
