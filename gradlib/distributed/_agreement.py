"""Whether the ranks have the same model: compared by hashes, copied from one rank, named where they differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape import dtypes
from ..tape.arrays import to_host
from ..tape.lazy import raw_values
from ..tape.tensor import Tensor
from . import collectives
from ._objects import all_gather_object
from ._world import the_group

__all__ = ["broadcast_together", "check_parameters", "verify_parameters"]

CHUNK_BYTES = 250 * 1024 * 1024


def check_parameters(module: Any, step: int | None = None, group: Any = None) -> None:
    """Raise on all ranks if a parameter has not the same bits on all of them. All ranks call it.

    It sends 8 bytes for each parameter. ``DistributedDataParallel(..., check_every=100)`` calls it by itself.

    Args:
        module: a Module, the same on all ranks.
        step: what the error calls this moment.
        group: whose ranks; all if None.

    Raises:
        RuntimeError: names the first parameter that differs, the step, and who has which value.

    Example::

        for step, (x, y) in enumerate(batches):
            train(x, y)
            if step % 100 == 0:
                distributed.check_parameters(model, step)
    """
    group = the_group(group)
    named = list(module.named_parameters())
    if not named:
        return
    mine = ops.tensor([_digest(p) for _, p in named], dtype=dtypes.int64)
    mine = mine.to(_place(named[0][1], group))
    all_of_them = ops.empty(group.size() * len(named), dtype=dtypes.int64, device=mine.device)
    collectives.all_gather_into_tensor(all_of_them, mine, group=group)
    rows = all_of_them.view(group.size(), len(named)).tolist()
    for (name, param), digests in zip(named, zip(*rows)):
        if len(set(digests)) > 1:
            when = "" if step is None else f" after step {step}"
            raise RuntimeError(
                f"check_parameters: {name} {tuple(param.shape)} is not the same on all ranks{when}: "
                f"{_who(digests)}. It is the first that differs. Something changes it on some ranks alone: an update "
                "with gradients that were not averaged, other hyperparameters, or a write outside of the optimizer."
            )


def _digest(tensor: Tensor) -> int:
    """64 bits of a hash of the values of a tensor."""
    array = to_host(raw_values(tensor.detach().contiguous()))
    data = array.reshape(-1).view("uint8").data
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _who(digests: Sequence[Any]) -> str:
    """Which ranks have the same: "ranks 0, 2 have one value, rank 1 another"."""
    alike: dict[Any, list[int]] = {}
    for rank, digest in enumerate(digests):
        alike.setdefault(digest, []).append(rank)
    most = sorted(alike.values(), key=len, reverse=True)
    parts = [f"rank{'s' * (len(r) > 1)} {', '.join(map(str, r))}" for r in most]
    return f"{parts[0]} against {', against '.join(parts[1:])}"


def _place(tensor: Tensor, group: Any) -> Any:
    """Where the group can send small tensors from: the device of the parameters, if it is a GPU's group."""
    return tensor.device if tensor.is_cuda else "cpu"


def verify_parameters(params: Sequence[Tensor], names: Sequence[str], group: Any) -> None:
    """Raise on all ranks if their models have not parameters of the same names, shapes and dtypes.

    Args:
        params: of the model, in its order.
        names: theirs.
        group: a ProcessGroup.

    Raises:
        RuntimeError: names the first parameter that differs, and what it is on which rank.
    """
    described = [
        (name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in zip(names, params)
    ]
    text = repr(described).encode()
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)
    mine = ops.tensor([digest], dtype=dtypes.int64).to(_place(params[0], group))
    digests = ops.empty(group.size(), dtype=dtypes.int64, device=mine.device)
    collectives.all_gather_into_tensor(digests, mine, group=group)
    if len(set(digests.tolist())) == 1:
        return
    lists: list[Any] = [None] * group.size()
    all_gather_object(lists, described, group=group)
    first = lists[0]
    for rank, other in enumerate(lists):
        if len(other) != len(first):
            more, where = (first, 0) if len(first) > len(other) else (other, rank)
            known = {name for name, *_ in (other if more is first else first)}
            extra = [name for name, *_ in more if name not in known]
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(first)} params, while rank {rank} has "
                f"inconsistent {len(other)} params. Only rank {where} has {', '.join(extra[:5]) or 'more of them'}."
            )
    for i, row in enumerate(zip(*lists)):
        for rank, there in enumerate(row):
            if there != row[0]:
                raise RuntimeError(_difference(rank, i, there, row[0]))


def _difference(rank: int, i: int, there: tuple, first: tuple) -> str:
    name, shape, dtype, requires_grad = there
    if shape != first[1]:
        text = (
            f"[{rank}]: params[{i}] in this process with sizes {list(shape)} appears not to match sizes of the same "
            "param in process 0."
        )
    else:
        text = f"[{rank}]: params[{i}] in this process is not the same param as in process 0."
    return (
        f"{text} It is {name} of shape {list(shape)}, {dtype}, requires_grad={requires_grad} on rank {rank}, and "
        f"{first[0]} of shape {list(first[1])}, {first[2]}, requires_grad={first[3]} on rank 0."
    )


def broadcast_together(tensors: Iterable[Tensor], group: Any, root: int = 0) -> None:
    """Copy tensors of one rank to all others, in place, many in one collective.

    Args:
        tensors: of any shapes and dtypes, the same on all ranks.
        group: a ProcessGroup.
        root: the rank in the group whose values they get.
    """
    kinds: dict[Any, list[list[Tensor]]] = {}
    for tensor in tensors:
        chunks = kinds.setdefault((tensor.dtype, tensor.device), [[]])
        if sum(t.numel() * t.element_size() for t in chunks[-1]) > CHUNK_BYTES:
            chunks.append([])
        chunks[-1].append(tensor)
    with no_grad():
        for chunk in [chunk for chunks in kinds.values() for chunk in chunks]:
            flat = ops.cat([t.detach().reshape(-1) for t in chunk])
            collectives.broadcast(flat, group=group, group_src=root)
            if group.rank() == root:
                continue
            for tensor, part in zip(chunk, flat.split([t.numel() for t in chunk])):
                tensor.detach().copy_(part.view(tensor.shape))
