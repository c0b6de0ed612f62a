"""Every operation, declared once. Importing this package declares them all."""

from . import (
    addmm,
    extrema,
    matmul,
    norm,
    reduce,
    scan,
)
