"""Averages of models: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from ..autograd.grad_mode import no_grad
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from ._lr_base import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """The exponential moving average decay * old + (1 - decay) * new, of one tensor.

    Args:
        decay: 0 to 1.

    Returns:
        A function (old, new, count) -> Tensor, for `AveragedModel`.

    Raises:
        ValueError: `decay` is outside of [0, 1].

    Example:
        >>> get_ema_avg_fn(0.75)(gradlib.ones(1), gradlib.zeros(1), 1).item()
        0.75
    """
    _check_decay(decay)

    def update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The plain average of all models so far: old + (new - old) / (count + 1), of one tensor.

    Returns:
        A function (old, new, count) -> Tensor, for `AveragedModel`.

    Example:
        >>> get_swa_avg_fn()(gradlib.ones(1), gradlib.full((1,), 3.0), 1).item()
        2.0
    """

    def update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return update


def _multi(one: Callable[..., Tensor]) -> Callable[..., None]:
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for old, new in zip(averaged, current):
                old.copy_(one(old, new, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """`get_ema_avg_fn` of lists of tensors, in place.

    Args:
        decay: 0 to 1.

    Returns:
        A function (old ones, new ones, count) -> None, for `AveragedModel`.

    Raises:
        ValueError: `decay` is outside of [0, 1].

    Example:
        >>> average = AveragedModel(nn.Linear(2, 2), multi_avg_fn=get_ema_multi_avg_fn(0.99))
    """
    return _multi(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """`get_swa_avg_fn` of lists of tensors, in place.

    Returns:
        A function (old ones, new ones, count) -> None, for `AveragedModel`.

    Example:
        >>> old = [gradlib.ones(1)]
        >>> get_swa_multi_avg_fn()(old, [gradlib.full((1,), 3.0)], 1)
        >>> old[0].item()
        2.0
    """
    return _multi(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: what is copied.
        device: of the copy; the model's by default.
        avg_fn: (averaged, current, count) to the new average; the plain average by default.
        multi_avg_fn: the same on lists, in place.
        use_buffers: also average the buffers; else they are copied.

    Attributes:
        n_averaged: buffer [], int64: how many models are in the average.

    Raises:
        AssertionError: both functions are given.

    Source: P. Izmailov et al., Averaging weights leads to wider optima and better
    generalization, UAI 2018.

    Example:
        >>> model = gradlib.nn.Linear(2, 2)
        >>> average = AveragedModel(model)
        >>> average.update_parameters(model)
        >>> int(average.n_averaged)
        1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy of the model returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average; the first ones are copied.

        Args:
            model: of the class and shapes of that which was copied.

        Example:
            >>> model = gradlib.nn.Linear(1, 1, bias=False)
            >>> average = AveragedModel(model)
            >>> for value in (1.0, 3.0):
            ...     _ = model.weight.data.fill_(value)
            ...     average.update_parameters(model)
            >>> average.module.weight.item()
            2.0
        """

        def tensors(m: Module) -> list[Tensor]:
            if self.use_buffers:
                return list(itertools.chain(m.parameters(), m.buffers()))
            return list(m.parameters())

        averaged = [t.detach() for t in tensors(self.module)]
        current = [t.detach().to(a.device) for t, a in zip(tensors(model), averaged)]
        if int(self.n_averaged) == 0:
            for old, new in zip(averaged, current):
                old.copy_(new)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averaged, current, self.n_averaged)
        else:
            one = self.avg_fn if self.avg_fn is not None else get_swa_avg_fn()
            for old, new in zip(averaged, current):
                old.copy_(one(old, new, self.n_averaged))
        if not self.use_buffers:
            for old, new in zip(self.module.buffers(), model.buffers()):
                old.detach().copy_(new.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch norms of `model` over one pass of `loader`.

    An averaged model has statistics of none of the models in it. They become plain averages over
    the batches.

    Args:
        loader: gives batches; of a tuple or list the first element is the input.
        model: what is called, in training mode, without recording.
        device: that inputs are moved to.

    Example:
        >>> model = gradlib.nn.BatchNorm1d(1)
        >>> update_bn([gradlib.full((4, 1), 2.0)], model)
        >>> model.running_mean.tolist()
        [2.0]
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """lr goes to `swa_lr` in `anneal_epochs` epochs, along half a cosine or a line, and stays there.

    Args:
        optimizer: whose learning rates are set.
        swa_lr: one value or one per group.
        anneal_epochs: epochs.
        anneal_strategy: "cos" or "linear".
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: another strategy, or `anneal_epochs` is no integer or negative.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = SWALR(opt, 0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> lrs = []
        >>> for epoch in range(4):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        if self._anneal_strategy == "cos":
            return (1 - math.cos(math.pi * t)) / 2
        return t

    def get_lr(self) -> list[Any]:
        """The learning rates of this epoch, from those of the epoch before."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0.0, min(1.0, (step - 1) / max(1, self.anneal_epochs))))
        now = self._share(max(0.0, min(1.0, step / max(1, self.anneal_epochs))))
        lrs = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            lrs.append(goal * now + start * (1 - now))
        return lrs
