"""vmap and gradlib.func against PyTorch: the same programs, values, gradients and error texts."""

# rows: FN-15 FN-16

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

X = np.linspace(-1.0, 2.0, 24).reshape(2, 3, 4)
Y = np.linspace(0.5, 1.5, 12).reshape(3, 4)


def values(result):
    """Nested results with arrays in place of tensors."""
    if isinstance(result, dict):
        return {k: values(v) for k, v in result.items()}
    if isinstance(result, (tuple, list)):
        return type(result)(values(v) for v in result)
    return result.detach().numpy()


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            assert_same(p, q)
    else:
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def f(t, x):
    return (x.sin() * x).sum() + x[0] ** 2


PROGRAMS = {
    "plain": lambda t, x, y: t.vmap(lambda a: a.sin().sum(0))(x),
    "in_dim": lambda t, x, y: t.vmap(lambda a, b: a @ b, (-1, None))(x, y),
    "two dims": lambda t, x, y: t.vmap(lambda a, b: a * b, (1, 0), 1)(x, y),
    "out_dims": lambda t, x, y: t.vmap(lambda a: (a, a.sum()), out_dims=(-1, 0))(x),
    "dict": lambda t, x, y: t.vmap(
        lambda d: {"s": d["a"] + d["b"][0], "l": [d["a"]]}, ({"a": 0, "b": None},)
    )({"a": x, "b": [y]}),
    "list": lambda t, x, y: t.vmap(lambda d: d[0] + d[1], ([0, None],))([x, y]),
    "constant": lambda t, x, y: t.vmap(lambda a: y + 1)(x),
    "none": lambda t, x, y: t.vmap(lambda a: (a, y), out_dims=(0, None))(x),
    "nested": lambda t, x, y: t.vmap(t.vmap(lambda a, b: a.dot(b)), (0, None))(x, y),
    "nested dims": lambda t, x, y: t.vmap(t.vmap(lambda a: a.cumsum(0), 1, 1), 2, 2)(x),
    "chunks": lambda t, x, y: t.vmap(lambda a: a * 2, 2, 1, chunk_size=3)(x),
    "no entries": lambda t, x, y: t.vmap(lambda a: a.sum(0), out_dims=1)(x[:0]),
    "keyword": lambda t, x, y: t.vmap(lambda a, k: a + k)(x, k=y),
    "number": lambda t, x, y: t.vmap(lambda a, k: a * k, (0, None))(x, 3.0),
    "in place": lambda t, x, y: t.vmap(lambda a: a.clone().mul_(y).add_(a))(x),
    "write": lambda t, x, y: t.vmap(lambda a: write(t, a))(x),
    "where": lambda t, x, y: t.vmap(lambda a: t.where(a > 0, a, y))(x),
    "grad": lambda t, x, y: t.func.grad(lambda a: f(t, a).sum())(x),
    "grad argnums": lambda t, x, y: t.func.grad(
        lambda a, b: (a * b).sum(), argnums=(1, 0)
    )(x, y),
    "grad aux": lambda t, x, y: t.func.grad(
        lambda a: ((a * a).sum(), {"k": a + 1}), has_aux=True
    )(y),
    "grad and value": lambda t, x, y: t.func.grad_and_value(lambda a: (a**3).sum())(x),
    "grad of dict": lambda t, x, y: t.func.grad(lambda d: (d["p"] * 2).sum())({"p": x, "q": y}),
    "grad of grad": lambda t, x, y: t.func.grad(
        lambda s: t.func.grad(lambda r: r**3 * s)(s).sin()
    )(x[0, 0, 0]),
    "grad of unrelated": lambda t, x, y: t.func.grad(lambda a: y.sum())(x),
    "grads of samples": lambda t, x, y: t.vmap(
        t.func.grad(lambda w, a: ((a * w).sum() ** 2)), (None, 0)
    )(y, x),
    "grad of vmap": lambda t, x, y: t.func.grad(
        lambda a: t.vmap(lambda r: r.sin().prod())(a).sum()
    )(y),
    "vmap of hessian": lambda t, x, y: t.vmap(t.func.hessian(lambda a: (a**3).prod()))(y),
    "vjp": lambda t, x, y: t.func.vjp(lambda a, b: (a * b, a.sum()), x, y)[1]((x, x.sum())),
    "vmap of vjp": lambda t, x, y: t.vmap(t.func.vjp(lambda a: a.sin(), y)[1])(x),
    "jvp": lambda t, x, y: t.func.jvp(lambda a, b: {"o": a * b}, (x, y), (x, y + 1)),
    "jvp of jvp": lambda t, x, y: t.func.jvp(
        lambda a: t.func.jvp(lambda b: b**3 * a, (a,), (y,))[1], (y,), (y * 2,)
    ),
    "jvp of grad": lambda t, x, y: t.func.jvp(
        t.func.grad(lambda a: (a**3).sum()), (y,), (y + 1,)
    ),
    "grad of jvp": lambda t, x, y: t.func.grad(
        lambda a: t.func.jvp(lambda b: b.sin() * b, (a,), (y,))[1].sum()
    )(y),
    "vmap of jvp": lambda t, x, y: t.vmap(
        lambda v: t.func.jvp(lambda b: b.exp(), (y,), (v,))[1]
    )(x),
    "jvp of vmap": lambda t, x, y: t.func.jvp(t.vmap(lambda a: a.sin().sum()), (x,), (x,)),
    "jacrev": lambda t, x, y: t.func.jacrev(lambda a, b: (a * b, a.sum(0)), (0, 1))(x, y),
    "jacfwd": lambda t, x, y: t.func.jacfwd(lambda a, b: (a * b, a.sum(0)), (0, 1))(x, y),
    "jacfwd aux": lambda t, x, y: t.func.jacfwd(lambda a: (a * 2, a + 1), has_aux=True)(y),
    "jacrev dict": lambda t, x, y: t.func.jacrev(lambda d: {"o": d["p"].sin()})({"p": y}),
    "hessian": lambda t, x, y: t.func.hessian(lambda a: (a.sin() * a).prod())(y),
    "jacfwd twice": lambda t, x, y: t.func.jacfwd(t.func.jacfwd(lambda a: (a**3).sum()))(y),
    "jacrev twice": lambda t, x, y: t.func.jacrev(t.func.jacrev(lambda a: (a**3).sum()))(y),
    "hessian argnums": lambda t, x, y: t.func.hessian(
        lambda a, b: (a * b * b).sum(), argnums=(0, 1)
    )(y, y + 1),
    "linearize": lambda t, x, y: t.func.linearize(lambda a: a.sin(), y)[1](y),
    "softmax": lambda t, x, y: t.vmap(lambda a: t.softmax(a, 0))(x),
    "linear": lambda t, x, y: t.vmap(t.nn.functional.linear, (0, None))(x, y),
    "layer_norm": lambda t, x, y: t.vmap(lambda a: t.nn.functional.layer_norm(a, (4,)))(x),
    "no_grad outside": lambda t, x, y: outside_no_grad(t, y),
    "no_grad inside": lambda t, x, y: t.func.grad(lambda a: (inside_no_grad(t, a) * a).sum())(y),
}  # fmt: skip


