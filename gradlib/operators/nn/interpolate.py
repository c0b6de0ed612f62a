"""Resizing by matrices, one for each spatial dimension: interpolation in all modes, adaptive average pooling.

A resizing is linear and separable: along each dimension the new line is a matrix times the old one. Nearest neighbours
are gathers instead; their transposes are sums over runs.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache

import numpy as np

from ...op.declare import declare
from ...op.expose import function
from ...tape.arrays import backend_of
from ...tape.errors import check_room
from ...tape.tensor import Tensor
from ..kinds import unsupported
from ..shape.pad import take_along_op

# -- the operation -----------------------------------------------------------------------------------------------------


class Resize:
    """A resizing of the last dimensions: a matrix (new, old) for each; equal ones are one object.

    bytes: whether 8-bit integers can be resized so.
    """

    def __init__(self, matrices: tuple, bytes: bool = False):
        self.matrices, self.bytes = matrices, bytes
        self.back: Resize | None = None
        self._signs: tuple | None = None
        self._tables: dict = {}

    @property
    def transposed(self) -> Resize:
        if self.back is None:
            self.back = Resize(tuple(m.T for m in self.matrices))
            self.back.back = self
        return self.back

    def tables(self, xp, dtype) -> list:
        """The matrices as arrays of `xp`, kept for the next time."""
        found = self._tables.get(dtype)
        if found is None:
            found = self._tables[dtype] = [np.asarray(matrix, dtype) for matrix in self.matrices]
        return [xp.table(matrix) for matrix in found]

    @property
    def signs(self) -> tuple:
        """For each matrix where it is positive, where negative, and where either, as numbers 0 and 1."""
        if self._signs is None:
            self._signs = tuple(
                tuple(where.astype(np.float32) for where in (m > 0, m < 0, m != 0))
                for m in self.matrices
            )
        return self._signs

    @property
    def partial(self) -> bool:
        """Whether some elements do not depend on all of the old ones."""
        return not all(where.all() for *_, where in self.signs)

    def __repr__(self) -> str:
        return f"Resize({' x '.join(f'{m.shape[1]}->{m.shape[0]}' for m in self.matrices)})"


def _fixed_point(matrix):
    """A matrix in 16-bit integers and the power of two that they are multiples of: as images are resized."""
    top, bits = float(matrix.max(initial=0.0)), 0
    while bits < 22 and int(0.5 + top * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = matrix * (1 << bits)
    return np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)).astype(np.int64), bits


def _resize_bytes(xp, x, how):
    """The resizing of 8-bit images: integer weights, and rounding to 8 bits after each dimension, the last first."""
    for dim, matrix in reversed(list(enumerate(how.matrices, x.ndim - len(how.matrices)))):
        weights, bits = _fixed_point(matrix)
        lines = xp.moveaxis(x, dim, -1).astype(np.int64)
        sums = (xp.matmul(lines, xp.table(weights.T)) + (1 << (bits - 1))) >> bits
        x = xp.moveaxis(xp.clip(sums, 0, 255).astype(np.uint8), -1, dim)
    return xp.ascontiguousarray(x)


def _resize(xp, self, *, how):
    if self.dtype.kind not in "fV":
        if self.dtype == np.uint8 and how.bytes:
            return _resize_bytes(xp, self, how)
        raise unsupported("compute_indices_weights", self)
    x = old = xp.wide(self)
    first = x.ndim - len(how.matrices)
    for dim, table in enumerate(how.tables(xp, x.dtype), first):
        x = _along(xp, x, dim, table)
    # an infinite or nan element times the zeros of a matrix has made everything nan
    if (xp.waits or not _finite(x if x.size < old.size else old)) and how.partial:
        x = _resize_any(xp, old, how)
    return x.astype(self.dtype, copy=False)


def _finite(x) -> bool:
    """Whether all elements of a NumPy array are finite; it may be False, too, where their squares are not."""
    return math.isfinite(np.vdot(x, x))


def _along(xp, x, dim: int, m):
    """The matrix `m`, of the dtype of `x`, times the lines of `x` along `dim`."""
    shape = x.shape
    before, after = shape[:dim], shape[dim + 1 :]
    if not after:
        rows = x.reshape(math.prod(before), shape[dim])
        return xp.dot(rows, m.T).reshape(*before, len(m))
    flat = x.reshape(math.prod(before), shape[dim], math.prod(after))
    return xp.matmul(m, flat).reshape(*before, len(m), *after)


def _resize_any(xp, x, how):
    """The resizing where elements may be infinite or nan: they go only where their weight is not zero."""
    for dim, (table, signs) in enumerate(
        zip(how.tables(xp, x.dtype), how.signs, strict=True), x.ndim - len(how.matrices)
    ):
        finite = xp.isfinite(x)
        high, low = (x == math.inf).astype(x.dtype), (x == -math.inf).astype(x.dtype)
        plus, minus, any_ = (xp.table(where, x.dtype) for where in signs)
        up = _along(xp, high, dim, plus) + _along(xp, low, dim, minus) > 0
        down = _along(xp, low, dim, plus) + _along(xp, high, dim, minus) > 0
        none = _along(xp, (x != x).astype(x.dtype), dim, any_) > 0
        x = _along(xp, xp.where(finite, x, 0), dim, table)
        x = xp.where(up, math.inf, xp.where(down, -math.inf, x))
        x = xp.where(none | (up & down), math.nan, x)
    return x


def _some(n: int) -> Resize:
    rng = np.random.default_rng(n)
    return Resize(tuple(rng.normal(size=(3 + i, 2 + i)) for i in range(n)))


def declare_resize(
    name: str,
    node: str,
    public: str,
    dependent: str = "",
    autocast: str = "",
    volumes: bool = True,
    row_major_back: bool = False,
):
    """A resizing and its transpose, each the gradient of the other.

    autocast: that of the resizing; its gradient is left alone.
    volumes: whether channels stay last in five dimensions, too. row_major_back: gradients are row-major anyway.
    """
    back = name + "_back"
    public_back = ("_" if dependent else "") + public + "_backward"

    def half(name, other, node, public, dependent, kept, autocast=""):
        return declare(
            name, _resize, public=public, dependent=dependent, jvp="linear", node=node, autocast=autocast,
            channels_last=kept, channels_last_3d=volumes, batch="planes",
            self=lambda F, g, how: getattr(F, other)(g, how.transposed),
            samples=lambda t: [
                (t(2, 3, 2), _some(1)), (t(2, 3, 2, 3), _some(2)), (t(1, 1, 2, 3, 4), _some(3)), (t(0, 3, 2), _some(1)),
            ],
        )  # fmt: skip

    half(
        back,
        name,
        node.replace("Backward0", "BackwardBackward0"),
        public_back,
        "",
        "" if row_major_back else "self",
    )
    return half(name, back, node, public, dependent, "self", autocast)


_OPS = {
    name: declare_resize(
        "upsample_" + name, node, public, autocast="" if "lanczos" in name else "cuda:float32",
        row_major_back="cubic" in name or "lanczos" in name,
    )
    for name, public, node in (
        ("linear", "upsample_linear1d", "UpsampleLinear1DBackward0"),
        ("bilinear", "upsample_bilinear2d", "UpsampleBilinear2DBackward0"),
        ("trilinear", "upsample_trilinear3d", "UpsampleTrilinear3DBackward0"),
        ("bicubic", "upsample_bicubic2d", "UpsampleBicubic2DBackward0"),
        ("bilinear_aa", "_upsample_bilinear2d_aa", "UpsampleBilinear2DAaBackward0"),
        ("bicubic_aa", "_upsample_bicubic2d_aa", "UpsampleBicubic2DAaBackward0"),
        ("lanczos_aa", "_upsample_lanczos2d_aa", "UpsampleLanczos2DAaBackward0"),
    )
}  # fmt: skip
ADAPTIVE = {
    n: declare_resize(
        f"adaptive_avg_pool{n}d_op",
        f"AdaptiveAvgPool{n}DBackward0",
        f"adaptive_avg_pool{n}d",
        "self",
        "cpu:float32" if n == 3 else "",
        volumes=n == 2,
    )
    for n in (2, 3)
}
ADAPTIVE[1] = ADAPTIVE[2]


# -- matrices ----------------------------------------------------------------------------------------------------------


def _centres(new: int, old: int, scale, align_corners: bool):
    """Where in the old line each position of the new one lies."""
    at = np.arange(new, dtype=np.float64)
    if align_corners:
        return at * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (at + 0.5) * (1.0 / scale if scale else old / new) - 0.5


def _cubic(t, a: float):
    """Keys' cubic kernel."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


