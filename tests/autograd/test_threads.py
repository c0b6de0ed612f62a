"""Backward in several threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import gradlib as torch

DIFFERENCES = Path(__file__).parents[2] / "docs/differences.md"


def in_threads(n, action):
    """Results (or exceptions) of ``action(k)`` in n threads that start together."""
    results, barrier = [None] * n, threading.Barrier(n)

    def body(k):
        barrier.wait()
        try:
            results[k] = action(k)
        except Exception as exc:
            results[k] = exc

    threads = [threading.Thread(target=body, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_backward_runs_in_the_calling_thread():
    # rows: MT-02
    def one(_):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        ids = []
        y.grad_fn.register_hook(lambda gi, go: ids.append(threading.get_ident()))
        y.grad_fn.register_prehook(lambda go: ids.append(threading.get_ident()))
        x.register_hook(lambda g: ids.append(threading.get_ident()))
        y.sum().backward()
        return threading.get_ident(), set(ids), len(ids)

    for caller, ids, n in [one(0), *in_threads(4, one)]:
        assert ids == {caller} and n == 3


def test_grad_on_a_shared_graph():
    # rows: MT-03
    x = torch.rand(50, dtype=torch.float64, requires_grad=True)
    y = (x.sin() * x.exp()).sum()
    expected = ((x.cos() + x.sin()) * x.exp()).detach()

    def one(k):
        out = []
        for _ in range(20):
            (g,) = torch.autograd.grad(
                y, x, torch.tensor(float(k), dtype=torch.float64), retain_graph=True
            )
            out.append(g)
        return out

    for k, results in enumerate(in_threads(8, one)):
        for g in results:
            assert torch.allclose(g, k * expected)
    assert x.grad is None


def test_a_shared_graph_without_retain_graph_gives_the_usual_error():
    # rows: MT-04
    for _ in range(5):
        x = torch.rand(10, requires_grad=True)
        y = x
        for _ in range(50):
            y = y.sin() * y
        y = y.sum()
        results = in_threads(8, lambda k, y=y, x=x: torch.autograd.grad(y, x)[0])
        failed = [r for r in results if isinstance(r, Exception)]
        assert failed, "eight passes over a graph that is freed by the first"
        for exc in failed:
            assert type(exc) is RuntimeError and "Specify retain_graph=True" in str(exc)
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            torch.autograd.grad(y, x)


def test_what_is_shared_is_documented():
    # rows: MT-06 MT-08
    text = " ".join(DIFFERENCES.read_text().split())
    assert "Concurrent backward passes in several threads may share leaves" in text
    assert "accumulation into `.grad` is locked" in text
    assert "Hooks are not; a hook that touches shared state must lock for itself" in text
    assert "`autograd.grad` avoids shared `.grad` altogether" in text


@pytest.mark.parametrize("create_graph", [False, True])
def test_modes_of_the_caller_hold_in_backward(create_graph):
    # rows: MT-10
    def one(_):
        x = torch.ones(2, requires_grad=True)
        y = x * x
        seen = []
        y.grad_fn.register_prehook(
            lambda gs: seen.append((torch.is_grad_enabled(), torch.is_anomaly_enabled()))
        )
        with torch.autograd.detect_anomaly():
            torch.autograd.grad(y.sum(), x, create_graph=create_graph)
        return seen

    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        assert one(0) == [(create_graph, True)]
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        assert in_threads(1, one) == [[(create_graph, True)]]


def test_modes_hold_in_deeply_nested_passes():
    seen = []

    def deeper(level):
        x = torch.ones(1, requires_grad=True)
        y = x * 2

        def hook(grad):
            seen.append(torch.is_grad_enabled())
            if level:
                with torch.enable_grad():
                    deeper(level - 1)

        y.register_hook(hook)
        y.sum().backward()

    deeper(100)  # more than one stack takes
    assert seen == [False] * 101