def write(t, a):
    out = t.zeros_like(a)
    out[0] = a[1]
    return out


def outside_no_grad(t, y):
    with t.no_grad():
        return t.func.grad(lambda a: (a * a).sum())(y)


def inside_no_grad(t, a):
    with t.no_grad():
        return a * a


@pytest.mark.filterwarnings("ignore:Attempted to insert")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    program = PROGRAMS[name]
    got = [values(program(t, t.tensor(X), t.tensor(Y))) for t in (gradlib, torch)]
    assert_same(*got)


@pytest.mark.filterwarnings("ignore:Attempted to insert")
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_the_arguments(name):
    """The results connect to arguments that require grad as in PyTorch."""
    found = []
    for t in (gradlib, torch):
        x, y = (t.tensor(v).requires_grad_() for v in (X, Y))
        outs: list = []
        collect(PROGRAMS[name](t, x, y), outs)
        parts = [(o.sin() * (i + 1)).sum() for i, o in enumerate(outs) if o.requires_grad]
        if not parts:
            found.append(None)
            continue
        total = sum(parts)
        grads = t.autograd.grad(total, (x, y), allow_unused=True)
        zero = [np.zeros_like(X), np.zeros_like(Y)]
        found.append([z if g is None else g.numpy() for g, z in zip(grads, zero, strict=True)])
    if found[0] is None or found[1] is None:
        # one of the two may give zeros where the other gives no graph
        assert all(v is None or all(not g.any() for g in v) for v in found)
        return
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def collect(result, outs):
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        for r in result:
            collect(r, outs)
    else:
        outs.append(result)


