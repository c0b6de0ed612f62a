"""DataParallel: the batch is cut into pieces, one thread and one copy of the module each.

Each thread starts with default modes: hooks on saved tensors set outside do not reach it; grad mode and autocast are
passed on.
"""

from __future__ import annotations

from typing import Any

from ... import cuda
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import device_of, gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Runs a module on several devices at once, splitting the batch.

    Args:
        module: its parameters have to be on the first device.
        device_ids: devices to use; all GPUs by default.
        output_device: where results are gathered; the first device by default.
        dim: the dimension along which inputs are split.

    With no device, or with one, the module is called as it is.

    Raises:
        RuntimeError: at the call, if a parameter or buffer is not on the first device.

    Example:
        >>> device = "cuda" if gradlib.cuda.is_available() else "cpu"
        >>> net, x = nn.Linear(2, 2).to(device), gradlib.ones(4, 2, device=device)
        >>> gradlib.allclose(nn.DataParallel(net)(x), net(x))
        True
    """

    def __init__(
        self,
        module: Module,
        device_ids: list[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        if device_ids is None:
            count = cuda.device_count() if cuda.is_available() else 0
            device_ids = list(range(count))
        devices = [device_of(d) for d in device_ids]
        self.device_ids = [d.index if d.type == "cuda" else d for d in devices]
        self._devices = devices
        if devices:
            out = devices[0] if output_device is None else device_of(output_device)
            self.output_device: Any = out.index if out.type == "cuda" else out
            self._output_device = out
            if len(devices) == 1:
                module.to(devices[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """inputs: what the module takes; tensors are split along `dim` -> what it returns."""
        devices = self._devices
        if not devices:
            return self.module(*inputs, **kwargs)
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            if tensor.device != devices[0]:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{devices[0]} (device_ids[0]) but found one of them on device: "
                    f"{tensor.device}"
                )
        rows, named = scatter_kwargs(inputs, kwargs, devices, self.dim)
        if not rows:  # a call without arguments
            rows, named = ((),), ({},)
        if len(rows) == 1:
            return self.module(*rows[0], **named[0])
        used = devices[: len(rows)]
        replicas = replicate(self.module, used)
        results = parallel_apply(replicas, rows, named, used)
        return gather(results, self._output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: list[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call `module` on `inputs` as `DataParallel` would.

    Args:
        module: what is called.
        inputs: a tuple of arguments, or one argument.
        device_ids: see `DataParallel`.
        output_device: see `DataParallel`.
        dim: see `DataParallel`.
        module_kwargs: keyword arguments of the call.

    Example:
        >>> tuple(data_parallel(model, batch, device_ids=[]).shape)
        (4, 2)
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
