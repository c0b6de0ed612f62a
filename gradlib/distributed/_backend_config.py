"""The names of backends, and which of them serves which device type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._backend import engine as engine_named

__all__ = ["Backend", "BackendConfig", "maker"]


class Backend(str):
    """The name of a backend, in lower case: ``"gloo"``, ``"mpi"``, ``"nccl"``, or one that was registered.

    Example:
        >>> gradlib.distributed.Backend("GLOO")
        'gloo'
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]  # PyTorch's, and grows
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    backend_capability = {GLOO: ["cpu"], NCCL: ["cuda"], MPI: ["cpu", "cuda"]}
    _plugins: dict[str, Callable[..., Any]] = {}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Enter a backend.

        Args:
            name: what `init_process_group` is to know it as.
            func: called with (store, rank, size, timeout); gives an engine (`gradlib.distributed._backend.Backend`).
            extended_api: not supported.
            devices: the device types that it is for; "cpu" by default.

        Raises:
            RuntimeError: the name is taken.
        """
        if extended_api:
            raise NotImplementedError(
                "Backend.register_backend: extended_api is of PyTorch's C++ engines"
            )
        if name.lower() in cls.backend_list:
            raise RuntimeError(f"{name.lower()} c10d backend already exist")
        kinds = ["cpu"] if devices is None else [devices] if isinstance(devices, str) else devices
        cls.backend_list.append(name.lower())
        cls.backend_capability[name.lower()] = list(kinds)
        cls._plugins[name.lower()] = func
        setattr(cls, name.upper(), name.lower())


class BackendConfig:
    """Which backend serves which device type.

    Args:
        backend: a name, or pairs as in ``"cpu:gloo,cuda:nccl"``; "undefined" for what there is.

    Raises:
        ValueError: it is neither.
    """

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, str] = {}
        name = str(backend).lower()
        if name == Backend.UNDEFINED:
            self.device_backend_map = dict(Backend.default_device_backend_map)
        elif ":" in name:
            for pair in name.split(","):
                device, _, value = pair.partition(":")
                if not device or not value or ":" in value:
                    raise ValueError(
                        f"Invalid device:backend pairing: {pair}. Format is device:backend, as in cpu:gloo,cuda:nccl"
                    )
                if device in self.device_backend_map:
                    raise ValueError(
                        f"Duplicate device type {device} in backend string: {backend}."
                    )
                self.device_backend_map[device] = value
        else:
            for device in Backend.backend_capability.get(name, ["cpu", "cuda"]):
                self.device_backend_map[device] = name

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, str]:
        """The name of the backend of each device type.

        Example:
            >>> gradlib.distributed.BackendConfig("cpu:gloo,cuda:nccl").get_device_backend_map()
            {'cpu': 'gloo', 'cuda': 'nccl'}
        """
        return self.device_backend_map


def maker(name: str) -> Callable[..., Any]:
    """What makes engines of a name."""
    return Backend._plugins[name] if name in Backend._plugins else engine_named(name)
