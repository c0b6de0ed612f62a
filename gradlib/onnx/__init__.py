"""Models as ONNX files, for the functions of usual networks: `export`.

    gradlib.onnx.export(model, (x,), "model.onnx", input_names=["x"], dynamic_axes={"x": {0: "batch"}})

The model is traced as by `gradlib.export.export`; functions that have no ONNX operator here are refused by name. It
needs the package ``onnx`` (``pip install 'gradlib[onnx]'``).
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import gradlib

from .._refused import refuse
from ..export import Dim, traced
from ..export._values import check_same
from ..nn import Module
from . import _elementwise, _layers, _shapes  # they enter their converters
from ._converters import convert
from ._expansions import EXPANSIONS
from ._graph import OnnxExporterError, Writer, onnx_package

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

__getattr__ = refuse(__name__)

_OPSET = 18
_custom: dict[str, Any] = {}  # what packages registered for PyTorch's older exporter
_exporting = False


def is_in_onnx_export() -> bool:
    """Whether `export` runs the model.

    Example:
        >>> gradlib.onnx.is_in_onnx_export()
        False
    """
    return _exporting


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Accept how PyTorch's older exporter would write an op; `export` does not ask it, and refuses the op by name.

    Args:
        symbolic_name: the op, as "ns::name".
        symbolic_fn: kept.
        opset_version: accepted.
    """
    _custom[symbolic_name] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget what `register_custom_op_symbolic` kept.

    Args:
        symbolic_name: the op.
        opset_version: accepted.
    """
    _custom.pop(symbolic_name, None)


class ONNXProgram:
    """A model as ONNX: what `export` gives.

    Attributes:
        model_proto: the model, as of the package ``onnx``.
    """

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto

    def save(self, destination: Any, **accepted: Any) -> None:
        """Write the file.

        Args:
            destination: a path, or a file that is open for writing bytes.
            accepted: further settings of PyTorch: everything goes into one file.
        """
        data = self.model_proto.SerializeToString()
        if hasattr(destination, "write"):
            destination.write(data)
            return
        with open(destination, "wb") as file:
            file.write(data)


def export(
    model: Module,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    **accepted: Any,
) -> ONNXProgram:
    """Write a model as ONNX; its parameters are constants of the file.

    The model is exported in eval mode, and put back.

    Args:
        model: a Module.
        args: an example of its arguments: a tuple, or one tensor.
        f: a path, or a file that is open for writing bytes; without it nothing is written.
        kwargs: an example of its arguments by name.
        input_names: names for the tensors among the arguments, in order.
        output_names: names for the results, in order.
        opset_version: accepted: files have opset 18.
        dynamic_axes: name of an input -> the dimensions that vary: a list, or a dict that names them.
        dynamic_shapes: the same as of `gradlib.export.export`.
        accepted: further settings of PyTorch.

    Returns:
        An `ONNXProgram`.

    Raises:
        OnnxExporterError: the model uses a function that cannot be written; the text names it.
        ImportError: the package ``onnx`` is not installed.
    """
    global _exporting
    onnx_package()
    if opset_version is not None and opset_version != _OPSET:
        warnings.warn(
            f"gradlib.onnx writes opset {_OPSET}, not the requested {opset_version}",
            UserWarning,
            stacklevel=2,
        )
    if accepted.get("export_params") is False:
        raise NotImplementedError(
            "gradlib.onnx.export: export_params=False: parameters are always written"
        )
    given = args if isinstance(args, tuple) else (args,)
    if dynamic_axes and dynamic_shapes is None:
        dynamic_shapes = _shapes_of(given, kwargs or {}, input_names, dynamic_axes)
    modes = [(m, m.training) for m in model.modules()]
    _exporting = True
    try:
        model.eval()
        with gradlib.no_grad():
            tracer, _, expected = traced(model, given, kwargs or {}, dynamic_shapes, EXPANSIONS)
            proto = _written(tracer, expected, input_names, output_names)
    finally:
        _exporting = False
        for module, mode in modes:
            module.training = mode
    program = ONNXProgram(proto)
    if f is not None:
        program.save(f)
    return program


def _shapes_of(
    args: tuple, kwargs: dict[str, Any], names: Sequence[str] | None, axes: dict[str, Any]
) -> Any:
    """`dynamic_axes` as `dynamic_shapes`: a list for positional tensors."""
    if kwargs or any(not isinstance(a, gradlib.Tensor) for a in args):
        raise NotImplementedError(
            "gradlib.onnx.export: dynamic_axes with nested arguments or arguments by name; use dynamic_shapes"
        )
    dims: dict[str, Dim] = {}
    found = []
    for i, _ in enumerate(args):
        wanted = axes.get(names[i]) if names is not None and i < len(names) else None
        if wanted is None:
            found.append(None)
        elif isinstance(wanted, dict):
            found.append({k: dims.setdefault(v, Dim(v)) for k, v in wanted.items()})
        else:
            found.append(dict.fromkeys(wanted, Dim.DYNAMIC))
    return found


def _drop_checks(graph: Any) -> None:
    """Take out the checks of a traced graph, which a file cannot hold; a warning for those that may fail."""
    granted = []
    for node in graph.find_nodes(op="call_function", target=check_same):
        value, expected = node.args
        known = value
        while known.target is operator.getitem:
            known = known.args[0]
        graph.erase_node(node)
        if (
            known.target != "size" and known.target is not getattr
        ):  # sizes are the same in both examples
            granted.append(f"{value.format_node()} is {expected}")
    if granted:
        warnings.warn(
            "gradlib.onnx.export: the file takes for granted, whatever the sizes are, that\n  "
            + "\n  ".join(granted),
            UserWarning,
            stacklevel=4,
        )
    graph.eliminate_dead_code(lambda n: n.op == "call_module" or n.is_impure())


def _written(tracer: Any, expected: list[Any], input_names: Any, output_names: Any) -> Any:
    """The model of a traced graph."""
    _drop_checks(tracer.graph)
    w = Writer({node: values[0] for node, values in tracer.values.items()})
    helper, inputs, outputs = w.helper, [], []
    titles = iter(input_names or ())
    for node, facts in zip(tracer.graph.find_nodes(op="placeholder"), expected, strict=True):
        if len(facts) != 3:
            continue  # no tensor: a constant of the example
        name = next(titles, facts[0])
        w.names[node] = name
        sizes = [
            s if isinstance(s, int) else s[0] or f"{name}_dim_{i}" for i, s in enumerate(facts[1])
        ]
        inputs.append(helper.make_tensor_value_info(name, w.kind(facts[2]), sizes))
    for node in tracer.graph.nodes:
        if node.op == "get_attr":
            value = tracer.values[node][0] if node in tracer.values else tracer._value(node, 0)
            w.known[node] = value
            w.names[node] = w.constant(value.detach().cpu().numpy())
        elif node.op == "call_module":
            raise OnnxExporterError(
                f"gradlib.onnx cannot write the module {node.target}: it is one kernel here"
            )
        elif node.op in ("call_function", "call_method"):
            if (
                getattr(node.target, "__name__", "") == "check_same"
            ):  # the checks of an exported program
                continue
            w.names[node] = convert(w, node)
        elif node.op == "output":
            given = list(output_names or ())
            for i, leaf in enumerate(node.args[0]):
                value = w.value(leaf)
                if value is None:
                    continue
                name = given[i] if i < len(given) else f"output_{i}" if i else "output"
                w.nodes.append(helper.make_node("Identity", [w.tensor(leaf)], [name]))
                like = value if isinstance(value, gradlib.Tensor) else gradlib.tensor(value)
                outputs.append(
                    helper.make_tensor_value_info(name, w.kind(like.dtype), [None] * like.ndim)
                )
    graph = helper.make_graph(w.nodes, "main_graph", inputs, outputs, list(w.initializers.values()))
    model = helper.make_model(
        graph,
        producer_name="gradlib",
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=9,
    )
    onnx_package().checker.check_model(model)
    return model
