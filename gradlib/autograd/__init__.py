"""Automatic differentiation: ``backward``, ``grad`` and everything documented under torch.autograd."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..tape import handed, override
from ..tape.saved import SavedTensor
from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .differentiate import backward, grad
from .explain import explain, saved_report
from .function import Function, NestedIOFunction
from .grad_mode import (
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck  # the function takes the place of its module

if TYPE_CHECKING:
    from . import variable
    from .variable import Variable

__all__ = [
    "Function",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "explain",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "saved_report",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

override.overridable({"__name__": __name__, "grad": grad, "backward": backward})
handed.later(
    "gradlib.autograd._function_vmap",  # which brings gradlib.func: inside vmap, or by batched gradients
    "watched_entries",
    function_on_batch="call",
)


def __getattr__(name: str) -> Any:
    """The profiler, and the old name of Tensor, are imported when they are first used."""
    if name in ("profiler", "profiler_util", "variable"):
        return importlib.import_module(f"{__name__}.{name}")
    if name == "kineto_available":
        return importlib.import_module(f"{__name__}.profiler").kineto_available
    if name == "Variable":
        return importlib.import_module(f"{__name__}.variable").Variable
    return importlib.import_module("gradlib._refused").find("autograd", name)
