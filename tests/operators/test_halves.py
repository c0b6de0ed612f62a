"""Half types on the CPU: computed in float32 and rounded once, whatever the size and the layout of arrays are."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import half_bits
from gradlib.nn import functional as F

pytestmark = pytest.mark.host  # NumPy's kernels
HALVES = pytest.mark.parametrize("dtype", [gl.float16, gl.bfloat16], ids=str)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 6e-8, -6e-8, 6.2e-5, 3e38, 1e-40, 1.0, -1.0]


def every(dtype):
    """All numbers of a half type."""
    return gl.from_numpy(np.arange(1 << 16).astype(np.uint16).view(np.int16)).view(dtype)


def bits(x):
    """The bits of a tensor, with one nan."""
    made = x.detach().clone()
    if made.is_floating_point():
        made[made.isnan()] = float("nan")
    kinds = {2: gl.int16, 4: gl.int32}
    return made.view(kinds.get(made.element_size(), made.dtype))


def some(dtype, *shape, seed=0):
    """Random numbers of many sizes, special ones among them."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal(shape) * 10.0 ** draw.integers(-6, 5, shape)
    chosen = draw.random(shape) < 0.1
    x[chosen] = draw.choice(SPECIAL, int(chosen.sum()))
    return gl.from_numpy(x.astype(np.float32)).to(dtype)


def same(found, expected):
    assert found.dtype is expected.dtype and found.shape == expected.shape
    assert gl.equal(bits(found), bits(expected))


@HALVES
def test_every_number_is_widened_and_rounded_back(dtype):
    x = every(dtype)
    same(x.float().to(dtype), x)
    finite = x[x.isfinite()]
    expected = [float(v) for v in finite._array[::97]]
    assert finite.float()[::97].tolist() == expected


RAW = pytest.mark.parametrize(
    "dtype", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=str
)


def one_by_one(x, dtype):
    """As NumPy, or `ml_dtypes`, converts one number."""
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@RAW
@pytest.mark.parametrize("times", [1, 5])
def test_every_number_is_widened_to_its_bits(dtype, times):
    x = np.tile(np.arange(1 << 16, dtype=np.uint16), times).view(dtype)
    for part in (x, x[:0x7C00], x[5:300], x.reshape(-1, 64).T, x[::3], np.zeros(0, dtype)):
        found, expected = half_bits.widen_half(part), one_by_one(part, np.float32)
        assert found.dtype == np.float32 and found.shape == part.shape
        assert (found.view(np.uint32) == expected.view(np.uint32)).all()


@RAW
def test_float32_is_rounded_to_the_bits_of_nearest_ties_to_even(dtype):
    """All numbers of the half type, what lies between two of them and beside that, and words as they come."""
    all_ = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    finite = np.sort(all_[np.isfinite(all_)])
    ties = ((finite[1:].astype("f8") + finite[:-1]) / 2).astype(np.float32)
    most = {"e": 65520.0, "E": 3.3961775e38}[dtype.char]
    ends = np.array([most, np.nextafter(np.float32(most), np.float32(0)), 1e30, 3.4e38], np.float32)
    near = [np.nextafter(x, np.float32(to)) for x in (ties, finite) for to in (-np.inf, np.inf)]
    words = np.random.default_rng(1).integers(0, 1 << 32, 1 << 21, dtype=np.uint32).view(np.float32)
    exponents = np.arange(0, 1 << 32, 1 << 15, dtype=np.uint32)  # each, with some fractions
    boundaries = (exponents + np.uint32(k) for k in (0, 1, 0xFFF, 0x1000, 0x1001, 0x2000, 0x7FFF))
    cases = [
        all_,
        finite,
        ties,
        *near,
        ends,
        -ends,
        words,
        *(b.view(np.float32) for b in boundaries),
    ]
    cases += [x[:n] for x in (ties, words) for n in (1, 511, 512, 1 << 16, (1 << 16) + 1)]
    for x in (*cases, words.reshape(-1, 2).T, words[::7], finite[np.abs(finite) < 1e-4]):
        with np.errstate(all="ignore"):
            found = half_bits.narrow_half(x, dtype)
        assert found.dtype == dtype and found.shape == x.shape
        assert (found.view(np.uint16) == one_by_one(x, dtype).view(np.uint16)).all()


