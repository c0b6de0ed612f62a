"""utils.tensorboard: what is written, TensorBoard reads back."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gradlib as torch

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.filterwarnings("ignore")  # of tensorboard's own modules


@pytest.fixture
def written(tmp_path):
    """A writer, and a function that closes it and reads a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from gradlib.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)

    def read(*below: str) -> EventAccumulator:
        writer.close()
        found = EventAccumulator(str(tmp_path.joinpath(*below)))
        found.Reload()
        return found

    yield writer, read
    writer.close()


def values(read, tag):
    from tensorboard.util.tensor_util import make_ndarray

    [event] = read().Tensors(tag)
    return make_ndarray(event.tensor_proto)


def test_scalars(written):
    writer, read = written
    for step in range(3):
        writer.add_scalar("loss", torch.tensor(step / 2), step, walltime=100 + step)
    writer.add_scalars("both", {"a": 1, "b": torch.tensor([2.0])}, torch.tensor(4))
    writer.add_scalar("new", np.float64(0.1), 1, new_style=True, double_precision=True)
    events = read().Scalars("loss")
    assert [(e.step, e.value, e.wall_time) for e in events] == [
        (0, 0, 100),
        (1, 0.5, 101),
        (2, 1, 102),
    ]
    assert read("both_b").Scalars("both")[0].value == 2
    assert values(read, "new") == 0.1
    for bad, error in (
        (torch.ones(2), AssertionError),
        ("x", ValueError),
        (None, NotImplementedError),
    ):
        with pytest.raises(error):
            writer.add_scalar("loss", bad)


def test_a_writer_goes_on_after_it_was_closed_and_purges(written, tmp_path):
    from gradlib.utils.tensorboard import SummaryWriter

    writer, read = written
    writer.add_scalar("x", 1, 1)
    writer.add_scalar("x", 2, 5)
    writer.close()
    with SummaryWriter(tmp_path, purge_step=4, filename_suffix=".more") as again:
        again.add_scalar("x", 3, 4)
    assert [(e.step, e.value) for e in read().Scalars("x")] == [(1, 1), (4, 3)]
    assert any(f.name.endswith(".more") for f in tmp_path.iterdir())


def test_histograms_count_all_values(written):
    writer, read = written
    x = torch.linspace(-2, 3, 1000)
    writer.add_histogram("h", x, 1)
    writer.add_histogram("few", x, 1, bins=64, max_bins=8)
    for tag in ("h", "few"):
        histogram = read().Histograms(tag)[0].histogram_value
        assert sum(histogram.bucket) == histogram.num == 1000
        assert (histogram.min, histogram.max) == (-2, 3)
        assert abs(histogram.sum_squares - (x.double() ** 2).sum().item()) < 1e-4
        assert len(histogram.bucket) == len(histogram.bucket_limit)
    assert len(histogram.bucket) == 9
    with pytest.raises(ValueError, match="no element"):
        writer.add_histogram("h", torch.empty(0))


def picture(read, tag):
    from PIL import Image

    [event] = read().Images(tag)
    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_images_in_all_orders_of_dimensions(written):
    writer, read = written
    x = torch.arange(60, dtype=torch.uint8).reshape(3, 4, 5)
    writer.add_image("chw", x)
    writer.add_image("hwc", x.permute(1, 2, 0), dataformats="HWC")
    writer.add_image("hw", x[0], dataformats="HW")
    writer.add_images("ten", x.expand(10, 3, 4, 5))
    writer.add_image("float", x / 255)
    writer.add_image_with_boxes("box", torch.zeros(3, 20, 20), torch.tensor([[4.0, 5, 12, 13]]))
    wanted = x.permute(1, 2, 0).numpy()
    for tag in ("chw", "hwc", "float"):
        assert np.abs(picture(read, tag).astype(int) - wanted).max() <= 1
    assert (picture(read, "hw") == x[0].numpy()[..., None]).all()
    ten = picture(read, "ten")
    assert ten.shape == (8, 40, 3) and (ten[4:, 5:10] == wanted).all() and not ten[4:, 10:].any()
    box = picture(read, "box")
    assert box[5, 4].tolist() == [255, 0, 0] and not box[9, 8].any()
    with pytest.raises(AssertionError, match="different"):
        writer.add_image("bad", x[0])


