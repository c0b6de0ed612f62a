"""In-place operations: the same declarations, written into the first argument, with the history rewritten.

On a tensor that is no view, the tensor gets the op's node as its own. On a view, the base gets a CopySlices node,
which routes the gradient of the written part through the op's node, and all views of the base are out of date.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from ..tape import (
    dtypes,
    errors,
    handed,
    lazy,
    modes,
    recording,
    saved,
    source,
    sparse,
    streams,
    views,
)
from ..tape.arrays import kernels_of
from ..tape.memory import repeats_itself
from ..tape.modes import (
    FORWARD_AD,
    INFERENCE,
    NO_GRAD,
    OBSERVE,
    PROFILE,
    SAVED_HOOKS,
    shared,
    state,
)
from ..tape.node import Node, VariadicNode, edge, join
from ..tape.storage import INFERENCE as INFERENCE_STORAGE
from ..tape.storage import Storage, before_write, bump
from ..tape.strided import Layout
from ..tape.tensor import Tensor
from . import formulas, halves, interpret, tangents
from . import vmap as batched
from .updates import in_the_way, quick, quick_formula


class CopySlices(VariadicNode):
    """History of a base one of whose views was written to in place."""

    __slots__ = ("base_layout", "fn", "replay")
    node_name = "torch::autograd::CopySlices"

    def gradients(self, grads, traced):
        """Run the writing op's node on its part of the gradient, and put the result back into that part."""
        needed, old_view = state.needed, self.fn.targets()[0]
        if needed is not None and old_view is not None and self.edge_list[0][0] in needed:
            needed.add(old_view)  # stands for the base, whose gradient holds the written part's
        if traced:
            whole = self.base_layout.copy(grads[0])
            part = views.replay(whole, self.replay)
            inner = self.fn.gradients((part.clone(),), traced)
            if inner[0] is not None and not batched.holds(part, inner[0]):
                # all entries share what arrives, but not what it is multiplied by
                zeros = batched.zeros_within(grads[0], inner[0])
                whole = self.base_layout.copy(grads[0] + zeros)
                part = views.replay(whole, self.replay)
            if inner[0] is None:
                part.zero_()
            else:
                part.copy_(inner[0])
        else:
            grad = grads[0]
            if isinstance(grad, np.generic):  # NumPy's ufuncs make 0-dim arrays to numbers
                grad = np.asarray(grad)
            whole = self.base_layout.raw_copy(grad)
            part, bits = views.replay_raw(whole, self.replay)
            given = lazy.mapped(part, bits) if bits else part.copy()
            inner = self.fn.gradients((given,), traced)
            part[...] = 0 if inner[0] is None else lazy.mapped(inner[0], bits)
        return (whole, *inner[1:])

    def release(self):
        self.fn.release()


class Overwritten(VariadicNode):
    """History of a tensor that an op without derivative (a comparison) wrote its result into: the gradient is zero."""

    __slots__ = ("of",)

    def name(self) -> str:
        return self.of

    def gradients(self, grads, traced):
        F = formulas.traced_ops if traced else formulas.raw_ops(grads[0])
        return (F.zeros_like(grads[0]),)


def _overwritten(op, tensor: Tensor) -> Node:
    node = join(Overwritten, [edge(tensor)])
    node.of = op.node_name
    frame = source.user_frame(sys._getframe(1))
    node.code, node.lasti = frame.f_code, frame.f_lasti
    return node


def refuse_inference(tensor: Tensor) -> None:
    """RuntimeError if `tensor` is an inference tensor and the mode is off: it must not be changed there."""
    if (
        tensor._ver is INFERENCE_STORAGE
        and not state.bits & INFERENCE
        # an entry may have been made there, but it is the batch that is written to
        and batched.all_entries(tensor)._ver is INFERENCE_STORAGE
    ):
        raise RuntimeError(errors.INFERENCE_INPLACE)


def check(tensor: Tensor, op: Any, records: bool) -> None:
    """RuntimeError if `tensor` must not be changed in place now."""
    refuse_inference(tensor)
    if op.overlapping != "fill" and repeats_itself(tensor._array):
        if not op.overlapping or records:
            raise RuntimeError(errors.OVERLAP)
        warnings.warn(
            f"Use of {op.public}_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
            "operation.",
            UserWarning,
            stacklevel=3,
        )
    if state.bits & (NO_GRAD | INFERENCE):
        return
    view = tensor._view
    if view is not None:
        if view.made_in != views.DEFAULT and (records or tensor._rg or view.base._rg):
            raise views.refusal(view)
        if (tensor._rg or view.base._rg) and view.base.is_leaf:
            raise RuntimeError(errors.VIEW_OF_LEAF_INPLACE)
    if tensor._rg and tensor.is_leaf:
        raise RuntimeError(errors.LEAF_INPLACE)


