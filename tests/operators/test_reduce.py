"""Reductions: known values, subgradients at ties and zeros, empty tensors, errors."""

import math

import numpy as np
import pytest

import gradlib as torch

nan, inf = math.nan, math.inf


def gradient(fn, values):
    x = torch.tensor(values, requires_grad=True)
    fn(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    ("fn", "values", "expected"),
    [
        (lambda x: x.max(), [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        (lambda x: x.amax(), [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        (lambda x: x.min(), [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]),
        (lambda x: x.amin(0), [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]),
        (lambda x: x.max(0)[0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]),
        (lambda x: x.median(), [1.0, 1.0, 1.0], pytest.approx([1 / 3] * 3)),
        (lambda x: x.prod(), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
        (lambda x: x.prod(0), [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]),
        (lambda x: x.cumprod(0), [0.0, 2.0, 3.0], [9.0, 0.0, 0.0]),
        (lambda x: x.std(), [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
        (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: x.norm(1), [0.0, 2.0, -2.0], [0.0, 1.0, -1.0]),
        (lambda x: x.norm(inf), [1.0, -2.0, 2.0], [0.0, -0.5, 0.5]),
        (lambda x: x.nansum(), [1.0, nan], [1.0, 0.0]),
        (lambda x: x.max(), [1.0, nan], [0.0, 1.0]),
        (lambda x: x.logcumsumexp(0), [-inf, 0.0], [1.0, 1.0]),
    ],
)
def test_subgradients(fn, values, expected):
    assert gradient(fn, values) == expected


def test_second_derivative_of_a_product_with_zeros():
    x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad(x.prod(), x, create_graph=True)
    (h,) = torch.autograd.grad(g[0], x)
    assert h.tolist() == [0.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda x: x.sum(), "int64"),
        (lambda x: x.sum(0), "int64"),
        (lambda x: x.prod(), "int64"),
        (lambda x: x.cumsum(0), "int64"),
        (lambda x: x.max(), "bool"),
        (lambda x: x.all(), "bool"),
        (lambda x: x.count_nonzero(), "int64"),
        (lambda x: x.argsort(), "int64"),
        (lambda x: x.sum(dtype=torch.float16), "float16"),
    ],
)
def test_result_dtypes_of_bool(make, dtype):
    assert make(torch.tensor([True, False])).dtype is getattr(torch, dtype)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_accumulate_in_float32(name):
    x = torch.ones(4096, dtype=getattr(torch, name))
    assert x.sum().item() == 4096 and x.sum().dtype is x.dtype
    assert x.mean().item() == 1.0 and x.cumsum(0)[-1].item() == 4096


LARGE = [(3, 1024), (70, 100), (8, 16, 96), (5000,), (2, 4099), (9, 5, 7, 31)]
PAIRS = [
    (s, d)
    for s in LARGE
    for d in [None, 0, -1, *([(0, 1), (1, -1)] if len(s) > 2 else [(0, -1)] if len(s) == 2 else [])]
]


@pytest.mark.parametrize(("shape", "dims"), PAIRS)
def test_large_sums_are_accurate(shape, dims):
    a = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x = torch.from_numpy(a)
    got = x.sum() if dims is None else x.sum(dims)
    np.testing.assert_allclose(got.numpy(), a.astype(np.float64).sum(dims), rtol=1e-5, atol=2e-4)
    kept = x.mean(dims, keepdim=True) if dims is not None else x.mean()
    want = a.astype(np.float64).mean(dims, keepdims=dims is not None)
    assert kept.shape == want.shape
    np.testing.assert_allclose(kept.numpy(), want, rtol=1e-5, atol=1e-5)


def test_empty():
    e = torch.zeros(0, 3)
    assert e.sum().item() == 0 and e.prod().item() == 1 and math.isnan(e.mean().item())
    assert e.sum(0).tolist() == [0, 0, 0] and e.amax(1).shape == (0,)
    assert e.logsumexp(0).tolist() == [-inf] * 3
    assert e.all().item() is True and e.any().item() is False


def test_named_results():
    values, indices = torch.tensor([[1.0, 3.0, 3.0]]).max(1)
    assert values.tolist() == [3.0] and indices.tolist() == [1]
    result = torch.tensor([[1.0, 3.0]]).max(dim=1, keepdim=True)
    assert type(result).__name__ == "max" and result.indices.shape == (1, 1)
    assert repr(torch.tensor([2.0, 1.0]).aminmax()).startswith("torch.return_types.aminmax(\nmin=")


def test_out():
    out = torch.empty(0)
    assert torch.sum(torch.ones(2, 3), 1, out=out) is out and out.tolist() == [3.0, 3.0]
    values, indices = torch.empty(2), torch.empty(2, dtype=torch.int64)
    torch.max(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1, out=(values, indices))
    assert values.tolist() == [2.0, 4.0] and indices.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.sum(2), IndexError, "Dimension out of range"),
        (lambda x: x.sum((0, 0)), RuntimeError, "appears multiple times"),
        (
            lambda x: x.long().mean(),
            RuntimeError,
            "must be either a floating point or complex dtype",
        ),
        (lambda x: x[:0].max(), RuntimeError, "Expected reduction dim to be specified"),
        (lambda x: x[:0].max(0), IndexError, "to have non-zero size"),
        (lambda x: x.quantile(2), RuntimeError, "must be in the range"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(torch.ones(2, 2))


def test_scans():
    x = torch.tensor([3.0, 1.0, 2.0])
    assert x.cummax(0).values.tolist() == [3, 3, 3] and x.cummin(0).indices.tolist() == [0, 1, 1]
    assert torch.tensor([1.0, 1.0]).cummax(0).indices.tolist() == [0, 1]
    assert x.diff().tolist() == [-2, 1] and torch.trapezoid(x).item() == 3.5
    assert torch.cumulative_trapezoid(x, dx=2).tolist() == [4, 7]


def test_order_statistics():
    x = torch.tensor([[3.0, 1.0, 1.0, nan]])
    assert math.isnan(x.median().item()) and x.nanmedian().item() == 1
    assert x.nanmedian(1).values.tolist() == [1] and x[:, :3].mode(1).indices.tolist() == [2]
    assert torch.tensor([0.0, 1.0, 2.0, 3.0]).quantile(0.5).item() == 1.5


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([-inf, 0, 1], 0.25, -inf), ([-inf, -inf, 1], 0.25, -inf), ([0, 1, inf], 0.6, inf),
        ([0, inf, inf], 0.9, inf), ([-inf, inf, 0], 0.5, 0), ([-inf, inf], 0.5, nan),
    ],
)  # fmt: skip
def test_quantiles_between_infinities(values, q, expected):
    x = torch.tensor(values, requires_grad=True)
    for found in (x.quantile(q), x.nanquantile(q)):
        assert found.item() == pytest.approx(expected, nan_ok=True)
        found.backward()
    assert not x.grad.isnan().any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_nan_comes_last_in_every_dtype(dtype):
    x = torch.tensor([nan, -0.5, inf, 0.25, nan, -inf], dtype=dtype)
    values, inverse = x.unique(return_inverse=True)
    assert values.dtype is dtype and values[:4].tolist() == [-inf, -0.5, 0.25, inf]
    assert values[4:].isnan().all() and inverse[[5, 1, 3, 2]].tolist() == [0, 1, 2, 3]
    assert x.nanmedian().item() == -0.5 and x.nanmedian(0).indices.item() == 1
    assert math.isnan(x.median().item()) and x.median(0).indices.item() in (0, 4)
    assert x.nan_to_num(0.25).mode(0).values.item() == 0.25
    edges = torch.tensor([-1.0, 0.2, 2.0], dtype=dtype)
    assert torch.searchsorted(edges, x).tolist() == [3, 1, 3, 2, 3, 0]


@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 100), (300, 9)])
def test_ranks_of_half_types_are_those_of_their_numbers(shape):
    rng = np.random.default_rng(0)
    x = torch.tensor(np.where(rng.random(shape) > 0.4, rng.standard_normal(shape), nan)).bfloat16()
    for f in (
        lambda x: x.median(), lambda x: x.nanmedian(), lambda x: x.sort(descending=True).values,
        *[lambda x, d=d: x.median(d).values for d in (0, -1)], lambda x: x.kthvalue(2).values,
        *[lambda x, d=d: x.nanmedian(d).values for d in (0, -1)], lambda x: x.topk(3).values,
    ):  # fmt: skip
        assert torch.equal(f(x).double().nan_to_num(99), f(x.double()).nan_to_num(99))


