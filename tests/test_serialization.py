"""Saving and loading, and the pickling and copying of tensors."""

import copy
import io
import os
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest

import gradlib
from gradlib import serialization
from gradlib.serialization import CheckpointError, load, save


class Config:
    """A class that files may only mention when the user allows it."""

    def __init__(self, width=1):
        self.width = width

    def __eq__(self, other):
        return isinstance(other, Config) and self.width == other.width

    __hash__ = None


class Attack:
    """What a hostile file contains: a call of any function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def round_trip(obj, **options):
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file, **options)


def address(t):
    return t.data_ptr()


# --------------------------------------------------------------------------------------------
# Values


DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128"
).split()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_every_dtype_keeps_its_values(name, shape):
    kind = gradlib.tape.dtypes.by_name(name)
    t = gradlib.ones(shape, dtype=kind)
    out = round_trip(t)
    assert out.dtype is kind
    assert out.shape == t.shape
    assert out.tolist() == t.tolist()


def test_state_dict_and_nested_containers():
    state = OrderedDict(weight=gradlib.ones(2), bias=gradlib.zeros(1))
    state._metadata = {"version": 1}
    obj = {
        "model": state,
        "step": 7,
        "rate": 1e-3,
        "list": [1, "two", None, True, (3.5, 1 + 2j), b"bytes", {1, 2}, frozenset({3})],
        "dtype": gradlib.bfloat16,
        "device": gradlib.device("cpu"),
        "size": gradlib.ones(2, 3).shape,
        "counter": Counter("aab"),
        "default": defaultdict(list, {"a": [1]}),
        "bytearray": bytearray(b"xy"),
        "big": 2**100,
    }
    out = round_trip(obj)
    assert type(out["model"]) is OrderedDict
    assert list(out["model"]) == ["weight", "bias"]
    assert out["model"]._metadata == {"version": 1}
    assert out["model"]["weight"].tolist() == [1.0, 1.0]
    for key in obj:
        if key != "model":
            assert out[key] == obj[key], key
            assert type(out[key]) is type(obj[key])


def test_numpy_scalars_and_arrays_of_numbers():
    obj = [np.float64(1.5), np.int32(3), np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(2))]
    out = round_trip(obj)
    assert out[0] == 1.5
    assert out[1] == 3
    assert out[2].tolist() == obj[2].tolist()
    assert out[2].flags.writeable
    assert out[3].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_recursive_containers():
    loop: list = [gradlib.ones(1)]
    loop.append(loop)
    out = round_trip(loop)
    assert out[1] is out


def test_strides_are_kept():
    t = gradlib.arange(6).reshape(2, 3).t()
    out = round_trip(t)
    assert out.stride() == t.stride() == (1, 3)
    assert out.tolist() == t.tolist()


@pytest.mark.host  # on a device views by address do not know whose memory they have
def test_strides_of_expanded_tensors_are_kept():
    assert round_trip(gradlib.ones(1).expand(4)).stride() == (0,)


def test_views_share_memory_again():
    base = gradlib.zeros(4, 3)
    out = round_trip({"base": base, "row": base[1], "again": base, "other": gradlib.zeros(1)})
    assert out["base"] is out["again"]
    out["base"].fill_(7.0)
    assert out["row"].tolist() == [7.0, 7.0, 7.0]
    assert out["other"].tolist() == [0.0]


def test_views_of_different_dtype_share_memory_again():
    base = gradlib.zeros(4, dtype=gradlib.float32)
    as_int = base.view(gradlib.int32)
    out = round_trip([base, as_int])
    assert [t.dtype for t in out] == [gradlib.float32, gradlib.int32]
    out[0].fill_(1.0)
    assert out[1].tolist() == [0x3F800000] * 4


def test_memory_that_no_tensor_uses_is_not_written():
    big = gradlib.zeros(1_000_000)
    file = io.BytesIO()
    save({"a": big[10:12], "b": big[11:14]}, file)
    assert len(file.getvalue()) < 10_000
    file.seek(0)
    out = load(file)
    out["a"][1] = 5.0
    assert out["b"].tolist() == [5.0, 0.0, 0.0]


def test_array_with_negative_strides():
    t = gradlib.tensor([3.0, 2.0, 1.0])
    t._array = t._array[::-1]
    assert round_trip(t).tolist() == [1.0, 2.0, 3.0]


def test_leaf_flags_parameters_and_attributes():
    leaf = gradlib.ones(2, requires_grad=True)
    leaf.note = {"a": 1}
    out = round_trip([leaf, leaf * 2])
    assert out[0].requires_grad
    assert out[0].note == {"a": 1}
    assert out[1].requires_grad  # saved as a leaf: graphs are not saved
    assert out[1].is_leaf


def test_parameters():
    nn = pytest.importorskip("gradlib.nn")
    p = nn.Parameter(gradlib.ones(2))
    frozen = nn.Parameter(gradlib.ones(2), requires_grad=False)
    noted = nn.Parameter(gradlib.ones(1))
    noted.note = "x"
    out = round_trip({"p": p, "alias": p, "frozen": frozen, "noted": noted})
    assert type(out["p"]) is nn.Parameter
    assert out["p"] is out["alias"]
    assert out["p"].requires_grad
    assert not out["frozen"].requires_grad
    assert out["noted"].note == "x"


def test_hooks_are_not_saved_and_it_says_so():
    t = gradlib.ones(2, requires_grad=True)
    t.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="will not be serialized"):
        save(t, io.BytesIO())


def test_generators():
    g = gradlib.Generator().manual_seed(3)
    g.rng.random(5)
    out = round_trip({"g": g})["g"]
    assert out.rng.random() == g.rng.random()


# --------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize("kind", [str, Path])
def test_paths(tmp_path, kind):
    path = kind(tmp_path / "model.pt")
    save(gradlib.ones(2), path)
    assert load(path).tolist() == [1.0, 1.0]


def test_storages_are_aligned_and_can_be_mapped(tmp_path):
    path = tmp_path / "model.pt"
    save({"a": gradlib.ones(5), "b": gradlib.arange(3), "empty": gradlib.zeros(0)}, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    out = load(path, mmap=True)
    assert out["a"].tolist() == [1.0] * 5
    assert out["b"].tolist() == [0, 1, 2]
    assert out["a"].data_ptr() % 64 == 0
    out["a"].fill_(3.0)  # does not reach the file
    assert load(path)["a"].tolist() == [1.0] * 5
    assert type(out["a"]._array) is type(gradlib.ones(1)._array)
    with pytest.raises(ValueError, match="file path"):
        load(io.BytesIO(path.read_bytes()), mmap=True)


def test_missing_directory_and_missing_file(tmp_path):
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        save({}, tmp_path / "no" / "x.pt")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "x.pt")


def test_what_is_neither_path_nor_file():
    with pytest.raises(AttributeError, match="'write' attribute"):
        save({}, 3)
    with pytest.raises(AttributeError, match=r"only torch.load from a file that is seekable"):
        load(3)


def test_an_object_that_does_not_pickle_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "x.pt"
    save({"a": 1}, path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        save({"a": lambda: 0}, path)
    assert load(path) == {"a": 1}


def test_foreign_files_name_the_file(tmp_path):
    path = tmp_path / "notes.txt"
    for content in (b"", b"hello world", b"\x80\x02]q\x00.", os.urandom(100)):
        path.write_bytes(content)
        for weights_only in (True, False):
            with pytest.raises(CheckpointError, match=r"notes\.txt: "):
                load(path, weights_only=weights_only)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(CheckpointError, match=r"notes\.txt: this zip archive is not a checkpoint"):
        load(path)


def test_damaged_files_name_the_file(tmp_path):
    """Cut off anywhere, or with any byte changed: the one clear error, or the right values."""
    path = tmp_path / "model.pt"
    weight = gradlib.arange(64, dtype=gradlib.float32)
    save({"weight": weight}, path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for cut in rng.integers(0, len(content) - 1, 40):
        path.write_bytes(content[:cut])
        with pytest.raises(CheckpointError, match=r"model\.pt: "):
            load(path)
    for position in rng.integers(0, len(content), 300):
        changed = bytearray(content)
        changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            out = load(path)
        except (CheckpointError, pickle.UnpicklingError) as error:
            out = str(error)
        if isinstance(out, str):
            assert "model.pt: " in out
        else:
            assert out["weight"].tolist() == weight.tolist()


def test_storage_that_is_too_small_is_refused(tmp_path):
    """A tensor must not reach outside its storage."""
    file = io.BytesIO()
    save(gradlib.arange(4), file)
    bad = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                assert data.count(b"K\x04") >= 1
                data = data.replace(b"K\x04\x85", b"K\x05\x85")
            target.writestr(name, data)
    bad.seek(0)
    with pytest.raises(CheckpointError, match="out of bounds for storage of size 32"):
        load(bad)


def test_big_endian_files():
    file = io.BytesIO()
    save([gradlib.arange(3), gradlib.ones(2, dtype=gradlib.complex64)], file)
    swapped = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(swapped, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif name.endswith("data/0"):
                data = struct.pack(">3q", *struct.unpack("<3q", data))
            elif name.endswith("data/1"):
                data = struct.pack(">4f", *struct.unpack("<4f", data))
            target.writestr(name, data)
    swapped.seek(0)
    out = load(swapped)
    assert out[0].tolist() == [0, 1, 2]
    assert out[1].tolist() == [1 + 0j, 1 + 0j]


# --------------------------------------------------------------------------------------------
# Devices


def with_location(location):
    """A file with a tensor that says it was saved on `location`."""
    file = io.BytesIO()
    save(gradlib.ones(2, device="cpu"), file)
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                old, new = (
                    b"X" + struct.pack("<I", len(s)) + s for s in (b"cpu", location.encode())
                )
                assert old in data
                data = data.replace(old, new)
            target.writestr(name, data)
    changed.seek(0)
    return changed


@pytest.mark.parametrize(
    "map_location",
    [
        "cpu",
        gradlib.device("cpu"),
        {"cuda:1": "cpu"},
        lambda storage, location: storage,
        lambda storage, location: storage.cpu(),
    ],
)
def test_map_location_puts_tensors_on_the_cpu(map_location):
    t = load(with_location("cuda:1"), map_location)
    assert t.device == gradlib.device("cpu")
    assert t.tolist() == [1.0, 1.0]


def test_map_location_function_is_told_the_location():
    seen = []
    load(with_location("cuda:1"), lambda storage, location: seen.append(location) or storage)
    assert seen == ["cuda:1"]


def test_cuda_file_without_cuda():
    if gradlib.cuda.is_available():
        pytest.skip("there is a CUDA device")
    for map_location in (None, {}, lambda storage, location: None, "cuda"):
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
            load(with_location("cuda:1"), map_location)


def test_location_that_does_not_exist_here():
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        load(with_location("mps:0"))
    assert load(with_location("mps:0"), "cpu").tolist() == [1.0, 1.0]


def test_map_location_of_a_wrong_type():
    with pytest.raises(TypeError, match="map_location must be"):
        load(with_location("cpu"), 3)
    with pytest.raises(TypeError, match="must return a storage"):
        load(with_location("cpu"), lambda storage, location: 3)


# --------------------------------------------------------------------------------------------
# Weights only


def test_unknown_class_is_refused_and_named():
    file = io.BytesIO()
    save({"config": Config(3)}, file)
    name = f"{Config.__module__}.Config"
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError) as caught:
        load(file)
    message = str(caught.value)
    assert f"GLOBAL {name} was not an allowed global by default" in message
    assert f"add_safe_globals([{name}])" in message
    assert "weights_only=False" in message
    file.seek(0)
    assert load(file, weights_only=False) == {"config": Config(3)}
    file.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(file) == [name]


def test_allowed_class_is_loaded():
    with serialization.safe_globals([Config]):
        assert serialization.get_safe_globals() == [Config]
        assert round_trip(Config(4)) == Config(4)
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Config, "old.module.Settings")])
    try:
        assert serialization.get_safe_globals() == [(Config, "old.module.Settings")]
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(ValueError, match="expected a class or function"):
        serialization.add_safe_globals([3])


@pytest.mark.parametrize(
    "attack",
    [
        Attack(os.system, "exit 1"),
        Attack(eval, "1/0"),
        Attack(getattr, 1, "real"),
        Attack(gradlib.load, "x"),
        Attack(bytes, 10**12),
        Attack(bytearray, 10**12),
        Attack(np.dtype, "O"),
        Attack(defaultdict, os.getcwd),
    ],
)
def test_hostile_files_run_nothing(attack):
    with pytest.raises((pickle.UnpicklingError, CheckpointError)):
        round_trip(attack)


def pickled_as(data_pkl):
    """A checkpoint with a pickle written by hand."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data_pkl)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "data_pkl",
    [
        b"\x80\x02ctorch\nfloat32\nN}X\x08\x00\x00\x00itemsizeK\x07s\x86b.",  # state of a dtype
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x01\x00\x00\x00aK\x07s\x86b.",
        b"\x80\x02ctorch\nTensor\nN}X\x01\x00\x00\x00aK\x07s\x86b.",
        b"\x80\x02ctorch\nTensor\n)R.",  # calls what may only be mentioned
        b"\x80\x02ctorch\nTensor\n)\x81.",
        b"\x80\x02ctorch\nfloat32\n)R.",
        b"\x80\x02ccollections\nOrderedDict\nK\x01a.",  # appends to a class
        b"(ios\nsystem\nX\x04\x00\x00\x00truei.",
        b"(ios\nsystem\nS'true'\no.",
        b"Pabc\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x05\x97.",
        b"\x80\x02\x82\x01.",
        b"\xff",
        b"",
    ],
)
def test_instructions_beyond_plain_data_are_refused(data_pkl):
    item = gradlib.float32.itemsize
    with pytest.raises((pickle.UnpicklingError, CheckpointError)):
        load(pickled_as(data_pkl))
    assert gradlib.float32.itemsize == item
    assert not hasattr(gradlib.Tensor, "a")


