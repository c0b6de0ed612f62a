"""ProcessGroup, as PyTorch has it: what scripts and libraries call on a group itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..tape.tensor import Tensor
from ._backend import Backend
from ._reduce_op import ReduceOp
from ._transfers import Transfers
from ._work import Work

__all__ = ["ProcessGroup"]


def _op(given: Any) -> Any:
    """The reduce op of options, or given in their place."""
    return getattr(given, "reduceOp", given) or ReduceOp.SUM


def _root(given: Any) -> int:
    """The root of options, or given in their place."""
    return getattr(given, "rootRank", given)


def _listed(given: Any) -> list[Tensor]:
    return [given] if isinstance(given, Tensor) else list(given)


def _inner(given: Any) -> list[Tensor]:
    """The list of tensors, which may stand in a list of one."""
    return list(given[0]) if given and isinstance(given[0], list | tuple) else list(given)


class ProcessGroup(Transfers):
    """Some processes of a job, and how they talk.

    Made by `init_process_group` and `new_group`. Its methods are collectives whose ranks are those of the group; the
    functions of `gradlib.distributed` take global ranks and check more.
    """

    def __repr__(self) -> str:
        backends = ",".join(f"{device}:{name}" for device, (name, _) in self._makers.items())
        return f"<ProcessGroup {self._name} ({backends}), rank {self._rank} of {self.size()}>"

    @property
    def group_name(self) -> str:
        """The name that is the same on all ranks."""
        return self._name

    def name(self) -> str:
        """The backend of the group, such as ``"gloo"``."""
        return next(iter(self._makers.values()))[0]

    def get_group_store(self) -> Any:
        """The store of this group alone."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Give collectives of this group that begin from now on another time; each rank decides for itself.

        Args:
            timeout: after which they fail.
        """
        self.timeout = self._limit = timeout
        for engine in list(self._engines.values()):
            engine.set_timeout(timeout)

    def _get_backend(self, device: Any) -> Backend:
        """The engine for tensors of a device."""
        return self.engine(getattr(device, "type", str(device).partition(":")[0]))

    @staticmethod
    def _started(work: Work | None) -> Work:
        assert work is not None
        return work

    def allreduce(self, tensors: Any, opts: Any = ReduceOp.SUM, **_: Any) -> Work:
        """Begin to put the values of all ranks together, in place.

        Args:
            tensors: a tensor, or a list of them.
            opts: a ReduceOp, or AllreduceOptions.
        """
        return self._started(self._all_reduce(_listed(tensors), _op(opts)))

    def broadcast(self, tensors: Any, opts: Any = 0, **_: Any) -> Work:
        """Begin to copy the values of one rank to the others.

        Args:
            tensors: a tensor, or a list of them.
            opts: the rank of the sender, or BroadcastOptions.
        """
        return self._started(self._broadcast(_listed(tensors), _root(opts)))

    def reduce(self, tensors: Any, opts: Any = 0, op: Any = ReduceOp.SUM, **_: Any) -> Work:
        """Begin to put the values of all ranks together on one.

        Args:
            tensors: a tensor, or a list of one.
            opts: the rank that gets them, or ReduceOptions.
            op: how; see `ReduceOp`.
        """
        how = op if isinstance(opts, int) else _op(opts)
        return self._started(self._reduce(_listed(tensors)[0], _root(opts), how))

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Begin to gather tensors in lists of all ranks.

        Args:
            output_tensors: a list of tensors, or a list of one such list for each input.
            input_tensors: a tensor, or a list of them.
        """
        nested = isinstance(output_tensors[0], list | tuple)
        outputs = output_tensors if nested else [output_tensors]
        return self._started(self._all_gather(outputs, _listed(input_tensors)))

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Begin to gather the tensors of all ranks in one."""
        return self._started(self._all_gather_into([output], [input]))

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = 0) -> Work:
        """Begin to gather the tensors of all ranks on one.

        Args:
            output_tensors: there a list of tensors, or a list of one such list; empty on others.
            input_tensors: a tensor, or a list of one.
            opts: the rank that gets them, or GatherOptions.
        """
        outputs = _inner(output_tensors)
        return self._started(self._gather(outputs or None, _listed(input_tensors)[0], _root(opts)))

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = 0) -> Work:
        """Begin to send one tensor of a list of one rank to each.

        Args:
            output_tensors: a tensor, or a list of one: written to.
            input_tensors: there a list of tensors, or a list of one such list; empty on others.
            opts: the rank that sends them, or ScatterOptions.
        """
        inputs = _inner(input_tensors)
        return self._started(self._scatter(_listed(output_tensors)[0], inputs or None, _root(opts)))

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = ReduceOp.SUM
    ) -> Work:
        """Begin to put lists of tensors of all ranks together, one tensor of the result for each rank.

        Args:
            output_tensors: a tensor, or a list of them: written to.
            input_tensors: a list of tensors, or a list of such lists.
            opts: a ReduceOp, or ReduceScatterOptions.
        """
        nested = isinstance(input_tensors[0], list | tuple)
        inputs = input_tensors if nested else [input_tensors]
        return self._started(self._reduce_scatter(_listed(output_tensors), inputs, _op(opts)))

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = ReduceOp.SUM) -> Work:
        """Begin to put `input` of all ranks together, a part for each rank."""
        return self._started(self._reduce_scatter([output], [[input]], _op(opts)))

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Begin to exchange a tensor with each rank.

        Args:
            output_tensors: number r is written what rank r has for this one.
            input_tensors: number r is for rank r.
        """
        return self._started(self._all_to_all(output_tensors, input_tensors))

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> Work:
        """Begin to exchange parts of one tensor, cut along its first dimension.

        Args:
            output: written to.
            input: part r is for rank r.
            output_split_sizes: lengths of the parts; equal if empty.
            input_split_sizes: the same for `input`.
        """
        out_counts = counts_of(output, output_split_sizes, self.size())
        counts = counts_of(input, input_split_sizes, self.size())
        return self._started(self._all_to_all_single(output, input, out_counts, counts))

    def barrier(
        self, opts: Any = None, timeout: timedelta | None = None, async_op: bool = True
    ) -> Any:
        """Begin to wait for all ranks.

        Args:
            opts: ignored.
            timeout: after which it fails; that of the group by default, and always with NCCL.
            async_op: give a Work; else return when all have come.
        """
        return self.run(
            "barrier", (), lambda engine: engine.barrier(), key=(), async_op=async_op, limit=timeout
        )

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> Work:
        """Begin to send a tensor.

        Args:
            tensors: a list of one.
            dstRank: the rank of the receiver.
            tag: that the receiver asks for.
        """
        return self._send_to(tensors[0], dstRank, tag)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> Work:
        """Begin to receive into a tensor.

        Args:
            tensors: a list of one.
            srcRank: the rank of the sender.
            tag: of the message.
        """
        return self._recv_from(tensors[0], srcRank, tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:
        """Begin to receive into a tensor from whoever sends first.

        Args:
            tensors: a list of one.
            tag: of the message.
        """
        return self._recv_from(tensors[0], None, tag)


def counts_of(tensor: Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """Elements of each part of a tensor that is cut along its first dimension; equal parts without `splits`.

    Raises:
        RuntimeError: the parts do not make the tensor.
    """
    shape = tensor._array.shape
    first = shape[0] if shape else 1
    row = tensor._array.size // first if first else 0
    if not splits:
        if first % size:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [tensor._array.size // size] * size
    if len(splits) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(splits) != first:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [n * row for n in splits]
