"""Batch normalisation."""

from __future__ import annotations

from typing import Any

from ..._refused import refuse
from ...operators import public as ops
from ...tape import dtypes
from ...tape.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import add_parameter
from ._sync_batch_norm import SyncBatchNormFunction, group_of
from .module import Module

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]
__getattr__ = refuse(__name__)


class _NormBase(Module):
    """Parameters and running statistics of batch and instance normalisation."""

    _version = 2  # 2 added num_batches_tracked
    _ranks: tuple[int, ...] = ()  # of inputs
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        add_parameter(self, "weight", num_features, affine, **place)
        add_parameter(self, "bias", num_features, affine and bias, **place)
        if track_running_stats:
            self.register_buffer("running_mean", ops.zeros(num_features, **place))
            self.register_buffer("running_var", ops.ones(num_features, **place))
            self.register_buffer(
                "num_batches_tracked", ops.tensor(0, dtype=dtypes.int64, device=device)
            )
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the count of batches to 0; in place.

        Nothing happens without running statistics.
        """
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0, in place, and start the running statistics anew.

        See `reset_running_stats`.
        """
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if not self._ranks:
            raise NotImplementedError
        if input.dim() not in self._ranks:
            wanted = " or ".join(f"{n}D" for n in self._ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Version 1 had no counter of batches: it keeps the value it has."""
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)


class _BatchNorm(_NormBase):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, statistics per channel.

    In training mode the statistics are those of the batch (variance without Bessel's
    correction), and the running ones move towards them: new = (1 - momentum) * old + momentum *
    batch (variance with correction). In evaluation mode the running statistics are used.

    Source: S. Ioffe, C. Szegedy, Batch normalization, ICML 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        self._check_input_dim(input)
        params, buffers = self._parameters, self._buffers
        training, tracking = self.training, self.track_running_stats
        factor = 0.0 if self.momentum is None else self.momentum
        if training and tracking:
            counter = buffers["num_batches_tracked"]
            if counter is not None:
                counter.add_(1)
                if self.momentum is None:  # the plain average of all batches
                    factor = 1.0 / float(counter)
        mean, var = buffers["running_mean"], buffers["running_var"]
        use_batch = training or (mean is None and var is None)
        use_running = not training or tracking
        plain = "weight" in params and "bias" in params
        return self._normalize(
            input,
            mean if use_running else None,
            var if use_running else None,
            params["weight"] if plain else self.weight,
            params["bias"] if plain else self.bias,
            use_batch,
            factor,
        )

    def _normalize(
        self,
        input: Tensor,
        mean: Tensor | None,
        var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        use_batch: bool,
        factor: float,
    ) -> Tensor:
        """The layer itself, once it is known which statistics are used and which are updated."""
        return F.batch_norm(input, mean, var, weight, bias, use_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, mean and variance of each channel over the batch.

    In training mode they are those of the batch (variance without Bessel's correction), and the
    running ones move towards them: new = (1 - momentum) * old + momentum * batch (variance with
    correction). In evaluation mode the running ones are used.

    Args:
        num_features: C.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages all.
        affine: whether there are weight and bias.
        track_running_stats: whether running statistics are kept.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        bias: False leaves the bias out.

    Shape:
        [N, C] or [N, C, L] -> the same.

    Attributes:
        weight: Parameter [C], starts at 1; None without affine.
        bias: Parameter [C], starts at 0; or None.
        running_mean: buffer [C], or None.
        running_var: buffer [C], or None.
        num_batches_tracked: buffer [], int64, or None.

    Raises:
        ValueError: at the call, for another number of dimensions, or one value per channel in training.
        RuntimeError: at the call, for another number of channels.

    Source: S. Ioffe, C. Szegedy, Batch normalization, ICML 2015.

    Example:
        >>> layer = nn.BatchNorm1d(1)
        >>> [round(v, 4) for v in layer(gradlib.tensor([[1.0], [3.0]])).flatten().tolist()]
        [-1.0, 1.0]
        >>> round(layer.running_mean.item(), 4)
        0.2
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images, per channel; see `BatchNorm1d`.

    Shape:
        [N, C, H, W] -> the same.

    Raises:
        ValueError: at the call, for another number of dimensions, or one value per channel in training.

    Example:
        >>> layer = nn.BatchNorm2d(3)
        >>> _ = layer(gradlib.randn(4, 3, 5, 5))
        >>> int(layer.num_batches_tracked)
        1
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes, per channel; see `BatchNorm1d`.

    Shape:
        [N, C, D, H, W] -> the same.

    Raises:
        ValueError: at the call, for another number of dimensions, or one value per channel in training.

    Example:
        >>> tuple(nn.BatchNorm3d(3)(gradlib.randn(4, 3, 2, 5, 5)).shape)
        (4, 3, 2, 5, 5)
    """

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation by the statistics of all processes; with one process the same as `BatchNorm1d`.

    In training, one collective forward and one backward put the statistics together. PyTorch's works on CUDA tensors
    alone; this one on those of every device that the process group has a backend for. Its gradient cannot be
    differentiated again where there are several processes.

    Args:
        num_features: as in `BatchNorm1d`, like all others that are not named here.
        process_group: whose ranks; all if None.

    Shape:
        [N, C, *L] -> the same; N may differ between ranks.

    Raises:
        ValueError: at the call, for less than 2 dimensions.

    Example:
        >>> x = gradlib.randn(4, 3, 5)
        >>> gradlib.equal(nn.SyncBatchNorm(3)(x), nn.BatchNorm1d(3)(x))
        True
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _normalize(
        self,
        input: Tensor,
        mean: Tensor | None,
        var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
        use_batch: bool,
        factor: float,
    ) -> Tensor:
        group = group_of(self.process_group) if use_batch and self.training else None
        if group is None:
            return super()._normalize(input, mean, var, weight, bias, use_batch, factor)
        return SyncBatchNormFunction.apply(input, weight, bias, mean, var, self.eps, factor, group)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every BatchNorm below `module` by a SyncBatchNorm with the same tensors.

        Args:
            module: changed in place, unless it is a BatchNorm itself.
            process_group: whose ranks; all if None.

        Returns:
            The module, or the SyncBatchNorm that stands for it.

        Example:
            >>> net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))
            >>> type(net[0]).__name__
            'SyncBatchNorm'
        """
        out = module
        if isinstance(module, _BatchNorm):
            out = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            out._parameters = dict(module._parameters)
            out._buffers = dict(module._buffers)
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let batch norms use the statistics of their batch alone: running ones are written in place, which `vmap` refuses.

    Args:
        root: the module that is changed, with all modules in it.

    Returns:
        `root`.

    Example:
        >>> net = gradlib.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(2))
        >>> net.running_mean is None, net.track_running_stats
        (True, False)
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
