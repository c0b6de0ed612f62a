"""Start a program, or a function, in several processes on this machine, together with other machines."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from ..._refused import refuse
from .. import _wire
from .._errors import DistError
from ..elastic.multiprocessing.api import DefaultLogsSpecs, LogsSpecs, SignalException
from ..elastic.multiprocessing.errors import NO_FILE, ChildFailedError, ProcessFailure
from ..elastic.utils import macros
from ._meeting import Meeting, Place
from ._processes import Entry, Processes

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

__getattr__ = refuse(__name__, whole=True)

_DEFAULT_PORT = 29400  # of --rdzv-endpoint without a port
# What runs a Python file inside another program's: --run-path
RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
SOON = 1.0  # seconds that processes have to end by themselves after the first of them failed
_SHOWN_LINES = 30  # of the stderr file of a process that failed


@dataclass
class LaunchConfig:
    """How to launch.

    Args:
        min_nodes: how many machines are needed.
        max_nodes: how many may take part.
        nproc_per_node: processes on this machine.
        logs_specs: where output goes; None: to the terminal.
        run_id: of the job; alike on all machines.
        role: what the processes are called before their output.
        rdzv_endpoint: ``host:port`` where the machines meet.
        rdzv_backend: ``"c10d"``, or ``"static"`` with ``rank`` in `rdzv_configs`.
        rdzv_configs: ``rank``, ``timeout`` and ``last_call_timeout`` in seconds, ``is_host``.
        max_restarts: how often all processes are started again after one failed.
        monitor_interval: seconds between looks at the processes.
        start_method: of multiprocessing, for functions.
        log_line_prefix_template: before lines on the terminal: ``${role_name}``, ``${local_rank}``, ``${rank}``.
        signals_to_handle: which signals end the processes.
        virtual_local_rank: each process sees one GPU, as number 0.
        shutdown_timeout: seconds that processes have to end after SIGTERM.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.min_nodes <= self.max_nodes:
            raise ValueError(
                f"min_nodes and max_nodes must be 1 <= min <= max, but got {self.min_nodes} and {self.max_nodes}"
            )
        if self.nproc_per_node < 1:
            raise ValueError(f"nproc_per_node must be at least 1, but got {self.nproc_per_node}")
        if self.rdzv_timeout > 0:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if self.rdzv_backend not in ("static", "c10d"):
            raise NotImplementedError(
                f"rdzv_backend is {self.rdzv_backend!r}, but machines meet by 'static' or 'c10d' only"
            )
        for name in ("numa_options", "duplicate_stdout_filters", "duplicate_stderr_filters"):
            if getattr(self, name):
                raise NotImplementedError(f"{name} is not supported: leave it out")


class _Signals:
    """While it is entered: signals are noted, not obeyed, so that no process is left over."""

    def __init__(self, names: str) -> None:
        numbers = [getattr(signal, name.strip(), None) for name in names.split(",") if name.strip()]
        self._numbers = [number for number in numbers if number is not None]
        self._before: dict[int, Any] = {}
        self.received: signal.Signals | None = None
        self.count = 0

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        self.received, self.count = self.received or signal.Signals(number), self.count + 1

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def came(self) -> bool:
        return self.received is not None

    def again(self) -> bool:
        """A second one: whoever sends it does not want to wait."""
        return self.count > 1


