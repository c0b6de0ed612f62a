"""Namespaces of PyTorch's switches for libraries; those of libraries that are not used here are read back."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from .._refused import find
from ..devices.cuda import precision
from ..devices.numpy import mkl
from ..tape.switches import switches


class Switches(ModuleType):
    """A module with a fixed set of settings.

    settings: name -> value at the start. Other names raise AttributeError, so that a misspelt switch is noticed.
    heard: is called with the settings as they will be when one of them is changed; it may refuse.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        settings: dict[str, Any],
        functions: dict[str, Any],
        heard: Callable[[dict[str, Any]], None] = lambda settings: None,
    ):
        super().__init__(name, doc)
        self.__dict__["_settings"] = dict(settings)
        self.__dict__["_heard"] = heard
        self.__dict__.update(functions)
        self.__dict__["flags"] = self._flags

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_settings"]:
            return self.__dict__["_settings"][name]
        return find(self.__name__.partition(".")[2], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, ModuleType):  # the import system's
            self.__dict__[name] = value
        elif name in self.__dict__["_settings"]:
            self._heard(self.__dict__["_settings"] | {name: value})
            self.__dict__["_settings"][name] = value
        else:
            known = ", ".join(sorted(self.__dict__["_settings"]))
            raise AttributeError(f"{self.__name__} has no setting '{name}'; it has {known}")

    def set_flags(self, **settings: Any) -> tuple:
        """Change several settings; returns what all of them were."""
        before = tuple(self.__dict__["_settings"].values())
        for name, value in settings.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @contextlib.contextmanager
    def _flags(self, **settings: Any) -> Iterator[None]:
        """Other settings for a block."""
        before = dict(self.__dict__["_settings"])
        try:
            self.set_flags(**settings)
            yield
        finally:
            self.__dict__["_settings"].update(before)
            self._heard(self.__dict__["_settings"])


def _no() -> bool:
    return False


def _hear_cudnn(settings: dict[str, Any]) -> None:
    own = settings["fp32_precision"]
    if own not in ("none", "ieee", "tf32"):
        raise RuntimeError(f"fp32_precision must be 'ieee', 'tf32' or 'none', but got {own!r}")
    allowed = settings["allow_tf32"] if own == "none" else own == "tf32"
    precision.let_convolutions_take_tf32(allowed)
    switches.cudnn, switches.cudnn_deterministic = (
        bool(settings[name]) for name in ("enabled", "deterministic")
    )


def _cudnn() -> Any:
    """The module that calls cuDNN, which looks for the library when it is first asked."""
    return importlib.import_module("..devices.cuda.cudnn", __package__)


def _is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN may compute a convolution of a tensor: it is there and on, and takes the device and the dtype."""
    takes = tensor.device.type == "cuda" and tensor.dtype.np in _cudnn().TYPES
    return bool(takes and switches.cudnn and _cudnn().library() is not None)


CONTENT: dict[str, tuple] = {
    "cudnn": (
        "cuDNN computes convolutions on CUDA where it is found (extras `cudnn12`, `cudnn13`): of half types, and of "
        "float32 in TF32, but for kernels of one element and depthwise ones; the others are kernels of this package "
        "and products of cuBLAS. is_available() and version() say whether the library is found, with or without a "
        "device; enabled = False, or GRADLIB_CUDNN=0 in the environment, does without. deterministic: only algorithms "
        "that give the same bits in every run. allow_tf32, or fp32_precision ('tf32', 'ieee'; 'none': as allow_tf32 "
        "says), lets convolutions of float32 round their inputs to TF32, whoever computes them. benchmark and "
        "benchmark_limit are accepted, without effect: heuristics of the library choose an algorithm, none are tried.",
        {
            "enabled": True, "benchmark": False, "benchmark_limit": 10, "deterministic": False, "allow_tf32": True,
            "fp32_precision": "none",
        },
        {
            "is_available": lambda: _cudnn().library() is not None,
            "version": lambda: _cudnn().version(),
            "is_acceptable": _is_acceptable,
        },
        _hear_cudnn,
    ),
    "mkldnn": (
        "Switches of oneDNN, which is not used. Accepted, without effect.",
        {"enabled": True, "deterministic": False, "allow_tf32": True, "fp32_precision": "none"},
        {"is_available": _no},
    ),
    "mkl": (
        "Intel's oneMKL, which the extra `mkl` installs, computes functions of large CPU arrays where it is "
        "quicker than NumPy; `gradlib.__config__.show()` names them. GRADLIB_MKL=0 in the environment switches it off.",
        {},
        {"is_available": lambda: mkl.library() is not None},
    ),
    "openmp": ("OpenMP is not used.", {}, {"is_available": _no}),
    "mps": (
        "There are no Apple GPUs here.",
        {},
        {"is_available": _no, "is_built": _no, "is_macos_or_newer": lambda major, minor: False},
    ),
    "cpu": ("What the CPU can do.", {}, {"get_cpu_capability": lambda: "DEFAULT"}),
    "opt_einsum": (
        "How einsum orders products of more than two tensors. Accepted; the order is always optimised.",
        {"enabled": True, "strategy": "auto"},
        {"is_available": lambda: True},
    ),
}  # fmt: skip


def register(package: str) -> dict[str, Switches]:
    """Make the modules ``package.cudnn``... importable; returns them by name."""
    made = {name: Switches(f"{package}.{name}", *content) for name, content in CONTENT.items()}
    sys.modules.update({module.__name__: module for module in made.values()})
    return made
