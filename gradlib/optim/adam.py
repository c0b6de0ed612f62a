"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_beta_kinds, check_betas, check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["Adam", "AdamW"]
__getattr__ = refuse(__name__)


class Adam(ElementwiseOptimizer):
    """p <- p - lr * m_hat / (sqrt(v_hat) + eps).

    m and v are moving averages of g and g**2 with rates beta1 and beta2; the hats divide by
    1 - beta**step. With amsgrad the largest v so far is used. Weight decay adds
    weight_decay * p to g, or, decoupled, subtracts lr * weight_decay * p from p.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: (beta1, beta2).
        eps: added to the denominator.
        weight_decay: coefficient of the penalty.
        amsgrad: use the largest v so far.
        foreach: accepted; small tensors are always updated together.
        maximize: follow the gradient upwards.
        capturable: keep the step count on the device, so that the step can be captured.
        differentiable: record the step, so that gradients flow through it.
        fused: accepted.
        decoupled_weight_decay: decay p itself, as AdamW does.

    Raises:
        ValueError: a setting outside of its range.

    Source: D. Kingma, J. Ba, Adam, ICLR 2015; S. Reddi et al., On the convergence of Adam and
    beyond, ICLR 2018.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.Adam([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9
    """

    kernel = "adam"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        check_beta_kinds(betas, foreach, capturable)
        names = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable "
            "differentiable fused decoupled_weight_decay"
        )
        super().__init__(params, chosen(locals(), names))

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """m, v, and the largest v with amsgrad."""
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """The bias corrections are folded into eps and the step size."""
        beta1, beta2 = o["betas"]
        step = counters["step"]
        root = (1 - beta2**step) ** 0.5
        size = o["lr"] / (1 - beta1**step) * root
        return {"beta1": beta1, "beta2": beta2, "eps": o["eps"] * root, "size": size}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class; m is moved by (g - m) * (1 - beta1)."""
        new = averages(h, g, s)
        v = new["exp_avg_sq"]
        if "max_exp_avg_sq" in s:
            v = new["max_exp_avg_sq"] = F.maximum(s["max_exp_avg_sq"], v)
        return new["exp_avg"] / (F.sqrt(v) + h.eps) * h.size, new


def averages(h: Any, g: Any, s: dict[str, Any]) -> dict[str, Any]:
    """The moving averages of g and g**2, as every variant of Adam has them."""
    m, v = s["exp_avg"], s["exp_avg_sq"]
    return {
        "exp_avg": m + (g - m) * (1 - h.beta1),
        "exp_avg_sq": g * g * (1 - h.beta2) + v * h.beta2,
    }


class AdamW(Adam):
    """Adam with decoupled weight decay: p also shrinks by lr * weight_decay * p.

    Arguments and errors as in `Adam`.

    Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, ICLR 2019.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.AdamW([w], lr=0.1, weight_decay=0.5)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.85
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        names = (
            "params lr betas eps weight_decay amsgrad foreach maximize capturable "
            "differentiable fused"
        )
        super().__init__(**chosen(locals(), names), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
