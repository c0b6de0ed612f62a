"""The decorator of a backward that must not be differentiated again."""

from __future__ import annotations

import functools

from ..tape import modes
from ..tape.dtypes import DIFFERENTIABLE
from ..tape.modes import NO_GRAD
from ..tape.node import VariadicNode, edge, join
from ..tape.tensor import Tensor
from ._function_call import NO_EDGE


class Error(VariadicNode):
    """Raises when backward reaches it."""

    __slots__ = ("message", "n_out")
    node_name = "torch::autograd::Error"

    def gradients(self, grads, traced):
        raise RuntimeError(self.message)


def once_differentiable(fn):
    """Decorator of a backward whose result must not be differentiated again: double backward raises RuntimeError.

    The result is the end of its graph: it hangs on nothing but constants, so a second gradient that does not need it
    is none at all (``allow_unused``), rather than an error.

    Args:
        fn: a backward. It runs without recording, so it may use what is not differentiable, such as NumPy.

    Example:
        >>> class Sin(gradlib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.cosine = gradlib.from_numpy(numpy.cos(x.detach().numpy()))
        ...         return x.sin()
        ...
        ...     @staticmethod
        ...     @gradlib.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * ctx.cosine
        >>> x = gradlib.zeros(1, requires_grad=True)
        >>> gradlib.autograd.grad(Sin.apply(x), x)[0].item()
        1.0
    """

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with modes.Flag(NO_GRAD, True):
            outputs = fn(ctx, *args)
        if not modes.is_grad_enabled():
            return outputs
        if not any(isinstance(a, Tensor) and a._rg for a in args):
            return outputs
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        constants = [
            out.detach() if isinstance(out, Tensor) and out._array.dtype in DIFFERENTIABLE else None
            for out in outs
        ]
        node = join(
            Error, [NO_EDGE if c is None else edge(c.detach().requires_grad_()) for c in constants]
        )
        node.n_out = len(outs)
        node.message = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
        for i, constant in enumerate(constants):
            if constant is not None:
                constant._rg, constant._fn = True, node
                constant._nr = 0 if len(outs) == 1 else i + 1
        guarded = tuple(out if c is None else c for out, c in zip(outs, constants, strict=True))
        return guarded if isinstance(outputs, tuple) else guarded[0]

    return wrapper
