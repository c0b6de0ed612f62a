"""Checks of constructor arguments that several optimizers share."""

from __future__ import annotations

from typing import Any

from ..tape.tensor import Tensor


def chosen(given: dict[str, Any], names: str) -> dict[str, Any]:
    """The settings `names` of what a constructor was given, its locals(), in the order of `names`."""
    return {name: given[name] for name in names.split()}


def check_lr(lr: Any, foreach: bool | None = False, capturable: bool = False) -> None:
    """A learning rate is a number or a tensor with one element, not negative."""
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    check_one_element(lr)
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_one_element(lr: Any) -> None:
    """A learning rate that is a tensor has one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_nonnegative(**settings: Any) -> None:
    """Most settings must not be negative."""
    for name, value in settings.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name} value: {value}")


def check_least(name: str, value: Any, least: int = 0) -> None:
    """The same with the text of the newer optimizers."""
    if not value >= float(least):
        raise ValueError(f"{name} should be >= {least} but is: {value}")


def check_betas(betas: Any) -> None:
    """Decay rates of averages are in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_beta_kinds(betas: Any, foreach: bool | None, capturable: bool) -> None:
    """Decay rates are all numbers, or all tensors with one element."""
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if len(set(tensors)) > 1:
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if not isinstance(beta, Tensor):
            continue
        if foreach and not capturable:
            raise ValueError(
                f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")


def check_fused(p: Tensor) -> None:
    """Fused steps are for parameters that are floating."""
    if not p.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"['cuda', 'cpu'] but {p.dtype} and {p.device.type}"
        )


def check_flags(settings: dict[str, Any]) -> None:
    """Flags that exclude each other."""
    if settings.get("fused"):
        if settings["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if settings["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
