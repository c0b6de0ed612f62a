"""One idea of what a container is: transforms open what `utils._pytree` opens."""

from __future__ import annotations

from collections import deque

import pytest

import gradlib as gl
from gradlib.func import grad, vmap
from gradlib.tape import pytree
from gradlib.utils import _pytree


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


@pytest.fixture
def registered():
    _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda v, _: Pair(*v))
    yield
    _pytree._deregister_pytree_node(Pair)


def test_structures_are_of_one_class():
    value = {"a": [1, (2, None)], "b": deque([3], maxlen=2)}
    leaves, spec = pytree.flatten(value)
    assert (leaves, spec) == _pytree.tree_flatten(value)
    assert isinstance(spec, _pytree.TreeSpec) and spec.num_nodes == 8
    assert _pytree.tree_unflatten(leaves, spec) == value == pytree.unflatten(leaves, spec)


@pytest.mark.usefixtures("registered")
def test_transforms_open_what_a_program_registered():
    given = Pair(gl.ones(2), gl.full((2,), 3.0))
    found = grad(lambda p: (p.a * p.b).sum())(given)
    assert isinstance(found, Pair) and (found.a.tolist(), found.b.tolist()) == (
        [3.0, 3.0],
        [1.0, 1.0],
    )
    out = vmap(lambda p: Pair(p.a + p.b, p.a))(given)
    assert isinstance(out, Pair) and out.a.tolist() == [4.0, 4.0]


def test_what_is_not_registered_is_a_leaf():
    assert pytree.flatten(Pair(1, 2))[1] is pytree.LEAF


def test_dicts_match_by_their_keys():
    _, spec = pytree.flatten({"a": 1, "b": (2, 3)})
    assert pytree.spread({"b": 5, "a": 4}, spec) == [4, 5, 5]
    assert pytree.spread({"a": 4}, spec) is None
    assert pytree.spread((4, 5), spec) is None
