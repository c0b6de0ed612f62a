"""Datasets, samplers and DataLoader give what PyTorch's give: results, errors and their texts."""

import warnings
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.data")

import gradlib
import gradlib.utils.data

Point = namedtuple("Point", "x y")


def stream(data):
    """An iterable dataset of the given library."""

    class Stream(data.IterableDataset):
        def __len__(self):
            return 5

        def __iter__(self):
            return iter(range(5))

    return Stream()


def plain(value):
    """A result without the types of either library."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value


def outcome(function, library):
    """What a function does with a library: its result or its error, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function(library, library.utils.data))
        except Exception as error:
            result = type(error), str(error)
    texts = [str(w.message) for w in caught if not issubclass(w.category, DeprecationWarning)]
    return result, texts


def rows(t):
    return t.arange(10).reshape(5, 2), t.arange(5) * 0.5


CASES = [
    lambda t, d: list(d.DataLoader(d.TensorDataset(*rows(t)), batch_size=2)),
    lambda t, d: list(d.DataLoader(d.TensorDataset(*rows(t)), batch_size=2, drop_last=True)),
    lambda t, d: list(d.DataLoader(d.TensorDataset(*rows(t)), batch_size=None)),
    lambda t, d: list(d.DataLoader(d.TensorDataset(*rows(t)), batch_sampler=[[4, 0], [2]])),
    lambda t, d: list(d.DataLoader(d.Subset(d.TensorDataset(*rows(t)), [3, 1, 0]), 2)),
    lambda t, d: list(d.DataLoader(stream(d), batch_size=2)),
    lambda t, d: list(d.DataLoader(stream(d), batch_size=None)),
    lambda t, d: list(d.DataLoader([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], batch_size=2)),
    lambda t, d: list(d.DataLoader([np.float32(1), np.float32(2)], batch_size=2)),
    lambda t, d: [len(d.DataLoader(stream(d), b, drop_last=x)) for b in (2, 5) for x in (0, 1)],
    lambda t, d: d.default_collate([1.5, 2]),
    lambda t, d: d.default_collate([1, 2.5]),
    lambda t, d: d.default_collate([True, False]),
    lambda t, d: d.default_collate([np.ones(2), np.zeros(2)]),
    lambda t, d: d.default_collate([np.bool_(True)]),
    lambda t, d: d.default_collate([Point(1, 2.0), Point(3, 4.0)]),
    lambda t, d: d.default_collate([OrderedDict(a=1)]),
    lambda t, d: d.default_collate([range(2), range(2)]),
    lambda t, d: d.default_collate([t.ones(2), t.zeros(2)]),
    lambda t, d: d.default_collate([t.tensor(1), t.tensor(2.5)]),
    lambda t, d: d.default_collate([t.ones(2), t.ones(3)]),
    lambda t, d: d.default_collate([object()]),
    lambda t, d: d.default_collate([np.array(["a"])]),
    lambda t, d: d.default_collate([[1, 2], [3]]),
    lambda t, d: d.default_collate([{1, 2}]),
    lambda t, d: d.default_collate([1j]),
    lambda t, d: d.default_collate([]),
    lambda t, d: d.default_convert([1, np.ones(2), "a", (1, np.ones(1)), {"a": np.float32(3)}]),
    lambda t, d: d.ConcatDataset([[1, 2], [3]])[-1],
    lambda t, d: d.ConcatDataset([[1, 2], [3]])[-4],
    lambda t, d: d.ConcatDataset([]),
    lambda t, d: d.ConcatDataset([stream(d)]),
    lambda t, d: d.StackDataset([1, 2], [3, 4])[1],
    lambda t, d: d.StackDataset(a=[1, 2], b=[3, 4]).__getitems__([1, 0]),
    lambda t, d: d.StackDataset([1], [1, 2]),
    lambda t, d: d.StackDataset(),
    lambda t, d: d.StackDataset([1], a=[1]),
    lambda t, d: list(d.ChainDataset([stream(d), stream(d)])),
    lambda t, d: list(d.ChainDataset([[1]])),
    lambda t, d: d.TensorDataset(t.ones(2), t.ones(3)),
    lambda t, d: d.Dataset()[0],
    lambda t, d: [len(p) for p in d.random_split(range(10), [0.35, 0.35, 0.3])],
    lambda t, d: [len(p) for p in d.random_split(range(2), [0.1, 0.1, 0.8])],
    lambda t, d: d.random_split(range(10), [3, 3]),
    lambda t, d: d.random_split(range(10), [0.5, 0.7]),
    lambda t, d: list(d.BatchSampler(range(5), 2, False)),
    lambda t, d: list(d.BatchSampler(range(5), 2, True)),
    lambda t, d: d.BatchSampler(range(5), 0, True),
    lambda t, d: d.BatchSampler(range(5), 2, 3),
    lambda t, d: d.RandomSampler([]),
    lambda t, d: d.RandomSampler([1], replacement=1),
    lambda t, d: d.RandomSampler([1], num_samples=1.5),
    lambda t, d: d.WeightedRandomSampler([1.0], 0),
    lambda t, d: d.WeightedRandomSampler([[1.0, 2.0]], 1),
    lambda t, d: d.WeightedRandomSampler([1.0], 1, 3),
    lambda t, d: list(d.WeightedRandomSampler([1.0], 2, False)),
    lambda t, d: list(d.WeightedRandomSampler([0, 1.0], 3)),
    lambda t, d: list(d.DistributedSampler(range(7), 2, 1, shuffle=False)),
    lambda t, d: list(d.DistributedSampler(range(7), 2, 1, shuffle=False, drop_last=True)),
    lambda t, d: list(d.DistributedSampler(range(3), 8, 5, shuffle=False)),
    lambda t, d: d.DistributedSampler([1], 2, 5),
    lambda t, d: d.DataLoader([1], num_workers=-1),
    lambda t, d: d.DataLoader([1], timeout=-1),
    lambda t, d: d.DataLoader([1], prefetch_factor=2),
    lambda t, d: d.DataLoader([1], num_workers=1, prefetch_factor=-1),
    lambda t, d: d.DataLoader([1], persistent_workers=True),
    lambda t, d: d.DataLoader([1], sampler=[0], shuffle=True),
    lambda t, d: d.DataLoader([1], batch_sampler=[[0]], batch_size=2),
    lambda t, d: d.DataLoader([1], batch_size=None, drop_last=True),
    lambda t, d: d.DataLoader([1], batch_size=0),
    lambda t, d: d.DataLoader([1], multiprocessing_context="fork"),
    lambda t, d: d.DataLoader([1], num_workers=1, multiprocessing_context="x"),
    lambda t, d: d.DataLoader([1], num_workers=1, multiprocessing_context=3),
    lambda t, d: d.DataLoader(stream(d), shuffle=True),
    lambda t, d: d.DataLoader(stream(d), sampler=[1]),
    lambda t, d: d.DataLoader(stream(d), batch_sampler=[[1]]),
    lambda t, d: setattr(d.DataLoader([1]), "batch_size", 3),
    lambda t, d: d.DataLoader([1], num_workers=1000) and None,
    lambda t, d: list(d.DataLoader([1, 2], pin_memory=True)),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_same_outcome(number):
    assert outcome(CASES[number], gradlib) == outcome(CASES[number], torch)
