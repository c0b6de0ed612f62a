"""Selective checkpointing: a policy says of each op of a checkpointed part whether its result is kept.

Two interposers see the ops: one in the first run, which keeps the raw results that the policy wants, one in the second,
which hands them out in place of running the kernel. The op is recorded in either run, so that the saved tensors of both
runs correspond. They are asked after autocast, as PyTorch's dispatch modes are.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..op import interpret
from ..op.tangents import any_tangent
from ..ops import aten
from ..tape.modes import FORWARD_AD, state
from ..tape.storage import share
from ._watching import Watching, execute

RECOMPUTE, CONSUMED = object(), object()
MUTATED = "Tensor cached during selective activation checkpoint has been mutated"
AGAIN = (
    "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective "
    "activation checkpoint."
)
MISSING = (
    "{} {}encountered during backward but not found in storage. Both runs must call the same ops."
)


class SelectiveCheckpointContext:
    """What a policy is told beside the op: the `ctx` of ``policy(ctx, op, *args)``.

    Attributes:
        is_recompute: whether this is the second run.
        op_output: the result of the op, where it is known.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class CheckpointPolicy(enum.Enum):
    """What is to be done with the result of an op. The MUST and PREFER forms act alike.

    Offloading to the CPU is not done: such results are computed again.

    Example:
        >>> def policy(ctx, op, *args, **kwargs):
        ...     return CheckpointPolicy.MUST_SAVE if op == gradlib.mm else CheckpointPolicy.PREFER_RECOMPUTE
        >>> context_fn = lambda: create_selective_checkpoint_contexts(policy)
        >>> x = gradlib.ones(2, 2, requires_grad=True)
        >>> checkpoint(lambda x: gradlib.mm(x, x).exp(), x, use_reentrant=False, context_fn=context_fn).sum().backward()
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
SAC_IGNORED_OPS = {aten.operator(name) for name in ("detach", "dim", "numel", "size", "stride")}


class Entry:
    """The kept result of one call: raw arrays, hidden values, and the storages with their versions."""

    __slots__ = ("hidden", "raw", "storages")

    def __init__(self, raw: Any, hidden: tuple, out: Any):
        self.raw, self.hidden = raw, hidden
        outs = out if isinstance(out, tuple) else (out,)
        self.storages = [(s, s.version) for s in map(share, outs)]

    def mutated(self) -> bool:
        return any(storage.version != version for storage, version in self.storages)


class _Counting(Watching):
    def __enter__(self):
        self.calls: dict = defaultdict(int)
        return super().__enter__()

    def number(self, operator) -> int:
        """How many calls of `operator` there were before this one."""
        self.calls[operator] += 1
        return self.calls[operator] - 1


def _keepable(op, args: tuple) -> bool:
    """Whether the result is an array of its own that only the kernel makes."""

    return not op.view and not (
        state.bits & FORWARD_AD and any_tangent(args[0] if op.variadic else args)
    )


class Caching(_Counting):
    """The first run: asks the policy about each result."""

    def __init__(self, policy: Callable, storage: dict):
        self.policy, self.storage = policy, storage

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None) -> Any:
        found: Any = None

        def keeping(*call):
            nonlocal found
            found = (compute or interpret.compute_raw)(*call)
            return found

        if _keepable(op, args):
            out = execute(op, args, attrs, keeping)
        else:
            out = proceed()
        operator = aten.of_call(op, args)
        saves = self.decide(operator, out, args, attrs)
        entry = Entry(found[0], found[1], out) if saves and found else RECOMPUTE
        self.storage[operator][self.number(operator)] = entry
        return out

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        out = proceed()
        args = (tensor, *others)
        self.decide(aten.of_call(op, args, inplace=True), out, args, attrs)
        return out

    def decide(self, operator, out, args: tuple, attrs: tuple) -> bool:
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = self.policy(context, operator, *args, *attrs)
        return policy if isinstance(policy, bool) else policy in SAVE


class Cached(_Counting):
    """The second run: hands out what was kept."""

    def __init__(self, storage: dict, allow_mutation: bool):
        self.storage, self.allow_mutation = storage, allow_mutation

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None) -> Any:
        operator = aten.of_call(op, args)
        entries, number = self.storage.get(operator), self.number(operator)
        if entries is None:
            raise RuntimeError(MISSING.format(operator, ""))
        if number not in entries:
            raise RuntimeError(MISSING.format(operator, f"invocation index {number} "))
        entry = entries[number]
        if entry is RECOMPUTE:
            return proceed() if compute is None else execute(op, args, attrs, compute)
        if entry is CONSUMED:
            raise RuntimeError(AGAIN)
        if not self.allow_mutation and entry.mutated():
            raise RuntimeError(MUTATED)
        if op.saved_results:
            entries[number] = CONSUMED
        out = execute(op, args, attrs, lambda *call: (entry.raw, entry.hidden))
        entries[number] = CONSUMED  # not if the run ended with the saving of the op's arguments
        return out

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        return proceed()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable | list, allow_cache_entry_mutation: bool = False
) -> tuple[Caching, Cached]:
    """The two contexts with which :func:`checkpoint` keeps the results of some ops: its ``context_fn`` returns them.

    Args:
        policy_fn_or_list: the ops whose results are kept, as ``gradlib.ops.aten.mm.default`` or as public functions
            (``gradlib.mm``); or a function ``policy(ctx, op, *args)`` that returns a :class:`CheckpointPolicy` (or
            whether to keep), given an `op` that is equal to either, and its arguments.
        allow_cache_entry_mutation: hand out kept results that were changed in place, instead of RuntimeError.

    Views are always made again, and so are in-place changes; the policy is asked about them all the same.

    Example:
        >>> def context_fn():
        ...     return create_selective_checkpoint_contexts([gradlib.ops.aten.mm.default])
        >>> y = checkpoint(f, x, use_reentrant=False, context_fn=context_fn)
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if isinstance(op, aten.Packet) or not (isinstance(op, aten.Operator) or callable(op)):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, aten.Packet)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {hint}"
                )

        def policy(ctx, op, *args):
            return op in policy_fn_or_list
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict = defaultdict(dict)
    return Caching(policy, storage), Cached(storage, allow_cache_entry_mutation)
