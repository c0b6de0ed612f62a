"""The path of every op call that is not the plain case: promotion, devices, modes, lists of tensors, several outputs.

Layers, outermost first: recorders (profiler, NVTX) - interposers (vmap, autocast; newest first) - forward-mode
tangents - promotion and devices - batches - what a captured step is written down by - kernel - wrapping and recording
(saved-tensor hooks, anomaly traceback). `write`
writes the innermost two out as straight code for the plain case; this module is their meaning.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

from ..tape import dtypes, errors, handed, lazy, override, saved, sparse, streams, views
from ..tape.anomaly import stamp
from ..tape.arrays import kernels_of
from ..tape.device import stored
from ..tape.layout import in_order
from ..tape.modes import (
    ANOMALY,
    AUTOCAST,
    FORWARD_AD,
    INFERENCE,
    INFERENCE_LEAF,
    NO_GRAD,
    PROFILE,
    SAVED_HOOKS,
    no_leaf_left,
    resume,
    shared,
    state,
)
from ..tape.node import next_seq, peek_seq
from ..tape.recording import OP
from ..tape.source import user_frame
from ..tape.storage import INFERENCE as VERSIONLESS
from ..tape.tensor import Tensor
from . import halves, mixed, overlays
from . import vmap as batched

ndarray = np.ndarray


def general(op, args: tuple, attrs: tuple) -> Any:
    """Run and record `op` on its tensor arguments (Tensors, numbers, None, or one list) and attributes."""
    bits = state.bits
    if bits & INFERENCE_LEAF and no_leaf_left():
        bits = state.bits
    if attrs:
        attrs = plain(attrs)
    if bits & PROFILE:  # written out here: `recording` is on the way of every op
        recorder, result = state.recorder, None
        seq = -1 if bits & (NO_GRAD | INFERENCE) else peek_seq()
        token = recorder.enter(op.public, op, args, attrs, seq, OP)
        state.bits = bits & ~PROFILE  # not set_bits: the thread still counts as one with flags
        try:
            result = op.call(*args, *attrs)
            return result
        finally:
            resume(bits, bits & ~PROFILE)
            recorder.exit(token, result)
    outer = state.interposers
    if outer:
        before, state.interposers = state.interposers, outer[:-1]
        try:
            return outer[-1].call(op, args, attrs, lambda a=args, b=attrs: general(op, a, b))
        finally:
            state.interposers = before
    if op.variadic:
        args = tuple(args[0])
    if shared.lazy and (plain_args := lazy.arguments(op, args)) is not args:
        return op.call(plain_args, *attrs) if op.variadic else op.call(*plain_args, *attrs)
    if shared.batches and (op.apart or op.each_entry) and batched.level_of(args) is not None:
        # before tangents are taken: what it calls computes its own
        other: Any = batched.replacement(op)
        return other(*args, *attrs)
    if shared.sparse is not None and not op.sparse and sparse.among(args):
        return sparse_call(op, args, attrs)
    if bits & FORWARD_AD and handed.any_tangent(args):
        return handed.run_with_tangents(op, args, attrs)
    if shared.cuda is not None and (raw := mixed.compute(op, args, bits)) is not NotImplemented:
        seen = [handed.cast_unmade(a, raw.dtype) for a in args]
        return record(op, tuple(seen), attrs, raw, ())
    try:
        prepared = prepare(op, args)
    except TypeError:
        if override.met(op.call, args):
            return op.call(args, *attrs) if op.variadic else op.call(*args, *attrs)
        raise
    return execute(op, prepared, attrs, given=args)


def general_on_device(op, args: tuple, attrs: tuple, above: int) -> Any:
    """`general` for the code of `op` on CUDA devices: where nothing but autocast is on, its short way.

    above: of the caller's frames, those below this number are the library's.
    """
    outer = state.interposers
    if state.bits | NO_GRAD == AUTOCAST | NO_GRAD and len(outer) == 1 and outer[0].on is not None:
        return outer[0].call_on_device(op, args, attrs, above + 1)
    return general(op, args, attrs)


def sparse_call(op, args: tuple, attrs: tuple) -> Any:
    """What the rule of `op` for sparse tensors gives; NotImplementedError where it has none."""
    if op.on_sparse is not None:
        out = op.on_sparse(args, *attrs) if op.variadic else op.on_sparse(*args, *attrs)
        if out is not NotImplemented:
            return out
    given = args[0] if len(args) == 1 and args[0].__class__ in (list, tuple) else args
    first = next(a for a in given if sparse.is_sparse(a))
    raise NotImplementedError(sparse.refusal(op.public, first._array.pattern.layout))


def elsewhere(op, args: tuple, attrs: tuple) -> Any:
    """Where the code that `write` writes for NumPy arrays ends: its counterpart for a device, or `general`."""
    cuda = shared.cuda
    if cuda is not None and not op.one_way:
        first = getattr(args[0], "_array", None)
        if first.__class__ is cuda.array:
            return (op.on_device or build_on_device(op))(*args, *attrs)
        if (
            op.number_first is not None
            and op.numbers in ("any", "one")
            and (args[0].__class__ is float or args[0].__class__ is int)
            and getattr(args[1], "_array", None).__class__ is cuda.array
        ):
            if op.on_device is None:
                build_on_device(op)
            return op.on_device_number_first(*args, *attrs)
    return general(op, args, attrs)


def build_on_device(op):
    """Write the code of `op` for a device."""
    return handed.build_on_device(op)


def operate(op, args: tuple, attrs: tuple, name: str) -> Any:
    """`general` for Python's operators: NotImplemented for an operand that is no tensor, array or number.

    ``array + tensor`` is refused, as in PyTorch: with it ``array += tensor`` would not write into the array.
    """
    if not isinstance(args[0], Tensor):
        raise TypeError(
            f"descriptor '{name}' for 'Tensor' objects doesn't apply to a '{type(args[0]).__name__}' object"
        )
    if isinstance(args[-1], ndarray):
        pair = None if name.startswith("__r") else beside_array(*args)
        if pair is None:
            return NotImplemented
        args = pair
    if isinstance(args[-1], OPERANDS):
        return elsewhere(op, args, attrs)
    method = getattr(Tensor, name)
    return method(*args) if override.met(method, args) else NotImplemented


def operate_reflected(op, args: tuple, attrs: tuple) -> Any:
    """The same for an operator called on its second operand."""
    if not isinstance(args[1], Tensor) or not isinstance(args[0], OPERANDS):
        return NotImplemented
    return NotImplemented if isinstance(args[0], ndarray) else elsewhere(op, args, attrs)


def beside_array(tensor: Tensor, array) -> tuple | None:
    """A tensor and the NumPy array beside it as operands of Python's operators, in the dtype that NumPy gives them.

    None for arrays that tensors cannot hold or that have operators of their own: NumPy has to answer for those.
    """
    if array.__class__ is not ndarray or array.dtype not in dtypes.BY_NP:
        return None
    try:
        common = dtypes.from_np(np.result_type(tensor._array.dtype, array.dtype))
    except TypeError:
        return tensor, Tensor._make(array)
    tensor = tensor if tensor.dtype is common else tensor.to(common)
    return tensor, Tensor._make(array.astype(common.np, copy=False))


OPERANDS = (Tensor, int, float, complex, np.number, np.bool_, ndarray)


def ready(op, args: tuple) -> tuple | None:
    """`args` if they need no preparation: all are tensors of one floating dtype, on the CPU, or numbers beside them."""
    kind: Any = None
    dtype: Any = None
    numbers = False
    for a in args:
        array: Any = getattr(a, "_array", None)
        if array is None:
            if a.__class__ is not float and a.__class__ is not int:
                return None
            numbers = True
        elif kind is None:
            kind, dtype = array.__class__, array.dtype
            if kind is not ndarray and (kind is not batched.Logical or shared.cuda is not None):
                return None
        elif array.__class__ is not kind or array.dtype is not dtype:
            return None
    if dtype not in dtypes.NP_FLOATING or op.check is not None:
        return None
    if numbers:
        plain = dtype is dtypes.float32.np or dtype is dtypes.float64.np
        if not plain or op.fixed or op.numbers != "any" or op.promote not in PROMOTES:
            return None
        known = dtypes.BY_NP[dtype]
        return tuple([a if isinstance(a, Tensor) else Number(a, known) for a in args])
    return args if op.complex is not False or dtype.kind != "c" else None


PROMOTES = ("same", "float", "number")


def prepare(op, args: tuple) -> tuple:
    """Arguments on one device and, where the op asks for it, of one dtype."""
    if (known := ready(op, args)) is not None:
        return known
    tensors = []
    for i, a in enumerate(args):
        if isinstance(a, Tensor):
            tensors.append(a)
        elif a is None:
            if not op.variadic and op.tensors[i] not in op.optional:
                raise _refused(op, args, i)
        elif not isinstance(a, (int, float, complex, np.number, np.bool_)):
            raise _refused(op, args, i)
    if op.numbers != "any" and len(tensors) < len(args):
        _check_numbers(op, args)
    if not tensors:
        if not op.elementwise:
            raise TypeError(
                f"{op.public}(): argument '{_public(op, 0)}' (position 1) must be Tensor, not {type(args[0]).__name__}"
            )

        return prepare(op, tuple(handed.scalar_tensor_like(a) for a in args))
    if len({a._array.__class__ for a in tensors}) > 1 or not tensors[0].is_cpu:
        args, tensors = _one_device(op, args, tensors)
    if op.check is not None and (refusal := op.check(args)) is not None:
        raise refusal
    if op.complex is False and any(
        a._array.dtype in dtypes.COMPLEXES if isinstance(a, Tensor) else isinstance(a, complex)
        for a in args
    ):
        kind = common_dtype(args).scalar_type
        raise NotImplementedError(f"\"{op.public}_cpu\" not implemented for '{kind}'")
    if op.promote in PROMOTES:
        return _one_dtype(op, args)
    if op.promote == "none":
        first = tensors[0]._array.dtype
        for t in tensors[1:]:
            if t._array.dtype != first:
                text = (
                    f"{op.public}: expected all tensors to have the same dtype, but got: {tensors[0].dtype} and "
                    f"{t.dtype}"
                )
                raise RuntimeError(op.mixed(*args) if op.mixed is not None else text)
    return args


def _refused(op, args: tuple, i: int) -> TypeError:
    """The error for argument `i`, which is of a kind that the op does not take."""
    if op.numbers not in ("one", "second") or op.variadic:
        return TypeError(
            f"{op.public}(): argument '{_public(op, i)}' (position {i + 1}) must be Tensor, not "
            f"{errors.type_name(args[i])}"
        )
    given = ", ".join(errors.type_name(a) for a in args)
    rest = ", ".join(op.tensors[1:])
    forms = [f"(Tensor input, Tensor {rest}", f"(Tensor input, Number {rest}"]
    if op.numbers == "one":
        forms.insert(1, f"(Number self, Tensor {rest}")
    return TypeError(
        f"{op.public}() received an invalid combination of arguments - got ({given}), but expected one of:\n * "
        + "\n * ".join(form + ", *, Tensor out = None)" for form in forms)
    )


def _check_numbers(op, args: tuple) -> None:
    """TypeError for a Python number in a place where the op takes only tensors."""
    given = [i for i, a in enumerate(args) if a is not None and not isinstance(a, Tensor)]
    if not given:
        return
    if op.numbers == "none" or (op.numbers == "second" and given[0] == 0):
        raise _refused(op, args, given[0])
    if op.numbers == "one" and len(given) == len(args):
        raise _refused(op, args, 0)


def _public(op, i: int) -> str:
    if op.variadic:
        return "tensors"
    return "input" if op.tensors[i] == "self" else op.tensors[i]


def _one_device(op, args, tensors):
    """0-dim CPU tensors go to the others' device; anything else must be together."""
    devices = {t.device for t in tensors if t._array.ndim or not t.is_cpu}
    if len(devices) > 1:
        if any([d.type == "meta" for d in devices]):
            other = next(d for d in devices if d.type != "meta")
            raise RuntimeError(f"Tensor on device {other} is not on the expected device meta!")
        cuda, *rest = sorted(devices, key=lambda d: d.type != "cuda")
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {cuda} and {rest[0]}!"
            f" (when calling {op.public})"
        )
    if devices:
        target = devices.pop()
        args = tuple(
            a.to(target) if isinstance(a, Tensor) and a.device != target else a for a in args
        )
        tensors = [a for a in args if isinstance(a, Tensor)]
    return args, tensors


