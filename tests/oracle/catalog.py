"""Runs PyTorch's own catalogue of operators and samples (the OpInfo database that PyTorch is tested with) on gradlib.

Each sample is run by both libraries: exception types, values, dtypes, shapes, aliasing of the input, requires_grad,
first and second gradients and forward tangents must be the same. So must be what the catalogue says beside its samples
(`catalog_variants`) and its wrong calls. As a program:

    python tests/oracle/catalog.py                       # a line per op that differs, over all dtypes
    python tests/oracle/catalog.py -v linalg.qr cumsum   # every difference of these ops
    python tests/oracle/catalog.py --seed 7              # the samples that the test with this seed draws
"""

from __future__ import annotations

import argparse
import collections
import random
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import catalog_variants
import numpy as np
import torch
from catalog_sample import GRAD_DTYPES, Difference, Outside, Sample, TooSlow
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

import gradlib

VALUE_DTYPES = (
    torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.uint8, torch.complex64,
)  # fmt: skip

# differences kept on purpose: name -> (what the line says, why)
DIFFERENCES = {
    "nn.functional.conv2d": (
        "float16 #1 ((1, 4, 5, 5), (1, 4, 2, 3)",
        "dilated convolution of halves is wrong in PyTorch on processors with AVX-512 FP16 (nan, or any number)"),
    "nn.functional.soft_margin_loss": (
        "[inf] ours", "exp(-y * x) overflows in PyTorch, also to nan gradients; the loss itself is a small number"),
    "conj": ("a view of the input", "NumPy and CuPy have no lazy conjugate: it is computed at once, a copy"),
    "complex": ("got Half and Half", "NumPy and CuPy have no complex32"),
    "chalf": ("no complex32", "NumPy and CuPy have no complex32"),
    "bernoulli": ("requires_grad True", "a draw is not a differentiable function of its probability: documented rule"),
    # and where the mean is a number, PyTorch does not always resize `out`
    "normal": ("ours ", "a draw is not a differentiable function of its moments: documented rule"),
    # PyTorch's own kernels are good to 1e-6 only where the argument is beyond 5 (Airy: 2.09); SciPy's values are kept
    "special.airy_ai": ("values", "PyTorch's value is wrong by up to 3e-6"),
    "special.bessel_j0": ("values", "PyTorch's value is wrong by up to 4e-7"),
    "special.bessel_j1": ("values", "PyTorch's value is wrong by up to 5e-7"),
    "special.bessel_y0": ("values", "PyTorch's value is wrong by up to 2e-7"),
    "special.bessel_y1": ("values", "PyTorch's value is wrong by up to 9e-7"),
    "H": ("a view of the input", "as conj"),
    "mH": ("a view of the input", "as conj"),
    "adjoint": ("a view of the input", "as conj"),
    "view_as_complex": ("got a tensor of scalar type: Half", "NumPy and CuPy have no complex32"),
    # of infinite complex numbers PyTorch's second derivative is zero; here it is nan, as inf * (1 + 1j) is
    "logcumsumexp": ("tangent|second gradient", "PyTorch's tangent has half of the digits: a quotient of differences"),
    "as_strided_scatter": ("gradient 0", "PyTorch gives the input the part of the gradient that belongs to `src`"),
    "linalg.norm": ("second gradient 0: values [nan", "at 0 there is no second derivative: PyTorch has nan, gradlib 0"),
    "cholesky_inverse": ("tangent 0", "PyTorch's tangent is not the derivative that its own gradient is"),
    "cov": ("second gradient 1", "weights of two observations hardly count: what is left of them is rounding error"),
    "matrix_exp": ("values [nan nan nan nan]", "PyTorch gives nan for half types"),
    "istft": ("gradient 1: torch None", "the window of the sample is an unrecorded slice: no leaf of the graph"),
    "fft.ihfftn": ("out=: shape (0,)", "PyTorch leaves `out` as it is when only one dimension is transformed"),
    "fft.ihfft2": ("out=: shape (0,)", "PyTorch leaves `out` as it is when only one dimension is transformed"),
}  # fmt: skip


