"""MPI: the engine for CPU arrays on many machines, by mpi4py (``pip install 'gradlib[distributed]'``).

mpiexec -n 4 python train.py          # init_process_group("mpi"): rank and size come from MPI
"""

from __future__ import annotations

from .engine import Mpi
from .loading import library

__all__ = ["ENGINE", "library"]

ENGINE = Mpi
