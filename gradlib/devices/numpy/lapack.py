"""Functions of BLAS and LAPACK that NumPy does not hand out, by its own OpenBLAS, called directly, as in `blas`.

Also NumPy's kernels for stacks of matrices, without what `numpy.linalg` does around them: it computes float32 in
float64, and takes as long for its checks as a small matrix needs.

LAPACK has matrices in columns: a contiguous array is to it the transposed matrix. Without the library `available` says
no, and the formulas run.
"""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref, c_char, c_int, c_int64, c_void_p
from functools import cache, lru_cache
from typing import Any

import numpy as np

from . import threads

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
KINDS = frozenset(_LETTERS)  # NumPy's letters of the dtypes of LAPACK
REAL = frozenset("fd")
_ROWS, _LEFT, _UPPER, _NON_UNIT = 101, 141, 121, 131  # each choice is followed by the other
_HOW = {"N": 111, "T": 112, "H": 113}
LARGE = 16  # rows from which a matrix is worth a call of its own, however many there are
_I8 = np.dtype(np.int64)
_INFINITE = float("inf")
_byte_of: Any = c_char.from_buffer
_TINY = {char: float(np.finfo(char).tiny) for char in _LETTERS}
_YES = byref(c_char(b"T"))
_NO = byref(c_char(b"N"))
_UP = byref(c_char(b"U"))
_LEFT_SIDE = byref(c_char(b"L"))
_ONE = c_int64(1)  # the length of such a text
_WORK = 32  # columns of room to work in for each of a matrix


def _function(pattern: str, char: str) -> Any:
    """A function of the library for numbers of the dtype with that letter of NumPy's, or None.

    Arguments are objects of ctypes that are made before, or places: what they are to be is not asked for each call.
    """
    letter = _LETTERS.get(char)
    found = letter and getattr(threads.openblas(), pattern.format(letter), None)
    if not found:
        return None
    found.restype = None
    return found


@cache
def lapack(name: str, char: str) -> Any:
    """A function of LAPACK; every argument is a place."""
    return _function(f"scipy_{{}}{name}_64_", char)


@cache
def available(char: str) -> bool:
    """Whether the functions here are there for numbers of a dtype, by NumPy's letter."""
    products = [_function(f"scipy_cblas_{{}}{name}64_", char) for name in ("trsm", "trmm", "trsv")]
    solvers = [lapack(name, char) for name in ("getrf", "getrs", "getri", "trtri")]
    return None not in products + solvers


@cache
def stacked(name: str) -> Any:
    """NumPy's kernel for stacks of matrices of that name, or None. Where LAPACK fails it gives nan."""
    return getattr(getattr(np.linalg, "_umath_linalg", None), name, None)


def attempt(kernel: Any, *arrays: Any, **options: Any) -> Any:
    """What a kernel of `stacked` gives; None where the program wants exceptions instead of nan."""
    try:
        return kernel(*arrays, **options)
    except FloatingPointError:
        return None


