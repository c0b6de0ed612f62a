"""The parameters that are gathered, freed and reduced together: those of one call of `fully_shard`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape.dtypes import float16
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ..device_mesh import DeviceMesh
from . import _streams as streams
from ._param import ShardedParam
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy


class Gathering:
    """All-gathers that are under way: one for each dtype."""

    def __init__(self) -> None:
        self.parts: list[
            tuple[list[ShardedParam], Tensor, Tensor, Any]
        ] = []  # params, out, in, work
        self.event: Any = None


class ParamGroup:
    """Parameters that are whole at the same time.

    Args:
        params: them.
        mesh: the ranks that share them; of two dimensions, the first replicates.
        device: where they are whole.
        precision, offload: what the user said.
    """

    def __init__(
        self,
        params: list[ShardedParam],
        mesh: DeviceMesh,
        device: Any,
        precision: MixedPrecisionPolicy,
        offload: OffloadPolicy,
    ) -> None:
        self.params, self.mesh, self.device = params, mesh, device
        self.precision = precision
        self.kept_on = "cpu" if isinstance(offload, CPUOffloadPolicy) else device
        self.group = mesh.get_group(mesh.ndim - 1)
        self.ranks = mesh.size(mesh.ndim - 1)
        self.replicas = mesh.size(0) if mesh.ndim == 2 else 1
        self.whole = False  # whether the modules have the whole parameters
        self.gathering: Gathering | None = None
        self.arrived: set[int] = set()  # parameters that have their gradient in this backward
        self.reducing: list[tuple[list[ShardedParam], Tensor, Any, Tensor]] = []
        self.divide_by: float | None = None
        self.sync = self.sync_replicas = True
        self.waiting: dict[
            Any, tuple[list[ShardedParam], Tensor]
        ] = {}  # reduced, but not over replicas
        self.on_grads: Callable[[], None] = lambda: None

    # -- whole and part ------------------------------------------------------------------------------------------------

    @no_grad()
    def unshard(self) -> None:
        """Begin to gather the whole parameters, if they are not there or are old; `wait` has them."""
        if self.gathering is not None:
            return
        if self.whole:
            if not any(p.stale() for p in self.params):
                return
            self.reshard()
        for p in self.params:
            p.refresh()
            if p.sharded.is_meta:
                raise RuntimeError(
                    f"the parameter {p.sites[0][1]!r} of a fully sharded module is on the meta device: "
                    "call module.to_empty(device=...) and initialise it, or load a state_dict"
                )
        self.gathering = Gathering()
        with streams.side(self.device, "gather"):
            for dtype, params in self._by_dtype().items():
                mine = ops.cat([p.flat_part(dtype, self.device) for p in params])
                if self.ranks == 1:
                    self.gathering.parts.append((params, mine.clone(), mine, None))
                    continue
                out = ops.empty(self.ranks * mine.numel(), dtype=dtype, device=self.device)
                work = c10d.all_gather_into_tensor(out, mine, group=self.group, async_op=True)
                self.gathering.parts.append((params, out, mine, work))

    def _by_dtype(self) -> dict[Any, list[ShardedParam]]:
        found: dict[Any, list[ShardedParam]] = {}
        for p in self.params:
            dtype = p.sharded.dtype
            if self.precision.param_dtype is not None and dtype.is_floating_point:
                dtype = self.precision.param_dtype
            found.setdefault(dtype, []).append(p)
        return found

    @no_grad()
    def wait(self) -> None:
        """Wait for what `unshard` began, and let the modules have the whole parameters."""
        if self.gathering is None:
            return
        for params, out, mine, work in self.gathering.parts:
            if work is not None:
                work.wait()
            streams.join(self.device, "gather", (out, mine))
            table = out.view(self.ranks, -1)
            at = 0
            for p in params:
                p.take(table.narrow(1, at, p.size))
                at += p.size
        self.gathering = None
        self.whole = True
        for p in self.params:
            if p.requires_grad and p.whole._post_accumulate_grad_hooks is None:
                p.whole.register_post_accumulate_grad_hook(self._arrive(p))
            p.put(p.whole)

    def reshard(self) -> None:
        """Let the modules have the parts, and the memory of the whole go."""
        if self.gathering is not None:
            self.wait()
        if not self.whole:
            return
        self.whole = False
        for p in self.params:
            p.put(p.sharded)
            p.free()

    # -- gradients -----------------------------------------------------------------------------------------------------

    def _arrive(self, p: ShardedParam) -> Callable[[Any], None]:
        def hook(_: Any) -> None:
            self.arrived.add(id(p))
            if len(self.arrived) == sum(q.requires_grad for q in self.params):
                self.on_grads()

        return hook

    @no_grad()
    def reduce(self) -> None:
        """Begin to sum the gradients that are there over the ranks; `finish` has the parts."""
        self.arrived.clear()
        ready = [p for p in self.params if p.whole is not None and p.whole._grad is not None]
        if not ready or not self.sync:
            return
        by_dtype: dict[Any, list[ShardedParam]] = {}
        for p in ready:
            dtype = self.precision.reduce_dtype or p.whole._grad.dtype
            by_dtype.setdefault(dtype, []).append(p)
        grads = [Tensor._make(p.whole._grad._array) for p in ready]
        streams.keep(self.device, "reduce", grads)
        with streams.side(self.device, "reduce"):
            for dtype, params in by_dtype.items():
                before, _ = self._factors(dtype)
                whole = ops.cat([p.flat_grad(dtype) for p in params], 1)
                if before != 1:
                    whole /= before
                out = ops.empty(whole.shape[1], dtype=dtype, device=whole.device)
                work = None
                if self.ranks == 1:
                    out.copy_(whole.view(-1))
                else:
                    flat = whole.view(-1)
                    work = c10d.reduce_scatter_tensor(out, flat, group=self.group, async_op=True)
                self.reducing.append((params, out, work, whole))

    def _factors(self, dtype: Any) -> tuple[float, float]:
        """By what sums are divided before and after; halves before, too, so that they do not overflow."""
        n = self.divide_by or float(self.ranks * self.replicas)
        if dtype is not float16:
            return 1.0, n
        before = 1.0
        while n % before == 0 and n / before > before:
            before *= 2
        return before, n / before

    @no_grad()
    def finish(self) -> None:
        """Wait for the sums that `reduce` began, and add each to the gradient of its part."""
        reducing, self.reducing = self.reducing, []
        for params, out, work, whole in reducing:
            if work is not None:
                work.wait()
            streams.join(self.device, "reduce", (out, whole))
            _, after = self._factors(out.dtype)
            if self.replicas > 1:
                key = (out.dtype, tuple(map(id, params)))
                if key in self.waiting:
                    out += self.waiting.pop(key)[1]
                if not self.sync_replicas:
                    self.waiting[key] = params, out
                    continue
                c10d.all_reduce(out, group=self.mesh.get_group(0))
            if after != 1:
                out /= after
            at = 0
            for p in params:
                p.add_grad(out.narrow(0, at, p.size), self.kept_on)
                at += p.size
