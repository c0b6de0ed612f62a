"""Datasets, samplers and the DataLoader that turns them into batches."""

from ..._refused import refuse
from . import dataset, sampler
from ._utils.collate import default_collate, default_convert
from ._utils.info import WorkerInfo, get_worker_info
from .dataloader import DataLoader
from .dataset import *
from .distributed import DistributedSampler
from .sampler import *

__all__ = [
    "DataLoader",
    "DistributedSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
]
__all__ += dataset.__all__
__all__ += sampler.__all__
__getattr__ = refuse(__name__)
