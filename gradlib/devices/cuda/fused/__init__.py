"""The overlays on CUDA (see `gradlib.op.overlays`), one module for each family of kernels."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ....op.overlays import on

MODULES = (
    "attention", "batch_norm", "cast", "conv", "cross_entropy", "dropout", "embedding", "im2col", "linear", "norm",
    "optim", "pointwise", "pool", "recurrent", "reduce", "scatter", "softmax", "sparse", "words",
)  # fmt: skip
forward, vjp = on("cuda")


def load() -> None:
    """Import every module, which registers its overlays."""
    for name in MODULES:
        import_module(f"{__name__}.{name}")


def generate(what: str, op: Any) -> Any:
    """The overlay of an elementwise op without one of its own, made of its formula; or None."""
    return import_module(f"{__name__}.pointwise").overlay(what, op)


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