def common_dtype(args) -> dtypes.dtype:
    """PyTorch's result_type of tensors and numbers (None is ignored)."""
    return dtypes.result_type(
        (a.dtype, 2 if a._array.ndim else 1) if isinstance(a, Tensor) else (dtypes.of_scalar(a), 0)
        for a in args
        if a is not None
    )


def _one_dtype(op, args):
    if op.fixed:
        keep = [i for i, name in enumerate(op.tensors) if name in op.fixed]
        cast = list(_cast(op, [a for i, a in enumerate(args) if i not in keep]))
        for i in keep:
            cast.insert(i, args[i])
        return tuple(cast)
    return _cast(op, args)


def _cast(op, args):
    common = common_dtype(args)
    if op.promote == "float" and common.category < dtypes.FLOATING:
        common = dtypes.get_default_dtype()
    elif op.promote == "number" and common is dtypes.bool_:
        common = dtypes.int64
    wide = dtypes.float32 if op.wide_numbers and common.np in dtypes.HALVES else common
    out = []
    for a in args:
        if not isinstance(a, Tensor):
            a = None if a is None else Number(a, wide)
        elif a._array.dtype != common.np:
            a = a.to(common if a._array.ndim or a._array.dtype.kind not in "fV" else wide)
        out.append(a)
    return tuple(out)


