"""A simulated CUDA device: a stand-in for the `cupy` module on NumPy, as strict as CuPy, for tests without a GPU.

Use it through the fixtures of tests/conftest.py:

    def test_something(cuda):            # work is done when it is submitted: quick
        x = gradlib.ones(3, device="cuda")

    @pytest.mark.parametrize("seed", range(200))
    def test_streams(seed, lazy_cuda):
        with lazy_cuda(seed):            # work is done late, in an order that the seed picks
            ...

or directly: ``install(seed=None, devices=2)`` and ``uninstall()``, or ``with simulated(seed): ...``.
``pytest --device simulated`` installs it for the whole run, so that ``tests_gpu/`` runs on it too, and
``pytest --device default`` makes it the default device of tests that were written for the CPU.

What it is strict about, as CuPy is:

- names, parameters and ufunc types are CuPy's (api.txt, written by record_api.py);
- NumPy arrays are refused next to device arrays, and device arrays do not turn into NumPy arrays on their own;
- arrays of another device than the current one are refused;
- indices out of range wrap around, ``add.at`` knows a few dtypes only, ``maximum.reduce`` does not exist, ...

With a seed, streams are queues of work:

- an operation is queued on the current stream; its result has a shape and a dtype but no values yet;
- queued work runs when somebody waits for it, or at a moment that the seed picks, in any order that streams, events,
  and the rules of the legacy stream allow. ``Stream()`` is ordered with the legacy stream,
  ``Stream(non_blocking=True)`` with nothing;
- ``get``, ``item``, ``bool`` wait for the current stream and for nothing else;
- memory returns to the arena of the stream that was current at its allocation the moment the last reference goes, is
  overwritten with 0xFF there, and is the first to be handed out again: work of another stream that still reads it, or
  that was not waited for, gives NaN;
- a stream between begin_capture and end_capture records; what CuPy refuses then is refused; Graph.launch does the
  recorded work on the same memory.

Kernels (RawModule, RawKernel) are Python functions registered in `kernels.launchers` or made by `kernels.resolvers`.
`machine.log = []` collects the labels of the work done; `machine.reset(seed)` starts over.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np

from . import kernels, memory, pinned
from .cublas import Cublas
from .machine import CUDARuntimeError, machine
from .modules import MODULES

_before: dict[str, Any] = {}
_real_cublas: dict[str, Any] = {}


def install(seed: int | None = None, devices: int = 2, memory_bytes: int = 1 << 32) -> None:
    """Make ``import cupy`` give the stand-in, with a new machine of that seed (None: eager)."""
    if not _before:
        _before.update({name: sys.modules.get(name) for name in MODULES})
    sys.modules.update(MODULES)
    machine.installed = True
    restart(seed, devices, memory_bytes)
    _forget_backend(fuses=bool(kernels.launchers or kernels.resolvers))


def restart(seed: int | None = None, devices: int = 2, memory_bytes: int = 1 << 32) -> None:
    """A new machine and empty pools."""
    machine.reset(seed, devices, memory_bytes)
    memory.default_pool = memory.MemoryPool()
    memory.set_allocator(memory.default_pool.malloc)
    pinned.set_pinned_memory_allocator(pinned.default_pinned_pool.malloc)


def uninstall() -> None:
    """Put back what was there before."""
    machine.reset()
    machine.installed = False
    for name, old in _before.items():
        if old is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = old
    _before.clear()
    _forget_backend(fuses=True)


def _forget_backend(fuses: bool) -> None:
    """gradlib keeps its backend once found. fuses: whether there are kernels to launch."""
    from gradlib.devices.cuda import gemm
    from gradlib.devices.cuda import namespace as backend
    from gradlib.op import write_device
    from gradlib.tape import arrays as backends
    from gradlib.tape import generator
    from gradlib.tape.modes import shared

    backend._backend = shared.cuda = None
    write_device.forget_device_code()
    # not those of the meta device
    for kind in [
        k for k in backends._BY_TYPE if k is not np.ndarray and k.__module__[:8] != "gradlib."
    ]:
        del backends._BY_TYPE[kind]
    _real_cublas.setdefault("library", gemm.library)
    library = Cublas()
    gemm.library = (lambda: library) if _before else _real_cublas["library"]
    generator._kinds.pop("cuda", None)
    generator.DEVICES.pop("cuda", None)
    backend.CupyBackend.fuses = fuses


@contextlib.contextmanager
def simulated(seed: int | None = None, devices: int = 2, memory_bytes: int = 1 << 32):
    """The stand-in for the length of a block; inside another one, another machine."""
    nested = bool(_before)
    install(seed, devices, memory_bytes)
    try:
        yield sys.modules["cupy"]
    finally:
        if nested:
            install()
        else:
            uninstall()


__all__ = ["CUDARuntimeError", "install", "kernels", "machine", "restart", "simulated", "uninstall"]
