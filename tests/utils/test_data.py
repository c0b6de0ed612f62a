"""Datasets, samplers, collation, and the DataLoader without workers."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import gradlib
from gradlib.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)
from tests.utils.datasets import Failing, Numbers, Stream, lists

Point = namedtuple("Point", "x y")

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning",  # fork in a process that has threads
    "ignore:This DataLoader will create:UserWarning",  # machines with one processor
)


# --------------------------------------------------------------------------------------------
# Datasets


def test_tensor_dataset():
    x, y = gradlib.arange(6).reshape(3, 2), gradlib.arange(3)
    dataset = TensorDataset(x, y)
    assert len(dataset) == 3
    assert [t.tolist() for t in dataset[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(x, gradlib.arange(2))


def test_tensor_dataset_is_indexed_once_for_a_batch():
    calls = []

    class Rows:
        """Stands for a tensor and counts how often it is indexed."""

        def size(self, dim):
            return 6

        def __len__(self):
            return 6

        def __getitem__(self, index):
            calls.append(index)
            return gradlib.tensor(index)

    dataset = TensorDataset(Rows(), Rows())
    assert lists(DataLoader(dataset, batch_size=3)) == [[[0, 1, 2]] * 2, [[3, 4, 5]] * 2]
    assert calls == [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2
    calls.clear()
    subset = Subset(Subset(dataset, [5, 4, 3]), [2, 0])
    assert lists(DataLoader(subset, batch_size=2)) == [[[3, 5]] * 2]
    assert calls == [[3, 5]] * 2


def test_subclass_of_tensor_dataset_keeps_its_own_getitem():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 2

    assert lists(DataLoader(Doubled(gradlib.arange(4)), batch_size=2)) == [[0, 2], [4, 6]]


def test_concat_dataset():
    both = ConcatDataset([[1, 2], [3]])
    assert [both[i] for i in range(3)] == [1, 2, 3]
    assert both[-1] == 3
    assert both.cumulative_sizes == [2, 3]
    assert len(Numbers(2) + Numbers(3)) == 5
    with pytest.raises(IndexError):
        both[3]
    with pytest.raises(ValueError, match="absolute value of index should not exceed"):
        both[-4]
    with pytest.raises(AssertionError, match="empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Stream()])


def test_stack_dataset():
    assert StackDataset([1, 2], [3, 4])[1] == (2, 4)
    named = StackDataset(a=[1, 2], b=[3, 4])
    assert named[0] == {"a": 1, "b": 3}
    assert named.__getitems__([1, 0]) == [{"a": 2, "b": 4}, {"a": 1, "b": 3}]
    assert len(named) == 2
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="At least one dataset"):
        StackDataset()
    with pytest.raises(ValueError, match="both types are given"):
        StackDataset([1], a=[1])


def test_chain_dataset():
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([[1]]))


def test_dataset_without_getitem():
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]


def test_random_split():
    g = gradlib.Generator().manual_seed(0)
    parts = random_split(range(10), [3, 7], generator=g)
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    again = random_split(range(10), [3, 7], generator=g.manual_seed(0))
    assert [list(p) for p in again] == [list(p) for p in parts]
    assert [len(p) for p in random_split(range(10), [0.35, 0.35, 0.3])] == [4, 3, 3]
    with pytest.raises(ValueError, match="does not equal the length of the input dataset"):
        random_split(range(10), [3, 3])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(2), [0.1, 0.1, 0.8])


# --------------------------------------------------------------------------------------------
# Samplers


def test_samplers_without_chance():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, False)) == 3
    assert len(BatchSampler(range(5), 2, True)) == 2
    with pytest.raises(NotImplementedError):
        iter(Sampler())


def test_random_sampler():
    source = range(20)
    assert sorted(RandomSampler(source)) == list(source)
    assert list(RandomSampler(source)) != list(RandomSampler(source))
    assert len(list(RandomSampler(source, num_samples=45))) == 45
    assert set(RandomSampler(source, num_samples=45)) == set(source)
    drawn = list(RandomSampler(source, replacement=True, num_samples=5000))
    assert len(drawn) == 5000
    assert set(drawn) == set(source)
    g = gradlib.Generator()
    orders = [list(RandomSampler(source, generator=g.manual_seed(4))) for _ in range(2)]
    assert orders[0] == orders[1]


def test_default_seed_decides_the_order():
    orders = []
    for _ in range(2):
        gradlib.manual_seed(5)
        orders.append(lists(DataLoader(Numbers(), batch_size=3, shuffle=True)))
    assert orders[0] == orders[1]


def test_subset_and_weighted_samplers():
    assert sorted(SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    assert list(WeightedRandomSampler([0, 1.0, 0], 3)) == [1, 1, 1]
    assert sorted(WeightedRandomSampler([1, 2, 3.0], 3, replacement=False)) == [0, 1, 2]
    drawn = list(WeightedRandomSampler(gradlib.tensor([1.0, 3.0]), 4000))
    assert 0.7 < sum(drawn) / 4000 < 0.8


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RandomSampler([]), ValueError, "num_samples should be a positive integer"),
        (lambda: RandomSampler([1], replacement=1), TypeError, "replacement should be a boolean"),
        (lambda: RandomSampler([1], num_samples=-1), ValueError, "num_samples=-1"),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, "1d sequence"),
        (lambda: WeightedRandomSampler([1.0], 1, 3), ValueError, "replacement should be"),
        (lambda: BatchSampler([1], 0, True), ValueError, "batch_size=0"),
        (lambda: BatchSampler([1], True, True), ValueError, "batch_size=True"),
        (lambda: BatchSampler([1], 1, 3), ValueError, "drop_last should be a boolean"),
        (lambda: list(WeightedRandomSampler([1.0], 2, False)), RuntimeError, "cannot sample"),
        (lambda: list(WeightedRandomSampler([-1.0, 2], 1)), RuntimeError, "element < 0"),
        (lambda: DistributedSampler([1], 2, 5), ValueError, "Invalid rank 5"),
    ],
)
def test_wrong_sampler_arguments(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_distributed_sampler():
    parts = [list(DistributedSampler(range(7), 2, r, shuffle=False)) for r in range(2)]
    assert parts == [[0, 2, 4, 6], [1, 3, 5, 0]]
    assert list(DistributedSampler(range(7), 2, 1, shuffle=False, drop_last=True)) == [1, 3, 5]
    assert list(DistributedSampler(range(3), 8, 5, shuffle=False)) == [2]
    samplers = [DistributedSampler(range(8), 2, r) for r in range(2)]
    first = [list(s) for s in samplers]
    assert sorted(first[0] + first[1]) == list(range(8))
    for s in samplers:
        s.set_epoch(1)
    assert [list(s) for s in samplers] != first


# --------------------------------------------------------------------------------------------
# Collation


def test_collate_leaves():
    assert default_collate([1, 2]).tolist() == [1, 2]
    assert default_collate([1, 2]).dtype is gradlib.int64
    assert default_collate([1.5, 2]).dtype is gradlib.float64
    assert default_collate([True, False]).dtype is gradlib.bool
    assert default_collate([np.float32(1), np.float32(2)]).dtype is gradlib.float32
    assert default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert default_collate([gradlib.ones(2), gradlib.zeros(2)]).shape == (2, 2)
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]


def test_collate_containers():
    out = default_collate([{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3, 4]}])
    assert out["a"].tolist() == [1, 2]
    assert lists(out["b"]) == [[1, 3], [2, 4]]
    out = default_collate([(1, "a"), (2, "b")])
    assert type(out) is list
    assert out[1] == ("a", "b")
    assert default_collate([Point(1, 2), Point(3, 4)]).y.tolist() == [2, 4]
    assert type(default_collate([OrderedDict(a=1)])) is OrderedDict
    assert lists(default_collate([range(2), range(2)])) == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ([object()], TypeError, "batch must contain tensors, numpy arrays, numbers, dicts or"),
        ([None], TypeError, "found <class 'NoneType'>"),
        ([np.array(["a"])], TypeError, "found <U1"),
        ([[1, 2], [3]], RuntimeError, "each element in list of batch should be of equal size"),
        ([{"a": 1}, {"b": 1}], KeyError, "a"),
        ([np.ones(2), np.ones(3)], RuntimeError, "stack expects each tensor to be equal size"),
    ],
)
def test_what_cannot_be_collated(batch, error, text):
    with pytest.raises(error, match=text):
        default_collate(batch)


def test_convert():
    data = [1, np.ones(2), "a", (1, np.ones(1)), Point(np.ones(1), 2), {"a": np.float32(3)}, object]
    out = default_convert(data)
    assert out[0] == 1
    assert out[1].tolist() == [1.0, 1.0]
    assert out[2] == "a"
    assert type(out[3]) is list
    assert out[4].x.tolist() == [1.0]
    assert out[5]["a"].item() == 3.0
    assert out[6] is object
    assert default_convert(np.array("a")).item() == "a"


# --------------------------------------------------------------------------------------------
# DataLoader without workers


def test_batches_in_order():
    assert lists(DataLoader(Numbers(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Numbers(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert lists(DataLoader(Numbers(2), batch_size=None)) == [0, 1]
    assert lists(DataLoader(Numbers(5), batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert lists(DataLoader(Numbers(5), sampler=[3, 1], batch_size=2)) == [[3, 1]]
    assert len(DataLoader(Numbers(5), batch_size=2)) == 3
    assert len(iter(DataLoader(Numbers(5), batch_size=2))) == 3
    assert lists(DataLoader([])) == []


def test_stream():
    assert lists(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert lists(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    loader = DataLoader(Stream(5), batch_size=2)
    assert len(loader) == 3
    assert len(DataLoader(Stream(5), batch_size=2, drop_last=True)) == 2


def test_stream_that_is_longer_than_it_says():
    class Liar(Stream):
        def __len__(self):
            return 2

    loader = DataLoader(Liar(4))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2 .* but 3 samples have been fetched"):
        assert len(lists(loader)) == 4


def test_getitems_is_called_once_for_a_batch():
    class Many(Numbers):
        def __getitems__(self, indices):
            return [100 + i for i in indices]

    assert lists(DataLoader(Many(4), batch_size=2)) == [[100, 101], [102, 103]]


def test_collate_fn():
    loader = DataLoader(Numbers(4), batch_size=2, collate_fn=sum)
    assert list(loader) == [1, 5]


def test_errors_without_workers_are_the_dataset_s_own():
    with pytest.raises(ZeroDivisionError, match="sample 0"):
        lists(DataLoader(Failing(ZeroDivisionError("sample 0"))))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in"),
        ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-neg"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
        ({"multiprocessing_context": "fork"}, "can only be used with multi-process loading"),
        ({"num_workers": 1, "multiprocessing_context": "x"}, "should specify a valid start method"),
        ({"worker_type": "x"}, "worker_type should be 'process' or 'thread'"),
    ],
)
def test_contradictory_options(options, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(Numbers(), **options)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_stream_has_no_order_to_choose(name):
    with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
        DataLoader(Stream(), **{name: [[1]] if name != "shuffle" else True})
    DataLoader(Stream(), shuffle=False)


def test_options_that_are_fixed_once_it_is_made():
    loader = DataLoader(Numbers())
    for name in ("batch_size", "sampler", "dataset", "drop_last", "batch_sampler"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoad"):
            setattr(loader, name, None)
    loader.timeout = 3


def test_pin_memory_without_a_device():
    if gradlib.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerat"):
        assert lists(DataLoader(Numbers(2), pin_memory=True)) == [[0], [1]]


@pytest.mark.filterwarnings("default")
def test_too_many_workers():
    with pytest.warns(UserWarning, match="will create 1000 worker processes in total"):
        DataLoader(Numbers(), num_workers=1000)