def test_figures(written):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    writer, read = written
    figure = pyplot.figure(figsize=(1, 1), dpi=50, facecolor="red")
    writer.add_figure("f", figure)
    assert (picture(read, "f") == [255, 0, 0]).all() and picture(read, "f").shape == (50, 50, 3)
    assert not pyplot.get_fignums()


def test_text_sound_and_tensors(written):
    writer, read = written
    writer.add_text("note", "*hello*", 2)
    writer.add_audio("sound", torch.linspace(-1, 1, 100), sample_rate=8000)
    writer.add_tensor("t", torch.tensor([[1.0, 2.0]]))
    writer.add_tensor("half", torch.tensor([1.5], dtype=torch.bfloat16))
    assert values(read, "note/text_summary").tolist() == [b"*hello*"]
    [sound] = read().Audio("sound")
    assert sound.sample_rate == 8000 and sound.length_frames == 100
    assert sound.encoded_audio_string[:4] == b"RIFF"
    assert values(read, "t").tolist() == [[1, 2]] and values(read, "half").tolist() == [1.5]


def test_precision_and_recall(written):
    writer, read = written
    labels, guesses = torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.4, 0.9, 0.6])
    writer.add_pr_curve("pr", labels, guesses, num_thresholds=3)
    right, wrong, not_wrong, missed, precision, recall = values(read, "pr").tolist()
    assert (right, wrong, not_wrong, missed) == ([2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2])
    assert precision == [0.5, 0.5, 0] and recall == [1, 0.5, 0]


def test_meshes_and_layouts(written):
    from tensorboard.plugins.custom_scalar import layout_pb2

    writer, read = written
    points = torch.arange(12.0).reshape(1, 4, 3)
    writer.add_mesh("body", points, faces=torch.tensor([[[0, 1, 2]]]), config_dict={"a": 1})
    writer.add_custom_scalars_marginchart(["v", "low", "high"], title="band")
    assert values(read, "body_VERTEX").tolist() == points.tolist()
    assert values(read, "body_FACE").tolist() == [[[0, 1, 2]]]
    layout = layout_pb2.Layout.FromString(values(read, "custom_scalars__config__").item())
    assert layout.category[0].chart[0].margin.series[0].lower == "low"


def test_hyperparameters(written):
    from tensorboard.plugins.hparams import metadata

    writer, read = written
    made = {"lr": 0.1, "bs": torch.tensor(4), "name": "x", "flag": True, "none": None}
    writer.add_hparams(made, {"acc": 0.5}, {"lr": [0.1, 0.2]}, run_name="run", global_step=7)
    found = read("run")
    assert (found.Scalars("acc")[0].step, found.Scalars("acc")[0].value) == (7, 0.5)
    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content).hparams
    assert start["lr"].number_value == 0.1 and start["bs"].number_value == 4
    assert start["name"].string_value == "x" and start["flag"].bool_value and "none" not in start
    content = found.summary_metadata["_hparams_/experiment"].plugin_data.content
    infos = metadata.parse_experiment_plugin_data(content).hparam_infos
    assert [v.number_value for v in infos[0].domain_discrete.values] == [0.1, 0.2]
    with pytest.raises(TypeError, match="same type"):
        writer.add_hparams({"lr": 0.1}, {}, {"lr": ["a"]})
    with pytest.raises(ValueError, match="one of int"):
        writer.add_hparams({"lr": [0.1]}, {})


def test_embeddings(written, tmp_path):
    writer, _ = written
    points = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    pictures = torch.zeros(2, 3, 5, 5)
    writer.add_embedding(points, ["a", "b"], pictures, 1, "one")
    writer.add_embedding(points, [["a", 1], ["b", 2]], metadata_header=["n", "v"], global_step=2)
    assert (tmp_path / "00001/one/tensors.tsv").read_text() == "1.0\t2.0\n3.0\t4.0\n"
    assert (tmp_path / "00002/default/metadata.tsv").read_text() == "n\tv\na\t1\nb\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and "single_image_dim: 5" in config
    assert (tmp_path / "00001/one/sprite.png").exists()
    with pytest.raises(AssertionError, match="labels"):
        writer.add_embedding(points, ["a"])


def test_what_cannot_be_drawn_is_named(written):
    writer, _ = written
    for name in ("add_graph", "add_onnx_graph", "add_video"):
        with pytest.raises(NotImplementedError, match=rf"SummaryWriter\.{name}"):
            getattr(writer, name)(*(["x"] if name == "add_onnx_graph" else ["x", torch.ones(1)]))
