"""One rank of --distributed: python ci/bench/ranks.py LIBRARY BACKEND RANK SIZE FOLDER.

Under mpiexec rank and size are MPI's, whatever the command line says.

The first rank reads the name of a piece of work and a number of calls from its standard input, tells the others, and
answers with the seconds that a call took. All ranks stay, so that libraries can take turns.
"""

import environment  # isort: skip  # noqa: F401  # first: before anything loads a BLAS

import importlib
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import workloads

LIBRARY, BACKEND, RANK, SIZE, FOLDER = sys.argv[1:]
torch = importlib.import_module(LIBRARY)
dist = torch.distributed


class Wrapped(workloads.How):
    """The model of a training step in DistributedDataParallel; notes how many parameters it has."""

    parameters = 0

    def adapt(self, torch, model):
        Wrapped.parameters = sum(p.numel() for p in model.parameters())
        return torch.nn.parallel.DistributedDataParallel(model)


STEPS = {
    "mlp": lambda how: workloads.mlp(torch, "cpu", 128, lambda p: torch.optim.SGD(p, lr=0.01), how),
    "gpt": lambda how: workloads.gpt(torch, "cpu", how),
}


def prepare(work):
    """The function that a name stands for."""
    kind, _, what = work.partition(" ")
    if kind == "all-reduce":
        tensor = torch.zeros(int(what) // 4)
        return lambda: dist.all_reduce(tensor)
    if kind == "ddp":
        return STEPS[what](Wrapped())
    if kind == "alone":
        return STEPS[what](workloads.PLAIN)
    STEPS[what](Wrapped())  # "gradients": all of a model's, in one go
    gradients = torch.zeros(Wrapped.parameters)
    return lambda: dist.all_reduce(gradients)


def measure(function, calls):
    """Seconds that a call takes, and what the last one returned as a number."""
    dist.barrier()
    start, result = time.perf_counter(), None
    for _ in range(calls):
        result = function()
    seconds = (time.perf_counter() - start) / calls
    return seconds, None if result is None else float(result)


def main():
    torch.set_num_threads(1)
    if BACKEND == "mpi":
        dist.init_process_group("mpi")
    else:
        where = f"file://{FOLDER}/{LIBRARY}-{BACKEND}"
        dist.init_process_group(BACKEND, where, rank=int(RANK), world_size=int(SIZE))
    first, made = dist.get_rank() == 0, {}
    while True:
        order = [sys.stdin.readline().split("\t") if first else None]
        dist.broadcast_object_list(order)
        if len(order[0]) < 2:
            break
        work, calls = order[0][0], int(order[0][1])
        if work not in made:
            made.clear()  # memory of what was measured before
            made[work] = prepare(work)
        seconds, result = measure(made[work], calls)
        if first:
            print(json.dumps({"seconds": seconds, "result": result}), flush=True)
    dist.destroy_process_group()


main()
