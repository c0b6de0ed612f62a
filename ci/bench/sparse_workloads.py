"""Workloads with sparse tensors; memory of the first is held to that of the batch by tests/sparse."""

import numpy as np
from workloads import Source, trainer, workload


@workload("embedding-sparse-1m", goal=1.5, slow=True)
def sparse_embedding(torch, device):
    """A step of SparseAdam on an embedding of 10^6 rows of 32 numbers, of which a batch uses 4096."""
    nn, source = torch.nn, Source(torch, device)
    table = nn.Embedding(1_000_000, 32, sparse=True, device=device)
    with torch.no_grad():
        table.weight.copy_(source.normal(1_000_000, 32, scale=0.1))
    index = source.integers(1_000_000, 4096)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=1e-3)
    return trainer(torch, device, table, optimizer, lambda model: model(index).square().mean())


@workload("graph-convolution", goal=1.5, rtol=1e-3)
def graph_convolution(torch, device):
    """A training step of two layers on a graph of 10,000 nodes and some 100,000 edges in CSR."""
    nn, source = torch.nn, Source(torch, device)
    nodes = 10_000
    ends = np.unique(source.random.integers(nodes, size=(100_000, 2)), axis=0).T
    values = source.tensor(np.full(ends.shape[1], 0.1, np.float32))
    graph = torch.sparse_coo_tensor(source.tensor(ends), values, (nodes, nodes)).coalesce()
    graph = graph.to_sparse_csr()
    inputs, targets = source.normal(nodes, 32), source.integers(8, nodes)
    model = source.fill(nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 8)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(model):
        hidden = torch.sparse.mm(graph, model[0](inputs)).relu()
        return nn.functional.cross_entropy(torch.sparse.mm(graph, model[1](hidden)), targets)

    return trainer(torch, device, model, optimizer, loss_of)
