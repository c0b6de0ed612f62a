"""Prove gradlib on a GPU, in stages that leave their results as they go: python ci/gpu [stage ...] --out DIR.

Runs on the Python that runs it and installs nothing: CuPy, NumPy, ml_dtypes, opt_einsum, SciPy, pytest and hypothesis
are enough, and what is missing is said first (a folder of packages on PYTHONPATH will do); PyTorch is measured beside
gradlib where it is installed. DIR gets one dated file of rows (JSON, one to a
line), the output of each stage, and the cache of compiled kernels, which --cache takes along into a later run. A stage
that takes longer than its limit is ended with all that it started; the others run all the same. A stage that runs
nothing has failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import rows
from stages import HERE, STAGES, Options, Stage

LAST_LINES = 20  # of what a stage printed, shown where it failed
NEEDED = ("numpy", "cupy", "ml_dtypes", "opt_einsum", "scipy", "pytest", "hypothesis")


def parse() -> argparse.Namespace:
    """The command line."""
    about = "; ".join(f"{s.name} ({s.limit} s): {s.about}" for s in STAGES)
    parser = argparse.ArgumentParser(
        prog="python ci/gpu", description=__doc__, epilog=f"stages: {about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = [s.name for s in STAGES]
    parser.add_argument("stages", nargs="*", metavar="stage", help="all of them if none is named")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="compiled kernels of an earlier run"
    )
    parser.add_argument("--device", choices=("real", "cupy-on-cpu"), default="real")
    parser.add_argument(
        "--workers", type=int, default=min(16, os.cpu_count() or 1), help="processes of tests"
    )
    parser.add_argument(
        "--limit", type=float, default=1.0, metavar="F", help="factor for the limits"
    )
    options = parser.parse_args()
    unknown = set(options.stages) - set(names)
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}; stages are {', '.join(names)}")
    return options


def environment(options: argparse.Namespace, file: Path) -> dict[str, str]:
    """What the stages see."""
    # not what says that this is itself a process of a run of tests
    made = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    paths = [str(HERE), str(HERE.parent / "bench"), str(HERE.parent.parent)]
    made["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [made.get("PYTHONPATH")])])
    made[rows.FILE] = str(file)
    made["CUPY_CACHE_DIR"] = str(options.out / "cache")
    made["PYTHONUNBUFFERED"] = "1"
    if options.device == "real":
        made["GRADLIB_NEEDS_GPU"] = "1"  # without a device tests fail instead of being skipped
    return made


def ended(process: subprocess.Popen) -> None:
    """End a process and all that it started."""
    for sign, patience in ((signal.SIGTERM, 6), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def run(stage: Stage, options: argparse.Namespace, file: Path, env: dict[str, str]) -> str:
    """Run a stage; what became of it, in a few words that begin with "ok" if all is well."""
    given = Options(options.out, sys.executable, options.device == "real", options.workers)
    command = stage.command(given)
    if command is None:
        return "not on this machine"
    log = options.out / f"{stage.name}.log"
    env = env | {rows.STAGE: stage.name}
    before = len(rows.read(file, stage.name))
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=HERE.parent.parent, env=env, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(stage.limit * options.limit)
            word = "ok" if code == 0 else f"FAILED (exit {code}, see {log.name})"
        except subprocess.TimeoutExpired:
            word = f"FAILED (over its limit of {stage.limit * options.limit:g} s, see {log.name})"
        finally:
            ended(process)
    made = rows.read(file, stage.name)[before:]
    failed = [row for row in made if row.get("error")]
    if word == "ok" and failed:
        word = f"FAILED ({len(failed)} rows, the first: {failed[0]['name']}: {failed[0]['error']})"
    if word == "ok" and not made:
        word = "FAILED (nothing was run)"
    return f"{word}, {len(made)} rows"


def end_of(log: Path) -> str:
    """The last lines of a stage's output, for whoever has no time to fetch the file."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join(f"    {line[:200]}" for line in lines)


def table(results: list[tuple[Stage, str, float]], file: Path) -> str:
    """What the run found, for people."""
    lines = [f"\nrows: {file}", "| stage | seconds | |", "|---|---|---|"]
    lines += [f"| {stage.name} | {seconds:.0f} | {word} |" for stage, word, seconds in results]
    lines += ["", "| row | gradlib | PyTorch | ratio | unit |", "|---|---|---|---|---|"]
    for row in rows.read(file):
        if "gradlib" in row:
            theirs, ratio = row.get("torch"), row.get("ratio")
            shown = [f"{v:.4g}" if v is not None else "" for v in (row["gradlib"], theirs, ratio)]
            lines.append(f"| {row['name']} | {' | '.join(shown)} | {row.get('unit', '')} |")
    return "\n".join(lines)


def main() -> int:
    """Run the stages; 0 if all that this machine can run are well."""
    options = parse()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.cache is not None and options.cache.resolve() != options.out / "cache":
        shutil.copytree(options.cache, options.out / "cache", dirs_exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the stage that runs is ended
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"this Python has no {', '.join(missing)}: what needs it will fail", flush=True)
    file = options.out / f"{time.strftime('%Y-%m-%d')}_gpu.json"
    env, results = environment(options, file), []
    for stage in STAGES:
        if options.stages and stage.name not in options.stages:
            continue
        began = time.perf_counter()
        word = run(stage, options, file, env)
        seconds = time.perf_counter() - began
        results.append((stage, word, seconds))
        print(f"{stage.name}: {word}, {seconds:.0f} s", flush=True)
        if word.startswith("FAILED"):
            print(end_of(options.out / f"{stage.name}.log"), flush=True)
    print(table(results, file))
    return (
        0
        if any(w.startswith("ok") for _, w, _ in results)
        and all(w.startswith(("ok", "not on")) for _, w, _ in results)
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