@RAW
def test_vectors_of_any_length_are_converted(dtype):
    x = np.random.default_rng(2).standard_normal(400_000).astype(np.float32)
    x[[3, 70_000, 399_999]] = np.inf, np.nan, 1e30
    for n in (1, 600, half_bits.BLOCK + 3, half_bits.LONG + 3, x.size):
        half, wide = np.empty(n, dtype), np.empty(n, np.float32)
        with np.errstate(all="ignore"):
            half_bits.narrow(x[:n], half)
        assert (half.view(np.uint16) == one_by_one(x[:n], dtype).view(np.uint16)).all()
        half_bits.widen(half, wide)
        assert (wide.view(np.uint32) == half.astype(np.float32).view(np.uint32)).all()


UNARY = [
    lambda t: -t, lambda t: t.abs(), lambda t: t.sqrt(), lambda t: t.square(), lambda t: t.exp(), lambda t: t.tanh(),
    lambda t: t.log(), lambda t: t.sigmoid(), lambda t: t.rsqrt(), lambda t: t * 2.5, lambda t: 0.5 - t, lambda t: t**3,
    lambda t: t.clamp(-0.3, 1.7), lambda t: t > 0.0, lambda t: t.floor(), lambda t: t.sign(), F.silu, F.leaky_relu,
    lambda t: t.isnan(), lambda t: t.reciprocal(), lambda t: t.expm1(), lambda t: t**-1.5,
]  # fmt: skip


@HALVES
@pytest.mark.parametrize("f", UNARY)
def test_ops_of_every_number_are_those_of_float32_rounded_once(dtype, f):
    x = every(dtype)
    wide = f(x.float())
    expected = wide.to(dtype) if wide.is_floating_point() else wide
    for part in (slice(None), slice(0x3F00, 0x3FF0), slice(0x3F80, 0x3F84)):
        found = f(x[part])
        if f in UNARY[:4] + UNARY[9:14]:
            same(found, expected[part])
        else:  # NumPy's functions for float16 and those of one number may differ in the last place of float32
            difference = (bits(found).long() - bits(expected[part]).long()).abs()
            assert difference.max() <= 1 and difference.sum() <= max(4, len(found) // 1000)


BINARY = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, gl.maximum, gl.fmin,
    lambda a, b: a < b, lambda a, b: a == b, lambda a, b: gl.where(a > 0, a, b), lambda a, b: gl.lerp(a, b, 0.25),
    lambda a, b: gl.addcmul(a, a, b, value=0.5), lambda a, b: gl.add(a, b, alpha=2),
]  # fmt: skip
LAYOUTS = {
    "same": lambda a, b: (a, b),
    "transposed": lambda a, b: (a.t(), b.t()),
    "mixed": lambda a, b: (a, b.reshape(b.shape[1], b.shape[0]).t()),
    "row": lambda a, b: (a, b[3]),
    "column": lambda a, b: (a, b[:, 3:4]),
    "outer": lambda a, b: (a[:, :1], b[:1]),
    "strided": lambda a, b: (a[::2, 1:-1], b[::2, 1:-1]),
    "expanded": lambda a, b: (a[:1].expand(a.shape), b),
    "single": lambda a, b: (a, b[0, 0]),
    "empty": lambda a, b: (a[:0], b[:0]),
    "no dimensions": lambda a, b: (a[1, 1], b[2, 2]),
}


@HALVES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [6, 300, 1200])
def test_ops_of_two_operands_are_those_of_float32_rounded_once(dtype, layout, rows):
    a, b = LAYOUTS[layout](some(dtype, rows, 130), some(dtype, rows, 130, seed=1))
    for f in BINARY:
        wide = f(a.float(), b.float())
        if f is BINARY[-1]:  # the product is rounded, too
            wide = a.float() + (2 * b).float()
        found = f(a, b)
        if f in BINARY[4:6]:  # the sign of the larger of two zeros is open
            found, wide = found + 0.0, wide + 0.0
        same(found, wide.to(dtype) if wide.is_floating_point() else wide)
        if f is not BINARY[8]:  # which takes memory as it comes
            assert found.stride() == f(a.float(), b.float()).stride()


