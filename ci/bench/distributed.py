"""Collectives and training in two processes, beside PyTorch's gloo on the same machine.

For each library and backend there is a pair of processes (`ranks.py`) that stays for the whole run; the pairs take
turns, so that what else the machine does falls on all of them.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import measure

HERE = pathlib.Path(__file__).parent
RANKS = 2
BYTES = {"4B": 4, "1KB": 1 << 10, "64KB": 1 << 16}
BYTES |= {f"{n}MB": n << 20 for n in (1, 4, 16, 64)}
GOALS = {("mpi", "4B"): 0.1, ("mpi", "4MB"): 0.7, ("gloo", "4MB"): 1.0}
MODELS = ("mlp", "gpt")
SLOW = {"16MB", "64MB"}


def names(backends=("mpi", "gloo")):
    """All rows."""
    return [
        *[f"{b}-all-reduce-{size}" for b in backends for size in BYTES],
        *[f"{b}-ddp-{model}{end}" for b in backends for model in MODELS for end in ("", "-exposed")],
    ]  # fmt: skip


def backends():
    """Those of gradlib that can be used here: gloo always, mpi with mpi4py and an mpiexec."""
    mpi = importlib.util.find_spec("mpi4py") is not None and mpiexec() is not None
    return ["mpi", "gloo"] if mpi else ["gloo"]


def mpiexec():
    """The launcher beside this Python, or on the path."""
    ours = pathlib.Path(sys.prefix, "bin", "mpiexec")
    return str(ours) if ours.exists() else shutil.which("mpiexec")


class Pair:
    """The processes of one library and backend."""

    def __init__(self, library, backend, folder):
        self.name = f"{library} {backend}"
        program = [sys.executable, str(HERE / "ranks.py"), library, backend]
        starts = [[*program, str(rank), str(RANKS), folder] for rank in range(RANKS)]
        if backend == "mpi":
            starts = [[mpiexec(), "-n", str(RANKS), *starts[0]]]
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115  # closed with the processes
        self.processes = [
            subprocess.Popen(
                start,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            )
            for start in starts
        ]

    def time(self, work, calls):
        """Seconds that a call takes on the first rank, and its result.

        Raises measure.LibraryError, with the last line of what a rank said, if the processes ended.
        """
        first = self.processes[0]
        try:
            first.stdin.write(f"{work}\t{calls}\n")
            first.stdin.flush()
            answer = json.loads(first.stdout.readline())
        except (OSError, ValueError):
            first.wait(30)
            self.errors.seek(0)
            said = [line.strip() for line in self.errors if "Error" in line]
            raise measure.LibraryError(f"{self.name}: {said[-1] if said else 'ended'}") from None
        return answer["seconds"], answer["result"]

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        self.errors.close()


def sample(pairs, works, effort):
    """Seconds by column and work: samples, the columns taking turns. Their results must agree."""
    calls, expected, results = {}, 0.0, {}
    for column, pair in pairs.items():
        for work in works:
            pair.time(work, 1)
            once, results[column, work] = pair.time(work, 2)
            calls[column, work] = max(1, round(effort.sample / max(once, 1e-7)))
            expected += max(once, effort.sample)
    for work in works:
        ours, theirs = (results.get((column, work)) for column in ("gradlib", "torch"))
        if theirs is not None and abs(ours - theirs) > 1e-3 * abs(theirs):
            raise measure.LibraryError(f"results of {work} disagree: {ours} and {theirs}")
    samples = {column: {work: [] for work in works} for column in pairs}
    for turn in range(int(min(effort.rounds, max(3, effort.budget / expected)))):
        for column in list(pairs)[:: 1 if turn % 2 else -1]:
            for work in works:
                seconds, _ = pairs[column].time(work, calls[column, work])
                samples[column][work].append(seconds)
    return samples


def exposed(samples, model):
    """The part of the time of an all-reduce of all gradients by which a step is longer than without communication."""
    rounds = zip(*(samples[f"{work} {model}"] for work in ("ddp", "alone", "gradients")), strict=True)  # fmt: skip
    return [(step - alone) / communication for step, alone, communication in rounds]


def run(wanted, libraries, effort, quick):
    """The rows whose name contains one of `wanted`, or all; each is given when it is measured."""

    def asked(name):
        return not wanted or any(word in name for word in wanted)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pairs = {}

        def columns(backend):
            """The pairs to compare, started when they are first needed."""
            chosen = {"gradlib": ("gradlib", backend)}
            if "torch" in libraries:
                chosen["torch"] = ("torch", "gloo")
            for key in chosen.values():
                if key not in pairs:
                    pairs[key] = Pair(*key, folder)
                    stack.callback(pairs[key].close)
            return {column: pairs[key] for column, key in chosen.items()}

        for backend in backends():
            for size, count in BYTES.items():
                name = f"{backend}-all-reduce-{size}"
                if asked(name) and not (quick and size in SLOW):
                    goal = GOALS.get((backend, size))
                    yield from _reduction(name, columns(backend), count, goal, effort)
            for model in MODELS:
                name = f"{backend}-ddp-{model}"
                if asked(name) and not (quick and model == "gpt"):
                    yield from _training(name, columns(backend), model, effort)


def _reduction(name, pairs, count, goal, effort):
    work = f"all-reduce {count}"
    unit = "us" if count <= 1 << 16 else "ms"
    try:
        samples = sample(pairs, [work], effort)
    except measure.LibraryError as error:
        yield measure.Row(name, error=str(error))
        return
    picked = {column: by[work] for column, by in samples.items()}
    yield measure.Row(name, unit, goal, samples=picked)


def _training(name, pairs, model, effort):
    works = [f"ddp {model}", f"alone {model}", f"gradients {model}"]
    try:
        samples = sample(pairs, works, effort)
    except measure.LibraryError as error:
        yield measure.Row(name, error=str(error))
        return
    step = {column: by[works[0]] for column, by in samples.items()}
    yield measure.Row(name, "ms", 1.0, samples=step)
    shares = {column: exposed(by, model) for column, by in samples.items()}
    yield measure.Row(f"{name}-exposed", "share", counted=False, samples=shares)
