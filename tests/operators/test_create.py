"""Creation: sizes, dtypes, strides, ranges, tensors from data; and the copies of views."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib as gl
from gradlib.tape.device import beside


def test_sizes_as_numbers_tuple_or_keyword():
    for made in (gl.zeros(2, 3), gl.zeros((2, 3)), gl.zeros([2, 3]), gl.zeros(size=(2, 3))):
        assert made.shape == (2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional arguments"):
        gl.zeros()
    with pytest.raises(TypeError, match="got multiple values for argument 'size'"):
        gl.zeros(2, size=(1,))
    with pytest.raises(TypeError, match="type must be tuple of ints,but got float"):
        gl.zeros([2, 3.0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        gl.ones(2, shape=3)


def test_full_refuses_values_that_do_not_fit():
    assert gl.full((2,), -9, dtype=gl.uint8).tolist() == [247, 247]
    for value, kind in ((300, gl.uint8), (float("nan"), gl.int32), (1j, gl.float32)):
        with pytest.raises(RuntimeError, match="cannot be converted to type"):
            gl.full((2,), value, dtype=kind)
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        gl.full((2,), gl.tensor(1.0, requires_grad=True))


def test_out_must_have_the_dtype_that_is_asked_for():
    with pytest.raises(RuntimeError, match="dtype Int does not match dtype of out parameter"):
        gl.zeros(2, out=gl.ones(2), dtype=gl.int32)


def test_out_is_resized_with_a_warning_unless_it_is_empty():
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        gl.cat([gl.ones(2), gl.ones(2)], out=gl.ones(3))
    out = gl.empty(0)
    assert gl.cat([gl.ones(2), gl.ones(2)], out=out) is out
    assert out.shape == (4,)


def test_out_must_not_share_memory_with_the_input_of_gathering_functions():
    x = gl.arange(6.0)
    for call in (
        lambda: gl.take(x, gl.tensor([0, 1]), out=x[:2]),
        lambda: gl.index_select(x, 0, gl.tensor([0, 1]), out=x[:2]),
        lambda: gl.gather(x, 0, gl.tensor([0, 1]), out=x[2:4]),
        lambda: gl.cat([x[:2], x[2:4]], out=x[:4]),
        lambda: gl.masked_select(x, x > 3, out=x[:2]),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            call()


def test_strides_that_are_asked_for():
    assert gl.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert gl.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert gl.ones(2, dtype=gl.int32).new_empty_strided((2,), (3,)).dtype is gl.int32
    with pytest.raises(RuntimeError, match="must match dimensionality of strides"):
        gl.empty_strided((2,), (1, 2))
    with pytest.raises(RuntimeError, match="Duplicate dim not allowed"):
        gl.empty_permuted((2, 3), (0, 0))


def test_arange_counts_as_its_dtype_does():
    assert gl.arange(-0.9, 2.1, 2.0, dtype=gl.int64).tolist() == [0]
    assert gl.arange(-0.9, 2.1, 2.0, dtype=gl.int32).tolist() == [0, 2]
    assert gl.arange(0, -8, -4, dtype=gl.uint8).tolist() == [0, 252]
    for bad, text in (
        ((0, float("inf")), "unsupported range"),
        ((0, 1, -1), "inconsistent"),
        ((0, 1, 0), "nonzero"),
    ):
        with pytest.raises(RuntimeError, match=text):
            gl.arange(*bad)


def test_linspace_is_exact_at_both_ends_and_cuts_whole_numbers_off():
    x = gl.linspace(-1.1, 7.3, 31, dtype=gl.float64)
    assert x[0] == -1.1
    assert x[-1] == 7.3
    assert gl.linspace(4.3, 0, 50, dtype=gl.int64).tolist()[:3] == [4, 3, 3]
    assert gl.logspace(4.3, 0, 4, base=2.0, dtype=gl.uint8).tolist() == [16, 6, 2, 1]
    assert gl.linspace(0, 1j, 3).dtype is gl.complex64
    with pytest.raises(RuntimeError, match="must be non-negative"):
        gl.logspace(0, 1, -1)


@pytest.mark.parametrize(
    ("data", "dtype", "value"),
    [
        ([], gl.float32, []), ([1, True], gl.int64, [1, 1]), ([1, 2.5], gl.float32, [1, 2.5]),
        ([0.5, np.float64(1)], gl.float64, [0.5, 1]), (range(3), gl.int64, [0, 1, 2]), (np.float32(3), gl.float32, 3),
        (bytearray(b"ab"), gl.int64, [97, 98]), ([np.arange(2), [3, 4]], gl.int64, [[0, 1], [3, 4]]),
    ],
)  # fmt: skip
def test_tensor_infers_the_dtype(data, dtype, value):
    made = gl.tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == value


def test_tensors_among_numbers():
    made = gl.tensor([gl.tensor(1), gl.tensor(2.0, dtype=gl.float64), 3])
    assert made.dtype is gl.float64
    assert made.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1"), ([[1], 2], TypeError, "not a sequence"),
        (["a"], ValueError, "too many dimensions 'str'"), ("a", TypeError, "invalid data type 'str'"),
        (None, RuntimeError, "Could not infer dtype of NoneType"), (2**64, ValueError, "Overflow"),
        ([gl.ones(2), [1, 2]], ValueError, "only one element tensors"), ({1}, RuntimeError, "dtype of set"),
    ],
)  # fmt: skip
def test_tensor_refuses(data, error, text):
    with pytest.raises(error, match=text):
        gl.tensor(data)


def test_numbers_that_do_not_fit_the_dtype():
    assert gl.tensor([-1], dtype=gl.uint8).tolist() == [255]
    with pytest.raises(RuntimeError, match="type uint8 without overflow"):
        gl.tensor([300], dtype=gl.uint8)
    with pytest.raises(TypeError, match="must be real number, not complex"):
        gl.tensor([1j], dtype=gl.float32)
    with pytest.raises(TypeError, match=r"must be torch\.dtype, not str"):
        gl.tensor([1], dtype="float32")
    assert gl.tensor([1], dtype=float).dtype is gl.float64


def test_asarray_and_frombuffer_share_memory():
    array = np.arange(3.0)
    shared = gl.asarray(array)
    array[0] = 7
    assert shared[0] == 7
    assert gl.asarray(array, copy=True)._array.base is not array
    with pytest.raises(ValueError, match="can't alias"):
        gl.asarray([1], copy=False)
    buffer = bytearray(8)
    vector = gl.frombuffer(buffer, dtype=gl.int32, offset=4)
    vector[0] = 1
    assert buffer[4] == 1
    with pytest.raises(ValueError, match="multiple of element size"):
        gl.frombuffer(bytearray(3), dtype=gl.float32)


def test_a_file_as_a_tensor(tmp_path):
    path = tmp_path / "numbers"
    gl.from_file(str(path), shared=True, size=3)[1] = 2.0
    assert np.fromfile(path, np.float32).tolist() == [0, 2, 0]
    private = gl.from_file(str(path), size=2)
    private[0] = 9.0
    assert private.tolist() == [9, 2]
    assert np.fromfile(path, np.float32).tolist() == [0, 2, 0]


def test_default_tensor_type():
    with pytest.warns(UserWarning, match="set_default_tensor_type.. is deprecated"):
        gl.set_default_tensor_type(gl.DoubleTensor)
    try:
        assert gl.zeros(1).dtype is gl.float64
    finally:
        gl.set_default_dtype(gl.float32)
    with pytest.warns(UserWarning, match="is deprecated"):
        gl.set_default_tensor_type("torch.FloatTensor")
    assert gl.zeros(1).dtype is gl.float32


def test_constructors_by_type():
    assert gl.LongTensor([1, 2]).dtype is gl.int64
    assert gl.DoubleTensor(2, 3).shape == (2, 3)
    assert isinstance(gl.ones(1, device="cpu"), gl.FloatTensor)
    assert not isinstance(gl.ones(1), gl.IntTensor)
    assert gl.ones(1, dtype=gl.int16).new([2, 3]).dtype is gl.int16
    assert gl.ones(1).new_tensor([2, 3]).dtype is gl.float32


@pytest.mark.parametrize(
    "name", "view_copy expand_copy t_copy unsqueeze_copy alias_copy diagonal_copy".split()
)
def test_copies_of_views_have_memory_of_their_own_and_the_gradient_of_the_view(name):
    arguments = {"view_copy": ((3, 2),), "expand_copy": ((4, 2, 3),), "unsqueeze_copy": (0,)}.get(
        name, ()
    )
    x = gl.arange(6.0).reshape(2, 3).requires_grad_()
    view = getattr(gl.Tensor, name.removesuffix("_copy"), lambda t: t.view_as(t))(x, *arguments)
    copy = getattr(gl, name)(x, *arguments)
    with beside(x._array):
        assert not np.shares_memory(copy._array, x._array)
    assert type(copy.grad_fn).__name__.endswith("_copy")
    (a,), (b,) = (gl.autograd.grad((y * y).sum(), x) for y in (view, copy))
    assert a.tolist() == b.tolist()


def test_copies_of_several_views():
    x = gl.arange(6.0).reshape(2, 3)
    for copies, views in (
        (gl.unbind_copy(x, 1), x.unbind(1)),
        (gl.split_copy(x, 2, dim=1), x.split(2, 1)),
    ):
        assert [c.tolist() for c in copies] == [v.tolist() for v in views]
        with beside(x._array):
            assert not any(np.shares_memory(c._array, x._array) for c in copies)


@pytest.mark.host
def test_default_device_is_where_tensors_are_made():
    assert gl.get_default_device() == gl.device("cpu")
    with gl.device("cpu"):
        assert gl.zeros(1).device == gl.device("cpu")
    gl.set_default_device("cpu")
    assert gl.get_default_device() == gl.device("cpu")


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: gl.zeros(3).random_(0), "expects 'from' to be less than 'to', but got from=0 >= to=0"),
        (lambda: gl.zeros(3, dtype=gl.uint8).random_(0, 300), "to - 1 is out of bounds for unsigned"),
        (lambda: gl.randint(-3, 30, (2,), dtype=gl.uint8), "from is out of bounds for unsigned char"),
        (lambda: gl.randint(0, 10**6, (2,), dtype=gl.float16), "to - 1 is out of bounds for c10::Half"),
        (lambda: gl.randint_like(gl.ones(2, dtype=gl.bool), 5), "to - 1 is out of bounds for bool"),
        (lambda: gl.arange(3, dtype=gl.int64, out=gl.empty(0)), "dtype Long does not match dtype of"),
        (lambda: gl.randn(2, dtype=gl.float64, out=gl.empty(0)), "dtype Double does not match dtype"),
        (lambda: gl.normal(gl.ones(2, requires_grad=True), 1.0, out=gl.empty(2)), r"normal\(\): functions"),
        (lambda: gl.bernoulli(gl.ones(2, requires_grad=True), out=gl.empty(2)), r"bernoulli\(\): func"),
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_does_not_hold_and_outs_that_do_not_fit(draw, words):
    with pytest.raises(RuntimeError, match=words):
        draw()


def test_bounds_of_random():
    assert set(gl.zeros(300, dtype=gl.int64).random_(2).tolist()) == {0, 1}
    high = gl.zeros(2000, dtype=gl.uint8).random_(200, None)
    assert high.min() >= 200 and high.max() > 240
    assert gl.randint(5, (3,), out=gl.empty(0)).dtype is gl.float32


def test_new_memory_is_filled_where_everything_is_deterministic():
    import gradlib.utils.deterministic as deterministic

    assert deterministic.fill_uninitialized_memory is True
    gl.use_deterministic_algorithms(True)
    try:
        for made in (
            gl.empty(3),
            gl.empty_like(gl.ones(3, dtype=gl.float16)),
            gl.ones(2).new_empty(3, dtype=gl.complex64).real,
            gl.empty_strided((2, 2), (1, 2)),
            gl.ones(2).resize_(5)[2:],
        ):
            assert made.isnan().all()
        assert gl.empty(2, dtype=gl.int8).tolist() == [127, 127]
        assert gl.empty(2, dtype=gl.bool).tolist() == [True, True]
        deterministic.fill_uninitialized_memory = False
        gl.empty(2)
    finally:
        gl.use_deterministic_algorithms(False)
        deterministic.fill_uninitialized_memory = True


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "bfloat16"])
def test_randperm_has_no_number_twice(dtype):
    kind = getattr(gl, dtype)
    most = {"uint8": 256, "int8": 128, "float16": 2049, "bfloat16": 257}[dtype]
    for n in (100, most):
        assert len(set(gl.randperm(n, dtype=kind).tolist())) == n
    with pytest.raises(RuntimeError, match=r"without overflow|cannot be greater"):
        gl.randperm(most + 1, dtype=kind)
