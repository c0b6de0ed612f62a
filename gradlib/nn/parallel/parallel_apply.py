"""Several modules called at once, in a thread each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from ... import cuda
from ..._refused import refuse
from ...amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_enabled
from ...autograd.grad_mode import inference_mode, is_inference_mode_enabled, set_grad_enabled
from ...tape.modes import FORWARD_AD, VMAP, is_grad_enabled, state
from ..modules.module import Module
from .scatter_gather import device_of

__all__ = ["parallel_apply"]
__getattr__ = refuse(__name__)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module on its input in a thread of its own. Grad mode, inference mode and autocast are the caller's.

    In forward mode and in vmap they are called one after another: tangents and batches are of one thread.

    Args:
        modules: what is called.
        inputs: a tuple of arguments, or one argument, for each.
        kwargs_tup: keyword arguments for each.
        devices: the device that is current in each thread.

    Returns:
        What they return.

    Raises:
        AssertionError: not as many of one kind as of the other.
        Exception: the first that a module has raised, once all have ended.

    Example:
        >>> parallel_apply([nn.Identity(), nn.ReLU()], [gradlib.zeros(1), -gradlib.ones(1)])
        [tensor([0.]), tensor([0.])]
    """
    assert len(modules) == len(inputs), (
        f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}"
    )
    named = kwargs_tup or [{}] * len(modules)
    places = devices or [None] * len(modules)
    assert len(modules) == len(named) == len(places)

    def call(i: int) -> Any:
        args = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        place = None if places[i] is None else device_of(places[i])
        on_gpu = place is not None and place.type == "cuda"
        with cuda.device(place) if on_gpu else contextlib.nullcontext():
            return modules[i](*args, **named[i])

    # tangents and entries of a batch belong to this thread
    if len(modules) == 1 or state.bits & (FORWARD_AD | VMAP):
        return [call(i) for i in range(len(modules))]
    grad_enabled, inference = is_grad_enabled(), is_inference_mode_enabled()
    casts = [(k, get_autocast_dtype(k)) for k in ("cpu", "cuda") if is_autocast_enabled(k)]
    results: list[Any] = [None] * len(modules)

    def work(i: int) -> None:
        try:
            with contextlib.ExitStack() as modes:
                if inference:
                    modes.enter_context(inference_mode())
                modes.enter_context(set_grad_enabled(grad_enabled))
                for kind, dtype in casts:
                    modes.enter_context(autocast(kind, dtype))
                results[i] = (call(i), None)
        except BaseException as error:
            results[i] = (None, error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]
