"""Comparing overlays on the pretended device with the formulas on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib as gl
from gradlib.op import formulas
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

overlays = on("cuda")
overlays.names()  # which fills `overlays.forwards`, whatever test comes first

KINDS = {
    "float32": gl.float32,
    "float64": gl.float64,
    "float16": gl.float16,
    "bfloat16": gl.bfloat16,
}
DTYPES = tuple(KINDS)
STORED = [(kind, kind) for kind in KINDS] + [("float16", "float32"), ("bfloat16", "float32")]
"""What a normalisation takes and what its parameters are: half types may have float32 parameters."""
NAMES = {kind.np: name for name, kind in KINDS.items()}
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-11}


def values(shape: tuple, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Reproducible float64 values."""
    return np.random.default_rng(seed).uniform(low, high, shape)


def numpy(array: Any) -> np.ndarray:
    """A device array (or anything else) as a NumPy array."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def tensor(array: Any, kind: str = "float64", grad: bool = True) -> gl.Tensor:
    """A tensor of `kind` with the values of an array; integer and bool arrays keep their dtype."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        return gl.from_numpy(array.astype(KINDS[kind].np)).requires_grad_(grad)
    return gl.from_numpy(array.copy())


def close(found: Any, expected: Any, kind: str, factor: float = 1.0) -> None:
    """Equal up to the rounding of `kind`; relative to the largest number of the expected array."""
    found, expected = numpy(found), np.asarray(expected)
    assert found.shape == expected.shape
    wide = np.float64 if expected.dtype.kind in "fV" else expected.dtype
    found, expected = found.astype(wide), expected.astype(wide)
    if wide is not np.float64:
        assert (found == expected).all()
        return
    finite = expected[np.isfinite(expected)]
    scale = max(1e-6, float(abs(finite).max())) if finite.size else 1.0
    atol = TOLERANCE[kind] * factor * scale + (
        6e-8 if kind == "float16" else 0
    )  # its smallest number
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def in_double(args: tuple) -> tuple:
    """Arguments with floating tensors in float64: what the formulas compute from exactly the same inputs."""
    return tuple(
        a.detach().to(gl.float64).requires_grad_(a.requires_grad)
        if isinstance(a, gl.Tensor) and a.dtype.is_floating_point
        else a
        for a in args
    )


def split(op, args: tuple) -> tuple[tuple, dict[str, Any]]:
    """Arguments of ``op.call`` as (tensor arguments, attributes by name)."""
    n = len(op.tensors)
    return args[:n], dict(zip(op.attrs, args[n:], strict=True))


def arrays(args: tuple) -> list[Any]:
    return [a._array if isinstance(a, gl.Tensor) else a for a in args]


def outputs(op, raw: Any) -> tuple[list, list]:
    """(results, hidden values) of a kernel's return value."""
    parts = list(raw) if isinstance(raw, tuple) else [raw]
    n = len(parts) - len(op.hidden)
    return parts[:n], parts[n:]


def check_forward(
    device,
    name: str,
    args: tuple,
    kind: str = "float64",
    factor: float = 1.0,
    runs=True,
    meaning=list,
) -> Any:
    """The forward overlay of op `name` against its formula; returns what the overlay returned.

    meaning: makes of hidden values what must agree, where formula and kernel may choose them differently.
    """
    op = REGISTRY[name]
    function = overlays.forward_of(op)
    assert function is not None, f"{name} has no forward overlay"
    tensors, attrs = split(op, args)
    before = len(device.launcher.launched)
    found = function(
        device, *device.put(arrays(tensors)), **{k: device.put(v) for k, v in attrs.items()}
    )
    if not runs:
        assert found is NotImplemented
        return found
    assert found is not NotImplemented, f"the overlay of {name} refused {args}"
    results, hidden = outputs(op, found)
    exact, exact_hidden = outputs(
        op, op.forward(gl.tape.arrays.backend_for("cpu"), *arrays(in_double(tensors)), **attrs)
    )
    own, _ = outputs(op, op.forward(gl.tape.arrays.backend_for("cpu"), *arrays(tensors), **attrs))
    for a, b, c in zip(results, exact, own, strict=True):
        assert a.dtype == np.asarray(c).dtype, f"{name}: {a.dtype}"
        close(a, b, kind, factor)
    for a, b in zip(meaning(hidden), meaning(exact_hidden), strict=True):
        close(a, b, "float32" if kind in ("float16", "bfloat16") else kind, factor)
    if all(a.size for a in (*results, *arrays(tensors)) if a is not None and hasattr(a, "size")):
        assert len(device.launcher.launched) > before
    return found


