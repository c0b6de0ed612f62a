"""OptimizedModule: what `gradlib.compile` makes of a Module."""

from ..compiler import OptimizedModule

__all__ = ["OptimizedModule"]
