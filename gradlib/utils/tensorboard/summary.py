"""Values as TensorBoard's protocol buffers: a `Summary` for each kind."""

# pyright: reportAttributeAccessIssue=false
# protobuf makes its classes at run time
from __future__ import annotations

import io
import json
import wave
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData
from tensorboard.util.tensor_util import make_tensor_proto

from ..._refused import refuse
from ...tape.tensor import Tensor
from ._arrays import as_array, as_number, encoded, to_bytes, to_hwc

__all__ = [
    "audio",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
]
__getattr__ = refuse(__name__)

_LEAST = 1e-7  # a count of less is none: precision and recall divide by it


def _one(tag: str, **value: Any) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, **value)])


def _of_plugin(plugin: str, content: bytes = b"") -> SummaryMetadata:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def _shape(shape: tuple[int, ...]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in shape])


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Summary:
    """A number.

    Args:
        name: its tag.
        tensor: a number, or a tensor or array of one element.
        collections: not used.
        new_style: as a tensor, which newer versions of TensorBoard read faster.
        double_precision: in float64, with `new_style`.

    Raises:
        AssertionError: there are more elements.
    """
    number = as_number(tensor)
    if not new_style:
        return _one(name, simple_value=number)
    kind = {"double_val": [number], "dtype": "DT_DOUBLE"}
    if not double_precision:
        kind = {"float_val": [number], "dtype": "DT_FLOAT"}
    return _one(name, tensor=TensorProto(**kind), metadata=_of_plugin("scalars"))


def tensor_proto(tag: str, tensor: Any) -> Summary:
    """All elements of a tensor.

    Args:
        tag: its tag.
        tensor: a tensor or array; bfloat16 is written as float32.
    """
    array = as_array(tensor)
    return _one(tag, tensor=make_tensor_proto(array), metadata=_of_plugin("tensor"))


# -- distributions ---------------------------------------------------------------------------------------------------


def _exponential_edges() -> np.ndarray:
    """TensorFlow's buckets: each a tenth wider than the one before, from 1e-12 to 1e20 on both sides of 0."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return np.array([*(-e for e in reversed(edges)), 0, *edges])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """How often values fall into buckets.

    Args:
        name: its tag.
        values: a tensor or array of any shape.
        bins: "tensorflow", or what `numpy.histogram` takes.
        max_bins: buckets are joined until there are no more than about that many.

    Raises:
        ValueError: there are no values.
    """
    flat = as_array(values).reshape(-1)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    flat = flat.astype(float)
    counts, limits = np.histogram(flat, _exponential_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and counts.size > max_bins:
        step = counts.size // max_bins
        counts = np.pad(counts, (0, -counts.size % step)).reshape(-1, step).sum(-1)
        limits = np.append(limits[:-1:step], limits[-1])
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1]) if filled.size else (0, 0)
    return histogram_raw(  # a bucket counts what is up to its limit: an empty one goes before
        name,
        flat.min(),
        flat.max(),
        flat.size,
        flat.sum(),
        flat.dot(flat),
        limits[first : last + 2].tolist(),
        [0, *counts[first : last + 1].tolist()],
    )


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Summary:
    """A histogram that was counted already.

    Args:
        name: its tag.
        min: the least value.
        max: the greatest value.
        num: how many there are.
        sum: their sum.
        sum_squares: that of their squares.
        bucket_limits: the upper edges of buckets.
        bucket_counts: how many values are in each.
    """
    made = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _one(name, histo=made)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Summary:
    """Precision and recall of a classifier at thresholds from 0 to 1.

    Args:
        tag: its tag.
        labels: 0 or 1 for each sample.
        predictions: from 0 to 1 for each.
        num_thresholds: 127 at most.
        weights: of the samples.
    """
    n = min(num_thresholds, 127)
    truth, guess = as_array(labels).reshape(-1), as_array(predictions).reshape(-1)
    weight = np.ones(guess.shape) if weights is None else as_array(weights).reshape(-1)
    place = np.floor(guess * (n - 1)).astype(np.int64)
    # at each threshold all that is above it counts
    right = np.bincount(place, weight * truth, n)[::-1].cumsum()[::-1]
    wrong = np.bincount(place, weight * (1 - truth), n)[::-1].cumsum()[::-1]
    precision = right / np.maximum(_LEAST, right + wrong)
    recall = right / np.maximum(_LEAST, right[0])
    rows = (right, wrong, wrong[0] - wrong, right[0] - right, precision, recall)
    return pr_curve_raw(tag, *rows, num_thresholds=n)


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Summary:
    """A precision-recall curve that was computed already.

    Args:
        tag: its tag.
        tp: true positives at each threshold.
        fp: false positives.
        tn: true negatives.
        fn: false negatives.
        precision: at each threshold.
        recall: at each threshold.
        num_thresholds: 127 at most.
        weights: not used.
    """
    n = min(num_thresholds, 127)
    data = np.stack([as_array(a) for a in (tp, fp, tn, fn, precision, recall)])
    content = PrCurvePluginData(version=0, num_thresholds=n).SerializeToString()
    made = TensorProto(
        dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape)
    )
    return _one(tag, tensor=made, metadata=_of_plugin("pr_curves", content))


# -- pictures, sound, text -------------------------------------------------------------------------------------------


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """A picture, or several side by side.

    Args:
        tag: its tag.
        tensor: bytes, or numbers from 0 to 1.
        rescale: factor of its size.
        dataformats: the letters of its dimensions.
    """
    picture = to_bytes(to_hwc(as_array(tensor), dataformats))
    return _one(tag, image=encoded(picture, rescale))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: list[str] | None = None,
) -> Summary:
    """A picture with boxes on it.

    Args:
        tag: its tag.
        tensor_image: bytes, or numbers from 0 to 1.
        tensor_boxes: [n, 4]: left, top, right, bottom.
        rescale: factor of its size.
        dataformats: the letters of its dimensions.
        labels: a text for each box.
    """
    picture = to_bytes(to_hwc(as_array(tensor_image), dataformats))
    return _one(tag, image=encoded(picture, rescale, as_array(tensor_boxes), labels))


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Summary:
    """Sound, as a WAV file.

    Args:
        tag: its tag.
        tensor: samples from -1 to 1 [n], or [1, n].
        sample_rate: samples a second.
    """
    samples = as_array(tensor).squeeze()
    assert samples.ndim == 1, "input tensor should be 1 dimensional."
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=samples.size,
        encoded_audio_string=content.getvalue(),
        content_type="audio/wav",
    )
    return _one(tag, audio=made)


def text(tag: str, text: str) -> Summary:
    """A text, in Markdown.

    Args:
        tag: its tag.
        text: the text.
    """
    made = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape((1,)))
    metadata = _of_plugin("text", TextPluginData(version=0).SerializeToString())
    return _one(f"{tag}/text_summary", tensor=made, metadata=metadata)


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: dict[str, Any] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Summary:
    """Bodies and clouds of points.

    Args:
        tag: its tag.
        vertices: [batch, n, 3].
        colors: bytes [batch, n, 3], or None.
        faces: indices of vertices [batch, m, 3], or None.
        config_dict: settings of three.js.
        display_name: another name for people.
        description: in Markdown.
    """
    kinds = MeshPluginData.ContentType
    given = ((vertices, kinds.VERTEX), (faces, kinds.FACE), (colors, kinds.COLOR))
    parts = [(as_array(value), kind) for value, kind in given if value is not None]
    mask = mesh_metadata.get_components_bitmask([kind for _, kind in parts])
    values = []
    for array, kind in parts:
        metadata = mesh_metadata.create_summary_metadata(
            tag,
            display_name,
            kind,
            mask,
            array.shape,
            description,
            json_config=json.dumps(config_dict or {}, sort_keys=True),
        )
        made = TensorProto(  # TensorBoard reads indices and colours as numbers, too
            dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shape(array.shape)
        )
        name = mesh_metadata.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=made, metadata=metadata))
    return Summary(value=values)


# -- pages of TensorBoard --------------------------------------------------------------------------------------------


def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> Summary:
    """Charts of several scalars.

    Args:
        layout: category -> chart -> ["Multiline", tags], or ["Margin", [value, lower, upper]].
    """
    made = layout_pb2.Layout()
    for category, charts in layout.items():
        page = made.category.add(title=category)
        for title, (kind, tags) in charts.items():
            chart = page.chart.add(title=title)
            if kind == "Margin":
                assert len(tags) == 3
                value, lower, upper = tags
                chart.margin.series.add(value=value, lower=lower, upper=upper)
            else:
                chart.multiline.tag.extend(tags)
    content = TensorProto(
        dtype="DT_STRING", string_val=[made.SerializeToString()], tensor_shape=_shape(())
    )
    return _one("custom_scalars__config__", tensor=content, metadata=_of_plugin("custom_scalars"))


_TYPES = ((bool, "bool_value", api_pb2.DATA_TYPE_BOOL), (str, "string_value", api_pb2.DATA_TYPE_STRING),
          (int | float, "number_value", api_pb2.DATA_TYPE_FLOAT64))  # fmt: skip


def hparams(
    hparam_dict: dict[str, Any],
    metric_dict: dict[str, Any],
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """What a run was made with: three summaries, of the experiment, of its start and of its end.

    Args:
        hparam_dict: name -> bool, string, number or tensor of one element.
        metric_dict: name -> figure of the run; the names are noted here.
        hparam_domain_discrete: name -> the values that there are.

    Raises:
        TypeError: the first two are no dicts, or a domain has values of another type.
        ValueError: a value of another type.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    domains = hparam_domain_discrete or {}
    for name, values in domains.items():
        kind = type(hparam_dict.get(name))
        if (
            name not in hparam_dict
            or not isinstance(values, list)
            or not all(isinstance(v, kind) for v in values)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for name, given in hparam_dict.items():
        if given is None:
            continue
        value = as_number(given) if isinstance(given, Tensor) else given
        form = next(((f, t) for kind, f, t in _TYPES if isinstance(value, kind)), None)
        if form is None:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        field, data_type = form
        setattr(start.hparams[name], field, value)
        info = api_pb2.HParamInfo(name=name, type=data_type)
        for v in domains.get(name, ()):
            setattr(info.domain_discrete.values.add(), field, v)
        infos.append(info)
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)

    def page(tag: str, **data: Any) -> Summary:
        content = plugin_data_pb2.HParamsPluginData(
            version=hparams_metadata.PLUGIN_DATA_VERSION, **data
        )
        metadata = _of_plugin(hparams_metadata.PLUGIN_NAME, content.SerializeToString())
        return _one(tag, metadata=metadata)

    return (
        page(hparams_metadata.EXPERIMENT_TAG, experiment=experiment),
        page(hparams_metadata.SESSION_START_INFO_TAG, session_start_info=start),
        page(hparams_metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )
