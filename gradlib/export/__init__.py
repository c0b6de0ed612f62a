"""Modules as graphs: `export` runs a Module on an example, and keeps what it does.

    batch = gradlib.export.Dim("batch")
    program = gradlib.export.export(model, (x,), dynamic_shapes={"x": {0: batch}})
    program.module()(other_x)

The steps of a graph are public functions of gradlib (PyTorch's are the ops below them). What an argument must be like,
and what the program took for granted, is checked when the graph runs.
"""

from __future__ import annotations

import inspect
from typing import Any

import gradlib

from .._dynamo.exc import UserError
from .._refused import refuse
from ..fx._code import PyTreeInfo
from ..nn import Module, RNNBase
from ..utils import _pytree as pytree
from ..utils._pytree import register_dataclass
from . import dynamic_shapes as _shapes
from . import graph_signature
from ._values import ValueTracer
from .dynamic_shapes import Dim, dims
from .exported_program import ExportedProgram
from .graph_signature import ExportGraphSignature

__all__ = [
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "dims",
    "export",
    "graph_signature",
    "register_dataclass",
]

__getattr__ = refuse(
    __name__,
    more="export_for_training",
    why=(
        "gradlib.export has export(), Dim and ExportedProgram; keep the Python code of the model, and save "
        "its state_dict."
    ),
)


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """A Module as a graph, for arguments like an example.

    The Module is run once, on Proxies that know the example, and is left as it is. Sizes are those of the example, but
    where `dynamic_shapes` says otherwise; then it runs on a second example of other sizes, too. A branch that depends
    on a size is checked when the graph runs, one that depends on the values of a tensor is refused.

    Args:
        mod: a Module.
        args: an example of its arguments: tensors, nested in containers, and constants.
        kwargs: an example of its arguments by name.
        dynamic_shapes: for each argument, by name or in order, None or a dict from dimensions to `Dim`, in the
            structure of the argument.
        strict: accepted.
        preserve_module_call_signature: must be empty.
        prefer_deferred_runtime_asserts_over_guards: accepted: checks are always made when the graph runs.

    Returns:
        An `ExportedProgram`.

    Raises:
        ValueError: `mod` is no Module, or `dynamic_shapes` does not fit the arguments.
        UserError: what the Module does depends on the values of a tensor, or of a size that varies.
        NotImplementedError: it does something that graphs do not keep, as ``with torch.no_grad()``.

    Example:
        >>> program = gradlib.export.export(nn.Linear(2, 1), (gradlib.ones(3, 2),))
        >>> print(program.graph_module.code.strip())
        def forward(self, p_weight, p_bias, input):
            input_1 = input
            linear = torch.nn.functional.linear(input_1, p_weight, p_bias);  input_1 = p_weight = p_bias = None
            return (linear,)
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    if preserve_module_call_signature:
        raise NotImplementedError(
            "export: preserve_module_call_signature: the graph is that of the whole Module"
        )
    tracer, info, expected = traced(mod, args, kwargs or {}, dynamic_shapes)
    return ExportedProgram(mod, tracer.graph, info, expected, (args, kwargs or {}))


def traced(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    expansions: dict[Any, Any] | None = None,
) -> tuple[ValueTracer, PyTreeInfo, list[Any]]:
    """The trace of a Module, how its arguments and results are nested, and what its arguments must be like.

    expansions: public function -> a function that is traced in its place.
    """
    if isinstance(mod, RNNBase):
        raise NotImplementedError(
            f"export: {type(mod).__name__} is one step of a graph; export a Module that calls it"
        )
    given, starred = _by_name(mod, args, kwargs)
    names, values = list(given), tuple(given.values())
    if isinstance(dynamic_shapes, dict):
        unknown = set(dynamic_shapes) - set(names)
        if unknown:
            raise ValueError(
                f"dynamic_shapes names {sorted(unknown)}, which are no arguments: {names}"
            )
        dynamic_shapes = [dynamic_shapes.get(n) for n in names]
    specs = _shapes.varying(list(values), dynamic_shapes, "the arguments")
    leaves, in_spec = pytree.tree_flatten(values)
    leaves = [v.detach().clone() if isinstance(v, gradlib.Tensor) else v for v in leaves]
    varying = _leaf_specs(list(values), specs)
    titles = _titles(names, values)
    examples = [leaves]
    if any(varying):
        examples.append([_other(v, s) for v, s in zip(leaves, varying, strict=True)])

    def program(*flat: Any) -> Any:
        bound = dict(zip(names, pytree.tree_unflatten(list(flat), in_spec), strict=True))
        named = {k: bound.pop(k) for k in list(bound) if k in starred}
        return mod.forward(*bound.values(), **named)

    tracer = ValueTracer(examples, expansions or {})
    out_spec = tracer.run(program, mod, titles)
    tracer.graph.eliminate_dead_code(lambda n: n.op != "call_module" and n.is_impure())
    expected = [_expected(n, v, s) for n, v, s in zip(titles, leaves, varying, strict=True)]
    info = PyTreeInfo(names, in_spec, out_spec)
    return tracer, info, expected


def _by_name(mod: Module, args: tuple, kwargs: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The arguments by name, in the order of forward; and which of them go by name alone."""
    signature = inspect.signature(mod.forward)
    found: dict[str, Any] = {}
    by_name: set[str] = set()
    for key, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"{key}_{i}": v for i, v in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
            by_name |= set(value)
        else:
            found[key] = value
            if kind is inspect.Parameter.KEYWORD_ONLY or (key in kwargs and by_name):
                by_name.add(key)
    skipped = False
    for key in signature.parameters:  # after an argument that is left out all go by name
        skipped = skipped or key not in found
        if skipped and key in found:
            by_name.add(key)
    return found, by_name


def _leaf_specs(value: Any, spec: Any) -> list[dict[int, Any]]:
    """The sizes that vary, for each leaf."""
    if isinstance(value, gradlib.Tensor) or not pytree.tree_leaves(value):
        return [spec] if isinstance(value, gradlib.Tensor) else []
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in _leaf_specs(v, spec[k])]
    if isinstance(value, tuple | list):
        return [s for v, inner in zip(value, spec, strict=True) for s in _leaf_specs(v, inner)]
    return [{} for _ in pytree.tree_leaves(value)]


def _titles(names: list[str], values: tuple) -> list[str]:
    """A name for each leaf: that of the argument, with a number where it has several."""
    found: list[str] = []
    for name, value in zip(names, values, strict=True):
        count = len(pytree.tree_leaves(value))
        plain = count == 1 and pytree.tree_is_leaf(value)
        found += [name] if plain else [f"{name}_{i}" for i in range(count)]
    return found


def _other(value: Any, spec: dict[int, Any]) -> Any:
    """A leaf of a second example: the same numbers again and again, in the other sizes."""
    for dim, size in spec.items():
        wanted = _shapes.other_size(value.shape[dim], size)
        index = gradlib.arange(wanted, device=value.device) % max(value.shape[dim], 1)
        value = value.index_select(dim, index)
    return value


def _expected(name: str, value: Any, spec: dict[int, Any]) -> tuple:
    """What `check_inputs` compares a leaf with."""
    if not isinstance(value, gradlib.Tensor):
        return name, value
    sizes = [
        (getattr(spec[i], "__name__", ""), spec[i].min, spec[i].max) if i in spec else size
        for i, size in enumerate(value.shape)
    ]
    return name, tuple(sizes), value.dtype
