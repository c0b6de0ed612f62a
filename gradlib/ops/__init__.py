"""Every operation, declared once. Importing this package declares them all."""

from . import (
    activation,
    addmm,
    arrange,
    conv,
    einsum,
    extrema,
    fill,
    index,
    join,
    linalg,
    matmul,
    norm,
    normalization,
    reduce,
    scan,
    shape,
    slicing,
    softmax,
    special,
    split,
)
