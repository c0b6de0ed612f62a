"""The ops that torchvision has in a compiled library: `nms`, `roi_align` and `roi_pool`, made of ops of gradlib.

torchvision loads its library when it is imported; `load_library` imports this in its place. The other ops of the
library are there by name, and say on use that they are missing. Their signatures are torchvision's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..operators import public
from ..tape.arrays import to_host
from ..tape.tensor import Tensor
from ._custom import define
from ._schema import parse

_AT_ONCE = 1 << 22  # elements of what lies between the two products of roi_align


def _boxes(name: str, boxes: Tensor, scores: Tensor) -> None:
    if boxes.ndim != 2:
        raise RuntimeError(f"{name}: boxes should be a 2d tensor, got {boxes.ndim}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(
            f"{name}: boxes should have 4 elements in dimension 1, got {boxes.shape[1]}"
        )
    if scores.ndim != 1:
        raise RuntimeError(f"{name}: scores should be a 1d tensor, got {scores.ndim}D")
    if boxes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            f"{name}: boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and "
            f"{scores.shape[0]}"
        )


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Boxes from the highest score down, without those that overlap a kept one by more than the threshold.

    Args:
        dets: boxes [n, 4] as (x1, y1, x2, y2).
        scores: [n].
        iou_threshold: area of the intersection over that of the union.

    Returns:
        The places of the boxes that are kept, int64 [at most n].
    """
    _boxes("nms", dets, scores)
    boxes = to_host(dets.detach()._array)
    if boxes.dtype.itemsize == 2:
        boxes = boxes.astype(np.float32)
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    order = np.argsort(-to_host(scores.detach()._array).astype(np.float64), kind="stable")
    kept = []
    while order.size:
        first, order = order[0], order[1:]
        kept.append(first)
        wide = np.minimum(x2[first], x2[order]) - np.maximum(x1[first], x1[order])
        high = np.minimum(y2[first], y2[order]) - np.maximum(y1[first], y1[order])
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        with np.errstate(divide="ignore", invalid="ignore"):  # boxes without area
            over = shared / (areas[first] + areas[order] - shared) > iou_threshold
        order = order[~over]
    return public.tensor(np.array(kept, np.int64), device=dets.device)


# -- pooling regions ---------------------------------------------------------------------------------------------------


def _regions(name: str, input: Tensor, rois: Tensor) -> np.ndarray:
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"{name}: rois must have shape as Tensor[K, 5]")
    if input.dtype is not rois.dtype:
        raise RuntimeError(
            f"{name}: Expected tensor for input to have the same type as tensor for rois; but type {input.dtype} does "
            f"not equal {rois.dtype}"
        )
    return to_host(rois.detach()._array).astype(np.float64)


