"""``tensor.__dict__`` holds what the program has put there, and nothing else."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gradlib as gl


def used() -> Any:
    """A parameter with all that autograd keeps on a leaf."""
    p = gl.nn.Parameter(gl.ones(2))
    (p * 2).sum().backward()
    p.register_hook(lambda grad: grad)
    p.register_post_accumulate_grad_hook(lambda leaf: None)
    return p


def test_it_shows_the_programs_attributes_only():
    p = used()
    assert p.__dict__ == {} and vars(p.detach()) == {}
    p.note = "mine"
    assert p.__dict__ == {"note": "mine"} and "note" in dir(p)
    kept = p * 1
    kept.retain_grad()
    assert kept.__dict__ == {}


def test_what_is_written_to_it_is_on_the_tensor():
    p = used()
    shown = p.__dict__
    shown["a"] = 1
    shown.update(b=2)
    assert shown.setdefault("c", 3) == 3
    assert (p.a, p.b, p.c) == (1, 2, 3)
    assert shown.pop("a") == 1 and shown.pop("a", None) is None
    del shown["b"]
    assert p.__dict__ == {"c": 3} and not hasattr(p, "b")
    shown.clear()
    assert p.__dict__ == {}
    p.__dict__ = {"d": 4}
    assert p.d == 4
    (p * 3).sum().backward()  # what autograd keeps is as before
    assert p.grad is not None and p.grad.tolist() == [5.0, 5.0]
    assert p._backward_hooks is not None


def test_a_parameter_made_again_from_its_attributes():
    """As big-model loaders do: the attributes become arguments, and an op in between keeps things on the tensor."""
    p: Any = gl.nn.Parameter(gl.ones(2))
    kwargs = p.__dict__
    kwargs["requires_grad"] = False
    made = gl.nn.Parameter(p.to("meta"), **kwargs)
    assert made.is_meta and not made.requires_grad


def test_copies_and_pickles_have_the_attributes():
    t: Any = gl.ones(2)
    t.note = [1]
    (gl.ones(2, requires_grad=True) * t).sum().backward()
    for made in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert made.__dict__ == {"note": [1]}


def test_subclasses_have_it_too():
    class Named(gl.Tensor):
        pass

    t: Any = gl.ones(2).as_subclass(Named).requires_grad_()
    (t * 2).sum().backward()
    t.note = 1
    assert t.__dict__ == {"note": 1}
