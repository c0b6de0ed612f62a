"""PowerSGD: gradients of matrices are sent as two thin factors, found by one step of power iteration.

Source: T. Vogels, S. P. Karimireddy, M. Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization, NeurIPS 2019.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....futures import Future
from ....linalg import qr
from ....operators import public as ops
from ....tape.generator import Generator
from ....tape.tensor import Tensor
from ... import collectives
from ..._buckets import GradBucket
from ..._world import the_group
from . import default_hooks as default

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

_log = logging.getLogger(__name__)


class PowerSGDState:
    """What the hooks of this module keep between steps; one for each model.

    Args:
        process_group: whose ranks; all if None.
        matrix_approximation_rank: columns of the factors; more is more exact.
        start_powerSGD_iter: steps before it whose gradients are averaged whole. At least 2 with error feedback or warm
            start, since buckets change after the first.
        min_compression_rate: a matrix is compressed if it is more than so many times larger than its factors.
        use_error_feedback: add what compression left out to the gradients of the next step.
        warm_start: begin the iteration with the factors of the step before.
        orthogonalization_epsilon: added to the lengths of columns before they are divided by them.
        random_seed: of the first factors; the same on all ranks.
        compression_stats_logging_frequency: steps between two log messages on what was saved.
        batch_tensors_with_same_shape: accepted; factors are sent together in any case.

    Raises:
        ValueError: `start_powerSGD_iter` is too small.

    Example::

        state = PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=100)
        model.register_comm_hook(state, powerSGD_hook)
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,  # PyTorch's name
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}  # bucket -> what the last step left out
        self.q_memory_dict: dict[int, list[Tensor]] = {}  # bucket -> the factors of the last step
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "process_group"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The process group becomes that of all ranks: groups are not saved."""
        self.__dict__.update(state, process_group=None)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step, if this is its last bucket.

        Args:
            bucket: what the hook was called with.
        """
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_powerSGD_iter:
                _log.info("Start to apply PowerSGD after %d iterations.", self.iter)

    def compression_stats(self) -> tuple[float, int, int]:
        """What was saved since the first compressed step.

        Returns:
            The rate, the number of elements before compression, and after it. The rate is 0 before any.
        """
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)

    def _report(self, bucket: GradBucket) -> None:
        if bucket.is_last() and self.iter >= self.next_stats_report:
            rate, before, after = self.compression_stats()
            _log.info(
                "Compression stats: iter %d, elements before %d, after %d, rate %g",
                self.iter,
                before,
                after,
                rate,
            )
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:  # PyTorch's name
    """Average the gradients of a bucket, those of matrices as factors of few columns; the others whole.

    Args:
        state: kept between steps.
        bucket: the gradients.

    Returns:
        A future of the averages; what compression leaves out is added in the next step.

    Example::

        model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=100), powerSGD_hook)
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default.allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    matrices, whole = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.ndim > 1 else None
        if matrix is not None and _pays(matrix, state):
            matrices.append(matrix)
        else:
            whole.append(gradient)
    return _compressed(state, bucket, buffer, matrices, whole)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average the gradients of a bucket, taken as one square matrix, as factors of few columns.

    Faster than `powerSGD_hook`, and less exact: models may train worse.

    Args:
        state: kept between steps.
        bucket: the gradients.

    Returns:
        A future of the averages.

    Example::

        model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=100), batched_powerSGD_hook)
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default.allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    side = int(np.ceil(np.sqrt(buffer.numel())))
    square = ops.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    square[: buffer.numel()].copy_(buffer)
    return _compressed(state, bucket, buffer, [square.view(side, side)], [], square)


def _pays(matrix: Tensor, state: PowerSGDState) -> bool:
    """Whether the factors of a matrix are so much smaller than it is."""
    rows, columns = matrix.shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _compressed(
    state: PowerSGDState,
    bucket: GradBucket,
    buffer: Tensor,
    matrices: list[Tensor],
    whole: list[Tensor],
    padded: Tensor | None = None,
) -> Future:
    """Average `whole` as it is and `matrices` by factors, all in place; `padded` is a copy of the buffer, if any."""
    group = the_group(state.process_group)
    index, memory = bucket.index(), buffer if padded is None else padded
    wanted = None
    if state.use_error_feedback:
        if index in state.error_dict:
            memory.add_(state.error_dict[index])
        wanted = memory.clone()

    rest = ops.cat([g.reshape(-1) for g in whole]).div_(group.size()) if whole else None
    work = None if rest is None else collectives.all_reduce(rest, group=group, async_op=True)
    qs = state.q_memory_dict.get(index) if state.warm_start else None
    qs = _first_factors(state, matrices) if qs is None else qs
    _orthogonalize(qs, state.orthogonalization_epsilon)
    ps = [matrix @ q for matrix, q in zip(matrices, qs)]
    _sum_together(ps, group)  # its length does not matter
    _orthogonalize(ps, state.orthogonalization_epsilon)
    qs = [matrix.T @ p for matrix, p in zip(matrices, ps)]
    _sum_together(qs, group)
    for q in qs:
        q.div_(group.size())
    for matrix, p, q in zip(matrices, ps, qs):
        ops.matmul(p, q.T, out=matrix)
    if work is not None and rest is not None:
        work.wait()
        for gradient, part in zip(whole, rest.split([g.numel() for g in whole])):
            gradient.copy_(part.view(gradient.shape))

    if state.warm_start:
        state.q_memory_dict[index] = qs
    if wanted is not None:
        for gradient in whole:  # nothing was left out of these: their part of the error is 0
            _same_part(wanted, gradient, buffer).copy_(gradient)
        state.error_dict[index] = wanted.sub_(memory)
    if padded is not None:
        buffer.copy_(padded[: buffer.numel()])
    state.total_numel_before_compression += buffer.numel()
    factors = sum(p.numel() + q.numel() for p, q in zip(ps, qs))
    state.total_numel_after_compression += factors + sum(g.numel() for g in whole)
    state._report(bucket)
    state.maybe_increase_iter(bucket)
    future: Future = Future()
    future.set_result(buffer)
    return future


def _same_part(copy: Tensor, part: Tensor, of: Tensor) -> Tensor:
    """Where in `copy` the part of `of` is that `part` is a view of."""
    start = part.storage_offset() - of.storage_offset()
    return copy[start : start + part.numel()].as_strided(part.shape, part.stride(), start)


def _first_factors(state: PowerSGDState, matrices: Sequence[Tensor]) -> list[Tensor]:
    """Random factors, the same on all ranks: the seed comes from the state, not from the generator of the program."""
    generator = Generator().manual_seed(int(state.rng.randint(1_000_000_000)))
    factors = []
    for matrix in matrices:
        rank = min(*matrix.shape, state.matrix_approximation_rank)
        drawn = ops.randn(matrix.shape[1], rank, generator=generator)
        factors.append(drawn.to(device=matrix.device, dtype=matrix.dtype))
    return factors


def _orthogonalize(factors: list[Tensor], epsilon: float) -> None:
    """Columns that are orthonormal, in place of those of each factor."""
    for i, factor in enumerate(factors):
        exact = factor if factor.element_size() >= 4 else factor.float()
        if epsilon == 0:
            factors[i] = qr(exact)[0].to(factor.dtype)
            continue
        for k in range(exact.shape[1]):  # Gram-Schmidt
            column = exact[:, k : k + 1]
            column.div_(column.norm() + epsilon)
            if k + 1 < exact.shape[1]:
                others = exact[:, k + 1 :]
                others.sub_((column * others).sum(0) * column)
        factors[i] = exact.to(factor.dtype)


def _sum_together(tensors: list[Tensor], group: Any) -> None:
    """The sums of tensors over all ranks, in place, in one collective."""
    if not tensors:
        return
    flat = ops.cat([t.reshape(-1) for t in tensors])
    collectives.all_reduce(flat, group=group)
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors])):
        tensor.copy_(part.view(tensor.shape))