@lru_cache(maxsize=128)
def line_matrix(kind: str, new: int, old: int, scale, align_corners: bool):
    """The matrix (new, old) of an interpolation along one dimension."""
    if new == old and kind == "linear":
        return np.eye(new)  # whatever the scale: as in PyTorch
    out = np.zeros((new, old))
    rows = np.arange(new)
    if kind == "area":
        for i in range(new):
            start, stop = i * old // new, -(-(i + 1) * old // new)
            out[i, start:stop] = 1.0 / (stop - start)
        return out
    at = _centres(new, old, scale, align_corners)
    if kind == "linear":
        at = np.maximum(at, 0.0)
        low = np.minimum(np.floor(at).astype(int), old - 1)
        part = np.clip(at - low, 0.0, 1.0)
        np.add.at(out, (rows, low), 1 - part)
        np.add.at(out, (rows, np.minimum(low + 1, old - 1)), part)
        return out
    low = np.floor(at).astype(int)
    for k in range(-1, 3):
        np.add.at(out, (rows, np.clip(low + k, 0, old - 1)), _cubic(at - low - k, -0.75))
    return out


def _smooth_kernel(kind: str, t):
    if kind == "linear":
        return np.maximum(1 - np.abs(t), 0)
    if kind == "cubic":
        return _cubic(t, -0.5)
    return np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0.0)


