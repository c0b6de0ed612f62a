"""ZeRO, stage 1: every rank keeps the optimizer's state of its share of the parameters alone.

Source: S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models, SC 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...optim import Optimizer
from ...tape.tensor import Tensor
from .. import collectives
from .._objects import gather_object
from .._world import the_group
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class _ZeroJoinHook(JoinHook):
    """A rank without inputs still updates its share of the parameters."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        """A step with the gradients that the model's own hook has received."""
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is divided among the ranks: each updates its share, and sends it to the others.

    The parameters of each group are dealt out, the largest first, to the rank with the fewest elements so far.

    Args:
        params: parameters or groups, the same on all ranks.
        optimizer_class: what updates a share, such as ``torch.optim.AdamW``.
        process_group: whose ranks; all if None.
        parameters_as_bucket_view: let parameters be parts of the tensors that are sent: no copies. Their ``data`` must
            not be replaced then.
        overlap_with_ddp: not supported.
        defaults: options of the optimizer, such as ``lr``.

    Raises:
        NotImplementedError: `overlap_with_ddp`.
        TypeError: a parameter that is no tensor.

    Example::

        model = DistributedDataParallel(net)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
        ...
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            torch.save(optimizer.state_dict(), "optimizer.pt")
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported. Leave it out: the updates are the same, "
                "after backward; fully_shard overlaps both."
            )
        self.process_group = the_group(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._owner: dict[Tensor, int] = {}
        self._loads = [0] * self.world_size
        self._collected: list[dict[str, Any]] | None = None
        self._flats: dict[Any, Tensor] = {}  # with bucket views: (rank, dtype, device) -> memory
        self.optim: Any = None
        Optimizer.__init__(self, params, defaults)
        Joinable.__init__(self)
        self.optim = optimizer_class(self._shares(self.param_groups), **defaults)
        for ours, theirs in zip(self.param_groups, self.optim.param_groups):
            _copy_options(theirs, ours)
        if parameters_as_bucket_view:
            self._build_views()

    # -- shares --------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own; they are dealt out among the ranks.

        Args:
            param_group: "params" and options, the same on all ranks.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for param in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            rank = self._loads.index(min(self._loads))
            self._owner[param] = rank
            self._loads[rank] += param.numel() if param.requires_grad else 0
        if self.optim is not None:
            [share] = self._shares([group])
            self.optim.add_param_group(share)
            _copy_options(self.optim.param_groups[-1], group)
            if self.parameters_as_bucket_view:
                self._build_views()

    def _shares(self, param_groups: list[dict[str, Any]], rank: int | None = None) -> list[dict]:
        """The groups with the parameters of one rank alone: this one if it is left out."""
        rank = self.rank if rank is None else rank
        return [
            {**group, "params": [p for p in group["params"] if self._owner[p] == rank]}
            for group in param_groups
        ]

    def _of_kind(self) -> dict[Any, list[Tensor]]:
        """(rank, dtype, device) -> parameters."""
        found: dict[Any, list[Tensor]] = {}
        for group in self.param_groups:
            for param in group["params"]:
                key = (self._owner[param], param.dtype, param.device)
                found.setdefault(key, []).append(param)
        return dict(sorted(found.items(), key=lambda item: item[0][0]))

    def _build_views(self) -> None:
        with no_grad():
            for key, params in self._of_kind().items():
                flat = self._flats[key] = ops.cat([p.detach().reshape(-1) for p in params])
                for param, part in zip(params, flat.split([p.numel() for p in params])):
                    param.data = part.view(param.shape)

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update the parameters of this rank's share, and take over those of the others.

        Args:
            closure: computes the loss and its gradients again, and returns it.
            kwargs: for the step of the optimizer of the share.

        Returns:
            What the closure returned.
        """
        Join.notify_join_context(self)
        for ours, theirs in zip(self.param_groups, self.optim.param_groups):
            _copy_options(ours, theirs)  # a scheduler may have changed them
        if closure is not None:
            loss = self.optim.step(closure=closure, **kwargs)
        else:
            loss = self.optim.step(**kwargs)
        self._send_shares()
        for ours, theirs in zip(self.param_groups, self.optim.param_groups):
            _copy_options(theirs, ours)
        return loss

    def _send_shares(self) -> None:
        """Every rank broadcasts its parameters; all of these are under way at the same time."""
        pending = []
        with no_grad():
            for key, params in self._of_kind().items():
                flat = self._flats.get(key)
                if flat is None:
                    flat = ops.cat([p.detach().reshape(-1) for p in params])
                work = collectives.broadcast(
                    flat, group=self.process_group, group_src=key[0], async_op=True
                )
                pending.append((key, params, flat, work))
            for key, params, flat, work in pending:
                work.wait()
                if key in self._flats or key[0] == self.rank:
                    continue
                for param, part in zip(params, flat.split([p.numel() for p in params])):
                    param.copy_(part.view(param.shape))

    # -- saving --------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all shares on one rank, so that `state_dict` can be called there. All ranks call it.

        Args:
            to: the rank.

        Example::

            optimizer.consolidate_state_dict(to=0)
        """
        here = self.rank == to
        collected: list[Any] | None = [None] * self.world_size if here else None
        state = {} if self.optim is None else self.optim.state_dict()["state"]
        gather_object(_on_cpu(state), collected, group=self.process_group, group_dst=to)
        self._collected = collected

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as the optimizer would give it in one process.

        It can be loaded by an optimizer in any number of processes.

        Raises:
            RuntimeError: `consolidate_state_dict` was not called for this rank.
        """
        if self._collected is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        saved = super().state_dict()
        number = self._numbers()
        saved["state"] = {
            number[param]: state[i]
            for rank, state in enumerate(self._collected)
            for i, param in enumerate(_params(self._shares(self.param_groups, rank)))
            if i in state
        }
        saved["state"] = dict(sorted(saved["state"].items()))
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, of any number of ranks; each keeps the state of its share.

        Args:
            state_dict: of this class, or of `optimizer_class` in one process.

        Raises:
            ValueError: the numbers of groups or of parameters differ.
        """
        number, state = self._numbers(), state_dict["state"]
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        mine = _params(self._shares(self.param_groups))
        local = self.optim.state_dict()
        local["state"] = {i: state[number[p]] for i, p in enumerate(mine) if number[p] in state}
        self.optim.load_state_dict(local)
        for ours, theirs in zip(self.param_groups, self.optim.param_groups):
            _copy_options(ours, theirs)

    def _numbers(self) -> dict[Tensor, int]:
        """The number of each parameter in a state_dict."""
        return {param: i for i, param in enumerate(_params(self.param_groups))}

    # -- joining -------------------------------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does for this optimizer while others still have inputs: it updates its share.

        Args:
            kwargs: not used.
        """
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters.

        Returns:
            A device: tensors that `Join` reduces are there.
        """
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group that this was made with.

        Returns:
            A ProcessGroup.
        """
        return self.process_group


def _params(param_groups: list[dict[str, Any]]) -> list[Tensor]:
    return [param for group in param_groups for param in group["params"]]


def _copy_options(source: dict[str, Any], target: dict[str, Any]) -> None:
    target.update((key, value) for key, value in source.items() if key != "params")


def _on_cpu(value: Any) -> Any:
    """Nested state with all its tensors on the CPU: the collecting rank may have another device."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(entry) for key, entry in value.items()}
    return value
