"""Helpers for tests: assert_close, assert_allclose and make_tensor."""

from .._refused import refuse
from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
__getattr__ = refuse(__name__)