@pytest.mark.parametrize("correction", [2, 3, 2.5])
def test_the_gradient_of_a_variance_without_degrees_of_freedom(correction):
    """It is infinite, as the variance is: on the side of the mean that an element lies on."""
    for values, expected in (([1.0, 2.0], [-inf, inf]), ([1.0], [nan])):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            found = gradient(lambda x: x.var(correction=correction), values)
        assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("ord", [inf, -inf])
def test_a_norm_that_is_nan_gives_no_share_to_numbers(ord):
    assert gradient(lambda x: torch.linalg.vector_norm(x, ord), [1.0, nan, -2.0])[::2] == [0, 0]


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, inf])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_renorm_of_long_and_undefined_slices(dtype, p):
    """Norms of half types may be beyond their range; a slice that stays as it is has the gradient 1."""
    rows = [[5e4, 3e4, 1e4], [nan, 1.0, 2.0], [0.0, 0.0, 0.0]]
    x = torch.tensor(rows, dtype=dtype, requires_grad=True)
    exact = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    for bound in (1.0, 1e5):
        y, known = x.renorm(p, 0, bound), exact.renorm(p, 0, bound)
        (g,) = torch.autograd.grad(y.sum(), x)
        (known_g,) = torch.autograd.grad(known.sum(), exact)
        assert y.dtype is dtype and (g[1:] == 1).all() and g.isfinite().all()
        off = ((y[0].double() - known[0]) / known[0]).abs().max().item()
        assert off < 4 * torch.finfo(dtype).eps
        assert torch.allclose(g[0].double(), known_g[0], 0.1, 0.1)
