"""The machinery of optimizers whose update works element by element.

An optimizer gives one `update` rule on flat raw arrays. It is applied

- to a large tensor in cache-sized pieces of its own memory,
- to all small tensors of one kind at once: their gradients are gathered into one flat array,
  their state lives in flat arrays of which the tensors in `optimizer.state` are views, and only
  the final subtraction happens per tensor; so a hundred small tensors cost little more than one,
- to tensors of half precision or with unusual strides through float32 or contiguous copies.

`differentiable` and `capturable` groups use `formula` instead, the same rule on Tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from operator import is_
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradlib.autograd.grad_mode import enable_grad, no_grad, set_grad_enabled
from gradlib.operators import public as ops
from gradlib.optim._checks import check_fused
from gradlib.optim._fused import fused_step
from gradlib.optim.optimizer import Optimizer
from gradlib.tape import dtypes
from gradlib.tape.arrays import backend_of
from gradlib.tape.lazy import plainly
from gradlib.tape.modes import shared
from gradlib.tape.recording import inspected
from gradlib.tape.storage import before_write
from gradlib.tape.tensor import Tensor, bump_version

PACK_LIMIT = 1 << 15  # elements: larger tensors are updated in their own memory
CHUNK = 1 << 18  # bytes of an array that a rule works on at a time: all its arrays stay in cache
MAX_REPACKS = 16  # a set of parameters that changes all the time is not worth packing


class ElementwiseOptimizer(Optimizer):
    """An optimizer that is an elementwise rule; subclasses say which."""

    # --- what a subclass gives ------------------------------------------------------------

    needs_param = False  # whether `update` reads the parameter, beyond weight decay
    on_device = (
        "params and state_steps"  # what a capturable step needs on the device, as errors say it
    )
    foreach_records = False  # whether `foreach` and `differentiable` go together
    fused_rule: str | None = None  # the rule of gradlib.optim._fused that does the same on CUDA

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Names of the state tensors that have the shape of the parameter."""
        raise NotImplementedError

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """Names and initial values of the state tensors of shape []."""
        return {"step": 0.0}

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """The first value of a slot."""
        return ops.zeros_like(p)

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """(new scalars, constants of this step's update); `scalars` are NumPy arrays []."""
        raise NotImplementedError

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """Update the slots in place and write to `out` what is to be subtracted from p.

        All arrays are flat and of one length; `g` and `p` must not be written; p is None unless
        `needs_param`.
        """
        raise NotImplementedError

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The same step on Tensors: (new parameter, new state)."""
        raise NotImplementedError

    def decay(self, group: dict[str, Any]) -> tuple[float, float]:
        """(c added to the gradient as c * p, c subtracted from p as c * p): coupled or decoupled."""
        decay = float(group["weight_decay"])
        if group.get("decoupled_weight_decay"):
            return 0.0, (float(group["lr"]) * decay if decay != 0 else 0.0)
        return decay, 0.0

    # --- the step -------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            What the closure returned, or None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if shared.lazy:
            with plainly([p for group in self.param_groups for p in group["params"]]):
                self._update()
        else:
            self._update()
        return loss

    def _update(self) -> None:
        """`step` after the closure."""
        if shared.cuda is not None and shared.cuda.held is not None:
            self._check_capture()
        plans = self._valid_plans()
        for i, group in enumerate(self.param_groups):
            params = [p for p in group["params"] if p._grad is not None]
            if not params:
                continue
            if params[0]._array.__class__ is not np.ndarray and fused_step(self, group, params):
                continue
            if group.get("differentiable") or group.get("capturable"):
                self._check_flags(group, params)
                self._step_on_tensors(group, params)
                continue
            plan = plans.get(i)
            if plan is None or not plan.fits(params):
                if group.get("fused"):
                    for p in params:
                        check_fused(p)
                repacks = 0 if plan is None else plan.repacks + 1
                plan = plans[i] = Plan(self, group, params, repacks)
            if shared.active:
                for p in params:
                    before_write(p)
            for batch in plan.batches:
                if batch.on_cpu:
                    batch.run(self, group)
                else:
                    with _device_of(batch.params[0]):
                        batch.run(self, group)
            for p in params:
                bump_version(p)
        self._state_seen = list(self.state.values())

    def _check_flags(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """AssertionError for flags of a group that do not go together, or not with its parameters."""
        if group.get("foreach") and group.get("differentiable") and not self.foreach_records:
            raise AssertionError("_foreach ops don't support autograd")
        if not group.get("capturable") or group.get("fused"):
            return
        if not all([p.is_cuda for p in params]):
            if inspected():  # a dry run asks what the step would do on a CUDA device
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

    def phase(self, p: Tensor, group: dict[str, Any]) -> tuple:
        """Parameters with the same phase have the same constants in `update`."""
        return tuple(float(self.state[p][name]) for name in self.scalars(group))

    def _step_on_tensors(self, group: dict[str, Any], params: list[Tensor]) -> None:
        differentiable = bool(group.get("differentiable"))
        with set_grad_enabled(differentiable):
            added, subtracted = self.tensor_decay(group)
            for p in params:
                s = self.init_state(p, group)
                g = p.grad
                assert g is not None
                if group.get("maximize"):
                    g = -g
                if _given(added):
                    g = g + p * added
                base = p * (1 - subtracted) if _given(subtracted) else p
                new, changed = self._formula_of_reals(group, base, g, s)
                if differentiable:  # the old values may be saved for backward
                    s.update(changed)
                else:
                    for name, value in changed.items():
                        s[name].copy_(value)
                p.copy_(new)

    def _formula_of_reals(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`formula`; complex numbers are pairs of real ones."""
        if not p.is_complex():
            return self.formula(group, p, g, s)
        pairs = {k: ops.view_as_real(v) if v.is_complex() else v for k, v in s.items()}
        p, g = ops.view_as_real(p), ops.view_as_real(g)
        new, changed = self.formula(group, p, g, pairs)
        for k in changed:
            if s[k].is_complex():
                changed[k] = ops.view_as_complex(changed[k])
        return ops.view_as_complex(new), changed

    def tensor_decay(self, group: dict[str, Any]) -> tuple[Any, Any]:
        """`decay` without turning settings that are tensors into numbers."""
        decay = group["weight_decay"]
        if group.get("decoupled_weight_decay"):
            return 0.0, (group["lr"] * decay if decay != 0 else 0.0)
        return decay, 0.0