def in_columns(shape: tuple, dtype: Any) -> np.ndarray:
    """New matrices whose columns lie in one piece, as LAPACK leaves them: room for what a kernel gives."""
    if len(shape) == 2:
        return np.empty(shape, dtype, "F")
    return np.empty((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)


@lru_cache(maxsize=1024)
def whole(n: int) -> Any:
    """The place of a whole number that is only read."""
    return byref(c_int64(n))


def place(array: np.ndarray) -> Any:
    """The place of a contiguous array that may be written to."""
    return byref(_byte_of(array))


def place_to_read(array: np.ndarray) -> Any:
    """The place of a contiguous array, or of a copy: of a read-only one ctypes does not tell it."""
    try:
        return byref(_byte_of(array))
    except (TypeError, ValueError):
        return byref(_byte_of(array.copy()))


def finite(array: np.ndarray) -> bool:
    """Whether all elements are finite numbers."""
    size = np.vdot(array, array)  # infinite for large ones, too
    return bool(abs(size) < _INFINITE) or bool(np.isfinite(array).all())


def squares(matrices: np.ndarray) -> Any:
    """The sums (...) of the squares of real matrices."""
    flat = matrices.reshape(*matrices.shape[:-2], -1)
    return np.vecdot(flat, flat)


def few(array: np.ndarray) -> bool:
    """Whether a call for each matrix (b, m, n) is quicker than a step of all matrices for each column."""
    return array.shape[2] >= LARGE or len(array) <= 12 * array.shape[2]


def diagonal(array: np.ndarray) -> np.ndarray:
    """The diagonals (..., n) of contiguous square matrices, as a view."""
    n = array.shape[-1]
    return array.reshape(*array.shape[:-2], n * n)[..., :: n + 1]


def normal(lines: np.ndarray) -> bool:
    """Whether no element is 0, nan or so small that its reciprocal is infinite."""
    return np.count_nonzero(np.abs(lines) >= _TINY[lines.dtype.char]) == lines.size


# -- triangular systems ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _system(
    name: str, char: str, right: bool, upper: bool, how: str, unit: bool, m: int, n: int
) -> Any:
    """(the function, its arguments before the arrays, the row lengths of both)."""
    given = _ROWS, _LEFT + right, _UPPER + (not upper), _HOW[how], _NON_UNIT + unit
    one: Any = ctypes.c_float(1) if char == "f" else ctypes.c_double(1)
    if char not in REAL:
        one = place(np.ones(1, char))
    head = (*map(c_int, given), c_int64(m), c_int64(n), one)
    function = _function(f"scipy_cblas_{{}}{name}64_", char)
    return function, head, c_int64(n if right else m), c_int64(n)


def substitute(A, X, upper: bool, unit: bool, right: bool = False, how: str = "N") -> None:
    """Put Y with ``A @ Y = X`` (`right`: ``Y @ A = X``) into X, for one triangular matrix A.

    The library multiplies by reciprocals of the diagonal: see `normal`.

    Args:
        A: (n, n), of the dtype of X.
        X: contiguous.
        upper: the triangle that is read.
        unit: whether the diagonal counts as ones.
        right: whether A stands on the right.
        how: "T" and "H" for A^T and A^H in its place.
    """
    char = X.dtype.char
    if not A.flags.c_contiguous:
        A, upper, how = _rows(A, char, upper, how)
    run, head, row, width = _system("trsm", char, right, upper, how, unit, *X.shape)
    run(*head, place_to_read(A), row, byref(_byte_of(X)), width)


def substitute_one(A, x, upper: bool, unit: bool, how: str = "N") -> None:
    """`substitute` for one vector: quicker, for a large matrix several times."""
    char = x.dtype.char
    if not A.flags.c_contiguous:
        A, upper, how = _rows(A, char, upper, how)
    run, head, row = _one_system(char, upper, how, unit, len(A))
    run(*head, place_to_read(A), row, place(x), _ONE)


@lru_cache(maxsize=512)
def _one_system(char: str, upper: bool, how: str, unit: bool, n: int) -> Any:
    given = _ROWS, _UPPER + (not upper), _HOW[how], _NON_UNIT + unit
    return _function("scipy_cblas_{}trsv64_", char), (*map(c_int, given), c_int64(n)), c_int64(n)


def multiply(A, X, upper: bool, unit: bool, right: bool = False, how: str = "N") -> None:
    """Put ``A @ X`` (`right`: ``X @ A``) into X; as `substitute`."""
    char = X.dtype.char
    if not A.flags.c_contiguous:
        A, upper, how = _rows(A, char, upper, how)
    run, head, row, width = _system("trmm", char, right, upper, how, unit, *X.shape)
    run(*head, place_to_read(A), row, place(X), width)


def _rows(A, char: str, upper: bool, how: str) -> tuple:
    """The same matrix, transposed if that lies in rows, or copied."""
    if A.flags.f_contiguous and (char in REAL or how != "H"):
        return A.T, not upper, "T" if how == "N" else "N"
    return A.copy(), upper, how


