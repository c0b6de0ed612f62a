"""The safetensors format: values, text, errors; the oracle is the package of that name."""

import json
import struct

import numpy as np
import pytest

import gradlib
from gradlib import safetensors
from gradlib.serialization import CheckpointError

NAMES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64"
).split()


def file_of(header, data=b""):
    """A file written by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_every_dtype_keeps_its_values(tmp_path, name, shape):
    t = gradlib.ones(shape, dtype=gradlib.tape.dtypes.by_name(name))
    path = tmp_path / "x.safetensors"
    safetensors.save_file({"a": t, "b": gradlib.arange(3)}, path, {"note": "text"})
    out = safetensors.load_file(path)
    assert list(out) == sorted(out, key=lambda key: (-out[key].dtype.itemsize, key))
    assert out["a"].dtype is t.dtype
    assert out["a"].shape == t.shape
    assert out["a"].tolist() == t.tolist()
    assert out["b"].tolist() == [0, 1, 2]
    assert safetensors.load_metadata(path) == {"note": "text"}


def test_bytes_and_non_contiguous_tensors():
    t = gradlib.arange(6).reshape(2, 3).t()
    out = safetensors.load(safetensors.save({"t": t}))
    assert out["t"].tolist() == t.tolist()
    assert out["t"].is_contiguous()


@pytest.mark.parametrize(
    ("tensors", "error", "text"),
    [
        ([1], ValueError, "Expected a dict"),
        ({"a": 3}, ValueError, "Key `a` is invalid, expected torch.Tensor but received"),
        ({3: None}, ValueError, "Key `3` is invalid"),
    ],
)
def test_what_cannot_be_saved(tensors, error, text):
    with pytest.raises(error, match=text):
        safetensors.save(tensors)


def test_dtype_that_the_format_does_not_have():
    with pytest.raises(ValueError, match="which the safetensors format does not have"):
        safetensors.save({"a": gradlib.ones(1, dtype=gradlib.complex128)})
    with pytest.raises(TypeError, match="metadata must be text"):
        safetensors.save({}, {"a": 3})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"hello world, this is text",
        file_of(b"{"),
        file_of([]),
        file_of({"a": 3}),
        file_of(b'{"a": {}, "a": {}}'),
        file_of({"a": {"dtype": "F32", "shape": [1]}}),
        file_of({"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(3)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(5)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)),
        struct.pack("<Q", 2**40),
    ],
)
def test_damaged_files_name_the_file(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x\.safetensors: "):
        safetensors.load_file(path)


def test_files_pass_to_and_from_the_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float16)}
    package.save_file(arrays, path)
    out = safetensors.load_file(path)
    assert {key: value.tolist() for key, value in out.items()} == {
        key: value.tolist() for key, value in arrays.items()
    }
    safetensors.save_file(out, path, {"note": "text"})
    for key, value in package.load_file(path).items():
        assert np.array_equal(value, arrays[key])
