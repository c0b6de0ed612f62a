"""Sums of very many numbers: the rounding error of results and gradients must not grow with the length.

The reference is the same call in float64. Errors are relative to the greatest element of what is compared.
"""

import ml_dtypes
import numpy as np
import pytest

import gradlib as torch
from gradlib.nn import functional as F

# how NumPy's sums are taken: a device has sums of its own, and the simulated one would only show NumPy's plain ones
pytestmark = pytest.mark.host
N = 1_000_000
BOUND = (
    1e-6  # of float32 results, whose own rounding is 6e-8, and of gradients through several sums
)
ROUNDED = {"float16": 1e-3, "bfloat16": 8e-3}  # one rounding of the result

numbers = (np.random.default_rng(0).standard_normal(N) * 0.5 + 1).astype(np.float32)
thirds = torch.tensor(np.arange(N) % 3)
zeros = lambda x: torch.zeros(3, dtype=x.dtype)
halved = lambda x: x.detach() * 0.5

CASES = {
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: x.reshape(-1, 8).sum(0),
    "sum of the middle": lambda x: x.reshape(2, -1, 5).sum(1),
    "sum of transposed columns": lambda x: x.reshape(-1, 8).t().sum(1),
    "sum with gaps": lambda x: x.reshape(-1, 8)[:, ::2].sum(),
    "mean of columns": lambda x: x.reshape(-1, 8).mean(0),
    "nanmean": lambda x: x.nanmean(),
    "var": lambda x: x.var(),
    "var of columns": lambda x: x.reshape(-1, 8).var(0),
    "std with gaps": lambda x: x[::2].std(),
    **{f"norm {p}": lambda x, p=p: x.norm(p) for p in (0.5, 1, 2, 3, -1)},
    **{f"norm {p} of columns": lambda x, p=p: x.reshape(-1, 8).norm(p, 0) for p in (1, 2, 3)},
    "normalize": lambda x: F.normalize(x, dim=0),
    "layer_norm": lambda x: F.layer_norm(x, (N,)),
    "rms_norm": lambda x: F.rms_norm(x, (N,)),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 4, -1), 2),
    "instance_norm": lambda x: F.instance_norm(x.reshape(1, 2, -1)),
    "batch_norm": lambda x: F.batch_norm(x.reshape(2, 5, -1), None, None, training=True),
    "batch_norm of a matrix": lambda x: F.batch_norm(x.reshape(-1, 5), None, None, training=True),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
    "softmax of columns": lambda x: x.reshape(-1, 8).softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "logcumsumexp": lambda x: x[:65536].logcumsumexp(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum of columns": lambda x: x.reshape(-1, 8).cumsum(0),
    "cumsum of rows": lambda x: x.reshape(1000, -1).cumsum(1),
    "cumsum of odd rows": lambda x: x[: 7 * 3001].reshape(7, 3001).cumsum(1),
    "cumprod of rows": lambda x: x[:300_000].reshape(300, -1).cumprod(1),
    "cumprod of columns": lambda x: x[:300_000].reshape(-1, 300).cumprod(0),
    "cov": lambda x: x.reshape(4, -1).cov(),
    "corrcoef": lambda x: x.reshape(4, -1).corrcoef(),
    "mse_loss": lambda x: F.mse_loss(x, halved(x)),
    "l1_loss": lambda x: F.l1_loss(x, halved(x), reduction="sum"),
    "huber_loss": lambda x: F.huber_loss(x, halved(x)),
    "kl_div": lambda x: F.kl_div(x, halved(x).abs(), reduction="batchmean"),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, halved(x)),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, halved(x).sign()),
    "cross_entropy": lambda x: F.cross_entropy(x.reshape(2, -1), torch.tensor([1, 5])),
    "cross_entropy of many": lambda x: F.cross_entropy(x.reshape(-1, 4), (thirds[: N // 4])),
    "nll_loss": lambda x: F.nll_loss(x.reshape(-1, 4), thirds[: N // 4]),
    "cosine_similarity": lambda x: F.cosine_similarity(x, halved(x).flip(0), dim=0),
    "pairwise_distance": lambda x: F.pairwise_distance(x, halved(x).flip(0)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 3),
    "scatter_add": lambda x: zeros(x).scatter_add(0, thirds, x),
    "index_add": lambda x: zeros(x).index_add(0, thirds, x),
    "index_put": lambda x: zeros(x).index_put((thirds,), x, accumulate=True),
    "gradient of an index": lambda x: x[:3][thirds],
    "gradient of a bias": lambda x: halved(x).reshape(-1, 8) + x[:8],
    "gradient of expand": lambda x: x[:4].reshape(4, 1).expand(4, N // 4) * halved(x).reshape(4, -1),
}  # fmt: skip
HALVES = {"sum", "sum of columns", "mean of columns", "var", "norm 2", "norm 1", "mse_loss", "cumsum",
    "scatter_add", "index_add", "gradient of a bias", "softmax of columns", "cross_entropy of many"}  # fmt: skip


def results(case: str, dtype: str, start: np.ndarray) -> list[np.ndarray]:
    """The result and the gradient, as float64."""
    x = torch.tensor(start).to(getattr(torch, dtype)).requires_grad_()
    y = CASES[case](x)
    weight = np.random.default_rng(1).uniform(0.5, 1.5, tuple(y.shape)).astype(ml_dtypes.bfloat16)
    (grad,) = torch.autograd.grad(y, x, torch.tensor(weight.astype(np.float64)).to(y.dtype))
    return [t.detach().double().numpy() for t in (y, grad)]


def check(case: str, dtype: str, start: np.ndarray, bound: float) -> None:
    for ours, exact in zip(results(case, dtype, start), results(case, "float64", start)):
        if not exact.any():
            continue
        scale = np.abs(exact).max()
        if dtype == "float16":  # numbers that it cannot hold
            ours, exact = (np.where(np.abs(exact) > 6e4, 0, a) for a in (ours, exact))
        smallest = 6e-8 if dtype == "float16" else 0
        assert np.abs(ours - exact).max() <= bound * scale + smallest


@pytest.mark.parametrize("case", CASES)
def test_float32(case):
    # the gradients of normalisations are small differences of large numbers
    check(case, "float32", numbers, 6 * BOUND if "_norm" in case else BOUND)


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("case", sorted(HALVES))
def test_halves(case, dtype):
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    check(case, dtype, numbers.astype(kind).astype(np.float32), 2 * ROUNDED[dtype])


def test_var_keeps_its_digits():
    """Neither the squares nor the mean leave the range of float32, and a small variance is not lost in a large mean."""
    for scale in (1e30, 1e-30):
        x = torch.tensor([1.0, 2.0, 3.0]) * scale
        assert abs(x.std().item() / scale - 1) < 1e-6
        assert torch.full((3,), scale).std().item() == 0
    x = torch.tensor(numbers[:100_000] * 1e-2 + 1e3)
    for y in (x, x.reshape(10, -1), x.reshape(-1, 10)):
        for dim in range(y.ndim):
            torch.testing.assert_close(y.var(dim), y.double().var(dim).float())


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0])
def test_special_numbers_in_scans_change_what_follows_alone(name, special):
    values = np.linspace(0.99, 1.01, 20_000, dtype=np.float32).reshape(2, -1)
    values[0, 4321], values[1, 9876] = special, -special
    wide = getattr(np, name)(values.astype(np.float64), 1).astype(np.float32)
    for x in (torch.tensor(values), torch.tensor(values[:, ::-1].copy()).flip(1)):
        np.testing.assert_array_equal(getattr(x, name)(1).numpy(), wide)


def test_factors_of_every_size_leave_no_range_on_the_way():
    values = np.tile(np.array([3e38, 1e-38, 3e38, 1e-38], np.float32), 5000)
    wide = np.cumprod(values.astype(np.float64))
    kept = (np.abs(wide) < 1e38) & (np.abs(wide) > 1e-38)
    got = torch.tensor(values).cumprod(0).numpy()
    np.testing.assert_allclose(got[kept], wide[kept], rtol=2e-7)


@pytest.mark.parametrize("n", [32, 10_000])
@pytest.mark.parametrize("factors", [(0.5, 3.0, -2.0), (1e-30, 0.0, 1e30)])
def test_gradient_of_cumprod_with_extreme_factors(n, factors):
    values = np.full(n, 1.0, np.float32)
    values[[10, 20, 30]] = factors
    x = torch.tensor(values, requires_grad=True)
    x.cumprod(0).sum().backward()
    wide = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    wide.cumprod(0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), wide.grad.float().numpy())


@pytest.mark.parametrize("order", ["as drawn", "rising", "falling"])
@pytest.mark.parametrize("scale", [1, 100, 3000])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("n", [20, 60])
def test_the_gradient_of_logcumsumexp_of_numbers_of_any_size(n, dim, scale, order):
    """By running sums of exponentials in double precision, where none leaves its range."""
    random = np.random.default_rng(4)
    x = random.normal(size=(n, n)).astype("f4") * scale
    if order != "as drawn":
        x = np.sort(x, dim) * (1 if order == "rising" else -1)
    g, found = random.normal(size=x.shape).astype("f4"), []
    for kind in ("f4", "f8"):
        t = torch.from_numpy(x.astype(kind)).requires_grad_()
        weights = torch.from_numpy(g.astype(kind))
        found.append(torch.autograd.grad(t.logcumsumexp(dim), t, weights)[0].numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)
