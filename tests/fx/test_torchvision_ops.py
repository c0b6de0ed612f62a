"""The ops that stand in the place of torchvision's compiled library, against direct loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import gradcheck


@pytest.fixture(scope="module")
def vision():
    gl.ops.load_library("/anywhere/torchvision/_C.so")
    return gl.ops.torchvision


def test_other_libraries_are_refused():
    with pytest.raises(OSError, match="cannot load"):
        gl.ops.load_library("/anywhere/torchvision/image.so")


def greedy(boxes, scores, threshold):
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        for j in kept:
            w = min(boxes[i][2], boxes[j][2]) - max(boxes[i][0], boxes[j][0])
            h = min(boxes[i][3], boxes[j][3]) - max(boxes[i][1], boxes[j][1])
            both = max(w, 0) * max(h, 0)
            area = [(b[2] - b[0]) * (b[3] - b[1]) for b in (boxes[i], boxes[j])]
            if both / (sum(area) - both) > threshold:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_nms(vision, threshold):
    rng = np.random.default_rng(0)
    corner = rng.random((40, 2)) * 5
    boxes = np.concatenate([corner, corner + 0.5 + rng.random((40, 2)) * 4], 1)
    scores = rng.permutation(40) / 40
    kept = vision.nms(gl.tensor(boxes), gl.tensor(scores), threshold)
    assert kept.dtype is gl.int64 and kept.tolist() == greedy(boxes, scores, threshold)
    assert vision.nms(gl.zeros(0, 4), gl.zeros(0), threshold).tolist() == []


def test_nms_says_what_is_wrong(vision):
    for boxes, scores, text in (
        (gl.ones(4), gl.ones(1), "boxes should be a 2d tensor, got 1D"),
        (gl.ones(2, 3), gl.ones(2), "4 elements in dimension 1, got 3"),
        (gl.ones(2, 4), gl.ones(2, 1), "scores should be a 1d tensor, got 2D"),
        (gl.ones(2, 4), gl.ones(3), "got 2 and 3"),
    ):
        with pytest.raises(RuntimeError, match=text):
            vision.nms(boxes, scores, 0.5)


def at(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    low, left = min(int(y), height - 1), min(int(x), width - 1)
    y, x = min(y, low if low == height - 1 else y), min(x, left if left == width - 1 else x)
    below, right = min(low + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - low, x - left
    top = plane[low, left] * (1 - dx) + plane[low, right] * dx
    bottom = plane[below, left] * (1 - dx) + plane[below, right] * dx
    return top * (1 - dy) + bottom * dy


def pooled(maps, rois, scale, ph, pw, ratio, aligned):
    out = np.zeros((len(rois), maps.shape[1], ph, pw))
    for k, (which, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (c * scale - (0.5 if aligned else 0) for c in corners)
        high, wide = y2 - y1, x2 - x1
        if not aligned:
            high, wide = max(high, 1), max(wide, 1)
        rows = ratio if ratio > 0 else math.ceil(high / ph)
        columns = ratio if ratio > 0 else math.ceil(wide / pw)
        for c in range(maps.shape[1]):
            for i in range(ph):
                for j in range(pw):
                    samples = [
                        at(
                            maps[int(which), c],
                            y1 + (i + (a + 0.5) / rows) * high / ph,
                            x1 + (j + (b + 0.5) / columns) * wide / pw,
                        )
                        for a in range(rows)
                        for b in range(columns)
                    ]
                    out[k, c, i, j] = sum(samples) / max(len(samples), 1)
    return out


ROIS = [
    [1, 0, 0, 4, 5],
    [0, 1.5, 2.25, 7, 6.5],
    [1, -3, -2, 12, 3],
    [0, 3, 3, 3, 3],
    [0, 6, 5, 20, 20],
]


@pytest.mark.parametrize("ratio", [2, 1, -1])
@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(vision, ratio, aligned):
    maps = np.random.default_rng(1).standard_normal((2, 3, 7, 8))
    rois = np.array(ROIS, float)
    out = vision.roi_align(gl.tensor(maps), gl.tensor(rois), 0.8, 2, 3, ratio, aligned)
    assert np.allclose(out.numpy(), pooled(maps, rois, 0.8, 2, 3, ratio, aligned))


def test_roi_align_has_a_gradient_of_any_order(vision):
    maps = gl.randn(2, 2, 5, 6, dtype=gl.float64, requires_grad=True)
    rois = gl.tensor(ROIS, dtype=gl.float64)
    assert gradcheck(lambda x: vision.roi_align(x, rois, 0.7, 2, 2, 2, True) ** 2, maps)
    x = maps.detach().float().requires_grad_()
    vision.roi_align(x, rois.float(), 1.0, 2, 2, -1, False).sum().backward()
    assert x.grad is not None and x.grad.dtype is gl.float32
    assert vision.roi_align(maps, rois[:0], 1.0, 2, 2, -1, False).shape == (0, 2, 2, 2)


def test_roi_pool(vision):
    maps = np.random.default_rng(2).standard_normal((2, 2, 6, 6))
    rois = [[1, 0, 0, 4, 4], [0, 2, 1, 5, 5], [0, 7, 7, 9, 9]]
    x = gl.tensor(maps, requires_grad=True)
    out, where = vision.roi_pool(x, gl.tensor(rois, dtype=gl.float64), 1.0, 2, 2)
    for k, (which, x1, y1, x2, y2) in enumerate(rois):
        for i in range(2):
            for j in range(2):
                rows = slice(*(min(max(v, 0), 6) for v in (math.floor(i * (y2 - y1 + 1) / 2) + y1, math.ceil((i + 1) * (y2 - y1 + 1) / 2) + y1)))  # fmt: skip  # noqa: E501
                columns = slice(*(min(max(v, 0), 6) for v in (math.floor(j * (x2 - x1 + 1) / 2) + x1, math.ceil((j + 1) * (x2 - x1 + 1) / 2) + x1)))  # fmt: skip  # noqa: E501
                part = maps[which, :, rows, columns]
                expected = part.max((1, 2)) if part.size else np.zeros(2)
                assert np.allclose(out.detach().numpy()[k, :, i, j], expected)
    out.sum().backward()
    assert where[2].eq(-1).all() and x.grad is not None and x.grad.sum().item() == 2 * 2 * 4


def test_the_others_say_that_they_are_missing(vision):
    with pytest.raises(
        NotImplementedError, match=r"torchvision::ps_roi_align is in a compiled library"
    ):
        vision.ps_roi_align(gl.ones(1, 4, 4, 4), gl.ones(1, 5), 1.0, 2, 2, 2)


def test_kernels_for_autocast(vision):
    library = gl.library.Library("mine_for_autocast", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    keys = gl._C.DispatchKeySet(gl._C.DispatchKey.AutocastCPU)  # type: ignore[attr-defined]

    def cast(x):
        with gl._C._ExcludeDispatchKeyGuard(keys):
            assert not gl.is_autocast_enabled("cpu")
            return gl.ops.mine_for_autocast.twice(x.bfloat16())

    library.impl("twice", cast, "AutocastCPU")
    assert gl.ops.mine_for_autocast.twice(gl.ones(2)).dtype is gl.float32
    with gl.autocast("cpu"):
        assert gl.ops.mine_for_autocast.twice(gl.ones(2)).dtype is gl.bfloat16
        assert gl.is_autocast_enabled("cpu")
    with pytest.raises(NotImplementedError, match="no dispatcher"):
        gl._C._ExcludeDispatchKeyGuard(gl._C.DispatchKeySet(gl._C.DispatchKey.CPU))
