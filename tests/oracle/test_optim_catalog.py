"""Every optimizer of PyTorch's catalogue takes the same steps in gradlib and keeps the same state."""

from __future__ import annotations

import optim_catalog
import pytest

INPUTS = [
    (info, given)
    for info in optim_catalog.optim_db
    for given in info.optim_inputs_func(device="cpu")
]


@pytest.mark.parametrize(
    ("info", "given"), INPUTS, ids=[f"{i.optim_cls.__name__}-{g.desc}" for i, g in INPUTS]
)
def test_steps_and_state_agree_with_pytorch(info, given):
    assert list(optim_catalog.differences_of(info, given)) == []


@pytest.mark.parametrize("info", optim_catalog.optim_db, ids=lambda info: info.optim_cls.__name__)
def test_bad_arguments_are_refused_as_in_pytorch(info):
    assert list(optim_catalog.refusals(info)) == []
