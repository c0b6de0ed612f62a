"""autograd.Function, its ctx and its Node."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import Function, NestedIOFunction
from gradlib.autograd import function as function_module
from gradlib.autograd.function import BackwardCFunction, InplaceFunction
from gradlib.autograd.graph import Node, saved_tensors_hooks
from tests.autograd.functions import Exp, double, gradient, make


@pytest.fixture
def x():
    return gl.tensor([1.0, 2.0, 3.0], requires_grad=True)


# -- calling -----------------------------------------------------------------------------------------------------------


def test_forward_and_backward(x):  # rows: FN-01 FN-10 FN-41 GRAPH-01
    y = Exp.apply(x)
    np.testing.assert_allclose(y.detach(), np.exp([1.0, 2.0, 3.0]), rtol=1e-6)
    assert y.grad_fn.name() == "ExpBackward"
    assert isinstance(y.grad_fn, BackwardCFunction)
    assert isinstance(y.grad_fn, Node)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, y.detach())


def test_arguments_of_any_kind(x):  # rows: FN-02 FN-09
    seen = []

    def forward(ctx, a, b, k, *rest):
        seen.append((ctx.needs_input_grad, k, rest))
        return a * b * k

    G = make(forward, lambda ctx, g: (g, g, None, None))
    y = G.apply(x, gl.ones(3), 4, "text")
    assert seen == [((True, False, False, False), 4, ("text",))]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_forward_is_not_recorded(x):  # rows: FN-10 TENSOR-31
    def forward(ctx, a):
        assert not gl.is_grad_enabled()
        assert a.requires_grad
        assert a.numpy().shape == (3,)
        assert ctx.saved_tensors == ()
        return a * 2

    assert make(forward, lambda ctx, g: g).apply(x).requires_grad
    assert gl.is_grad_enabled()


def test_nothing_recorded_without_need(x):  # rows: FN-11
    with gl.no_grad():
        assert Exp.apply(x).grad_fn is None
    assert Exp.apply(x.detach()).grad_fn is None


def test_keyword_arguments(x):
    G = make(lambda ctx, a, k=3: a * k, lambda ctx, g: (g * 5, None))
    assert G.apply(x, k=4).tolist() == [4.0, 8.0, 12.0]
    assert G.apply(a=x).grad_fn is not None


def test_missing_methods(x):  # rows: FN-03 FN-05 FN-13 FN-14
    with pytest.raises(
        NotImplementedError, match="You must implement the forward function for custom"
    ):
        type("E", (Function,), {}).apply(x)
    y = make(double).apply(x)
    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        y.sum().backward()
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        Function.jvp(None)
    with pytest.raises(NotImplementedError, match="setup_context is not implemented"):
        Function.setup_context(None, (), None)
    with pytest.raises(NotImplementedError, match=r"To use autograd.Function with vmap"):
        Function.vmap(None, (), 1)


def test_what_backward_returns():  # rows: FN-04 FN-06 FN-07 FN-08
    assert gradient(make(double, lambda ctx, g: (g * 5, None, None))).tolist() == [5.0] * 3
    assert gradient(make(double, lambda ctx, g: None)) is None
    assert gradient(make(double, lambda ctx, g: gl.ones(2, 3))).tolist() == [2.0] * 3
    assert gradient(make(double, lambda ctx, g: g.double())).dtype is gl.float32
    two = make(lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    cases = [
        (make(double, lambda ctx, g: (g, g)), (), r"function GBackward returned an incorrect number of gradients "
         r"\(expected 1, got 2\)"),
        (make(lambda ctx, a, b: a, lambda ctx, g: g), (gl.ones(3),), r"\(expected 2, got 1\)"),
        (two, (4,), "function GBackward returned a gradient different than None at position 2, but the "
         "corresponding forward input was not a Variable"),
        (make(double, lambda ctx, g: gl.ones(7)), (), r"Function GBackward returned an invalid gradient at index 0 - "
         r"got \[7\] but expected shape compatible with \[3\]"),
        (make(double, lambda ctx, g: gl.ones(1)), (), r"got \[1\] but expected shape compatible with \[3\]"),
        (make(double, lambda ctx, g: 5), (), r"expected Variable or None \(got int\)"),
        (make(double, lambda ctx, g: gl.ones(3, dtype=gl.complex64)), (), "invalid gradient at index 0"),
    ]  # fmt: skip
    for cls, args, text in cases:
        with pytest.raises(RuntimeError, match=text):
            gradient(cls, *args)


def test_several_outputs_and_other_objects(x):  # rows: FN-46 FN-30
    got = []
    G = make(
        lambda ctx, a: (a * 2, 7, None, a * 3),
        lambda ctx, *gs: got.append(gs) or gs[0] * 2 + gs[3] * 3,
    )
    y, seven, none, z = G.apply(x)
    assert (seven, none) == (7, None)
    assert (y.output_nr, z.output_nr) == (0, 3)
    y.sum().backward()
    assert got[0][1] is None
    assert got[0][2] is None
    assert got[0][3].tolist() == [0.0] * 3
    assert x.grad.tolist() == [2.0] * 3
    assert make(lambda ctx, a: 5).apply(x) == 5
    assert make(lambda ctx, a: ()).apply(x) == ()


def test_vjp_is_another_name_of_backward():  # rows: FN-12
    assert gradient(make(double, vjp=lambda ctx, g: g * 7)).tolist() == [7.0] * 3
    with pytest.raises(
        RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not"
    ):
        gradient(make(double, lambda ctx, g: g, vjp=lambda ctx, g: g))


def test_setup_context(x):  # rows: FN-14 FN-33
    class Scale(Function):
        @staticmethod
        def forward(a, k=3.0):
            return a * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True, False)
            assert ctx.saved_tensors[0].grad_fn.name() == "ScaleBackward"
            return g * ctx.k, None

    Scale.apply(x, 5.0).sum().backward()
    assert x.grad.tolist() == [5.0] * 3
    assert Scale.apply(x).tolist() == [3.0, 6.0, 9.0]
    assert Scale.apply(x, k=2).grad_fn.k == 2


def test_ctx_takes_names_that_the_node_uses(x):  # rows: FN-33
    def forward(ctx, a):
        ctx.op, ctx.seq, ctx.stream, ctx.edges, ctx.name, ctx.run = 1, 2, 3, 4, "me", 5
        return a * 2

    def backward(ctx, g):
        assert (ctx.op, ctx.seq, ctx.stream, ctx.edges, ctx.name, ctx.run) == (1, 2, 3, 4, "me", 5)
        return g * 2

    assert gradient(make(forward, backward)).tolist() == [2.0] * 3


def test_unknown_attributes(x):
    node = Exp.apply(x).grad_fn
    assert not hasattr(node, "foo")
    with pytest.raises(AttributeError, match="'ExpBackward' object has no attribute 'foo'"):
        node.foo  # noqa: B018


# -- saved tensors -----------------------------------------------------------------------------------------------------


def test_save_for_backward(x):  # rows: FN-17 FN-18 FN-19
    G = make(
        lambda ctx, a: (ctx.save_for_backward(a), ctx.save_for_backward(a * 3, None), a * 2)[2],
        lambda ctx, g: g * ctx.saved_tensors[0],
    )
    y = G.apply(x)
    saved, none = y.grad_fn.saved_tensors
    assert saved.tolist() == [3.0, 6.0, 9.0]
    assert none is None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 6.0, 9.0]
    with pytest.raises(
        TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"
    ):
        make(lambda ctx, a: (ctx.save_for_backward(3), a * 2)[1]).apply(x)


def test_saved_inputs_keep_identity_and_are_checked(x):  # rows: FN-17 INPLACE-03
    G = make(
        lambda ctx, a: (ctx.save_for_backward(a), a * a)[1],
        lambda ctx, g: 2 * g * ctx.saved_tensors[0],
    )
    a = x * 1
    y = G.apply(a)
    assert y.grad_fn.saved_tensors[0] is a
    a.mul_(2)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"
    ):
        y.sum().backward()


def test_saved_outputs_are_checked(x):
    y = Exp.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"output 0 of Exp, is at version 1"):
        y.sum().backward()


def test_freed_after_backward(x):  # rows: FN-20 SAVED-10
    y = Exp.apply(x)
    y.sum().backward()
    for read in (lambda: y.grad_fn.saved_tensors, lambda: y.grad_fn._raw_saved_tensors):
        with pytest.raises(
            RuntimeError, match="Trying to backward through the graph a second time"
        ):
            read()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()
    z = Exp.apply(x)
    z.sum().backward(retain_graph=True)
    z.sum().backward()


def test_saved_tensor_hooks(x):  # rows: FN-21 SAVED-10
    packed = []
    with saved_tensors_hooks(lambda t: packed.append(t) or t.detach().numpy(), gl.from_numpy):
        y = Exp.apply(x)
    assert len(packed) == 1
    y.sum().backward()
    np.testing.assert_allclose(x.grad, y.detach())


def test_raw_saved_tensors(x):  # rows: SAVED-10 SAVED-06 SAVED-08
    y, calls = Exp.apply(x), []
    (raw,) = y.grad_fn._raw_saved_tensors
    assert isinstance(raw, gl.autograd.SavedTensor)
    raw.register_hooks(lambda t: calls.append("pack") or t, lambda t: calls.append("unpack") or t)
    assert calls == ["pack"]
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn
    with pytest.raises(RuntimeError, match="only one pair of hooks"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert calls == ["pack", "unpack", "unpack"]
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_no_reference_cycle(x):  # rows: FN-22 HOOK-20
    gc.disable()
    try:
        G = make(
            lambda ctx, a: (lambda r: (ctx.save_for_backward(r, a), r)[1])(a.exp()),
            lambda ctx, g: g,
        )
        y = G.apply(x)
        node, ctx = weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.ctx)
        del y
        assert node() is None
        assert ctx() is None
    finally:
        gc.enable()


# -- which gradients ---------------------------------------------------------------------------------------------------


def test_non_differentiable_outputs(x):  # rows: FN-28 FN-29
    got = []

    def forward(ctx, a):
        values, index = a.sort(descending=True)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(a, index)
        return values, index

    def backward(ctx, g1, g2):
        got.append(g2)
        a, index = ctx.saved_tensors
        return gl.zeros_like(a).index_add_(0, index, g1)

    values, index = make(forward, backward).apply(x)
    assert values.requires_grad
    assert not index.requires_grad
    values.backward(gl.tensor([10.0, 20.0, 30.0]))
    assert x.grad.tolist() == [30.0, 20.0, 10.0]
    assert got[0].shape == index.shape
    assert not got[0].any()
    assert not make(lambda ctx, a: gl.ones(2, dtype=gl.int64)).apply(x).requires_grad
    constant = make(lambda ctx, a: (lambda o: (ctx.mark_non_differentiable(o), o)[1])(a * 2))
    assert constant.apply(x).grad_fn is None


@pytest.mark.parametrize("materialize", [True, False])
def test_undefined_gradients(x, materialize):  # rows: FN-30
    got = []

    def forward(ctx, a):
        ctx.set_materialize_grads(materialize)
        return a.clone(), a.clone()

    y, _ = make(forward, lambda ctx, g1, g2: got.append(g2) or g1).apply(x)
    y.sum().backward()
    assert got[0].tolist() == [0.0] * 3 if materialize else got == [None]
    with pytest.raises(TypeError, match="set_materialize_grads received an invalid combination"):
        make(lambda ctx, a: ctx.set_materialize_grads(4)).apply(x)


def test_only_what_is_needed_flows_on(x):
    """A gradient that is not asked for goes nowhere."""
    w, fired = gl.ones(3, requires_grad=True), []
    w.register_hook(lambda g: fired.append(g))
    y = make(lambda ctx, a, b: a * b, lambda ctx, g: (g, g)).apply(x, w)
    assert gl.autograd.grad(y.sum(), x)[0].tolist() == [1.0] * 3
    assert not fired


# -- the Node and old names --------------------------------------------------------------------------------------------


def test_backward_c_function(x):  # rows: FN-41 FN-42 FN-43 FN-44
    class Double(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    node = Double.apply(x).grad_fn
    assert node.apply(gl.ones(3)).tolist() == [2.0] * 3
    assert node(gl.ones(3)).tolist() == [2.0] * 3
    assert node.apply_jvp(gl.ones(3)).tolist() == [2.0] * 3
    for name in ("mark_dirty", "mark_non_differentiable", "save_for_backward", "save_for_forward",
                 "set_materialize_grads"):  # fmt: skip
        assert callable(getattr(BackwardCFunction, name))
    assert node.metadata == {}
    assert node.next_functions[0][0].variable is x


def test_old_forms(x):  # rows: FN-34 FN-38 FN-39 FN-40 FN-45
    assert function_module._ContextMethodMixin is function_module.FunctionCtx
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Exp()
    with pytest.raises(
        RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"
    ):
        old(x)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert InplaceFunction(True).inplace is True
    for method in (NestedIOFunction.forward_extended, NestedIOFunction.backward_extended):
        with pytest.raises(NotImplementedError):
            method(None)
    with pytest.warns(FutureWarning, match="`mark_shared_storage` is deprecated"):
        make(lambda ctx, a: (ctx.mark_shared_storage((a, a)), a * 2)[1]).apply(x)


def test_errors_in_backward_reach_the_caller(x):  # rows: BWD-24
    def backward(ctx, g):
        raise RuntimeError("Some error in backward")

    with pytest.raises(RuntimeError) as caught:
        make(double, backward).apply(x).sum().backward()
    assert str(caught.value) == "Some error in backward"
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_reentrant_backward(x):  # rows: BWD-23
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a.exp()

    def backward(ctx, g):
        with gl.enable_grad():
            a = ctx.saved_tensors[0].detach().requires_grad_()
            (inner,) = gl.autograd.grad(a.exp(), a, g)
        return inner

    G = make(forward, backward)
    y = G.apply(G.apply(x * 0.1))
    y.sum().backward()
    a = np.exp(np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(x.grad, 0.1 * a * np.exp(a), rtol=1e-5)


def test_deeply_nested_backward():  # rows: BWD-23
    """Far more backward passes inside each other than fit on one stack."""

    class Deep(Function):
        @staticmethod
        def forward(ctx, a):
            with gl.enable_grad():
                ctx.rest = a.detach().requires_grad_() - 1
            return ctx.rest.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.rest > 0:
                with gl.enable_grad():
                    Deep.apply(ctx.rest).backward()
            elif ctx.rest < 0:
                raise RuntimeError("from the bottom")
            return g

    a = gl.tensor(500.0, requires_grad=True)
    Deep.apply(a).backward()
    assert a.grad.item() == 1.0
    with pytest.raises(RuntimeError, match="from the bottom"):
        Deep.apply(gl.tensor(200.5, requires_grad=True)).backward()


def test_threads_share_a_function():  # rows: MT-07
    found = {}

    def work(k):
        t = gl.full((3,), float(k), requires_grad=True)
        for _ in range(20):
            t.grad = None
            Exp.apply(t).sum().backward()
        found[k] = t.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        np.testing.assert_allclose(found[k], np.exp(np.full(3, k, np.float32)), rtol=1e-6)
