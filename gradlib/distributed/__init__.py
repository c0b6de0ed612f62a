"""Training in several processes, on one machine or many: PyTorch's ``torch.distributed``.

A process joins the others with `init_process_group`; then all of them call the same collectives in the same order.
Each collective is compared between the ranks before it runs: those that differ raise on all of them, with every rank's
line. What a rank did last is in `flight_recorder`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

from .._refused import refuse
from . import distributed_c10d
from ._agreement import check_parameters
from ._buckets import FIRST_BUCKET_BYTES, GradBucket
from .device_mesh import DeviceMesh, init_device_mesh
from .distributed_c10d import *
from .distributed_c10d import (
    _coalescing_manager,
    _get_default_group,
    _get_default_store,
    _make_nccl_premul_sum,
)

__all__ = [
    "DeviceMesh",
    "GradBucket",
    "check_parameters",
    "init_device_mesh",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]
__all__ += distributed_c10d.__all__
_DEFAULT_FIRST_BUCKET_BYTES = FIRST_BUCKET_BYTES
_private = _coalescing_manager, _get_default_group, _get_default_store, _make_nccl_premul_sum

__getattr__ = refuse(__name__, whole=True)


def is_available() -> bool:
    """Whether training in several processes is built in: True.

    Example::

        >>> import gradlib as torch
        >>> torch.distributed.is_available()
        True
    """
    return True


_NEEDS = {"gloo": (), "mpi": ("mpi4py",), "nccl": ("cupy",)}


def is_backend_available(backend: str) -> bool:
    """Whether processes could speak through this backend: what it needs is installed.

    Args:
        backend: such as ``"gloo"`` or ``"nccl"``.

    Example:
        >>> gradlib.distributed.is_backend_available("gloo")
        True
    """
    name = backend.lower()
    if name in distributed_c10d.Backend._plugins:
        return True
    if name not in _NEEDS:
        return False
    return all(importlib.util.find_spec(package) is not None for package in _NEEDS[name])


def is_torchelastic_launched() -> bool:
    """Whether a launcher of elastic programs started this process.

    It sets ``TORCHELASTIC_RUN_ID``, which is all that is asked.
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _of(backend: str, says: str) -> Callable[[], bool]:
    def available() -> bool:
        return is_backend_available(backend.lower())

    available.__name__ = available.__qualname__ = f"is_{backend.lower()}_available"
    available.__doc__ = f"""Whether processes can speak through {backend}: {says}

    Example:
        >>> isinstance(gradlib.distributed.is_{backend.lower()}_available(), bool)
        True
    """
    return available


is_gloo_available = _of("Gloo", "True.")
is_mpi_available = _of("MPI", "if mpi4py is installed.")
is_nccl_available = _of("NCCL", "if CuPy is installed.")
is_ucc_available = _of("UCC", "False.")
is_xccl_available = _of("XCCL", "False.")
