"""Layers that learn the size of their input at the first call."""

from __future__ import annotations

import itertools
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from . import batchnorm, conv, instancenorm, linear

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyModuleMixin:
    """Waits for the first call, then makes the parameters and becomes `cls_to_become`."""

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._size_from_state_dict)
        self._infer_hook = self.register_forward_pre_hook(
            LazyModuleMixin._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        """What waits for its shape is saved as it is."""
        start = len(destination)
        super()._save_to_state_dict(destination, prefix, True)  # type: ignore[misc]
        for key, value in list(destination.items())[start:]:
            if not keep_vars and isinstance(value, Tensor) and not is_lazy(value):
                destination[key] = value.detach()

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer still waits for its shape.

        Example:
            >>> layer = nn.LazyLinear(3)
            >>> before = layer.has_uninitialized_params()
            >>> _ = layer(gradlib.ones(2, 5))
            >>> before, type(layer).__name__
            (True, 'Linear')
        """
        tensors = itertools.chain(self._parameters.values(), self._buffers.values())
        return any(is_lazy(t) for t in tensors)

    def _infer_parameters(self: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for hook in ("_infer_hook", "_load_hook"):
            getattr(self, hook).remove()
            delattr(self, hook)
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _size_from_state_dict(self: Any, state_dict: dict, prefix: str, *_: Any) -> None:
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            value = state_dict.get(prefix + name)
            if value is not None and is_lazy(tensor) and not is_lazy(value):
                with no_grad():
                    tensor.materialize(value.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters for the arguments of the first call, which a hook hands on; subclasses do it.

        Raises:
            NotImplementedError: here.
        """
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )


