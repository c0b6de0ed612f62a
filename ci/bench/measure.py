"""Running a workload under each library: agreement first, then interleaved timing."""

import contextlib
import dataclasses
import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """A piece of work, written once against PyTorch's API.

    `build(torch, device)` prepares it for a library and returns what is timed: a function, or a
    dict of functions that are called in turn and timed apart. What they return must be the same
    numbers under every library, call after call.
    """

    name: str
    build: Callable
    unit: str = "ms"
    per: int = 1  # the printed time is that of one call divided by this
    goal: float | None = None  # ratio to PyTorch that the project aims for
    rtol: float = 1e-4
    slow: bool = False  # left out by --quick
    counted: bool = True  # in the geometric mean


@dataclasses.dataclass
class Row:
    """What is printed: seconds by library, each the median of `samples`, or an error."""

    name: str
    unit: str = "ms"
    goal: float | None = None
    counted: bool = True
    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def medians(self):
        return {name: statistics.median(samples) for name, samples in self.samples.items()}

    @property
    def ratio(self):
        """gradlib's time divided by PyTorch's; None without PyTorch."""
        medians = self.medians
        if "gradlib" not in medians or "torch" not in medians:
            return None
        return medians["gradlib"] / medians["torch"]


@dataclasses.dataclass(frozen=True)
class Effort:
    sample: float  # seconds that one sample should take at least
    rounds: int  # samples of each library, where they fit into ...
    budget: float  # ... so many seconds; never fewer than 3


THOROUGH = Effort(sample=0.05, rounds=15, budget=12.0)
QUICK = Effort(sample=0.01, rounds=3, budget=3.0)


def load_libraries(device):
    """The modules to compare by name: gradlib, and torch where it is installed."""
    libraries = {}
    for name in ("gradlib", "torch"):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name == "gradlib" or error.name != name:
                raise
            continue
        if hasattr(module, "set_num_threads"):
            module.set_num_threads(1)
        if device == "cuda" and not module.cuda.is_available():
            if name == "gradlib":
                sys.exit("bench: gradlib sees no CUDA device")
            continue
        libraries[name] = module
    return libraries


def run(workload, libraries, device, effort):
    """Rows for one workload; a failure becomes a row with an error."""
    gc.collect()
    try:
        phases, result = {}, {}
        for name, torch in libraries.items():
            with blame(name):
                built = workload.build(torch, device)
                phases[name] = built if isinstance(built, dict) else {"": built}
                calls = 1 if workload.slow else 3
                result[name] = [numbers(f()) for _ in range(calls) for f in phases[name].values()]
        if len(result) > 1:
            check_agreement(result.pop("gradlib"), result.pop("torch"), workload.rtol)
        waits = {name: waiter(torch, device) for name, torch in libraries.items()}
        samples = sample(phases, waits, effort)
    except LibraryError as error:
        return [Row(workload.name, error=str(error))]
    except Exception as error:  # whatever it is, the other workloads must run
        return [Row(workload.name, error=f"{type(error).__name__}: {first_line(error)}")]
    return rows_of(workload, samples)


class LibraryError(Exception):
    """A workload failed under one library; the text says which and how."""


@contextlib.contextmanager
def blame(name):
    """Turn any error into a LibraryError that names the library."""
    try:
        yield
    except Exception as error:
        raise LibraryError(f"{name}: {type(error).__name__}: {first_line(error)}") from error


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def numbers(value):
    """The arrays in what a workload returned."""
    if value is None:
        return []
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in numbers(item)]
    return [np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value)]


def check_agreement(ours, theirs, rtol):
    """Raise unless the numbers agree, entry by entry, relative to the largest of each array."""
    ours = [array for call in ours for array in call]
    theirs = [array for call in theirs for array in call]
    if len(ours) != len(theirs):
        raise LibraryError(
            f"results disagree: gradlib returned {len(ours)} arrays, torch {len(theirs)}"
        )
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            raise LibraryError(f"results disagree: shapes {mine.shape} and {other.shape}")
        scale = np.abs(other).max(initial=0.0) or 1.0
        difference = np.abs(mine - other).max(initial=0.0) / scale
        if not difference <= rtol:
            raise LibraryError(f"results disagree: relative difference {difference:.2g}")


def waiter(torch, device):
    """What must be called for queued work to be done."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def sample(phases, waits, effort):
    """Seconds by library and phase: a list of samples, the libraries taking turns."""
    calls, expected = {}, 0.0
    for name in phases:
        once = sum(time_phases(phases[name], waits[name], 1).values())
        calls[name] = max(1, round(effort.sample / max(once, 1e-7)))
        expected += max(once, effort.sample)
    rounds = int(min(effort.rounds, max(3, effort.budget / expected)))
    samples = {name: {phase: [] for phase in phases[name]} for name in phases}
    for turn in range(rounds):
        for name in list(phases)[:: 1 if turn % 2 else -1]:
            times = time_phases(phases[name], waits[name], calls[name])
            for phase, seconds in times.items():
                samples[name][phase].append(seconds)
    return samples


def time_phases(phases, wait, calls):
    """Seconds that a call of each phase takes, averaged over `calls` calls."""
    clock = time.perf_counter
    total = dict.fromkeys(phases, 0.0)
    if len(phases) == 1:  # without a clock inside the loop
        ((phase, function),) = phases.items()
        wait()
        start = clock()
        for _ in range(calls):
            function()
        wait()
        total[phase] = clock() - start
    else:
        for _ in range(calls):
            for phase, function in phases.items():
                wait()
                start = clock()
                function()
                wait()
                total[phase] += clock() - start
    return {phase: seconds / calls for phase, seconds in total.items()}


def rows_of(workload, samples):
    """One row, or one for the sum of the phases and one for each phase."""
    names = list(samples)
    phases = list(samples[names[0]])

    def row(name, pick, **more):
        picked = {library: [s / workload.per for s in pick(samples[library])] for library in names}
        return Row(name, workload.unit, samples=picked, **more)

    def whole(by_phase):
        return [sum(parts) for parts in zip(*by_phase.values(), strict=True)]

    rows = [row(workload.name, whole, goal=workload.goal, counted=workload.counted)]
    if len(phases) > 1:
        for phase in phases:
            rows.append(row(f"  {phase}", lambda by, phase=phase: by[phase], counted=False))
    return rows
