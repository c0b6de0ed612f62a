"""Moving and casting what a module owns; training mode; gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape import dtypes
from ...tape.device import device as Device
from ...tape.tensor import Tensor
from ..parameter import Parameter, is_lazy
from ._traversal import Traversal


def _made_anew(param: Tensor, applied: Tensor, fn: Callable[[Tensor], Tensor]) -> Parameter:
    """A parameter on `applied` in the place of another one, with its gradient."""
    made = Parameter(applied, param.requires_grad)
    if param.grad is not None:
        made.grad = fn(param.grad).requires_grad_(param.grad.requires_grad)
    return made


class Conversion(Traversal):
    """The part of `Module` that applies a function to every tensor, or a switch to all modules."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace every parameter, its gradient, and every buffer by `fn` of it.

        Parameters stay the same objects, so that optimizers and hooks keep working; but those that go to the meta
        device, or come from there, are made anew.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with no_grad():
                applied = fn(param)
                if not is_lazy(param) and applied.is_meta != param.is_meta:
                    self._parameters[name] = _made_anew(param, applied, fn)
                    continue
                param.data = applied
                if param.grad is not None:
                    param.grad.data = fn(param.grad)
        for name, buf in self._buffers.items():
            if buf is not None:
                self._buffers[name] = fn(buf)
        return self

    def apply(self, fn: Callable[[Any], None]) -> Any:
        """Call `fn(module)` on every submodule, then on this module; returns self.

        Example:
            >>> net = nn.Sequential(nn.Linear(2, 2)).apply(lambda m: m.train(False))
            >>> net.training
            False
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def cuda(self, device: Any = None) -> Any:
        """Move all parameters and buffers to a GPU, in place; returns self.

        Parameters stay the same objects, so that an optimizer made before goes on with them.

        Args:
            device: index or device; None is the current one.

        Raises:
            RuntimeError: there is no CUDA device.
        """
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU, in place; returns self.

        Example:
            >>> nn.Linear(2, 2).cpu().weight.device
            device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Any:
        """Cast all parameters and buffers to `dst_type`, integers included, in place; returns self.

        Args:
            dst_type: a dtype, or the name of a tensor type such as "torch.DoubleTensor".

        Example:
            >>> nn.Linear(2, 2).type(gradlib.float64).weight.dtype
            torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Cast floating point parameters and buffers to float32, in place; returns self.

        Example:
            >>> nn.Linear(2, 2).double().float().weight.dtype
            torch.float32
        """
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Cast floating point parameters and buffers to float64, in place; returns self.

        Example:
            >>> nn.Linear(2, 2).double().weight.dtype
            torch.float64
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Cast floating point parameters and buffers to float16, in place; returns self.

        Example:
            >>> nn.Linear(2, 2).half().weight.dtype
            torch.float16
        """
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Cast floating point parameters and buffers to bfloat16, in place; returns self.

        Example:
            >>> nn.Linear(2, 2).bfloat16().weight.dtype
            torch.bfloat16
        """
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Make all parameters and buffers anew on `device`, with undefined values; returns self.

        Args:
            device: where they go.
            recurse: also those of submodules.

        Example:
            >>> tuple(nn.Linear(3, 2).to_empty(device="cpu").weight.shape)
            (2, 3)
        """
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse=recurse)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move and cast parameters and buffers in place; returns self.

        Called as `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`, each with
        `non_blocking=False`, or `to(memory_format=...)`. Only floating point and complex
        tensors are cast; all are moved. Parameters stay the same objects.

        Raises:
            TypeError: the dtype is neither floating point nor complex.

        Example:
            >>> nn.Linear(2, 2).to(gradlib.float64).weight.dtype
            torch.float64
        """
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got "
                    f"desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules: not every module works with complex parameters or buffers.",
                    stacklevel=2,
                )

        def convert(t: Tensor) -> Tensor:
            kind = dtype if t.is_floating_point() or t.is_complex() else None
            extra = {}
            if memory_format is not None and t.dim() in (4, 5):
                extra["memory_format"] = memory_format
            where = t.device if device is None else device
            if not is_lazy(t) and t.is_meta and where.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(where, t.dtype if kind is None else kind, non_blocking, **extra)

        return self._apply(convert)

    def share_memory(self) -> Any:
        """Move parameters and buffers into memory that processes share; returns self.

        Training in several processes on one model: each steps on the same numbers.

        Example:
            >>> nn.Linear(2, 2).share_memory().weight.is_shared()
            True
        """
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode: bool = True) -> Any:
        """Set training mode here and in all submodules; returns self.

        Dropout and batch normalisation act by it. It is independent of grad modes: in evaluation
        mode operations are recorded as before.

        Raises:
            ValueError: `mode` is not a bool.

        Example:
            >>> nn.Dropout().eval().train().training
            True
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Set evaluation mode here and in all submodules, as `train(False)` does; returns self.

        Example:
            >>> nn.Dropout(1.0).eval()(gradlib.ones(2)).tolist()
            [1.0, 1.0]
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set `requires_grad` of all parameters; returns self.

        Example:
            >>> frozen = nn.Linear(2, 2).requires_grad_(False)
            >>> any(p.requires_grad for p in frozen.parameters())
            False
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: True sets `.grad` to None; False fills it with zeros in place, so its
                layout stays.

        Example:
            >>> layer = nn.Linear(2, 1)
            >>> layer(gradlib.ones(2)).sum().backward()
            >>> layer.zero_grad()
            >>> print(layer.weight.grad)
            None
        """
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of the argument forms of `to`."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("copy", None)
    other = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], (dtypes.dtype, type)):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], (dtypes.dtype, type))):
            dtype = rest.pop(0)
    if rest:
        non_blocking = bool(rest.pop(0))
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is not None:
        device = Device(device)
    if dtype is not None:
        dtype = dtypes.of(dtype)
    if device is None and dtype is None and memory_format is None:
        raise TypeError(
            "to() received an invalid combination of arguments - got (), but expected one of: "
            "(device, dtype), (dtype), (tensor), (memory_format)"
        )
    return device, dtype, non_blocking, memory_format
