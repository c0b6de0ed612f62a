"""Mistakes that autograd systems have made before, each with a test of its own.

The numbers are those of the reports: "PyTorch #7601" is an issue of pytorch/pytorch. Where a test elsewhere is the one
for a report, it is named in `ELSEWHERE`, and this file checks that it is still there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gradlib as torch

TESTS = Path(__file__).parent
ELSEWHERE = {
    "PyTorch #7601, #8354: backward ignores streams, or joins only that of the root": (
        "tape/test_streams.py", "def two_branches"),
    "PyTorch #45787: results of grad() are not ready on the caller's stream": (
        "tape/test_streams.py", "def results_of_grad"),
    "PyTorch #59844: gradients of leaves are not ready on the caller's stream": (
        "tape/test_streams.py", "def everything_on_a_side_stream"),
    "PyTorch #54227: what the caller's stream did before backward is not waited for": (
        "tape/test_streams.py", "def late_root_gradient"),
    "PyTorch #24078, CuPy #8068: memory is reused while another stream reads it": (
        "tape/test_streams.py", "def memory_that_crosses"),
    "PyTorch #33986: load_nvprof knows one callback id only": (
        "autograd/test_nvprof.py", "launches have more than one callback id"),
    "NVTX #101: ranges of backward lie outside those of the user": (
        "autograd/test_nvtx.py", '("push", "outer")'),
    "CuPy #9655: a captured graph reads memory that was freed": (
        "cuda/test_graphs.py", "def test_what_a_graph_reads_lives_as_long_as_the_graph"),
}  # fmt: skip


@pytest.mark.parametrize("report", ELSEWHERE)
def test_is_tested(report):
    file, text = ELSEWHERE[report]
    assert text in (TESTS / file).read_text()


def test_accumulation_on_the_stream_of_an_earlier_pass(lazy_cuda):
    """PyTorch #165065: a leaf's node, kept by an old graph, remembered the stream of its first use."""
    for seed in range(30):
        with lazy_cuda(seed):
            w = torch.full((64,), 2.0, device="cuda", requires_grad=True)
            first, second = torch.cuda.Stream(), torch.cuda.Stream()
            kept = []
            for s in (first, second):
                s.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(s):
                    y = (w * w * 1.0).sum()
                torch.cuda.current_stream().wait_stream(s)
                y.backward(retain_graph=True)
                kept.append(y)  # the old graph holds the leaf's node
                with torch.cuda.stream(
                    first
                ):  # the stream of the first pass has other things to do
                    busy = torch.ones(64, device="cuda") * 3.0
            assert np.allclose(w.grad.cpu().numpy(), 8.0)
            torch.cuda.synchronize()
            del busy


def test_batches_of_bfloat16_are_multiplied(cuda):
    """CuPy #10317: matmul of batches fails for bfloat16."""
    a, b = torch.randn(3, 4, 5).bfloat16(), torch.randn(3, 5, 2).bfloat16()
    found = torch.bmm(a.cuda(), b.cuda())
    assert found.dtype is torch.bfloat16
    assert torch.allclose(found.cpu().float(), torch.bmm(a, b).float(), atol=0.05)


def test_second_derivatives_of_attention():
    """PyTorch #116350: fused attention has no double backward."""
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    assert torch.autograd.gradgradcheck(attention, (q, k, v))
    assert torch.autograd.gradcheck(attention, (q, k, v), check_forward_ad=True)


def test_a_checkpoint_that_differs_is_reported_briefly():
    """PyTorch #103859: the error of a checkpoint whose recomputation differs has 1300 lines."""
    x, calls = torch.randn(4, requires_grad=True), []

    def changes(t):
        calls.append(1)
        return t.sin().exp() if len(calls) == 1 else t.sin()

    y = torch.utils.checkpoint.checkpoint(changes, x, use_reentrant=False)
    with pytest.raises(torch.utils.checkpoint.CheckpointError) as caught:
        y.sum().backward()
    assert len(str(caught.value).splitlines()) < 40