@lru_cache(maxsize=128)
def smooth_matrix(kind: str, new: int, old: int, scale, align_corners: bool):
    """The same with antialiasing: the kernel is widened when the line gets shorter."""
    if new == old:
        return np.eye(new)
    if align_corners:
        ratio = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        ratio = 1.0 / scale if scale else old / new
    width = max(ratio, 1.0)
    support = {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}[kind] * width
    out = np.zeros((new, old))
    for i in range(new):
        centre = ratio * (i + 0.5)
        start, stop = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), old)
        t = (np.arange(start, stop) - centre + 0.5) / width
        weights = _smooth_kernel(kind, t)
        total = weights.sum()
        out[i, start:stop] = weights / total if total else weights
    return out


@lru_cache(maxsize=128)
def _resize_for(
    kind: str, news: tuple, olds: tuple, scales: tuple, align_corners: bool, smooth: bool
) -> Resize:
    make = smooth_matrix if smooth else line_matrix
    return Resize(
        tuple(
            make(kind, n, o, s, align_corners) for n, o, s in zip(news, olds, scales, strict=True)
        ),
        kind != "area" and len(news) == 2,
    )


# -- public ------------------------------------------------------------------------------------------------------------

MODES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}


def _sizes(input: Tensor, size, scale_factor, recompute: bool):
    """New spatial sizes, and the scale of each dimension that positions are computed with (None: from the sizes)."""
    space = input._array.shape[2:]
    n = len(space)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = tuple(int(s) for s in size) if isinstance(size, (tuple, list)) else (int(size),) * n
        if len(sizes) != n:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                "with spatial dimensions of "
                f"{list(space)} and output size of {size}. Please provide input tensor in (N, C, "
                "d1, d2, ...,dK) format and "
                "output size in (o1, o2, ...,oK) format."
            )
        return sizes, (None,) * n
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales = (
        tuple(float(s) for s in scale_factor)
        if isinstance(scale_factor, (tuple, list))
        else (float(scale_factor),) * n
    )
    if len(scales) != n:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input "
            "with spatial dimensions of "
            f"{list(space)} and scale_factor of shape {scale_factor}. Please provide input tensor "
            "in (N, C, d1, d2, ...,dK) "
            "format and scale_factor in (s1, s2, ...,sK) format."
        )
    sizes = tuple(math.floor(o * s) for o, s in zip(space, scales, strict=True))
    return sizes, (None,) * n if recompute else scales