def _weights(starts: Any, sizes: Any, bins: int, samples: Any, length: int) -> np.ndarray:
    """How much each line of a map counts in each bin: [regions, bins, length].

    A bin is the mean of samples at the centres of equal parts, and a sample lies between two lines; one more than a
    line outside counts as 0.
    """
    weights = np.zeros((len(starts), bins, length))
    for k, (start, size, n) in enumerate(zip(starts, sizes, samples, strict=True)):
        at = start + (np.arange(bins * n) + 0.5) * (size / (bins * n))
        inside = (at >= -1) & (at <= length)
        at = np.clip(at, 0, length - 1)
        low = np.minimum(at.astype(np.int64), length - 1)
        high = np.minimum(low + 1, length - 1)
        bin_of = np.repeat(np.arange(bins), n)
        share = np.where(inside, at - low, 0.0)
        np.add.at(weights[k], (bin_of, low), np.where(inside, 1 - (at - low), 0.0) / n)
        np.add.at(weights[k], (bin_of, high), share / n)
    return weights


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """The mean of bilinear samples in each bin of regions of maps.

    The samples lie on a grid, so a region is a product of two matrices with the map, and its gradient is as well.

    Args:
        input: maps [n, channels, height, width].
        rois: [k, 5]: which map, and (x1, y1, x2, y2).
        spatial_scale: from the coordinates of `rois` to those of the maps.
        pooled_height, pooled_width: bins.
        sampling_ratio: samples along each side of a bin; if not above 0, about one for each element.
        aligned: whether pixels have their centres at the halves.

    Returns:
        [k, channels, pooled_height, pooled_width].
    """
    regions = _regions("roi_align", input, rois)
    _, channels, height, width = input.shape
    offset = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = regions[:, 1:].T * spatial_scale - offset
    wide, high = x2 - x1, y2 - y1
    if not aligned:  # regions have at least one element
        wide, high = np.maximum(wide, 1.0), np.maximum(high, 1.0)

    def side(starts: Any, sizes: Any, bins: int, length: int) -> Tensor:
        n = np.full(len(sizes), sampling_ratio)
        if sampling_ratio <= 0:
            n = np.maximum(np.ceil(sizes / bins), 1).astype(np.int64)
        weights = _weights(starts, sizes, bins, n, length)
        return public.tensor(weights).to(input.dtype).to(input.device)

    rows, columns = side(y1, high, pooled_height, height), side(x1, wide, pooled_width, width)
    if sampling_ratio <= 0:  # a region without size has no samples
        empty = (high <= 0) | (wide <= 0)
        rows = rows * public.tensor(~empty).to(input.dtype).to(input.device).reshape(-1, 1, 1)
    parts, places = [], []
    step = max(1, _AT_ONCE // max(1, pooled_height * channels * width))
    for which in np.unique(regions[:, 0]):
        chosen = np.flatnonzero(regions[:, 0] == which)
        for at in range(0, len(chosen), step):
            some = chosen[at : at + step]
            picked = public.tensor(some, device=input.device)
            lines = public.matmul(
                rows[picked].unsqueeze(1), input[int(which)]
            )  # [k, channels, bins, width]
            parts.append(public.matmul(lines, columns[picked].mT.unsqueeze(1)))
            places.append(some)
    if not parts:
        return input.new_zeros(0, channels, pooled_height, pooled_width)
    back = np.argsort(np.concatenate(places), kind="stable")
    return public.cat(parts)[public.tensor(back, device=input.device)]


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest element in each bin of regions of maps.

    Args:
        input: maps [n, channels, height, width].
        rois: [k, 5]: which map, and (x1, y1, x2, y2), inclusive.
        spatial_scale: from the coordinates of `rois` to those of the maps.
        pooled_height, pooled_width: bins.

    Returns:
        [k, channels, pooled_height, pooled_width], and where in the map each came from (-1: an empty bin, which is 0).
    """
    regions = _regions("roi_pool", input, rois)
    maps = to_host(input.detach()._array)
    _, channels, height, width = maps.shape
    found = np.full((len(regions), channels, pooled_height, pooled_width), -1, np.int64)
    for k, (which, *corners) in enumerate(regions):
        x1, y1, x2, y2 = (math.floor(c * spatial_scale + 0.5) for c in corners)
        ys = _bins(y1, y2, pooled_height, height)
        xs = _bins(x1, x2, pooled_width, width)
        for i, (top, bottom) in enumerate(ys):
            for j, (left, right) in enumerate(xs):
                if top >= bottom or left >= right:
                    continue
                part = maps[int(which), :, top:bottom, left:right]
                best = part.reshape(channels, -1).argmax(1)
                row, column = np.divmod(best, right - left)
                found[k, :, i, j] = (top + row) * width + left + column
    argmax = public.tensor(found, device=input.device)
    which = public.tensor(regions[:, 0].astype(np.int64), device=input.device)
    flat = input.flatten(2)[which]
    values = flat.gather(2, argmax.clamp(min=0).flatten(2)).reshape(argmax.shape)
    return values.masked_fill(argmax < 0, 0), argmax.to(public.tensor(0).int().dtype)


def _bins(start: int, end: int, bins: int, length: int) -> list[tuple[int, int]]:
    size = max(end - start + 1, 1) / bins
    edges = [(math.floor(i * size) + start, math.ceil((i + 1) * size) + start) for i in range(bins)]
    return [(min(max(a, 0), length), min(max(b, 0), length)) for a, b in edges]


# -- names -------------------------------------------------------------------------------------------------------------


def _cuda_version() -> int:
    """No CUDA library was loaded."""
    return -1


_ROIS = "Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width"
_THERE: dict[str, Callable[..., Any]] = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms,
    f"roi_align({_ROIS}, int sampling_ratio, bool aligned) -> Tensor": roi_align,
    f"roi_pool({_ROIS}) -> (Tensor, Tensor)": roi_pool,
    "_cuda_version() -> int": _cuda_version,
}
_BACK = "Tensor grad, Tensor rois"
_MISSING = [
    f"_roi_align_backward({_BACK}) -> Tensor",
    f"_roi_pool_backward({_BACK}) -> Tensor",
    f"ps_roi_align({_ROIS}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward({_BACK}) -> Tensor",
    f"ps_roi_pool({_ROIS}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward({_BACK}) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, int stride_w, "
    "int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input) -> Tensor",
]


def _absent(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torchvision::{name} is in a compiled library that gradlib cannot load; nms, roi_align and roi_pool are "
            "there. Compute it with ops of gradlib, or give it a kernel with "
            f"gradlib.library.register_kernel('torchvision::{name}', 'cpu', fn)."
        )

    return refuse


def _define() -> None:
    for text, run in _THERE.items():
        define(parse(text), "torchvision").kernels["composite"] = run
    for text in _MISSING:
        op = define(parse(text), "torchvision")
        op.kernels["default"] = _absent(text.partition("(")[0])


_define()