# entries whose samples have the arguments in another order than the function
REORDERED: dict[str, Callable] = {
    "nn.functional.embedding": lambda weight, indices, **kw: gradlib.nn.functional.embedding(
        indices, weight, **kw
    ),
    "nn.functional.embedding_bag": lambda weight, indices, **kw: (
        gradlib.nn.functional.embedding_bag(indices, weight, **kw)
    ),
}


def _slice(x, dim=0, start=None, end=None, step=1):
    return x[(slice(None),) * (dim % max(x.ndim, 1)) + (slice(start, end, step),)]


def counterpart(info) -> Callable | None:
    """gradlib's function (or method) for an entry of the catalogue."""
    if (
        getattr(info.op, "__name__", "") == "<lambda>"
    ):  # says how the op is called: `lambda x: x.mT`
        code = info.op.__code__
        names = {**info.op.__globals__, "torch": gradlib}
        return types.FunctionType(
            code, names, code.co_name, info.op.__defaults__, info.op.__closure__
        )
    if info.name in REORDERED:
        return REORDERED[info.name]
    if info.name == "slice":  # has no name in Python but x[a:b:c]
        return _slice
    found: Any = gradlib
    try:
        for part in info.name.split("."):
            found = getattr(found, part)
        if callable(found):
            return found
    except AttributeError:
        pass
    method = getattr(gradlib.Tensor, info.name, None)
    return method if callable(method) else None


# -- the catalogue -----------------------------------------------------------------------------------------------------


def _has_answer(info, sample) -> bool:
    """Not where a max_unpool sends two values to one place, as those of overlapping windows: either may win."""
    if not info.name.startswith("nn.functional.max_unpool"):
        return True
    planes = sample.args[0].flatten(-int(info.name[-2])).flatten(0, -2).tolist()
    return all(len(set(plane)) == len(plane) for plane in planes)