class Number:
    """A Python number among tensor arguments, with the dtype it takes part as."""

    __slots__ = ("dtype", "value")

    def __init__(self, value, dtype: dtypes.dtype):
        self.value, self.dtype = value, dtype


def execute(op, args: tuple, attrs: tuple, compute: Any = None, given: tuple | None = None) -> Any:
    """Kernel, wrapping and recording for prepared arguments.

    compute: a function in the place of `compute_raw`. given: the arguments as they were before they were prepared,
    where the short way of the op could have been taken with them.
    """
    if compute is None and shared.subclasses is not None and shared.subclasses.among(args):
        return shared.subclasses.call(op, args, attrs)
    if shared.batches and (level := batched.level_of_call(op, args, attrs)) is not None:
        if not op.view and batched.alike_outside(level, op, args, attrs):
            return run_outside(level, op, args, attrs)
        return record(op, args, attrs, *run_batched(level, op, args, attrs), inside=True)
    if shared.lazy:  # interposers come here, too
        args = lazy.arguments(op, args)
    if shared.cuda is not None:
        array = stored(next(a for a in args if isinstance(a, Tensor))._array)
        there = None if array.__class__ is ndarray else shared.cuda.elsewhere(array)
        if there is not None:
            with there:
                return execute(op, args, attrs, compute)
    if shared.active and state.capture is not None:  # all that is above is made of such calls
        return state.capture.execute(op, args, attrs, compute, given)
    raw, hidden = (compute or compute_raw)(op, args, attrs)
    return record(op, args, attrs, raw, hidden)


