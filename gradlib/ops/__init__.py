"""Every operation, declared once. Importing this package declares them all."""

from . import (
    activation,
    addmm,
    arrange,
    einsum,
    extrema,
    fill,
    index,
    join,
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
