"""Random calls on gradlib and on PyTorch: one function with random shapes, dtypes, layouts and argument forms.

`case(seed)` is one call; `difference(case)` says in one line what the libraries do not agree on, or is None. As a
program it runs many and prints those that differ:

    python tests/oracle/fuzzing.py 0 5000          # seeds
    python tests/oracle/fuzzing.py 0 500 cumsum    # of one function
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from catalog_sample import Difference, compare, convert, leaves, same_exception
from fuzz_cases import case
from fuzz_draw import Case

import gradlib

TOLERANCE = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 3e-4, torch.complex64: 3e-4, torch.bfloat16: 4e-2,
    torch.float16: 6e-3,
}  # fmt: skip

# positions of equal elements, of which any one is right
TIES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}

# differences kept on purpose: (names, a part of what is said about the difference, why)
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    ("fft.fft fft.rfft", "MKL FFT error", "a limit of PyTorch's FFT library with empty tensors"),
    (
        "",
        "Expected isFloatingType(grad",
        "PyTorch's backward fails where real and complex arguments are mixed",
    ),
    (
        "",
        "invalid gradient at index 1",
        "PyTorch's backward fails where `index` is smaller than `src`",
    ),
    ("", "Expected a proper Tensor but got None", "PyTorch's backward of the 0-norm fails inside"),
    ("", "doesn't apply to a '", "PyTorch's methods check `self`, which is no tensor here"),
    ("", "torch raises AttributeError", "a function with an underscore that PyTorch does not have"),
    ("", "setStorage: sizes", "an internal error of PyTorch"),
    (
        "",
        "Subtraction, the `-` operator, with a bool tensor",
        "PyTorch's backward fails for a bool argument",
    ),
    ("to", "to() received an invalid combination", "to(..., out=) is no call of PyTorch either"),
    ("logsumexp", "output with shape []", "PyTorch fails for an empty list of dimensions"),
    (
        "kthvalue mode median max min argmax argmin dot linalg.det",
        "not implemented for",
        "refused by PyTorch only if not trivial",
    ),
    ("digamma logaddexp", "gradient", "close to a pole only the order of magnitude is the same"),
    ("nn.functional.selu", "gradient", "at nan the gradient is nan, not that of the negative side"),
    (
        "eq ne lt le gt ge",
        "requires_grad True, ours False",
        "a bool-valued function has no graph, in place neither",
    ),
    ("eq ne lt le gt ge", "not implemented for", "in place PyTorch refuses complex numbers later"),
    ("linalg.inv linalg.solve", "stride", "the tensor given as out= keeps its own strides"),
    (
        "floor_divide conj_physical heaviside softmax log_softmax quantile inner",
        "don't support automatic differentiation",
        "out= never records here",
    ),
    ("einsum", "stride", "an outer product may be laid out in any order"),
    ("fft.fft fft.rfft", "stride", "NumPy's transforms keep the order of strides"),
    (
        "median max min nanmedian argmax argmin",
        "torch raises TypeError",
        "dim=None means all dimensions here",
    ),
    (
        "argsort where remainder relu clamp",
        "torch raises TypeError",
        "more forms are accepted than PyTorch has",
    ),
    ("unflatten", "unflatten got an unexpected error", "an IndexError says the same"),
    (
        "sum nansum prod cumprod cumsum",
        "Autograd not support dtype",
        "the result of an integer dtype just has no graph",
    ),
    (
        "round nansum",
        "not implemented",
        "integers are their own rounded values; bool sums are refused",
    ),
    ("matmul bmm", "expected scalar type", "mixed dtypes are refused for empty products too"),
    ("nn.functional.linear", "addmm_impl_cpu_", "matrices of bool have a product here"),
    ("trapezoid", "requires_grad False, ours True", "the result of no points has a graph too"),
    (
        "prod sum std var tensordot argsort inner",
        "out=",
        "more forms are accepted than PyTorch has, or fewer checks made",
    ),
    ("prod", "argument 'dim' must be int, not NoneType", "dim=None means all dimensions here"),
    (
        "var_mean std_mean nanmedian nanmean aminmax",
        "stride",
        "several results may keep the order of strides",
    ),
    ("pow", "INTERNAL ASSERT", "an internal error of PyTorch"),
    (
        "addcdiv addcmul",
        "result type Float can't be cast",
        "PyTorch's backward fails for an integer argument",
    ),
    (
        "cummin cummax",
        "Dimension out of range",
        "PyTorch looks at `dim` only if there are elements",
    ),
    (
        "amax amin",
        "not implemented for 'Complex",
        "PyTorch refuses complex numbers only if there are some",
    ),
    (
        "vdot dot matmul mm inner",
        "inf",
        "products of infinite complex numbers are nan or inf by the order of sums",
    ),
    ("add sub addcmul lerp", "nanj", "infinite complex numbers are multiplied as NumPy does"),
    ("add sub mul div", "complex32", "NumPy and CuPy have no complex32"),
    ("cdist", "gradient", "0 * inf is nan in a product of matrices"),
    (
        "index_put tril triu atan2",
        "single memory location",
        "writing to an expanded tensor is refused always",
    ),
    (
        "var std",
        "gradient 0: values [",
        "PyTorch divides by the number of dimensions given as an empty list",
    ),
    (
        "linalg.det",
        "gradient",
        "of a singular matrix PyTorch's gradient is 0; here it is the adjugate",
    ),
    ("kthvalue median mode", "gradient", "of equal elements any one may be chosen"),
    ("fill_", "requires_grad True, ours False", "an integer tensor has no graph"),
    ("index_add", "out of bounds", "indices are checked also where there is nothing to add"),
    ("index_put", "torch raises IndexError", "nothing is written to an empty tensor"),
    ("mv", "torch raises IndexError", "a RuntimeError tells the sizes"),
    ("baddbmm addmm", "OverflowError", "a factor that the dtype cannot hold"),
    ("copysign", "gradient", "at nan and inf the gradient is that of the sign"),
    (
        "diff index_fill roll",
        "ours raises IndexError",
        "PyTorch looks at the dimension only if there is something to do",
    ),
    (
        "cdist linalg.solve linalg.inv einsum inner amin amax",
        "not implemented for",
        "refused by PyTorch only if not empty",
    ),
    (
        "ldexp nn.functional.linear dot isin clamp_min",
        "torch raises",
        "bool arguments are taken as numbers",
    ),
    ("trapezoid", "dtype", "the result of no points has the dtype of any other"),
    (
        "index_put index_fill nn.functional.logsigmoid cdist",
        "stride",
        "a copy that keeps the order of strides, or does not",
    ),
    (
        "bitwise_left_shift bitwise_right_shift",
        "torch raises TypeError",
        "more forms are accepted than PyTorch has",
    ),
    ("prod cumprod", "gradient", "exact where elements are nan or inf: PyTorch divides by them"),
)


def accepted(one: Case, text: str) -> bool:
    """Whether a difference is one of those kept on purpose."""
    return any(
        part in text and (not names or one.name in names.split()) for names, part, _ in ACCEPTED
    )


# -- running ---------------------------------------------------------------------------------------------------------


def resolve(lib: Any, one: Case) -> Callable | None:
    """The function or method to call, or None if the library has none of that form."""
    name = one.name
    if name == "where2":
        return lambda a, b: lib.where(a > 0, a, b)
    if name == "lerp_half":
        return lambda a, b: lib.lerp(a, b, 0.5)
    if name == "getitem":
        return lambda x, key: x[key]
    if name == "setitem":
        return lambda x, key, value: x.__setitem__(key, value)
    if name == "equal" and one.form == "out":
        return None
    last = name.rsplit(".", 1)[-1]
    if one.form in ("function", "out") or "." in name:
        found: Any = lib
        for part in name.split("."):
            found = getattr(found, part, None)
        return found if found is not None else getattr(lib.Tensor, last, None)
    tensor = getattr(lib.Tensor, last + "_" if one.form == "in place" else last, None)
    return tensor if callable(tensor) else getattr(lib, name, None)


def run(lib: Any, one: Case, args: list, kwargs: dict) -> tuple[Any, Exception | None]:
    call = resolve(lib, one)
    if call is None:
        return None, AttributeError(one.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **kwargs), None
        except Exception as exc:
            return None, exc


def significant(shape: tuple, strides: tuple) -> tuple:
    return tuple(s for n, s in zip(shape, strides, strict=True) if n != 1) if 0 not in shape else ()


def shares(tensor: Any, others: list) -> list[bool]:
    start = tensor.untyped_storage().data_ptr()
    return [bool(o.numel()) and o.untyped_storage().data_ptr() == start for o in others]


def check(one: Case) -> None:
    """Raise Difference if the libraries differ."""
    args, kwargs = one.args, dict(one.kwargs)
    if one.form == "in place" and args and isinstance(args[0], torch.Tensor) and one.rg:
        args = [a.detach() if i == 0 else a for i, a in enumerate(args)]
    if one.form == "out":
        found, failed = run(torch, one, [*args], kwargs)
        if failed is not None or not isinstance(found, torch.Tensor):
            return
        kwargs["out"] = torch.empty(
            0 if len(str(one)) % 2 else tuple(found.shape), dtype=found.dtype
        )
        args = [
            a.detach() if isinstance(a, torch.Tensor) and len(str(one)) % 3 else a for a in args
        ]
    memo: dict = {}
    our_args, our_kwargs = convert(args, memo), convert(kwargs, memo)
    theirs, failed = run(torch, one, args, kwargs)
    ours, our_failed = run(gradlib, one, our_args, our_kwargs)
    same_exception(failed, our_failed)
    if failed is not None:
        return
    given = list(leaves((args, kwargs), torch.Tensor))
    mine = [memo[id(t)] for t in given]
    a, b = list(leaves(theirs, torch.Tensor)), list(leaves(ours, gradlib.Tensor))
    if len(a) != len(b) or (type(theirs).__name__ != type(ours).__name__):
        raise Difference(
            f"{type(theirs).__name__} of {len(a)}, ours {type(ours).__name__} of {len(b)}"
        )
    plain = theirs is not None and not isinstance(theirs, (torch.Size, tuple))
    if not a and plain and theirs != ours and not (theirs != theirs and ours != ours):
        raise Difference(f"{theirs!r}, ours {ours!r}")
    dtypes = {t.dtype for t in (*given, *a) if t.dtype in TOLERANCE}
    tolerance = max((TOLERANCE[dtype] for dtype in dtypes), default=0)
    big = max(
        [
            float(t.detach().abs().nan_to_num(0, 0, 0).max())
            if t.numel() and t.dtype != torch.bool
            else 1.0
            for t in given
            if t.dtype.is_floating_point
        ],
        default=1.0,
    )
    for k, (t, o) in enumerate(zip(a, b, strict=True)):
        if not (one.name in TIES and t.dtype == torch.int64 and k == len(a) - 1):
            compare(f"result {k}", t, o, tolerance, big)
        if t.requires_grad != o.requires_grad or t.is_leaf != o.is_leaf:
            raise Difference(f"result {k}: requires_grad {t.requires_grad}, ours {o.requires_grad}")
        strides = [significant(tuple(t.shape), x.stride()) for x in (t, o)]
        if strides[0] != strides[1] and one.form != "out":
            raise Difference(
                f"result {k}: stride {t.stride()}, ours {o.stride()} shape {tuple(t.shape)}"
            )
        if t.numel() and shares(t, given) != shares(o, mine):
            raise Difference(f"result {k}: shares {shares(t, given)}, ours {shares(o, mine)}")
    for k, (t, o) in enumerate(zip(given, mine, strict=True)):
        compare(
            f"argument {k} afterwards",
            t,
            o,
            4e-2 if t.dtype in (torch.bfloat16, torch.float16) else 1e-4,
            big,
        )
    gradients(a, b, given, mine, 10 * tolerance)


def gradients(a: list, b: list, given: list, mine: list, tolerance: float) -> None:
    made = [k for k, t in enumerate(a) if t.requires_grad and t.grad_fn is not None]
    inputs = [k for k, t in enumerate(given) if t.requires_grad and t.is_leaf]
    if not made or not inputs:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        weights = [torch.as_tensor(rng.normal(size=tuple(a[k].shape))).to(a[k].dtype) for k in made]
        try:
            theirs, failed = (
                torch.autograd.grad(
                    [a[k] for k in made], [given[k] for k in inputs], weights, allow_unused=True
                ),
                None,
            )
        except RuntimeError as exc:
            theirs, failed = (), exc
        try:
            theirs = [
                t if t is None or not t._is_zerotensor() else torch.zeros(t.shape, dtype=t.dtype)
                for t in theirs
            ]
            ours, our_failed = (
                gradlib.autograd.grad(
                    [b[k] for k in made],
                    [mine[k] for k in inputs],
                    convert(weights, {}),
                    allow_unused=True,
                ),
                None,
            )
        except Exception as exc:
            ours, our_failed = (), exc
    same_exception(failed, our_failed)
    for k, (t, o) in enumerate(zip(theirs, ours, strict=True)):
        compare(f"gradient {k}", t, o, tolerance)


def difference(one: Case) -> str | None:
    """What the libraries differ in, or None."""
    try:
        check(one)
    except Difference as exc:
        return str(exc)
    return None


def main(start: int, stop: int, *names: str) -> None:
    for seed in range(start, stop):
        one = case(seed, names[seed % len(names)] if names else None)
        text = str(one)
        found = difference(one)
        if found and not accepted(one, found):
            print(f"{seed} {text[:330]}\n      {found[:300]}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
