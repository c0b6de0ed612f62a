"""The operations that the specification's own examples use."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd import gradcheck, gradgradcheck


def t(*shape, low=0.5, high=2.0):
    return (torch.rand(*shape, dtype=torch.float64) * (high - low) + low).requires_grad_()


@pytest.mark.parametrize(
    "f", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
)
def test_arithmetic(f):
    # rows: OPS-01
    a, b = t(3, 1), t(2, 1, 4)
    out = f(a, b)
    assert out.shape == (2, 3, 4)
    np.testing.assert_allclose(out.detach().numpy(), f(a.detach().numpy(), b.detach().numpy()))
    assert gradcheck(f, (a, b)) and gradgradcheck(f, (a, b))
    for g, x in zip(torch.autograd.grad(out.sum(), (a, b)), (a, b), strict=True):
        assert g.shape == x.shape  # summed over the broadcast dimensions
    assert torch.equal(torch.autograd.grad((a + b).sum(), a)[0], torch.full_like(a, 8.0))
    for number in (2, 1.5):
        np.testing.assert_allclose(f(a, number).detach().numpy(), f(a.detach().numpy(), number))
        np.testing.assert_allclose(f(number, a).detach().numpy(), f(number, a.detach().numpy()))
        assert gradcheck(lambda x, n=number: f(x, n), (a,))
        assert gradcheck(lambda x, n=number: f(n, x), (a,))


def test_matmul_neg_and_comparisons():
    # rows: OPS-01
    a, b = t(2, 3), t(3, 4)
    np.testing.assert_allclose((a @ b).detach().numpy(), a.detach().numpy() @ b.detach().numpy())
    assert gradcheck(operator.matmul, (a, b)) and gradgradcheck(operator.matmul, (a, b))
    assert gradcheck(operator.matmul, (t(5, 2, 3), b)) and gradcheck(operator.neg, (a,))
    assert torch.equal(-a, 0 - a)
    x = torch.tensor([1.0, 2.0, 3.0])
    for f, expected in (
        (operator.eq, [False, True, False]),
        (operator.ne, [True, False, True]),
        (operator.lt, [True, False, False]),
        (operator.le, [True, True, False]),
        (operator.gt, [False, False, True]),
        (operator.ge, [False, True, True]),
    ):
        assert f(x, 2).tolist() == expected and f(x, torch.tensor(2.0)).tolist() == expected
        assert f(x, 2).dtype is torch.bool
    assert (x > 2).tolist() == [False, False, True]


@pytest.mark.parametrize(
    "name", "exp log sin cos sqrt abs relu tanh sigmoid clone pow rsqrt neg".split()
)
def test_pointwise(name):
    # rows: OPS-02
    x = t(2, 3)
    args = (3,) if name == "pow" else ()
    for f in (lambda x: getattr(x, name)(*args), lambda x: getattr(torch, name)(x, *args)):
        assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))
    assert torch.equal(getattr(x, name)(*args), getattr(torch, name)(x, *args))
    c = x.clone()
    assert c.data_ptr() != x.data_ptr() and c.grad_fn.name() == "CloneBackward0"


def test_in_place():
    # rows: OPS-03
    start = [1.0, 2.0, 3.0]
    index = torch.tensor([0, 2])
    for change, expected in (
        (lambda x: x.sin_(), np.sin(start)),
        (lambda x: x.cos_(), np.cos(start)),
        (lambda x: x.add_(2), [3, 4, 5]),
        (lambda x: x.add_(torch.ones(3), alpha=3), [4, 5, 6]),
        (lambda x: x.sub_(1), [0, 1, 2]),
        (lambda x: x.mul_(2), [2, 4, 6]),
        (lambda x: x.zero_(), [0, 0, 0]),
        (lambda x: x.copy_(torch.tensor([7.0])), [7, 7, 7]),
        (lambda x: x.fill_(4), [4, 4, 4]),
        (lambda x: x.index_add_(0, index, torch.tensor([1.0, 5.0])), [2, 2, 8]),
    ):
        x = torch.tensor(start)
        pointer = x.data_ptr()
        assert change(x) is x and x._version == 1 and x.data_ptr() == pointer
        np.testing.assert_allclose(x.numpy(), np.asarray(expected, "f4"), rtol=1e-6)
        leaf = torch.tensor(start, requires_grad=True)
        y = leaf * 1
        assert change(y) is y and y._version == 1 and y.grad_fn is not None
        y.sum().backward()
        assert leaf.grad.shape == (3,)


@pytest.mark.parametrize("name", "sum mean prod norm max min amax std".split())
def test_reductions(name):
    # rows: OPS-04
    x = t(3, 4)
    assert getattr(x, name)().shape == ()
    assert gradcheck(lambda x: getattr(x, name)(), (x,))
    if name in ("max", "min"):
        assert getattr(x, name)(1)[0].shape == (3,)
        assert gradcheck(lambda x: getattr(x, name)(1, keepdim=True)[0], (x,))
        return
    args = (2,) if name == "norm" else ()
    f = lambda x, **kw: getattr(x, name)(*args, **kw)
    assert f(x, dim=1).shape == (3,) and f(x, dim=0, keepdim=True).shape == (1, 4)
    assert gradcheck(lambda x: f(x, dim=0), (x,))
    assert gradcheck(lambda x: f(x, dim=1, keepdim=True), (x,))
    np.testing.assert_allclose(
        x.sum((0, 1), keepdim=True).detach().numpy(), x.detach().numpy().sum(keepdims=True)
    )


def test_any_and_all():
    # rows: OPS-04
    x = torch.tensor([[True, False], [True, True]])
    assert x.any().item() is True and x.all().item() is False
    assert x.any(0).tolist() == [True, True] and x.all(dim=0).tolist() == [True, False]
    assert x.all(1, keepdim=True).tolist() == [[False], [True]]
    assert torch.any(torch.zeros(2)).item() is False


def test_arranging_and_products():
    # rows: OPS-06
    x, y = t(3, 3), t(3, 3)
    condition = torch.tensor([[True], [False], [True]])
    for f in (
        lambda x, y: x.sort(0)[0] * y,
        lambda x, y: x.sort(descending=True)[0] * y,
        lambda x, y: torch.diag(x) + torch.diag(y, 1).sum(),
        lambda x, y: torch.diag(x[0]) * y,
        lambda x, y: torch.cat([x, y * 2, x], dim=1),
        lambda x, y: torch.stack([x, y], dim=1),
        lambda x, y: torch.where(condition, x, y),
        lambda x, y: torch.where(condition, x, 0.0) * y,
        torch.matmul,
        torch.mm,
    ):
        assert gradcheck(f, (x, y)) and gradgradcheck(f, (x, y))
    values, index = torch.tensor([3.0, 1.0, 2.0]).sort()
    assert values.tolist() == [1, 2, 3] and index.tolist() == [1, 2, 0]
    assert torch.diag(torch.ones(2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(3), torch.ones(3))


def test_equality():
    # rows: OPS-07
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(x, x.clone()) is True and x.equal(x + 1) is False
    assert torch.equal(x, torch.ones(3)) is False
    assert torch.allclose(x, x + 1e-9) and not torch.allclose(x, x + 1e-3)
    assert torch.allclose(x, x + 1e-3, atol=1e-2) and torch.allclose(x, x * 1.01, rtol=0.1)
    nan = torch.tensor([float("nan"), 1.0])
    assert not torch.equal(nan, nan) and not torch.allclose(nan, nan)
    assert torch.allclose(nan, nan, equal_nan=True)
    assert torch.isnan(nan).tolist() == nan.isnan().tolist() == [True, False]


def test_facts():
    # rows: OPS-08
    x = torch.zeros(2, 3)
    assert x.shape == torch.Size([2, 3]) == (2, 3) and x.dtype is torch.float32
    assert x.stride() == (3, 1) and x.t().stride() == (1, 3) and x.stride(0) == 3
    assert x.numel() == 6 and x.dim() == x.ndim == 2 and x.size(-1) == 3
    assert isinstance(x.data_ptr(), int) and x[1].data_ptr() == x.data_ptr() + 12
    assert torch.tensor(2.5).item() == 2.5 and torch.tensor([3]).item() == 3
    assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor(7).tolist() == 7
    assert x.is_complex() is False and torch.tensor([1j]).is_complex() is True
    assert x.is_contiguous() is True and x.t().is_contiguous() is False
    with pytest.raises(
        RuntimeError, match="a Tensor with 6 elements cannot be converted to Scalar"
    ):
        x.item()


def test_conversion_keeps_the_gradient():
    # rows: OPS-09
    for convert, dtype in (
        (lambda x: x.to(torch.float64), torch.float64),
        (lambda x: x.double(), torch.float64),
        (lambda x: x.half(), torch.float16),
        (lambda x: x.to(torch.bfloat16), torch.bfloat16),
        (lambda x: x.type(torch.float64), torch.float64),
        (lambda x: x.type("torch.DoubleTensor"), torch.float64),
        (lambda x: x.to(torch.complex64), torch.complex64),
        (lambda x: x.double().float(), torch.float32),
        (lambda x: x.float(), torch.float32),
    ):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = convert(x)
        assert y.dtype is dtype and y.requires_grad
        (y * 3).abs().sum().backward()
        assert x.grad.dtype is torch.float32 and x.grad.tolist() == [3.0, 3.0]
    assert x.float() is x and x.to(torch.float32) is x
    assert torch.ones(1, device="cpu").type() == "torch.FloatTensor"


def test_manual_seed_repeats():
    # rows: OPS-10
    def draw():
        torch.manual_seed(42)
        return [
            torch.rand(3),
            torch.randn(3),
            torch.randint(10, (5,)),
            torch.randperm(6),
            torch.bernoulli(torch.full((8,), 0.5)),
            torch.nn.functional.dropout(torch.ones(8)),
        ]

    first, second = draw(), draw()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(torch.rand(3), first[0])


@pytest.mark.host
def test_from_numpy_shares_memory():
    # rows: OPS-11
    array = np.arange(4.0)
    x = torch.from_numpy(array)
    assert x.dtype is torch.float64 and not x.requires_grad
    array[0] = 10
    assert x[0].item() == 10
    x[1] = 20
    x.mul_(2)
    assert array.tolist() == [20, 40, 4, 6]
    assert x.data_ptr() == array.__array_interface__["data"][0]
    assert x.numpy() is array or np.shares_memory(x.numpy(), array)


# -- layout of results, old forms of calls, arguments that are no tensors ---------------------------------------------


def test_elementwise_results_keep_the_order_of_strides():
    turned, plain = torch.ones(3, 2).t(), torch.ones(2, 3)
    assert turned.exp().stride() == torch.erf(turned).stride() == (1, 2)
    assert (turned + plain).stride() == (1, 2) and (plain + turned).stride() == (3, 1)
    assert torch.where(turned > 0, turned, plain).stride() == (1, 2)
    last = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert (last * torch.ones(1, 3, 1, 1)).is_contiguous(memory_format=torch.channels_last)
    assert torch.cat([last, last], 1).is_contiguous(memory_format=torch.channels_last)


def test_reductions_and_scans_are_row_major():
    turned = torch.ones(4, 3, 2).permute(2, 1, 0)
    assert turned.sum(0).is_contiguous() and turned.amax(1).is_contiguous()
    assert turned.cumsum(1).is_contiguous() and turned.tril().is_contiguous()
    assert turned.sort(1)[0].stride() == turned.stride()


def test_factors_before_the_tensors_they_belong_to():
    x = torch.ones(2, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.addmm(2, x, 3, x, x).tolist() == [[8.0, 8.0], [8.0, 8.0]]
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.addcmul(2, x, x).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(TypeError, match="invalid combination"):
        torch.addmm(x, x, x, "no")


@pytest.mark.parametrize("name", ["sort", "tril", "roll", "softmax", "unbind", "cov"])
def test_what_is_no_tensor_is_named(name):
    with pytest.raises(
        TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not float"
    ):
        getattr(torch, name)(3.5, *{"roll": (1,), "softmax": (0,)}.get(name, ()))


def test_flip_never_shares_memory():
    x = torch.ones(3, 1)
    x.flip(1)[0] = 5
    assert x.tolist() == [[1.0], [1.0], [1.0]]


def test_one_value_may_be_written_to_an_expanded_tensor():
    wide = torch.ones(1).expand(3)
    assert wide.zero_().tolist() == [0.0] * 3 and wide.fill_(2).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="single memory location"):
        wide.add_(1)


def test_named_results_written_to_out_have_a_type_of_their_own():
    out = torch.empty(0), torch.empty(0, dtype=torch.int64)
    found = torch.max(torch.ones(3), 0, out=out)
    assert type(found).__name__ == "max_out" and found.values is out[0]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (float, torch.float64), (int, torch.int64), (bool, torch.bool), (complex, torch.complex128),
    ],
)  # fmt: skip
def test_types_of_python_are_dtypes(kind, dtype):
    x = torch.tensor([1.0, 0.0, 2.0])
    for found in (
        x.to(kind), x.to(dtype=kind), x.to(x.device, kind), x.type(kind), x.sum(dtype=kind), x.cumsum(0, dtype=kind),
        torch.zeros(2, dtype=kind), torch.ones_like(x, dtype=kind),
    ):  # fmt: skip
        assert found.dtype is dtype
    wide = torch.zeros(2, dtype=torch.complex128)
    assert wide.view(kind).dtype is wide.view(dtype=kind).dtype is dtype
    assert torch.can_cast(torch.bool, kind) and torch.can_cast(kind, torch.complex64)


def test_a_type_of_python_as_the_dtype_of_a_module():
    assert torch.nn.Linear(2, 2).to(float).weight.dtype is torch.float64
    assert torch.nn.Linear(2, 2).to("cpu", dtype=float).weight.dtype is torch.float64
    x = torch.ones(2)
    assert x.softmax(0, dtype=float).dtype is torch.float64
    assert torch.nn.functional.softmax(x, 0, dtype=float).dtype is torch.float64
    assert x.mean(dtype=float).dtype is torch.float64
    with pytest.raises(TypeError, match=r"combination of arguments|must be torch\.dtype"):
        x.to(str)
    with pytest.raises(TypeError, match=r"combination of arguments|must be torch\.dtype"):
        x.to(dtype="float32")