def compute_raw(op, args: tuple, attrs: tuple) -> tuple[Any, tuple]:
    """What the kernel of `op` returns for prepared arguments: raw result(s), and the hidden values."""
    first = next(a for a in args if isinstance(a, Tensor))
    if op.view and first._array.__class__ is lazy.Lazy:
        return lazy.raw_view(op, first, attrs), ()
    xp = kernels_of(first._array)
    arrays = [
        a._array if isinstance(a, Tensor) else _number(xp, a) if a is not None else None
        for a in args
    ]
    kwargs = dict(zip(op.attrs, attrs, strict=True))
    try:
        raw = NotImplemented
        if (fused := overlays.forward_of(xp, op)) is not None:
            raw = fused(xp, arrays, **kwargs) if op.variadic else fused(xp, *arrays, **kwargs)
        if raw is NotImplemented:
            run = halves.forward_of(op, arrays)
            raw = run(xp, arrays, **kwargs) if op.variadic else run(xp, *arrays, **kwargs)
    except Exception as exc:
        if op.float8 and any([getattr(a, "dtype", None) in dtypes.FLOAT8 for a in arrays]):
            wide = [a.to(dtypes.float32) if isinstance(a, Tensor) else a for a in args]
            return compute_raw(op, tuple(wide), attrs)
        raise kernel_error(exc, op, args, attrs) from None
    hidden = ()
    if op.hidden:
        n = len(raw) - len(op.hidden)
        raw, hidden = (raw[0] if n == 1 else raw[:n]), raw[n:]
    if op.wide_numbers and raw.dtype not in dtypes.HALVES:
        kinds = [getattr(a, "dtype", None) for a in arrays]
        half = next((kind for kind in kinds if kind in dtypes.HALVES), None)
        raw = raw if half is None else raw.astype(half)
    if (
        op.row_major or op.elementwise or (op.pointwise and (op.inplace or len(arrays) > 1))
    ) and getattr(raw, "ndim", 0) > 1:
        raw = _laid_out(op, xp, raw, [a for a in arrays if getattr(a, "ndim", 0)])
    return raw, hidden


def _laid_out(op, xp, raw, arrays: list) -> Any:
    """The result in the order of strides that the op promises."""
    if op.row_major:
        return raw if raw.flags.c_contiguous else xp.ascontiguousarray(raw)
    if all([a.flags.c_contiguous for a in arrays]):
        return raw
    return in_order(xp, raw, arrays)


