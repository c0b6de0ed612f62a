"""Averaging gradients over processes while backward still computes others: what DistributedDataParallel runs on.

Every parameter has a post-accumulate hook. The engine knows which leaves a backward pass will reach before it runs, so
parameters that it will not reach are ready at once. A bucket goes out as soon as all its gradients are in and all
buckets before it are out: the order is the same on all ranks, whatever the order of their gradients.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from ..autograd.explain import explain_from
from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape import engine, source
from ..tape.accumulation import laid_out
from ..tape.lazy import raw_values
from ..tape.modes import state as here
from ..tape.node import AccumulateGrad
from ..tape.sparse import is_sparse
from ..tape.tensor import Tensor
from . import collectives
from ._buckets import CLOCK, Bucket, GradBucket, assign
from ._objects import broadcast_object_list
from ._sparse import summed

__all__ = ["Reducer"]

UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. The backward pass of that "
    "iteration has ended before all gradients were averaged: {}."
)


class Sum(Function):
    """The sum over all ranks, recorded: its gradient is the sum of those of all ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = tensor.clone()
        collectives.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Sum.apply(grad, ctx.group), None


class Pass:
    """One backward pass whose gradients are averaged."""

    def __init__(self, task: engine.GraphTask) -> None:
        self.task, self.depth = task, here.depth
        self.traced = task.create_graph
        self.fired: dict[int, int] = {}  # parameter -> how often its gradient has arrived
        self.launched = 0  # buckets that are out
        self.cut: dict[int, str] = {}  # parameter -> why no gradient can reach it


