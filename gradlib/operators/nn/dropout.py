"""The dropout family. Masks come from the default generator and are one byte an element."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ...op.declare import declare
from ...op.expose import function
from ...op.inplace import inplace as run_inplace
from ...op.vmap import draws
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.device import CPU, beside, beside_first
from ...tape.layout import in_order
from ...tape.modes import shared, unrecorded
from ...tape.tensor import Tensor
from ..create.base import asked
from ..random.draw import draw_for, rng_of

ALPHA = 1.7580993408473766  # scale * alpha of selu: what a unit saturates at, with the sign changed


@draws
def _mask_of(shape, p: float, where) -> Tensor:
    """``keep_mask`` as a tensor."""
    return Tensor._make(unrecorded(keep_mask, shape, p, where))


def keep_mask(shape, p: float, where=CPU):
    """Raw bool array on the device `where`: False with probability `p`."""
    if where.type != "cpu":  # the words that kernels/dropout.cu compares with the same number
        words = draw_for(None, where, lambda rng: rng.words(math.prod(shape)))
        with beside(words):
            return words.reshape(shape) >= np.uint32(min(round(p * 2**32), 2**32 - 1))
    rng = rng_of(None)
    if p < 1e-3:  # too rare for 16 bits
        return rng.random(shape, dtype=np.float32) >= p
    return rng.integers(0, 1 << 16, shape, dtype=np.uint16) >= np.uint16(
        min(round(p * 65536), 65535)
    )


def _masked(xp, self, mask, *, scale):
    if self.shape != mask.shape:
        return ((self * mask) * scale).astype(self.dtype, copy=False)

    def piece(xp, x, m):
        out = (x * m).astype(x.dtype, copy=False)
        if scale != 1.0:
            out *= scale
        return out

    if not self.ndim:
        return xp.asarray(piece(xp, self, mask)).astype(self.dtype, copy=False)
    if not self.flags.c_contiguous:
        return in_order(xp, piece(xp, self, mask), (self,))
    return xp.in_pieces(piece, self, mask)


dropout_op = declare(
    "masked_scale", _masked, public="native_dropout",
    node="MulBackward0", jvp="linear", inplace=True, complex=True, fixed=("mask",),
    self=lambda F, g, mask, scale: F.masked_scale(g, mask, scale),
    samples=lambda t: [
        (t(3, 4), Tensor._make(np.arange(12).reshape(3, 4) % 3 > 0), 1.5),
        (t(2, 3), Tensor._make(np.array([[True], [False]])), 2.0),
        (t(), Tensor._make(np.array(True)), 2.0), (t(0), Tensor._make(np.zeros(0, bool)), 2.0),
    ],
    batch="elementwise",
)  # fmt: skip


def _check(p: float, kind: type[Exception] = ValueError) -> None:
    """An error of this kind unless p lies in [0, 1]; of nan always RuntimeError."""
    if not 0.0 <= p <= 1.0:
        text = f"dropout probability has to be between 0 and 1, but got {p}"
        raise (kind if p == p else RuntimeError)(text)


def _check_scaled(input: Tensor, kind: str = "") -> None:
    """RuntimeError if `input` cannot hold what is left after scaling."""
    if input.dtype.category < dtypes.FLOATING:
        kind = kind or input.dtype.scalar_type
        raise RuntimeError(f"result type Float can't be cast to the desired output type {kind}")


def _run(input: Tensor, shape, p: float, in_place: bool):
    """Zero the elements (or the slices) of a random mask of `shape`; scale the rest."""
    if p == 0.0 or input.numel() == 0:
        return input
    array = input._array
    if p == 1.0:
        mask, scale = np.zeros(shape, bool), 1
    else:
        _check_scaled(input)
        scale = 1.0 / (1.0 - p)
        if shared.batches:
            return _masked_by(input, _mask_of(shape, p, input.device), scale, in_place)
        mask = unrecorded(keep_mask, shape, p, input.device)
    if array.__class__ is not np.ndarray and not asked(input):
        mask = backend_of(array).asarray(mask)
    return _masked_by(input, Tensor._make(mask), scale, in_place)


def _masked_by(input: Tensor, mask: Tensor, scale: float, in_place: bool) -> Tensor:
    if in_place:
        return run_inplace(dropout_op, input, (mask,), (scale,))
    return dropout_op.call(input, mask, scale)


def dropout(input, p=0.5, training=True, inplace=False):
    """In training, each element is zero with a probability, and the others are divided by one less that.

    Args:
        input: a floating tensor of any shape.
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.dropout(gradlib.ones(3), 1.0)
        tensor([0., 0., 0.])
    """
    _check(p)
    return _run(input, input._array.shape, p, inplace) if training else input


@function("dropout")
def _dropout_public(input, p, train):
    """`nn.functional.dropout` with `train` as its third argument; without it `input` itself.

    Raises ValueError for a probability outside of [0, 1].

    Example:
        >>> gradlib.dropout(gradlib.ones(2), 0.5, False)
        tensor([1., 1.])
    """
    _check(p, RuntimeError)
    return dropout(input, p, train)


@function("dropout_")
def dropout_(input, p, train):
    """In-place version of ``dropout``."""
    _check(p, RuntimeError)
    return dropout(input, p, train, True)


_TOO_FLAT = "Feature dropout requires at least 2 dimensions in the input"


def _by_channel(shape) -> tuple:
    return shape[:2] + (1,) * (len(shape) - 2)


@function("feature_dropout")
def feature_dropout(input, p, train):
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``.

    Args:
        input: a floating tensor (N, C, ...).
        p: the probability, in [0, 1].
        train: without it `input` is returned as it is.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: `p` is not in [0, 1], or there are fewer than two dimensions.

    Example:
        >>> gradlib.feature_dropout(gradlib.ones(1, 2), 1.0, True)
        tensor([[0., 0.]])
    """
    _check(p, RuntimeError)
    if not train:
        return input
    if input.dim() < 2:
        raise RuntimeError(_TOO_FLAT)
    return _run(input, _by_channel(input._array.shape), p, False)


