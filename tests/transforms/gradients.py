"""Checks of derivatives: backward, backward of backward, forward mode, and Jacobians of both, against differences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

import gradlib as gl
from gradlib import func

from .cases import Case
from .compare import Function, Inapplicable, array, inner, same, waves

STEP = 1e-5


def moved(
    tensors: Sequence[gl.Tensor], directions: Sequence[gl.Tensor | None], step: float
) -> list:
    return [t if u is None else t + u * step for t, u in zip(tensors, directions, strict=True)]


def agree(got: float, wanted: float, what: str) -> None:
    close = abs(got - wanted) <= 2e-5 * (1 + abs(wanted)) or (np.isnan(got) and np.isnan(wanted))
    assert close, f"{what}: {got:.8g}, by differences {wanted:.8g}"


def difference(f: Callable, tensors: Sequence, directions: Sequence, weights: Sequence) -> float:
    """d/ds Re <weights, f(tensors + s directions)>."""
    with gl.no_grad():
        up, down = f(*moved(tensors, directions, STEP)), f(*moved(tensors, directions, -STEP))
    parts = [inner(w, (a - b) / (2 * STEP)) for w, a, b in zip(weights, up, down, strict=True)]
    return sum(parts)


def alone(k: int, tensors: Sequence[gl.Tensor], seed: int) -> list[gl.Tensor | None]:
    return [waves(t, seed + j) if j == k else None for j, t in enumerate(tensors)]


def backward(case: Case) -> None:
    """Gradients of all arguments."""
    f = Function(case, case.draw())
    seeds = f.cotangents()
    found = f.gradients(f.leaves(), seeds)
    for k, (x, g) in enumerate(zip(f.inputs, found, strict=True)):
        assert g is None or (g.shape == x.shape and g.dtype is x.dtype), f"gradient {k} like {g!r}"
        u = alone(k, f.inputs, 3)
        got = 0.0 if g is None else inner(g, u[k])  # type: ignore[arg-type]
        agree(got, difference(f, f.inputs, u, seeds), f"gradient of argument {k}")


def twice(case: Case) -> None:
    """Second derivatives: of the gradients by the arguments and by the incoming gradients."""
    f = Function(case, case.draw())
    n = len(f.inputs)

    def first(*both: gl.Tensor) -> list[gl.Tensor]:
        with gl.enable_grad():
            xs = [t if t.requires_grad else t.detach().requires_grad_() for t in both[:n]]
            found = f.gradients(xs, both[n:], create_graph=True)
            return [gl.zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]

    both = [t.clone() for t in (*f.inputs, *f.cotangents())]
    leaves = [t.requires_grad_() for t in both]
    firsts = first(*leaves)
    weights = [waves(g, 31 + k) for k, g in enumerate(firsts)]
    kept = [k for k, g in enumerate(firsts) if g.requires_grad]
    found: Sequence = [None] * len(leaves)
    if kept:
        found = gl.autograd.grad(
            [firsts[k] for k in kept], leaves, [weights[k] for k in kept], allow_unused=True
        )
    both = [t.detach() for t in both]
    for k, g in enumerate(found):
        u = alone(k, both, 17)
        got = 0.0 if g is None else inner(g, u[k])  # type: ignore[arg-type]
        what = f"second gradient by {'argument' if k < n else 'incoming gradient'} {k % n if k < n else k - n}"
        agree(got, difference(first, both, u, weights), what)


def forward(case: Case) -> None:
    """Tangents: of all arguments together, and of each alone."""
    f = Function(case, case.draw())
    choices = [[waves(t, 41 + k) for k, t in enumerate(f.inputs)]]
    if len(f.inputs) > 1:
        choices += [
            [waves(t, 43) if j == k else gl.zeros_like(t) for j, t in enumerate(f.inputs)]
            for k in range(len(f.inputs))
        ]
    for us in choices:
        copies = [u.clone() for u in us]
        out, tangents = func.jvp(f, tuple(f.inputs), tuple(us))
        same(out, f.example, "result of jvp")
        same(us, copies, "tangent that was given")
        for o, t in zip(out, tangents, strict=True):
            assert o.shape == t.shape and o.dtype is t.dtype, f"tangent like {t!r}"
        with gl.no_grad():
            up, down = f(*moved(f.inputs, us, STEP)), f(*moved(f.inputs, us, -STEP))
        for k, (t, a, b) in enumerate(zip(tangents, up, down, strict=True)):
            wanted = (array(a) - array(b)) / (2 * STEP)
            size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
            close = np.isclose(array(t), wanted, rtol=2e-5, atol=2e-5 * size, equal_nan=True)
            if not close.all():
                at = tuple(int(i) for i in np.argwhere(~close)[0])
                raise AssertionError(
                    f"tangent {k}: {array(t)[at]}, by differences {wanted[at]} at {at}"
                )


def _small(f: Function, limit: int = 26) -> None:
    if any(t.is_complex() for t in (*f.inputs, *f.example)):
        raise Inapplicable("complex")
    sizes = [t.numel() for t in f.inputs], [o.numel() for o in f.example]
    if max(map(max, sizes)) > limit or not min(map(min, sizes)):
        raise Inapplicable("empty or large")


def _drawing(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """`check`, which has nothing to say where vmap refuses to draw random numbers."""

    @functools.wraps(check)
    def run(case: Case) -> None:
        try:
            check(case)
        except RuntimeError as exc:
            if "called random operation" not in str(exc):
                raise
            raise Inapplicable("random") from None

    return run


@_drawing
def jacobians(case: Case) -> None:
    """jacfwd = jacrev, argument by argument."""
    f = Function(case, case.draw())
    _small(f)
    args = tuple(range(len(f.inputs)))
    fwd, rev = func.jacfwd(f, args)(*f.inputs), func.jacrev(f, args)(*f.inputs)
    for k, (a, b) in enumerate(zip(fwd, rev, strict=True)):
        same(a, b, f"jacfwd and jacrev of result {k}")
    chunked = func.jacrev(f, args, chunk_size=2)(*f.inputs)
    for k, (a, b) in enumerate(zip(chunked, rev, strict=True)):
        same(a, b, f"jacrev(chunk_size=2) and jacrev of result {k}")


@_drawing
def hessians(case: Case) -> None:
    """The second derivatives by the first argument in four ways."""
    f = Function(case, case.draw())
    _small(f, 14)
    seeds = f.cotangents()

    def total(x: gl.Tensor) -> gl.Tensor:
        return sum((o * s).sum() for o, s in zip(f(x, *f.inputs[1:]), seeds, strict=True))  # type: ignore[return-value]

    x = f.inputs[0]
    wanted = func.jacrev(func.jacrev(total))(x)
    same([func.hessian(total)(x)], [wanted], "hessian and jacrev of jacrev")
    same([func.jacfwd(func.jacfwd(total))(x)], [wanted], "jacfwd of jacfwd and jacrev of jacrev")
    same([func.jacrev(func.jacfwd(total))(x)], [wanted], "jacrev of jacfwd and jacrev of jacrev")
    by_loop = gl.autograd.functional.hessian(total, x)
    same([by_loop], [wanted], "functional.hessian and jacrev of jacrev")


@_drawing
def thirds(case: Case) -> None:
    """The tangents of second derivatives, taken in two ways, against differences."""
    f = Function(case, case.draw())
    _small(f, 9)
    seeds = f.cotangents()

    def total(x: gl.Tensor) -> gl.Tensor:
        return sum((o * s).sum() for o, s in zip(f(x, *f.inputs[1:]), seeds, strict=True))  # type: ignore[return-value]

    x = f.inputs[0]
    u = waves(x, 71)
    rev = func.jacrev(func.jacrev(total))
    wanted = (rev(x + u * STEP) - rev(x - u * STEP)) / (2 * STEP)
    for what, second in (("hessian", func.hessian(total)), ("jacrev of jacrev", rev)):
        (got,) = func.jvp(second, (x,), (u,))[1:]
        same([got], [wanted], f"tangent of {what}", rtol=2e-4, atol=2e-5)


CHECKS = {
    "grad": backward,
    "double": twice,
    "jvp": forward,
    "jacobian": jacobians,
    "hessian": hessians,
    "third": thirds,
}
