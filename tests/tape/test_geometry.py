"""Memory formats, clones of expanded tensors, resize_, set_ and shared memory."""

from __future__ import annotations

import os

import pytest

import gradlib as gl


@pytest.mark.parametrize("convert", [
    lambda x, f: x.contiguous(memory_format=f), lambda x, f: x.clone(memory_format=f),
    lambda x, f: x.to(memory_format=f), lambda x, f: x.double(memory_format=f),
    lambda x, f: gl.empty_like(x, memory_format=f),
])  # fmt: skip
def test_channels_last(convert):
    x = gl.zeros(2, 3, 4, 5)
    made = convert(x, gl.channels_last)
    assert made.stride() == (60, 1, 15, 3)
    assert made.is_contiguous(memory_format=gl.channels_last)
    assert not made.is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        convert(gl.zeros(2, 3), gl.channels_last)


def test_a_tensor_that_has_the_format_is_returned_itself():
    x = gl.zeros(2, 3, 4, 5).to(memory_format=gl.channels_last)
    assert x.to(memory_format=gl.channels_last) is x
    assert x.contiguous(memory_format=gl.channels_last) is x
    assert x.contiguous() is not x


def test_formats_are_objects_with_names():
    assert isinstance(gl.channels_last, gl.memory_format)
    assert isinstance(gl.zeros(1).layout, gl.layout)
    assert repr(gl.strided) == "torch.strided"


@pytest.mark.parametrize("copy", [lambda x: x.clone(), lambda x: x.double(), gl.zeros_like])
def test_copies_of_expanded_tensors_are_row_major(copy):
    assert copy(gl.zeros(1, 3).expand(4, 2, 3)).view(-1).shape == (24,)


def test_resize_keeps_memory_while_it_is_large_enough():
    x = gl.arange(12.0)
    other = x.view(3, 4)
    x.resize_(2, 2)
    assert x.tolist() == [[0, 1], [2, 3]]
    x.fill_(7)
    assert other[0].tolist() == [7, 7, 7, 7]
    assert x.resize_((3, 4)).tolist() == other.tolist()
    assert x.resize_(2000).shape == (2000,)
    assert x.data_ptr() == other.data_ptr() and x[:12].tolist() == other.view(-1).tolist()
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        gl.ones(2, requires_grad=True).resize_(1)


def test_set_uses_a_strided_part_of_other_memory():
    x, y = gl.arange(6.0).clone(), gl.zeros(2)
    y.set_(x, 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    y[0, 0] = 9
    assert x[1] == 9
    assert gl.zeros(2).set_(x.untyped_storage()).tolist() == x.tolist()


@pytest.mark.host
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # for programs with threads
def test_shared_memory_is_seen_by_forked_processes():
    x = gl.ones(3).share_memory_()
    assert x.is_shared()
    assert not gl.ones(3).is_shared()
    child = os.fork()
    if child == 0:
        x.add_(1)
        os._exit(0)
    os.waitpid(child, 0)
    assert x.tolist() == [2, 2, 2]


def test_settings_are_read_back():
    gl.use_deterministic_algorithms(True, warn_only=True)
    assert gl.are_deterministic_algorithms_enabled()
    assert gl.get_deterministic_debug_mode() == 1
    gl.set_deterministic_debug_mode("default")
    assert not gl.are_deterministic_algorithms_enabled()
    before = gl.get_num_threads()
    gl.set_num_threads(before)
    assert gl.get_num_threads() == before
    with pytest.raises(RuntimeError, match="positive integer"):
        gl.set_num_threads(0)


def test_fill_diagonal_and_its_gradient():
    x = gl.ones(7, 3, requires_grad=True)
    y = (x * 1).fill_diagonal_(5.0, wrap=True)
    assert y[4].tolist() == [5, 1, 1]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 21 - 6
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        gl.ones(3).fill_diagonal_(1)


@pytest.mark.host
def test_python_functions_of_elements():
    x = gl.tensor([1.0, 3.0])
    assert x.apply_(lambda a: a + 1).tolist() == [2, 4]
    assert x.map_(gl.tensor([2.0]), lambda a, b: a * b).tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="that requires grad"):
        gl.ones(1, requires_grad=True).apply_(lambda a: a)
