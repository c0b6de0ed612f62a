"""state_dict and load_state_dict: layout, checks, hooks, extra state."""

from __future__ import annotations

import pytest

import gradlib
from gradlib import nn


class Affine(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.weight = nn.Parameter(gradlib.ones(n))
        self.register_buffer("seen", gradlib.zeros(()))


def test_layout_and_metadata():
    net = nn.Sequential(Affine(), nn.BatchNorm1d(2))
    state = net.state_dict()
    assert list(state) == [
        "0.weight",
        "0.seen",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    ]
    assert dict(state._metadata) == {
        "": {"version": 1},
        "0": {"version": 1},
        "1": {"version": 2},
    }
    assert not state["0.weight"].requires_grad
    assert net.state_dict(keep_vars=True)["0.weight"] is net[0].weight
    assert list(net[0].state_dict(prefix="a.")) == ["a.weight", "a.seen"]


def test_values_are_shared_not_copied():
    net = Affine()
    net.state_dict()["weight"].fill_(7.0)
    assert net.weight.tolist() == [7.0, 7.0]


def test_loading_copies_in_place():
    net, other = Affine(), Affine()
    other.weight.data.fill_(4.0)
    held = net.weight
    result = net.load_state_dict(other.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert net.weight is held
    assert held.tolist() == [4.0, 4.0]


def test_assign_takes_the_tensors():
    net = Affine()
    given = gradlib.full((2,), 5.0)
    net.load_state_dict({"weight": given, "seen": gradlib.ones(())}, assign=True)
    assert isinstance(net.weight, nn.Parameter)
    assert net.weight.requires_grad
    given.zero_()
    assert net.weight.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, 'Missing key(s) in state_dict: "weight", "seen". '),
        (
            {"weight": gradlib.ones(2), "seen": gradlib.ones(()), "x": 1, "y.z": 2},
            'Unexpected key(s) in state_dict: "x", "y.z". ',
        ),
        (
            {"weight": gradlib.ones(3), "seen": gradlib.ones(())},
            "size mismatch for weight: copying a param with shape torch.Size([3]) from "
            "checkpoint, the shape in current model is torch.Size([2]).",
        ),
        (
            {"weight": 3, "seen": gradlib.ones(())},
            'While copying the parameter named "weight", expected torch.Tensor or Tensor-like '
            "object from checkpoint but received <class 'int'>",
        ),
    ],
)
def test_error_texts(state, text):
    with pytest.raises(RuntimeError) as caught:
        Affine().load_state_dict(state)
    assert str(caught.value) == f"Error(s) in loading state_dict for Affine:\n\t{text}"


def test_not_strict_reports():
    missing, unexpected = Affine().load_state_dict({"x": gradlib.ones(1)}, strict=False)
    assert missing == ["weight", "seen"]
    assert unexpected == ["x"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        Affine().load_state_dict(3)


def test_scalars_saved_with_one_dimension():
    net = Affine()
    net.load_state_dict({"weight": gradlib.ones(2), "seen": gradlib.tensor([3.0])})
    assert net.seen.item() == 3.0


def test_extra_state():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    net, other = nn.Sequential(Counting()), nn.Sequential(Counting())
    other[0].count = 5
    net.load_state_dict(other.state_dict())
    assert net[0].count == 5
    with pytest.raises(RuntimeError, match=r'Missing key.*"0._extra_state"'):
        net.load_state_dict({})
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"_extra_state"'):
        Affine().load_state_dict({**Affine().state_dict(), "_extra_state": 1})


def test_hooks():
    net, seen = nn.Sequential(Affine()), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.__delitem__("0.seen"))
    state = net.state_dict()
    assert list(state) == ["0.weight"]
    assert seen == [("", False)]
    handle = net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net.load_state_dict(state)
    handle.remove()
    net.register_load_state_dict_pre_hook(
        lambda m, state, prefix, *_: state.update({prefix + "0.seen": gradlib.ones(())})
    )
    net.load_state_dict(state)
    assert net[0].seen.item() == 1.0


def test_old_hook_may_replace_the_dict():
    net = Affine()
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"only": 1})
    assert net.state_dict() == {"only": 1}


def test_batch_norm_of_version_1_has_no_counter():
    net = nn.BatchNorm1d(2)
    state = net.state_dict()
    del state["num_batches_tracked"]
    state._metadata[""] = {"version": 1}
    net.load_state_dict(state)
    assert int(net.num_batches_tracked) == 0


def test_positional_arguments_warn():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert list(Affine().state_dict({}, "p.")) == ["p.weight", "p.seen"]