@HALVES
@pytest.mark.parametrize("n", [10, 5000, 300_000])
def test_in_place_and_into_given_tensors(dtype, n):
    a, b = some(dtype, n), some(dtype, n, seed=1)
    sums, factor = (a.float() + b.float()).to(dtype), gl.tensor(0.25)
    x = a.clone()
    assert x.add_(b) is x and x._version == 1
    same(x, sums)
    out = gl.empty(n, dtype=dtype)
    assert gl.add(a, b, out=out) is out
    same(out, sums)
    wide = gl.empty(n)
    same(gl.add(a, b, out=wide), sums.float())
    same(a.clone().mul_(0.3), (a.float() * 0.3).to(dtype))
    same(a.clone().mul_(factor), (a.float() * factor).to(dtype))
    same(a.clone().mul_(a[5]), (a.float() * a[5].float()).to(dtype))
    same(a.clone().neg_(), -a)
    same(a.clone().sigmoid_(), a.sigmoid())
    same(a.clone().clamp_(-1, 1), a.float().clamp(-1, 1).to(dtype))
    y = a.clone()[::2]
    same(y.add_(b[::2]), sums[::2])
    z = a.clone()
    same(z.sub_(z), (a.float() - a.float()).to(dtype))
    same(a + factor, (a.float() + factor).to(dtype))
    assert (a + b.float()).dtype is gl.float32 and (a + gl.ones(n, dtype=gl.int64)).dtype is dtype


@HALVES
@pytest.mark.parametrize("n", [40, 6000, 300_000])
def test_gradients_are_rounded_once(dtype, n):
    x = gl.linspace(-4, 4, n).to(dtype).requires_grad_()
    g = gl.linspace(0.5, 2, n).to(dtype)
    wide = g.float()
    y = x.tanh()
    (found,) = gl.autograd.grad(y, x, g)
    value = y.detach().float()
    same(found, (wide * (1 - value * value)).to(dtype))
    y = x.exp()
    same(gl.autograd.grad(y, x, g)[0], (wide * y.detach().float()).to(dtype))
    other = (x.detach() + 1).requires_grad_()
    one, two = gl.autograd.grad(x * other, (x, other), g)
    same(one, (wide * other.detach().float()).to(dtype))
    same(two, (wide * x.detach().float()).to(dtype))
    one, two = gl.autograd.grad(x - other, (x, other), g)
    same(one, g)
    same(two, -g)


@HALVES
def test_gradients_of_what_was_broadcast_are_summed_in_float32(dtype):
    x, bias = (
        some(gl.float32, 500, 300).clamp(-1, 1).to(dtype),
        gl.ones(300, dtype=dtype, requires_grad=True),
    )
    x[x.isnan()] = 0.0
    (found,) = gl.autograd.grad((x * bias).sum(), bias)
    gl.testing.assert_close(found.float(), x.float().sum(0).to(dtype).float(), rtol=2e-2, atol=1e-2)
    assert found.dtype is dtype


@HALVES
def test_what_the_dtype_decides_is_of_the_half_type(dtype):
    x = some(dtype, 5000)
    largest = gl.finfo(dtype).max
    assert x.nan_to_num().abs().max().item() == largest
    if dtype is gl.float16:
        assert x.new_ones(5000).nextafter(x.new_full((5000,), 2.0))[0].item() == 1 + 2.0**-10
    for refused in (lambda: x << x, lambda: gl.gcd(x, x)):
        with pytest.raises(NotImplementedError, match=dtype.scalar_type):
            refused()


@HALVES
@pytest.mark.parametrize("rows", [3, 3000])
def test_extrema(dtype, rows):
    x = some(dtype, rows, 70)
    x[x.isnan()] = 0.5
    wide = x.float()
    same(x.max(), wide.max().to(dtype))
    same(x.amin(1), wide.amin(1).to(dtype))
    same(x.amax(0, keepdim=True), wide.amax(0, keepdim=True).to(dtype))
    x[1, 2] = float("nan")
    assert x.max().isnan() and x.amin(1)[1].isnan()
    y = gl.tensor([1.0, 3.0, 3.0], dtype=dtype, requires_grad=True)
    y.amax().backward()
    assert y.grad.tolist() == [0.0, 0.5, 0.5]


