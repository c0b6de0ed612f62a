"""Indexing, writing, gather and scatter, masks, sorting: known values, repeated indices, history, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl


def count(*shape):
    return gl.arange(float(np.prod(shape))).reshape(shape).clone()


# -- x[key] ------------------------------------------------------------------------------------------------------


def test_one_node_for_each_step():
    x = count(3, 4).requires_grad_()
    names = {
        "SelectBackward0": x[0], "SliceBackward0": x[:2], "UnsqueezeBackward0": x[None], "IndexBackward0": x[[0, 1]],
        "AliasBackward0": x[...],
    }  # fmt: skip
    assert {k: y.grad_fn.name() for k, y in names.items()} == {k: k for k in names}
    chain = x[1:, None, 0].grad_fn
    assert [chain.name(), chain.next_functions[0][0].name()] == [
        "SelectBackward0",
        "UnsqueezeBackward0",
    ]


def test_ints_are_taken_before_index_lists():
    x = count(2, 3, 4)
    assert x[0, :, [1, 2]].shape == (3, 2)  # NumPy would put the lists' dimension first
    assert x[[0, 1], :, [1, 2]].shape == (2, 3)
    assert x[:, [0, 1], [1, 2]].shape == (2, 2)
    assert x[True].shape == (1, 2, 3, 4)
    assert x[False].shape == (0, 2, 3, 4)
    assert x[x > 20].tolist() == [21, 22, 23]
    assert x[gl.tensor(1)]._base is x


@pytest.mark.parametrize("dtype", [gl.float32, gl.float64, gl.complex64, gl.int64], ids=str)
@pytest.mark.parametrize(
    ("rows", "index"),
    {
        "each once": (9, [4, 0, 8]),
        "each once, from the end": (9, [-1, -3]),
        "one by both its numbers": (9, [8, -1, 2]),
        "some repeated": (4, [1, 3, 1, 1, 0]),
        "many": (5, list(range(5)) * 12),
        "one very often": (3, [1] * 300 + [0, -1]),
        "few of many": (4000, [3, 3, 3999]),
        "none": (3, []),
        "matrices of indices": (6, [[1, 5], [1, 0]]),
        "a matrix of different ones": (6, [[1, 5], [2, 0]]),
        "a column": (6, [[1], [5], [2]]),
    }.values(),
)
def test_rows_are_added_at_every_place_that_names_them(rows, index, dtype):
    index = np.array(index, np.int64)
    values = np.random.default_rng(2).integers(-9, 9, (*index.shape, 7))
    out = np.random.default_rng(3).integers(-9, 9, (rows, 7))
    found = gl.tensor(out, dtype=dtype)
    found.index_put_((gl.tensor(index),), gl.tensor(values, dtype=dtype), accumulate=True)
    np.add.at(out, index, values)
    np.testing.assert_array_equal(found.numpy(), out)
    one = gl.zeros(rows, 7, dtype=dtype).index_put_(
        (gl.tensor(index),), gl.tensor(2, dtype=dtype), accumulate=True
    )
    assert one.sum().item() == 14 * index.size


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_infinite_row_is_added_to_no_other(bad):
    x = gl.zeros(3, 4, requires_grad=True)
    g = gl.ones(4, 4)
    g[2, 1] = bad
    (found,) = gl.autograd.grad(x[gl.tensor([0, 2, 2, 0])], x, g)
    wanted = [[2.0] * 4, [0.0] * 4, [2.0, bad, 2.0, 2.0]]
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_repeated_indices_accumulate_in_gradients():
    x = count(3, 2).requires_grad_()
    x[[0, 0, 2]].sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [1, 1]]
    y = count(4).requires_grad_()
    y[gl.tensor([1, 1, -1])].sum().backward()
    assert y.grad.tolist() == [0, 2, 0, 1]


def test_a_later_change_of_the_index_does_not_change_the_gradient():
    x, index = count(3).requires_grad_(), gl.tensor([0, 1])
    y = x[index]
    index.fill_(2)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 0]


def test_assignment_rewrites_history():
    leaf, value = gl.ones(3, 4, requires_grad=True), gl.ones(4, requires_grad=True)
    x = leaf * 1
    row = x[1]
    x[1] = value
    x[[0, 2], [0, 0]] = 5.0
    (x.sum() + row.sum()).backward()
    assert leaf.grad.tolist() == [[0, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]]
    assert value.grad.tolist() == [2, 2, 2, 2]


def test_assignment_of_numbers_and_other_dtypes():
    x = gl.zeros(2, 2, dtype=gl.int64)
    x[0] = 2.7
    x[1, 1] = gl.tensor(-1.5)
    x[gl.tensor([[False, False], [True, False]])] = 9
    assert x.tolist() == [[2, 2], [9, -1]]
    x[:, :] = gl.ones(1, 1, 2)
    assert x.sum().item() == 4
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1, 2]


def test_assignment_counts_as_a_change():
    x = gl.ones(3, requires_grad=True) * 1
    y = x.exp()
    y[0] = 2.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_only_the_written_part_is_touched():
    """Writing one row must not cost a pass over the tensor: the buffer stays where it is."""
    x = gl.zeros(4, 4)
    before = x.data_ptr()
    x.index_put_((gl.tensor([1]),), gl.ones(4))
    x.scatter_(0, gl.tensor([[2, 2, 2, 2]]), 3.0)
    assert x.data_ptr() == before
    assert x.sum().item() == 16


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (3, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ((0, 4), IndexError, "index 4 is out of bounds for dimension 1 with size 4"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (1.5, IndexError, "only integers, slices"),
        pytest.param(
            [5], IndexError, "out of bounds", marks=pytest.mark.host
        ),  # a device would have to be waited for
        ([True, False], IndexError, r"The shape of the mask \[2\] at index 0"),
        (([0, 1], [0, 1, 2]), IndexError, r"shapes \[2\], \[3\]"),
    ],
)
def test_bad_keys(key, error, text):
    with pytest.raises(error, match=text):
        count(3, 4)[key]
    if not isinstance(key, slice):
        with pytest.raises(error):
            count(3, 4)[key] = 0


# -- writing -----------------------------------------------------------------------------------------------------


def test_copy_converts_broadcasts_and_differentiates():
    source = gl.ones(3, dtype=gl.float64, requires_grad=True)
    x = gl.zeros(2, 3)
    assert x.copy_(source) is x
    x.sum().backward()
    assert source.grad.tolist() == [2, 2, 2]
    assert source.grad.dtype is gl.float64
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        x.copy_(gl.ones(4))


def test_fill_with_a_tensor_and_limits():
    s = gl.tensor(2.0, requires_grad=True)
    gl.zeros(2, 2).fill_(s).sum().backward()
    assert s.grad.item() == 4
    assert gl.zeros(2, dtype=gl.uint8).fill_(-1).tolist() == [255, 255]
    with pytest.raises(RuntimeError, match="without overflow"):
        gl.zeros(2, dtype=gl.uint8).fill_(300)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        gl.ones(2, requires_grad=True).zero_()


def test_masks():
    x, mask = count(2, 3), gl.tensor([True, False, True])
    assert x.masked_fill(mask, -1).tolist() == [[-1, 1, -1], [-1, 4, -1]]
    assert x.masked_select(mask).tolist() == [0, 2, 3, 5]
    assert x.masked_scatter(mask, gl.tensor([9.0, 8, 7, 6])).tolist() == [[9, 1, 8], [7, 4, 6]]


# -- gather, scatter, index_* --------------------------------------------------------------------------------------


def test_gather_and_its_gradient():
    x = count(3, 4).requires_grad_()
    index = gl.tensor([[0, 0, 3], [1, 2, 2]])
    y = x.gather(1, index)
    assert y.tolist() == [[0, 0, 3], [5, 6, 6]]
    y.sum().backward()
    assert x.grad.tolist() == [[2, 0, 0, 1], [0, 1, 2, 0], [0, 0, 0, 0]]


def test_saved_index_is_checked_for_changes():
    x, index = count(3).requires_grad_(), gl.tensor([0, 1])
    y = x.gather(0, index)
    assert y.grad_fn._saved_index is index
    index.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("reduce", "keep", "expected"),
    [
        ("sum", True, [6, 2]), ("sum", False, [5, 2]), ("mean", True, [2, 2]), ("prod", True, [6, 2]),
        ("amax", True, [3, 2]), ("amin", False, [2, 2]), ("mean", False, [2.5, 2]),
    ],
)  # fmt: skip
def test_scatter_reduce(reduce, keep, expected):
    x, index, src = gl.tensor([1.0, 2.0]), gl.tensor([0, 0]), gl.tensor([2.0, 3.0])
    assert x.scatter_reduce(0, index, src, reduce, include_self=keep).tolist() == expected


def test_index_ops_into_a_view():
    x = gl.zeros(2, 3)
    x.t().index_add_(0, gl.tensor([2, 2]), gl.ones(2, 2))
    x.t().put_(gl.tensor([0]), gl.tensor([7.0]))
    x[:, 1:].scatter_add_(1, gl.tensor([[0, 0], [1, 1]]), gl.ones(2, 2))
    assert x.tolist() == [[7, 2, 2], [0, 0, 4]]


def test_gradient_of_index_fill_counts_an_entry_once():
    value = gl.tensor(1.0, requires_grad=True)
    gl.zeros(3, 2).index_fill(0, gl.tensor([1, 1]), value).sum().backward()
    assert value.grad.item() == 2


@pytest.mark.parametrize(
    "dtype", [gl.float16, gl.bfloat16, gl.float32, gl.float64, gl.int32, gl.complex64]
)
def test_adding_to_repeated_places_is_exact(dtype):
    n = 2000
    index = gl.arange(n) % 2
    x = gl.zeros(2, dtype=dtype).index_add(0, index, gl.ones(n, dtype=dtype))
    assert x.tolist() == [1000, 1000]
    rows = gl.zeros(3, 5, dtype=dtype).index_add(
        0, gl.zeros(n, dtype=gl.int64), gl.ones(n, 5, dtype=dtype)
    )
    assert rows[0].tolist() == [2000] * 5
    columns = gl.zeros(5, 3, dtype=dtype).index_add(
        1, gl.zeros(n, dtype=gl.int64), gl.ones(5, n, dtype=dtype)
    )
    assert columns[:, 0].tolist() == [2000] * 5


# -- order -------------------------------------------------------------------------------------------------------


def test_sort_is_stable_and_puts_nan_last():
    x = gl.tensor([2.0, float("nan"), 1.0, 2.0])
    assert x.sort().indices.tolist() == [2, 0, 3, 1]
    assert x.sort(descending=True).indices.tolist() == [1, 0, 3, 2]
    out = gl.sort(gl.tensor([3, 1]))
    assert type(out).__name__ == "sort"
    assert out.values.tolist() == [1, 3]


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_long_rows(largest):
    rng = np.random.default_rng(0)
    array = rng.permutation(1000).reshape(2, 500).astype(np.float32)
    values, indices = gl.from_numpy(array).topk(5, largest=largest)
    expected = np.sort(array, 1)[:, ::-1][:, :5] if largest else np.sort(array, 1)[:, :5]
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(array, indices.numpy(), 1), expected)
    x = gl.from_numpy(array).requires_grad_()
    x.topk(5, largest=largest).values.sum().backward()
    assert x.grad.sum().item() == 10


def test_unique_counts_and_inverse():
    x = gl.tensor([3, 1, 3, 3])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1, 1], [1, 3])
    values, counts = x.unique_consecutive(return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([3, 1, 3], [1, 1, 2])


def test_counting_and_searching():
    assert gl.bincount(gl.tensor([0, 2, 2]), minlength=4).tolist() == [1, 0, 2, 0]
    assert gl.histc(gl.tensor([0.0, 1, 2, 2]), 2).tolist() == [1, 3]
    edges = gl.tensor([1.0, 3, 5])
    assert gl.bucketize(gl.tensor([0.0, 3, 9]), edges).tolist() == [0, 1, 3]
    assert gl.searchsorted(edges, 3.0, right=True).item() == 2
    assert gl.tensor([[0, 1], [1, 0]]).nonzero().tolist() == [[0, 1], [1, 0]]
    assert [i.tolist() for i in gl.tensor([0, 5]).nonzero(as_tuple=True)] == [[1]]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint16", "uint32"])
def test_0_dim_index_tensors_of_any_integer_type(dtype):
    x, i = gl.arange(6.0).reshape(2, 3), gl.tensor(1).to(getattr(gl, dtype))
    assert x[i].tolist() == [3.0, 4.0, 5.0] and x[:, i].tolist() == [1.0, 4.0]
    x[i] = 7.0
    assert x.tolist() == [[0.0, 1.0, 2.0], [7.0, 7.0, 7.0]]


def test_sequences_and_arrays_as_indices_are_cut_off_to_integers():
    x = gl.arange(6.0).reshape(2, 3)
    for key in ([1.7, 0], np.array([1.5, 0.0]), np.array([1, 0], np.int8), [1, False]):
        assert x[key].tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
    with pytest.warns(UserWarning, match="uint8"):  # a mask
        assert x[np.array([0, 1], np.uint8)].tolist() == [[3.0, 4.0, 5.0]]
    assert x[[]].shape == (0, 3) and x[np.zeros(0)].shape == (0, 3)
    with pytest.raises(IndexError, match=r"valid indices \(got numpy.bool\)"):
        x[np.bool_(True)]
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        x[["a"]]
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[0]


def test_assignment_converts_where_it_copies_or_fills():
    x = gl.zeros(2, 3)
    x[True] = gl.ones(3, dtype=gl.float64) * 2.5
    assert x.tolist() == [[2.5] * 3] * 2
    x[False] = gl.ones(3, dtype=gl.complex64)
    assert x.tolist() == [[2.5] * 3] * 2
    x[gl.tensor([True, False])] = gl.tensor(1, dtype=gl.int64)  # one value under one mask
    assert x.tolist() == [[1.0] * 3, [2.5] * 3]
    with pytest.raises(
        RuntimeError, match="got Float for the destination and Double for the source"
    ):
        x[gl.tensor([0])] = gl.ones(3, dtype=gl.float64)
    with pytest.raises(IndexError, match="could not be broadcast together"):  # comes first
        x[gl.tensor([True, True]), gl.tensor([0, 1, 0])] = gl.ones(2, dtype=gl.float64)
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        x[gl.tensor([0])] = gl.ones(2, dtype=gl.float64)


def test_masks_of_uint8_select_but_do_not_fill():
    x, mask = gl.arange(3.0), gl.tensor([1, 0, 1], dtype=gl.uint8)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[mask].tolist() == [0.0, 2.0]
    with (
        pytest.warns(UserWarning, match="uint8"),
        pytest.raises(RuntimeError, match="only supports boolean masks"),
    ):
        x[mask] = 2.0
    with pytest.warns(UserWarning, match="uint8"):
        x[mask] = gl.tensor([5.0, 6.0])
    assert x.tolist() == [5.0, 1.0, 6.0]


def test_writes_through_indices_of_an_expanded_tensor_warn():
    x = gl.arange(4.0)
    wide = x.expand(2, 4)
    for write in (
        lambda: wide.index_put_((gl.tensor([1]),), gl.ones(1, 4)),
        lambda: wide.masked_fill_(gl.tensor([[True], [False]]), 1.0),
        lambda: wide.index_fill_(0, gl.tensor([1]), 1.0),
    ):
        x.copy_(gl.arange(4.0))
        with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
            write()
        assert x.tolist() == [1.0] * 4
    for write in (lambda: wide.add_(1), lambda: wide.__setitem__(slice(None), 5.0)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write()
    y = gl.arange(4.0, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        y.expand(2, 4)[gl.tensor([1])] = gl.ones(1, 4)  # has no gradient of its own


def test_gathering_keeps_the_order_of_strides():
    x = gl.arange(24).reshape(2, 3, 4).permute(2, 0, 1)
    assert x[[0, 1]].stride() == (6, 3, 1)
    assert x[:, [1, 0, 1]].stride() == (1, 4, 12)
    assert gl.ones(2, 3, 4)[:, [1]].stride() == (4, 4, 1)
    if gl.get_default_device().type == "cpu":  # CuPy takes other strides for a length of one
        assert gl.ones_like(gl.ones(2, 3, 1, 3).movedim(0, -1)[range(2), -2:]).stride() == (
            6,
            3,
            1,
            3,
        )


def test_numpy_arrays_are_operands_but_no_arguments():
    x = gl.ones(3, device="cpu")
    for refused in (
        lambda: x.sub_(np.ones(3)),
        lambda: gl.add(x, np.ones(3)),
        lambda: gl.sin(np.ones(3)),
        lambda: gl.outer(x, np.ones(3)),
    ):
        with pytest.raises(TypeError, match=r"must be Tensor, not numpy\.ndarray"):
            refused()
    assert (x * np.ones(3)).dtype is gl.float64 and (x - np.array(2.0)).dtype is gl.float64
    y = x
    y *= np.full(3, 2.0)  # another tensor, in the dtype that NumPy gives the product
    assert y is not x and y.dtype is gl.float64 and x.tolist() == [1.0] * 3
    assert x._version == 0


def test_a_number_of_numpy_without_dimensions_is_an_index():
    x = gl.arange(4.0)
    assert x[np.array(2)].item() == 2.0
