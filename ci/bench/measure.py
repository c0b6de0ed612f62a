"""Running a workload under each library: agreement first, then interleaved timing.

On a CUDA device times are those between two events of the current stream, recorded around many calls after a warm-up;
the host waits for the device before the first and after the last. What has no such events (JAX) is timed by the host's
clock until its result is there.
"""

import contextlib
import dataclasses
import gc
import importlib
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import readiness


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
    # More columns: name -> (library, build), the build taking that library's module and the device.
    others: dict[str, tuple[str, Callable]] = dataclasses.field(default_factory=dict)
    # Of a captured step: builds of the same as it is written, a column of its own, and through torch.compile.
    eager: Callable | None = None
    compiled: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that is no time of a call: `measure(torch, device, clock)` returns it in `unit`, a time in seconds."""

    name: str
    measure: Callable
    unit: str
    goal: float | None = None  # in the unit
    slow: bool = False
    rounds: int = 3


@dataclasses.dataclass
class Row:
    """What is printed: seconds by column, each the median of `samples`, or an error."""

    name: str
    unit: str = "ms"
    goal: float | None = None
    counted: bool = True
    samples: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    error: str = ""
    notes: dict[str, str] = dataclasses.field(default_factory=dict)  # columns left out, and why
    # Of a captured step: seconds until it is ready ("captured", "cold", "warm"), steps after which it has paid.
    ready: dict[str, float] = dataclasses.field(default_factory=dict)
    pays_after: int | None = None

    @property
    def medians(self):
        return {name: statistics.median(samples) for name, samples in self.samples.items()}

    @property
    def ratio(self):
        """gradlib's time divided by PyTorch's; None without PyTorch."""
        medians = self.medians
        if "gradlib" not in medians or "torch" not in medians:
            return None
        return medians["gradlib"] / medians["torch"] if medians["torch"] else None


@dataclasses.dataclass(frozen=True)
class Effort:
    sample: float  # seconds that one sample should take at least
    rounds: int  # samples of each library, where they fit into ...
    budget: float  # ... so many seconds; never fewer than 3
    warm_up: int = 1  # calls before, the last of which tells how many make a sample


THOROUGH = Effort(sample=0.05, rounds=15, budget=12.0)
QUICK = Effort(sample=0.01, rounds=3, budget=3.0)
CAPTURES = 3  # more calls before: what captures a step does so within them


def load_libraries(device, threads=1):
    """The modules to compare by name: gradlib, and what else is installed and can use the device."""
    libraries = {}
    for name in ("gradlib", "torch", "jax", "cupy")[: 2 if device == "cpu" else None]:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name == "gradlib" or error.name != name:
                raise
            continue
        if hasattr(module, "set_num_threads"):
            module.set_num_threads(threads)
        if device == "cuda" and not sees_device(name, module):
            if name == "gradlib":
                from gradlib.devices.cuda.namespace import why_not

                sys.exit(f"bench: gradlib sees no CUDA device: {why_not()}")
            continue
        use_float32(name, module)
        libraries[name] = module
    return libraries


def use_float32(name, module):
    """Without being asked, products of float32 are not rounded to TF32, also where that is a library's default."""
    if name == "jax":
        module.config.update("jax_default_matmul_precision", "highest")
    elif name != "cupy":
        module.backends.cudnn.allow_tf32 = False


def sees_device(name, module):
    """Whether a library can use a CUDA device."""
    if name == "jax":
        return module.default_backend() == "gpu"
    return module.cuda.is_available()


def run(workload, libraries, device, effort):
    """Rows for one workload; a failure becomes a row with an error."""
    gc.collect()
    try:
        if isinstance(workload, Figure):
            return [run_figure(workload, libraries, device)]
        return run_timed(workload, libraries, device, effort)
    except LibraryError as error:
        return [Row(workload.name, error=str(error))]
    except Exception as error:  # whatever it is, the other workloads must run
        return [Row(workload.name, error=f"{type(error).__name__}: {first_line(error)}")]


def run_timed(workload, libraries, device, effort):
    """Rows for one workload. What fails in one of its `others` becomes a note.

    Numbers that are not PyTorch's are an error of the first row; the times are there all the same.
    """
    phases, result, notes, different = {}, {}, {}, ""
    calls = readiness.CALLS if workload.eager else 1 if workload.slow else 3
    first_calls = {}

    def prepare(column, module, build):
        with blame(column):
            built = build(module, device)
            phases[column] = built if isinstance(built, dict) else {"": built}
            functions = phases[column].values()
            found = result[column] = []
            times = readiness.timed_calls(
                lambda: found.extend([numbers(f()) for f in functions]), calls
            )
            first_calls[column] = times

    if workload.eager:  # first: what is loaded by any step is no cost of capturing one
        prepare("eager", libraries["gradlib"], workload.eager)
    for name in ("gradlib", "torch"):
        if name in libraries:
            prepare(name, libraries[name], workload.build)
    if "torch" in result:
        try:
            check_agreement(result["gradlib"], result["torch"], workload.rtol)
        except LibraryError as error:
            different = str(error)
    for column, (library, build) in workload.others.items():
        if library not in libraries:
            continue
        try:
            prepare(column, libraries[library], build)
            check_agreement(result["gradlib"], result[column], workload.rtol, column)
        except LibraryError as error:
            notes[column] = str(error)
            phases.pop(column, None)
    base = {name: library for name, (library, _) in workload.others.items()} | {"eager": "gradlib"}
    clocks = {name: clock_of(libraries[base.get(name, name)], device) for name in phases}
    rows = rows_of(workload, sample(phases, clocks, effort))
    rows[0].notes, rows[0].error = notes, different
    if workload.eager:
        medians = rows[0].medians
        times = first_calls["gradlib"], medians["eager"]
        rows[0].ready["captured"] = readiness.cost(*times)
        rows[0].pays_after = readiness.pays_after(*times, medians["gradlib"])
    return rows


