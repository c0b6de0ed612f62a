"""``distributed.fsdp.sharded_grad_scaler``: scaling of losses where gradients are in parts."""

from __future__ import annotations

from typing import Any

from ...amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` under the name that programs with `FullyShardedDataParallel` use.

    Gradients are DTensors, so that what one rank finds all ranks know: they skip the same steps.

    Args:
        device: "cuda" or "cpu".
        init_scale, backoff_factor, growth_factor, growth_interval, enabled: as of `GradScaler`.
        process_group: accepted: the gradients know their ranks.

    Example::

        scaler = ShardedGradScaler()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device,
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
