"""Checks of calls under modes, with other layouts, dtypes and autocast, checkpointed, and of modules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gradlib as gl
from gradlib.utils.checkpoint import checkpoint

from .cases import Case, tensors_of
from .compare import Function, Inapplicable, array, is_float, same


def _records(result: gl.Tensor, leaves: list[gl.Tensor]) -> bool:
    """Whether a result that is neither an argument nor a view of one requires grad."""
    return result.requires_grad and not result._is_view() and not any(result is t for t in leaves)


def modes(case: Case) -> None:
    """no_grad and inference_mode: the same values, nothing recorded."""
    tensors = case.draw()
    wanted = case(*tensors)
    leaves = [t.clone().requires_grad_() if is_float(t) else t.clone() for t in tensors]
    with gl.no_grad():
        found = case(*leaves)
    same(found, wanted, "under no_grad")
    assert not any(_records(o, leaves) for o in found), "requires grad under no_grad"
    with gl.inference_mode():
        found = case(*leaves)
        fresh = case(*[t.clone() for t in leaves])
    same(found, wanted, "under inference_mode")
    assert not any(_records(o, leaves) for o in found), "requires grad under inference_mode"
    assert all(o.is_inference() for o in fresh), (
        "result under inference_mode is no inference tensor"
    )


def _turned(t: gl.Tensor) -> gl.Tensor:
    order = list(reversed(range(t.dim())))
    return t.permute(order).clone(memory_format=gl.contiguous_format).permute(order)


def _offset(t: gl.Tensor) -> gl.Tensor:
    base = gl.stack([t, t, t], -1)
    return base[..., 1]


def _narrowed(t: gl.Tensor) -> gl.Tensor:
    return gl.cat([t, t, t])[t.shape[0] : 2 * t.shape[0]] if t.dim() else gl.stack([t, t])[1]


def _last(t: gl.Tensor) -> gl.Tensor:
    return t.clone(memory_format=gl.channels_last)


def _repeated(t: gl.Tensor) -> gl.Tensor:
    return t.narrow(0, 0, 1).expand(t.shape) if t.dim() and t.shape[0] else t


def _layout(case: Case, change: Callable, tensors: list[gl.Tensor], what: str) -> None:
    """Values and gradients do not depend on strides."""
    wanted = case(*tensors)
    same(case(*map(change, tensors)), wanted, f"value of {what} arguments")
    if case.module is not None and what != "channels-last":
        return
    try:
        f = Function(case, tensors)
    except (AssertionError, Inapplicable, NotImplementedError):
        return
    seeds = f.cotangents()
    try:
        plain = f.gradients(f.leaves(), seeds)
    except (NotImplementedError, RuntimeError):
        return
    leaves = f.leaves()
    out = f(*map(change, leaves))
    found = gl.autograd.grad(out, leaves, [change(s) for s in seeds], allow_unused=True)
    same(found, plain, f"gradient of {what} arguments")


def views(case: Case) -> None:
    """Transposed, strided, offset and expanded arguments."""
    tensors = case.draw()
    if not tensors:
        raise Inapplicable("no tensor")
    if case.key in STRIDED:
        raise Inapplicable("it reads the memory as it lies")
    for what, change in (("transposed", _turned), ("strided", _offset), ("offset", _narrowed)):
        _layout(case, change, tensors, what)
    # equal rows, as they lie and copied
    same_rows = [_repeated(t).clone() if is_float(t) else t for t in tensors]
    try:
        wanted = case(*same_rows)
    except (RuntimeError, ValueError):
        return  # a singular matrix
    copies = [_repeated(t) if is_float(t) else t for t in tensors]
    if any(w.isnan().any() for w in wanted if is_float(w)) or case.key in UNSTABLE:
        return
    same(case(*copies), wanted, "value of expanded arguments", rtol=1e-6, atol=1e-7)


STRIDED = {"gradlib.as_strided", "Tensor.as_strided", "gradlib.as_strided_copy"}
UNSTABLE: set[str] = set()


def channels_last(case: Case) -> None:
    tensors = case.draw()
    if not any(t.dim() == 4 for t in tensors):
        raise Inapplicable("no argument has four dimensions")
    _layout(case, lambda t: _last(t) if t.dim() == 4 else t, tensors, "channels-last")


def autocast(case: Case) -> None:
    """The call and its gradient run, in bfloat16 or float32, with results close to those of float32."""
    tensors = [t.float() if t.is_floating_point() else t for t in case.draw()]
    if not any(t.is_floating_point() for t in tensors):
        raise Inapplicable("no floating argument")
    try:
        wanted = case(*tensors)
    except (RuntimeError, TypeError, NotImplementedError) as exc:
        raise Inapplicable("float32 is refused") from exc
    leaves = [
        t.clone().requires_grad_() if t.is_floating_point() and is_float(drawn) else t
        for t, drawn in zip(tensors, case.draw(), strict=True)
    ]
    with gl.autocast("cpu", dtype=gl.bfloat16):
        found = case(*leaves)
    assert len(found) == len(wanted)
    for o, w in zip(found, wanted, strict=True):
        assert o.shape == w.shape, f"shape {o.shape}"
        assert o.dtype in (gl.bfloat16, w.dtype), f"{o.dtype} instead of {w.dtype} or bfloat16"
    graded = [o for o in found if o.requires_grad]
    if graded:
        inputs = [t for t in leaves if t.requires_grad]
        try:
            grads = gl.autograd.grad(
                graded, inputs, [gl.ones_like(o) for o in graded], allow_unused=True
            )
        except (NotImplementedError, RuntimeError) as exc:
            if "derivative" not in str(exc):
                raise
            return
        for t, g in zip(inputs, grads, strict=True):
            assert g is None or (g.dtype is t.dtype and g.shape == t.shape), f"gradient {g.dtype}"


def checkpointed(case: Case) -> None:
    """The same values and gradients, both ways."""
    f = Function(case, case.draw())
    seeds = f.cotangents()
    wanted = f.gradients(f.leaves(), seeds)
    for reentrant in (False, True):
        leaves = f.leaves()
        out = checkpoint(f, *leaves, use_reentrant=reentrant)
        same(out, f.example, "checkpointed value")
        if reentrant:
            gl.autograd.backward(out, seeds)
            found = [t.grad for t in leaves]
        else:
            found = gl.autograd.grad(out, leaves, seeds, allow_unused=True)
        same(found, wanted, f"checkpointed gradient, use_reentrant={reentrant}")


def as_module(case: Case) -> None:
    """A module called with its own parameters gives what functional_call gives."""
    if case.module is None:
        raise Inapplicable("no module")
    (own, *args), kwargs = case.arguments()
    with gl.no_grad():
        for name, p in case.module.named_parameters():
            p.copy_(own[name])
    state = {n: b.clone() for n, b in case.module.named_buffers()}
    gl.manual_seed(7)
    direct = tensors_of(case.module(*args, **kwargs))
    with gl.no_grad():
        for name, b in case.module.named_buffers():
            b.copy_(state[name])
    same(case(*case.draw()), direct, "functional_call")


REFUSED = (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError)
CLOSE = {
    gl.float32: 3e-4, gl.bfloat16: 6e-2, gl.float16: 8e-3, gl.complex128: 1e-7, gl.int64: 1e-7, gl.bool: 1e-7,
}  # fmt: skip


def _cast(t: gl.Tensor, dtype: gl.dtype) -> gl.Tensor:
    if not t.is_floating_point():
        return t
    return (
        (t > 0) if dtype is gl.bool else t.round().to(dtype) if dtype is gl.int64 else t.to(dtype)
    )


def dtypes(case: Case) -> None:
    """Where another dtype is accepted, the result is close to that of the same numbers in float64."""
    tensors = case.draw()
    if not any(t.is_floating_point() for t in tensors) or case.module is not None:
        raise Inapplicable("no floating argument")
    for dtype, close in CLOSE.items():
        given = [_cast(t, dtype) for t in tensors]
        reference = [
            g.double() if t.is_floating_point() and not g.is_complex() else g
            for g, t in zip(given, tensors, strict=True)
        ]
        if dtype is gl.complex128:
            reference = tensors
        try:
            wanted = case(*reference)
            found = case(*given)
        except REFUSED as exc:
            if "ufunc" in str(exc) or "numpy" in str(exc):
                raise AssertionError(f"{dtype}: NumPy speaks: {exc}") from exc
            if dtype is gl.float32:
                raise AssertionError(f"float32 is refused: {exc}") from exc
            continue
        assert len(found) == len(wanted)
        for o, w in zip(found, wanted, strict=True):
            assert o.shape == w.shape, (
                f"{dtype}: shape {tuple(o.shape)} instead of {tuple(w.shape)}"
            )
            if dtype is gl.bool and w.dtype is not gl.bool:
                continue  # and for +, or for *
            a, b = array(o), array(w)
            if a.dtype.kind == "c" and b.dtype.kind != "c":
                a = np.real(a)
            with _quiet():
                a, b = a.astype(complex), b.astype(complex)
            finite = (abs(b) < 6e4) & ~(b != b)
            if not is_float(o):
                finite &= b == np.round(b)  # fractions are cut off
            near = max(close, CLOSE.get(o.dtype, close))  # integers may have become float32
            bad = finite & ~(
                abs(a - b)
                <= near * (1 + abs(b)) * (10 if dtype in (gl.float16, gl.bfloat16) else 1)
            )
            assert not bad.any(), f"{dtype}: {a[bad][0]} instead of {b[bad][0]}"


def _quiet():
    import warnings

    return warnings.catch_warnings(action="ignore")


CHECKS = {
    "modes": modes,
    "views": views,
    "channels_last": channels_last,
    "autocast": autocast,
    "checkpoint": checkpointed,
    "module": as_module,
    "dtypes": dtypes,
}
