"""``out=`` of every public function that takes it: the result of the call without it, in tensors of any layout.

The functions are found in the public namespaces; what they are called with is tried from a list, or stands in CALLS.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

import pytest

import gradlib as torch
from gradlib.op.declare import REGISTRY
from gradlib.op.write import build

MODULES = {
    "": torch, "linalg.": torch.linalg, "fft.": torch.fft, "special.": torch.special,
    "nn.functional.": torch.nn.functional,
}  # fmt: skip
# functions of lists of tensors that are given by name only, or are the same as others
LEFT_OUT = {"write_out", "write_same", "empty"}


def D(*shape, low=0.1, high=0.9, dtype=torch.float64):
    generator = torch.Generator()
    generator.manual_seed(sum(shape) + 7)
    x = torch.rand(*shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return x.to(dtype)


def whole(*shape):
    return D(*shape, low=0, high=5).to(torch.int64)


def positive(n=4):
    a = D(n, n)
    return a @ a.mT + n * torch.eye(n, dtype=torch.float64)


GUESSES: list[Any] = [
    lambda: (D(4, 3),), lambda: (D(4, 3), D(4, 3)), lambda: (whole(4, 3), whole(4, 3) + 1), lambda: (positive(),),
    lambda: (positive(), D(4, 4)), lambda: (D(4, 3), 1), lambda: (D(4), D(4)), lambda: (D(4), 2),
    lambda: (whole(4, 3),), lambda: ([D(4, 3), D(4, 3)],), lambda: (D(4, 3), D(3, 4)), lambda: (D(4, 3), D(3)),
    lambda: (6,), lambda: (D(2, 4, 3), D(2, 3, 4)),
]  # fmt: skip
INDEX = torch.tensor([2, 0])
CALLS: dict[str, Any] = {
    "addbmm": lambda: (D(4, 4), D(2, 4, 3), D(2, 3, 4)),
    "baddbmm": lambda: (D(2, 4, 4), D(2, 4, 3), D(2, 3, 4)),
    "addmm": lambda: (D(4, 4), D(4, 3), D(3, 4)),
    "addmv": lambda: (D(4), D(4, 3), D(3)),
    "addr": lambda: (D(4, 3), D(4), D(3)),
    "addcdiv": lambda: (D(4, 3), D(4, 3), D(4, 3)),
    "addcmul": lambda: (D(4, 3), D(4, 3), D(4, 3)),
    "as_strided_copy": lambda: (D(4, 3), (3, 4), (1, 3)),
    "bucketize": lambda: (D(4, 3), D(5).sort()[0]),
    "cholesky_solve": lambda: (D(4, 3), positive().cholesky()),
    "clamp": lambda: (D(4, 3), 0.3, 0.6),
    "clip": lambda: (D(4, 3), 0.3, 0.6),
    "diagonal_scatter": lambda: (D(4, 3), D(3)),
    "expand_copy": lambda: (D(4, 1), (4, 3)),
    "frexp": lambda: (D(4, 3),),
    "full": lambda: ((4, 3), 2.0),
    "gather": lambda: (D(4, 3), 0, whole(2, 3).clamp(max=3)),
    "index_add": lambda: (D(4, 3), 0, INDEX, D(2, 3)),
    "index_copy": lambda: (D(4, 3), 0, INDEX, D(2, 3)),
    "index_reduce": lambda: (D(4, 3), 0, INDEX, D(2, 3), "prod"),
    "index_select": lambda: (D(4, 3), 0, INDEX),
    "kthvalue": lambda: (D(4, 3), 2),
    "lerp": lambda: (D(4, 3), D(4, 3), 0.25),
    "linspace": lambda: (0, 5, 6),
    "logspace": lambda: (0, 2, 6),
    "lu_solve": lambda: (D(4, 3), *torch.linalg.lu_factor(positive())),
    "lu_unpack": lambda: tuple(torch.linalg.lu_factor(positive())),
    "masked_select": lambda: (D(4, 3), D(4, 3) > 0.5),
    "multinomial": lambda: (D(4, 3), 2),
    "mvlgamma": lambda: (D(4, 3, low=3, high=5), 2),
    "narrow_copy": lambda: (D(4, 3), 0, 1, 2),
    "normal": lambda: (D(4, 3), 1.0),
    "orgqr": lambda: torch.geqrf(D(4, 3)),
    "ormqr": lambda: (*torch.geqrf(D(4, 3)), D(4, 2)),
    "permute_copy": lambda: (D(4, 3), (1, 0)),
    "polygamma": lambda: (1, D(4, 3)),
    "quantile": lambda: (D(4, 3), 0.3, 0),
    "nanquantile": lambda: (D(4, 3), 0.3, 0),
    "randint": lambda: (3, (4, 3)),
    "renorm": lambda: (D(4, 3), 2, 0, 0.5),
    "scatter": lambda: (D(4, 3), 0, whole(2, 3).clamp(max=3), 2.0),
    "scatter_add": lambda: (D(4, 3), 0, whole(2, 3).clamp(max=3), D(2, 3)),
    "scatter_reduce": lambda: (D(4, 3), 0, whole(2, 3).clamp(max=3), D(2, 3), "amax"),
    "searchsorted": lambda: (D(5).sort()[0], D(4, 3)),
    "select_copy": lambda: (D(4, 3), 0, 1),
    "select_scatter": lambda: (D(4, 3), D(3), 0, 1),
    "slice_scatter": lambda: (D(4, 3), D(2, 3), 0, 1, 3),
    "split_copy": lambda: (D(4, 3), 2),
    "split_with_sizes_copy": lambda: (D(4, 3), [1, 3]),
    "take": lambda: (D(4, 3), INDEX),
    "take_along_dim": lambda: (D(4, 3), whole(2, 3).clamp(max=3), 0),
    "tensordot": lambda: (D(4, 3), D(3, 4), 1),
    "topk": lambda: (D(4, 3), 2),
    "transpose_copy": lambda: (D(4, 3), 0, 1),
    "triangular_solve": lambda: (D(4, 3), positive()),
    "unfold_copy": lambda: (D(4, 3), 0, 2, 1),
    "unsqueeze_copy": lambda: (D(4, 3), 0),
    "view_as_complex_copy": lambda: (D(4, 2),),
    "view_as_real_copy": lambda: (torch.complex(D(4), D(4)),),
    "view_copy": lambda: (D(4, 3), (3, 4)),
    "where": lambda: (D(4, 3) > 0.5, D(4, 3), 0.0),
    "complex": lambda: (D(4, 3), D(4, 3)),
    "concat": lambda: ([D(4, 3), D(4, 3)],),
    "native_batch_norm": lambda: (D(4, 3), D(3), D(3), D(3), D(3), True, 0.1, 1e-5),
    "linalg.householder_product": lambda: torch.geqrf(D(4, 3)),
    "linalg.ldl_solve": lambda: (*torch.linalg.ldl_factor(positive()), D(4, 3)),
    "linalg.lu_solve": lambda: (*torch.linalg.lu_factor(positive()), D(4, 3)),
    "linalg.lstsq": lambda: (D(4, 3), D(4, 2)),
    "linalg.multi_dot": lambda: ([D(4, 3), D(3, 4), D(4, 2)],),
    "linalg.solve_triangular": lambda: (positive(), D(4, 3)),
    "linalg.tensorinv": lambda: (positive().reshape(2, 2, 2, 2),),
    "linalg.tensorsolve": lambda: (positive().reshape(2, 2, 2, 2), D(2, 2)),
    "matrix_power": lambda: (positive(), 3),
    "nonzero_static": lambda: (D(4, 3),),
    "range": lambda: (0, 5),
    "cross": lambda: (D(4, 3), D(4, 3), 1),
    "linalg.cross": lambda: (D(4, 3), D(4, 3)),
    "linalg.matrix_power": lambda: (positive(), 3),
    "fft.hfft": lambda: (torch.complex(D(4, 3), D(4, 3)),),
    "special.multigammaln": lambda: (D(4, 3, low=3, high=5), 2),
    "nn.functional.avg_pool2d": lambda: (D(2, 4, 4), 2),
    "nn.functional.avg_pool3d": lambda: (D(2, 4, 4, 4), 2),
    "nn.functional.linear": lambda: (D(4, 3), D(2, 3)),
}  # fmt: skip


KEYWORDS: dict[str, dict] = {
    "nonzero_static": {"size": 12},
    "linalg.solve_triangular": {"upper": True},
}


def _parameters(fn) -> tuple:
    op = next((o for o in REGISTRY.values() if o.call is fn), None)
    if op is not None:
        build(op)
        code = fn.__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return tuple(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return ()


def _functions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for prefix, module in MODULES.items():
        for name in sorted(dir(module)):
            fn = getattr(module, name)
            if name.startswith("_") or name in LEFT_OUT or not inspect.isfunction(fn):
                continue
            if fn not in found.values() and "out" in _parameters(fn):
                found[prefix + name] = fn
    return {n: functools.partial(fn, **KEYWORDS.get(n, {})) for n, fn in found.items()}


FUNCTIONS = _functions()


def _arguments(name: str, fn) -> tuple:
    """Arguments that the function takes; AssertionError if nothing fits (then CALLS needs a line)."""
    if name in CALLS:
        return CALLS[name]()
    for guess in GUESSES:
        try:
            result = fn(*guess())
        except Exception:
            continue
        if all(isinstance(r, torch.Tensor) for r in _listed(result)):
            return guess()
    raise AssertionError(f"no arguments are known for {name}")


def _listed(result) -> list:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _run(fn, args, **out):
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(*args, **out)


def _sentinel(shape, dtype):
    return torch.full(shape, 1 if dtype is torch.bool else 77, dtype=dtype)


def _contiguous(r):
    memory = _sentinel(r.shape, r.dtype)
    return memory, memory, None


def _transposed(r):
    memory = _sentinel(tuple(r.shape)[::-1], r.dtype)
    return memory, memory.permute(*range(r.ndim - 1, -1, -1)), None


def _strided(r):
    """Every second element of the last dimension; the others must stay as they are."""
    memory = _sentinel((*r.shape[:-1], 2 * r.shape[-1] + 1), r.dtype)
    return memory, memory[..., 1::2], memory[..., ::2]


def _offset(r):
    memory = _sentinel((r.shape[0] + 3, *r.shape[1:]), r.dtype)
    return memory, memory[2 : 2 + r.shape[0]], memory[:2]


def _element(r):
    memory = _sentinel((3,), r.dtype)
    return memory, memory[1], memory[::2]


def _empty(r):
    memory = torch.empty(0, dtype=r.dtype)
    return memory, memory, None


def _other_size(r):
    memory = _sentinel((r.numel() + 2, 1), r.dtype)
    return memory, memory, None


LAYOUTS = {
    "contiguous": _contiguous, "transposed": _transposed, "strided": _strided, "offset": _offset, "element": _element,
    "empty": _empty, "other size": _other_size,
}  # fmt: skip


@pytest.fixture(autouse=True)
def host():
    """These are rules of host memory: on a device nobody waits to look at a number."""
    with torch.device("cpu"):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_out_holds_the_result(name):
    fn = FUNCTIONS[name]
    args = _arguments(name, fn)
    plain = _run(fn, args)
    results = _listed(plain)
    for layout, make in LAYOUTS.items():
        if layout == "element" and any(r.ndim for r in results):
            continue
        if layout in ("transposed", "strided", "offset") and not all(r.ndim for r in results):
            continue
        made = [make(r) for r in results]
        outs = [out for _, out, _ in made]
        before = [(out.stride(), out._version) for out in outs]
        got = _run(fn, args, out=outs[0] if isinstance(plain, torch.Tensor) else tuple(outs))
        fixed = layout not in ("empty", "other size")
        for given, out, result, (_, _, beside), (strides, version) in zip(
            _listed(got), outs, results, made, before, strict=True
        ):
            assert given is out, layout
            assert out.shape == result.shape and out.dtype is result.dtype, layout
            assert torch.allclose(out, result, equal_nan=True), layout
            assert not fixed or out.stride() == strides, layout
            assert out._version > version, layout
            if beside is not None:
                assert torch.equal(beside, _sentinel(beside.shape, beside.dtype)), layout


@pytest.mark.parametrize("name", FUNCTIONS)
def test_out_that_is_an_input(name):
    """Either the function refuses it, or the result is that of other memory."""
    fn = FUNCTIONS[name]
    args = _arguments(name, fn)
    plain = _run(fn, args)
    first = args[0] if isinstance(args[0], torch.Tensor) else None
    if not isinstance(plain, torch.Tensor) or first is None or first.shape != plain.shape:
        return
    if first.dtype is not plain.dtype:
        return
    for out in (first, first.mT if first.ndim == 2 and first.shape == first.mT.shape else first):
        copy = first.clone()
        try:
            got = _run(fn, args, out=out)
        except RuntimeError as exc:
            if "unsupported operation" not in str(exc):
                raise
        else:
            assert torch.allclose(got, plain, equal_nan=True)
        with torch.no_grad():
            first.copy_(copy)


def test_out_must_not_be_part_of_a_graph():
    for name in ("add", "matmul", "sum", "cumsum", "gather"):
        args = _arguments(name, getattr(torch, name))
        out = getattr(torch, name)(*args).requires_grad_()
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            getattr(torch, name)(*args, out=out)


def test_a_tensor_of_another_shape_is_resized_with_a_warning():
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        torch.add(D(3), D(3), out=torch.zeros(5, dtype=torch.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(D(3), D(3), out=torch.zeros(0, dtype=torch.float64))
        assert torch.zeros(4, out=torch.ones(7)).shape == (4,)  # factories resize silently


@pytest.mark.parametrize("name", ["arange", "linspace", "logspace", "range"])
def test_ranges_fill_any_shape_row_by_row(name):
    args = {"arange": (6,), "linspace": (0, 5, 6), "logspace": (0, 5, 6), "range": (0, 5)}[name]
    want = _run(getattr(torch, name), args).float()
    for out in (torch.zeros(3, 2).t(), torch.zeros(2, 6)[:, ::2], torch.zeros(9)[3:].reshape(2, 3)):
        strides = out.stride()
        assert _run(getattr(torch, name), args, out=out) is out
        assert out.stride() == strides and torch.equal(out.reshape(6), want)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        _run(getattr(torch, name), args, out=torch.zeros(3).expand(2, 3))
