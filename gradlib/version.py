"""Versions: of gradlib, and of the CUDA that its CuPy was made for (None without CuPy)."""

from __future__ import annotations

from importlib import metadata

from . import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]


def _of_cuda() -> str | None:
    for major in (13, 12):
        try:
            metadata.version(f"cupy-cuda{major}x")
        except metadata.PackageNotFoundError:
            continue
        return f"{major}.0"
    return None


cuda = _of_cuda()
hip = xpu = None  # there are no backends of these kinds
debug = False
git_version = "Unknown"
