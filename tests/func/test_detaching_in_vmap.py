"""What is taken out of the graph inside vmap is out of the graphs outside of it, too."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import gradlib as torch
from gradlib.func import vmap

X = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)


def set_data(a, w):
    t = a.clone()
    t.data = a * w
    return t


def under_no_grad(a, w):
    with torch.no_grad():
        return a * w


WITHOUT = {
    "detach": lambda a, w: (a * w).detach(),
    "data": lambda a, w: (a * w).data,
    "data of what is shared": lambda a, w: (w * 2).data * a,
    "detach_": lambda a, w: (a * w).detach_(),
    "detach_, twice batched": lambda a, w: vmap(lambda b: (b * w).detach_())(a),
    "data, twice batched": lambda a, w: vmap(lambda b: (b * w).data)(a),
    "set": set_data,
    "no_grad": under_no_grad,
    "detach_copy": lambda a, w: torch.detach_copy(a * w),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_it_has_no_gradient(name):
    w = X.new_tensor(3.0).requires_grad_()
    out = vmap(lambda a: WITHOUT[name](a, w))(X)
    assert not out.requires_grad
    factor = 6.0 if "shared" in name else 3.0
    assert torch.equal(out, X * factor)


def test_the_argument_itself_keeps_its_history():
    w = X.new_tensor(3.0).requires_grad_()

    def f(a):
        b = a * w
        return b.data + b + b.detach() * 2

    assert torch.autograd.grad(vmap(f)(X).sum(), w)[0] == X.sum()


def test_views_from_before_detach_keep_their_history():
    w = X.new_tensor(3.0).requires_grad_()

    def f(a):
        b = a * w
        first = b[1:]
        b.detach_()
        return first * 1, b[1:] * 2

    first, later = vmap(f)(X)
    assert torch.equal(later, 2 * first)
    assert not later.requires_grad
    assert torch.autograd.grad(first.sum(), w)[0] == X[:, 1:].sum()


def test_what_is_written_to_data_is_seen():
    def f(a):
        b = a.clone()
        b.data.mul_(2)
        b.data[0] = 7
        return b

    w = X.new_tensor(1.0).requires_grad_()
    out = vmap(lambda a: f(a * w))(X)
    assert torch.equal(out, torch.stack([f(a) for a in X]))
    assert torch.autograd.grad(out.sum(), w)[0] == X.sum()


def test_data_of_what_has_a_history_outside_cannot_be_set():
    w = X.new_tensor(3.0).requires_grad_()

    def f(a):
        t = a * w
        t.data = a
        return t

    with pytest.raises(RuntimeError, match=r"mutating directly with `\.data` under vmap"):
        vmap(f)(X)


COPIES = {
    "tensor": copy.deepcopy,
    "twice": lambda a: vmap(copy.deepcopy)(a),
    "in a dict": lambda a: copy.deepcopy({"a": a, "b": [a]})["b"][0],
    "attribute": lambda a: copy.deepcopy(with_note(a)).note,
}


def with_note(a):
    a.note = a.clone()
    return a


@pytest.mark.parametrize("name", COPIES)
def test_deep_copies_hold_the_values_of_each_entry(name):
    w = X.new_tensor(3.0).requires_grad_()
    out = vmap(lambda a: COPIES[name]((a * w).detach()))(X)
    assert not out.requires_grad
    assert torch.equal(out, X * 3)


def test_deep_copies_have_memory_of_their_own():
    def f(a):
        copy.deepcopy(a).zero_()
        return a

    assert torch.equal(vmap(f)(X.clone()), X)


WRITES = {
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "save": lambda a: torch.save(a, io.BytesIO()),
}


@pytest.mark.parametrize("name", WRITES)
def test_files_and_pickles_are_refused(name):
    with pytest.raises(RuntimeError, match=r"vmap: .* ask for the values of a tensor of the batch"):
        vmap(lambda a: (WRITES[name](a), a)[1])(X)