def run_batched(level, op, args: tuple, attrs: tuple) -> tuple[Any, tuple]:
    """Raw result(s) inside a vmap that runs on all entries at once."""
    try:
        return batched.run(level, op, args, attrs), ()
    except Exception as exc:
        raise kernel_error(exc, op, args, attrs) from None


def run_outside(level, op, args: tuple, attrs: tuple) -> Any:
    """The result(s) of an op on tensors of a vmap that all entries share, and that nobody watches inside."""
    try:
        return batched.outside(level, op, args, attrs)
    except Exception as exc:
        raise kernel_error(exc, op, args, attrs) from None


def record(op, args: tuple, attrs: tuple, raw: Any, hidden: tuple, inside: bool = False) -> Any:
    """Wrap the raw result(s) of `op` in Tensors with their history.

    inside: of a vmap, where only logical tensors have a history (that of others is recorded with the physical ones).
    """
    outs = [Tensor._make(raw)] if op.n_out == 1 else [Tensor._make(r) for r in raw]
    return connect(op, args, attrs, outs, hidden, inside)


def connect(op, args: tuple, attrs: tuple, outs: list, hidden: tuple, inside: bool = False) -> Any:
    """Give the results of `op`, Tensors without history, theirs; see `record`."""
    single = op.n_out == 1
    node = None
    if not state.bits & (NO_GRAD | INFERENCE) and op.differentiable:
        diff = False
        for i, a in enumerate(args):
            if (
                isinstance(a, Tensor)
                and a._rg
                and (op.vjp or op.variadic or op.tensors[i] in op.formulas)
                and (not inside or batched.is_logical(a))
            ):
                diff = True
                break
        if diff and state.bits & INFERENCE_LEAF and not op.copies and _by_inference(args):
            diff = False
        if diff:
            node = make_node(op, args, attrs, outs[0]._array.shape if single else (), inside)
            finish_node(node, outs, hidden)
    if op.view:
        first = next(a for a in args if isinstance(a, Tensor))
        if single:
            views.attach(outs[0], first, op, attrs, node)
        else:
            attach_outputs(op, attrs, first, outs, node)
    return outs[0] if single else tuple(outs)


def _by_inference(args: tuple) -> bool:
    """Whether all operands are inference tensors; a number stands for a tensor that is none."""
    return all([isinstance(a, Tensor) and a._ver is VERSIONLESS for a in args if a is not None])


def attach_outputs(op, attrs: tuple, source: Tensor, outs: list, node) -> None:
    """Make all outputs of a multi-output view op views of its input, which must not be written to."""
    for i, out in enumerate(outs):
        step, step_attrs = op.view(i, attrs, source, outs)
        views.attach(out, source, step, step_attrs, node, out._nr)
        if not state.bits & (NO_GRAD | INFERENCE) and out._view.made_in != views.INFERENCE_MODE:
            out._view.made_in = views.MULTI_OUTPUT


def _number(xp, number):
    if not isinstance(number, Number):
        return number
    value, dtype = number.value, number.dtype.np
    if dtype.kind in "iu":  # integers wrap around
        value = _wrapped(value, dtype)
    elif dtype.kind == "V" and value.__class__ is int:
        value = float(value)  # bfloat16 takes no integers of more than 64 bits
    return xp.number(value, dtype)


def _wrapped(value, dtype) -> int:
    """A Python integer modulo the range of an integer type; errors for one that int64 cannot hold."""
    value = int(value)
    info = np.iinfo(dtype)
    if info.min <= value <= info.max:
        return value
    if not -(2**63) <= value < 2**63:
        if value >= 2**64:
            raise OverflowError("int too big to convert")
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    value &= 2**info.bits - 1
    return value - 2**info.bits if value > info.max else value


def make_node(op, args: tuple, attrs: tuple, shape: tuple, inside: bool = False):
    """A node for `op` with edges, saved arguments and attributes; `finish_node` adds what comes from the outputs.

    shape: of the result.
    """
    node = object.__new__(_node_class(op, args))
    node.extra = None
    values = [_kept(op, a, args) if isinstance(a, Number) else a for a in args]
    takes = [isinstance(a, Tensor) and (not inside or batched.is_logical(a)) for a in values]
    node.connect(takes, shape, values, *attrs)
    if op.leaves_device and shared.cuda is not None:
        streams.stamp(node, args)  # if the result is on the CPU
    node.seq = next_seq()
    frame = user_frame(sys._getframe(1))
    node.code, node.lasti = frame.f_code, frame.f_lasti
    if state.bits & ANOMALY:
        stamp(node)
    return node


