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

from ..tape import errors, handed, modes, recording, saved
from ..tape.device import stored
from ..tape.dtypes import DIFFERENTIABLE
from ..tape.lazy import Lazy
from ..tape.modes import FORWARD_AD, INFERENCE, NO_GRAD, PROFILE, set_bits, shared, state
from ..tape.node import VariadicNode, deliver, edge, next_seq
from ..tape.source import is_library, user_frame
from ..tape.streams import stamp
from ..tape.tensor import Tensor
from ._function_call import NO_EDGE, InputMetadata, RawSaved, finish, fit, zeros

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

NODE_NAMES = frozenset(
    "metadata name next_functions register_hook register_prehook _input_metadata _raw_saved_tensors "
    "_register_hook_dict _sequence_nr _set_sequence_nr".split()
)


class FunctionCtx:
    """What forward, setup_context, backward and jvp of one call share. Takes any attribute."""

    # defaults; what a call sets lies in its __dict__
    to_save: tuple | None = None
    saved_for_forward: tuple | None = None
    dirty_tensors: tuple | None = None
    non_differentiable: tuple | None = None
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple | None = ()  # None when freed
    _versions: tuple = ()
    _node: Any = None  # weak reference to the Node, which holds this ctx

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors (or None) for backward, which reads them as ``ctx.saved_tensors``.

        Tensors that are neither inputs nor outputs of forward are constants to double backward. The last call counts.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors for :meth:`Function.jvp`, which reads them as ``ctx.saved_tensors``."""
        for tensor in tensors:
            assert isinstance(tensor, Tensor) or tensor is None, (
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
                "ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward changes in place. They must be returned, and become outputs themselves."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs are not differentiable; backward gets zeros for them."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs) -> None:
        """Gone: storage that tensors share is tracked without being told."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients (and tangents) that are undefined arrive as zeros, the default, or as None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        """What :meth:`save_for_backward` kept, after the check that nothing was changed in place since."""
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        kept = self._saved
        if kept is None:
            raise RuntimeError(errors.second_backward(self._node()))
        out = []
        for i, version in enumerate(self._versions):
            value = kept[i]
            if version >= 0:
                counter = value._ver
                if (counter if type(counter) is int else counter.version) != version:
                    raise saved.modified(self._node(), f"saved_tensors[{i}]", value, version)
            elif version != saved.DIRECT:
                value = value.tensor(self._node and self._node(), i)
            out.append(value)
        return tuple(out)

    @property
    def saved_variables(self) -> tuple:
        """The old name of :attr:`saved_tensors`."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def __getattr__(self, name: str):
        if name in NODE_NAMES and self._node is not None and self._node() is not None:
            return getattr(self._node(), name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


_ContextMethodMixin = FunctionCtx


class UnfinishedNode(VariadicNode):
    """A :class:`BackwardCFunction` while `apply` fills it: its attributes are those of the Node alone."""

    # _inputs: for each argument of forward None (no tensor), False (needs no gradient) or what its gradient must be
    # like; _outputs: for each output None (no tensor) or what zeros for it are like; _first: which edge stands first
    __slots__ = ("_first", "_inputs", "_outputs", "ctx", "n_out")
    runs_undefined = True
    _forward_cls: Any = None


class BackwardCFunction(UnfinishedNode):
    """The class of the ``grad_fn`` that a custom Function gives its outputs. Other attributes are those of its ctx."""

    __slots__ = ()

    def apply(self, *args):
        """Run the user's backward (or vjp) on gradients of the outputs."""
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
        """Run the user's jvp on tangents of the inputs."""
        return self._forward_cls.jvp(self.ctx, *args)

    def run(self, g, inbox):
        """Run the user's backward on raw gradients, and deliver what it gives."""
        grads = [g] if self.n_out == 1 else [None] * self.n_out if g is None else g
        for (target, nr), grad in zip(self.edge_list, self.gradients(grads, False), strict=True):
            if target is not None and grad is not None:
                deliver(inbox, target, nr, grad)

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

    def _checked(self, outs: tuple, traced: bool) -> tuple:
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
        """What forward saved; RuntimeError after the graph was freed."""
        return self.ctx.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple:
        if self.ctx._saved is None:
            raise RuntimeError(errors.second_backward(self))
        return tuple(RawSaved(self, i) for i in range(len(self.ctx._versions)))

    def save_for_backward(self, *tensors):
        """That of its ctx: see `FunctionCtx.save_for_backward`."""
        self.ctx.save_for_backward(*tensors)

    def save_for_forward(self, *tensors):
        """That of its ctx: see `FunctionCtx.save_for_forward`."""
        self.ctx.save_for_forward(*tensors)

    def mark_dirty(self, *args):
        """That of its ctx: see `FunctionCtx.mark_dirty`."""
        self.ctx.mark_dirty(*args)

    def mark_non_differentiable(self, *args):
        """That of its ctx: see `FunctionCtx.mark_non_differentiable`."""
        self.ctx.mark_non_differentiable(*args)

    def set_materialize_grads(self, value):
        """That of its ctx: see `FunctionCtx.set_materialize_grads`."""
        self.ctx.set_materialize_grads(value)

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
        >>> y = Exp.apply(x)
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
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside a :meth:`setup_context`."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep in `ctx` what backward needs, given forward's arguments and result."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Given one gradient for each output, return one for each argument of forward (None where none is due)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward  # another name; only one of the two may be overridden

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Given one tangent for each argument (None for those that are no tensors), return one for each output."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """The Function on a batch: returns (output, out_dims). `info` has batch_size and randomness."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record this Function as one Node."""
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
                inputs.append((array.shape, array.dtype, kind))
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
        node: Any = Error()
        node.seq, node.extra, node.n_out = next_seq(), None, len(outs)
        node.edge_list = tuple(
            NO_EDGE if c is None else edge(c.detach().requires_grad_()) for c in constants
        )
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


class InplaceFunction(Function):
    """A Function with an `inplace` flag; kept for old code."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function with nested inputs and outputs; kept for old code, which overrides the `_extended` methods."""

    def forward_extended(self, *input: Any) -> None:
        """The forward on nested inputs."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> None:
        """The backward on nested gradients."""
        raise NotImplementedError
