"""The names that parameters have whatever wraps the model, and whole tensors of pieces and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...nn import parallel
from ...nn.modules.module import Module
from ...tape.tensor import Tensor
from ._ranks import Ranks
from ._shards import chunks, coordinate, is_sharded, is_tensor, local, overlap, place
from .metadata import ChunkStorageMetadata

__all__ = ["Names", "cut_into", "shared_out", "whole"]

# wrappers that keep the module they wrap under a name that nobody else takes
WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


class Names:
    """Both names of everything in a model: as the model is, and as it would be without wrappers.

    `inner` gives the name in `model.state_dict()` of a plain name, `plain` the other way.
    """

    def __init__(self, model: Module):
        self.model = model
        self.prefixes = {"": ""}  # of modules
        for name, module in model.named_modules(remove_duplicate=False):
            prefix = self.prefixes.get(name)
            if prefix is None:
                continue
            for child in module._modules:
                if child in WRAPPED or (_is_ddp(module) and child == "module"):
                    below = prefix
                else:
                    below = f"{prefix}.{child}" if prefix else child
                self.prefixes[f"{name}.{child}" if name else child] = below

    def plain(self, name: str) -> str:
        """The name without wrappers of an entry of `model.state_dict()`, or of a parameter."""
        module, _, last = name.rpartition(".")
        prefix = self.prefixes.get(module)
        if prefix is None:  # hooks of the model give names of their own
            return ".".join(part for part in name.split(".") if part not in WRAPPED)
        return f"{prefix}.{last}" if prefix else last

    def inner(self) -> dict[str, str]:
        """plain name -> name in `model.state_dict()`."""
        return {self.plain(name): name for name in self.model.state_dict(keep_vars=True)}

    def of_parameters(self) -> dict[Tensor, list[str]]:
        """The plain names of each parameter: several, if it is shared."""
        found: dict[Tensor, list[str]] = {}
        for name, p in self.model.named_parameters(remove_duplicate=False):
            found.setdefault(p, []).append(self.plain(name))
        return found


def _is_ddp(module: Module) -> bool:
    return isinstance(module, parallel.DistributedDataParallel | parallel.DataParallel)


# -- whole tensors and pieces ----------------------------------------------------------------------------------------


def whole(value: Any, full: bool, to_host: bool) -> Any:
    """A state with whole tensors in place of pieces, on the host; dicts, lists and tuples are made anew.

    Every process calls it, in one order: pieces are gathered.
    """
    if isinstance(value, Mapping):
        return {key: whole(inner, full, to_host) for key, inner in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(whole(inner, full, to_host) for inner in value)
    if not is_tensor(value):
        return value
    tensor: Any = value
    if full and is_sharded(tensor):
        tensor = tensor.full_tensor()
    return tensor.detach().cpu() if to_host else tensor.detach()


def shared_out(state: Mapping[str, Any], ranks: Ranks, names: list[str]) -> dict[str, Any]:
    """What the first process has of each name, one after the other. A name that it lacks is left out."""
    have = set(ranks.broadcast([name for name in names if name in state]))
    found: dict[str, Any] = {}
    for name in names:
        if name in have:
            value = state.get(name)
            if ranks.is_coordinator and isinstance(value, Tensor):
                value = value.detach().cpu()
            found[name] = ranks.broadcast(value)
    return found


def cut_into(name: str, target: Any, value: Any) -> Any:
    """Write the part of a whole tensor that a piece is into that piece; gives the target.

    ValueError for another shape.
    """
    if tuple(value.shape) != tuple(target.shape):
        raise ValueError(
            f"'{name}' has the shape {tuple(value.shape)} in the state dict, but {tuple(target.shape)} here"
        )
    if coordinate(target) is None:
        return target
    everything = ChunkStorageMetadata(type(value.shape)([0] * value.ndim), value.shape)
    [here] = (
        chunks(name, target) if hasattr(target, "__create_chunk_list__") else [place(name, target)]
    )
    shared = overlap(everything, here)
    if shared is not None:
        for dim, (start, length) in enumerate(zip(shared[0], shared[2])):
            value = value.narrow(dim, start, length)
        local(target).copy_(value)
    return target
