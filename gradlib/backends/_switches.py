"""Namespaces of PyTorch's switches for libraries that are not used here: they are accepted and read back.

`cudnn.allow_tf32` says how convolutions are computed, whoever computes them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from .._refused import find
from ..devices.cuda import precision
from ..devices.numpy import mkl


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


def _nothing() -> None:
    return None


def _hear_cudnn(settings: dict[str, Any]) -> None:
    own = settings["fp32_precision"]
    if own not in ("none", "ieee", "tf32"):
        raise RuntimeError(f"fp32_precision must be 'ieee', 'tf32' or 'none', but got {own!r}")
    allowed = settings["allow_tf32"] if own == "none" else own == "tf32"
    precision.let_convolutions_take_tf32(allowed)


CONTENT: dict[str, tuple] = {
    "cudnn": (
        "Switches of cuDNN, which is not used: convolutions are kernels of this package and products of cuBLAS. "
        "allow_tf32, or fp32_precision ('tf32', 'ieee'; 'none': as allow_tf32 says), lets convolutions of float32 "
        "round their inputs to TF32; the others are accepted, without effect.",
        {
            "enabled": True, "benchmark": False, "benchmark_limit": 10, "deterministic": False, "allow_tf32": True,
            "fp32_precision": "none",
        },
        {"is_available": _no, "version": _nothing, "is_acceptable": lambda tensor: False},
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
