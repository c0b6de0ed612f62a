"""Losses of a prediction that is a number: its error, or the likelihood of what was observed."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from ._loss_base import _Loss

__all__ = [
    "GaussianNLLLoss",
    "HuberLoss",
    "L1Loss",
    "MSELoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
]


class L1Loss(_Loss):
    """|input - target|; the gradient where they are equal is 0.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none" keeps the losses apart, "mean" averages them, "sum" adds them up.

    Shape:
        input, target: [...] -> [], or [...] without reduction. Other shapes are broadcast, with a warning.

    Raises:
        RuntimeError: at the call, if the shapes do not broadcast.
        ValueError: at the call, another `reduction`.

    Example:
        >>> nn.L1Loss()(gradlib.zeros(2), gradlib.tensor([1.0, 3.0])).item()
        2.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target) ** 2; arguments, shapes and errors as in `L1Loss`.

    Example:
        >>> nn.MSELoss()(gradlib.zeros(2), gradlib.full((2,), 2.0)).item()
        4.0
        >>> nn.MSELoss(reduction="none")(gradlib.zeros(2), gradlib.tensor([1.0, 3.0])).tolist()
        [1.0, 9.0]
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """e**2 / (2 beta) where |e| < beta, else |e| - beta / 2, with e = input - target.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".
        beta: where the parabola ends; 0 is `L1Loss`.

    Shape:
        input, target: [...] -> [], or [...] without reduction.

    Raises:
        RuntimeError: at the call, if beta is negative.

    Source: R. Girshick, Fast R-CNN, ICCV 2015.

    Example:
        >>> nn.SmoothL1Loss(reduction="none")(gradlib.zeros(2), gradlib.tensor([0.5, 2.0])).tolist()
        [0.125, 1.5]
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """e**2 / 2 where |e| < delta, else delta * (|e| - delta / 2), with e = input - target.

    Args:
        reduction: "none", "mean" or "sum".
        delta: where the parabola ends; positive.

    Shape:
        input, target: [...] -> [], or [...] without reduction.

    Raises:
        TypeError: `delta` is no number.
        RuntimeError: at the call, if it is not positive.

    Source: P. J. Huber, Robust estimation of a location parameter, Ann. Math. Stat. 35 (1964).

    Example:
        >>> nn.HuberLoss("none", delta=2.0)(gradlib.zeros(2), gradlib.tensor([1.0, 3.0])).tolist()
        [0.5, 4.0]
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """rate - target * log(rate): the negative log likelihood of counts; without log(target!).

    Args:
        log_input: the input is the logarithm of the rate, else the rate.
        full: add Stirling's approximation of log(target!) for targets above 1.
        size_average: deprecated, see `reduction`.
        eps: added to the rate in the logarithm, if the input is the rate.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [...], broadcast -> [], or [...] without reduction.

    Example:
        >>> nn.PoissonNLLLoss()(gradlib.zeros(2), gradlib.tensor([1.0, 3.0])).item()
        1.0
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """log_input, target: [...] -> [], or [...] without reduction."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """(log(var) + (input - target)**2 / var) / 2: the negative log likelihood of N(input, var).

    Args:
        full: add log(2 pi) / 2.
        eps: smaller variances are raised to this; they get the gradient of the raised one.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [...] -> [], or [...] without reduction.
        var: [...], or with the last dimension 1 or missing; or a number.

    Raises:
        ValueError: at the call, if a variance is negative, or their shape does not fit.

    Source: D. Nix, A. Weigend, Estimating the mean and variance of the target probability
    distribution, ICNN 1994.

    Example:
        >>> nn.GaussianNLLLoss()(gradlib.zeros(2), gradlib.ones(2), gradlib.ones(2)).item()
        0.5
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """input, target: [...], var: [...] or a number -> [], or [...] without reduction."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )
