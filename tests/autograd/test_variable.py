"""The deprecated Variable."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.autograd import Variable


def test_variable_gives_tensors():  # rows: VAR-01 VAR-02 VAR-03
    t = gl.ones(2)
    v = Variable(t)
    assert type(v) is gl.Tensor
    assert not v.requires_grad
    assert v is not t
    assert v.data_ptr() == t.data_ptr() == v.data.data_ptr()
    assert Variable(t, requires_grad=True).requires_grad
    assert Variable(t, True).requires_grad
    assert isinstance(t, Variable)
    assert not isinstance(3, Variable)
    with pytest.raises(TypeError, match="has to be a tensor"):
        Variable(3)


def test_methods(recwarn):  # rows: VAR-04
    v, seen = Variable(gl.ones(2), True), []
    v.register_hook(seen.append)
    (v * 3).sum().backward()
    assert v.grad.tolist() == [3.0, 3.0]
    assert len(seen) == 1
    assert not v.detach().requires_grad