def inplace(op, tensor: Tensor, others: tuple = (), attrs: tuple = ()) -> Tensor:
    """``tensor = op(tensor, *others, *attrs)`` in the memory of `tensor`; returns `tensor`."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{op.public}_(): argument 'input' must be Tensor, not {type(tensor).__name__}"
        )
    bits = state.bits if shared.active else 0
    if bits <= NO_GRAD and (
        quick(op, tensor, others, bits)
        if op.ufunc is not None
        else quick_formula(op, tensor, others, attrs, bits)
    ):
        frame = source.user_frame(sys._getframe(1))
        bump(tensor, (frame.f_code, frame.f_lasti), op.public + "_")
        return tensor
    records = (
        not bits & (NO_GRAD | INFERENCE)
        and op.differentiable
        and (tensor._rg or any(getattr(o, "_rg", False) for o in others))
    )
    if bits & PROFILE:
        return recording.run_inplace(inplace, op, tensor, others, attrs)
    if state.interposers:
        outer = state.interposers
        state.interposers = outer[:-1]
        try:
            return outer[-1].call_inplace(
                op, tensor, others, attrs, lambda: inplace(op, tensor, others, attrs)
            )
        finally:
            state.interposers = outer
    if shared.sparse is not None and sparse.among((tensor, *others)):
        return _onto_sparse(op, tensor, others, attrs, records)
    level = batched.level_of_call(op, (tensor, *others), attrs) if shared.batches else None
    inside = level is not None
    if inside:
        if not batched.is_logical(tensor):
            return _onto_plain(op, tensor, others, attrs)
        # what is plain has its history outside
        records = records and any([t._rg for t in (tensor, *others) if batched.is_logical(t)])
    check(tensor, op, records)
    subclasses = shared.subclasses
    if subclasses is not None and subclasses.among((tensor, *others)):
        return subclasses.write(op, tensor, others, attrs, records)
    target = tensor  # what the kernel writes to
    if shared.lazy:
        others = tuple([lazy.resolved(o) if isinstance(o, Tensor) else o for o in others])
        target = lazy.unpacked(tensor) if lazy.is_lazy(tensor) else tensor
    for other in others:
        if isinstance(other, Tensor) and in_the_way(op, target, other):
            raise RuntimeError(errors.PARTIAL_OVERLAP)
    if bits & OBSERVE and state.saved_observer is not None:
        state.saved_observer.before_write(tensor)
    dual = outside = False
    if state.bits & FORWARD_AD:
        dual = tangents.any_tangent((tensor, *others))
        tangent = tangents.of_inplace(op, target, others, attrs) if dual else None
        # what is recorded outside of the batch saves tangents there
        outside = dual and inside and tangents.hand_over(level, (target, *others))
    try:
        args = interpret.prepare(op, (target, *others))
    except NotImplementedError:
        if op.differentiable:  # a comparison gives another dtype
            check_cast(interpret.common_dtype((tensor, *others)), tensor.dtype)
        raise
    kwargs = dict(zip(op.attrs, attrs, strict=True))
    node = _node(op, target, args, attrs, inside) if records else None
    if node is None and tensor._rg and not op.differentiable and not bits & (NO_GRAD | INFERENCE):
        finish(None, _overwritten(op, tensor), tensor)
    hidden = _compute(op, target, args, attrs, kwargs, outside)
    if target is not tensor:
        lazy.store(tensor, target._array)
    frame = source.user_frame(sys._getframe(1))
    bump(tensor, (frame.f_code, frame.f_lasti), op.public + "_")
    if node is not None:
        finish(op, node, tensor, args, hidden)
    if dual:
        tangents.set_tangent(tensor, tangent)
        if node is not None and op.saved_results:
            saved.keep_tangent(node, 0, tangents.tangent_of(tensor))
    return tensor


def _onto_sparse(op, tensor: Tensor, others: tuple, attrs: tuple, records: bool) -> Tensor:
    """`inplace` where the tensor is sparse, which becomes the result of the op, or gets values of sparse ones."""
    if tensor._rg and tensor.is_leaf and records:
        raise RuntimeError(errors.LEAF_INPLACE)
    if not sparse.is_sparse(tensor):
        return _with_sparse(op, tensor, others, attrs, records)
    refuse_inference(tensor)
    op = getattr(op, "op", op)
    out = interpret.general(op, (tensor, *others), attrs)
    if not sparse.is_sparse(out) or out.shape != tensor.shape:
        raise RuntimeError(
            f"{op.public}_: the result of size {errors.size(out.shape)} and layout {out.layout} is not one that a "
            f"tensor of size {errors.size(tensor.shape)} and layout {tensor.layout} can become"
        )
    return become(op, tensor, out)


def become(op, tensor: Tensor, out: Tensor) -> Tensor:
    """Let a sparse tensor, and all that share its array, become `out`, which `op` made of it."""
    check_cast(out.dtype, tensor.dtype)
    if out.dtype is not tensor.dtype:
        out = out.to(tensor.dtype)
    tensor._array.assign(out._array)
    _bumped(op, tensor)
    if out._rg:
        set_history(tensor, *edge(out))  # pyright: ignore[reportArgumentType]
    return tensor


def _with_sparse(op, tensor: Tensor, others: tuple, attrs: tuple, records: bool) -> Tensor:
    """`inplace` on a dense tensor with sparse operands: a sum is added at their places; others are written anew."""
    first: Any = others[0] if others else None
    if (
        op.ufunc == "add"
        and not records
        and sparse.is_sparse(first)
        and not state.bits & FORWARD_AD
    ):
        check(tensor, op, records)
        if first.shape != tensor.shape:
            raise RuntimeError(
                f"add_: expected the sparse tensor to have size {errors.size(tensor.shape)}, but got "
                f"{errors.size(first.shape)}"
            )
        check_cast(interpret.common_dtype((tensor, first)), tensor.dtype)
        before_write(tensor)
        sparse.scattered(first._array, tensor._array)
        _bumped(op, tensor)
        return tensor
    plain: Any = getattr(op, "op", op)
    if op.ufunc not in ("add", "subtract") and plain.name != "copy":
        return tensor.copy_(interpret.general(plain, (tensor, *others), attrs))
    dense = [o.to_dense() if sparse.is_sparse(o) else o for o in others]
    return inplace(op, tensor, tuple(dense), attrs)


def _bumped(op, tensor: Tensor) -> None:
    frame = source.user_frame(sys._getframe(1))
    bump(tensor, (frame.f_code, frame.f_lasti), op.public + "_")


def _onto_plain(op, tensor: Tensor, others: tuple, attrs: tuple) -> Tensor:
    """`inplace` on a tensor that is none of the batch, of tensors inside vmap: it has its history outside."""

    dual = bool(state.bits & FORWARD_AD) and tangents.any_tangent((tensor, *others))
    tangent = tangents.of_inplace(op, tensor, others, attrs) if dual else None
    with modes.Flag(FORWARD_AD, bool(state.bits & FORWARD_AD) and not dual):
        batched.write_captured(op, tensor, others, attrs)
    if dual:
        tangents.set_tangent(tensor, tangent)
    return tensor


def _node(op, tensor: Tensor, args: tuple, attrs: tuple, inside: bool) -> Node:
    """The op's node; if a formula needs the old value of `tensor`, a copy of it is saved."""
    first = args[0]
    others = any(isinstance(a, Tensor) and a._rg for a in args[1:])
    if first is tensor and op.tensors[0] in op.saved_tensors and (tensor._rg or others):
        # inside vmap the copy has a history outside, whose gradient may be differentiated again
        first = tensor.clone() if batched.is_logical(tensor) else _kept(tensor)
        first._rg = tensor._rg
        if tensor._rg:
            first._fn, first._nr = edge(tensor)
    return interpret.make_node(op, (first, *args[1:]), attrs, tensor._array.shape, inside)


