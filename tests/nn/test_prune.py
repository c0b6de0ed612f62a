"""nn.utils.prune: masks, containers, removal, and what is refused."""

import copy
import pickle

import pytest

import gradlib
from gradlib import nn
from gradlib.nn.utils import prune


def layer():
    made = nn.Linear(3, 2)
    with gradlib.no_grad():
        made.weight.copy_(gradlib.tensor([[3.0, -1.0, 0.5], [-2.0, 4.0, -0.1]]))
    return made


def test_the_smallest_entries_are_masked_and_get_no_gradient():
    made = prune.l1_unstructured(layer(), "weight", 3)
    assert made.weight.tolist() == [[3.0, 0.0, 0.0], [-2.0, 4.0, 0.0]]
    assert sorted(made.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    made(gradlib.ones(1, 3)).sum().backward()
    assert made.weight_orig.grad.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]


def test_pruning_again_narrows_the_mask():
    made = prune.l1_unstructured(layer(), "weight", 2)
    prune.l1_unstructured(made, "weight", 0.5)
    (hook,) = made._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2
    assert made.weight_mask.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert [type(m).__name__ for m in hook] == ["L1Unstructured", "L1Unstructured"]


def test_structured_after_unstructured_counts_living_slices():
    made = prune.custom_from_mask(layer(), "weight", gradlib.tensor([[1, 0, 1], [1, 0, 1]]))
    prune.ln_structured(made, "weight", 0.5, n=2, dim=1)
    assert made.weight_mask.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_random_ones_prune_as_many_as_asked():
    assert int(prune.random_unstructured(layer(), "weight", 4).weight_mask.sum()) == 2
    columns = prune.random_structured(layer(), "weight", 2, dim=1).weight_mask.sum(0)
    assert sorted(columns.tolist()) == [0.0, 0.0, 2.0]


def test_all_together():
    net = nn.Sequential(layer(), nn.Linear(2, 2))
    with gradlib.no_grad():
        net[1].weight.fill_(0.2)
    pairs = [(net[0], "weight"), (net[1], "weight")]
    prune.global_unstructured(iter(pairs), prune.L1Unstructured, amount=5)
    assert net[0].weight_mask.sum() == 5 and net[1].weight_mask.sum() == 0
    assert prune.is_pruned(net)


def test_removal_makes_it_permanent():
    made = prune.l1_unstructured(layer(), "weight", 3)
    kept = made.weight_orig
    prune.remove(made, "weight")
    assert made.weight is kept and not prune.is_pruned(made)
    assert made.weight.tolist() == [[3.0, 0.0, 0.0], [-2.0, 4.0, 0.0]]
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(made, "weight")


def test_copies_and_pickles():
    made = prune.l1_unstructured(layer(), "weight", 3)
    with gradlib.no_grad():
        made.weight_orig.mul_(2)
    with pytest.raises(RuntimeError):  # a product that has a history cannot be copied
        copy.deepcopy(made)
    with gradlib.no_grad():
        made(gradlib.ones(1, 3))
    again = pickle.loads(pickle.dumps(copy.deepcopy(made)))
    assert again(gradlib.ones(1, 3)).tolist() == made(gradlib.ones(1, 3)).tolist()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: prune.l1_unstructured(layer(), "weight", "a"), TypeError),
        (lambda: prune.l1_unstructured(layer(), "weight", 1.5), ValueError),
        (lambda: prune.l1_unstructured(layer(), "weight", -1), ValueError),
        (lambda: prune.l1_unstructured(layer(), "weight", 7), ValueError),
        (lambda: prune.ln_structured(layer(), "bias", 1, 2, 0), ValueError),
        (lambda: prune.ln_structured(layer(), "weight", 1, 2, 2), IndexError),
        (lambda: prune.custom_from_mask(layer(), "weight", gradlib.ones(2)), AssertionError),
        (lambda: prune.l1_unstructured(layer(), "weight", 1, gradlib.ones(2)), AssertionError),
        (lambda: prune.global_unstructured(3, prune.L1Unstructured), TypeError),
        (lambda: prune.global_unstructured([(layer(), "weight")], prune.LnStructured, amount=1, n=1), TypeError),
        (lambda: prune.PruningContainer(3), AttributeError),
        (lambda: prune.BasePruningMethod(), TypeError),
    ],
)  # fmt: skip
def test_what_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_a_refused_method_leaves_the_module_as_it_was():
    made = prune.l1_unstructured(layer(), "weight", 2)
    before = made.weight_mask.clone()
    with pytest.raises(ValueError, match="amount=7 should be smaller"):
        prune.l1_unstructured(made, "weight", 7)
    assert prune.is_pruned(made) and (made.weight_mask == before).all()
