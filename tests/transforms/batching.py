"""Checks of vmap, alone and with gradients and tangents inside and outside, against a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradlib as gl
from gradlib import func

from .cases import Case
from .compare import Function, Inapplicable, is_float, same, waves

SIZE = 3
SHARED_WRITE = "that has more elements than `self`"


def entries(case: Case) -> list[list[gl.Tensor]]:
    return [case.draw(k) for k in range(SIZE)]


def stacked(columns: Sequence[Sequence[gl.Tensor]]) -> list[gl.Tensor]:
    return [gl.stack(list(c)) for c in columns]


def subsets(tensors: Sequence) -> list[list[int]]:
    """All arguments, and each alone."""
    n = len(tensors)
    return [list(range(n))] + ([[k] for k in range(n)] if n > 1 else [])


def compare(f: Callable, each: list[list[gl.Tensor]], chosen: list[int], what: str) -> None:
    """vmap over the `chosen` arguments gives what a loop gives, or refuses to write into what entries share."""
    try:
        _compare(f, each, chosen, what)
    except RuntimeError as exc:
        if SHARED_WRITE not in str(exc):
            raise


def _compare(f: Callable, each: list[list[gl.Tensor]], chosen: list[int], what: str) -> None:
    """The same with the batch in several places, and in pieces."""
    first = each[0]
    rows = [[e[k] if k in chosen else first[k] for k in range(len(first))] for e in each]
    wanted = stacked(list(zip(*(f(*row) for row in rows), strict=True)))
    batched = [
        gl.stack([e[k] for e in each]) if k in chosen else first[k] for k in range(len(first))
    ]
    in_dims = tuple(0 if k in chosen else None for k in range(len(first)))
    options: Any = {"randomness": "same"}
    same(func.vmap(f, in_dims, **options)(*batched), wanted, f"{what} over {chosen}")
    for place in (1, -1):
        dims = tuple(place if k in chosen and first[k].dim() else d for k, d in enumerate(in_dims))
        put = [
            b.movedim(0, d) if d is not None and d else b
            for b, d in zip(batched, dims, strict=True)
        ]
        same(func.vmap(f, dims, **options)(*put), wanted, f"{what} over {chosen}, in_dims={dims}")
    out = func.vmap(f, in_dims, -1, **options)(*batched)
    same([o.movedim(-1, 0) for o in out], wanted, f"{what} over {chosen}, out_dims=-1")
    pieces = func.vmap(f, in_dims, chunk_size=2, **options)(*batched)
    same(pieces, wanted, f"{what} over {chosen}, chunk_size=2")


def plain(case: Case) -> None:
    """Every argument batched, and each alone."""
    each = entries(case)
    if not each[0]:
        raise Inapplicable("no tensor")
    if not case(*each[0]):
        raise Inapplicable("no tensor comes out")
    for chosen in subsets(each[0]):
        if case.inplace and 0 not in chosen:
            continue  # refused: the first argument has no room for the batch
        compare(case, each, chosen, "vmap")


def nested(case: Case) -> None:
    """vmap of vmap: over all arguments twice; over the first inside and the others outside."""
    each = entries(case)
    if not each[0] or not case(*each[0]):
        raise Inapplicable("no tensor")
    inner = func.vmap(case, randomness="same")
    twice = [
        [gl.stack([each[i][k], each[j][k]]) for k in range(len(each[0]))]
        for i, j in ((0, 1), (1, 2))
    ]
    compare(inner, twice, list(range(len(each[0]))), "vmap of vmap")
    if len(each[0]) > 1:
        dims = (0, *[None] * (len(each[0]) - 1))
        firsts = gl.stack([e[0] for e in each])
        rows = [[firsts, *e[1:]] for e in each]
        compare(
            func.vmap(case, dims, randomness="same"),
            rows,
            list(range(1, len(rows[0]))),
            "vmap outside",
        )


def _same_places(case: Case) -> tuple[Function, list[list[gl.Tensor]]]:
    """The case as a function of floating tensors, and several lists of them."""
    f = Function(case, case.draw(0))
    return f, [[t for t in case.draw(k) if is_float(t)] for k in range(SIZE)]


def gradient_inside(case: Case) -> None:
    """vmap(vjp) and vmap(jvp)."""
    f, each = _same_places(case)
    n, seeds = len(f.inputs), f.cotangents()
    each = [[*e, *(s * (k + 1) for s in seeds)] for k, e in enumerate(each)]

    def vjp(*both: gl.Tensor) -> tuple[gl.Tensor, ...]:
        return func.vjp(f, *both[:n])[1](tuple(both[n:]))

    for chosen in (list(range(len(each[0]))), list(range(n)), list(range(n, len(each[0])))):
        compare(vjp, each, chosen, "vmap of vjp")


def tangent_inside(case: Case) -> None:
    f, each = _same_places(case)
    n = len(f.inputs)
    each = [[*e, *(waves(t, k) for t in e)] for k, e in enumerate(each)]

    def jvp(*both: gl.Tensor) -> tuple[gl.Tensor, ...]:
        return tuple(func.jvp(f, both[:n], both[n:])[1])

    for chosen in (list(range(2 * n)), list(range(n)), list(range(n, 2 * n))):
        compare(jvp, each, chosen, "vmap of jvp")


def _mapped_and_looped(
    case: Case,
) -> Iterator[tuple[list[int], list[gl.Tensor], Callable, Callable]]:
    """For all arguments, and each alone: (those batched, arguments, the case under vmap, the same as a loop)."""
    f, each = _same_places(case)
    for chosen in subsets(f.inputs):
        if case.inplace and 0 not in chosen:
            continue
        dims = tuple(0 if k in chosen else None for k in range(len(f.inputs)))
        args = [
            gl.stack([e[k] for e in each]) if d == 0 else each[0][k] for k, d in enumerate(dims)
        ]
        mapped = func.vmap(f, dims, randomness="same")

        def loop(*new: gl.Tensor, dims=dims) -> tuple[gl.Tensor, ...]:
            rows = [
                f(*(t[k].clone() if d == 0 else t for t, d in zip(new, dims, strict=True)))
                for k in range(SIZE)
            ]
            return tuple(stacked(list(zip(*rows, strict=True))))

        try:
            mapped(*args)
        except RuntimeError as exc:
            if SHARED_WRITE not in str(exc):
                raise
            continue
        yield chosen, args, mapped, loop


def gradient_outside(case: Case) -> None:
    """The gradient and the tangent of vmap, with respect to what is batched and to what is shared."""
    for chosen, args, mapped, loop in _mapped_and_looped(case):
        seeds = [waves(o, 51) for o in loop(*args)]
        found = []
        for g in (mapped, loop):
            leaves = [t.clone().requires_grad_() for t in args]
            found.append(gl.autograd.grad(g(*leaves), leaves, seeds, allow_unused=True))
        same(found[0], found[1], f"gradient of vmap over {chosen}")
        us = tuple(waves(t, 61) for t in args)
        tangents = [func.jvp(g, tuple(args), us)[1] for g in (mapped, loop)]
        same(tangents[0], tangents[1], f"tangent of vmap over {chosen}")


def tangent_of_gradient_outside(case: Case) -> None:
    """The tangent of the gradient of vmap: what is saved outside of the batch has a tangent there."""
    for chosen, args, mapped, loop in _mapped_and_looped(case):
        seeds = tuple([waves(o, 51) for o in loop(*args)])
        us = tuple([waves(t, 61) for t in args])
        found = [
            func.jvp(lambda *new, g=g, s=seeds: func.vjp(g, *new)[1](s), tuple(args), us)[1]
            for g in (mapped, loop)
        ]
        same(found[0], found[1], f"tangent of the gradient of vmap over {chosen}")


CHECKS = {
    "vmap": plain,
    "vmap_vmap": nested,
    "vmap_grad": gradient_inside,
    "vmap_jvp": tangent_inside,
    "grad_vmap": gradient_outside,
    "jvp_grad_vmap": tangent_of_gradient_outside,
}
