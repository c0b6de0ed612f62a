"""Checkpoints of training in several processes: saved by any number of them, loaded by any other.

    from gradlib.distributed import checkpoint

    state = {"model": model, "optimizer": optimizer, "step": step}
    checkpoint.save(state, checkpoint_id="checkpoints/last")        # on every process
    checkpoint.load(state, checkpoint_id="checkpoints/last")        # on every process, of another number of them

A checkpoint is a folder with a safetensors file for each process and an index (`filesystem`); `planner` says who writes
and reads what; `state_dict` has the states of models and optimizers by the names of parameters, which is what makes an
optimizer's state fit another sharding.
"""

from __future__ import annotations

from ..._refused import refuse
from .api import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from .optimizer import load_sharded_optimizer_state_dict
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "LoadPlan",
    "LoadPlanner",
    "Metadata",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "TensorStorageMetadata",
    "WriteItem",
    "async_save",
    "load",
    "load_sharded_optimizer_state_dict",
    "load_state_dict",
    "save",
    "save_state_dict",
]

__getattr__ = refuse(__name__)
