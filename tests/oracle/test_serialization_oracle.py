"""Files pass between the two libraries in both directions."""

import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

NAMES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128"
).split()


def from_torch(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return gradlib.load(file)


def to_torch(obj):
    file = io.BytesIO()
    gradlib.save(obj, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_in_both_directions(name):
    theirs = torch.ones(2, 3, dtype=getattr(torch, name)).t()
    ours = gradlib.ones(2, 3, dtype=getattr(gradlib, name)).t()
    read = from_torch(theirs)
    assert read.dtype is ours.dtype
    assert read.tolist() == theirs.tolist()
    assert read.stride() == theirs.stride()
    back = to_torch(ours)
    assert back.dtype == theirs.dtype
    assert back.tolist() == ours.tolist()
    assert back.stride() == ours.stride()


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_state_dict_of_pytorch(options):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    out = from_torch({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, **options)
    assert type(out["model"]) is OrderedDict
    assert out["model"]._metadata == model.state_dict()._metadata
    for key, value in model.state_dict().items():
        assert np.array_equal(out["model"][key].numpy(), value.numpy())
    assert out["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]
    average = optimizer.state_dict()["state"][0]["exp_avg"]
    assert np.array_equal(out["optimizer"]["state"][0]["exp_avg"].numpy(), average.numpy())


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_sharing_parameters_and_attributes_of_pytorch(options):
    nn = pytest.importorskip("gradlib.nn")
    base = torch.zeros(4)
    noted = torch.ones(1)
    noted.note = "x"
    parameter = torch.nn.Parameter(torch.ones(2))
    out = from_torch([base, base[1:3], noted, parameter, torch.Size([2]), torch.float16], **options)
    out[0].fill_(1.0)
    assert out[1].tolist() == [1.0, 1.0]
    assert out[2].note == "x"
    assert type(out[3]) is nn.Parameter
    assert out[4] == (2,)
    assert out[5] is gradlib.float16


def test_checkpoint_for_pytorch():
    base = gradlib.zeros(4)
    leaf = gradlib.ones(2, requires_grad=True)
    leaf.note = "x"
    out = to_torch(
        {
            "state": OrderedDict(a=base, b=base[1:3]),
            "leaf": leaf,
            "size": base.shape,
            "dtype": gradlib.bfloat16,
            "device": gradlib.device("cpu"),
            "empty": gradlib.zeros(0, 2),
            "number": 3,
            "bytes": b"xyz",
        }
    )
    out["state"]["a"].fill_(1.0)
    assert out["state"]["b"].tolist() == [1.0, 1.0]
    assert out["leaf"].requires_grad
    assert out["leaf"].note == "x"
    assert out["size"] == torch.Size([4])
    assert out["dtype"] is torch.bfloat16
    assert out["device"] == torch.device("cpu")
    assert out["empty"].shape == (0, 2)
    assert out["bytes"] == b"xyz"


def test_parameters_for_pytorch():
    nn = pytest.importorskip("gradlib.nn")
    noted = nn.Parameter(gradlib.ones(1))
    noted.note = "x"
    out = to_torch([nn.Parameter(gradlib.ones(2)), noted])
    assert [type(p) for p in out] == [torch.nn.Parameter] * 2
    assert out[1].note == "x"


def test_views_of_different_dtype_for_pytorch():
    base = gradlib.zeros(4)
    as_int = base.view(gradlib.int32)
    first, second = to_torch([base, as_int])
    first.fill_(1.0)
    assert second.tolist() == [0x3F800000] * 4


def test_mapped_by_pytorch(tmp_path):
    gradlib.save({"a": gradlib.ones(1000), "b": gradlib.arange(10)}, tmp_path / "x.pt")
    out = torch.load(tmp_path / "x.pt", mmap=True)
    assert out["a"].sum() == 1000
    assert out["b"].tolist() == list(range(10))


def test_class_of_pytorch_that_is_not_known_as_safe():
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules"):
        from_torch(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "complex128"])
def test_safetensors_in_both_directions(tmp_path, name):
    package = pytest.importorskip("safetensors.torch")
    from gradlib import safetensors

    path = tmp_path / "x.safetensors"
    theirs = {"a": torch.ones(2, 3, dtype=getattr(torch, name)), "b": torch.zeros(0)}
    package.save_file(theirs, path, {"note": "text"})
    ours = safetensors.load_file(path)
    assert ours["a"].dtype is getattr(gradlib, name)
    assert ours["a"].tolist() == theirs["a"].tolist()
    assert safetensors.load_metadata(path) == {"note": "text"}
    safetensors.save_file(ours, path)
    back = package.load_file(path)
    assert back["a"].dtype == theirs["a"].dtype
    assert back["a"].tolist() == theirs["a"].tolist()
    assert back["b"].shape == (0,)


def test_the_format_before_pytorch_1_6_in_both_directions():
    base = gradlib.arange(6.0).reshape(2, 3)
    file = io.BytesIO()
    state = OrderedDict(a=base, row=base[1], half=gradlib.ones(2, dtype=gradlib.bfloat16), n=3)
    gradlib.save(state, file, _use_new_zipfile_serialization=False)
    for library in (torch, gradlib):
        file.seek(0)
        out = library.load(file, weights_only=True)
        out["a"].fill_(1.0)
        assert out["row"].tolist() == [1.0, 1.0, 1.0]
        assert str(out["half"].dtype) == "torch.bfloat16" and out["n"] == 3


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_storages_in_both_directions(options):
    theirs = torch.ones(3)
    tensor, storage = from_torch([theirs, theirs.storage()], **options)
    storage[1] = 5.0
    assert type(storage) is gradlib.TypedStorage and tensor.tolist() == [1.0, 5.0, 1.0]
    ours = gradlib.ones(3)
    file = io.BytesIO()
    gradlib.save([ours, ours.storage()], file, **options)
    file.seek(0)
    tensor, storage = torch.load(file)
    storage[1] = 5.0
    assert tensor.tolist() == [1.0, 5.0, 1.0]
