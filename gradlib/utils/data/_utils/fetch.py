"""Taking the samples of one batch out of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .collate import default_collate

__all__ = ["create_fetcher"]


class _Fetcher:
    """What both kinds keep.

    Args:
        dataset: the dataset.
        auto_collation: whether an index is a list of them, whose samples make one batch.
        collate_fn: makes the batch, or converts the single sample.
        drop_last: whether the last batch of a stream is left out if it is not full.
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last


class MapFetcher(_Fetcher):
    """Batches of a dataset that is indexed."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        # A dataset of tensors indexes once for a batch, instead of once for every sample.
        collated = getattr(self.dataset, "_collated", None)
        whole = self.collate_fn is default_collate and self.auto_collation
        self.collated = collated if whole else None
        self.getitems = getattr(self.dataset, "__getitems__", None)

    def fetch(self, index: Any) -> Any:
        """The batch at a list of indices, or the sample at one index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if self.collated is not None:
            batch = self.collated(index)
            if batch is not None:
                return batch
        if callable(self.getitems):
            return self.collate_fn(self.getitems(index))
        return self.collate_fn([self.dataset[i] for i in index])


class IterableFetcher(_Fetcher):
    """Batches of a dataset that is a stream."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.samples = iter(self.dataset)

    def fetch(self, index: Any) -> Any:
        """As many samples as `index` has items; raises StopIteration at the end."""
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        batch = list(itertools.islice(self.samples, len(index)))
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate_fn(batch)


def create_fetcher(iterable: bool, *settings: Any) -> MapFetcher | IterableFetcher:
    """The fetcher for a kind of dataset; `settings` are its arguments."""
    return IterableFetcher(*settings) if iterable else MapFetcher(*settings)