def check_vjp(
    device,
    name: str,
    args: tuple,
    kind: str = "float64",
    factor: float = 1.0,
    needs=None,
    given: tuple = (True,),
) -> Any:
    """The gradients of op `name` on the device against its formulas on NumPy, from what a recorded node keeps.

    They come of the vjp overlay; of an op without one from its formulas, whose ops have forward overlays.
    given: which of the results have a gradient; those that are not named have none.
    """
    op = REGISTRY[name]
    out = op.call(*args)
    first = out[0] if isinstance(out, tuple) else out
    n_out = first.grad_fn.n_out
    there = (*given, *[False] * (n_out - len(given)))
    grads = tuple([values(first.shape, 99 + k) if yes else None for k, yes in enumerate(there)])
    before = len(device.launcher.launched)
    found = run_gradients(device, op, first.grad_fn, grads, first.dtype, needs)
    assert found is not NotImplemented, f"the vjp overlay of {name} refused {args}"
    whole = all(a.numel() for a in (first, *args) if hasattr(a, "numel"))
    if overlays.vjp_of(op) is None and whole and grads[0] is not None:
        assert len(device.launcher.launched) > before, f"no kernel ran for the gradient of {name}"
    wide = op.call(*in_double(args))
    wide = wide[0] if isinstance(wide, tuple) else wide
    rounded = tuple(
        [g if g is None else g.astype(first.dtype.np).astype(np.float64) for g in grads]
    )
    expected = formulas.gradients(wide.grad_fn, rounded, False)
    assert len(found) == len(op.tensors)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if b is None or (needs and not needs[i]):
            assert a is None, f"{name}: gradient of argument {i} that nobody wants"
            continue
        own = args[i].dtype.np
        assert a.dtype == own, f"{name}: gradient of {own} in {a.dtype}"
        shape = (
            getattr(first.grad_fn, f"b{i}", None)
            if op.elementwise and len(op.tensors) > 1
            else None
        )
        found_here = formulas.sum_to(numpy(a), shape) if shape is not None else a
        close(found_here, b, NAMES.get(own, kind), factor)
    return found


def run_gradients(device, op, node, grads: Any, dtype, needs=None) -> Any:
    """The gradients of `op` on the device: those of its vjp overlay, or else of its formulas."""
    overlay = overlays.vjp_of(op)
    if overlay is not None or op.vjp is not None:
        return run_vjp(device, overlay or op.vjp.fn, node, grads, dtype, needs)
    needs = needs or tuple(target is not None for target, _ in node.edges())
    return tuple(
        [
            run_vjp(device, op.formulas[name].fn, node, grads, dtype, needs)
            if need and name in op.formulas
            else None
            for name, need in zip(op.tensors, needs, strict=True)
        ]
    )


def run_vjp(device, function, node, grads: Any, dtype, needs=None) -> Any:
    """Call a vjp overlay, or a formula, with the values that `node` keeps, moved to the device.

    grads: one for each result, some of them None; or that of the first, if the others have none.
    """
    from gradlib.op.declare import parameters

    if not isinstance(grads, tuple):
        grads = (grads,) + (None,) * (node.n_out - 1)
    grads = tuple([g if g is None else device.put(g.astype(dtype.np)) for g in grads])
    needs = needs or tuple(target is not None for target, _ in node.edges())
    known = formulas.Values(node, grads, needs, False)
    known.known["F"] = formulas.Namespace(device)
    given = [
        known.get(name) if name in known.known else device.put(known.get(name))
        for name in parameters(function)
    ]
    return function(*given)


__all__ = [
    "DTYPES",
    "KINDS",
    "STORED",
    "check_forward",
    "check_vjp",
    "close",
    "numpy",
    "run_gradients",
    "run_vjp",
    "tensor",
    "values",
]