def _channels(n: int, input, p, training, inplace):
    """dropoutNd: whole channels of (N, C, *n) or (C, *n) input."""
    _check(p)
    if not training:
        return input
    shape = input._array.shape
    if len(shape) < (1 if n == 3 else 2) and p > 0 and input._array.size:
        raise RuntimeError(_TOO_FLAT)
    if len(shape) == n + 1 and n != 2:
        mask = (shape[0],) + (1,) * n
    else:
        mask = _by_channel(shape)
    return _run(input, mask, p, inplace)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``.

    Args:
        input: a floating tensor (N, C, L) or (C, L).
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.dropout1d(gradlib.ones(1, 2, 2), 1.0).sum()
        tensor(0.)
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an "
            "optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _channels(1, input, p, training, inplace)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``.

    Args:
        input: a floating tensor (N, C, H, W); of three dimensions they count as (N, C, L), with a warning.
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.dropout2d(gradlib.ones(1, 2, 2, 1), 1.0).sum()
        tensor(0.)
    """
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and "
            "will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout "
            "instead. Note that dropout2d "
            "exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel "
            "dimension, and an optional "
            "batch dimension.",
            stacklevel=2,
        )
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input "
            "is interpreted as shape (N, C, L), where C is the channel dim. This behavior will "
            "change in a future release to "
            "interpret the input as one without a batch dimension, i.e. shape (C, H, W). To "
            "maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _channels(2, input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels: all elements of one are zero together, or divided by ``1 - p``.

    Args:
        input: a floating tensor (N, C, D, H, W) or (C, D, H, W).
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.dropout3d(gradlib.ones(1, 2, 2, 1, 1), 1.0).sum()
        tensor(0.)
    """
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout instead. "
            "Note that dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    return _channels(3, input, p, training, inplace)


