"""``torch.jit`` for programs that call it: code runs as Python, and nothing is compiled.

`script` gives what it gets; `trace` checks its example, and gives a module that calls the original. There is no
TorchScript, so that its files can be neither written nor read.
"""

from typing import Any

from .._refused import refuse
from ._async import fork, wait
from ._script import (
    Attribute,
    Error,
    Final,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    ScriptWarning,
    _drop,
    _isinstance,
    _overload,
    _overload_method,
    _unwrap_optional,
    annotate,
    enable_onednn_fusion,
    export,
    freeze,
    fuser,
    ignore,
    interface,
    is_scripting,
    onednn_fusion_enabled,
    optimize_for_inference,
    optimized_execution,
    run_frozen_optimizations,
    script,
    script_method,
    set_fusion_strategy,
    strict_fusion,
    unused,
)
from ._trace import (
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    is_tracing,
    script_if_tracing,
    trace,
    trace_module,
)

isinstance = _isinstance
_fork, _wait, _set_fusion_strategy, _script_if_tracing = (
    fork,
    wait,
    set_fusion_strategy,
    script_if_tracing,
)

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_absent = refuse(
    __name__,
    more=(
        "ONNXTracedModule RecursiveScriptClass _IgnoreContextManager _get_trace_graph _register_decomposition "
        "jit_module_from_flatbuffer last_executed_optimized_graph save_jit_module_to_flatbuffer"
    ),
    why=(
        "There is no TorchScript: keep the Python code of the model, save its state_dict with gradlib.save, "
        "and load it into the model with load_state_dict. A TorchScript file has to be opened with PyTorch "
        "once, to save that."
    ),
)


def __getattr__(name: str) -> Any:
    return _absent(name)
