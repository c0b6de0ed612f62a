"""``distributed.fsdp.api``: what `FullyShardedDataParallel` is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...tape.dtypes import dtype

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """What the ranks keep parts of.

    FULL_SHARD: parameters, gradients and optimizer state, as ``fully_shard(reshard_after_forward=True)``.
    SHARD_GRAD_OP: the same, but parameters stay whole from forward to backward.
    HYBRID_SHARD, _HYBRID_SHARD_ZERO2: these two over the second dimension of a mesh, with replicas along the first.
    NO_SHARD: nothing; refused, it is DistributedDataParallel.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When backward begins to gather the next module's parameters.

    BACKWARD_PRE: before this one's gradients are computed, as always here.
    BACKWARD_POST: after them; accepted.
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What ``state_dict()`` gives.

    FULL_STATE_DICT: whole tensors.
    SHARDED_STATE_DICT: this rank's parts, as DTensors.
    LOCAL_STATE_DICT: flat parts; refused.
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class MixedPrecision:
    """In which dtypes a module computes; see `MixedPrecisionPolicy`.

    Args:
        param_dtype: that of the whole parameters.
        reduce_dtype: in which gradients are summed; None for `param_dtype`.
        buffer_dtype: that of floating buffers.
        keep_low_precision_grads: not supported: gradients have the dtype of the parameters.
        cast_forward_inputs: cast floating inputs of each wrapped module.
        cast_root_forward_inputs: cast those of the outermost one.
    """

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    buffer_dtype: dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Where parts are kept; see `CPUOffloadPolicy`.

    Args:
        offload_params: keep parameters and their gradients in the host's memory.
    """

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a state_dict is made.

    Args:
        offload_to_cpu: move its tensors to the CPU.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """How a state_dict of whole tensors is made.

    Args:
        offload_to_cpu: move its tensors to the CPU.
        rank0_only: give other ranks an empty one.
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Of a kind that is refused."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How a state_dict of parts is made.

    Args:
        offload_to_cpu: move its tensors to the CPU.
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How the state_dict of an optimizer is made.

    Args:
        offload_to_cpu: move its tensors to the CPU.
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How a state_dict of whole tensors is made for an optimizer.

    Args:
        offload_to_cpu: move its tensors to the CPU.
        rank0_only: give other ranks an empty one.
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Of a kind that is refused."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How a state_dict of parts is made for an optimizer.

    Args:
        offload_to_cpu: move its tensors to the CPU.
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A kind of state_dict, and how it is made.

    Args:
        state_dict_type: whole tensors or parts.
        state_dict_config: how that of a model is made.
        optim_state_dict_config: how that of an optimizer is made.
    """

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