class Reducer:
    """Averages the gradients of parameters over the ranks of a group, in every backward pass that it is told of.

    Args:
        params: the parameters that require grad, in the same order on all ranks.
        names: theirs, for errors.
        group: a ProcessGroup.
        limits: bytes of each bucket: the first, the second..., once the order of gradients is known.
        first_limits: the same before it is known.
        rebuild: whether buckets are made anew in the order in which the gradients of the first pass arrive.
        views: whether ``.grad`` are views of the buckets.
        dtype: what gradients are reduced in; their own if left out.
        skip_unused: leave out for good what the first pass of rank 0 gives no gradient.
        sparse: indices of parameters whose gradients are sparse. They are in no bucket: their places and values are
            gathered when the pass is over.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        group: Any,
        *,
        limits: Sequence[int],
        first_limits: Sequence[int],
        rebuild: bool = True,
        views: bool = False,
        dtype: Any = None,
        skip_unused: bool = False,
        sparse: Iterable[int] = (),
    ) -> None:
        self.params, self.names, self.group = list(params), list(names), group
        self.limits, self.views, self.dtype = list(limits), views, dtype
        self.place = {id(p): i for i, p in enumerate(self.params)}
        self.rebuild, self.skip_unused = rebuild, skip_unused
        self.hook: Callable[[Any, GradBucket], Any] | None = None
        self.hook_state: Any = None
        self.expected = False  # whether gradients that arrive are those of the last forward
        self.divisor: float = group.size()
        self.current: Pass | None = None
        self.passes = 0
        self.arrivals: list[int] | None = []  # the order in the first pass; None after it
        self.counts: dict[
            int, int
        ] = {}  # how often a gradient arrives in a pass, where it is not once
        self.hidden: set[int] = set()  # reached only by backward passes inside of the pass
        self.open: list[
            list[bool]
        ] = []  # of each forward since the last pass: whether a pass came through it
        self.abandoned = 0  # forwards that none came through
        self.told_of_clock = False
        self.unread: list[Tensor] = []  # clocks that came back and were not read yet
        self.unused: list[int] = []  # without gradient on this rank in the last pass
        self.explain = False  # whether the first pass that leaves parameters out is told of
        self.sparse = sorted(sparse)
        dense = [i for i in range(len(self.params)) if i not in self.sparse]
        # gradients arrive last parameter first
        backwards = sorted(assign(self.params, first_limits, dense), key=min)[::-1]
        self.buckets = [Bucket(members, self.params, dtype) for members in backwards]
        self._index()
        self.handles = [
            p.register_post_accumulate_grad_hook(_listener(weakref.ref(self), i))
            for i, p in enumerate(self.params)
        ]

    def _index(self) -> None:
        self.bucket_of = {i: bucket for bucket in self.buckets for i in bucket.members}

    def close(self) -> None:
        """Listen to gradients no longer."""
        for handle in self.handles:
            handle.remove()

    # -- before backward -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """A forward begins whose gradients shall be averaged.

        Raises:
            RuntimeError: the backward pass before it has not ended well.
        """
        if self.current is not None and here.current_task is None:
            self._fail_unfinished()
        for slots in self.unread:
            self._check_clock(slots.tolist())
        self.unread = []

    def _fail_unfinished(self) -> NoReturn:
        late = [i for b in self.buckets for i in b.members if i not in b.used]
        raise RuntimeError(UNFINISHED.format(f"missing are those of {self._named(late)}"))

    def listen(self, outputs: Iterable[Tensor]) -> None:
        """Average the gradients of every backward pass through these tensors, which a forward has given."""
        self.expected = True
        self.open.append([False])
        if len(self.open) > 1000:  # of a program that records and never goes backward
            self.abandoned += not self.open.pop(0)[0]
        self._begin_at(outputs, self.open[-1])

    def _begin_at(self, outputs: Iterable[Tensor], visited: list[bool]) -> None:
        """Begin a pass in every backward that comes through these tensors."""
        ref, seen = weakref.ref(self), set()

        def begin(_: Any) -> None:
            visited[0] = True
            reducer = ref()
            if reducer is not None and reducer.current is None:
                reducer._begin()

        for tensor in outputs:
            node = tensor.grad_fn
            if node is not None and node not in seen:
                seen.add(node)
                node.register_prehook(begin)

    # -- in backward ---------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """A backward pass begins: parameters that it will not reach are ready. False if it accumulates no gradients."""
        task = here.current_task
        if task is None or not task.accumulate:
            return False
        reached = {self.place.get(id(leaf.variable)) for leaf in _leaves(task)} - {None}
        if task.wanted and not reached:
            return False  # of other leaves alone
        self.current = Pass(task)
        self.passes += 1
        for bucket in self.buckets:
            bucket.used = {}
        task.callbacks = task.callbacks or []
        task.callbacks.append(self.finish)
        absent = [i for i in range(len(self.params)) if i not in reached and i not in self.hidden]
        if self.explain:
            self._look_for_cuts(task, absent)
        if self.arrivals is None and not self.current.traced:
            for i in absent:
                self._ready(i)
        return True

    def arrived(self, i: int) -> None:
        """The gradient of parameter `i` was accumulated."""
        current = self.current
        if current is None:
            if not self.expected or not self._begin():
                return
            current = self.current
            assert current is not None
        elif here.current_task is not current.task and here.depth <= current.depth:
            self._fail_unfinished()  # an error has ended the pass that this one is not part of
        fired = current.fired[i] = current.fired.get(i, 0) + 1
        if self.arrivals is not None:  # nothing goes out before all is known
            if fired == 1:
                self.arrivals.append(i)
            self.counts[i] = fired
            if here.current_task is not current.task:
                self.hidden.add(i)
        elif not current.traced and fired >= self.counts.get(i, 1) and i not in self.sparse:
            if i not in self.bucket_of or i in self.bucket_of[i].used:
                self._fail_twice(i)
            self._ready(i)

    def _fail_twice(self, i: int) -> NoReturn:
        raise RuntimeError(
            f"Expected to mark a variable ready only once: the gradient of {self.names[i]} (parameter {i}) arrived "
            "after the other ranks were told of it. In the first backward pass it arrived less often, or not at all. "
            "If it is used in parts that are checkpointed, checkpoint with use_reentrant=False."
        )

    def _ready(self, i: int) -> None:
        """Put the gradient of a parameter into its bucket, and send what is complete."""
        bucket = self.bucket_of.get(i)
        if bucket is not None:
            self._fill(bucket, i)
            if bucket.complete:
                self._launch()

    def _fill(self, bucket: Bucket, i: int) -> None:
        view, grad = bucket.views[i], self.params[i]._grad
        bucket.used[i] = grad is not None
        if grad is None:
            view.zero_()
            return
        if is_sparse(grad):  # of a parameter that was not said to have one
            grad = grad.to_dense()
        scale = 1.0 if self.hook is not None else 1.0 / self.divisor
        if grad is not view:
            ops.mul(grad, scale, out=view)
        elif scale != 1.0:
            view.mul_(scale)

    def _launch(self) -> None:
        """Send all complete buckets that no incomplete one stands before."""
        current = self.current
        assert current is not None
        while current.launched < len(self.buckets):
            bucket = self.buckets[current.launched]
            if not bucket.complete:
                return
            self._send(current.launched, bucket, self.abandoned)
            current.launched += 1

    def _send(self, index: int, bucket: Bucket, clock: int | None) -> None:
        bucket.mark(clock)
        if self.hook is None:
            bucket.work = collectives.all_reduce(bucket.whole, group=self.group, async_op=True)
        else:
            last = index == len(self.buckets) - 1
            bucket.work = self.hook(
                self.hook_state, GradBucket(index, bucket, self.params, is_last=last)
            )

    # -- after backward ------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The pass is over: send what is left, wait for all, and write the averages into ``.grad``."""
        current = self.current
        assert current is not None
        with no_grad():
            self.unused = [i for i in range(len(self.params)) if i not in current.fired]
            self._tell(current)
            if not current.traced:
                for bucket in self.buckets:
                    for i in bucket.members:
                        if i not in bucket.used:
                            self._fill(bucket, i)
                self._launch()
                self._collect()
                self._average_sparse([self.params[i]._grad for i in self.sparse])
        if current.traced:
            self._average_with_history()
        self.abandoned += sum(not visited for [visited] in self.open)
        self.current, self.expected, self.open = None, False, []
        self._rebuild()

    def _collect(self, shadow: bool = False) -> None:
        """Wait for the buckets, and write what came back."""
        for bucket in self.buckets:
            self._wait(bucket)
        tails = [bucket.tail for bucket in self.buckets] if self.hook is None else self._tails()
        for bucket, tail in zip(self.buckets, tails):
            if tail.is_cuda and not shadow and all(bucket.used.values()):
                self.unread.append(
                    tail[-CLOCK:].clone()
                )  # to read it now, the host would have to wait
                marks = [1.0] * len(bucket.members)
            else:
                marks = tail.tolist()
                self._check_clock(marks[-CLOCK:])
            for i, mark in zip(bucket.members, marks):
                if mark:
                    self._write(self.params[i], bucket.views[i])

    def _wait(self, bucket: Bucket) -> None:
        result, bucket.work = bucket.work.wait(), None
        if self.hook is None:
            return
        if isinstance(result, (list, tuple)):
            (result,) = result
        if not isinstance(result, Tensor):
            raise TypeError(
                f"The future of a communication hook has to give a tensor, but it gave {type(result).__name__}"
            )
        if result.data_ptr() != bucket.flat.data_ptr() or result.dtype != bucket.flat.dtype:
            bucket.flat.copy_(result.detach().reshape(-1))

    def _tails(self) -> list[Tensor]:
        """The marks behind all buckets, summed on their own: a hook sees nothing but gradients."""
        marks = ops.cat([bucket.tail.float() for bucket in self.buckets])
        collectives.all_reduce(marks, group=self.group)
        return list(marks.split([bucket.tail.numel() for bucket in self.buckets]))

    def _check_clock(self, slots: list[float]) -> None:
        """Warn once if ranks have left different numbers of forwards without a backward: one has lost a step."""
        if self.told_of_clock or sum(1 for value in slots if value) < 2:
            return
        self.told_of_clock = True
        counts = " or ".join(str(i) for i, value in enumerate(slots) if value)
        warnings.warn(
            "DistributedDataParallel: the ranks may average gradients of different steps. Up to the last step, rank "
            f"{self.group.rank()} has run {self.abandoned} forward(s) that no averaging backward came through; over "
            f"all ranks the numbers are {counts} (modulo {CLOCK}). A loss of some rank has not used the output; or it "
            "runs the model on its own: then do so under no_grad(), or call model.module.",
            stacklevel=source.user_level(),
        )

    def _write(self, param: Tensor, view: Tensor) -> None:
        grad = param._grad
        if self.views and view.dtype == param.dtype:
            if grad is not view:
                param._grad = view
        elif grad is None or is_sparse(grad):
            kind = param.grad_dtype or view.dtype
            array = raw_values(view.to(kind))
            param._grad = Tensor._make(laid_out(param._array, array, kind.np))
        else:
            grad.copy_(view)

    def _average_sparse(self, grads: Sequence[Tensor | None]) -> None:
        """Average the sparse gradients: this rank has `grads`."""
        for i, grad in zip(self.sparse, grads, strict=True):
            param = self.params[i]
            like = param.detach() if self.dtype is None else param.detach().to(self.dtype)
            given = grad if grad is None else grad.to(like.dtype)
            total = summed(given, like, f"the gradient of {self.names[i]}", self.group)
            if total is not None:
                param._grad = (total / self.divisor).to(param.dtype)

    def _average_with_history(self) -> None:
        """Gradients that are differentiated again: averaged one by one, by a collective that has a gradient."""
        used = ops.tensor([float(p._grad is not None) for p in self.params])
        collectives.all_reduce(used, group=self.group)
        for param, anywhere in zip(self.params, used.tolist()):
            if anywhere:
                grad = ops.zeros_like(param) if param._grad is None else param._grad
                grad = grad.to_dense() if is_sparse(grad) else grad
                param._grad = Sum.apply(grad / self.divisor, self.group)
        self._begin_at([p._grad for p in self.params if p._grad is not None], [True])

    # -- what does not happen in every pass ----------------------------------------------------------------------

    def shadow(self) -> None:
        """Take part in the collectives of a backward pass without gradients: this rank has no more inputs.

        The averages of the others are written all the same: an optimizer of which this rank has a share needs them.
        """
        self.passes += 1
        with no_grad():
            for index, bucket in enumerate(self.buckets):
                bucket.whole.zero_()
                bucket.used = {}
                self._send(index, bucket, None)
            self._collect(shadow=True)
            self._average_sparse([None] * len(self.sparse))
        self._rebuild()

    def _rebuild(self) -> None:
        """After the first pass: buckets in the order in which the gradients of rank 0 arrived."""
        if self.arrivals is None:
            return
        arrivals, self.arrivals = self.arrivals, None
        if not self.rebuild:
            return
        order = [i for i in arrivals if i not in self.sparse]
        if not self.skip_unused:
            others = set(range(len(self.params))) - set(order) - set(self.sparse)
            order += sorted(others, reverse=True)
        agreed = [order]
        broadcast_object_list(agreed, group=self.group, group_src=0)
        self.buckets = [
            Bucket(members, self.params, self.dtype)
            for members in assign(self.params, self.limits, agreed[0])
        ]
        self._index()

    def _look_for_cuts(self, task: engine.GraphTask, absent: list[int], most: int = 5) -> None:
        current = self.current
        assert current is not None
        root = max(task.roots, key=lambda node: node.seq)
        for i in [i for i in absent if self.params[i].requires_grad][:most]:
            current.cut[i] = explain_from(root, self.params[i])

    def _tell(self, current: Pass) -> None:
        """Warn once of parameters that no gradient has reached, and say where their path is cut."""
        absent = [i for i in self.unused if self.params[i].requires_grad]
        if not self.explain or not absent:
            return
        self.explain = False
        cuts = "".join(f"\n{self.names[i]}: {current.cut[i]}" for i in absent if i in current.cut)
        warnings.warn(
            f"DistributedDataParallel: no gradient has reached {self._named(absent)} on rank {self.group.rank()}. It "
            "counts as zero where another rank has one. If this is meant, pass find_unused_parameters=True."
            f"{cuts}",
            stacklevel=source.user_level(),
        )

    def _named(self, indices: Sequence[int], most: int = 8) -> str:
        named = ", ".join(self.names[i] for i in indices[:most])
        return f"{named} and {len(indices) - most} more" if len(indices) > most else named or "none"


def _listener(ref: weakref.ref[Reducer], i: int) -> Callable[[Tensor], None]:
    """A hook that keeps the reducer no longer than its owner does."""

    def arrived(_: Tensor) -> None:
        reducer = ref()
        if reducer is not None:
            reducer.arrived(i)

    return arrived


def _leaves(task: engine.GraphTask) -> Iterable[AccumulateGrad]:
    """The leaves that a pass will reach."""
    for leaves in task.leaves.values():
        yield from leaves  # pyright: ignore[reportReturnType]
    for root in task.roots:
        if isinstance(root, AccumulateGrad):
            yield root