def test_arrays_of_objects_are_refused():
    with pytest.raises((pickle.UnpicklingError, CheckpointError)):
        round_trip(np.array([Config()], dtype=object))


def test_explicit_pickle_module_cannot_be_safe():
    with pytest.raises(RuntimeError, match="Can not safely load weights"):
        load(io.BytesIO(), weights_only=True, pickle_module=pickle)
    file = io.BytesIO()
    save(Config(2), file, pickle_module=pickle, pickle_protocol=4)
    file.seek(0)
    assert load(file, pickle_module=pickle) == Config(2)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(protocol):
    file = io.BytesIO()
    save({"a": gradlib.ones(2), "b": b"x", "c": {1}, "d": [1.5]}, file, pickle_protocol=protocol)
    if protocol > 3:
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="Unsupported operand 149"):
            load(file)
    file.seek(0)
    out = load(file, weights_only=protocol < 4)
    assert out["a"].tolist() == [1.0, 1.0]
    assert (out["b"], out["c"], out["d"]) == (b"x", {1}, [1.5])


# --------------------------------------------------------------------------------------------
# pickle and copy


@pytest.mark.parametrize("name", DTYPES)
def test_plain_pickle_keeps_dtype_and_values(name):
    t = gradlib.ones(2, 3, dtype=gradlib.tape.dtypes.by_name(name)).t()
    out = pickle.loads(pickle.dumps(t))
    assert out.dtype is t.dtype
    assert out.stride() == t.stride()
    assert out.tolist() == t.tolist()


