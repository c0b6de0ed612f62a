"""Random numbers on a device: Philox 4x32-10, a function of a key and a counter that live in device memory.

Every draw advances the counter by an operation on the current stream, so nothing waits for the device, and a captured
draw gives new numbers on every replay. The words are those of `kernels/philox.cuh`: word i of a draw is
``philox(counter + i // 4, seed)[i % 4]``, on the CPU and on CUDA alike.

Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tape.modes import shared
from .fused.words import words as fused_words

U4, U8, F4, F8 = (np.dtype(t) for t in (np.uint32, np.uint64, np.float32, np.float64))
MASK = 0xFFFFFFFF
MULTIPLIERS, WEYL, ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10


def words(xp: Any, state: Any, count: int) -> Any:
    """`count` random words, uint32 [count]; `state`, uint64 [2] of seed and counter, moves on."""
    blocks = -(-count // 4)
    counter = xp.arange(blocks, dtype=U8) + state[1:]
    key = [state[:1] & MASK, state[:1] >> 32]
    zero = xp.zeros(1, U8)
    c = [counter & MASK, counter >> 32, zero, zero]
    for _ in range(ROUNDS):
        a, b = c[0] * MULTIPLIERS[0], c[2] * MULTIPLIERS[1]
        c = [(b >> 32) ^ c[1] ^ key[0], b & MASK, (a >> 32) ^ c[3] ^ key[1], a & MASK]
        key = [(k + w) & MASK for k, w in zip(key, WEYL, strict=True)]
    state[1:] += blocks
    return xp.stack(c, axis=-1).astype(U4).reshape(-1)[:count]


class DeviceRng:
    """The drawing methods of ``numpy.random.Generator`` on arrays of one device.

    xp: the backend. device: the index of the device (None on the CPU). The state is made at the first draw.
    Draws from several streams are put in order by events.
    """

    def __init__(self, xp: Any, device: int | None = None):
        self.xp, self.device = xp, device
        self.pending: tuple[int, int] = (
            0,
            0,
        )  # seed and counter, until the state is in device memory
        self.state: Any = None
        self.lane: Any = None  # where the state was used last

    # -- state ---------------------------------------------------------------------------------------------------------

    def set(self, seed: int, counter: int) -> None:
        """Start from here. An existing state is overwritten where it is, for graphs that use it."""
        self.pending = (seed % 2**64, counter % 2**64)
        if self.state is not None:
            self._enter()
            self._write()

    def get(self) -> tuple[int, int]:
        """Seed and counter; waits for the device."""
        if self.state is None:
            return self.pending
        self._enter()
        state = self.state if self.xp.name == "numpy" else self.state.get()
        return int(state[0]), int(state[1])

    def _enter(self) -> None:
        """Let the current stream come after the one that used the state last; a stream capture is left alone."""
        if shared.cuda is None or self.device is None:
            return
        here = shared.cuda.current()
        if self.lane is not None and here is not self.lane and not here.stream.is_capturing():
            here.wait(self.lane.record())
        if not here.stream.is_capturing():
            self.lane = here

    def _write(self) -> None:
        """Seed and counter into device memory, by kernels: no copy from the host."""
        self.state[:1] = U8.type(self.pending[0])
        self.state[1:] = U8.type(self.pending[1])

    def words(self, count: int) -> Any:
        """Random words, uint32 [count]."""
        if self.state is None:
            self.state, self.lane = self.xp.empty(2, U8), None
            self._write()
        self._enter()
        if self.xp.fuses:
            return fused_words(self.xp, self.state, count)
        return words(self.xp, self.state, count)

    def current(self) -> Any:
        """A context in which the device of the numbers is the current one."""
        return self.xp.cuda.Device(self.device)

    def host(self) -> np.random.Generator:
        """A generator for draws that are made on the host, seeded from here; waits for the device."""
        seeds = self.words(8)
        return np.random.Generator(
            np.random.SFC64(seeds.tolist() if self.xp.name == "numpy" else seeds.get().tolist())
        )

    # -- uniform words -------------------------------------------------------------------------------------------------

    def _long(self, count: int) -> Any:
        """Random words, uint64 [count]."""
        halves = self.words(2 * count).astype(U8)
        return (halves[:count] << 32) | halves[count:]

    def random(self, size: Any = (), dtype: Any = F8) -> Any:
        """Uniform in [0, 1): 24 random bits of a float32, 53 of a float64."""
        count = math.prod(shape := _shape(size))
        if np.dtype(dtype) == F4:
            return ((self.words(count) >> 8).astype(F4) * F4.type(2.0**-24)).reshape(shape)
        return ((self._long(count) >> 11).astype(F8) * 2.0**-53).reshape(shape)

    def _open(self, count: int, dtype: Any = F8) -> Any:
        """Uniform in (0, 1], from 32 bits."""
        kind = np.dtype(dtype).type
        return self.words(count).astype(dtype) * kind(2.0**-32) + kind(2.0**-33)

    def integers(self, low: int, high: int | None = None, size: Any = (), dtype: Any = np.int64):
        """Integers in [low, high)."""
        low, high = (0, low) if high is None else (low, high)
        count, span = math.prod(shape := _shape(size)), high - low
        if span <= 2**32:
            drawn = self.words(count).astype(U8)
        else:
            drawn = self._long(count)
        drawn = drawn if span >= 2**64 else drawn % span
        return (drawn.astype(np.int64) + low).astype(dtype, copy=False).reshape(shape)

    def permutation(self, n: int) -> Any:
        """0..n-1 in random order, int64 [n]."""
        return self.xp.argsort(self._long(n))

    # -- distributions -------------------------------------------------------------------------------------------------

    def standard_normal(self, size: Any = (), dtype: Any = F8) -> Any:
        """Standard normal numbers, by the method of Box and Muller (Ann. Math. Stat. 29, 1958)."""
        xp, dtype = self.xp, np.dtype(dtype)
        count = math.prod(shape := _shape(size))
        half = -(-count // 2)
        if dtype == F4:
            first, second = self._open(half, F4), self.random(half, F4)
        else:
            first, second = 1 - self.random(half), self.random(half)
        radius, angle = xp.sqrt(-2 * xp.log(first)), second * dtype.type(2 * math.pi)
        both = xp.concatenate([radius * xp.cos(angle), radius * xp.sin(angle)])
        return both[:count].reshape(shape)

    def exponential(self, scale: float = 1.0, size: Any = ()) -> Any:
        """Exponential with mean `scale`."""
        shape = _shape(size)
        return (-self.xp.log(self._open(math.prod(shape))) * scale).reshape(shape)

    def geometric(self, p: float, size: Any = ()) -> Any:
        """The number of trials up to the first success, at least 1."""
        shape = _shape(size)
        trials = self.xp.log(self._open(math.prod(shape))) / math.log1p(-p)
        return self.xp.maximum(self.xp.ceil(trials), 1.0).reshape(shape)

    def standard_cauchy(self, size: Any = ()) -> Any:
        """The quotient of two standard normal numbers."""
        shape = _shape(size)
        return self.xp.tan((self._open(math.prod(shape)) - 0.5) * math.pi).reshape(shape)

    def lognormal(self, mean: float = 0.0, sigma: float = 1.0, size: Any = ()) -> Any:
        """exp of a normal number."""
        return self.xp.exp(self.standard_normal(size) * sigma + mean)

    def standard_gamma(self, shape: Any) -> Any:
        """Gamma numbers with the rate 1, float64, of the shapes in an array; reads on the host whether all are drawn.

        G. Marsaglia, W. Tsang, A simple method for generating gamma variables, ACM Trans. Math. Softw. 26 (2000).
        """
        xp, small = self.xp, shape < 1
        d = xp.where(small, shape + 1, shape) - 1 / 3
        c, values = 1 / xp.sqrt(9 * d), xp.zeros(shape.shape, F8)
        todo = shape == shape
        while bool(todo.any()):
            x = self.standard_normal(shape.shape)
            v = (1 + c * x) ** 3
            log_u = xp.log(self._open(shape.size)).reshape(shape.shape)
            fits = log_u < 0.5 * x * x + d - d * v + d * xp.log(xp.where(v > 0, v, 1))
            fits &= (v > 0) & todo
            values = xp.where(fits, d * v, values)
            todo &= ~fits
        less = (1 - self.random(shape.shape)) ** (
            1 / shape
        )  # a number of the shape a from one of a + 1
        return xp.where(shape == shape, xp.where(small, values * less, values), shape)

    def gumbel(self, size: Any = ()) -> Any:
        """The standard Gumbel distribution: -log of an exponential number."""
        shape = _shape(size)
        return -self.xp.log(-self.xp.log(self._open(math.prod(shape)))).reshape(shape)


def _shape(size: Any) -> tuple[int, ...]:
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple(size or ())
