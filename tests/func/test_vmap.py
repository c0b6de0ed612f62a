"""vmap with custom Functions, control over entries, and gradlib.func where PyTorch need not be installed."""

# rows: FN-15 FN-16

import threading

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, forward_ad
from gradlib.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


class Scale(Function):
    """x * k, with a vmap rule that counts its calls."""

    calls: list = []

    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k = inputs
        ctx.save_for_backward(x, k)

    @staticmethod
    def backward(ctx, g):
        x, k = ctx.saved_tensors
        return g * k, (g * x).sum_to_size(k.shape) if isinstance(k, gradlib.Tensor) else None

    @staticmethod
    def jvp(ctx, x_t, k_t):
        raise AssertionError("not reached")

    @staticmethod
    def vmap(info, in_dims, x, k):
        Scale.calls.append((info.batch_size, info.randomness, in_dims, x.shape, k.shape))
        if in_dims[1] == 0:
            k = k.reshape(-1, *[1] * (x.dim() - (in_dims[0] == 0) - k.dim() + 1), *k.shape[1:])
        return Scale.apply(x, k), 0


class Generated(Function):
    """exp with a derived vmap rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


@pytest.fixture(autouse=True)
def _fresh():
    Scale.calls = []
    threads = threading.active_count()
    yield
    assert threading.active_count() == threads


def batch(*shape):
    return gradlib.arange(float(np.prod(shape))).reshape(shape) + 1


def test_rule_is_called_once_with_the_batch():
    x, k = batch(4, 3), gradlib.tensor(2.0)
    out = vmap(lambda t: Scale.apply(t + 1, k))(x)
    assert gradlib.equal(out, (x + 1) * 2)
    assert Scale.calls == [(4, "error", (0, None), (4, 3), ())]


def test_rule_with_two_batched_arguments_and_randomness():
    x, k = batch(3, 4), batch(4)
    out = vmap(Scale.apply, in_dims=(1, 0), randomness="same")(x, k)
    assert gradlib.equal(out, x.T * k[:, None])
    assert Scale.calls == [(4, "same", (0, 0), (4, 3), (4,))]


def test_gradient_through_the_rule():
    x, k = batch(4, 3).requires_grad_(), gradlib.tensor(2.0, requires_grad=True)
    out = vmap(lambda t: Scale.apply(Scale.apply(t.sin(), k), k).cos())(x)
    out.sum().backward()
    assert len(Scale.calls) == 2
    a, b = batch(4, 3).requires_grad_(), gradlib.tensor(2.0, requires_grad=True)
    (a.sin() * b * b).cos().sum().backward()
    assert gradlib.allclose(x.grad, a.grad)
    assert gradlib.allclose(k.grad, b.grad)


def test_rule_inside_grad_inside_vmap():
    x, k = batch(4, 3), gradlib.tensor(2.0)
    found = vmap(grad(lambda t: (Scale.apply(t, k) ** 2).sum()))(x)
    assert gradlib.equal(found, 8 * x)
    assert len(Scale.calls) == 1


def test_nested_vmap_calls_the_rule_for_both_batches():
    x, k = batch(2, 4, 3), gradlib.tensor(2.0)
    assert gradlib.equal(vmap(vmap(lambda t: Scale.apply(t, k)))(x), x * 2)
    assert len(Scale.calls) == 2  # the inner batch, and in its rule the outer batch
    assert Scale.calls[-1][:4] == (2, "error", (0, None), (2, 4, 3))


def test_shared_arguments_do_not_reach_the_rule():
    w, k = batch(3), gradlib.tensor(2.0)
    assert gradlib.equal(vmap(lambda t: t + Scale.apply(w, k))(batch(2, 3)), batch(2, 3) + 2 * w)
    assert Scale.calls == []


def test_chunks_reach_the_rule():
    x, k = batch(5, 3), gradlib.tensor(2.0)
    assert gradlib.equal(vmap(lambda t: Scale.apply(t, k), chunk_size=2)(x), x * 2)
    assert [c[0] for c in Scale.calls] == [2, 2, 1]


def test_modes_hold_in_all_entries():
    x, k = batch(3, 2).requires_grad_(), gradlib.tensor(2.0)

    def f(t):
        assert gradlib.is_grad_enabled() is False
        return Scale.apply(t, k)

    with gradlib.no_grad():
        assert vmap(f)(x).requires_grad is False


def test_same_random_numbers_with_a_rule():
    k = gradlib.tensor(1.0)

    def f(t):
        first = gradlib.rand(2)
        return Scale.apply(t, k) + first, gradlib.rand(2)

    gradlib.manual_seed(3)
    a, b = vmap(f, randomness="same")(gradlib.zeros(3, 2))
    gradlib.manual_seed(3)
    first, second = gradlib.rand(2), gradlib.rand(2)
    assert gradlib.equal(a, first.expand(3, 2))
    assert gradlib.equal(b, second.expand(3, 2))


def test_an_error_comes_out():
    k, seen = gradlib.tensor(1.0), []

    def f(t):
        out = Scale.apply(t, k)
        seen.append(1)
        if len(seen) == 2:
            raise KeyError("second")
        return out

    with pytest.raises(KeyError, match="second"):
        vmap(f, chunk_size=2)(batch(3, 2))


def test_pieces_run_once_each():
    calls, x, c = [], batch(5, 2), gradlib.ones(2)

    def f(t):
        calls.append(1)
        return t * c.mul_(2)

    out = vmap(f, chunk_size=2)(x)
    assert len(calls) == 3
    assert gradlib.equal(c, gradlib.full((2,), 8.0))
    assert gradlib.equal(out, x * gradlib.tensor([2.0, 2, 4, 4, 8])[:, None])


def test_derived_rule_is_that_of_a_loop():
    x = batch(3, 2).requires_grad_()
    out = vmap(Generated.apply)(x)
    assert gradlib.allclose(out, x.exp())
    out.sum().backward()
    assert gradlib.allclose(x.grad, x.detach().exp())
    pushed = jvp(vmap(Generated.apply), (x.detach(),), (gradlib.ones(3, 2),))[1]
    assert gradlib.allclose(pushed, x.detach().exp())


class Mixed(Function):
    """sin(x) * w and the sign of x, of a batched and a shared argument; derived rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w, power):
        return x.sin() * w**power, x.sign()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.power = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx, g, _):
        x, w = ctx.saved_tensors
        return g * x.cos() * w**ctx.power, (g * x.sin()).sum() * ctx.power * w, None

    @staticmethod
    def jvp(ctx, x_t, w_t, _):
        x, w = ctx.saved_tensors
        return x_t * x.cos() * w**ctx.power + x.sin() * ctx.power * w * w_t, None