def test_plain_pickle_keeps_sharing_flags_and_attributes():
    base = gradlib.zeros(4)
    leaf = gradlib.ones(2, requires_grad=True)
    leaf.note = "x"
    leaf.grad = gradlib.ones(2)
    out, view, flags = pickle.loads(pickle.dumps((base, base[1:3], leaf)))
    out.fill_(2.0)
    assert view.tolist() == [2.0, 2.0]
    assert flags.requires_grad
    assert flags.note == "x"
    assert flags.grad is None


def test_copy_shares_memory_and_deepcopy_does_not():
    t = gradlib.zeros(3)
    assert address(copy.copy(t)) == address(t)
    assert address(copy.deepcopy(t)) != address(t)


def test_deepcopy_keeps_sharing_gradient_and_attributes():
    base = gradlib.zeros(4)
    leaf = gradlib.ones(2, requires_grad=True)
    leaf.grad = gradlib.full((2,), 3.0)
    leaf.note = [1]
    a, view, again, b = copy.deepcopy([base, base[1:3], base, leaf])
    assert a is again
    a.fill_(2.0)
    assert view.tolist() == [2.0, 2.0]
    assert base.tolist() == [0.0] * 4
    assert b.grad.tolist() == [3.0, 3.0]
    assert b.grad is not leaf.grad
    assert b.requires_grad
    assert b.note == [1]
    assert b.note is not leaf.note


