"""Custom functions: a forward and a backward (or jvp) written by the user take part in the graph as one Node.

``Function.apply`` runs forward unrecorded, with a ctx that remembers what backward needs, and gives the outputs the
Function's Node as history. The ctx is an object of its own (the Node holds it), so that any attribute name is free for
the user; attributes that the Node does not have are looked up on the ctx.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
import weakref
from typing import Any

from ..tape import errors, handed, recording
from ..tape.device import stored
from ..tape.lazy import Lazy
from ..tape.modes import FORWARD_AD, INFERENCE, NO_GRAD, PROFILE, RAW, set_bits, shared, state
from ..tape.node import VariadicNode, deliver_all, edge, next_seq
from ..tape.source import is_library, user_frame
from ..tape.streams import stamp
from ..tape.tensor import Tensor
from ._function_call import NO_EDGE, InputMetadata, RawSaved, finish, fit, zeros
from ._function_ctx import FunctionCtx
from ._once_differentiable import once_differentiable

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

_ContextMethodMixin = FunctionCtx


class UnfinishedNode(VariadicNode):
    """A :class:`BackwardCFunction` while `apply` fills it: its attributes are those of the Node alone."""

    # _inputs: for each argument of forward None (no tensor), False (needs no gradient) or what its gradient must be
    # like; _outputs: for each output None (no tensor) or what zeros for it are like; _first: which edge stands first
    __slots__ = ("_first", "_inputs", "_outputs", "ctx", "n_out")
    runs_undefined = True
    _forward_cls: Any = None


def _of_ctx(name: str) -> Any:
    """The method `name` of the ctx, as one of the Node."""

    @functools.wraps(getattr(FunctionCtx, name))
    def call(self, *args):
        return getattr(self.ctx, name)(*args)

    return call


class BackwardCFunction(UnfinishedNode):
    """The class of the ``grad_fn`` that a custom Function gives its outputs: a Node, with the attributes of its ctx.

    Example:
        >>> class Double(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.factor = 2
        ...         return x * 2
        >>> y = Double.apply(gradlib.ones(1, requires_grad=True))
        >>> isinstance(y.grad_fn, BackwardCFunction), y.grad_fn.name(), y.grad_fn.factor
        (True, 'DoubleBackward', 2)
    """

    __slots__ = ()

    def apply(self, *args):
        """Run the user's backward (or vjp) on gradients of the outputs, and return what it returns.

        Args:
            args: a Tensor or None for each output.

        Raises:
            RuntimeError: both backward and vjp are overridden.
            NotImplementedError: neither is.
        """
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if vjp is not Function.vjp:
            if backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                    "implement one of them."
                )
            backward = vjp
        return backward(self.ctx, *args)

    def apply_jvp(self, *args):
        """Run the user's jvp on tangents of the inputs, and return what it returns.

        Args:
            args: a Tensor or None for each argument of forward.

        Raises:
            NotImplementedError: jvp is not overridden.
        """
        return self._forward_cls.jvp(self.ctx, *args)

    def run(self, g, inbox):
        """Run the user's backward on raw gradients, and deliver what it gives."""
        grads = [g] if self.n_out == 1 else [None] * self.n_out if g is None else g
        deliver_all(inbox, self, self.gradients(grads, RAW))

    def gradients(self, grads, traced):
        """The gradients of the tensor arguments, by the user's backward; missing ones as materialized."""
        materialize = self.ctx.materialize_grads
        values = []
        for grad, like in zip(grads, self._outputs, strict=True):
            if grad is not None:
                values.append(grad if traced else Tensor._make(grad))
            elif like is None or not materialize:
                values.append(None)
            else:
                values.append(zeros(like))
        outs = self.apply(*values)
        if outs.__class__ is not tuple:
            outs = tuple(outs) if isinstance(outs, tuple) else (outs,)
        return self._checked(outs, traced)

    def _checked(self, outs: tuple, traced: int) -> tuple:
        """What the user's backward returned: one gradient for each tensor argument, of its shape and dtype."""
        inputs = self._inputs
        if len(outs) < len(inputs) or any(g is not None for g in outs[len(inputs) :]):
            raise RuntimeError(
                f"function {self.node_name} returned an incorrect number of gradients (expected {len(inputs)}, "
                f"got {len(outs)})"
            )
        grads = []
        for i, want in enumerate(inputs):
            grad = outs[i]
            if want is None:
                if grad is not None:
                    raise RuntimeError(
                        f"function {self.node_name} returned a gradient different than None at position {i + 1}, but "
                        "the corresponding forward input was not a Variable"
                    )
                continue
            if grad is not None:
                if not isinstance(grad, Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
                if want is False:
                    grad = None
                else:
                    array = grad._array
                    if (
                        array.shape != want[0]
                        or array.dtype != want[1]
                        or array.__class__ is not want[2]
                    ):
                        grad = fit(self, grad, len(grads), want)
                    if not traced:
                        grad = grad._array
            grads.append(grad)
        if self._first:
            grads.insert(0, grads.pop(self._first))
        return tuple(grads)

    def release(self):
        """Let go of what forward saved."""
        self.ctx._saved = None

    @property
    def saved_tensors(self):
        """What forward saved, as a tuple: see `FunctionCtx.saved_tensors`.

        Raises:
            RuntimeError: one of them was changed in place since, or the graph was freed by a backward.
        """
        return self.ctx.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple:
        if self.ctx._saved is None:
            raise RuntimeError(errors.second_backward(self))
        return tuple(RawSaved(self, i) for i in range(len(self.ctx._versions)))

    (
        save_for_backward,
        save_for_forward,
        mark_dirty,
        mark_non_differentiable,
        set_materialize_grads,
    ) = (
        _of_ctx(name)
        for name in "save_for_backward save_for_forward mark_dirty mark_non_differentiable "
        "set_materialize_grads".split()
    )

    @property
    def _input_metadata(self) -> list[InputMetadata]:
        """Shape, dtype and device of the gradient for each output."""
        return [InputMetadata(like) for like in self._outputs]

    def __getattr__(self, name):
        if name in SLOTS:  # it is empty
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def __setattr__(self, name, value):
        if name in SLOTS:
            object.__setattr__(self, name, value)
        else:
            setattr(self.ctx, name, value)


SLOTS = frozenset(
    name for cls in BackwardCFunction.__mro__ for name in getattr(cls, "__slots__", ())
)


# -- Function --------------------------------------------------------------------------------------------------------


class FunctionMeta(type):
    """Gives each Function the class of its Nodes and that of its ctx."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        title = name + "Backward"
        body = {
            "__module__": "torch.autograd.function",
            "__slots__": (),
            "_forward_cls": cls,
            "node_name": title,
        }
        cls._backward_cls = type(title, (BackwardCFunction,), body)
        cls._ctx_cls = type(title, (FunctionCtx,), {"__module__": "torch.autograd.function"})


class Function(FunctionCtx, metaclass=FunctionMeta):
    """Base class of custom functions; used through :meth:`apply`, never instantiated.

    A subclass overrides the static methods `forward` and `backward`; `setup_context` splits forward in
    two, which transforms of `gradlib.func` need; `jvp` gives forward mode, `vmap` (or the attribute
    ``generate_vmap_rule = True``) batches.

    Example:
        >>> class Exp(Function):
        ...     @staticmethod
        ...     def forward(ctx, i):
        ...         result = i.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad_output):
        ...         (result,) = ctx.saved_tensors
        ...         return grad_output * result
        >>> x = gradlib.zeros(2, requires_grad=True)
        >>> Exp.apply(x).sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0]
    """

    generate_vmap_rule = False
    inside_vmap = False  # whether forward is the batching rule already; see _function_vmap
    _backward_cls: Any
    _ctx_cls: Any

    def __init__(self, *args, **kwargs):
        warnings.warn(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside a :meth:`setup_context`.

        Args:
            args: what `apply` got: tensors and anything else. Nothing is recorded in it.
            kwargs: what `apply` got by name, by position.

        Returns:
            A Tensor, or a tuple of Tensors and other values.

        Raises:
            NotImplementedError: here; every Function gives its own.
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep in `ctx` what backward needs, given forward's arguments and result.

        Args:
            ctx: a `FunctionCtx`.
            inputs: the arguments of forward, as a tuple.
            output: what it returned.

        Example:
            >>> class Square(Function):
            ...     @staticmethod
            ...     def forward(x):
            ...         return x * x
            ...
            ...     @staticmethod
            ...     def setup_context(ctx, inputs, output):
            ...         ctx.save_for_backward(*inputs)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         return 2 * grad * ctx.saved_tensors[0]
            >>> gradlib.func.grad(Square.apply)(gradlib.tensor(3.0)).item()
            6.0
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Given one gradient for each output, return one for each argument of forward.

        Args:
            ctx: that of forward.
            grad_outputs: Tensors in the shapes of the outputs; None where `set_materialize_grads` says so.

        Returns:
            A Tensor (it is summed to the shape of the argument and cast to its dtype), or None where no
            gradient is due; as a tuple for several arguments. With ``create_graph=True`` what it does is
            recorded, so that it can be differentiated again.

        Raises:
            NotImplementedError: here; every Function gives its own, or calls it `vjp`.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward  # another name; only one of the two may be overridden

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Given one tangent for each argument of forward, return one for each output.

        Args:
            ctx: that of forward.
            grad_inputs: Tensors in the shapes of the arguments; None for what is no tensor.

        Returns:
            A Tensor for each differentiable output, None for the others; as a tuple for several outputs.

        Raises:
            NotImplementedError: here, if the Function is called on dual tensors.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The Function on a batch: called in place of forward inside ``gradlib.vmap``.

        Args:
            info: has ``batch_size`` and ``randomness``.
            in_dims: for each argument of forward the dimension of the batch, or None.
            args: the arguments of forward, with the batch.

        Returns:
            (output, out_dims): the outputs with the batch, and where it is.

        Raises:
            NotImplementedError: here, unless `generate_vmap_rule` is True.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record this Function as one Node.

        Args:
            args: the arguments of forward.
            kwargs: the same by name.

        Returns:
            What forward returned; its tensors have a ``grad_fn`` if one of `args` requires grad.

        Raises:
            TypeError: forward has parameters that only take keywords.
            NotImplementedError: forward is not overridden.
        """
        bits, span = state.bits, None
        setup = cls.setup_context is not Function.setup_context
        if setup or kwargs:
            args = _bound(cls.forward, args, kwargs, setup)
        if shared.batches and state.batch is not None and not cls.inside_vmap:
            return handed.function_on_batch(state.batch, cls, args)
        if bits & PROFILE:
            span = recording.function_span(cls.__name__, args)
        needs, edges, inputs = [], [], []
        for a in args:
            if not isinstance(a, Tensor):
                needs.append(False)
                inputs.append(None)
            elif a._rg:
                needs.append(True)
                fn, array = a._fn, a._array
                edges.append(edge(a) if fn is None else (fn, a._nr))
                kind = stored(array).__class__ if array.__class__ is Lazy else array.__class__
                wanted = array.dtype
                if fn is None and shared.gradient_dtype is not None:
                    wanted = shared.gradient_dtype(a)  # None: any
                inputs.append((array.shape, wanted, kind))
            else:
                needs.append(False)
                edges.append(NO_EDGE)
                inputs.append(False)
        ctx = cls._ctx_cls()
        ctx.needs_input_grad = tuple(needs)
        set_bits(bits & ~FORWARD_AD | NO_GRAD)
        try:
            if setup:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            set_bits(bits)
            if span is not None:
                span.end()
        node = None
        if not bits & (NO_GRAD | INFERENCE) and True in needs:
            node: Any = object.__new__(UnfinishedNode)
            node.ctx, node._inputs, node.edge_list = ctx, inputs, tuple(edges)
            node.extra, node.seq, node._first, node.n_out = None, next_seq(), 0, 1
            frame = sys._getframe(1)
            if is_library(frame.f_code.co_filename):
                frame = user_frame(frame)
            node.code, node.lasti = frame.f_code, frame.f_lasti
            if shared.cuda is not None:
                stamp(node, (*(output if isinstance(output, tuple) else (output,)), *args))
            node.__class__ = cls._backward_cls
            ctx._node = weakref.ref(node)
        return finish(cls, ctx, node, args, output, bits)


def _bound(forward, args: tuple, kwargs: dict, setup: bool) -> tuple:
    """Arguments by position, defaults filled in."""
    signature = inspect.signature(forward)
    bound = signature.bind(*args, **kwargs) if setup else signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"apply() got keyword-only arguments: {', '.join(bound.kwargs)}")
    return bound.args if setup else bound.args[1:]


# -- other classes of the module -------------------------------------------------------------------------------------


class InplaceFunction(Function):
    """A Function that keeps a flag `inplace`; a name for old code, which made instances.

    Args:
        inplace: kept as an attribute.

    Example:
        >>> issubclass(InplaceFunction, Function)
        True
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function with nested inputs and outputs; a name for old code, which overrides the `_extended` methods.

    Functions of today take and return tuples; flatten nested values before `apply`.

    Example:
        >>> issubclass(NestedIOFunction, Function)
        True
    """

    def forward_extended(self, *input: Any) -> None:
        """The forward on nested inputs, which old code overrides.

        Raises:
            NotImplementedError: here.
        """
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> None:
        """The backward on nested gradients, which old code overrides.

        Raises:
            NotImplementedError: here.
        """
        raise NotImplementedError
