"""``distributed.pipelining.schedules``: in which order the stages of a pipeline work on microbatches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..._refused import refuse
from ...autograd.grad_mode import no_grad
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from .microbatch import merge_chunks, split_args_kwargs_into_chunks
from .stage import PipelineStage

__all__ = ["PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe", "get_schedule_class"]
__getattr__ = refuse(__name__)


class PipelineScheduleSingle(ABC):
    """A schedule of one stage on each rank.

    Args:
        stage: that of this rank.
        n_microbatches: into how many pieces a batch is cut.
        loss_fn: ``loss_fn(output, target)``, called by the last stage; without it there is no backward.
        args_chunk_spec, kwargs_chunk_spec: how arguments are cut; see `split_args_kwargs_into_chunks`.
        output_merge_spec: how outputs are joined; see `merge_chunks`.
        scale_grads: divide gradients by the number of microbatches: right for a loss that is a mean.

    Raises:
        ValueError: fewer microbatches than stages.

    Example::

        schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=nn.functional.cross_entropy)
        losses = []
        output = schedule.step(x) if rank == 0 else schedule.step(target=y, losses=losses)
        optimizer.step()
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: tuple | None = None,
        kwargs_chunk_spec: dict[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({stage.num_stages})."
            )
        self._stage, self._n_microbatches, self._loss_fn = stage, n_microbatches, loss_fn
        self._args_spec, self._kwargs_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_spec, self.scale_grads = output_merge_spec, scale_grads
        self._losses: list[Tensor] = []
        self._loss_kwargs: dict[str, Any] = {}

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One batch through the pipeline and back; all ranks call it.

        Args:
            args: what the first stage gets.
            target: what the last stage compares with.
            losses: a list that gets the loss of each microbatch, on the last stage.
            return_outputs: give the outputs, on the last stage.
            loss_kwargs: more arguments of the loss.
            kwargs: for the submodule of this rank.

        Returns:
            The outputs of the batch, on the last stage; else None.
        """
        self._stage.has_backward = self._loss_fn is not None
        return self._batch(args, kwargs, target, losses, return_outputs, loss_kwargs or {})

    @no_grad()
    def eval(
        self, *args: Any, target: Any = None, losses: list | None = None, **kwargs: Any
    ) -> Any:
        """One batch through the pipeline, without gradients; arguments and result as for `step`."""
        self._stage.has_backward = False
        return self._batch(args, kwargs, target, losses, True, {})

    def _batch(
        self, args: tuple, kwargs: dict, target: Any, losses: list | None, outputs: bool, more: dict
    ) -> Any:
        stage, n = self._stage, self._n_microbatches
        stage.clear_runtime_states()
        self._losses, self._loss_kwargs = [], more
        self._args, self._kwargs = split_args_kwargs_into_chunks(
            args,
            kwargs,
            n,
            self._args_spec if args else None,
            self._kwargs_spec if kwargs else None,
        )
        with_loss = stage.is_last and self._loss_fn is not None and target is not None
        if stage.is_last and stage.has_backward and target is None:
            raise ValueError("the last stage needs a target for its loss: step(target=...)")
        self._targets = split_args_kwargs_into_chunks((target,), {}, n)[0] if with_loss else None
        self._run()
        if stage.has_backward and self.scale_grads:
            stage.scale_grads(n)
        if losses is not None and with_loss:
            losses[:] = self._losses
        if not (stage.is_last and outputs):
            return None
        return merge_chunks(stage.outputs, self._output_spec)

    @abstractmethod
    def _run(self) -> None:
        """All microbatches, in the order of the schedule."""

    def _forward(self, i: int) -> None:
        output = self._stage.forward_one_chunk(i, self._args[i], self._kwargs[i])
        if self._targets is not None:
            assert self._loss_fn is not None
            self._losses.append(self._loss_fn(output, self._targets[i][0], **self._loss_kwargs))

    def _backward(self, i: int, last: bool) -> None:
        self._stage.backward_one_chunk(i, self._losses[i] if self._losses else None, last)


def begin(operations: list[Any]) -> list[Any]:
    """Begin sends and receives, together."""
    return c10d.batch_isend_irecv(operations) if operations else []


def wait(works: list[Any]) -> None:
    """Wait until sends and receives are done."""
    for work in works:
        work.wait()


class ScheduleGPipe(PipelineScheduleSingle):
    """Forward of all microbatches, then backward of all; arguments as of `PipelineScheduleSingle`.

    Source: Y. Huang and others, GPipe: Efficient training of giant neural networks using pipeline parallelism, 2019.
    """

    def _run(self) -> None:
        stage, n = self._stage, self._n_microbatches
        sent = []
        for i in range(n):
            wait(begin(stage.get_fwd_recv_ops(i)))
            self._forward(i)
            sent += begin(stage.get_fwd_send_ops(i))
        wait(sent)
        sent = []
        for i in range(n if stage.has_backward else 0):
            wait(begin(stage.get_bwd_recv_ops(i)))
            self._backward(i, i == n - 1)
            sent += begin(stage.get_bwd_send_ops(i))
        wait(sent)


class Schedule1F1B(PipelineScheduleSingle):
    """After as many forwards as there are stages behind, backward and forward take turns.

    So a stage keeps as many microbatches as there are stages behind it, instead of all. Arguments as of
    `PipelineScheduleSingle`.

    Source: D. Narayanan and others, PipeDream: Generalized pipeline parallelism for DNN training, 2019.
    """

    def _run(self) -> None:
        stage, n = self._stage, self._n_microbatches
        if not stage.has_backward:
            ScheduleGPipe._run(self)  # pyright: ignore[reportArgumentType]  # without backward they are one
            return
        ahead = min(n, stage.num_stages - stage.stage_index)
        forward = backward = 0
        sends: list[Any] = []
        sent: list[Any] = []
        for k in range(ahead):
            wait(begin(stage.get_fwd_recv_ops(forward)))
            self._forward(forward)
            sends = stage.get_fwd_send_ops(forward)
            forward += 1
            if k < ahead - 1:
                sent += begin(sends)
        while (
            True
        ):  # what is sent one way and received the other goes together: neither waits for the other
            wait(begin([*sends, *stage.get_bwd_recv_ops(backward)]))
            self._backward(backward, backward == n - 1)
            sends = stage.get_bwd_send_ops(backward)
            backward += 1
            if forward == n:
                break
            wait(begin([*sends, *stage.get_fwd_recv_ops(forward)]))
            self._forward(forward)
            sends = stage.get_fwd_send_ops(forward)
            forward += 1
        sent += begin(sends)
        while backward < n:
            wait(begin(stage.get_bwd_recv_ops(backward)))
            self._backward(backward, backward == n - 1)
            sent += begin(stage.get_bwd_send_ops(backward))
            backward += 1
        wait(sent)


_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def get_schedule_class(schedule_name: str) -> type[PipelineScheduleSingle]:
    """The schedule of a name.

    Args:
        schedule_name: "GPipe" or "1F1B", in any case.

    Raises:
        ValueError: there is no such schedule here.

    Example::

        get_schedule_class("1f1b")
        # <class 'gradlib.distributed.pipelining.schedules.Schedule1F1B'>
    """
    found = _SCHEDULES.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(
            f"Unknown schedule name: {schedule_name}: the valid ones here are GPipe and 1F1B"
        )
    return found