ERRORS = {
    "item": lambda t, x: t.vmap(lambda a: a.sum().item())(x),
    "branch": lambda t, x: t.vmap(lambda a: a if a.sum() > 0 else -a)(x),
    "float": lambda t, x: t.vmap(lambda a: float(a.sum()))(x),
    "int": lambda t, x: t.vmap(lambda a: int(a.sum()))(x),
    "tolist": lambda t, x: t.vmap(lambda a: a.tolist())(x),
    "numpy": lambda t, x: t.vmap(lambda a: a.detach().numpy())(x),
    "nonzero": lambda t, x: t.vmap(lambda a: a.nonzero())(x),
    "mask": lambda t, x: t.vmap(lambda a: a[a > 0])(x),
    "rand": lambda t, x: t.vmap(lambda a: a + t.rand(3))(x),
    "dropout": lambda t, x: t.vmap(lambda a: t.nn.functional.dropout(a))(x),
    "randomness": lambda t, x: t.vmap(lambda a: a, randomness="x")(x),
    "write": lambda t, x: shared_write(t, x),
    "chunk": lambda t, x: t.vmap(lambda a: a, chunk_size=0)(x),
    "no tensor": lambda t, x: t.vmap(lambda a: 1.0)(x),
    "out structure": lambda t, x: t.vmap(lambda a: (a, a), out_dims=(0,))(x),
    "out structure 2": lambda t, x: t.vmap(lambda a: a, out_dims=(0, 0))(x),
    "out None": lambda t, x: t.vmap(lambda a: a, out_dims=None)(x),
    "out range": lambda t, x: t.vmap(lambda a: a, out_dims=4)(x),
    "out type": lambda t, x: t.vmap(lambda a: a, out_dims="a")(x),
    "in range": lambda t, x: t.vmap(lambda a: a, in_dims=-4)(x),
    "in type": lambda t, x: t.vmap(lambda a: a, in_dims="a")(x),
    "in leaf": lambda t, x: t.vmap(lambda a, b: a, in_dims=(0, "b"))(x, x),
    "in structure": lambda t, x: t.vmap(lambda a: a, in_dims=([0],))(x),
    "in number": lambda t, x: t.vmap(lambda a, b: a, in_dims=(0, 0))(x, 1),
    "nothing mapped": lambda t, x: t.vmap(lambda a: a, in_dims=(None,))(x),
    "no inputs": lambda t, x: t.vmap(lambda: 1.0)(),
    "sizes": lambda t, x: t.vmap(lambda a, b: a)(x, t.zeros(3)),
    "scalar": lambda t, x: t.vmap(lambda a: a)(t.tensor(1.0)),
    "grad shape": lambda t, x: t.func.grad(lambda a: a)(x),
    "grad type": lambda t, x: t.func.grad(lambda a: 1.0)(x),
    "grad aux": lambda t, x: t.func.grad(lambda a: a.sum(), has_aux=True)(x),
    "grad aux type": lambda t, x: t.func.grad(lambda a: (a.sum(), 1), has_aux=True)(x),
    "grad number": lambda t, x: t.func.grad(lambda a: a)(1.0),
    "argnums range": lambda t, x: t.func.grad(lambda a: a.sum(), argnums=2)(x),
    "argnums type": lambda t, x: t.func.grad(lambda a: a.sum(), argnums="a")(x),
    "argnums empty": lambda t, x: t.func.grad(lambda a: a.sum(), argnums=())(x),
    "argnums twice": lambda t, x: t.func.grad(lambda a, b: a.sum(), argnums=(0, 0))(x, x),
    "vjp type": lambda t, x: t.func.vjp(lambda a: 1.0, x),
    "vjp structure": lambda t, x: t.func.vjp(lambda a: (a, {"k": [a]}), x)[1](x),
    "vjp shape": lambda t, x: t.func.vjp(lambda a: a * 2, x)[1](x[0]),
    "jvp tuple": lambda t, x: t.func.jvp(lambda a: a * 2, x, x),
    "jvp structure": lambda t, x: t.func.jvp(lambda a: a * 2, (x,), (x, x)),
    "jvp shape": lambda t, x: t.func.jvp(lambda a: a * 2, (x,), (x[0],)),
    "jvp type": lambda t, x: t.func.jvp(lambda a: 1.0, (x,), (x,)),
    "jvp empty": lambda t, x: t.func.jvp(lambda: 1.0, (), ()),
    "jvp strict": lambda t, x: t.func.jvp(lambda a: t.ones(2), (x,), (x,), strict=True),
    "jacrev chunk": lambda t, x: t.func.jacrev(lambda a: a, chunk_size=0),
    "no models": lambda t, x: t.func.stack_module_state([]),
    "other models": lambda t, x: t.func.stack_module_state([t.nn.Linear(1, 1), t.nn.ReLU()]),
    "modes": lambda t, x: t.func.stack_module_state(
        [t.nn.Linear(1, 1).eval(), t.nn.Linear(1, 1)]
    ),
    "call dict": lambda t, x: t.func.functional_call(t.nn.ReLU(), 1, x),
    "call dicts": lambda t, x: t.func.functional_call(t.nn.ReLU(), ({}, 1), x),
}  # fmt: skip


