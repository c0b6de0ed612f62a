"""Mixed precision: products in float16 or bfloat16, the rest in float32, and scaling of losses.

with gradlib.autocast("cuda", dtype=gradlib.float16):
    loss = loss_fn(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler, OptState

__all__ = [
    "GradScaler",
    "OptState",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