def _kept(tensor: Tensor) -> Tensor:
    """The values of `tensor` before they are written over, and its tangent as it is now, with the history of that."""
    tangent = tangents.tangent_of(tensor) if state.bits & FORWARD_AD else None
    with modes.Flag(FORWARD_AD, False):
        with modes.Flag(NO_GRAD, True):
            kept = tensor.clone()
        if tangent is not None:
            tangents.own_tangent(kept, tangent.clone())
    return kept


def _compute(op, tensor: Tensor, args: tuple, attrs: tuple, kwargs: dict, dual: bool) -> tuple:
    if shared.batches and batched.level_of_call(op, args, attrs) is not None:
        # tangents are written where this op is seen, and once more outside if they are saved there
        with modes.Flag(FORWARD_AD, dual):
            batched.write(op, tensor, args, attrs)
        return ()
    if shared.active and state.capture is not None:
        return state.capture.write(
            op, tensor, args, attrs, lambda: _written(op, tensor, args, attrs, kwargs)
        )
    return _written(op, tensor, args, attrs, kwargs)


def _written(op, tensor: Tensor, args: tuple, attrs: tuple, kwargs: dict) -> tuple:
    """The kernel's result in the memory of `tensor`; returns the hidden values."""
    array = tensor._array
    if shared.cuda is not None and array.__class__ is not np.ndarray:
        there = shared.cuda.elsewhere(array)
        if there is not None:
            with there:
                return _written(op, tensor, args, attrs, kwargs)
    xp = kernels_of(array)
    arrays: list[Any] = [
        a._array if isinstance(a, Tensor) else interpret._number(xp, a) if a is not None else None
        for a in args
    ]
    shapes = [a.shape for a in arrays if a is not None and hasattr(a, "shape")]
    if op.elementwise and any(s != array.shape for s in shapes):
        try:
            wide = np.broadcast_shapes(*shapes)
        except ValueError as exc:
            raise interpret.kernel_error(exc, op, args, attrs) from None
        if wide != array.shape:
            raise RuntimeError(
                f"output with shape {errors.size(array.shape)} doesn't match the broadcast shape {errors.size(wide)}"
            )
    hidden: tuple = ()
    try:
        if op.ufunc is not None and arrays[0].dtype == array.dtype:
            if array.__class__ is np.ndarray and array.dtype in dtypes.HALVES and halves.suits(op):
                halves.forward_of(op, arrays)(xp, *arrays, out=array)
            else:
                getattr(xp, op.ufunc)(*arrays, out=array, casting="same_kind")
            return hidden
        raw = halves.forward_of(op, arrays)(xp, *arrays, **kwargs)
    except Exception as exc:
        if errors.wrong_out(exc):
            raw = halves.forward_of(op, arrays)(xp, *arrays, **kwargs)
        else:
            wrong = interpret.kernel_error(exc, op, args, attrs)
            if op.elementwise and isinstance(wrong, NotImplementedError):
                check_cast(dtypes.from_np(arrays[0].dtype), tensor.dtype)
            raise wrong from None
    if op.hidden:
        raw, hidden = raw[0], raw[1:]
    check_cast(dtypes.from_np(raw.dtype), tensor.dtype)
    if raw.shape != array.shape:
        raise RuntimeError(
            f"output with shape {errors.size(array.shape)} doesn't match the broadcast shape {errors.size(raw.shape)}"
        )
    if raw is not array:  # which a kernel of its own has written to
        if op.overlapping != "fill" and repeats_itself(array):
            # the old value of one element would hide the new one of another
            raise RuntimeError(errors.OVERLAP)
        array[...] = raw
    return hidden


