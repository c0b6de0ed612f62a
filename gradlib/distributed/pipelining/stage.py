"""``distributed.pipelining.stage``: the part of a model that one rank of a pipeline has."""

from __future__ import annotations

from typing import Any

from ...autograd.differentiate import backward
from ...autograd.grad_mode import is_grad_enabled
from ...nn.modules.module import Module
from ...operators import public as ops
from ...tape.device import device as device_class
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ..fsdp import FSDPModule

__all__ = ["PipelineStage"]


class PipelineStage:
    """A part of a model, on the rank of a group whose number is the stage's.

    Shapes need not be told: with the first microbatch each stage tells the next what it sends.

    Args:
        submodule: the part; the first stage's gets the arguments of ``schedule.step``, each other one's what the stage
            before gives: a tensor or a tuple of tensors.
        stage_index: the number of the stage, 0 for the first.
        num_stages: how many there are.
        device: where this one computes.
        input_args, output_args: accepted; shapes are found out.
        group: the ranks of the pipeline; by default all.
        dw_builder: not supported.

    Raises:
        ValueError: there is no such stage, or the rank has another.

    Example::

        stage = PipelineStage(part, rank, world_size, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        if dw_builder is not None or get_mesh is not None:
            raise NotImplementedError(
                "PipelineStage: dw_builder and get_mesh are not supported, leave them out"
            )
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        size = c10d.get_world_size(group)
        if size != num_stages:
            raise ValueError(
                f"Pipeline group size {size} must be the number of stages {num_stages}: each rank has one"
            )
        if c10d.get_rank(group) != stage_index:
            raise ValueError(
                f"stage {stage_index} belongs on rank {stage_index} of its group, this is rank {c10d.get_rank(group)}"
            )
        self.submodule, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device_class(device), group
        self.has_backward = False
        self._from_before: list[tuple] | None = (
            None  # (shape, dtype, whether it needs a gradient) of what comes
        )
        self._to_next: list[tuple] | None = None
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether it gets the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether its outputs are those of the model."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forget the microbatches of the last step."""
        self.entered: dict[int, list[Tensor]] = {}  # what came, by microbatch
        self.left: dict[int, tuple[Tensor, ...]] = {}  # what it gave
        self.seeds: dict[int, list[Tensor]] = {}  # gradients of what it gave
        self.outputs: list[Any] = []

    def _peer(self, offset: int) -> int:
        rank = self.stage_index + offset
        return rank if self.group is None else c10d.get_global_rank(self.group, rank)

    def _op(self, op: Any, tensor: Tensor, offset: int, tag: int) -> Any:
        return c10d.P2POp(op, tensor, self._peer(offset), self.group, tag)

    # -- forward -------------------------------------------------------------------------------------------------------

    def get_fwd_recv_ops(self, i: int) -> list[Any]:
        """What is to be received before forward of microbatch `i`."""
        if self.is_first:
            return []
        if self._from_before is None:
            told: list[Any] = [None]
            c10d.recv_object_list(told, self._peer(-1), group=self.group)
            self._from_before = told[0]
        assert self._from_before is not None
        values = [
            ops.empty(shape, dtype=dtype, device=self.device).requires_grad_(
                needs and is_grad_enabled()
            )
            for shape, dtype, needs in self._from_before
        ]
        self.entered[i] = values
        return [self._op(c10d.irecv, v.detach(), -1, 2 * i) for v in values]

    def forward_one_chunk(self, i: int, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Forward of microbatch `i`.

        Args:
            i: its number.
            args, kwargs: what ``step`` was given for it; positional ones count for the first stage alone.

        Returns:
            What the submodule gave.
        """
        given = args if self.is_first else tuple(self.entered[i])
        output = self.submodule(*given, **kwargs)
        left = output if isinstance(output, tuple) else (output,)
        if not self.is_last:
            self._tell(i, left)
        self.left[i] = left
        self.outputs.append(output)
        return output

    def _tell(self, i: int, left: tuple) -> None:
        """Tell the next stage what comes; all microbatches are alike."""
        if not all(isinstance(v, Tensor) for v in left):
            raise TypeError(
                f"stage {self.stage_index} gave {[type(v).__name__ for v in left]}: a stage gives tensors to the next"
            )
        kinds = [(tuple(v.shape), v.dtype, v.is_floating_point() or v.is_complex()) for v in left]
        if self._to_next is None:
            self._to_next = kinds
            c10d.send_object_list([kinds], self._peer(1), group=self.group)
        elif kinds != self._to_next:
            raise ValueError(
                f"stage {self.stage_index} gave {kinds} for microbatch {i}, the first one's were {self._to_next}: all "
                "microbatches have equal shapes and dtypes"
            )

    def get_fwd_send_ops(self, i: int) -> list[Any]:
        """What is to be sent after forward of microbatch `i`."""
        if self.is_last:
            return []
        return [self._op(c10d.isend, v.detach().contiguous(), 1, 2 * i) for v in self.left[i]]

    # -- backward ------------------------------------------------------------------------------------------------------

    def get_bwd_recv_ops(self, i: int) -> list[Any]:
        """What is to be received before backward of microbatch `i`."""
        if self.is_last:
            return []
        self.seeds[i] = [
            ops.empty_like(v) for v in self.left[i] if v.is_floating_point() or v.is_complex()
        ]
        return [self._op(c10d.irecv, v, 1, 2 * i + 1) for v in self.seeds[i]]

    def backward_one_chunk(self, i: int, loss: Tensor | None, last: bool) -> None:
        """Backward of microbatch `i`.

        Args:
            i: its number.
            loss: that of the last stage.
            last: whether no other comes after it: then modules that are fully sharded sum their gradients.
        """
        for module in self.submodule.modules():
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(last, recurse=False)
        if self.is_last:
            assert loss is not None
            loss.backward()
        else:
            floating = [v for v in self.left[i] if v.is_floating_point() or v.is_complex()]
            pairs = [(v, seed) for v, seed in zip(floating, self.seeds.pop(i)) if v.requires_grad]
            if pairs:
                backward([v for v, _ in pairs], [seed for _, seed in pairs])
        self.left.pop(i)

    def get_bwd_send_ops(self, i: int) -> list[Any]:
        """What is to be sent after backward of microbatch `i`: the gradients of what came."""
        if self.is_first:
            return []
        found = []
        for value in self.entered.pop(i):
            if value.is_floating_point() or value.is_complex():
                grad = ops.zeros_like(value) if value.grad is None else value.grad
                found.append(self._op(c10d.isend, grad.detach().contiguous(), -1, 2 * i + 1))
        return found

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients of the parameters.

        Args:
            grad_scale_factor: by what: the number of microbatches.
        """
        if grad_scale_factor != 1:
            for p in self.submodule.parameters():
                if p.grad is not None:
                    p.grad.div_(grad_scale_factor)
