"""nn.parallel: batches cut into pieces, copies of modules, results joined; on devices of any kind."""

from __future__ import annotations

from collections import namedtuple

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import parallel

Pair = namedtuple("Pair", "a b")


def here():
    return torch.ones(1).device


@pytest.mark.first_device
def test_batches_are_cut_through_containers_and_joined_again():
    x = torch.arange(10.0).reshape(5, 2).requires_grad_()
    two = [here(), here()]
    halves = parallel.scatter(x, two)
    assert isinstance(halves, tuple) and [h.shape for h in halves] == [(3, 2), (2, 2)]
    first, second = parallel.scatter({"p": Pair(x, [x, "same"]), "n": 3}, two)
    assert type(first["p"]) is Pair and first["n"] == 3 and second["p"].b[1] == "same"
    assert second["p"].b[0].tolist() == x[3:].tolist()
    with pytest.raises(TypeError, match="not str"):
        parallel.gather(["a", "b"], here())
    together = parallel.gather([{"p": Pair(h, [h, None])} for h in halves], here())
    assert together["p"].a.tolist() == x.tolist() and type(together["p"]) is Pair
    (together["p"].a * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2]] * 5
    assert len(parallel.scatter(x[:1], two)) == 1  # fewer pieces than devices
    assert parallel.scatter([], two) == [[], []]


@pytest.mark.first_device
def test_keywords_and_arguments_get_as_many_pieces():
    from gradlib.nn.parallel.scatter_gather import scatter_kwargs

    two = [here(), here()]
    args, kwargs = scatter_kwargs((), {"x": torch.ones(4)}, two)
    assert args == ((), ()) and [k["x"].shape for k in kwargs] == [(2,), (2,)]
    args, kwargs = scatter_kwargs((torch.ones(4),), {}, two)
    assert len(args) == 2 and kwargs == ({}, {})


@pytest.mark.first_device
def test_numbers_are_joined_as_a_vector():
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        out = parallel.gather([torch.tensor(1.0), torch.tensor(2.0)], here())
    assert out.tolist() == [1, 2]
    assert parallel.gather([None, None], here()) is None
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"a": torch.ones(1)}, {}], here())


@pytest.mark.first_device
def test_copies_of_a_module_give_their_gradients_to_it():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    a, b = parallel.replicate(net, [here(), here()])
    assert isinstance(a, nn.Sequential) and not list(a.parameters())
    outs = parallel.parallel_apply([a, b], [torch.ones(3, 2), (torch.zeros(3, 2),)])
    torch.cat(outs).sum().backward()
    assert net[0].weight.grad is not None
    alone = parallel.replicate(net, [here()], detach=True)[0]
    assert not alone(torch.ones(2, 2)).requires_grad


@pytest.mark.first_device
def test_each_replica_runs_under_the_callers_modes():
    class Spy(nn.Module):
        def forward(self, x, scale=1):
            return x.new_tensor([torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), scale])

    spies = [Spy(), Spy()]
    with torch.no_grad(), torch.autocast("cpu"):
        got = parallel.parallel_apply(spies, [torch.ones(1)] * 2, [{"scale": 3}, {}])
    assert [g.tolist() for g in got] == [[0, 1, 3], [0, 1, 1]]
    with pytest.raises(AssertionError, match="number of modules"):
        parallel.parallel_apply(spies, [torch.ones(1)])


@pytest.mark.first_device
def test_tangents_batches_and_inference_reach_the_replicas():
    net = nn.DataParallel(nn.Linear(2, 1), device_ids=[here(), here()])
    x, v = torch.ones(4, 2), torch.arange(8.0).reshape(4, 2)
    _, tangent = torch.func.jvp(net, (x,), (v,))
    assert torch.allclose(tangent, v @ net.module.weight.T)
    assert torch.equal(torch.vmap(net)(x.expand(3, 4, 2))[0], net(x))
    with torch.inference_mode():
        assert net(x).is_inference()


@pytest.mark.first_device
def test_an_error_of_a_replica_is_raised():
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        parallel.parallel_apply([Bad(), nn.Identity()], [torch.ones(1)] * 2)


def test_training_in_processes_needs_them():
    from gradlib.nn.parallel import DistributedDataParallel
    from gradlib.nn.parallel.distributed import DistributedDataParallel as Same

    assert Same is DistributedDataParallel and not isinstance(nn.Linear(1, 1), Same)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(1, 1))
