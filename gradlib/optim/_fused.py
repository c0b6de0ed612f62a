"""Steps of optimizers on CUDA tensors in one kernel for many parameters (`kernels/optim.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.devices.cuda.fused.optim import adam, sgd
from gradlib.tape.arrays import backend_of
from gradlib.tape.modes import shared
from gradlib.tape.storage import before_write
from gradlib.tape.tensor import Tensor, bump_version


def fused_step(optimizer: Any, group: dict[str, Any], params: list[Tensor]) -> bool:
    """Update parameters, all of which have a gradient; False, with nothing changed, where the kernels do not fit.

    They fit optimizers that name a `fused_rule` ("adam" or "sgd"), and real parameters of one dtype on one device
    whose gradients and state lie in memory as they do. ``fused=False`` in the group asks not to use them.
    """
    rule = RULES.get(optimizer.fused_rule)
    if rule is None or group.get("differentiable") or group.get("fused") is False:
        return False
    settings = (*group.get("betas", ()), group["weight_decay"])
    if any(
        isinstance(value, Tensor) for value in settings
    ):  # reading them would wait for the device
        return False
    first = params[0]._array
    xp = backend_of(first)
    if not xp.fuses or len({p.device for p in params}) > 1:
        return False
    there = shared.cuda.elsewhere(first) if shared.cuda is not None else None
    if there is not None:
        with there:
            return _run(rule, xp, optimizer, group, params)
    return _run(rule, xp, optimizer, group, params)


def _run(rule: Any, xp: Any, optimizer: Any, group: dict[str, Any], params: list[Tensor]) -> bool:
    states = [optimizer.init_state(p, group) for p in params]
    if shared.active:
        for p in params:
            before_write(p)
    if rule(xp, group, params, states) is NotImplemented:
        return False
    for p in params:
        bump_version(p)
    return True


def _arrays(tensors: list[Any]) -> list[Any]:
    return [t._array for t in tensors]


def _grads(params: list[Tensor]) -> list[Any]:
    return [p._grad._array for p in params]  # type: ignore[union-attr]


def _rate(lr: Any) -> Any:
    """A learning rate for the kernels: a number, or an array on the device."""
    if not isinstance(lr, Tensor):
        return float(lr)
    return lr.item() if isinstance(lr._array, np.ndarray) else lr._array


def _adam(xp: Any, group: dict[str, Any], params: list[Tensor], states: list[dict]) -> Any:

    steps = [s["step"]._array for s in states]
    on_host = isinstance(steps[0], np.ndarray)
    if on_host and any(s != steps[0] for s in steps):
        return NotImplemented
    beta1, beta2 = (float(b) for b in group["betas"])
    done = adam(
        xp,
        _arrays(params),
        _grads(params),
        _arrays([s["exp_avg"] for s in states]),
        _arrays([s["exp_avg_sq"] for s in states]),
        _arrays([s["max_exp_avg_sq"] for s in states]) if group["amsgrad"] else None,
        float(steps[0]) + 1 if on_host else steps,
        lr=_rate(group["lr"]),
        beta1=beta1,
        beta2=beta2,
        eps=float(group["eps"]),
        weight_decay=float(group["weight_decay"]),
        decoupled=bool(group.get("decoupled_weight_decay")),
        maximize=bool(group["maximize"]),
    )
    if on_host and done is not NotImplemented:
        for step in steps:
            step += 1
    return done


def _sgd(xp: Any, group: dict[str, Any], params: list[Tensor], states: list[dict]) -> Any:

    momentum = float(group["momentum"])
    return sgd(
        xp,
        _arrays(params),
        _grads(params),
        _arrays([s["momentum_buffer"] for s in states]) if momentum else None,
        lr=_rate(group["lr"]),
        momentum=momentum,
        dampening=float(group["dampening"]),
        weight_decay=float(group["weight_decay"]),
        nesterov=bool(group["nesterov"]),
        maximize=bool(group["maximize"]),
    )


RULES: dict[Any, Any] = {"adam": _adam, "sgd": _sgd}