def run_figure(figure, libraries, device):
    """The row of a figure, measured by gradlib and PyTorch in turns."""
    samples = {name: [] for name in ("gradlib", "torch") if name in libraries}
    for turn in range(figure.rounds):
        for name in list(samples)[:: 1 if turn % 2 else -1]:
            with blame(name):
                module = libraries[name]
                samples[name].append(figure.measure(module, device, clock_of(module, device)))
    return Row(figure.name, figure.unit, figure.goal, counted=False, samples=samples)


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
    if hasattr(value, "detach"):
        value = value.detach().cpu().float().numpy()
    return [np.array(value.get() if hasattr(value, "get") else value)]


def check_agreement(ours, theirs, rtol, who="torch"):
    """Raise unless the numbers agree, entry by entry, relative to the largest of each array."""
    ours = [array for call in ours for array in call]
    theirs = [array for call in theirs for array in call]
    if len(ours) != len(theirs):
        raise LibraryError(
            f"results disagree: gradlib returned {len(ours)} arrays, {who} {len(theirs)}"
        )
    for mine, other in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            raise LibraryError(f"results disagree: shapes {mine.shape} and {other.shape}")
        scale = np.abs(other).max(initial=0.0) or 1.0
        difference = np.abs(mine - other).max(initial=0.0) / scale
        if not difference <= rtol:
            raise LibraryError(f"results disagree: relative difference {difference:.2g}")


class HostClock:
    """The host's clock. `wait` is given the last result before the clock is read."""

    def __init__(self, wait=lambda result: None):
        self.wait = wait

    def time(self, function, calls=1):
        """Seconds that a call takes, averaged over `calls` calls."""
        clock, result = time.perf_counter, None
        start = clock()
        for _ in range(calls):
            result = function()
        self.wait(result)
        return (clock() - start) / calls


class EventClock:
    """Two events of the current stream; the host waits outside of what they enclose."""

    def __init__(self, make_event, elapsed_ms, wait):
        self.start, self.end = make_event(), make_event()
        self.elapsed_ms, self.wait = elapsed_ms, wait

    def time(self, function, calls=1):
        """Seconds that a call takes, averaged over `calls` calls."""
        self.wait()
        self.start.record()
        for _ in range(calls):
            function()
        self.end.record()
        self.wait()
        return self.elapsed_ms(self.start, self.end) / 1e3 / calls


def clock_of(module, device):
    """What times the calls of a library on a device."""
    if device != "cuda":
        return HostClock()
    if module.__name__ == "jax":
        return HostClock(module.block_until_ready)
    if module.__name__ == "cupy":
        cuda = module.cuda
        return EventClock(cuda.Event, cuda.get_elapsed_time, cuda.runtime.deviceSynchronize)
    cuda = module.cuda
    return EventClock(
        lambda: cuda.Event(enable_timing=True),
        lambda start, end: start.elapsed_time(end),
        cuda.synchronize,
    )


def sample(phases, clocks, effort):
    """Seconds by column and phase: a list of samples, the columns taking turns."""
    calls, expected = {}, 0.0
    for name in phases:
        for _ in range(effort.warm_up):
            once = sum(time_phases(phases[name], clocks[name], 1).values())
        calls[name] = max(1, round(effort.sample / max(once, 1e-7)))
        expected += max(once, effort.sample)
    rounds = int(min(effort.rounds, max(3, effort.budget / expected)))
    samples = {name: {phase: [] for phase in phases[name]} for name in phases}
    for turn in range(rounds):
        for name in list(phases)[:: 1 if turn % 2 else -1]:
            times = time_phases(phases[name], clocks[name], calls[name])
            for phase, seconds in times.items():
                samples[name][phase].append(seconds)
    return samples


def time_phases(phases, clock, calls):
    """Seconds that a call of each phase takes, averaged over `calls` calls."""
    if len(phases) == 1:  # without a clock inside the loop
        ((phase, function),) = phases.items()
        return {phase: clock.time(function, calls)}
    total = dict.fromkeys(phases, 0.0)
    for _ in range(calls):
        for phase, function in phases.items():
            total[phase] += clock.time(function)
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
