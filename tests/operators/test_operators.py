"""Operators and arguments that an op refuses: rules that hold for all pointwise ops."""

import math

import pytest

import gradlib as gl


class Other:
    """Knows how to be added to a tensor, and to be compared with one."""

    def __radd__(self, tensor):
        return "radd"

    def __eq__(self, tensor):
        return "eq"

    __hash__ = None


def test_operand_of_another_type_is_asked():
    x = gl.tensor([1.0, 2.0])
    assert x + Other() == "radd"
    assert (x == Other()) == "eq"
    assert (x == None) is False and (x != None) is True  # noqa: E711
    for bad in (lambda: x + None, lambda: None - x, lambda: x < "a", lambda: x**None):
        with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
            bad()


def test_operators_are_the_functions():
    x = gl.tensor([1.5, -2.0], requires_grad=True)
    assert (2 - x).tolist() == [0.5, 4.0] and (3 / x).tolist() == [2.0, -1.5]
    assert (7 // gl.tensor([2, -2])).tolist() == [3, -4] and (7 % gl.tensor([4, -4])).tolist() == [
        3,
        -1,
    ]
    assert (2 ** gl.tensor([3, -1])).tolist() == [8, 0] and (2 << gl.tensor([3, 0])).tolist() == [
        16,
        2,
    ]
    assert (x + 1).grad_fn.name() == "AddBackward0"
    (g,) = gl.autograd.grad((3 / x).sum(), x)
    assert g.tolist() == pytest.approx([-3 / 2.25, -0.75])


def test_numbers_only_where_they_are_allowed():
    x = gl.tensor([1.0, 2.0])
    with pytest.raises(
        TypeError, match=r"atan2\(\): argument 'other' \(position 2\) must be Tensor"
    ):
        gl.atan2(x, 2)
    with pytest.raises(
        TypeError, match=r"eq\(\) received an invalid combination .*\(int, Tensor\)"
    ):
        gl.eq(2, x)
    with pytest.raises(TypeError, match=r"remainder\(\) received an invalid combination"):
        gl.remainder(2, 3)
    with pytest.raises(TypeError, match=r"exp\(\): argument 'input' \(position 1\) must be Tensor"):
        gl.exp(2)
    assert gl.add(2, 3).item() == 5 and gl.remainder(5, gl.tensor([3])).tolist() == [2]
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        x.atan2_(2)


def test_bools_are_not_subtracted():
    b = gl.tensor([True, False])
    for bad in (lambda: b - b, lambda: gl.ones(2) - b, lambda: 1 - b, lambda: gl.rsub(b, 1)):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator"):
            bad()
    with pytest.raises(RuntimeError, match="Negation, the `-` operator"):
        b.neg()
    assert (b ^ b).tolist() == [False, False]


def test_integers_wrap_around():
    small = gl.tensor([3, 200], dtype=gl.uint8)
    assert (small + 300).tolist() == [47, 244] and (small * -1).tolist() == [253, 56]
    assert (gl.tensor([1], dtype=gl.int64) << 70).tolist() == [0]


def test_out_must_have_the_dtype_that_the_op_asks_for():
    x = gl.tensor([1.5, -2.0])
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        gl.floor(x, out=gl.empty(0, dtype=gl.float64))
    with pytest.raises(RuntimeError, match="signbit does not support non-boolean outputs"):
        gl.signbit(x, out=gl.empty(0))
    assert gl.sum(x, 0, out=gl.empty((), dtype=gl.int64)).item() == -1  # summed as integers
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        gl.cummax(x, 0, out=gl.empty(0))


def test_ops_without_derivative_say_so_in_backward():
    x = gl.tensor([1.5, -2.0], requires_grad=True)
    for y in (x // 2, gl.heaviside(x, x)):
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="is not implemented"):
            y.sum().backward()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, o: gl.exp(x, out=o), r"exp\(\): functions with out=... arguments don't support"),
        (lambda x, o: gl.cumsum(x, 0, out=o), r"cumsum\(\): functions with out=..."),
        (lambda x, o: gl.linalg.inv(x.diag(), out=o), r"inv\(\): functions with out=..."),
        (lambda x, o: gl.where(x > 0, x, x, out=o), r"where\(\): functions with out=..."),
    ],
)
def test_out_refuses_gradients_in_the_name_of_the_function(call, words):
    x = gl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=words):
        call(x, gl.empty(0))
    with gl.no_grad():
        call(x, gl.empty(0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, o: gl.triu(x.diag(), out=o), "Expected out tensor to have dtype float, but got double"),
        (lambda x, o: gl.softmax(x, 0, out=o), "Expected out tensor to have dtype float, but got double"),
        (lambda x, o: gl.where(x > 0, x, x, out=o), "Expected out type to be Float but got Double"),
        (lambda x, o: gl.logcumsumexp(x, 0, out=o), "expected scalar_type Float but found Double"),
        (lambda x, o: gl.inner(x.diag(), x, out=o), "tensordot: Expected the output tensor to have"),
        (lambda x, o: gl.bitwise_not(x.bool(), out=o), "Found dtype Double but expected Bool"),
    ],
)  # fmt: skip
def test_out_of_another_dtype_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(gl.ones(2), gl.empty(0, dtype=gl.float64))


def test_dtypes_that_would_lose_what_is_computed_are_refused():
    whole = gl.ones(1, 2, 3, 3, dtype=gl.int64)
    for drop in (gl.nn.functional.dropout, gl.nn.functional.dropout2d):
        with pytest.raises(
            RuntimeError, match="result type Float can't be cast to the desired output"
        ):
            drop(whole)
        assert drop(whole, p=1.0).sum() == 0
    with pytest.raises(RuntimeError, match="does not support uint8"):
        gl.gradient(gl.arange(5, dtype=gl.uint8))
    with pytest.raises(RuntimeError, match="maximum not implemented for complex tensors"):
        gl.maximum(gl.ones(1) + 1j, gl.ones(1) + 1j)
    part = gl.slice_scatter(gl.arange(4), gl.tensor([7.5]), 0, 1, 2)
    assert part.dtype is gl.int64 and part.tolist() == [0, 7, 2, 3]
    strided = gl.arange(6.0).reshape(2, 3).t()
    assert gl.as_strided_scatter(strided, gl.tensor([8.0, 9.0]), (2,), (1,)).tolist() == [
        [8.0, 3.0],
        [9.0, 4.0],
        [2.0, 5.0],
    ]


def test_the_derivatives_of_sinc_near_zero_keep_their_digits():
    for dtype, rtol in ((gl.float64, 1e-12), (gl.float32, 2e-6)):
        x = gl.tensor([1.3e-4, -2e-3, 1e-6], dtype=dtype, requires_grad=True)
        (slope,) = gl.autograd.grad(gl.sinc(x).sum(), x, create_graph=True)
        (second,) = gl.autograd.grad(slope.sum(), x)
        y = math.pi * x.detach().double()
        gl.testing.assert_close(
            slope.detach().double(), math.pi * (-y / 3 + y**3 / 30 - y**5 / 840), rtol=rtol, atol=0
        )
        gl.testing.assert_close(
            second.double(), math.pi**2 * (-1 / 3 + y**2 / 10 - y**4 / 168), rtol=rtol, atol=0
        )
