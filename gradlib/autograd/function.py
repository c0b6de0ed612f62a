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

from ..core import errors, modes, saved, views
from ..core.dtypes import DIFFERENTIABLE, from_np
from ..core.modes import ANOMALY, FORWARD_AD, INFERENCE, NO_GRAD, SAVED_HOOKS, set_bits, state
from ..core.node import VariadicNode, deliver, edge, next_seq
from ..core.source import is_library, user_frame
from ..core.storage import bump, share, version_of
from ..core.tensor import Tensor
from ..ops.shape import alias_op as alias

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

NO_EDGE = (None, 0)
NODE_NAMES = frozenset(
    "metadata name next_functions register_hook register_prehook _raw_saved_tensors _sequence_nr".split()
)
DIRTY_MISSING = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)
DIRTY_LEAF = "a leaf Variable that requires grad has been used in an in-place operation."
DIRTY_NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)
DIRTY_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
    "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is "
    "not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it "
    "into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other "
    "operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
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
                    raise errors.modified(self._node(), f"saved_tensors[{i}]", value, version)
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


_ContextMethodMixin = FunctionCtx


class BackwardCFunction(VariadicNode):
    """The class of the ``grad_fn`` that a custom Function gives its outputs."""

    # inputs: for each argument of forward None (no tensor), False (needs no gradient) or what its gradient must be like
    # outputs: for each output None (no tensor) or what zeros for it are like
    __slots__ = ("ctx", "first", "inputs", "n_out", "outputs")
    runs_undefined = True
    _forward_cls: Any = None

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
        grads = [g] if self.n_out == 1 else [None] * self.n_out if g is None else g
        for (target, nr), grad in zip(self.edge_list, self.gradients(grads, False), strict=True):
            if target is not None and grad is not None:
                deliver(inbox, target, nr, grad)

    def gradients(self, grads, traced):
        materialize = self.ctx.materialize_grads
        values = []
        for grad, like in zip(grads, self.outputs, strict=True):
            if grad is not None:
                values.append(grad if traced else Tensor._make(grad))
            elif like is None or not materialize:
                values.append(None)
            else:
                values.append(_zeros(like))
        outs = self.apply(*values)
        if outs.__class__ is not tuple:
            outs = tuple(outs) if isinstance(outs, tuple) else (outs,)
        return self._checked(outs, traced)

    def _checked(self, outs: tuple, traced: bool) -> tuple:
        """What the user's backward returned: one gradient for each tensor argument, of its shape and dtype."""
        inputs = self.inputs
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
                        grad = _fit(self, grad, len(grads), want)
                    if not traced:
                        grad = grad._array
            grads.append(grad)
        if self.first:
            grads.insert(0, grads.pop(self.first))
        return tuple(grads)

    def release(self):
        self.ctx._saved = None

    @property
    def saved_tensors(self):
        return self.ctx.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple:
        if self.ctx._saved is None:
            raise RuntimeError(errors.second_backward(self))
        return tuple(RawSaved(self, i) for i in range(len(self.ctx._versions)))

    def save_for_backward(self, *tensors):
        self.ctx.save_for_backward(*tensors)

    def save_for_forward(self, *tensors):
        self.ctx.save_for_forward(*tensors)

    def mark_dirty(self, *args):
        self.ctx.mark_dirty(*args)

    def mark_non_differentiable(self, *args):
        self.ctx.mark_non_differentiable(*args)

    def set_materialize_grads(self, value):
        self.ctx.set_materialize_grads(value)

    def __getattr__(self, name):
        if name in ("ctx", "stream", "code", "lasti"):  # slots that are empty
            raise AttributeError(name)
        return getattr(self.ctx, name)


# -- gradients -------------------------------------------------------------------------------------------------------


def _like(tensor: Tensor) -> tuple:
    array = tensor._array
    return array.shape, array.dtype, array.__class__


def _zeros(like: tuple) -> Tensor:
    from ..backends import _BY_TYPE

    shape, dtype, kind = like
    return Tensor._make(_BY_TYPE[kind].zeros(shape, dtype))


def _fit(node: BackwardCFunction, grad: Tensor, index: int, want: tuple) -> Tensor:
    """`grad` summed to the shape and cast to the dtype of the argument; RuntimeError if that is impossible."""
    from ..core.formulas import traced_ops

    shape, dtype, kind = want
    have = grad._array.shape
    if have != shape:
        extra = len(have) - len(shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(shape, have[extra:], strict=True)):
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - got {errors.size(have)} "
                f"but expected shape compatible with {errors.size(shape)}"
            )
        grad = traced_ops.sum_to_size(grad, shape)
    if grad._array.dtype != dtype:
        if grad._array.dtype.kind == "c" and dtype.kind != "c":
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - got {grad.dtype} but the "
                "input is real"
            )
        grad = grad.to(from_np(dtype))
    if grad._array.__class__ is not kind:
        from ..backends import _BY_TYPE

        device = _BY_TYPE[kind].name.replace("numpy", "cpu").replace("cupy", "cuda")
        if grad._array.ndim:
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - expected device {device} "
                f"but got {grad.device}"
            )
        grad = grad.to(device)
    return grad


