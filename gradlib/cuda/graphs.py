"""CUDA graphs: work that is recorded once and launched again and again as a whole.

:func:`capture` makes a graph of a training step in one call; the names here are the parts it is made of.
"""

from ._graph import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from .graphed import make_graphed_callables

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]
