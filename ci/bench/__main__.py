"""Time gradlib beside PyTorch: python ci/bench [--device cpu|cuda] [--only NAME ...] [--quick].

Both libraries run the same code in the same process, in turns, on one thread each, or --threads N. Before a workload
is timed, the two must agree on its numbers. Without PyTorch the times of gradlib are printed alone.
A second table shows what captured steps cost until they are ready; with --compile, torch.compile's beside them.
With --device cuda, torch.compile, torch.cuda.CUDAGraph, JAX and plain CuPy run beside them, where they are installed.
With --distributed, two processes of each run collectives and training; PyTorch's by gloo.
With --compare FILE, what --json wrote earlier, the exit status is 1 if a row lost more than 5 % (--loss): by the ratio
to PyTorch where both have one, else by time. A row that lost is measured again, twice at most; the best counts.
"""

import environment  # isort: skip  # first: before anything loads a BLAS

import argparse
import contextlib
import dataclasses
import pathlib
import sys

# The gradlib of this checkout is the one measured.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import captured_workloads
import comparison
import cuda_workloads
import derivative_workloads  # noqa: F401  # registers its workloads
import distributed
import measure
import op_table
import readiness
import report
import sparse_workloads  # noqa: F401  # registers its workloads
from workloads import WORKLOADS


def parse_options():
    parser = argparse.ArgumentParser(
        prog="python ci/bench",
        description=__doc__,
        epilog="workloads: "
        + ", ".join(workload.name for workload in WORKLOADS)
        + "; with --device cuda: "
        + ", ".join(workload.name for workload in cuda_workloads.workloads(quick=False))
        + "; with --distributed: "
        + ", ".join(distributed.names()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="workloads whose name contains NAME"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, no long workloads")
    parser.add_argument("--ops", action="store_true", help="the table of single ops instead")
    parser.add_argument(
        "--distributed", action="store_true", help="collectives and training in two processes"
    )
    environment.add_threads(parser)
    parser.add_argument(
        "--compile", action="store_true", help="torch.compile of captured steps, too: minutes"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results")
    parser.add_argument("--compare", type=pathlib.Path, metavar="FILE", help="an earlier run")
    parser.add_argument(
        "--loss", type=float, default=5.0, metavar="PERCENT", help="with --compare (default: 5)"
    )
    options = parser.parse_args()
    if not options.loss >= 0:
        parser.error(f"--loss must be a percentage of 0 or more, but got {options.loss}")
    if options.compile and (options.ops or options.distributed or options.device == "cuda"):
        parser.error(
            "--compile goes with captured steps on the CPU, not with --ops, --distributed or --device cuda"
        )
    if options.distributed and options.threads > 1:
        parser.error(
            "--distributed measures processes of one thread each, so it takes no --threads"
        )
    options.workloads = choose(options)
    if options.distributed:
        chosen = [n for n in distributed.names() if any(w in n for w in options.only)]
        options.workloads = chosen if options.only else distributed.names()
    if not options.workloads:
        parser.error(f"no workload has {' or '.join(options.only)} in its name (see --help)")
    return options


def choose(options):
    """The workloads to run."""
    if options.ops:
        workloads = op_table.WORKLOADS
    elif options.device == "cuda":
        workloads = cuda_workloads.workloads(options.quick)
    else:
        workloads = [w for w in WORKLOADS if not (options.quick and w.slow)]
    if options.only:
        workloads = [w for w in workloads if any(word in w.name for word in options.only)]
    if options.compile:
        workloads = [captured_workloads.beside_compile(w) for w in workloads]
    return workloads


def columns_of(workloads, libraries):
    """The columns of the table: the libraries, and what else is run beside them."""
    columns = list(report.COLUMNS)
    for workload in workloads:
        if getattr(workload, "eager", None) and "eager" not in columns:
            columns.append("eager")
        for name, (library, _) in getattr(workload, "others", {}).items():
            if library in libraries and name not in columns:
                columns.append(name)
    return columns


def measured(options, libraries, effort, only=None):
    """The rows, as they come; `only` those of the workload that a row of this name belongs to."""
    if options.distributed:
        wanted = [n for n in distributed.names() if only.startswith(n)] if only else options.only
        yield from distributed.run(wanted, libraries, effort, options.quick)
        return
    for workload in options.workloads:
        if only not in (None, workload.name):
            continue
        own = effort
        if options.device == "cpu" and workload.name.endswith(("-captured", "-fused")):
            own = dataclasses.replace(effort, warm_up=1 + measure.CAPTURES)
        with readiness.empty_cache() if options.compile else contextlib.nullcontext():
            yield from measured_workload(workload, libraries, options, own)


def measured_workload(workload, libraries, options, effort):
    """The rows of one workload; where its step is compiled, with what that costs."""
    costs, failure = {}, ""
    if options.compile and workload.compiled:
        # first, so that the step of this process is compiled from their cache
        try:
            library = libraries["torch"].__name__
            costs = readiness.compiled_costs(workload, library, options.threads)
        except RuntimeError as error:
            failure = str(error)
            workload = dataclasses.replace(workload, others={})
    rows = measure.run(workload, libraries, options.device, effort)
    rows[0].ready |= costs
    if failure:
        rows[0].notes["torch.compile"] = failure
    return rows


def main():
    options = parse_options()
    earlier = None
    if options.compare:
        earlier = comparison.read(options.compare, options.device, options.threads)
    libraries = measure.load_libraries(options.device, options.threads)
    if options.compile and "torch" not in libraries:
        sys.exit("bench: --compile measures torch.compile, but torch is not installed")
    facts = report.facts(libraries, options.device, options.threads)
    print("\n".join(f"{key}: {value}" for key, value in facts.items()), end="\n\n")
    effort = measure.QUICK if options.quick else measure.THOROUGH
    if options.device == "cuda":
        effort = dataclasses.replace(effort, warm_up=1 + measure.CAPTURES)
    rows, columns = [], columns_of(options.workloads, libraries)
    print(report.header(columns))
    for row in measured(options, libraries, effort):
        rows.append(row)
        print(report.line(row, columns), flush=True)
    print(report.captured_table(rows), end="\n" if any(row.ready for row in rows) else "")
    print(report.summary(rows))
    if options.json:
        report.write_json(options.json, facts, rows)
    lost = []
    if earlier is not None:

        def again(name):
            found = measured(options, libraries, effort, only=name)
            return next((row for row in list(found) if row.name == name), None)

        lost = comparison.print_changes(rows, earlier, options.loss / 100, again)
    return 1 if lost or any(row.error for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