class _Agent:
    """One launch on this machine."""

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable[..., Any] | str, args: list[Any]
    ) -> None:
        self._config, self._entrypoint, self._args = config, entrypoint, args
        self._run_id = config.run_id or str(uuid.uuid4())
        self._own_logs = config.logs_specs is None or config.logs_specs.root_log_dir is None
        self._logs = config.logs_specs or DefaultLogsSpecs()
        self._name = getattr(entrypoint, "__qualname__", None) or self._program()
        self._failures: dict[int, ProcessFailure] = {}

    def _program(self) -> str:
        """The name of the program, for people: what Python is given, or the program itself."""
        assert isinstance(self._entrypoint, str)
        if self._entrypoint != sys.executable:
            return self._entrypoint
        words = [str(arg) for arg in self._args]
        while words[1:] and words[0] in ("-u", "-m", "gradlib", "-c", RUN_PATH):
            words.pop(0)
        return words[0] if words else self._entrypoint

    def _meet(self) -> Meeting:
        config = self._config
        static = config.rdzv_backend == "static"
        host, _, port = config.rdzv_endpoint.rpartition(":") if ":" in config.rdzv_endpoint else (
            config.rdzv_endpoint, "", "")  # fmt: skip
        alone = config.max_nodes == 1
        if not port.isdigit():
            port = "0" if alone else str(_DEFAULT_PORT)
        node = int(config.rdzv_configs.get("rank", 0)) if static else None
        said = config.rdzv_configs.get("is_host")
        is_host = node == 0 if static else None
        if said is not None:
            is_host = str(said).lower() in ("1", "true", "t", "yes", "y")
        return Meeting(
            host.strip("[]") or "localhost",
            int(port),
            node,
            (config.min_nodes, config.max_nodes),
            self._run_id,
            True if alone and static else is_host,
            float(config.rdzv_configs.get("timeout", 900)),
            float(config.rdzv_configs.get("last_call_timeout", 30)),
        )

    def run(self) -> dict[int, Any]:
        before = os.environ.get(_wire.TOKEN)
        with _Signals(self._config.signals_to_handle) as signals:
            try:
                meeting = self._meet()
                try:
                    return self._rounds(meeting, signals)
                finally:
                    meeting.leave()
                    self._clear()
            except InterruptedError:
                number = signals.received or signal.SIGTERM
                raise SignalException(
                    f"Process {os.getpid()} got signal: {number.name}", number
                ) from None
            finally:
                if before is None:
                    os.environ.pop(_wire.TOKEN, None)

    def _rounds(self, meeting: Meeting, signals: _Signals) -> dict[int, Any]:
        for attempt in range(self._config.max_restarts + 1):
            place = meeting.join(attempt, self._config.nproc_per_node, signals.came)
            environments = self._environments(meeting, place, attempt)
            logs = self._logs.reify(environments)
            for rank, path in logs.error_files.items():
                environments[rank]["TORCHELASTIC_ERROR_FILE"] = path
            prefixes = self._prefixes(environments)
            processes = Processes(self._entry(), environments, logs, self._config.role, prefixes)
            processes.start()
            try:
                found = self._watch(processes, meeting, signals)
            finally:
                grace = self._config.shutdown_timeout
                number = signals.received or signal.SIGTERM
                processes.stop(30.0 if grace is None else grace, signals.again, number)
            if signals.came():
                processes.release()
                raise InterruptedError
            if found is None:
                results = processes.results()
                processes.release()
                return {place.first_rank + rank: value for rank, value in results.items()}
            processes.release()
            self._note(found, meeting, processes, place, logs)
            left = self._config.max_restarts - attempt
            if left:
                rank, failure = ChildFailedError(self._name, self._failures).get_first_failure()
                print(
                    f"gradlib: rank {rank} failed (exitcode {failure.exitcode}): all processes start again, "
                    f"{left} restart{'s' * (left > 1)} left",
                    file=sys.stderr,
                )
        raise ChildFailedError(self._name, self._failures)

    def _watch(
        self, processes: Processes, meeting: Meeting, signals: _Signals
    ) -> dict[str, Any] | None:
        """Wait for the end: None if all is well, or else what failed; {} if it is here."""
        try:
            while not signals.came():
                running = processes.running()
                if any(processes.poll().values()):
                    self._wait_for_more(processes)
                    return {}
                if not running:
                    return meeting.finish(signals.came)
                if (found := meeting.trouble()) is not None:
                    return found
                time.sleep(self._config.monitor_interval)
        except DistError as error:
            return {"lost": 0, "why": str(error)}
        return None

    @staticmethod
    def _wait_for_more(processes: Processes) -> None:
        """A failure of one is soon a failure of others: which was first shows when they have ended by themselves."""
        deadline = time.monotonic() + SOON
        while processes.running() and time.monotonic() < deadline:
            time.sleep(0.02)

    # -- what processes get ----------------------------------------------------------------------------------------

    def _entry(self) -> Entry:
        ranks = range(self._config.nproc_per_node)
        arguments = {rank: macros.substitute(self._args, str(rank)) for rank in ranks}
        return Entry(self._entrypoint, arguments, self._config.start_method)

    def _environments(
        self, meeting: Meeting, place: Place, attempt: int
    ) -> dict[int, dict[str, str]]:
        """The variables that tell each process which one it is."""
        local_size = self._config.nproc_per_node
        shared = {
            "GROUP_RANK": place.node,
            "GROUP_WORLD_SIZE": place.nodes,
            "LOCAL_WORLD_SIZE": local_size,
            "WORLD_SIZE": place.world_size,
            "ROLE_NAME": self._config.role,
            "ROLE_WORLD_SIZE": place.world_size,
            "MASTER_ADDR": meeting.host,
            "MASTER_PORT": meeting.port,
            "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": self._config.max_restarts,
            "TORCHELASTIC_RUN_ID": self._run_id,
            "TORCHELASTIC_USE_AGENT_STORE": True,
            "TORCHELASTIC_SIGNALS_TO_HANDLE": self._config.signals_to_handle,
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
            _wire.TOKEN: os.environ[_wire.TOKEN],
        }
        found = {}
        for local_rank in range(local_size):
            rank = place.first_rank + local_rank
            own: dict[str, Any] = {"LOCAL_RANK": local_rank, "RANK": rank, "ROLE_RANK": rank}
            if self._config.virtual_local_rank:
                visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
                device = visible[local_rank] if local_rank < len(visible) else ""
                own.update(LOCAL_RANK=0, CUDA_VISIBLE_DEVICES=device or local_rank)
            found[local_rank] = {name: str(value) for name, value in {**shared, **own}.items()}
        return found

    def _prefixes(self, environments: dict[int, dict[str, str]]) -> dict[int, str] | None:
        template = self._config.log_line_prefix_template
        if not template:
            return None
        return {
            local_rank: Template(template).safe_substitute(
                role_name=self._config.role, local_rank=local_rank, rank=environment["RANK"]
            )
            for local_rank, environment in environments.items()
        }

    # -- what became of them ---------------------------------------------------------------------------------------

    def _note(
        self, found: dict[str, Any], meeting: Meeting, processes: Processes, place: Place, logs: Any
    ) -> None:
        """Gather who failed, here and, if it was elsewhere, there."""
        self._failures = {}
        for local_rank, code in processes.poll().items():
            if code == 0:
                continue
            path = logs.error_files.get(local_rank, "")
            failure = ProcessFailure(local_rank, processes.pid(local_rank), code, path)
            if failure.error_file == NO_FILE and code > 0 and logs.stderrs.get(local_rank):
                failure.message = self._last_lines(logs.stderrs[local_rank]) or failure.message
            self._failures[place.first_rank + local_rank] = failure
        if not found:
            root, first = ChildFailedError(self._name, self._failures).get_first_failure()
            with_rank = {"rank": root, "when": first._when, "message": first.message}
            with_rank.update(local_rank=first.local_rank, pid=first.pid, exitcode=first.exitcode)
            # another machine may have been faster: its failure is the reason of this one
            try:
                found = meeting.tell(with_rank)
            except DistError:
                return
            if found is with_rank or found.get("rank") == root:
                return
        if "lost" in found:
            why = found.get("why") or "nothing has been heard of its launcher"
            found = {
                "rank": -1,
                "local_rank": -1,
                "pid": -1,
                "exitcode": 1,
                "message": f"machine {found['lost']} is gone: {why}",
            }
        failure = ProcessFailure(found["local_rank"], found["pid"], found["exitcode"], "")
        host = found.get("host", socket.gethostname())
        failure.message = f"on {host}: {found['message']}"
        failure._when = float(found.get("when", 0.0))
        failure.timestamp = int(failure._when or time.time())
        self._failures[found["rank"]] = failure

    @staticmethod
    def _last_lines(path: str) -> str:
        try:
            lines = Path(path).read_text(errors="replace").splitlines()
        except OSError:
            return ""
        shown = lines[-_SHOWN_LINES:]
        return "\n".join([f"(the last {len(shown)} lines of {path})", *shown])

    def _clear(self) -> None:
        """Remove the folder that nobody asked for, unless there is output or a traceback in it."""
        folder = self._logs.root_log_dir
        if (
            self._own_logs
            and folder
            and not any(path.is_file() for path in Path(folder).rglob("*"))
        ):
            shutil.rmtree(folder, ignore_errors=True)


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> dict[int, Any]:
    """Start processes and wait for their end.

    Args:
        config: how.
        entrypoint: a function, or the path of a program.
        args: of it; ``${local_rank}`` in text is replaced.

    Returns:
        What the function returned, by global rank, of this machine; None for programs.

    Raises:
        ChildFailedError: a process failed, the last time that it was started.
        SignalException: a signal told the launcher to end; the processes have ended.
    """
    if entrypoint is None:
        raise ValueError(
            "launch_agent: a function or the path of a program was expected, but got None"
        )
    return _Agent(config, entrypoint, list(args)).run()


class elastic_launch:
    """Start a function, or a program, in several processes.

    Args:
        config: how.
        entrypoint: the function, which spawned processes can import, or the path of a program.

    Example:
        >>> from gradlib.distributed.launcher import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=0)
        >>> elastic_launch(config, "true")()  # of a function: what it returned
        {0: None, 1: None}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))