@beside_first
def _alpha(input, shape, p: float, in_place: bool):
    """Dropped elements go to -ALPHA; then scaled and shifted so that mean 0 and variance 1 are kept."""
    if p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        nothing = input.new_zeros(())
        return input.mul_(nothing) if in_place else input * nothing
    _check_scaled(input, "Long" if input.dtype is dtypes.bool_ else "")
    scale = 1.0 / math.sqrt((ALPHA * ALPHA * p + 1.0) * (1.0 - p))
    mask = _mask_of(shape, p, input.device)
    shift = (~mask).to(input.dtype) * (-ALPHA * scale) + ALPHA * scale * p
    kept = _masked_by(input, mask, scale, in_place)
    return kept.add_(shift.expand(input.shape)) if in_place else kept + shift


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout for selu networks: dropped elements take the least value of selu; mean and variance are kept.

    Args:
        input: a floating tensor of any shape.
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.alpha_dropout(gradlib.ones(1, 2), 0.0, True)
        tensor([[1., 1.]])
    """
    _check(p)
    return _alpha(input, input._array.shape, p, inplace) if training else input


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """``alpha_dropout`` of whole channels: all elements of one are dropped together.

    Args:
        input: a floating tensor (N, C, ...).
        p: the probability, in [0, 1].
        training: without it `input` is returned as it is.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `p` is not in [0, 1].

    Example:
        >>> F.feature_alpha_dropout(gradlib.ones(1, 2), 0.0, True)
        tensor([[1., 1.]])
    """
    _check(p)
    if not training:
        return input
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha(input, _by_channel(input._array.shape), p, inplace)


@function("alpha_dropout")
def _alpha_dropout_public(input, p, train):
    """``nn.functional.alpha_dropout`` with `train` as its third argument.

    Args:
        input: a floating tensor of any shape.
        p: the probability, in [0, 1].
        train: without it `input` is returned as it is.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: `p` is not in [0, 1].

    Example:
        >>> gradlib.alpha_dropout(gradlib.ones(1, 2), 0.5, False)
        tensor([[1., 1.]])
    """
    _check(p, RuntimeError)
    return alpha_dropout(input, p, train)


@function("alpha_dropout_")
def alpha_dropout_(input, p, train):
    """In-place version of ``alpha_dropout``."""
    _check(p, RuntimeError)
    return alpha_dropout(input, p, train, True)


@function("feature_alpha_dropout")
def _feature_alpha_dropout_public(input, p, train):
    """``nn.functional.feature_alpha_dropout`` with `train` as its third argument.

    Args:
        input: a floating tensor (N, C, ...).
        p: the probability, in [0, 1].
        train: without it `input` is returned as it is.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: `p` is not in [0, 1].

    Example:
        >>> gradlib.feature_alpha_dropout(gradlib.ones(1, 2), 0.5, False)
        tensor([[1., 1.]])
    """
    _check(p, RuntimeError)
    return feature_alpha_dropout(input, p, train)


@function("native_dropout_backward")
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of ``native_dropout``: `grad_output` times `scale` where an element was kept, else 0.

    Args:
        grad_output: the gradient of the output.
        mask: the bool tensor that ``native_dropout`` returned.
        scale: ``1 / (1 - p)``.

    Returns:
        A tensor of the shape of `grad_output`.

    Example:
        >>> gradlib.native_dropout_backward(gradlib.ones(2), gradlib.tensor([True, False]), 2.0)
        tensor([2., 0.])
    """
    return grad_output * mask * scale


@function("native_dropout")
def native_dropout(input, p, train):
    """Dropout, and which elements were kept.

    Args:
        input: a floating tensor of any shape.
        p: the probability, in [0, 1].
        train: without it the output is a copy of `input`.

    Returns:
        A tuple (output, mask), the mask of dtype bool.

    Raises:
        RuntimeError: `p` is not in [0, 1], or the tensor holds integers.

    Example:
        >>> gradlib.native_dropout(gradlib.ones(2), 1.0, True)
        (tensor([0., 0.]), tensor([False, False]))
    """
    array = input._array
    if not train:
        return input.clone(), Tensor._make(backend_of(array).ones(array.shape, bool))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p:g}")
    if 0 < p < 1:
        _check_scaled(input)
    if p < 1:
        mask = _mask_of(array.shape, p, input.device)
    else:
        mask = Tensor._make(backend_of(array).zeros(array.shape, bool))
    return dropout_op.call(input, mask, 1.0 / (1.0 - p) if p < 1 else 0.0), mask
