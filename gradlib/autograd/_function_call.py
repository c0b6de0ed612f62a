"""The end of a custom Function's call: history and tangents of its outputs, and what it saves."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..op.formulas import traced_ops
from ..op.inplace import set_history
from ..op.tangents import forward_base, own_tangent, set_tangent, split_off, tangent_of
from ..op.vmap import Logical, level_of, physical_kind
from ..operators.shape.reshape import alias_op as alias
from ..tape import errors, modes, saved, views
from ..tape.anomaly import stamp
from ..tape.arrays import _BY_TYPE
from ..tape.device import beside, device
from ..tape.dtypes import DIFFERENTIABLE, from_np
from ..tape.lazy import resolved
from ..tape.modes import ANOMALY, FORWARD_AD, NO_GRAD, SAVED_HOOKS, shared, state
from ..tape.node import edge
from ..tape.sizes import Size
from ..tape.source import user_frame
from ..tape.storage import bump, share, version_of
from ..tape.tensor import Tensor

if TYPE_CHECKING:
    from .function import BackwardCFunction, FunctionCtx

NO_EDGE = (None, 0)
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


JVP_NO_VIEW = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."


JVP_OTHER_VIEW = "A custom Function is returning a view but the jvp is not returning a view of "


JVP_NOT_INPLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an "
    "input inplace, then the jvp function must modify the corresponding gradient inplace."
)


JVP_NOT_AS_IS = (
    "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is modifying an "
    "input inplace, then the jvp function must modify the gradient inplace and return it as-is."
)


OWN = -4  # versions: see tape.saved


def finish(cls, ctx: FunctionCtx, node, args: tuple, output, bits: int):
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
            kind = physical_kind(output) if shared.batches or shared.lazy else array.__class__
            like_it = ((array.shape, array.dtype, kind),)
            object.__setattr__(node, "_outputs", like_it)  # not by way of the ctx: it is quicker
            output._rg, output._fn, output._nr = True, node, 0
        outs: Any = (output,)
        single = True
    else:
        single = not isinstance(output, tuple)
        outs = _with_history(ctx, node, args, (output,) if single else output)
    if node is not None:
        if ctx.to_save is not None:
            save(ctx, node, ctx.to_save)
        if bits & ANOMALY:
            stamp(node)
    if bits & FORWARD_AD:
        _push_tangents(cls, ctx, args, (output,) if single else output, outs)
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
    for tensor in ctx.dirty_tensors or ():
        bump(tensor, _site(), "mark_dirty()")
    if not dirty <= {id(o) for o in output}:
        raise RuntimeError(DIRTY_MISSING)
    if node is not None:
        node.n_out = len(output)
        node._outputs = tuple(like(o) if isinstance(o, Tensor) else None for o in output)
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
        if is_input:
            if out._rg:
                return out.detach()
            return out if is_dirty else _as_itself(out)
        if out._view is not None:
            out._view.made_in = views.CUSTOM_FUNCTION
        elif out._rg:
            out._rg, out._fn, out._nr = False, None, 0
        return out
    if is_dirty and is_input:
        if out._rg and out.is_leaf:
            raise RuntimeError(DIRTY_LEAF)
        _rewrite(out, node, nr, args)
        return out
    if is_input:
        out = _as_itself(out)
    view = out._view
    out._rg = True
    if view is None:
        out._fn, out._nr = node, nr
    else:
        view.made_in = views.CUSTOM_FUNCTION
        view.fn, view.nr, out._fn = node, nr, None
        view.version = -1 if out.is_inference() else version_of(out)
    return out


def _as_itself(tensor: Tensor) -> Tensor:
    """What a Function gives back for an input that it returns: another tensor of the same class on the same memory."""
    with modes.Flag(NO_GRAD, True):
        out = alias.call(tensor)
    if tensor.__class__ is not Tensor and not getattr(tensor, "_is_param", False):
        out.__class__ = (
            tensor.__class__
        )  # not of a parameter: another one would be registered as well
    return out


def _rewrite(tensor: Tensor, node, nr: int, args: tuple) -> None:
    """The history of an input that forward changed in place."""

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
        node._first = first = next(k for k, a in enumerate(tensors) if a is tensor)
        edges = list(node.edge_list)
        edges.insert(0, edges.pop(first))
        node.edge_list = tuple(edges)
    tensor._grad = None
    set_history(tensor, node, nr)


def save(ctx: FunctionCtx, node: BackwardCFunction, tensors: tuple) -> None:
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


class OwnOutput:
    """An output that its own Node saved: kept without the Tensor, which would make a cycle."""

    __slots__ = ("array", "nr", "storage", "version")

    def __init__(self, out: Tensor):
        self.array, self.storage = out._array, share(out)
        self.nr, self.version = edge(out)[1], self.storage.version

    def tensor(self, node, i: int) -> Tensor:
        storage = self.storage
        if storage.version != self.version:
            raise saved.modified(
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

    def __init__(self, tensor: Tensor, pair: Any, node):
        own = _made_by(tensor, node)
        fn, nr = (
            (saved.SELF, edge(tensor)[1]) if own else NO_EDGE if tensor.is_leaf else edge(tensor)
        )
        self.packed = saved.Packed(tensor, pair, fn, nr)

    def tensor(self, node, i: int) -> Tensor:
        return self.packed.tensor(node)


def _made_by(tensor: Tensor, node) -> bool:
    return tensor._fn is node or (tensor._view is not None and tensor._view.fn is node)


class RawSaved(saved.SavedTensor):
    """One saved tensor of a custom Function: ``grad_fn._raw_saved_tensors[i]``."""

    __slots__ = ()

    def register_hooks(self, pack_hook, unpack_hook) -> None:
        """Call `pack_hook` with the saved tensor now, and `unpack_hook` with its result at each access."""
        node: Any = self._node
        i: Any = self._name
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


def _push_tangents(cls, ctx: FunctionCtx, args: tuple, output: tuple, outs: tuple) -> None:
    """Run jvp if an input has a tangent, and give the outputs theirs."""

    tangents = [tangent_of(a) if isinstance(a, Tensor) else None for a in args]
    if all(t is None for t in tangents):
        return
    dirty = {id(t) for t in ctx.dirty_tensors or ()}
    given = {
        id(a): (t, t._version)
        for a, t in zip(args, tangents, strict=True)
        if t is not None and id(a) in dirty
    }
    if ctx.saved_for_forward is None:
        ctx.saved_for_forward = ()  # what is saved for backward is not for jvp
    with modes.Flag(FORWARD_AD, False), _within_batch(tangents):
        if ctx.materialize_grads:
            tangents = [
                zeros_beside(a)
                if t is None and isinstance(a, Tensor) and a._array.dtype in DIFFERENTIABLE
                else t
                for t, a in zip(tangents, args, strict=True)
            ]
        found = cls.jvp(ctx, *tangents)
        found = found if isinstance(found, tuple) else (found,)
    for i, tangent in enumerate(found):
        if tangent is not None and not isinstance(tangent, Tensor):
            raise RuntimeError(
                f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}."
            )
    if len(found) != len(outs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} "
            f"but got {len(found)})"
        )
    constant = {id(t) for t in ctx.non_differentiable or ()}
    for i, (raw, out, tangent) in enumerate(zip(output, outs, found, strict=True)):
        if not isinstance(out, Tensor):
            continue
        if tangent is not None:
            _check_tangent(i, out, tangent, id(raw) in constant)
        if id(raw) in dirty:
            if id(raw) in given:
                _check_changed_tangent(tangent, *given[id(raw)])
            else:
                set_tangent(out, tangent)
        elif tangent is not None:
            _check_viewed_tangent(out, tangent, args)
            own_tangent(split_off(out), tangent)
        if tangent is not None and out._rg:
            saved.keep_tangent(*edge(out), tangent_of(out))


def _within_batch(tangents: list) -> Any:
    """Where jvp runs: inside the vmap that the tangents are of, although the values may be shared by its entries."""
    level = level_of(tangents) if shared.batches else None
    if level is None or (state.batch is not None and state.batch.id >= level.id):
        return nullcontext()
    return level.running()


def _check_tangent(i: int, out: Tensor, tangent: Tensor, constant: bool) -> None:
    if constant or out._array.dtype not in DIFFERENTIABLE:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not a "
            "differentiable Tensor.You should return None at that position instead."
        )
    if tangent._array.shape != out._array.shape:
        raise RuntimeError(errors.tangent_size(out._array.shape, tangent._array.shape))
    if tangent._array.dtype not in DIFFERENTIABLE:
        raise RuntimeError(
            "Expected both tensor and its forward grad to be floating point or complex"
        )


def _check_changed_tangent(tangent: Tensor | None, given: Tensor, version: int) -> None:
    """The tangent of an input that forward changed in place must have been changed in place as well."""
    if tangent is None or tangent._version == version:
        raise RuntimeError(JVP_NOT_INPLACE)
    if tangent is not given:
        raise RuntimeError(JVP_NOT_AS_IS)


def _check_viewed_tangent(out: Tensor, tangent: Tensor, args: tuple) -> None:
    """The tangent of a view of an input must be a view of that input's tangent: they change together."""

    if out._view is None:
        return
    base, _ = forward_base(out._view)
    for a in args:
        if not isinstance(a, Tensor):
            continue
        view = a._view
        is_base = a is base or (view is not None and view is base)
        if is_base or (view is not None and forward_base(view)[0] is base):
            whole = tangent_of(a)
            if whole is None:
                return
            if not tangent._is_view():
                raise RuntimeError(JVP_NO_VIEW)
            if tangent._base is not (whole._base if whole._is_view() else whole):
                raise RuntimeError(
                    JVP_OTHER_VIEW
                    + ("the" if is_base else "the same base as the")
                    + " given grad input."
                )
            return


