"""DeviceMesh: ranks in an array, and the groups along its dimensions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import gradlib as torch
from gradlib import distributed as dist
from tests.distributed.harness import run


def facts() -> dict[str, Any]:
    from gradlib.distributed import DeviceMesh, init_device_mesh

    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found: dict[str, Any] = {
        "repr": [repr(mesh), repr(mesh["tp"]), repr(DeviceMesh("cpu", [0, 1, 2, 3]))],
        "place": (mesh.get_coordinate(), mesh["dp"].get_local_rank(), mesh.get_local_rank("tp")),
        "lengths": (mesh.shape, mesh.size(), mesh.size(1), mesh.ndim, mesh["dp", "tp"] is mesh),
        "ranks": (mesh["dp"].mesh.tolist(), mesh["tp"].mesh.tolist()),
        "equal": (
            mesh == init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")),
            pickle.loads(pickle.dumps(mesh)) == mesh,
            mesh["dp"] == mesh["tp"],
        ),
    }
    sums = []
    for name in ("dp", "tp"):
        value = torch.tensor([float(rank)])
        dist.all_reduce(value, group=mesh.get_group(name))
        sums.append(value.item())
    flat = mesh._flatten("world")
    value = torch.tensor([float(rank)])
    dist.all_reduce(value, group=flat.get_group())
    found["sums"] = (*sums, value.item(), mesh["world"].size())
    errors = []
    for wrong in (
        lambda: mesh["x"],
        lambda: mesh["tp", "dp"],
        lambda: mesh.get_group(),
        lambda: mesh.get_local_rank("q"),
        lambda: DeviceMesh("cpu", [0, 1, 2, 3])["dp"],
        lambda: init_device_mesh("cpu", (4,), mesh_dim_names=("a", "b")),
        lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")),
        lambda: init_device_mesh("cuda:0", (4,)),
        lambda: DeviceMesh("cpu", list(range(6))),
        lambda: DeviceMesh("cpu", [0, 0, 1, 2]),
    ):
        try:
            wrong()
            errors.append("none")
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    found["errors"] = errors
    again = DeviceMesh.from_group(mesh.get_group("tp"), "cpu", mesh_dim_names=("tp",))
    found["again"] = again.mesh.tolist()
    return found


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(facts, 4)


def test_places(ranks: list[dict[str, Any]]) -> None:
    assert [r["place"] for r in ranks] == [
        ((0, 0), 0, 0), ((0, 1), 0, 1), ((1, 0), 1, 0), ((1, 1), 1, 1),
    ]  # fmt: skip
    assert ranks[0]["lengths"] == ((2, 2), 4, 2, 2, True)
    assert ranks[3]["ranks"] == ([1, 3], [2, 3])
    assert ranks[2]["again"] == [2, 3]


def test_prints_as_in_pytorch(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["repr"] == [
        "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))",
        "DeviceMesh((tp=2), 'cpu', stride=(1,))",
        "DeviceMesh((4,), 'cpu', stride=(1,))",
    ]


def test_groups_along_dimensions(ranks: list[dict[str, Any]]) -> None:
    assert [r["sums"] for r in ranks] == [
        (2.0, 1.0, 6.0, 4), (4.0, 1.0, 6.0, 4), (2.0, 5.0, 6.0, 4), (4.0, 5.0, 6.0, 4),
    ]  # fmt: skip


def test_equality_and_pickling(ranks: list[dict[str, Any]]) -> None:
    assert [r["equal"] for r in ranks] == [(True, True, False)] * 4


def test_errors(ranks: list[dict[str, Any]]) -> None:
    errors = ranks[0]["errors"]
    wanted = [
        "Valid mesh_dim_names are ['dp', 'tp']", "Mesh dim indices should be in ascending order",
        "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1",
        "Mesh dimension 'q' does not exist",
        "Cannot slice a DeviceMesh without mesh_dim_names!", "mesh_shape and mesh_dim_names should have same length",
        "Each mesh_dim_name must be unique", "Device type with index is not supported but got cuda:0",
        "Mesh should not be bigger than default world size 4, but found 6 ranks!",
        "each rank stands in a mesh at most once",
    ]  # fmt: skip
    assert len(errors) == len(wanted)
    for error, text in zip(errors, wanted):
        assert text in error
