"""The launcher: start a program in several processes, on one machine or on several.

    python -m gradlib.distributed.run --nproc-per-node 4 train.py --epochs 3        # one machine
    python -m gradlib.distributed.run --nnodes 2 --nproc-per-node 4 --rdzv-id 7 \\
        --rdzv-backend c10d --rdzv-endpoint node0:29400 train.py                    # on each of two machines

Programs that `import torch` are started by ``python -m gradlib -m torch.distributed.run``. Each process finds
RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and the like in its environment, which is what ``init_process_group()`` reads.
If one fails, the others are ended, and what it failed with is shown; Ctrl-C and SIGTERM end them all.

On several machines, set GRADLIB_JOB_TOKEN to the same secret on each: it keeps others out of the job.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import uuid
from argparse import REMAINDER, Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from .. import cuda
from .._refused import refuse
from .elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException, Std
from .elastic.multiprocessing.errors import ChildFailedError, record
from .elastic.utils import macros
from .elastic.utils.logging import get_logger
from .launcher.api import RUN_PATH, LaunchConfig, elastic_launch

__all__ = [
    "REMAINDER",
    "ChildFailedError",
    "DefaultLogsSpecs",
    "LaunchConfig",
    "LogsSpecs",
    "Std",
    "check_env",
    "config_from_args",
    "determine_local_world_size",
    "elastic_launch",
    "env",
    "get_args_parser",
    "get_logger",
    "get_rdzv_endpoint",
    "get_use_env",
    "macros",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "record",
    "run",
    "run_script_path",
]

__getattr__ = refuse(__name__, whole=True)


class env(Action):
    """An option whose default is in the environment.

    It is ``PET_NNODES`` for ``--nnodes``, and so on.
    """

    def __init__(
        self, dest: str, default: Any = None, required: bool = False, **kwargs: Any
    ) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)


class check_env(Action):
    """A switch that the environment may turn on.

    ``PET_STANDALONE=1`` does for ``--standalone``.
    """

    def __init__(self, dest: str, default: Any = False, **kwargs: Any) -> None:
        on = os.environ.get(f"PET_{dest.upper()}", "1" if default else "0") == "1"
        super().__init__(dest=dest, const=True, default=on, nargs=0, **kwargs)

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, self.const)


def _two(name: str) -> list[str]:
    """An option, with hyphens and with underscores."""
    return [f"--{name}"] if "-" not in name else [f"--{name}", f"--{name.replace('-', '_')}"]


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def get_args_parser() -> ArgumentParser:
    """The parser of the command line.

    Example:
        >>> from gradlib.distributed.run import get_args_parser
        >>> get_args_parser().parse_args(["--nproc-per-node=2", "train.py"]).nproc_per_node
        '2'
    """
    parser = ArgumentParser(
        prog="gradlib-run",
        description="Start a program in several processes, on one machine or several.",
    )

    def option(name: str, help: str, *short: str, default: Any = None, **kwargs: Any) -> None:
        parser.add_argument(*short, *_two(name), action=env, default=default, help=help, **kwargs)

    def switch(name: str, help: str, *short: str) -> None:
        parser.add_argument(*short, *_two(name), action=check_env, help=help)

    option("nnodes", "number of machines, or MIN:MAX", default="1:1")
    option("nproc-per-node", "processes on this machine: a number, auto, cpu or gpu", default="1")
    # where they meet
    option("rdzv-backend", "how machines meet: static or c10d", default="static")
    option("rdzv-endpoint", "where they meet: host:port", default="")
    option("rdzv-id", "name of the job, alike on all machines", default="none")
    option("rdzv-conf", "timeout=SECONDS,last_call_timeout=SECONDS,is_host=BOOL", default="")
    switch("standalone", "one machine, a port that is free")
    option("node-rank", "number of this machine, for static", type=int, default=0)
    option("master-addr", "address of machine 0, for static", default="127.0.0.1")
    option("master-port", "a free port of machine 0, for static", type=int)
    option("local-addr", "accepted; the address is that of the endpoint")
    # failures
    option("max-restarts", "how often to start all again after one failed", type=int, default=0)
    option("monitor-interval", "seconds between looks", type=float, default=0.1)
    option("shutdown-timeout", "seconds to end after SIGTERM", type=int)
    option("signals-to-handle", "signals that end all", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    # output
    option("role", "name of the processes before their output", default="default")
    option("log-dir", "folder for the files of each process")
    option(
        "redirects",
        "outputs to files: 0 none, 1 stdout, 2 stderr, 3 both; or RANK:N,...",
        "-r",
        default="0",
    )
    option("tee", "outputs to files and the terminal, as --redirects", "-t", default="0")
    option("local-ranks-filter", "local ranks that reach the terminal: 0,1", default="")
    option("duplicate-stdout-filters", "not supported", type=_listed, default=[])
    option("duplicate-stderr-filters", "not supported", type=_listed, default=[])
    parser.add_argument(*_two("logs-specs"), help="not supported")
    # what is started
    option(
        "start-method",
        "of multiprocessing",
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
    )
    option("event-log-handler", "accepted", default="null")
    switch("module", "the program is a module, as python -m has it", "-m")
    switch("no-python", "the program is no Python")
    switch("run-path", "run it by runpy.run_path")
    switch("virtual-local-rank", "each process sees one GPU, as number 0")
    parser.add_argument(*_two("numa-binding"), help="not supported")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> Namespace:
    """Read the command line.

    Args:
        args: None for that of this process.
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """How many machines are needed, and how many may take part.

    Args:
        nnodes: ``"2"``, or ``"1:4"``.

    Raises:
        RuntimeError: it is neither.

    Example:
        >>> from gradlib.distributed.run import parse_min_max_nnodes
        >>> parse_min_max_nnodes("1:4")
        (1, 4)
    """
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes this machine is to have.

    Args:
        nproc_per_node: a number; ``"cpu"``: one a core; ``"gpu"``: one a GPU; ``"auto"``: GPUs, or else cores.

    Raises:
        ValueError: it is none of these, or there is no GPU.

    Example:
        >>> from gradlib.distributed.run import determine_local_world_size
        >>> determine_local_world_size("3")
        3
    """
    try:
        return int(nproc_per_node)
    except ValueError:
        pass
    wanted = nproc_per_node
    if wanted == "auto":
        wanted = "gpu" if cuda.is_available() else "cpu"
    if wanted == "cpu":
        return os.cpu_count() or 1
    if wanted == "gpu":
        if not cuda.is_available():
            raise ValueError("Cuda is not available.")
        return cuda.device_count()
    if wanted == "xpu":
        raise ValueError("Xpu is not available.")
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def get_rdzv_endpoint(args: Namespace) -> str:
    """Where machines meet.

    Args:
        args: of `parse_args`.

    Returns:
        ``host:port``: the endpoint that was given, or, for static, that of machine 0.
    """
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        port = args.master_port
        if port is None:
            port = 0 if parse_min_max_nnodes(args.nnodes)[1] == 1 else 29500
        return f"{args.master_addr}:{port}"
    return args.rdzv_endpoint


def get_use_env(args: Namespace) -> bool:
    """Whether programs read LOCAL_RANK from the environment.

    Args:
        args: of `parse_args`; those of `launch` may say that they are told by ``--local-rank`` instead.
    """
    return getattr(args, "use_env", True)


def _python(args: Namespace) -> tuple[str, list[str]]:
    """What starts the program: Python, as it was started here, or the program itself."""
    script = args.training_script
    if args.no_python:
        if args.module or args.run_path or not get_use_env(args):
            raise ValueError(
                "--no-python goes with none of --module, --run-path and launch without --use-env"
            )
        return script, []
    if args.module and args.run_path:
        raise ValueError("--module and --run-path exclude each other")
    words = ["-u"]
    if os.environ.get("GRADLIB_AS_TORCH"):
        words += ["-m", "gradlib"]  # `import torch` is to give gradlib there too
    if args.run_path:
        return sys.executable, [*words, "-c", RUN_PATH, script]
    return sys.executable, [*words, *(["-m"] if args.module else []), script]


def config_from_args(args: Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """What the command line asks for.

    Args:
        args: of `parse_args`.

    Returns:
        The configuration, the program to start, and its arguments.

    Raises:
        ValueError: options exclude each other, or are no numbers.
        NotImplementedError: an option is not supported.
    """
    for name in ("logs_specs", "numa_binding"):
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise NotImplementedError(f"{option} is not supported: leave it out")
    if args.standalone:
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = (
            "c10d",
            "localhost:0",
            str(uuid.uuid4()),
        )
    fewest, most = parse_min_max_nnodes(args.nnodes)
    if args.standalone and most != 1:
        raise ValueError(f"--standalone is for one machine, but --nnodes is {args.nnodes}")
    if args.rdzv_backend == "static" and fewest != most:
        raise ValueError(
            f"--nnodes {args.nnodes} needs --rdzv-backend c10d: static has a fixed number"
        )
    processes = determine_local_world_size(args.nproc_per_node)
    if processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        # otherwise each process takes all cores, and they stand in each other's way
        os.environ["OMP_NUM_THREADS"] = "1"
        print(
            f"gradlib: OMP_NUM_THREADS=1 for each of {processes} processes; set it to give them more threads",
            file=sys.stderr,
        )
    configs: dict[str, Any] = dict(pair.split("=", 1) for pair in _listed(args.rdzv_conf))
    if args.rdzv_backend == "static":
        configs["rank"] = args.node_rank
    shown = {int(rank) for rank in _listed(args.local_ranks_filter)} or None
    config = LaunchConfig(
        min_nodes=fewest,
        max_nodes=most,
        nproc_per_node=processes,
        logs_specs=DefaultLogsSpecs(
            args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown
        ),
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=get_rdzv_endpoint(args),
        rdzv_backend=args.rdzv_backend,
        rdzv_configs=configs,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    program, words = _python(args)
    if not get_use_env(args):
        words.append(f"--local-rank={macros.local_rank}")
    return config, program, [*words, *args.training_script_args]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a Python file in this process, as ``python file`` would.

    Args:
        training_script: its path.
        training_script_args: what ``sys.argv`` has behind it.
    """
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: Namespace) -> None:
    """Start what the command line asks for, and wait for its end.

    Args:
        args: of `parse_args`.

    Raises:
        ChildFailedError: a process failed.
        SignalException: a signal ended it.
    """
    config, program, arguments = config_from_args(args)
    elastic_launch(config, program)(*arguments)


@record
def main(args: Sequence[str] | None = None) -> None:
    """`run` for a command line.

    Args:
        args: None for that of this process.
    """
    run(parse_args(args))


def console(start: Callable[[], Any] = main) -> None:
    """`main` as a command: it ends with an exit status, and with what failed instead of its own traceback."""
    try:
        start()
    except ChildFailedError as error:
        sys.exit(str(error))
    except SignalException as error:
        print(f"gradlib: all processes have ended, after {error.sigval.name}", file=sys.stderr)
        signal.signal(error.sigval, signal.SIG_DFL)
        sys.exit(128 + error.sigval)
    except (ValueError, NotImplementedError, OSError, ArgumentTypeError) as error:
        sys.exit(f"gradlib-run: {error}")


if __name__ == "__main__":
    console()
