"""Python numbers that become elements: what does not fit in the dtype is refused, in PyTorch's words."""

import math

import numpy as np
import pytest

import gradlib as torch

MASK = [True, False, True]
PLACES = {
    "fill_": lambda x, v: x.fill_(v),
    "full": lambda x, v: torch.full((3,), v, dtype=x.dtype),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((3,), v),
    "masked_fill": lambda x, v: x.masked_fill(torch.tensor(MASK), v),
    "masked_fill of a tensor": lambda x, v: x.masked_fill(
        torch.tensor(MASK), torch.tensor(v, dtype=torch.float64)
    ),
    "masked_fill_": lambda x, v: x.masked_fill_(torch.tensor(MASK), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0, 2]), v),
    "index_fill of a tensor": lambda x, v: x.index_fill(
        0, torch.tensor([0]), torch.tensor(v, dtype=torch.float64)
    ),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
    "fill_diagonal_": lambda x, v: x.expand(3, 3).clone().fill_diagonal_(v),
    "pad": lambda x, v: torch.nn.functional.pad(x, (1, 1), value=v),
    "clamp": lambda x, v: x.clamp(min=v),
    "clamp_": lambda x, v: x.clamp_(max=v),
    "alpha of add": lambda x, v: torch.add(x, x, alpha=v),
    "alpha of index_add": lambda x, v: x.index_add(0, torch.tensor([0]), x[:1], alpha=v),
    "threshold": lambda x, v: torch.threshold(x, 0, v),
}
TOO_LARGE = [
    ("int8", 128, "int8_t"), ("uint8", 256, "uint8_t"), ("int16", -(2**15) - 1, "int16_t"),
    ("int32", 2**31, "int"), ("float16", 1e5, "c10::Half"), ("bfloat16", 3.4e38, "c10::BFloat16"),
    ("float32", 1e39, "float"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def host():
    """These are rules of host memory: on a device nobody waits to look at a number."""
    with torch.device("cpu"):
        yield


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("dtype", "value", "name"), TOO_LARGE)
def test_a_number_that_does_not_fit_is_refused(place, dtype, value, name):
    x = torch.ones(3, dtype=getattr(torch, dtype))
    with pytest.raises(RuntimeError, match=f"converted to type {name} without overflow"):
        PLACES[place](x, value)


@pytest.mark.parametrize("key", [slice(None), [0, 1], 0, True, ...])
def test_assigned_numbers(key):
    x = torch.zeros(3, dtype=torch.uint8)
    x[key] = -1  # negative integers wrap around
    assert 255 in x.tolist()
    for value in (-1.5, 256, math.nan, math.inf, 1j):
        with pytest.raises(RuntimeError, match="type uint8_t without overflow"):
            x[key] = value
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        x[key] = 2**63
    half = torch.zeros(3, dtype=torch.float16)
    half[key] = 1e5  # as in PyTorch: the number is a tensor of one element first
    assert math.inf in half.tolist()


def test_infinities_and_nan_have_a_place_in_floating_types():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.zeros(2, dtype=dtype)
        assert x.fill_(math.inf).tolist() == [math.inf] * 2
        assert x.fill_(-math.inf).tolist() == [-math.inf] * 2
        assert math.isnan(x.fill_(math.nan)[0].item())
    assert torch.zeros(1, dtype=torch.bool).fill_(1j).item() is True


def test_numbers_in_arithmetic_wrap_around():
    x = torch.ones(2, dtype=torch.int8)
    assert (x + 300).tolist() == [45, 45]
    with pytest.raises(RuntimeError, match="type int64_t without overflow"):
        x + 2**63
    with pytest.raises(OverflowError, match="int too big to convert"):
        x + 2**64


def test_integers_of_more_than_64_bits():
    with pytest.raises(OverflowError, match="int too big to convert"):
        torch.zeros(2).fill_(2**64)
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        torch.full((2,), -(2**63) - 1)


def test_fractions_below_zero_are_no_unsigned_numbers():
    with pytest.raises(RuntimeError, match="type uint8 without overflow"):
        torch.tensor(-0.5, dtype=torch.uint8)
    assert torch.tensor(-1, dtype=torch.uint8).item() == 255


def test_trapezoid_of_small_integers_does_not_wrap_around():
    y = torch.tensor([100, 200, 50], dtype=torch.uint8)
    assert torch.trapezoid(y, dx=2).item() == 550.0
    assert torch.trapezoid(y, dx=-1).item() == -275.0


F = torch.nn.functional
ARGUMENTS = {
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "leaky_relu in place": lambda x, v: F.leaky_relu(x * 1, v, inplace=True),
    "leaky_relu_": lambda x, v: F.leaky_relu_(x * 1, v),
    "elu": lambda x, v: F.elu(x, v),
    "elu_": lambda x, v: F.elu_(x * 1, v),
    "celu": lambda x, v: F.celu(x, v),
    "hardtanh": lambda x, v: F.hardtanh(x, -1, v),
    "Hardtanh": lambda x, v: torch.nn.Hardtanh(-1.0, v)(x),
    "softplus": lambda x, v: F.softplus(x, v, v),
    "hardshrink": lambda x, v: F.hardshrink(x, v),
    "softshrink": lambda x, v: F.softshrink(x, v),
    "rrelu": lambda x, v: F.rrelu(x, v, v),
    "threshold": lambda x, v: F.threshold(x, v, v),
    "clamp": lambda x, v: x.clamp(-2, v),
    "clamp_": lambda x, v: (x * 1).clamp_(max=v),
    "clamp_min": lambda x, v: x.clamp_min(v),
    "clamp_max": lambda x, v: torch.clamp_max(x, v),
    "lerp": lambda x, v: x.lerp(x + 1, v),
    "lerp_": lambda x, v: (x * 1).lerp_(x + 1, v),
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "addcdiv_": lambda x, v: (x * 1).addcdiv_(x, x + 9, value=v),
    "vector_norm": lambda x, v: torch.linalg.vector_norm(x, v),
    "norm": lambda x, v: x.norm(v),
    "dist": lambda x, v: x.dist(x + 1, v),
    "normalize": lambda x, v: F.normalize(x[None], v),
    "cosine_similarity": lambda x, v: F.cosine_similarity(x[None], x[None] + 1, eps=v),
    "trapezoid": lambda x, v: torch.trapezoid(x, dx=v),
    "cross_entropy": lambda x, v: F.cross_entropy(
        x[None], torch.tensor([1], device=x.device), label_smoothing=v
    ),
}


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "uint8", "0-dim"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_numbers_of_numpy_are_numbers_of_python(name, kind):
    """They take no part in promotion, and do not wrap round; a tensor of one element is a number, too."""
    call, number = ARGUMENTS[name], 1 if "int" in kind else 0.5
    given = torch.tensor(number) if kind == "0-dim" else getattr(np, kind)(number)
    values = [-1.5, -0.25, 0.25, 2.0]
    out, g = [], []
    for v in (given, number):
        x = torch.tensor(values, dtype=torch.float32, requires_grad=True)
        out.append(call(x, v))
        g.append(torch.autograd.grad(out[-1].sum(), x)[0])
    assert out[0].dtype is torch.float32 and g[0].dtype is torch.float32
    assert torch.equal(*out) and torch.equal(*g)


def test_numbers_of_numpy_beside_integers():
    x = torch.tensor([1, 2, 3])
    assert x.clamp(min=np.float32(1.5)).tolist() == [1.5, 2, 3]
    assert torch.clamp(x, 0, torch.tensor(2.5)).tolist() == [1, 2, 2.5]
    assert x.clamp_max(np.int64(2)).dtype is torch.int64
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        torch.add(x, x, alpha=np.float32(0.5))
    square = torch.eye(2) * 2
    assert torch.linalg.matrix_power(square, np.int64(3)).tolist() == [[8, 0], [0, 8]]
    image = torch.rand(1, 1, 4, 4)
    two = np.int64(2)
    assert torch.equal(F.max_pool2d(image, two, stride=two), F.max_pool2d(image, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, v: F.leaky_relu(x, v), lambda x, v: F.elu(x, v), lambda x, v: F.celu(x, v),
        lambda x, v: F.hardtanh(x, 0.0, v),
        lambda x, v: F.softplus(x, v), lambda x, v: F.hardshrink(x, v), lambda x, v: F.softshrink(x, v),
        lambda x, v: F.rrelu(x, v, v), lambda x, v: F.leaky_relu_(x * 1, v), lambda x, v: F.elu_(x * 1, v),
        lambda x, v: x.norm(v), lambda x, v: F.normalize(x, v), lambda x, v: torch.cdist(x, x, v),
        lambda x, v: torch.addcmul(x, x, x, value=v), lambda x, v: torch.addcdiv(x, x, x, value=v),
        lambda x, v: F.scaled_dot_product_attention(x, x, x, scale=v), lambda x, v: F.huber_loss(x, x, delta=v),
        lambda x, v: F.smooth_l1_loss(x, x, beta=v), lambda x, v: x.var(correction=v),
        lambda x, v: F.pad(x, (1, 1), value=v),
        lambda x, v: torch.addmm(x[:, :3], x, x.T, beta=v), lambda x, v: torch.addr(x, x[:, 0], x[0], alpha=v),
        lambda x, v: torch.baddbmm(x[None, :, :3], x[None], x.T[None], alpha=v), lambda x, v: F.threshold(x, 0.0, v),
        lambda x, v: F.threshold(x, v, 0.0), lambda x, v: F.rms_norm(x, (4,), eps=v),
        lambda x, v: x.index_add(0, torch.tensor([0]), x[:1], alpha=v), lambda x, v: x.nan_to_num(v),
        lambda x, v: x.nan_to_num(posinf=v), lambda x, v: torch.logit(x, v), lambda x, v: torch.add(x, x, alpha=v),
    ],
)  # fmt: skip
def test_a_number_that_requires_grad_is_refused_where_its_gradient_would_be_lost(call):
    x, v = torch.rand(3, 4), torch.tensor(0.25)
    assert torch.equal(call(x, v), call(x, 0.25))
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        call(x, v.requires_grad_())


def test_the_length_of_a_permutation_may_be_a_tensor():
    assert sorted(torch.randperm(torch.tensor(3)).tolist()) == [0, 1, 2]