class LazyLinear(LazyModuleMixin, linear.Linear):
    """`Linear` whose in_features is the last size of its first input.

    Until then the parameters have no shape: an optimizer has to be made after the first call.

    Args:
        out_features: size of each output vector.
        bias: whether there is a bias.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [..., in_features] -> [..., out_features].

    Example:
        >>> layer = nn.LazyLinear(3)
        >>> _ = layer(gradlib.ones(2, 5))
        >>> layer.in_features
        5
    """

    cls_to_become = linear.Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, as `Linear` does; nothing before the first call.

        In place, from U(-k, k), k = 1 / sqrt(in_features).
        """
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """input: [..., in_features]."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))  # type: ignore[attr-defined]
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # loaded before the first call
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    """What lazy convolutions share: in_channels comes from the first input."""

    _dims: int

    def _start(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        """Draw weight and bias anew, as the convolution does; nothing before the first call.

        In place, from U(-k, k), k = sqrt(groups / (in_channels * prod(kernel_size))).
        """
        if not self.has_uninitialized_params() and self.in_channels != 0:
            conv._ConvNd.reset_parameters(self)

    def initialize_parameters(self: Any, input: Tensor, *_: Any, **__: Any) -> None:
        """input: [N, in_channels, *L] or [in_channels, *L]."""
        if not self.has_uninitialized_params():
            return
        n = self._dims
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        with no_grad():
            self.in_channels = input.shape[-n - 1]
            if self.in_channels % self.groups != 0:
                raise ValueError("in_channels must be divisible by groups")
            first, second = self.out_channels, self.in_channels
            if self.transposed:
                first, second = second, first
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyPlainConv(_LazyConv):
    """Constructor of the lazy convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)  # type: ignore[call-arg]
        self._start(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, conv.Conv1d):
    """`Conv1d` whose in_channels is the number of channels of its first input.

    Args:
        out_channels: C of the output; the other arguments are those of `Conv1d`.

    Shape:
        [N, C, L] or [C, L] -> as `Conv1d`.

    Raises:
        RuntimeError: at the first call, for another number of dimensions.
        ValueError: at the first call, if `groups` does not divide the channels.

    Example:
        >>> tuple(nn.LazyConv1d(8, 3)(gradlib.randn(2, 4, 9)).shape)
        (2, 8, 7)
    """

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyPlainConv, conv.Conv2d):
    """`Conv2d` whose in_channels is the number of channels of its first input; see `LazyConv1d`.

    Shape:
        [N, C, H, W] or [C, H, W] -> as `Conv2d`.

    Example:
        >>> tuple(nn.LazyConv2d(8, 3)(gradlib.randn(2, 4, 9, 9)).shape)
        (2, 8, 7, 7)
    """

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyPlainConv, conv.Conv3d):
    """`Conv3d` whose in_channels is the number of channels of its first input; see `LazyConv1d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> as `Conv3d`.

    Example:
        >>> tuple(nn.LazyConv3d(8, 3)(gradlib.randn(2, 4, 5, 5, 5)).shape)
        (2, 8, 3, 3, 3)
    """

    cls_to_become = conv.Conv3d


class _LazyTransposedConv(_LazyConv):
    """Constructor of the lazy transposed convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,  # type: ignore[call-arg]
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
        )
        self._start(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposedConv, conv.ConvTranspose1d):
    """`ConvTranspose1d` whose in_channels is the number of channels of its first input.

    Args:
        out_channels: C of the output; the other arguments are those of `ConvTranspose1d`.

    Shape:
        [N, C, L] or [C, L] -> as `ConvTranspose1d`.

    Raises:
        RuntimeError: at the first call, for another number of dimensions.
        ValueError: at the first call, if `groups` does not divide the channels.

    Example:
        >>> tuple(nn.LazyConvTranspose1d(8, 3)(gradlib.randn(2, 4, 9)).shape)
        (2, 8, 11)
    """

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConv, conv.ConvTranspose2d):
    """`ConvTranspose2d` whose in_channels comes from its first input; see `LazyConvTranspose1d`.

    Shape:
        [N, C, H, W] or [C, H, W] -> as `ConvTranspose2d`.

    Example:
        >>> tuple(nn.LazyConvTranspose2d(8, 3)(gradlib.randn(2, 4, 9, 9)).shape)
        (2, 8, 11, 11)
    """

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConv, conv.ConvTranspose3d):
    """`ConvTranspose3d` whose in_channels comes from its first input; see `LazyConvTranspose1d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> as `ConvTranspose3d`.

    Example:
        >>> tuple(nn.LazyConvTranspose3d(8, 3)(gradlib.randn(2, 4, 5, 5, 5)).shape)
        (2, 8, 7, 7, 7)
    """

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """What lazy norms share: num_features is the second size of the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False)  # type: ignore[call-arg]
        module: Any = self
        module.affine = affine
        module.track_running_stats = track_running_stats
        if affine:
            module.weight = UninitializedParameter(**place)
            if bias:
                module.bias = UninitializedParameter(**place)
        if track_running_stats:
            module.running_mean = UninitializedBuffer(**place)
            module.running_var = UninitializedBuffer(**place)
            module.num_batches_tracked = ops.tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self: Any) -> None:
        """Set weight to 1, bias to 0 and the statistics to their start; nothing before the first call.

        See `BatchNorm1d.reset_parameters`.
        """
        if not self.has_uninitialized_params() and self.num_features != 0:
            batchnorm._NormBase.reset_parameters(self)

    def initialize_parameters(self: Any, input: Tensor) -> None:
        """input: [N, C, *L]."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if is_lazy(tensor):
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d):
    """`BatchNorm1d` whose num_features is the number of channels of its first input.

    The other arguments are those of `BatchNorm1d`.

    Shape:
        [N, C] or [N, C, L] -> the same.

    Example:
        >>> layer = nn.LazyBatchNorm1d()
        >>> _ = layer(gradlib.randn(4, 3))
        >>> layer.num_features
        3
    """

    cls_to_become = batchnorm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d):
    """`BatchNorm2d` whose num_features is the number of channels of its first input.

    The other arguments are those of `BatchNorm1d`.

    Shape:
        [N, C, H, W] -> the same.

    Example:
        >>> layer = nn.LazyBatchNorm2d()
        >>> _ = layer(gradlib.randn(4, 3, 2, 2))
        >>> layer.num_features
        3
    """

    cls_to_become = batchnorm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d):
    """`BatchNorm3d` whose num_features is the number of channels of its first input.

    The other arguments are those of `BatchNorm1d`.

    Shape:
        [N, C, D, H, W] -> the same.

    Example:
        >>> layer = nn.LazyBatchNorm3d()
        >>> _ = layer(gradlib.randn(4, 3, 2, 2, 2))
        >>> layer.num_features
        3
    """

    cls_to_become = batchnorm.BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, instancenorm.InstanceNorm1d):
    """`InstanceNorm1d` whose num_features is the second size of its first input.

    The other arguments are those of `InstanceNorm1d`, but weight, bias and running statistics
    exist by default, as in PyTorch.

    Shape:
        [N, C, L] -> the same.

    Example:
        >>> layer = nn.LazyInstanceNorm1d()
        >>> _ = layer(gradlib.randn(4, 3, 5))
        >>> layer.num_features
        3
    """

    cls_to_become = instancenorm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, instancenorm.InstanceNorm2d):
    """`InstanceNorm2d` whose num_features is the second size of its first input.

    Arguments and defaults are those of `LazyInstanceNorm1d`.

    Shape:
        [N, C, H, W] -> the same.

    Example:
        >>> layer = nn.LazyInstanceNorm2d()
        >>> _ = layer(gradlib.randn(4, 3, 5, 5))
        >>> layer.num_features
        3
    """

    cls_to_become = instancenorm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, instancenorm.InstanceNorm3d):
    """`InstanceNorm3d` whose num_features is the second size of its first input.

    Arguments and defaults are those of `LazyInstanceNorm1d`.

    Shape:
        [N, C, D, H, W] -> the same.

    Example:
        >>> layer = nn.LazyInstanceNorm3d()
        >>> _ = layer(gradlib.randn(4, 3, 2, 5, 5))
        >>> layer.num_features
        3
    """

    cls_to_become = instancenorm.InstanceNorm3d
