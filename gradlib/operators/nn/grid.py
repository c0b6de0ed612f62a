"""grid_sample and affine_grid: images sampled at given places."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.expose import function
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.device import beside_first
from ...tape.modes import AUTOCAST, made_of_numbers, state, unrecorded
from ...tape.tensor import Tensor
from ..kinds import floating, raw, same_dtype

INTERPOLATION = {"bilinear": 0, "nearest": 1, "bicubic": 2}
PADDING = {"zeros": 0, "border": 1, "reflection": 2}

# -- gather from planes shared by all channels -------------------------------------------------------------------------


def _take_pixels(xp, self, *, index):
    """self (N, C, P), index (N, Q) of positions, -1 for none: (N, C, Q)."""
    rows = xp.arange(len(self))[:, None]
    picked = self.transpose(0, 2, 1)[rows, xp.maximum(index, 0)]
    picked = picked * (index >= 0)[:, :, None]
    return picked.transpose(0, 2, 1).astype(self.dtype, copy=False)


def _add_pixels(xp, self, *, index, size):
    """The transpose: self (N, C, Q) added to zeros (N, C, size)."""
    n, c, q = self.shape
    out = xp.zeros((n * c, size), self.dtype)
    values = self.reshape(n, c, q) * (index >= 0)[:, None, :]
    where = xp.maximum(index, 0)[:, None, :] + (xp.arange(n * c) * size).reshape(n, c, 1)
    xp.add.at(out.reshape(-1), where.reshape(-1), values.reshape(-1))
    return out.reshape(n, c, size)


def _index_sample():
    return np.array([[0, 2, -1, 3, 2], [1, 1, 0, -1, 3]])


take_pixels_op = declare(
    "take_pixels", floating(_take_pixels, refused="grid_sampler_2d_cpu_kernel_impl"),
    jvp="linear", node="GridSampler2DBackward0",
    self=lambda F, g, self_shape, index: F.add_pixels(g, index, self_shape[2]),
    samples=lambda t: [(t(2, 3, 4), _index_sample())],
)  # fmt: skip
add_pixels_op = declare(
    "add_pixels", floating(_add_pixels), jvp="linear", node="GridSampler2DBackwardBackward0",
    self=lambda F, g, index: F.take_pixels(g, index), samples=lambda t: [(t(2, 3, 5), _index_sample(), 4)],
)  # fmt: skip


# -- coordinates -------------------------------------------------------------------------------------------------------


def _unnormalised(x, size: int, align_corners: bool):
    return (x + 1) * ((size - 1) / 2) if align_corners else (x + 1) * (size / 2) - 0.5


def _reflected(x, size: int, align_corners: bool):
    """Coordinates mirrored at the borders of the image (recorded: the slope is 1 or -1)."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return x * 0
    distance = (x - low).abs()
    flips = (distance.detach() / span).floor()
    extra = distance - flips * span
    odd = (flips % 2).to(x.dtype)
    return extra * (1 - odd) + (span - extra) * odd + low


def _padded(x, size: int, padding: int, align_corners: bool):
    if padding == 0:
        return x
    if padding == 2:
        x = _reflected(x, size, align_corners)
    return x.clamp(0, size - 1).nan_to_num(0.0)  # nan counts as -1, the first pixel


def _positions(space: tuple, *corner: np.ndarray):
    """Flat positions of integer coordinates (raw arrays, last axis of the image first); -1 outside the image."""
    inside, flat = True, 0
    for at, size in zip(corner, space, strict=True):
        inside = inside & (at >= 0) & (at < size)
        flat = flat * size + np.clip(at, 0, size - 1)
    return np.where(inside, flat, -1)


def _whole(x, more: int = 0):
    """Raw integer coordinates, `more` farther on; what is not a number or far outside counts as outside."""
    return unrecorded(_integers, raw(x), more)


def _integers(a, more: int):
    return np.where(np.isfinite(a) & (np.abs(a) < 2**31), a, -(2**31)).astype(np.int64) + more


def _linear_taps(coordinates: list):
    """For each corner around the coordinates: integer coordinates and weight."""
    lows = [c.detach().floor() for c in coordinates]
    parts = [c - low for c, low in zip(coordinates, lows, strict=True)]
    for corner in product((0, 1), repeat=len(coordinates)):
        weight = None
        for bit, part in zip(corner, parts, strict=True):
            factor = part if bit else 1 - part
            weight = factor if weight is None else weight * factor
        yield [_whole(low, bit) for low, bit in zip(lows, corner, strict=True)], weight


def _cubic_weights(t, a: float = -0.75) -> list:
    """Weights of the four neighbours for a fraction t."""

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic_taps(coordinates: list, space: tuple, padding: int, align_corners: bool):
    lows = [c.detach().floor() for c in coordinates]
    weights = [_cubic_weights(c - low) for c, low in zip(coordinates, lows, strict=True)]
    for shifts in product(range(4), repeat=2):
        places = []
        for low, shift, size in zip(lows, shifts, space, strict=True):
            places.append(_whole(_padded(low + (shift - 1), size, padding, align_corners)))
        yield places, weights[0][shifts[0]] * weights[1][shifts[1]]


