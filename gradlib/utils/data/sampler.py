"""Samplers: the order in which samples are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ...tape.generator import Generator, default_generator
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


def _positive(name: str, value: Any) -> None:
    """ValueError unless `value` is a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def draw_seed(generator: Generator | None = None) -> int:
    """A seed drawn from `generator`, or from the default one."""
    return int((generator or default_generator).rng.integers(2**63 - 1))


class Sampler(Generic[T_co]):
    """An iterable of indices, or of lists of indices; subclasses write `__iter__`.

    Example:
        >>> class Backwards(Sampler):
        ...     def __init__(self, data):
        ...         self.data = data
        ...     def __iter__(self):
        ...         return iter(range(len(self.data) - 1, -1, -1))
        ...     def __len__(self):
        ...         return len(self.data)
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... in this order.

    Args:
        data_source: what is sampled; its length is asked for in every epoch.

    Example:
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Args:
        data_source: what is sampled.
        replacement: draw every index anew, so that one may come more than once.
        num_samples: how many to draw; as many as there are when left out. Without replacement and
            above that, one permutation follows another.
        generator: draws; when left out, one that is seeded by the default generator.

    Raises:
        TypeError: `replacement` is not a bool.
        ValueError: there is nothing to draw, or `num_samples` is not a positive integer.

    Example:
        >>> sorted(RandomSampler("abcd"))
        [0, 1, 2, 3]
        >>> len(list(RandomSampler("abcd", replacement=True, num_samples=10)))
        10
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        _positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices are drawn; follows the length of a source that grows."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        generator = self.generator or Generator().manual_seed(draw_seed())
        while left > 0:
            if self.replacement:
                drawn = generator.rng.integers(n, size=min(left, 4096))
            else:
                drawn = generator.rng.permutation(n)[:left]
            yield from drawn.tolist()
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    Args:
        indices: which indices.
        generator: draws; the default one when left out.

    Example:
        >>> sorted(SubsetRandomSampler([5, 7, 2]))
        [2, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in (self.generator or default_generator).rng.permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with given probabilities.

    Args:
        weights: one non-negative weight for each index; they need not add up to 1.
        num_samples: how many to draw.
        replacement: whether an index may come more than once.
        generator: draws; the default one when left out.

    Raises:
        ValueError: `num_samples`, `replacement` or the shape of `weights` is wrong.
        RuntimeError: when drawing without replacement: fewer positive weights than samples.

    Example:
        >>> list(WeightedRandomSampler([0.0, 1.0], 3))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        values = raw_values(weights) if isinstance(weights, Tensor) else weights
        probabilities = np.asarray(values, dtype=np.float64)
        if probabilities.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{probabilities.shape}"
            )
        self.weights = Tensor._make(probabilities)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights._array
        total = weights.sum()
        if not np.isfinite(total) or (weights < 0).any():
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if total <= 0:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if not self.replacement and self.num_samples > np.count_nonzero(weights):
            raise RuntimeError(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
            )
        rng = (self.generator or default_generator).rng
        drawn = rng.choice(
            len(weights), self.num_samples, replace=self.replacement, p=weights / total
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of another sampler into lists.

    Args:
        sampler: iterable of indices.
        batch_size: length of a list.
        drop_last: leave out a last list that is shorter.

    Raises:
        ValueError: `batch_size` is not a positive integer or `drop_last` not a bool.

    Example:
        >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
