"""The state that an optimizer has before its first step.

A load needs tensors to load into, and an optimizer makes them in its first step only. PyTorch takes a step with
gradients of zero for that, and leaves its traces: a counter of 1, step sizes of a learning rate of 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...optim._elementwise import ElementwiseOptimizer
from ...optim.optimizer import Optimizer
from ...tape.tensor import Tensor

__all__ = ["fill_in", "filled_in"]


@contextmanager
def filled_in(optimizer: Optimizer) -> Iterator[None]:
    """The state an optimizer will begin with is there; one that has not begun yet is left as it was."""
    fresh = not optimizer.state
    if fresh:
        fill_in(optimizer)
    try:
        yield
    finally:
        if fresh:
            optimizer.state.clear()


def fill_in(optimizer: Optimizer) -> None:
    """Make the state of an optimizer that has none yet; of some it cannot be known before their first step."""
    if optimizer.state:
        return
    if isinstance(optimizer, ElementwiseOptimizer):
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    optimizer.init_state(p, group)
        return
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        return  # it needs the loss: its state is no tensors of the parameters' shapes
    _step_on_zeros(optimizer)


def _step_on_zeros(optimizer: Optimizer) -> None:
    """A step that changes no parameter, with its count taken back."""
    params = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    grads = [p.grad for p in params]
    rates = [group.get("lr") for group in optimizer.param_groups]
    try:
        for p in params:
            p.grad = p.new_zeros(p.shape)
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is not None:
                group["lr"] = rate * 0
        with no_grad():
            optimizer.step()
    except RuntimeError:  # of those that want sparse gradients, or something else
        optimizer.state.clear()
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is not None:
                group["lr"] = rate
        for p, grad in zip(params, grads):
            p.grad = grad
    for state in optimizer.state.values():
        if "step" in state:
            state["step"] = _zero(state["step"])


def _zero(count: Any) -> Any:
    return count.detach().zero_() if isinstance(count, Tensor) else type(count)(0)