def _given(value: Any) -> bool:
    return isinstance(value, Tensor) or value != 0


def scalar_tensor(value: float, like: Tensor | None = None) -> Tensor:
    """A state tensor of shape []: on the CPU, or on the device of `like`."""
    wide = dtypes.get_default_dtype() == dtypes.float64
    dtype = dtypes.float64 if wide else dtypes.float32
    return ops.tensor(value, dtype=dtype, device=None if like is None else like.device)


def round_to_state(value: float) -> float:
    """A number as a new state tensor of shape [] would keep it."""
    wide = dtypes.get_default_dtype() == dtypes.float64
    return value if wide else float(np.float32(value))


class Plan:
    """How the parameters of one group are updated, as long as they stay the same."""

    __slots__ = ("arrays", "batches", "params", "repacks")

    def __init__(
        self,
        optimizer: ElementwiseOptimizer,
        group: dict[str, Any],
        params: list[Tensor],
        repacks: int,
    ):
        self.params, self.repacks = params, repacks
        self.arrays = [p._array for p in params]
        self.batches: list[Any] = []
        small: dict[Any, list[Tensor]] = {}
        for p in params:
            state = optimizer.init_state(p, group)
            a = p._array
            if a.dtype.itemsize == 2:
                with _device_of(p):
                    self.batches.append(CopiedBatch(optimizer, group, p, np.dtype(np.float32)))
            elif a.size <= PACK_LIMIT and repacks <= MAX_REPACKS:
                key = (a.dtype, str(p.device), optimizer.phase(p, group))
                small.setdefault(key, []).append(p)
            else:
                with _device_of(p):
                    self.batches.append(_single(optimizer, group, p, state))
        for members in small.values():
            with _device_of(members[0]):
                if len(members) == 1:
                    (p,) = members
                    state = optimizer.init_state(p, group)
                    self.batches.append(_single(optimizer, group, p, state))
                else:
                    self.batches.append(PackedBatch(optimizer, group, members))

    def fits(self, params: list[Tensor]) -> bool:
        """Whether parameters, their arrays and their state are those of the plan."""
        return (
            len(params) == len(self.params)
            and all(map(is_, params, self.params))
            and all(map(is_, [p._array for p in params], self.arrays))
            and all(batch.intact() for batch in self.batches)
        )