def shared_write(t, x):
    shared = t.zeros(3, 4)
    t.vmap(lambda a: shared.mul_(a))(x)


@pytest.mark.filterwarnings("ignore:Attempted to insert")
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    found = []
    for t in (gradlib, torch):
        with pytest.raises((ValueError, RuntimeError, IndexError)) as caught:
            ERRORS[name](t, t.tensor(X))
        kind = caught.type
        text = re.sub(r"<class '.*Tensor'>", "Tensor", str(caught.value))
        found.append((kind, text))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["same", "different"])
def test_randomness(mode):
    for t in (gradlib, torch):
        x = t.zeros(4, 3)
        out = t.vmap(lambda a, t=t: a + t.rand(3), randomness=mode)(x)
        assert bool((out[0] == out[1]).all()) == (mode == "same")


def test_ensemble_of_modules():
    found = []
    for t in (gradlib, torch):
        models = [t.nn.Linear(3, 2) for _ in range(4)]
        with t.no_grad():
            for i, m in enumerate(models):
                m.weight.copy_(t.arange(6.0).reshape(2, 3) * (i + 1))
                m.bias.fill_(float(i))
        parameters, buffers = t.func.stack_module_state(models)

        def run(p, b, x, t=t, model=models[0]):
            return t.func.functional_call(model, (p, b), (x,))

        out = t.vmap(run, (0, 0, None))(parameters, buffers, t.ones(5, 3))
        out.sum().backward()
        assert buffers == {}
        found.append((values(out), parameters["weight"].grad.numpy()))
    assert_same(*found)
