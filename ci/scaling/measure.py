"""alpha and beta of this machine: all-reduce of few and of many bytes between two processes, the best of several."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time

from network import Link

import gradlib as torch
from gradlib.distributed._gloo import engine

__all__ = ["fit", "measure"]

SIZES = [4, 1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26]


def _rank(rank: int, path: str, sockets: bool, repeats: int, sizes: list[int], results) -> None:
    if sockets:
        engine.available = lambda: False  # as if the ranks were on two machines
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    found = {}
    for nbytes in sizes:
        array = torch.ones(nbytes // 4)
        best = float("inf")
        for _ in range(repeats if nbytes < 1 << 22 else max(4, repeats // 20)):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(array)
            best = min(best, time.perf_counter() - start)
            array.fill_(1)
        found[nbytes] = best
    if rank == 0:
        results.put(found)
    dist.destroy_process_group()


def measure(sockets: bool, repeats: int = 200, sizes: list[int] = SIZES) -> dict[int, float]:
    """Seconds of an all-reduce of float32 on two ranks by bytes, through sockets or shared memory."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = (os.path.join(folder, "meet"), sockets, repeats, sizes, results)
        ranks = [context.Process(target=_rank, args=(r, *given)) for r in range(2)]
        for process in ranks:
            process.start()
        try:
            return results.get(timeout=300)
        finally:
            for process in ranks:
                process.join(10)
                process.kill()


def fit(found: dict[int, float]) -> Link:
    """The alpha of the smallest and the beta of the largest: two ranks take 2 (alpha + beta m / 2) for m bytes."""
    smallest, largest = min(found), max(found)
    alpha = found[smallest] / 2
    return Link(alpha, (found[largest] - 2 * alpha) / largest)
