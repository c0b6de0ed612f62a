import pytest

torch = pytest.importorskip("torch")

import autograd_cases
import numpy as np

import gradlib as gl

FAMILIES = [
    autograd_cases.function_cases,
    autograd_cases.functional_cases,
    autograd_cases.graph_cases,
]
CASES = [(family, name) for family in FAMILIES for name, _ in family(gl)]


def outcome(family, name, library):
    """What a case gives: its result, or the type and the first line of its error."""
    (case,) = [case for found, case in family(library) if found == name]
    try:
        return case()
    except Exception as exc:
        return type(exc).__name__, str(exc).split("\n")[0]


def assert_same(mine, theirs):
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, torch.Tensor):
        assert mine.requires_grad == theirs.requires_grad
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-5)
    else:
        assert mine == theirs


@pytest.mark.parametrize(("family", "name"), CASES, ids=[name for _, name in CASES])
def test_same_as_pytorch(family, name):
    assert_same(outcome(family, name, gl), outcome(family, name, torch))