# -- saved tensors ---------------------------------------------------------------------------------------------------

OWN = -4  # versions: see core.saved


class OwnOutput:
    """An output that its own Node saved: kept without the Tensor, which would make a cycle."""

    __slots__ = ("array", "nr", "storage", "version")

    def __init__(self, out: Tensor):
        self.array, self.storage = out._array, share(out)
        self.nr, self.version = edge(out)[1], self.storage.version

    def tensor(self, node, i: int) -> Tensor:
        storage = self.storage
        if storage.version != self.version:
            raise errors.modified(
                node, f"saved_tensors[{i}]", self.array, self.version, storage, self.nr
            )
        out = Tensor._make(self.array)
        out._ver = storage
        if node is not None:
            out._rg, out._fn, out._nr = True, node, self.nr
        return saved.restore_tangent(node, self.nr, out)


class PackedSaved:
    """A saved tensor under saved-tensor hooks."""

    __slots__ = ("packed",)

    def __init__(self, tensor: Tensor, pair: tuple, node):
        own = _made_by(tensor, node)
        fn, nr = (
            (saved.SELF, edge(tensor)[1]) if own else NO_EDGE if tensor.is_leaf else edge(tensor)
        )
        self.packed = saved.Packed(tensor, *pair, fn, nr)

    def tensor(self, node, i: int) -> Tensor:
        return self.packed.tensor(node)


def _made_by(tensor: Tensor, node) -> bool:
    return tensor._fn is node or (tensor._view is not None and tensor._view.fn is node)


def _save(ctx: FunctionCtx, node: BackwardCFunction, tensors: tuple) -> None:
    """Keep what save_for_backward was given, when the outputs have their history."""
    kept, versions = [], []
    pair = saved.hooks_for_saving() if state.bits & SAVED_HOOKS else None
    for i, value in enumerate(tensors):
        version = saved.DIRECT
        if isinstance(value, Tensor):
            if pair is not None:
                value, version = PackedSaved(value, pair, node), saved.PACKED
            elif _made_by(value, node):
                value, version = OwnOutput(value), OWN
            else:
                counter = value._ver
                version = counter if type(counter) is int else version_of(value, saving=True)
        elif value is not None:
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type {type(value).__name__}"
            )
        kept.append(value)
        versions.append(version)
    ctx._saved, ctx._versions = tuple(kept), tuple(versions)
    ctx.to_save = None


class RawSaved(saved.SavedTensor):
    """One saved tensor of a custom Function: ``grad_fn._raw_saved_tensors[i]``."""

    __slots__ = ()

    def register_hooks(self, pack_hook, unpack_hook) -> None:
        """Call `pack_hook` with the saved tensor now, and `unpack_hook` with its result at each access."""
        node, i = self._node, self._name
        ctx = node.ctx
        if ctx._saved is None:
            raise RuntimeError(saved.HOOKS_AFTER_FREE)
        if ctx._versions[i] == saved.PACKED:
            raise RuntimeError(saved.HOOKS_TWICE)
        value = ctx._saved[i]
        if value is None:
            raise RuntimeError(saved.HOOKS_ON_NONE)
        if ctx._versions[i] == OWN:
            value = value.tensor(node, i)
        packed = PackedSaved(value, (pack_hook, unpack_hook), node)
        ctx._saved = (*ctx._saved[:i], packed, *ctx._saved[i + 1 :])
        ctx._versions = (*ctx._versions[:i], saved.PACKED, *ctx._versions[i + 1 :])


# -- Function --------------------------------------------------------------------------------------------------------


