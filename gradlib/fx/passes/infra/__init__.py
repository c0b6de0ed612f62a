"""What passes are made of: `pass_base`."""

from . import pass_base

__all__ = ["pass_base"]
