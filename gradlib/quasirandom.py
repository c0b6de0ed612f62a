"""Sobol sequences: points that fill the unit cube more evenly than random ones do.

The direction numbers are those of Joe and Kuo, which SciPy has in a file (``pip install 'gradlib[scipy]'``).
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from .operators import public as ops
from .tape import dtypes
from .tape.generator import Generator
from .tape.tensor import Tensor

__all__ = ["SobolEngine"]


@functools.cache
def _primitive_polynomials() -> tuple[np.ndarray, np.ndarray]:
    """The polynomials of all dimensions and the first direction numbers, [21201] and [21201, 18]."""
    scipy = importlib.util.find_spec("scipy")
    folder = Path(scipy.origin).parent if scipy is not None and scipy.origin else Path()
    file = folder / "stats" / "_sobol_direction_numbers.npz"
    if scipy is None or not file.is_file():
        raise ImportError("SobolEngine needs SciPy: install it with pip install 'gradlib[scipy]'")
    with np.load(file) as numbers:
        return numbers["poly"], numbers["vinit"]


def _direction_numbers(dimension: int, bits: int) -> np.ndarray:
    """The direction numbers as integers of so many bits, [dimension, bits]."""
    polynomials, first = _primitive_polynomials()
    out = np.ones((dimension, bits), np.int64)
    for row in range(1, dimension):
        polynomial = int(polynomials[row])
        degree = polynomial.bit_length() - 1
        v = [int(n) for n in first[row, : min(degree, bits)]]
        for k in range(degree, bits):
            new = v[k - degree]
            for i in range(1, degree + 1):
                if polynomial >> (degree - i) & 1:
                    new ^= v[k - i] << i
            v.append(new)
        out[row] = v
    return out << np.arange(bits - 1, -1, -1)


class SobolEngine:
    """Points of a Sobol sequence in [0, 1), scrambled on demand.

    Args:
        dimension: of the points, 1 to 21201.
        scramble: whether to apply a random linear matrix scramble and a random digital shift (Owen).
        seed: of the scramble; the global generator is used if left out.

    Raises:
        ValueError: a dimension out of range.
        ImportError: SciPy is not installed.

    Example:
        >>> gradlib.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = Tensor._make(_direction_numbers(dimension, self.MAXBIT))
        self.shift = Tensor._make(np.zeros(dimension, np.int64))
        if scramble:
            self._scramble()
        self.num_generated = 0
        self.quasi = self.shift.clone()

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: dtypes.dtype | None = None
    ) -> Tensor:
        """The next points of the sequence.

        Args:
            n: how many.
            out: Tensor that is resized and written to.
            dtype: floating; the default dtype if left out.

        Returns:
            Tensor [n, dimension], in [0, 1).

        Example:
            >>> gradlib.quasirandom.SobolEngine(1).draw(4).flatten().tolist()
            [0.0, 0.5, 0.75, 0.25]
        """
        points = self._points(n)
        made = Tensor._make(points).to(dtype or dtypes.get_default_dtype()) * 2.0**-self.MAXBIT
        self._advance(n)
        return made if out is None else out.resize_as_(made).copy_(made)

    def draw_base2(
        self, m: int, out: Tensor | None = None, dtype: dtypes.dtype | None = None
    ) -> Tensor:
        """The next 2**m points; as many as keep the points balanced.

        Args:
            m: the exponent.
            out: as in `draw`.
            dtype: as in `draw`.

        Raises:
            ValueError: the number of points is no power of 2 then.

        Example:
            >>> tuple(gradlib.quasirandom.SobolEngine(3).draw_base2(4).shape)
            (16, 3)
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to "
                "do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave points out; returns the engine.

        Args:
            n: how many.

        Example:
            >>> gradlib.quasirandom.SobolEngine(1).fast_forward(2).draw().item()
            0.75
        """
        self._advance(n)
        return self

    def reset(self) -> SobolEngine:
        """Begin again with the first point; returns the engine.

        The scramble stays the same.
        """
        self.num_generated = 0
        self.quasi = self.shift.clone()
        return self

    def __repr__(self) -> str:
        facts = [f"dimension={self.dimension}"]
        if self.scramble:
            facts.append("scramble=True")
        if self.seed is not None:
            facts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(facts)})"

    def _advance(self, n: int) -> None:
        """Count `n` more points; `quasi` is the last of them."""
        self.num_generated += n
        if self.num_generated:
            self.quasi = Tensor._make(self._point(self.num_generated - 1))

    def _point(self, index: int) -> np.ndarray:
        """The point with that index, as integers: the sum (without carry) of the numbers that its Gray code names."""
        gray = index ^ index >> 1
        named = [k for k in range(self.MAXBIT) if gray >> k & 1]
        return self.shift.numpy() ^ np.bitwise_xor.reduce(self.sobolstate.numpy()[:, named], axis=1)

    def _points(self, n: int) -> np.ndarray:
        """The next `n` points as integers: from one to the next a single direction number changes."""
        if not n:
            return np.zeros((0, self.dimension), np.int64)
        index = np.arange(self.num_generated + 1, self.num_generated + n)
        changed = np.bitwise_count((index & -index) - 1)
        steps = np.empty((n, self.dimension), np.int64)
        steps[0] = self._point(self.num_generated)
        steps[1:] = self.sobolstate.numpy().T[changed]
        return np.bitwise_xor.accumulate(steps, axis=0)

    def _scramble(self) -> None:
        """Multiply the bits by a random lower triangular matrix of each dimension, and draw the shift."""
        generator: Any = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        weights = 1 << np.arange(bits)
        shift = ops.randint(2, (self.dimension, bits), generator=generator).numpy()
        self.shift = Tensor._make(shift @ weights)
        matrix = ops.randint(2, (self.dimension, bits, bits), generator=generator).numpy()
        matrix = np.tril(matrix, -1) | np.eye(bits, dtype=np.int64)
        high_first = self.sobolstate.numpy()[:, None, :] >> np.arange(bits - 1, -1, -1)[:, None] & 1
        mixed = matrix @ high_first & 1  # [dimension, bit from the highest, number]
        self.sobolstate = Tensor._make(np.tensordot(mixed, weights[::-1], (1, 0)))