def _device_of(p: Tensor) -> Any:
    """A context manager in which the device of a parameter is current: kernels run there."""
    a = p._array
    there = None if isinstance(a, np.ndarray) else shared.cuda.elsewhere(a)
    return contextlib.nullcontext() if there is None else there


def _single(
    optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor, state: dict[str, Any]
) -> Any:
    arrays = [p._array, *(state[name]._array for name in optimizer.slots(group))]
    if all(a.flags.c_contiguous and a.dtype == p._array.dtype for a in arrays):
        return DirectBatch(optimizer, group, p)
    return CopiedBatch(optimizer, group, p, p._array.dtype)


class Batch:
    """Parameters that are updated with the same constants."""

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor]
    ):
        self.params: list[Any] = params
        self.states = [optimizer.init_state(p, group) for p in params]
        self.xp = backend_of(params[0]._array).xp
        self.on_cpu = isinstance(params[0]._array, np.ndarray)
        self.names = optimizer.slots(group)
        self.scalar_names = tuple(optimizer.scalars(group))
        for state in self.states:
            for name in self.scalar_names:
                if not isinstance(state[name]._array, np.ndarray):
                    state[name] = state[name].cpu()
        self.complex = params[0]._array.dtype.kind == "c"

    def constants(self, optimizer: ElementwiseOptimizer, group: dict[str, Any]) -> Any:
        """Count the step; the constants of `update`."""
        first = self.states[0]
        scalars = {name: first[name]._array for name in self.scalar_names}
        new, h = optimizer.advance(group, scalars)
        self.set_scalars(new)
        h.added, h.subtracted = optimizer.decay(group)
        h.maximize = bool(group.get("maximize"))
        h.needs_param = optimizer.needs_param or h.added != 0 or h.subtracted != 0
        return h

    def set_scalars(self, new: dict[str, float]) -> None:
        for name, value in new.items():
            for state in self.states:
                state[name]._array[...] = value

    def real(self, array: Any) -> Any:
        """Complex numbers as pairs: a flat array of twice the length."""
        return array.view(array.real.dtype) if self.complex else array

    def apply(
        self,
        rule: Callable,
        h: Any,
        p: Any,
        g: Any,
        slots: list[Any],
        out: Any,
        spare: tuple[Any, Any],
    ) -> None:
        """`update`, with maximisation and weight decay around it."""
        xp = self.xp
        changed, tmp = spare
        if h.maximize:
            g = xp.negative(g, changed)
        if h.added:
            xp.multiply(p, h.added, tmp)
            g = xp.add(g, tmp, changed)
        rule(xp, h, p, g, slots, out, tmp)
        if h.subtracted:
            xp.multiply(p, h.subtracted, tmp)
            xp.add(out, tmp, out)

    def pieces(self, n: int, dtype: Any) -> list[tuple[int, int]]:
        """(begin, end) of what `update` works on at a time."""
        size = max(1, CHUNK // dtype.itemsize) if self.on_cpu else max(1, n)
        return [(i, min(i + size, n)) for i in range(0, n, size)]


class DirectBatch(Batch):
    """One contiguous tensor, updated in its own memory piece by piece."""

    def __init__(self, optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor):
        super().__init__(optimizer, group, [p])
        self.p = self.real(p._array.reshape(-1))
        self.given = [self.states[0][name]._array for name in self.names]
        self.flat = [self.real(a.reshape(-1)) for a in self.given]

    def intact(self) -> bool:
        state = self.states[0]
        return all(state[name]._array is a for name, a in zip(self.names, self.given))

    def run(self, optimizer: ElementwiseOptimizer, group: dict[str, Any]) -> None:
        h = self.constants(optimizer, group)
        xp, p, rule = self.xp, self.p, optimizer.update
        g = self.real(xp.ascontiguousarray(self.params[0]._grad._array).reshape(-1))
        pieces = self.pieces(p.size, p.dtype)
        size = max((hi - lo for lo, hi in pieces), default=0)
        out, changed, tmp = (xp.empty(size, p.dtype) for _ in range(3))
        for lo, hi in pieces:
            n = hi - lo
            here = p[lo:hi]
            slots = [a[lo:hi] for a in self.flat]
            self.apply(rule, h, here, g[lo:hi], slots, out[:n], (changed[:n], tmp[:n]))
            xp.subtract(here, out[:n], here)


class CopiedBatch(Batch):
    """One tensor, updated through contiguous copies in another dtype."""

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], p: Tensor, dtype: Any
    ):
        super().__init__(optimizer, group, [p])
        self.dtype = dtype

    def intact(self) -> bool:
        return True  # everything is read anew each time

    def run(self, optimizer: ElementwiseOptimizer, group: dict[str, Any]) -> None:
        h = self.constants(optimizer, group)
        xp, state = self.xp, self.states[0]
        array = self.params[0]._array

        def flat(a: Any) -> Any:
            return self.real(xp.ascontiguousarray(a).reshape(-1).astype(self.dtype))

        p, g = flat(array), flat(self.params[0]._grad._array)
        slots = [flat(state[name]._array) for name in self.names]
        out, changed, tmp = xp.empty_like(p), xp.empty_like(p), xp.empty_like(p)
        self.apply(optimizer.update, h, p, g, slots, out, (changed, tmp))
        xp.subtract(p, out, p)
        for a, values in zip((array, *(state[name]._array for name in self.names)), (p, *slots)):
            a[...] = values.view(self.dtype).reshape(a.shape).astype(a.dtype)


