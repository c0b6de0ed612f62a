"""Running one expression on gradlib and on PyTorch: values, dtypes, graph, gradients, tangents, errors."""

from __future__ import annotations

import numpy as np
import torch

import gradlib as gl


def leaves() -> dict[str, np.ndarray]:
    """The tensors that expressions may name, the same for both; those of floating types require grad."""
    rng = np.random.default_rng(11)
    normal = lambda *shape: rng.normal(size=shape)
    return {
        "x": normal(3, 4), "y": normal(2, 3, 4), "v": normal(4), "w": normal(3), "s": normal(), "e": normal(0, 3),
            "o": normal(1, 3, 1),
        "sq": normal(3, 3), "p": rng.uniform(0.5, 2, (3, 4)), "z": normal(3, 4) + 1j * normal(3, 4), "zz": normal(2,
            3, 3) + 1j * normal(2, 3, 3),
        "f": normal(3, 4).astype(np.float32),
        "i": rng.integers(0, 3, (3, 4)), "j": np.array([2, 0, 2]), "k": np.array([1, 0]), "n": rng.integers(-5, 5,
            (3, 4)),
        "m": rng.normal(size=(3, 4)) > 0, "mv": np.array([True, False, True, True]),
        "u8": rng.integers(0, 9, (2, 3)).astype(np.uint8), "i32": np.array([[0, 1], [2, 0]], np.int32),
    }  # fmt: skip


def evaluate(lib, code: str, arrays: dict, grad: bool = True) -> tuple[list, dict]:
    """The tensors that `code` (an expression, or statements that set `out`) gives, and the leaves."""
    named = {}
    for name, array in arrays.items():
        tensor = lib.from_numpy(np.array(array))
        named[name] = tensor.requires_grad_() if grad and array.dtype.kind in "fc" else tensor
    space = {"torch": lib, **named}
    if "out =" in code:
        exec(code, space)
        out = space["out"]
    else:
        out = eval(code, space)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    return [o for o in outs if isinstance(o, lib.Tensor)] or outs, named


def array(tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().numpy()


def weights(outs: list) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    made = []
    for o in outs:
        a = np.asarray(rng.normal(size=tuple(o.shape)))
        a = a + 1j * rng.normal(size=tuple(o.shape)) if o.is_complex() else a
        made.append(a.astype(array(o).dtype))
    return made


def gradients(lib, outs: list, named: dict, second: bool) -> list:
    """First gradients of all leaves, then second ones of their squared sum; None where there is none."""
    outs = [o for o in outs if isinstance(o, lib.Tensor) and o.requires_grad]
    inputs = [t for t in named.values() if t.requires_grad]
    if not outs:
        return []
    seeds = [lib.from_numpy(a) for a in weights(outs)]
    if second:
        seeds = [s.requires_grad_() for s in seeds]
    grad = lib.autograd.grad
    first = grad(outs, inputs, seeds, create_graph=second, allow_unused=True)
    if not second:
        return list(first)
    total = [(g * g.conj()).real.sum() for g in first if g is not None and g.requires_grad]
    if not total:
        return list(first)
    return [*first, *grad(sum(total), [*inputs, *seeds], allow_unused=True)]


def check(code: str, second: bool = True, names: bool = True, rtol: float = 1e-10) -> None:
    """`code` means the same on both: results, dtypes, requires_grad, node names, aliasing, gradients."""
    arrays = leaves()
    ours, mine = evaluate(gl, code, arrays)
    theirs, reference = evaluate(torch, code, arrays)
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        if not isinstance(b, torch.Tensor):
            assert a == b, (a, b)
            continue
        assert tuple(a.shape) == tuple(b.shape), (a.shape, b.shape)
        assert str(a.dtype) == str(b.dtype), (a.dtype, b.dtype)
        close = max(rtol, 1e-6) if array(b).dtype == np.float32 else rtol
        np.testing.assert_allclose(array(a), array(b), rtol=close, atol=1e-12)
        assert a.requires_grad == b.requires_grad, f"requires_grad should be {b.requires_grad}"
        if names and b.grad_fn is not None:
            wanted = b.grad_fn.name().removeprefix("torch::autograd::")
            assert a.grad_fn.name() == wanted, (a.grad_fn.name(), wanted)
            assert a._is_view() == b._is_view() or "Conj" in wanted, (
                f"view should be {b._is_view()}"
            )
    pairs = zip(gradients(gl, ours, mine, second), gradients(torch, theirs, reference, second))
    for a, b in pairs:
        # a gradient that is zero may be missing on one side
        if a is None or b is None:
            other = a if b is None else b
            assert other is None or not array(other).any(), ("one gradient is missing", a, b)
            continue
        assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(array(a), array(b), rtol=1e-7, atol=1e-9)


def check_error(code: str, text: bool = True) -> None:
    """`code` raises the same exception type on both, with the same text if `text`."""
    arrays = leaves()
    raised = []
    for lib in (gl, torch):
        try:
            evaluate(lib, code, arrays)
        except Exception as exc:
            raised.append(exc)
        else:
            raised.append(None)
    ours, theirs = raised
    assert theirs is not None, "PyTorch raises nothing"
    assert type(ours) is type(theirs), (ours, theirs)
    if text:
        assert str(ours).split("\n")[0] == str(theirs).split("\n")[0]
