"""Programs as graphs: a function or Module is traced, its steps can be read and changed, and run again as Python.

    traced = gradlib.fx.symbolic_trace(model)
    print(traced.graph)              # the steps
    print(traced.code)               # the same as Python
    traced.graph.inserting_before... # change them
    traced.recompile()

`Tracer` runs the program on `Proxy` objects, which make a `Node` of what is done with them; `GraphModule` writes the
`Graph` of Nodes out as the source of a forward. `Interpreter` and `Transformer` run a graph Node by Node.
"""

from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
