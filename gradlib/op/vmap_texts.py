"""What vmap says, what the rule of a custom Function is told, and how random numbers repeat; see `vmap.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

WRITE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being "
    "called inside the PyTorch framework, please file a bug report instead."
)
RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
SHAPES = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please "
    "file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
)
PLACES = (
    "vmap: {} counts places in memory, but an entry of the batch lies in the memory of all entries where vmap runs "
    "entry by entry. Please clone() it first."
)
OUTSIDE = "vmap: {} from place {} to {} reaches beyond the memory of one entry of the batch."
MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with "
    "a boolean mask."
)
TWO_RULES = (
    "You tried to vmap over {}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please "
    "set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
    "please see https://pytorch.org/docs/main/notes/extending.func.html"
)
NO_RULE = (
    "You tried to vmap over {}, but it does not have vmap support. Please override and implement the vmap staticmethod "
    "or set generate_vmap_rule=True. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
TWO_RETURNS = (
    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
    "the output. Got {} instead"
)
NO_MATCH = (
    "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
    "out_dims={} to be compatible with the structure of `output`. out_dims has structure {} but output has structure "
    "{}. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
)
CAPTURED = (
    "vmap: a tensor that the function closes over is written with one whose gradient is asked for inside of vmap. "
    "Please write to a tensor that the function makes."
)
NO_SETUP = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
    "the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
UNBATCHED_DRAW = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
    "If this is necessary for your usage, please file an issue with functorch."
)
UNSEEN_DRAW = (
    "vmap: a random operation that is not declared as one was called with randomness='different'; please call it "
    "outside of vmap"
)
VALUES = "vmap: {} asks for the values of a tensor of the batch, and has no batching rule"
RESIZE = "vmap: resize_ of a tensor of the batch would resize the memory of all entries. Please clone() it first."


class VmapInfo(NamedTuple):
    """What the vmap rule of a custom Function is told: the size of the batch, and the randomness mode."""

    batch_size: int
    randomness: str


class Replay:
    """Random numbers that start over: each part of a run that calls `restart` draws what the first part drew."""

    __slots__ = ("first", "outer", "seen")

    def __init__(self, outer: Replay | None):
        self.outer = outer
        self.first: dict[Any, Any] = {}  # generator -> its state when it was first drawn from
        self.seen: set[Any] = set()

    def restart(self) -> None:
        self.seen.clear()

    def before_draw(self, generator: Any) -> None:
        if self.outer is not None:
            self.outer.before_draw(generator)
        if generator in self.seen:
            return
        self.seen.add(generator)
        if generator in self.first:
            generator.set_state(self.first[generator])
        else:
            self.first[generator] = generator.get_state()


SPARSE = "vmap is not implemented for batches of tensors of layout {}, nor for such results: use .to_dense() first"
NO_BATCHES = "vmap: {} would have values at other places for each entry, and sparse tensors have no batches: use {}"
