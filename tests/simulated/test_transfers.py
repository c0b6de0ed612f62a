"""What ops do not do on a device: wait for it, copy to or from the host, or anything that a capture refuses.

The exceptions are named here, each with its reason.
"""

from __future__ import annotations

import numpy as np
import pytest
from samples import flat, on_device, samples_of

import gradlib as gl
from gradlib.op.declare import REGISTRY
from tests.simulated_cuda import machine

# How many elements the result has, or the mask among the indices names, only the device knows.
VALUE_SHAPES = set(
    "index index_put masked_select masked_select_backward nonzero unique unique_consecutive".split()
)
CUDA = gl.device("cuda")
# Iterations until the slowest element has converged.
CONVERGING = set("digamma igamma igammac linalg_matrix_exp polygamma_of special_zeta".split())
# Sequential, or by SciPy: the values go to the host and back.
ON_HOST = set(
    """ctc_loss_op linalg_ldl_factor linalg_ldl_solve special_airy_ai special_airy_ai_slope special_bessel_y0
    special_bessel_y1""".split()
)
# They raise LinAlgError for matrices that are singular or not positive-definite, and where nothing converges.
FAILING = set(
    """cofactor linalg_cholesky linalg_det linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_lstsq
    linalg_pinv linalg_slogdet linalg_solve linalg_svd linalg_svdvals""".split()
)
WAITING = VALUE_SHAPES | CONVERGING | ON_HOST | FAILING


def run(op, args, leaves) -> list:
    """Forward and backward; the results and the gradients."""
    out = op.call(*args)
    outs = [out] if isinstance(out, gl.Tensor) else list(out)
    recorded = [o for o in outs if o.requires_grad]
    if not leaves or not recorded:
        return outs
    ones = [gl.ones_like(o) for o in recorded]
    grads = gl.autograd.grad(recorded, leaves, ones, allow_unused=True)
    return outs + [g for g in grads if g is not None]


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"to_device"}))
def test_ops_leave_the_host_alone(name, cuda):
    op = REGISTRY[name]
    for args in samples_of(op):
        moved = on_device(op, args, CUDA)
        leaves = [t for t in flat(moved) if t.requires_grad]
        run(op, moved, leaves)  # the first time, constants are copied over and kept
        machine.log, machine.waits = [], 0
        run(op, moved, leaves)
        copies = [label for label in machine.log if "host" in label]
        assert not machine.waits or name in WAITING, "the op waits for the device"
        assert not copies or name in WAITING, f"the op copies between host and device: {copies}"


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"to_device"} - WAITING))
def test_ops_can_be_captured(name, lazy_cuda):
    """A captured forward and backward, replayed on other values, gives what running them gives."""
    op = REGISTRY[name]
    with lazy_cuda(1) as cuda:
        for args in samples_of(op):
            if not flat(args):
                continue
            moved = on_device(op, args, CUDA)
            leaves = [t for t in flat(moved) if t.requires_grad]
            wanted = [t.tolist() for t in run(op, moved, leaves)]  # also the warm-up
            cuda.cuda.runtime.deviceSynchronize()
            stream, pool = cuda.cuda.Stream(non_blocking=True), cuda.cuda.MemoryPool()
            with stream, cuda.cuda.using_allocator(pool.malloc):
                stream.begin_capture()
                graph, results, refused = None, [], ""
                try:
                    results = run(op, moved, leaves)
                    graph = stream.end_capture()
                except NotImplementedError as exc:  # calls of cuSOLVER cannot be captured
                    refused = str(exc)
                if graph is None:
                    assert "API during stream capture is currently unsupported" in refused
                    return
                graph.launch()
                np.testing.assert_equal([t.tolist() for t in results], wanted)


def test_storages_of_the_device(cuda):
    x = gl.arange(4.0, device="cuda")
    y, storage = x[1:], x.untyped_storage()
    assert storage is y.untyped_storage() and storage.device == x.device and storage.nbytes() == 16
    storage.resize_(64)
    x.fill_(3)
    assert y.tolist() == [3.0] * 3 and storage is x.untyped_storage()
    x.resize_(32)
    x.fill_(2)
    assert y.tolist() == [2.0] * 3 and x.untyped_storage().nbytes() == 128
    z = gl.empty(0, device="cuda").set_(x.untyped_storage(), 1, (2,))
    z.fill_(5)
    assert y.tolist() == [5.0, 5.0, 2.0]