def like(tensor: Tensor) -> tuple:
    array = tensor._array
    return array.shape, array.dtype, physical_kind(tensor)


class InputMetadata:
    """What a gradient that flows into a Node is like: one entry of ``grad_fn._input_metadata``."""

    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, like: tuple | None):
        shape, self._dtype, self._kind = like or ((), np.dtype(np.float32), np.ndarray)
        self.shape = Size(shape)

    @property
    def dtype(self):
        return from_np(self._dtype)

    @property
    def device(self):
        return device(_device_type(self._kind))


def _device_type(kind: type) -> str:
    """The device that arrays of this class are on, as its name without an index."""

    name = _BY_TYPE[kind].name
    return {"numpy": "cpu", "meta": "meta"}.get(name, "cuda")


def zeros(like: tuple) -> Tensor:

    shape, dtype, kind = like
    return Tensor._make(_BY_TYPE[kind].zeros(shape, dtype))


def zeros_beside(tensor: Tensor) -> Tensor:
    with beside(tensor._array):
        return zeros(like(tensor))


def fit(node: BackwardCFunction, grad: Tensor, index: int, want: tuple) -> Tensor:
    """`grad` summed to the shape and cast to the dtype of the argument; RuntimeError if that is impossible."""
    shape, dtype, kind = want
    grad = resolved(grad)
    have = grad._array.shape
    if have != shape:
        extra = len(have) - len(shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(shape, have[extra:], strict=True)):
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - got {errors.size(have)} "
                f"but expected shape compatible with {errors.size(shape)}"
            )
        grad = traced_ops.sum_to_size(grad, shape)
    if dtype is not None and grad._array.dtype != dtype:
        if grad._array.dtype.kind == "c" and dtype.kind != "c":
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - got {grad.dtype} but the "
                "input is real"
            )
        grad = grad.to(from_np(dtype))
    if kind is not Logical and physical_kind(grad) is not kind:
        wanted = _device_type(kind)
        if grad._array.ndim:
            raise RuntimeError(
                f"Function {node.node_name} returned an invalid gradient at index {index} - expected device {wanted} "
                f"but got {grad.device}"
            )
        grad = grad.to(wanted)
    return grad
