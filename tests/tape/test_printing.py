"""How tensors print. The expected texts follow PyTorch's layout, written down by hand."""

import re

import pytest

import gradlib
from gradlib.tape import printing

INF, NAN = float("inf"), float("nan")


def printed(t) -> str:
    """What a tensor prints, without the device, which is named where it is not the CPU."""
    device = rf",\s+device='{t.device}'"
    assert len(re.findall(device, repr(t))) >= t.is_cuda
    return re.sub(device, "", repr(t))


@pytest.fixture(autouse=True)
def _default_options():
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.5, -2.0], "tensor([ 1.5000, -2.0000])"),
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([NAN, INF, -INF], "tensor([nan, inf, -inf])"),
        ([1000.0, NAN, -1.0], "tensor([1000.,   nan,   -1.])"),
        ([1.5, NAN], "tensor([1.5000,    nan])"),
        ([1, 200, -3], "tensor([  1, 200,  -3])"),
        ([True, False], "tensor([ True, False])"),
        ([1 + 2j, -3], "tensor([ 1.+2.j, -3.+0.j])"),
        ([1 + 2j, 3.5 - 1j], "tensor([1.0000+2.j, 3.5000-1.j])"),
        (3, "tensor(3)"),
        (2.5, "tensor(2.5000)"),
        (True, "tensor(True)"),
        ([], "tensor([])"),
    ],
)
def test_numbers(values, text):
    """One notation and one column width for all numbers of a tensor."""
    assert printed(gradlib.tensor(values)) == text


def test_matrix_lines_are_aligned_below_the_bracket():
    t = gradlib.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert printed(t) == "tensor([[1., 2.],\n        [3., 4.]])"


def test_blocks_of_three_dimensions_have_an_empty_line_between():
    t = gradlib.ones(2, 1, 2)
    assert printed(t) == "tensor([[[1., 1.]],\n\n        [[1., 1.]]])"


def test_long_row_is_wrapped_at_the_line_width():
    lines = printed(gradlib.arange(30)).split("\n")
    assert (
        lines[0]
        == "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,"
    )
    assert lines[1] == "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"


def test_big_tensor_shows_its_edges():
    assert printed(gradlib.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    rows = printed(gradlib.zeros(100, 100)).split("\n")
    assert rows[0] == "tensor([[0., 0., 0.,  ..., 0., 0., 0.],"
    assert rows[3] == "        ...,"
    assert len(rows) == 7


def test_thousand_elements_are_still_shown_in_full():
    assert "..." not in printed(gradlib.arange(1000))
    assert "..." in printed(gradlib.arange(1001))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: gradlib.tensor([1.5], dtype=gradlib.float64), "dtype=torch.float64"),
        (lambda: gradlib.tensor([1.5], dtype=gradlib.float16), "dtype=torch.float16"),
        (lambda: gradlib.tensor([1.5], dtype=gradlib.bfloat16), "dtype=torch.bfloat16"),
        (lambda: gradlib.tensor([1], dtype=gradlib.uint8), "dtype=torch.uint8"),
        (lambda: gradlib.zeros(2, 0), "tensor([], size=(2, 0))"),
        (lambda: gradlib.zeros(0, dtype=gradlib.int64), "tensor([], dtype=torch.int64)"),
        (lambda: gradlib.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
        (
            lambda: gradlib.ones(2, requires_grad=True) * 2,
            "tensor([2., 2.], grad_fn=<MulBackward0>)",
        ),
    ],
)
def test_what_the_numbers_do_not_tell_is_added(make, text):
    assert printed(make()).endswith(text if text.startswith("tensor") else f", {text})")


def test_suffix_moves_to_its_own_line_when_the_line_is_full():
    with printing.printoptions(linewidth=20):
        text = printed(gradlib.ones(3, requires_grad=True))
    assert text == "tensor([1., 1., 1.],\n       requires_grad=True)"


def test_tangent_is_shown_inside_its_level():
    forward_ad = pytest.importorskip("gradlib.autograd.forward_ad")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(gradlib.ones(2), gradlib.tensor([3.0, 4.0]))
        assert printed(dual) == "tensor([1., 1.], tangent=tensor([3., 4.]))"
    assert printed(dual) == "tensor([1., 1.])"


def test_name_of_a_custom_function_is_its_grad_fn():
    function = pytest.importorskip("gradlib.autograd.function")

    class Double(function.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    out = Double.apply(gradlib.ones(2, requires_grad=True))
    assert printed(out) == "tensor([2., 2.], grad_fn=<DoubleBackward>)"


def test_options_change_precision_and_notation():
    t = gradlib.tensor([0.25, 1.5])
    printing.set_printoptions(precision=2)
    assert printed(t) == "tensor([0.25, 1.50])"
    printing.set_printoptions(precision=2, sci_mode=True)
    assert printed(t) == "tensor([2.50e-01, 1.50e+00])"
    printing.set_printoptions(profile="short")
    assert printed(gradlib.arange(2000)) == "tensor([   0,    1,  ..., 1998, 1999])"


def test_printoptions_puts_the_old_options_back():
    before = printing.get_printoptions()
    with printing.printoptions(precision=1, threshold=3):
        assert printing.get_printoptions().precision == 1
    assert printing.get_printoptions() == before


@pytest.mark.parametrize("wrong", [{"precision": -1}, {"linewidth": 2.5}, {"profile": "huge"}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        printing.set_printoptions(**wrong)


def test_printing_does_not_touch_a_view_of_another_layout():
    t = gradlib.arange(6).reshape(2, 3)
    assert printed(t.t()) == "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])"
