"""``distributed.tensor``: tensors that several ranks hold together.

A `DTensor` has a part on each rank of a `DeviceMesh`; its placements say along which dimension it is cut (`Shard`),
where all ranks have the whole (`Replicate`), or terms of a sum (`Partial`). Ops on DTensors work on the parts and
exchange what they need; gradients flow through them. What has no rule is refused by name.

In the order of reading: `placement_types`, `_layout`, `_redistribute` (the exchanges), `_split` (how an op is shared),
`_rules`, `_rules_shape`, `_special` (the ops), `_run`, `_dtensor`.
"""

from __future__ import annotations

from ..._refused import refuse
from ..device_mesh import DeviceMesh as DeviceMesh
from ..device_mesh import init_device_mesh as init_device_mesh
from . import _rules_shape as _rules_shape
from ._dtensor import DTensor
from ._factories import distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]
__getattr__ = refuse(__name__)