def _corners(align_corners: bool | None) -> bool:
    """False, with a warning, where nothing is said."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify "
            "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.",
            stacklevel=3,
        )
        return False
    return align_corners


@beside_first
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Images at given places, between their elements.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, h, w, 2) pairs (x, y), or (N, d, h, w, 3), in [-1, 1] over the input.
        mode: "bilinear", "nearest", or "bicubic" (two dimensions alone).
        padding_mode: what lies outside: "zeros", "border", "reflection".
        align_corners: whether -1 and 1 are the middles of the corner elements instead of their outer edges; None is
            False, with a warning.

    Returns:
        (N, C, h, w) or (N, C, d, h, w); gradients flow to both.

    Raises:
        RuntimeError: shapes or dtypes do not fit.
        ValueError: another mode.

    Example:
        >>> F.grid_sample(gradlib.tensor([[[[1.0, 3.0]]]]), gradlib.zeros(1, 1, 1, 2), align_corners=True)
        tensor([[[[2.]]]])
    """
    if mode not in INTERPOLATION:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDING:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    align_corners = _corners(align_corners)
    return grid_sampler(input, grid, INTERPOLATION[mode], PADDING[padding_mode], align_corners)


def _check(input, grid, mode: int) -> None:
    n = input.dim() - 2
    if n not in (2, 3) or grid.dim() != input.dim():
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and "
            f"grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != n:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {n} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    for i, size in enumerate(input.shape[2:], 2):
        if not size:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {i} being empty"
            )
    if mode == 2 and n != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


@function("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
@each_entry
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """``nn.functional.grid_sample`` with its modes as numbers.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H2, W2, 2) or (N, D2, H2, W2, 3): the places, in [-1, 1] over the input.
        interpolation_mode: 0 "bilinear", 1 "nearest", 2 "bicubic".
        padding_mode: 0 "zeros", 1 "border", 2 "reflection".
        align_corners: whether -1 and 1 are the middles of the corner elements instead of their outer edges.

    Returns:
        (N, C, H2, W2) or (N, C, D2, H2, W2).

    Raises:
        RuntimeError: shapes or dtypes do not fit.

    Example:
        >>> gradlib.grid_sampler(gradlib.tensor([[[[1.0, 3.0]]]]), gradlib.zeros(1, 1, 1, 2), 0, 0, True)
        tensor([[[[2.]]]])
    """
    _check(input, grid, interpolation_mode)
    if not state.bits & AUTOCAST:
        same_dtype(input, grid)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@beside_first
def _sampled(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler` of arguments that fit."""
    space, out = tuple(input.shape[2:]), tuple(grid.shape[1:-1])
    n = len(space)
    points = grid.reshape(grid.shape[0], math.prod(out), n)
    # grid holds x first; coordinates follow the order of the dimensions
    coordinates = [
        _unnormalised(points.select(2, n - 1 - d), size, align_corners)
        for d, size in enumerate(space)
    ]
    if interpolation_mode == 2:
        taps = _cubic_taps(coordinates, space, padding_mode, align_corners)
    else:
        coordinates = [
            _padded(c, s, padding_mode, align_corners)
            for c, s in zip(coordinates, space, strict=True)
        ]
        if interpolation_mode == 0:
            taps = _linear_taps(coordinates)
        else:
            taps = [([_whole(c.detach().round()) for c in coordinates], None)]
    image = input.reshape(*input.shape[:2], math.prod(space))
    total: Any = None
    for corner, weight in taps:
        part = take_pixels_op.call(image, unrecorded(_positions, space, *corner))
        if weight is not None:
            part = part * weight.unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    if interpolation_mode == 1:  # the gradient of the grid is zero, not missing
        step = coordinates[0].clamp(0, 1).floor()
        total = total + (step - step.detach()).unsqueeze(1)
    return total.contiguous().view(*input.shape[:2], *out)


def _base_line(size: int, align_corners: bool):
    if size <= 1:
        return np.zeros(size)
    line = np.linspace(-1, 1, size)
    return line if align_corners else line * (size - 1) / size


def affine_grid(theta, size, align_corners=None):
    """The places for ``grid_sample`` that affine maps send a regular grid to.

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        size: the size of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the middles of the corner elements instead of their outer edges; None is
            False, with a warning.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        ValueError: the shapes do not fit.

    Example:
        >>> F.affine_grid(gradlib.eye(2, 3)[None], (1, 1, 1, 2), True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    align_corners = _corners(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{list(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size "
            f"{list(size)}. Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    space = tuple(int(s) for s in size[2:])
    table = backend_of(theta._array).table(_grid(space, align_corners), theta._array.dtype)
    points = made_of_numbers(Tensor._make(table))
    return (points @ theta.transpose(1, 2)).view(int(size[0]), *space, n)


@lru_cache(16)
def _grid(space: tuple[int, ...], align_corners: bool) -> np.ndarray:
    """The places of a regular grid, one in each row: x first, and 1 behind them."""
    lines = np.meshgrid(*[_base_line(s, align_corners) for s in space], indexing="ij")
    return np.stack([*reversed(lines), np.ones(space)], axis=-1).reshape(-1, len(space) + 1)


@function("affine_grid_generator")
def affine_grid_generator(theta, size, align_corners):
    """The places for ``grid_sample`` that affine maps send a regular grid to: ``nn.functional.affine_grid``.

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        size: the size of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the middles of the corner elements instead of their outer edges.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Example:
        >>> gradlib.affine_grid_generator(gradlib.eye(2, 3)[None], (1, 1, 1, 2), True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    return affine_grid(theta, size, align_corners)
