"""Half types on the CPU: computed in float32 and rounded once, whatever the size and the layout of arrays are."""

import ml_dtypes
import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import halves
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


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_float32_is_rounded_to_nearest_ties_to_even(dtype):
    near = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    near = near[np.isfinite(near) & (np.abs(near) < 65504)]
    step = np.abs(near) * np.float32(2.0**-11 if dtype.char == "e" else 2.0**-8)
    words = np.random.default_rng(1).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    small = (np.arange(1, 1 << 15, dtype=np.float64) * 2.0**-25 * (1 + 2.0**-22)).astype(np.float32)
    with np.errstate(all="ignore"):
        ties = (
            near + step,
            near - step,
            np.nextafter(near + step, np.float32(0)),
            near,
            small,
            -small,
        )
        for x in (*ties, words.view(np.float32), words[:1000].view(np.float32)):
            found, expected = halves.narrow_half(x, dtype), x.astype(dtype)
            known = ~np.isnan(x)
            assert (found.view(np.uint16) == expected.view(np.uint16))[known].all()
            assert np.isnan(found.astype(np.float32)[~known]).all()


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
