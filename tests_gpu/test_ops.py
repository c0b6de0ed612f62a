"""Every declared op gives on CUDA what it gives on the CPU, in all dtypes and modes; and gradcheck."""

from __future__ import annotations

import pytest
from samples import flat, replaced, samples_of
from shared import take_over

from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.op.declare import REGISTRY
from tests.simulated import test_functions, test_ops

take_over(globals(), test_ops)
take_over(globals(), test_functions)


@pytest.mark.slow
@pytest.mark.parametrize("name", test_ops.DIFFERENTIABLE)
def test_gradcheck(name):
    # rows: GC-19
    op = REGISTRY[name]
    for args in samples_of(op):
        copies = [test_ops.moved(t) for t in flat(args)]
        if not any(t.requires_grad for t in copies):
            continue
        given = test_ops.on_device(args, copies)

        def run(*new, given=given):
            return op.call(*replaced(given, list(new)))

        if any(o.requires_grad for o in test_ops.outputs(run(*copies))):
            assert gradcheck(run, tuple(copies), check_forward_ad=True)
            if all(t.numel() for t in copies):
                assert gradgradcheck(run, tuple(copies), fast_mode=True)
