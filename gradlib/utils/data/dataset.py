"""Datasets: where samples come from."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ...tape.generator import Generator, default_generator
from ...tape.tensor import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A collection of samples by index: subclasses write `__getitem__`, and mostly `__len__`.

    A subclass may also write `__getitems__(indices) -> list`, which a DataLoader then calls once
    for a batch.

    Example:
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 10
        ...     def __getitem__(self, index):
        ...         return index**2
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A stream of samples: subclasses write `__iter__`.

    With several workers each one iterates over the whole dataset, so `__iter__` should ask
    `get_worker_info` which part it is to give.

    Example:
        >>> class Lines(IterableDataset):
        ...     def __iter__(self):
        ...         yield from open("data.txt")
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are the rows of tensors: sample i is `(a[i], b[i], ...)`.

    A DataLoader with the default `collate_fn` takes a batch with one indexing per tensor.

    Args:
        tensors: Tensors [n, ...] of the same n.

    Raises:
        AssertionError: the tensors differ in their first dimension.

    Example:
        >>> dataset = TensorDataset(gradlib.randn(100, 3), gradlib.arange(100))
        >>> x, y = dataset[0]
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def _collated(self, indices: Sequence[int]) -> list[Tensor] | None:
        """The batch that the default collate function would make, or None to let it do so."""
        if type(self).__getitem__ is not TensorDataset.__getitem__ or not self.tensors:
            return None
        index = list(indices)
        if not index or not set(map(type, index)) <= {int, np.int32, np.int64}:
            return None
        return [tensor[index] for tensor in self.tensors]


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample i is the tuple or dict of the samples i.

    Args:
        args: datasets of the same length; samples are tuples.
        kwargs: or datasets by name; samples are dicts.

    Raises:
        ValueError: no dataset, both kinds, or lengths that differ.

    Example:
        >>> StackDataset(image=images, text=texts)[0]
        {'image': ..., 'text': ...}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = {len(dataset) for dataset in self._parts()}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def _parts(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples at `indices`, with one call for each dataset that has `__getitems__`."""
        columns = [_items(dataset, indices) for dataset in self._parts()]
        rows = zip(*columns, strict=True)
        if isinstance(self.datasets, dict):
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(rows)

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[int]) -> list[Any]:
    """The samples of `dataset` at `indices`."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
        )
    return items


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other.

    Args:
        datasets: the datasets; not of the iterable kind.

    Raises:
        AssertionError: there are none, or one is an IterableDataset.

    Example:
        >>> len(ConcatDataset([[1, 2], [3]]))
        3
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Running sum of the lengths: where each dataset ends.

        Args:
            sequence: datasets.

        Example:
            >>> ConcatDataset.cumsum([[1, 2], [3]])
            [2, 3]
        """
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        if part == len(self.datasets):
            raise IndexError("list index out of range")
        before = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of `cumulative_sizes`.

        It warns (DeprecationWarning).
        """
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other.

    Args:
        datasets: IterableDatasets; each is started when the one before has ended.

    Raises:
        AssertionError: when it is iterated over, if one is of the other kind.

    Example:
        >>> class Numbers(IterableDataset):
        ...     def __iter__(self):
        ...         yield from (1, 2)
        >>> list(ChainDataset([Numbers(), Numbers()]))
        [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _parts(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._parts():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._parts())


class Subset(Dataset[T_co]):
    """Some samples of a dataset.

    Args:
        dataset: the whole.
        indices: which samples, in which order.

    Example:
        >>> list(Subset("abcd", [3, 1]))
        ['d', 'b']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples at `indices` of this subset."""
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)

    def _collated(self, indices: Sequence[int]) -> Any:
        """As for TensorDataset, if the whole is one."""
        collated = getattr(self.dataset, "_collated", None)
        plain = (
            type(self).__getitem__ is Subset.__getitem__
            and type(self).__getitems__ is Subset.__getitems__
        )
        if collated is None or not plain:
            return None
        return collated([self.indices[i] for i in indices])


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[Any]]:
    """Deal a dataset into parts that do not overlap, at random.

    Args:
        dataset: the whole, with a length.
        lengths: lengths of the parts, which add up to that of the whole; or fractions that add up
            to 1: what rounding down leaves over goes to the parts in turn.
        generator: draws the permutation.

    Returns:
        One Subset for each length.

    Raises:
        ValueError: the lengths do not add up, or a fraction is not between 0 and 1.

    Example:
        >>> train, test = random_split(range(10), [0.8, 0.2], gradlib.Generator().manual_seed(0))
        >>> len(train), len(test)
        (8, 2)
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _from_fractions(lengths, total)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = (generator or default_generator).rng.permutation(total).tolist()
    ends = list(itertools.accumulate(int(n) for n in lengths))
    starts = [0, *ends[:-1]]
    return [Subset(dataset, order[a:b]) for a, b in zip(starts, ends, strict=True)]


def _from_fractions(fractions: Sequence[float], total: int) -> list[int]:
    """Lengths that add up to `total`."""
    for number, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {number} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for number in range(total - sum(lengths)):
        lengths[number % len(lengths)] += 1
    for number, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {number} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths
