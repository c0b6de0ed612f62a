"""SummaryWriter: numbers, pictures and texts of a training into a folder that TensorBoard shows."""

# pyright: reportAttributeAccessIssue=false
# protobuf makes its classes at run time
from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary

from ..._refused import refuse
from . import summary
from ._arrays import as_array, figure_pixels
from ._embedding import write_points
from ._events import FileWriter

__all__ = ["FileWriter", "SummaryWriter"]
__getattr__ = refuse(__name__)

_NO_GRAPH = (
    "gradlib has no utils.tensorboard.SummaryWriter.{}: there is no graph of a module to draw. "
    "gradlib.autograd.explain and the profiler's page show what a backward pass runs."
)


class SummaryWriter:
    """Writes what TensorBoard shows: ``tensorboard --logdir runs``.

    All ``add_`` methods take a tag, `global_step` (the number of a step) and `walltime` (seconds since 1970). Values
    are tensors on any device, NumPy arrays or numbers.

    Args:
        log_dir: the folder; by default ``runs/<date>_<host><comment>``.
        comment: end of the default folder's name.
        purge_step: what an earlier run has written from this step on is not shown.
        max_queue: see `FileWriter`.
        flush_secs: see `FileWriter`.
        filename_suffix: see `FileWriter`.

    Example::

        with SummaryWriter() as writer:
            for step, batch in enumerate(batches):
                writer.add_scalar("loss", train(batch), step)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.all_writers: dict[Any, FileWriter] = {}
        self._writer(log_dir)

    def _writer(self, folder: Any) -> FileWriter:
        """The file of a folder, opened now if it is not open."""
        found = self.all_writers.get(folder)
        if found is None:
            found = self.all_writers[folder] = FileWriter(folder, *self._options)
            if self.purge_step is not None and folder == self.log_dir:
                step = self.purge_step
                found.add_event(Event(step=step, file_version="brain.Event:2"))
                found.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return found

    @property
    def file_writer(self) -> FileWriter:
        """The file of the writer's own folder.

        It is opened now if it is closed.
        """
        return self._writer(self.log_dir)

    def get_logdir(self) -> Any:
        """The folder.

        As it was given, or made up.
        """
        return self.log_dir

    def _add(self, made: Summary, global_step: Any, walltime: float | None) -> None:
        self.file_writer.add_summary(made, global_step, walltime)

    # -- numbers -----------------------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number.

        The arguments are those of `summary.scalar`.
        """
        made = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add several numbers of one chart, each in a folder of its own.

        Args:
            main_tag: the chart.
            tag_scalar_dict: name -> number.
            global_step: number of the step.
            walltime: seconds since 1970.
        """
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(str(self.log_dir), f"{main_tag.replace('/', '_')}_{tag}")
            made = summary.scalar(main_tag, value)
            self._writer(folder).add_summary(made, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add all elements of a tensor.

        The arguments are those of `summary.tensor_proto`.
        """
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add how often values fall into buckets.

        The arguments are those of `summary.histogram`.
        """
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that was counted already; see `summary.histogram_raw`.

        Raises:
            ValueError: not as many limits as counts.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(made, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add precision and recall of a classifier.

        The arguments are those of `summary.pr_curve`.
        """
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve that was computed already.

        The arguments are those of `summary.pr_curve_raw`.
        """
        made = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
            weights,
        )
        self._add(made, global_step, walltime)

    # -- pictures, sound, text ---------------------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture.

        The arguments are those of `summary.image`.
        """
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add several pictures as one, eight in a row.

        The arguments are those of `summary.image`.
        """
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:
        """Add a picture with boxes on it.

        The arguments are those of `summary.image_boxes`.
        """
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a figure of matplotlib, or a list of figures of one size.

        Args:
            tag: its tag.
            figure: the figure.
            global_step: number of the step.
            close: whether it is closed then.
            walltime: seconds since 1970.
        """
        figures = figure if isinstance(figure, list) else [figure]
        pixels = [figure_pixels(f) for f in figures]
        if close:
            from matplotlib import pyplot  # optional

            for f in figures:
                pyplot.close(f)
        if isinstance(figure, list):
            self.add_images(tag, np.stack(pixels), global_step, walltime)
        else:
            self.add_image(tag, pixels[0], global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add sound.

        The arguments are those of `summary.audio`.
        """
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add a text in Markdown.

        The arguments are those of `summary.text`.
        """
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add bodies or clouds of points.

        The arguments are those of `summary.mesh`.
        """
        made = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(made, global_step, walltime)

    # -- pages of TensorBoard ----------------------------------------------------------------------------------------

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add what a run was made with and the figures that it has reached, in a folder of its own.

        Args:
            hparam_dict: name -> bool, string, number or tensor of one element.
            metric_dict: name -> number.
            hparam_domain_discrete: name -> the values that there are.
            run_name: the folder below the writer's; by default the time.
            global_step: number of the step.

        Raises:
            TypeError: the first two are no dicts, or a domain has values of another type.
            ValueError: a value of another type.
        """
        pages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(str(self.log_dir), run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for page in pages:
                run._add(page, global_step, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Add charts of several scalars; see `summary.custom_scalars`.

        Once a run: TensorBoard takes the last.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Add a chart with a line for each tag.

        Args:
            tags: of scalars.
            category: the section that it is in.
            title: of the chart.
        """
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Add a chart with a line between two others.

        Args:
            tags: of the value, its lower and its upper bound.
            category: the section that it is in.
            title: of the chart.
        """
        assert len(tags) == 3
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Add points for TensorBoard's projector.

        Args:
            mat: a row for each point [n, features].
            metadata: a label for each, or several with `metadata_header`.
            label_img: a square picture for each [n, channels, side, side].
            global_step: number of the step.
            tag: the name of the cloud.
            metadata_header: the names of the columns of `metadata`.

        Raises:
            AssertionError: not as many labels or pictures as points.
        """
        step, images = int(global_step or 0), label_img
        write_points(str(self.log_dir), as_array(mat), metadata, images, step, tag, metadata_header)

    # -- what cannot be drawn ----------------------------------------------------------------------------------------

    def add_graph(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(_NO_GRAPH.format("add_graph"))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(_NO_GRAPH.format("add_onnx_graph"))

    def add_video(self, tag: str, vid_tensor: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "gradlib has no utils.tensorboard.SummaryWriter.add_video: add its frames with add_images"
        )

    # -- the file ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what waits to the files.

        Returns when it is there.
        """
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files.

        What is added later goes to new ones.
        """
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.all_writers = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
