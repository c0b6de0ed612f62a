"""What the host needs for an operation on CUDA: CuPy itself, its kernels launched but not run.

    python -m tests.cupy_on_cpu.host_time [part of a name ...]

prints microseconds an operation, beside CuPy's own call where there is one. The driver's part of a launch (1 to 3 us on
a real machine) is not in them. What is counted is the time of this process, and the shortest of many repetitions: other
programs on the machine make the figures larger by what they take of its caches, but not by what they take of its cores.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

from . import machine

BENCH = Path(__file__).parents[2] / "ci" / "bench"
STEPS = "step of a GPT of 4 layers"


def best_of(action: Callable[[], object], runtime, calls: int, repetitions: int = 25) -> float:
    """The shortest mean time of a call in microseconds."""
    for _ in range(4):  # a step is captured when it has run two or three times
        action()
    runtime.cuda_on_cpu_set_idle(1)
    times = []
    for _ in range(repetitions):
        start = process_time()
        for _ in range(calls):
            action()
        times.append((process_time() - start) / calls)
    runtime.cuda_on_cpu_set_idle(0)
    return min(times) * 1e6


def actions(gl, cupy) -> dict[str, tuple[Callable, Callable | None, int]]:
    """name -> (what gradlib does, what CuPy does, operations in it)."""
    x, w = gl.ones(16, device="cuda"), gl.ones(16, device="cuda", requires_grad=True)
    a, square = x._array, gl.ones(8, 8, device="cuda")
    layer = gl.nn.Linear(8, 8).cuda()
    layers = gl.nn.Sequential(*[gl.nn.Linear(8, 8) for _ in range(10)]).cuda()
    optimizer = gl.optim.AdamW(layer.parameters())

    def products():
        z = w
        for _ in range(20):
            z = z * x
        return z

    def linears():
        z = square
        for one in layers:
            z = one(z)
        return z

    def lowered(action):
        with gl.autocast("cuda", dtype=gl.bfloat16):
            return action()

    def muls():
        for _ in range(20):
            _ = x * x

    def chain():
        z = w
        for _ in range(20):
            z = (z * x).tanh()
        z.sum().backward()

    def step():
        layer(square).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def gpt(captured):
        """A step of the benchmark's GPT, on little data: what the host does for it does not depend on sizes."""
        sizes = workloads.Sizes(symbols=16, length=8, width=16, layers=4, heads=4, batch=2)
        how = (
            workloads.How(wrap=lambda gl, step: gl.cuda.capture(step))
            if captured
            else workloads.PLAIN
        )
        return workloads.gpt(gl, "cuda", how, sizes, capturable=captured)

    def when_called(make):
        """`make()`, made when it is first called: models are not made for rows that nobody asked for."""
        made: list[Callable] = []

        def action():
            if not made:
                made.append(make())
            return made[0]()

        return action

    sys.path.insert(0, str(BENCH))
    workloads = importlib.import_module("workloads")
    return {
        "mul": (lambda: x * x, lambda: a * a, 1),
        "mul by a number": (lambda: x * 2.5, lambda: a * 2.5, 1),
        "tanh": (lambda: x.tanh(), lambda: cupy.tanh(a), 1),
        "sum": (lambda: x.sum(), lambda: a.sum(), 1),
        "matmul": (lambda: square @ square, lambda: square._array @ square._array, 1),
        "view": (lambda: x.view(4, 4), lambda: a.reshape(4, 4), 1),
        "mul, recorded": (lambda: w * x, None, 1),
        "mul, forward + backward": (lambda: products().backward(x), None, 20),
        "mul under autocast": (lambda: lowered(muls), None, 20),
        "linear": (lambda: layer(square), None, 1),
        "linear, forward + backward": (lambda: linears().backward(square), None, 10),
        "linear under autocast": (lambda: lowered(linears), None, 10),
        "chain of mul and tanh, forward + backward": (chain, None, 41),
        "step of a layer with AdamW": (step, None, 1),
        STEPS: (when_called(lambda: gpt(False)), None, 1),
        f"{STEPS}, captured": (when_called(lambda: gpt(True)), None, 1),
    }


def main() -> None:
    runtime = machine.install()
    gl, cupy = importlib.import_module("gradlib"), importlib.import_module("cupy")
    print(f"{'us an operation':45}{'gradlib':>9}{'cupy':>9}")
    for name, (ours, theirs, operations) in actions(gl, cupy).items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        calls = max(2000 // (operations * (8 if "step" in name else 1)), 5)
        calls = 5 if name == STEPS else calls
        mine = best_of(ours, runtime, calls) / operations
        other = f"{best_of(theirs, runtime, calls) / operations:9.1f}" if theirs else ""
        print(f"{name:45}{mine:9.1f}{other}", flush=True)


if __name__ == "__main__":
    main()
