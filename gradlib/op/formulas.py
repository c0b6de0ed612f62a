"""Running gradient formulas: on raw arrays, or on Tensors when the derivative is to be differentiated again.

`F` in a formula is a namespace with every op under its name: `raw_ops` runs their kernels on arrays, `traced_ops` are
the recording ops themselves. One formula serves both.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..tape import handed, recording, saved
from ..tape.arrays import backend_for, kernels_of
from ..tape.dtypes import HALVES
from ..tape.modes import DIFFERENTIATED, PROFILE, RAW, shared, state
from ..tape.tensor import Tensor
from . import overlays
from .signature import parameters

_raw: dict[type, Namespace] = {}  # type of a raw array -> its namespace
_ops: dict[str, Any] = {}
_functions: dict[str, Any] = {}


class Namespace:
    """Ops under their names: F.exp(x), F.sum(x, dim, keepdim). A name is looked up once and then an attribute."""

    def __init__(self, backend: Any = None):
        self.backend = backend  # None: the recording ops on Tensors

    def __getattr__(self, name: str) -> Any:
        if name in _functions:
            value: Any = partial(_functions[name], self)
        elif name in _ops:
            value = _ops[name].call if self.backend is None else _kernel(_ops[name], self.backend)
        else:
            raise AttributeError(f"formulas know no op or function named {name!r}")
        setattr(self, name, value)
        return value


traced_ops = Namespace()


def numpy_backend():
    return backend_for("cpu")


def raw_ops(array) -> Namespace:
    """The namespace for raw arrays of this kind; of several gradients, the first that is not None decides."""
    return _raw.get(array.__class__) or _raw_for(array)


def _raw_for(array) -> Namespace:

    if isinstance(array, (tuple, list)):
        for a in array:
            if a is not None:
                return raw_ops(a)
        return raw_ops(np.float32(0))
    if array.__class__ is shared.sparse:  # on whatever device
        return raw_ops(array.values)
    backend = kernels_of(array)
    known = next((space for space in _raw.values() if space.backend is backend), None)
    found = _raw[array.__class__] = known or Namespace(backend)
    return found


def forget_kernels() -> None:
    """Another backend is in use from now on: namespaces are made anew."""
    _raw.clear()


overlays.forget_by(forget_kernels)


def kernel_of(op, backend):
    """The declared kernel of `op`: of arrays, if it is a ufunc, else of the backend, arrays and attributes by name."""
    return getattr(backend.xp if backend.fuses else backend, op.ufunc) if op.ufunc else op.forward


def _kernel(op, backend):
    """The kernel of `op` with the backend filled in: tensors and attributes by position, hidden values dropped.

    An overlay, where the op has one, is tried first.
    """
    kernel, overlay = kernel_of(op, backend), overlays.forward_of(backend, op)
    if op.ufunc and overlay is None:
        return kernel
    tensors = [f"{t}=None" if t in op.optional else t for t in op.tensors]
    parameters = ", ".join((*(op.tensors if op.attrs else tensors), *op.attrs))
    arrays, attrs = ", ".join(op.tensors), "".join(f", {a}={a}" for a in op.attrs)
    text = f"def kernel({parameters}):\n"
    text += f"    raw_ = forward_({arrays if op.ufunc else f'backend_, {arrays}{attrs}'})\n"
    if overlay is not None:
        declared = text.splitlines()[1]
        text = f"def kernel({parameters}):\n    raw_ = overlay_(backend_, {arrays}{attrs})\n"
        text += f"    if raw_ is NotImplemented: {declared.lstrip()}\n"
    text += "    return raw_" + ("[0]" if op.n_out == 1 and op.hidden else "")
    names = {
        "forward_": kernel,
        "overlay_": overlay,
        "backend_": backend,
    }  # attributes may have any other name
    exec(text, names)
    return names["kernel"]


def register(op) -> None:
    """Make a declared op known to formulas."""
    _ops[op.name] = op


def formula_function(name: str | None = None):
    """Make ``fn(F, ...)``, written like a formula, available to formulas as ``F.<name>(...)`` in both modes."""

    def publish(fn):
        _functions[name or fn.__name__] = fn
        return fn

    return publish


@formula_function()
def sum_to_size(F, x, shape):
    """Undo broadcasting: `x` summed to `shape`."""
    if x.shape == shape:
        return x
    if not hasattr(x, "_array"):
        return sum_to(x, shape)
    extra = x.ndim - len(shape)
    dims = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1
    )
    return F.reshape(F.sum(x, dims, True), tuple(shape)) if dims else F.reshape(x, tuple(shape))


def sum_to(grad, shape: tuple):
    """Undo broadcasting: sum a raw gradient to `shape`."""
    extra = grad.ndim - len(shape)
    if extra and grad.shape[extra:] == shape and grad.dtype.itemsize > 2:
        axes = tuple(range(extra))
        return handed.add_up(grad, axes) if grad.__class__ is np.ndarray else grad.sum(axes)
    axes = tuple([d for d, n in enumerate(grad.shape) if d < extra or (n != 1 == shape[d - extra])])
    if not axes:
        return grad
    if grad.__class__ is not np.ndarray:
        if grad.__class__ is shared.sparse:
            return grad.summed_to(axes, shape)
        return grad.sum(axes).reshape(shape)
    if grad.dtype.itemsize == 2 and grad.dtype.kind in "fV":  # half types: rounded once
        xp = kernels_of(grad)
        return xp.narrow_half(handed.add_up(xp.wide(grad), axes), grad.dtype).reshape(shape)
    return handed.add_up(grad, axes).reshape(shape)


_traced_before: set = set()  # ops

# -- the general path: any node, raw or traced --------------------------------------------------------------------


class Values:
    """Values by name for the formulas of one node, fetched when first asked for."""

    def __init__(self, node, grads, needs, traced: int):
        self.node, self.op, self.traced = node, node.op, traced
        some = next((g for g in grads if g is not None), None)
        self.known: dict[str, Any] = {
            "gs": grads, "g": grads[0], "needs": needs,
            "F": traced_ops if traced else raw_ops(some),
        }  # fmt: skip

    def get(self, name: str):
        if name not in self.known:
            self.known[name] = self.fetch(name)
        return self.known[name]

    def fetch(self, name: str):
        node, op = self.node, self.op
        if name in op.saved_tensors or name in op.saved_results:
            return saved.unpack_tensor(node, name) if self.traced else saved.unpack(node, name)
        if name in op.hidden:
            return self.hidden(name)
        if name in op.arrays:
            return saved.unpack_array(node, "a_" + name)
        if name in op.attrs:
            return getattr(node, "a_" + name)
        return getattr(node, "n_" + name.removesuffix("_shape"))

    def hidden(self, name: str):
        """Kept by forward; on the way to a second derivative computed again, as a function of the inputs."""
        recompute = self.op.hidden[name]
        if self.traced is not DIFFERENTIATED or recompute is None:
            value = saved.unpack_array(self.node, "h_" + name)
            if not self.traced or not hasattr(value, "dtype"):
                return value
            return Tensor._make(value)
        if getattr(self.node, "h_" + name, None) is saved.RELEASED:
            saved.freed(self.node)
        return recompute(*(self.get(w) for w in parameters(recompute)))


def gradients(node, grads: tuple, traced: int) -> tuple:
    """Node.gradients of a declared op: one gradient for each edge, or None."""
    op = node.op
    if traced and op not in _traced_before:
        _traced_before.add(op)
        handed.specialize(op)  # from the next time on
    edges = node.edges()
    if all(g is None for g in grads):
        return (None,) * len(edges)
    needed = state.needed
    if needed is None:
        needs = tuple(target is not None for target, _ in edges)
    else:
        needs = tuple(target in needed for target, _ in edges)
    if not op.differentiable:
        raise RuntimeError(f"derivative for {op.public} is not implemented")
    values = Values(node, grads, needs, traced)
    if traced is not DIFFERENTIATED:
        outs = overlay_gradients(node, values, needs)
        if outs is not NotImplemented:
            return outs
    if op.vjp is not None:
        # what only an overlay reads: whether it was changed does not depend on the device
        for name in op.saves:
            values.get(name)
        outs = op.vjp.fn(*(values.get(w) for w in op.vjp.wants))
        return handed.depend_all(node, outs) if traced and op.dependent else tuple(outs)
    result = []
    for i, argument in enumerate(op.tensors):
        formula = op.formulas.get(argument)
        if not needs[i] or formula is None:
            result.append(None)
            continue
        half = not traced and grads[0].__class__ is np.ndarray and grads[0].dtype in HALVES
        run = formula.for_halves(op) if half else formula.fn
        grad = run(*(values.get(w) for w in formula.wants))
        if (
            op.wide_numbers
            and not traced
            and grad.dtype != grads[0].dtype
            and grads[0].dtype in HALVES
        ):
            grad = grad.astype(grads[0].dtype)
        shape = getattr(node, f"b{i}", None) if op.elementwise and len(op.tensors) > 1 else None
        if shape is not None:
            grad = traced_ops.sum_to_size(grad, shape) if traced else sum_to(grad, shape)
        result.append(grad)
    return handed.depend_all(node, tuple(result)) if traced and op.dependent else tuple(result)


def overlay_gradients(node, values: Values, needs: tuple) -> Any:
    """The gradients from the kernel that computes them in one piece; NotImplemented where there is none or it declines.

    Who records the ops (`values` are Tensors) sees that kernel as one range.
    """
    op, grads, traced = node.op, values.known["gs"], values.traced
    if traced:
        raw = tuple([None if g is None else g._array for g in grads])
        values = Values(node, raw, needs, RAW)
    kernel = overlays.vjp_of(values.known["F"].backend, op)
    if kernel is None:
        return NotImplemented
    wants = parameters(kernel)

    def compute():
        outs = kernel(*(values.get(w) for w in wants))
        if outs is NotImplemented:
            return outs
        outs = _summed(node, outs, needs)
        return tuple([None if g is None else Tensor._make(g) for g in outs]) if traced else outs

    if not traced:
        return compute()

    args, attrs = [g for g in grads if g is not None], {"needs": needs}
    for want in wants:
        if want not in values.known:
            value = values.get(want)
            if hasattr(value, "strides"):
                args.append(Tensor._make(value))
            else:
                attrs[want] = value
    if state.bits & PROFILE:
        return recording.run_whole(op, tuple(args), attrs, compute)
    outs = compute()
    asked = next((i for i in state.interposers if i.whole is not None), None)
    return outs if asked is None or outs is NotImplemented else asked.whole(op, args, attrs, outs)


def _summed(node, outs: tuple, needs: tuple) -> Any:
    """Gradients from a kernel, of an elementwise op summed to the shapes of its arguments."""
    if not node.op.elementwise or len(outs) == 1:
        return tuple(outs)
    shapes = [getattr(node, f"b{i}", None) for i in range(len(outs))]
    return tuple(
        sum_to(grad, shape) if need and grad is not None and shape is not None else grad
        for grad, shape, need in zip(outs, shapes, needs, strict=True)
    )
