"""Views, expansion, pieces, rearranging, joining, complex parts: values, aliasing, writes through views, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.tape.device import beside
from gradlib.tape.views import replay_raw


def count(*shape):
    return gl.arange(float(np.prod(shape))).reshape(shape).clone()


def shares(a, b) -> bool:
    with beside(a._array):
        return np.shares_memory(a._array, b._array)


VIEWS = {
    "view": lambda x: x.view(4, 3), "reshape": lambda x: x.reshape(-1), "flatten": lambda x: x.flatten(),
        "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0), "T": lambda x: x.T,
        "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 1), "squeeze": lambda x: x.squeeze(), "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:1].expand(3, 4), "narrow": lambda x: x.narrow(1, 1, 2), "select": lambda x: x.select(1, 2),
    "slice": lambda x: x[1:, ::2], "int": lambda x: x[1, 2], "none": lambda x: x[None], "ellipsis": lambda x: x[...],
    "diagonal": lambda x: x.diagonal(1), "unfold": lambda x: x.unfold(1, 2, 1),
        "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "unbind": lambda x: x.unbind(1)[2], "split": lambda x: x.split(2)[1], "chunk": lambda x: x.chunk(2, 1)[0],
    "unflatten": lambda x: x.unflatten(1, (2, 2)), "view_dtype": lambda x: x.view(gl.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_base_and_version(name):
    x = count(3, 4)
    y = VIEWS[name](x)
    assert y._base is x
    assert shares(x, y)
    before = y._version
    x.add_(1)
    assert y._version == before + 1


@pytest.mark.parametrize(
    "name", [n for n in VIEWS if n not in ("view_dtype", "unbind", "split", "chunk")]
)
def test_views_are_replayed_after_a_write_to_their_base(name):
    """The gradient through a view made before an in-place op sees the new value of the base."""
    leaf = count(3, 4).requires_grad_()
    base = leaf * 1
    view = VIEWS[name](base)
    base.mul_(3)
    view.sum().backward()
    expected = VIEWS[name](count(3, 4) * 0)
    probe = gl.zeros(3, 4, device="cpu")
    weight = probe.numpy()
    np.add.at(VIEWS[name](probe)._array, ..., 3)
    if name == "expand":  # read three times
        weight[0] = 9
    elif name == "unfold":  # the inner columns are in two windows
        weight[:] = [3, 6, 6, 3]
    np.testing.assert_array_equal(leaf.grad.numpy(), weight)
    assert expected.shape == view.shape


def test_view_steps_can_be_replayed_on_a_raw_array():
    x = count(2, 3, 4)
    y = x[1:].permute(2, 0, 1)[1].unsqueeze(0).view(1, 3)
    other = np.zeros((2, 3, 4), np.float32)
    part, bits = replay_raw(other, y._view.replay)
    part[...] = 1
    assert bits == 0
    assert other.sum() == 3
    assert (other[1, :, 1] == 1).all()


def test_writing_through_a_chain_of_views():
    leaf = gl.ones(3, requires_grad=True)
    base = gl.zeros(3, 4)
    base.t()[1:3].diagonal(0).copy_(leaf[:2])
    (base * count(3, 4)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [1, 6, 0])


def test_pieces_must_not_be_written_to_in_place():
    x = gl.ones(4, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="returns multiple views"):
        x.chunk(2)[0].mul_(2)
    x.unsafe_chunk(2)[0].mul_(2)


def test_reshape_copies_only_when_it_must():
    x = count(3, 4).requires_grad_()
    assert shares(x, x.reshape(2, 6))
    y = x.t().reshape(12)
    assert not shares(x, y)
    assert y.grad_fn.name() == "UnsafeViewBackward0"
    assert shares(x, x.t().unsqueeze(1).reshape(4, 3, 1))
    assert x.flatten(0, 0) is x


def test_metadata_changed_in_place():
    x = gl.ones(2, 3, requires_grad=True)
    y = x * 1
    same = y.t_().unsqueeze_(0)
    assert same is y
    assert y.shape == (1, 3, 2)
    (y * gl.arange(2.0)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 0], [1, 1, 1]])
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.t_()
    with gl.no_grad():
        assert x.t_().shape == (3, 2)


def test_as_strided_of_a_tensor_inside_a_larger_buffer():
    x = count(6)[2:]
    np.testing.assert_array_equal(x.as_strided((2,), (2,)).numpy(), [2, 4])
    np.testing.assert_array_equal(x.as_strided((2,), (2,), 0).numpy(), [0, 2])


def test_gradient_of_overlapping_windows_and_strides():
    x = count(5).requires_grad_()
    x.unfold(0, 3, 1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2, 3, 2, 1])
    y = count(4).requires_grad_()
    y.as_strided((3, 2), (1, 1)).sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), [1, 2, 2, 1])


def test_expand_of_many_kinds():
    assert count(3, 1).expand(2, -1, 4).shape == (2, 3, 4)
    assert gl.tensor(2.0).expand(0, 3).shape == (0, 3)
    assert gl.tensor(2.0, dtype=gl.bfloat16).expand(2).tolist() == [2.0, 2.0]
    assert count(2, 3).t()[:, :1].expand(3, 5).shape == (3, 5)
    with pytest.raises(RuntimeError, match="single memory location"):
        count(3, 1).expand(3, 4).add_(1)


def test_cat_and_stack():
    a, b = count(2, 2), gl.ones(1, 2, dtype=gl.int64)
    assert gl.cat([a, b]).tolist() == [[0, 1], [2, 3], [1, 1]]
    assert gl.cat([a, b]).dtype is gl.float32
    assert gl.cat([gl.empty(0), a]).shape == (2, 2)
    assert gl.stack([a, a], -1).shape == (2, 2, 2)
    out = gl.empty(0)
    assert gl.cat([a, a], out=out) is out
    assert out.shape == (4, 2)


def test_rearranging():
    x = count(2, 3)
    assert x.flip(1).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert x.roll(1).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert x.rot90().tolist() == [[2, 5], [1, 4], [0, 3]]
    assert x.repeat_interleave(gl.tensor([2, 0, 1]), 1).tolist() == [[0, 0, 2], [3, 3, 5]]
    assert gl.diag(gl.ones(2), 1).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert gl.combinations(gl.tensor([1, 2, 3])).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert gl.cartesian_prod(gl.tensor([1, 2]), gl.tensor([3, 4])).tolist() == [
        [1, 3],
        [1, 4],
        [2, 3],
        [2, 4],
    ]


def test_complex_parts_alias_and_take_assignment():
    z = gl.tensor([1 + 2j, 3 - 1j])
    z.real.mul_(2)
    z.imag = gl.zeros(2)
    assert z.tolist() == [2, 6]
    assert gl.view_as_complex(gl.view_as_real(z))._base is z
    x = gl.ones(2)
    assert x.real is x
    assert x.conj() is x
    leaf = gl.tensor([1 + 1j], requires_grad=True)
    (leaf.real * 2 + leaf.imag * 3).sum().backward()
    assert leaf.grad.tolist() == [2 + 3j]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.view(5), RuntimeError, r"shape '\[5\]' is invalid for input of size 12"),
        (lambda x: x.t().view(12), RuntimeError, "view size is not compatible"),
        (lambda x: x.expand(4), RuntimeError, "the number of sizes provided"),
        (lambda x: x.squeeze(2), IndexError, "Dimension out of range"),
        (lambda x: x.permute(0, 0), RuntimeError, "duplicate dims"),
        (lambda x: x.select(0, 3), IndexError, "out of range for tensor of size"),
        (lambda x: x.as_strided((9,), (99,)), RuntimeError, "out of bounds for storage of size 48"),
        (lambda x: x.split([1]), RuntimeError, "sum exactly to 3"),
        (lambda x: gl.cat([x, x[0]]), RuntimeError, "same number of dimensions"),
        (lambda x: gl.cat([]), ValueError, "non-empty list"),
        (lambda x: gl.stack([x, x[0]]), RuntimeError, "equal size"),
        (lambda x: x.imag, RuntimeError, "non-complex"),
        (lambda x: list(x[0, 0]), TypeError, "0-d tensor"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(count(3, 4))


def test_what_is_taken_several_times_gets_all_of_its_gradient():
    from gradlib.operators.shape.pad import add_along_op, take_along_op

    random = np.random.default_rng(0)
    for size in (1, 4, 7):
        drawn = [random.integers(size, size=n) for n in (0, 1, 5, 9)]
        each = [np.repeat(np.arange(size), times) for times in (1, 2, 3)]  # as nearest neighbours
        for where in (
            *drawn,
            *map(np.sort, drawn),
            *each,
            np.arange(0, size, 3),
            np.arange(size)[::-1],
        ):
            for dim in (0, 1):
                shape = (len(where), 5) if dim == 0 else (5, len(where))
                values = random.integers(-9, 9, shape).astype("f4")
                expected = np.zeros((size, 5) if dim == 0 else (5, size), "f4")
                np.add.at(expected, where if dim == 0 else (slice(None), where), values)
                found = add_along_op.call(gl.tensor(values), where, dim, size)
                np.testing.assert_array_equal(found.numpy(), expected)
            many = random.standard_normal((9000 // size, size))
            found = take_along_op.call(gl.tensor(many), where, 1)
            np.testing.assert_array_equal(found.numpy(), many[:, where])


AXES = {
    "stack": lambda x, **d: gl.stack([x, x], **d),
    "cat": lambda x, **d: gl.cat([x, x], **d),
    "softmax": lambda x, **d: gl.softmax(x, **d),
    "softmax of a tensor": lambda x, **d: x.softmax(**d),
    "log_softmax": lambda x, **d: x.log_softmax(**d),
    "squeeze": lambda x, **d: x.squeeze(**d),
    "unsqueeze": lambda x, **d: gl.unsqueeze(x, **d),
    "sort": lambda x, **d: x.sort(descending=True, **d)[0],
    "argsort": lambda x, **d: x.argsort(**d),
    "topk": lambda x, **d: x.topk(1, **d)[1],
    "chunk": lambda x, **d: x.chunk(2, **d)[0],
    "unbind": lambda x, **d: x.unbind(**d)[0],
    "diff": lambda x, **d: gl.diff(x, **d),
    "repeat_interleave": lambda x, **d: gl.repeat_interleave(x, 2, **d),
    "repeat_interleave of a tensor": lambda x, **d: x.repeat_interleave(2, **d),
    "cross": lambda x, **d: gl.cross(x, x.flip(0), **d),
    "take_along_dim": lambda x, **d: gl.take_along_dim(x, x.argsort(0), **d),
}


@pytest.mark.parametrize("name", AXES)
def test_a_dimension_may_be_called_axis(name):
    x = gl.arange(6.0).reshape(3, 2).flip(0).sin()
    x = x[:, :1] if name == "squeeze" else x
    dim = 1 if name == "squeeze" else 0
    assert gl.equal(AXES[name](x, axis=dim), AXES[name](x, dim=dim))


def test_the_end_of_a_range_by_name():
    assert gl.arange(end=3).tolist() == gl.arange(start=0, end=3).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="arange"):
        gl.arange()


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "unsqueeze"])
def test_a_dimension_that_is_missing(name):
    with pytest.raises(
        TypeError, match=rf'{name}\(\) missing 1 required positional arguments: "dim"'
    ):
        getattr(gl.zeros(2), name)()


@pytest.mark.parametrize(
    ("shape", "size", "strides"),
    [
        ((1,), (1, 1), (1, 1)), ((3,), (1, 3), (3, 1)), ((3,), (2, 3), (0, 1)), ((3,), (1, 2, 3), (0, 0, 1)),
        ((3,), (2, 1, 3), (0, 3, 1)), ((2, 1), (1, 2, 4), (2, 1, 0)), ((), (1, 1), (0, 0)),
    ],
)  # fmt: skip
def test_strides_of_new_dimensions(shape, size, strides):
    assert gl.zeros(shape).expand(size).stride() == strides


def test_rounded_whole_numbers_lie_as_they_did():
    assert gl.arange(6).reshape(2, 3).t().round().stride() == (1, 3)