def test_deepcopy_keeps_strides():
    t = gradlib.arange(6).reshape(2, 3).t()
    assert copy.deepcopy(t).stride() == (1, 3)
    assert copy.deepcopy(gradlib.zeros(0, 3)).shape == (0, 3)


def test_deepcopy_of_a_result_is_refused():
    t = gradlib.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"Only Tensors created explicitly by the user \(graph"):
        copy.deepcopy(t)


def test_a_tensor_that_its_attributes_lead_back_to():
    t = gradlib.ones(2)
    t.seen_by = [t]
    out = pickle.loads(pickle.dumps(t))
    assert out.seen_by[0] is out
    out = copy.deepcopy(t)
    assert out.seen_by[0] is out
    out = round_trip(t)
    assert out.seen_by[0] is out


def test_storages_share_memory_with_tensors_after_pickle_and_deepcopy():
    t = gradlib.ones(4)
    for out, storage in (
        pickle.loads(pickle.dumps((t, t.untyped_storage()))),
        copy.deepcopy((t, t.untyped_storage())),
    ):
        storage.fill_(0)
        assert out.tolist() == [0.0] * 4 and t.tolist() == [1.0] * 4
        assert storage is out.untyped_storage()


def test_storage_from_file(tmp_path):
    path = tmp_path / "memory"
    storage = gradlib.UntypedStorage.from_file(str(path), True, 8)
    storage[0] = 7
    assert storage.filename == str(path) and not storage.resizable()
    assert gradlib.UntypedStorage.from_file(str(path), False, 8).tolist() == [7] + [0] * 7


def test_layouts_and_formats_are_constants_in_checkpoints():
    constants = {"a": gradlib.strided, "b": gradlib.channels_last}
    out = round_trip(constants)
    assert out["a"] is gradlib.strided and out["b"] is gradlib.channels_last


def test_hooks_are_said_not_to_be_pickled():
    leaf = gradlib.ones(2, requires_grad=True)
    leaf.register_hook(print)
    with pytest.warns(UserWarning, match="will not be serialized"):
        assert pickle.loads(pickle.dumps(leaf)).requires_grad
