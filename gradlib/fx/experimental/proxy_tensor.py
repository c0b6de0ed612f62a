"""Graphs of the ops below functions: PyTorch makes them with tensors that record, which gradlib has not."""

from ..._refused import refuse

__getattr__ = refuse(
    __name__,
    more=(
        "ProxyTorchDispatchMode disable_proxy_modes_tracing get_isolated_graphmodule is_sym_node "
        "set_original_aten_op thunkify track_tensor_tree"
    ),
    why="Trace the program itself with gradlib.fx.symbolic_trace or gradlib.export.export.",
)