@HALVES
def test_captured_steps_give_the_bits_of_eager(dtype):
    def step(x, w):
        y = ((x * w).tanh() + 0.3).sigmoid() * w - x
        loss = (y * y).mean()
        loss.backward()
        with gl.no_grad():
            w.sub_(w.grad, alpha=0.1)
            w.mul_(0.99)
        w.grad = None
        return loss

    x = gl.linspace(-2, 2, 200_000).to(dtype)
    eager = gl.linspace(-1, 1, 200_000).to(dtype).requires_grad_()
    captured = eager.detach().clone().requires_grad_()
    plan = gl.capture(step)
    for _ in range(6):
        same(plan(x, captured), step(x, eager))
        same(captured, eager)


@HALVES
def test_two_threads_give_the_bits_of_one(dtype):
    a, b = some(dtype, 700_000), some(dtype, 700_000, seed=1)
    before = gl.get_num_threads()
    try:
        made = []
        for n in (1, 2):
            gl.set_num_threads(n)
            long = a.reshape(1, -1) + b  # one row
            made.append(
                [long[0], a + b, a.sqrt(), a.sigmoid(), a.float(), a.float().to(dtype), a < b]
            )
    finally:
        gl.set_num_threads(before)
    for one, two in zip(*made, strict=True):
        same(one, two) if one.element_size() == 2 else None
        assert gl.equal(
            one.nan_to_num() if one.is_floating_point() else one,
            two.nan_to_num() if two.is_floating_point() else two,
        )


@HALVES
def test_vmap_and_forward_mode(dtype):
    x = some(dtype, 4, 2000, seed=3).clamp(-3, 3)
    x[x.isnan()] = 1.0
    same(gl.func.vmap(lambda v: v.tanh() * v + 1)(x), gl.stack([v.tanh() * v + 1 for v in x]))
    value, slope = gl.func.jvp(lambda v: v * v, (x,), (gl.ones_like(x),))
    same(value, x * x)
    same(slope, x + x)


@HALVES
def test_powers_by_numbers_keep_the_dtype(dtype):
    x = gl.linspace(0.5, 3, 20).to(dtype).requires_grad_()
    y = x**2.5
    same(y, (x.detach().float() ** 2.5).to(dtype))
    y.sum().backward()
    assert y.dtype is dtype and x.grad.dtype is dtype


@HALVES
@pytest.mark.parametrize("n", [100, 6000, 400_000])
def test_gradients_that_meet_are_added_in_float32(dtype, n):
    x = some(gl.float32, n).clamp(-3, 3).nan_to_num().to(dtype).requires_grad_()
    w = gl.linspace(-2, 2, n).to(dtype)
    g = gl.linspace(0.5, 2, n).to(dtype)
    (found,) = gl.autograd.grad(x * w + x * x, x, g)
    one = (g.float() * w.float()).to(dtype)
    two = (g.float() * x.detach().float()).to(dtype)
    # those of x * x meet first
    twice = (two.float() + two.float()).to(dtype)
    same(found, (one.float() + twice.float()).to(dtype))
    y = x.detach().requires_grad_()
    (y * w).backward(g)
    (y * w).backward(g)
    same(y.grad, (one.float() + one.float()).to(dtype))