def check_cast(have: dtypes.dtype, want: dtypes.dtype) -> None:
    """RuntimeError if a result may not be converted to the dtype that it is written to."""
    if not dtypes.can_cast(have, want):
        raise RuntimeError(
            f"result type {have.scalar_type} can't be cast to the desired output type "
            f"{want.scalar_type}"
        )


def finish(op, node: Node, tensor: Tensor, args: tuple = (), hidden: tuple = ()) -> None:
    """Save the result where formulas need it, and make `node` the history of `tensor`."""
    if shared.cuda is not None:
        streams.stamp(node, (tensor,))
    whole = set_history(tensor, node)
    if op is None:
        return
    for name in op.saved_results:
        saved.save_result(node, name, tensor, 0)
        if whole is not None:
            saved.save_part(node, name, whole, tensor)
    for name, value in zip(op.hidden, hidden, strict=False):
        if name in op.saved_hidden:
            setattr(node, "h_" + name, value)
    if state.bits & SAVED_HOOKS and (op.saved_hidden or op.saved_arrays):
        saved.pack_arrays(node)


def set_history(tensor: Tensor, node: Node, nr: int = 0) -> Node | None:
    """`node` made the current value of `tensor`; through a view, part of the value of its base.

    Returns the node that the base got, if there is a base.
    """
    if state.writes is not None:
        state.writes.note(tensor)
    view = tensor._view
    if view is None or tensor._fn is not None:
        old, old_nr = tensor._fn, tensor._nr
        tensor._rg, tensor._fn, tensor._nr, tensor._accumulator = True, node, nr, None
        if tensor._retain and old is not None:  # the .grad kept is that of the newest value
            node.make_extra().retained[nr] = old.make_extra().retained.pop(old_nr)
        if type(tensor._ver) is Storage:
            tensor._ver.require_grad(tensor)
        return None
    base = view.base
    copy = join(CopySlices, [edge(base) if base._rg else (None, 0), *node.edges()[1:]])
    if hasattr(node, "code"):
        copy.code, copy.lasti = node.code, node.lasti
    if shared.cuda is not None:
        streams.stamp(copy, (base,))
    copy.fn, copy.replay = node, view.replay
    copy.base_layout = Layout.of(base._array)
    kept = views.take_retained(base, base._fn, base._nr)
    base._rg, base._fn, base._nr = True, copy, 0
    tensor._rg = True
    if type(base._ver) is Storage:
        base._ver.require_grad(base)
    view.regenerate(tensor, tensor._ver.version)
    if kept is not None:  # the .grad kept is that of the newest value
        copy.make_extra().retained[0] = kept
    return copy


handed.over(inplace, refuse_inference)
