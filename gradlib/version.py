"""Versions: of gradlib, and of the CUDA that its CuPy was made for (None without CuPy)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    cuda: str | None

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]


__version__ = "0.1.0"
hip = rocm = xpu = None  # there are no backends of these kinds
debug = False
git_version = "Unknown"


def __getattr__(name: str) -> Any:
    """Which CUDA it is, is looked up when somebody asks."""
    if name != "cuda":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()["cuda"] = _of_cuda()
    return value


def _of_cuda() -> str | None:
    from importlib import metadata  # takes longer to import than most of gradlib

    for major in (13, 12):
        try:
            metadata.version(f"cupy-cuda{major}x")
        except metadata.PackageNotFoundError:
            continue
        return f"{major}.0"
    return None
