"""Functions that several tests of autograd.Function use."""

from __future__ import annotations

import gradlib as gl
from gradlib.autograd import Function


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


def make(forward, backward=None, **more):
    """A Function class named G."""
    body = {"forward": staticmethod(forward)}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    body |= {k: staticmethod(v) if callable(v) else v for k, v in more.items()}
    return type("G", (Function,), body)


def double(ctx, x):
    return x * 2


def gradient(cls, *args):
    """x.grad after a backward through the Function."""
    x = gl.ones(3, requires_grad=True)
    out = cls.apply(x, *args)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    return x.grad