def _node_class(op, args: tuple) -> type:
    """The node class whose `run` tries the kernels of the device that the arguments are on."""
    for a in args:
        if not isinstance(a, Tensor):
            continue
        if a._array.__class__ is not ndarray:
            if a._array.__class__ is batched.Logical and batched.physical_kind(a) is ndarray:
                continue
            where = a.device.type
            if where == "meta":
                return op.formula_node_class
            if where == "cuda":
                return op.device_node_class
        elif a._array.dtype in dtypes.HALVES and halves.suits(op):
            return op.half_node_class
    return op.node_class


def _kept(op, number: Number, args: tuple) -> Any:
    """A number as a node keeps it: beside half types as the array that takes part, where the op asks for wide ones."""
    if op.wide_numbers and number.dtype is dtypes.float32:
        half = next((a._array for a in args if getattr(a, "dtype", None) in HALF_TYPES), None)
        if half is not None:
            return _number(kernels_of(half), number)
    return number.value


HALF_TYPES = (dtypes.float16, dtypes.bfloat16)
FLOAT8_TYPES = frozenset([dtypes.BY_NP[d] for d in dtypes.FLOAT8])


def finish_node(node, outs: list, hidden: tuple) -> None:
    """Connect outputs to their node, and save those that formulas need."""
    op = node.op
    if shared.cuda is not None:
        streams.stamp(node, outs)
    if op.n_out is None:
        node.n_out = len(outs)
    for i, out in enumerate(outs):
        if out._array.dtype in dtypes.DIFFERENTIABLE and i not in op.nondifferentiable:
            out._rg, out._fn, out._nr = True, node, 0 if len(outs) == 1 else i + 1
    for name in op.saved_results:
        i = op.results.index(name)
        saved.save_result(node, name, outs[i], outs[i]._nr)
    for name, value in zip(op.hidden, hidden, strict=False):
        if name in op.saved_hidden:
            setattr(node, "h_" + name, value)
    if state.bits & SAVED_HOOKS and (op.saved_hidden or op.saved_arrays):
        saved.pack_arrays(node)


def plain(attrs: tuple) -> tuple:
    """Attributes, which are never tensors: a tensor that is given for one counts as the number that it holds."""
    for a in attrs:
        if isinstance(a, Tensor):
            return tuple([a.item() if isinstance(a, Tensor) else a for a in attrs])
    return attrs


def failed(exc: Exception, op, args: tuple, attrs: tuple) -> Any:
    """What becomes of a call whose kernel raised `exc`: the result with plain attributes, or PyTorch's exception."""
    known = plain(attrs)
    if known is not attrs:
        return op.call(*args, *known)
    if op.float8 and any([getattr(a, "dtype", None) in FLOAT8_TYPES for a in args]):
        return general(op, args, attrs)
    raise kernel_error(exc, op, tuple(args[0]) if op.variadic else args, attrs) from None


def kernel_error(exc: Exception, op, args: tuple, attrs: tuple) -> Exception:
    """PyTorch's exception for what a kernel raised."""
    if op.check is not None and (refusal := op.check(args)) is not None:
        return refusal
    if (refusal := errors.allocation(exc)) is not None:
        return refusal
    shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)]
    broadcasts = op.elementwise or "broadcast together" in str(exc)
    if isinstance(exc, ValueError) and len(shapes) > 1 and broadcasts:
        for first, other in itertools.combinations(shapes, 2):
            found = errors.broadcast(first, other)
            if found is not None:
                return found
    float8 = any([isinstance(a, Tensor) and a.dtype in FLOAT8_TYPES for a in args])
    wrong_type = isinstance(exc, TypeError) and (
        float8 or "not supported for the input types" in str(exc) or "Wrong type (" in str(exc)
    )
    if errors.no_kernel(exc) or wrong_type:
        first = next((a for a in args if isinstance(a, Tensor)), None)
        kind = first.dtype.scalar_type if first is not None else "?"
        return NotImplementedError(f"\"{op.public}\" not implemented for '{kind}'")
    if errors.wrong_out(exc):
        have, want = (
            dtypes.BY_NP[d].scalar_type
            for d in (exc.from_, exc.to)  # type: ignore[attr-defined]
        )
        return RuntimeError(f"result type {have} can't be cast to the desired output type {want}")
    return exc


handed.over(compute_raw)
