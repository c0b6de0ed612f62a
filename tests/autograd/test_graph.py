"""autograd.graph: nodes, edges, hooks on saved tensors, multi-grad hooks, mutation of saved tensors."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import graph
from gradlib.tape.node import AccumulateGrad


@pytest.fixture
def x():
    return gl.tensor([1.0, 2.0, 3.0], requires_grad=True)


def same(value):
    return value


# -- nodes and edges ---------------------------------------------------------------------------------------------------


def test_nodes(x):  # rows: GRAPH-01 GRAPH-02 GRAPH-03 GRAPH-04 GRAPH-05 GRAPH-06 GRAPH-07
    y = x * 2
    assert isinstance(y.grad_fn, graph.Node)
    assert x.exp().grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.name() == "MulBackward0"
    assert y.sum().grad_fn.name() == "SumBackward0"
    assert y.grad_fn.metadata == {}
    y.grad_fn.metadata["key"] = 1
    assert y.grad_fn.metadata == {"key": 1}
    (leaf, zero), nothing = y.grad_fn.next_functions
    assert (leaf.name(), zero) == ("torch::autograd::AccumulateGrad", 0)
    assert nothing == (None, 0)
    assert isinstance(leaf, graph.Node)
    assert leaf.variable is x
    listed = dir(x.exp().grad_fn)
    for name in ("_raw_saved_result", "_register_hook_dict", "_saved_result", "metadata", "name", "next_functions",
                 "register_hook", "register_prehook", "requires_grad", "__call__"):  # fmt: skip
        assert name in listed
    assert y.grad_fn.requires_grad is True
    np.testing.assert_allclose(x.exp().grad_fn(gl.ones(3)).detach(), np.exp([1, 2, 3]), rtol=1e-6)


def test_gradient_edges(x):  # rows: GRAPH-33 GRAPH-34 BWD-21
    y = x * 2
    loss = (y * y).sum()
    edge = graph.get_gradient_edge(y)
    assert isinstance(edge, graph.GradientEdge)
    assert edge == graph.GradientEdge(y.grad_fn, 0)
    assert edge._fields[:2] == ("node", "output_nr")
    (g,) = gl.autograd.grad(loss, edge, retain_graph=True)
    assert g.tolist() == gl.autograd.grad(loss, y, retain_graph=True)[0].tolist()
    gl.autograd.backward(graph.get_gradient_edge(loss), gl.ones(()), retain_graph=True)
    assert x.grad.tolist() == [8.0, 16.0, 24.0]
    leaf = graph.get_gradient_edge(x)
    assert leaf.node.variable is x
    assert graph.get_gradient_edge(x.unbind()[2]).output_nr == 2
    assert gl.autograd.grad(loss, graph.get_gradient_edge(x))[0].tolist() == [8.0, 16.0, 24.0]
    with pytest.raises(
        RuntimeError,
        match="not possible to get the gradient edge for a Tensor that does not require",
    ):
        graph.get_gradient_edge(gl.ones(2))


def test_increment_version(x):  # rows: INPLACE-15 GRAPH-08
    a = x * 1
    y = a * a
    graph.increment_version(a)
    assert a._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    t = gl.ones(2)
    graph.increment_version([t, t])
    assert t._version == 2
    with pytest.raises(RuntimeError, match="increment_version expect"):
        graph.increment_version(3)
    with pytest.raises(RuntimeError, match="each element of the iterable to be a tensor"):
        graph.increment_version([3])


# -- hooks on saved tensors --------------------------------------------------------------------------------------------


def test_pack_and_unpack(x):  # rows: GRAPH-09 GRAPH-10 GRAPH-11 GRAPH-12 GRAPH-14
    log = []

    def pack(t):
        log.append(("pack", t.tolist()))
        return ("any object", t.detach().numpy())

    def unpack(packed):
        log.append(("unpack", None))
        return gl.from_numpy(packed[1])

    b = gl.full((3,), 2.0, requires_grad=True)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x * b
    assert log == [("pack", [1.0, 2.0, 3.0]), ("pack", [2.0, 2.0, 2.0])]
    log.clear()
    y.sum().backward(retain_graph=True)
    assert log == [("unpack", None)] * 2
    assert y.grad_fn._saved_self.tolist() == [1.0, 2.0, 3.0]
    y.sum().backward()
    assert len(log) == 5
    assert x.grad.tolist() == [4.0] * 3


def test_numbers_are_not_packed(x):
    packed = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, same):
        x * 2
    assert not packed


def test_wrong_hooks(x):  # rows: GRAPH-10 GRAPH-18
    with graph.saved_tensors_hooks(lambda t: 5, same):
        y = x * x
    with pytest.raises(
        TypeError, match="unpack_hook expected to be a Tensor but got result of type int"
    ):
        y.sum().backward()
    with pytest.raises(TypeError, match="must be callable"):
        graph.saved_tensors_hooks(1, 2).__enter__()
    with (
        pytest.raises(
            RuntimeError, match="A saved tensor pack hook is modifying its input in place"
        ),
        graph.saved_tensors_hooks(lambda t: t.mul_(2), same),
    ):
        (x * 1).pow(2)
    assert gl.autograd.grad((x * x).sum(), x)[0].tolist() == [2.0, 4.0, 6.0]


def test_packed_objects_die_with_the_graph(x):  # rows: GRAPH-13
    class Box:
        def __init__(self, tensor):
            self.tensor = tensor.detach()

    boxes = []

    def pack(t):
        box = Box(t)
        boxes.append(weakref.ref(box))
        return box

    gc.disable()
    try:
        with graph.saved_tensors_hooks(pack, lambda box: box.tensor):
            y, z = x.pow(2), x.exp()
        y.sum().backward()
        assert boxes[0]() is None
        assert boxes[1]() is not None
        del z
        assert boxes[1]() is None
    finally:
        gc.enable()


def test_metadata_of_what_is_unpacked(x):  # rows: GRAPH-15 GRAPH-19
    z = x * 3
    with graph.saved_tensors_hooks(same, same):
        y, e = z * z, z.exp()
    unpacked = y.grad_fn._saved_self
    assert unpacked is not z
    assert unpacked.data_ptr() == z.data_ptr()
    assert unpacked.requires_grad
    assert unpacked.grad_fn is z.grad_fn
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    (g,) = gl.autograd.grad((y + e).sum(), x, create_graph=True)
    (h,) = gl.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(h, 18 + 9 * np.exp([3, 6, 9]), rtol=1e-5)


def test_nesting_and_threads(x):  # rows: GRAPH-16 GRAPH-17
    said = []

    def hooks(name):
        return graph.saved_tensors_hooks(lambda t: said.append(name) or t, same)

    with hooks("outer"):
        with hooks("inner"):
            x.exp()
        x.exp()
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    x.exp()
    assert said == ["inner", "outer"]


def test_save_on_cpu(x):  # rows: GRAPH-20 GRAPH-21 GRAPH-23
    assert issubclass(graph.save_on_cpu, graph.saved_tensors_hooks)
    for pin in (False, True):
        x.grad = None
        with graph.save_on_cpu(pin_memory=pin):
            y = x.pow(2)
        again = y.grad_fn._saved_self
        assert again.device == x.device and (again.data_ptr() == x.data_ptr()) is not x.is_cuda
        y.sum().backward()
        assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_disabled_hooks():  # rows: GRAPH-24
    message = "saved tensors default hooks are disabled"
    with graph.disable_saved_tensors_hooks(message):
        with (
            graph.disable_saved_tensors_hooks("another"),
            pytest.raises(RuntimeError, match=r"^another$"),
        ):
            graph.save_on_cpu().__enter__()
        with pytest.raises(RuntimeError, match=f"^{message}$"):
            graph.saved_tensors_hooks(same, same).__enter__()
    with graph.saved_tensors_hooks(same, same), pytest.raises(RuntimeError, match=f"^{message}$"):
        graph.disable_saved_tensors_hooks(message).__enter__()


def test_register_hooks_on_one_saved_tensor(x):  # rows: SAVED-06 SAVED-07 SAVED-08 SAVED-09
    calls = {"pack": 0, "unpack": 0}

    def count(name):
        def hook(value):
            calls[name] += 1
            return value

        return hook

    y = x.pow(2)
    raw = y.grad_fn._raw_saved_self
    assert isinstance(raw, gl.autograd.SavedTensor)
    raw.register_hooks(count("pack"), count("unpack"))
    assert calls == {"pack": 1, "unpack": 0}
    assert y.grad_fn._saved_self.tolist() == x.tolist()
    assert calls == {"pack": 1, "unpack": 1}
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        raw.register_hooks(same, same)
    y.sum().backward()
    assert calls == {"pack": 1, "unpack": 2}
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(same, same)


def test_saved_attributes(x):  # rows: SAVED-01 SAVED-02 SAVED-03 SAVED-04 SAVED-05
    y = x.pow(3)
    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_exponent == 3
    e = x.exp()
    result = e.grad_fn._saved_result
    assert result is not e
    assert result.data_ptr() == e.data_ptr()
    assert result.grad_fn is e.grad_fn
    b = gl.ones(3, requires_grad=True)
    node = (x * b).grad_fn
    assert node._saved_self is x
    assert node._saved_other is b
    assert (x * gl.ones(3)).grad_fn._saved_self is None
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn._saved_self  # noqa: B018


# -- multi-grad hooks --------------------------------------------------------------------------------------------------


@pytest.fixture
def four():
    a, b = gl.ones(2, requires_grad=True), gl.ones(2, requires_grad=True)
    return a, b, a * b, a * b


def test_multi_grad_hook_all(four):  # rows: GRAPH-25 GRAPH-26 GRAPH-28 HOOK-14
    a, b, c, d = four
    seen = []
    handle = graph.register_multi_grad_hook(
        four, lambda gs: seen.append([g is not None for g in gs])
    )
    c.sum().backward(retain_graph=True)
    assert seen == [[True, True, True, False]]
    c.sum().backward(inputs=(a,), retain_graph=True)
    assert seen[1:] == [[True, False, True, False]]
    (c + d).sum().backward(retain_graph=True)
    assert seen[2:] == [[True] * 4]
    gl.autograd.grad(c.sum(), b, retain_graph=True)
    assert seen[3:] == [[False, True, True, False]]
    handle.remove()
    c.sum().backward(retain_graph=True)
    assert len(seen) == 4


def test_multi_grad_hook_comes_last(four):  # rows: HOOK-14
    order = []
    graph.register_multi_grad_hook(four[:3], lambda gs: order.append("all"))
    four[0].register_hook(lambda g: order.append("a"))
    four[2].register_hook(lambda g: order.append("c"))
    four[2].sum().backward()
    assert order[0] == "c"
    assert order.index("all") == len(order) - 1 or order[-1] == "a"


def test_multi_grad_hook_any(four):  # rows: GRAPH-27
    seen = []
    handle = graph.register_multi_grad_hook(four[:3], seen.append, mode="any")
    four[2].sum().backward(retain_graph=True)
    assert len(seen) == 1
    assert seen[0].tolist() == [1.0, 1.0]
    four[2].sum().backward(retain_graph=True)
    assert len(seen) == 2
    handle.remove()
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got x"):
        graph.register_multi_grad_hook(four, same, mode="x")


def test_multi_grad_hook_keeps_no_graph_alive():  # rows: HOOK-20
    gc.disable()
    try:
        a = gl.ones(2, requires_grad=True)
        c = a * a
        graph.register_multi_grad_hook((a, c), same)
        node, leaf = weakref.ref(c.grad_fn), weakref.ref(a)
        del c
        assert node() is None
        del a
        assert leaf() is None
    finally:
        gc.enable()


# -- mutation of saved tensors -----------------------------------------------------------------------------------------


def test_allow_mutation(x):  # rows: GRAPH-29 GRAPH-30
    with graph.allow_mutation_on_saved_tensors() as ctx:
        assert type(ctx).__name__ == "_AllowMutationOnSavedContext"
        b = x.clone()
        out = (b**2).sum() + b.exp().sum()
        b[:2].mul_(0)
        e = b.exp()
        kept = e.detach().clone()
        gl.add(kept, 1, out=kept)
        e.mul_(5)
        b.sin_()
        assert len(ctx.cloned) > 0
        (out + e.sum()).backward()
    assert len(ctx.cloned) == 0
    a = np.array([1.0, 2.0, 3.0])
    want = 2 * a + np.exp(a) + np.array([0, 0, 5 * np.exp(3)])
    np.testing.assert_allclose(x.grad, want, rtol=1e-5)


def test_unchanged_tensors_are_not_cloned(x):
    with graph.allow_mutation_on_saved_tensors() as ctx:
        b = x.clone()
        y = b * b
        x.detach().clone().add_(1)
        y.sum().backward()
        assert len(ctx.cloned) == 0


def test_allow_mutation_errors(x):  # rows: GRAPH-31 GRAPH-32
    with graph.allow_mutation_on_saved_tensors():
        out = (x.clone() ** 2).sum()
        with pytest.raises(RuntimeError, match="contexts cannot be nested"):
            graph.allow_mutation_on_saved_tensors().__enter__()
    with pytest.raises(
        AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' contextin which"
    ):
        out.backward()


def test_raw_writes_are_noticed(x):
    with graph.allow_mutation_on_saved_tensors():
        b = x.clone()
        out = (b * b).sum()
        graph.increment_version(b)  # a write that the context could not see
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_accumulate_grad_is_shared_while_a_graph_holds_it(x):  # rows: GRAPH-05
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    assert isinstance(node, AccumulateGrad)
    assert graph.get_gradient_edge(x).node is node


# rows: GRAPH-29
def test_allow_mutation_sees_optimizers_and_running_statistics():
    """Writes that bypass the ops (optimizer steps, running statistics) clone what is saved of their memory, too."""
    w = gl.tensor([2.0, 3.0], requires_grad=True)
    running = gl.tensor([1.0, 1.0])
    x = gl.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    w.grad = gl.ones(2)
    with gl.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (w * w).sum() + (x * running).sum()
        gl.optim.SGD([w], lr=0.5).step()
        gl.nn.functional.batch_norm(x.detach(), running, gl.ones(2), training=True)
        loss.backward()
    assert w.tolist() == [1.5, 2.5]
    assert w.grad.tolist() == [5.0, 7.0]  # ones, and 2 * w from before the step
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert running.tolist() != [1.0, 1.0]


# rows: GRAPH-09
@pytest.mark.parametrize(
    "run",
    [
        lambda x: gl.softmax(x, 0)[0],
        lambda x: gl.nn.functional.dropout(x, 0.5),
        lambda x: gl.nn.functional.max_pool2d(x[None, None], 2),
        lambda x: gl.nn.functional.layer_norm(x, (4,)),
        lambda x: gl.where(x > 0, x, 0.0),
        lambda x: x[gl.tensor([0, 1, 1])],
        lambda x: gl.nn.functional.cross_entropy(x, gl.tensor([0, 1, 2, 3])),
    ],
)
def test_hooks_see_masks_indices_and_statistics(run):
    """Whatever an op keeps passes through the hooks, and what they return is what backward uses."""
    x = gl.randn(4, 4, requires_grad=True)
    gl.manual_seed(0)
    (expected,) = gl.autograd.grad(run(x).sum(), x)
    store: list = []

    def pack(t):
        store.append(t.clone())
        return len(store) - 1

    gl.manual_seed(0)
    with gl.autograd.graph.saved_tensors_hooks(pack, lambda k: store[k]):
        out = run(x).sum()
    assert store
    (grad,) = gl.autograd.grad(out, x, retain_graph=True)
    assert gl.equal(grad, expected)
    for t in store:
        t.zero_()
    (changed,) = gl.autograd.grad(out, x)
    assert not gl.equal(changed, expected)


def test_condition_changed_in_place_is_noticed():
    x = gl.randn(4, requires_grad=True)
    condition = gl.tensor([True, False, True, False])
    out = gl.where(condition, x, 0.0)
    condition.fill_(True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_indices_are_freed_with_the_graph():
    x = gl.randn(4, requires_grad=True)
    out = x[gl.tensor([0, 1, 1])].sum()
    out.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()
