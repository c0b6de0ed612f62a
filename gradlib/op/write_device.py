"""The code of ops for arrays of a CUDA device: what `write` writes for NumPy, with the device's own kernels.

An op's call ends for such arrays in `interpret.elsewhere`, which comes here the first time. The code takes arrays that
lie on the current device, of dtypes that need no promotion, while no mode wants to know; everything else goes the
general way. A fused kernel, where the op has one, is tried before the op's own.
"""

from __future__ import annotations

from typing import Any

from ..tape.arrays import backend_for
from ..tape.modes import shared
from . import formulas, interpret, overlays
from .registry import REGISTRY
from .write import BUILDING, names_for, on_device, write_call


def build_on_device(op):
    """Write the code of `op` for arrays of a device that is current; what it leaves out goes the general way."""
    with BUILDING:
        if op.on_device is None:
            names = _names(op)
            made = write_call(op, names, device=True)
            op.on_device_number_first = names.get("number_first")
            op.on_device = made
            _tell(op)
        return op.on_device


def _tell(op) -> None:
    """Let the code for NumPy arrays, which is asked first, call that for a device."""
    for fn in (op.call, *op.operators):
        fn.__globals__.update(on_device(op))


def forget_device_code() -> None:
    """Another CUDA backend is in use from now on: code for devices is written anew."""

    formulas.forget_kernels()
    for op in REGISTRY.values():
        op.on_device = op.on_device_number_first = op.built_for_device = None
        _tell(op)


def _names(op) -> dict:

    xp: Any = backend_for("cuda")
    names = names_for(op, op.device_node_class) | {
        "general": interpret.general_on_device, "ndarray": xp.xp.ndarray, "asarray": xp.asarray, "xp": xp,
        "as_number": xp.number, "kernel": formulas.kernel_of(op, xp), "lane": shared.cuda.current,
        "current_device": xp.xp.cuda.runtime.getDevice,
    }  # fmt: skip
    if xp.overlays is not None:
        overlays.hold(names, xp.overlays.forward_of(op), op, "forward", "device")
    return names
