"""NCCL: the engine for CUDA tensors, by CuPy's own bindings (``pip install 'gradlib[cuda12]'`` brings CuPy).

torch.cuda.set_device(local_rank)
torch.distributed.init_process_group("nccl")
"""

from __future__ import annotations

from .engine import Nccl

__all__ = ["ENGINE"]

ENGINE = Nccl
