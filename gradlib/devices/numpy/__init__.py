"""NumPy: the array functions of CPU tensors, and kernels in place of formulas, one module for each family."""

from importlib import import_module

from ...op.overlays import on
from . import compiled, mkl

MODULES = (
    "activation", "attention", "batch_norm", "blas", "conv", "cross_entropy", "extrema", "losses", "lu", "moments",
    "norm", "orthogonal", "pool", "products", "recurrent", "recurrent_layers", "remainders", "softmax", "sorting",
    "sparse", "spectra", "triangle", "triangular",
)  # fmt: skip
overlays = on("numpy")
forward, vjp = overlays
before = overlays.before


def load() -> None:
    """Import every module, which registers its overlays."""
    for name in (*MODULES, *(["mkl_kernels"] if mkl.path() else [])):
        import_module(f"{__name__}.{name}")
    if compiled.wanted():
        compiled.load()
