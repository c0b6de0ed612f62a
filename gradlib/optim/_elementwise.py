"""The base of optimizers whose update works element by element.

An optimizer gives one `rule`. On arrays the code that `_rules` makes of it is applied in place, to many tensors at once
or in cache-sized pieces (`_batches`); groups that are `differentiable` or `capturable` run the rule itself on Tensors;
and CUDA kernels stand in for some rules (`_fused`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad, set_grad_enabled
from ..operators import public as ops
from ..tape import dtypes
from ..tape.lazy import plainly
from ..tape.modes import shared
from ..tape.recording import inspected
from ..tape.sparse import is_sparse
from ..tape.storage import before_write, bump
from ..tape.tensor import Tensor
from ._batches import Plan, device_of
from ._checks import check_flags, check_fused
from ._fused import fused_step
from ._rules import ON_TENSORS, Program
from .optimizer import Optimizer, evaluated

_programs: dict[tuple, Program] = {}
_NOBODY: set[int] = set()
_PLAIN = frozenset({float, bool, int, type(None)})
_NUMBERS = (Tensor, np.generic)


class ElementwiseOptimizer(Optimizer):
    """An optimizer that is an elementwise rule; subclasses say which."""

    # --- what a subclass gives ------------------------------------------------------------

    # what a capturable step needs on the device, as errors say it
    on_device = "params and state_steps"
    foreach_records = False  # whether `foreach` and `differentiable` go together
    kernel: str | None = None  # what does the same on CUDA, in kernels/optim.cu
    # settings that have these values in the first step of a parameter
    beginning: dict[str, Any] = {}
    # the state tensors that have the shape of the parameter
    state_names: tuple[str, ...] = ()

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        check_flags(defaults)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Names of the state tensors that have the shape of the parameter."""
        return self.state_names

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """Names and initial values of the state tensors of shape []."""
        return {"step": 0.0}

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """The first value of a slot."""
        return ops.zeros_like(p)

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """What `rule` knows as `h`, from the settings `o` and the counters: numbers, or tensors of shape [].

        counters: the state tensors of shape [], the step already counted; changed values of others are put there.
        """
        raise NotImplementedError

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(what is subtracted from the parameter p, the new values of the slots `s`), from the gradient g.

        It is written in operators and functions of F: sqrt, abs, maximum, clamp, where; it may branch on
        constants that are bool.
        """
        raise NotImplementedError

    # --- the rule with what all optimizers share ------------------------------------------

    def all_constants(self, o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Count the step; the `constants`, and those of maximisation and weight decay."""
        if "step" in counters:
            counters["step"] = number(counters["step"]) + 1
        h = self.constants(o, counters)
        decay, decoupled = o.get("weight_decay", 0), bool(o.get("decoupled_weight_decay"))
        if decoupled and _given(decay):
            decay = o["lr"] * decay
        given = _given(decay)
        h["maximize"], h["decay"] = bool(o.get("maximize")), decay
        h["coupled"], h["decoupled"] = given and not decoupled, given and decoupled
        return h

    def whole_rule(
        self, F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """`rule`, with maximisation and weight decay around it."""
        if h.maximize:
            g = -g
        if h.coupled:
            g = g + p * h.decay
        change, new = self.rule(F, h, p, g, s)
        return (change + p * h.decay if h.decoupled else change), new

    def _plain(self, group: dict[str, Any]) -> dict[str, Any]:
        """The settings of a group for steps on arrays: tensors and NumPy's numbers become Python's."""
        found = {}
        for name in self.defaults:
            value = group.get(name)
            if value.__class__ in _PLAIN:
                continue
            if isinstance(value, _NUMBERS):
                found[name] = float(value)
            elif isinstance(value, (tuple, list)) and any([isinstance(v, _NUMBERS) for v in value]):
                found[name] = tuple(map(float, value))
        return group | found if found else group

    def program(self, names: tuple[str, ...], h: dict[str, Any]) -> Program:
        """The rule as code for arrays, for constants like these."""
        key = (type(self), names, tuple([v for v in h.values() if v.__class__ is bool]))
        found = _programs.get(key)
        if found is None:
            found = _programs[key] = Program(self.whole_rule, names, h)
        return found

    # --- the step -------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            What the closure returned, or None.
        """
        loss = evaluated(closure)
        if shared.lazy:
            with plainly([p for group in self.param_groups for p in group["params"]]):
                self._update()
        else:
            self._update()
        return loss

    step.evaluates_first = True  # type: ignore[attr-defined]  # once, before the update

    def _update(self) -> None:
        """`step` after the closure."""
        if shared.cuda is not None and shared.cuda.held is not None:
            self._check_capture()
        plans = self._valid_plans()
        for i, group in enumerate(self.param_groups):
            params = [p for p in group["params"] if p._grad is not None]
            if shared.sparse is not None and any([is_sparse(p._grad) for p in params]):
                params = self._step_on_sparse(group, params)
            if not params:
                continue
            begin = self._beginners(group, params)
            on_device = params[0]._array.__class__ is not np.ndarray
            if on_device and fused_step(self, group, params, begin):
                continue
            if group.get("differentiable") or group.get("capturable"):
                self._check_flags(group, params)
                self._step_on_tensors(group, params, begin)
                continue
            plan = plans.get(i)
            if plan is None or not plan.fits(params):
                if group.get("fused"):
                    for p in params:
                        check_fused(p)
                repacks = 0 if plan is None else plan.repacks + 1
                plan = plans[i] = Plan(self, group, params, repacks, begin)
            if shared.active:
                for p in params:
                    before_write(p)
            settings = self._plain(group)
            for batch in plan.batches:
                if batch.on_cpu:
                    batch.run(self, settings)
                else:
                    with device_of(batch.params[0]):
                        batch.run(self, settings)
            for p in params:
                if p._ver.__class__ is int:
                    p._ver += 1
                else:
                    bump(p)
        self._state_seen = list(self.state.values())
        if shared.cuda is not None and shared.cuda.held is not None:
            self._keep(shared.cuda.held)

    def _keep(self, held: list[Any]) -> None:
        """Let a graph that is captured have what this step touches, whatever becomes of the optimizer."""
        held.append(list(self._plans.values()))  # their buffers
        for group in self.param_groups:
            touched = [v for v in group.values() if isinstance(v, Tensor)]
            for p in group["params"]:
                if p._grad is not None:
                    state = self.state[p].values() if p in self.state else ()
                    touched += [p, p._grad, *(v for v in state if isinstance(v, Tensor))]
            held.append([t._array for t in touched])

    def _step_on_sparse(self, group: dict[str, Any], params: list[Tensor]) -> list[Tensor]:
        """Update the parameters with sparse gradients; returns the others."""
        with no_grad():
            for p in params:
                grad: Any = p._grad
                if is_sparse(grad):
                    with device_of(p):
                        self.sparse_update(group, p, -grad if group.get("maximize") else grad)
        return [p for p in params if not is_sparse(p._grad)]

    def sparse_update(self, group: dict[str, Any], p: Tensor, grad: Tensor) -> None:
        """The step of a parameter with a sparse gradient, for optimizers that have one.

        Raises:
            RuntimeError: this optimizer has none.
        """
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam instead, or use "
            "sparse=False of the embedding"
        )

    def _check_flags(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """AssertionError for flags of a group that do not go together, or not with its parameters."""
        if group.get("foreach") and group.get("differentiable") and not self.foreach_records:
            raise AssertionError("_foreach ops don't support autograd")
        if not group.get("capturable") or group.get("fused"):
            return
        if not all([p.is_cuda for p in params]):
            if inspected():
                return
            raise AssertionError(
                f"If capturable=True, {self.on_device} must be on supported devices: ['cuda']."
            )

    def _check_capture(self) -> None:
        """RuntimeError for a step that a CUDA graph would repeat with the counters of this one."""
        for group in self.param_groups:
            if not group.get("capturable") and self.scalars(group):
                raise RuntimeError(
                    f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} but "
                    "param_groups' capturable is False."
                )

    def _valid_plans(self) -> dict[int, Plan]:
        """The plans of earlier steps, unless somebody has replaced the state."""
        seen, now = self.__dict__.get("_state_seen"), self.state.values()
        if seen is None or len(seen) != len(now) or not all(map(is_, seen, now)):
            self._plans: dict[int, Plan] = {}
        return self._plans

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._state_seen = None
        for values in self.state.values():  # counters were plain numbers once
            for name in ("step", "mu_product", "eta", "mu"):
                if name in values and not isinstance(values[name], Tensor):
                    values[name] = scalar_tensor(float(values[name]))

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, with everything in it that this group needs."""
        if not self.slots(group) and not self.scalars(group):
            return {}
        state = self.state[p]
        for name, value in self.scalars(group).items():
            if name not in state:
                state[name] = scalar_tensor(value, p if group.get("capturable") else None)
        for name in self.slots(group):
            if state.get(name) is None:
                with no_grad():
                    state[name] = self.initial(name, p, group)
        return state

    def _beginners(self, group: dict[str, Any], params: list[Tensor]) -> set[int]:
        """The ids of the parameters whose first step this is, if that has settings of its own."""
        if not self.beginning or all(group[k] == value for k, value in self.beginning.items()):
            return _NOBODY
        names = self.slots(group)
        return {id(p) for p in params if any(self.state[p].get(name) is None for name in names)}

    def host_counters(self, state: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        """The arrays of the counters, brought to the host."""
        for name in self.scalars(group):
            if not isinstance(state[name]._array, np.ndarray):
                state[name] = state[name].cpu()
        return {name: state[name]._array for name in self.scalars(group)}

    def phase(self, p: Tensor, group: dict[str, Any]) -> tuple:
        """Parameters with the same phase have the same constants."""
        return tuple(float(self.state[p][name]) for name in self.scalars(group))

    def _step_on_tensors(
        self, group: dict[str, Any], params: list[Tensor], begin: set[int]
    ) -> None:
        differentiable, capturable = bool(group.get("differentiable")), group.get("capturable")
        names = self.slots(group)
        with set_grad_enabled(differentiable):
            for p in params:
                o = group | self.beginning if id(p) in begin else group
                state = self.init_state(p, group)
                if capturable:
                    counters = {name: state[name] for name in self.scalars(group)}
                else:
                    counters = self.host_counters(state, group)
                h = SimpleNamespace(**self.all_constants(o, counters))
                slots = {name: _real(state[name]) for name in names}
                old = p.clone() if differentiable else p  # backward may need what p was
                change, new = self.whole_rule(ON_TENSORS, h, _real(old), _real(p.grad), slots)
                back = ops.view_as_complex if p.is_complex() else lambda x: x
                change, new = back(change), {name: back(value) for name, value in new.items()}
                for name, value in counters.items():
                    if isinstance(value, Tensor):
                        state[name].copy_(value)
                    else:
                        state[name]._array[...] = value
                if differentiable:  # the old values may be saved for backward
                    state.update(new)
                else:
                    for name, value in new.items():
                        state[name].copy_(value)
                p.copy_(old - change)


def number(counter: Any) -> Any:
    """A counter for arithmetic: a tensor as it is, else a Python number."""
    return counter if isinstance(counter, Tensor) else float(counter)


def _given(value: Any) -> bool:
    return isinstance(value, Tensor) or value != 0


def _real(x: Any) -> Any:
    """Complex numbers as pairs of real ones."""
    return ops.view_as_real(x) if x.is_complex() else x


def scalar_tensor(value: float, like: Tensor | None = None) -> Tensor:
    """A state tensor of shape []: on the device of `like`, or on the CPU, where it is one for all of a batch."""
    wide = dtypes.get_default_dtype() == dtypes.float64
    if like is None:
        return Tensor._make(np.array(value, np.float64 if wide else np.float32))
    return ops.tensor(value, dtype=dtypes.float64 if wide else dtypes.float32, device=like.device)


def times(counter: Any, factor: Any) -> Any:
    """A counter times a number, rounded as its state tensor rounds it."""
    if isinstance(counter, Tensor):
        return counter * factor
    wide = np.float64 if counter.dtype.itemsize == 8 else np.float32
    return float((wide(counter) * wide(factor)).astype(counter.dtype))


def round_to_state(value: Any) -> Any:
    """A number as a new state tensor of shape [] would keep it; a tensor is one."""
    if isinstance(value, Tensor) or dtypes.get_default_dtype() == dtypes.float64:
        return value
    return float(np.float32(value))
