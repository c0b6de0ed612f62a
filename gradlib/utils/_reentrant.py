"""The reentrant variant of checkpointing: a part of the program as one Function."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ..autograd import backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..tape.modes import state
from ..tape.tensor import Tensor
from ._surroundings import Surroundings

REENTRANT_GRAD = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
    ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
    "the `inputs` argument."
)


def detach_variable(inputs: tuple) -> tuple:
    """The tensors of a tuple detached, with their requires_grad flags; anything else as it is.

    Args:
        inputs: a tuple.

    Raises:
        RuntimeError: it is none.

    Example:
        >>> x = gradlib.ones(2, requires_grad=True) * 2
        >>> y, n = detach_variable((x, 3))
        >>> y.is_leaf, y.requires_grad, n
        (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(
        a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if none of the tensors requires grad: then nothing that is checkpointed gets a gradient.

    Args:
        inputs: tensors and anything else.

    Example:
        >>> check_backward_validity([gradlib.ones(2, requires_grad=True)])
    """
    if not any(a.requires_grad for a in inputs if isinstance(a, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """A part of the program as one Function whose backward runs the part again: the reentrant variant.

    `checkpoint` is how to use it.
    """

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        """Run the part without recording.

        Args:
            run_function: the part.
            preserve_rng_state: whether random numbers are the same when it runs again.
            args: its arguments.
        """
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = Surroundings(preserve_rng_state, args)
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        """Run the part again, recorded, and go backward through it.

        Raises:
            RuntimeError: inside ``autograd.grad``, or a backward with `inputs`; or where no output requires grad.
        """
        task = state.current_task
        if task is not None and task.wanted:
            raise RuntimeError(REENTRANT_GRAD)
        inputs = list(ctx.others)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(a._grad if isinstance(a, Tensor) else None for a in detached)
