"""How this gradlib computes, as text: ``torch.__config__``."""

from __future__ import annotations

import os
import platform

import numpy as np

from .devices.numpy import compiled, mkl, overlays, threads
from .tape.settings import get_num_interop_threads, get_num_threads
from .version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What computes here: versions, the BLAS of NumPy, and PyTorch's words for what there is not.

    Example:
        >>> "USE_MKL=" in gradlib.__config__.show()  # ON: oneMKL is loaded, and computes what a line above names
        True
    """
    blas = np.show_config(mode="dicts") or {}
    name = blas.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown")
    if kernels := threads.kernels():
        pinned = os.environ.get("OPENBLAS_CORETYPE")  # older ones take several times as long
        name += f", kernels {kernels}{' as OPENBLAS_CORETYPE says' if pinned else ''}"
    found = mkl.report()
    own = compiled.report(overlays)
    return (
        f"gradlib {__version__} with:\n"
        f"  - Python {platform.python_version()}\n"
        f"  - NumPy {np.__version__}, BLAS of it: {name}\n"
        f"{''.join([f'  - {line}{chr(10)}' for line in (found, own) if line])}"
        f"  - Build settings: USE_CUDA=0, USE_CUDNN=OFF, USE_MKL={'ON' if found else 'OFF'}, USE_MKLDNN=OFF, "
        "USE_MPI=OFF, USE_NCCL=OFF, USE_OPENMP=OFF, USE_ROCM=OFF, \n"
    )


def parallel_info() -> str:
    """What is known of threads.

    Example:
        >>> gradlib.__config__.parallel_info().startswith("get_num_threads() : ")
        True
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    variables = "".join(f"  {n} : {os.environ.get(n, '[not set]')}\n" for n in names)
    return (
        f"get_num_threads() : {get_num_threads()}\n"
        f"get_num_interop_threads() : {get_num_interop_threads()}\n"
        f"hardware concurrency : {os.cpu_count()}\n"
        f"Environment variables:\n{variables}"
    )
