"""The planners that are used unless others are given: every piece is written once, and read where it is wanted."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...operators.create.filled import empty
from ...serialization import CheckpointError, load, safe_globals, save
from ...tape.tensor import Tensor
from ._nested import Path, flatten, insert, store
from ._shards import overlap
from .metadata import (
    STATE_DICT_TYPE,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from .planner_helpers import create_read_items, create_write_items
from .utils import find_state_dict_object

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Writes each piece once: of copies that several processes have, the one with the fewest bytes so far writes.

    Args:
        flatten_state_dict: whether dicts within the state dict, and lists with tensors, are taken apart. It is needed
            for tensors in them to be saved as tensors.
        flatten_sharded_tensors: accepted; pieces are always kept as pieces.
        dedup_replicated_tensors: deprecated; copies are always written once.
        dedup_save_to_lowest_rank: the lowest rank that has a copy writes it, whatever it has to write already.
        enable_plan_caching: accepted; plans are made for each save.
    """

    state_dict: dict[str, Any]
    mappings: dict[str, Path]
    plan: SavePlan
    metadata: Metadata
    is_coordinator: bool

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict, flat."""
        self.mappings = {}
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        """Everything that this process has."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Share out the copies."""
        plans = share_out(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            metadata.planner_data = {
                n: path for p in all_plans for n, path in p.planner_data.items()
            }
        order = dict.fromkeys(item.index.fqn for plan in all_plans for item in plan.items)
        contents = metadata.state_dict_metadata
        metadata.state_dict_metadata = {name: contents[name] for name in order}
        self.metadata = metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Keep the plan."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The piece of the tensor, or the object as `gradlib.save` writes it."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value that is written; override it to take values from elsewhere.

        Args:
            index: its name.
        """
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """The value as it is written; override it to change what goes into the files.

        Args:
            write_item: out of the plan.
            object: what `lookup_object` gave.
        """
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        data = io.BytesIO()
        save(object, data)
        data.seek(0)
        return data


class DefaultLoadPlanner(LoadPlanner):
    """Reads what the state dict has: the parts of saved pieces that lie in the tensors of this process.

    Args:
        flatten_state_dict: as it was for the save.
        flatten_sharded_tensors: accepted; pieces are always read as pieces.
        allow_partial_load: names that the checkpoint does not have stay as they are; otherwise they are an error.
    """

    original_state_dict: STATE_DICT_TYPE
    state_dict: dict[str, Any]
    mappings: dict[str, Path]
    metadata: Metadata | None
    is_coordinator: bool

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict, flat."""
        self.original_state_dict = state_dict
        self.mappings = {}
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What the tensors of this process need."""
        assert self.metadata is not None
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Every process reads what it needs."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Carry out the plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object in the place of the one that is there.

        Classes that `gradlib.load` does not take from a file are taken if the object that is there has that class.
        """
        name = read_item.dest_index.fqn
        loaded = unpickle(name, value, self.state_dict.get(name))
        if self.flatten_state_dict:
            store(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The part of the tensor that the values go to."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing is left to be done: the values were written to the memory of the tensor."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor, or the piece of it, that is read into; override it to read into others.

        Args:
            index: its name.
        """
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The part of the piece that the values go to.

        Args:
            read_item: out of the plan.
            tensor: what `lookup_tensor` gave.
        """
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            tensor = tensor.narrow(dim, start, length)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Makes the state dict from the checkpoint itself: all of it, or the names in `keys` and what is below them."""

    def __init__(self, keys: Iterable[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = None if keys is None else set(keys)
        super().__init__(*args, **kwargs)

    def _wanted(self, name: str, path: Path) -> bool:
        if self.keys is None or name in self.keys:
            return True
        above = (".".join(map(str, path[:i])) for i in range(1, len(path)))
        return any(part in self.keys for part in above)

    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        assert not state_dict, "the state dict must be empty: it is made from the checkpoint"
        assert metadata is not None
        paths = metadata.planner_data or {}
        for name, entry in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._wanted(name, path):
                tensor = isinstance(entry, TensorStorageMetadata)
                value = empty(entry.size, dtype=entry.properties.dtype) if tensor else None
                insert(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def unpickle(name: str, value: io.BytesIO, present: Any) -> Any:
    """The object that a file holds; its class may be that of the object that is there now."""
    known = () if present is None else (type(present),)
    try:
        with safe_globals([c for c in known if c.__module__ != "builtins"]):
            return load(value, map_location="cpu")
    except CheckpointError as error:
        raise CheckpointError(f"'{name}' of the checkpoint: {error}") from error


# -- plans -----------------------------------------------------------------------------------------------------------


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Everything that a process has; what others have, too, is sorted out by `create_default_global_save_plan`.

    Args:
        state_dict: values by name, flat.
        is_coordinator: accepted; every process offers everything.

    Returns:
        A plan with an item for each object, each tensor, and each piece that lies here.
    """
    return SavePlan([item for n, v in state_dict.items() for item in create_write_items(n, v)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The table of contents of plans in which everything comes once.

    Args:
        all_plans: by rank.
        rewrite_index_hints: whether items get their place in the list of pieces.

    Returns:
        The plans, and the table.
    """
    contents: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if data is None:
                contents[name] = BytesStorageMetadata()
                items.append(item)
                continue
            whole = TensorStorageMetadata(data.properties, data.size, [])
            chunks = contents.setdefault(name, whole).chunks  # type: ignore[union-attr]
            if rewrite_index_hints:
                item = replace(item, index=replace(item.index, index=len(chunks)))
            chunks.append(data.chunk)
            items.append(item)
        plans.append(replace(plan, items=items))
    return plans, Metadata(contents)


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What must be read to fill a state dict.

    Args:
        state_dict: values by name, flat.
        metadata: the table of contents.
        strict: whether a name that the checkpoint does not have is an error.

    Returns:
        A plan with an item for each object and each part of a saved piece.

    Raises:
        RuntimeError: the checkpoint does not have a name.
        ValueError: shapes or dtypes do not fit, with the name.
    """
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(name)
        if saved is not None:
            items += create_read_items(name, saved, value)
        elif strict:
            raise RuntimeError(
                f"Missing key in checkpoint state_dict: {name}."
                f"{_similar(name, metadata)} DefaultLoadPlanner(allow_partial_load=True) leaves it as it is."
            )
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are: every process reads what it needs.

    Args:
        all_plans: by rank.

    Returns:
        The same.
    """
    return all_plans


def _similar(name: str, metadata: Metadata) -> str:
    """A hint at the names that a checkpoint has in place of one."""
    last = name.rpartition(".")[2]
    others = sorted(n for n in metadata.state_dict_metadata if n.rpartition(".")[2] == last)
    return f" It has {', '.join(others[:3])}{', ...' if len(others) > 3 else ''}." if others else ""


# -- who writes what -------------------------------------------------------------------------------------------------


def share_out(plans: list[SavePlan], to_lowest_rank: bool = False) -> list[SavePlan]:
    """Leave each thing in one plan. The largest are given away first, each to whoever has the fewest bytes."""
    holders: dict[MetadataIndex, list[int]] = defaultdict(list)
    items: dict[MetadataIndex, WriteItem] = {}
    first_of: dict[str, tuple[int, WriteItem]] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            _check_same(first_of.setdefault(item.index.fqn, (rank, item)), (rank, item))
            holders[item.index].append(rank)
            items[item.index] = item
    load = [0] * len(plans)
    writer: dict[MetadataIndex, int] = {}
    for index in sorted(items, key=lambda i: -(items[i].tensor_storage_size() or 0)):
        ranks = holders[index]
        size = items[index].tensor_storage_size()
        # of objects, which may differ between processes, those of the first are kept
        first = to_lowest_rank or size is None
        writer[index] = rank = ranks[0] if first else min(ranks, key=lambda r: load[r])
        load[rank] += size or 0
    return [
        replace(plan, items=[i for i in plan.items if writer[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _check_same(a: tuple[int, WriteItem], b: tuple[int, WriteItem]) -> None:
    """ValueError if processes disagree on what a name is."""
    (rank_a, known), (rank_b, item) = a, b
    if _what(known) != _what(item):
        raise ValueError(
            f"'{item.index.fqn}' is {_what(known)} in process {rank_a} and {_what(item)} in process {rank_b}"
        )


def _what(item: WriteItem) -> str:
    data = item.tensor_data
    return f"{data.properties.dtype} of shape {tuple(data.size)}" if data else "a Python object"


def check_whole(metadata: Metadata) -> None:
    """ValueError unless the pieces of each tensor fill it without overlapping."""
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            _check_tensor(name, entry)


def _check_tensor(name: str, entry: TensorStorageMetadata) -> None:
    filled = 0
    for chunk in entry.chunks:
        ends = [o + s for o, s in zip(chunk.offsets, chunk.sizes)]
        if len(ends) != len(entry.size) or any(e > n for e, n in zip(ends, entry.size)):
            raise ValueError(
                f"'{name}' is {tuple(entry.size)}, but a process has a piece {tuple(chunk.sizes)} "
                f"at {tuple(chunk.offsets)}"
            )
        filled += chunk.sizes.numel()
    twice = _first_overlap(entry.chunks)
    if twice:
        a, b = twice
        raise ValueError(
            f"'{name}': the pieces {tuple(a.sizes)} at {tuple(a.offsets)} and {tuple(b.sizes)} at {tuple(b.offsets)} "
            "overlap"
        )
    if filled != entry.size.numel():
        raise ValueError(
            f"'{name}' has {entry.size.numel()} elements, but the pieces of all processes have {filled}: each "
            "process must save its piece"
        )


def _first_overlap(
    pieces: list[ChunkStorageMetadata],
) -> tuple[ChunkStorageMetadata, ChunkStorageMetadata] | None:
    """Two pieces that overlap. Only those are compared whose ranges do in the dimension that is cut most."""
    if len(pieces) < 2:
        return None
    cuts = [len({p.offsets[d] for p in pieces}) for d in range(len(pieces[0].offsets))]
    dim = cuts.index(max(cuts)) if cuts else 0
    if not cuts:
        return pieces[0], pieces[1]  # of a tensor without dimensions there is one
    open_pieces: list[ChunkStorageMetadata] = []
    for piece in sorted(pieces, key=lambda p: p.offsets[dim]):
        start = piece.offsets[dim]
        open_pieces = [p for p in open_pieces if p.offsets[dim] + p.sizes[dim] > start]
        for other in open_pieces:
            if overlap(piece, other):
                return other, piece
        open_pieces.append(piece)
    return None
