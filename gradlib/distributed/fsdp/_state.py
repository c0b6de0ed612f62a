"""When the parameters of a fully sharded module are whole: around its forward, and around its backward."""

from __future__ import annotations

from typing import Any

from ...autograd.function import Function
from ...tape import engine
from ...tape.modes import is_grad_enabled, state
from ...tape.pytree import flatten, tree_map, unflatten
from ...tape.tensor import Tensor
from ._group import ParamGroup
from ._policies import MixedPrecisionPolicy


class Pass:
    """What the modules below one root share: the order of forward, and the backward that runs."""

    def __init__(self) -> None:
        self.order: list[ShardState] = []  # as forward left them
        self.states: list[ShardState] = []
        self.queued = False  # whether the end of the running backward is taken care of
        self.last_backward = True
        self.reducing: ShardState | None = None  # the one whose sums are under way


class ShardState:
    """Of a fully sharded module, or of several that share a group.

    Args:
        modules: them.
        group: their parameters; None if they have none of their own.
        device: where inputs go.
        precision: in which dtypes they compute.
        reshard_after_forward: whether parameters are freed between forward and backward; None for all but the root.
    """

    def __init__(
        self,
        modules: list[Any],
        group: ParamGroup | None,
        device: Any,
        precision: MixedPrecisionPolicy,
        reshard_after_forward: bool | None,
    ) -> None:
        self.modules, self.group, self.device, self.precision = modules, group, device, precision
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = self.unshard_in_backward = True
        self.common: Pass | None = None
        self.is_root = False
        self.in_backward = False
        self.ran: set[int] = set()
        self.forward_prefetch: list[ShardState] = []
        self.backward_prefetch: list[ShardState] | None = None
        if group is not None:
            group.on_grads = self._after_backward
        for module in modules:
            module.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self._after_forward)
            module.register_state_dict_pre_hook(lambda *_: self.reshard())
            module.register_load_state_dict_pre_hook(lambda *_: self.reshard())

    def _begin(self) -> None:
        """The first module that runs is the root of those below it."""
        if self.common is not None:
            return
        common, self.is_root = Pass(), True
        for module in self.modules:
            for below in module.modules():
                found = getattr(below, "_fsdp_state", None)
                if found is not None and found not in common.states:
                    if found is not self:
                        found.is_root = False
                    found.common = common
                    common.states.append(found)
        if self.reshard_after_forward is None:
            self.reshard_after_forward = False
        for each in common.states:
            if each.reshard_after_forward is None:
                each.reshard_after_forward = True

    def reshard(self) -> None:
        """Free the whole parameters."""
        if self.group is not None:
            self.group.reshard()

    # -- forward -------------------------------------------------------------------------------------------------------

    def _before_forward(self, module: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        self._begin()
        assert self.common is not None
        if self.common.queued and state.current_task is None:
            forget(self.common)
        if self.in_backward:  # recomputed for backward: the parameters are there
            return self._entered(*self._cast(args, kwargs))
        if self.is_root:
            self.common.order.clear()
        if self.group is not None:
            self.group.unshard()
            self.group.wait()
        for other in self.forward_prefetch:
            if other.group is not None:
                other.group.unshard()
        return self._entered(*self._cast(args, kwargs))

    def _entered(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Note when the gradients of the inputs are there: frozen parameters are needed until then."""
        if not self._has_frozen() or not is_grad_enabled():
            return args, kwargs
        leaves, tree = flatten((args, kwargs))
        where = [i for i, v in enumerate(leaves) if isinstance(v, Tensor) and v.requires_grad]
        if where:
            passed = Entered.apply(self, *[leaves[i] for i in where])
            for i, value in zip(where, passed if isinstance(passed, tuple) else (passed,)):
                leaves[i] = value
        return unflatten(leaves, tree)

    def _has_frozen(self) -> bool:
        return self.group is not None and not all(p.requires_grad for p in self.group.params)

    def _left(self) -> None:
        """The gradients of the inputs are there: the module is done."""
        if self.reshard_after_backward and not self.in_backward:
            self.reshard()

    def _cast(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        if self.is_root and self.device.type == "cuda":
            args, kwargs = tree_map(self._here, (args, kwargs))
        dtype = self.precision.param_dtype
        if dtype is None or not self.precision.cast_forward_inputs:
            return args, kwargs
        return cast((args, kwargs), dtype)

    def _here(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, Tensor) else value

    def _after_forward(self, module: Any, args: tuple, output: Any) -> Any:
        if self.precision.output_dtype is not None:
            output = cast(output, self.precision.output_dtype)
        if self.in_backward:
            return output
        self.ran.add(id(module))
        if len(self.ran) == len(self.modules):
            self.ran.clear()
            assert self.common is not None
            self.common.order.append(self)
            if self.group is not None and self.reshard_after_forward:
                self.group.reshard()
        for value in tensors_in(output):
            if value.requires_grad:
                value.register_hook(self._before_backward)
        return output

    # -- backward ------------------------------------------------------------------------------------------------------

    def _before_backward(self, grad: Any) -> None:
        """The gradient of an output is there: the nodes of the module are next."""
        common = self.common
        assert common is not None
        if not common.queued:
            common.queued = True
            engine.queue_callback(lambda: finish(common))
        if self.in_backward:
            return
        self.in_backward = True
        group = self.group
        if group is not None and (self.unshard_in_backward or not group.whole):
            group.unshard()
            group.wait()
        for other in self._next_in_backward():
            if other.group is not None and not other.in_backward:
                other.group.unshard()

    def _next_in_backward(self) -> list[ShardState]:
        if self.backward_prefetch is not None:
            return self.backward_prefetch
        order = self.common.order if self.common is not None else []
        place = order.index(self) if self in order else 0
        return order[place - 1 : place] if place else []

    def _after_backward(self) -> None:
        """All parameters have their gradients."""
        group, common = self.group, self.common
        assert group is not None and common is not None
        before = common.reducing
        if before is not None and before.group is not None and before is not self:
            before.group.finish()
        group.reduce()
        common.reducing = self
        if self.reshard_after_backward and not self._has_frozen():
            group.reshard()
        self.in_backward = False


class Entered(Function):
    """Nothing, between a module and its inputs; it tells the module when their gradients are there."""

    @staticmethod
    def forward(ctx: Any, of: ShardState, *tensors: Tensor) -> Any:
        ctx.of = of
        return tuple([t.view_as(t) for t in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.of._left()
        return None, *grads


def finish(common: Pass) -> None:
    """The end of a backward: what has not got all its gradients is summed as it is, and all sums are awaited."""
    common.queued = False
    for each in reversed(common.order or common.states):
        if each.in_backward and each.group is not None:
            each._after_backward()
        each.in_backward = False
    for each in common.states:
        if each.group is not None:
            if each.in_backward:
                each._after_backward()
            elif each.reshard_after_backward and (each.group.gathering or each._has_frozen()):
                each.group.reshard()  # also what was gathered for a module that backward did not reach
            each.group.finish()
        each.in_backward = False
    common.reducing = None


def forget(common: Pass) -> None:
    """A backward has failed and was given up: what it left is no part of the next one."""
    common.queued, common.reducing = False, None
    for each in common.states:
        each.in_backward = False
        group = each.group
        if group is not None:
            group.arrived.clear()
            group.reducing.clear()
            for p in group.params if group.sync else ():
                if p.whole is not None:
                    p.whole._grad = None


def cast(values: Any, dtype: Any) -> Any:
    """Nested values, the floating tensors in them in another dtype."""

    def one(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(dtype)
        return value

    return tree_map(one, values)


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested values, also in the fields of objects that are dataclasses."""
    found = []
    for leaf in flatten(value)[0]:
        if isinstance(leaf, Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dataclass_fields__"):
            found += tensors_in([getattr(leaf, name) for name in leaf.__dataclass_fields__])
        elif isinstance(leaf, dict):
            found += tensors_in(list(leaf.values()))
    return found