class FunctionMeta(type):
    """Gives each Function the class of its Nodes and that of its ctx."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        title = name + "Backward"
        body = {"__module__": "torch.autograd.function", "_forward_cls": cls, "node_name": title}
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
        bits = state.bits
        setup = cls.setup_context is not Function.setup_context
        if setup or kwargs:
            args = _bound(cls.forward, args, kwargs, setup)
        if bits and state.interposers:
            handler = getattr(state.interposers[-1], "call_function", None)
            if handler is not None:
                return handler(cls, args)
        needs, edges, inputs = [], [], []
        for a in args:
            if not isinstance(a, Tensor):
                needs.append(False)
                inputs.append(None)
            elif a._rg:
                needs.append(True)
                fn, array = a._fn, a._array
                edges.append(edge(a) if fn is None else (fn, a._nr))
                inputs.append((array.shape, array.dtype, array.__class__))
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
        node = None
        if not bits & (NO_GRAD | INFERENCE) and True in needs:
            node = object.__new__(cls._backward_cls)
            node.ctx, node.inputs, node.edge_list = ctx, inputs, tuple(edges)
            node.extra, node.seq, node.first, node.n_out = None, next_seq(), 0, 1
            frame = sys._getframe(1)
            if is_library(frame.f_code.co_filename):
                frame = user_frame(frame)
            node.code, node.lasti = frame.f_code, frame.f_lasti
            ctx._node = weakref.ref(node)
        return _finish(cls, ctx, node, args, output, bits)


def _bound(forward, args: tuple, kwargs: dict, setup: bool) -> tuple:
    """Arguments by position, defaults filled in."""
    signature = inspect.signature(forward)
    bound = signature.bind(*args, **kwargs) if setup else signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"apply() got keyword-only arguments: {', '.join(bound.kwargs)}")
    return bound.args if setup else bound.args[1:]


def _finish(cls, ctx: FunctionCtx, node, args: tuple, output, bits: int):
    """Give forward's outputs their history, keep what is to be saved, run jvp if there are tangents."""
    if (
        output.__class__ is Tensor
        and output._view is None
        and not output._rg
        and ctx.dirty_tensors is None
        and ctx.non_differentiable is None
        and output._array.dtype in DIFFERENTIABLE
        and not any([output is a for a in args])
    ):  # one new tensor: the usual case
        if node is not None:
            array = output._array
            node.outputs = ((array.shape, array.dtype, array.__class__),)
            output._rg, output._fn, output._nr = True, node, 0
        outs: Any = (output,)
        single = True
    else:
        single = not isinstance(output, tuple)
        outs = _with_history(ctx, node, args, (output,) if single else output)
    if node is not None:
        if ctx.to_save is not None:
            _save(ctx, node, ctx.to_save)
        if bits & ANOMALY:
            from ..core.anomaly import stamp

            stamp(node)
    if bits & FORWARD_AD:
        _push_tangents(cls, ctx, args, outs)
    if ctx.saved_for_forward is not None:
        ctx.saved_for_forward = None
    return outs[0] if single else outs


def _with_history(ctx: FunctionCtx, node, args: tuple, output: tuple) -> tuple:
    """The outputs as the caller gets them, in all the cases that are not one new tensor."""
    inputs = {id(a): a for a in args if isinstance(a, Tensor)}
    dirty = _tensor_ids(
        ctx.dirty_tensors, "mark_dirty can only accept variables, but argument {} is of type {}"
    )
    constant = _tensor_ids(
        ctx.non_differentiable,
        "mark_non_differentiable only accepts variable arguments, but got {1} at position {0}",
    )
    if not dirty <= {id(o) for o in output}:
        raise RuntimeError(DIRTY_MISSING)
    for tensor in ctx.dirty_tensors or ():
        bump(tensor, _site(), "mark_dirty()")
    if node is not None:
        node.n_out = len(output)
        node.outputs = tuple(_like(o) if isinstance(o, Tensor) else None for o in output)
    outs = []
    differentiable = 0
    for i, out in enumerate(output):
        if isinstance(out, Tensor):
            if id(out) in dirty and id(out) not in inputs:
                warnings.warn(DIRTY_NO_INPUT, UserWarning, stacklevel=4)
            records = (
                node is not None and id(out) not in constant and out._array.dtype in DIFFERENTIABLE
            )
            nr = 0 if len(output) == 1 else i + 1
            out = _one_history(
                out, node if records else None, nr, id(out) in inputs, id(out) in dirty, args
            )
            differentiable += records
        outs.append(out)
    if node is not None and differentiable > 1:
        for out in outs:
            if isinstance(out, Tensor) and out._view is not None:
                out._view.made_in = views.MULTI_OUTPUT
    return tuple(outs)


def _tensor_ids(tensors: tuple | None, message: str) -> set[int]:
    for i, t in enumerate(tensors or ()):
        if not isinstance(t, Tensor):
            raise RuntimeError(message.format(i, type(t).__name__))
    return {id(t) for t in tensors or ()}


def _site():
    frame = user_frame(sys._getframe(1))
    return frame.f_code, frame.f_lasti


