"""Embeddings with sparse gradients in DistributedDataParallel: what the ranks of its tests run."""

from __future__ import annotations

import gradlib as torch
from gradlib import distributed, nn
from gradlib.distributed.algorithms.ddp_comm_hooks import default_hooks
from gradlib.nn.parallel import DistributedDataParallel
from tests.distributed.ddp_programs import raised, rank, size

FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


class Words(nn.Module):
    """The mean of the vectors of some words, through a linear layer."""

    def __init__(self, sparse, rows=7):
        super().__init__()
        self.words = nn.Embedding(rows, 3, sparse=sparse)
        self.bag = nn.EmbeddingBag(rows, 3, mode="sum", sparse=sparse)
        self.head = nn.Linear(3, 1)

    def forward(self, rows, others=None):
        mixed = self.words(rows).mean(1)
        return self.head(mixed if others is None else mixed + self.bag(others)).tanh()


def words(sparse, **options):
    torch.manual_seed(5)
    return DistributedDataParallel(Words(sparse), find_unused_parameters=True, **options)


def rows(step, by):
    """(2, 3) rows of the table, others on each rank."""
    return (torch.arange(6).reshape(2, 3) * (by + 2) + step + by) % 7


def trained(sparse, steps=5, **options):
    model = words(sparse, **options)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        mine = rows(step, rank())
        others = None if step % 2 and rank() else mine.flip(1)  # one rank may leave out the bag
        with model.no_sync():
            model(mine).sum().backward()
        model(mine, others).sum().backward()
        optimizer.step()
    layouts = [str(p.grad.layout) for p in model.parameters()]
    return layouts, [p.detach().numpy().copy() for p in model.parameters()]


@feature
def sparse_gradients():
    """Beside dense ones: the same weights."""
    options = ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001})
    return [(trained(True, **o), trained(False, **o)) for o in options]


@feature
def sparse_gradient_of_some_rank():
    model = words(True)
    model(rows(0, 0), rows(1, 1) if rank() == 0 else None).sum().backward()
    grad = model.module.bag.weight.grad
    return grad.is_coalesced(), grad.indices().tolist(), bool((grad.values() != 0).all())


@feature
def sparse_gradients_of_uneven_inputs():
    model = words(True)
    with model.join():
        for step in range(1 + rank()):
            model.zero_grad()
            model(rows(step, 1), rows(step, 2)).sum().backward()
    return model.module.words.weight.grad.to_dense().flatten().tolist()


@feature
def sparse_gradients_refused():
    def dense_on_one():
        model = words(True)
        loss = model(rows(0, 0)).sum()
        loss = loss + (model.module.words.weight.sum() if rank() == 0 else 0)
        loss.backward()

    hook = words(True)
    return [
        raised(dense_on_one),
        raised(lambda: hook.register_comm_hook(None, default_hooks.allreduce_hook)),
    ]


@feature
def sparse_gradient_of_a_parameter_not_known_for_it():
    """A function, no module: its average is right, and dense."""

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.ones(3, 2))

        def forward(self, rows):
            return nn.functional.embedding(rows, self.table, sparse=True)

    model = DistributedDataParallel(Plain())
    model(torch.tensor([rank()])).sum().backward()
    grad = model.module.table.grad
    return str(grad.layout), grad.tolist()


@feature
def all_reduce_of_sparse_tensors():
    given = torch.sparse_coo_tensor([[rank(), 2, 2]], [1.0, 2.0, 3.0], (4,))
    total, version = given.clone(), given._version
    distributed.all_reduce(total)
    mean = given.half()
    work = distributed.all_reduce(mean, distributed.ReduceOp.AVG, async_op=True)
    assert work is not None and work.wait() and total._version > version and size() == 2
    refused = [
        raised(lambda: distributed.all_reduce(given, distributed.ReduceOp.MAX)),
        raised(lambda: distributed.all_reduce(torch.eye(2).to_sparse_csr())),
    ]
    return total.is_coalesced(), total.to_dense().tolist(), mean.to_dense().tolist(), refused