class PackedBatch(Batch):
    """Small tensors of one dtype, device and phase, updated as one flat array."""

    def __init__(
        self, optimizer: ElementwiseOptimizer, group: dict[str, Any], params: list[Tensor]
    ):
        super().__init__(optimizer, group, params)
        xp, dtype = self.xp, params[0]._array.dtype
        sizes = [p._array.size for p in params]
        starts = np.cumsum([0, *sizes]).tolist()
        total = starts[-1]
        self.arrays = [p._array for p in params]

        def views(flat: Any) -> list[Any]:
            return [
                flat[lo:hi].reshape(a.shape) for lo, hi, a in zip(starts, starts[1:], self.arrays)
            ]

        self.flat: dict[str, Any] = {}
        self.views: dict[str, list[Any]] = {}
        for name in self.names:
            flat = self.flat[name] = xp.empty(total, dtype)
            self.views[name] = views(flat)
            for state, view in zip(self.states, self.views[name]):
                view[...] = state[name]._array
                state[name]._array = view  # the Tensor stays the same object
        self.counters: dict[str, Any] = {}
        for name in self.scalar_names:
            old = [state[name]._array for state in self.states]
            flat = self.counters[name] = np.array(old, dtype=old[0].dtype)
            for i, state in enumerate(self.states):
                state[name]._array = flat[i, ...]
        self.g = xp.empty(total, dtype)
        self.p = xp.empty(total, dtype)
        self.out = xp.empty(total, dtype)
        self.steps = views(self.out)
        self.real_slots = [self.real(self.flat[name]) for name in self.names]
        flat = self.real(self.g)
        self.ranges = self.pieces(flat.size, flat.dtype)
        size = max((hi - lo for lo, hi in self.ranges), default=0)
        self.spare = tuple(xp.empty(size, flat.dtype) for _ in range(2))

    def intact(self) -> bool:
        return all(
            all(map(is_, [state[name]._array for state in self.states], self.views[name]))
            for name in self.names
        )

    def set_scalars(self, new: dict[str, float]) -> None:
        for name, value in new.items():
            self.counters[name].fill(value)

    def run(self, optimizer: ElementwiseOptimizer, group: dict[str, Any]) -> None:
        h = self.constants(optimizer, group)
        xp, rule = self.xp, optimizer.update
        grads = [p._grad._array for p in self.params]
        xp.concatenate(grads, None, self.g)
        if h.needs_param:
            xp.concatenate(self.arrays, None, self.p)
        p, g, out = self.real(self.p), self.real(self.g), self.real(self.out)
        for lo, hi in self.ranges:
            n = hi - lo
            slots = [a[lo:hi] for a in self.real_slots]
            spare = (self.spare[0][:n], self.spare[1][:n])
            self.apply(rule, h, p[lo:hi], g[lo:hi], slots, out[lo:hi], spare)
        subtract = xp.subtract
        for array, change in zip(self.arrays, self.steps):
            subtract(array, change, array)
