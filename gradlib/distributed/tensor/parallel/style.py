"""How a module is shared over the ranks of a mesh dimension: its parameters, what goes in and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ....nn.modules.linear import Linear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding
from ....nn.parameter import Parameter
from ....tape.tensor import Tensor
from ...device_mesh import DeviceMesh
from .._dtensor import DTensor
from .._factories import distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """A way to share a module; `parallelize_module` applies it.

    Subclasses define ``_apply(module, device_mesh)``, which changes the module and returns it.
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Share the module over the ranks of the mesh; returns it."""


def _entering(value: Any, mesh: DeviceMesh, given: Placement, wanted: Placement) -> Any:
    """A DTensor of what goes into a module, placed as it needs it."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, (given,), run_check=False)
    return value.redistribute(placements=(wanted,))


def _leaving(value: Any, placement: Placement, local: bool) -> Any:
    value = value.redistribute(placements=(placement,))
    return value.to_local() if local else value


def _place(module: Module, name: str, mesh: DeviceMesh, placement: Placement, source: Any) -> None:
    param = module._parameters.get(name)
    if param is not None:
        made = distribute_tensor(param.data, mesh, [placement], src_data_rank=source)
        module.register_parameter(name, Parameter(made, param.requires_grad))


class _SplitLayer(ParallelStyle):
    """A layer whose weight is cut."""

    wanted: Placement
    weights: dict[type, dict[str, Placement]]

    def __init__(self, given: Placement, output: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (given,), (output,)
        self.use_local_output = use_local_output

    def _kind(self, module: Module) -> type:
        for kind in self.weights:
            if isinstance(module, kind):
                return kind
        names = " and ".join(f"nn.{kind.__name__}" for kind in self.weights)
        raise NotImplementedError(
            f"{type(self).__name__} currently only support {names}, got {type(module).__name__}"
        )

    def _wanted(self, kind: type) -> Placement:
        return self.wanted

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        kind = self._kind(module)
        wanted = self._wanted(kind)

        def partition(name: str, below: Module, mesh: DeviceMesh) -> None:
            for param, placement in self.weights[kind].items():
                _place(below, param, mesh, placement, self.src_data_rank)

        def enter(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            return (_entering(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def leave(_: Module, output: Any, mesh: DeviceMesh) -> Any:
            return _leaving(output, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, enter, leave)


class ColwiseParallel(_SplitLayer):
    """The outputs of a Linear, or the columns of an Embedding, are shared: each rank computes some.

    Args:
        input_layouts: how the input is placed, if it is a plain tensor: replicated by default.
        output_layouts: how the output leaves: cut along its last dimension by default.
        use_local_output: give the part of this rank, instead of a DTensor.

    Example::

        parallelize_module(mlp, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    """

    wanted = Replicate()
    weights = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(
            input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output
        )


class RowwiseParallel(_SplitLayer):
    """The inputs of a Linear, or the rows of an Embedding, are shared: the output is the sum over the ranks.

    Args:
        input_layouts: how the input is placed, if it is a plain tensor: cut along its last dimension by default.
        output_layouts: how the output leaves: replicated by default.
        use_local_output: give the part of this rank, instead of a DTensor.

    Example::

        parallelize_module(embedding, mesh["tp"], RowwiseParallel(input_layouts=Replicate()))
    """

    weights = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(
            input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output
        )

    def _wanted(self, kind: type) -> Placement:
        return Replicate() if kind is Embedding else Shard(-1)


class SequenceParallel(ParallelStyle):
    """A norm or dropout works on parts of the sequence; its parameters are replicated.

    Args:
        sequence_dim: the dimension of the input that is the sequence.
        use_local_output: give the part of this rank, instead of a DTensor.

    Example::

        parallelize_module(norm, mesh["tp"], SequenceParallel())
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        sharding = self.sequence_sharding[0]

        def enter(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(
                    f"expecting input of {module} to be a torch.Tensor or DTensor, but got {inputs[0]}"
                )
            return (_entering(inputs[0], mesh, sharding, sharding), *inputs[1:])

        def leave(_: Module, output: Any, mesh: DeviceMesh) -> Any:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, None, enter, leave)


Layouts = Placement | Sequence[Placement | None] | None


def _several(layouts: Any) -> tuple[Any, ...]:
    return (layouts,) if layouts is None or isinstance(layouts, Placement) else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """What goes into a module becomes DTensors, placed as it needs them.

    Args:
        input_layouts: for each positional argument how it is placed, None for those that stay as they are.
        desired_input_layouts: for each how it is to be placed.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same by name.
        use_local_output: give the module the parts of this rank.

    Raises:
        AssertionError: not as many desired placements as given ones.

    Example::

        PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = () if input_layouts is None else _several(input_layouts)
        self.desired = () if desired_input_layouts is None else _several(desired_input_layouts)
        self.by_name = input_kwarg_layouts or {}
        self.desired_by_name = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if len(self.input_layouts) != len(self.desired):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if len(self.by_name) != len(self.desired_by_name):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!"
            )

    def _one(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None or not isinstance(value, Tensor):
            return value
        value = _entering(value, mesh, given, wanted)
        return value.to_local() if self.use_local_output else value

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(_: Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
            if self.input_layouts and len(args) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            if self.input_layouts:
                ways = zip(args, self.input_layouts, self.desired)
                args = tuple([self._one(v, device_mesh, a, b) for v, a, b in ways])
            named = {
                k: self._one(v, device_mesh, self.by_name.get(k), self.desired_by_name.get(k))
                for k, v in kwargs.items()
            }
            return args, named

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """What comes out of a module becomes DTensors, placed as the next one needs them.

    Args:
        output_layouts: for each output how it is placed, None for those that stay as they are.
        desired_output_layouts: for each how it is to be placed.
        use_local_output: give the parts of this rank.

    Raises:
        AssertionError: not as many desired placements as given ones.

    Example::

        PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    """

    def __init__(
        self,
        *,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _several(output_layouts)
        self.desired = _several(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def leave(_: Module, args: tuple, output: Any) -> Any:
            outputs = output if isinstance(output, tuple) else (output,)
            if len(outputs) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            found = []
            for value, given, wanted in zip(outputs, self.output_layouts, self.desired):
                if given is not None and isinstance(value, Tensor):
                    value = _entering(value, device_mesh, given, wanted)
                    value = value.to_local() if self.use_local_output else value
                found.append(value)
            return tuple(found) if isinstance(output, tuple) else found[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` together.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: of the former.
        use_local_input: its `use_local_output`.
        output_layouts, desired_output_layouts: of the latter.
        use_local_output: of the latter.

    Example::

        PrepareModuleInputOutput(
            input_layouts=Shard(0), desired_input_layouts=Replicate(),
            output_layouts=Replicate(), desired_output_layouts=Shard(0),
        )
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
