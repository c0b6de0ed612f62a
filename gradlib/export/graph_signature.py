"""What the arguments and results of an exported graph are: parameters, buffers, inputs of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from .._refused import refuse

__all__ = [
    "ConstantArgument",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "TensorArgument",
]

__getattr__ = refuse(
    __name__,
    more="TokenArgument",
    why="Graphs of gradlib.export have tensors and constants as arguments.",
)


@dataclass
class TensorArgument:
    """An argument or a result that is a tensor.

    `name` is that of its Node.
    """

    name: str


@dataclass
class ConstantArgument:
    """An argument or a result that is no tensor.

    `name` is that of its Node, `value` what it is in the example.
    """

    name: str
    value: object


class InputKind(Enum):
    """What an argument of the graph is.

    The user gives a USER_INPUT; the others belong to the program.
    """

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What a result of the graph is.

    All are USER_OUTPUT here: writes into buffers happen in the graph itself.
    """

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclass
class InputSpec:
    """One argument of the graph.

    `target` is the dotted name of a parameter, buffer or constant; `persistent` says of a buffer whether it is saved.
    """

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """One result of the graph.

    `target` is None for what the user gets.
    """

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


def _of_user(specs: list[Any], kind: InputKind | OutputKind) -> tuple[object, ...]:
    """The names of tensors, and the values of constants, among the specs of a kind."""
    args = [s.arg for s in specs if s.kind is kind]
    return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in args)


@dataclass
class ExportGraphSignature:
    """The arguments and results of an exported graph, in order.

    Example:
        >>> program = gradlib.export.export(nn.Linear(2, 1), (gradlib.ones(3, 2),))
        >>> program.graph_signature.parameters, program.graph_signature.user_inputs
        (('weight', 'bias'), ('input',))
    """

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and s.target is not None)

    def _inputs_to(self, kind: InputKind) -> Mapping[str, str]:
        found = {s.arg.name: s.target for s in self.input_specs if s.kind is kind and s.target}
        return MappingProxyType(found)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The dotted names of the parameters.

        Their Nodes are in `inputs_to_parameters`.
        """
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The dotted names of the buffers.

        Their Nodes are in `inputs_to_buffers`.
        """
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The dotted names of the buffers that are not saved.

        They are in `constants` of the program.
        """
        found = (s for s in self.input_specs if s.persistent is False)
        return tuple(s.target for s in found if s.target is not None)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that the program holds besides parameters and buffers.

        They are in `constants` of the program.
        """
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[object, ...]:
        """What the user gives: the names of tensors, the values of others.

        In the order of the graph.
        """
        return _of_user(self.input_specs, InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[object, ...]:
        """What the user gets: the names of tensors, the values of others.

        In the order of the graph.
        """
        return _of_user(self.output_specs, OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """The Nodes that stand for parameters.

        Returns:
            Name of a Node -> dotted name of the parameter; read only.
        """
        return self._inputs_to(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """The Nodes that stand for buffers.

        Returns:
            Name of a Node -> dotted name of the buffer; read only.
        """
        return self._inputs_to(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """The Nodes that stand for constants.

        Returns:
            Name of a Node -> name of the constant; read only.
        """
        return self._inputs_to(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Nothing: writes into buffers happen in the graph itself.

        PyTorch makes results of them.
        """
        return MappingProxyType({})

    user_inputs_to_mutate = buffers_to_mutate

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