def test_derived_rule_in_every_transform():
    """Beside the same function of ops: values, gradients of batched and shared arguments, tangents, two orders."""
    x, w = batch(4, 3).double() / 7, gradlib.tensor(1.5, dtype=gradlib.float64)

    def own(x, w):
        return Mixed.apply(x, w, 2)[0].sum()

    def ops(x, w):
        return (x.sin() * w**2).sum()

    def same(transform, *args):
        for a, b in zip(*[_leaves(transform(f)(*args)) for f in (own, ops)], strict=True):
            assert gradlib.allclose(a, b)

    dims = (0, None)
    same(lambda f: vmap(f, dims), x, w)
    same(lambda f: vmap(grad(f, (0, 1)), dims), x, w)
    same(lambda f: grad(lambda x, w: vmap(f, dims)(x, w).cos().sum(), (0, 1)), x, w)
    same(lambda f: grad(lambda x, w: vmap(grad(f), dims)(x, w).cos().sum(), (0, 1)), x, w)
    same(lambda f: vmap(lambda x, w: jvp(f, (x, w), (x, w)), dims), x, w)
    same(lambda f: lambda x, w: jvp(vmap(f, dims), (x, w), (x, w)), x, w)
    same(lambda f: vmap(hessian(f), dims), x, w)
    same(
        lambda f: vmap(vmap(grad(f), (0, None)), (0, 0)),
        x.reshape(2, 2, 3),
        gradlib.stack([w, w + 1]),
    )
    same(lambda f: jacrev(vmap(f, dims), (0, 1)), x, w)
    same(lambda f: jacfwd(vmap(f, dims), (0, 1)), x, w)


def test_own_rule_inside_grad_with_an_outer_gradient():
    x, k = batch(4, 3).double(), gradlib.tensor(2.0, dtype=gradlib.float64)

    def loss(f):
        def total(x, k):
            return vmap(grad(lambda t: (f(t, k) ** 3).sum()))(x).sin().sum()

        return grad(total, (0, 1))(x, k)

    for a, b in zip(loss(Scale.apply), loss(lambda t, k: t * k), strict=True):
        assert gradlib.allclose(a, b)


