"""``torch._dynamo.external_utils.is_compiling``."""

from ..compiler import is_compiling

__all__ = ["is_compiling"]
