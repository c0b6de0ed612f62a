"""Every operation, declared once. Importing this package declares them all."""

from . import (
    extrema,
    matmul,
    reduce,
)
