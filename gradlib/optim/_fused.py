"""Steps of optimizers on CUDA tensors in one kernel for many parameters (`kernels/optim.cu`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices.cuda.fused.optim import step
from ..tape.arrays import backend_of
from ..tape.modes import shared
from ..tape.storage import before_write, bump
from ..tape.tensor import Tensor

if TYPE_CHECKING:
    from ._elementwise import ElementwiseOptimizer


def fused_step(
    optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor], begin: set[int]
) -> bool:
    """Update parameters, all of which have a gradient; False, with nothing changed, where the kernels do not fit.

    They fit optimizers that name a `kernel`, and real parameters of one dtype on one device whose gradients and state
    lie in memory as they do. ``fused=False`` in the group asks not to use them. `begin`: the ids of parameters whose
    first step this is, if that has settings of its own.
    """
    if optimizer.kernel is None or group.get("differentiable") or group.get("fused") is False:
        return False
    settings = (*group.get("betas", ()), group["weight_decay"])
    if any(isinstance(v, Tensor) for v in settings):  # reading them would wait for the device
        return False
    first = params[0]._array
    xp = backend_of(first)
    if not xp.fuses or len({p.device for p in params}) > 1 or 0 < len(begin) < len(params):
        return False
    if begin:
        group = group | optimizer.beginning
    there = shared.cuda.elsewhere(first) if shared.cuda is not None else None
    if there is not None:
        with there:
            return _run(xp, optimizer, group, params)
    return _run(xp, optimizer, group, params)


def _run(
    xp: Any, optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor]
) -> bool:
    states = [optimizer.init_state(p, group) for p in params]
    if shared.active:
        for p in params:
            before_write(p)
    steps = [s["step"]._array for s in states if "step" in optimizer.scalars(group)]
    on_host = bool(steps) and isinstance(steps[0], np.ndarray)
    if on_host and any(s != steps[0] for s in steps):
        return False
    done = step(
        xp,
        optimizer.kernel or "",
        [p._array for p in params],
        [p._grad._array for p in params],  # type: ignore[union-attr]
        [[s[name]._array for s in states] for name in optimizer.slots(group)],
        float(steps[0]) + 1 if on_host else steps,
        group | {"lr": _rate(group["lr"])},
    )
    if done is NotImplemented:
        return False
    if on_host:
        for count in steps:
            count += 1
    for p in params:
        bump(p)
    return True


def _rate(lr: Any) -> Any:
    """A learning rate for the kernels: a number, or an array on the device."""
    if not isinstance(lr, Tensor):
        return float(lr)
    return lr.item() if isinstance(lr._array, np.ndarray) else lr._array