def _nearest(input, sizes, scales, exact: bool):
    out = input
    for dim, (new, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        old = input._array.shape[dim]
        step = 1.0 / scale if scale else old / new
        at = np.floor(
            (np.arange(new) + 0.5 if exact else np.arange(new)) * np.float32(step)
        ).astype(int)
        out = take_along_op.call(out, np.minimum(at, old - 1), dim)
    return out


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Images, or signals or volumes, resized.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: the new size of the dimensions behind the channels, an int or one for each; or
        scale_factor: by what they are multiplied.
        mode: "nearest", "nearest-exact", "area"; "linear" for (N, C, L), "bilinear" and "bicubic" for (N, C, H, W),
            "trilinear" for (N, C, D, H, W).
        align_corners: for the last four: whether the corner elements keep their places instead of the outer edges.
        recompute_scale_factor: whether the factor is that of the rounded sizes.
        antialias: for "bilinear" and "bicubic": whether a smaller image is smoothed.

    Returns:
        (N, C, *size).

    Raises:
        ValueError: neither `size` nor `scale_factor`, or both.
        NotImplementedError: a mode for another number of dimensions.

    Example:
        >>> F.interpolate(gradlib.tensor([[[1.0, 3.0]]]), 3, mode="linear", align_corners=True)
        tensor([[[1., 2., 3.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and align_corners and input.dim() == 4:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode == "lanczos" and not antialias and input.dim() == 4:
        raise ValueError("Lanczos mode requires antialias=True")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    n = input.dim() - 2
    array = input._array
    shape = array.shape
    if mode != "area" and n in (1, 2, 3) and not shape[1]:
        raise RuntimeError(
            f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(shape)}"
        )
    sizes, scales = _sizes(input, size, scale_factor, bool(recompute_scale_factor))
    check_room(backend_of(array), (*shape[:2], *sizes), array.itemsize)
    if mode != "area" and min(sizes, default=1) < 1:
        axes = "DHW"[3 - n :]
        given, made = (
            ", ".join(f"{a}: {s}" for a, s in zip(axes, values, strict=True))
            for values in (shape[2:], sizes)
        )
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({given}){' and' if n == 1 else ''} "
            f"output ({made})"
        )
    if mode in ("nearest", "nearest-exact") and n in (1, 2, 3):
        if array.dtype.kind in "iub" and array.dtype != np.uint8:
            raise unsupported("compute_indices_weights_nearest", array)
        return _nearest(input, sizes, scales, mode == "nearest-exact")
    olds = shape[2:]
    if mode == "area" and n in (1, 2, 3):
        return ADAPTIVE[n].call(input, _resize_for("area", sizes, olds, (None,) * n, False, False))
    if MODES.get(mode) != n:
        if mode not in MODES or n not in (1, 2, 3):
            raise NotImplementedError(
                "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
                f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear "
                f"| area | nearest-exact (got {mode})"
            )
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {MODES[mode] + 2}D input"
        )
    kind = {"bicubic": "cubic", "lanczos": "lanczos"}.get(mode, "linear")
    how = _resize_for(kind, sizes, olds, scales, bool(align_corners), bool(antialias))
    return _OPS[mode + "_aa" if antialias else mode].call(input, how)


def _warn_of(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """``interpolate`` under an older name; deprecated.

    Args:
        input: (N, C, H, W), or with one or three dimensions behind the channels.
        size: the size of these dimensions; or
        scale_factor: by what they are multiplied.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether the corner elements keep their values, for the modes other than "nearest".

    Returns:
        (N, C, *size).

    Raises:
        ValueError: neither `size` nor `scale_factor` is given.
    """
    _warn_of("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """``interpolate`` in mode "nearest"; deprecated.

    Args:
        input: (N, C, H, W), or with one or three dimensions behind the channels.
        size: the size of these dimensions; or
        scale_factor: by what they are multiplied.

    Returns:
        (N, C, *size).

    Raises:
        ValueError: neither `size` nor `scale_factor` is given.
    """
    _warn_of("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """``interpolate`` in mode "bilinear" with aligned corners; deprecated.

    Args:
        input: (N, C, H, W).
        size: the size of these dimensions; or
        scale_factor: by what they are multiplied.

    Returns:
        (N, C, *size).

    Raises:
        ValueError: neither `size` nor `scale_factor` is given.
    """
    _warn_of("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


# -- adaptive average pooling ------------------------------------------------------------------------------------------


def adaptive_size(name: str, n: int, output_size, input, first: int) -> tuple:
    """The output size of an adaptive pooling (None keeps that of the input), and the input's; both are checked.

    first: the first dimension of `input` that must not be empty.
    """
    listed = isinstance(output_size, (tuple, list))
    given = output_size if listed else (output_size,) * n
    if listed and n > 1 and input.dim() <= len(given):
        raise ValueError(f"Input dimension should be at least {len(given) + 1}")
    if len(given) != n:
        raise RuntimeError(f"{name}: internal error: output_size.size() must be {n}")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}"
            if n > 1
            else f"Expected 2 to 3 dimensions, but got {input.dim()}-dimensional tensor for "
            f"argument #1 'self' (while checking arguments for {name})"
        )
    if n == 1 and given[0] is None:
        raise TypeError(
            f"{name}(): argument 'output_size' (position 2) must be tuple of ints, but found element of type NoneType"
        )
    shape = input._array.shape
    space = shape[-n:]
    for i, length in enumerate(shape[first:], first % len(shape)):
        if not length:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(shape)} with dimension {i} being empty"
            )
    news = tuple(o if s is None else int(s) for s, o in zip(given, space, strict=True))
    if min(news) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(news)}"
        )
    check_room(backend_of(input._array), (*shape[:-n], *news), input.itemsize)
    return news, space


def _adaptive_avg(n: int, input, output_size):
    news, space = adaptive_size(f"adaptive_avg_pool{n}d", n, output_size, input, -n if n < 3 else 1)
    if all(s == 1 for s in news):
        return input.mean(tuple(range(-n, 0)), keepdim=True)
    return ADAPTIVE[n].call(input, _resize_for("area", news, space, (None,) * n, False, False))


@function("adaptive_avg_pool1d")
def adaptive_avg_pool1d(input, output_size):
    """Averages over windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, L) or (C, L).
        output_size: an int.

    Returns:
        A tensor in which the last dimension becomes `output_size`.

    Raises:
        RuntimeError: another number of dimensions, or a negative size.

    Example:
        >>> F.adaptive_avg_pool1d(gradlib.arange(4.0).reshape(1, 1, 4), 1).item()
        1.5
    """
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input, output_size):
    """Averages over windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: an int or one for each dimension; None keeps a size.

    Returns:
        A tensor in which the last two dimensions become `output_size`.

    Raises:
        RuntimeError: another number of dimensions, or a negative size.

    Example:
        >>> F.adaptive_avg_pool2d(gradlib.arange(4.0).reshape(1, 1, 2, 2), 1).item()
        1.5
    """
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input, output_size):
    """Averages over windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: an int or one for each dimension; None keeps a size.

    Returns:
        A tensor in which the last three dimensions become `output_size`.

    Raises:
        RuntimeError: another number of dimensions, or a negative size.

    Example:
        >>> F.adaptive_avg_pool3d(gradlib.arange(8.0).reshape(1, 1, 2, 2, 2), 1).item()
        3.5
    """
    return _adaptive_avg(3, input, output_size)
