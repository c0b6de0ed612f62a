"""Sequences of different lengths: padded tensors, packed sequences, and lists.

A packed sequence holds the elements of time step 0 of all sequences, then those of time step 1
of all that are long enough, and so on: [sum of lengths, ...] and a batch size per time step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from ...op.plain_numbers import plain_number
from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _PackedFields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_PackedFields):
    """Sequences packed time step by time step; made by `pack_padded_sequence`.

    It is a tuple of its attributes. Recurrent layers take it, and return one.

    Attributes:
        data: Tensor [sum of lengths, ...].
        batch_sizes: integers [longest length], on the CPU, not increasing.
        sorted_indices: integers [N], the order in which the sequences are packed, or None.
        unsorted_indices: integers [N], the inverse of `sorted_indices`, or None.

    Raises:
        ValueError: `batch_sizes` is not on the CPU.

    Example:
        >>> packed = pack_sequence([gradlib.tensor([1, 2]), gradlib.tensor([3])])
        >>> packed.data.tolist(), packed.batch_sizes.tolist()
        ([1, 3, 2], [2, 1])
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is not None and batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never "
                "be created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        sizes: Any = batch_sizes
        if sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, sizes = data  # a pair, as old pickles have it
        return super().__new__(cls, data, sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move or cast the data; batch sizes stay on the CPU.

        Args:
            args: as of ``Tensor.to``.
            kwargs: as of ``Tensor.to``.

        Returns:
            Another one, or this one where nothing changes.

        Example:
            >>> packed = pack_sequence([gradlib.ones(2)])
            >>> packed.to(gradlib.float64).data.dtype
            torch.float64
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return PackedSequence(
            data,
            self.batch_sizes,
            None if self.sorted_indices is None else self.sorted_indices.to(data.device),
            None if self.unsorted_indices is None else self.unsorted_indices.to(data.device),
        )

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move the data to a GPU; returns another one.

        Args:
            device: index or device; the current one by default.

        Raises:
            RuntimeError: there is no CUDA device.
        """
        return self.to(args[0] if args else kwargs.get("device", "cuda"))

    def cpu(self) -> PackedSequence:
        """Move the data to the CPU.

        Returns:
            Another one, or this one if the data is there already.
        """
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """Cast the data to float64.

        Returns:
            Another one, or this one if the data is of that dtype already.
        """
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """Cast the data to float32.

        Returns:
            Another one, or this one if the data is of that dtype already.
        """
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """Cast the data to float16.

        Returns:
            Another one, or this one if the data is of that dtype already.
        """
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        """Cast the data to int64.

        Returns:
            Another one, or this one if the data is of that dtype already.
        """
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """Cast the data to int32.

        Returns:
            Another one, or this one if the data is of that dtype already.
        """
        return self.to(dtype=dtypes.int32)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    def pin_memory(self) -> PackedSequence:
        """Put the data into pinned memory, from which copies to a GPU do not wait; returns another one.

        Raises:
            RuntimeError: there is no CUDA device.
        """
        return self._replace(data=self.data.pin_memory())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation p such that p[permutation[i]] = i; None for None.

    Args:
        permutation: integers [N], each of 0 to N - 1 once.

    Returns:
        Tensor [N], int64.

    Example:
        >>> invert_permutation(gradlib.tensor([2, 0, 1])).tolist()
        [1, 2, 0]
    """
    if permutation is None:
        return None
    return ops.argsort(permutation)


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack padded sequences.

    Args:
        input: [T, N, ...], or [N, T, ...] with batch_first.
        lengths: N integers, each at least 1 and at most T.
        batch_first: the form of `input`.
        enforce_sorted: lengths do not increase; False sorts the sequences first.

    Raises:
        RuntimeError: a length is zero, or lengths increase although they are said to be sorted.

    Example:
        >>> packed = pack_padded_sequence(gradlib.tensor([[1, 2], [3, 0]]), [2, 1], True)
        >>> packed.data.tolist(), packed.batch_sizes.tolist()
        ([1, 3, 2], [2, 1])
    """
    if isinstance(lengths, Tensor) and lengths.device.type != "cpu":
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths.device.type} {lengths.dtype} tensor"
        )
    sizes = ops.as_tensor(lengths, dtype=dtypes.int64, device="cpu")
    sorted_indices = None
    if not enforce_sorted:
        sizes, order = ops.sort(sizes, descending=True)
        sorted_indices = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    length = sizes.tolist()
    if not length or not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    if length[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any(a < b for a, b in pairwise(length)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence "
            "to sidestep this requirement if you do not need ONNX exportability."
        )
    if batch_first:
        input = input.transpose(0, 1)
    if len(length) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(length)} "
            f"(batch_size={input.size(1)})"
        )
    batch_sizes = [sum(n > t for n in length) for t in range(length[0])]
    steps = [input[t, :n] for t, n in enumerate(batch_sizes)]
    counts = ops.tensor(batch_sizes, dtype=dtypes.int64, device="cpu")
    return PackedSequence(ops.cat(steps), counts, sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`.

    Args:
        sequence: what to unpack.
        batch_first: return [N, T, ...] instead of [T, N, ...].
        padding_value: fills the rest of shorter sequences.
        total_length: T; the longest length by default.

    Returns:
        (padded, lengths): lengths are N integers on the CPU.

    Raises:
        ValueError: `total_length` is less than the longest length.

    Example:
        >>> packed = pack_sequence([gradlib.tensor([1, 2]), gradlib.tensor([3])])
        >>> padded, lengths = pad_packed_sequence(packed, batch_first=True)
        >>> padded.tolist(), lengths.tolist()
        ([[1, 2], [3, 0]], [2, 1])
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {longest}"
        )
    sizes = sequence.batch_sizes.tolist()
    n, rest = sizes[0], sequence.data.shape[1:]
    steps = []
    for step in ops.split(sequence.data, sizes):
        if step.size(0) < n:
            shape = (n - step.size(0), *rest)
            step = ops.cat([step, step.new_full(shape, padding_value)])
        steps.append(step)
    for _ in range((total_length or longest) - longest):
        steps.append(sequence.data.new_full((n, *rest), padding_value))
    padded = ops.stack(steps, 1 if batch_first else 0)
    counts = [sum(s > i for s in sizes) for i in range(n)]
    lengths = ops.tensor(counts, dtype=dtypes.int64, device="cpu")
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices
        padded = padded.index_select(0 if batch_first else 1, order)
        lengths = lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences [L, ...] of different lengths, padded to the longest.

    Args:
        sequences: tensors that differ in the first dimension only.
        batch_first: return [N, T, ...] instead of [T, N, ...].
        padding_value: fills the rest.
        padding_side: "right" or "left": where the rest is.

    Example:
        >>> pad_sequence([gradlib.ones(2), gradlib.ones(1)], batch_first=True).tolist()
        [[1.0, 1.0], [1.0, 0.0]]
    """
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    rows = list(sequences)
    if not rows:
        raise RuntimeError("received an empty list of sequences")
    longest = max(row.size(0) for row in rows)
    padded, first = [], rows[0]
    padding_value = plain_number(float(padding_value), first.dtype)
    for row in rows:
        row = row.to(first.dtype)
        if row.size(0) < longest:
            rest = first.new_full((longest - row.size(0), *row.shape[1:]), padding_value)
            row = ops.cat([row, rest] if padding_side == "right" else [rest, row])
        padded.append(row)
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Undo `pad_sequence`: N tensors [length, ...].

    Args:
        padded_sequences: [T, N, ...], or [N, T, ...] with batch_first.
        lengths: N integers.
        batch_first: the form of `padded_sequences`.

    Raises:
        ValueError: another number of lengths.

    Example:
        >>> rows = unpad_sequence(gradlib.tensor([[1, 2], [3, 0]]), gradlib.tensor([2, 1]), True)
        >>> [row.tolist() for row in rows]
        [[1, 2], [3]]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    rows = zip(padded_sequences.unbind(0), lengths.tolist(), strict=True)
    return [row[:n] for row, n in rows]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences [L, ...] of different lengths.

    Args:
        sequences: tensors that differ in the first dimension only.
        enforce_sorted: lengths do not increase; False sorts the sequences first.

    Example:
        >>> pack_sequence([gradlib.tensor([1, 2]), gradlib.tensor([3])]).data.tolist()
        [1, 3, 2]
    """
    lengths = ops.tensor([row.size(0) for row in sequences], device="cpu")
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo `pack_sequence`: a list of tensors [length, ...].

    Args:
        packed_sequences: what to unpack.

    Example:
        >>> packed = pack_sequence([gradlib.tensor([1, 2]), gradlib.tensor([3])])
        >>> [row.tolist() for row in unpack_sequence(packed)]
        [[1, 2], [3]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