def _one_history(out: Tensor, node, nr: int, is_input: bool, is_dirty: bool, args: tuple) -> Tensor:
    """`out` as output `nr` of `node`, or as a constant if that is None."""
    if node is None:
        if is_dirty or not (is_input or out._rg):
            return out
        if is_input:
            return out.detach() if out._rg else _alias_unrecorded(out)
        if out._view is None:
            out._rg, out._fn, out._nr = False, None, 0
        return out
    if is_dirty and is_input:
        if out._rg and out.is_leaf:
            raise RuntimeError(DIRTY_LEAF)
        _rewrite(out, node, nr, args)
        return out
    if is_input:
        out = _alias_unrecorded(out)
    view = out._view
    out._rg = True
    if view is None:
        out._fn, out._nr = node, nr
    else:
        view.made_in = views.CUSTOM_FUNCTION
        view.fn, view.nr, out._fn = node, nr, None
        view.version = -1 if out.is_inference() else version_of(out)
    return out


def _alias_unrecorded(tensor: Tensor) -> Tensor:
    with modes.Flag(NO_GRAD, True):
        return alias.call(tensor)


def _rewrite(tensor: Tensor, node, nr: int, args: tuple) -> None:
    """The history of an input that forward changed in place."""
    from ..core.inplace import set_history

    view = tensor._view
    if view is not None and tensor._fn is None:
        if node.n_out > 1:
            raise RuntimeError(DIRTY_VIEW)
        if view.made_in != views.DEFAULT:
            raise views.refusal(view)
        if view.base._rg and view.base.is_leaf:
            raise RuntimeError(errors.VIEW_OF_LEAF_INPLACE)
        # CopySlices takes the first edge for that of the part which is written
        tensors = [a for a in args if isinstance(a, Tensor)]
        node.first = first = next(k for k, a in enumerate(tensors) if a is tensor)
        edges = list(node.edge_list)
        edges.insert(0, edges.pop(first))
        node.edge_list = tuple(edges)
    tensor._grad = None
    set_history(tensor, node, nr)


# -- forward mode ----------------------------------------------------------------------------------------------------


def _push_tangents(cls, ctx: FunctionCtx, args: tuple, outs: tuple) -> None:
    """Run jvp if an input has a tangent, and give the outputs theirs."""
    from ..core.tangents import own_tangent, set_tangent, split_off, tangent_of

    tangents = [tangent_of(a) if isinstance(a, Tensor) else None for a in args]
    if all(t is None for t in tangents):
        return
    with modes.Flag(FORWARD_AD, False):
        if ctx.materialize_grads:
            tangents = [
                _zeros(_like(a))
                if t is None and isinstance(a, Tensor) and a._array.dtype in DIFFERENTIABLE
                else t
                for t, a in zip(tangents, args, strict=True)
            ]
        found = cls.jvp(ctx, *tangents)
        found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(outs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} "
            f"but got {len(found)})"
        )
    dirty = {id(t) for t in ctx.dirty_tensors or ()}
    constant = {id(t) for t in ctx.non_differentiable or ()}
    for i, (out, tangent) in enumerate(zip(outs, found, strict=True)):
        if tangent is not None:
            _check_tangent(i, out, tangent, constant)
        if id(out) in dirty:
            set_tangent(out, tangent)
        elif tangent is not None:
            own_tangent(split_off(out), tangent)
        if tangent is not None and out._rg:
            saved.keep_tangent(*edge(out), out)


def _check_tangent(i: int, out, tangent, constant: set[int]) -> None:
    if not isinstance(tangent, Tensor):
        raise RuntimeError(
            f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}."
        )
    if not isinstance(out, Tensor) or id(out) in constant or out._array.dtype not in DIFFERENTIABLE:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
            "differentiable Tensor.You should return None at that position instead."
        )
    if tangent._array.shape != out._array.shape:
        raise RuntimeError(errors.tangent_size(out._array.shape, tangent._array.shape))


# -- other classes of the module -------------------------------------------------------------------------------------


class DelayedError(VariadicNode):
    """Raises when backward reaches it."""

    __slots__ = ("message", "n_out")
    node_name = "torch::autograd::Error"

    def gradients(self, grads, traced):
        raise RuntimeError(self.message)


def once_differentiable(fn):
    """Decorator of a backward whose result must not be differentiated again: double backward raises RuntimeError."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with modes.Flag(NO_GRAD, True):
            outputs = fn(ctx, *args)
        if not modes.is_grad_enabled():
            return outputs
        edges = tuple(edge(a) for a in args if isinstance(a, Tensor) and a._rg)
        if not edges:
            return outputs
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        node = DelayedError()
        node.seq, node.extra, node.edge_list, node.n_out = next_seq(), None, edges, len(outs)
        node.message = (
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
        guarded: list = []
        for i, out in enumerate(outs):
            if isinstance(out, Tensor) and out._array.dtype in DIFFERENTIABLE:
                out = out.detach()
                out._rg, out._fn, out._nr = True, node, 0 if len(outs) == 1 else i + 1
            guarded.append(out)
        return tuple(guarded) if isinstance(outputs, tuple) else guarded[0]

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
