"""Every operation, declared once. Importing this package declares them all."""

from . import (
    activation,
    addmm,
    einsum,
    extrema,
    matmul,
    norm,
    reduce,
    scan,
    shape,
    softmax,
    special,
)
