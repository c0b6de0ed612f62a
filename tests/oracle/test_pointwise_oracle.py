"""Pointwise functions, operators, reductions and samplers of all dtypes: results, dtypes and refusals are PyTorch's."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradlib

KINDS = "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-6, "complex64": 3e-6}
REAL = [k for k in KINDS if "complex" not in k]


def _elements(kind: str) -> list:
    if kind == "bool":
        return [1, 0, 1, 1]
    if kind == "uint8":
        return [3, 1, 2, 0]
    if "complex" in kind:
        return [1.5 + 1j, -2 - 0.5j, 0.5j, 1]
    return [3, -1, 2, 1] if "int" in kind else [1.5, -2.25, 0.5, 1.0]


def names(lib) -> dict:
    """Tensors under the names of their dtypes; with 0 at the end a 0-dim one, with 2 a matrix, with e an empty one."""
    space = {"torch": lib, "T": lib.tensor, "inf": math.inf, "nan": math.nan}
    for kind in KINDS:
        d, v = getattr(lib, kind), _elements(kind)
        space[kind] = lib.tensor(v, dtype=d)
        space[kind + "0"] = lib.tensor(v[0], dtype=d)
        space[kind + "2"] = lib.tensor([v[:2], v[2:]], dtype=d)
        space[kind + "e"] = lib.empty(0, 3, dtype=d)
    space["rg"] = lib.tensor([1.5, -2.25, 0.5, 0.25], dtype=lib.float64, requires_grad=True)
    return space


def run(lib, code: str):
    space = names(lib)
    *before, last = code.split(";")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for statement in before:
                exec(statement, space)
            return eval(last, space), None
    except Exception as exc:
        return None, exc


def flat(value) -> list:
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [value]


def numbers(tensor) -> np.ndarray:
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return np.asarray(tensor.resolve_conj().numpy())


def check(code: str) -> None:
    theirs, failed = run(torch, code)
    ours, our_failure = run(gradlib, code)
    if failed is not None:
        assert our_failure is not None, f"{code}: PyTorch raises {failed!r}"
        assert isinstance(our_failure, type(failed)), f"{code}: {failed!r}, ours {our_failure!r}"
        return
    assert our_failure is None, f"{code}: {our_failure!r}"
    pairs = zip(flat(theirs), flat(ours), strict=True)
    for a, b in pairs:
        if not isinstance(a, torch.Tensor):
            assert str(a) == str(b), code
            continue
        assert (str(a.dtype), tuple(a.shape)) == (str(b.dtype), tuple(b.shape)), code
        assert a.requires_grad == b.requires_grad, code
        tolerance = TOLERANCE.get(str(a.dtype)[6:], 1e-12)
        p, q = (numbers(t).astype("c16") if a.dtype.is_complex else numbers(t) for t in (a, b))
        np.testing.assert_allclose(q, p, tolerance, tolerance, err_msg=code)


@pytest.mark.parametrize("name", "+ - * / // % ** < >= == & | ^ << >>".split())
def test_operators_on_all_pairs_of_dtypes(name):
    kinds = (
        REAL if name in ("**", "<<", ">>") else KINDS
    )  # PyTorch's complex powers of 0 differ by vector length
    for a in kinds:
        for b in kinds:
            if {a, b} == {"float16", "complex128"}:
                continue
            check(f"{a} {name} {b}")
            check(f"{a} {name} {b}0" if {"float16"} != {a} or "complex" not in b else "1")
        for number in ("2", "2.5", "True", "-1", "None"):
            check(f"{a} {name} {number}")
            check(f"{number} {name} {a}")


BINARY = (
    "remainder fmod atan2 hypot copysign maximum minimum fmax fmin eq gt logical_and logical_xor bitwise_or gcd lcm "
    "heaviside logaddexp xlogy nextafter clamp_min rsub isclose float_power complex polar special.zeta special.xlog1py"
)


@pytest.mark.parametrize("name", BINARY.split())
def test_functions_of_two_take_the_numbers_that_pytorch_takes(name):
    for a in ("int64", "float32", "float64"):
        for b in (a, "float64", "int64", a + "0", "2", "2.5", "None", "[1, 2]"):
            check(f"torch.{name}({a}, {b})")
            check(f"torch.{name}({b}, {a})")
    check(f"torch.{name}(2, 3)")
    check(f"torch.{name}(float32, float32e)")
    check(f"torch.{name}(float64, float64, out=torch.empty(0, dtype=torch.bool))")


UNARY = (
    "abs neg positive square reciprocal floor ceil trunc frac round sign sgn signbit bitwise_not logical_not isnan "
    "isposinf isfinite "
    "exp log1p sqrt sigmoid tan erf lgamma digamma sinc logit nan_to_num frexp angle real imag deg2rad"
)


@pytest.mark.parametrize("name", UNARY.split())
def test_functions_of_one(name):
    for kind in KINDS:
        if not ("complex" in kind and name in ("reciprocal", "log1p")):
            check(f"torch.{name}({kind})")
        check(f"torch.{name}({kind}0)")
    check(f"torch.{name}(float64e)")
    check(f"torch.{name}(float642.t())")
    check(f"torch.{name}(2)")
    check(f"torch.{name}(None)")
    check(f"torch.{name}(float64, out=torch.empty(0, dtype=torch.float32))")
    check(f"y = torch.{name}(rg); y = y[0] if isinstance(y, tuple) else y; y.requires_grad")


@pytest.mark.parametrize("name", "add sub mul div pow remainder atan2 copysign lerp".split())
def test_in_place_forms(name):
    third = ", 0.5" if name == "lerp" else ""
    for a in ("bool", "uint8", "int64", "float32", "bfloat16", "complex64"):
        for b in ("2", "2.5", "bool", "int64", "float640", "float64"):
            check(f"{a}.{name}_({b}{third})")
    check(f"float32.{name}_(float32.expand(2, 4){third})")
    check(f"float32.expand(2, 4).{name}_(float32{third})")


ALPHA = """
torch.add(bool, bool, alpha=2) | torch.add(bool, bool, alpha=2.) | torch.add(int64, int64, alpha=2.5)
torch.add(int64, 2.5, alpha=2.5) | torch.add(float32, float32, alpha=1j) | torch.add(int64, bool, alpha=True)
torch.sub(2, 3, alpha=2) | torch.rsub(int64, int64, alpha=3) | int64.add_(int64, alpha=1.5)
uint8 + 300 | uint8 * -1 | int8 + 200 | int64 ** -1 | int64 ** T(-1) | 2 ** int64 | bool ** 2 | int64.pow_(-1)
int64 // 0 | float32 // 0 | int64 % 0 | bool // bool | torch.div(int64, 2, rounding_mode='x')
float32 == None | float32 != 'a' | float32 < None | float32 + None | None / float32 | 2 << int64 | uint8 << 9
torch.addcmul(float32, float64, int64) | torch.addcmul(int64, int64, int64, value=2.5) | torch.addcmul(bool, bool, bool)
torch.addcmul(float32, 2, float32) | torch.addcdiv(int64, int64, int64) | torch.addcdiv(int64, float32, float32)
int64.addcmul_(float64, float64) | torch.lerp(float32, float64, .5) | torch.lerp(int64, int64, .5)
torch.lerp(float32, float32, float640) | torch.lerp(float32, float32, float64) | torch.lerp(float32, 2., .5)
torch.ldexp(int64, int64) | torch.ldexp(float16, int64) | int64.ldexp_(int64) | torch.ldexp(float32, 2)
torch.frexp(T([inf, nan, 0., 1e-42])) | torch.nan_to_num(float16 * inf) | torch.nan_to_num(float32 * inf, 1, 2, 3)
torch.hash_tensor(float32) | torch.hash_tensor(int642, 0) | torch.hash_tensor(complex64) | torch.hash_tensor(float32e)
torch.clamp(complex64, 0, 1) | uint8.clamp(min=-1) | torch.clamp(2, 1) | float32.float_power_(2) | complex64.abs_()
torch.isclose(float32, float32, rtol=-1) | torch.where(bool, float32, float32e) | float64.is_nonzero()
"""


@pytest.mark.parametrize(
    "code", [c.strip() for c in ALPHA.replace("\n", "|").split("|") if c.strip()]
)
def test_arguments_and_refusals(code):
    check(code)


REDUCTIONS = "sum mean prod nansum var std all any count_nonzero amax argmin max median logsumexp cumsum cummax mode"


@pytest.mark.parametrize("name", REDUCTIONS.split())
def test_reductions(name):
    for kind in KINDS:
        check(f"torch.{name}({kind}2, dim=0)")
    for rest in ("dim=2", "axis=1", "dim=1.5", "dim=0, out=torch.empty(0, dtype=torch.int64)"):
        if not (name in ("max", "median", "cummax", "mode") and "out" in rest):
            check(f"torch.{name}(float642, {rest})")
    check(f"torch.{name}(2, dim=0)")
    check(f"torch.{name}(float64e, dim=0)")


SAMPLERS = """
float32.exponential_(0) | int64.exponential_() | float32.cauchy_(0, 0) | float32.geometric_(1) | int64.uniform_()
float32.log_normal_(1, -1) | float32.uniform_(3, -1) | float32.normal_(0, -1) | float32.bernoulli_(2)
bool.random_().dtype | float32.random_(5, 2)
torch.bernoulli(float32) | torch.normal(float32, -1.) | torch.normal(0., float32)
torch.normal(2.) | torch.poisson(float32)
torch.poisson(int64) | torch.rand(2, dtype=torch.int64) | torch.randn_like(bool)
torch.randint(5, 2) | torch.randperm(-1)
torch.multinomial(T([1, 1]), 1) | torch.binomial(T([5.]), T([1.])) | rg.exponential_()
y = (rg * 1).exponential_(); torch.autograd.grad(y.sum(), rg)[0]
y = (rg * 1).bernoulli_(0.5); torch.autograd.grad(y.sum(), rg)[0]
"""


@pytest.mark.parametrize(
    "code", [c.strip() for c in SAMPLERS.replace("\n", "|").split("|") if c.strip()]
)
def test_samplers(code):
    check(code)
