"""GradScaler: keep small gradients from vanishing in float16 by scaling the loss."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from .. import cuda
from ..operators.create.filled import full
from ..tape import dtypes
from ..tape.device import device as _Device
from ..tape.modes import NO_GRAD, Flag
from ..tape.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done for an optimizer since the last ``update``: nothing, ``unscale_``, or ``step``.

    A key of what `GradScaler` keeps for each optimizer; programs need not look at it.
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scale losses so that float16 gradients do not underflow, and skip steps whose gradients overflowed.

    A step with infinite or NaN gradients is left out and the scale is multiplied by `backoff_factor`; after
    `growth_interval` good steps in a row it is multiplied by `growth_factor`. The scale and what was found lie on the
    device; only ``step`` of an optimizer that is neither capturable nor takes `grad_scale` itself, and ``get_scale``,
    wait for it.

    Args:
        device: "cuda" or "cpu".
        init_scale: the first scale.
        growth_factor: more than 1.
        backoff_factor: less than 1.
        growth_interval: in steps.
        enabled: False makes everything here do nothing (``step`` just steps). So it is, with a warning, for "cuda"
            without a device.

    Raises:
        AssertionError: a factor on the wrong side of 1.

    Source: P. Micikevicius et al., Mixed precision training, ICLR 2018.

    Example:
        >>> optimizer = gradlib.optim.SGD(model.parameters(), lr=0.1)
        >>> scaler = gradlib.amp.GradScaler("cpu")
        >>> with gradlib.autocast("cpu", gradlib.float16):
        ...     loss = loss_fn(model(x), y)
        >>> scaler.scale(loss).backward()
        >>> scaler.unscale_(optimizer)  # only to clip or look at gradients
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> scaler.get_scale()
        65536.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        self._device = _Device(device).type
        self._enabled = enabled and self._usable()
        if self._enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None  # float32, shape []
        self._growth_tracker: Tensor | None = None  # int32, shape []: steps without overflow
        self._per_optimizer_states: Any = defaultdict(_fresh)

    def _usable(self) -> bool:

        if self._device == "cuda" and not cuda.is_available():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=3,
            )
            return False
        return True

    # -- scaling -----------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply losses by the scale.

        Args:
            outputs: a Tensor, or Tensors in a (nested) list or tuple.

        Returns:
            The same form; `outputs` itself if disabled.

        Raises:
            ValueError: something else is given.

        Example:
            >>> gradlib.amp.GradScaler("cpu", init_scale=8.0).scale(gradlib.tensor(2.0)).item()
            16.0
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._start(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(device=outputs.device)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = [self.scale(o) for o in outputs]
            return scaled if not isinstance(outputs, tuple) else tuple(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _start(self, device: Any) -> None:

        self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
        self._growth_tracker = full(
            (), self._init_growth_tracker, dtype=dtypes.int32, device=device
        )

    def _need(self, what: str) -> tuple[Tensor, Tensor]:
        fix = (
            "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the "
            "iteration."
        )
        assert self._scale is not None, f"Attempted {what} but _scale is None.  " + fix
        assert self._growth_tracker is not None, (
            f"Attempted {what} but _growth_tracker is None.  " + fix
        )
        return self._scale, self._growth_tracker

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the parameters of `optimizer` by the scale, in place, and note infinities and NaNs.

        Needed before clipping, or looking at, gradients; ``step`` does it otherwise.

        Raises:
            RuntimeError: the second time before ``update``, and after ``step``.
            ValueError: gradients in float16: parameters are to be float32.
            AssertionError: nothing was scaled yet.
        """
        if not self._enabled:
            return
        scale, _ = self._need("unscale_")
        known = self._per_optimizer_states[id(optimizer)]
        if known["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if known["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        with Flag(NO_GRAD, True):
            inverse = scale.double().reciprocal().float()
            known["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse)
        known["owner"] = weakref.ref(optimizer)
        known["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Any, inverse: Tensor | None, allow_fp16: bool = False
    ) -> dict[_Device, Tensor]:
        """Multiply all gradients by `inverse` (None: only look); per device 1.0 if one is not finite, else 0.0."""
        found: dict[_Device, Tensor] = {}
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            grad = p.grad
            if grad is None:
                continue
            if not allow_fp16 and grad.dtype is dtypes.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            values = grad._values() if grad.is_sparse else grad
            bad = values.isfinite().all().logical_not().float()
            before = found.get(grad.device)
            found[grad.device] = bad if before is None else before.maximum(bad)
            if inverse is not None:
                grad.mul_(inverse.to(grad.device))
        return found

    # -- steps -------------------------------------------------------------------------------------------------------

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients (unless done), then ``optimizer.step(*args, **kwargs)`` if all of them are finite.

        Args:
            optimizer: whose parameters have gradients.
            args: of its step.
            kwargs: of its step; no closure.

        Returns:
            What the optimizer returns, None if the step was skipped.

        Raises:
            RuntimeError: called twice before ``update``, or with a closure.
            AssertionError: nothing was scaled yet, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need("step")
        known = self._per_optimizer_states[id(optimizer)]
        if known["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_scales(optimizer, known, args, kwargs)
        else:
            if known["stage"] is OptState.READY:
                self.unscale_(optimizer)
            assert known["found_inf_per_device"], "No inf checks were recorded for this optimizer."
            result = self._maybe_opt_step(optimizer, known, *args, **kwargs)
        known["stage"] = OptState.STEPPED
        return result

    def _step_that_scales(self, optimizer: Any, known: dict, args: tuple, kwargs: dict) -> Any:
        """For optimizers that take the scale and what was found, as attributes or as ``grad_scaler=``."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        scale = self._scale if known["stage"] is OptState.READY else None
        if scale is not None:
            with Flag(NO_GRAD, True):
                known["found_inf_per_device"] = self._unscale_grads_(optimizer, None, True)
        optimizer.grad_scale = scale
        optimizer.found_inf = self._total(known["found_inf_per_device"])
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _maybe_opt_step(self, optimizer: Any, known: dict, *args: Any, **kwargs: Any) -> Any:
        found = known["found_inf_per_device"]
        if all(g.get("capturable") for g in optimizer.param_groups):
            return _step_where_finite(optimizer, self._total(found), args, kwargs)
        if any(v.item() for v in found.values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _total(self, found: dict[_Device, Tensor]) -> Tensor:
        """Whether anything was found, on the device of the scale: float32, shape []."""
        assert self._scale is not None
        values = [v.to(self._scale.device) for v in found.values()]
        total = values[0]
        for v in values[1:]:
            total = total.maximum(v)
        return total

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink or grow the scale after the steps of an iteration; or set it to `new_scale`.

        Args:
            new_scale: a float, or a floating Tensor with one element.

        Raises:
            AssertionError: no step was made, or `new_scale` is a Tensor of another kind.
            TypeError: `new_scale` is neither.

        Example:
            >>> scaler = gradlib.amp.GradScaler("cpu")
            >>> _ = scaler.scale(gradlib.tensor(1.0))
            >>> scaler.update(1024.0)
            >>> scaler.get_scale()
            1024.0
        """
        if not self._enabled:
            return
        scale, tracker = self._need("update")
        with Flag(NO_GRAD, True):
            if new_scale is not None:
                self._set(scale, new_scale)
            else:
                found: dict = {}
                for known in self._per_optimizer_states.values():
                    for device, value in known["found_inf_per_device"].items():
                        found[device] = value.maximum(found[device]) if device in found else value
                assert found, "No inf checks were recorded prior to update."
                self._adapt(scale, tracker, self._total(found))
        self._per_optimizer_states = defaultdict(_fresh)

    def _set(self, scale: Tensor, new_scale: float | Tensor) -> None:
        if isinstance(new_scale, Tensor):
            if (
                new_scale.numel() != 1
                or new_scale.requires_grad
                or not new_scale.is_floating_point()
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                    "torch.FloatTensor with requires_grad=False."
                )
            new_scale = new_scale.reshape(())
        elif not isinstance(new_scale, (int, float)):
            raise TypeError(
                f"new_scale must be a float or a Tensor, not {type(new_scale).__name__}"
            )
        scale.copy_(new_scale) if isinstance(new_scale, Tensor) else scale.fill_(new_scale)

    def _adapt(self, scale: Tensor, tracker: Tensor, found: Tensor) -> None:
        """On the device: overflow shrinks the scale; enough good steps in a row let it grow if it stays finite."""
        bad = found > 0
        count = tracker + 1
        due = (count >= self._growth_interval).logical_and(bad.logical_not())
        grown = scale * self._growth_factor
        grown = grown.where(grown.isfinite(), scale)
        scale.copy_((scale * self._backoff_factor).where(bad, grown.where(due, scale)))
        tracker.copy_(count.masked_fill(bad.logical_or(due), 0))

    # -- settings ----------------------------------------------------------------------------------------------------

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale, 1 if disabled; waits for the device.

        Example:
            >>> gradlib.amp.GradScaler("cpu", init_scale=8.0).get_scale()
            8.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """By which the scale grows after `get_growth_interval` good steps.

        Example:
            >>> gradlib.amp.GradScaler("cpu").get_growth_factor()
            2.0
        """
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Choose by which the scale grows.

        Args:
            new_factor: more than 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By which the scale shrinks after a step that overflowed.

        Example:
            >>> gradlib.amp.GradScaler("cpu").get_backoff_factor()
            0.5
        """
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Choose by which the scale shrinks.

        Args:
            new_factor: less than 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in a row the scale grows.

        Example:
            >>> gradlib.amp.GradScaler("cpu").get_growth_interval()
            2000
        """
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Choose after how many good steps in a row the scale grows.

        Args:
            new_interval: the number of steps.
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether this does anything: as it was asked for, but never on CUDA without a device.

        Example:
            >>> gradlib.amp.GradScaler("cpu", enabled=False).is_enabled()
            False
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, the factors and the count of good steps; empty if disabled. Call it after ``update``.

        Example:
            >>> gradlib.amp.GradScaler("cpu").state_dict()["scale"]
            65536.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; nothing if disabled.

        Args:
            state_dict: of another scaler.

        Raises:
            RuntimeError: it is empty, as that of a disabled one.

        Example:
            >>> scaler = gradlib.amp.GradScaler("cpu")
            >>> scaler.load_state_dict(gradlib.amp.GradScaler("cpu", init_scale=8.0).state_dict())
            >>> scaler.get_scale()
            8.0
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert not self._per_optimizer_states, (
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end "
                "after scaler.update()."
            )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        state["_per_optimizer_states"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._per_optimizer_states = defaultdict(_fresh)

    def _check_inf_per_device(self, optimizer: Any) -> dict[_Device, Tensor]:
        """Look for infinities without unscaling."""
        self._need("_check_inf_per_device")
        with Flag(NO_GRAD, True):
            found = self._unscale_grads_(optimizer, None, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[_Device, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]


def _step_where_finite(optimizer: Any, found: Tensor, args: tuple, kwargs: dict) -> Any:
    """Step; where something was found put everything back. Nothing is read by the host, so it can be captured."""
    with Flag(NO_GRAD, True):
        before = [(t, t.clone()) for t in _tensors_of(optimizer)]
        known = {id(t) for t, _ in before}
        result = optimizer.step(*args, **kwargs)
        bad = found > 0
        for tensor, old in before:
            tensor.copy_(old.where(bad.to(tensor.device), tensor))
        for tensor in _tensors_of(optimizer):  # state made by this step starts at zero
            if id(tensor) not in known:
                tensor.copy_(tensor.masked_fill(bad.to(tensor.device), 0))
    return result


def _tensors_of(optimizer: Any) -> list[Tensor]:
    """The parameters that have a gradient, and the optimizer's state."""
    found = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    for state in optimizer.state.values():
        found += [v for v in state.values() if isinstance(v, Tensor)]
    return found
