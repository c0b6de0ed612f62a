"""DataParallel: the batch is cut into pieces, one thread and one copy of the module each.

The copies' parameters are made by differentiable copies, so that gradients of all devices add
up in the original. Each thread starts with default modes: hooks on saved tensors set outside do
not reach it; grad mode is passed on.
"""

from __future__ import annotations

import threading
from typing import Any

from ... import cuda
from ...autograd.grad_mode import set_grad_enabled
from ...operators import public as ops
from ...tape.device import device as Device
from ...tape.modes import is_grad_enabled
from ...tape.tensor import Tensor
from ..modules.module import Module

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
        devices = [_device(d) for d in device_ids]
        self.device_ids = [d.index if d.type == "cuda" else d for d in devices]
        self._devices = devices
        if devices:
            out = devices[0] if output_device is None else _device(output_device)
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
        pieces = _scatter((inputs, kwargs), devices, self.dim)
        if len(devices) == 1 or len(pieces) == 1:
            args, named = pieces[0]
            return self.module(*args, **named)
        replicas = [
            _replicate(self.module, d, first=i == 0) for i, d in enumerate(devices[: len(pieces)])
        ]
        return _gather(_parallel_apply(replicas, pieces), self._output_device, self.dim)


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
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))


def _device(device: Any) -> Any:
    return Device("cuda", device) if isinstance(device, int) else Device(device)


def _scatter(value: Any, devices: list[Any], dim: int) -> list[Any]:
    """One piece of `value` per device; as many pieces as the batch gives."""
    if isinstance(value, Tensor):
        parts = value.chunk(len(devices), dim)
        return [part.to(device) for part, device in zip(parts, devices)]
    if isinstance(value, (tuple, list)) and value:
        split = [_scatter(v, devices, dim) for v in value]
        counts = [len(s) for v, s in zip(value, split) if _has_tensor(v)]
        n = min(counts) if counts else len(devices)
        return [_rebuild(value, [s[i] for s in split]) for i in range(n)]
    if isinstance(value, dict) and value:
        keys = list(value)
        rows = _scatter([value[k] for k in keys], devices, dim)
        return [type(value)(zip(keys, row)) for row in rows]
    return [value for _ in devices]


def _rebuild(like: Any, values: list[Any]) -> Any:
    return type(like)(*values) if hasattr(like, "_fields") else type(like)(values)


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, dict):
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (tuple, list)) and any(_has_tensor(v) for v in value)


def _replicate(module: Module, device: Any, first: bool) -> Module:
    """A copy of the tree whose parameters are differentiable copies on `device`.

    The first one shares its buffers with the original, so that running statistics are kept.
    """
    copies: dict[int, Module] = {}

    def copy(old: Module) -> Module:
        if id(old) in copies:
            return copies[id(old)]
        new = copies[id(old)] = old._replicate_for_data_parallel()
        for name, child in old._modules.items():
            new._modules[name] = None if child is None else copy(child)
        for name, param in old._parameters.items():
            if param is None:
                new._parameters[name] = None
            else:  # a computed tensor: an attribute, not a parameter
                new.__dict__[name] = param.to(device) if param.device != device else param
        for name, buf in old._buffers.items():
            new._buffers[name] = buf if buf is None or first else buf.to(device, copy=True)
        return new

    return copy(module)


def _parallel_apply(replicas: list[Module], pieces: list[Any]) -> list[Any]:
    """Call each replica on its piece in a thread of its own; the first error is raised."""
    results: list[Any] = [None] * len(replicas)
    grad_enabled = is_grad_enabled()

    def work(i: int) -> None:
        args, kwargs = pieces[i]
        try:
            with set_grad_enabled(grad_enabled):
                results[i] = (replicas[i](*args, **kwargs), None)
        except BaseException as error:
            results[i] = (None, error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]


def _gather(values: list[Any], device: Any, dim: int) -> Any:
    """Join the results of all replicas."""
    first = values[0]
    if isinstance(first, Tensor):
        moved = [v.to(device) for v in values]
        if first.dim() == 0:
            return ops.stack(moved)
        return ops.cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((k, _gather([v[k] for v in values], device, dim)) for k in first)
    return _rebuild(first, [_gather(list(column), device, dim) for column in zip(*values)])
