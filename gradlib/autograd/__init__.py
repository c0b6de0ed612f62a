"""Automatic differentiation: ``backward``, ``grad`` and everything documented under torch.autograd."""

from ..tape.saved import SavedTensor
from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, variable
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


def __getattr__(name: str):
    """The profiler is imported when it is first used."""
    import importlib

    if name in ("profiler", "profiler_util"):
        return importlib.import_module(f"{__name__}.{name}")
    if name == "kineto_available":
        return importlib.import_module(f"{__name__}.profiler").kineto_available
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
