"""Printing and storing what was measured."""

import datetime
import json
import math
import pathlib
import platform
import subprocess
import sys

SCALE = {
    "s": 1.0,
    "ms": 1e3,
    "us": 1e6,
    "us/op": 1e6,
    "us/node": 1e6,
}  # of times; figures are in their unit
COLUMNS = ["gradlib", "torch"]


def header(columns=COLUMNS):
    """The titles of the table."""
    return f"{'':28}{''.join(f'{c:>14}' for c in columns)}  {'':8}{'ratio':>7}{'goal':>7}"


def facts(libraries, device, threads=1):
    """Where and with what the figures were made; the order is that of printing."""
    import numpy

    from gradlib.devices.numpy import threads as of_numpy

    found = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": device_name(libraries["gradlib"], device),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "kernels of products": of_numpy.kernels() or "unknown",
    }
    if device == "cuda":
        found["driver"] = driver()
    for name, module in libraries.items():
        found[name] = str(getattr(module, "__version__", "unknown"))
    found["revision"] = revision()
    return found


def device_name(torch, device):
    if device == "cuda":
        return f"cuda, {torch.cuda.get_device_name()}"
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or "unknown"
    return f"cpu, {model}"


def driver():
    """The version of the NVIDIA driver, with the CUDA version it supports where CuPy can say it."""
    import cupy

    number = cupy.cuda.runtime.driverGetVersion()
    version = f"CUDA {number // 1000}.{number % 1000 // 10}"
    try:
        version = f"{pathlib.Path('/sys/module/nvidia/version').read_text().strip()}, {version}"
    except OSError:
        pass
    return version


def revision():
    """The commit of the checkout, with a + when files differ from it."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def line(row, columns=COLUMNS):
    """One row of the table."""
    if row.error:
        return f"{row.name:28} FAILED  {row.error}"
    scale, medians = SCALE.get(row.unit, 1.0), row.medians
    cells = [
        f"{medians[name] * scale:14.3f}" if name in medians else f"{'-':>14}" for name in columns
    ]
    ratio = f"{row.ratio:7.2f}" if row.ratio is not None else f"{'-':>7}"
    goal = f"{row.goal:7.2f}" if row.goal is not None else ""
    return f"{row.name:28}{''.join(cells)}  {row.unit:8}{ratio}{goal}".rstrip()


def geometric_mean(rows):
    """Of the ratios of the counted rows; None when there are none."""
    ratios = [row.ratio for row in rows if row.counted and row.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(rows):
    """The closing lines: the mean of the ratios, and what failed."""
    counted = sum(row.counted and row.ratio is not None for row in rows)
    mean = geometric_mean(rows)
    lines = []
    if mean is not None:
        lines.append(
            f"geometric mean of {counted} ratios: {mean:.3f} (gradlib / torch, lower is better)"
        )
    for row in rows:
        lines += [f"{row.name}: without {name}: {why}" for name, why in row.notes.items()]
    failed = [row.name for row in rows if row.error]
    if failed:
        lines.append(f"{len(failed)} failed: {', '.join(failed)}")
    return "\n".join(["", *lines])


def captured_table(rows):
    """How captured steps compare with eager and compiled ones; "" without any.

    Ratios are to PyTorch's eager step, or seconds of a step where PyTorch is not installed.
    """
    rows = [row for row in rows if "captured" in row.ready]
    if not rows:
        return ""
    titles = ["eager", "captured", "torch.compile", "ready", "cold", "warm", "pays after"]
    lines = [
        "captured steps: times over torch's eager step; seconds until captured is ready, and torch.compile with an "
        "empty cache and a filled one; steps after which capturing has paid",
        f"{'':28}{''.join(f'{title:>14}' for title in titles)}",
    ]

    def cells(values, form):
        return ["-" if value is None else form.format(value) for value in values]

    for row in rows:
        medians = row.medians
        base = medians.get("torch", 1.0)
        times = [medians.get(column) for column in ("eager", "gradlib", "torch.compile")]
        costs = [row.ready.get(kind) for kind in ("captured", "cold", "warm")]
        paid = "never" if row.pays_after is None else row.pays_after
        ratios = cells([t and t / base for t in times], "{:.3f}")
        texts = [*ratios, *cells(costs, "{:.2f} s"), paid]
        lines.append(f"{row.name:28}{''.join(f'{text:>14}' for text in texts)}")
    return "\n".join(["", *lines])


def write_json(path, facts, rows):
    """Everything that was printed, and every sample: times in seconds, figures in their unit."""
    entries = [
        {
            "name": row.name.strip(),
            "unit": row.unit,
            "seconds" if row.unit in SCALE else "values": row.medians,
            "ratio": row.ratio,
            "goal": row.goal,
            "counted": row.counted,
            "samples": row.samples,
            "error": row.error,
            "notes": row.notes,
        }
        | ({"ready": row.ready, "pays_after": row.pays_after} if row.ready else {})
        for row in rows
    ]
    content = {"facts": facts, "geometric_mean": geometric_mean(rows), "rows": entries}
    try:
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        sys.exit(f"bench: cannot write {path}: {error.strerror}")
