"""What a user gives to a summary, as arrays and as pictures."""

# pyright: reportAttributeAccessIssue=false
# protobuf makes its classes at run time
from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from tensorboard.compat.proto.summary_pb2 import Summary

from ...tape.arrays import to_host
from ...tape.tensor import Tensor

_SPELLED = "Tensor should contain one element (0 dimensions). Was given size: {} and {} dimensions."


def as_array(value: Any) -> np.ndarray:
    """A tensor, an array, a list or a number as an array on the host; bfloat16 as float32.

    Raises:
        NotImplementedError: something else.
    """
    if isinstance(value, Tensor):
        array = to_host(value.detach().resolve_conj().resolve_neg()._array)
    elif isinstance(value, np.ndarray | list):
        array = np.asarray(value)
    elif isinstance(value, bool | int | float | complex | np.generic):
        array = np.array([value])
    else:
        raise NotImplementedError(
            f"Got {type(value)}, but numpy array or torch tensor are expected."
        )
    return (
        array.astype(np.float32)
        if array.dtype.kind == "V" or "float16" in str(array.dtype)
        else array
    )


def as_number(value: Any) -> float:
    """A number, or the only element of a tensor or array.

    Raises:
        AssertionError: there are more.
    """
    array = as_array(float(value) if isinstance(value, str) else value)
    array = array.squeeze()
    assert array.ndim == 0, _SPELLED.format(array.size, array.ndim)
    return float(array)


# -- pictures --------------------------------------------------------------------------------------------------------


def grid(pictures: np.ndarray, columns: int = 8) -> np.ndarray:
    """Pictures [n, 1 or 3, height, width] as one [3, ...], in rows of `columns`."""
    n, channels, height, width = pictures.shape
    assert channels in (1, 3)
    columns = min(n, columns)
    rows = -(-n // columns)
    sheet = np.zeros((rows * columns, 3, height, width), pictures.dtype)
    sheet[:n] = pictures
    sheet = sheet.reshape(rows, columns, 3, height, width).transpose(2, 0, 3, 1, 4)
    return sheet.reshape(3, rows * height, columns * width)


def to_hwc(array: np.ndarray, form: str) -> np.ndarray:
    """A picture as [height, width, 3], several side by side.

    Args:
        array: of any order of dimensions.
        form: the letters of its dimensions: N (pictures), C, H, W.

    Raises:
        AssertionError: the form has other dimensions, or a letter twice.
    """
    assert len(set(form)) == len(form), (
        f"You can not use the same dimension shordhand twice. input_format: {form}"
    )
    assert array.ndim == len(form), (
        "size of input tensor and input format are different. "
        f"tensor shape: {array.shape}, input_format: {form}"
    )
    letters = form.upper()
    if "N" in letters:
        return grid(array.transpose([letters.index(c) for c in "NCHW"])).transpose(1, 2, 0)
    if "C" not in letters:
        array, letters = array[..., None], letters + "C"
    picture = array.transpose([letters.index(c) for c in "HWC"])
    return np.concatenate([picture] * 3, 2) if picture.shape[2] == 1 else picture


def to_bytes(picture: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 as bytes; bytes as they are."""
    if picture.dtype == np.uint8:
        return picture
    return (picture.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


def encoded(
    picture: np.ndarray,
    rescale: float = 1,
    boxes: np.ndarray | None = None,
    labels: Sequence[str] | None = None,
) -> Summary.Image:
    """A picture [height, width, channels] of bytes as a PNG file, with boxes [n, 4] (x, y, x, y) drawn on it."""
    height, width, channels = picture.shape
    image = Image.fromarray(picture)
    if boxes is not None:
        drawing = ImageDraw.Draw(image)
        for i, (left, top, right, bottom) in enumerate(boxes.tolist()):
            drawing.line(
                [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)],
                width=2,
                fill="Red",
            )
            if labels is not None:
                drawing.rectangle(
                    [(left, bottom - 11), (left + 6 * len(labels[i]), bottom)], fill="Red"
                )
                drawing.text((left + 1, bottom - 11), labels[i], fill="Black")
    if rescale != 1:
        image = image.resize(
            (int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS
        )
    file = io.BytesIO()
    image.save(file, format="PNG")
    return Summary.Image(
        height=image.height,
        width=image.width,
        colorspace=channels,
        encoded_image_string=file.getvalue(),
    )


def figure_pixels(figure: Any) -> np.ndarray:
    """A figure of matplotlib as [3, height, width]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # optional

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
