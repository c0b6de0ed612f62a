"""What gradlib.special gives. Written by ci/stubs.py: do not edit."""

import builtins as _b
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from .tape.device import device as _device
from .tape.dtypes import dtype as _dtype
from .tape.generator import Generator as Generator
from .tape.layout import layout as _layout
from .tape.layout import memory_format as _memory_format
from .tape.sizes import Size as Size
from .tape.tensor import Tensor as Tensor


def airy_ai(input: Tensor, *, out: Any = None) -> Tensor:
    """The Airy function Ai, the solution of y'' = x y that vanishes for large x (DLMF 9.2)."""
def bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the first kind of order 0 (DLMF 10.2)."""
def bessel_j1(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the first kind of order 1 (DLMF 10.2)."""
def bessel_y0(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the second kind of order 0: -inf at 0, nan below it (DLMF 10.2)."""
def bessel_y1(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the second kind of order 1: -inf at 0, nan below it (DLMF 10.2)."""
def chebyshev_polynomial_t(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial chebyshev polynomial t of degree `n` (a number or a tensor) at `input`."""
def chebyshev_polynomial_u(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial chebyshev polynomial u of degree `n` (a number or a tensor) at `input`."""
def chebyshev_polynomial_v(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial chebyshev polynomial v of degree `n` (a number or a tensor) at `input`."""
def chebyshev_polynomial_w(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial chebyshev polynomial w of degree `n` (a number or a tensor) at `input`."""
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of ``lgamma``."""
def entr(input: Tensor, *, out: Any = None) -> Tensor:
    """-x log(x), and 0 at 0, -inf below it."""
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element."""
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """The complementary error function ``1 - erf(input)``."""
def erfcx(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(x^2) erfc(x): the complementary error function scaled, which does not vanish for large x."""
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of ``erf``."""
def exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def expit(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / (1 + e^-x) of each element, in [0, 1]."""
def expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """e^x - 1 of each element, exact near 0."""
def gammainc(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised lower incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
def gammaincc(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """1 less the integral of t^(a - 1) e^-t / gamma(a) over 0 < t < x: the regularised upper incomplete gamma function of a = `input` and x = `other`, which has a derivative in x alone."""
def gammaln(input: Tensor, *, out: Any = None) -> Tensor:
    """``log(|gamma(input)|)``."""
def hermite_polynomial_h(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial hermite polynomial h of degree `n` (a number or a tensor) at `input`."""
def hermite_polynomial_he(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial hermite polynomial he of degree `n` (a number or a tensor) at `input`."""
def i0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function I0."""
def i0e(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(-|x|) I0(x): the modified Bessel function of order 0, scaled."""
def i1(input: Tensor, *, out: Any = None) -> Tensor:
    """I1: the modified Bessel function of the first kind of order 1 (DLMF 10.25)."""
def i1e(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(-|x|) I1(x): the modified Bessel function of order 1, scaled."""
def laguerre_polynomial_l(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial laguerre polynomial l of degree `n` (a number or a tensor) at `input`."""
def legendre_polynomial_p(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial legendre polynomial p of degree `n` (a number or a tensor) at `input`."""
def log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """log(1 + x) of each element, exact near 0; nan below -1."""
def log_ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """log(ndtr(x)), exact where ndtr(x) is tiny."""
def log_softmax(input: Tensor, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
    """``gradlib.log_softmax``: the logarithm of `softmax` along `dim`, which has no default here."""
def logit(input: Tensor, eps: Any = None, *, out: Any = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of the sigmoid; -inf at 0, inf at 1, nan outside of [0, 1]."""
def logsumexp(input: Tensor, dim: Any = None, keepdim: _b.bool = False, *, out: Any = None, axis: Any = None, keepdims: _b.bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over the dimension(s) `dim`, without overflow."""
def modified_bessel_i0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function I0."""
def modified_bessel_i1(input: Tensor, *, out: Any = None) -> Tensor:
    """I1: the modified Bessel function of the first kind of order 1 (DLMF 10.25)."""
def modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """K0: the modified Bessel function of the second kind of order 0; inf at 0 (DLMF 10.25)."""
def modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """K1: the modified Bessel function of the second kind of order 1; inf at 0 (DLMF 10.25)."""
def multigammaln(input: Tensor, p: Any, *, out: Any = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`; the result is nan or inf outside its domain."""
def ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """The area below the standard normal density up to x: (1 + erf(x / sqrt(2))) / 2."""
def ndtri(input: Tensor, *, out: Any = None) -> Tensor:
    """The x at which ndtr(x) is the element: the inverse of ndtr, nan outside of [0, 1]."""
def polygamma(n: Any, input: Tensor, *, out: Any = None) -> Tensor:
    """The n-th derivative of ``digamma``; ``digamma`` itself for n = 0."""
def psi(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of ``lgamma``."""
def round(input: Tensor, *, decimals: Any = 0, out: Any = None) -> Tensor:
    """The nearest whole number, or number of `decimals` digits after the point; of two equally near ones the even one."""
def scaled_modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(x) K0(x): the modified Bessel function of the second kind of order 0, scaled."""
def scaled_modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(x) K1(x): the modified Bessel function of the second kind of order 1, scaled."""
def shifted_chebyshev_polynomial_t(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial shifted chebyshev polynomial t of degree `n` (a number or a tensor) at `input`."""
def shifted_chebyshev_polynomial_u(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial shifted chebyshev polynomial u of degree `n` (a number or a tensor) at `input`."""
def shifted_chebyshev_polynomial_v(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial shifted chebyshev polynomial v of degree `n` (a number or a tensor) at `input`."""
def shifted_chebyshev_polynomial_w(input: Tensor, n: Any, *, out: Any = None) -> Tensor:
    """The polynomial shifted chebyshev polynomial w of degree `n` (a number or a tensor) at `input`."""
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
def softmax(input: Tensor, dim: Any, *, dtype: _dtype | None = None) -> Tensor:
    """``gradlib.softmax``: exp(input) / sum(exp(input)) along `dim`, which has no default here."""
def spherical_bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(x) / x, and 1 at 0: the spherical Bessel function of order 0."""
def xlog1py(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """input * log(1 + other), and 0 where `input` is 0 and `other` is no nan."""
def xlogy(input: Tensor | _b.complex, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """``input * log(other)``, and 0 where `input` is 0."""
def zeta(input: Tensor, other: Tensor | _b.complex, *, out: Any = None) -> Tensor:
    """The Hurwitz zeta function: the sum of 1 / (k + other)^input over k = 0, 1, ..., for input > 1 (DLMF 25.11)."""
def __getattr__(name: _b.str) -> Any: ...
