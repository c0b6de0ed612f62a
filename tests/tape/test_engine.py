"""The engine: order, accumulation, depth, release, threads, errors."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import gradlib as torch
from gradlib.tape import accumulation


def leaf(*values, **kw):
    return torch.tensor(list(values), requires_grad=True, **kw)


def test_gradients_of_several_uses_are_summed_once():
    # rows: TENSOR-30 HOOK-19
    x = leaf(1.0, 2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5.0, 5.0]] and x.grad.tolist() == [5.0, 5.0]


def test_backward_accumulates_into_the_same_object():
    # rows: TENSOR-04 BWD-03 LAYOUT-03
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and x.grad.tolist() == [4.0, 4.0]


def test_create_graph_replaces_grad_and_warns():
    # rows: LAYOUT-04 BWD-06 BWD-07
    x = leaf(3.0)
    (x * x).sum().backward()
    old = x.grad
    with pytest.warns(UserWarning, match="reference cycle between the parameter and its gradient"):
        (x * x).sum().backward(create_graph=True)
    assert x.grad is not old and old.tolist() == [6.0] and x.grad.tolist() == [12.0]
    assert x.grad.requires_grad
    x.grad = None


def test_second_backward_raises_and_retain_graph_allows_it():
    # rows: BWD-04 BWD-05
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize("name", ["max_pool1d", "layer_norm", "gelu"])
def test_second_backward_through_hidden_values(name):
    """What an op keeps beside its arguments and results (indices, statistics) is freed like them."""
    x = torch.randn(1, 2, 8, requires_grad=True)
    extra = {"max_pool1d": (2,), "layer_norm": ((8,),)}.get(name, ())
    y = getattr(torch.nn.functional, name)(x, *extra).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_the_error_names_the_users_line():
    x = leaf(1.0, 2.0)
    y = x * x
    y.sum().backward()
    with pytest.raises(
        RuntimeError,
        match=r"test_engine\.py:\d+, in test_the_error_names_the_users_line\n.*y = x \* x",
    ):
        y.sum().backward()


def test_inputs_limits_accumulation():
    # rows: BWD-09
    a, b = leaf(1.0), leaf(2.0)
    c = a * b
    c.sum().backward(inputs=(a,))
    assert a.grad.tolist() == [2.0] and b.grad is None
    d = a * 3
    e = (d * b).sum()
    e.backward(inputs=[d])
    assert d.grad.tolist() == [2.0] and a.grad.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="`inputs` argument to `backward\\(\\)` cannot be empty"):
        c.sum().backward(inputs=[])


def test_a_first_gradient_is_never_somebody_elses_buffer():
    # rows: LAYOUT-08
    x, g = leaf(1.0, 2.0, 3.0), torch.ones(3)
    (x + 0).backward(g)
    x.grad.add_(1)
    assert g.tolist() == [1.0, 1.0, 1.0]
    a, b = leaf(1.0), leaf(1.0)
    (a + b).backward(torch.ones(1))
    a.grad.add_(1)
    assert b.grad.tolist() == [1.0]


def test_gradient_layout_follows_dense_parameters():
    # rows: LAYOUT-01 LAYOUT-02
    p = torch.ones(3, 2).t().detach().requires_grad_()
    (p * 2).sum().backward()
    assert p.stride() == (1, 2) and p.grad.stride() == (1, 2)
    q = torch.ones(4, 6)[:, ::2].detach().requires_grad_()
    (q * 2).sum().backward()
    assert q.grad.stride() == (3, 1)


def test_a_million_nodes_run_and_are_freed():
    # rows: TENSOR-33
    x = leaf(1.0, 2.0)
    depth = 20_000 if x.is_cuda else 200_000  # far beyond the limit of recursion
    y = x
    for _ in range(depth):
        y = y + 1.0
    y.backward(torch.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]
    z = x
    for _ in range(depth):
        z = z + 1.0
    del z, y


def test_a_leaf_used_100_000_times():
    x = leaf(1.0)
    y = x * 0.0
    for _ in range(100_000):
        y = y + x
    y.backward(torch.ones(1))
    assert x.grad.tolist() == [100_000.0]


def test_nothing_is_kept_without_the_cyclic_collector():
    x = leaf(1.0, 2.0)
    gc.collect()
    gc.disable()
    try:
        y = x.exp()
        z = (y * x).sum()
        nodes = [weakref.ref(t.grad_fn) for t in (y, z)]
        z.backward()
        del y, z
        assert [ref() for ref in nodes] == [None, None]
    finally:
        gc.enable()


def test_intermediate_gradients_die_early():
    # rows: BWD-25
    x = leaf(1.0, 2.0)
    alive = []
    y = x.exp()
    z = y.exp()
    refs = []
    z.register_hook(lambda g: refs.append(weakref.ref(g)))
    y.register_hook(lambda g: alive.append([r() is not None for r in refs]))
    z.sum().backward()
    assert alive == [[False]]


def test_grad_leaves_grad_alone_and_checks_use():
    # rows: BWD-10 BWD-13 BWD-14 BWD-15
    x, y = leaf(2.0), leaf(3.0)
    (gx,) = torch.autograd.grad((x * x).sum(), x)
    assert gx.tolist() == [4.0] and x.grad is None
    with pytest.raises(
        RuntimeError, match="The differentiated Tensor at index 0 appears to not have been used"
    ):
        torch.autograd.grad((x * x).sum(), y)
    assert torch.autograd.grad((x * x).sum(), y, allow_unused=True) == (None,)
    (zeros,) = torch.autograd.grad((x * x).sum(), y, materialize_grads=True)
    assert zeros.tolist() == [0.0]
    with pytest.raises(
        RuntimeError, match="One of the differentiated Tensors does not require grad"
    ):
        torch.autograd.grad((x * x).sum(), torch.ones(1))
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        torch.autograd.grad((x * x).sum(), y, materialize_grads=True, allow_unused=False)


def test_higher_derivatives():
    # rows: BWD-17 BWD-18
    x = torch.tensor(2.0, requires_grad=True, dtype=torch.float64)
    value = x**4
    for expected in (32.0, 48.0, 48.0, 24.0):
        (value,) = torch.autograd.grad(value, x, create_graph=True)
        assert value.item() == pytest.approx(expected)
    with torch.no_grad():
        (first,) = torch.autograd.grad(_square(x), x, create_graph=True)
    assert first.requires_grad


def _square(x):
    with torch.enable_grad():
        return x * x


def test_messages_for_wrong_gradients():
    # rows: TENSOR-11 TENSOR-12 TENSOR-13 BWD-02 BWD-19 BWD-20
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for scalar outputs"
    ):
        (x * 2).backward()
    with pytest.raises(
        RuntimeError,
        match=r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[4\]\)",
    ):
        (x * 2).backward(torch.ones(4))
    with pytest.raises(
        RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ):
        torch.rand(()).backward()
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.backward([x * 2, x * 3], [torch.ones(3)])
    z = torch.tensor(1j, requires_grad=True, dtype=torch.complex128)
    with pytest.raises(
        RuntimeError, match=r"only for real scalar outputs but got torch\.complex128"
    ):
        (z * z).backward()
    with pytest.raises(RuntimeError, match="both grad_output and output are required to have"):
        (z * z).backward(torch.tensor(1.0))


def test_errors_in_backward_reach_the_caller_and_the_engine_goes_on():
    # rows: BWD-24
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_threads_accumulate_without_loss():
    # rows: MT-01 MT-05
    x = leaf(1.0, 1.0)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [400.0, 400.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_sum_of_raw_gradients_without_room(dtype):
    """What passes by ops, as in forward mode, add in another way."""
    w = torch.ones(3, dtype=dtype, requires_grad=True)
    w.grad = torch.zeros(1, dtype=dtype).expand(3)
    for add in (
        lambda: accumulation.add_into(w.grad, torch.ones(3, dtype=dtype)._array),
        (w * torch.ones(3, dtype=dtype)).sum().backward,
    ):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            add()
        assert w.grad.tolist() == [0.0, 0.0, 0.0]


def test_no_sum_in_a_gradient_without_room():
    """A ``.grad`` that the program set, with several elements in one place, is not added into."""
    for grad in (torch.zeros(1).expand(3), torch.zeros(3)[:1].expand(3)):
        w = torch.ones(3, requires_grad=True)
        w.grad = grad
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            (w * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        assert w.grad.tolist() == [0.0, 0.0, 0.0]
    w = torch.ones(1, 3, requires_grad=True)
    w.grad = torch.zeros(3).expand(1, 3)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0, 2.0]]