def _leaves(value):
    return [value] if isinstance(value, gradlib.Tensor) else [t for v in value for t in _leaves(v)]


def test_setup_context_is_needed():
    class Joined(Generated):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        setup_context = Function.setup_context

    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        vmap(Joined.apply)(batch(2, 3))


def test_no_rule():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class InTwo(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
        vmap(Plain.apply)(batch(2, 3))
    with pytest.raises(
        RuntimeError, match="tried to vmap over InTwo, but it does not have vmap support"
    ):
        vmap(InTwo.apply)(batch(2, 3))
    assert gradlib.equal(
        vmap(lambda t: t + Plain.apply(gradlib.ones(3)))(batch(2, 3)), batch(2, 3) + 2
    )


def test_two_rules():
    class Both(Generated):
        @staticmethod
        def vmap(info, in_dims, x):
            return x, 0

    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        vmap(Both.apply)(batch(2, 3))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda x: x, "to have two returns"),
        (lambda x: (x, 0, 0), "Got 3 returns instead"),
        (lambda x: (x, (0, 0)), r"Expected out_dims=\(0, 0\) to be compatible"),
    ],
)
def test_wrong_rules(returned, message):
    class Wrong(Scale):
        @staticmethod
        def vmap(info, in_dims, x, k):
            return returned(x)

    with pytest.raises(RuntimeError, match=message):
        vmap(lambda t: Wrong.apply(t, 1.0))(batch(2, 3))


def test_several_outputs_of_a_rule():
    class Pair(Function):
        @staticmethod
        def forward(x):
            return x + 1, x.sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return (x.T + 1, gradlib.tensor(7.0)), (1, None)

    a, b = vmap(lambda t: Pair.apply(t))(batch(4, 3))
    assert gradlib.equal(a, batch(4, 3) + 1)
    assert gradlib.equal(b, gradlib.full((4,), 7.0))


def test_values_of_the_batch_are_refused():
    for f in (float, bool, int, lambda t: t.tolist(), lambda t: t.detach().item()):
        with pytest.raises(RuntimeError):
            vmap(lambda t, f=f: f((t * 2).sum()))(batch(2, 3))
    # tensors that all entries share have values
    assert gradlib.equal(
        vmap(lambda t: t * gradlib.tensor(2.0).item())(batch(2, 3)), batch(2, 3) * 2
    )
    assert float(batch(1).sum()) == 1.0


def test_state_is_put_back_after_an_error():
    from gradlib.tape.modes import VMAP, state

    with pytest.raises(RuntimeError):
        vmap(float)(batch(2))
    assert state.interposers == ()
    assert not state.bits & VMAP


def test_second_derivatives_agree():
    x = batch(3).double()

    def f(t):
        return (t**3).prod() + t.sin().sum()

    want = hessian(f)(x)
    assert gradlib.allclose(want, jacrev(jacrev(f))(x))
    assert gradlib.allclose(want, jacfwd(jacfwd(f))(x))
    assert gradlib.allclose(want, jacrev(jacfwd(f))(x))


def test_transforms_inside_a_dual_level():
    x = batch(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, gradlib.ones(3))
        out = vmap(lambda t: t**3)(dual)
        assert gradlib.allclose(forward_ad.unpack_dual(out).tangent, 3 * x**2)
        out = grad(lambda t: (t**3).sum())(dual)
        assert gradlib.allclose(forward_ad.unpack_dual(out).tangent, 6 * x)


def test_vjp_and_linearize_can_be_called_again():
    x = batch(3)
    _, pull = vjp(lambda t: t**2, x)
    _, push = linearize(lambda t: t**2, x)
    for _ in range(2):
        assert gradlib.equal(pull(gradlib.ones(3))[0], 2 * x)
        assert gradlib.equal(push(gradlib.ones(3)), 2 * x)


def test_grad_leaves_no_graph_without_need():
    out, value = gradlib.func.grad_and_value(lambda t: (t**2).sum())(batch(3))
    assert out.grad_fn is None
    assert value.grad_fn is None
    w = batch(3).requires_grad_()
    found = grad(lambda t: (t**2 * w).sum())(batch(3))
    found.sum().backward()
    assert gradlib.equal(w.grad, 2 * batch(3))