def samples(
    info, dtype: torch.dtype, requires_grad: bool, limit: int, draw: random.Random | None = None
) -> Iterator[Any]:
    """Up to `limit` samples, spread over all that there are, or drawn from them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = list(info.sample_inputs("cpu", dtype, requires_grad=requires_grad))
        every = [sample for sample in every if _has_answer(info, sample)]
    if draw is not None:
        yield from draw.sample(every, min(limit, len(every)))
    else:
        step = max(1, len(every) // limit)
        yield from every[::step][:limit]


def differences(
    info, limit: int = 12, seed: int | None = None, variants: int = 2, seconds: int = 20
) -> list[str]:
    """The differences of one entry, as lines.

    limit: samples of each dtype; variants: how many of these are run in all variants. seed: draws the samples, and
    three of the dtypes without gradients.
    """
    op = counterpart(info)
    if op is None:
        return ["missing"]
    found: list[str] = []
    draw = None if seed is None else random.Random(f"{seed} {info.name} {info.variant_test_name}")

    def check(label: str, action: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(seconds)
        try:
            action()
        except Difference as exc:
            if not accepted(info.name, f"{label}: {exc}"):
                found.append(f"{label}: {exc}")
        except Outside:
            pass
        except TooSlow as exc:
            found.append(f"{label}: {exc}")
        finally:
            signal.alarm(0)

    known = info.supported_dtypes("cpu")
    plain = [d for d in VALUE_DTYPES if d in known]
    if draw is not None:
        plain = draw.sample(plain, min(3, len(plain)))
    for dtype in (*GRAD_DTYPES, *plain):
        if dtype not in known:
            continue
        grads = (
            dtype in GRAD_DTYPES
            and info.supports_autograd
            and dtype in info.supported_backward_dtypes("cpu")
        )
        torch.manual_seed(0)
        np.random.seed(0)
        for k, sample in enumerate(samples(info, dtype, grads, limit, draw)):
            label = f"{str(dtype)[6:]} #{k} {describe(sample)}"
            check(label, lambda s=sample, d=dtype, g=grads: Sample(info, s, op, d).run(g))
    torch.manual_seed(0)
    of_variants = [d for d in (torch.float64, torch.int64) if d in known]
    for dtype in (
        of_variants if draw is None else draw.sample(of_variants, min(1, len(of_variants)))
    ):
        for k, sample in enumerate(samples(info, dtype, False, variants, draw)):
            label = f"{str(dtype)[6:]} #{k} {describe(sample)}"
            for what, action in catalog_variants.checks(info, sample, op, dtype):
                check(f"{label} {what}", action)
    if info.error_inputs_func is not None:
        for k, error in enumerate(info.error_inputs("cpu")):
            check(
                f"error #{k} {describe(error.sample_input)}",
                lambda e=error: Sample(info, e.sample_input, op, torch.float32).run(False),
            )
    return found


def accepted(name: str, line: str) -> bool:
    """Whether a difference is kept on purpose."""
    kept = [DIFFERENCES.get(name, ("", ""))[0], catalog_variants.DIFFERENCES.get(name, ("", ""))[0]]
    return any(part and part in line for parts in kept for part in parts.split("|"))


def _too_slow(*_):
    raise TooSlow("took too long")


def describe(sample) -> str:
    def one(v):
        if isinstance(v, torch.Tensor):
            return f"{tuple(v.shape)}" + ("" if v.is_contiguous() else "*")
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(one(x) for x in v) + "]"
        return repr(v)

    parts = [
        one(sample.input),
        *map(one, sample.args),
        *(f"{k}={one(v)}" for k, v in sample.kwargs.items()),
    ]
    return "(" + ", ".join(parts)[:160] + ")"


SKIPPED = (
    "_",
    "masked.",
    "sparse.",
    "torch.ops",
    "ops.",
    "jiterator",
    "quant",
    "segment_reduce",
    "to_sparse",
    "torch._",  # private, as the next is
    "max_pool2d_with_indices_backward",
)


LINEAR = tuple(
    (
        "linalg. fft. signal. cholesky svd qr lu geqrf ormqr pinverse matrix_exp stft istft logdet "
        "triangular_solve einsum matmul mm bmm mv addmm addmv addbmm baddbmm addr dot vdot inner outer "
        "tensordot kron cov corrcoef trace cross cdist __rmatmul__ pca_lowrank renorm norm dist"
    ).split()
)


def family(info) -> str:
    """Which of four families an entry belongs to: nn, linalg, pointwise (with reductions), rest."""
    if info.name.startswith(("nn.", "native_", "softmax", "log_softmax")):
        return "nn"
    if info.name.startswith(LINEAR):
        return "linalg"
    if isinstance(info, (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)) or info.name.startswith(
        ("special.", "__r")
    ):
        return "pointwise"
    return "rest"


def entries(names: list[str] | None = None, only: str | None = None) -> list:
    """The entries of the catalogue that dense autograd libraries have, or those called `names`."""
    if names:
        return [i for i in op_db if i.name in names]
    known = [i for i in op_db if not i.name.startswith(SKIPPED) or i.name.startswith("__")]
    return [i for i in known if only in (None, family(i))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every difference, not the first of each op"
    )
    parser.add_argument("--limit", type=int, default=12, help="samples of each op and dtype")
    parser.add_argument("--variants", type=int, default=3, help="samples run in all variants")
    parser.add_argument("--seed", type=int, help="draw the samples, as the test does")
    parser.add_argument("--part", default="0/1", help="k/n: the k-th of n parts of the catalogue")
    parser.add_argument("--family", choices=("nn", "linalg", "pointwise", "rest"))
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    total = collections.Counter()
    chosen = entries(given.names, given.family)
    for info in chosen[part::parts]:
        found = differences(info, given.limit, given.seed, given.variants)
        total["differ" if found and found != ["missing"] else "missing" if found else "agree"] += 1
        name = info.name + (f"[{info.variant_test_name}]" if info.variant_test_name else "")
        for line in found if given.verbose else found[:1]:
            more = f"  (+{len(found) - 1} more)" if len(found) > 1 and not given.verbose else ""
            print(f"{name}: {line}{more}", flush=True)
    print(dict(total))


if __name__ == "__main__":
    sys.exit(main())
