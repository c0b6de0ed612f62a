"""Sparse gradients over processes: the numbers of dense ones, the same bits on all ranks, only rows that are used."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed import ddp_programs, ddp_sparse
from tests.distributed.harness import run


def run_features():
    return ddp_programs.run_all(features=ddp_sparse.FEATURES)


@pytest.fixture(scope="module")
def ranks():
    return run(run_features, 2)


@pytest.fixture
def gave(ranks, request):
    """What the feature of this test's name gave on each rank."""
    found = [answers[request.node.name.removeprefix("test_")] for answers in ranks]
    for kind, value, _ in found:
        assert kind == "gave", value
    return [value for _, value, _ in found]


def test_all_features_have_a_test():
    assert {f"test_{name}" for name in ddp_sparse.FEATURES} <= set(globals())


def test_sparse_gradients(gave):
    for one, other in zip(*gave, strict=True):
        (layouts, weights), (_, dense) = one
        assert layouts == ["torch.sparse_coo"] * 2 + ["torch.strided"] * 2
        for a, b, same in zip(weights, dense, other[0][1], strict=True):
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
            np.testing.assert_array_equal(a, same)


def test_sparse_gradient_of_some_rank(gave):
    wanted = sorted({int(i) for i in ddp_sparse.rows(1, 1).flatten()})
    assert gave == [(True, [wanted], True)] * 2


def test_sparse_gradients_of_uneven_inputs(gave):
    """In the second step rank 1 is alone: half of its gradient, on both."""
    assert gave[0] == gave[1] and any(gave[0])


def test_sparse_gradients_refused(gave):
    for dense, hook in gave:
        assert "the gradient of words.weight" in dense and "rank 0: a dense one" in dense
        assert "rank 1: 1 sparse dimensions" in dense and "sparse=False" in dense
        assert hook.startswith("NotImplementedError") and "sparse=False" in hook


def test_sparse_gradient_of_a_parameter_not_known_for_it(gave):
    assert gave == [("torch.strided", [[0.5, 0.5], [0.5, 0.5], [0, 0]])] * 2


def test_all_reduce_of_sparse_tensors(gave):
    for coalesced, total, mean, (op, layout) in gave:
        assert coalesced and total == [1, 1, 10, 0] and mean == [0.5, 0.5, 5, 0]
        assert op.startswith("ValueError") and "SUM or AVG" in op
        assert layout.startswith("NotImplementedError") and "to_dense" in layout
