"""Instance normalisation."""

from __future__ import annotations

import warnings
from typing import Any

from ..._refused import refuse
from ...tape.tensor import Tensor
from .. import functional as F
from .batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
__getattr__ = refuse(__name__)


class _InstanceNorm(_NormBase):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, statistics per channel and sample.

    Source: D. Ulyanov et al., Instance normalization, arXiv:1607.08022.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same shape."""
        self._check_input_dim(input)
        channel_dim = self._ranks.index(input.dim())
        if input.size(channel_dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(channel_dim)}."
                )
            warnings.warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence "
                "this warning by not passing in num_features, which is not used because "
                "affine=False",
                stacklevel=2,
            )
        if channel_dim == 0:
            return self._normalise(input.unsqueeze(0)).squeeze(0)
        return self._normalise(input)


class InstanceNorm1d(_InstanceNorm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, mean and variance of each channel of each sample.

    Args:
        num_features: C.
        eps: added to the variance, which is without Bessel's correction.
        momentum: weight of the newest batch in the running statistics.
        affine: whether there are weight and bias; not by default.
        track_running_stats: whether running statistics are kept and used in evaluation.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        bias: False leaves the bias out.

    Shape:
        [N, C, L] or [C, L] -> the same.

    Raises:
        ValueError: at the call, for another number of dimensions, one value per channel in training,
            or another number of channels; without affine the last only warns.

    Source: D. Ulyanov et al., Instance normalization, arXiv:1607.08022 (2016).

    Example:
        >>> x = gradlib.tensor([[[1.0, 3.0]]])
        >>> [round(v, 4) for v in nn.InstanceNorm1d(1)(x).flatten().tolist()]
        [-1.0, 1.0]
    """

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of images; arguments and errors as in `InstanceNorm1d`.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same.

    Example:
        >>> tuple(nn.InstanceNorm2d(3)(gradlib.randn(2, 3, 4, 4)).shape)
        (2, 3, 4, 4)
    """

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of volumes; arguments and errors as in `InstanceNorm1d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same.

    Example:
        >>> tuple(nn.InstanceNorm3d(3)(gradlib.randn(2, 3, 4, 4, 4)).shape)
        (2, 3, 4, 4, 4)
    """

    _ranks = (4, 5)
