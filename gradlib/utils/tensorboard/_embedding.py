"""Points for TensorBoard's projector: tables and pictures in the folder, and a file that lists them."""

# pyright: reportAttributeAccessIssue=false
# protobuf makes its classes at run time
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import text_format
from PIL import Image
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from ._arrays import as_array, grid, to_bytes


def write_points(
    log_dir: str,
    points: np.ndarray,
    metadata: Sequence[Any] | None,
    pictures: Any,
    step: int,
    tag: str,
    metadata_header: Sequence[str] | None,
) -> None:
    """See `SummaryWriter.add_embedding`."""
    assert points.ndim == 2, "mat should be 2D, where mat.size(0) is the number of data points"
    name = f"{step:05d}"
    below = f"{name}/{tag}"
    folder = os.path.join(log_dir, name, tag)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(log_dir, "projector_config.pbtxt")
    config = ProjectorConfig()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text_format.Parse(file.read(), config)
    entry = config.embeddings.add(tensor_name=f"{tag}:{name}")
    if metadata is not None:
        assert len(points) == len(metadata), "#labels should equal with #data points"
        entry.metadata_path = f"{below}/metadata.tsv"
        rows = [str(row) for row in metadata]
        if metadata_header is not None:
            rows = ["\t".join(map(str, row)) for row in (metadata_header, *metadata)]
        _write_lines(os.path.join(folder, "metadata.tsv"), rows)
    if pictures is not None:
        pictures = as_array(pictures)
        assert len(pictures) == len(points), "#images should equal with #data points"
        assert pictures.shape[2] == pictures.shape[3], (
            "Image should be square, see tensorflow/tensorboard#670"
        )
        columns = int(np.ceil(len(pictures) ** 0.5))
        sheet = np.zeros((columns**2, *pictures.shape[1:]), pictures.dtype)
        sheet[: len(pictures)] = pictures
        sprite = to_bytes(grid(sheet, columns).transpose(1, 2, 0))
        Image.fromarray(sprite).save(os.path.join(folder, "sprite.png"))
        entry.sprite.image_path = f"{below}/sprite.png"
        entry.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    entry.tensor_path = f"{below}/tensors.tsv"
    rows = ["\t".join(map(str, row)) for row in points.tolist()]
    _write_lines(os.path.join(folder, "tensors.tsv"), rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text_format.MessageToString(config))


def _write_lines(path: str, lines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
