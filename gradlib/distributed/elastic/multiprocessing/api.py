"""Where the output of launched processes goes."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path

from ...._refused import refuse

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "SignalException", "Std", "to_map"]

__getattr__ = refuse(__name__, whole=True)


class SignalException(Exception):
    """The launcher was told to end.

    Args:
        msg: text.
        sigval: the signal that told it.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class Std(IntFlag):
    """Which of the two outputs of a process.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing import Std
        >>> Std.OUT | Std.ERR
        <Std.ALL: 3>
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Read what the command line says.

        Args:
            vm: ``"3"`` for all processes, or ``"0:1,1:2"`` by local rank.

        Raises:
            ValueError: it is neither.

        Example:
            >>> from gradlib.distributed.elastic.multiprocessing import Std
            >>> Std.from_str("0:1,1:2")
            {0: <Std.OUT: 1>, 1: <Std.ERR: 2>}
        """
        if re.fullmatch("[0123]", vm):
            return cls(int(vm))
        if re.fullmatch(r"(\d+:[0123],)*(\d+:[0123])", vm):
            pairs = (pair.split(":") for pair in vm.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        raise ValueError(
            f"{vm} does not match: 0, 1, 2 or 3 (none, stdout, stderr, both), or <local rank>:<that>,..."
        )


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """What each local rank has.

    Args:
        val_or_map: one for all, or by local rank; those that are missing have `Std.NONE`.
        local_world_size: how many there are.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing import Std, to_map
        >>> to_map({0: Std.ERR}, 2)
        {0: <Std.ERR: 2>, 1: <Std.NONE: 0>}
    """
    if isinstance(val_or_map, Std):
        return {rank: val_or_map for rank in range(local_world_size)}
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Files by local rank.

    "" stands where the output goes to the terminal.
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)  # files that are shown as well
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)


class LogsSpecs:
    """What is to be done with output: a base for a program's own, which define `reify`.

    Args:
        log_dir: where the files go; None for a temporary folder.
        redirects: which outputs go to files.
        tee: which go to files and to the terminal.
        local_ranks_filter: those whose output reaches the terminal; None for all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @property
    def root_log_dir(self) -> str | None:
        """Where the files go."""
        return self._log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of processes.

        Args:
            envs: the environment of each local rank.
        """
        raise NotImplementedError(f"{type(self).__name__} must define reify()")


class DefaultLogsSpecs(LogsSpecs):
    """Files in ``<log_dir>/<run id>_<random>/attempt_<n>/<local rank>/``.

    The arguments are those of `LogsSpecs`.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
        >>> DefaultLogsSpecs("logs", redirects=Std.ERR).reify({0: {}}).stdouts
        {0: ''}
    """

    _run_folder = ""

    def _folder(self, run_id: str) -> Path:
        """The folder of a run; made when it is first needed."""
        if not self._run_folder:
            if self._log_dir is None:
                self._log_dir = tempfile.mkdtemp(prefix="gradlib_run_")
            os.makedirs(self._log_dir, exist_ok=True)
            name = re.sub(r"[^\w.-]", "_", run_id)
            self._run_folder = tempfile.mkdtemp(prefix=f"{name}_", dir=self._log_dir)
        return Path(self._run_folder)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of processes, in folders that are made.

        Args:
            envs: the environment of each local rank.
        """
        size, found = len(envs), LogsDest()
        redirects, tee = to_map(self._redirects, size), to_map(self._tee, size)
        for rank, environment in envs.items():
            attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
            run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
            folder = self._folder(run_id) / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True, exist_ok=True)
            shown = self._local_ranks_filter is None or rank in self._local_ranks_filter
            for output, name, files, shown_files in (
                (Std.OUT, "stdout.log", found.stdouts, found.tee_stdouts),
                (Std.ERR, "stderr.log", found.stderrs, found.tee_stderrs),
            ):
                to_file = output & (redirects[rank] | tee[rank]) or not shown
                files[rank] = str(folder / name) if to_file else ""
                shown_files[rank] = files[rank] if shown and output & tee[rank] else ""
            found.error_files[rank] = str(folder / "error.json")
        return found
