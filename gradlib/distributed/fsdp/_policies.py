"""What `fully_shard` is told of precision and of where parameters wait."""

from __future__ import annotations

from dataclasses import dataclass

from ...tape.dtypes import dtype

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module that is fully sharded computes; parameters and optimizers keep theirs.

    Args:
        param_dtype: that of the whole parameters, in which forward and backward compute; None for that of the
            parameters.
        reduce_dtype: in which gradients are summed over the ranks; None for that in which they were computed.
        output_dtype: to which floating outputs of forward are cast; None for none.
        cast_forward_inputs: whether floating inputs of forward are cast to `param_dtype`.

    Example::

        fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    """

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    output_dtype: dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters and gradients stay on the device: the base of `CPUOffloadPolicy`."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts of parameters, their gradients and the state of optimizers are in the host's memory.

    They are copied to the device to be put together, and gradients back; the optimizer steps on the CPU.

    Args:
        pin_memory: page-locked memory, from which copies overlap with computing.
    """

    pin_memory: bool = True
