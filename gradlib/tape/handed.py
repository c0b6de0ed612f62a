"""What lower files need of higher ones, and cannot import: it is handed over when the higher file is imported.

    handed.over(tangent_of, forget)              # at the end of op/tangents.py
    handed.later("gradlib.cuda.streams", "record_stream")   # imported when it is first asked for

    handed.tangent_of(tensor)                    # in tape/saved.py

The types are imported below for type checkers alone. What is not there yet raises AttributeError.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..autograd._function_vmap import watched_entries as watched_entries
    from ..autograd.differentiate import backward as backward
    from ..autograd.differentiate import grad as grad
    from ..compiler import compile_module as compile_module
    from ..cuda.streams import record_stream as record_stream
    from ..devices.cuda.pinned import is_pinned as is_pinned
    from ..devices.numpy.sums import add_up as add_up
    from ..op.dependence import depend_all as depend_all
    from ..op.inplace import inplace as inplace
    from ..op.inplace import refuse_inference as refuse_inference
    from ..op.interpret import compute_raw as compute_raw
    from ..op.tangents import any_tangent as any_tangent
    from ..op.tangents import forget as forget
    from ..op.tangents import mirror as mirror
    from ..op.tangents import own_tangent as own_tangent
    from ..op.tangents import run_with_tangents as run_with_tangents
    from ..op.tangents import split_off as split_off
    from ..op.tangents import tangent_of as tangent_of
    from ..op.vmap import is_logical as is_logical
    from ..op.vmap import readable as readable
    from ..op.vmap import resize_entries as resize_entries
    from ..op.write_device import build_on_device as build_on_device
    from ..op.write_traced import specialize as specialize
    from ..operators.batching import batching_rule as batching_rule
    from ..operators.create.data import legacy_constructor as legacy_constructor
    from ..operators.create.filled import constant_zeros as constant_zeros
    from ..operators.create.filled import scalar_tensor_like as scalar_tensor_like
    from ..operators.create.interchange import export as export
    from ..ops.subclass import subclasses as subclasses
    from ..serialization import copy_memory as copy_memory
    from ..serialization import deepcopy_tensor as deepcopy_tensor
    from ..serialization import reduce_tensor as reduce_tensor
    from ..storage import TypedStorage as TypedStorage
    from ..storage import _warn_typed_storage_removal as _warn_typed_storage_removal
    from .anomaly import stamp as stamp
    from .engine import accumulate_leaf as accumulate_leaf
    from .saved import attribute_names as attribute_names
    from .saved import node_attribute as node_attribute
    from .tensor import Tensor as Tensor
    from .untyped import replace_root as replace_root

_LATER: dict[str, tuple[str, str]] = {}  # name -> module, name there


def over(*things: Any, **named: Any) -> None:
    """Hand over functions and classes, by their names or by others."""
    for thing in things:
        globals()[thing.__name__] = thing
    globals().update(named)


def later(module: str, *names: str, **renamed: str) -> None:
    """Hand over names of a module, some by others, that is imported when one of them is asked for."""
    _LATER.update({name: (module, name) for name in names})
    _LATER.update({name: (module, there) for name, there in renamed.items()})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"nothing has handed over {name!r} yet")
    module, there = _LATER[name]
    found = globals()[name] = getattr(importlib.import_module(module), there)
    return found