def invert_triangles(L: np.ndarray) -> np.ndarray:
    """The inverses of lower triangular matrices (..., n, n), contiguous; what lies above them is kept."""
    X, n, info = L.copy(), whole(L.shape[-1]), byref(c_int64())
    invert, start = lapack("trtri", L.dtype.char), addressof(_byte_of(X))
    for one in map(c_void_p, range(start, start + X.nbytes, L.shape[-1] ** 2 * L.itemsize)):
        invert(_UP, _NO, n, one, n, info, _ONE, _ONE)
    return X


# -- LU ----------------------------------------------------------------------------------------------------------------


def factor(A: np.ndarray) -> tuple[np.ndarray, int]:
    """(pivots, info) of the matrix that LAPACK sees in a contiguous array, whose LU decomposition is put there.

    The library does not divide columns by pivots that are not `normal`: such a decomposition is no good.
    """
    n, m = A.shape
    pivots, info, rows = np.empty(m if m < n else n, _I8), c_int64(), whole(m)
    run, places = lapack("getrf", A.dtype.char), (byref(_byte_of(A)), rows, byref(_byte_of(pivots)))
    run(rows, whole(n), *places, byref(info))
    return pivots, info.value


def solve_factored(LU, pivots, X, transposed: bool) -> None:
    """Solve with what `factor` gave, for the columns that LAPACK sees in X, into X."""
    k, n = X.shape
    rows, given = whole(n), (place_to_read(LU), whole(n), place_to_read(pivots))
    how = _YES if transposed else _NO
    solve = lapack("getrs", X.dtype.char)
    solve(how, rows, whole(k), *given, place(X), rows, byref(c_int64()), _ONE)


def invert_factored(LU, pivots) -> np.ndarray:
    """The inverse of what `factor` factored, as LAPACK sees it; nan if it is singular."""
    X, n, info = LU.copy(), len(LU), c_int64()
    rows, size = whole(n), _WORK * n
    given = place_to_read(pivots), place(np.empty(size, X.dtype)), whole(size)
    lapack("getri", X.dtype.char)(rows, place(X), rows, *given, byref(info))
    if info.value:
        X.fill(np.nan)
    return X


# -- QR ----------------------------------------------------------------------------------------------------------------


def reflections(columns: np.ndarray, n: int) -> tuple:
    """Make the first `n` of those columns triangular by reflections, which are put there; for `orthogonal`."""
    (most, m), char = columns.shape, columns.dtype.char
    count = m if m < n else n
    # their factors, and room to work in: few columns are taken one by one, which needs less, and by other functions
    few = most <= _WORK
    size = most if few else _WORK * most
    space = np.empty(count + size, char)
    factors, room = _byte_of(space), byref(_byte_of(space, count * columns.itemsize))
    rows, given = whole(m), (byref(_byte_of(columns)), whole(m), byref(factors))
    rest = (room,) if few else (room, whole(size))
    lapack("geqr2" if few else "geqrf", char)(rows, whole(n), *given, *rest, byref(c_int64()))
    return char, count, given, rest


def orthogonal(reflected: tuple, wide: int) -> None:
    """Put the first `wide` columns of the product of those reflections there."""
    char, count, given, room = reflected
    run = lapack("org2r" if len(room) == 1 else "orgqr", char)
    run(given[1], whole(wide), whole(count), *given, *room, byref(c_int64()))


def reflect(reflected: tuple, X: np.ndarray) -> None:
    """Multiply the columns that LAPACK sees in X by the transposed product of those reflections, in place."""
    char, count, given, _ = reflected
    k, size = whole(len(X)), _WORK * len(X)
    room = place(np.empty(size, char)), whole(size)
    run, info = lapack("ormqr", char), byref(c_int64())
    given = *given, place(X), given[1]
    run(_LEFT_SIDE, _YES, given[1], k, whole(count), *given, *room, info, _ONE, _ONE)
