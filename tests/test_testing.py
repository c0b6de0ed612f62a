"""gradlib.testing: what assert_close accepts, and what it says."""

import re

import numpy as np
import pytest

import gradlib
from gradlib.testing import assert_allclose, assert_close, make_tensor


@pytest.mark.parametrize(
    ("actual", "expected", "options", "kind", "text"),
    [
        (1, 1.0, {}, AssertionError, "The (d)types do not match"),
        (1.5, 1.0, {}, AssertionError, "Scalars are not close!\n\nExpected 1.0 but got 1.5.\nAbsolute difference: 0.5"),
        (True, False, {}, AssertionError, "Booleans mismatch: True is not False"),
        (None, 1, {}, AssertionError, "None mismatch: None is not 1"),
        ("a", "a", {}, TypeError, "No comparison pair was able to handle inputs"),
        (1.0, 1.0, {"rtol": 1e-3}, ValueError, "must be either specified or omitted, but got no atol"),
        ({"a": 1}, {"b": 1}, {}, AssertionError, "Missing keys in the actual mapping: ['b']"),
        ([1], [1, 2], {}, AssertionError, "The length of the sequences mismatch: 1 != 2"),
        ({"a": [1, 2]}, {"a": (1, 3)}, {}, AssertionError, "The failure occurred for item ['a'][1]"),
        (float("nan"), float("nan"), {}, AssertionError, "Expected nan but got nan."),
    ],
)  # fmt: skip
def test_what_differs_is_said(actual, expected, options, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        assert_close(actual, expected, **options)


def test_the_greatest_differences_have_places():
    a, b = gradlib.zeros(2, 3), gradlib.zeros(2, 3)
    a[1, 2], a[0, 1], b[0, 1] = 5.0, 3.0, 1.0
    with pytest.raises(AssertionError) as caught:
        assert_close([a], [b], rtol=0.1, atol=0.2)
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 2 / 6 (33.3%)\n"
        "Greatest absolute difference: 5.0 at index (1, 2) (up to 0.2 allowed)\n"
        "Greatest relative difference: inf at index (1, 2) (up to 0.1 allowed)\n\n"
        "The failure occurred for item [0]"
    )


def test_attributes_are_compared_unless_told_otherwise():
    a = gradlib.arange(4.0).reshape(2, 2)
    for other, name in ((a[0], "shape"), (a.double(), "dtype")):
        with pytest.raises(AssertionError, match=f"attribute '{name}' do not match"):
            assert_close(a, other)
    assert_close(a, a.double(), check_dtype=False)
    assert_close(a, a.t().contiguous().t())
    with pytest.raises(AssertionError, match=r"attribute 'stride\(\)'"):
        assert_close(a, a.t().contiguous().t(), check_stride=True)
    assert_close(gradlib.nn.Parameter(a), a)
    with pytest.raises(TypeError):
        assert_close(gradlib.nn.Parameter(a), a, allow_subclasses=False)
    with pytest.raises(TypeError):
        assert_close(a, a.numpy())
    assert_close(np.ones(2), np.ones(2) + 1e-9)


def test_the_message_may_be_given_or_made():
    for msg, text in (("here", "here"), (lambda made: made[:7] + "!", "Scalars!")):
        with pytest.raises(AssertionError, match=f"^{text}$"):
            assert_close(1.0, 2.0, msg=msg)


def test_assert_allclose_is_looser():
    with pytest.warns(FutureWarning, match="is deprecated since 1.12"):
        assert_allclose(gradlib.ones(2), gradlib.ones(2) + 5e-5)
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        assert_allclose(gradlib.ones(2), 2.0)


def test_make_tensor_keeps_its_bounds():
    made = make_tensor(50, dtype=gradlib.uint8, device="cpu", high=3)
    assert int(made.min()) >= 0 and int(made.max()) <= 2
    odd = make_tensor(3, 4, dtype=gradlib.float32, device="cpu", noncontiguous=True)
    assert not odd.is_contiguous() and odd.shape == (3, 4)
    assert bool((make_tensor(99, dtype=gradlib.int8, low=0, high=2, exclude_zero=True) == 1).all())
    for bounds in ({"low": 2, "high": 1}, {"low": float("nan")}, {"low": 300, "high": 400}):
        with pytest.raises(ValueError, match="`low`"):
            make_tensor(2, dtype=gradlib.uint8, **bounds)
