"""Three ways to the same derivative: reverse mode, forward mode, finite differences; of first and of second order.

    python tests/autograd/derivatives.py --seed 7 --programs 1000     # random programs, then every declared op
    python tests/autograd/derivatives.py --show 7                     # the program of a seed

A function of tensors is made a function of one number: its outputs are weighted and summed to a real number L, and its
inputs move along a direction v. First order is dL along v; second order is the change of that along another direction
u, by reverse over reverse, forward over reverse and reverse over forward mode, and by differences of gradients.

A point counts only where differences tell the derivative, that is, where all of these hold: the central differences
with three steps agree, the slopes to the left and to the right do, nothing is infinite or nan, and no step changes the
shape of an output. The third step is no
simple fraction of the others: stairs whose steps are as wide as two steps' common part (`fmod` by a small number) look
like a slope to both. It is only taken where a derivative disagrees with the first two. The functions have no slopes so
steep that reverse mode adds large numbers that cancel (for that reason `normalize` has eps=1e-3, and the root of a
variance of what may be equal, too).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root), str(root / "tests/operators"), str(root / "tests/oracle")]


from fuzz_shrink import shrink
from samples import Maker, flat, replaced

import gradlib as gl
from gradlib.op.declare import REGISTRY, Op
from tests.autograd import compositions

STEP = 2e-4
THIRD = 0.2937  # of STEP
AGREE = 1e-6  # how closely, relative to the derivative or 1, two differences have to agree to count
CLOSE = 2e-6  # how closely a derivative has to agree with differences that count
KINK = 3e-2  # how far the slopes to the left and to the right may be apart

Function = Callable[..., Any]


class Unstable(Exception):
    """Finite differences do not tell the derivative at this point."""


def outputs(value: Any) -> list[gl.Tensor]:
    found = [value] if isinstance(value, gl.Tensor) else list(value)
    return [
        o for o in found
        if isinstance(o, gl.Tensor) and (o.is_floating_point() or o.is_complex()) and o.numel()
    ]  # fmt: skip


class Point:
    """A function at a point: its scalar L, with fixed weights, and two directions."""

    def __init__(self, fn: Function, inputs: tuple[gl.Tensor, ...], seed: int):
        rng = np.random.default_rng(seed)
        self.fn, self.inputs = fn, tuple(t.detach().clone() for t in inputs)
        self.v, self.u = (tuple(self._like(rng, t) for t in self.inputs) for _ in range(2))
        live = tuple(t.requires_grad_() for t in self.moved(self.v, 0.0))
        self.places = [k for k, o in enumerate(outputs(self._run(live))) if o.requires_grad]
        self.weights = [self._like(rng, o) for o in self._kept(live)]

    @staticmethod
    def _like(rng: np.random.Generator, t: gl.Tensor) -> gl.Tensor:
        a = rng.uniform(-1, 1, tuple(t.shape))
        if t.is_complex():
            a = a + 1j * rng.uniform(-1, 1, tuple(t.shape))
        return gl.tensor(a.tolist(), dtype=t.dtype).reshape(t.shape)

    def _run(self, tensors: tuple) -> Any:
        gl.manual_seed(0)
        return self.fn(*tensors)

    def _kept(self, tensors: tuple) -> list[gl.Tensor]:
        found = outputs(self._run(tensors))
        if self.places and self.places[-1] >= len(found):
            raise Unstable  # an output that is empty a step further: `y[y > 0.1]`
        return [found[k] for k in self.places]

    def moved(self, along: tuple, by: float) -> tuple[gl.Tensor, ...]:
        return tuple((t + by * d).detach() for t, d in zip(self.inputs, along, strict=True))

    def scalar(self, *tensors: gl.Tensor) -> gl.Tensor:
        """L, a real number."""
        total: Any = 0.0
        for o, w in zip(self._kept(tensors), self.weights, strict=True):
            if o.shape != w.shape:
                raise Unstable
            total = total + ((o * w.conj()).real if o.is_complex() else o * w).sum()
        return total

    # -- first order ----------------------------------------------------------------------------------------------

    def gradients(self, tensors: tuple, create_graph: bool = False) -> list[gl.Tensor]:
        loss = self.scalar(*tensors)
        return list(gl.autograd.grad(
            loss, tensors, create_graph=create_graph, allow_unused=True, materialize_grads=True
        ))  # fmt: skip

    def reverse(self) -> float:
        live = tuple(t.requires_grad_() for t in self.moved(self.v, 0.0))
        return float(inner(self.gradients(live), self.v).item())

    def forward(self) -> float:
        return float(gl.func.jvp(self.scalar, self.inputs, self.v)[1].item())

    def differences(self, step: float) -> float:
        with gl.no_grad():
            return difference(lambda h: float(self.scalar(*self.moved(self.v, h)).item()), step)

    # -- second order ---------------------------------------------------------------------------------------------

    def slope(self, tensors: tuple) -> gl.Tensor:
        """dL along v, recorded."""
        return inner(self.gradients(tensors, create_graph=True), self.v)

    def reverse_over_reverse(self) -> float:
        live = tuple(t.requires_grad_() for t in self.moved(self.v, 0.0))
        slope = self.slope(live)
        if not slope.requires_grad:
            return 0.0
        found = gl.autograd.grad(slope, live, allow_unused=True, materialize_grads=True)
        return float(inner(list(found), self.u).item())

    def forward_over_reverse(self) -> float:
        places = tuple(range(len(self.inputs)))
        gradient = gl.func.grad(self.scalar, argnums=places)
        along = gl.func.jvp(lambda *t: gradient(*t), self.inputs, self.u)[1]
        return float(inner(list(along), self.v).item())

    def reverse_over_forward(self) -> float:
        places = tuple(range(len(self.inputs)))
        slope = lambda *t: gl.func.jvp(self.scalar, t, self.v)[1]
        return float(inner(list(gl.func.grad(slope, argnums=places)(*self.inputs)), self.u).item())

    def differences_of_gradients(self, step: float) -> float:
        def slope(h: float) -> float:
            live = tuple(t.requires_grad_() for t in self.moved(self.u, h))
            return float(inner(self.gradients(live), self.v).item())

        return difference(slope, step)


def inner(a: list[gl.Tensor], b: tuple[gl.Tensor, ...]) -> gl.Tensor:
    """The real inner product: the change of L when what `a` is the gradient of moves along `b`."""
    total: Any = gl.zeros((), dtype=gl.float64)
    for x, y in zip(a, b, strict=True):
        total = total + ((x * y.conj()).real if x.is_complex() else x * y).sum()
    return total


def difference(f: Callable[[float], float], step: float) -> float:
    """The derivative of `f` at 0, by steps of `step` and half of it; Unstable where differences do not tell it."""
    here = f(0.0)
    values = {h: (f(h), f(-h)) for h in (step, step / 2)}
    if not np.isfinite([here, *(x for pair in values.values() for x in pair)]).all():
        raise Unstable
    wide, narrow = ((up - down) / (2 * h) for h, (up, down) in values.items())
    scale = max(1.0, abs(narrow), 1e-3 * abs(here))
    up, down = values[step / 2]
    bend = abs((up - here) - (here - down)) / (step / 2)
    if abs(wide - narrow) > AGREE * scale or bend > KINK * scale:
        raise Unstable
    return (4 * narrow - wide) / 3


def check(fn: Function, inputs: tuple, seed: int, second: bool = True) -> list[str]:
    """What the ways do not agree on; empty also where the point does not count."""
    point = Point(fn, inputs, seed)
    if not point.places:
        return []
    found = _compared(point.differences, first_order(point))
    return found or (
        _compared(point.differences_of_gradients, second_order(point)) if second else []
    )


def first_order(point: Point) -> dict[str, Callable[[], float]]:
    return {"reverse": point.reverse, "forward": point.forward}


def second_order(point: Point) -> dict[str, Callable[[], float]]:
    return {
        "reverse over reverse": point.reverse_over_reverse,
        "forward over reverse": point.forward_over_reverse,
        "reverse over forward": point.reverse_over_forward,
    }


def _compared(truth: Callable[[float], float], ways: dict[str, Callable[[], float]]) -> list[str]:
    try:
        expected = truth(STEP)
    except Unstable:
        return []
    found = []
    for name, way in ways.items():
        value = way()
        if not abs(value - expected) <= CLOSE * max(1.0, abs(expected)):
            found.append(f"{name}: {value!r}, differences {expected!r}")
    return found if found and _confirmed(truth, expected) else []


def _confirmed(truth: Callable[[float], float], expected: float) -> bool:
    """Whether the third step tells the same; its rounding errors are larger, in proportion."""
    try:
        again = truth(THIRD * STEP)
    except Unstable:
        return False
    return abs(again - expected) <= AGREE / THIRD * max(1.0, abs(expected))


# -- declared ops ------------------------------------------------------------------------------------------------------


def check_op(op: Op, seed: int) -> list[str]:
    """The samples that `op` declares, with values of this seed, real and where supported complex."""
    found = []
    for dtype in (gl.float64, gl.complex128) if op.complex else (gl.float64,):
        maker = Maker(dtype=dtype, domain=op.domain)
        maker.rng = np.random.default_rng(seed)
        for k, args in enumerate(_samples(op, maker)):
            tensors = flat(args)
            places = [i for i, t in enumerate(tensors) if t.requires_grad]
            if not places or not all(t.numel() for t in tensors):
                continue

            def fn(*values: gl.Tensor, args=args, tensors=tensors, places=places) -> Any:
                new = list(tensors)
                for i, v in zip(places, values, strict=True):
                    new[i] = v
                return op.call(*replaced(args, new))

            try:
                says = check(fn, tuple(tensors[i] for i in places), seed)
            except Exception as exc:
                says = [f"{type(exc).__name__}: {exc}"]
            found += [f"{op.name}, sample {k}, {dtype}, seed {seed}: {s}" for s in says]
    return found


def _samples(op: Op, maker: Maker) -> list[tuple]:
    from samples import _drawn

    return _drawn(op, maker)


DIFFERENTIABLE = sorted(name for name, op in REGISTRY.items() if op.differentiable)


# -- random programs ---------------------------------------------------------------------------------------------------


def check_program(text: str, seed: int) -> list[str]:
    fn, inputs = compositions.function_of(text)
    return check(fn, inputs, seed)


def examine(seed: int) -> str | None:
    """The smallest form of the program of `seed` and what its ways do not agree on; None where they agree."""
    text = compositions.program(seed)
    says = _says(text, seed)
    if not says:
        return None
    small = shrink(text, lambda t: _kinds(_says(t, seed)) == _kinds(says))
    return f"### seed {seed}\n{small}\n# " + "\n# ".join(_says(small, seed) or says)


def _says(text: str, seed: int) -> list[str]:
    try:
        return check_program(text, seed)
    except Exception as exc:
        if "modified by an inplace operation" in str(exc):
            return []  # the program overwrites what its gradient needs
        return [f"{type(exc).__name__}: {exc}"]


def _kinds(says: list[str]) -> set[str]:
    return {s.split(":")[0] if "differences" in s else s[:60] for s in says}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--show", type=int, metavar="SEED")
    given = parser.parse_args()
    if given.show is not None:
        print(compositions.program(given.show))
        return 0
    bad = 0
    for seed in range(given.seed, given.seed + given.programs):
        found = examine(seed)
        if found:
            bad += 1
            print(found, flush=True)
    for name in DIFFERENTIABLE:
        for text in check_op(REGISTRY[name], given.seed):
            bad += 1
            print(text, flush=True)
    print(
        f"seed {given.seed}: {given.programs} programs, {len(DIFFERENTIABLE)} ops, {bad} findings"
    )
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
