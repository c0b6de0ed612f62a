"""Communication hooks: how DistributedDataParallel reduces a bucket of gradients."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from ...._refused import refuse
from . import debugging_hooks as debugging
from . import default_hooks as default
from . import powerSGD_hook as powerSGD
from .quantization_hooks import quantization_perchannel_hook, quantization_pertensor_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]
__getattr__ = refuse(__name__)


def _plain(hook: Callable[..., Any], model: Any, state: Any) -> None:
    model.register_comm_hook(state, hook)


def _power_sgd(hook: Callable[..., Any], rank: int, model: Any, state: Any) -> None:
    settings = powerSGD.PowerSGDState(process_group=state, matrix_approximation_rank=rank)
    model.register_comm_hook(settings, hook)


class DDPCommHookType(Enum):
    """Communication hooks by name.

    The value of a member is a function of ``model`` and ``state`` that registers it.

    Example::

        DDPCommHookType.FP16_COMPRESS.value(model=model, state=None)
    """

    ALLREDUCE = partial(_plain, default.allreduce_hook)
    FP16_COMPRESS = partial(_plain, default.fp16_compress_hook)
    BF16_COMPRESS = partial(_plain, default.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = partial(_plain, quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = partial(_plain, quantization_perchannel_hook)
    POWER_SGD = partial(_power_sgd, powerSGD.powerSGD_hook, 1)
    POWER_SGD_RANK2 = partial(_power_sgd, powerSGD.powerSGD_hook, 2)
    BATCHED_POWER_SGD = partial(_power_sgd, powerSGD.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = partial(_power_sgd, powerSGD.batched_powerSGD_hook, 2)
    NOOP = partial(_plain, debugging.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Let a model reduce its gradients by one of the hooks that have a name.

    Args:
        comm_hook_type: which.
        model: a DistributedDataParallel.
        state: given to the hook: the ProcessGroup to reduce over, or None for that of all ranks.

    Example::

        register_ddp_comm_hook(DDPCommHookType.POWER_SGD, model, model.process_group)
    """
    comm_hook_type.value(model=model, state=state)
