"""ProcessGroup: the collectives on lists of tensors.

Ranks are those of the group. All methods give a Work; with ``async_op=False`` they return None when they are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tape.tensor import Tensor
from ._arrays import Buffer, read
from ._group import Group
from ._reduce_op import PremulSum, ReduceOp
from ._reducing import Plan, plan
from ._work import PointToPoint, Work

__all__ = ["Transfers"]


def _empty(like: Any, count: int) -> Any:
    """A flat array of the kind of `like`."""
    if isinstance(like, np.ndarray):
        return np.empty(count, like.dtype)
    return like.__class__((count,), like.dtype)


def _agreed(tensor: Tensor) -> tuple:
    """What ranks must agree in where values meet element by element: dtype, and shape up to dimensions of size 1."""
    array = tensor._array
    shape = array.shape
    return (array.dtype.char, *([n for n in shape if n != 1] if 1 in shape else shape))


def _counted(tensor: Tensor) -> tuple:
    """What ranks must agree in where values are only moved: dtype and number of elements."""
    return (tensor._array.dtype.char, tensor._array.size)


class Transfers(Group):
    """The collectives of a process group."""

    def _all_reduce(
        self,
        tensors: Sequence[Tensor],
        op: ReduceOp | PremulSum = ReduceOp.SUM,
        async_op: bool = True,
        name: str = "all_reduce",
    ) -> Work | None:
        """Put the values of all ranks together, in place."""
        plans = [plan(name, op, tensor, self.size()) for tensor in tensors]

        def body(engine: Any) -> None:
            for tensor, how in zip(tensors, plans, strict=True):
                buffer = Buffer(tensor, keep=True)
                how.scale(buffer.flat)
                if buffer.flat.size:
                    engine.all_reduce(buffer.flat, how.name)
                how.finish(buffer.flat)
                buffer.put_back()

        key = (op.op.name, *[_agreed(tensor) for tensor in tensors])
        return self.run(
            name, tensors, body, key=key, detail=op.op.name, outputs=tensors, async_op=async_op
        )

    def _broadcast(
        self, tensors: Sequence[Tensor], root: int, async_op: bool = True
    ) -> Work | None:
        """Copy the values of rank `root` to the others."""

        def body(engine: Any) -> None:
            for tensor in tensors:
                buffer = Buffer(tensor, keep=True)
                if buffer.flat.size:
                    engine.broadcast(buffer.flat, root)
                buffer.put_back()

        key = (root, *[_counted(tensor) for tensor in tensors])
        return self.run(
            "broadcast",
            tensors,
            body,
            key=key,
            detail=f"src={self.ranks[root]}",
            outputs=tensors,
            async_op=async_op,
        )

    def _reduce(
        self,
        tensor: Tensor,
        root: int,
        op: ReduceOp | PremulSum = ReduceOp.SUM,
        async_op: bool = True,
    ) -> Work | None:
        """`all_reduce` whose result only rank `root` gets."""
        how = plan("reduce", op, tensor, self.size())

        def body(engine: Any) -> None:
            if self._rank != root:
                flat = how.scaled(read(tensor))
                if flat.size:
                    engine.reduce(flat, root, how.name)
                return
            buffer = Buffer(tensor, keep=True)
            how.scale(buffer.flat)
            if buffer.flat.size:
                engine.reduce(buffer.flat, root, how.name)
            how.finish(buffer.flat)
            buffer.put_back()

        return self.run(
            "reduce",
            (tensor,),
            body,
            key=(op.op.name, root, _agreed(tensor)),
            detail=f"{op.op.name}, dst={self.ranks[root]}",
            outputs=(tensor,) if self._rank == root else (),
            result=[tensor],
            async_op=async_op,
        )

    def _all_gather(
        self,
        outputs: Sequence[Sequence[Tensor]],
        inputs: Sequence[Tensor],
        async_op: bool = True,
        name: str = "all_gather",
    ) -> Work | None:
        """Tensor i of each rank into the list of outputs i, ordered by rank."""
        n = self.size()

        def body(engine: Any) -> None:
            for into, tensor in zip(outputs, inputs, strict=True):
                flat = read(tensor)
                if flat.size:
                    gathered = _empty(flat, n * flat.size)
                    engine.all_gather(gathered, flat)
                    _hand_out(gathered, into)

        return self.run(
            name,
            inputs,
            body,
            key=tuple([_counted(tensor) for tensor in inputs]),
            outputs=[tensor for into in outputs for tensor in into],
            result=[list(into) for into in outputs] if len(outputs) > 1 else list(outputs[0]),
            async_op=async_op,
        )

    def _all_gather_into(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], async_op: bool = True
    ) -> Work | None:
        """Tensor i of each rank behind each other into output i."""

        def body(engine: Any) -> None:
            for out, tensor in zip(outputs, inputs, strict=True):
                flat, buffer = read(tensor), Buffer(out)
                if flat.size:
                    engine.all_gather(buffer.flat, flat)
                    buffer.put_back()

        return self.run(
            "all_gather_into_tensor",
            inputs,
            body,
            key=tuple([_counted(tensor) for tensor in inputs]),
            outputs=outputs,
            async_op=async_op,
        )

    def _gather(
        self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int, async_op: bool = True
    ) -> Work | None:
        """The tensors of all ranks into the list of rank `root`."""

        def body(engine: Any) -> None:
            flat = read(tensor)
            if not flat.size:
                return
            if self._rank != root or outputs is None:
                engine.gather(None, flat, root)
                return
            gathered = _empty(flat, self.size() * flat.size)
            engine.gather(gathered, flat, root)
            _hand_out(gathered, outputs)

        return self.run(
            "gather",
            (tensor,),
            body,
            key=(root, _counted(tensor)),
            detail=f"dst={self.ranks[root]}",
            outputs=outputs or (),
            async_op=async_op,
        )

    def _scatter(
        self, tensor: Tensor, inputs: Sequence[Tensor] | None, root: int, async_op: bool = True
    ) -> Work | None:
        """Tensor number r of the list of rank `root` into the tensor of rank r."""

        def body(engine: Any) -> None:
            buffer = Buffer(tensor)
            if buffer.flat.size:
                given = None
                if self._rank == root and inputs is not None:
                    given = _joined(inputs)
                engine.scatter(buffer.flat, given, root)
                buffer.put_back()

        return self.run(
            "scatter",
            (tensor,),
            body,
            key=(root, _counted(tensor)),
            detail=f"src={self.ranks[root]}",
            outputs=(tensor,),
            async_op=async_op,
        )

    def _reduce_scatter(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Sequence[Tensor]],
        op: ReduceOp | PremulSum = ReduceOp.SUM,
        async_op: bool = True,
        name: str = "reduce_scatter",
    ) -> Work | None:
        """List i of all ranks put together; tensor number r of the result into output i of rank r.

        A list of one tensor is cut into equal parts.
        """
        plans: list[Plan] = [plan(name, op, out, self.size()) for out in outputs]

        def body(engine: Any) -> None:
            for out, given, how in zip(outputs, inputs, plans, strict=True):
                buffer = Buffer(out)
                if buffer.flat.size:
                    flat = read(given[0]) if len(given) == 1 else _joined(given)
                    engine.reduce_scatter(buffer.flat, how.scaled(flat), how.name)
                    how.finish(buffer.flat)
                    buffer.put_back()

        key = (op.op.name, *[_agreed(out) for out in outputs])
        return self.run(
            name, outputs, body, key=key, detail=op.op.name, outputs=outputs, async_op=async_op
        )

    def _all_to_all(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], async_op: bool = True
    ) -> Work | None:
        """Tensor number r of the inputs to rank r; what rank r sent into tensor number r of the outputs."""

        def body(engine: Any) -> None:
            buffers = [Buffer(out) for out in outputs]
            given = [read(tensor) for tensor in inputs]
            counts, out_counts = [flat.size for flat in given], [b.flat.size for b in buffers]
            joined = _joined(inputs)
            received = _empty(joined, sum(out_counts))
            engine.all_to_all(received, joined, out_counts, counts)
            start = 0
            for buffer in buffers:
                buffer.flat[...] = received[start : start + buffer.flat.size]
                start += buffer.flat.size
                buffer.put_back()

        return self.run(
            "all_to_all",
            inputs,
            body,
            key=(inputs[0]._array.dtype.char,),
            outputs=outputs,
            async_op=async_op,
        )

    def _all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: list[int],
        input_counts: list[int],
        async_op: bool = True,
    ) -> Work | None:
        """Parts of `input` to all ranks, and theirs into parts of `output`; counts are of elements."""

        def body(engine: Any) -> None:
            flat, buffer = read(input), Buffer(output)
            wide = flat.size // max(1, input._array.size) if flat.size else 1
            wide = 2 if input._array.dtype.kind == "c" else wide
            engine.all_to_all(
                buffer.flat, flat, [wide * n for n in output_counts], [wide * n for n in input_counts]
            )  # fmt: skip
            buffer.put_back()

        return self.run(
            "all_to_all_single",
            (input,),
            body,
            key=(input._array.dtype.char,),
            outputs=(output,),
            async_op=async_op,
        )

    # -- point to point ------------------------------------------------------------------------------------------

    def _send_to(self, tensor: Tensor, to: int, tag: int = 0) -> PointToPoint:
        """Begin to send a tensor to a rank."""
        return self.point(
            "send",
            tensor,
            lambda engine: engine.start_send(read(tensor), to, tag),
            lambda: None,
            f"dst={self.ranks[to]}, tag={tag}",
        )

    def _recv_from(self, tensor: Tensor, source: int | None, tag: int = 0) -> PointToPoint:
        """Begin to receive into a tensor, from any rank if `source` is None."""
        buffer = Buffer(tensor)
        return self.point(
            "recv",
            tensor,
            lambda engine: engine.start_recv(buffer.flat, source, tag),
            buffer.put_back,
            f"src={'any' if source is None else self.ranks[source]}, tag={tag}",
        )


def _joined(tensors: Sequence[Tensor]) -> Any:
    """The values of all tensors behind each other, as an engine takes them."""
    flats = [read(tensor) for tensor in tensors]
    out = _empty(flats[0], sum([flat.size for flat in flats]))
    start = 0
    for flat in flats:
        out[start : start + flat.size] = flat
        start += flat.size
    return out


def _hand_out(gathered: Any, into: Sequence[Tensor]) -> None:
    """Equal parts of a flat array into tensors."""
    n = gathered.size // len(into)
    for i, tensor in enumerate(into):
        buffer = Buffer(tensor)
        buffer.flat[...] = gathered[i * n : (i + 1) * n]
        buffer.put_back()
