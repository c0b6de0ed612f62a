"""ExportedProgram: a Module as a graph, with what its arguments must be like."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import gradlib

from .._refused import refuse
from ..fx import Graph, GraphModule
from ..fx._code import PyTreeCodeGen, PyTreeInfo
from ..fx.graph_module import _copy_attr
from ..fx.node import has_side_effect, map_arg
from ..nn import Module, Parameter
from ._values import check_same
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

__all__ = ["ExportedProgram"]

__getattr__ = refuse(
    __name__,
    why="An exported program is the graph of a whole Module.",
)


class CallSpec(NamedTuple):
    """How arguments and results are nested, as of `gradlib.utils._pytree`."""

    in_spec: Any
    out_spec: Any


@has_side_effect
def check_inputs(values: list[Any], expected: list[Any]) -> None:
    """AssertionError unless the leaves of the arguments are like those of the example.

    expected: (name, sizes, dtype) of a tensor, where a size is a number or (name, min, max); or (name, value).
    """
    varying: dict[str, int] = {}
    for value, (name, *facts) in zip(values, expected, strict=True):
        if len(facts) == 1:
            assert type(value) is type(facts[0]) and value == facts[0], (
                f"Guard failed: {name} == {facts[0]!r}, but it is {value!r}"
            )
            continue
        sizes, dtype = facts
        assert isinstance(value, gradlib.Tensor), (
            f"Guard failed: {name} is a tensor, but it is {value!r}"
        )
        assert value.dtype is dtype, (
            f"Guard failed: {name}.dtype == {dtype}, but it is {value.dtype}"
        )
        assert value.ndim == len(sizes), (
            f"Guard failed: {name}.ndim == {len(sizes)}, but it is {value.ndim}"
        )
        for i, (size, want) in enumerate(zip(value.shape, sizes, strict=True)):
            where = f"{name}.size()[{i}]"
            if isinstance(want, int):
                assert size == want, f"Guard failed: {where} == {want}, but it is {size}"
                continue
            dim, low, high = want
            assert size >= low, f"Guard failed: {where} >= {low}, but it is {size}"
            assert high is None or size <= high, (
                f"Guard failed: {where} <= {high}, but it is {size}"
            )
            if dim:
                known = varying.setdefault(dim, size)
                assert size == known, f"Guard failed: {where} == {dim} == {known}, but it is {size}"


class ExportedProgram:
    """A Module as a graph of functions, made by `export`.

    `module` gives a Module that runs it; `graph` has the parameters and buffers as arguments, named in
    `graph_signature`.

    Attributes:
        graph_module: the graph as a module; it is called with all arguments of the graph.
        graph_signature: what these are.
        state_dict: dotted name -> parameter, or buffer that is saved.
        constants: name -> other tensors of the program.
        example_inputs: (args, kwargs) of the example.
        range_constraints: an empty dict: limits of sizes are checked when the program runs.

    Example:
        >>> program = gradlib.export.export(nn.Linear(2, 1), (gradlib.ones(3, 2),))
        >>> program.module()(gradlib.ones(3, 2)).shape
        torch.Size([3, 1])
    """

    def __init__(
        self,
        root: Module,
        graph: Graph,
        info: PyTreeInfo,
        expected: list[Any],
        example: tuple[Any, Any],
    ) -> None:
        self._root, self._traced, self._info, self._expected = root, graph, info, expected
        self.example_inputs = example
        self.call_spec = CallSpec(info.in_spec, info.out_spec)
        self.range_constraints: dict[Any, Any] = {}
        self.verifiers: list[Any] = []
        lifted, self.graph_signature, self.constants = self._lifted()
        self.graph_module = GraphModule(self._root, lifted)  # of which recurrent layers are called
        saved = root.state_dict(keep_vars=True)
        owned = [*root.named_parameters(), *root.named_buffers()]
        self.state_dict: dict[str, Any] = {k: v for k, v in owned if k in saved}

    @property
    def graph(self) -> Graph:
        """The graph: parameters, buffers and constants come first among its arguments.

        See `graph_signature`.
        """
        return self.graph_module.graph

    def _lifted(self) -> tuple[Graph, ExportGraphSignature, dict[str, Any]]:
        """The graph with arguments in the place of what it fetches from the module; what they are; the constants."""
        made, signature, constants = Graph(), ExportGraphSignature(), {}
        owned = {
            **{k: (InputKind.PARAMETER, None) for k, _ in self._root.named_parameters()},
            **{k: (InputKind.BUFFER, True) for k, _ in self._root.named_buffers()},
        }
        saved = self._root.state_dict(keep_vars=True)
        fetched = [str(n.target) for n in self._traced.find_nodes(op="get_attr")]
        stands: dict[str, Any] = {}
        for target in dict.fromkeys([*owned, *fetched]):
            kind, persistent = owned.get(target, (InputKind.CONSTANT_TENSOR, None))
            prefix = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_"}.get(kind, "c_")
            node = stands[target] = made.placeholder(prefix + re.sub(r"\W", "_", target))
            if kind is InputKind.BUFFER:
                persistent = target in saved
            if not persistent and kind is not InputKind.PARAMETER:
                constants[target] = _fetch(self._root, target)
            argument = TensorArgument(node.name)
            signature.input_specs.append(InputSpec(kind, argument, target, persistent))
        values: dict[Any, Any] = {}
        inputs = iter(self._expected)
        for node in self._traced.nodes:
            if node.op == "get_attr":
                values[node] = stands[str(node.target)]
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: values[n])
                made.output(tuple(result))
                for leaf in result:
                    argument = (
                        TensorArgument(leaf.name)
                        if hasattr(leaf, "name")
                        else ConstantArgument("", leaf)
                    )
                    signature.output_specs.append(
                        OutputSpec(OutputKind.USER_OUTPUT, argument, None)
                    )
                continue
            values[node] = made.node_copy(node, lambda n: values[n])
            if node.op == "placeholder":
                facts = next(inputs)
                name = values[node].name = str(node.target)  # also that of a builtin, as "input"
                argument = (
                    TensorArgument(name) if len(facts) == 3 else ConstantArgument(name, facts[1])
                )
                signature.input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
        return made, signature, constants

    def module(self, check_guards: bool = True) -> GraphModule:
        """A Module that runs the program on arguments like those of the example.

        Args:
            check_guards: check that they are.

        Returns:
            A GraphModule with the names of the original's parameters and buffers, which it shares. It raises
            AssertionError for arguments that are not like the example.
        """
        graph = copy.deepcopy(self._traced)
        if check_guards:
            inputs = graph.find_nodes(op="placeholder")
            after = inputs[-1].next if inputs else next(iter(graph.nodes))
            with graph.inserting_before(after):
                graph.call_function(check_inputs, (inputs, self._expected))
        else:
            for node in graph.find_nodes(op="call_function", target=check_same):
                graph.erase_node(node)
        graph.set_codegen(PyTreeCodeGen(self._info))
        made = GraphModule(self._root, graph, type(self._root).__name__)
        for name in (*dict(self._root.named_parameters()), *dict(self._root.named_buffers())):
            try:
                made.get_parameter(
                    name
                ) if name in self.graph_signature.parameters else made.get_buffer(name)
            except AttributeError:
                _copy_attr(self._root, made, name)
        made.train(self._root.training)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def parameters(self) -> Iterator[Parameter]:
        """The parameters.

        They are those of the Module that was exported.
        """
        return self._root.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names.

        They are those of the Module that was exported.
        """
        return self._root.named_parameters()

    def buffers(self) -> Iterator[gradlib.Tensor]:
        """The buffers.

        They are those of the Module that was exported.
        """
        return self._root.buffers()

    def named_buffers(self) -> Iterator[tuple[str, gradlib.Tensor]]:
        """The buffers with their dotted names.

        They are those of the Module that was exported.
        """
        return self._root.named_buffers()

    def run_decompositions(self, decomp_table: Any = None) -> NoReturn:
        """Refused: the steps of graphs are public functions, not the ops below them.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "gradlib.export: the steps of a graph are public functions; there are no decompositions of them"
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\n\nGraph signature: {signature}\nRange constraints: {{}}\n"

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        root = copy.deepcopy(self._root, memo)
        graph = copy.deepcopy(self._traced)
        return ExportedProgram(
            root, graph, self._info, self._expected, copy.deepcopy(self.example_inputs, memo)
        )


def _fetch(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module