@HALVES
@pytest.mark.parametrize("n", [70, 5000, 300_000])
def test_the_gradient_of_relu_is_that_of_the_result_or_zero(dtype, n):
    x = some(dtype, n).requires_grad_()
    g = some(dtype, n, seed=4)
    y = x.relu()
    (found,) = gl.autograd.grad(y, x, g)
    same(found, gl.where(y.detach() <= 0, gl.zeros_like(g), g))
    square = x.detach()[: n // 10 * 10].reshape(10, -1).t().requires_grad_()
    g = g[: n // 10 * 10].reshape(-1, 10)
    y = square.relu()
    (found,) = gl.autograd.grad(y, square, g)
    same(found, gl.where(y.detach() <= 0, gl.zeros_like(g), g))


@HALVES
def test_copies_of_what_is_repeated(dtype):
    x = some(dtype, 300)
    for wide in (x[0].expand(70, 300), x.expand(70, 300), x[:70, None].expand(70, 300)):
        rows = gl.stack([row.clone() for row in wide])
        same(wide.contiguous(), rows)
        same(wide.clone(), rows)
        same(wide.float().to(dtype).contiguous(), rows)
    y = x.detach().requires_grad_()
    y.sum().backward()
    same(y.grad, gl.ones_like(x))
    wide = gl.linspace(-3, 3, 300).expand(70, 300)
    same(wide.to(dtype), gl.stack([row.to(dtype) for row in wide]))


@HALVES
@pytest.mark.parametrize("shape", [(40, 50), (300, 257), (3, 70_000), (2000, 96)])
def test_rows_are_those_of_float32_rounded_once(dtype, shape):
    """To one unit in the last place: blocks may be others."""
    draw = np.random.default_rng(5)
    x = gl.from_numpy(draw.normal(0, 2, shape).astype("f4")).to(dtype)
    g = gl.from_numpy(draw.normal(0, 1, shape).astype("f4")).to(dtype)
    w = gl.linspace(0.5, 1.5, shape[1]).to(dtype)
    unit = gl.finfo(dtype).eps
    for f in (
        lambda x, w: x.softmax(-1),
        lambda x, w: x.log_softmax(-1),
        lambda x, w: F.layer_norm(x, shape[1:], w, w),
        lambda x, w: F.layer_norm(x, shape[1:]),
    ):
        made = []
        for kind in (dtype, gl.float32):
            a, b = [t.to(kind).requires_grad_() for t in (x, w)]
            y = f(a, b)
            grads = gl.autograd.grad(y, (a, b), g.to(kind), allow_unused=True)
            made.append([y.detach(), *[t for t in grads if t is not None]])
        assert [t.dtype for t in made[0]] == [dtype] * len(made[0])
        y, exact = made[0][0].float(), made[1][0]
        assert ((y - exact).abs() <= unit * exact.abs() + 1e-7).all()
        for a, b in zip(made[0][1:], made[1][1:], strict=True):
            gl.testing.assert_close(
                a.float(), b, rtol=8 * unit, atol=8 * unit * b.abs().max().item()
            )


@HALVES
def test_dtypes_that_are_objects_of_their_own(dtype):
    """NumPy makes new ones where arrays are read from a pickle."""
    draw = np.random.default_rng(6)
    x = gl.from_numpy(draw.normal(0, 2, (700, 300)).astype("f4")).to(dtype)
    w = gl.linspace(0.5, 1.5, 300).to(dtype)
    read = [gl.Tensor._make(pickle.loads(pickle.dumps(t._array))) for t in (x, w)]
    for f in (
        lambda x, w: x + x, lambda x, w: x * w, lambda x, w: x.softmax(-1), lambda x, w: x.sum(), lambda x, w: x.sum(1),
        lambda x, w: F.layer_norm(x, (300,), w, w), lambda x, w: F.layer_norm(x, (300,)), lambda x, w: x.relu(),
        lambda x, w: x.float(), lambda x, w: x.mean(0), lambda x, w: F.cross_entropy(x, gl.arange(700) % 300),
    ):  # fmt: skip
        same(f(*read), f(x, w))
        made = []
        for given in (read, (x, w)):
            leaf = given[0].detach().requires_grad_()
            y = f(leaf, given[1])
            made += gl.autograd.grad(y, leaf, gl.ones_like(y))
        same(*made)


@HALVES
@pytest.mark.parametrize("shape", [(1000,), (60, 300), (1000, 1000), (64, 64, 96)])
def test_sums_are_those_of_float32_rounded_once(dtype, shape):
    x = (some(gl.float32, *shape).clamp(-9, 9).nan_to_num() / 64).to(dtype)
    for dim in (None, *range(len(shape)), tuple(range(len(shape)))[-2:]):
        for keepdim in (False, True):
            how = {} if dim is None else {"dim": dim, "keepdim": keepdim}
            exact = x.double().sum(**how)
            found = x.sum(**how)
            assert found.dtype is dtype and found.shape == exact.shape
            spread = x.double().abs().sum(**how)
            assert (
                (found.double() - exact).abs() <= gl.finfo(dtype).eps * exact.abs() + 1e-6 * spread
            ).all()
