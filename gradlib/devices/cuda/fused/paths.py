"""Which way attentions and convolutions are computed: one table, and a switch for tests and measurements.

The first way of a kind that can compute a case, and is said to be the better one for it, is taken. "formula" is what
the op declares: products by cuBLAS and passes over memory. What a GPU shows to be quicker is changed here and nowhere
else (docs/first_hour_on_a_gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Convolution(NamedTuple):
    """A convolution, or the gradient of its input or weight."""

    fits: bool  # whether arrays have elements, one dtype that kernels take, and sizes that they can count
    alike: bool  # the first two of these
    pointwise: bool  # a kernel of one element, stride 1, no padding, one group
    depthwise: bool  # one channel in each of several groups
    tf32: bool  # float32 that may be rounded to TF32, which is multiplied on tensor cores
    half: bool  # a half type
    cudnn: bool  # whether cuDNN is there, may be used, and counts such sizes


class Attention(NamedTuple):
    """An attention, or its gradient."""

    fits: bool  # whether dtypes, widths and lengths are those of the kernels
    memory: bool  # whether a block of this device has as much shared memory as it takes


class Way(NamedTuple):
    """can: whether it gives the right numbers; better: whether it is to be taken, of a case that it can compute."""

    name: str
    can: Callable[[Any], bool]
    better: Callable[[Any], bool] = lambda case: True


FORMULA = Way("formula", lambda case: True)
TABLE: dict[str, tuple[Way, ...]] = {
    "convolution": (
        # one product of cuBLAS, of matrices as they lie: cuDNN would make the same, behind a longer call
        Way("product", lambda case: case.alike and case.pointwise),
        # nothing for tensor cores: reads and writes each number once, which is all that there is to do
        Way("depthwise", lambda case: case.fits and case.depthwise),
        # the best use of tensor cores that there is; float32 that is to be exact, and float64, are left to the kernel
        Way("cudnn", lambda case: case.cudnn, lambda case: case.half or case.tf32),
        Way("kernel", lambda case: case.fits, lambda case: not case.tf32),
        FORMULA,
    ),
    "attention": (
        Way("kernel", lambda case: case.fits and case.memory),
        FORMULA,
    ),
}
_forced: dict[str, str] = {}


def way(kind: str, case: Any) -> str:
    """The name of the way that a case takes; ValueError if it is made to take one that cannot compute it."""
    wanted = _forced.get(kind)
    if wanted is None:
        return next(w.name for w in TABLE[kind] if w.can(case) and w.better(case))
    if not next(w for w in TABLE[kind] if w.name == wanted).can(case):
        raise ValueError(f"the way {wanted!r} cannot compute {case}")
    return wanted


@contextmanager
def force(**ways: str) -> Iterator[None]:
    """Inside, everything of a kind goes one way, in all threads: ``with force(convolution="formula")``.

    Raises KeyError or ValueError for kinds or ways that are not in the table.
    """
    for kind, name in ways.items():
        if name not in [w.name for w in TABLE[kind]]:
            raise ValueError(f"no way {name!r}; there are {[w.name for w in TABLE[kind]]}")
    before = dict(_forced)
    _forced.update(ways)
    try:
        yield
    finally:
        _forced.clear()
        _forced.update(before)
